/* ops/eight.c: 8-bit codes, and the updates of Adam and Lion that keep their state in them. */
#include "ops/codes.h"
#include "ops/define.h"

int64_t bt_codes_blocks(int64_t count) { return count / BT_CODES_BLOCK + (count % BT_CODES_BLOCK != 0); }

static bt_array codes_of(bt_array x)
{
    x.dtype = BT_U8;
    return x;
}

static bt_array scales_of(bt_array x)
{
    return (bt_array){.dtype = BT_F32, .rank = 1, .dims = {bt_codes_blocks(bt_array_count(x))}};
}

static void describe(const void *attr, bt_text *text)
{
    bt_text_add(text, ((const bt_codes_attr *)attr)->positive ? "positive" : "signed");
}

/* ---- scales(x): the largest absolute value of each block ---- */

static bt_status scales_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    out[0] = scales_of(in[0]);
    return bt_check_dtype("scales", "the operand", in[0].dtype, BT_FLOATS);
}

static void scales_samples(bt_sampler *sampler)
{
    BT_SAMPLE(sampler, .name = "blocks", .inputs = 1, .in = {BT_DRAWN(-1, 1, BT_F64, 2, 30, 20)});
    BT_SAMPLE(sampler, .name = "one block", .inputs = 1, .in = {BT_DRAWN(-1, 3, BT_F64, 1, 256)});
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 1, .in = {BT_DRAWN(-1, 1, BT_F64, 2, 0, 3)});
}

const bt_op bt_op_scales = {
    .name = "scales",
    .inputs = 1,
    .infer = scales_infer,
    .info = &(const bt_op_info){.flops = bt_flops_input, .shares = bt_shares_none, .samples = scales_samples},
};

/* ---- encode(x, scales): codes like x ---- */

static bt_status encode_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    BT_TRY(bt_check_dtype("encode", "the operand", in[0].dtype, BT_FLOATS));
    BT_TRY(bt_check_equal("encode", "the scales", in[1], "those of the operand", scales_of(in[0])));
    out[0] = codes_of(in[0]);
    return BT_OK;
}

static double encode_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 10 * bt_flops_input(attr, in, out);
}

static void encode_samples(bt_sampler *sampler)
{
    static const double zero[] = {0};
    static const double small[] = {1e-8, 1, -1e-8, 0, -0.0, 0.5, 0.25, 0.1, -0.75, 0.55};
    for (int64_t positive = 0; positive < 2; positive++) {
        double low = positive ? 0 : -1;
        BT_SAMPLE(sampler, .name = "blocks", .inputs = 2, BT_ATTR(bt_codes_attr, positive, BT_F32),
                  .in = {BT_DRAWN(low, 1, BT_F64, 2, 30, 20), BT_DRAWN(1, 2, BT_F32, 1, 3)});
        BT_SAMPLE(sampler, .name = "zeros", .inputs = 2, BT_ATTR(bt_codes_attr, positive, BT_F32),
                  .in = {BT_LISTED(zero, BT_F64, 1, 300), BT_LISTED(zero, BT_F32, 1, 2)});
        BT_SAMPLE(sampler, .name = "nothing", .inputs = 2, BT_ATTR(bt_codes_attr, positive, BT_F32),
                  .in = {BT_DRAWN(low, 1, BT_F64, 2, 0, 3), BT_DRAWN(1, 2, BT_F32, 1, 0)});
    }
    BT_SAMPLE(sampler, .name = "small", .inputs = 2, BT_ATTR(bt_codes_attr, 0, BT_F32),
              .in = {BT_LISTED(small, BT_F64, 1, 10), BT_DRAWN(1, 2, BT_F32, 1, 1)});
}

const bt_op bt_op_encode = {
    .name = "encode",
    .inputs = 2,
    .attr_size = sizeof(bt_codes_attr),
    .infer = encode_infer,
    .info =
        &(const bt_op_info){
            .flops = encode_flops, .shares = bt_shares_none, .describe = describe, .samples = encode_samples},
};

/* ---- decode(codes, scales): the numbers ---- */

static bt_status decode_infer(const void *attr, const bt_array *in, bt_array *out)
{
    BT_TRY(bt_check_equal("decode", "the codes", in[0], "codes", codes_of(in[0])));
    BT_TRY(bt_check_equal("decode", "the scales", in[1], "those of the codes", scales_of(in[0])));
    out[0] = in[0];
    out[0].dtype = (bt_dtype)((const bt_codes_attr *)attr)->dtype;
    return bt_check_dtype("decode", "the result", out[0].dtype, BT_FLOATS);
}

