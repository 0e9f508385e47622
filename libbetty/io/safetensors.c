/* io/safetensors.c: writes and reads the safetensors format. */
#include "io/safetensors.h"

#include "io/json.h"
#include <stdlib.h>
#include <string.h>

#define METADATA "__metadata__"

enum { PREFIX = 8, MAX_HEADER = 100 * 1000 * 1000 }; /* the limit in bytes that other readers have too */

static const struct {
    const char *name;
    bt_dtype dtype;
} dtypes[] = {{"F32", BT_F32}, {"F64", BT_F64}, {"BF16", BT_BF16}, {"F16", BT_F16},
              {"I32", BT_I32}, {"I64", BT_I64}, {"U8", BT_U8},     {"BOOL", BT_BOOL}};

/* ---- writing ---- */

static const char *dtype_name(bt_dtype dtype)
{
    for (int i = 0; i < BT_COUNT_OF(dtypes); i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

static json_t *entry(const bt_array *array, size_t from, size_t to)
{
    json_t *shape = json_array();
    for (int i = 0; i < array->rank; i++)
        shape = bt_json_append(shape, json_integer(array->dims[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_name(array->dtype), "shape", shape, "data_offsets",
                     (json_int_t)from, (json_int_t)to);
}

/* Largest elements first, which keeps every array aligned. */
static const size_t sizes[] = {8, 4, 2, 1};

static bt_status describe(const bt_stored *items, int64_t count, json_t *header)
{
    size_t at = 0;
    for (int s = 0; s < BT_COUNT_OF(sizes); s++)
        for (int64_t i = 0; i < count; i++) {
            if (bt_dtype_size(items[i].array.dtype) != sizes[s])
                continue;
            size_t bytes = bt_array_bytes(items[i].array), end;
            if (!items[i].name || !*items[i].name || strcmp(items[i].name, METADATA) == 0 ||
                json_object_get(header, items[i].name))
                return bt_fail(BT_ERROR_ARGUMENT, "`%s` is the name of two arrays of one file, or cannot be a name",
                               items[i].name ? items[i].name : "(NULL)");
            if (bytes == SIZE_MAX || !bt_add_size(at, bytes, &end) || end > INT64_MAX)
                return bt_fail(BT_ERROR_SHAPE, "%s: the array is too large for a file", items[i].name);
            if (!bt_is_utf8(items[i].name))
                return bt_fail(BT_ERROR_ARGUMENT, "%s: the name is not UTF-8", items[i].name);
            if (json_object_set_new(header, items[i].name, entry(&items[i].array, at, end)) != 0)
                return bt_fail(BT_ERROR_MEMORY, "out of memory for the header of a file");
            at = end;
        }
    return BT_OK;
}

static void put_header(bt_writer *writer, const char *text, size_t length)
{
    size_t padded = (length + 7) / 8 * 8;
    unsigned char prefix[PREFIX];
    for (int i = 0; i < PREFIX; i++)
        prefix[i] = (unsigned char)((uint64_t)padded >> (8 * i) & 255);
    bt_writer_put(writer, prefix, sizeof prefix);
    bt_writer_put(writer, text, length);
    bt_writer_put(writer, "       ", padded - length);
}

static bt_status write_file(const char *path, const char *header, size_t length, const bt_stored *items, int64_t count,
                            bt_file_sum *sum)
{
    if (length > MAX_HEADER - 8)
        return bt_fail(BT_ERROR_FILE, "%s cannot be written: the header is too long", path);
    bt_writer *writer = bt_writer_open(path);
    if (!writer)
        return bt_error_status();
    put_header(writer, header, length);
    for (int s = 0; s < BT_COUNT_OF(sizes); s++)
        for (int64_t i = 0; i < count; i++)
            if (bt_dtype_size(items[i].array.dtype) == sizes[s])
                bt_writer_put(writer, items[i].array.data, bt_array_bytes(items[i].array));
    return bt_writer_close(writer, true, sum);
}

bt_status bt_safetensors_write(const char *path, const bt_stored *items, int64_t count, bt_file_sum *sum)
{
    if (!path || count < 0 || (count && !items))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_safetensors_write: an argument is NULL");
    json_t *header = json_object();
    bt_status status = header ? describe(items, count, header) : bt_fail(BT_ERROR_MEMORY, "%s: out of memory", path);
    size_t length;
    char *text = status == BT_OK ? bt_json_text(header, JSON_COMPACT, &length) : NULL;
    if (status == BT_OK)
        status = text ? write_file(path, text, length - 1, items, count, sum) : BT_ERROR_MEMORY;
    bt_free(text);
    json_decref(header);
    return status;
}

/* ---- reading ---- */

typedef struct reader {
    const char *path;
    const char *data; /* starts after the header */
    size_t size;
    bt_safetensors *file;
} reader;

static bt_status bad(const reader *r, const char *name, const char *why)
{
    return bt_fail(BT_ERROR_FILE, "%s: %s%s%s", r->path, name ? name : "", name ? ": " : "", why);
}

static bool is_count(const json_t *value) { return json_is_integer(value) && json_integer_value(value) >= 0; }

static bt_status read_shape(const reader *r, const char *name, const json_t *shape, bt_stored *item)
{
    if (!json_is_array(shape))
        return bad(r, name, "its `shape` must be a list of sizes");
    size_t rank = json_array_size(shape);
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!is_count(size))
            return bad(r, name, "a size in its `shape` is not a whole number of at least 0");
        if (i < BT_MAX_RANK)
            item->array.dims[i] = json_integer_value(size);
    }
    item->array.rank = rank > BT_MAX_RANK ? 0 : (int)rank;
    item->opaque |= rank > BT_MAX_RANK;
    return BT_OK;
}

static bt_status read_dtype(const reader *r, const char *name, const json_t *dtype, bt_stored *item)
{
    const char *found = json_string_value(dtype);
    if (!found || !*found)
        return bad(r, name, "its `dtype` must be a text, such as F32");
    item->kind = bt_region_copy(r->file->region, found, strlen(found) + 1);
    if (!item->kind)
        return BT_ERROR_MEMORY;
    item->opaque = true;
    item->array.dtype = BT_U8;
    for (int i = 0; i < BT_COUNT_OF(dtypes); i++)
        if (strcmp(found, dtypes[i].name) == 0) {
            item->opaque = false;
            item->array.dtype = dtypes[i].dtype;
        }
    return BT_OK;
}

/* Whether the byte count matches the dtype and shape. For dtypes that are not read, this is unknown. */
static bool fits(const bt_stored *item) { return item->opaque || bt_array_bytes(item->array) == item->bytes; }

static bt_status read_entry(const reader *r, const char *name, json_t *entry, bt_stored *item)
{
    json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_object(entry) || json_object_size(entry) != 3)
        return bad(r, name, "its entry must be an object of `dtype`, `shape` and `data_offsets`");
    BT_TRY(read_dtype(r, name, json_object_get(entry, "dtype"), item));
    BT_TRY(read_shape(r, name, json_object_get(entry, "shape"), item));
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !is_count(first) || !is_count(last))
        return bad(r, name, "its `data_offsets` must be two whole numbers of at least 0");
    uint64_t from = (uint64_t)json_integer_value(first), to = (uint64_t)json_integer_value(last);
    if (from > to || to > r->size)
        return bad(r, name, "its `data_offsets` lie outside the file");
    item->bytes = (size_t)(to - from);
    if (!fits(item))
        return bad(r, name, "its `shape` and `dtype` do not match its `data_offsets`");
    item->array.data = (void *)(uintptr_t)(r->data + from);
    return BT_OK;
}

