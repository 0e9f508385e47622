/* ops/leaf.c: variable reads and constants; a tensor's shape. */
#include "ops/define.h"

/* Leaves have no infer: bt_graph_read and bt_graph_constant make them and set their shape. */
const bt_op bt_op_read = {
    .name = "read",
    .attr_size = sizeof(bt_read_attr),
    .info = &(const bt_op_info){.flags = BT_OP_LEAF, .flops = bt_flops_none},
};

const bt_op bt_op_constant = {
    .name = "constant",
    .info = &(const bt_op_info){.flags = BT_OP_LEAF | BT_OP_CHEAP, .flops = bt_flops_none},
};

int bt_rank(const bt_tensor *x) { return bt_operand_missing("bt_rank", x) ? 0 : x->rank; }

int64_t bt_dim(const bt_tensor *x, int axis)
{
    int place;
    if (bt_operand_missing("bt_dim", x) || bt_operand_axis("bt_dim", x, axis, &place))
        return 1;
    return x->dims[place];
}

bt_tensor *bt_constant(bt_array values)
{
    bt_trace *trace = bt_trace_now();
    if (!trace)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_constant: must be called inside a traced callback");
    if (values.rank < 0 || values.rank > BT_MAX_RANK || bt_dtype_size(values.dtype) == 0)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_constant: an array of rank %d and dtype %d", values.rank,
                               (int)values.dtype);
    return bt_graph_constant(trace->graph, values);
}

bt_tensor *bt_full_like(bt_tensor *x, double value)
{
    bt_tensor *poison = bt_operand_missing("full_like", x);
    if (poison)
        return poison;
    bt_tensor *full = bt_broadcast(bt_number(value, x->dtype), x->rank, x->dims, NULL);
    if (!bt_poisoned(full) && x->rank > 0)
        full->batch_axis = x->batch_axis;
    return full;
}

bt_tensor *bt_zeros_like(bt_tensor *x) { return bt_full_like(x, 0); }

bt_tensor *bt_ones_like(bt_tensor *x) { return bt_full_like(x, 1); }
