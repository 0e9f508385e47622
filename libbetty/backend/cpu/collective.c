/* backend/cpu/collective.c: collectives of ranks that share one address space. */
#include "backend/cpu/reference.h"
#include "backend/pick.h"

#include <string.h>

static bt_status alone(const bt_call *call)
{
    return bt_fail(BT_ERROR_INTERNAL, "%s: a collective can only run with all ranks", call->op->name);
}

static bool accepts(const bt_call *call)
{
    for (int i = 0; i < call->inputs; i++)
        if (!bt_cpu_contiguous(&call->in[i]) || call->in[i].dtype != call->out[0].dtype)
            return false;
    return true;
}

/* s[i] op= x[i] in the dtype. */
typedef void fold_fn(int64_t n, void *sum, const void *values);

#define FOLD(name, type, expression)                                                                                   \
    static void name(int64_t n, void *sum, const void *values)                                                         \
    {                                                                                                                  \
        type *restrict s = sum;                                                                                        \
        const type *restrict v = values;                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const type x = v[i];                                                                                       \
            s[i] = (expression);                                                                                       \
        }                                                                                                              \
    }
#define LARGER(op) BT_PICK(s[i], x, op)

FOLD(add_f32, float, s[i] + x)
FOLD(max_f32, float, LARGER(>))
FOLD(min_f32, float, LARGER(<))
FOLD(add_f64, double, s[i] + x)
FOLD(max_f64, double, LARGER(>))
FOLD(min_f64, double, LARGER(<))
FOLD(add_i32, uint32_t, s[i] + x)
FOLD(max_i32, int32_t, x > s[i] ? x : s[i])
FOLD(min_i32, int32_t, x < s[i] ? x : s[i])
FOLD(add_i64, uint64_t, s[i] + x)
FOLD(max_i64, int64_t, x > s[i] ? x : s[i])
FOLD(min_i64, int64_t, x < s[i] ? x : s[i])

static const struct {
    bt_dtype dtype;
    fold_fn *fold[3]; /* by bt_reduction */
} folds[] = {
    {BT_F32, {add_f32, max_f32, min_f32}},
    {BT_F64, {add_f64, max_f64, min_f64}},
    {BT_I32, {add_i32, max_i32, min_i32}},
    {BT_I64, {add_i64, max_i64, min_i64}},
};

static fold_fn *fold_of(const bt_call *call)
{
    for (int i = 0; i < BT_COUNT_OF(folds); i++)
        if (folds[i].dtype == call->in[0].dtype)
            return folds[i].fold[((const bt_collective_attr *)call->attr)->reduction];
    return NULL;
}

/* Reduces elements from .. from + n - 1 of the ranks' inputs `which`, in the order of ranks. The result may overwrite
 * the first rank's input. */
static void fold_inputs(const bt_call *const *calls, int ranks, int which, int64_t from, int64_t n, char *result)
{
    fold_fn *fold = fold_of(calls[0]);
    const size_t size = bt_dtype_size(calls[0]->in[0].dtype), start = (size_t)from * size;
    if (!n)
        return;
    if (result != calls[0]->in[which].data + start)
        memmove(result, calls[0]->in[which].data + start, (size_t)n * size);
    for (int r = 1; r < ranks; r++)
        fold(n, result, calls[r]->in[which].data + start);
}

enum { BLOCK = 1 << 10 }; /* elements: the L1 cache still holds them when they are copied to other ranks */

static void reduce_one(const bt_call *const *calls, int ranks, int which)
{
    const int64_t count = bt_cpu_count(&calls[0]->in[which]);
    const size_t size = bt_dtype_size(calls[0]->in[which].dtype);
    for (int64_t from = 0, n; from < count; from += n) {
        n = count - from < BLOCK ? count - from : BLOCK;
        char *sum = NULL;
        for (int r = 0; r < ranks; r++) {
            char *out = calls[r]->out[which].data ? calls[r]->out[which].data + (size_t)from * size : NULL;
            if (out && sum)
                memcpy(out, sum, (size_t)n * size);
            else if (out)
                fold_inputs(calls, ranks, which, from, n, sum = out);
        }
    }
}

