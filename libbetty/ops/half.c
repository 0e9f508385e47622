/* ops/half.c: 16-bit numbers. They are only stored: ops compute from their f32 values, and the result is rounded once
 * when it is stored. So no other op, rule or body knows of them.
 *
 *   widen(x)   the same numbers as f32: a view, which costs nothing
 *   cast(x)    rounds; if nobody else reads the f32 value, it is stored in 16 bits right away (compile/lower.c)
 *   round(x)   rounds to 16-bit numbers but gives f32, with the derivative 1: how a 16-bit network sees a parameter
 *              whose gradient must not be rounded
 *   stochastic_round(x, count)   the same for bf16, but rounds up or down at random, so that the mean is kept over
 *              many roundings: for what is kept in bf16 from update to update */
#include "ops/define.h"

/* ---- widen ---- */

static bt_status widen_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    if (!bt_dtype_half(in[0].dtype))
        return bt_fail(BT_ERROR_SHAPE, "widen: the operand is %s, must be bf16 or f16", bt_dtype_name(in[0].dtype));
    out[0] = in[0];
    out[0].dtype = BT_F32;
    return BT_OK;
}

static void widen_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                      bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? bt_as(given[0], in[0]->dtype) : NULL;
}

static void widen_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                      bt_tensor **wanted)
{
    (void)attr, (void)in, (void)out;
    wanted[0] = bt_wide(given[0]);
}

static double same(const double *in) { return in[0]; }

static void widen_samples(bt_sampler *sampler)
{
    static const bt_dtype dtypes[] = {BT_BF16, BT_F16};
    for (int i = 0; i < BT_COUNT_OF(dtypes); i++) {
        BT_SAMPLE(sampler, .name = "matrix", .inputs = 1, .kink = true, .in = {BT_DRAWN(-2, 2, dtypes[i], 2, 5, 67)});
        BT_SAMPLE(sampler, .name = "nothing", .inputs = 1, .kink = true, .in = {BT_DRAWN(-2, 2, dtypes[i], 2, 0, 3)});
    }
}

const bt_op bt_op_widen = {
    .name = "widen",
    .inputs = 1,
    .infer = widen_infer,
    .vjp = widen_vjp,
    .jvp = widen_jvp,
    .info = &(const bt_op_info){.flags = BT_OP_ELEMENTWISE | BT_OP_LINEAR | BT_OP_CHEAP,
                                .cast = BT_CAST_ANY,
                                .differentiable = 1,
                                .flops = bt_flops_none,
                                .view = bt_view_same,
                                .fold = same,
                                .samples = widen_samples},
};

bt_tensor *bt_wide(bt_tensor *x) { return x && bt_dtype_half(x->dtype) ? BT_RECORD0(&bt_op_widen, x) : x; }

bt_tensor *bt_stored_like(bt_tensor *y, const bt_tensor *x)
{
    return !bt_poisoned(x) && bt_dtype_half(x->dtype) ? bt_as(y, x->dtype) : y;
}

/* ---- round ---- */

static bt_status round_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    return bt_infer_equal("round", BT_FLOATS, 1, in, out);
}

static void round_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    out[0] = bt_as(bt_as(in[0], (bt_dtype)((const bt_cast_attr *)attr)->dtype), in[0]->dtype);
}

static void round_rule(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                       bt_tensor **wanted)
{
    (void)attr, (void)in, (void)out;
    wanted[0] = given[0];
}

static void round_describe(const void *attr, bt_text *text)
{
    bt_text_add(text, "%s", bt_dtype_name((bt_dtype)((const bt_cast_attr *)attr)->dtype));
}

static void round_samples(bt_sampler *sampler)
{
    static const bt_dtype dtypes[] = {BT_BF16, BT_F16};
    for (int i = 0; i < BT_COUNT_OF(dtypes); i++)
        BT_SAMPLE(sampler, .name = "matrix", .inputs = 1, .kink = true, BT_ATTR(bt_cast_attr, dtypes[i]),
                  .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 5)});
}

