/* ops/channel.c: the building blocks of norms over image channels: moments, sums and products of the rows, and
 * combinations with a coefficient per channel. The three ops are closed under differentiation. So batch norm has
 * derivatives of every order in few passes over memory. */
#include "ops/define.h"

#include <string.h>

bt_array bt_channel_shape(int64_t lead, bt_array x)
{
    bt_array shape = {.dtype = x.dtype, .rank = (int)lead + 1};
    memcpy(shape.dims, x.dims, (size_t)lead * sizeof *x.dims);
    shape.dims[lead] = x.dims[x.rank - 1];
    return shape;
}

static int64_t row_count(int64_t lead, int rank, const int64_t *dims)
{
    int64_t rows = 1;
    for (int i = (int)lead; i < rank - 1; i++)
        rows *= dims[i];
    return rows;
}

int64_t bt_channel_rows(int64_t lead, const bt_tensor *x) { return row_count(lead, x->rank, x->dims); }

bt_channel_inputs bt_channel_inputs_of(const bt_channel_attr *attr)
{
    bt_channel_inputs at = {.shift = -1, .gate = -1};
    for (int k = 0; k < attr->terms; k++) {
        at.x[k] = at.count++;
        at.centre[k] = attr->centred >> k & 1 ? at.count++ : -1;
        at.scale[k] = attr->scaled >> k & 1 ? at.count++ : -1;
    }
    if (attr->shifted)
        at.shift = at.count++;
    if (attr->gated)
        at.gate = at.count++;
    return at;
}

static bt_status check_x(const char *op, int64_t lead, bt_array x)
{
    BT_TRY(bt_check_dtype(op, "x", x.dtype, BT_FLOATS));
    if (lead >= 0 && lead < x.rank)
        return BT_OK;
    char shape[256];
    return bt_fail(BT_ERROR_SHAPE, "%s: x is %s, must have channels after its %lld leading axes", op,
                   bt_shape_text(shape, x.rank, x.dims), (long long)lead);
}

static bt_status check_coefficient(const char *op, const char *what, bt_array found, int64_t lead, bt_array x)
{
    return bt_check_equal(op, what, found, "the channels of x", bt_channel_shape(lead, x));
}

/* The axis along which per-channel values are split: a leading axis, as x is, or the channels, which follow them. -1: x
 * is split along the rows, and the values are whole. */
static int axis_of_channels(const bt_shares *shares, int axis)
{
    const int64_t lead = ((const bt_channel_attr *)shares->attr)->lead;
    return axis < lead ? axis : axis == shares->in[0].rank - 1 ? (int)lead : -1;
}

static bool channel_moments_shares(bt_shares *shares)
{
    const int axis = axis_of_channels(shares, shares->in_axis[0]);
    shares->out_axis[0] = shares->out_axis[1] = axis < 0 ? BT_BATCH_UNITED : axis;
    return true;
}

static bool channel_dot_shares(bt_shares *shares)
{
    const int x = shares->in_axis[0] >= 0 ? shares->in_axis[0] : shares->in_axis[1];
    if (x < 0)
        return false;
    const int axis = axis_of_channels(shares, x);
    shares->in_axis[0] = shares->in_axis[1] = x;
    if (shares->inputs > 2)
        shares->in_axis[2] = axis;
    shares->out_axis[0] = shares->out_axis[1] = axis < 0 ? BT_BATCH_SUMMED : axis;
    return true;
}

static void channel_describe(const void *attr, bt_text *text)
{
    const bt_channel_attr *channel = attr;
    bt_text_add(text, "lead %lld", (long long)channel->lead);
    for (int k = 0; k < channel->terms; k++)
        bt_text_add(text, ", x%s%s", channel->centred >> k & 1 ? " - m" : "",
                    channel->scaled >> k & 1 ? " scaled" : "");
    bt_text_add(text, "%s%s%s", channel->shifted ? ", shifted" : "", channel->relu ? ", relu" : "",
                channel->gated ? ", gated" : "");
}

