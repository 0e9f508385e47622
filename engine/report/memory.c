/* engine/report/memory.c: the memory plan, phase by phase. */
#include "engine/report/report_inside.h"

#include <math.h>
#include <string.h>

typedef struct planning {
    bt_text *html;
    bt_bar_kinds kinds;
    double most; /* bytes of the longest bar */
} planning;

static void add_row(planning *p, const char *name, json_t *bytes, double size)
{
    char words[32];
    bt_text_add(p->html, "<div class=\"row\"><div>");
    bt_html(p->html, name);
    bt_text_add(p->html, "</div>");
    bt_bar_add(p->html, &p->kinds, bytes, size, p->most, bt_bar_bytes(size, words));
    bt_text_add(p->html, "</div>\n");
}

static double largest_of(const json_t *levels)
{
    double most = 1;
    for (size_t i = 0; i < json_array_size(levels); i++) {
        const json_t *level = json_array_get(levels, i), *phases = json_object_get(level, "phases");
        most = fmax(most, bt_bar_length(bt_json_read_number(level, "persistent")));
        for (size_t k = 0; k < json_array_size(phases); k++)
            most = fmax(most, bt_bar_length(bt_json_read_number(json_array_get(phases, k), "arena")));
    }
    return most;
}

static void add_level(planning *p, const json_t *level)
{
    const json_t *phases = json_object_get(level, "phases");
    bt_html_in(p->html, "h4", bt_json_read_text(level, "level"));
    add_row(p, "kept for the whole run", json_object_get(level, "kept"), bt_json_read_number(level, "persistent"));
    for (size_t i = 0; i < json_array_size(phases); i++) {
        const json_t *phase = json_array_get(phases, i);
        add_row(p, bt_json_read_text(phase, "phase"), json_object_get(phase, "at_peak"),
                bt_json_read_number(phase, "arena"));
    }
}

/* "Kept 1.2 MiB and arena 428 KiB make 1.6 MiB; measured: the same." */
static void add_sums(const bt_report_run *run, bt_text *html)
{
    const json_t *planned = json_object_get(run->plan, "planned_bytes"), *peak = json_object_get(run->plan, "peak");
    const json_t *measured = json_object_get(run->compared.summary, "measured_bytes");
    const double kept = bt_json_read_number(planned, "persistent"), arena = bt_json_read_number(planned, "arena");
    char text[3][32];
    bt_bar_bytes(kept, text[0]);
    bt_bar_bytes(arena, text[1]);
    bt_bar_bytes(kept + arena, text[2]);
    bt_text_add(html, "<p>%s kept for the whole run, and %s for the phases, one at a time: <strong>%s</strong> planned",
                text[0], text[1], text[2]);
    if (measured) {
        const double found = bt_json_read_number(measured, "persistent") + bt_json_read_number(measured, "arena");
        bt_text_add(html, found == kept + arena ? ", and as many measured (%.0f bytes)" : ", %.0f bytes measured",
                    found);
    }
    bt_text_add(html, ".");
    if (peak) {
        bt_text_add(html, " The largest phase is ");
        bt_html(html, bt_json_read_text(peak, "level"));
        bt_text_add(html, ", ");
        bt_html(html, bt_json_read_text(peak, "phase"));
        bt_text_add(html, ".");
    }
    bt_text_add(html, "</p>\n");
}

static void add_value(const char *level, const char *phase, const json_t *value, bt_text *html)
{
    bt_text_add(html, "<tr>");
    bt_html_in(html, "td", level);
    bt_html_in(html, "td", phase);
    bt_html_in(html, "td", bt_json_read_text(value, "value"));
    bt_html_in(html, "td", bt_json_read_text(value, "category"));
    bt_text_add(html, "<td>");
    bt_html_number(html, "%.0f", bt_json_read_number(value, "bytes"));
    bt_text_add(html, "</td></tr>\n");
}

static void add_largest(const json_t *levels, bt_text *html)
{
    bt_text_add(html, "<details class=\"texts\"><summary>Largest values at each peak</summary>");
    bt_html_table(html, "Largest values at each peak",
                  "<th>level</th><th>phase</th><th>value</th><th>kind</th><th>bytes</th></tr>\n");
    for (size_t i = 0; i < json_array_size(levels); i++) {
        const json_t *level = json_array_get(levels, i), *phases = json_object_get(level, "phases");
        for (size_t k = 0; k < json_array_size(phases); k++) {
            const json_t *phase = json_array_get(phases, k), *list = json_object_get(phase, "largest");
            for (size_t v = 0; v < json_array_size(list); v++)
                add_value(bt_json_read_text(level, "level"), bt_json_read_text(phase, "phase"), json_array_get(list, v),
                          html);
        }
    }
    bt_text_add(html, "</table></div></details>\n");
}

static const json_t *levels_of(const bt_report_run *run) { return json_object_get(run->plan, "levels"); }

static void add_plan(const bt_report_run *run, const char *title, bt_text *html)
{
    const json_t *levels = levels_of(run);
    bt_text rows = {0};
    planning p = {.html = &rows, .most = largest_of(levels)};
    for (size_t i = 0; i < json_array_size(levels); i++)
        add_level(&p, json_array_get(levels, i));
    bt_text_add(html, "<div class=\"box\">");
    if (*title)
        bt_html_in(html, "h3", title);
    add_sums(run, html);
    bt_bar_legend(&p.kinds, html);
    bt_text_put(html, bt_text_get(&rows), (size_t)rows.size);
    add_largest(levels, html);
    bt_text_add(html, "</div>\n");
    html->failed = html->failed || rows.failed;
    bt_text_free(&rows);
}

void bt_report_memory(const bt_report_all *all, bt_text *html)
{
    bool open = false;
    for (int64_t g = 0; g < all->group_count; g++) {
        const bt_report_run *run = &all->runs[all->groups[g].first];
        bt_text title = {0};
        if (json_is_object(run->plan) && bt_report_sharers(all, g, levels_of, &title)) {
            if (!open)
                bt_html_section(html, "memory", "Memory by phase");
            open = true;
            add_plan(run, bt_text_get(&title), html);
        }
        html->failed = html->failed || title.failed;
        bt_text_free(&title);
    }
    bt_text_add(html, open ? "</section>\n" : "");
}
