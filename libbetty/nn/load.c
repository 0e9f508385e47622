/* nn/load.c: loads parameters and buffers from a safetensors file, by name. */
#include "nn/module.h"

#include "io/safetensors.h"
#include "nn/renaming.h"
#include "runtime/store.h"
#include <math.h>
#include <string.h>

/* ---- values ---- */

/* Whether the file's axes are in another order: our axis k is its axis axes[k]. PyTorch puts a convolution's channels
 * first. */
static bool turned(const bt_slate *slate, const bt_destination *place, bt_layout layout, int axes[BT_MAX_RANK])
{
    int rank = slate->shape.rank;
    bool matrix = place->turned && rank == 2, window = slate->window && rank >= 3 && layout != BT_LAYOUT_PLAIN;
    for (int k = 0; k < rank - 2; k++)
        axes[k] = k + 2;
    axes[rank > 1 ? rank - 2 : 0] = 1;
    axes[rank > 0 ? rank - 1 : 0] = 0;
    return matrix || window;
}

static void copy_turned(bt_array to, bt_array from, const int axes[BT_MAX_RANK])
{
    int64_t stride[BT_MAX_RANK], index[BT_MAX_RANK] = {0}, count = bt_array_count(to), at = 0;
    for (int a = from.rank - 1; a >= 0; a--)
        stride[a] = a == from.rank - 1 ? 1 : stride[a + 1] * from.dims[a + 1];
    for (int64_t i = 0; i < count; i++) {
        bt_put(to.dtype, to.data, i, bt_get(from.dtype, from.data, at));
        for (int k = to.rank - 1; k >= 0; k--) {
            at += stride[axes[k]];
            if (++index[k] < to.dims[k])
                break;
            at -= index[k] * stride[axes[k]];
            index[k] = 0;
        }
    }
}

/* Rejects NaN and infinite values, which training would only spread. */
static bt_status check_finite(const char *name, bt_array values)
{
    const int64_t count = bt_array_count(values);
    int64_t wrong = 0, first = 0;
    for (int64_t i = count - 1; i >= 0; i--)
        if (!isfinite(bt_get(values.dtype, values.data, i))) {
            first = i;
            wrong++;
        }
    return wrong ? bt_fail(BT_ERROR_FILE,
                           "\"%s\": %lld of its %lld values are NaN or infinite in %s, the first at place %lld; were "
                           "these weights saved after a run had diverged?",
                           name, (long long)wrong, (long long)count, bt_dtype_name(values.dtype), (long long)first)
                 : BT_OK;
}

static bt_status misfit(const bt_slate *slate, const bt_stored *stored, bt_array expected, const bt_destination *place,
                        bool turn)
{
    char found[256], wanted[256], part[48] = "";
    if (place->parts > 1)
        snprintf(part, sizeof part, ", part %d of %d,", place->part + 1, place->parts);
    return bt_fail(
        BT_ERROR_FILE,
        "\"%s\" is %s, but the module's \"%s\"%s needs %s%s; give the module the sizes of the saved one, or skip this "
        "array with a rule of names (weights_names), \"FROM >\"",
        stored->name, bt_shape_text(found, stored->array.rank, stored->array.dims), slate->path, part,
        bt_shape_text(wanted, expected.rank, expected.dims),
        !turn           ? ""
        : slate->window ? " there, a convolution's weight in PyTorch's order"
                        : " there, [in, out]");
}

static bt_status fill(const bt_slate *slate, const bt_stored *stored, const bt_destination *place, bt_layout layout)
{
    int axes[BT_MAX_RANK] = {0};
    bool turn = turned(slate, place, layout, axes);
    bt_array to = bt_var_array(slate->var), from = stored->array;
    const bool divides = place->parts == 1 || (to.rank && to.dims[0] % place->parts == 0);
    if (place->parts > 1 && to.rank)
        to.dims[0] /= place->parts;
    const size_t bytes = bt_array_bytes(to);
    bt_array expected = to;
    for (int k = 0; turn && k < to.rank; k++)
        expected.dims[axes[k]] = to.dims[k];
    if (!divides || (!stored->opaque && !bt_shape_same(from, expected)))
        return misfit(slate, stored, expected, place, turn);
    from.dtype = to.dtype;
    from.data = bt_alloc(bytes);
    to.data = turn ? bt_alloc(bytes) : from.data;
    bt_status status = from.data && to.data ? bt_stored_values(stored, from) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = check_finite(stored->name, from);
    if (status == BT_OK && turn)
        copy_turned(to, from, axes);
    if (status == BT_OK)
        status = bt_store_write(NULL, slate->var, (size_t)place->part * bytes, to.data, bytes);
    if (turn)
        bt_free(to.data);
    bt_free(from.data);
    return status;
}

/* ---- all of them ---- */

typedef struct loading {
    bt_module *module;
    const bt_load_options *options;
    unsigned char *filled; /* parameters, then buffers: a bit for each part found */
    unsigned char *parts;  /* the number of parts of each in the file, once one is found */
    int64_t unused_count;
    bt_text unused;
} loading;

static bt_slate *slate_of(const bt_module *root, int64_t i)
{
    return i < root->param_count ? root->params[i] : root->buffers[i - root->param_count];
}

static int64_t total_of(const loading *l) { return l->module->param_count + l->module->buffer_count; }

static bool is_whole(const loading *l, int64_t i) { return l->parts[i] && l->filled[i] + 1 == 1 << l->parts[i]; }

