/* engine/report/findings.c: the gradients that the levels follow, the result of a check of the hypergradient, and all
 * settings. */
#include "engine/report/report_inside.h"

#include <math.h>
#include <string.h>

/* ---- the equation ---- */

static const json_t *equation_of(const bt_report_run *run) { return run->equation; }

/* Each line gets an element of its own, so that the rest of a long line is indented. */
static void add_lines(const char *lines, bt_text *html)
{
    bt_text_add(html, "<pre>");
    while (*lines) {
        const int length = (int)strcspn(lines, "\n");
        char *line = bt_string("%.*s", length, lines);
        bt_text_add(html, "<span class=\"equation\">");
        bt_html(html, line ? line : "");
        bt_text_add(html, "</span>");
        html->failed = html->failed || !line;
        bt_free(line);
        lines += length + (lines[length] == '\n');
    }
    bt_text_add(html, "</pre>");
}

void bt_report_equation(const bt_report_all *all, bt_text *html)
{
    bool open = false;
    for (int64_t g = 0; g < all->group_count; g++) {
        const json_t *equation = all->runs[all->groups[g].first].equation;
        bt_text letters = {0};
        if (equation && bt_report_sharers(all, g, equation_of, &letters)) {
            if (!open)
                bt_html_section(html, "equation", "Which gradients the levels follow");
            open = true;
            bt_text_add(html, "<div class=\"box\">");
            if (letters.size)
                bt_html_in(html, "h3", bt_text_get(&letters));
            add_lines(json_string_value(equation), html);
            bt_text_add(html, "</div>\n");
        }
        html->failed = html->failed || letters.failed;
        bt_text_free(&letters);
    }
    bt_text_add(html, open ? "</section>\n" : "");
}

/* ---- the check ---- */

static void add_samples(const json_t *level, bt_text *html)
{
    const json_t *samples = json_object_get(level, "samples");
    const bool solved = json_object_get(level, "solved") != NULL;
    bt_text_add(html, "<details><summary>Samples</summary>");
    bt_html_table(html, "Samples", "<th>sample</th><th>method</th><th>difference</th>");
    bt_text_add(html, solved ? "<th>solved</th></tr>\n" : "</tr>\n");
    for (size_t i = 0; i < json_array_size(samples); i++) {
        const json_t *row = json_array_get(samples, i);
        bt_text_add(html, "<tr><td>");
        bt_html_value(html, json_object_get(row, "sample"));
        bt_text_add(html, "</td><td>");
        bt_html_number(html, "%.6g", bt_json_read_number(row, "method"));
        bt_text_add(html, "</td><td>");
        bt_html_number(html, "%.6g", bt_json_read_number(row, "difference"));
        if (solved) {
            bt_text_add(html, "</td><td>");
            bt_html_number(html, "%.6g", bt_json_read_number(row, "reference"));
        }
        bt_text_add(html, "</td></tr>\n");
    }
    bt_text_add(html, "</table></div></details>\n");
}

static void add_parts(const json_t *level, bt_text *html)
{
    const json_t *parts = json_object_get(level, "parts");
    if (!json_array_size(parts))
        return;
    bt_html_table(html, "What must be exact", "<th>what must be exact</th><th>relative error</th></tr>\n");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        bt_text_add(html, "<tr>");
        bt_html_in(html, "td", bt_json_read_text(json_array_get(parts, i), "part"));
        bt_text_add(html, "<td>");
        bt_html_number(html, "%.3g", bt_json_read_number(json_array_get(parts, i), "error"));
        bt_text_add(html, "</td></tr>\n");
    }
    bt_text_add(html, "</table></div>\n");
}

static void add_checked(const json_t *level, const char *label, bt_text *html)
{
    const char *verdict = bt_json_read_text(level, "verdict");
    const bool bad = strncmp(verdict, "DISAGREES", 9) == 0, good = strncmp(verdict, "agrees", 6) == 0;
    bt_text_add(html, "<div class=\"box\"><h3>%s%s", label, *label ? ": " : "");
    bt_html(html, bt_json_read_text(level, "level"));
    bt_text_add(html, "</h3>\n<p class=\"%s\">%s", bad ? "bad" : good ? "good" : "", bad ? "✗ " : good ? "✓ " : "≈ ");
    bt_html(html, verdict);
    bt_text_add(html, "</p>\n<p>Against differences of the retrained loss: cosine ");
    bt_html_number(html, "%.6f", bt_json_read_number(level, "cosine"));
    bt_text_add(html, ", length ");
    bt_html_number(html, "%.6g", bt_json_read_number(level, "ratio"));
    bt_text_add(html, ".</p>\n");
    add_parts(level, html);
    add_samples(level, html);
    bt_text_add(html, "</div>\n");
}

static void add_check(const json_t *check, const char *label, bool *open, bt_text *html)
{
    const json_t *levels = json_object_get(check, "levels");
    for (size_t i = 0; i < json_array_size(levels); i++) {
        if (!*open)
            bt_html_section(html, "check", "Check of the hypergradient");
        *open = true;
        add_checked(json_array_get(levels, i), label, html);
    }
}

void bt_report_check(const bt_report_all *all, bt_text *html)
{
    char label[32];
    bool open = false;
    for (int64_t r = 0; r < all->run_count; r++)
        add_check(all->runs[r].check, bt_report_label(all, &all->runs[r], label), &open, html);
    for (int64_t i = 0; i < all->extra_count; i++)
        add_check(all->extras[i].check, "", &open, html);
    bt_text_add(html, open ? "</section>\n" : "");
}

/* ---- the configuration ---- */

/* Names are SECTION.KEY, grouped by section. */
static void add_settings(json_t *settings, bt_text *html)
{
    const char *name, *last = "";
    json_t *value;
    bt_text_add(html, "<div class=\"cards\">\n");
    json_object_foreach(settings, name, value)
    {
        const size_t section = strcspn(name, ".");
        if (!*last || strncmp(last, name, section + 1) != 0) {
            char *title = bt_string("[%.*s]", (int)section, name);
            bt_text_add(html, *last ? "</table></div>\n<div>" : "<div>");
            bt_html_in(html, "h4", title ? title : "");
            bt_text_add(html, "<table class=\"settings\">\n");
            bt_free(title);
        }
        last = name;
        bt_text_add(html, "<tr>");
        bt_html_in(html, "td", name[section] ? name + section + 1 : name);
        bt_text_add(html, "<td class=\"text\">");
        bt_html_value(html, value);
        bt_text_add(html, "</td></tr>\n");
    }
    bt_text_add(html, *last ? "</table></div>\n</div>\n" : "</div>\n");
}

void bt_report_configuration(const bt_report_all *all, bt_text *html)
{
    if (!all->run_count)
        return;
    bt_html_section(html, "configuration", "Configuration");
    for (int64_t g = 0; g < all->group_count; g++) {
        const bt_report_run *run = &all->runs[all->groups[g].first];
        bt_text_add(html, "<details class=\"box\"><summary>Every setting of ");
        bt_html(html, run->name);
        if (all->group_count > 1)
            bt_text_add(html, " (%s)", all->groups[g].letters);
        bt_text_add(html, "</summary>\n");
        add_settings(run->compared.settings, html);
        bt_text_add(html, "</details>\n");
    }
    bt_text_add(html, "</section>\n");
}
