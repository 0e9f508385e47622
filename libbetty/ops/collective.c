/* ops/collective.c: ops that the ranks of a run compute together. transform/shard.c records them, after derivatives
 * have been taken. They are effects, so that no pass drops, merges, repeats or reorders them: every rank executes the
 * same ones in graph order, whatever the sizes of its own part. */
#include "ops/define.h"

int64_t bt_share_first(int64_t rows, int rank, int ranks)
{
    const int64_t each = rows / ranks, rest = rows % ranks; /* (rank rest) / ranks, rounded up, is added */
    return rank * each + (rank * rest + ranks - 1) / ranks;
}

int64_t bt_collective_first(const bt_collective_attr *attr, int64_t rank)
{
    const int64_t line = attr->of ? attr->of : attr->size;
    const int64_t row = attr->rows ? bt_share_first(attr->rows, (int)rank, (int)attr->ranks) : 0;
    const int64_t first = attr->rows ? row * (line / attr->rows) - attr->from : 0;
    return first < 0 ? 0 : first > attr->size ? attr->size : first;
}

uint64_t bt_collective_hash(uint64_t seed, const bt_op *op, const bt_collective_attr *attr)
{
    bt_collective_attr all = *attr;
    all.rank = 0;
    return bt_hash_text(bt_hash(seed, &all, sizeof all), op->name);
}

bool bt_collective_same(const bt_collective_attr *a, const bt_collective_attr *b)
{
    return a->ranks == b->ranks && a->reduction == b->reduction && a->parts == b->parts && a->axis == b->axis &&
           a->rows == b->rows && a->size == b->size && a->of == b->of && a->from == b->from;
}

static int64_t own_size(const bt_collective_attr *attr)
{
    return bt_collective_first(attr, attr->rank + 1) - bt_collective_first(attr, attr->rank);
}

static bt_status check(const char *op, const bt_collective_attr *attr, bt_array x, bool moves)
{
    if (attr->ranks < 1 || attr->ranks > INT32_MAX || attr->rank < 0 || attr->rank >= attr->ranks)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: rank %lld of %lld", op, (long long)attr->rank, (long long)attr->ranks);
    if (attr->reduction < BT_REDUCE_SUM || attr->reduction > BT_REDUCE_MIN)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: there is no reduction %lld", op, (long long)attr->reduction);
    return bt_check_dtype(op, "the operand", x.dtype, moves ? BT_EVERY : BT_NUMBERS);
}

/* Checks that an operand or a result is a rank's own part along the axis: its size must be `found`. */
static bt_status check_parts(const char *op, const bt_collective_attr *attr, bt_array x, int64_t found)
{
    BT_TRY(bt_check_axis(op, attr->axis, x.rank));
    const int64_t line = attr->of ? attr->of : attr->size;
    if (attr->rows < 1 || attr->size < 0 || line % attr->rows)
        return bt_fail(BT_ERROR_SHAPE, "%s: an axis of size %lld split as %lld rows", op, (long long)line,
                       (long long)attr->rows);
    if (attr->from < 0 || attr->from > line - attr->size)
        return bt_fail(BT_ERROR_SHAPE, "%s: a stretch of %lld from %lld on, of %lld", op, (long long)attr->size,
                       (long long)attr->from, (long long)line);
    if (x.dims[attr->axis] == found)
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE, "%s: rank %lld of %lld has %lld of an axis of size %lld, must have %lld", op,
                   (long long)attr->rank, (long long)attr->ranks, (long long)x.dims[attr->axis], (long long)attr->size,
                   (long long)found);
}

static bt_status all_reduce_infer(const void *attr, const bt_array *in, bt_array *out)
{
    out[0] = in[0];
    return check("all_reduce", attr, in[0], false);
}

static bt_status all_gather_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_collective_attr *collective = attr;
    BT_TRY(check("all_gather", collective, in[0], true));
    BT_TRY(check_parts("all_gather", collective, in[0], own_size(collective)));
    out[0] = in[0];
    out[0].dims[collective->axis] = collective->size;
    return BT_OK;
}

