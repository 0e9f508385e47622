/* engine/compare/compare.c: what differs between runs, and between two of them as text. */
#include "engine/compare/compare.h"

#include <math.h>
#include <string.h>

enum { NAME = 100, VALUE = 200 }; /* bytes shown, at most */

/* ---- rows ---- */

/* The settings, the code or the results of each run. */
typedef json_t *part_fn(const bt_compared *run);
static json_t *settings_of(const bt_compared *run) { return run->settings; }
static json_t *code_of(const bt_compared *run) { return run->code; }
static json_t *results_of(const bt_compared *run) { return run->results; }

static bool is_before(const bt_compared *runs, size_t count, part_fn *part, const char *name)
{
    for (size_t k = 0; k < count; k++)
        if (json_object_get(part(&runs[k]), name))
            return true;
    return false;
}

static bool differs(const bt_compared *runs, size_t count, part_fn *part, const char *name)
{
    const json_t *first = json_object_get(part(&runs[0]), name);
    for (size_t k = 1; k < count; k++) {
        const json_t *value = json_object_get(part(&runs[k]), name);
        if (value ? !first || !json_equal(value, first) : first != NULL)
            return true;
    }
    return false;
}

static json_t *values_of(const bt_compared *runs, size_t count, part_fn *part, const char *name)
{
    json_t *values = json_array();
    for (size_t k = 0; k < count; k++) {
        json_t *value = json_object_get(part(&runs[k]), name);
        values = bt_json_append(values, value ? json_incref(value) : json_null());
    }
    return values;
}

/* Rows in the order of the first run, then those that only later runs have. all: equal rows, too. */
static json_t *rows_of(const bt_compared *runs, size_t count, part_fn *part, bool all)
{
    json_t *rows = json_array(), *value;
    const char *name;
    for (size_t k = 0; k < count; k++)
        json_object_foreach(part(&runs[k]), name, value)
        {
            if (!is_before(runs, k, part, name) && (all || differs(runs, count, part, name)))
                rows = bt_json_append(rows, json_pack("{s:o, s:o}", "name", bt_json_string(name), "values",
                                                      values_of(runs, count, part, name)));
        }
    return rows;
}

json_t *bt_compare_runs(const char *const *names, const bt_compared *runs, size_t count)
{
    json_t *list = json_array();
    bool known = true;
    for (size_t k = 0; k < count; k++) {
        list = bt_json_append(list, bt_json_string(names[k]));
        known = known && runs[k].code;
    }
    json_t *code = known ? rows_of(runs, count, code_of, false) : json_null();
    return json_pack("{s:o, s:o, s:o, s:o}", "runs", list, "configuration", rows_of(runs, count, settings_of, false),
                     "code", code, "results", rows_of(runs, count, results_of, true));
}

json_t *bt_compare(const char *one, const char *other)
{
    bt_compared runs[2] = {{0}, {0}};
    json_t *compared = NULL;
    if (!one || !other) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_compare: two folders are needed");
    } else if (bt_compared_read(one, NULL, NULL, &runs[0]) == BT_OK &&
               bt_compared_read(other, NULL, NULL, &runs[1]) == BT_OK) {
        compared = bt_compare_runs((const char *const[]){one, other}, runs, 2);
        if (!compared)
            bt_fail(BT_ERROR_MEMORY, "no memory to compare %s and %s", one, other);
    } else {
        bt_error_context("--compare");
    }
    bt_compared_free(&runs[0]);
    bt_compared_free(&runs[1]);
    return compared;
}

/* ---- as text ---- */

static void add_value(const json_t *value, bt_text *text)
{
    char shown[VALUE + 1];
    if (json_is_integer(value))
        bt_text_add(text, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        bt_text_add(text, "%.6g", json_real_value(value));
    else if (json_is_string(value)) {
        bt_show_controls(shown, sizeof shown, json_string_value(value));
        bt_text_add(text, "%s", shown);
    } else
        bt_text_add(text, "%s", json_is_true(value) ? "true" : json_is_false(value) ? "false" : "-");
}

/* Adds the difference, after `blanks` blanks. */
static void add_difference(const json_t *one, const json_t *other, int blanks, bt_text *text)
{
    if (!json_is_number(one) || !json_is_number(other))
        return;
    const double a = json_number_value(one), b = json_number_value(other);
    bt_text_add(text, "%*s", blanks + 2, "");
    if (a == b)
        bt_text_add(text, "=");
    else
        bt_text_add(text, "%+.3g", b - a);
    if (a != b && a > 0 && b > 0 && fabs(b / a - 1) >= 0.001)
        bt_text_add(text, " (%+.1f %%)", 100 * (b / a - 1));
}

static int columns(const char *words) /* in UTF-8 */
{
    int count = 0;
    for (; *words; words++)
        count += ((unsigned char)*words & 0xC0) != 0x80;
    return count;
}

static void add_padded(const char *words, int width, bt_text *text)
{
    bt_text_add(text, "  %s%*s", words, width - columns(words), "");
}

static void widen(int *width, const char *words)
{
    const int now = columns(words);
    *width = now > *width ? now : *width;
}

/* Makes each column as wide as its longest value. */
static void add_rows(json_t *rows, bool numbers, bt_text *text)
{
    size_t i;
    json_t *row;
    int widths[3] = {0};
    for (int pass = 0; pass < 2; pass++)
        json_array_foreach(rows, i, row)
        {
            const json_t *values = json_object_get(row, "values");
            char name[NAME + 1];
            bt_show_controls(name, sizeof name, json_string_value(json_object_get(row, "name")));
            bt_text cells[2] = {{0}, {0}};
            for (size_t k = 0; k < 2; k++)
                add_value(json_array_get(values, k), &cells[k]);
            if (pass == 0) {
                widen(&widths[0], name);
                widen(&widths[1], bt_text_get(&cells[0]));
                widen(&widths[2], bt_text_get(&cells[1]));
            } else {
                add_padded(name, widths[0], text);
                add_padded(bt_text_get(&cells[0]), widths[1], text);
                bt_text_add(text, "  %s", bt_text_get(&cells[1]));
                if (numbers)
                    add_difference(json_array_get(values, 0), json_array_get(values, 1),
                                   widths[2] - columns(bt_text_get(&cells[1])), text);
                bt_text_add(text, "\n");
            }
            bt_text_free(&cells[0]);
            bt_text_free(&cells[1]);
        }
}

static void add_part(const json_t *compared, const char *part, const char *same, bt_text *text)
{
    json_t *rows = json_object_get(compared, part);
    bt_text_add(text, "\n%s\n", part);
    if (json_is_null(rows))
        bt_text_add(text, "  unknown: a run without a checkpoint has no record of it\n");
    else if (!json_array_size(rows))
        bt_text_add(text, "  %s\n", same);
    else
        add_rows(rows, strcmp(part, "results") == 0, text);
}

void bt_compare_text(const json_t *compared, bt_text *text)
{
    for (size_t i = 0; i < 2; i++) {
        char shown[1024];
        bt_show_controls(shown, sizeof shown, json_string_value(json_array_get(json_object_get(compared, "runs"), i)));
        bt_text_add(text, "%zu: %s\n", i + 1, shown);
    }
    add_part(compared, "configuration", "the same", text);
    add_part(compared, "code", "the same: versions, what the callbacks trace, and the data", text);
    add_part(compared, "results", "none", text);
}
