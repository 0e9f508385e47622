/* engine/output/profile.c: the output of a profiled run: a table, profile.json and trace.json. */
#include "engine/output/profile.h"

#include "engine/output/json.h"
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 20 };

/* ---- rows with the same key, added up ---- */

typedef struct group {
    const bt_profile_row *first;
    double seconds, again, flops, bytes; /* again: seconds of recomputed steps */
    int64_t calls;
} group;

typedef bool same_fn(const bt_profile_row *a, const bt_profile_row *b);

static bool same_part(const bt_profile_row *a, const bt_profile_row *b)
{
    return strcmp(a->owner, b->owner) == 0 && strcmp(a->phase, b->phase) == 0 && strcmp(a->part, b->part) == 0 &&
           (*a->phase || strcmp(a->name, b->name) == 0);
}

static bool same_kernel(const bt_profile_row *a, const bt_profile_row *b)
{
    return strcmp(a->owner, b->owner) == 0 && strcmp(a->name, b->name) == 0;
}

static bool same_row(const bt_profile_row *a, const bt_profile_row *b) { return a == b; }

static int slower_first(const void *a, const void *b)
{
    const group *x = a, *y = b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

/* Sums per key, slowest first; for bt_free. NULL: out of memory. */
static group *add_up(const bt_profile *profile, same_fn *same, int64_t *count)
{
    int64_t rows, groups = 0;
    const bt_profile_row *row = bt_profile_rows(profile, &rows);
    group *list = bt_alloc_array((size_t)rows + 1, sizeof *list);
    for (int64_t i = 0; list && i < rows; i++) {
        int64_t at = 0;
        while (at < groups && !same(list[at].first, &row[i]))
            at++;
        if (at == groups)
            list[groups++].first = &row[i];
        list[at].seconds += row[i].seconds;
        list[at].again += row[i].again ? row[i].seconds : 0;
        list[at].flops += row[i].flops * (double)row[i].calls;
        list[at].bytes += row[i].bytes * (double)row[i].calls;
        list[at].calls += row[i].calls;
    }
    if (list)
        qsort(list, (size_t)groups, sizeof *list, slower_first);
    *count = groups;
    return list;
}

/* ---- the table ---- */

typedef struct sums { /* seconds */
    double kernels, again, other;
} sums;

static sums sum_up(const bt_profile *profile)
{
    int64_t rows;
    sums sum = {0};
    const bt_profile_row *row = bt_profile_rows(profile, &rows);
    for (int64_t i = 0; i < rows; i++) {
        *(*row[i].phase ? &sum.kernels : &sum.other) += row[i].seconds;
        sum.again += row[i].again ? row[i].seconds : 0;
    }
    return sum;
}

static void print_again(double again, double all, const char *before, const char *after, FILE *file)
{
    if (again > 0)
        fprintf(file, "%s%.1f %% of that again%s", before, 100 * again / all, after);
}

static void print_group(const group *g, const bt_profile_total *total, const char *name, FILE *file)
{
    double share = total->seconds > 0 ? 100 * g->seconds / total->seconds : 0;
    fprintf(file, "  %5.1f %%  %10.3f us/step  %8.2f us/call", share, 1e6 * g->seconds / (double)total->steps,
            1e6 * g->seconds / (double)g->calls);
    if (g->bytes > 0)
        fprintf(file, "  %6.1f GF/s  %6.1f GB/s", 1e-9 * g->flops / g->seconds, 1e-9 * g->bytes / g->seconds);
    else
        fprintf(file, "  %13s %13s", "", "");
    fprintf(file, "  %s", name);
    print_again(g->again, g->seconds, ", ", "", file);
    fprintf(file, "\n");
}

static void name_part(const bt_profile_row *row, bt_text *text)
{
    bt_text_add(text, *row->phase ? "%s, %s, %s" : "%s%s%s", row->owner, *row->phase ? row->phase : ", ",
                *row->phase ? row->part : row->name);
}

static void name_kernel(const bt_profile_row *row, bt_text *text)
{
    bt_text_add(text, "%s, %s", row->owner, row->name);
}

static void name_row(const bt_profile_row *row, bt_text *text)
{
    bt_text_add(text, "%s, %s%s%s%s%s", row->owner, row->part, *row->part ? ", " : "", row->name,
                *row->path ? " # " : "", row->path);
}

static bt_status print_table(const bt_profile *profile, const bt_profile_total *total, const char *title, same_fn *same,
                             void (*name)(const bt_profile_row *row, bt_text *text), FILE *file)
{
    int64_t count;
    group *list = add_up(profile, same, &count);
    if (!list)
        return BT_ERROR_MEMORY;
    fprintf(file, "\n%s\n", title);
    for (int64_t i = 0; i < count && i < LARGEST; i++) {
        bt_text text = {0};
        name(list[i].first, &text);
        print_group(&list[i], total, bt_text_get(&text), file);
        bt_text_free(&text);
    }
    if (count > LARGEST)
        fprintf(file, "  and %lld more: profile.json\n", (long long)(count - LARGEST));
    bt_free(list);
    return BT_OK;
}

bt_status bt_profile_print(const bt_profile *profile, const bt_profile_total *total, FILE *file)
{
    const sums sum = sum_up(profile);
    double rest = total->seconds - sum.kernels - sum.other;
    fprintf(file, "\nprofile of %lld steps, %.4f ms each: %.1f %% in kernels", (long long)total->steps,
            1e3 * total->seconds / (double)total->steps, 100 * sum.kernels / total->seconds);
    print_again(sum.again, sum.kernels, " (", ")", file);
    fprintf(file, ", %.1f %% in drawing batches, %.1f %% elsewhere\n", 100 * sum.other / total->seconds,
            100 * rest / total->seconds);
    if (bt_profile_ticks(profile))
        fprintf(file, "kernels are timed by events of the device, one after the other; programs are launched call by "
                      "call, not as graphs\n");
    BT_TRY(print_table(profile, total, "parts", same_part, name_part, file));
    BT_TRY(print_table(profile, total, "kernels, by level", same_kernel, name_kernel, file));
    return print_table(profile, total, "single calls", same_row, name_row, file);
}

/* ---- the files ---- */

static json_t *row_json(const bt_profile_row *row, const bt_profile_total *total)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:f, s:f, s:f, s:f}", "level", row->owner, "phase",
                     row->phase, "part", row->part, "kernel", row->name, "path", row->path, "again", (int)row->again,
                     "calls", (json_int_t)row->calls, "seconds", row->seconds, "share", row->seconds / total->seconds,
                     "flops", row->flops, "bytes", row->bytes);
}