static void decode_samples(bt_sampler *sampler)
{
    for (int64_t positive = 0; positive < 2; positive++)
        for (int wide = 0; wide < 2; wide++) {
            int64_t dtype = wide ? BT_F64 : BT_F32;
            BT_SAMPLE(sampler, .name = "blocks", .inputs = 2, BT_ATTR(bt_codes_attr, positive, dtype),
                      .in = {BT_DRAWN(0, 256, BT_U8, 2, 30, 20), BT_DRAWN(0, 2, BT_F32, 1, 3)});
            BT_SAMPLE(sampler, .name = "nothing", .inputs = 2, BT_ATTR(bt_codes_attr, positive, dtype),
                      .in = {BT_DRAWN(0, 256, BT_U8, 1, 0), BT_DRAWN(0, 2, BT_F32, 1, 0)});
        }
}

const bt_op bt_op_decode = {
    .name = "decode",
    .inputs = 2,
    .attr_size = sizeof(bt_codes_attr),
    .infer = decode_infer,
    .info = &(const bt_op_info){.shares = bt_shares_none, .describe = describe, .samples = decode_samples},
};

/* ---- the updates ---- */

static bt_tensor *decoded(bt_tensor *const *slot, bool positive, bt_dtype dtype)
{
    const bt_codes_attr attr = {positive, dtype};
    return BT_RECORD(&bt_op_decode, &attr, slot[0], slot[1]);
}

static void encoded(bt_tensor *x, bool positive, bt_tensor *ok, bt_tensor *const *slot, bt_tensor **out)
{
    const bt_codes_attr attr = {positive, BT_F32};
    bt_tensor *scales = bt_record(&bt_op_scales, NULL, 0, &x, 1);
    out[0] = bt_where(ok, BT_RECORD(&bt_op_encode, &attr, x, scales), slot[0]);
    out[1] = bt_where(ok, scales, slot[1]);
}

/* in[0], in[1]: the parameter and its gradient; then `slots` pairs of codes and scales; then `ok` and the other
 * scalars. */
static bt_status infer(const char *op, const char *const *names, int slots, int inputs, const bt_array *in,
                       bt_array *out)
{
    int ok = 2 + 2 * slots;
    BT_TRY(bt_check_dtype(op, names[0], in[0].dtype, BT_FLOATS));
    BT_TRY(bt_check_equal(op, names[1], in[1], names[0], in[0]));
    out[0] = in[0];
    for (int s = 0; s < slots; s++) {
        out[1 + 2 * s] = codes_of(in[0]);
        out[2 + 2 * s] = scales_of(in[0]);
    }
    for (int i = 2; i < ok; i++)
        BT_TRY(bt_check_equal(op, names[i], in[i], "what the parameter has", out[i - 1]));
    for (int i = ok; i < inputs; i++)
        BT_TRY(bt_check_scalar(op, names[i], in[i], i == ok ? BT_BOOL : in[0].dtype));
    return BT_OK;
}

#define OK(number)                                                                                                     \
    {                                                                                                                  \
        .dtype = BT_BOOL, .values = &truths[number], .value_count = 1                                                  \
    }
#define NUMBER(from, to) BT_DRAWN(from, to, BT_F64, 0, 0)
#define TENSOR           BT_DRAWN(-1, 1, BT_F64, 2, 20, 30)
#define SLOT             BT_DRAWN(0, 256, BT_U8, 2, 20, 30), BT_DRAWN(0.5, 1, BT_F32, 1, 3)
#define NONE             BT_DRAWN(-1, 1, BT_F64, 1, 0)
#define NO_SLOT          BT_DRAWN(0, 256, BT_U8, 1, 0), BT_DRAWN(0.5, 1, BT_F32, 1, 0)

static const double truths[] = {0, 1};

static void update_describe(const void *attr, bt_text *text)
{
    bt_text_add(text, ((const bt_adam_attr *)attr)->decoupled ? "decoupled" : "coupled");
}

/* ---- adam8bit_update(p, g, m, m_scale, v, v_scale, ok, lr, beta1, beta2, eps, weight_decay, t) ---- */

static bt_status adam_infer(const void *attr, const bt_array *in, bt_array *out)
{
    static const char *const names[] = {"p",     "g",     "m",   "m_scale",      "v", "v_scale", "ok", "lr",
                                        "beta1", "beta2", "eps", "weight_decay", "t"};
    (void)attr;
    return infer("adam8bit_update", names, 2, 13, in, out);
}

