/* engine/state/record_restore.c: restores dependencies, metrics, numbers and streams from a record. A record is not
 * trusted: anybody may have written the file. */
#include "engine/output/json.h"
#include "engine/schedule/schedule.h"
#include "engine/solve/trajectory.h"
#include "engine/state/record_inside.h"

#include <stdlib.h>
#include <string.h>

bt_status bt_record_rewire(bt_context *context, json_t *record)
{
    json_t *was = json_object_get(record, "dependencies"), *now = bt_record_dependencies(context);
    const char *u2l, *l2u;
    bt_status status = now ? BT_OK : BT_ERROR_MEMORY;
    if (status == BT_OK && json_unpack(was, "{s:s, s:s}", "u2l", &u2l, "l2u", &l2u) != 0)
        status = bt_record_malformed("dependencies");
    if (status == BT_OK && !json_equal(was, now))
        status = bt_rewire(context, u2l, l2u, "the checkpoint");
    json_decref(now);
    return status;
}

/* ---- numbers ---- */

static bool read_real(const json_t *value, double *real)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    if (!text || !*text)
        return false;
    *real = strtod(text, &end);
    return !*end;
}

/* Stores the value if it is of the row's kind; false: it is not. */
static bool read_number(const bt_ledger_row *row, const json_t *value)
{
    switch (row->kind) {
    case BT_ROW_INT:
        *(int64_t *)row->data = json_integer_value(value);
        return json_is_integer(value) && json_integer_value(value) >= 0;
    case BT_ROW_BOOL:
        *(bool *)row->data = json_is_true(value);
        return json_is_boolean(value);
    default:
        return read_real(value, row->data);
    }
}

static const char *owner(const bt_problem *problem) { return problem ? problem->name : "the run"; }

static bt_status restore_number(const bt_ledger_row *row, const json_t *numbers)
{
    const json_t *value = json_object_get(numbers, row->name);
    if (!value)
        return bt_fail(BT_ERROR_CONFIG, "%s: the checkpoint has no number %s, which this run needs",
                       owner(row->problem), row->name);
    if (read_number(row, value))
        return BT_OK;
    bt_record_malformed("a number");
    bt_error_context("%s, %s", owner(row->problem), row->name);
    return BT_ERROR_FILE;
}

/* The numbers of one problem, or of the run itself. The record must have exactly the known ones. */
static bt_status restore_numbers(bt_context *context, const bt_problem *problem, const json_t *numbers)
{
    size_t known = 0;
    if (!json_is_object(numbers))
        return bt_record_malformed("numbers");
    for (int64_t i = 0; i < context->ledger.count; i++) {
        const bt_ledger_row *row = &context->ledger.rows[i];
        if (row->problem != problem || !bt_role_of(row->role)->saved || !bt_row_is_number(row))
            continue;
        BT_TRY(restore_number(row, numbers));
        known++;
    }
    if (json_object_size(numbers) != known)
        return bt_fail(BT_ERROR_CONFIG, "%s: the checkpoint has %zu numbers, but this run knows only %zu of them",
                       owner(problem), json_object_size(numbers), known);
    if (problem && problem->calls >= problem->settings->meta_batch)
        return bt_record_malformed("calls: there are more than a meta-batch has");
    return BT_OK;
}

static bt_status restore_all_numbers(bt_context *context, const json_t *record, const json_t *problems)
{
    BT_TRY(restore_numbers(context, NULL, json_object_get(record, "numbers")));
    for (int p = 0; p < context->problem_count; p++)
        BT_TRY(restore_numbers(context, context->problems[p],
                               json_object_get(json_array_get(problems, (size_t)p), "numbers")));
    return BT_OK;
}

/* ---- streams ---- */

static bt_status restore_stream(const bt_ledger_row *row, json_t *record)
{
    bt_stream *stream = row->data;
    json_int_t position, kept;
    const char *hash;
    char now[17];
    if (json_unpack(json_object_get(record, row->name), "{s:I, s:I, s:s}", "position", &position, "kept", &kept, "hash",
                    &hash) != 0 ||
        kept < 0 || kept > position || kept > stream->keep)
        return bt_record_malformed("streams");
    BT_TRY(bt_stream_rewind(stream, position, kept));
    bt_record_kept(stream, now);
    if (strcmp(now, hash) == 0)
        return BT_OK;
    return bt_fail(BT_ERROR_CONFIG, "%s: the checkpoint belongs to a run with other training data: batch %lld differs",
                   row->problem->name, (long long)(position - kept));
}

