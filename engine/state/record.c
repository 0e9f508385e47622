/* engine/state/record.c: what a run knows beside its variables, as JSON: counters, positions of streams, metrics,
 * and what tells whether it is the same run: problems, settings, data, traced callbacks.
 *
 * Numbers that need not be finite are texts, which read back to the same bits. */
#include "engine/state/checkpoint.h"
#include "engine/traced/traced.h"
#include "io/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct real { /* a double as text */
    char text[32];
} real;

static real real_of(double value)
{
    real r;
    snprintf(r.text, sizeof r.text, "%.17g", value);
    return r;
}

static double real_read(const char *text) { return strtod(text, NULL); }

static bt_status malformed(void)
{
    return bt_fail(BT_ERROR_FILE, "the checkpoint's record does not have the entries that this version writes");
}

/* ---- writing ---- */

static json_t *ready_json(const bt_problem *problem)
{
    json_t *list = json_array();
    for (int c = 0; c < problem->child_count; c++)
        list = bt_json_append(list, json_boolean(problem->ready[c]));
    return list;
}

/* Of a traced callback as it stands now; "": there is none. */
static void graph_hash(bt_problem *problem, int kind, char text[17])
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
        graph_hash(problem, kind, text);
        list = bt_json_append(list, json_string(text));
    }
    return list;
}

static int64_t batches_of(const bt_problem *problem)
{
    return problem->train && problem->train->loader ? bt_loader_per_epoch(problem->train->loader) : 0;
}

/* Of the batches at hand: whether a resumed run draws the same data in the same order. */
static void batch_hash(const bt_problem *problem, char text[17])
{
    bt_stream *train = problem->train;
    uint64_t hash = 0;
    for (int64_t k = 0; train && k < train->kept_count; k++) {
        const bt_batch *batch = bt_stream_kept(train, k);
        for (int f = 0; batch && f < batch->field_count; f++)
            hash = bt_hash(hash, batch->fields[f].array.data, bt_array_bytes(batch->fields[f].array));
    }
    snprintf(text, 17, "%016" PRIx64, hash);
}

static void add_field(void *user, const char *prefix, const char *name, uint64_t hash)
{
    json_t **object = user;
    char *field = bt_string("%s%s%s", prefix, *prefix ? "." : "", name), text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    *object = bt_json_with(*object, field, json_string(text));
    bt_free(field);
}

/* {"image": "HASH", ...} of the training data; a problem that makes its batches itself has none. */
static json_t *data_json(const bt_problem *problem)
{
    json_t *object = json_object();
    if (problem->train)
        bt_loader_hash(problem->train->loader, add_field, &object);
    return object;
}

static json_t *problem_json(bt_problem *problem)
{
    const bt_stream *train = problem->train;
    char batches[17];
    batch_hash(problem, batches);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:I, s:o, s:I, s:I, s:I, s:b, s:s, s:o}", "name",
                     problem->name, "steps", (json_int_t)problem->steps, "logged", (json_int_t)problem->logged, "seen",
                     (json_int_t)problem->seen, "since", (json_int_t)problem->since, "calls",
                     (json_int_t)problem->calls, "inner_loop_start", problem->inner_loop_start, "ready",
                     ready_json(problem), "batches_per_epoch", (json_int_t)batches_of(problem), "data",
                     data_json(problem), "drawn", (json_int_t)(train ? bt_stream_position(train) : 0), "kept",
                     (json_int_t)(train ? train->kept_count : 0), "task", (json_int_t)(train ? train->task : 0),
                     "ahead", train && train->ahead, "batches", batches, "graphs", graphs_json(problem));
}

static json_t *metric_json(const bt_metric_row *row)
{
    return json_pack("{s:s, s:s, s:b, s:s, s:s, s:s, s:s, s:I}", "problem", row->problem->name, "name", row->name,
                     "valid", row->valid, "last", real_of(row->last).text, "interval", real_of(row->interval).text,
                     "sum", real_of(row->host_sum).text, "spread", real_of(row->host_spread).text, "count",
                     (json_int_t)row->host_count);
}

static json_t *problems_json(bt_engine *engine)
{
    json_t *list = json_array();
    for (int p = 0; p < engine->context.problem_count; p++)
        list = bt_json_append(list, problem_json(engine->context.problems[p]));
    return list;
}

static json_t *metrics_json(const bt_engine *engine)
{
    json_t *list = json_array();
    for (int i = 0; i < engine->context.metric_count; i++)
        list = bt_json_append(list, metric_json(engine->context.metrics[i]));
    return list;
}

static void add_setting(void *user, const char *section, const char *key, bt_key_kind kind, const char *value)
{
    (void)kind;
    json_t **object = user;
    bt_text name = {0};
    bt_text_add(&name, "%s.%s", section, key);
    *object = bt_json_with(*object, name.failed ? NULL : name.data, json_string(value));
    bt_text_free(&name);
}

