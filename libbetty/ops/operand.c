/* ops/operand.c: the operands of builders: C numbers, a common dtype, a common shape. */
#include "ops/define.h"

#include <string.h>

bt_tensor *bt_operand_tensor_(bt_tensor *x) { return x; }

/* A C number is not in the graph's list until an op gives it a dtype. So it leaves no dead constant. */
typedef struct number {
    bt_node node;
    bt_tensor value;
    unsigned char bytes[8];
} number;

static bt_tensor *number_new(bt_dtype dtype, const void *bytes)
{
    bt_trace *trace = bt_trace_now();
    if (!trace)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "tensors can only be computed inside a traced callback");
    number *x = bt_region_alloc(trace->graph->region, sizeof *x);
    if (!x)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory while recording");
    memcpy(x->bytes, bytes, sizeof x->bytes);
    x->node = (bt_node){.graph = trace->graph,
                        .op = &bt_op_constant,
                        .attr = x->bytes,
                        .attr_size = sizeof x->bytes,
                        .outputs = 1,
                        .out = &x->value,
                        .index = -1};
    x->value = (bt_tensor){.node = &x->node, .dtype = dtype, .batch_axis = -1, .weak = true, .id = -1};
    return &x->value;
}

bt_tensor *bt_operand_number_(double value) { return number_new(BT_F64, &value); }

bt_tensor *bt_operand_integer_(int64_t value) { return number_new(BT_I64, &value); }

bool bt_operand_is_number(const bt_tensor *x, double value)
{
    return !bt_poisoned(x) && x->weak && bt_get(x->dtype, x->node->attr, 0) == value;
}

static bt_tensor *number_in(const bt_tensor *x, bt_dtype dtype)
{
    if (x->dtype == dtype) /* no conversion through double, which would lose bits of an integer */
        return bt_graph_constant(bt_trace_now()->graph, bt_array_of(dtype, BT_DATA_(x->node->attr), NULL));
    return bt_number(bt_get(x->dtype, x->node->attr, 0), dtype);
}

bt_tensor *bt_operand_missing(const char *op, const bt_tensor *x)
{
    if (!bt_poisoned(x))
        return NULL;
    return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: an operand is %s", op, x ? "poisoned" : "NULL");
}

bt_tensor *bt_operand_axis(const char *op, const bt_tensor *x, int64_t given, int *axis)
{
    int64_t counted = given < 0 ? given + x->rank : given;
    if (given < -x->rank || counted >= x->rank) {
        char shape[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "%s: axis %lld of %s, which has %d axes", op, (long long)given,
                               bt_shape_text(shape, x->rank, x->dims), x->rank);
    }
    *axis = (int)counted;
    return NULL;
}

/* ---- dtypes ---- */

static int dtype_order(bt_dtype dtype)
{
    static const int order[] = {[BT_BOOL] = 0, [BT_U8] = 1,  [BT_I32] = 2, [BT_I64] = 3,
                                [BT_BF16] = 4, [BT_F16] = 5, [BT_F32] = 6, [BT_F64] = 7};
    return order[dtype];
}

static bt_dtype common_dtype(bt_tensor *const *x, int count, bt_promotion promotion, bt_dtype floating)
{
    bt_dtype dtype = BT_BOOL;
    bool strong = false, weak_float = false;
    for (int i = 0; i < count; i++) {
        if (x[i]->weak) {
            weak_float |= bt_dtype_floats(x[i]->dtype);
        } else {
            bool apart = bt_dtype_half(x[i]->dtype) && bt_dtype_half(dtype) && x[i]->dtype != dtype;
            dtype = apart ? BT_F32 : dtype_order(x[i]->dtype) > dtype_order(dtype) ? x[i]->dtype : dtype;
            strong = true;
        }
    }
    if (!strong)
        dtype = BT_I64;
    if (bt_dtype_floats(dtype))
        return dtype;
    if (weak_float || promotion == BT_PROMOTE_FLOAT)
        return floating;
    if (promotion == BT_PROMOTE_NUMBER)
        return dtype == BT_BOOL ? floating : dtype == BT_U8 ? BT_I32 : dtype;
    return dtype;
}