/* Repeats d, [lead..., c], along the rows of `like`. */
static bt_tensor *along_rows(int64_t lead, bt_tensor *d, const bt_tensor *like)
{
    int axes[BT_MAX_RANK];
    for (int i = 0; i < lead; i++)
        axes[i] = i;
    axes[lead] = like->rank - 1;
    return bt_broadcast(d, like->rank, like->dims, axes);
}

static bt_tensor *sum_of_rows(int64_t lead, bt_tensor *x)
{
    uint32_t axes = 0;
    for (int i = (int)lead; i < x->rank - 1; i++)
        axes |= UINT32_C(1) << i;
    return bt_reduce(&bt_op_sum, x, axes, false);
}

/* ---- builders ---- */

/* At most BT_CHANNEL_TERMS terms, with relu, a gate (NULL: none), or neither. */
static bt_tensor *mix_few(int64_t lead, const bt_channel_term *terms, int count, bt_tensor *shift, bool relu,
                          bt_tensor *gate)
{
    bt_channel_attr attr = {
        .lead = lead, .terms = count, .shifted = shift != NULL, .relu = relu, .gated = gate != NULL};
    bt_tensor *in[3 * BT_CHANNEL_TERMS + 2];
    int inputs = 0;
    for (int k = 0; k < count; k++) {
        in[inputs++] = terms[k].x;
        attr.centred |= terms[k].centre ? 1U << k : 0;
        attr.scaled |= terms[k].scale ? 1U << k : 0;
        if (terms[k].centre)
            in[inputs++] = terms[k].centre;
        if (terms[k].scale)
            in[inputs++] = terms[k].scale;
    }
    if (shift)
        in[inputs++] = shift;
    if (gate)
        in[inputs++] = gate;
    return bt_record(&bt_op_channel_mix, &attr, sizeof attr, in, inputs);
}

bt_tensor *bt_channel_mix(int64_t lead, const bt_channel_term *terms, int count, bt_tensor *shift,
                          const bt_tensor *like)
{
    bt_channel_term now[BT_CHANNEL_TERMS];
    int held = 0;
    for (int k = 0; k < count; k++) {
        if (!terms[k].x)
            continue;
        if (held == BT_CHANNEL_TERMS) { /* the result so far becomes one term */
            now[0] = (bt_channel_term){.x = mix_few(lead, now, held, NULL, false, NULL)};
            held = 1;
        }
        now[held++] = terms[k];
    }
    if (held == 1 && !now[0].centre && !now[0].scale && !shift)
        return now[0].x;
    if (held)
        return mix_few(lead, now, held, shift, false, NULL);
    return shift ? along_rows(lead, shift, like) : NULL;
}

bt_tensor *bt_channel_dot(int64_t lead, bt_tensor *x, bt_tensor *z, bt_tensor *centre, bt_tensor **sum)
{
    bt_channel_attr attr = {.lead = lead, .terms = 1, .centred = centre != NULL};
    bt_tensor *in[] = {x, z, centre}, *dot = bt_record(&bt_op_channel_dot, &attr, sizeof attr, in, centre ? 3 : 2);
    if (sum)
        *sum = bt_poisoned(dot) ? dot : &dot->node->out[1];
    return dot;
}

/* ---- channel_moments(x): mean, variance ---- */

static bt_status channel_moments_infer(const void *attr, const bt_array *in, bt_array *out)
{
    int64_t lead = ((const bt_channel_attr *)attr)->lead;
    BT_TRY(check_x("channel_moments", lead, in[0]));
    if (row_count(lead, in[0].rank, in[0].dims) == 0) {
        char shape[256];
        return bt_fail(BT_ERROR_SHAPE,
                       "channel_moments: %s has no rows after its %lld leading axes, so there is no mean",
                       bt_shape_text(shape, in[0].rank, in[0].dims), (long long)lead);
    }
    out[0] = out[1] = bt_channel_shape(lead, in[0]);
    return BT_OK;
}

static void channel_moments_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                                bt_tensor **wanted)
{
    int64_t lead = ((const bt_channel_attr *)attr)->lead, rows = bt_channel_rows(lead, in[0]);
    bt_channel_term term = {0};
    if (given[1])
        term = (bt_channel_term){in[0], out[0], bt_mul(given[1], 2 / (double)rows)};
    bt_tensor *shift = given[0] ? bt_div(given[0], rows) : NULL;
    wanted[0] = bt_channel_mix(lead, &term, 1, shift, in[0]);
}