/* {"classifier.lr": "0.1", ...} */
static json_t *config_json(const bt_engine *engine)
{
    json_t *object = json_object();
    if (bt_config_visit(engine->context.config, add_setting, &object) == BT_OK)
        return object;
    json_decref(object);
    return NULL;
}

/* As they are now: bt_set_dependency may have changed those of the configuration. */
static json_t *dependencies_json(const bt_engine *engine)
{
    static const char *const names[] = {[BT_U2L] = "u2l", [BT_L2U] = "l2u"};
    json_t *object = json_object();
    for (int direction = BT_U2L; direction <= BT_L2U; direction++) {
        bt_text text = {0};
        bt_config_print_edges(engine->context.config, (bt_direction)direction, &text);
        object = bt_json_with(object, names[direction], text.failed ? NULL : json_string(bt_text_get(&text)));
        bt_text_free(&text);
    }
    return object;
}

bt_status bt_record_rewire(bt_engine *engine, json_t *record)
{
    json_t *was = json_object_get(record, "dependencies"), *now = dependencies_json(engine);
    const char *u2l, *l2u;
    bt_status status = now ? BT_OK : BT_ERROR_MEMORY;
    if (status == BT_OK && json_unpack(was, "{s:s, s:s}", "u2l", &u2l, "l2u", &l2u) != 0)
        status = malformed();
    if (status == BT_OK && !json_equal(was, now))
        status = bt_rewire(engine, u2l, l2u, "the checkpoint");
    json_decref(now);
    return status;
}

json_t *bt_record_new(bt_engine *engine, int64_t metrics_length)
{
    const bt_standing *standing = &engine->standing;
    char backend[256];
    bt_engine_backend(engine, backend);
    json_t *length = metrics_length < 0 ? json_null() : json_integer(metrics_length);
    json_t *record = json_pack(
        "{s:o, s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "metrics_length", length, "backend", backend, "seconds",
        real_of(standing->seconds).text, "best", real_of(standing->best).text, "patience",
        (json_int_t)standing->patience, "touched", (json_int_t)standing->touched, "config", config_json(engine),
        "dependencies", dependencies_json(engine), "problems", problems_json(engine), "metrics", metrics_json(engine));
    if (!record)
        bt_fail(BT_ERROR_MEMORY, "a checkpoint's record: out of memory, or a name that is not UTF-8");
    return record;
}

/* ---- is it the same run? ---- */

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bt_status check_problems(bt_engine *engine, json_t *problems)
{
    bool same = json_array_size(problems) == (size_t)engine->context.problem_count;
    bt_text was = {0}, now = {0};
    for (size_t i = 0; i < json_array_size(problems); i++)
        bt_text_add(&was, i ? ", %s" : "%s", text_of(json_array_get(problems, i), "name"));
    bt_problem_list(&engine->context, &now);
    same = same && strcmp(bt_text_get(&was), bt_text_get(&now)) == 0;
    bt_status status = BT_OK;
    if (!same)
        status = bt_fail(BT_ERROR_CONFIG, "the checkpoint is of the problems %s; this run has %s", bt_text_get(&was),
                         bt_text_get(&now));
    bt_text_free(&was);
    bt_text_free(&now);
    return status;
}

/* Must a resumed run have the same value? "SECTION.KEY"; a group's section has a dot of its own. */
static bool matters(json_t *config, const char *setting)
{
    const char *key = strrchr(setting, '.') + 1;
    int length = (int)(key - setting - 1);
    bool group = memchr(setting, '.', (size_t)length) != NULL;
    bt_section_kind kind = strncmp(setting, "engine.", 7) == 0          ? BT_SECTION_ENGINE
                           : strncmp(setting, "dependencies.", 13) == 0 ? BT_SECTION_DEPENDENCIES
                           : group                                      ? BT_SECTION_GROUP
                                                                        : BT_SECTION_PROBLEM;
    const bt_key *row = bt_key_find(kind, key);
    if (row && row->resumable)
        return false;
    if (strcmp(key, "scheduler_t_max") != 0) /* which by default is train_iters, and only a cosine uses */
        return true;
    char *scheduler = bt_string("%.*s.scheduler", length, setting);
    bool cosine = !scheduler || strcmp(text_of(config, scheduler), "cosine") == 0;
    bt_free(scheduler);
    return cosine;
}

enum { TOLD = 8 }; /* differences that a message lists */

typedef struct differences {
    bt_text text;
    int count;
} differences;

static void differ(differences *d, const char *setting, const char *was, const char *now)
{
    if (d->count++ < TOLD)
        bt_text_add(&d->text, "%s%s was %s, is %s", d->text.size ? "; " : "", setting, was ? was : "not set",
                    now ? now : "not set");
}

