/* engine/level/context.c: what all levels share: kept errors and log lines. */
#include "engine/level/level.h"

#include "compile/work.h"
#include <stdio.h>
#include <string.h>

bt_status bt_keep_error(bt_context *context, bt_status status)
{
    if (status == BT_OK || context->status != BT_OK)
        return status;
    bt_fail(status, "failed");
    context->status = status;
    context->message = bt_strdup(bt_error());
    return status;
}

bt_status bt_kept_error(const bt_context *context)
{
    if (context->status == BT_OK)
        return BT_OK;
    return bt_fail(context->status, "%s", context->message ? context->message : "an earlier call failed");
}

/* Passes on each line of the text, which is modified. */
static void hear(bt_context *context, bt_line kind, char *text)
{
    bt_stage_enter(context, BT_STAGE_SAYING);
    for (char *end; text && *text; text = end) {
        end = strchr(text, '\n');
        if (end)
            *end++ = 0;
        context->log(context->log_user, kind, text);
    }
    bt_stage_leave(context);
}

/* Names from files and command lines may contain anything, but lines go to terminals. */
static void quote_controls(bt_text *text)
{
    if (!text->data || !bt_has_controls(text->data))
        return;
    size_t room = 4 * strlen(text->data) + 16;
    char *shown = bt_alloc(room);
    bt_text quoted = {0};
    if (shown) {
        bt_show_controls(shown, room, text->data);
        bt_text_add(&quoted, "%s", shown);
    }
    bt_free(shown);
    bt_text_free(text);
    *text = quoted;
}

static void say(bt_context *context, bt_line kind, const char *format, va_list args)
{
    bt_text text = {0}, *later = kind == BT_LINE_WARNING ? &context->warnings : &context->notes;
    bt_text_vadd(&text, format, args);
    quote_controls(&text);
    if (context->log)
        hear(context, kind, text.data);
    else if (kind == BT_LINE_WARNING || kind == BT_LINE_NOTE)
        bt_text_add(later, "%s\n", bt_text_get(&text));
    bt_text_free(&text);
}

void bt_say(bt_context *context, bt_line kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(context, kind, format, args);
    va_end(args);
}

void bt_warn(bt_context *context, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(context, BT_LINE_WARNING, format, args);
    va_end(args);
}

void bt_say_unheard(bt_context *context)
{
    if (!context->log)
        return;
    hear(context, BT_LINE_NOTE, context->notes.data);
    hear(context, BT_LINE_WARNING, context->warnings.data);
    bt_text_free(&context->notes);
    bt_text_free(&context->warnings);
}

void bt_context_backend(const bt_context *context, char text[256])
{
    int threads = context->instance->threads;
    snprintf(text, 256, "%s, %d thread%s", context->instance->backend->isa(), threads, threads > 1 ? "s" : "");
}

void bt_context_settle_threads(bt_context *context)
{
    double work;
    if (!context->settings->threads)
        context->instance->threads = bt_instance_busiest(context->instance, &work);
}

/* One rank for each device; the processor counts as one. */
static bool one_for_each_device(const bt_context *context)
{
    const bt_engine_settings *s = context->settings;
    const bool said = bt_config_origin(context->config, "engine", "ranks") != NULL;
    return said ? !s->ranks : s->distributed;
}

static bool on_cuda(const bt_context *context) { return context->settings->device == BT_DEVICE_CUDA; }

int bt_context_ranks(const bt_context *context)
{
    if (!one_for_each_device(context))
        return (int)context->settings->ranks;
    const int devices = on_cuda(context) ? bt_cuda_devices() : 1;
    return devices > 1 ? devices : 1;
}

void bt_context_say_ranks(const bt_context *context, char text[256])
{
    const int ranks = context->instance->world.ranks, wanted = bt_context_ranks(context);
    const bool processes = context->instance->joint != NULL;
    *text = 0;
    if (ranks == 1 && wanted > 1)
        snprintf(text, 256, "1 rank: ranks = %d on CUDA devices are processes, which betty-run starts to train",
                 wanted);
    else if (ranks == 1 && one_for_each_device(context))
        snprintf(text, 256, "1 rank: all means one per device, and %s is one",
                 on_cuda(context) ? "there" : "the processor");
    else if (ranks > 1 && processes && on_cuda(context))
        snprintf(text, 256, "%d ranks, each a process with its own device; each has its rows of a batch", ranks);
    else if (ranks > 1)
        snprintf(text, 256, "%d ranks, %s; each has its rows of a batch", ranks,
                 processes ? "each a process of its own" : "which take turns in one process");
}

void bt_context_threads(const bt_context *context, char text[256])
{
    const int threads = context->instance->threads, cores = context->instance->options.threads;
    const double million = 1e6;
    double work;
    bt_instance_busiest(context->instance, &work);
    int length = snprintf(text, 256, "%d thread%s: ", threads, threads > 1 ? "s" : "");
    text += length;
    const size_t room = 256 - (size_t)length;
    if (context->settings->threads)
        snprintf(text, room, "as [engine] threads says; a kernel call with little work takes fewer");
    else if (cores == 1)
        snprintf(text, room, "this process may use one core");
    else if (threads == cores)
        snprintf(text, room, "this process may use %d cores, and the largest kernel call has work for all of them",
                 cores);
    else
        snprintf(text, room,
                 "the largest kernel call has %.2g million operations, and a thread pays off for %.2g million; this "
                 "process may use %d cores",
                 work / million, BT_WORK_OF_A_THREAD / million, cores);
}

bt_status bt_check_restored(const bt_context *context)
{
    for (int i = 0; i < context->problem_count; i++)
        if (context->problems[i]->adapted)
            return bt_fail(BT_ERROR_ARGUMENT,
                           "%s is still adapted to another batch: after bt_adapt, call bt_restore before the next step "
                           "and before any call that depends on the state of the run",
                           context->problems[i]->name);
    return BT_OK;
}
