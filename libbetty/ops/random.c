/* ops/random.c: random numbers: pure functions of the batch record, the site and the key. */
#include "ops/define.h"

#include <string.h>

static bt_status random_infer(const char *op, const bt_random_attr *attr, bt_array record, bt_array *out)
{
    BT_TRY(bt_check_scalar(op, "the record", record, BT_I64));
    BT_TRY(bt_check_dtype(op, "the result", attr->dtype, BT_FLOATS));
    if (attr->rank < 0 || attr->rank > BT_MAX_RANK)
        return bt_fail(BT_ERROR_SHAPE, "%s: a result of %d axes; expected at most %d", op, (int)attr->rank,
                       BT_MAX_RANK);
    *out = (bt_array){.dtype = attr->dtype, .rank = attr->rank};
    memcpy(out->dims, attr->dims, sizeof out->dims);
    return BT_OK;
}

static bt_status uniform_infer(const void *attr, const bt_array *in, bt_array *out)
{
    return random_infer("uniform", attr, in[0], out);
}

static bt_status normal_infer(const void *attr, const bt_array *in, bt_array *out)
{
    return random_infer("normal", attr, in[0], out);
}

static bt_status dropout_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_random_attr *random = attr;
    BT_TRY(random_infer("dropout", random, in[1], out));
    if (!(random->probability >= 0 && random->probability < 1))
        return bt_fail(BT_ERROR_ARGUMENT, "dropout: probability %g, must be at least 0 and below 1",
                       random->probability);
    return bt_check_equal("dropout", "the operand", in[0], "the mask", out[0]);
}

static void random_describe(const void *attr, bt_text *text)
{
    const bt_random_attr *random = attr;
    bt_text_add(text, "key %llx, site %x", (unsigned long long)random->key, (unsigned)random->site);
    if (random->probability > 0)
        bt_text_add(text, ", probability %g", random->probability);
    if (random->first)
        bt_text_add(text, ", from element %lld", (long long)random->first);
}

#define RECORD BT_LISTED(record, BT_I64, 0, 0)

static void random_samples(bt_sampler *sampler)
{
    static const double record[] = {7};
    BT_SAMPLE(sampler, .name = "matrix", .inputs = 1, .in = {RECORD},
              BT_ATTR(bt_random_attr, .dtype = BT_F64, .rank = 2, .dims = {3, 5}, .key = UINT64_C(0x123456789abc),
                      .site = 3));
    BT_SAMPLE(
        sampler, .name = "f32", .inputs = 1, .in = {RECORD},
        BT_ATTR(bt_random_attr, .dtype = BT_F32, .rank = 1, .dims = {4099}, .key = 1, .site = UINT32_C(0xfedcba98)));
    for (int first = 1; first < 4; first++) {
        BT_SAMPLE(sampler, .name = "a part", .inputs = 1, .in = {RECORD},
                  BT_ATTR(bt_random_attr, .dtype = BT_F32, .rank = 2, .dims = {7, 39}, .key = 1, .first = first * 39));
        BT_SAMPLE(sampler, .name = "a part", .inputs = 1, .in = {RECORD},
                  BT_ATTR(bt_random_attr, .dtype = BT_F64, .rank = 2, .dims = {7, 39}, .key = 1, .first = first * 39));
    }
    BT_SAMPLE(sampler, .name = "scalar", .inputs = 1, .in = {RECORD}, BT_ATTR(bt_random_attr, .dtype = BT_F64));
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 1, .in = {RECORD},
              BT_ATTR(bt_random_attr, .dtype = BT_F32, .rank = 1));
}

/* Each part uses its own range of the whole's stream. */
static void random_localise(void *attr, const bt_array *out, int64_t first)
{
    bt_random_attr *random = attr;
    memcpy(random->dims, out->dims, sizeof random->dims);
    random->first += first;
}

const bt_op bt_op_uniform = {
    .name = "uniform",
    .inputs = 1,
    .attr_size = sizeof(bt_random_attr),
    .infer = uniform_infer,
    .info = &(const bt_op_info){.flags = BT_OP_RANDOM,
                                .shares = bt_shares_none,
                                .localise = random_localise,
                                .describe = random_describe,
                                .samples = random_samples},
};

const bt_op bt_op_normal = {
    .name = "normal",
    .inputs = 1,
    .attr_size = sizeof(bt_random_attr),
    .infer = normal_infer,
    .info = &(const bt_op_info){.flags = BT_OP_RANDOM,
                                .shares = bt_shares_none,
                                .localise = random_localise,
                                .describe = random_describe,
                                .samples = random_samples},
};

/* ---- dropout(x, record): linear in x and its own adjoint, since attributes and record determine the mask ---- */

static void dropout_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    const bt_random_attr *random = attr;
    bt_random_attr uniform = *random;
    uniform.probability = 0;
    bt_tensor *dropped = bt_less(BT_RECORD(&bt_op_uniform, &uniform, in[1]), random->probability);
    out[0] = bt_where(dropped, 0, bt_mul(1 / (1 - random->probability), in[0]));
}

static void dropout_rule(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                         bt_tensor **wanted)
{
    (void)out;
    wanted[0] = given[0] ? BT_RECORD(&bt_op_dropout, (const bt_random_attr *)attr, given[0], in[1]) : NULL;
}

