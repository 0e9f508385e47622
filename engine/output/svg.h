/* engine/output/svg.h: a picture of bars, one below the other, and of marks beside them. */
#ifndef BT_SVG_H
#define BT_SVG_H

#include "base/base.h"

typedef struct bt_svg_bar {
    const char *name;
    const double *parts;     /* lengths, one for each of the chart's parts; NULL: there is no bar */
    bool hollow;             /* the mark is a ring, no disc */
    double mark, low, high;  /* NaN: there is no mark */
    const char *end, *label; /* what stands behind the bar and the mark; NULL: nothing */
    const char *note;        /* in the place of the bar; NULL: none */
} bt_svg_bar;

typedef struct bt_svg_chart {
    const char *title, *bar_title, *mark_title; /* mark_title NULL: there are no marks */
    const char *const *parts;                   /* names, for the legend */
    int part_count;
    const bt_svg_bar *bars; /* the first is what the others are compared with */
    int64_t bar_count;
    void (*tick)(double value, char text[32]); /* of the bars' axis */
    double unit;                               /* ticks are round multiples of it */
} bt_svg_chart;

/* Adds a whole SVG file. */
void bt_svg_chart_add(const bt_svg_chart *chart, bt_text *text);

#endif
