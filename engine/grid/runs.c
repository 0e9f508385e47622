/* engine/grid/runs.c: each run: its name, its settings, and a fingerprint of everything it depends on. */
#include "engine/grid/grid_inside.h"
#include "engine/output/left.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 180 }; /* characters of a folder's name; file systems allow 255 */

typedef struct listing {
    const json_t *asked; /* the object with "settings", "vary", "seeds" */
    json_t *old, *runs;  /* by name; in order */
    uint64_t hash;       /* of the file and of the common settings */
    bool combinations;
} listing;

/* ---- names ---- */

void bt_grid_label(const json_t *settings, bt_text *text)
{
    const char *key;
    json_t *value, *all;
    memcpy(&all, &settings, sizeof all); /* the macro does not write to it */
    bool first = true;
    json_object_foreach(all, key, value)
    {
        bt_text_add(text, "%s%s=%s", first ? "" : ", ", key, json_string_value(value));
        first = false;
    }
    bt_text_add(text, "%s", first ? "as configured" : "");
}

/* Keeps letters, digits and characters that are safe in a shell; other bytes become %XX. */
static void add_safe(bt_text *text, const char *words)
{
    for (; *words; words++) {
        const unsigned char c = (unsigned char)*words;
        const bool safe =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("._-+", c));
        bt_text_add(text, safe ? "%c" : "%%%02X", c);
    }
}

/* "model.lr=0.1,seed=3"; if it is too long, its end is replaced by a hash. */
static void add_name(json_t *settings, const json_t *seed, bt_text *text)
{
    const char *key;
    json_t *value;
    json_object_foreach(settings, key, value)
    {
        bt_text_add(text, text->size ? "," : "");
        add_safe(text, key);
        bt_text_add(text, "=");
        add_safe(text, json_string_value(value));
    }
    if (seed)
        bt_text_add(text, "%sseed=%lld", text->size ? "," : "", (long long)json_integer_value(seed));
    if (text->size <= NAME || text->failed)
        return;
    const uint64_t hash = bt_hash_text(0, bt_text_get(text));
    text->size = NAME - 17;
    bt_text_add(text, "-%016llx", (unsigned long long)hash);
}

/* ---- fingerprints: the place and the number of threads of a run do not matter ---- */

static uint64_t hash_settings(uint64_t hash, json_t *settings)
{
    const char *key;
    json_t *value;
    json_object_foreach(settings, key, value)
    {
        if (strcmp(key, "engine.output") == 0 || strcmp(key, "engine.threads") == 0)
            continue;
        hash = bt_hash_text(hash, key);
        hash = bt_hash_text(hash, json_string_value(value));
    }
    return hash;
}

static bt_status hash_file(const char *path, uint64_t *hash)
{
    FILE *file = path ? fopen(path, "r") : NULL;
    char buffer[8192];
    size_t got;
    if (path && !file)
        return bt_fail(BT_ERROR_CONFIG, "%s cannot be read", path);
    while (file && (got = fread(buffer, 1, sizeof buffer, file)) > 0)
        *hash = bt_hash(*hash, buffer, got);
    if (file)
        fclose(file);
    return BT_OK;
}

static json_t *fingerprint(const listing *l, json_t *settings, const json_t *seed)
{
    uint64_t hash = hash_settings(l->hash, settings);
    char text[40];
    snprintf(text, sizeof text, "%lld", seed ? (long long)json_integer_value(seed) : -1);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)bt_hash_text(hash, text));
    return json_string(text);
}

/* ---- the list ---- */

/* If its settings have changed, the run does not count as finished. */
static bt_status add_run(listing *l, json_t *settings, json_t *seed)
{
    bt_text name = {0};
    add_name(settings, seed, &name);
    json_t *run = json_object_get(l->old, bt_text_get(&name)), *print = fingerprint(l, settings, seed);
    run = run ? json_incref(run) : json_pack("{s:s}", "run", bt_text_get(&name));
    bool good = !name.failed && run && print && json_object_set_new(run, "settings", json_copy(settings)) == 0;
    if (good && seed)
        good = json_object_set(run, "seed", seed) == 0;
    if (good && !json_equal(json_object_get(run, "fingerprint"), print))
        json_object_del(run, "state");
    good = good && json_object_set(run, "fingerprint", print) == 0 && json_array_append(l->runs, run) == 0;
    bt_text_free(&name);
    json_decref(print);
    json_decref(run);
    return good ? BT_OK : bt_fail(BT_ERROR_MEMORY, "out of memory");
}

static bt_status add_combination(listing *l, json_t *settings)
{
    const json_t *seeds = json_object_get(l->asked, "seeds");
    const size_t count = json_array_size(seeds);
    if (!count)
        return add_run(l, settings, NULL);
    for (size_t i = 0; i < (l->combinations ? 1 : count); i++)
        BT_TRY(add_run(l, settings, json_array_get(seeds, i)));
    return BT_OK;
}

