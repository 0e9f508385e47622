/* engine/find_lr/sweep.c: the steps of a range test, each with its own rate. */
#include "engine/find_lr/find_lr_inside.h"
#include "engine/level/rates.h"
#include "engine/output/ticker.h"
#include "engine/session/run.h"

#include <math.h>

typedef struct sweep {
    bt_engine *engine;
    bt_context *context;
    const bt_find_lr *how;
    bt_problem *problem;
    bt_lr_curve curve;
    bt_metric_value *values; /* room for all metrics */
    bt_output *output;
} sweep;

/* ---- the rate ---- */

/* The host can set a plateau's factor on the rates of all groups, and solvers that go back through steps record it. */
static bt_status ask_for_factor(sweep *s)
{
    static const char *const settings[][2] = {
        {"scheduler", "plateau"}, {"scheduler_gamma", "0.5"}, {"scheduler_warmup", "0"}};
    char *origin = bt_string("--find-lr %s", s->how->problem);
    bt_status status = origin ? BT_OK : BT_ERROR_MEMORY;
    for (int i = 0; i < BT_COUNT_OF(settings) && status == BT_OK; i++) {
        char *key = bt_string("%s.%s", s->how->problem, settings[i][0]);
        status = key ? bt_engine_set_from(s->engine, key, settings[i][1], origin) : BT_ERROR_MEMORY;
        bt_free(key);
    }
    bt_free(origin);
    return status;
}

static bt_status check_problem(const sweep *s)
{
    const bt_problem *problem = s->problem;
    const bt_optimizer *optimizer = problem->optimizer;
    const int lr = bt_rates_index(problem);
    if (!problem->settings->active)
        return bt_fail(BT_ERROR_CONFIG, "--find-lr %s: this problem takes no part in the run", problem->name);
    if (lr < 0)
        return bt_fail(BT_ERROR_CONFIG,
                       "--find-lr %s: optimizer %s, as it is configured, has no learning rate to look for",
                       problem->name, optimizer->kind.def->name);
    if (optimizer->groups[0].values[lr] > 0)
        return BT_OK;
    return bt_fail(BT_ERROR_CONFIG, "--find-lr %s: lr is 0; set it above 0, as groups keep their ratio to it",
                   problem->name);
}

static void set_rate(const sweep *s, double rate)
{
    const bt_optimizer *optimizer = s->problem->optimizer;
    const double configured = optimizer->groups[0].values[bt_rates_index(s->problem)];
    for (int g = 0; g < optimizer->group_count; g++)
        bt_number_set(s->context, optimizer->groups[g].scale, rate / configured);
}

/* Checks the rate that the last step used, because a problem's `schedule` may have set it. */
static bt_status check_rate(const sweep *s, double rate)
{
    const bt_problem *problem = s->problem;
    const double *configured = problem->optimizer->groups[0].values;
    const int lr = bt_rates_index(problem);
    for (int g = 0; g < problem->optimizer->group_count; g++) {
        const bt_optimizer_group *group = &problem->optimizer->groups[g];
        if (!problem->rate_names[g]) /* it has no trained parameters */
            continue;
        const double due = group->values[lr] * group->lr_factor * (rate / configured[lr]);
        const double used = bt_number_get(s->context, group->rate);
        if (fabs(used - due) > 1e-6 * due)
            return bt_fail(BT_ERROR_CONFIG, "--find-lr %s: the problem's schedule sets the learning rate: %g, not %g",
                           problem->name, used, due);
    }
    return BT_OK;
}

/* ---- steps ---- */

/* The loss of the step: the mean over its micro-batches. */
static bt_status take_loss(const sweep *s, double *loss)
{
    const bt_metric_row *row = bt_metric_find(s->context, s->problem, "loss", false);
    bt_metrics_take(s->context, s->problem, false, s->values);
    *loss = row ? row->last : 0;
    return row ? BT_OK : bt_error_status();
}