static bt_status read_metadata(const reader *r, json_t *metadata)
{
    const char *key;
    json_t *value;
    bool good = json_is_object(metadata);
    json_object_foreach(metadata, key, value) good = good && json_is_string(value);
    return good ? BT_OK : bad(r, METADATA, "it must be an object with texts as values");
}

static bt_status read_entries(const reader *r, json_t *header)
{
    const char *name;
    json_t *entry;
    bt_safetensors *file = r->file;
    file->items = bt_region_alloc(file->region, json_object_size(header) * sizeof *file->items);
    if (!file->items)
        return BT_ERROR_MEMORY;
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, METADATA) == 0) {
            BT_TRY(read_metadata(r, entry));
            continue;
        }
        bt_stored *item = &file->items[file->count];
        BT_TRY(read_entry(r, name, entry, item));
        item->name = bt_region_copy(file->region, name, strlen(name) + 1);
        if (!item->name)
            return BT_ERROR_MEMORY;
        file->count++;
    }
    return BT_OK;
}

static int by_place(const void *a, const void *b)
{
    const bt_stored *x = a, *y = b;
    uintptr_t first = (uintptr_t)x->array.data, second = (uintptr_t)y->array.data;
    if (first != second)
        return (first > second) - (first < second);
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty ones first */
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const bt_stored *)a)->name, ((const bt_stored *)b)->name);
}

/* Checks that the arrays leave no gap, do not overlap, and fill the file. */
static bt_status check_cover(const reader *r)
{
    bt_safetensors *file = r->file;
    const char *at = r->data;
    qsort(file->items, (size_t)file->count, sizeof *file->items, by_place);
    for (int64_t i = 0; i < file->count; i++) {
        if (file->items[i].array.data != at)
            return bad(r, file->items[i].name, "its data do not begin where the data before them end");
        at += file->items[i].bytes;
    }
    return at == r->data + r->size ? BT_OK : bad(r, NULL, "there are bytes after the last array");
}

