/* engine/report/runs.c: the list of runs by configuration, and what differs between them. */
#include "engine/report/report_inside.h"

#include <math.h>
#include <string.h>

/* ---- what distinguishes configurations ---- */

enum { SHOWN = 6 }; /* settings in a title */

/* Compares the first runs of the groups; NULL: out of memory. */
static json_t *settings_apart(const bt_report_all *all)
{
    bt_compared *firsts = bt_alloc_array((size_t)all->group_count + 1, sizeof *firsts);
    const char **names = bt_alloc_array((size_t)all->group_count + 1, sizeof *names);
    json_t *compared = NULL;
    for (int64_t g = 0; firsts && names && g < all->group_count; g++) {
        firsts[g] = all->runs[all->groups[g].first].compared;
        firsts[g].results = firsts[g].code = NULL;
        names[g] = all->groups[g].letters;
    }
    if (firsts && names)
        compared = bt_compare_runs(names, firsts, (size_t)all->group_count);
    json_t *rows = json_incref(json_object_get(compared, "configuration"));
    json_decref(compared);
    bt_free(firsts);
    bt_free(names);
    return rows;
}

/* "classifier.lr = 0.1, reweight.lr = 0.001". */
static void add_settings(const json_t *rows, int64_t group, bt_text *html)
{
    int count = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name = bt_json_read_text(row, "name");
        if (bt_report_own(name) || count++ >= SHOWN)
            continue;
        bt_text_add(html, count > 1 ? ", " : "");
        bt_html(html, name);
        bt_text_add(html, " = ");
        bt_html_value(html, json_array_get(json_object_get(row, "values"), (size_t)group));
    }
    if (count > SHOWN)
        bt_text_add(html, " and %d more", count - SHOWN);
    if (!count)
        bt_text_add(html, "the same settings, other code");
}

/* ---- a card for each ---- */

/* A number from each summary: "3.2", or for several runs the mean, "3.2 (3.1 to 3.4)". */
static void add_number(const bt_report_all *all, int64_t group, const char *title, const char *key, const char *format,
                       const char *unit, bt_text *html)
{
    double sum = 0, low = INFINITY, high = -INFINITY;
    int64_t count = 0;
    for (const bt_report_run *run = NULL; (run = bt_report_next(all, group, run)) != NULL;) {
        const double value = bt_json_read_number(run->compared.summary, key);
        if (!isfinite(value))
            continue;
        sum += value;
        count++;
        low = fmin(low, value);
        high = fmax(high, value);
    }
    if (!count)
        return;
    bt_text_add(html, "<dt>%s</dt><dd>", title);
    bt_html_number(html, format, sum / (double)count);
    bt_text_add(html, "%s", unit);
    if (low < high) {
        bt_text_add(html, " (");
        bt_html_number(html, format, low);
        bt_text_add(html, " to ");
        bt_html_number(html, format, high);
        bt_text_add(html, ")");
    }
    bt_text_add(html, "</dd>\n");
}

/* The texts of the runs in the group, without repeating the previous one. */
static void add_words(const bt_report_all *all, int64_t group, const char *title, const char *key, bt_text *html)
{
    const json_t *last = NULL;
    bool any = false;
    for (const bt_report_run *run = NULL; (run = bt_report_next(all, group, run)) != NULL;) {
        const json_t *value = json_object_get(run->compared.summary, key);
        if (!value || (last && json_equal(value, last)))
            continue;
        if (any)
            bt_text_add(html, ", ");
        else
            bt_text_add(html, "<dt>%s</dt><dd>", title);
        bt_html_value(html, value);
        any = true;
        last = value;
    }
    bt_text_add(html, any ? "</dd>\n" : "");
}

static void add_best(const bt_report_all *all, int64_t group, bt_text *html)
{
    const bt_report_run *run = bt_report_next(all, group, NULL);
    const json_t *best = json_object_get(run->compared.summary, "best");
    if (!json_is_object(best) || all->groups[group].count > 1)
        return;
    bt_text_add(html, "<dt>best ");
    bt_html(html, bt_json_read_text(best, "metric"));
    bt_text_add(html, "</dt><dd>");
    bt_html_value(html, json_object_get(best, "value"));
    bt_text_add(html, " at step ");
    bt_html_value(html, json_object_get(best, "step"));
    bt_text_add(html, "</dd>\n");
}

