/* engine/session/curve_show.c: a curve of bytes and work, as text and as a plot. */
#include "engine/output/json.h"
#include "engine/output/sheet.h"
#include "engine/output/svg.h"
#include "engine/session/session.h"

#include <math.h>

/* ---- text ---- */

static const char *const headers[] = {"", "bytes", "of all", "more work", "memory_budget"};

static void fill(bt_sheet *sheet, int64_t row, const json_t *point, double base)
{
    const double bytes = bt_json_read_number(point, "bytes"), budget = bt_json_read_number(point, "memory_budget");
    char text[32];
    bt_text_add(bt_sheet_cell(sheet, row, 0), "    %s", bt_bytes_text(text, (size_t)bytes));
    bt_text_add(bt_sheet_cell(sheet, row, 1), "%.0f", bytes);
    bt_text_add(bt_sheet_cell(sheet, row, 2), "%.1f %%", 100 * bytes / base);
    bt_text_add(bt_sheet_cell(sheet, row, 3), "%.1f %%", 100 * bt_json_read_number(point, "extra_work"));
    bt_text_add(bt_sheet_cell(sheet, row, 4), isnan(budget) ? "none" : "%.0f", budget);
}

static void add_points(const json_t *points, bt_text *text)
{
    const int64_t count = (int64_t)json_array_size(points);
    bt_sheet *sheet = bt_sheet_new(count, BT_COUNT_OF(headers));
    const double base = bt_json_read_number(json_array_get(points, 0), "bytes");
    for (int c = 0; sheet && c < BT_COUNT_OF(headers); c++)
        bt_text_add(bt_sheet_cell(sheet, 0, c), "%s", headers[c]);
    for (int64_t i = 0; sheet && i < count; i++)
        fill(sheet, i + 1, json_array_get(points, (size_t)i), base);
    if (sheet)
        bt_sheet_add(sheet, false, text);
    text->failed = text->failed || !sheet;
    bt_sheet_free(sheet);
}

void bt_curve_table(const json_t *curve, bt_text *text)
{
    const json_t *run = json_object_get(curve, "run"), *phases = json_object_get(curve, "phases");
    bt_text_add(text, "\nless memory by recomputing values: plans for falling budgets, down to the smallest found\n\n  "
                      "whole run, by memory_budget in [engine]\n");
    add_points(run, text);
    for (size_t i = 0; i < json_array_size(phases); i++) {
        const json_t *phase = json_array_get(phases, i), *points = json_object_get(phase, "points");
        const char *level = bt_json_read_text(phase, "level"), *name = bt_json_read_text(phase, "phase");
        char bytes[32];
        if (json_array_size(points) > 1) {
            bt_text_add(text, "\n  %s, %s, by memory_budget in [%s]\n", level, name, level);
            add_points(points, text);
        } else {
            bt_text_add(text, "\n  %s, %s: %s, the same in all of these\n", level, name,
                        bt_bytes_text(bytes, (size_t)bt_json_read_number(json_array_get(points, 0), "bytes")));
        }
    }
}

/* ---- the picture ---- */

typedef struct painting {
    bt_svg_line *lines;
    int64_t count;
    bt_region *region;
    bool failed;
} painting;

static void tick_bytes(double value, char text[32]) { bt_bytes_text(text, (size_t)value); }
static void tick_part(double value, char text[32]) { snprintf(text, 32, "%.4g %%", value); }

/* From the fewest bytes on, because a line has its name there. */
static void add_line(painting *p, const char *name, const json_t *points, bool heavy)
{
    const size_t count = json_array_size(points);
    bt_svg_point *list = bt_region_alloc(p->region, (count + 1) * sizeof *list);
    p->failed = p->failed || !list || !name;
    for (size_t i = 0; i < count && !p->failed; i++) {
        const json_t *point = json_array_get(points, count - 1 - i);
        const double bytes = bt_json_read_number(point, "bytes"), extra = bt_json_read_number(point, "extra_work"),
                     budget = bt_json_read_number(point, "memory_budget");
        char text[32];
        list[i] = (bt_svg_point){.x = bytes, .y = 100 * extra};
        list[i].note = bt_region_format(
            p->region, isnan(budget) ? "%s, %.1f %% more work" : "%s, %.1f %% more work: memory_budget = %.0f",
            bt_bytes_text(text, (size_t)bytes), 100 * extra, budget);
        p->failed = p->failed || !list[i].note;
    }
    p->lines[p->count++] = (bt_svg_line){.name = name, .points = list, .count = (int64_t)count, .heavy = heavy};
}

static double unit_of(const json_t *run)
{
    double unit = 1;
    while (bt_json_read_number(json_array_get(run, 0), "bytes") > 1024 * unit)
        unit *= 1024;
    return unit;
}

static void paint(painting *p, const json_t *curve, bt_text *text)
{
    const json_t *phases = json_object_get(curve, "phases"), *run = json_object_get(curve, "run");
    for (size_t i = 0; i < json_array_size(phases) && !p->failed; i++) {
        const json_t *phase = json_array_get(phases, i), *points = json_object_get(phase, "points");
        if (json_array_size(points) > 1)
            add_line(p,
                     bt_region_format(p->region, "%s, %s", bt_json_read_text(phase, "level"),
                                      bt_json_read_text(phase, "phase")),
                     points, false);
    }
    if (!p->failed)
        add_line(p, "whole run", run, true);
    const bt_svg_lines chart = {
        .title = bt_region_format(p->region, "%s: what less memory costs", bt_json_read_text(curve, "name")),
        .caption = "each point is a plan that a memory_budget gives; results stay the same, bit for bit",
        .x_title = "bytes live at the peak; for the whole run, including what is kept",
        .y_title = "recomputed work, as a share of the other work",
        .lines = p->lines,
        .count = p->count,
        .x_tick = tick_bytes,
        .y_tick = tick_part,
        .x_unit = unit_of(run),
        .y_unit = 1};
    p->failed = p->failed || !chart.title;
    if (!p->failed)
        bt_svg_lines_add(&chart, text);
}

bt_status bt_curve_picture(const json_t *curve, bt_text *text)
{
    painting p = {.region = bt_region_new()};
    p.lines = bt_alloc_array(json_array_size(json_object_get(curve, "phases")) + 1, sizeof *p.lines);
    p.failed = !p.region || !p.lines;
    if (!p.failed)
        paint(&p, curve, text);
    bt_free(p.lines);
    bt_region_free(p.region);
    return p.failed || text->failed ? bt_fail(BT_ERROR_MEMORY, "out of memory") : BT_OK;
}