/* Streams that take another problem's batches (batch_of) come after those with batches of their own. */
static bt_status restore_streams(bt_context *context, const json_t *problems)
{
    for (int round = 0; round < 2; round++)
        for (int64_t i = 0; i < context->ledger.count; i++) {
            const bt_ledger_row *row = &context->ledger.rows[i];
            if (row->kind != BT_ROW_STREAM || (((const bt_stream *)row->data)->of != NULL) != round)
                continue;
            json_t *problem = json_array_get(problems, (size_t)row->problem->place);
            BT_TRY(restore_stream(row, json_object_get(problem, "streams")));
        }
    return BT_OK;
}

/* ---- metrics ---- */

/* Makes a row for each, in the order of the record, because that is the order of reports. */
static bt_status restore_metric(bt_context *context, json_t *record, int place)
{
    const char *name, *metric;
    int valid;
    if (json_unpack(record, "{s:s, s:s, s:b}", "problem", &name, "name", &metric, "valid", &valid) != 0)
        return bt_record_malformed("metrics");
    bt_problem *problem = bt_problem_find(context, name);
    bt_metric_row *row = problem ? bt_metric_find(context, problem, metric, valid) : NULL;
    if (!row)
        return problem ? bt_error_status() : bt_record_malformed("metrics of an unknown problem");
    for (int i = place; i < context->metric_count; i++)
        if (context->metrics[i] == row) {
            context->metrics[i] = context->metrics[place];
            context->metrics[place] = row;
            return BT_OK;
        }
    return bt_record_malformed("metrics: one of them occurs twice");
}

/* Streams depend on numbers, and change some of them while they draw. So numbers are restored before them, and again
 * afterwards. */
bt_status bt_record_restore(bt_context *context, json_t *record)
{
    const json_t *problems = json_object_get(record, "problems"), *metrics = json_object_get(record, "metrics");
    if (!json_is_array(metrics))
        return bt_record_malformed("metrics");
    for (size_t i = 0; i < json_array_size(metrics); i++)
        BT_TRY(restore_metric(context, json_array_get(metrics, i), (int)i));
    BT_TRY(restore_all_numbers(context, record, problems));
    BT_TRY(restore_streams(context, problems));
    return restore_all_numbers(context, record, problems);
}

/* The budget may have changed since, but the recorded states keep the spacing that they were kept with. */
bt_status bt_record_space(bt_context *context, json_t *record)
{
    bool other = false;
    for (int p = 0; p < context->problem_count; p++) {
        bt_problem *problem = context->problems[p];
        const json_t *entry = json_array_get(json_object_get(record, "problems"), (size_t)p);
        const json_int_t was = json_integer_value(json_object_get(entry, "spacing"));
        if (was < 1 || was > problem->settings->unroll_steps || !bt_record_spacing(problem))
            continue;
        other |= was != problem->trajectory->spacing;
        problem->spacing = was;
    }
    if (!other)
        return BT_OK;
    bt_stage_enter(context, BT_STAGE_PROGRAM); /* traced code must not start the engine */
    bt_status status = bt_levels_compile_spaced(context);
    bt_stage_leave(context);
    return status;
}

void bt_record_restore_steps(bt_context *context, json_t *record)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(record, "problems"), i, entry)
    {
        const json_t *steps = json_object_get(json_object_get(entry, "numbers"), "steps");
        bt_problem *problem = bt_problem_find(context, bt_json_read_text(entry, "name"));
        if (problem && json_is_integer(steps) && json_integer_value(steps) >= 0)
            problem->steps = json_integer_value(steps);
    }
}

bt_log_lengths bt_record_lengths(const json_t *record)
{
    bt_log_lengths lengths = bt_log_nothing;
    for (int k = 0; k < BT_SINK_KINDS; k++) {
        const json_t *length = json_object_get(record, bt_log_length_key(k));
        if (json_is_integer(length) && json_integer_value(length) >= 0)
            lengths.bytes[k] = json_integer_value(length);
    }
    return lengths;
}
