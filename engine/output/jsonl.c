/* engine/output/jsonl.c: metrics.jsonl. */
#include "engine/output/json.h"

#include <errno.h>
#include <math.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

struct bt_jsonl {
    FILE *file;
    char *path;
    off_t whole; /* bytes of whole lines */
};

/* A file whose first `length` bytes are kept. */
static FILE *reopen(const char *path, int64_t length)
{
    FILE *file = fopen(path, "r+be");
    if (file && ftruncate(fileno(file), length) == 0 && fseeko(file, 0, SEEK_END) == 0)
        return file;
    int error = errno;
    if (file)
        fclose(file);
    errno = error;
    return NULL;
}

bt_jsonl *bt_jsonl_open(const char *folder, int64_t length)
{
    bt_jsonl *sink = folder ? bt_alloc(sizeof *sink) : NULL;
    if (!sink) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_jsonl_open: the folder is NULL");
        return NULL;
    }
    sink->path = bt_string("%s/metrics.jsonl", folder);
    if (sink->path)
        sink->file = length < 0 ? fopen(sink->path, "wbe") : reopen(sink->path, length);
    if (!sink->file) {
        bt_fail(BT_ERROR_FILE, "%s/metrics.jsonl cannot be written: %s", folder, strerror(errno));
        bt_jsonl_close(sink);
        return NULL;
    }
    sink->whole = length < 0 ? 0 : (off_t)length;
    return sink;
}

/* One flush a line: what a killed run leaves is whole. Where a disk is full, the part of a line that went on it is
 * taken back. */
static bt_status write_line(bt_jsonl *sink, const json_t *line)
{
    size_t size;
    char *text = bt_json_text(line, JSON_COMPACT | JSON_REAL_PRECISION(15), &size);
    if (!text)
        return BT_ERROR_MEMORY;
    bool good = fwrite(text, 1, size, sink->file) == size && fflush(sink->file) == 0;
    bt_free(text);
    if (good) {
        sink->whole = ftello(sink->file);
        return BT_OK;
    }
    bt_status s = bt_fail(BT_ERROR_FILE, "%s cannot be written: %s", sink->path, strerror(errno));
    __fpurge(sink->file);
    if (ftruncate(fileno(sink->file), sink->whole) != 0)
        bt_error_context("%s ends within a line", sink->path);
    return s;
}

bt_status bt_jsonl_write(bt_jsonl *sink, int64_t step, double time, const bt_metric_value *metrics, int count)
{
    if (!sink || (count > 0 && !metrics))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_jsonl_write: an argument is NULL");
    json_t *line = json_object();
    bool good = line && json_object_set_new(line, "step", json_integer(step)) == 0 &&
                json_object_set_new(line, "time", json_real(round(time * 1e6) / 1e6)) == 0 &&
                bt_json_metrics(line, metrics, count);
    bt_status s = good ? BT_OK : bt_fail(BT_ERROR_MEMORY, "%s: no memory for a line", sink->path);
    if (good)
        s = write_line(sink, line);
    json_decref(line);
    return s;
}

bt_status bt_jsonl_sync(bt_jsonl *sink, int64_t *length)
{
    if (!sink || !length)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_jsonl_sync: an argument is NULL");
    *length = sink->whole;
    if (fsync(fileno(sink->file)) == 0)
        return BT_OK;
    return bt_fail(BT_ERROR_FILE, "%s cannot be written: %s", sink->path, strerror(errno));
}

bt_status bt_jsonl_close(bt_jsonl *sink)
{
    if (!sink)
        return BT_OK;
    bt_status s = BT_OK;
    if (sink->file && fclose(sink->file) != 0)
        s = bt_fail(BT_ERROR_FILE, "%s cannot be written: %s", sink->path, strerror(errno));
    bt_free(sink->path);
    bt_free(sink);
    return s;
}