static bt_status check_settings(const bt_engine *engine, json_t *was)
{
    json_t *now = config_json(engine), *value;
    const char *setting;
    differences d = {0};
    if (!now)
        return bt_fail(BT_ERROR_MEMORY, "out of memory");
    json_object_foreach(now, setting, value)
    {
        const char *before = json_string_value(json_object_get(was, setting));
        if (matters(now, setting) && (!before || strcmp(before, json_string_value(value)) != 0))
            differ(&d, setting, before, json_string_value(value));
    }
    json_object_foreach(was, setting, value)
    {
        if (strchr(setting, '.') && !json_object_get(now, setting) && matters(now, setting))
            differ(&d, setting, json_string_value(value), NULL);
    }
    if (d.count > TOLD)
        bt_text_add(&d.text, "; and %d more", d.count - TOLD);
    bt_status status = BT_OK;
    if (d.count)
        status = bt_fail(BT_ERROR_CONFIG, "the checkpoint is of a run with other settings: %s", bt_text_get(&d.text));
    bt_text_free(&d.text);
    json_decref(now);
    return status;
}

/* The fields that are not in both, or not with the same values. */
static void compare_fields(json_t *was, json_t *now, bt_text *text)
{
    const char *field;
    json_t *hash;
    json_object_foreach(now, field, hash)
    {
        json_t *before = json_object_get(was, field);
        if (!json_equal(before, hash))
            bt_text_add(text, "%s%s %s", text->size ? ", " : "", field, before ? "holds other values" : "is new");
    }
    json_object_foreach(was, field, hash)
    {
        if (!json_object_get(now, field))
            bt_text_add(text, "%s%s is gone", text->size ? ", " : "", field);
    }
}

static bt_status check_data(const bt_problem *problem, json_t *record)
{
    json_int_t batches;
    json_t *was;
    if (json_unpack(record, "{s:I, s:o}", "batches_per_epoch", &batches, "data", &was) != 0 || !json_is_object(was))
        return malformed();
    if (batches != batches_of(problem))
        return bt_fail(
            BT_ERROR_CONFIG,
            "%s: the checkpoint is of a run with other training data: an epoch was %lld batches long, is %lld",
            problem->name, (long long)batches, (long long)batches_of(problem));
    bt_text text = {0};
    json_t *now = data_json(problem);
    bt_status status = now ? BT_OK : bt_fail(BT_ERROR_MEMORY, "out of memory");
    compare_fields(was, now, &text);
    if (status == BT_OK && text.size)
        status = bt_fail(BT_ERROR_CONFIG, "%s: the checkpoint is of a run with other training data: the field %s",
                         problem->name, bt_text_get(&text));
    json_decref(now);
    bt_text_free(&text);
    return status;
}

bt_status bt_record_check(bt_engine *engine, json_t *record)
{
    json_t *config, *problems;
    if (json_unpack(record, "{s:o, s:o}", "config", &config, "problems", &problems) != 0 || !json_is_object(config) ||
        !json_is_array(problems))
        return malformed();
    BT_TRY(check_problems(engine, problems));
    BT_TRY(check_settings(engine, config));
    for (int p = 0; p < engine->context.problem_count; p++)
        BT_TRY(check_data(engine->context.problems[p], json_array_get(problems, (size_t)p)));
    return BT_OK;
}

bt_status bt_record_check_graphs(bt_engine *engine, json_t *record)
{
    if (strcmp(text_of(record, "format"), BT_CHECKPOINT_1) == 0) {
        bt_warn(&engine->context,
                "the checkpoint is of version %s, which tells programs apart by another hash: whether the "
                "callbacks record what they did is not checked",
                text_of(record, "version"));
        return BT_OK;
    }
    for (int p = 0; p < engine->context.problem_count; p++) {
        json_t *problem = json_array_get(json_object_get(record, "problems"), (size_t)p);
        for (int kind = 0; kind < BT_PURE_KINDS; kind++) {
            const char *was = json_string_value(json_array_get(json_object_get(problem, "graphs"), (size_t)kind));
            char now[17];
            graph_hash(engine->context.problems[p], kind, now);
            if (!was || strcmp(was, now) != 0)
                return bt_fail(BT_ERROR_CONFIG,
                               "%s: the checkpoint is of another problem: what %s records is not what it was, or what "
                               "it takes from the C side is not kept by bt_state",
                               engine->context.problems[p]->name, bt_pure_name(engine->context.problems[p], kind));
        }
    }
    return BT_OK;
}

/* ---- restoring ---- */

static bt_status restore_ready(bt_problem *problem, const json_t *ready)
{
    if (json_array_size(ready) != (size_t)problem->child_count)
        return malformed();
    for (int c = 0; c < problem->child_count; c++)
        problem->ready[c] = json_is_true(json_array_get(ready, (size_t)c));
    return BT_OK;
}

