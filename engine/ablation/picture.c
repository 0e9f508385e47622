/* engine/ablation/picture.c: a picture of the results: bars of bytes and marks of time. */
#include "engine/ablation/ablation_inside.h"
#include "engine/output/svg.h"

#include <math.h>
#include <string.h>

enum { PARTS = 16 };

typedef struct painting {
    bt_svg_chart chart;
    bt_svg_bar *bars;
    bt_region *region;
    const json_t *first; /* the first row */
    const char *parts[PARTS];
    double base, bytes, unit; /* shortest step and bytes of the first row; unit of the axis */
    bool failed;
} painting;

static void tick(double value, char text[32]) { bt_bytes_text(text, (size_t)value); }

static void fill_parts(painting *p, const json_t *categories, bt_svg_bar *bar)
{
    double *parts = bt_region_alloc(p->region, PARTS * sizeof *parts);
    const char *name;
    json_t *bytes, *object;
    int i = 0;
    memcpy(&object, &categories, sizeof object); /* the macro does not write to it */
    json_object_foreach(object, name, bytes)
    {
        if (!parts || i == PARTS)
            break;
        p->parts[i] = name;
        parts[i++] = json_number_value(bytes);
    }
    p->chart.part_count = i > p->chart.part_count ? i : p->chart.part_count;
    p->failed = p->failed || !parts;
    bar->parts = i ? parts : NULL;
}

static void fill_mark(painting *p, const json_t *row, bt_svg_bar *bar)
{
    const bt_ablation_times times = bt_ablation_times_of(row);
    bar->mark = times.middle;
    bar->low = times.low;
    bar->high = times.high;
    if (isnan(bar->mark))
        return;
    if (isnan(p->base))
        p->base = times.low;
    bar->label = bt_region_format(p->region, "%.3g ms, %.2fx", times.middle, times.low / p->base);
    bar->hollow = !json_is_true(json_object_get(json_object_get(row, "gradient"), "same_bits")) ||
                  !json_equal(json_object_get(row, "loss"), json_object_get(p->first, "loss"));
    p->chart.mark_title = "ms per step, with its range; ● same bits, ○ different results";
}

static void fill(painting *p, const json_t *row, bt_svg_bar *bar)
{
    const double planned = bt_ablation_sum(json_object_get(row, "planned_bytes"));
    const char *why = json_string_value(json_object_get(row, "failed"));
    char text[32];
    bar->name = bt_json_read_text(row, "row");
    fill_parts(p, json_object_get(row, "categories"), bar);
    fill_mark(p, row, bar);
    if (isnan(p->bytes))
        p->bytes = planned;
    if (!isnan(planned))
        bar->end = bt_region_format(p->region, planned == p->bytes ? "%s%s" : "%s%s, %+.1f %%",
                                    bt_bytes_text(text, (size_t)planned),
                                    json_is_false(json_object_get(row, "matches")) ? " (measured: others)" : "",
                                    100 * (planned / p->bytes - 1));
    if (!isnan(planned) && planned > p->unit * 1024)
        p->unit *= 1024;
    if (why)
        bar->note = bt_region_format(p->region, "failed: %s", why);
}

bt_status bt_ablation_picture(const json_t *all, bt_text *text)
{
    const json_t *rows = json_object_get(all, "rows");
    const size_t count = json_array_size(rows);
    painting p = {.first = json_array_get(rows, 0),
                  .base = NAN,
                  .bytes = NAN,
                  .unit = 1,
                  .region = bt_region_new(),
                  .bars = bt_alloc_array(count + 1, sizeof *p.bars)};
    p.failed = !p.region || !p.bars;
    for (size_t i = 0; i < count && !p.failed; i++)
        fill(&p, json_array_get(rows, i), &p.bars[i]);
    if (!p.failed) {
        p.chart.title =
            bt_region_format(p.region, "%s: what memory techniques save and cost", bt_json_read_text(all, "name"));
        p.chart.bar_title = "bytes kept for the run, and live at the peak";
        p.chart.parts = p.parts;
        p.chart.bars = p.bars;
        p.chart.bar_count = (int64_t)count;
        p.chart.tick = tick;
        p.chart.unit = p.unit;
        bt_svg_chart_add(&p.chart, text);
    }
    bt_free(p.bars);
    bt_region_free(p.region);
    return p.failed || text->failed ? bt_fail(BT_ERROR_MEMORY, "out of memory") : BT_OK;
}
