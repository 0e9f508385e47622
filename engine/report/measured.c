/* engine/report/measured.c: what memory techniques save and cost, and where the time of a run went. */
#include "engine/ablation/ablation.h"
#include "engine/report/report_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the ablation ---- */

typedef struct ablating {
    bt_text *html;
    bt_bar_kinds kinds;
    const json_t *first; /* row */
    double bytes, ms;    /* of the longest bars */
    bool timed;
} ablating;

static void measure(ablating *a, const json_t *rows)
{
    a->first = json_array_get(rows, 0);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        a->bytes = fmax(a->bytes, bt_bar_length(bt_ablation_sum(json_object_get(row, "planned_bytes"))));
        a->ms = fmax(a->ms, bt_bar_length(bt_ablation_times_of(row).high));
    }
    a->timed = a->ms > 0;
    a->bytes = a->bytes > 0 ? a->bytes : 1;
}

static void add_bytes(ablating *a, const json_t *row)
{
    const double planned = bt_ablation_sum(json_object_get(row, "planned_bytes"));
    const double before = bt_ablation_sum(json_object_get(a->first, "planned_bytes"));
    char words[80], text[32];
    bt_bar_bytes(planned, text);
    if (row == a->first || planned == before || !(before > 0))
        snprintf(words, sizeof words, "%s", text);
    else
        snprintf(words, sizeof words, "%s, %+.1f %%", text, 100 * (planned / before - 1));
    bt_bar_add(a->html, &a->kinds, json_object_get(row, "categories"), planned, a->bytes, words);
}

static void add_time(ablating *a, const json_t *row)
{
    const bt_ablation_times times = bt_ablation_times_of(row);
    const double ratio = times.low / bt_ablation_times_of(a->first).low;
    const bool same = json_is_true(json_object_get(json_object_get(row, "gradient"), "same_bits")) &&
                      json_equal(json_object_get(row, "loss"), json_object_get(a->first, "loss"));
    char words[80];
    if (!(times.low > 0) || !isfinite(ratio))
        return;
    snprintf(words, sizeof words, "%.3g ms, %.2fx%s", times.middle, ratio, same ? "" : " ≠");
    bt_bar_open(a->html, words);
    bt_bar_part(a->html, 0, bt_bar_length(times.middle) / a->ms, same ? 7 : 4, words);
    bt_bar_range(a->html, bt_bar_length(times.low) / a->ms, bt_bar_length(times.high) / a->ms);
    bt_bar_close(a->html, words);
}

static void add_row(ablating *a, const json_t *row)
{
    const json_t *failed = json_object_get(row, "failed");
    bt_text_add(a->html, "<div class=\"row %s\"><div>", a->timed ? "two" : "wide");
    bt_html(a->html, bt_json_read_text(row, "row"));
    bt_text_add(a->html, "</div>");
    if (failed) {
        bt_text_add(a->html, "<div class=\"bad\">failed: ");
        bt_html_value(a->html, failed);
        bt_text_add(a->html, "</div>");
    } else {
        add_bytes(a, row);
        if (a->timed)
            add_time(a, row);
    }
    bt_text_add(a->html, "</div>\n");
}

static void add_ablation(const bt_report_extra *extra, bt_text *html)
{
    const json_t *rows = json_object_get(extra->ablation, "rows");
    bt_text bars = {0};
    ablating a = {.html = &bars};
    measure(&a, rows);
    for (size_t i = 0; i < json_array_size(rows); i++)
        add_row(&a, json_array_get(rows, i));
    bt_text_add(html, "<div class=\"box\">");
    bt_html_in(html, "h3", extra->name);
    bt_text_add(html,
                "<p class=\"soft\">Bytes kept for the run, and live at the peak, relative to the run as "
                "configured%s</p>\n",
                a.timed ? "; then ms per step with the range of its rounds, and the shortest round relative to the run "
                          "as configured. ≠: the technique gives different results."
                        : ".");
    bt_bar_legend(&a.kinds, html);
    bt_text_put(html, bt_text_get(&bars), (size_t)bars.size);
    bt_text_add(html, "</div>\n");
    html->failed = html->failed || bars.failed;
    bt_text_free(&bars);
}

void bt_report_ablation(const bt_report_all *all, bt_text *html)
{
    bool open = false;
    for (int64_t i = 0; i < all->extra_count; i++) {
        if (!json_is_object(all->extras[i].ablation))
            continue;
        if (!open)
            bt_html_section(html, "ablation", "What memory techniques save and cost");
        open = true;
        add_ablation(&all->extras[i], html);
    }
    bt_text_add(html, open ? "</section>\n" : "");
}

