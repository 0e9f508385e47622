/* engine/report/series.c: metrics over steps, from metrics.jsonl; the mean of several runs; thinning. */
#include "engine/report/report_inside.h"

#include <math.h>
#include <string.h>

#define MOST_STEPS (INT64_C(1) << 52) /* each is exact as a double */

/* ---- one run ---- */

const bt_series *bt_series_find(const bt_series_list *list, const char *name)
{
    const json_t *place = json_object_get(list->places, name);
    return place ? &list->list[json_integer_value(place)] : NULL;
}

static bt_series *find_or_add(bt_series_list *list, const char *name)
{
    const json_t *place = json_object_get(list->places, name);
    if (place)
        return &list->list[json_integer_value(place)];
    bt_series *grown = bt_grow(list->list, &list->room, list->count + 1, sizeof *list->list);
    if (!grown)
        return NULL;
    list->list = grown;
    grown[list->count] = (bt_series){.name = bt_strdup(name)};
    if (!grown[list->count].name || json_object_set_new(list->places, name, json_integer(list->count)) != 0) {
        bt_free(grown[list->count].name);
        return NULL;
    }
    return &list->list[list->count++];
}

/* A repeated step replaces the earlier value. A step before the last one is skipped: no run writes that. */
static bt_status add_point(bt_series *series, double step, double value, double interval)
{
    if (series->count && series->points[series->count - 1].step > step)
        return BT_OK;
    if (series->count && series->points[series->count - 1].step == step)
        series->count--;
    bt_svg_at *grown = bt_grow(series->points, &series->room, series->count + 1, sizeof *series->points);
    if (!grown)
        return BT_ERROR_MEMORY;
    series->points = grown;
    const double half = isfinite(interval) && interval >= 0 ? interval : 0;
    grown[series->count++] = (bt_svg_at){step, value, value - half, value + half};
    series->interval = series->interval || half > 0;
    return BT_OK;
}

static bool is_interval(const char *name)
{
    static const char end[] = ".interval";
    const size_t length = strlen(name), ending = sizeof end - 1;
    return length > ending && strcmp(name + length - ending, end) == 0;
}

bt_status bt_series_take(void *user, json_t *line)
{
    bt_series_list *list = user;
    const json_t *step = json_object_get(line, "step");
    const char *name;
    json_t *value;
    if (!json_is_integer(step) || json_integer_value(step) < 0 || json_integer_value(step) > MOST_STEPS)
        return BT_OK;
    if (!list->places && !(list->places = json_object()))
        return BT_ERROR_MEMORY;
    json_object_foreach(line, name, value)
    {
        if (strcmp(name, "step") == 0 || strcmp(name, "time") == 0 || is_interval(name) ||
            !(json_is_number(value) || json_is_null(value)))
            continue;
        if (list->count >= BT_SERIES_MOST && !json_object_get(list->places, name)) {
            list->cut = true;
            continue;
        }
        bt_series *series = find_or_add(list, name);
        char *beside = bt_string("%s.interval", name);
        const double interval = beside ? bt_json_read_number(line, beside) : NAN;
        bt_free(beside);
        if (!series || !beside)
            return BT_ERROR_MEMORY;
        BT_TRY(add_point(series, (double)json_integer_value(step), json_is_null(value) ? NAN : json_number_value(value),
                         interval));
    }
    return BT_OK;
}

void bt_series_free(bt_series_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        bt_free(list->list[i].name);
        bt_free(list->list[i].points);
    }
    bt_free(list->list);
    json_decref(list->places);
    *list = (bt_series_list){0};
}

/* ---- several runs ---- */

static int earlier_first(const void *a, const void *b)
{
    const bt_svg_at *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step ? 1 : 0;
}

/* The mean over the finite values; a gap if there are none. */
static bt_svg_at mean_of(const bt_svg_at *points, int64_t count)
{
    bt_svg_at mean = {.step = points[0].step, .low = INFINITY, .high = -INFINITY};
    double sum = 0;
    int64_t there = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(points[i].value))
            continue;
        sum += points[i].value;
        there++;
        mean.low = fmin(mean.low, points[i].value);
        mean.high = fmax(mean.high, points[i].value);
    }
    mean.value = there && isfinite(sum) ? sum / (double)there : NAN;
    return mean;
}

bt_svg_at *bt_series_join(const bt_series *const *series, int64_t count, int64_t *points)
{
    int64_t sum = 0, left = 0;
    for (int64_t k = 0; k < count; k++)
        sum += series[k]->count;
    bt_svg_at *all = bt_alloc_array((size_t)sum + 1, sizeof *all);
    *points = 0;
    if (!all)
        return NULL;
    for (int64_t k = 0, at = 0; k < count; at += series[k++]->count)
        if (series[k]->count)
            memcpy(&all[at], series[k]->points, (size_t)series[k]->count * sizeof *all);
    if (count == 1) {
        *points = sum;
        return all;
    }
    qsort(all, (size_t)sum, sizeof *all, earlier_first);
    for (int64_t i = 0, end; i < sum; i = end) {
        for (end = i; end < sum && all[end].step == all[i].step;)
            end++;
        all[left++] = mean_of(&all[i], end - i);
    }
    *points = left;
    return all;
}

/* The minimum and the maximum of one stretch, in their order, each with the band of the whole stretch. */
static int64_t extremes(const bt_svg_at *points, int64_t count, bt_svg_at *to)
{
    int64_t least = -1, greatest = -1;
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(points[i].value))
            continue;
        least = least < 0 || points[i].value < points[least].value ? i : least;
        greatest = greatest < 0 || points[i].value > points[greatest].value ? i : greatest;
        low = fmin(low, points[i].low);
        high = fmax(high, points[i].high);
    }
    if (least < 0) {
        to[0] = points[0];
        return 1;
    }
    const bt_svg_at first = points[least < greatest ? least : greatest],
                    second = points[least < greatest ? greatest : least];
    to[0] = (bt_svg_at){first.step, first.value, low, high};
    if (least == greatest)
        return 1;
    to[1] = (bt_svg_at){second.step, second.value, low, high};
    return 2;
}

/* Keeps the first and the last point. */
int64_t bt_series_thin(bt_svg_at *points, int64_t count, int64_t most)
{
    const int64_t stretches = most / 2 - 1, inner = count - 2;
    if (count <= most || stretches < 1)
        return count;
    int64_t left = 1;
    for (int64_t s = 0; s < stretches; s++) {
        const int64_t from = 1 + inner * s / stretches, to = 1 + inner * (s + 1) / stretches;
        bt_svg_at kept[2];
        const int64_t many = extremes(&points[from], to - from, kept);
        memcpy(&points[left], kept, (size_t)many * sizeof *kept); /* overwrites only points already read */
        left += many;
    }
    points[left++] = points[count - 1];
    return left;
}
