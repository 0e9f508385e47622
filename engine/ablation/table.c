/* engine/ablation/table.c: what has come out, as text and as Markdown. */
#include "engine/ablation/ablation_inside.h"

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

/* ---- cells; a value that is missing is an empty cell, and a column of these is left out ---- */

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

/* Other programs on the machine make no round shorter. */
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
enum { COLUMNS = BT_COUNT_OF(columns) };

/* ---- the table ---- */

/* As a terminal shows it: characters, not bytes. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* One line of text, without what would end a cell. */
static void add_plain(bt_text *text, const char *words, bool markdown)
{
    for (; *words; words++)
        bt_text_add(text, markdown && *words == '|' ? "\\%c" : "%c", (unsigned char)*words < ' ' ? ' ' : *words);
}

static void add_cell(bt_text *text, int column, const char *words, int width, bool markdown)
{
    const int blanks = width - width_of(words);
    bt_text_add(text, "%s%*s", markdown ? (column ? " | " : "| ") : column ? "  " : "", column ? blanks : 0, "");
    add_plain(text, words, markdown);
    bt_text_add(text, "%*s", column ? 0 : blanks, "");
}

typedef struct cells {
    const json_t *rows, *first;
    int width[COLUMNS]; /* 0: the column is empty */
    bool markdown;
    bt_text *text;
} cells;

static void measure(cells *c)
{
    for (int k = 0; k < COLUMNS; k++) {
        bt_text text = {0};
        for (size_t i = 0; i < json_array_size(c->rows); i++) {
            text.size = 0;
            bt_text_add(&text, "%s", "");
            columns[k].cell(json_array_get(c->rows, i), c->first, &text);
            const int width = width_of(bt_text_get(&text));
            c->width[k] = width > c->width[k] ? width : c->width[k];
        }
        const int width = width_of(columns[k].header);
        if (c->width[k] && width > c->width[k])
            c->width[k] = width;
        c->text->failed = c->text->failed || text.failed;
        bt_text_free(&text);
    }
}

/* row NULL: the headers. */
static void add_row(const cells *c, const json_t *row)
{
    const char *why = json_string_value(json_object_get(row, "failed"));
    for (int k = 0; k < COLUMNS; k++) {
        bt_text cell = {0};
        if (!c->width[k] || (why && k > 0))
            continue;
        if (row)
            columns[k].cell(row, c->first, &cell);
        else
            bt_text_add(&cell, "%s", columns[k].header);
        add_cell(c->text, k, bt_text_get(&cell), c->width[k], c->markdown);
        bt_text_free(&cell);
    }
    if (why) {
        bt_text_add(c->text, c->markdown ? " | failed: " : "  failed: ");
        add_plain(c->text, why, c->markdown);
    }
    bt_text_add(c->text, c->markdown ? " |\n" : "\n");
}

/* What the headers mean, where something was measured. */
static void add_legend(const cells *c)
{
    const json_t *loss = json_object_get(c->first, "loss"), *validation = json_object_get(c->first, "validation");
    const double steps = bt_json_read_number(c->first, "steps");
    if (isnan(steps))
        return;
    bt_text_add(c->text, "\nratio: the shortest of the rounds, against that of the run as configured\n"
                         "hypergradient: the first one, against that of the run as configured: relative error, cosine\n"
                         "work: planned operations of a step, against the run as configured\n");
    if (json_is_object(loss))
        bt_text_add(c->text, "loss: %s of step %.0f\n", bt_json_read_text(loss, "name"), steps);
    if (json_is_object(validation))
        bt_text_add(c->text, "validation: %s after step %.0f\n", bt_json_read_text(validation, "name"), steps);
}

void bt_ablation_table(const json_t *all, bool markdown, bt_text *text)
{
    cells c = {.rows = json_object_get(all, "rows"), .markdown = markdown, .text = text};
    c.first = json_array_get(c.rows, 0);
    measure(&c);
    add_row(&c, NULL);
    for (int k = 0; markdown && k < COLUMNS; k++)
        if (c.width[k])
            bt_text_add(text, k ? "--: |" : "| --- |");
    bt_text_add(text, markdown ? "\n" : "");
    for (size_t i = 0; i < json_array_size(c.rows); i++)
        add_row(&c, json_array_get(c.rows, i));
    add_legend(&c);
}