bt_tensor *bt_operands_promote(const char *op, bt_tensor **x, int count, bt_promotion promotion)
{
    for (int i = 0; i < count; i++) {
        bt_tensor *poison = bt_operand_missing(op, x[i]);
        if (poison)
            return poison;
    }
    bt_trace *trace = bt_trace_now();
    if (!trace)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: tensors can only be computed inside a traced callback", op);
    bt_dtype dtype = common_dtype(x, count, promotion, trace->dtype);
    for (int i = 0; i < count; i++) {
        x[i] = x[i]->weak ? number_in(x[i], bt_dtype_half(dtype) ? BT_F32 : dtype) : bt_as(x[i], dtype);
        bt_tensor *poison = bt_operand_missing(op, x[i]);
        if (poison)
            return poison;
    }
    return NULL;
}

/* ---- shapes ---- */

static bt_tensor *no_broadcast(const char *op, bt_tensor *const *x, int a, int b)
{
    char first[256], second[256];
    return bt_trace_poison(BT_ERROR_SHAPE,
                           "%s: shapes %s and %s do not match: counted from the last, each pair of axes must be equal, "
                           "or one of them 1",
                           op, bt_shape_text(first, x[a]->rank, x[a]->dims),
                           bt_shape_text(second, x[b]->rank, x[b]->dims));
}

/* The axis of x's examples in the common shape, which has `rank` axes; -1: none. */
static int examples_axis(const bt_tensor *x, int rank)
{
    return x->batch_axis >= 0 && x->dims[x->batch_axis] != 1 ? rank - x->rank + x->batch_axis : -1;
}

/* Refuses two operands of different rank whose examples would end up on different axes: [n, 1] with [n] would give [n,
 * n], every example with every other. If that is meant, bt_unsqueeze makes it explicit. */
static bt_tensor *check_examples(const char *op, bt_tensor *const *x, int a, int b, int rank)
{
    char first[256], second[256];
    int one = examples_axis(x[a], rank), other = examples_axis(x[b], rank);
    if (x[a]->rank == x[b]->rank || one < 0 || other < 0 || one == other)
        return NULL;
    return bt_trace_poison(BT_ERROR_SHAPE,
                           "%s: shapes %s and %s would pair every example of the batch with every other one; "
                           "bt_squeeze or bt_reshape one of them or, if you want that, bt_unsqueeze the one with fewer "
                           "axes",
                           op, bt_shape_text(first, x[a]->rank, x[a]->dims),
                           bt_shape_text(second, x[b]->rank, x[b]->dims));
}

bt_tensor *bt_operands_broadcast(const char *op, bt_tensor **x, int count)
{
    int rank = 0, holder[BT_MAX_RANK] = {0};
    int64_t dims[BT_MAX_RANK];
    for (int i = 0; i < count; i++)
        rank = x[i]->rank > rank ? x[i]->rank : rank;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++) {
            bt_tensor *poison = check_examples(op, x, k, i, rank);
            if (poison)
                return poison;
        }
    for (int k = 0; k < rank; k++)
        dims[k] = 1;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < x[i]->rank; j++) {
            int k = rank - x[i]->rank + j;
            if (x[i]->dims[j] == dims[k] || x[i]->dims[j] == 1)
                continue;
            if (dims[k] != 1)
                return no_broadcast(op, x, holder[k], i);
            dims[k] = x[i]->dims[j];
            holder[k] = i;
        }
    for (int i = 0; i < count; i++) {
        int axes[BT_MAX_RANK];
        for (int j = 0; j < x[i]->rank; j++)
            axes[j] = rank - x[i]->rank + j;
        x[i] = bt_broadcast(x[i], rank, dims, axes);
    }
    return NULL;
}

bt_tensor *bt_build_unary(const bt_op *op, bt_tensor *x, bt_promotion promotion)
{
    bt_tensor *poison = bt_operands_promote(op->name, &x, 1, promotion);
    return poison ? poison : BT_RECORD0(op, x);
}

bt_tensor *bt_build_binary(const bt_op *op, bt_tensor *a, bt_tensor *b, bt_promotion promotion)
{
    bt_tensor *x[] = {a, b}, *poison = bt_operands_promote(op->name, x, 2, promotion);
    if (!poison)
        poison = bt_operands_broadcast(op->name, x, 2);
    return poison ? poison : BT_RECORD0(op, x[0], x[1]);
}

bool bt_uniform(const bt_tensor *x, double *value)
{
    while (x->node && x->node->op->info && x->node->op->info->view && x->node->inputs == 1)
        x = x->node->in[0];
    if (!x->node || x->node->op != &bt_op_constant)
        return false;
    int64_t count = bt_tensor_count(x);
    if (count < 1 || count > 64)
        return false;
    *value = bt_get(x->dtype, x->node->attr, 0);
    for (int64_t i = 1; i < count; i++)
        if (bt_get(x->dtype, x->node->attr, i) != *value)
            return false;
    return true;
}
