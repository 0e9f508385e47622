/* engine/session/evaluate.c: evaluates a checkpoint on validation data, without training: metrics and predictions. */
#include "engine/session/run.h"

#include "engine/output/json.h"
#include "engine/state/checkpoint.h"
#include "engine/step/step.h"
#include "engine/traced/traced.h"
#include <math.h>
#include <string.h>

/* ---- metrics ---- */

static bool is_asked(const bt_problem *problem, const char *level)
{
    return problem->settings->active && (!level || strcmp(level, problem->name) == 0);
}

static bt_status check_asked(bt_engine *engine, const char *level)
{
    bt_context *context = &engine->context;
    bool validates = false;
    for (int i = 0; i < context->problem_count; i++)
        validates |= is_asked(context->problems[i], level) &&
                     (context->problems[i]->validation || context->problems[i]->def->validation_end);
    if (validates)
        return BT_OK;
    if (level && !bt_problem_find(context, level))
        return bt_fail(BT_ERROR_CONFIG, "--level %s: this run has no such level", level);
    return bt_fail(BT_ERROR_CONFIG, "nothing to evaluate: %s has no validation_step with data, and no validation_end",
                   level ? level : "the run");
}

static void print_metrics(const bt_metric_value *values, int count, FILE *file)
{
    for (int i = 0; i < count; i++) {
        fprintf(file, "%s %.6g", values[i].name, values[i].value);
        if (!isnan(values[i].interval))
            fprintf(file, " +- %.2g", values[i].interval);
        fprintf(file, "\n");
    }
}

static bt_status print_json(const bt_engine *engine, const bt_evaluation *what, const bt_metric_value *values,
                            int count)
{
    json_t *metrics = json_object();
    bool good = metrics && bt_json_metrics(metrics, values, count);
    json_t *object = json_pack("{s:o, s:I, s:o}", "run", bt_json_string(what->folder), "step",
                               (json_int_t)engine->context.step, "metrics", metrics);
    bt_status status =
        good && object ? bt_json_print(object, what->file) : bt_fail(BT_ERROR_MEMORY, "out of memory for the report");
    json_decref(object);
    return status;
}

static bt_status report(bt_engine *engine, const bt_evaluation *what)
{
    bt_context *context = &engine->context;
    bt_metric_value *values = bt_run_room(context);
    int count = 0;
    bt_status status = BT_OK;
    if (!values)
        return BT_ERROR_MEMORY;
    for (int p = 0; p < context->problem_count; p++)
        if (is_asked(context->problems[p], what->level))
            count += bt_metrics_take(context, context->problems[p], true, values + count);
    if (what->json) {
        status = print_json(engine, what, values, count);
    } else {
        fprintf(what->file, "%s, step %lld\n", what->folder, (long long)context->step);
        print_metrics(values, count, what->file);
    }
    bt_free(values);
    return status;
}

/* ---- predictions ---- */

/* The example's index in the data set; if it has none, its number among those seen. */
static double place_of(const bt_batch *batch, int64_t i, int64_t seen)
{
    for (int f = 0; f < batch->field_count; f++)
        if (strcmp(batch->fields[f].name, "index") == 0)
            return bt_get(batch->fields[f].array.dtype, batch->fields[f].array.data, i);
    return (double)(seen + i);
}

/* If the classes have names, numbers that come one per class are labelled with these names. */
static bool is_by_class(const bt_captured *item, const bt_dataset *data)
{
    return item->width > 1 && item->width == bt_dataset_names(data);
}

static bt_status write_header(const bt_capture *capture, const bt_dataset *data, bt_table *table)
{
    bt_table_name(table, "index");
    for (int i = 0; i < capture->count; i++)
        for (int64_t k = 0; k < capture->items[i].width; k++) {
            const bt_captured *item = &capture->items[i];
            char *name = is_by_class(item, data) ? bt_string("%s.%s", item->name, bt_dataset_class_name(data, k))
                         : item->width > 1       ? bt_string("%s.%lld", item->name, (long long)k)
                                                 : bt_string("%s", item->name);
            if (!name)
                return BT_ERROR_MEMORY;
            bt_table_name(table, name);
            bt_free(name);
        }
    bt_table_end_row(table);
    return BT_OK;
}