static void adam_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_dtype dtype = in[0]->dtype;
    bt_tensor *inside[] = {
        in[0],  in[1], decoded(in + 2, false, dtype), decoded(in + 4, true, dtype), in[6], in[7], in[8], in[9], in[10],
        in[11], in[12]};
    out[0] = bt_record(&bt_op_adam_update, attr, sizeof(bt_adam_attr), inside, BT_COUNT_OF(inside));
    bool poisoned = bt_poisoned(out[0]);
    encoded(poisoned ? out[0] : &out[0]->node->out[1], false, in[6], in + 2, out + 1);
    encoded(poisoned ? out[0] : &out[0]->node->out[2], true, in[6], in + 4, out + 3);
}

static double adam_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 40 * bt_flops_input(attr, in, out);
}

static void adam_samples(bt_sampler *sampler)
{
    static const double eps[] = {0.01}, t[] = {3};
    for (int64_t decoupled = 0; decoupled < 2; decoupled++)
        for (int ok = 0; ok < 2; ok++)
            BT_SAMPLE(sampler, .name = ok ? "step" : "not ok", .inputs = 13, BT_ATTR(bt_adam_attr, decoupled),
                      .kink = true,
                      .in = {TENSOR, TENSOR, SLOT, SLOT, OK(ok), NUMBER(0.1, 1), NUMBER(0.5, 0.9), NUMBER(0.5, 0.9),
                             BT_LISTED(eps, BT_F64, 0, 0), NUMBER(0.1, 0.5), BT_LISTED(t, BT_F64, 0, 0)});
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 13, BT_ATTR(bt_adam_attr, 0),
              .in = {NONE, NONE, NO_SLOT, NO_SLOT, OK(1), NUMBER(0.1, 1), NUMBER(0.5, 0.9), NUMBER(0.5, 0.9),
                     BT_LISTED(eps, BT_F64, 0, 0), NUMBER(0.1, 0.5), BT_LISTED(t, BT_F64, 0, 0)});
}

const bt_op bt_op_adam8bit_update = {
    .name = "adam8bit_update",
    .inputs = 13,
    .outputs = 5,
    .attr_size = sizeof(bt_adam_attr),
    .infer = adam_infer,
    .body = adam_body,
    .info = &(const bt_op_info){.differentiable = 0xf83,
                                .overwrites = {3, 1 << 2, 1 << 3, 1 << 4, 1 << 5},
                                .flops = adam_flops,
                                .shares = bt_shares_none,
                                .describe = update_describe,
                                .samples = adam_samples},
};

/* ---- lion8bit_update(p, g, m, m_scale, ok, lr, beta1, beta2, weight_decay) ---- */

static bt_status lion_infer(const void *attr, const bt_array *in, bt_array *out)
{
    static const char *const names[] = {"p", "g", "m", "m_scale", "ok", "lr", "beta1", "beta2", "weight_decay"};
    (void)attr;
    return infer("lion8bit_update", names, 1, 9, in, out);
}

static void lion_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *p = in[0], *ok = in[4], *g = bt_where(ok, in[1], 0), *lr = in[5], *beta1 = in[6], *beta2 = in[7];
    bt_tensor *m = decoded(in + 2, false, p->dtype);
    bt_tensor *direction = bt_sign(bt_add(bt_mul(beta1, m), bt_mul(bt_sub(1, beta1), g)));
    bt_tensor *decayed = bt_mul(p, bt_sub(1, bt_mul(lr, in[8])));
    (void)attr;
    out[0] = bt_where(ok, bt_sub(decayed, bt_mul(lr, direction)), p);
    encoded(bt_add(bt_mul(beta2, m), bt_mul(bt_sub(1, beta2), g)), false, ok, in + 2, out + 1);
}

static double lion_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 20 * bt_flops_input(attr, in, out);
}

static void lion_samples(bt_sampler *sampler)
{
    for (int ok = 0; ok < 2; ok++)
        BT_SAMPLE(
            sampler, .name = ok ? "step" : "not ok", .inputs = 9, .kink = true,
            .in = {TENSOR, TENSOR, SLOT, OK(ok), NUMBER(0.1, 1), NUMBER(0.5, 0.9), NUMBER(0.5, 0.9), NUMBER(0.1, 0.5)});
    BT_SAMPLE(sampler, .name = "nothing", .inputs = 9,
              .in = {NONE, NONE, NO_SLOT, OK(1), NUMBER(0.1, 1), NUMBER(0.5, 0.9), NUMBER(0.5, 0.9), NUMBER(0.1, 0.5)});
}

const bt_op bt_op_lion8bit_update = {
    .name = "lion8bit_update",
    .inputs = 9,
    .outputs = 3,
    .infer = lion_infer,
    .body = lion_body,
    .info = &(const bt_op_info){.differentiable = 0x121,
                                .overwrites = {3, 1 << 2, 1 << 3},
                                .flops = lion_flops,
                                .shares = bt_shares_none,
                                .samples = lion_samples},
};
