/* engine/report/curves.c: a chart for each metric, level by level, and its values as a table. */
#include "engine/report/report_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8 }; /* of a table, before the last values */

typedef struct behind {        /* the data of one curve */
    bt_svg_at *points, *drawn; /* all of its points, and thinned */
    int64_t count;             /* of all */
    char last[96];             /* "0.83 (0.82 to 0.85)", "0.83, 2 of 3 runs" */
    char note[32];             /* " (2 of 3)": if some runs lack a last value */
} behind;

typedef struct chart {
    const bt_report_all *all;
    const char *name; /* of the metric */
    bt_svg_curve *curves;
    behind *behind; /* of each curve */
    int64_t count;
    bool seeds, interval; /* what the bands show */
} chart;

/* ---- filling ---- */

static void range_words(const bt_svg_at *at, bool band, char words[64])
{
    if (isnan(at->value))
        snprintf(words, 64, "not finite");
    else if (band && at->low < at->high)
        snprintf(words, 64, "%.5g (%.4g to %.4g)", at->value, at->low, at->high);
    else
        snprintf(words, 64, "%.5g", at->value);
}

/* How many of them have a finite value at this step. */
static int64_t count_at(const bt_series *const *series, int64_t count, double step)
{
    int64_t there = 0;
    for (int64_t k = 0; k < count; k++) {
        const bt_svg_at *last = &series[k]->points[series[k]->count - 1];
        there += last->step == step && isfinite(last->value);
    }
    return there;
}

static void say_last(behind *b, const bt_series *const *found, int64_t count, bool band)
{
    const bt_svg_at *last = &b->points[b->count - 1];
    const int64_t there = count_at(found, count, last->step);
    range_words(last, band, b->last);
    if (!there || there == count)
        return;
    const size_t length = strlen(b->last);
    snprintf(b->last + length, sizeof b->last - length, ", %d of %d runs", (int)there, (int)count);
    snprintf(b->note, sizeof b->note, " (%d of %d)", (int)there, (int)count);
}

/* Adds the curve of a group, if its runs have this metric. */
static bt_status add_curve(chart *c, int64_t group)
{
    const bt_series *found[BT_REPORT_MOST];
    int64_t count = 0;
    bool interval = false;
    for (const bt_report_run *run = NULL; (run = bt_report_next(c->all, group, run)) != NULL;) {
        const bt_series *series = bt_series_find(&run->series, c->name);
        if (series && series->count) {
            found[count++] = series;
            interval = interval || series->interval;
        }
    }
    if (!count)
        return BT_OK;
    const bool band = count > 1 || interval;
    bt_svg_curve *curve = &c->curves[c->count];
    behind *b = &c->behind[c->count++];
    b->points = bt_series_join(found, count, &b->count);
    b->drawn = bt_alloc_array((size_t)b->count + 1, sizeof *b->drawn);
    if (!b->points || !b->drawn)
        return BT_ERROR_MEMORY;
    say_last(b, found, count, band);
    memcpy(b->drawn, b->points, (size_t)b->count * sizeof *b->drawn);
    *curve = (bt_svg_curve){.label = c->all->group_count > 1 ? c->all->groups[group].letters : "",
                            .note = b->note,
                            .points = b->drawn,
                            .count = bt_series_thin(b->drawn, b->count, BT_SERIES_POINTS),
                            .colour = (int)(group % 1000),
                            .band = band};
    c->seeds = c->seeds || count > 1;
    c->interval = c->interval || (count == 1 && interval);
    return BT_OK;
}

/* ---- the table of values ---- */

static int by_step(const void *key, const void *point)
{
    const double step = *(const double *)key, other = ((const bt_svg_at *)point)->step;
    return step < other ? -1 : step > other;
}

static void add_row(const chart *c, double step, bt_text *html)
{
    bt_text_add(html, "<tr><td>%.0f</td>", step);
    for (int64_t k = 0; k < c->count; k++) {
        const bt_svg_at *at = bsearch(&step, c->behind[k].points, (size_t)c->behind[k].count, sizeof *at, by_step);
        char words[64] = "–";
        if (at)
            range_words(at, c->curves[k].band, words);
        bt_html_in(html, "td", words);
    }
    bt_text_add(html, "</tr>\n");
}

/* Some steps of the first curve, then the last values of all curves, whatever their step. */
static void add_table(const chart *c, bt_text *html)
{
    const int64_t count = c->behind[0].count, shown = count - 1 < ROWS ? count - 1 : ROWS;
    bt_text_add(html, "<details><summary>Values</summary>");
    bt_html_table(html, c->name, "<th>step</th>");
    for (int64_t k = 0; k < c->count; k++)
        bt_html_in(html, "th", *c->curves[k].label ? c->curves[k].label : "value");
    bt_text_add(html, "</tr>\n");
    for (int64_t i = 0; i < shown; i++)
        add_row(c, c->behind[0].points[(count - 1) * i / shown].step, html);
    bt_text_add(html, "<tr><td>last</td>");
    for (int64_t k = 0; k < c->count; k++)
        bt_html_in(html, "td", c->behind[k].last);
    bt_text_add(html, "</tr>\n</table></div></details>\n");
}