/* A row's numbers. A single integer is written as a class name, if the class of that number has one. */
static void write_numbers(const bt_capture *capture, const bt_dataset *data, const double *values, bt_table *table)
{
    for (int i = 0; i < capture->count; i++)
        for (int64_t k = 0; k < capture->items[i].width; k++, values++) {
            const bt_captured *item = &capture->items[i];
            const bool alone = data && item->integer && item->width == 1;
            const char *name = alone ? bt_dataset_class_name(data, (int64_t)*values) : NULL;
            if (name)
                bt_table_name(table, name);
            else
                bt_table_number(table, *values);
        }
}

static int64_t width_of(const bt_capture *capture)
{
    int64_t width = 0;
    for (int i = 0; i < capture->count; i++)
        width += capture->items[i].width;
    return width;
}

static const bt_dataset *data_of(const bt_problem *problem)
{
    return problem->valid ? bt_loader_data(problem->valid->loader) : NULL;
}

static bt_status write_batch(bt_problem *problem, const bt_batch *batch, int64_t width, int64_t seen, bt_table *table)
{
    const int64_t count = bt_batch_count(batch);
    double *values = bt_alloc_array((size_t)(count * width), sizeof *values);
    bt_status status =
        values ? bt_eval(problem, bt_capture_table, batch, BT_ARRAY(values, count, width)) : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < count; i++) {
        bt_table_number(table, place_of(batch, i, seen));
        write_numbers(problem->context->capture, data_of(problem), values + i * width, table);
        bt_table_end_row(table);
    }
    bt_free(values);
    return status;
}

/* If there is nothing to write, *wrote does not change. */
static bt_status write_rows(bt_problem *problem, const char *path, bool *wrote)
{
    const bt_capture *capture = problem->context->capture;
    const bt_batch *batch = bt_valid_batch(problem, 0);
    double loss;
    int64_t seen = 0, width;
    if (!batch)
        return bt_error_status();
    BT_TRY(bt_eval(problem, bt_capture_probe, batch, BT_ARRAY(&loss)));
    width = width_of(capture);
    if (!width)
        return BT_OK;
    if (*wrote)
        return bt_fail(BT_ERROR_CONFIG, "several levels give predictions: choose one with --level NAME");
    bt_table *table = bt_table_open(path);
    if (!table)
        return BT_ERROR_MEMORY;
    bt_status status = write_header(capture, data_of(problem), table);
    for (int64_t i = 0; status == BT_OK && (batch = bt_valid_batch(problem, i)) != NULL; i++) {
        status = write_batch(problem, batch, width, seen, table);
        seen += bt_batch_count(batch);
    }
    if (status == BT_OK)
        status = bt_error_status();
    bt_status closed = bt_table_close(table, status == BT_OK);
    *wrote = true;
    return status == BT_OK ? closed : status;
}

static bt_status write_predictions(bt_engine *engine, const bt_evaluation *what)
{
    bt_context *context = &engine->context;
    bt_capture *capture = bt_alloc(sizeof *capture);
    bt_status status = capture ? BT_OK : BT_ERROR_MEMORY;
    bool wrote = false;
    context->capture = capture;
    for (int p = 0; status == BT_OK && p < context->problem_count; p++)
        if (is_asked(context->problems[p], what->level) && context->problems[p]->validation)
            status = write_rows(context->problems[p], what->predictions, &wrote);
    context->capture = NULL;
    bt_free(capture);
    if (status == BT_OK && !wrote)
        status = bt_fail(BT_ERROR_CONFIG,
                         "--predictions %s: no validation_step gives predictions: call bt_prediction(self, \"name\", "
                         "value) in it, or a bt_metric with one value per example",
                         what->predictions);
    return status;
}

/* ---- */

static bt_status evaluate(bt_engine *engine, const bt_evaluation *what)
{
    bool any;
    BT_TRY(check_asked(engine, what->level));
    BT_TRY(bt_checkpoint_load_model(&engine->context, what->folder));
    BT_TRY(bt_keep_error(&engine->context, bt_validate(&engine->context, &any)));
    BT_TRY(report(engine, what));
    return what->predictions ? write_predictions(engine, what) : BT_OK;
}

bt_status bt_engine_evaluate(bt_engine *engine, const bt_evaluation *what)
{
    if (!engine || !what || !what->folder || !what->file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_evaluate: an argument is NULL");
    BT_TRY(bt_engine_enter_model(engine, "bt_engine_evaluate"));
    return bt_fail(evaluate(engine, what), "failed");
}
