/* engine/output/svg_bars.c: a picture of bars with marks next to them. */
#include "engine/output/svg_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MARGIN = 20, TOP = 84, ROW = 28, BAR = 16, BARS = 400, MARKS = 260, LABEL = 130, NAME = 70 /* characters */ };
#define LETTER BT_SVG_LETTER

static const char *const colours[] = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759",
                                      "#76b7b2", "#edc948", "#a0cbe8", "#9c755f", "#d4d4d4"};

typedef struct drawing {
    const bt_svg_chart *chart;
    bt_text *text;
    double names, marks, width;   /* where bars and marks begin; the total width */
    double bar_scale, mark_scale; /* pixels per unit */
    double legend, height;        /* height of the legend; the total height */
} drawing;

static void put(drawing *d, double x, double y, const char *style, const char *words, int most)
{
    bt_svg_put(d->text, x, y, style, words, most);
}

/* The words after a bar or a mark, on white because lines pass there. */
static void put_behind(drawing *d, double x, double y, const char *colour, const char *words)
{
    enum { CUT = 74 };
    const size_t length = strlen(words), shown = length < CUT ? length : CUT;
    bt_text_add(d->text, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"14\" fill=\"white\"/>\n", x - 2, y - 7,
                0.9 * LETTER * (double)shown + 4);
    bt_text_add(d->text, "<g fill=\"%s\">", colour);
    put(d, x, y + 4, "font-size=\"12\"", words, CUT);
    bt_text_add(d->text, "</g>\n");
}

static double length_of(const bt_svg_chart *chart, const bt_svg_bar *bar)
{
    double sum = 0;
    for (int p = 0; bar->parts && p < chart->part_count; p++)
        sum += bar->parts[p];
    return sum;
}

/* ---- scales ---- */

static void measure(drawing *d)
{
    const bt_svg_chart *chart = d->chart;
    double bar = 0, mark = 0;
    size_t name = 0;
    for (int64_t i = 0; i < chart->bar_count; i++) {
        const bt_svg_bar *row = &chart->bars[i];
        const size_t length = strlen(row->name);
        name = length > name ? length : name;
        bar = fmax(bar, length_of(chart, row));
        mark = isnan(row->high) ? mark : fmax(mark, row->high);
    }
    name = name > NAME ? NAME : name;
    d->names = MARGIN + LETTER * (double)name + 12;
    d->marks = d->names + BARS + LABEL;
    d->width = chart->mark_title ? d->marks + MARKS + LABEL + MARGIN : d->marks + MARGIN;
    d->bar_scale = BARS / (bar > 0 ? bar : 1);
    d->mark_scale = MARKS / (mark > 0 ? mark : 1);
}

/* ---- parts of the picture ---- */

static bool is_used(const bt_svg_chart *chart, int part)
{
    for (int64_t i = 0; i < chart->bar_count; i++)
        if (chart->bars[i].parts && chart->bars[i].parts[part] > 0)
            return true;
    return false;
}

/* Wraps at the right edge; returns its height. */
static double draw_legend(drawing *d)
{
    double x = MARGIN, y = TOP - 32;
    for (int p = 0; p < d->chart->part_count; p++) {
        const double width = 24 + LETTER * (double)strlen(d->chart->parts[p]) + 10;
        if (!is_used(d->chart, p))
            continue;
        if (x > MARGIN && x + width > d->width - MARGIN) {
            x = MARGIN;
            y += 20;
        }
        bt_text_add(d->text, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x, y - 10,
                    colours[p % BT_COUNT_OF(colours)]);
        put(d, x + 18, y, "", d->chart->parts[p], NAME);
        x += width;
    }
    return y - (TOP - 32);
}