static void all_reduce(const bt_call *const *calls, int ranks)
{
    for (int i = 0; i < calls[0]->inputs; i++)
        reduce_one(calls, ranks, i);
}

/* Whole views along an axis: [outer, size, inner]. */
typedef struct stretch {
    int64_t outer, inner;
} stretch;

static stretch stretch_of(const bt_view *x, int64_t axis)
{
    stretch s = {1, 1};
    for (int i = 0; i < x->rank; i++) {
        s.outer *= i < axis ? x->dims[i] : 1;
        s.inner *= i > axis ? x->dims[i] : 1;
    }
    return s;
}

static void all_gather(const bt_call *const *calls, int ranks)
{
    const bt_collective_attr *attr = calls[0]->attr;
    const stretch s = stretch_of(&calls[0]->out[0], attr->axis);
    const size_t size = bt_dtype_size(calls[0]->in[0].dtype), line = (size_t)(attr->size * s.inner) * size;
    for (int r = 0; r < ranks; r++) {
        const bt_view *in = &calls[r]->in[0];
        const size_t own = (size_t)(in->dims[attr->axis] * s.inner) * size;
        const size_t first = (size_t)(bt_collective_first(attr, r) * s.inner) * size;
        for (int64_t o = 0; own && o < s.outer; o++)
            for (int to = 0; to < ranks; to++)
                if (calls[to]->out[0].data)
                    memcpy(calls[to]->out[0].data + (size_t)o * line + first, in->data + (size_t)o * own, own);
    }
}

static void reduce_scatter(const bt_call *const *calls, int ranks)
{
    const bt_collective_attr *attr = calls[0]->attr;
    const stretch s = stretch_of(&calls[0]->in[0], attr->axis);
    for (int r = 0; r < ranks; r++) {
        const bt_view *out = &calls[r]->out[0];
        const int64_t own = out->dims[attr->axis] * s.inner, first = bt_collective_first(attr, r) * s.inner;
        for (int64_t o = 0; out->data && o < s.outer; o++)
            fold_inputs(calls, ranks, 0, o * attr->size * s.inner + first, own,
                        out->data + (size_t)(o * own) * bt_dtype_size(out->dtype));
    }
}

static const struct {
    const bt_op *op;
    void (*join)(const bt_call *const *calls, int ranks);
} joins[] = {{&bt_op_all_reduce, all_reduce}, {&bt_op_all_gather, all_gather}, {&bt_op_reduce_scatter, reduce_scatter}};

/* Checks that all ranks are at the same call, and that each has its own number. */
static bt_status check(const bt_call *const *calls, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        const bt_collective_attr *own = calls[r]->attr;
        if (own->rank != r || own->ranks != ranks || !bt_calls_meet(calls[r], calls[0]))
            return bt_fail(BT_ERROR_INTERNAL, "%s: rank %d of %d is at a different call (%s of rank %lld of %lld)",
                           calls[0]->op->name, r, ranks, calls[r]->op->name, (long long)own->rank,
                           (long long)own->ranks);
    }
    return BT_OK;
}

bt_status bt_cpu_join(const bt_call *const *calls, int ranks)
{
    BT_TRY(check(calls, ranks));
    for (int i = 0; i < BT_COUNT_OF(joins); i++)
        if (joins[i].op == calls[0]->op)
            joins[i].join(calls, ranks);
    return BT_OK;
}

#define COLLECTIVE(op_name, moves)                                                                                     \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".joined", .accepts = accepts, .launch = alone, .half = moves         \
    }

const bt_kernel_impl bt_cpu_collective[] = {
    COLLECTIVE(all_reduce, false),
    COLLECTIVE(all_gather, true),
    COLLECTIVE(reduce_scatter, false),
    {.op = NULL},
};
