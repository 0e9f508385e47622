/* ops/positions.c: encodings of token positions: sines that are added (Vaswani et al. 2017), or angles that rotate
 * pairs of numbers (Su et al. 2021). */
#include "ops/define.h"

#include <math.h>

#define BASE 10000.0

/* The angle of position p and pair f: p / 10000^(f / pairs). */
static double angle(int64_t place, int64_t pair, int64_t pairs)
{
    return (double)place * pow(BASE, -(double)pair / (double)pairs);
}

static bt_array table(bt_tensor **poison, bt_dtype dtype, int64_t rows, int64_t columns)
{
    bt_array array = {.dtype = dtype, .rank = 2, .dims = {rows, columns}};
    array.data = bt_region_alloc(bt_trace_now()->graph->region, bt_array_bytes(array));
    *poison = array.data ? NULL : bt_trace_poison(BT_ERROR_MEMORY, "out of memory while recording");
    return array;
}

bt_tensor *bt_sinusoidal(int64_t places, int64_t width)
{
    bt_trace *trace = bt_trace_now();
    if (!trace)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "sinusoidal: tensors can only be computed inside a traced callback");
    if (places < 1 || width < 1)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "sinusoidal: %lld places of %lld numbers, must be at least 1",
                               (long long)places, (long long)width);
    bt_tensor *poison;
    bt_array array = table(&poison, trace->dtype, places, width);
    for (int64_t i = 0; !poison && i < places * width; i++) {
        double at = (double)(i / width) * pow(BASE, -(double)(i % width / 2 * 2) / (double)width);
        bt_put(array.dtype, array.data, i, i % width % 2 ? cos(at) : sin(at));
    }
    return poison ? poison : bt_graph_constant(trace->graph, array);
}

/* cos or sin of the angles, [tokens, pairs, 1]. */
static bt_tensor *angles(bt_dtype dtype, int64_t first, int64_t tokens, int64_t pairs, double (*function)(double))
{
    bt_tensor *poison;
    bt_array array = table(&poison, dtype, tokens, pairs);
    for (int64_t i = 0; !poison && i < tokens * pairs; i++)
        bt_put(dtype, array.data, i, function(angle(first + i / pairs, i % pairs, pairs)));
    return poison ? poison : bt_unsqueeze(bt_graph_constant(bt_trace_now()->graph, array), -1);
}

bt_tensor *bt_rotary(bt_tensor *x, int64_t first)
{
    bt_tensor *poison = bt_operands_promote("rotary", &x, 1, BT_PROMOTE_FLOAT);
    int64_t dims[BT_MAX_RANK + 1];
    char shape[256];
    if (poison)
        return poison;
    int rank = x->rank;
    if (rank < 2 || rank == BT_MAX_RANK || x->dims[rank - 1] % 2)
        return bt_trace_poison(BT_ERROR_SHAPE, "rotary: x is %s, must be [..., tokens, width], the width even",
                               bt_shape_text(shape, rank, x->dims));
    for (int i = 0; i < rank; i++)
        dims[i] = x->dims[i];
    dims[rank - 1] /= 2;
    dims[rank] = 2;
    bt_tensor *pairs = bt_reshape_to(x, rank + 1, dims);
    bt_tensor *c = angles(x->dtype, first, dims[rank - 2], dims[rank - 1], cos);
    bt_tensor *s = angles(x->dtype, first, dims[rank - 2], dims[rank - 1], sin);
    bt_tensor *even = bt_slice(pairs, -1, 0, 1), *odd = bt_slice(pairs, -1, 1, 2);
    bt_tensor *turned[] = {bt_sub(bt_mul(even, c), bt_mul(odd, s)), bt_add(bt_mul(odd, c), bt_mul(even, s))};
    return bt_reshape_to(bt_concat_list(rank, turned, 2), rank, x->dims);
}