static void draw_axis(drawing *d, double left, double scale, double most, double step, bool bytes)
{
    const double top = TOP + d->legend, bottom = d->height - 34;
    for (double value = 0; value <= most * 1.0001; value += step) {
        char text[32];
        const double x = left + scale * value;
        snprintf(text, sizeof text, "%.6g", value);
        if (bytes)
            d->chart->tick(value, text);
        bt_text_add(d->text, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#e4e4e4\"/>\n", x, top, bottom);
        put(d, x, bottom + 18, "text-anchor=\"middle\" fill=\"#666666\" font-size=\"11\"", text, NAME);
    }
}

/* A line from the end of the first row down through the others. */
static void draw_first(drawing *d, double x)
{
    bt_text_add(d->text, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#888888\" stroke-dasharray=\"3 3\"/>\n", x,
                TOP + d->legend, d->height - 34);
}

static void draw_mark(drawing *d, const bt_svg_bar *bar, double y)
{
    if (!d->chart->mark_title || isnan(bar->mark))
        return;
    const double low = d->marks + d->mark_scale * bar->low, high = d->marks + d->mark_scale * bar->high;
    bt_text_add(d->text, "<path d=\"M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8\" stroke=\"#333333\" fill=\"none\"/>\n",
                low, y, high, low, y - 4, high, y - 4);
    bt_text_add(d->text, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" fill=\"%s\" stroke=\"#333333\"/>\n",
                d->marks + d->mark_scale * bar->mark, y, bar->hollow ? "white" : "#333333");
    if (bar->label)
        put_behind(d, high + 10, y, "#444444", bar->label);
}

static void draw_row(drawing *d, const bt_svg_bar *bar, double y)
{
    double x = d->names;
    put(d, d->names - 12, y + 4, "text-anchor=\"end\"", bar->name, NAME);
    for (int p = 0; bar->parts && p < d->chart->part_count; p++) {
        const double width = d->bar_scale * bar->parts[p];
        if (width > 0)
            bt_text_add(d->text, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>\n", x,
                        y - BAR / 2.0, width, BAR, colours[p % BT_COUNT_OF(colours)]);
        x += width;
    }
    if (bar->note || bar->end)
        put_behind(d, x + 8, y, bar->note ? "#b00020" : "#444444", bar->note ? bar->note : bar->end);
    draw_mark(d, bar, y);
}

static void draw_all(drawing *d)
{
    const bt_svg_chart *chart = d->chart;
    const double bar = BARS / d->bar_scale, mark = MARKS / d->mark_scale, top = TOP + d->legend;
    draw_axis(d, d->names, d->bar_scale, bar, bt_svg_step(bar, chart->unit), true);
    put(d, d->names, top - 8, "font-weight=\"bold\" font-size=\"12\"", chart->bar_title, 200);
    if (chart->mark_title) {
        draw_axis(d, d->marks, d->mark_scale, mark, bt_svg_step(mark, 1), false);
        put(d, d->marks, top - 8, "font-weight=\"bold\" font-size=\"12\"", chart->mark_title, 200);
    }
    if (chart->bar_count && chart->bars[0].parts)
        draw_first(d, d->names + d->bar_scale * length_of(chart, &chart->bars[0]));
    if (chart->bar_count && chart->mark_title && !isnan(chart->bars[0].mark))
        draw_first(d, d->marks + d->mark_scale * chart->bars[0].mark);
    for (int64_t i = 0; i < chart->bar_count; i++)
        draw_row(d, &chart->bars[i], top + ROW * ((double)i + 0.5));
}

void bt_svg_chart_add(const bt_svg_chart *chart, bt_text *text)
{
    bt_text inner = {0};
    drawing d = {.chart = chart, .text = &inner};
    measure(&d);
    put(&d, MARGIN, 28, "font-size=\"17\"", chart->title, 200);
    d.legend = draw_legend(&d);
    d.height = TOP + d.legend + ROW * (double)chart->bar_count + 44;
    draw_all(&d);
    bt_svg_close(&inner, d.width, d.height, text);
    bt_text_free(&inner);
}