static void add_card(const bt_report_all *all, int64_t group, const json_t *rows, bt_text *html)
{
    int64_t open = 0;
    bt_text_add(html, "<article class=\"card\">");
    if (all->group_count > 1) {
        bt_text_add(html,
                    "<h3 class=\"head\"><svg class=\"swatch\" viewBox=\"0 0 26 12\" aria-hidden=\"true\"><path "
                    "class=\"line c%d\" stroke-dasharray=\"%s\" d=\"M0 6H26\"/></svg><span>%s: ",
                    (int)(group % BT_SVG_COLOURS), bt_svg_dashes((int)group), all->groups[group].letters);
        add_settings(rows, group, html);
        bt_text_add(html, "</span></h3>\n");
    }
    bt_text_add(html, "<dl><dt>%s</dt><dd>", all->groups[group].count > 1 ? "runs" : "run");
    for (const bt_report_run *run = NULL; (run = bt_report_next(all, group, run)) != NULL;) {
        bt_text_add(html, run->place ? ", " : "");
        bt_html(html, run->name);
        open += !run->compared.summary;
    }
    bt_text_add(html, "</dd>\n");
    if (open)
        bt_text_add(html, "<dt>not finished</dt><dd>%lld</dd>\n", (long long)open);
    add_words(all, group, "seed", "seed", html);
    add_words(all, group, "ended by", "stopped", html);
    add_number(all, group, "steps", "steps", "%.0f", "", html);
    add_number(all, group, "time", "seconds", "%.3g", " s", html);
    add_number(all, group, "a step", "ms_per_step", "%.3g", " ms", html);
    add_best(all, group, html);
    add_words(all, group, "computed by", "backend", html);
    add_words(all, group, "libbetty", "version", html);
    bt_text_add(html, "</dl></article>\n");
}

bt_status bt_report_runs(const bt_report_all *all, bt_text *html)
{
    if (!all->run_count)
        return BT_OK;
    json_t *rows = settings_apart(all);
    bt_html_section(html, "runs", all->run_count > 1 ? "Runs" : "Run");
    bt_text_add(html, "<div class=\"cards\">\n");
    for (int64_t g = 0; rows && g < all->group_count; g++)
        add_card(all, g, rows, html);
    bt_text_add(html, "</div>\n</section>\n");
    const bool good = rows != NULL;
    json_decref(rows);
    return good ? BT_OK : BT_ERROR_MEMORY;
}

/* ---- differences ---- */

static void add_rows(const json_t *rows, const bt_report_all *all, const char *title, bt_text *html)
{
    char label[32];
    bt_html_in(html, "h3", title);
    if (!json_array_size(rows)) {
        bt_text_add(html, json_is_null(rows)
                              ? "<p class=\"soft\">Unknown: a run has no checkpoint, which records it.</p>\n"
                              : "<p class=\"soft\">No differences.</p>\n");
        return;
    }
    bt_html_table(html, title, "<th></th>");
    for (int64_t r = 0; r < all->run_count; r++)
        bt_html_in(html, "th", bt_report_label(all, &all->runs[r], label));
    bt_text_add(html, "</tr>\n");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *values = json_object_get(row, "values");
        bt_text_add(html, "<tr>");
        bt_html_in(html, "td", bt_json_read_text(row, "name"));
        for (size_t k = 0; k < json_array_size(values); k++) {
            bt_text_add(html, "<td>");
            bt_html_value(html, json_array_get(values, k));
            bt_text_add(html, "</td>");
        }
        bt_text_add(html, "</tr>\n");
    }
    bt_text_add(html, "</table></div>\n");
}

static json_t *compare(const bt_report_all *all)
{
    const size_t count = (size_t)all->run_count;
    bt_compared *runs = bt_alloc_array(count + 1, sizeof *runs);
    const char **names = bt_alloc_array(count + 1, sizeof *names);
    json_t *compared = NULL;
    for (size_t r = 0; runs && names && r < count; r++) {
        runs[r] = all->runs[r].compared;
        names[r] = all->runs[r].name;
    }
    if (runs && names)
        compared = bt_compare_runs(names, runs, count);
    bt_free(runs);
    bt_free(names);
    return compared;
}

bt_status bt_report_differences(const bt_report_all *all, bt_text *html)
{
    if (all->run_count < 2)
        return BT_OK;
    json_t *compared = compare(all);
    if (!compared)
        return BT_ERROR_MEMORY;
    bt_html_section(html, "differences", "Differences between runs");
    bt_text_add(html, "<div class=\"box\">");
    add_rows(json_object_get(compared, "configuration"), all, "Configuration", html);
    add_rows(json_object_get(compared, "code"), all, "Code and data", html);
    add_rows(json_object_get(compared, "results"), all, "Results", html);
    bt_text_add(html, "</div>\n</section>\n");
    json_decref(compared);
    return BT_OK;
}
