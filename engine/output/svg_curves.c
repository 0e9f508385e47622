/* engine/output/svg_curves.c: curves over steps, each with its last value next to it, for a page of many. Colours are
 * classes of the page, so that it can be dark or light; dashes distinguish curves with the same colour. */
#include "engine/output/svg_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 380, HIGH = 230, TOP = 12, FOOT = 40, LABEL = 15, LAST = 64, DOTS = 20, MOST = 16 };

typedef struct drawing {
    const bt_svg_curves *chart;
    bt_text *text;
    double left, right;         /* of the plot */
    double first, last, x_step; /* steps; distance between ticks */
    double low, high, y_step;   /* values as drawn: logarithms on a logarithmic axis */
    bool logarithmic;
} drawing;

typedef struct label {
    double y;
    char words[LAST];
    int colour;
} label;

static double height_of(const drawing *d, double value) { return d->logarithmic ? log10(value) : value; }
/* The number of ticks from `from` to `to`; a picture never has more than a few. */
static int ticks_of(double from, double to, double step)
{
    const double count = floor((to - from) / step + 1e-6) + 1;
    return count >= 1 && count <= MOST ? (int)count : 0;
}

static double place_x(const drawing *d, double step)
{
    return d->left + (d->right - d->left) * (step - d->first) / (d->last - d->first);
}
static double place_y(const drawing *d, double value)
{
    return TOP + (HIGH - FOOT - TOP) * (1 - (height_of(d, value) - d->low) / (d->high - d->low));
}

/* ---- scales ---- */

static void span(drawing *d)
{
    d->first = d->low = INFINITY;
    d->last = d->high = -INFINITY;
    for (int64_t c = 0; c < d->chart->count; c++)
        for (int64_t i = 0; i < d->chart->curves[c].count; i++) {
            const bt_svg_at *at = &d->chart->curves[c].points[i];
            d->first = fmin(d->first, at->step);
            d->last = fmax(d->last, at->step);
            if (isnan(at->value))
                continue;
            d->low = fmin(d->low, d->chart->curves[c].band ? at->low : at->value);
            d->high = fmax(d->high, d->chart->curves[c].band ? at->high : at->value);
        }
}

static void scale_steps(drawing *d)
{
    if (!(d->first <= d->last))
        d->first = d->last = 0;
    if (d->first > 0 && d->first <= 0.2 * d->last) /* the beginning is worth the space */
        d->first = 0;
    if (d->last - d->first < 1) {
        d->first -= 1;
        d->last += 1;
    }
    d->x_step = fmax(1, bt_svg_step(d->last - d->first, 1));
}

/* The axis ends at ticks that enclose all values. */
static void scale_values(drawing *d)
{
    if (!(d->low <= d->high))
        d->low = d->high = 0;
    d->low = fmax(d->low, -1e300); /* so that their difference is finite */
    d->high = fmin(d->high, 1e300);
    d->logarithmic = d->low > 0 && d->high / d->low >= 100;
    if (d->logarithmic) {
        d->low = floor(log10(d->low) + 1e-9);
        d->high = ceil(log10(d->high) - 1e-9);
        d->y_step = ceil((d->high - d->low) / 5);
        return;
    }
    const double size = fmax(fabs(d->low), fabs(d->high));
    if (d->high - d->low <= 1e-9 * size || size < 1e-290) { /* all equal */
        const double room = size < 1e-290 ? 1 : 0.5 * size;
        d->low -= room;
        d->high += room;
    }
    d->y_step = bt_svg_step(d->high - d->low, 1);
    d->low = d->y_step * floor(d->low / d->y_step + 1e-9);
    d->high = d->y_step * ceil(d->high / d->y_step - 1e-9);
}

/* ---- axes ---- */

static void step_words(double value, char text[32])
{
    const double size = fabs(value);
    snprintf(text, 32,
             size >= 1e6   ? "%.4gM"
             : size >= 1e4 ? "%.4gk"
                           : "%.5g",
             size >= 1e6   ? value / 1e6
             : size >= 1e4 ? value / 1e3
                           : value);
}