const bt_op bt_op_round = {
    .name = "round",
    .inputs = 1,
    .attr_size = sizeof(bt_cast_attr),
    .infer = round_infer,
    .body = round_body,
    .vjp = round_rule,
    .jvp = round_rule,
    .info = &(const bt_op_info){.flags = BT_OP_ELEMENTWISE | BT_OP_LINEAR,
                                .cast = BT_CAST_ANY,
                                .differentiable = 1,
                                .describe = round_describe,
                                .samples = round_samples},
};

/* x rounded to `dtype`, but still stored as f32. */
static bt_tensor *rounded(bt_tensor *x, bt_dtype dtype)
{
    bt_cast_attr attr = {dtype};
    bool exact = !bt_poisoned(x) && x->node->op == &bt_op_widen && x->node->in[0]->dtype == dtype;
    return exact ? x : BT_RECORD(&bt_op_round, &attr, x);
}

/* ---- stochastic_round ---- */

static bt_status stochastic_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    out[0] = in[0];
    BT_TRY(bt_check_dtype("stochastic_round", "the operand", in[0].dtype, BT_FLOATS));
    return bt_check_scalar("stochastic_round", "the count", in[1], BT_I64);
}

static void stochastic_describe(const void *attr, bt_text *text)
{
    const bt_stochastic_attr *stochastic = attr;
    bt_text_add(text, "key %llx, site %x", (unsigned long long)stochastic->key, (unsigned)stochastic->site);
    if (stochastic->first)
        bt_text_add(text, ", from element %lld", (long long)stochastic->first);
}

static void stochastic_samples(bt_sampler *sampler)
{
    static const double count[] = {7}, far[] = {0, -0.0, 1, -3.5, 3e38, -3e38, 1e-40};
    static const bt_dtype dtypes[] = {BT_F64, BT_F32};
    for (int i = 0; i < BT_COUNT_OF(dtypes); i++) {
        BT_SAMPLE(sampler, .name = "matrix", .inputs = 2, .kink = true, BT_ATTR(bt_stochastic_attr, 5, .site = 3),
                  .in = {BT_DRAWN(-2, 2, dtypes[i], 2, 3, 5), BT_LISTED(count, BT_I64, 0, 0)});
        BT_SAMPLE(sampler, .name = "nothing", .inputs = 2, .kink = true, BT_ATTR(bt_stochastic_attr, 5, .site = 3),
                  .in = {BT_DRAWN(-2, 2, dtypes[i], 2, 0, 5), BT_LISTED(count, BT_I64, 0, 0)});
    }
    BT_SAMPLE(sampler, .name = "a part", .inputs = 2, .kink = true, BT_ATTR(bt_stochastic_attr, 5, .first = 6),
              .in = {BT_DRAWN(-2, 2, BT_F32, 1, 300), BT_LISTED(count, BT_I64, 0, 0)});
    BT_SAMPLE(sampler, .name = "far", .inputs = 2, .kink = true, BT_ATTR(bt_stochastic_attr, 5, .site = 3),
              .in = {BT_LISTED(far, BT_F32, 1, 7), BT_LISTED(count, BT_I64, 0, 0)});
}

static bool stochastic_shares(bt_shares *shares)
{
    shares->out_axis[0] = shares->in_axis[0];
    return bt_shares_outer(shares->in[0], shares->in_axis[0]);
}

static void stochastic_localise(void *attr, const bt_array *out, int64_t first)
{
    (void)out;
    ((bt_stochastic_attr *)attr)->first += first;
}

const bt_op bt_op_stochastic_round = {
    .name = "stochastic_round",
    .inputs = 2,
    .attr_size = sizeof(bt_stochastic_attr),
    .infer = stochastic_infer,
    .vjp = round_rule,
    .jvp = round_rule,
    .info = &(const bt_op_info){.flags = BT_OP_RANDOM,
                                .cast = BT_CAST_ANY,
                                .differentiable = 1,
                                .overwrites = {1},
                                .shares = stochastic_shares,
                                .localise = stochastic_localise,
                                .describe = stochastic_describe,
                                .samples = stochastic_samples},
};

