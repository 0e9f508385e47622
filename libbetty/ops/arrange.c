/* ops/arrange.c: reordering and repeating of elements, and tensors of counted numbers; built from other ops. */
#include "ops/define.h"

#include <string.h>

/* 0, 1, ..., count - 1 in I32, in the current trace. */
static bt_tensor *count_up(const char *op, int64_t count)
{
    bt_trace *trace = bt_trace_now();
    if (!trace)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: tensors can only be computed inside a traced callback", op);
    if (count < 0 || count > INT32_MAX)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: %lld elements; expected 0 to 2147483647", op, (long long)count);
    bt_array numbers = {.dtype = BT_I32, .rank = 1, .dims = {count}};
    numbers.data = bt_region_alloc(trace->graph->region, bt_array_bytes(numbers));
    if (!numbers.data)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory while recording");
    for (int64_t i = 0; i < count; i++)
        bt_put(BT_I32, numbers.data, i, (double)i);
    return bt_graph_constant(trace->graph, numbers);
}

bt_tensor *bt_arange(int64_t count) { return count_up("arange", count); }

bt_tensor *bt_eye(int64_t size)
{
    bt_tensor *place = count_up("eye", size);
    if (bt_poisoned(place))
        return place;
    return bt_as(bt_equal(bt_unsqueeze(place, 1), bt_unsqueeze(place, 0)), bt_trace_now()->dtype);
}

/* Checks x and its axis. */
static bt_tensor *operand(const char *op, bt_tensor *x, int *axis)
{
    bt_tensor *poison = bt_operand_missing(op, x);
    return poison ? poison : bt_operand_axis(op, x, *axis, axis);
}

bt_tensor *bt_flip(bt_tensor *x, int axis)
{
    bt_tensor *poison = operand("flip", x, &axis);
    if (poison)
        return poison;
    bt_tensor *index = bt_sub(x->dims[axis] - 1, count_up("flip", x->dims[axis]));
    if (bt_poisoned(index) || axis == 0)
        return bt_poisoned(index) ? index : bt_gather(x, index);
    int64_t order[BT_MAX_RANK + 1];
    for (int i = 0; i < x->rank; i++)
        order[i] = i == 0 ? axis : i == axis ? 0 : i; /* swaps the axis with the first; its own inverse */
    order[x->rank] = BT_END;
    return (bt_permute)(bt_gather((bt_permute)(x, order), index), order);
}

bt_tensor *bt_roll(bt_tensor *x, int64_t by, int axis)
{
    bt_tensor *poison = operand("roll", x, &axis);
    if (poison)
        return poison;
    int64_t size = x->dims[axis], from = size ? (size - by % size) % size : 0;
    return from == 0 ? x : bt_concat(axis, bt_slice(x, axis, from, size), bt_slice(x, axis, 0, from));
}

bt_tensor *bt_pad(bt_tensor *x, int axis, int64_t before, int64_t behind)
{
    bt_tensor *poison = operand("pad", x, &axis);
    if (poison)
        return poison;
    if (before < 0 || behind < 0 || before > INT32_MAX || behind > INT32_MAX)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "pad: %lld zeros before and %lld after; expected at least 0",
                               (long long)before, (long long)behind);
    return bt_pad_axis(x, axis, before, before + x->dims[axis] + behind);
}

bt_tensor *(bt_stack)(int axis, bt_tensor *const *parts)
{
    bt_tensor *wide[BT_MAX_ITEMS + 1] = {NULL};
    for (int i = 0; parts && parts[i]; i++) {
        if (i == BT_MAX_ITEMS)
            return bt_trace_poison(BT_ERROR_ARGUMENT, "stack: there are more than %d parts", BT_MAX_ITEMS);
        wide[i] = bt_unsqueeze(parts[i], axis);
        if (bt_poisoned(wide[i]))
            return wide[i];
    }
    if (!wide[0])
        return bt_trace_poison(BT_ERROR_ARGUMENT, "stack: there are no parts, or the first is NULL");
    return (bt_concat)(axis < 0 ? axis + wide[0]->rank : axis, wide);
}

bt_tensor *(bt_expand)(bt_tensor *x, const int64_t *sizes)
{
    bt_tensor *poison = bt_operand_missing("expand", x);
    int64_t dims[BT_MAX_RANK];
    int rank = 0, axes[BT_MAX_RANK];
    char from[256], to[256];
    if (poison)
        return poison;
    for (; sizes && sizes[rank] != BT_END; rank++) {
        if (rank == BT_MAX_RANK || sizes[rank] < 0)
            return bt_trace_poison(BT_ERROR_SHAPE, "expand: size %lld at place %d; expected %d sizes of at least 0",
                                   (long long)sizes[rank], rank + 1, BT_MAX_RANK);
        dims[rank] = sizes[rank];
    }
    bool fits = rank >= x->rank;
    for (int i = 0; fits && i < x->rank; i++) {
        axes[i] = rank - x->rank + i;
        fits = x->dims[i] == 1 || x->dims[i] == dims[axes[i]];
    }
    if (!fits)
        return bt_trace_poison(BT_ERROR_SHAPE, "expand: %s cannot be repeated to %s",
                               bt_shape_text(from, x->rank, x->dims), bt_shape_text(to, rank, dims));
    return bt_broadcast(x, rank, dims, axes);
}

/* x where column - row (lower) or row - column is at most `by`, else 0. */
static bt_tensor *triangle(const char *op, bt_tensor *x, int64_t by, bool lower)
{
    bt_tensor *poison = bt_operand_missing(op, x);
    if (poison)
        return poison;
    if (x->rank < 2)
        return bt_trace_poison(BT_ERROR_SHAPE, "%s: a tensor of %d axes, must have at least 2", op, x->rank);
    bt_tensor *row = bt_unsqueeze(count_up(op, x->dims[x->rank - 2]), 1);
    bt_tensor *column = bt_unsqueeze(count_up(op, x->dims[x->rank - 1]), 0);
    bt_tensor *distance = lower ? bt_sub(column, row) : bt_sub(row, column);
    return bt_where(bt_greater(distance, by), 0, x);
}

bt_tensor *bt_tril(bt_tensor *x, int64_t by) { return triangle("tril", x, by, true); }

bt_tensor *bt_triu(bt_tensor *x, int64_t by) { return triangle("triu", x, -by, false); }