/* Enough digits for neighbouring ticks to differ. */
static int digits_of(const drawing *d)
{
    const double ticks = fmax(fabs(d->low), fabs(d->high)) / d->y_step;
    return (int)fmin(10, fmax(4, ceil(log10(ticks)) + 2));
}

static void value_words(const drawing *d, double value, char text[32])
{
    if (d->logarithmic)
        snprintf(text, 32, fabs(value) <= 3 ? "%g" : "1e%.0f", fabs(value) <= 3 ? pow(10, value) : value);
    else
        snprintf(text, 32, "%.*g", digits_of(d), fabs(value) < d->y_step / 1e6 ? 0 : value);
}

/* The width of the numbers at the vertical axis. */
static double tick_room(const drawing *d)
{
    char words[32];
    size_t most = 0;
    for (int i = 0; i < ticks_of(d->low, d->high, d->y_step); i++) {
        value_words(d, d->low + i * d->y_step, words);
        most = strlen(words) > most ? strlen(words) : most;
    }
    return 7.2 * (double)most + 10;
}

static void draw_axes(const drawing *d)
{
    char words[32];
    const double bottom = HIGH - FOOT, scale = (bottom - TOP) / (d->high - d->low);
    for (int i = 0; i < ticks_of(d->low, d->high, d->y_step); i++) {
        const double y = bottom - scale * i * d->y_step;
        value_words(d, d->low + i * d->y_step, words);
        bt_text_add(d->text, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", d->left, y, d->right);
        bt_svg_put(d->text, d->left - 6, y + 4, "class=\"tick\" text-anchor=\"end\"", words, 12);
    }
    const double from = d->x_step * ceil(d->first / d->x_step);
    for (int i = 0; i < ticks_of(from, d->last, d->x_step); i++) {
        const double step = from + i * d->x_step, x = place_x(d, step);
        step_words(step, words);
        bt_text_add(d->text, "<path class=\"axis\" d=\"M%.1f %.1fv4\"/>", x, bottom);
        bt_svg_put(d->text, x, bottom + 17, "class=\"tick\" text-anchor=\"middle\"", words, 12);
    }
    bt_text_add(d->text, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>", d->left, bottom, d->right);
    bt_svg_put(d->text, (d->left + d->right) / 2, HIGH - 6, "class=\"tick\" text-anchor=\"middle\"",
               d->logarithmic ? "step (logarithmic values)" : "step", 40);
}

/* ---- curves ---- */

static double clear_of(const drawing *d, double value) /* the end of a band, on a possibly logarithmic axis */
{
    return d->logarithmic ? fmax(value, pow(10, d->low)) : value;
}

/* The stretches between gaps: forward along the upper end and back along the lower one. */
static void draw_band(const drawing *d, const bt_svg_curve *curve)
{
    bt_text_add(d->text, "<path class=\"band c%d\" d=\"", curve->colour % BT_SVG_COLOURS);
    for (int64_t i = 0, end; i < curve->count; i = end + 1) {
        for (end = i; end < curve->count && !isnan(curve->points[end].value);)
            end++;
        for (int64_t k = i; k < end; k++)
            bt_text_add(d->text, "%s%.1f %.1f", k == i ? "M" : "L", place_x(d, curve->points[k].step),
                        place_y(d, clear_of(d, curve->points[k].high)));
        for (int64_t k = end - 1; k >= i; k--)
            bt_text_add(d->text, "L%.1f %.1f", place_x(d, curve->points[k].step),
                        place_y(d, clear_of(d, curve->points[k].low)));
        bt_text_add(d->text, end > i ? "Z" : "");
    }
    bt_text_add(d->text, "\"/>\n");
}

const char *bt_svg_dashes(int colour)
{
    static const char *const dashes[] = {"", "6 3", "2 3", "9 3 2 3"};
    return dashes[colour % BT_COUNT_OF(dashes)];
}

static void draw_line(const drawing *d, const bt_svg_curve *curve)
{
    const char *dashes = bt_svg_dashes(curve->colour);
    bool there = false;
    bt_text_add(d->text, "<path class=\"line c%d\"", curve->colour % BT_SVG_COLOURS);
    if (*dashes)
        bt_text_add(d->text, " stroke-dasharray=\"%s\"", dashes);
    bt_text_add(d->text, " d=\"");
    for (int64_t i = 0; i < curve->count; i++) {
        const bt_svg_at *at = &curve->points[i];
        if (!isnan(at->value))
            bt_text_add(d->text, "%s%.1f %.1f", there ? "L" : "M", place_x(d, at->step), place_y(d, at->value));
        there = !isnan(at->value);
    }
    bt_text_add(d->text, "\"/>\n");
    for (int64_t i = 0; i < curve->count && curve->count <= DOTS; i++) {
        const bt_svg_at *at = &curve->points[i];
        if (isnan(at->value))
            continue;
        bt_text_add(d->text, "<circle class=\"dot c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\">",
                    curve->colour % BT_SVG_COLOURS, place_x(d, at->step), place_y(d, at->value));
        bt_text_add(d->text, "<title>%s%sstep %.0f: %.5g</title></circle>\n", curve->label, *curve->label ? ", " : "",
                    at->step, at->value);
    }
}

/* ---- last values, at the end of each curve ---- */

static const bt_svg_at *last_of(const bt_svg_curve *curve)
{
    for (int64_t i = curve->count - 1; i >= 0; i--)
        if (!isnan(curve->points[i].value))
            return &curve->points[i];
    return NULL;
}

static void words_of(const bt_svg_curve *curve, char words[LAST])
{
    const bt_svg_at *last = last_of(curve);
    snprintf(words, LAST, "%s%s%.4g%s", curve->label, *curve->label ? " " : "", last ? last->value : NAN, curve->note);
}

static double label_room(const drawing *d)
{
    size_t most = 0;
    for (int64_t c = 0; c < d->chart->count && d->chart->count <= BT_SVG_LABELS; c++) {
        char words[LAST];
        words_of(&d->chart->curves[c], words);
        most = strlen(words) > most ? strlen(words) : most;
    }
    return most ? 8.4 * (double)most + 9 : 12;
}

static int higher_first(const void *a, const void *b)
{
    const label *x = a, *y = b;
    return x->y > y->y ? 1 : x->y < y->y ? -1 : 0;
}

/* Spreads the labels vertically within the picture. */
static void spread(label *labels, int count)
{
    const double bottom = HIGH - FOOT + 4;
    qsort(labels, (size_t)count, sizeof *labels, higher_first);
    for (int i = 1; i < count; i++)
        labels[i].y = fmax(labels[i].y, labels[i - 1].y + LABEL);
    double most = bottom;
    for (int i = count - 1; i >= 0 && labels[i].y > most; i--, most -= LABEL)
        labels[i].y = most;
}

static void draw_labels(const drawing *d)
{
    label labels[BT_SVG_LABELS];
    int count = 0;
    for (int64_t c = 0; c < d->chart->count && d->chart->count <= BT_SVG_LABELS; c++) {
        const bt_svg_at *last = last_of(&d->chart->curves[c]);
        if (!last)
            continue;
        labels[count] = (label){.y = place_y(d, last->value) + 4, .colour = d->chart->curves[c].colour};
        words_of(&d->chart->curves[c], labels[count++].words);
    }
    spread(labels, count);
    for (int i = 0; i < count; i++) {
        char style[40];
        snprintf(style, sizeof style, "class=\"last c%d\"", labels[i].colour % BT_SVG_COLOURS);
        bt_svg_put(d->text, d->right + 7, labels[i].y, style, labels[i].words, LAST);
    }
}

bool bt_svg_curves_add(const bt_svg_curves *chart, bt_text *text)
{
    drawing d = {.chart = chart, .text = text};
    span(&d);
    scale_steps(&d);
    scale_values(&d);
    d.left = tick_room(&d);
    d.right = WIDE - label_room(&d);
    bt_text_add(text, "<svg class=\"curves\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDE, HIGH);
    bt_svg_words(text, chart->label, 1000);
    bt_text_add(text, "\">\n");
    draw_axes(&d);
    for (int64_t c = 0; c < chart->count; c++)
        if (chart->curves[c].band)
            draw_band(&d, &chart->curves[c]);
    for (int64_t c = 0; c < chart->count; c++)
        draw_line(&d, &chart->curves[c]);
    draw_labels(&d);
    bt_text_add(text, "</svg>\n");
    return d.logarithmic;
}
