/* ops/attention.c: attention by blocks of queries (Vaswani et al. 2017; Rabe and Staats 2021). Only one block's weights
 * exist at a time, and derivatives recompute them. So memory grows with block x keys, not queries x keys. */
#include "ops/define.h"

#include <math.h>
#include <string.h>

enum { WIDEST_BLOCK = 128 };

/* Replaces the score of a hidden key: its exponential is 0 next to any other score. */
#define NOTHING (-1e30)

/* ---- shapes: q [lead..., queries, width], k [lead..., keys, width], v [lead..., keys, values] ---- */

static bt_status operands_infer(const bt_array *in)
{
    char q[256], k[256], v[256];
    int rank = in[0].rank;
    bt_shape_text(q, rank, in[0].dims);
    bt_shape_text(k, in[1].rank, in[1].dims);
    bt_shape_text(v, in[2].rank, in[2].dims);
    BT_TRY(bt_check_dtype("attention", "the queries", in[0].dtype, BT_FLOATS));
    bool fits = rank >= 2 && rank <= 4 && in[1].rank == rank && in[2].rank == rank && in[1].dtype == in[0].dtype &&
                in[2].dtype == in[0].dtype;
    for (int i = 0; fits && i < rank - 2; i++)
        fits = in[1].dims[i] == in[0].dims[i] && in[2].dims[i] == in[0].dims[i];
    if (!fits || in[1].dims[rank - 1] != in[0].dims[rank - 1] || in[2].dims[rank - 2] != in[1].dims[rank - 2])
        return bt_fail(BT_ERROR_SHAPE,
                       "attention: q %s, k %s, v %s, must be [..., queries, width], [..., keys, width], [..., keys, "
                       "values] of one dtype, with at most two axes before these, the same for all three",
                       q, k, v);
    if (in[1].dims[rank - 2] == 0 || in[0].dims[rank - 1] == 0)
        return bt_fail(BT_ERROR_SHAPE,
                       "attention: q %s, k %s: there must be at least one key, and a width of at least 1", q, k);
    return BT_OK;
}

/* The mask is [keys]; if there are axes before the last two, it is [n, keys], where n is the first axis. */
static bt_status mask_infer(const bt_array *in)
{
    int rank = in[0].rank;
    bt_array expected = {.dtype = BT_BOOL, .rank = rank > 2 ? 2 : 1};
    if (rank > 2)
        expected.dims[0] = in[0].dims[0];
    expected.dims[expected.rank - 1] = in[1].dims[rank - 2];
    return bt_check_equal("attention", "the mask", in[3], "the keys", expected);
}

static bt_status attention_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_attention_attr *a = attr;
    BT_TRY(operands_infer(in));
    int64_t queries = in[0].dims[in[0].rank - 2], keys = in[1].dims[in[0].rank - 2];
    if (a->causal && queries > keys)
        return bt_fail(BT_ERROR_SHAPE,
                       "attention: causal with %lld queries and %lld keys: the first queries would see no key",
                       (long long)queries, (long long)keys);
    if (a->block < 1 || !(a->probability >= 0 && a->probability < 1))
        return bt_fail(BT_ERROR_ARGUMENT,
                       "attention: blocks of %lld queries, dropout %g; expected at least 1, and at least 0 and below 1",
                       (long long)a->block, a->probability);
    if (a->masked)
        BT_TRY(mask_infer(in));
    if (a->probability > 0)
        BT_TRY(bt_check_scalar("attention", "the record", in[3 + (a->masked != 0)], BT_I64));
    out[0] = in[0];
    out[0].dims[in[0].rank - 1] = in[2].dims[in[0].rank - 1];
    return BT_OK;
}

/* ---- one block ---- */

typedef struct block {
    const bt_attention_attr *attr;
    bt_tensor *mask, *record; /* NULL: none */
} block;

static int64_t rows_of(const bt_tensor *x) { return x->dims[x->rank - 2]; }