static void channel_moments_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                                bt_tensor **wanted)
{
    int64_t lead = ((const bt_channel_attr *)attr)->lead, rows = bt_channel_rows(lead, in[0]);
    if (!given[0])
        return;
    bt_tensor *sum, *dot = bt_channel_dot(lead, in[0], given[0], out[0], &sum);
    wanted[0] = bt_div(sum, rows);
    wanted[1] = bt_mul(dot, 2 / (double)rows);
}

static double channel_moments_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 4 * bt_flops_input(attr, in, out);
}

static const struct channel_case {
    const char *name;
    int64_t lead;
    int rank;
    int64_t dims[5];
} channel_cases[] = {
    {"a batch", 0, 4, {2, 3, 2, 5}},   {"an example each", 1, 4, {2, 3, 2, 4}}, {"vectors", 0, 2, {7, 3}},
    {"one channel", 0, 3, {2, 9, 1}},  {"many channels", 0, 2, {37, 19}},       {"one row", 0, 2, {1, 4}},
    {"one pixel", 1, 4, {3, 1, 1, 8}}, {"no rows axis", 1, 2, {3, 2}},          {"two leads", 2, 4, {2, 2, 3, 3}},
    {"no images", 1, 4, {0, 2, 2, 3}},
};

static bt_sample_input drawn(const struct channel_case *c, bool coefficient)
{
    bt_sample_input input = BT_DRAWN(-1, 1, BT_F64, c->rank, 0);
    memcpy(input.dims, c->dims, sizeof c->dims);
    if (coefficient) {
        input.dims[c->lead] = c->dims[c->rank - 1];
        input.rank = (int)c->lead + 1;
    }
    return input;
}

static void channel_moments_samples(bt_sampler *sampler)
{
    static const double equal[] = {0.1, -3}, far[] = {20, 40.5, 21, 40, 22.5, 41};
    for (int i = 0; i < BT_COUNT_OF(channel_cases); i++) {
        const struct channel_case *c = &channel_cases[i];
        BT_SAMPLE(sampler, .name = c->name, .inputs = 1, BT_ATTR(bt_channel_attr, .lead = c->lead),
                  .in = {drawn(c, false)});
    }
    BT_SAMPLE(sampler, .name = "equal rows", .inputs = 1, BT_ATTR(bt_channel_attr, .lead = 0),
              .in = {BT_LISTED(equal, BT_F64, 2, 11, 2)});
    BT_SAMPLE(sampler, .name = "far from zero", .inputs = 1, BT_ATTR(bt_channel_attr, .lead = 0),
              .in = {BT_LISTED(far, BT_F64, 2, 3, 2)});
}

/* The number of rows of each rank, [ranks, 1]. */
static bt_tensor *rows_of_ranks(const bt_union *with, bt_dtype dtype)
{
    bt_array counts = {.dtype = dtype, .rank = 2, .dims = {with->ranks, 1}};
    counts.data = bt_region_alloc(bt_trace_now()->graph->region, bt_array_bytes(counts));
    if (!counts.data)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory while recording");
    for (int r = 0; r < with->ranks; r++)
        bt_put(dtype, counts.data, r,
               (double)(bt_share_first(with->rows, r + 1, with->ranks) - bt_share_first(with->rows, r, with->ranks)));
    return bt_constant(counts);
}

/* Combines the ranks' moments, weighted by their rows, as Chan, Golub and LeVeque do ("Updating formulae and a pairwise
 * algorithm for computing sample variances", 1979). The mean is that of the means. The variance is the mean of the
 * variances plus that of the means' squared distances from the mean. A rank without rows gives zeros with weight 0. */
