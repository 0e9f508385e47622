/* engine/report/bars.c: bars with parts. Labels are HTML, so they keep their size on any screen; only the bars
 * scale. */
#include "engine/report/report_inside.h"

#include <math.h>
#include <string.h>

enum { UNITS = 1000, REST = BT_CATEGORIES }; /* each kind has its colour; the last is for everything else */

double bt_bar_length(double value) { return value > 0 && isfinite(value) ? fmin(value, 1e18) : 0; }

const char *bt_bar_bytes(double bytes, char text[32]) { return bt_bytes_text(text, (size_t)bt_bar_length(bytes)); }

static int colour_of(bt_bar_kinds *kinds, const char *name)
{
    for (int c = 0; c < BT_CATEGORIES; c++)
        if (strcmp(bt_category_name((bt_category)c), name) == 0) {
            kinds->used[c] = true;
            return c;
        }
    kinds->rest = true;
    return REST;
}

void bt_bar_open(bt_text *html, const char *label)
{
    bt_text_add(html,
                "<div class=\"bar\"><svg viewBox=\"0 0 %d 16\" preserveAspectRatio=\"none\" role=\"img\" "
                "aria-label=\"",
                UNITS);
    bt_html(html, label);
    bt_text_add(html, "\">");
}

double bt_bar_part(bt_text *html, double at, double length, int colour, const char *hint)
{
    at *= UNITS;
    length *= UNITS;
    bt_text_add(html, "<rect class=\"part c%d\" x=\"%.2f\" width=\"%.2f\" height=\"16\"><title>", colour % (REST + 1),
                at, fmax(0.5, length - (length > 6 ? 1.5 : 0)));
    bt_html(html, hint);
    bt_text_add(html, "</title></rect>");
    return (at + length) / UNITS;
}

void bt_bar_range(bt_text *html, double low, double high)
{
    bt_text_add(html, "<path class=\"whisker\" d=\"M%.2f 8H%.2fM%.2f 4v8M%.2f 4v8\"/>", UNITS * low, UNITS * high,
                UNITS * low, UNITS * high);
}

void bt_bar_close(bt_text *html, const char *words)
{
    bt_text_add(html, "</svg>");
    bt_html_in(html, "span", words);
    bt_text_add(html, "</div>");
}

void bt_bar_add(bt_text *html, bt_bar_kinds *kinds, json_t *bytes, double whole, double most, const char *words)
{
    const char *name;
    json_t *value;
    double at = 0, sum = 0;
    char text[32];
    bt_text label = {0}, hint = {0};
    json_object_foreach(bytes, name, value)
    {
        bt_text_add(&label, "%s%s %s", label.size ? ", " : "", name, bt_bar_bytes(json_number_value(value), text));
    }
    bt_bar_open(html, bt_text_get(&label));
    json_object_foreach(bytes, name, value)
    {
        const double size = bt_bar_length(json_number_value(value));
        hint.size = 0;
        bt_text_add(&hint, "%s: %s", name, bt_bar_bytes(size, text));
        if (size > 0)
            at = bt_bar_part(html, at, size / most, colour_of(kinds, name), bt_text_get(&hint));
        sum += size;
    }
    if (whole > sum)
        bt_bar_part(html, at, bt_bar_length(whole - sum) / most, colour_of(kinds, ""), "room between");
    bt_bar_close(html, words);
    html->failed = html->failed || label.failed || hint.failed;
    bt_text_free(&label);
    bt_text_free(&hint);
}

void bt_bar_legend(const bt_bar_kinds *kinds, bt_text *html)
{
    bt_text_add(html, "<div class=\"legend\">");
    for (int c = 0; c <= REST; c++) {
        if (c < REST ? !kinds->used[c] : !kinds->rest)
            continue;
        bt_text_add(html,
                    "<span class=\"key\"><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"part c%d\" "
                    "width=\"12\" height=\"12\"/></svg><span>%s</span></span>",
                    c, c < REST ? bt_category_name((bt_category)c) : "room between");
    }
    bt_text_add(html, "</div>\n");
}
