/* engine/session/say.c: the messages during a run: the equation, metrics, problems. */
#include "engine/session/run.h"

#include "engine/level/rates.h"

#include <math.h>
#include <string.h>

/* The equations that the levels follow, if there are several levels. */
bt_status bt_run_say_equation(bt_run *r)
{
    bt_text text = {0};
    bool levels = false;
    for (int i = 0; i < r->context->problem_count; i++)
        levels |= r->context->problems[i]->parent_count > 0;
    if (levels)
        bt_print_equation(r->context, &text);
    if (text.size)
        bt_say(r->context, BT_LINE_INFO, "%s", text.data);
    r->engine->rewired = false;
    bt_status status = text.failed ? BT_ERROR_MEMORY : BT_OK;
    bt_text_free(&text);
    return status;
}

/* Whether to print a problem's training metrics: at its own interval, or at the engine's. */
static bool due(bt_problem *problem, bool last)
{
    const bt_context *context = problem->context;
    int64_t every = problem->settings->log_step;
    bool now = every < 0 ? bt_run_is_due(context->step, context->settings->log_step)
                         : every > 0 && problem->steps / every > problem->logged / every;
    if (now)
        problem->logged = problem->steps;
    return now || last;
}

/* Hyperparameters that `schedule` sets outside the range of their key: they are used as they are, with one warning
 * each. */
static void say_strays(bt_problem *problem)
{
    for (int i = 0; i < BT_MAX_ITEMS; i++) {
        bt_stray *stray = &problem->strays[i];
        double times = stray->count ? bt_number_get(problem->context, stray->count) : 0;
        if (!(times > 0) || stray->told)
            continue;
        const bt_hyper_def *hyper = &problem->optimizer->kind.def->hypers[i];
        bt_warn(problem->context,
                "%s: schedule has set %s outside its range, %g to %g, %.0f time%s up to step %lld, the first time to "
                "%.6g; the value is used unchanged: use bt_exp or bt_sigmoid of the learned value, or bt_clamp it",
                problem->name, hyper->name, hyper->low, hyper->high, times, times > 1 ? "s" : "",
                (long long)problem->context->step, bt_number_get(problem->context, stray->first));
        stray->told = true;
    }
}

/* Warns once about each method that fails, and about each such hyperparameter. */
void bt_run_say_trouble(bt_run *r)
{
    const bt_context *context = r->context;
    for (int p = 0; p < context->problem_count; p++)
        say_strays(context->problems[p]);
    for (int p = 0; p < context->problem_count; p++)
        for (int i = 0; context->problems[p]->troubles && i < context->problem_count; i++) {
            bt_trouble *trouble = &context->problems[p]->troubles[i];
            const bt_problem *lower = context->problems[i];
            int64_t count = trouble->count ? bt_count_get(context, trouble->count) : 0;
            if (count && !trouble->told)
                bt_warn(r->context, "%s, type = %s: up to step %lld, %lld times: %s", lower->name,
                        lower->settings->method->name, (long long)context->step, (long long)count, trouble->means);
            trouble->told = trouble->told || count;
        }
}

/* The number of updates skipped so far because a gradient was not finite. */
static int64_t skipped_updates(const bt_problem *problem)
{
    const bt_optimizer *optimizer = problem->optimizer;
    return optimizer && optimizer->skipped ? bt_count_get(problem->context, optimizer->skipped) : 0;
}

/* Warns of the first one at the next report; the number is printed at the end. */
static void say_first_skipped(bt_run *r)
{
    for (int i = 0; i < r->context->problem_count && !r->told; i++)
        if (skipped_updates(r->context->problems[i])) {
            bt_warn(r->context, "%s: a gradient was not finite, so the update was skipped",
                    r->context->problems[i]->name);
            r->told = true;
        }
}

/* The gradient may still be finite, so nothing else reports this. */
static void say_nonfinite(bt_run *r, const bt_metric_row *row)
{
    if (r->told_loss[row->valid] || strcmp(row->name, "loss") != 0)
        return;
    r->told_loss[row->valid] = true;
    if (row->valid)
        bt_warn(r->context, "%s: after step %lld, the validation loss is not finite", row->problem->name,
                (long long)r->context->step);
    else
        bt_warn(r->context, "%s: up to step %lld, the loss is not finite", row->problem->name,
                (long long)r->context->step);
}

static void say_first_nonfinite(bt_run *r, const bt_metric_value *values, int count)
{
    for (int v = 0; v < count; v++)
        for (int i = 0; i < r->context->metric_count && !isfinite(values[v].value); i++)
            if (r->context->metrics[i]->full == values[v].name)
                say_nonfinite(r, r->context->metrics[i]);
}

