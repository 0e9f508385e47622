/* engine/output/jsonl.c: metrics.jsonl. A value that is not finite becomes null; an interval is NAME.interval. */
#include "engine/output/json.h"
#include "engine/output/sinks_inside.h"

#include <math.h>

static bt_status open_jsonl(bt_sink *sink, const char *folder, int64_t length, int64_t step)
{
    (void)step;
    sink->file = bt_append_open(folder, bt_sink_jsonl.file, length);
    return sink->file ? BT_OK : bt_error_status();
}

static void put(bt_text *out, const bt_log_line *line)
{
    json_t *object = json_object();
    bool good = object && json_object_set_new(object, "step", json_integer(line->step)) == 0 &&
                json_object_set_new(object, "time", json_real(round(line->time * 1e6) / 1e6)) == 0 &&
                bt_json_metrics(object, line->metrics, line->count);
    size_t size = 0;
    char *text = good ? bt_json_text(object, JSON_COMPACT | JSON_REAL_PRECISION(15), &size) : NULL;
    if (text)
        bt_text_put(out, text, size);
    else
        out->failed = true;
    bt_free(text);
    json_decref(object);
}

const bt_sink_def bt_sink_jsonl = {
    .length_key = "metrics_length", .file = "metrics.jsonl", .open = open_jsonl, .put = put};
