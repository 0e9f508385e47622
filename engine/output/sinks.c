/* engine/output/sinks.c: the sinks of a run, combined. */
#include "engine/output/sinks_inside.h"

#include <unistd.h>

static const bt_sink_def *const defs[BT_SINK_KINDS] = {&bt_sink_jsonl, &bt_sink_csv, &bt_sink_events};

struct bt_sinks {
    bt_sink items[BT_SINK_KINDS];
    bt_text line;
};

const bt_log_lengths bt_log_nothing = {{-1, -1, -1}};

const char *bt_log_length_key(int kind) { return defs[kind]->length_key; }

static int64_t size_of(int kind, const char *folder)
{
    return defs[kind]->file ? bt_append_size(folder, defs[kind]->file) : defs[kind]->size(folder);
}

bt_log_lengths bt_log_lengths_of(const char *folder)
{
    bt_log_lengths lengths;
    for (int k = 0; k < BT_SINK_KINDS; k++)
        lengths.bytes[k] = size_of(k, folder);
    return lengths;
}

void bt_log_remove(const char *folder)
{
    for (int k = 0; k < BT_SINK_KINDS; k++) {
        char *path = defs[k]->file ? bt_string("%s/%s", folder, defs[k]->file) : NULL;
        if (path)
            unlink(path);
        else if (!defs[k]->file)
            defs[k]->remove(folder);
        bt_free(path);
    }
}

/* If somebody has shortened or removed the file since, its present length is kept. */
static int64_t kept(int kind, const char *folder, int64_t length)
{
    const char *file = defs[kind]->file;
    int64_t there = file ? bt_append_size(folder, file) : length;
    return there < length ? there : length;
}

bt_sinks *bt_sinks_open(const char *folder, unsigned kinds, const bt_log_lengths *lengths, int64_t step)
{
    if (!folder || !lengths) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_sinks_open: an argument is NULL");
        return NULL;
    }
    bt_sinks *sinks = bt_alloc(sizeof *sinks);
    bt_status status = sinks ? BT_OK : BT_ERROR_MEMORY;
    for (int k = 0; k < BT_SINK_KINDS && status == BT_OK; k++) {
        if (k != BT_SINK_JSONL && !(kinds >> k & 1))
            continue;
        sinks->items[k].def = defs[k];
        status = defs[k]->open(&sinks->items[k], folder, kept(k, folder, lengths->bytes[k]), step);
    }
    if (status == BT_OK)
        return sinks;
    bt_sinks_close(sinks);
    return NULL;
}

bt_status bt_sinks_write(bt_sinks *sinks, const bt_log_line *line)
{
    if (!sinks || !line || (line->count > 0 && !line->metrics))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_sinks_write: an argument is NULL");
    for (int k = 0; k < BT_SINK_KINDS; k++) {
        if (!sinks->items[k].def)
            continue;
        sinks->line.size = 0;
        defs[k]->put(&sinks->line, line);
        if (sinks->line.failed)
            return bt_fail(BT_ERROR_MEMORY, "no memory for a line of metrics");
        if (sinks->line.size)
            BT_TRY(bt_append_put(sinks->items[k].file, sinks->line.data, (size_t)sinks->line.size));
    }
    return BT_OK;
}

bt_status bt_sinks_sync(bt_sinks *sinks, bt_log_lengths *lengths)
{
    if (!sinks || !lengths)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_sinks_sync: an argument is NULL");
    for (int k = 0; k < BT_SINK_KINDS; k++) {
        if (!sinks->items[k].def)
            continue;
        BT_TRY(bt_append_sync(sinks->items[k].file, &lengths->bytes[k]));
        lengths->bytes[k] += sinks->items[k].before;
    }
    return BT_OK;
}

bt_status bt_sinks_close(bt_sinks *sinks)
{
    if (!sinks)
        return BT_OK;
    bt_status status = BT_OK;
    for (int k = 0; k < BT_SINK_KINDS; k++) {
        bt_status closed = bt_append_close(sinks->items[k].file);
        status = status == BT_OK ? closed : status;
    }
    bt_text_free(&sinks->line);
    bt_free(sinks);
    return status;
}