/* first, first + 1, ... along one of two axes. */
static bt_tensor *places(int64_t first, int64_t count, int axis)
{
    bt_array numbers = {.dtype = BT_I32, .rank = 2, .dims = {axis ? 1 : count, axis ? count : 1}};
    numbers.data = bt_region_alloc(bt_trace_now()->graph->region, bt_array_bytes(numbers));
    if (!numbers.data)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory while recording");
    for (int64_t i = 0; i < count; i++)
        bt_put(BT_I32, numbers.data, i, (double)(first + i));
    return bt_graph_constant(bt_trace_now()->graph, numbers);
}

/* True where a key comes after its query, [queries, keys]. */
static bt_tensor *behind(const bt_tensor *q, const bt_tensor *k)
{
    return bt_less(places(rows_of(k) - rows_of(q), rows_of(q), 0), places(0, rows_of(k), 1));
}

/* The keys that count, by mask and query: [n, 1, ..., queries or 1, keys], of the scores' rank. */
static bt_tensor *counting(bt_tensor *mask, bt_tensor *hidden, int rank)
{
    int64_t dims[BT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = 1;
    dims[0] = mask->rank > 1 ? mask->dims[0] : 1;
    dims[rank - 1] = mask->dims[mask->rank - 1];
    bt_tensor *keep = bt_reshape_to(mask, rank, dims);
    return hidden ? bt_where(hidden, bt_number(0, BT_BOOL), keep) : keep;
}

static bt_tensor *drop(const block *b, bt_tensor *weights)
{
    const bt_attention_attr *a = b->attr;
    if (!(a->probability > 0) || bt_poisoned(weights))
        return weights;
    bt_random_attr random = {
        .dtype = weights->dtype, .rank = weights->rank, .key = a->key, .site = a->site, .probability = a->probability};
    memcpy(random.dims, weights->dims, sizeof random.dims);
    return BT_RECORD(&bt_op_dropout, &random, weights, b->record);
}

/* in: q, k, v. A query for which no key counts gets 0. */
static bt_tensor *block_of(void *user, bt_tensor *const *in)
{
    const block *b = user;
    const int rank = in[0]->rank;
    bt_tensor *q = bt_mul(in[0], 1 / sqrt((double)in[0]->dims[rank - 1]));
    bt_tensor *scores = bt_dot(q, bt_transpose(in[1])), *hidden = b->attr->causal ? behind(in[0], in[1]) : NULL;
    bt_tensor *keep = b->mask ? counting(b->mask, hidden, rank) : NULL;
    if (keep)
        scores = bt_where(keep, scores, NOTHING);
    else if (hidden)
        scores = bt_where(hidden, NOTHING, scores);
    bt_tensor *y = bt_dot(drop(b, bt_softmax(scores, -1)), in[2]);
    if (!keep || bt_poisoned(y))
        return y;
    return bt_where(bt_greater(bt_max(bt_as(keep, y->dtype), -1, BT_KEEP), 0), y, 0);
}

/* ---- the body: each block is attention of fewer queries, and, if causal, of fewer keys ---- */

static bt_tensor *part_of(const bt_attention_attr *a, bt_tensor *const *in, int64_t number)
{
    bt_attention_attr own = *a;
    const int axis = in[0]->rank - 2;
    const uint32_t which = (uint32_t)number;
    int64_t queries = rows_of(in[0]), keys = rows_of(in[1]), from = number * a->block, to = from + a->block;
    bt_tensor *parts[5] = {NULL};
    int inputs = 3;
    to = to < queries ? to : queries;
    keys = a->causal ? to + keys - queries : keys;
    own.site = (uint32_t)bt_hash(a->site, &which, sizeof which);
    own.block = to - from;
    parts[0] = bt_slice(in[0], axis, from, to);
    parts[1] = bt_slice(in[1], axis, 0, keys);
    parts[2] = bt_slice(in[2], axis, 0, keys);
    if (a->masked)
        parts[inputs++] = bt_slice(in[3], -1, 0, keys);
    if (a->probability > 0)
        parts[inputs++] = in[a->masked ? 4 : 3];
    return bt_record(&bt_op_attention, &own, sizeof own, parts, inputs);
}

static void attention_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    const bt_attention_attr *a = attr;
    int64_t queries = rows_of(in[0]), count = queries ? (queries - 1) / a->block + 1 : 1;
    block b = {
        .attr = a, .mask = a->masked ? in[3] : NULL, .record = a->probability > 0 ? in[a->masked ? 4 : 3] : NULL};
    if (count == 1) {
        out[0] = a->held ? block_of(&b, in) : bt_checkpoint(block_of, &b, in[0], in[1], in[2]);
        return;
    }
    bt_tensor **parts = bt_region_alloc(bt_trace_now()->graph->region, (size_t)count * sizeof *parts);
    if (!parts) {
        bt_graph_fail(bt_trace_now()->graph, BT_ERROR_MEMORY, "out of memory while recording");
        return;
    }
    for (int64_t i = 0; i < count; i++)
        parts[i] = part_of(a, in, i);
    out[0] = bt_concat_list(in[0]->rank - 2, parts, (int)count);
}

