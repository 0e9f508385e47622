/* engine/output/svg_spreads.c: rows of dots with their mean and deviation, on an axis for each quantity. The panels are
 * side by side in bands, and the bands below one another. */
#include "engine/output/svg_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MARGIN = 20, TOP = 66, HEAD = 34, FOOT = 40, ROW = 30, PANEL = 240, GAP = 36, BAND = 3, NAME = 60 };

static const char *const colours[] = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2"};

typedef struct drawing {
    const bt_svg_spreads *chart;
    bt_text *text;
    double names;   /* where the panels begin */
    int64_t across; /* panels per band */
} drawing;

typedef struct panel {
    double left, top, bottom; /* of its rows */
    double low, high, step;   /* of its axis */
    int64_t quantity;
} panel;

static const bt_svg_spread *spread_of(const drawing *d, int64_t row, int64_t quantity)
{
    return &d->chart->spreads[row * d->chart->quantity_count + quantity];
}

static double place(const panel *p, double value) { return p->left + PANEL * (value - p->low) / (p->high - p->low); }

/* The axis ends at ticks that enclose all dots and deviations. */
static void scale(const drawing *d, panel *p)
{
    double low = INFINITY, high = -INFINITY;
    for (int64_t r = 0; r < d->chart->row_count; r++) {
        const bt_svg_spread *s = spread_of(d, r, p->quantity);
        for (int64_t i = 0; i < s->count; i++) {
            low = fmin(low, s->values[i]);
            high = fmax(high, s->values[i]);
        }
        if (s->count && !isnan(s->deviation)) {
            low = fmin(low, s->mean - s->deviation);
            high = fmax(high, s->mean + s->deviation);
        }
    }
    if (!(low <= high))
        low = high = 0;
    if (high - low <= 1e-12 * fmax(fabs(low), fabs(high))) { /* all equal */
        const double room = low != 0 ? 0.1 * fabs(low) : 1;
        low -= room;
        high += room;
    }
    p->step = bt_svg_step(high - low, 1);
    p->low = p->step * floor(low / p->step + 1e-9);
    p->high = p->step * ceil(high / p->step - 1e-9);
}

static void draw_axis(const drawing *d, const panel *p)
{
    const int64_t ticks = (int64_t)llround((p->high - p->low) / p->step);
    const int64_t every = ticks > 4 ? 2 : 1; /* to leave room for the numbers */
    for (int64_t i = 0; i <= ticks; i++) {
        const double value = p->low + (double)i * p->step, x = place(p, value);
        char number[32];
        snprintf(number, sizeof number, "%.5g", fabs(value) < p->step / 1e6 ? 0 : value);
        bt_text_add(d->text, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#e4e4e4\"/>\n", x, p->top, p->bottom);
        if (i % every == 0)
            bt_svg_put(d->text, x, p->bottom + 16, "text-anchor=\"middle\" fill=\"#666666\" font-size=\"11\"", number,
                       NAME);
    }
    bt_svg_put(d->text, p->left, p->top - 8, "font-weight=\"bold\" font-size=\"12\"", d->chart->quantities[p->quantity],
               34);
}

/* The deviation as a bar, the mean as a line across it, and the dots, placed so that neighbours do not hide one
 * another. */
static void draw_spread(const drawing *d, const panel *p, int64_t row, double y)
{
    const bt_svg_spread *s = spread_of(d, row, p->quantity);
    const char *colour = colours[row % BT_COUNT_OF(colours)];
    if (!s->count)
        return;
    if (!isnan(s->deviation)) {
        const double from = place(p, s->mean - s->deviation), to = place(p, s->mean + s->deviation);
        bt_text_add(d->text,
                    "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"14\" fill=\"%s\" fill-opacity=\"0.25\"/>\n",
                    from, y - 7, to - from, colour);
    }
    if (s->count > 1)
        bt_text_add(d->text, "<path d=\"M%.2f %.1fv18\" stroke=\"%s\" stroke-width=\"2.5\"/>\n", place(p, s->mean),
                    y - 9, colour);
    for (int64_t i = 0; i < s->count; i++)
        bt_text_add(d->text,
                    "<circle cx=\"%.2f\" cy=\"%.1f\" r=\"3.2\" fill=\"%s\" fill-opacity=\"0.8\" stroke=\"white\" "
                    "stroke-width=\"0.6\"><title>%.6g</title></circle>\n",
                    place(p, s->values[i]), y + (double)(i % 3 - 1) * (s->count > 1 ? 3.5 : 0), colour, s->values[i]);
}

static void draw_band(const drawing *d, int64_t from, double top)
{
    const bt_svg_spreads *chart = d->chart;
    for (int64_t r = 0; r < chart->row_count; r++) {
        const double y = top + ROW * ((double)r + 0.5);
        bt_svg_put(d->text, d->names - 14, y + 4, "text-anchor=\"end\"", chart->rows[r], NAME);
        if (chart->notes[r] && from == 0)
            bt_svg_put(d->text, d->names + 4, y + 4, "fill=\"#b00020\" font-size=\"12\"", chart->notes[r], 90);
    }
    for (int64_t q = from; q < chart->quantity_count && q < from + d->across; q++) {
        panel p = {.left = d->names + (double)(q - from) * (PANEL + GAP),
                   .top = top,
                   .bottom = top + ROW * (double)chart->row_count,
                   .quantity = q};
        scale(d, &p);
        draw_axis(d, &p);
        for (int64_t r = 0; r < chart->row_count; r++)
            draw_spread(d, &p, r, top + ROW * ((double)r + 0.5));
    }
}

void bt_svg_spreads_add(const bt_svg_spreads *chart, bt_text *text)
{
    bt_text inner = {0};
    drawing d = {.chart = chart, .text = &inner};
    size_t name = 0;
    for (int64_t r = 0; r < chart->row_count; r++) {
        const size_t length = strlen(chart->rows[r]);
        name = length > name ? length : name;
    }
    d.names = MARGIN + BT_SVG_LETTER * (double)(name < NAME ? name : NAME) + 16;
    const int64_t bands = chart->quantity_count > BAND ? (chart->quantity_count + BAND - 1) / BAND : 1;
    d.across = chart->quantity_count > 0 ? (chart->quantity_count + bands - 1) / bands : 1;
    const double band = HEAD + ROW * (double)chart->row_count + FOOT;
    const double width = d.names + (double)d.across * (PANEL + GAP) + MARGIN;
    bt_svg_put(&inner, MARGIN, 28, "font-size=\"17\"", chart->title, 200);
    bt_svg_put(&inner, MARGIN, 48, "fill=\"#666666\" font-size=\"12\"", chart->caption, 200);
    for (int64_t b = 0; b < bands; b++)
        draw_band(&d, b * d.across, TOP + HEAD + (double)b * band);
    bt_svg_close(&inner, width, TOP + (double)bands * band + 8, text);
    bt_text_free(&inner);
}