static bt_status run(sweep *s)
{
    bt_ticker ticker = bt_ticker_on(s->how->progress);
    bt_status status = BT_OK;
    for (bool more = true; more && status == BT_OK;) {
        const int64_t before = s->problem->steps;
        const double rate = bt_lr_rate(&s->curve, s->curve.count);
        double loss;
        set_rate(s, rate);
        status = bt_session_step(s->engine);
        s->context->step++;
        if (status == BT_OK && s->problem->steps > before) {
            status = check_rate(s, rate);
            if (status == BT_OK)
                status = take_loss(s, &loss);
            more = status == BT_OK && bt_lr_add(&s->curve, loss);
        }
        char line[96];
        snprintf(line, sizeof line, "%lld/%lld learning rates", (long long)s->curve.count, (long long)s->curve.steps);
        bt_ticker_show(&ticker, line);
    }
    bt_ticker_erase(&ticker);
    return status;
}

/* ---- output ---- */

static bt_status write_files(const sweep *s)
{
    bt_text csv = {0}, picture = {0};
    const char *path = s->output->path;
    bt_lr_csv(&s->curve, &csv);
    bt_status status = csv.failed ? BT_ERROR_MEMORY : bt_output_write(path, "lr.csv", csv.data, (size_t)csv.size);
    if (status == BT_OK)
        status = bt_lr_picture(&s->curve, s->problem->name, &picture);
    if (status == BT_OK)
        status = bt_output_write(path, "lr.svg", bt_text_get(&picture), (size_t)picture.size);
    bt_text_free(&csv);
    bt_text_free(&picture);
    return bt_fail(status, "out of memory");
}

static bt_status print(const sweep *s)
{
    bt_text text = {0};
    if (s->how->json)
        return bt_lr_json(&s->curve, s->problem->name, s->how->file);
    bt_lr_text(&s->curve, s->problem->name, &text);
    fprintf(s->how->file, "%s\n%s: lr.csv, lr.svg\n", bt_text_get(&text), s->output->path);
    bt_status status = text.failed ? bt_fail(BT_ERROR_MEMORY, "out of memory") : BT_OK;
    bt_text_free(&text);
    return status;
}

static bt_status open_files(sweep *s)
{
    char *stem = bt_string("%s-find-lr", bt_config_stem(s->context->config));
    bt_status status = stem ? bt_output_make(s->how->folder, stem, &s->output) : BT_ERROR_MEMORY;
    bt_free(stem);
    return status == BT_ERROR_FILE ? BT_ERROR_CONFIG : status;
}

static bt_status find(sweep *s)
{
    BT_TRY(bt_lr_open(&s->curve, s->how->range));
    BT_TRY(ask_for_factor(s));
    BT_TRY(bt_engine_enter(s->engine, BT_REQUEST_RUN, "bt_engine_find_lr"));
    s->problem = bt_problem_find(s->context, s->how->problem);
    if (!s->problem)
        return bt_fail(BT_ERROR_INTERNAL, "--find-lr %s: there is no such problem", s->how->problem);
    BT_TRY(check_problem(s));
    s->values = bt_run_room(s->context);
    if (!s->values)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_output_check(s->how->folder)); /* the folder is created once there is something to write */
    bt_stage_enter(s->context, BT_STAGE_RUN);
    bt_instance_fill(s->context->instance);
    bt_status status = run(s);
    bt_stage_leave(s->context);
    BT_TRY(status);
    BT_TRY(open_files(s));
    BT_TRY(write_files(s));
    return print(s);
}

bt_status bt_engine_find_lr(bt_engine *engine, const bt_find_lr *how)
{
    if (!engine || !how || !how->problem || !how->file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_find_lr: an argument is NULL");
    sweep s = {.engine = engine, .context = &engine->context, .how = how};
    bt_status status = find(&s);
    bt_free(s.values);
    bt_lr_close(&s.curve);
    bt_output_free(s.output);
    return bt_fail(status, "out of memory");
}