/* What is due: values[count]; for the sinks also rates and histograms. `values` has room for the rates at its end. */
typedef struct due_values {
    bt_metric_value *values; /* NULL: nothing is due */
    int count;
    bt_metric_value *rates; /* learning rates */
    int rate_count;
    bt_histogram_value *histograms;
    int histogram_count;
} due_values;

static bt_status say_metrics(bt_run *r, const due_values *due, bool lasting)
{
    const bt_metric_value *values = due->values;
    const int count = due->count;
    bt_run_say_trouble(r);
    say_first_skipped(r);
    say_first_nonfinite(r, values, count);
    bt_text text = {0};
    bt_metrics_text(r->context->step, r->train_iters, values, count, &text);
    bt_say(r->context, lasting ? BT_LINE_VALIDATION : BT_LINE_TRAINING, "%s", bt_text_get(&text));
    bt_text_free(&text);
    if (!r->sinks)
        return BT_OK;
    for (int i = 0; i < due->rate_count; i++)
        due->values[count + i] = due->rates[i];
    const bt_log_line line = {.step = r->context->step,
                              .time = bt_seconds() - r->start,
                              .metrics = values,
                              .count = count + due->rate_count,
                              .histograms = due->histograms,
                              .histogram_count = due->histogram_count};
    return bt_sinks_write(r->sinks, &line);
}

bt_metric_value *bt_run_room(const bt_context *context)
{
    return bt_alloc_array((size_t)context->metric_count + 1, sizeof(bt_metric_value));
}

/* Room for the largest possible report. */
static bt_status open_values(const bt_context *context, due_values *due)
{
    size_t room = (size_t)context->metric_count + 1;
    const size_t metrics = room;
    for (int p = 0; p < context->problem_count; p++)
        room += context->problems[p]->optimizer ? 1 + (size_t)context->problems[p]->optimizer->group_count : 0;
    due->values = bt_alloc_array(room, sizeof *due->values);
    due->rates = bt_alloc_array(room, sizeof *due->rates);
    due->histograms = bt_alloc_array(metrics, sizeof *due->histograms);
    return due->values && due->rates && due->histograms ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status take(bt_context *context, bt_problem *problem, bool valid, due_values *due)
{
    if (!due->values) {
        BT_TRY(bt_instance_wait(context->instance)); /* report the failure itself, not the values that follow from it */
        BT_TRY(open_values(context, due));
    }
    int count = bt_metrics_take(context, problem, valid, due->values + due->count);
    due->count += count;
    due->histogram_count += bt_histograms_take(context, problem, valid, due->histograms + due->histogram_count);
    if (count && !valid)
        due->rate_count += bt_rates_take(problem, due->rates + due->rate_count);
    return BT_OK;
}

bt_status bt_run_report(bt_run *r, bool valid, bool last)
{
    bt_context *context = r->context;
    due_values values = {0}; /* most steps report nothing */
    bt_status status = BT_OK;
    for (int p = 0; p < context->problem_count && status == BT_OK; p++)
        if (context->problems[p]->settings->active && (valid || due(context->problems[p], last)))
            status = take(context, context->problems[p], valid, &values);
    bool lasting = valid || context->step == context->settings->train_iters;
    if (status == BT_OK && values.count)
        status = say_metrics(r, &values, lasting);
    bt_free(values.values);
    bt_free(values.rates);
    bt_free(values.histograms);
    return status;
}

/* Warns if the run was too short for a level to take a step. */
static void say_waiting(const bt_problem *problem)
{
    if (problem->child_count && !problem->steps)
        bt_warn(problem->context,
                "%s has made no step: it waits until every level whose solution it uses has made unroll_steps steps "
                "after its warmup_steps%s",
                problem->name, problem->settings->meta_batch > 1 ? ", and this meta_batch times" : "");
}

/* A run that has skipped most of its updates has diverged, which is a failure. */
bt_status bt_run_say_missing(bt_run *r)
{
    for (int i = 0; i < r->context->problem_count; i++) {
        const bt_problem *problem = r->context->problems[i];
        say_waiting(problem);
        int64_t skipped = skipped_updates(problem);
        if (skipped)
            bt_warn(r->context, "%s: %lld of %lld updates were skipped: the gradient was not finite", problem->name,
                    (long long)skipped, (long long)problem->steps);
        if (skipped > problem->steps / 2)
            return bt_fail(BT_ERROR_NUMERIC,
                           "%s has diverged: in %lld of %lld steps the gradient was not finite; a smaller lr, "
                           "gradient_clipping or precision = fp64 may help",
                           problem->name, (long long)skipped, (long long)problem->steps);
    }
    return BT_OK;
}
