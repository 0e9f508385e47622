/* engine/ablation/table.c: the results, as text and as Markdown. */
#include "engine/ablation/ablation_inside.h"
#include "engine/output/sheet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double bt_ablation_sum(const json_t *bytes)
{
    return bt_json_read_number(bytes, "arena") + bt_json_read_number(bytes, "persistent");
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

bt_ablation_times bt_ablation_times_of(const json_t *row)
{
    enum { MOST = 64 };
    double values[MOST];
    const json_t *numbers = json_object_get(row, "ms_per_step");
    const size_t all = json_array_size(numbers), count = all < MOST ? all : MOST;
    for (size_t i = 0; i < count; i++)
        values[i] = json_number_value(json_array_get(numbers, i));
    qsort(values, count, sizeof *values, compare);
    if (!count)
        return (bt_ablation_times){NAN, NAN, NAN};
    return (bt_ablation_times){values[0], (values[(count - 1) / 2] + values[count / 2]) / 2, values[count - 1]};
}

/* ---- cells; a missing value is an empty cell, and a column of empty cells is left out ---- */

static void add_number(bt_text *text, const char *format, double value)
{
    char digits[64];
    snprintf(digits, sizeof digits, format, value);
    bt_text_add(text, "%s", isfinite(value) ? digits : "");
}

static void cell_name(const json_t *row, const json_t *first, bt_text *text)
{
    (void)first;
    bt_text_add(text, "%s", bt_json_read_text(row, "row"));
}

static void cell_planned(const json_t *row, const json_t *first, bt_text *text)
{
    (void)first;
    add_number(text, "%.0f", bt_ablation_sum(json_object_get(row, "planned_bytes")));
}

static void cell_change(const json_t *row, const json_t *first, bt_text *text)
{
    const double before = bt_ablation_sum(json_object_get(first, "planned_bytes"));
    const double now = bt_ablation_sum(json_object_get(row, "planned_bytes"));
    add_number(text, row == first || now == before ? "0 %%" : "%+.1f %%", 100 * (now - before) / before);
}

static void cell_measured(const json_t *row, const json_t *first, bt_text *text)
{
    (void)first;
    add_number(text, "%.0f", bt_ablation_sum(json_object_get(row, "measured_bytes")));
}

static void cell_time(const json_t *row, const json_t *first, bt_text *text)
{
    const bt_ablation_times times = bt_ablation_times_of(row);
    (void)first;
    add_number(text, "%.3g", times.middle);
    add_number(text, " ± %.2g", (times.high - times.low) / 2);
}

/* Uses the shortest round, because other programs on the machine can only make a round longer. */
static void cell_ratio(const json_t *row, const json_t *first, bt_text *text)
{
    add_number(text, "%.2f", bt_ablation_times_of(row).low / bt_ablation_times_of(first).low);
}

static void cell_examples(const json_t *row, const json_t *first, bt_text *text)
{
    (void)first;
    add_number(text, "%.0f", 1e3 * bt_json_read_number(row, "examples_per_step") / bt_ablation_times_of(row).middle);
}

static void cell_work(const json_t *row, const json_t *first, bt_text *text)
{
    add_number(text, "%.2f", bt_json_read_number(row, "work_per_step") / bt_json_read_number(first, "work_per_step"));
}

static void cell_gradient(const json_t *row, const json_t *first, bt_text *text)
{
    const json_t *gradient = json_object_get(row, "gradient");
    (void)first;
    if (json_is_true(json_object_get(gradient, "same_bits"))) {
        bt_text_add(text, "same bits");
    } else if (json_is_object(gradient)) {
        add_number(text, "%.2g", bt_json_read_number(gradient, "error"));
        add_number(text, ", cos %.6f", bt_json_read_number(gradient, "cosine"));
    }
}

static void cell_loss(const json_t *row, const json_t *first, bt_text *text)
{
    (void)first;
    add_number(text, "%.6g", bt_json_read_number(json_object_get(row, "loss"), "value"));
}

static void cell_validation(const json_t *row, const json_t *first, bt_text *text)
{
    (void)first;
    add_number(text, "%.6g", bt_json_read_number(json_object_get(row, "validation"), "value"));
}

typedef struct column {
    const char *header;
    void (*cell)(const json_t *row, const json_t *first, bt_text *text);
} column;

static const column columns[] = {
    {"row", cell_name},
    {"planned bytes", cell_planned},
    {"change", cell_change},
    {"measured", cell_measured},
    {"ms a step", cell_time},
    {"ratio", cell_ratio},
    {"examples/s", cell_examples},
    {"work", cell_work},
    {"hypergradient", cell_gradient},
    {"loss", cell_loss},
    {"validation", cell_validation},
};

/* ---- the table ---- */

/* Explains the headers, if something was measured. */
static void add_legend(const json_t *first, bt_text *text)
{
    const json_t *loss = json_object_get(first, "loss"), *validation = json_object_get(first, "validation");
    const double steps = bt_json_read_number(first, "steps");
    if (isnan(steps))
        return;
    bt_text_add(text, "\nratio: the shortest of the rounds, relative to that of the run as configured\nhypergradient: "
                      "the first one, compared with that of the run as configured: relative error, cosine\nwork: "
                      "planned operations of a step, relative to the run as configured\n");
    if (json_is_object(loss))
        bt_text_add(text, "loss: %s of step %.0f\n", bt_json_read_text(loss, "name"), steps);
    if (json_is_object(validation))
        bt_text_add(text, "validation: %s after step %.0f\n", bt_json_read_text(validation, "name"), steps);
}

static void fill_row(bt_sheet *sheet, int64_t place, const json_t *row, const json_t *first)
{
    const char *why = json_string_value(json_object_get(row, "failed"));
    for (int k = 0; k < BT_COUNT_OF(columns); k++)
        columns[k].cell(row, first, bt_sheet_cell(sheet, place, k));
    if (why)
        bt_text_add(bt_sheet_note(sheet, place), "failed: %s", why);
}

void bt_ablation_table(const json_t *all, bool markdown, bt_text *text)
{
    const json_t *rows = json_object_get(all, "rows"), *first = json_array_get(rows, 0);
    const int64_t count = (int64_t)json_array_size(rows);
    bt_sheet *sheet = bt_sheet_new(count, BT_COUNT_OF(columns));
    for (int k = 0; sheet && k < BT_COUNT_OF(columns); k++)
        bt_text_add(bt_sheet_cell(sheet, 0, k), "%s", columns[k].header);
    for (int64_t i = 0; sheet && i < count; i++)
        fill_row(sheet, i + 1, json_array_get(rows, (size_t)i), first);
    bt_sheet_add(sheet, markdown, text);
    bt_sheet_free(sheet);
    add_legend(first, text);
}
