/* engine/traced/prune.c: keeps pruned weights at 0: the parameters after an update, their gradients, and the part of a
 * solution's product that belongs to them. */
#include "engine/traced/batch.h"

#include "ops/ops.h"

/* Row b: the bits of b, the lowest first. */
static bt_tensor *bits_of_bytes(void)
{
    unsigned char table[256][8];
    for (int byte = 0; byte < 256; byte++)
        for (int bit = 0; bit < 8; bit++)
            table[byte][bit] = byte >> bit & 1;
    return bt_constant((bt_array){.dtype = BT_BOOL, .rank = 2, .dims = {256, 8}, .data = table});
}

bt_tensor *bt_pruned(const bt_problem *problem, int64_t i, bt_tensor *x)
{
    bt_var *mask = problem->masks.flat ? problem->masks.windows[i] : NULL;
    if (!mask || bt_poisoned(x))
        return x;
    bt_tensor *bits = bt_reshape(bt_gather(bits_of_bytes(), bt_graph_read(bt_trace_now()->graph, mask)), -1);
    int64_t sizes[BT_MAX_RANK + 1];
    for (int d = 0; d < x->rank; d++)
        sizes[d] = x->dims[d];
    sizes[x->rank] = BT_END;
    bits = (bt_reshape)(bt_slice(bits, 0, 0, bt_tensor_count(x)), sizes);
    return (bt_where)(bits, x, bt_zeros_like(x));
}
