/* bench/libbetty/main.c: libbetty's side of `./dev bench`: bench-libbetty WORKLOAD FOLDER [SECTION.KEY=VALUE ...]
 * [--profile: at the end, print where the steps spent their time]
 *
 * The problems are written as a user would write them, with the public interface. The driver, bench/run.py, asks for
 * steps through standard input and gets a line of JSON for each question (bench/README.md lists them).
 * on_inner_loop_start returns control between steps, so the timing covers the engine's own loop, including its
 * loader. */
#include "bench.h"

#include "base/base.h"
#include "base/version.h"
#include "engine/session/session.h"
#include "runtime/profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_TASKS = 8 };

/* The loss over the whole set, in batches that take no more memory than a step; for tasks, over the first ones. */
static bt_status state_loss(session *s, double *loss)
{
    const workload *w = s->workload;
    bt_problem *top = bt_engine_problem(s->engine, w->top);
    bt_loader *loader = bt_loader_for(top, w->set ? read_set(s, w->set) : few_shot_tasks(top),
                                      w->set ? (s->batch ? s->batch : 100) : 1, 0);
    const bt_batch *batch = NULL;
    bt_status status;
    double sum = 0, count = 0;
    while ((status = bt_loader_next(loader, &batch)) == BT_OK && (w->set || count < STATE_TASKS)) {
        double part, weight = w->set ? (double)bt_batch_count(batch) : 1;
        BT_TRY(bt_eval(top, w->loss, batch, BT_ARRAY(&part)));
        sum += part * weight;
        count += weight;
    }
    bt_loader_free(loader);
    *loss = sum / count;
    return status == BT_DONE ? BT_OK : status;
}

/* Prints the (upper) loss over its data and the (upper) parameters. */
static bt_status print_state(session *s)
{
    int64_t count;
    double loss, *params = params_of(s, s->workload->top, &count);
    bt_status status = params ? state_loss(s, &loss) : BT_ERROR_MEMORY;
    if (status == BT_OK) {
        printf("{\"loss\": %.17g, \"params\": [", loss);
        for (int64_t i = 0; i < count; i++)
            printf("%s%.17g", i ? ", " : "", params[i]);
        printf("]}\n");
    }
    free(params);
    return status;
}

/* Prints the planned bytes of the run, without the data set; and the resident bytes before any of it existed, plus the
 * data set. */
static bt_status print_memory(session *s)
{
    size_t by_category[BT_CATEGORIES], kept = bt_persistent_bytes(&s->engine->context, by_category, NULL);
    printf("{\"tensor_bytes\": %zu, \"resident_before\": %zu}\n", kept + bt_arena_used(&s->engine->context),
           s->resident + bt_engine_footprint(s->engine).data);
    return BT_OK;
}

/* Starts the next steps. If counted, their calls go into a profile. */
static bt_status begin(session *s, long long number, bool counted)
{
    if (number <= 0 || number * s->step % s->unroll != 0)
        return bt_fail(BT_ERROR_ARGUMENT, "%lld steps are no multiple of a call of ours", number);
    if (counted && !(s->profile = bt_profile_new()))
        return BT_ERROR_MEMORY;
    if (counted)
        s->engine->context.instance->profile = s->profile;
    s->asked = number * s->step;
    s->done = 0;
    s->start = bt_seconds();
    return BT_OK;
}

static void end(session *s)
{
    if (s->profile) {
        print_work(s, s->asked / s->step);
        s->engine->context.instance->profile = NULL;
        bt_profile_free(s->profile);
        s->profile = NULL;
    } else {
        printf("{\"ms\": %.6f}\n", 1e3 * (bt_seconds() - s->start));
    }
    s->asked = 0;
}