static void channel_moments_unite(const bt_union *with, bt_tensor *const *in, bt_tensor **out)
{
    const bt_array shape = bt_channel_shape(((const bt_channel_attr *)with->attr)->lead, bt_tensor_array(in[0]));
    const int64_t count = bt_array_count(shape), one[] = {1, count}, two[] = {1, 2 * count};
    bt_tensor *both = bt_broadcast(bt_number(0, shape.dtype), 2, two, NULL);
    if (in[0]->dims[with->axis] > 0) {
        bt_tensor *mean = bt_record(&bt_op_channel_moments, with->attr, sizeof(bt_channel_attr), in, 1);
        if (bt_poisoned(mean))
            return;
        bt_tensor *parts[] = {bt_reshape_to(mean, 2, one), bt_reshape_to(&mean->node->out[1], 2, one)};
        both = bt_concat_list(1, parts, 2);
    }
    both = bt_all_gather(both, with->rank, with->ranks, 0, with->ranks, with->ranks);
    bt_tensor *rows = rows_of_ranks(with, shape.dtype), *means = bt_slice(both, 1, 0, count);
    bt_tensor *mean = bt_div(bt_sum(bt_mul(rows, means), 0), (double)with->rows);
    bt_tensor *apart = bt_square(bt_sub(means, mean));
    bt_tensor *spread = bt_mul(rows, bt_add(bt_slice(both, 1, count, 2 * count), apart));
    out[0] = bt_reshape_to(mean, shape.rank, shape.dims);
    out[1] = bt_reshape_to(bt_div(bt_sum(spread, 0), (double)with->rows), shape.rank, shape.dims);
}

const bt_op bt_op_channel_moments = {
    .name = "channel_moments",
    .inputs = 1,
    .outputs = 2,
    .attr_size = sizeof(bt_channel_attr),
    .infer = channel_moments_infer,
    .vjp = channel_moments_vjp,
    .jvp = channel_moments_jvp,
    .info = &(const bt_op_info){.differentiable = 1,
                                .flops = channel_moments_flops,
                                .shares = channel_moments_shares,
                                .unite = channel_moments_unite,
                                .describe = channel_describe,
                                .samples = channel_moments_samples},
};

/* ---- channel_dot(x, z[, m]): sum((x - m) z), sum(z) ---- */

static bt_status channel_dot_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_channel_attr *channel = attr;
    BT_TRY(check_x("channel_dot", channel->lead, in[0]));
    BT_TRY(bt_check_equal("channel_dot", "z", in[1], "x", in[0]));
    if (channel->centred)
        BT_TRY(check_coefficient("channel_dot", "the centre", in[2], channel->lead, in[0]));
    out[0] = out[1] = bt_channel_shape(channel->lead, in[0]);
    return BT_OK;
}

static void channel_dot_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                            bt_tensor **wanted)
{
    const bt_channel_attr *channel = attr;
    bt_tensor *centre = channel->centred ? in[2] : NULL, *g = given[0];
    bt_channel_term to_x = {g ? in[1] : NULL, NULL, g}, to_z = {g ? in[0] : NULL, centre, g};
    wanted[0] = bt_channel_mix(channel->lead, &to_x, 1, NULL, in[0]);
    wanted[1] = bt_channel_mix(channel->lead, &to_z, 1, given[1], in[0]);
    if (centre)
        wanted[2] = g ? bt_neg(bt_mul(g, out[1])) : NULL;
}

static void channel_dot_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                            bt_tensor **wanted)
{
    const bt_channel_attr *channel = attr;
    bt_tensor *centre = channel->centred ? in[2] : NULL, *moved = centre ? given[2] : NULL;
    if (given[1])
        wanted[0] = bt_channel_dot(channel->lead, in[0], given[1], centre, &wanted[1]);
    if (given[0])
        wanted[0] = bt_accumulate(wanted[0], bt_channel_dot(channel->lead, in[1], given[0], NULL, NULL));
    if (moved)
        wanted[0] = bt_accumulate(wanted[0], bt_neg(bt_mul(moved, out[1])));
}

static double channel_dot_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return (3 + ((const bt_channel_attr *)attr)->centred) * bt_flops_input(attr, in, out);
}