static bt_status restore_stream(bt_problem *problem, json_t *record)
{
    json_int_t drawn, kept, task;
    int ahead;
    const char *batches;
    char now[17];
    bt_stream *train = problem->train;
    if (json_unpack(record, "{s:I, s:I, s:I, s:b, s:s}", "drawn", &drawn, "kept", &kept, "task", &task, "ahead", &ahead,
                    "batches", &batches) != 0 ||
        kept < 0 || kept > drawn || kept > (train ? train->keep : 0))
        return malformed();
    if (!train)
        return BT_OK;
    train->task = task;
    BT_TRY(bt_stream_rewind(train, drawn, kept));
    train->ahead = ahead;
    batch_hash(problem, now);
    if (strcmp(now, batches) == 0)
        return BT_OK;
    return bt_fail(BT_ERROR_CONFIG,
                   "%s: the checkpoint is of a run with other training data: batch %lld is not what it was",
                   problem->name, (long long)(drawn - kept));
}

static bt_status restore_problem(bt_problem *problem, json_t *record)
{
    json_int_t steps, logged, seen, since, calls;
    int inner_loop_start;
    json_t *ready;
    if (json_unpack(record, "{s:I, s:I, s:I, s:I, s:I, s:b, s:o}", "steps", &steps, "logged", &logged, "seen", &seen,
                    "since", &since, "calls", &calls, "inner_loop_start", &inner_loop_start, "ready", &ready) != 0)
        return malformed();
    if (steps < 0 || seen < 0 || calls < 0 || calls >= problem->settings->meta_batch)
        return malformed();
    problem->steps = steps;
    problem->logged = logged;
    problem->seen = seen;
    problem->since = since;
    problem->calls = calls;
    problem->inner_loop_start = inner_loop_start;
    return restore_ready(problem, ready);
}

/* Those that take the batches of others (batch_of) after all that have their own. */
static bt_status restore_streams(bt_engine *engine, json_t *problems)
{
    for (int round = 0; round < 2; round++)
        for (int p = 0; p < engine->context.problem_count; p++)
            if ((engine->context.problems[p]->def->batch_of != NULL) == round)
                BT_TRY(restore_stream(engine->context.problems[p], json_array_get(problems, (size_t)p)));
    return BT_OK;
}

/* The rows in the order of the record, for that is the order in which they are reported. */
static bt_status restore_metric(bt_engine *engine, json_t *record, int place)
{
    const char *name, *metric, *last, *interval, *sum, *spread;
    int valid;
    json_int_t count;
    if (json_unpack(record, "{s:s, s:s, s:b, s:s, s:s, s:s, s:s, s:I}", "problem", &name, "name", &metric, "valid",
                    &valid, "last", &last, "interval", &interval, "sum", &sum, "spread", &spread, "count", &count) != 0)
        return malformed();
    bt_problem *problem = bt_problem_find(&engine->context, name);
    bt_metric_row *row = problem ? bt_metric_find(&engine->context, problem, metric, valid) : NULL;
    if (!row)
        return problem ? BT_ERROR_MEMORY : malformed();
    row->last = real_read(last);
    row->interval = real_read(interval);
    row->host_sum = real_read(sum);
    row->host_spread = real_read(spread);
    row->host_count = count;
    for (int i = place; i < engine->context.metric_count; i++)
        if (engine->context.metrics[i] == row) {
            engine->context.metrics[i] = engine->context.metrics[place];
            engine->context.metrics[place] = row;
            return BT_OK;
        }
    return malformed(); /* it stands there twice */
}

bt_status bt_record_restore(bt_engine *engine, json_t *record)
{
    const char *seconds, *best;
    json_int_t step, patience, touched;
    json_t *problems, *metrics;
    if (json_unpack(record, "{s:I, s:s, s:s, s:I, s:I, s:o, s:o}", "step", &step, "seconds", &seconds, "best", &best,
                    "patience", &patience, "touched", &touched, "problems", &problems, "metrics", &metrics) != 0 ||
        !json_is_array(metrics) || step < 0 || touched < 0)
        return malformed();
    engine->context.step = step;
    engine->standing = (bt_standing){
        .seconds = real_read(seconds), .best = real_read(best), .patience = patience, .touched = (size_t)touched};
    for (int p = 0; p < engine->context.problem_count; p++)
        BT_TRY(restore_problem(engine->context.problems[p], json_array_get(problems, (size_t)p)));
    BT_TRY(restore_streams(engine, problems));
    for (size_t i = 0; i < json_array_size(metrics); i++)
        BT_TRY(restore_metric(engine, json_array_get(metrics, i), (int)i));
    return BT_OK;
}
