/* engine/grid/table.c: the results, as text and as Markdown. */
#include "engine/grid/grid_inside.h"
#include "engine/output/sheet.h"

#include <math.h>
#include <string.h>

void bt_grid_why(const json_t *all, const json_t *row, bt_text *text)
{
    const json_t *runs = json_object_get(all, "runs");
    if (bt_json_read_number(row, "finished") > 0)
        return;
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        if (bt_grid_in_row(run, row) && strcmp(bt_json_read_text(run, "state"), "failed") == 0) {
            bt_text_add(text, "failed: %s", bt_json_read_text(run, "failed"));
            return;
        }
    }
    bt_text_add(text, "not finished");
}

/* ---- numbers ---- */

/* Prints the digits that are meaningful given the deviation: two of its own. */
static void add_number(bt_text *text, double value, double deviation)
{
    const double size = fmax(fabs(value), deviation);
    const int place = deviation > 0 ? (int)floor(log10(deviation)) : 0;
    if (!(deviation > 0) || place < -12)
        bt_text_add(text, "%.6g", value);
    else if (size >= 1e7 || size < 1e-4)
        bt_text_add(text, "%.*e", (int)floor(log10(size)) - place + 1, value);
    else
        bt_text_add(text, "%.*f", place < 1 ? 1 - place : 0, value);
}

static void add_spread(bt_text *text, const json_t *spread)
{
    const double mean = bt_json_read_number(spread, "mean"), deviation = bt_json_read_number(spread, "deviation");
    if (isnan(mean))
        return;
    add_number(text, mean, deviation);
    if (isnan(deviation))
        return;
    bt_text_add(text, " ± ");
    if (deviation > 0)
        add_number(text, deviation, deviation);
    else
        bt_text_add(text, "0");
}

static void add_ends(bt_text *text, const json_t *spread)
{
    const double deviation = bt_json_read_number(spread, "deviation");
    if (isnan(deviation))
        return;
    add_number(text, bt_json_read_number(spread, "least"), deviation);
    bt_text_add(text, " … ");
    add_number(text, bt_json_read_number(spread, "greatest"), deviation);
}

/* ---- the tables ---- */

static void add_counts(bt_text *text, double finished, double runs)
{
    bt_text_add(text, finished == runs ? "%.0f" : "%.0f of %.0f", finished, runs);
}

static void fill_cell(bt_text *text, const json_t *row, const char *name, bool ends)
{
    const json_t *spread = json_object_get(json_object_get(row, "metrics"), name);
    const double n = bt_json_read_number(spread, "n");
    if (!spread)
        return;
    if (ends)
        add_ends(text, spread);
    else
        add_spread(text, spread);
    if (n < bt_json_read_number(row, "finished")) /* the others are not finite */
        bt_text_add(text, " (of %.0f)", n);
}

static void add_sheet(const json_t *all, const json_t *names, bool ends, bool markdown, bt_text *text)
{
    const json_t *rows = json_object_get(all, "rows");
    const int64_t count = (int64_t)json_array_size(rows), columns = (int64_t)json_array_size(names);
    bt_sheet *sheet = bt_sheet_new(count, columns + 2);
    for (int64_t k = 0; sheet && k < columns; k++)
        bt_text_add(bt_sheet_cell(sheet, 0, k + 2), "%s", json_string_value(json_array_get(names, (size_t)k)));
    if (sheet) {
        bt_text_add(bt_sheet_cell(sheet, 0, 0), ends ? "least … greatest" : "mean ± deviation");
        bt_text_add(bt_sheet_cell(sheet, 0, 1), "runs");
    }
    for (int64_t i = 0; sheet && i < count; i++) {
        const json_t *row = json_array_get(rows, (size_t)i);
        bt_text_add(bt_sheet_cell(sheet, i + 1, 0), "%s", bt_json_read_text(row, "row"));
        add_counts(bt_sheet_cell(sheet, i + 1, 1), bt_json_read_number(row, "finished"),
                   bt_json_read_number(row, "runs"));
        if (!ends)
            bt_grid_why(all, row, bt_sheet_note(sheet, i + 1));
        for (int64_t k = 0; k < columns; k++)
            fill_cell(bt_sheet_cell(sheet, i + 1, k + 2), row, json_string_value(json_array_get(names, (size_t)k)),
                      ends);
    }
    bt_sheet_add(sheet, markdown, text);
    bt_sheet_free(sheet);
}

static bool has_deviation(const json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (bt_json_read_number(json_array_get(rows, i), "finished") > 1)
            return true;
    return false;
}

static void add_failures(const json_t *all, bool markdown, bt_text *text)
{
    const json_t *runs = json_object_get(all, "runs");
    bool any = false;
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        if (strcmp(bt_json_read_text(run, "state"), "failed") != 0)
            continue;
        bt_text_add(text, "%s%s%s: failed: %s\n", any ? "" : "\n", markdown ? "- " : "", bt_json_read_text(run, "run"),
                    bt_json_read_text(run, "failed"));
        any = true;
    }
}

void bt_grid_table(const json_t *all, bool markdown, bt_text *text)
{
    const json_t *rows = json_object_get(all, "rows");
    json_t *names = bt_grid_metrics(rows);
    const bool several = has_deviation(rows);
    add_sheet(all, names, false, markdown, text);
    if (several) {
        bt_text_add(text, "\n");
        add_sheet(all, names, true, markdown, text);
        bt_text_add(text, "\ndeviation: the standard deviation over the n finished runs of a row, with n - 1\n");
    }
    add_failures(all, markdown, text);
    text->failed = text->failed || !names;
    json_decref(names);
}

/* ---- of a plan ---- */

void bt_grid_plan_table(const json_t *all, bt_text *text)
{
    static const char *const headers[] = {"planned bytes", "kept for the run", "arena", "together"};
    const json_t *runs = json_object_get(all, "runs");
    const int64_t count = (int64_t)json_array_size(runs);
    bt_sheet *sheet = bt_sheet_new(count, BT_COUNT_OF(headers));
    for (int k = 0; sheet && k < BT_COUNT_OF(headers); k++)
        bt_text_add(bt_sheet_cell(sheet, 0, k), "%s", headers[k]);
    for (int64_t i = 0; sheet && i < count; i++) {
        const json_t *run = json_array_get(runs, (size_t)i), *bytes = json_object_get(run, "planned_bytes");
        const double arena = bt_json_read_number(bytes, "arena"), kept = bt_json_read_number(bytes, "persistent");
        bt_grid_label(json_object_get(run, "settings"), bt_sheet_cell(sheet, i + 1, 0));
        if (!bytes) {
            bt_text_add(bt_sheet_note(sheet, i + 1), "failed: %s", bt_json_read_text(run, "failed"));
            continue;
        }
        bt_text_add(bt_sheet_cell(sheet, i + 1, 1), "%.0f", kept);
        bt_text_add(bt_sheet_cell(sheet, i + 1, 2), "%.0f", arena);
        bt_text_add(bt_sheet_cell(sheet, i + 1, 3), "%.0f", kept + arena);
    }
    bt_sheet_add(sheet, false, text);
    bt_sheet_free(sheet);
}
