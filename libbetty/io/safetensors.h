/* io/safetensors.h: the safetensors format: named dense arrays in one file, which Python and others read, too.
 *
 *   8 bytes    length of the header, little-endian
 *   header     JSON: {"NAME": {"dtype": "F32", "shape": [100, 784], "data_offsets": [from, to]}, ...}, padded by
 * blanks;
 *              "__metadata__", if it is there, is an object of texts
 *   the rest   the arrays, row-major and little-endian, one after the other without a gap
 *
 * Published at https://github.com/huggingface/safetensors. Dtypes: F32, F64, F16, BF16, I32, I64, U8, BOOL. An array
 * of any other is in the list, for what nobody uses does not matter, but has no values. */
#ifndef BT_SAFETENSORS_H
#define BT_SAFETENSORS_H

#include "io/file.h"

typedef struct bt_stored {
    const char *name;
    bt_array array; /* data: its bytes, as they lie in the file */
    bool opaque;    /* of another dtype, or of more axes: array has no shape */
    size_t bytes;   /* of a file that was read: how many, and the name of the dtype */
    const char *kind;
} bt_stored;

/* Writes the file as bt_writer does. The arrays with the largest elements come first, so that each lies aligned. Two
 * equal names, or a name that is not UTF-8: BT_ERROR_ARGUMENT. sum may be NULL. */
bt_status bt_safetensors_write(const char *path, const bt_stored *items, int64_t count, bt_file_sum *sum);

typedef struct bt_safetensors {
    bt_stored *items; /* by name, ascending; each array's data lie in the bytes given, aligned or not */
    int64_t count;
    bt_region *region;
} bt_safetensors;

/* The content of a file; `path` is for messages. Strict: whatever the rules above do not allow, and what does not fit
 * the file's size, is BT_ERROR_FILE. `data` stays the caller's and must outlive the result. Free it in any case. */
bt_status bt_safetensors_parse(const char *path, const char *data, size_t size, bt_safetensors *file);
const bt_stored *bt_safetensors_find(const bt_safetensors *file, const char *name); /* NULL if missing */
/* The values of an array that was read, converted; `to` has room for them, and the same shape. BT_ERROR_FILE: of a
 * dtype that is not read. */
bt_status bt_stored_values(const bt_stored *stored, bt_array to);
void bt_safetensors_free(bt_safetensors *file); /* NULL ok */

#endif
