/* engine/ablation/ablate.c: runs the rounds through all rows. */
#include "engine/ablation/ablation_inside.h"

#include "base/version.h"
#include "engine/output/ticker.h"
#include <math.h>
#include <string.h>

enum { ROUNDS = 3 };

typedef struct ablating {
    const bt_ablation *ablation;
    FILE *reference; /* holds the first hypergradients */
    bt_region *region;
    json_t *all, *list;    /* the content of ablation.json; its rows (not owned) */
    json_t *choices;       /* owns the text of the rows */
    bt_ablation_rows rows; /* empty until the first child has reported the choices */
    bt_output *output;     /* the folder; NULL: none */
    bt_turn turn;          /* the current turn */
    int64_t row, step;     /* of the current turn: its row, the last step reported */
    int round;
    bool mismatch;
    bt_ticker ticker;
} ablating;

/* ---- progress ---- */

static void show(ablating *a)
{
    bt_text line = {0};
    if (!a->ablation->plan)
        bt_text_add(&line, "round %d/%d  ", a->round + 1, ROUNDS);
    if (a->rows.count)
        bt_text_add(&line, "row %lld/%lld  ", (long long)a->row + 1, (long long)a->rows.count);
    bt_text_add(&line, "%s", a->rows.count ? a->rows.list[a->row].name : "as configured");
    if (a->step)
        bt_text_add(&line, "  step %lld", (long long)a->step);
    bt_ticker_show(&a->ticker, bt_text_get(&line));
    bt_text_free(&line);
}

/* Erases the line on a terminal; elsewhere prints a line for each turn. */
static void show_end(ablating *a, const char *why)
{
    const double ms = bt_ablation_times_of(json_array_get(a->list, (size_t)a->row)).middle;
    bt_ticker_erase(&a->ticker);
    if (a->ticker.terminal || !a->rows.count || a->ablation->plan)
        return;
    if (*why)
        bt_ticker_say(&a->ticker, "round %d/%d  %s: failed", a->round + 1, ROUNDS, a->rows.list[a->row].name);
    else
        bt_ticker_say(&a->ticker, "round %d/%d  %s: %.4g ms a step", a->round + 1, ROUNDS, a->rows.list[a->row].name,
                      ms);
}

/* ---- messages from children ---- */

static json_t *changes_json(const bt_ablation_row *row)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < row->count; i++)
        list = bt_json_append(list, json_pack("{s:s, s:s, s:s}", "level", row->choices[i]->level, "key",
                                              row->choices[i]->key, "value", row->choices[i]->value));
    return list;
}

/* The first child has reported what can be tried. */
static bt_status begin_rows(ablating *a, json_t *line)
{
    a->choices = json_incref(json_object_get(line, "choices"));
    const bt_choice *choices = bt_choices_read(a->region, a->choices);
    if (!choices)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_rows_make(choices, (int64_t)json_array_size(a->choices), &a->rows));
    for (int64_t i = 0; i < a->rows.count; i++)
        if (json_array_append_new(a->list, json_pack("{s:s, s:o}", "row", a->rows.list[i].name, "changes",
                                                     changes_json(&a->rows.list[i]))) != 0)
            return bt_fail(BT_ERROR_MEMORY, "out of memory");
    a->turn.row = a->rows.list;
    const char *stem = bt_json_read_text(line, "stem"), *wanted = a->ablation->folder;
    char *name = bt_string("%s-ablation", stem);
    bt_status status = name && json_object_set_new(a->all, "name", json_string(stem)) == 0 ? BT_OK : BT_ERROR_MEMORY;
    if (status == BT_OK && (wanted || !a->ablation->plan))
        status = bt_output_make(wanted, name, &a->output);
    bt_free(name);
    return status == BT_ERROR_FILE ? BT_ERROR_CONFIG : status;
}

/* Keeps the time of every round, but only the last value of everything else. */
static bt_status take_result(ablating *a, json_t *row, json_t *result)
{
    json_t *times = json_object_get(row, "ms_per_step"), *ms = json_object_get(result, "ms_per_step");
    json_t *planned = json_object_get(result, "planned_bytes"), *measured = json_object_get(result, "measured_bytes");
    const bool matches = json_equal(planned, measured);
    times = times ? json_incref(times) : json_array();
    if (json_array_append(times, ms) != 0 || json_object_update(row, result) != 0 ||
        json_object_set_new(row, "ms_per_step", times) != 0)
        return bt_fail(BT_ERROR_MEMORY, "out of memory");
    if (a->turn.first)
        a->turn.steps = (int64_t)bt_json_read_number(result, "steps");
    if (!json_is_false(json_object_get(row, "matches")) &&
        json_object_set_new(row, "matches", json_boolean(matches)) != 0)
        return bt_fail(BT_ERROR_MEMORY, "out of memory");
    a->mismatch = a->mismatch || !matches;
    return BT_OK;
}

static bt_status hear(void *user, json_t *line)
{
    ablating *a = user;
    json_t *plan = json_object_get(line, "plan"), *result = json_object_get(line, "result");
    if (plan && !a->rows.count)
        BT_TRY(begin_rows(a, line));
    json_t *row = json_array_get(a->list, (size_t)a->row);
    if (plan && json_object_update(row, plan) != 0)
        return bt_fail(BT_ERROR_MEMORY, "out of memory");
    if (result)
        return take_result(a, row, result);
    if (json_object_get(line, "step"))
        a->step = (int64_t)bt_json_read_number(line, "step");
    return BT_OK;
}

static bt_status run(void *user, FILE *tell)
{
    const ablating *a = user;
    return bt_turn_take(&a->turn, tell);
}

