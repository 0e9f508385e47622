/* engine/output/svg_lines.c: lines through points on two axes, each with its name next to its first point. */
#include "engine/output/svg_inside.h"

#include <math.h>
#include <stdio.h>

enum { LEFT = 84, TOP = 84, WIDE = 640, HIGH = 340, RIGHT = 130, FOOT = 62, LABEL = 17, NAME = 60 };

static const char *const colours[] = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2"};
#define HEAVY "#333333"

typedef struct drawing {
    const bt_svg_lines *chart;
    bt_text *text;
    double x_step, y_step;                   /* distance between ticks */
    double x_least, y_least, x_most, y_most; /* the ends of the axes, which are ticks */
} drawing;

static double place_x(const drawing *d, double x) { return LEFT + WIDE * (x - d->x_least) / (d->x_most - d->x_least); }
static double place_y(const drawing *d, double y) { return TOP + HIGH * (d->y_most - y) / (d->y_most - d->y_least); }

/* Moves both ends of an axis to ticks. */
static double round_ends(double *least, double *most, double unit)
{
    if (*least == *most)
        *most += unit;
    const double step = bt_svg_step(*most - *least, unit);
    *least = step * floor(*least / step + 1e-9);
    *most = step * ceil(*most / step - 1e-9);
    return step;
}

static void scale(drawing *d)
{
    if (d->chart->fitted && d->chart->count && d->chart->lines[0].count) {
        d->x_least = d->x_most = d->chart->lines[0].points[0].x;
        d->y_least = d->y_most = d->chart->lines[0].points[0].y;
    }
    for (int64_t l = 0; l < d->chart->count; l++)
        for (int64_t i = 0; i < d->chart->lines[l].count; i++) {
            const bt_svg_point *point = &d->chart->lines[l].points[i];
            d->x_least = fmin(d->x_least, point->x);
            d->y_least = fmin(d->y_least, point->y);
            d->x_most = fmax(d->x_most, point->x);
            d->y_most = fmax(d->y_most, point->y);
        }
    d->x_step = round_ends(&d->x_least, &d->x_most, d->chart->x_unit);
    d->y_step = round_ends(&d->y_least, &d->y_most, d->chart->y_unit);
}

static void draw_axes(const drawing *d)
{
    const char *const grey = "fill=\"#666666\" font-size=\"11\" text-anchor=";
    char words[32], style[96];
    snprintf(style, sizeof style, "%s\"middle\"", grey);
    for (double value = d->x_least; value <= d->x_most + d->x_step / 2; value += d->x_step) {
        const double x = place_x(d, value);
        bt_text_add(d->text, "<path d=\"M%.1f %dV%d\" stroke=\"#e4e4e4\"/>\n", x, TOP, TOP + HIGH);
        d->chart->x_tick(value, words);
        bt_svg_put(d->text, x, TOP + HIGH + 18, style, words, NAME);
    }
    snprintf(style, sizeof style, "%s\"end\"", grey);
    for (double value = d->y_least; value <= d->y_most + d->y_step / 2; value += d->y_step) {
        const double y = place_y(d, value);
        bt_text_add(d->text, "<path d=\"M%d %.1fH%d\" stroke=\"#e4e4e4\"/>\n", LEFT, y, LEFT + WIDE);
        d->chart->y_tick(value, words);
        bt_svg_put(d->text, LEFT - 8, y + 4, style, words, NAME);
    }
    const char *const bold = "font-weight=\"bold\" font-size=\"12\"";
    bt_svg_put(d->text, LEFT, TOP + HIGH + 42, bold, d->chart->x_title, 120);
    bt_svg_put(d->text, LEFT - 56, TOP - 12, bold, d->chart->y_title, 120);
}

static void draw_line(const drawing *d, const bt_svg_line *line, const char *colour)
{
    bt_text_add(d->text, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" points=\"", colour,
                line->heavy ? "3" : "1.8");
    for (int64_t i = 0; i < line->count; i++)
        bt_text_add(d->text, "%s%.1f,%.1f", i ? " " : "", place_x(d, line->points[i].x), place_y(d, line->points[i].y));
    bt_text_add(d->text, "\"/>\n");
    for (int64_t i = 0; i < line->count; i++) {
        bt_text_add(d->text,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\" stroke=\"white\" "
                    "stroke-width=\"0.8\">",
                    place_x(d, line->points[i].x), place_y(d, line->points[i].y), line->heavy ? "4.5" : "3.6", colour);
        bt_svg_hint(d->text, line->points[i].note);
        bt_text_add(d->text, "</circle>\n");
    }
}

/* The next name downwards, at the beginning of its line or below the name above. -1: none. */
static int64_t next_name(const drawing *d, const bool *named)
{
    int64_t next = -1;
    for (int64_t l = 0; l < d->chart->count; l++) {
        const bt_svg_line *line = &d->chart->lines[l];
        if (line->count && !named[l] && (next < 0 || line->points[0].y > d->chart->lines[next].points[0].y))
            next = l;
    }
    return next;
}

static const char *colour_of(const bt_svg_line *line, int64_t place)
{
    return line->heavy ? HEAVY : colours[place % BT_COUNT_OF(colours)];
}

/* On white because lines pass there. */
static void draw_names(const drawing *d, bool *named)
{
    double last = -LABEL;
    for (int64_t l; (l = next_name(d, named)) >= 0; named[l] = true) {
        const bt_svg_line *line = &d->chart->lines[l];
        const double y = place_y(d, line->points[0].y) + 4, at = fmax(y, last + LABEL);
        char style[128];
        snprintf(style, sizeof style, "fill=\"%s\" stroke=\"white\" stroke-width=\"4\" paint-order=\"stroke\"%s",
                 colour_of(line, l), line->heavy ? " font-weight=\"bold\"" : "");
        bt_svg_put(d->text, place_x(d, line->points[0].x) + 12, at, style, line->name, NAME);
        last = at;
    }
}

void bt_svg_lines_add(const bt_svg_lines *chart, bt_text *text)
{
    bt_text inner = {0};
    drawing d = {.chart = chart, .text = &inner};
    bool *named = bt_alloc_array((size_t)chart->count + 1, sizeof *named);
    scale(&d);
    bt_svg_put(&inner, 20, 28, "font-size=\"17\"", chart->title, 200);
    bt_svg_put(&inner, 20, 48, "fill=\"#666666\" font-size=\"12\"", chart->caption, 200);
    draw_axes(&d);
    for (int64_t l = 0; l < chart->count; l++)
        draw_line(&d, &chart->lines[l], colour_of(&chart->lines[l], l));
    if (named)
        draw_names(&d, named);
    bt_svg_close(&inner, LEFT + WIDE + RIGHT, TOP + HIGH + FOOT, text);
    text->failed = text->failed || !named;
    bt_free(named);
    bt_text_free(&inner);
}
