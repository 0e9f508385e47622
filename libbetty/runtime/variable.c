/* runtime/variable.c: variables and blocks. */
#include "runtime/variable.h"

#include "base/footprint.h"
#include "runtime/copies.h"
#include "runtime/settle.h"

#include <string.h>

static const char *const category_names[] = {
#define BT_CATEGORY_TEXT(name, text) text,
    BT_CATEGORY_LIST(BT_CATEGORY_TEXT)
#undef BT_CATEGORY_TEXT
};

const char *bt_category_name(bt_category category)
{
    return (int)category >= 0 && category < BT_CATEGORIES ? category_names[category] : "unknown";
}

static bt_var *var_new(const char *owner, const char *name, bt_array shape)
{
    size_t bytes = bt_array_bytes(shape);
    if (bytes == SIZE_MAX) {
        bt_fail(BT_ERROR_SHAPE, "%s: impossible size", name ? name : "");
        return NULL;
    }
    bt_var *var = bt_alloc(sizeof *var);
    if (!var)
        return NULL;
    var->name = bt_strdup(name ? name : "");
    var->owner = bt_strdup(owner ? owner : "");
    var->dtype = shape.dtype;
    var->rank = shape.rank;
    var->bytes = bytes;
    memcpy(var->dims, shape.dims, sizeof var->dims);
    for (int i = shape.rank; i < BT_MAX_RANK; i++)
        var->dims[i] = 0;
    if (!var->name || !var->owner) {
        bt_var_free(var);
        return NULL;
    }
    return var;
}

bt_var *bt_var_new(bt_lifetime lifetime, bt_category category, const char *owner, const char *name, bt_array shape)
{
    bt_var *var = var_new(owner, name, shape);
    if (!var)
        return NULL;
    var->lifetime = lifetime;
    var->category = category;
    if (lifetime == BT_RUN && !(var->data = bt_alloc_aligned(var->bytes))) {
        bt_var_free(var);
        return NULL;
    }
    return var;
}

static void count_host(bt_var *var)
{
    var->space = BT_SPACE_HOST;
    if (!var->data)
        return;
    bt_live_far(-(int64_t)var->bytes);
    bt_live_host((int64_t)var->bytes);
}

void bt_var_offload(bt_var *root)
{
    if (!root || root->space == BT_SPACE_HOST)
        return;
    count_host(root);
    for (int r = 0; r < bt_var_ranks(root); r++) {
        bt_var *own = root->copies ? root->copies->own[r] : NULL;
        if (own && own != root && r == root->copies->home)
            count_host(own);
        else if (own) /* another rank's memory is not counted */
            own->space = BT_SPACE_HOST;
    }
}

bt_var *bt_var_window(bt_var *base, size_t offset, const char *name, bt_array shape)
{
    if (!base)
        return NULL;
    size_t end;
    bt_var *var = var_new(base->owner, name, shape);
    if (!var)
        return NULL;
    if (!bt_add_size(offset, var->bytes, &end) || end > base->bytes) {
        bt_fail(BT_ERROR_INTERNAL, "%s: a window of %zu bytes at %zu does not fit into the %zu bytes of %s", name,
                var->bytes, offset, base->bytes, base->name);
        bt_var_free(var);
        return NULL;
    }
    var->base = bt_var_root(base);
    var->offset = offset + bt_var_start(base);
    var->lifetime = base->lifetime;
    var->category = base->category;
    return var;
}

void bt_var_free(bt_var *var)
{
    if (!var)
        return;
    bt_var_drop_copies(var);
    if (!var->base)
        bt_var_unsettle(var);
    bt_free((char *)(uintptr_t)var->name);
    bt_free((char *)(uintptr_t)var->owner);
    bt_free(var);
}

char *bt_var_data(const bt_var *var)
{
    if (!var->base)
        return var->data;
    return var->base->data ? var->base->data + var->offset : NULL;
}

/* Computes the offsets of the named windows in storage order, and the total size with gaps. */
static bt_status layout(const bt_array *shapes, const char *const *names, const int64_t *order, int64_t count,
                        size_t *offsets, size_t *total)
{
    size_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t j = order ? order[i] : i;
        size_t bytes = names[j] ? bt_align_up(bt_array_bytes(shapes[j])) : 0;
        offsets[j] = at;
        if (bytes == SIZE_MAX || !bt_add_size(at, bytes, &at))
            return bt_fail(BT_ERROR_SHAPE, "a block of parameters is too large");
    }
    *total = at;
    return BT_OK;
}

bt_status bt_block_new(bt_block *block, bt_lifetime lifetime, bt_category category, const char *owner, const char *name,
                       bt_dtype dtype, const bt_array *shapes, const char *const *names, const int64_t *order,
                       int64_t count)
{
    *block = (bt_block){0};
    size_t total = 0, *offsets = bt_alloc_array((size_t)count, sizeof *offsets);
    block->windows = bt_alloc_array((size_t)count, sizeof(bt_var *));
    bt_status status =
        offsets && block->windows ? layout(shapes, names, order, count, offsets, &total) : BT_ERROR_MEMORY;
    if (status == BT_OK) {
        int64_t elements = (int64_t)(total / bt_dtype_size(dtype));
        block->flat =
            bt_var_new(lifetime, category, owner, name, (bt_array){.dtype = dtype, .rank = 1, .dims = {elements}});
        status = block->flat ? BT_OK : BT_ERROR_MEMORY;
    }
    for (int64_t j = 0; status == BT_OK && j < count; j++) {
        block->count = j + 1;
        if (!names[j])
            continue;
        block->windows[j] = bt_var_window(block->flat, offsets[j], names[j], shapes[j]);
        if (!block->windows[j])
            status = BT_ERROR_MEMORY;
        else
            block->windows[j]->tail = bt_align_up(block->windows[j]->bytes) - block->windows[j]->bytes;
    }
    bt_free(offsets);
    if (status != BT_OK)
        bt_block_free(block);
    return status;
}

void bt_block_free(bt_block *block)
{
    if (!block)
        return;
    for (int64_t j = 0; j < block->count; j++)
        bt_var_free(block->windows[j]);
    bt_free(block->windows);
    bt_var_free(block->flat);
    *block = (bt_block){0};
}
