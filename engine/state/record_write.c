/* engine/state/record_write.c: the state of a run besides its variables, as JSON: numbers and streams from the ledger,
 * and what identifies the run: problems, settings, data, traced callbacks. */
#include "engine/state/record_inside.h"

#include "engine/solve/trajectory.h"
#include "engine/traced/traced.h"
#include "io/json.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- from the ledger ---- */

static json_t *number_json(const bt_ledger_row *row)
{
    char text[32];
    switch (row->kind) {
    case BT_ROW_INT:
        return json_integer(*(const int64_t *)row->data);
    case BT_ROW_BOOL:
        return json_boolean(*(const bool *)row->data);
    default:
        snprintf(text, sizeof text, "%.17g", *(const double *)row->data);
        return json_string(text);
    }
}

void bt_record_kept(bt_stream *stream, char text[17])
{
    uint64_t hash = 0;
    bt_stream_complete(stream);
    for (int64_t k = 0; k < stream->kept_count; k++) {
        const bt_batch *batch = bt_stream_newest(stream, stream->kept_count, k);
        for (int f = 0; batch && f < batch->field_count; f++)
            hash = bt_hash(hash, batch->fields[f].array.data, bt_array_bytes(batch->fields[f].array));
    }
    snprintf(text, 17, "%016" PRIx64, hash);
}

static json_t *stream_json(bt_stream *stream)
{
    char hash[17];
    bt_record_kept(stream, hash);
    return json_pack("{s:I, s:I, s:s}", "position", (json_int_t)bt_stream_position(stream), "kept",
                     (json_int_t)stream->kept_count, "hash", hash);
}

/* The numbers, or the streams, of one problem or of the run itself. */
static json_t *rows_json(const bt_context *context, const bt_problem *problem, bool streams)
{
    json_t *object = json_object();
    for (int64_t i = 0; i < context->ledger.count; i++) {
        const bt_ledger_row *row = &context->ledger.rows[i];
        if (row->problem != problem || !bt_role_of(row->role)->saved)
            continue;
        if (streams ? row->kind == BT_ROW_STREAM : bt_row_is_number(row))
            object = bt_json_with(object, row->name, streams ? stream_json(row->data) : number_json(row));
    }
    return object;
}

/* ---- what identifies the run ---- */

void bt_record_graph(bt_problem *problem, int kind, char text[17])
{
    text[0] = 0;
    bt_traced *traced = problem->traced[kind][0];
    if (!traced)
        return;
    if (!traced->hash)
        traced->hash = bt_graph_hash(traced->graph);
    snprintf(text, 17, "%016" PRIx64, traced->hash);
}

static json_t *graphs_json(bt_problem *problem)
{
    json_t *list = json_array();
    for (int kind = 0; kind < BT_PURE_KINDS; kind++) {
        char text[17];
        bt_record_graph(problem, kind, text);
        list = bt_json_append(list, json_string(text));
    }
    return list;
}

int64_t bt_record_batches(const bt_problem *problem)
{
    return problem->train && problem->train->loader ? bt_loader_per_epoch(problem->train->loader) : 0;
}

static void add_field(void *user, const char *prefix, const char *name, uint64_t hash)
{
    json_t **object = user;
    char *field = bt_string("%s%s%s", prefix, *prefix ? "." : "", name), text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    *object = bt_json_with(*object, field, json_string(text));
    bt_free(field);
}

json_t *bt_record_data(const bt_problem *problem)
{
    json_t *object = json_object();
    if (problem->train)
        bt_loader_hash(problem->train->loader, add_field, &object);
    return object;
}

static void add_setting(void *user, const char *section, const char *key, bt_key_kind kind, const char *value)
{
    (void)kind;
    json_t **object = user;
    char *name = bt_string("%s.%s", section, key);
    *object = bt_json_with(*object, name, bt_json_string(value));
    bt_free(name);
}

json_t *bt_record_config(const bt_context *context)
{
    json_t *object = json_object();
    if (bt_config_visit(context->config, add_setting, &object) == BT_OK)
        return object;
    json_decref(object);
    return NULL;
}

json_t *bt_record_dependencies(const bt_context *context)
{
    static const char *const names[] = {[BT_U2L] = "u2l", [BT_L2U] = "l2u"};
    json_t *object = json_object();
    for (int direction = BT_U2L; direction <= BT_L2U; direction++) {
        bt_text text = {0};
        bt_config_print_edges(context->config, (bt_direction)direction, &text);
        object = bt_json_with(object, names[direction], text.failed ? NULL : json_string(bt_text_get(&text)));
        bt_text_free(&text);
    }
    return object;
}

int64_t bt_record_spacing(const bt_problem *problem)
{
    return problem->trajectory && problem->trajectory->automatic ? problem->trajectory->spacing : 0;
}

/* ---- all of it ---- */

static json_t *problem_json(const bt_context *context, bt_problem *problem)
{
    return json_pack("{s:s, s:o, s:o, s:I, s:o, s:o, s:I}", "name", problem->name, "numbers",
                     rows_json(context, problem, false), "streams", rows_json(context, problem, true),
                     "batches_per_epoch", (json_int_t)bt_record_batches(problem), "data", bt_record_data(problem),
                     "graphs", graphs_json(problem), "spacing", (json_int_t)bt_record_spacing(problem));
}

static json_t *problems_json(const bt_context *context)
{
    json_t *list = json_array();
    for (int p = 0; p < context->problem_count; p++)
        list = bt_json_append(list, problem_json(context, context->problems[p]));
    return list;
}

static json_t *metrics_json(const bt_context *context)
{
    json_t *list = json_array();
    for (int i = 0; i < context->metric_count; i++) {
        const bt_metric_row *row = context->metrics[i];
        list = bt_json_append(
            list, json_pack("{s:s, s:s, s:b}", "problem", row->problem->name, "name", row->name, "valid", row->valid));
    }
    return list;
}

/* The lengths of optional logs are only there if the run has them. */
static json_t *with_lengths(json_t *record, const bt_log_lengths *lengths)
{
    for (int k = 0; k < BT_SINK_KINDS && record; k++)
        if (lengths->bytes[k] >= 0)
            record = bt_json_with(record, bt_log_length_key(k), json_integer(lengths->bytes[k]));
    return record;
}

json_t *bt_record_new(const bt_context *context, const bt_log_lengths *lengths)
{
    char backend[256];
    bt_context_backend(context, backend);
    json_t *record = json_pack("{s:n, s:s, s:o, s:o, s:o, s:o, s:o}", bt_log_length_key(BT_SINK_JSONL), "backend",
                               backend, "numbers", rows_json(context, NULL, false), "config", bt_record_config(context),
                               "dependencies", bt_record_dependencies(context), "problems", problems_json(context),
                               "metrics", metrics_json(context));
    record = with_lengths(record, lengths);
    if (!record)
        bt_fail(BT_ERROR_MEMORY, "a checkpoint's record: out of memory");
    return record;
}
