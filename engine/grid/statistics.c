/* engine/grid/statistics.c: mean and deviation of the results of runs. */
#include "engine/grid/grid_inside.h"

#include <math.h>
#include <string.h>

json_t *bt_grid_metrics(const json_t *rows)
{
    json_t *names = json_object(), *value;
    const char *name;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_object_foreach(json_object_get(json_array_get(rows, i), "metrics"), name, value)
        {
            names = bt_json_with(names, name, json_true());
        }
    }
    json_t *list = json_array();
    json_object_foreach(names, name, value) { list = bt_json_append(list, json_string(name)); }
    json_decref(names);
    return list;
}

bool bt_grid_in_row(const json_t *run, const json_t *row)
{
    return json_equal(json_object_get(run, "settings"), json_object_get(row, "settings"));
}

static bool is_finished(const json_t *run) { return strcmp(bt_json_read_text(run, "state"), "finished") == 0; }

/* The sample deviation: over n - 1. */
static json_t *spread_of(const double *values, int count)
{
    double sum = 0, squares = 0, least = INFINITY, greatest = -INFINITY;
    for (int i = 0; i < count; i++) {
        sum += values[i];
        least = fmin(least, values[i]);
        greatest = fmax(greatest, values[i]);
    }
    const double mean = sum / count;
    for (int i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return json_pack("{s:i, s:o, s:o, s:o, s:o}", "n", count, "mean", bt_json_number(mean), "deviation",
                     bt_json_number(count > 1 ? sqrt(squares / (count - 1)) : NAN), "least", bt_json_number(least),
                     "greatest", bt_json_number(greatest));
}

/* Over the finite values. */
static json_t *metric_of(const json_t *runs, const json_t *row, const char *name)
{
    double values[BT_GRID_MOST];
    int count = 0;
    for (size_t i = 0; i < json_array_size(runs) && count < BT_GRID_MOST; i++) {
        const json_t *run = json_array_get(runs, i);
        const double value = bt_json_read_number(json_object_get(run, "metrics"), name);
        if (is_finished(run) && bt_grid_in_row(run, row) && isfinite(value))
            values[count++] = value;
    }
    return spread_of(values, count);
}

static bt_status fill(json_t *row, const json_t *runs)
{
    int count = 0, finished = 0;
    json_t *names = json_object(), *metrics = json_object(), *value;
    const char *name;
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        if (!bt_grid_in_row(run, row))
            continue;
        count++;
        finished += is_finished(run);
        json_object_foreach(is_finished(run) ? json_object_get(run, "metrics") : NULL, name, value)
        {
            names = bt_json_with(names, name, json_true());
        }
    }
    json_object_foreach(names, name, value) { metrics = bt_json_with(metrics, name, metric_of(runs, row, name)); }
    const bool good = names && json_object_set_new(row, "runs", json_integer(count)) == 0 &&
                      json_object_set_new(row, "finished", json_integer(finished)) == 0 &&
                      json_object_set(row, "metrics", metrics) == 0;
    json_decref(names);
    json_decref(metrics);
    return good ? BT_OK : bt_fail(BT_ERROR_MEMORY, "out of memory");
}

bt_status bt_grid_rows(json_t *all)
{
    const json_t *runs = json_object_get(all, "runs"), *last = NULL;
    json_t *rows = json_array();
    bt_status status = rows ? BT_OK : bt_fail(BT_ERROR_MEMORY, "out of memory");
    for (size_t i = 0; i < json_array_size(runs) && status == BT_OK; i++) {
        const json_t *run = json_array_get(runs, i);
        bt_text label = {0};
        if (last && bt_grid_in_row(run, last)) /* the runs of a row are adjacent */
            continue;
        bt_grid_label(json_object_get(run, "settings"), &label);
        json_t *row = json_pack("{s:s, s:O}", "row", bt_text_get(&label), "settings", json_object_get(run, "settings"));
        status = row && json_array_append_new(rows, row) == 0 ? fill(row, runs) : BT_ERROR_MEMORY;
        last = row;
        bt_text_free(&label);
    }
    if (status == BT_OK && json_object_set(all, "rows", rows) != 0)
        status = BT_ERROR_MEMORY;
    json_decref(rows);
    return bt_fail(status, "out of memory");
}
