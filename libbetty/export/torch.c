/* export/torch.c: a module's parameters and buffers in PyTorch's form. The names are PyTorch's already. But PyTorch's
 * convolution weights are [out, in, window...], and its batch norms have an extra buffer that counts batches. */
#include "export/export.h"

#include "io/safetensors.h"
#include "nn/module.h"
#include "runtime/store.h"
#include <stdio.h>
#include <string.h>

typedef struct list {
    const struct bt_instance *instance;
    bt_region *region; /* names and values */
    bt_stored *items;
    int64_t count, capacity;
} list;

static bt_status add(list *l, const char *name, bt_array array)
{
    bt_stored *items = bt_grow(l->items, &l->capacity, l->count + 1, sizeof *items);
    if (!items || !name)
        return BT_ERROR_MEMORY;
    l->items = items;
    items[l->count++] = (bt_stored){.name = name, .array = array};
    return BT_OK;
}

/* Rearranges [window..., in, out] to [out, in, window...]: the last two axes are swapped and come first. */
static void turn(bt_array *to, bt_array from)
{
    const int64_t in = from.dims[from.rank - 2], out = from.dims[from.rank - 1],
                  window = bt_array_count(from) / in / out;
    const size_t size = bt_dtype_size(from.dtype);
    for (int64_t w = 0; w < window; w++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t o = 0; o < out; o++)
                memcpy((char *)to->data + (size_t)((o * in + i) * window + w) * size,
                       (const char *)from.data + (size_t)((w * in + i) * out + o) * size, size);
    to->dims[0] = out;
    to->dims[1] = in;
    for (int a = 2; a < from.rank; a++)
        to->dims[a] = from.dims[a - 2];
}

static bt_status add_slate(list *l, const bt_slate *slate)
{
    bt_array array = bt_var_array(slate->var), turned = array;
    const size_t bytes = bt_array_bytes(array);
    array.data = bt_region_alloc(l->region, bytes);
    turned.data = array.data && slate->window ? bt_region_alloc(l->region, bytes) : array.data;
    if (!turned.data)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_store_read(l->instance, slate->var, 0, array.data, bytes));
    if (slate->window)
        turn(&turned, array);
    return add(l, slate->path, turned);
}

/* The number of batches behind the statistics is not known here, so it is written as 0; PyTorch uses it only if
 * momentum is None. */
static bt_status add_counts(list *l, bt_module *module)
{
    if (bt_module_find(module, "running_mean") && bt_module_find(module, "running_var")) {
        bt_array count = {.dtype = BT_I64, .data = bt_region_alloc(l->region, sizeof(int64_t))};
        const char *mean = bt_module_find(module, "running_mean")->path;
        const int length = (int)(strlen(mean) - strlen("running_mean"));
        const char *name = bt_region_format(l->region, "%.*snum_batches_tracked", length, mean);
        BT_TRY(count.data ? add(l, name, count) : BT_ERROR_MEMORY);
    }
    for (int64_t i = 0; i < module->child_count; i++)
        BT_TRY(add_counts(l, module->children[i]));
    return BT_OK;
}

static bt_status fill(list *l, bt_module *module)
{
    for (int64_t i = 0; i < module->param_count; i++)
        BT_TRY(add_slate(l, module->params[i]));
    for (int64_t i = 0; i < module->buffer_count; i++)
        BT_TRY(add_slate(l, module->buffers[i]));
    return add_counts(l, module);
}

bt_status bt_torch_write(bt_module *module, const struct bt_instance *instance, const char *path)
{
    list l = {.instance = instance, .region = bt_region_new()};
    bt_status status = l.region ? fill(&l, module) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = bt_safetensors_write(path, l.items, l.count, NULL);
    bt_free(l.items);
    bt_region_free(l.region);
    return status;
}