/* ---- the record ---- */

static double attention_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    int rank = in[0].rank;
    double scores = (double)in[1].dims[rank - 2] * (((const bt_attention_attr *)attr)->causal ? 0.5 : 1);
    return scores * (2 * (double)bt_array_count(in[0]) + 2 * (double)bt_array_count(out[0]));
}

/* Splits along axes before the last two. */
static bool attention_shares(bt_shares *shares)
{
    const bt_attention_attr *a = shares->attr;
    int axis = -1;
    for (int i = 0; i < 3; i++)
        if (axis < 0 && shares->in_axis[i] >= 0 && shares->in_axis[i] < shares->in[0].rank - 2)
            axis = shares->in_axis[i];
    bt_shares_along(shares, axis, 1);
    for (int i = 3; i < shares->inputs; i++)
        shares->in_axis[i] = i == 3 && a->masked && axis == 0 ? 0 : -1;
    return axis >= 0;
}

static void attention_describe(const void *attr, bt_text *text)
{
    const bt_attention_attr *a = attr;
    bt_text_add(text, "%sblocks of %lld", a->causal ? "causal, " : "", (long long)a->block);
    if (a->held)
        bt_text_add(text, ", held");
    if (a->probability > 0)
        bt_text_add(text, ", dropout %g, key %llx, site %x", a->probability, (unsigned long long)a->key,
                    (unsigned)a->site);
}

#define QKV(rank, ...) BT_DRAWN(-1, 1, BT_F64, rank, __VA_ARGS__)

static void attention_samples(bt_sampler *sampler)
{
    static const double record[] = {7}, some[] = {1, 0, 1, 1, 1, 0, 0, 1}, none[] = {0};
    BT_SAMPLE(sampler, .name = "one head", .inputs = 3, BT_ATTR(bt_attention_attr, .block = 2),
              .in = {QKV(2, 3, 2), QKV(2, 4, 2), QKV(2, 4, 3)});
    BT_SAMPLE(sampler, .name = "causal", .inputs = 3, BT_ATTR(bt_attention_attr, .block = 2, .causal = 1),
              .in = {QKV(3, 2, 3, 2), QKV(3, 2, 5, 2), QKV(3, 2, 5, 1)});
    BT_SAMPLE(sampler, .name = "masked", .inputs = 4, BT_ATTR(bt_attention_attr, .block = 3, .masked = 1),
              .in = {QKV(4, 2, 2, 3, 2), QKV(4, 2, 2, 4, 2), QKV(4, 2, 2, 4, 2), BT_LISTED(some, BT_BOOL, 2, 2, 4)});
    BT_SAMPLE(sampler, .name = "causal and masked", .inputs = 4,
              BT_ATTR(bt_attention_attr, .block = 1, .masked = 1, .causal = 1, .held = 1),
              .in = {QKV(3, 2, 2, 2), QKV(3, 2, 4, 2), QKV(3, 2, 4, 2), BT_LISTED(some, BT_BOOL, 2, 2, 4)});
    BT_SAMPLE(sampler, .name = "no key counts", .inputs = 4, BT_ATTR(bt_attention_attr, .block = 2, .masked = 1),
              .in = {QKV(2, 2, 2), QKV(2, 3, 2), QKV(2, 3, 2), BT_LISTED(none, BT_BOOL, 1, 3)});
    BT_SAMPLE(sampler, .name = "dropout", .inputs = 4,
              BT_ATTR(bt_attention_attr, .block = 2, .probability = 0.4, .key = 5, .site = 3),
              .in = {QKV(2, 3, 2), QKV(2, 5, 2), QKV(2, 5, 2), BT_LISTED(record, BT_I64, 0, 0)});
    BT_SAMPLE(sampler, .name = "no queries", .inputs = 3, BT_ATTR(bt_attention_attr, .block = 2),
              .in = {QKV(2, 0, 2), QKV(2, 4, 2), QKV(2, 4, 3)});
}

