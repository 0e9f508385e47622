/* io/file.h: files that are read and written as wholes. */
#ifndef BT_FILE_H
#define BT_FILE_H

#include "base/base.h"

/* The whole of a regular file, followed by a 0, for bt_free. BT_ERROR_FILE names the file and what is wrong. */
bt_status bt_file_read(const char *path, char **data, size_t *size);

void bt_folder_sync(const char *folder); /* the names in it are on the disk */

/* A file's length and hash: what tells that it is still as it was written. */
typedef struct bt_file_sum {
    size_t bytes;
    uint64_t hash;
} bt_file_sum;
bt_file_sum bt_file_sum_of(const char *data, size_t size);

/* Writes a file as PATH.tmp; only when all of it is on the disk does it get its name, in the place of what had it
 * before. Not for two writers of one path at once. NULL: out of memory; what else fails is told by bt_writer_close. */
typedef struct bt_writer bt_writer;
bt_writer *bt_writer_open(const char *path);
void bt_writer_put(bt_writer *writer, const void *data, size_t size);
/* `keep` false: nothing is left. Frees the writer. sum: of what was written; may be NULL. */
bt_status bt_writer_close(bt_writer *writer, bool keep, bt_file_sum *sum);

#endif