/* ---- a chart ---- */

static void add_label(const chart *c, bt_text *label)
{
    bt_text_add(label, "%s by step; last values: ", c->name);
    for (int64_t k = 0; k < c->count; k++)
        bt_text_add(label, "%s%s%s%s", k ? "; " : "", c->curves[k].label, *c->curves[k].label ? " " : "",
                    c->behind[k].last);
}

static void add_figure(const chart *c, bt_text *html)
{
    bt_text label = {0};
    add_label(c, &label);
    bt_text_add(html, "<figure class=\"card\"><h4>");
    bt_html(html, c->name);
    bt_text_add(html, "</h4>\n");
    bt_svg_curves_add(&(bt_svg_curves){.label = bt_text_get(&label), .curves = c->curves, .count = c->count}, html);
    if (c->count > BT_SVG_LABELS)
        bt_text_add(html, "<p class=\"soft\">Last values are in the table.</p>\n");
    add_table(c, html);
    bt_text_add(html, "</figure>\n");
    html->failed = html->failed || label.failed;
    bt_text_free(&label);
}

static bt_status draw(const bt_report_all *all, const char *name, bt_text *html, bool *seeds, bool *interval)
{
    const size_t room = (size_t)all->group_count + 1;
    chart c = {.all = all,
               .name = name,
               .curves = bt_alloc_array(room, sizeof *c.curves),
               .behind = bt_alloc_array(room, sizeof *c.behind)};
    bt_status status = c.curves && c.behind ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t g = 0; g < all->group_count && status == BT_OK; g++)
        status = add_curve(&c, g);
    if (status == BT_OK)
        add_figure(&c, html);
    *seeds = *seeds || c.seeds;
    *interval = *interval || c.interval;
    for (int64_t k = 0; k < c.count; k++) {
        bt_free(c.behind[k].points);
        bt_free(c.behind[k].drawn);
    }
    bt_free(c.curves);
    bt_free(c.behind);
    return status;
}

/* ---- all of them ---- */

static bool is_rate(const char *name)
{
    const size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".lr") == 0;
}

static json_t *add_name(json_t *levels, const char *name)
{
    char *level = bt_string("%.*s", (int)strcspn(name, "."), name);
    json_t *names = level ? json_object_get(levels, level) : NULL;
    if (!names && level) {
        names = json_object();
        levels = bt_json_with(levels, level, names);
    }
    const bool good = level && levels && names && json_object_set_new(names, name, json_true()) == 0;
    bt_free(level);
    if (good)
        return levels;
    json_decref(levels);
    return NULL;
}

/* {"classifier": {"classifier.loss": true}}: levels and their metrics in order of appearance; learning rates come
 * last. */
static json_t *names_by_level(const bt_report_all *all)
{
    json_t *levels = json_object();
    for (int rates = 0; rates < 2; rates++)
        for (int64_t r = 0; r < all->run_count; r++)
            for (int64_t i = 0; i < all->runs[r].series.count && levels; i++)
                if (is_rate(all->runs[r].series.list[i].name) == rates)
                    levels = add_name(levels, all->runs[r].series.list[i].name);
    return levels;
}

static void say_bands(bool seeds, bool interval, bool cut, bt_text *html)
{
    if (seeds)
        bt_text_add(html, "<p class=\"soft\">Lines are means over the seeds of a configuration, at each step over the "
                          "runs that have a value there; bands reach from the smallest to the largest value.</p>\n");
    if (interval)
        bt_text_add(html, "<p class=\"soft\">%s are the 95 %% interval of a mean over tasks or batches.</p>\n",
                    seeds ? "Bands of single runs" : "Bands");
    if (cut)
        bt_text_add(html, "<p class=\"soft\">There are more metrics; the first %d of a run are shown.</p>\n",
                    BT_SERIES_MOST);
}

bt_status bt_report_curves(const bt_report_all *all, bt_text *html)
{
    json_t *levels = names_by_level(all), *names, *value;
    const char *level, *name;
    bt_status status = levels ? BT_OK : BT_ERROR_MEMORY;
    bool seeds = false, interval = false, cut = false;
    bt_text charts = {0};
    json_object_foreach(levels, level, names)
    {
        bt_html_in(&charts, "h3", level);
        bt_text_add(&charts, "\n<div class=\"cards\">\n");
        json_object_foreach(names, name, value)
        {
            if (status == BT_OK)
                status = draw(all, name, &charts, &seeds, &interval);
        }
        bt_text_add(&charts, "</div>\n");
    }
    for (int64_t r = 0; r < all->run_count; r++)
        cut = cut || all->runs[r].series.cut;
    if (charts.size) {
        bt_html_section(html, "curves", "Curves");
        say_bands(seeds, interval, cut, html);
        bt_text_put(html, bt_text_get(&charts), (size_t)charts.size);
        bt_text_add(html, "</section>\n");
    }
    html->failed = html->failed || charts.failed;
    bt_text_free(&charts);
    json_decref(levels);
    return status;
}