static bt_status write_json(const char *folder, const char *name, json_t *object)
{
    bt_status status = bt_json_write(folder, name, object, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(object);
    return status;
}

static bt_status write_profile(const bt_profile *profile, const bt_profile_total *total, const char *folder)
{
    int64_t count;
    group *list = add_up(profile, same_row, &count);
    json_t *calls = list ? json_array() : NULL;
    for (int64_t i = 0; list && i < count; i++)
        calls = bt_json_append(calls, row_json(list[i].first, total));
    bt_free(list);
    json_t *object =
        json_pack("{s:I, s:f, s:f, s:s}", "steps", (json_int_t)total->steps, "seconds", total->seconds, "again_seconds",
                  sum_up(profile).again, "timed_by", bt_profile_ticks(profile) ? "device" : "host");
    return write_json(folder, "profile.json", bt_json_with(object, "calls", calls));
}

/* Each level is a thread of the trace. */
static json_t *event_json(const bt_profile_row *row, const bt_profile_event *event)
{
    unsigned long thread = bt_hash_text(0, row->owner) % 1000000;
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:I, s:{s:s, s:s}}", "name", row->name, "cat",
                     *row->phase ? row->part : row->name, "ph", "X", "ts", 1e6 * event->begin, "dur",
                     1e6 * event->seconds, "pid", 1, "tid", (json_int_t)thread, "args", "level", row->owner, "path",
                     row->path);
}

static bt_status write_trace(const bt_profile *profile, const char *folder)
{
    int64_t rows, events;
    const bt_profile_row *row = bt_profile_rows(profile, &rows);
    const bt_profile_event *event = bt_profile_events(profile, &events);
    json_t *list = json_array();
    for (int64_t i = 0; i < events; i++)
        list = bt_json_append(list, event_json(&row[event[i].row], &event[i]));
    json_t *object = json_pack("{s:s}", "displayTimeUnit", "ns");
    return write_json(folder, "trace.json", bt_json_with(object, "traceEvents", list));
}

bt_status bt_profile_write(const bt_profile *profile, const bt_profile_total *total, const char *folder)
{
    BT_TRY(write_profile(profile, total, folder));
    return write_trace(profile, folder);
}
