/* optim/slots.c: an optimiser's state per parameter: shapes, dtypes, blocks. */
#include "optim/optim.h"

/* The index, in the record, of the kept slot with this number. */
static int index_of(const bt_optimizer *optimizer, int slot)
{
    int i = 0;
    while (!(optimizer->slots >> i & 1) || slot-- > 0)
        i++;
    return i;
}

bt_array bt_slot_array(const bt_optimizer *optimizer, int slot, const bt_slotted *param)
{
    const bt_optimizer_def *def = optimizer->kind.def;
    const int index = index_of(optimizer, slot);
    bt_array array = param->like;
    array.data = NULL;
    if (param->table && optimizer->kind.table_slot)
        array = optimizer->kind.table_slot(index, array);
    else if (def->slot)
        array = def->slot(index, array, optimizer->groups[param->group].values);
    if (optimizer->narrow && array.dtype == BT_F32)
        array.dtype = BT_BF16;
    return array;
}

static bt_status check(const bt_optimizer *optimizer, int slot, const char *param, bt_array array)
{
    if (array.rank >= 0 && array.rank <= BT_MAX_RANK && bt_dtype_size(array.dtype) && bt_array_count(array) >= 0)
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE,
                   "optimizer %s: `slot` returned an impossible shape or dtype for the slot \"%s\" of %s",
                   optimizer->kind.def->name, bt_optimizer_slot_name(optimizer, slot), param);
}

bt_status bt_slot_block(const bt_optimizer *optimizer, int slot, bt_block *block, const char *owner,
                        const bt_slotted *params, const int64_t *order, int64_t count)
{
    bt_array *shapes = bt_alloc_array((size_t)count, sizeof *shapes);
    const char **held = bt_alloc_array((size_t)count, sizeof *held);
    bt_status status = shapes && held ? BT_OK : BT_ERROR_MEMORY;
    bt_dtype dtype = BT_U8; /* bytes, if windows differ */
    bool first = true;
    for (int64_t i = 0; status == BT_OK && i < count; i++) {
        const bt_slotted *param = &params[i];
        shapes[i] = param->name ? bt_slot_array(optimizer, slot, param) : param->like;
        status = param->name ? check(optimizer, slot, param->name, shapes[i]) : BT_OK;
        bool there = param->name && status == BT_OK && (!optimizer->kind.def->slot || bt_array_count(shapes[i]) > 0);
        held[i] = there ? param->name : NULL;
        if (there)
            dtype = first || dtype == shapes[i].dtype ? shapes[i].dtype : BT_U8;
        first = first && !there;
    }
    if (status == BT_OK)
        status = bt_block_new(block, BT_RUN, BT_OPTIMIZER, owner, bt_optimizer_slot_name(optimizer, slot), dtype,
                              shapes, held, order, count);
    bt_free(shapes);
    bt_free(held);
    return status;
}
