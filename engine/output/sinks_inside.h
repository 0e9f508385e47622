/* engine/output/sinks_inside.h: shared by the sinks: a file that grows by whole pieces. */
#ifndef BT_SINKS_INSIDE_H
#define BT_SINKS_INSIDE_H

#include "engine/output/sinks.h"
#include "io/proto.h"

/* ---- append.c ---- */

typedef struct bt_append bt_append;
/* length: at most so many bytes of the file are kept, and it continues after them; -1: it starts again. NULL on
 * failure. */
bt_append *bt_append_open(const char *folder, const char *name, int64_t length);
/* Writes and flushes all of the data, or nothing if the disk is full. */
bt_status bt_append_put(bt_append *append, const void *data, size_t size);
bt_status bt_append_sync(bt_append *append, int64_t *length); /* flushes all to disk; *length: of the file */
bt_status bt_append_close(bt_append *append);                 /* NULL ok */
int64_t bt_append_size(const char *folder, const char *name); /* bytes of such a file; -1: there is none */

/* ---- the sinks ---- */

typedef struct bt_sink_def bt_sink_def;
typedef struct bt_sink {
    const bt_sink_def *def; /* NULL: it is not open */
    bt_append *file;
    int64_t before; /* bytes of files that came before this one */
} bt_sink;

struct bt_sink_def {
    const char *length_key;
    const char *file; /* its name; NULL: there are several, which `size` and `remove` find */
    bt_status (*open)(bt_sink *sink, const char *folder, int64_t length, int64_t step);
    void (*put)(bt_text *out, const bt_log_line *line); /* a line in the sink's format; out->failed: no memory */
    int64_t (*size)(const char *folder);
    void (*remove)(const char *folder);
};
extern const bt_sink_def bt_sink_jsonl, bt_sink_csv, bt_sink_events;

/* ---- table.c ---- */

void bt_csv_text(bt_text *line, const char *text); /* quoted if necessary: RFC 4180 */
void bt_csv_number(bt_text *line, double value);   /* so that it reads back exactly */

/* ---- crc.c ---- */

uint32_t bt_crc32c(const void *data, size_t size); /* RFC 3720, appendix B.4 */

#endif