static bt_status answer(session *s, const char *line)
{
    long long number;
    if (sscanf(line, "steps %lld", &number) == 1)
        return begin(s, number, false);
    if (sscanf(line, "work %lld", &number) == 1)
        return begin(s, number, true);
    if (sscanf(line, "export %lld", &number) == 1 && number >= 0)
        return export_start(s, number);
    if (strcmp(line, "state\n") == 0)
        return print_state(s);
    if (strcmp(line, "memory\n") == 0)
        return print_memory(s);
    return bt_fail(BT_ERROR_ARGUMENT, "not understood: %s", line);
}

void between_steps(bt_problem *self)
{
    session *s = bt_user(self);
    char line[256];
    if (s->asked && (s->done += s->unroll) < s->asked)
        return;
    if (s->asked)
        end(s);
    while (!s->asked) {
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin)) {
            bt_fail(BT_ERROR_INTERRUPTED, "no more questions");
            return;
        }
        if (answer(s, line) != BT_OK)
            return;
    }
}

/* ---- the workloads ---- */

static const workload *const workloads[] = {
    &mwn_workload,   &resnet_workload,   &wrn_workload, &unet_workload, &deep_workload,
    &darts_workload, &logistic_workload, &mlp_workload, &maml_workload, &language_workload,
};

static bt_status setting(session *s, char *text)
{
    char *equals = strchr(text, '=');
    if (strcmp(text, "--profile") == 0) {
        s->engine->front.profile = stderr;
        return BT_OK;
    }
    if (!equals)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: a setting is SECTION.KEY=VALUE", text);
    *equals = 0;
    if (strcmp(text, "lower.unroll_steps") == 0)
        s->unroll = atoll(equals + 1);
    if (strcmp(text, "upper.meta_batch") == 0)
        s->tasks = atoll(equals + 1);
    if (strcmp(text, "lower.batch_size") == 0)
        s->batch = atoll(equals + 1); /* "all": 0 */
    if (strcmp(text, "lower.hidden") == 0)
        s->hidden = atoll(equals + 1);
    return bt_engine_set(s->engine, text, "%s", equals + 1);
}

static bt_status serve(session *s, const char *name, int count, char **settings)
{
    for (int i = 0; i < BT_COUNT_OF(workloads); i++)
        if (strcmp(name, workloads[i]->name) == 0)
            s->workload = workloads[i];
    if (!s->workload)
        return bt_fail(BT_ERROR_ARGUMENT, "no workload `%s`", name);
    s->unroll = s->workload->unroll;
    bt_engine_use(s->engine, &s->workload->problems, s);
    if (strcmp(s->workload->top, "upper") == 0) {
        bt_engine_set(s->engine, "dependencies.u2l", "upper > lower");
        bt_engine_set(s->engine, "dependencies.l2u", "lower > upper");
    }
    bt_engine_set(s->engine, "engine.train_iters", "%d", 1000000000);
    bt_engine_set(s->engine, "engine.valid_step", "0");
    bt_engine_set(s->engine, "engine.log_step", "0");
    for (int i = 0; i < count; i++)
        BT_TRY(setting(s, settings[i]));
    s->step = s->workload->set ? 1 : s->unroll * s->tasks; /* for tasks, one upper step */
    if (!bt_engine_problem(s->engine, "lower"))
        return BT_ERROR_CONFIG;
    printf("{\"ready\": \"libbetty %s\", \"isa\": \"%s\"}\n", BT_VERSION, s->engine->context.instance->backend->isa());
    bt_status status = bt_engine_run(s->engine);
    return status == BT_ERROR_INTERRUPTED ? BT_OK : status;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "bench-libbetty WORKLOAD FOLDER [SECTION.KEY=VALUE ...]\n");
        return 2;
    }
    session s = {.folder = argv[2], .engine = bt_engine_new(), .tasks = 1, .resident = bt_resident_peak()};
    bt_status status = s.engine ? serve(&s, argv[1], argc - 3, argv + 3) : BT_ERROR_MEMORY;
    if (status != BT_OK)
        fprintf(stderr, "bench-libbetty: %s\n", bt_error());
    bt_engine_free(s.engine);
    return status == BT_OK ? 0 : 1;
}