static void dropout_samples(bt_sampler *sampler)
{
    static const double record[] = {11};
    BT_SAMPLE(
        sampler, .name = "matrix", .inputs = 2, .in = {BT_DRAWN(-2, 2, BT_F64, 2, 5, 7), RECORD},
        BT_ATTR(bt_random_attr, .dtype = BT_F64, .rank = 2, .dims = {5, 7}, .key = 9, .site = 3, .probability = 0.4));
    BT_SAMPLE(
        sampler, .name = "f32", .inputs = 2, .in = {BT_DRAWN(-2, 2, BT_F32, 1, 1030), RECORD},
        BT_ATTR(bt_random_attr, .dtype = BT_F32, .rank = 1, .dims = {1030}, .key = 9, .site = 3, .probability = 0.5));
    BT_SAMPLE(
        sampler, .name = "a part", .inputs = 2, .in = {BT_DRAWN(-2, 2, BT_F32, 1, 301), RECORD},
        BT_ATTR(bt_random_attr, .dtype = BT_F32, .rank = 1, .dims = {301}, .key = 9, .probability = 0.5, .first = 7));
    BT_SAMPLE(
        sampler, .name = "a part", .inputs = 2, .in = {BT_DRAWN(-2, 2, BT_F64, 1, 301), RECORD},
        BT_ATTR(bt_random_attr, .dtype = BT_F64, .rank = 1, .dims = {301}, .key = 9, .probability = 0.5, .first = 7));
    BT_SAMPLE(sampler, .name = "none dropped", .inputs = 2, .in = {BT_DRAWN(-2, 2, BT_F64, 1, 9), RECORD},
              BT_ATTR(bt_random_attr, .dtype = BT_F64, .rank = 1, .dims = {9}, .key = 9, .site = 3));
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 2, .in = {BT_DRAWN(-2, 2, BT_F64, 1, 0), RECORD},
              BT_ATTR(bt_random_attr, .dtype = BT_F64, .rank = 1, .probability = 0.4));
}

static bool dropout_shares(bt_shares *shares)
{
    shares->out_axis[0] = shares->in_axis[0];
    return bt_shares_outer(shares->in[0], shares->in_axis[0]);
}

const bt_op bt_op_dropout = {
    .name = "dropout",
    .inputs = 2,
    .attr_size = sizeof(bt_random_attr),
    .infer = dropout_infer,
    .body = dropout_body,
    .vjp = dropout_rule,
    .jvp = dropout_rule,
    .info = &(const bt_op_info){.flags = BT_OP_RANDOM | BT_OP_LINEAR,
                                .differentiable = 1,
                                .overwrites = {1},
                                .shares = dropout_shares,
                                .localise = random_localise,
                                .describe = random_describe,
                                .samples = dropout_samples},
};

/* ---- builders ---- */

bt_tensor *bt_random_stream(const char *op, uint64_t *key, uint32_t *site, bt_tensor **record)
{
    bt_trace *trace = bt_trace_now();
    if (!trace)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: tensors can only be computed inside a traced callback", op);
    if (!trace->record)
        return bt_trace_poison(BT_ERROR_UNSUPPORTED,
                               "%s: there are no random numbers here: they belong to a problem's batch", op);
    *record = bt_trace_read(trace->record);
    *key = trace->seed;
    *site = bt_trace_site();
    return NULL;
}

/* Fills in the attributes of the next random op. */
static bt_tensor *next_stream(const char *op, bt_tensor *x, bt_random_attr *attr, bt_tensor **record)
{
    *attr = (bt_random_attr){.dtype = x->dtype, .rank = x->rank};
    memcpy(attr->dims, x->dims, sizeof attr->dims);
    return bt_random_stream(op, &attr->key, &attr->site, record);
}

bt_tensor *bt_normal_like(bt_tensor *x)
{
    bt_random_attr attr = {.dtype = BT_F32};
    const bt_tensor *like = x;
    x = bt_wide(x);
    bt_tensor *record = NULL, *poison = bt_operands_promote("normal_like", &x, 1, BT_PROMOTE_FLOAT);
    if (!poison)
        poison = next_stream("normal_like", x, &attr, &record);
    if (poison)
        return poison;
    bt_tensor *y = BT_RECORD(&bt_op_normal, &attr, record);
    if (!bt_poisoned(y))
        y->batch_axis = x->batch_axis;
    return bt_stored_like(y, like);
}

bt_tensor *bt_dropout(bt_tensor *x, double probability)
{
    bt_tensor *record = NULL, *poison = bt_operands_promote("dropout", &x, 1, BT_PROMOTE_FLOAT);
    bt_random_attr attr = {.dtype = BT_F32};
    if (poison)
        return poison;
    if (!(probability >= 0 && probability <= 1))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "dropout: probability %g, must be from 0 to 1", probability);
    if (probability == 0 || bt_trace_now()->mode == BT_VALID)
        return x;
    if (probability == 1)
        return bt_zeros_like(x);
    bt_tensor *wide = bt_wide(x);
    poison = next_stream("dropout", wide, &attr, &record);
    if (poison)
        return poison;
    attr.probability = probability;
    return bt_stored_like(BT_RECORD(&bt_op_dropout, &attr, wide, record), x);
}
