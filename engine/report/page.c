/* engine/report/page.c: the page, assembled from its parts. It loads nothing and runs no script. */
#include "engine/report/report_inside.h"

#include "base/version.h"
#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- pieces of HTML ---- */

void bt_html(bt_text *html, const char *words) { bt_svg_words(html, words, INT_MAX); }

void bt_html_in(bt_text *html, const char *tag, const char *words)
{
    bt_text_add(html, "<%s>", tag);
    bt_html(html, words);
    bt_text_add(html, "</%s>", tag);
}

void bt_html_number(bt_text *html, const char *format, double value)
{
    char text[64];
    if (isnan(value)) {
        bt_text_add(html, "–");
        return;
    }
    snprintf(text, sizeof text, format, value);
    bt_html(html, text);
}

void bt_html_value(bt_text *html, const json_t *value)
{
    if (json_is_integer(value))
        bt_text_add(html, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        bt_text_add(html, "%.6g", json_real_value(value));
    else if (json_is_string(value))
        bt_html(html, json_string_value(value));
    else
        bt_text_add(html, "%s", json_is_true(value) ? "true" : json_is_false(value) ? "false" : "–");
}

void bt_html_table(bt_text *html, const char *label, const char *head)
{
    bt_text_add(html, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"");
    bt_html(html, label);
    bt_text_add(html, "\"><table>\n<tr>%s", head);
}

void bt_html_section(bt_text *html, const char *id, const char *title)
{
    bt_text_add(html, "<section id=\"%s\">\n<h2>%s</h2>\n", id, title);
}

/* ---- the page ---- */

static bt_status add_parts(const bt_report_all *all, bt_text *html)
{
    BT_TRY(bt_report_runs(all, html));
    BT_TRY(bt_report_curves(all, html));
    bt_report_memory(all, html);
    bt_report_ablation(all, html);
    bt_report_equation(all, html);
    bt_report_check(all, html);
    BT_TRY(bt_report_profile(all, html));
    BT_TRY(bt_report_differences(all, html));
    bt_report_configuration(all, html);
    return BT_OK;
}

/* Links to the existing sections. */
static void add_links(const bt_text *parts, bt_text *html)
{
    static const char begin[] = "<section id=\"";
    bt_text_add(html, "<nav aria-label=\"Sections\">");
    for (const char *at = bt_text_get(parts); (at = strstr(at, begin)) != NULL;) {
        at += sizeof begin - 1;
        const int id = (int)strcspn(at, "\"");
        const char *title = strstr(at, "<h2>") + 4;
        bt_text_add(html, "<a href=\"#%.*s\">%.*s</a>", id, at, (int)strcspn(title, "<"), title);
    }
    bt_text_add(html, "</nav>\n");
}

static void add_head(const bt_report_all *all, const bt_text *parts, bt_text *html)
{
    bt_text_add(html, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                      "'unsafe-inline'; img-src data:\">\n<meta name=\"viewport\" content=\"width=device-width, "
                      "initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n");
    bt_html_in(html, "title", all->title);
    bt_text_add(html, "\n<style>\n%s</style>\n</head>\n<body>\n<header>\n", bt_report_style);
    bt_html_in(html, "h1", all->title);
    bt_text_add(html, "\n<p class=\"soft\">Report of betty-run %s", BT_VERSION);
    if (all->run_count > 1)
        bt_text_add(html, ": %lld runs, %lld configuration%s", (long long)all->run_count, (long long)all->group_count,
                    all->group_count > 1 ? "s" : "");
    bt_text_add(html, "</p>\n");
    add_links(parts, html);
    bt_text_add(html, "</header>\n<main>\n");
}

bt_status bt_report_page(const char *const *folders, int64_t count, bt_text *html)
{
    bt_report_all all = {0};
    bt_text parts = {0};
    if (!folders || count < 1 || !html)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_report_page: folders are needed, and a text");
    bt_status status = bt_report_read(folders, count, &all);
    if (status == BT_OK)
        status = add_parts(&all, &parts);
    if (status == BT_OK) {
        add_head(&all, &parts, html);
        bt_text_put(html, bt_text_get(&parts), (size_t)parts.size);
        bt_text_add(html,
                    "</main>\n<footer>A curve of more than %d points is thinned: for each range of steps it keeps the "
                    "smallest and the largest value. Everything is in this file: it loads nothing and runs no "
                    "script.</footer>\n</body>\n</html>\n",
                    BT_SERIES_POINTS);
        status = html->failed || parts.failed ? BT_ERROR_MEMORY : BT_OK;
    }
    bt_text_free(&parts);
    bt_report_free(&all);
    return bt_fail(status, "no memory for the report");
}

bt_status bt_report_write(const char *const *folders, int64_t count, const char *output, char **path)
{
    bt_text html = {0};
    bt_output *made = NULL;
    *path = NULL;
    bt_status status = bt_report_page(folders, count, &html);
    const char *folder = output || status != BT_OK ? output : folders[0];
    if (status == BT_OK && output)
        status = bt_output_open(output, true, &made);
    if (status == BT_OK)
        status = bt_output_write(folder, "report.html", bt_text_get(&html), (size_t)html.size);
    if (status == BT_OK && !(*path = bt_string("%s/report.html", folder)))
        status = BT_ERROR_MEMORY;
    bt_text_free(&html);
    bt_output_free(made);
    return status;
}