const bt_op bt_op_attention = {
    .name = "attention",
    .inputs = -1,
    .attr_size = sizeof(bt_attention_attr),
    .infer = attention_infer,
    .body = attention_body,
    .info = &(const bt_op_info){.flags = BT_OP_PRODUCT,
                                .differentiable = 7,
                                .flops = attention_flops,
                                .shares = attention_shares,
                                .describe = attention_describe,
                                .samples = attention_samples},
};

/* ---- the builder ---- */

bt_attention_options bt_attention_defaults(void) { return (bt_attention_options){0}; }

/* Brings the mask to [n, keys], or [keys] if the operands have no axis before the last two. infer checks the shape. */
static bt_tensor *mask_of(bt_tensor *mask, const bt_tensor *q)
{
    bt_tensor *poison = bt_operand_missing("attention", mask);
    if (poison)
        return poison;
    mask = bt_as(mask, BT_BOOL);
    if (bt_poisoned(mask) || mask->rank != 1 || q->rank < 3)
        return mask;
    return bt_broadcast(mask, 2, (const int64_t[]){q->dims[0], mask->dims[0]}, (const int[]){1});
}

/* Blocks of nearly equal size. */
static int64_t block_size(int64_t queries, int64_t given)
{
    if (queries < 1 || given > 0)
        return queries < 1 ? 1 : given < queries ? given : queries;
    int64_t count = (queries + WIDEST_BLOCK - 1) / WIDEST_BLOCK;
    return (queries + count - 1) / count;
}

bt_tensor *bt_attention(bt_tensor *q, bt_tensor *k, bt_tensor *v, const bt_attention_options *options)
{
    bt_attention_options o = options ? *options : bt_attention_defaults();
    bt_tensor *in[5] = {q, k, v}, *poison = bt_operands_promote("attention", in, 3, BT_PROMOTE_FLOAT);
    bt_attention_attr attr = {.causal = o.causal, .held = o.held, .masked = o.mask != NULL};
    int inputs = 3;
    if (poison)
        return poison;
    if (o.block < 0 || !(o.dropout >= 0 && o.dropout < 1))
        return bt_trace_poison(BT_ERROR_ARGUMENT,
                               "attention: blocks of %lld queries, dropout %g; blocks must be at least 1, or 0 to let "
                               "the library choose; dropout at least 0 and below 1",
                               (long long)o.block, o.dropout);
    q = in[0];
    attr.block = block_size(q->rank > 1 ? q->dims[q->rank - 2] : 1, o.held && !o.block ? INT64_MAX : o.block);
    if (o.mask && bt_poisoned(in[inputs++] = mask_of(o.mask, q)))
        return in[inputs - 1];
    if (o.dropout > 0 && bt_trace_now()->mode != BT_VALID) {
        poison = bt_random_stream("attention", &attr.key, &attr.site, &in[inputs++]);
        if (poison)
            return poison;
        attr.probability = o.dropout;
    }
    return bt_record(&bt_op_attention, &attr, sizeof attr, in, inputs);
}
