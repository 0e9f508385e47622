/* engine/output/svg.h: pictures: rectangles, lines and text. */
#ifndef BT_SVG_H
#define BT_SVG_H

#include "base/base.h"

/* Escapes text for XML or HTML, in an element or between double quotes; cut after `most` characters. */
void bt_svg_words(bt_text *text, const char *words, int most);

/* ---- svg_bars.c: bars, one below the other, and marks beside them ---- */

typedef struct bt_svg_bar {
    const char *name;
    const double *parts;     /* lengths, one for each part of the chart; NULL: there is no bar */
    bool hollow;             /* the mark is a ring, not a disc */
    double mark, low, high;  /* NaN: there is no mark */
    const char *end, *label; /* text after the bar and after the mark; NULL: none */
    const char *note;        /* in place of the bar; NULL: none */
} bt_svg_bar;

typedef struct bt_svg_chart {
    const char *title, *bar_title, *mark_title; /* mark_title NULL: there are no marks */
    const char *const *parts;                   /* names, for the legend */
    int part_count;
    const bt_svg_bar *bars; /* the others are compared with the first */
    int64_t bar_count;
    void (*tick)(double value, char text[32]); /* of the bars' axis */
    double unit;                               /* ticks are round multiples of it */
} bt_svg_chart;

/* Adds a whole SVG file. */
void bt_svg_chart_add(const bt_svg_chart *chart, bt_text *text);

/* ---- svg_spreads.c: rows of dots, with their mean and deviation, on an axis for each quantity ---- */

typedef struct bt_svg_spread {
    const double *values; /* finite */
    int64_t count;
    double mean, deviation; /* NaN: there is none */
} bt_svg_spread;

typedef struct bt_svg_spreads {
    const char *title, *caption;
    const char *const *quantities;
    int64_t quantity_count;
    const char *const *rows;
    const char *const *notes; /* by row: text in place of its dots; NULL: none */
    int64_t row_count;
    const bt_svg_spread *spreads; /* row by row, one for each quantity */
} bt_svg_spreads;

/* Likewise. */
void bt_svg_spreads_add(const bt_svg_spreads *spreads, bt_text *text);

/* ---- svg_lines.c: lines through points, each with its name beside its first point ---- */

typedef struct bt_svg_point {
    double x, y;      /* not negative, unless the axes are fitted */
    const char *note; /* appears when the pointer rests there */
} bt_svg_point;

typedef struct bt_svg_line {
    const char *name;
    const bt_svg_point *points;
    int64_t count;
    bool heavy; /* drawn to stand out */
} bt_svg_line;

typedef struct bt_svg_lines {
    const char *title, *caption, *x_title, *y_title;
    const bt_svg_line *lines;
    int64_t count;
    void (*x_tick)(double value, char text[32]);
    void (*y_tick)(double value, char text[32]);
    double x_unit, y_unit; /* ticks are round multiples of them */
    bool fitted;           /* the axes begin where the values do, not at 0 */
} bt_svg_lines;

/* Likewise. */
void bt_svg_lines_add(const bt_svg_lines *lines, bt_text *text);

/* ---- svg_curves.c: curves over steps, with bands, as part of a page whose style sheet has the colours ---- */

typedef struct bt_svg_at {
    double step, value, low, high; /* the band; value NaN: a gap */
} bt_svg_at;

typedef struct bt_svg_curve {
    const char *label; /* a letter or two; "": none needed */
    const char *note;  /* after its last value; "": none */
    const bt_svg_at *points;
    int64_t count;
    int colour; /* its class, modulo BT_SVG_COLOURS, and its dashes */
    bool band;
} bt_svg_curve;

typedef struct bt_svg_curves {
    const char *label; /* a description for people who cannot see it */
    const bt_svg_curve *curves;
    int64_t count;
} bt_svg_curves;

enum { BT_SVG_COLOURS = 8, BT_SVG_LABELS = 9 }; /* classes c0 .. c7; more curves have no labels beside them */

/* The stroke-dasharray of a line; "": it is solid. */
const char *bt_svg_dashes(int colour);

/* Adds an <svg> element of 380 by 230 units with the classes grid, tick, axis, band, line, dot and last. If all values
 * are positive and span two orders of magnitude, the vertical axis is logarithmic: true. */
bool bt_svg_curves_add(const bt_svg_curves *curves, bt_text *text);

#endif