/* ---- turns ---- */

static bt_status fail_row(ablating *a, bt_status failed, const char *why)
{
    if (!a->rows.count || a->row == 0)
        return bt_fail(failed, "%s", why);
    json_t *row = json_array_get(a->list, (size_t)a->row);
    return json_object_set_new(row, "failed", bt_json_string(why)) == 0 ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status wait_for(ablating *a, bt_process *child)
{
    bt_process *ended = NULL;
    BT_TRY(bt_process_start(child));
    while (!ended) {
        BT_TRY(bt_process_listen(&child, 1, &ended));
        if (a->ablation->stop && *a->ablation->stop)
            return BT_ERROR_INTERRUPTED;
        show(a);
    }
    return BT_OK;
}

static bt_status take_turn(ablating *a)
{
    bt_process child = {.run = run, .hear = hear, .user = a};
    a->step = 0;
    a->turn.first = a->round == 0 && a->row == 0;
    a->turn.row = a->rows.count ? &a->rows.list[a->row] : NULL;
    show(a);
    bt_status status = wait_for(a, &child);
    show_end(a, bt_text_get(&child.why));
    if (status == BT_OK && child.failed != BT_OK)
        status = fail_row(a, child.failed, bt_text_get(&child.why));
    bt_process_free(&child);
    return status;
}

static bool has_failed(const ablating *a)
{
    return json_object_get(json_array_get(a->list, (size_t)a->row), "failed") != NULL;
}

/* The number of rows is known after the first turn. */
static bt_status take_round(ablating *a)
{
    for (a->row = 0; a->row == 0 || a->row < a->rows.count; a->row++)
        if (!has_failed(a))
            BT_TRY(take_turn(a));
    return BT_OK;
}

/* ---- output ---- */

static bt_status write_text(const ablating *a, const char *name, const bt_text *text)
{
    if (text->failed)
        return BT_ERROR_MEMORY;
    return bt_output_write(a->output->path, name, bt_text_get(text), (size_t)text->size);
}

static bt_status write_files(const ablating *a)
{
    bt_text table = {0}, picture = {0};
    if (!a->output)
        return BT_OK;
    bt_status status = bt_json_write(a->output->path, "ablation.json", a->all, JSON_INDENT(2));
    bt_ablation_table(a->all, true, &table);
    if (status == BT_OK)
        status = write_text(a, "ablation.md", &table);
    if (status == BT_OK)
        status = bt_ablation_picture(a->all, &picture);
    if (status == BT_OK)
        status = write_text(a, "ablation.svg", &picture);
    bt_text_free(&table);
    bt_text_free(&picture);
    return status;
}

static bt_status print(const ablating *a)
{
    FILE *out = a->ablation->out;
    bt_text table = {0};
    if (a->ablation->json)
        return bt_json_print(a->all, out);
    bt_ablation_table(a->all, false, &table);
    fprintf(out, "%s", bt_text_get(&table));
    if (a->output)
        fprintf(out, "\n%s: ablation.json, ablation.md, ablation.svg\n", a->output->path);
    bt_status status = table.failed ? BT_ERROR_MEMORY : BT_OK;
    bt_text_free(&table);
    return status;
}

static bt_status say_mismatch(const ablating *a)
{
    for (size_t i = 0; i < json_array_size(a->list); i++) {
        const json_t *row = json_array_get(a->list, i);
        if (json_is_false(json_object_get(row, "matches")))
            return bt_fail(BT_ERROR_INTERNAL, "%s: %.0f bytes were planned, %.0f measured",
                           bt_json_read_text(row, "row"), bt_ablation_sum(json_object_get(row, "planned_bytes")),
                           bt_ablation_sum(json_object_get(row, "measured_bytes")));
    }
    return BT_OK;
}

static bt_status all_rounds(ablating *a)
{
    const int rounds = a->ablation->plan ? 1 : ROUNDS;
    for (a->round = 0; a->round < rounds; a->round++) {
        BT_TRY(take_round(a));
        BT_TRY(write_files(a));
    }
    return BT_OK;
}

static bt_status ablate(ablating *a)
{
    bt_status status = all_rounds(a);
    if (status != BT_OK && (status != BT_ERROR_INTERRUPTED || !a->rows.count))
        return status;
    if (json_object_set_new(a->all, "interrupted", json_boolean(status == BT_ERROR_INTERRUPTED)) != 0)
        return bt_fail(BT_ERROR_MEMORY, "out of memory");
    BT_TRY(write_files(a));
    BT_TRY(print(a));
    return status == BT_OK ? say_mismatch(a) : bt_fail(status, "interrupted");
}

bt_status bt_ablate(const bt_ablation *ablation)
{
    if (!ablation || !ablation->load || !ablation->out)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_ablate: an argument is NULL");
    ablating a = {.ablation = ablation,
                  .ticker = bt_ticker_on(ablation->progress),
                  .reference = tmpfile(),
                  .region = bt_region_new(),
                  .list = json_array()};
    a.all = json_pack("{s:s, s:o}", "version", BT_VERSION, "rows", a.list);
    a.turn =
        (bt_turn){.ablation = ablation, .steps = ablation->steps, .reference = a.reference ? fileno(a.reference) : -1};
    bt_status status = !a.reference
                           ? bt_fail(BT_ERROR_FILE, "cannot create a temporary file for the first hypergradient")
                       : a.region && a.all ? ablate(&a)
                                           : BT_ERROR_MEMORY;
    if (a.reference)
        fclose(a.reference);
    bt_output_free(a.output);
    bt_rows_free(&a.rows);
    json_decref(a.choices);
    json_decref(a.all);
    bt_region_free(a.region);
    return status;
}