/* ---- the profile ---- */

enum { LARGEST = 10 };

typedef struct share {
    const char *name;
    double seconds;
} share;

static int slower_first(const void *a, const void *b)
{
    const share *x = a, *y = b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

static void name_part(const json_t *call, bt_text *name)
{
    const char *phase = bt_json_read_text(call, "phase");
    bt_text_add(name, *phase ? "%s, %s, %s" : "%s%s, %s", bt_json_read_text(call, "level"), phase,
                bt_json_read_text(call, *phase ? "part" : "kernel"));
}

static void name_kernel(const json_t *call, bt_text *name)
{
    bt_text_add(name, "%s, %s", bt_json_read_text(call, "level"), bt_json_read_text(call, "kernel"));
}

/* Sums the seconds of the calls by the text that `name` gives for each; NULL: out of memory. */
static json_t *add_up(const json_t *calls, void (*name)(const json_t *call, bt_text *name))
{
    json_t *sums = json_object();
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        bt_text text = {0};
        name(call, &text);
        const double seconds = bt_bar_length(bt_json_read_number(call, "seconds")) +
                               bt_bar_length(bt_json_read_number(sums, bt_text_get(&text)));
        sums = bt_json_with(sums, bt_text_get(&text), json_real(seconds));
        bt_text_free(&text);
    }
    return sums;
}

static void add_share(const share *one, double all, double most, bt_text *html)
{
    char words[64];
    snprintf(words, sizeof words, "%.1f %%, %.3g s", all > 0 ? 100 * one->seconds / all : 0, one->seconds);
    bt_text_add(html, "<div class=\"row wide\"><div>");
    bt_html(html, one->name);
    bt_text_add(html, "</div>");
    bt_bar_open(html, words);
    bt_bar_part(html, 0, one->seconds / most, 0, words);
    bt_bar_close(html, words);
    bt_text_add(html, "</div>\n");
}

static bt_status add_shares(const json_t *profile, const char *title, void (*name)(const json_t *call, bt_text *name),
                            bt_text *html)
{
    json_t *sums = add_up(json_object_get(profile, "calls"), name), *value;
    const size_t count = json_object_size(sums);
    share *list = sums ? bt_alloc_array(count + 1, sizeof *list) : NULL;
    size_t at = 0;
    const char *key;
    json_object_foreach(list ? sums : NULL, key, value) list[at++] = (share){key, json_number_value(value)};
    if (list)
        qsort(list, count, sizeof *list, slower_first);
    bt_html_in(html, "h4", title);
    for (size_t i = 0; i < at && i < LARGEST; i++)
        add_share(&list[i], bt_bar_length(bt_json_read_number(profile, "seconds")),
                  list[0].seconds > 0 ? list[0].seconds : 1, html);
    if (at > LARGEST)
        bt_text_add(html, "<p class=\"soft\">and %zu more</p>\n", at - LARGEST);
    const bool good = list != NULL;
    bt_free(list);
    json_decref(sums);
    return good ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status add_profile(const bt_report_all *all, const bt_report_run *run, bt_text *html)
{
    char label[32];
    const double steps = bt_json_read_number(run->profile, "steps"),
                 seconds = bt_json_read_number(run->profile, "seconds");
    bt_text_add(html, "<div class=\"box\">");
    if (*bt_report_label(all, run, label))
        bt_html_in(html, "h3", label);
    bt_text_add(html, "<p>%.0f steps in ", bt_bar_length(steps));
    bt_html_number(html, "%.3g s", seconds);
    bt_text_add(html, ", validations included.</p>\n");
    BT_TRY(add_shares(run->profile, "Parts", name_part, html));
    BT_TRY(add_shares(run->profile, "Kernels", name_kernel, html));
    bt_text_add(html, "</div>\n");
    return BT_OK;
}

bt_status bt_report_profile(const bt_report_all *all, bt_text *html)
{
    bool open = false;
    for (int64_t i = 0; i < all->run_count; i++) {
        if (!json_is_object(all->runs[i].profile))
            continue;
        if (!open)
            bt_html_section(html, "profile", "Where the time went");
        open = true;
        BT_TRY(add_profile(all, &all->runs[i], html));
    }
    bt_text_add(html, open ? "</section>\n" : "");
    return BT_OK;
}