bt_tensor *bt_stochastic_round(bt_tensor *x, const char *name, const char *part, bt_tensor *count)
{
    bt_trace *trace = bt_trace_now();
    if (!trace)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "stochastic_round: only inside a traced callback");
    const uint64_t place = bt_hash_text(bt_hash_text(0, name), part);
    const bt_stochastic_attr attr = {.key = trace->seed, .site = (uint32_t)(place ^ place >> 32)};
    return BT_RECORD(&bt_op_stochastic_round, &attr, x, count);
}

/* ---- recording ops with 16-bit operands ---- */

static bt_cast_class class_of(const bt_op *op) { return op->info ? op->info->cast : BT_CAST_FOLLOW; }

static bool any_dtype(bt_tensor *const *in, int inputs, bt_dtype dtype)
{
    for (int i = 0; i < inputs; i++)
        if (!bt_poisoned(in[i]) && in[i]->dtype == dtype)
            return true;
    return false;
}

bool bt_casts(const bt_op *op, bt_tensor *const *in, int inputs, bt_dtype low)
{
    if (class_of(op) == BT_CAST_ANY)
        return false;
    return any_dtype(in, inputs, BT_BF16) || any_dtype(in, inputs, BT_F16) ||
           (class_of(op) == BT_CAST_LOW && bt_dtype_half(low) && !any_dtype(in, inputs, BT_F64));
}

bt_dtype bt_low_kept(bt_dtype low) { return low == BT_TF32 ? low : BT_F32; }

/* With 16-bit computation, a parameter stored in 16 bits counts as such, although it is read as f32. */
static bt_dtype dtype_of(const bt_tensor *x, bt_dtype low)
{
    const bt_tensor *from = bt_dtype_half(low) && x->node->op == &bt_op_widen ? x->node->in[0] : NULL;
    return from && from->node->op == &bt_op_read ? from->dtype : x->dtype;
}

/* The common dtype of all floating operands. Constants of a single number do not count. */
static bt_dtype common_half(bt_tensor *const *in, int inputs, bt_dtype low)
{
    bt_dtype common = BT_F32;
    bool first = true;
    for (int i = 0; i < inputs; i++) {
        double number;
        bt_dtype dtype = bt_poisoned(in[i]) ? BT_BOOL : dtype_of(in[i], low);
        if (!bt_dtype_floats(dtype) || (!bt_dtype_half(dtype) && bt_uniform(in[i], &number)))
            continue;
        common = first || dtype == common ? dtype : BT_F32;
        first = false;
    }
    return bt_dtype_half(common) ? common : BT_F32;
}

bt_tensor *bt_record_cast(const bt_op *op, const void *attr, size_t attr_size, bt_tensor *const *in, int inputs,
                          bt_dtype low)
{
    bt_trace *trace = bt_trace_now();
    bt_cast_class class = class_of(op);
    bt_tensor **wide = bt_graph_list(trace->graph, inputs);
    if (!wide)
        return trace->graph->poison;
    bool lowers = class == BT_CAST_LOW && bt_dtype_half(low) && !any_dtype(in, inputs, BT_F64);
    bt_dtype result = lowers ? low : class == BT_CAST_HIGH ? BT_F32 : common_half(in, inputs, low);
    for (int i = 0; i < inputs; i++) {
        wide[i] = bt_wide(in[i]);
        if (lowers && !bt_poisoned(wide[i]) && wide[i]->dtype == BT_F32)
            wide[i] = rounded(wide[i], low);
    }
    bt_tensor *y = bt_record(op, attr, attr_size, wide, inputs);
    bool stored = !bt_poisoned(y) && y->node->outputs == 1 && y->dtype == BT_F32 && bt_dtype_half(result);
    return stored ? bt_as(y, result) : y;
}
