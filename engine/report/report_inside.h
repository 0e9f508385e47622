/* engine/report/report_inside.h: the interface between the files of this folder. */
#ifndef BT_REPORT_INSIDE_H
#define BT_REPORT_INSIDE_H

#include "engine/compare/compare.h"
#include "engine/output/json.h"
#include "engine/output/svg.h"
#include "engine/report/report.h"
#include "runtime/variable.h"

/* ---- series.c ---- */

typedef struct bt_series { /* a metric of one run */
    char *name;
    bt_svg_at *points; /* in order of step; for a mean, low and high are its interval */
    int64_t count, room;
    bool interval;
} bt_series;

typedef struct bt_series_list {
    bt_series *list; /* in the order in which they first appear in the file */
    int64_t count, room;
    json_t *places; /* index by name */
    bool cut;       /* there were more */
} bt_series_list;

enum { BT_SERIES_MOST = 500, BT_SERIES_POINTS = 160 }; /* metrics; points of a curve */

bt_status bt_series_take(void *list, json_t *line); /* a bt_left_line_fn; bt_series_free in any case */
void bt_series_free(bt_series_list *list);
const bt_series *bt_series_find(const bt_series_list *list, const char *name); /* NULL: not found */

/* Joins the points of several runs: mean, minimum and maximum at each step. For bt_free; NULL: out of memory. */
bt_svg_at *bt_series_join(const bt_series *const *series, int64_t count, int64_t *points);
/* Reduces the points to about `most`: keeps the minimum and the maximum of each stretch. Returns how many are left. */
int64_t bt_series_thin(bt_svg_at *points, int64_t count, int64_t most);

/* ---- read.c ---- */

typedef struct bt_report_run {
    char *folder, *name; /* the name is the last folder of the path */
    bt_compared compared;
    bt_series_list series;
    json_t *plan, *check, *profile, *equation; /* NULL: none */
    json_t *settings, *code;                   /* without those that depend on the seed or the machine */
    int64_t group, place;                      /* its configuration; its index among the runs of that configuration */
} bt_report_run;

typedef struct bt_report_extra { /* a folder's ablation, or its check without a run */
    char *name;
    json_t *ablation, *check;
} bt_report_extra;

typedef struct bt_report_group {
    int64_t first, count; /* index of the first run; number of runs */
    char letters[8];
} bt_report_group;

typedef struct bt_report_all {
    bt_report_run *runs;
    bt_report_extra *extras;
    bt_report_group *groups;
    int64_t run_count, extra_count, group_count, run_room, extra_room;
    char *title;
} bt_report_all;

bt_status bt_report_read(const char *const *folders, int64_t count,
                         bt_report_all *all); /* bt_report_free in any case */
void bt_report_free(bt_report_all *all);
bool bt_report_own(const char *setting); /* it depends on the seed or on the machine */
/* "A", or "A2" if the group has several runs; "" if there is only one run. */
const char *bt_report_label(const bt_report_all *all, const bt_report_run *run, char label[32]);
const bt_report_run *bt_report_next(const bt_report_all *all, int64_t group,
                                    const bt_report_run *run); /* NULL: the first */
/* Some property of the first run of a group. bt_report_sharers adds the letters of all groups whose first runs have the
 * same value as this group's, if there are several groups. False: an earlier group is among them, so it has already
 * been shown. */
typedef const json_t *bt_report_of(const bt_report_run *run);
bool bt_report_sharers(const bt_report_all *all, int64_t group, bt_report_of *of, bt_text *letters);

/* ---- page.c ---- */

void bt_html(bt_text *html, const char *words);                         /* escaped */
void bt_html_in(bt_text *html, const char *tag, const char *words);     /* an element, such as "td" or "p" */
void bt_html_value(bt_text *html, const json_t *value);                 /* "–" for a missing value */
void bt_html_table(bt_text *html, const char *label, const char *head); /* until </table></div>; head: cells */
void bt_html_section(bt_text *html, const char *id, const char *title); /* until </section> */
void bt_html_number(bt_text *html, const char *format, double value);   /* "–" for NaN */

/* ---- bars.c ---- */

typedef struct bt_bar_kinds { /* of the bytes in all bars so far */
    bool used[BT_CATEGORIES];
    bool rest; /* gaps between values, or an unknown kind */
} bt_bar_kinds;

double bt_bar_length(double value); /* 0 if the value is not a length */
const char *bt_bar_bytes(double bytes, char text[32]);

/* A bar of bytes by kind, with its words. `whole` includes the gaps between values; `most` is that of the longest
 * bar. */
void bt_bar_add(bt_text *html, bt_bar_kinds *kinds, json_t *bytes, double whole, double most, const char *words);
void bt_bar_legend(const bt_bar_kinds *kinds, bt_text *html);

/* A bar of parts from 0 to 1. bt_bar_part returns where the part ends. */
void bt_bar_open(bt_text *html, const char *label);
double bt_bar_part(bt_text *html, double at, double length, int colour, const char *hint);
void bt_bar_range(bt_text *html, double low, double high);
void bt_bar_close(bt_text *html, const char *words);

/* ---- style.c ---- */

extern const char *const bt_report_style;

/* ---- the parts: each adds its section if there is something to show ---- */

bt_status bt_report_runs(const bt_report_all *all, bt_text *html);
bt_status bt_report_differences(const bt_report_all *all, bt_text *html);
bt_status bt_report_curves(const bt_report_all *all, bt_text *html);
void bt_report_memory(const bt_report_all *all, bt_text *html);
void bt_report_ablation(const bt_report_all *all, bt_text *html);
bt_status bt_report_profile(const bt_report_all *all, bt_text *html);
void bt_report_equation(const bt_report_all *all, bt_text *html);
void bt_report_check(const bt_report_all *all, bt_text *html);
void bt_report_configuration(const bt_report_all *all, bt_text *html);

#endif
