/* engine/level/context.c: what all levels share: errors that are kept, warnings. */
#include "engine/level/level.h"

#include <stdio.h>

bt_status bt_keep_error(bt_context *context, bt_status status)
{
    if (status == BT_OK || context->status != BT_OK)
        return status;
    bt_fail(status, "failed");
    context->status = status;
    context->message = bt_strdup(bt_error());
    return status;
}

void bt_warn(bt_context *context, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bt_text_vadd(&context->warnings, format, args);
    va_end(args);
    bt_text_add(&context->warnings, "\n");
}

void bt_context_backend(const bt_context *context, char text[256])
{
    int threads = context->instance->threads;
    snprintf(text, 256, "%s, %d thread%s", context->instance->backend->isa(), threads, threads > 1 ? "s" : "");
}

bt_status bt_check_restored(const bt_context *context)
{
    for (int i = 0; i < context->problem_count; i++)
        if (context->problems[i]->adapted)
            return bt_fail(
                BT_ERROR_ARGUMENT,
                "%s is still adapted to another batch: bt_adapt needs a bt_restore before the next step, and "
                "before anything that asks how the run goes on",
                context->problems[i]->name);
    return BT_OK;
}
