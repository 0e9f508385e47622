/* engine/compare/compare.c: what differs between two runs, and as text. */
#include "engine/compare/compare_inside.h"

#include <math.h>
#include <string.h>

enum { NAME = 100, VALUE = 200 }; /* bytes that are shown, at most */

static json_t *or_null(json_t *value) { return value ? json_incref(value) : json_null(); }

static json_t *add_row(json_t *rows, const char *name, json_t *one, json_t *other)
{
    return bt_json_append(
        rows, json_pack("{s:o, s:[o, o]}", "name", bt_json_string(name), "values", or_null(one), or_null(other)));
}

/* In the order of the first, and then what only the second has. all: those that are equal, too. */
static json_t *rows_of(json_t *one, json_t *other, bool all)
{
    const char *name;
    json_t *value, *rows = json_array();
    json_object_foreach(one, name, value)
    {
        json_t *second = json_object_get(other, name);
        if (all || !second || !json_equal(value, second))
            rows = add_row(rows, name, value, second);
    }
    json_object_foreach(other, name, value)
    {
        if (!json_object_get(one, name))
            rows = add_row(rows, name, NULL, value);
    }
    return rows;
}

json_t *bt_compare(const char *one, const char *other)
{
    bt_compared first = {0}, second = {0};
    json_t *compared = NULL;
    if (!one || !other) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_compare: two folders are needed");
    } else if (bt_compared_read(one, &first) == BT_OK && bt_compared_read(other, &second) == BT_OK) {
        json_t *code = first.code && second.code ? rows_of(first.code, second.code, false) : json_null();
        compared = json_pack("{s:[o, o], s:o, s:o, s:o}", "runs", bt_json_string(one), bt_json_string(other),
                             "configuration", rows_of(first.settings, second.settings, false), "code", code, "results",
                             rows_of(first.results, second.results, true));
        if (!compared)
            bt_fail(BT_ERROR_MEMORY, "no memory to compare %s and %s", one, other);
    }
    bt_compared_free(&first);
    bt_compared_free(&second);
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

/* Behind so many blanks. */
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

static int columns(const char *words) /* of UTF-8 */
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

/* Each column as wide as it must be. */
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
