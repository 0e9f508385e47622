/* io/file.h: reads and writes whole files. */
#ifndef BT_FILE_H
#define BT_FILE_H

#include "base/base.h"

/* Reads the whole of a regular file and appends a 0; free with bt_free. BT_ERROR_FILE names the file and the reason. */
bt_status bt_file_read(const char *path, char **data, size_t *size);

void bt_folder_sync(const char *folder); /* makes sure that the names in it are on disk */

/* A file's length and hash, to tell whether it has changed since it was written. */
typedef struct bt_file_sum {
    size_t bytes;
    uint64_t hash;
} bt_file_sum;
bt_file_sum bt_file_sum_of(const char *data, size_t size);

/* Writes to PATH.tmp and renames it to PATH when all of it is on disk, replacing any older file. Two writers must not
 * write to one path at once. NULL: out of memory; bt_writer_close reports all other failures. */
typedef struct bt_writer bt_writer;
bt_writer *bt_writer_open(const char *path);
void bt_writer_put(bt_writer *writer, const void *data, size_t size);
/* If `keep` is false, nothing is left on disk. Frees the writer. sum: of what was written; may be NULL. */
bt_status bt_writer_close(bt_writer *writer, bool keep, bt_file_sum *sum);

#endif