static void channel_dot_samples(bt_sampler *sampler)
{
    for (int i = 0; i < BT_COUNT_OF(channel_cases); i++) {
        const struct channel_case *c = &channel_cases[i];
        BT_SAMPLE(sampler, .name = c->name, .inputs = 3,
                  BT_ATTR(bt_channel_attr, .lead = c->lead, .terms = 1, .centred = 1),
                  .in = {drawn(c, false), drawn(c, false), drawn(c, true)});
    }
    BT_SAMPLE(sampler, .name = "no centre", .inputs = 2, BT_ATTR(bt_channel_attr, .lead = 1, .terms = 1),
              .in = {drawn(&channel_cases[1], false), drawn(&channel_cases[1], false)});
    BT_SAMPLE(sampler, .name = "no rows", .inputs = 2, BT_ATTR(bt_channel_attr, .lead = 0, .terms = 1),
              .in = {BT_DRAWN(-1, 1, BT_F64, 2, 0, 3), BT_DRAWN(-1, 1, BT_F64, 2, 0, 3)});
}

const bt_op bt_op_channel_dot = {
    .name = "channel_dot",
    .inputs = -1,
    .outputs = 2,
    .attr_size = sizeof(bt_channel_attr),
    .infer = channel_dot_infer,
    .vjp = channel_dot_vjp,
    .jvp = channel_dot_jvp,
    .info = &(const bt_op_info){.differentiable = 7,
                                .flops = channel_dot_flops,
                                .shares = channel_dot_shares,
                                .describe = channel_describe,
                                .samples = channel_dot_samples},
};

/* ---- channel_mix(x, m, a, ..., d): sum((x - m) a) + d, or max(0, that) ---- */

static bt_status channel_mix_infer(const void *attr, const bt_array *in, bt_array *out)
{
    const bt_channel_attr *channel = attr;
    if (channel->terms < 1 || channel->terms > BT_CHANNEL_TERMS)
        return bt_fail(BT_ERROR_ARGUMENT, "channel_mix: %d terms, must be 1 to %d", (int)channel->terms,
                       BT_CHANNEL_TERMS);
    bt_channel_inputs at = bt_channel_inputs_of(channel);
    BT_TRY(check_x("channel_mix", channel->lead, in[0]));
    for (int k = 0; k < channel->terms; k++) {
        BT_TRY(bt_check_equal("channel_mix", "a term", in[at.x[k]], "the first", in[0]));
        if (at.centre[k] >= 0)
            BT_TRY(check_coefficient("channel_mix", "a centre", in[at.centre[k]], channel->lead, in[0]));
        if (at.scale[k] >= 0)
            BT_TRY(check_coefficient("channel_mix", "a scale", in[at.scale[k]], channel->lead, in[0]));
    }
    if (at.shift >= 0)
        BT_TRY(check_coefficient("channel_mix", "the shift", in[at.shift], channel->lead, in[0]));
    if (at.gate >= 0)
        BT_TRY(bt_check_equal("channel_mix", "the gate", in[at.gate], "the first term", in[0]));
    if (channel->relu && channel->gated)
        return bt_fail(BT_ERROR_ARGUMENT, "channel_mix: relu and a gate");
    out[0] = in[0];
    return BT_OK;
}

static bt_tensor *input(bt_tensor *const *in, int at) { return at >= 0 ? in[at] : NULL; }

/* The effect of relu (seen from the output) or of the gate on a derivative. */
static bt_tensor *gated(const bt_channel_attr *attr, bt_tensor *g, bt_tensor *const *in, bt_tensor *y)
{
    bt_tensor *gate = attr->relu ? y : input(in, bt_channel_inputs_of(attr).gate);
    return g && gate ? BT_RECORD0(&bt_op_gate, g, gate) : g;
}

static void channel_mix_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                            bt_tensor **wanted)
{
    const bt_channel_attr *channel = attr;
    bt_channel_inputs at = bt_channel_inputs_of(channel);
    bt_tensor *g = gated(channel, given[0], in, out[0]), *sum = NULL;
    if (!g)
        return;
    for (int k = 0; k < channel->terms; k++) {
        bt_tensor *scale = input(in, at.scale[k]);
        wanted[at.x[k]] = bt_channel_mix(channel->lead, &(bt_channel_term){g, NULL, scale}, 1, NULL, g);
        if (scale)
            wanted[at.scale[k]] =
                bt_channel_dot(channel->lead, in[at.x[k]], g, input(in, at.centre[k]), sum ? NULL : &sum);
    }
    if (!sum && (channel->centred || channel->shifted))
        sum = sum_of_rows(channel->lead, g);
    for (int k = 0; k < channel->terms; k++)
        if (at.centre[k] >= 0)
            wanted[at.centre[k]] = bt_neg(at.scale[k] >= 0 ? bt_mul(in[at.scale[k]], sum) : sum);
    if (at.shift >= 0)
        wanted[at.shift] = sum;
}