/* Combines every value of this key with those of the keys after it; the last key varies fastest. */
static bt_status combine(listing *l, json_t *vary, void *at, json_t *settings)
{
    if (!at)
        return add_combination(l, settings);
    const char *key = json_object_iter_key(at);
    const json_t *values = json_object_iter_value(at);
    for (size_t i = 0; i < json_array_size(values); i++) {
        if (json_object_set(settings, key, json_array_get(values, i)) != 0)
            return bt_fail(BT_ERROR_MEMORY, "out of memory");
        BT_TRY(combine(l, vary, json_object_iter_next(vary, at), settings));
    }
    return BT_OK;
}

static bt_status check_count(json_t *vary, const json_t *seeds)
{
    const size_t seed_count = json_array_size(seeds);
    double count = seed_count ? (double)seed_count : 1;
    const char *key;
    json_t *values;
    json_object_foreach(vary, key, values) { count *= (double)json_array_size(values); }
    if (count <= BT_GRID_MOST)
        return BT_OK;
    return bt_fail(BT_ERROR_CONFIG, "all values and seeds together make %.0f runs; expected at most %d", count,
                   BT_GRID_MOST);
}

static bt_status fill(listing *l, json_t *all)
{
    json_t *settings = json_object(), *vary = json_object_get(all, "vary"), *runs = json_object_get(all, "runs");
    bt_status status = settings && l->old && l->runs ? BT_OK : bt_fail(BT_ERROR_MEMORY, "out of memory");
    for (size_t i = 0; i < json_array_size(runs); i++)
        json_object_set(l->old, bt_json_read_text(json_array_get(runs, i), "run"), json_array_get(runs, i));
    if (status == BT_OK)
        status = combine(l, vary, json_object_iter(vary), settings);
    if (status == BT_OK && json_object_set(all, "runs", l->runs) != 0)
        status = bt_fail(BT_ERROR_MEMORY, "out of memory");
    json_decref(settings);
    return status;
}

bt_status bt_grid_list(json_t *all, const char *file, bool combinations)
{
    listing l = {.asked = all, .combinations = combinations};
    BT_TRY(check_count(json_object_get(all, "vary"), json_object_get(all, "seeds")));
    BT_TRY(hash_file(file, &l.hash));
    l.hash = hash_settings(l.hash, json_object_get(all, "settings"));
    l.old = json_object();
    l.runs = json_array();
    bt_status status = fill(&l, all);
    json_decref(l.old);
    json_decref(l.runs);
    return status;
}

/* ---- the results of a run ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), ending = strlen(end);
    return length >= ending && strcmp(text + length - ending, end) == 0;
}

/* The last values, and the best one if validations were compared. */
static json_t *metrics_of(const json_t *summary)
{
    json_t *metrics = json_object(), *value;
    const json_t *best = json_object_get(summary, "best");
    json_t *best_value = json_object_get(best, "value");
    const char *name;
    json_object_foreach(json_object_get(summary, "metrics"), name, value)
    {
        if (!ends_with(name, ".interval"))
            metrics = bt_json_with(metrics, name, json_incref(value));
    }
    char *named = best_value ? bt_string("best %s", bt_json_read_text(best, "metric")) : NULL;
    if (named)
        metrics = bt_json_with(metrics, named, json_incref(best_value));
    bt_free(named);
    return metrics;
}

/* An interrupted run contributes nothing. */
static bt_status take_summary(json_t *run, const json_t *summary, bool *ended)
{
    static const char *const kept[] = {"stopped", "steps", "seconds", "ms_per_step"};
    const char *stopped = bt_json_read_text(summary, "stopped");
    *ended = *stopped && strcmp(stopped, "interrupted") != 0;
    if (!*ended)
        return BT_OK;
    int failed = json_object_set_new(run, "metrics", metrics_of(summary));
    for (int i = 0; i < BT_COUNT_OF(kept); i++)
        if (json_object_get(summary, kept[i]))
            failed |= json_object_set(run, kept[i], json_object_get(summary, kept[i]));
    return failed ? bt_fail(BT_ERROR_MEMORY, "out of memory") : BT_OK;
}

bt_status bt_grid_take(json_t *run, const char *folder, bool *ended)
{
    char *path = bt_string("%s/%s", folder, bt_json_read_text(run, "run"));
    json_t *summary = NULL;
    bt_status status = path ? bt_left_json(path, "summary.json", &summary) : BT_ERROR_MEMORY;
    bt_free(path);
    if (status == BT_OK)
        status = take_summary(run, summary, ended);
    json_decref(summary);
    return status;
}