/* Refuses an array of a published model that has no place here: without it, it would be a different model. */
static bt_status refuse(bt_layout layout, const bt_stored *stored)
{
    bt_destination by_table;
    BT_TRY(bt_published_destination(layout, stored->name, &by_table));
    return bt_fail(
        BT_ERROR_FILE,
        "\"%s\" of the file, \"%s\" here, has no place in the module; give the module as many layers and the same "
        "tables, or skip this array with a rule of names (weights_names) before any others, \"%s >\"",
        stored->name, by_table.name, by_table.name);
}

static bt_status pass_over(loading *l, const bt_stored *stored, const char *name)
{
    enum { SHOWN = 8 };
    if (*name && bt_published(l->options->layout))
        return refuse(l->options->layout, stored);
    if (l->unused_count++ < SHOWN)
        bt_text_add(&l->unused, l->unused.data ? ", %s" : "%s", stored->name);
    return BT_OK;
}

static bt_status take(loading *l, const bt_stored *stored)
{
    bt_destination place;
    BT_TRY(bt_destination_of(l->options, stored->name, &place));
    for (int64_t i = 0; *place.name && i < total_of(l); i++) {
        const bt_slate *slate = slate_of(l->module, i);
        const unsigned char bit = (unsigned char)(1 << place.part);
        if (strcmp(slate->path, place.name) != 0)
            continue;
        if (l->filled[i] & bit || (l->parts[i] && l->parts[i] != place.parts))
            return bt_fail(BT_ERROR_FILE, "\"%s\" is the second array that is called \"%s\" here", stored->name,
                           place.name);
        l->filled[i] |= bit;
        l->parts[i] = (unsigned char)place.parts;
        return fill(slate, stored, &place, l->options->layout);
    }
    return pass_over(l, stored, place.name);
}

/* Names what is missing and, if a table knows it, its name in a file. */
static void name_missing(const loading *l, int64_t i, bt_text *list)
{
    char theirs[BT_MOST_NAME];
    const char *ours = slate_of(l->module, i)->path;
    int part = 0;
    while (l->filled[i] & 1 << part)
        part++;
    bt_text_add(list, list->data ? ", %s" : "%s", ours);
    if (!l->options->names && bt_published_name(l->options->layout, ours, part, theirs))
        bt_text_add(list, " (%s)", theirs);
}

static bt_status tell(const loading *l, bt_text *report)
{
    int64_t total = total_of(l), missing = 0;
    bt_text list = {0};
    for (int64_t i = 0; i < total; i++)
        if (!is_whole(l, i) && missing++ < 8)
            name_missing(l, i, &list);
    bt_text_add(report, "%lld of %lld parameters and buffers are loaded from the file", (long long)(total - missing),
                (long long)total);
    if (missing)
        bt_text_add(report, "; %lld are not in it and keep their values: %s%s", (long long)missing, bt_text_get(&list),
                    missing > 8 ? ", ..." : "");
    if (l->unused_count)
        bt_text_add(report, "; %lld of its arrays are not used: %s%s", (long long)l->unused_count,
                    bt_text_get(&l->unused), l->unused_count > 8 ? ", ..." : "");
    bt_status status = BT_OK;
    if (missing && !l->options->partial)
        status = bt_fail(BT_ERROR_FILE,
                         "%lld of %lld parameters and buffers are not in the file: %s%s; of its arrays, %lld are not "
                         "used%s%s; say with names (weights_names) what its arrays are called here, or keep the "
                         "initial values of what is missing with partial (weights_missing = keep)",
                         (long long)missing, (long long)total, bt_text_get(&list), missing > 8 ? ", ..." : "",
                         (long long)l->unused_count, l->unused_count ? ": " : "", bt_text_get(&l->unused));
    bt_text_free(&list);
    return status;
}

bt_status bt_module_fill(bt_module *module, const char *path, const bt_load_options *options, bt_text *report)
{
    if (!module || !path)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_module_load: the %s is NULL", module ? "path" : "module");
    if (!module->adopted)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_module_load: the module has no storage yet: call bt_module_init first");
    bt_load_options defaults = {0};
    loading l = {.module = module, .options = options ? options : &defaults};
    char *data = NULL;
    size_t size = 0;
    bt_safetensors file = {0};
    BT_TRY(bt_file_read(path, &data, &size));
    bt_status status = bt_safetensors_parse(path, data, size, &file);
    if (status == BT_OK && !(l.filled = bt_alloc(2 * (size_t)total_of(&l) + 1)))
        status = BT_ERROR_MEMORY;
    l.parts = l.filled ? l.filled + total_of(&l) : NULL;
    for (int64_t i = 0; status == BT_OK && i < file.count; i++)
        status = take(&l, &file.items[i]);
    if (status == BT_OK)
        status = tell(&l, report);
    if (status != BT_OK && l.filled)
        bt_error_context("%s", path);
    bt_text_free(&l.unused);
    bt_free(l.filled);
    bt_safetensors_free(&file);
    bt_free(data);
    return status;
}

bt_status bt_module_load(bt_module *module, const char *path, const bt_load_options *options, FILE *report)
{
    bt_text text = {0};
    bt_status status = bt_module_fill(module, path, options, &text);
    if (status == BT_OK && report && fprintf(report, "%s: %s\n", path, bt_text_get(&text)) < 0)
        status = bt_fail(BT_ERROR_FILE, "the report about %s cannot be written", path);
    bt_text_free(&text);
    return status;
}
