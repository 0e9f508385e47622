/* engine/output/summary.c: summary.json, written when a run ends. */
#include "engine/output/json.h"

#include "base/version.h"
#include <stdlib.h>
#include <string.h>

/* Sets keys one after the other, and remembers the first failure. */
typedef struct builder {
    json_t *root;
    bool failed;
} builder;

static void put(builder *b, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        b->failed = true;
}

static json_t *bytes(size_t size) { return json_integer((json_int_t)(size < INT64_MAX ? size : INT64_MAX)); }

static json_t *sizes(builder *b, bt_memory_sizes memory)
{
    json_t *object = json_object();
    put(b, object, "arena", bytes(memory.arena));
    put(b, object, "persistent", bytes(memory.persistent));
    if (memory.host)
        put(b, object, "host", bytes(memory.host));
    return object;
}

/* A setting with its type in the INI file; "all" and the like stay text. */
static json_t *setting(bt_key_kind kind, const char *value)
{
    char *end;
    switch (kind) {
    case BT_KEY_INT:
    case BT_KEY_SIZE: {
        long long whole = strtoll(value, &end, 10);
        return *end ? bt_json_string(value) : json_integer(whole);
    }
    case BT_KEY_DOUBLE: {
        double real = strtod(value, &end);
        return *end ? bt_json_string(value) : bt_json_number(real);
    }
    case BT_KEY_BOOL:
        return json_boolean(strcmp(value, "true") == 0);
    default:
        return bt_json_string(value);
    }
}

static void add_setting(void *user, const char *section, const char *key, bt_key_kind kind, const char *value)
{
    builder *b = user;
    json_t *object = json_object_get(b->root, section);
    if (!object) {
        object = json_object();
        put(b, b->root, section, object);
    }
    put(b, object, key, setting(kind, value));
}

static json_t *configuration(builder *b, const bt_config *config)
{
    builder sections = {json_object(), false};
    if (bt_config_visit(config, add_setting, &sections) != BT_OK || sections.failed)
        b->failed = true;
    return sections.root;
}

static void fill(builder *b, const bt_summary *summary)
{
    json_t *root = b->root, *metrics = json_object();
    put(b, root, "version", json_string(BT_VERSION));
    if (summary->stopped)
        put(b, root, "stopped", json_string(summary->stopped));
    put(b, root, "steps", json_integer(summary->steps));
    put(b, root, "seconds", bt_json_number(summary->seconds));
    put(b, root, "data_seconds", bt_json_number(summary->data_seconds));
    put(b, root, "ms_per_step", bt_json_number(summary->ms_per_step));
    if (!bt_json_metrics(metrics, summary->metrics, summary->metrics ? summary->metric_count : 0))
        b->failed = true;
    put(b, root, "metrics", metrics);
    if (summary->best) {
        json_t *best = json_object();
        put(b, best, "metric", json_string(summary->best->name));
        put(b, best, "value", bt_json_number(summary->best->value));
        put(b, best, "step", json_integer(summary->best_step));
        put(b, root, "best", best);
    }
    put(b, root, "planned_bytes", sizes(b, summary->planned));
    put(b, root, "measured_bytes", sizes(b, summary->measured));
    if (summary->device_measured) {
        put(b, root, "device_planned_bytes", bytes(summary->device_planned));
        put(b, root, "device_bytes", bytes(summary->device_measured));
        put(b, root, "device_outside_bytes", bytes(summary->device_outside));
        put(b, root, "device_bytes_before", bytes(summary->device_before));
    }
    put(b, root, "data_bytes", bytes(summary->data));
    put(b, root, "program_bytes", bytes(summary->program));
    put(b, root, "program_peak_bytes", bytes(summary->program_peak));
    put(b, root, "outside_bytes", bytes(summary->outside));
    put(b, root, "seed", json_integer(summary->seed));
    if (summary->device)
        put(b, root, "device", json_string(summary->device));
    if (summary->backend)
        put(b, root, "backend", json_string(summary->backend));
    if (summary->config)
        put(b, root, "config", configuration(b, summary->config));
}

bt_status bt_summary_write(const char *folder, const bt_summary *summary)
{
    if (!folder || !summary)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_summary_write: an argument is NULL");
    builder b = {json_object(), false};
    fill(&b, summary);
    bt_status s =
        bt_json_write(folder, "summary.json", b.failed ? NULL : b.root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(b.root);
    return s;
}