static bt_status reduce_scatter_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_collective_attr *collective = attr;
    BT_TRY(check("reduce_scatter", collective, in[0], false));
    BT_TRY(check_parts("reduce_scatter", collective, in[0], collective->size));
    out[0] = in[0];
    out[0].dims[collective->axis] = own_size(collective);
    return BT_OK;
}

static void describe(const void *attr, bt_text *text)
{
    static const char *const reductions[] = {"sum", "max", "min"};
    const bt_collective_attr *c = attr;
    bt_text_add(text, "rank %lld of %lld", (long long)c->rank, (long long)c->ranks);
    if (c->parts)
        bt_text_add(text, ", axis %lld of size %lld, %lld rows", (long long)c->axis, (long long)c->size,
                    (long long)c->rows);
    if (c->of)
        bt_text_add(text, ", from %lld of %lld on", (long long)c->from, (long long)c->of);
    if (c->reduction >= BT_REDUCE_SUM && c->reduction <= BT_REDUCE_MIN)
        bt_text_add(text, ", %s", reductions[c->reduction]);
}

/* With one rank they are the identity. tests/transform tests several ranks. */
static void all_reduce_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "two operands", .inputs = 2, BT_ATTR(bt_collective_attr, .ranks = 1),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3), BT_DRAWN(-2, 2, BT_F64, 7)});
    BT_SAMPLE(sampler, .name = "one rank", .inputs = 1, BT_ATTR(bt_collective_attr, .ranks = 1),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 5)});
}

static void parts_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "one rank", .inputs = 1,
              BT_ATTR(bt_collective_attr, .ranks = 1, .parts = 1, .axis = 1, .rows = 2, .size = 4),
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 4)});
}

#define COLLECTIVE(op, count, each, over, samples_)                                                                    \
    const bt_op bt_op_##op = {                                                                                         \
        .name = #op,                                                                                                   \
        .inputs = (count),                                                                                             \
        .attr_size = sizeof(bt_collective_attr),                                                                       \
        .infer = op##_infer,                                                                                           \
        .info = &(const bt_op_info){.flags = BT_OP_EFFECT | BT_OP_COLLECTIVE | (each),                                 \
                                    .cast = BT_CAST_ANY,                                                               \
                                    .flops = bt_flops_input,                                                           \
                                    .overwrites = {over},                                                              \
                                    .shares = bt_shares_none,                                                          \
                                    .describe = describe,                                                              \
                                    .samples = (samples_)},                                                            \
    };

COLLECTIVE(all_reduce, -1, BT_OP_EACH, 1, all_reduce_samples)
COLLECTIVE(all_gather, 1, 0, 0, parts_samples)
COLLECTIVE(reduce_scatter, 1, 0, 0, parts_samples)

bt_tensor *bt_all_reduce(bt_tensor *x, int rank, int ranks, bt_reduction reduction)
{
    bt_collective_attr attr = {.rank = rank, .ranks = ranks, .reduction = (int64_t)reduction};
    return BT_RECORD(&bt_op_all_reduce, &attr, x);
}

bt_tensor *bt_all_gather(bt_tensor *x, int rank, int ranks, int axis, int64_t rows, int64_t size)
{
    bt_collective_attr attr = {.rank = rank, .ranks = ranks, .parts = 1, .axis = axis, .rows = rows, .size = size};
    return BT_RECORD(&bt_op_all_gather, &attr, x);
}

bt_tensor *bt_gather_stretch(bt_tensor *x, const bt_collective_attr *stretch)
{
    return BT_RECORD(&bt_op_all_gather, stretch, x);
}

bt_tensor *bt_scatter_stretch(bt_tensor *x, const bt_collective_attr *stretch)
{
    return BT_RECORD(&bt_op_reduce_scatter, stretch, x);
}

bt_tensor *bt_reduce_scatter(bt_tensor *x, int rank, int ranks, int axis, int64_t rows)
{
    bt_collective_attr attr = {.rank = rank, .ranks = ranks, .parts = 1, .axis = axis, .rows = rows};
    if (!bt_poisoned(x) && axis >= 0 && axis < x->rank)
        attr.size = x->dims[axis];
    return BT_RECORD(&bt_op_reduce_scatter, &attr, x);
}