static void channel_mix_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                            bt_tensor **wanted)
{
    const bt_channel_attr *channel = attr;
    bt_channel_inputs at = bt_channel_inputs_of(channel);
    bt_channel_term terms[2 * BT_CHANNEL_TERMS];
    bt_tensor *shift = input(given, at.shift);
    int count = 0;
    for (int k = 0; k < channel->terms; k++) {
        bt_tensor *scale = input(in, at.scale[k]), *centre = input(given, at.centre[k]);
        terms[count++] = (bt_channel_term){given[at.x[k]], centre, scale};
        if (!given[at.x[k]] && centre)
            shift = bt_accumulate(shift, bt_neg(scale ? bt_mul(scale, centre) : centre));
    }
    for (int k = 0; k < channel->terms; k++)
        if (input(given, at.scale[k]))
            terms[count++] = (bt_channel_term){in[at.x[k]], input(in, at.centre[k]), given[at.scale[k]]};
    wanted[0] = gated(channel, bt_channel_mix(channel->lead, terms, count, shift, out[0]), in, out[0]);
}

static double channel_mix_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    const bt_channel_attr *channel = attr;
    int each = channel->terms - 1 + __builtin_popcount(channel->centred) + __builtin_popcount(channel->scaled);
    return (each + (int)(channel->shifted + channel->relu + channel->gated)) * bt_flops_input(attr, in, out);
}

static bool channel_mix_shares(bt_shares *shares)
{
    bt_channel_inputs at = bt_channel_inputs_of(shares->attr);
    const int terms = ((const bt_channel_attr *)shares->attr)->terms;
    int x = at.gate >= 0 ? shares->in_axis[at.gate] : -1;
    for (int k = 0; k < terms; k++)
        x = x < 0 ? shares->in_axis[at.x[k]] : x;
    if (x < 0)
        return false;
    const int axis = axis_of_channels(shares, x);
    bt_shares_along(shares, axis, 0);
    for (int k = 0; k < terms; k++)
        shares->in_axis[at.x[k]] = x;
    if (at.gate >= 0)
        shares->in_axis[at.gate] = x;
    shares->out_axis[0] = x;
    return true;
}

static void add_mix(bt_sampler *sampler, const struct channel_case *c, bt_channel_attr attr)
{
    bt_channel_inputs at = bt_channel_inputs_of(&attr);
    bt_sample sample = {.name = c->name, .attr = &attr, .attr_size = sizeof attr, .inputs = at.count};
    for (int i = 0; i < at.count; i++)
        sample.in[i] = drawn(c, true);
    for (int k = 0; k < attr.terms; k++)
        sample.in[at.x[k]] = drawn(c, false);
    if (at.gate >= 0)
        sample.in[at.gate] = drawn(c, false);
    sampler->add(sampler, &sample);
}

