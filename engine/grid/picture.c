/* engine/grid/picture.c: a picture of the results: a dot for each run, with mean and deviation. */
#include "engine/grid/grid_inside.h"
#include "engine/output/svg.h"

#include <math.h>
#include <string.h>

typedef struct painting {
    bt_svg_spreads chart;
    const json_t *all, *names;
    bt_region *region;
    bool failed;
} painting;

/* Room in the region for `count` items; NULL: failed. */
static void *room(painting *p, size_t count, size_t size)
{
    size_t bytes;
    void *memory = bt_mul_size(count + 1, size, &bytes) ? bt_region_alloc(p->region, bytes) : NULL;
    p->failed = p->failed || !memory;
    return memory;
}

static bt_svg_spread spread_of(painting *p, const json_t *row, const char *name)
{
    const json_t *runs = json_object_get(p->all, "runs");
    const json_t *found = json_object_get(json_object_get(row, "metrics"), name);
    const double n = bt_json_read_number(found, "n");
    double *values = n > 0 ? room(p, (size_t)n, sizeof *values) : NULL;
    bt_svg_spread spread = {.values = values,
                            .mean = bt_json_read_number(found, "mean"),
                            .deviation = bt_json_read_number(found, "deviation")};
    for (size_t i = 0; values && i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        const double value = bt_json_read_number(json_object_get(run, "metrics"), name);
        if (strcmp(bt_json_read_text(run, "state"), "finished") == 0 && bt_grid_in_row(run, row) && isfinite(value))
            values[spread.count++] = value;
    }
    return spread;
}

static const char *note_of(painting *p, const json_t *row)
{
    bt_text why = {0};
    bt_grid_why(p->all, row, &why);
    const char *note = why.size ? bt_region_format(p->region, "%s", bt_text_get(&why)) : NULL;
    p->failed = p->failed || (why.size && !note);
    bt_text_free(&why);
    return note;
}

static void paint(painting *p, bt_text *text)
{
    const json_t *rows = json_object_get(p->all, "rows");
    const size_t count = json_array_size(rows), quantities = json_array_size(p->names);
    const char **labels = room(p, count, sizeof *labels), **notes = room(p, count, sizeof *notes);
    const char **names = room(p, quantities, sizeof *names);
    bt_svg_spread *spreads = room(p, count * quantities, sizeof *spreads);
    for (size_t q = 0; !p->failed && q < quantities; q++)
        names[q] = json_string_value(json_array_get(p->names, q));
    for (size_t i = 0; !p->failed && i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        labels[i] = bt_json_read_text(row, "row");
        notes[i] = note_of(p, row);
        for (size_t q = 0; q < quantities; q++)
            spreads[i * quantities + q] = spread_of(p, row, names[q]);
    }
    if (p->failed)
        return;
    p->chart = (bt_svg_spreads){.title = bt_json_read_text(p->all, "name"),
                                .caption = "one dot per run; the line is their mean, the bar one standard deviation on "
                                           "each side",
                                .quantities = names,
                                .quantity_count = (int64_t)quantities,
                                .rows = labels,
                                .notes = notes,
                                .row_count = (int64_t)count,
                                .spreads = spreads};
    bt_svg_spreads_add(&p->chart, text);
}

bt_status bt_grid_picture(const json_t *all, bt_text *text)
{
    json_t *names = bt_grid_metrics(json_object_get(all, "rows"));
    painting p = {.all = all, .names = names, .region = bt_region_new()};
    p.failed = !names || !p.region;
    if (!p.failed)
        paint(&p, text);
    json_decref(names);
    bt_region_free(p.region);
    return p.failed || text->failed ? bt_fail(BT_ERROR_MEMORY, "out of memory") : BT_OK;
}