/* Recognises another format by its first bytes; NULL: unknown. */
static const char *other_format(const char *data, size_t size)
{
    static const struct {
        const char *begin;
        size_t size;
        const char *what;
    } others[] = {
        {"PK\3\4", 4, "a zip archive, as torch.save (.pt, .pth, .bin) and numpy.savez write"},
        {"\x80\x02", 2, "a Python pickle, as older versions of torch.save write"},
        {"\x80\x03", 2, "a Python pickle"},
        {"\x80\x04", 2, "a Python pickle"},
        {"\x80\x05", 2, "a Python pickle"},
        {"\x93NUMPY", 6, "a .npy file of NumPy"},
        {"\x89HDF", 4, "an HDF5 file"},
        {"\x1f\x8b", 2, "compressed by gzip"},
        {"GGUF", 4, "a GGUF file"},
        {"version https://git-lfs", 23, "a Git LFS pointer, whose file `git lfs pull` fetches"},
        {"<!DOCTYPE", 9, "a web page"},
        {"<!doctype", 9, "a web page"},
        {"<html", 5, "a web page"},
    };
    for (int i = 0; i < BT_COUNT_OF(others); i++)
        if (size >= others[i].size && memcmp(data, others[i].begin, others[i].size) == 0)
            return others[i].what;
    return NULL;
}

static bt_status is_other(const reader *r, const char *what)
{
    return bt_fail(BT_ERROR_FILE,
                   "%s: this is %s; expected safetensors: in Python, safetensors.torch.save_file(model.state_dict(), "
                   "\"weights.safetensors\") writes it",
                   r->path, what);
}

static bt_status read_header(reader *r, const char *text, size_t length)
{
    json_error_t error;
    const char *other = other_format(text - PREFIX, length + PREFIX);
    if ((length == 0 || text[0] != '{') && other)
        return is_other(r, other);
    if (length == 0 || text[0] != '{')
        return bad(r, NULL, "the header does not begin with {");
    json_t *header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!header)
        return bt_fail(BT_ERROR_FILE, "%s: the header is not JSON: %s, at byte %d", r->path, error.text,
                       error.position);
    bt_status status =
        json_is_object(header) ? read_entries(r, header) : bad(r, NULL, "the header is not a JSON object");
    json_decref(header);
    return status;
}

static bt_status parse(reader *r, const char *data, size_t size)
{
    uint64_t length = 0;
    if (size < PREFIX)
        return bad(r, NULL, "too short for a safetensors file, which begins with 8 bytes");
    for (int i = 0; i < PREFIX; i++)
        length |= (uint64_t)(unsigned char)data[i] << (8 * i);
    const char *other = other_format(data, size);
    if ((length > MAX_HEADER || length > size - PREFIX) && other)
        return is_other(r, other);
    if (length > MAX_HEADER || length > size - PREFIX)
        return bt_fail(BT_ERROR_FILE, "%s: the header says it is %llu bytes long, but the file has %zu", r->path,
                       (unsigned long long)length, size - PREFIX);
    r->data = data + PREFIX + length;
    r->size = size - PREFIX - (size_t)length;
    BT_TRY(read_header(r, data + PREFIX, (size_t)length));
    BT_TRY(check_cover(r));
    qsort(r->file->items, (size_t)r->file->count, sizeof *r->file->items, by_name);
    return BT_OK;
}

bt_status bt_safetensors_parse(const char *path, const char *data, size_t size, bt_safetensors *file)
{
    if (file)
        *file = (bt_safetensors){0};
    if (!path || !data || !file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_safetensors_parse: an argument is NULL");
    file->region = bt_region_new();
    reader r = {.path = path, .file = file};
    return file->region ? parse(&r, data, size) : BT_ERROR_MEMORY;
}

const bt_stored *bt_safetensors_find(const bt_safetensors *file, const char *name)
{
    if (!file || !name || !file->count)
        return NULL;
    const bt_stored wanted = {.name = name};
    return bsearch(&wanted, file->items, (size_t)file->count, sizeof *file->items, by_name);
}

bt_status bt_stored_values(const bt_stored *stored, bt_array to)
{
    if (!stored || !to.data)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_stored_values: an argument is NULL");
    if (stored->opaque)
        return bt_fail(BT_ERROR_FILE,
                       "\"%s\" is of dtype %s, or has more than 8 axes; expected F32, F64, F16, BF16, I32, "
                       "I64, U8 or BOOL",
                       stored->name, stored->kind);
    bt_array from = stored->array;
    from.data = bt_alloc(bt_array_bytes(from)); /* aligned */
    if (!from.data)
        return BT_ERROR_MEMORY;
    memcpy(from.data, stored->array.data, bt_array_bytes(from));
    bt_status status = bt_array_convert(to, from);
    bt_free(from.data);
    return status;
}

void bt_safetensors_free(bt_safetensors *file)
{
    if (!file)
        return;
    bt_region_free(file->region);
    *file = (bt_safetensors){0};
}