static void channel_mix_samples(bt_sampler *sampler)
{
    static const double x[] = {1, 0, -1, 2}, d[] = {-1, 0};
    static const bt_channel_attr kinds[] = {
        {.terms = 1, .centred = 1, .scaled = 1, .shifted = 1},            /* a norm */
        {.terms = 2, .centred = 2, .scaled = 3, .shifted = 1},            /* its derivative */
        {.terms = 2, .centred = 1, .scaled = 1, .shifted = 1, .relu = 1}, /* with a shortcut */
        {.terms = 4, .centred = 5, .scaled = 11, .gated = 1},
    };
    static const bt_channel_attr others[] = {
        {.terms = 1, .scaled = 1},
        {.terms = 1, .centred = 1, .relu = 1},
        {.terms = 1, .shifted = 1},
        {.terms = 2},
        {.terms = 3, .centred = 7, .scaled = 7, .shifted = 1},
    };
    for (int i = 0; i < BT_COUNT_OF(channel_cases); i++) {
        bt_channel_attr attr = kinds[i % BT_COUNT_OF(kinds)];
        attr.lead = channel_cases[i].lead;
        add_mix(sampler, &channel_cases[i], attr);
    }
    for (int i = 0; i < BT_COUNT_OF(others); i++) {
        bt_channel_attr attr = others[i];
        attr.lead = channel_cases[i % 2].lead;
        add_mix(sampler, &channel_cases[i % 2], attr);
    }
    BT_SAMPLE(sampler, .name = "at the kink", .inputs = 2, .kink = true,
              BT_ATTR(bt_channel_attr, .terms = 1, .shifted = 1, .relu = 1),
              .in = {BT_LISTED(x, BT_F64, 2, 2, 2), BT_LISTED(d, BT_F64, 1, 2)});
}

/* ---- absorbing what follows: relu, a gate, a sum ---- */

/* Whether kernels take the operand as it is, and not through a view. */
static bool dense(const bt_tensor *x)
{
    const bt_op_info *info = x->node->op->info;
    return x->node->op == &bt_op_widen ? dense(x->node->in[0]) : !(info && info->view);
}

/* The terms of a mix in order; 0 if it has a relu or a gate already. */
static int terms_of(const bt_node *mix, bt_channel_term *terms, bt_tensor **shift)
{
    const bt_channel_attr *attr = mix->attr;
    bt_channel_inputs at = bt_channel_inputs_of(attr);
    if (attr->relu || attr->gated)
        return 0;
    for (int k = 0; k < attr->terms; k++)
        terms[k] = (bt_channel_term){mix->in[at.x[k]], input(mix->in, at.centre[k]), input(mix->in, at.scale[k])};
    *shift = input(mix->in, at.shift);
    return attr->terms;
}

/* The other summand becomes the last term, as the sum would add it last. */
static bt_tensor *channel_mix_absorb(const bt_op *reader, bt_tensor *const *in, int which)
{
    bt_channel_term terms[BT_CHANNEL_TERMS + 1];
    bt_tensor *shift = NULL;
    int64_t lead = ((const bt_channel_attr *)in[which]->node->attr)->lead;
    int count = terms_of(in[which]->node, terms, &shift);
    if (!count)
        return NULL;
    if (reader == &bt_op_relu)
        return mix_few(lead, terms, count, shift, true, NULL);
    if (reader == &bt_op_gate && which == 0 && dense(in[1]))
        return mix_few(lead, terms, count, shift, false, in[1]);
    if (reader != &bt_op_add || count == BT_CHANNEL_TERMS || !dense(in[1 - which]) || in[0] == in[1])
        return NULL;
    terms[count++] = (bt_channel_term){.x = in[1 - which]};
    return mix_few(lead, terms, count, shift, false, NULL);
}

bt_tensor *bt_channel_absorb_sum(const bt_op *reader, bt_tensor *const *in, int which)
{
    const bt_tensor *sum = in[which];
    bt_channel_term terms[] = {{.x = sum->node->in[0]}, {.x = sum->node->in[1]}};
    bool gate = reader == &bt_op_gate && which == 0 && dense(in[1]);
    if (!(reader == &bt_op_relu || gate) || sum->rank != 4 || !bt_dtype_is(sum->dtype, BT_FLOATS) ||
        !dense(terms[0].x) || !dense(terms[1].x))
        return NULL;
    return mix_few(0, terms, 2, NULL, !gate, gate ? in[1] : NULL);
}

const bt_op bt_op_channel_mix = {
    .name = "channel_mix",
    .inputs = -1,
    .attr_size = sizeof(bt_channel_attr),
    .infer = channel_mix_infer,
    .vjp = channel_mix_vjp,
    .jvp = channel_mix_jvp,
    .info = &(const bt_op_info){.differentiable = ~0U,
                                .overwrites = {1},
                                .flops = channel_mix_flops,
                                .shares = channel_mix_shares,
                                .absorb = channel_mix_absorb,
                                .describe = channel_describe,
                                .samples = channel_mix_samples},
};
