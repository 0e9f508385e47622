/* export/rules_network.c: rules for products, convolutions, pooling and norms. Images are [n, height, width, channels]
 * here, but [n, channels, height, width] in ONNX. So each op on images is surrounded by transposes; ONNX runtimes
 * remove those that cancel out. */
#include "export/onnx.h"

#include "ops/ops.h"
#include "ops/windows.h"

/* ---- products ---- */

static void write_dot(bt_onnx *m, const bt_node *node, const char *name)
{
    bt_onnx_out(m, node, 0, BT_ONNX(m, name, NULL, bt_onnx_in(m, node, 0), bt_onnx_in(m, node, 1)));
}

static void write_linear(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_linear_attr *linear = node->attr;
    const char *y = BT_ONNX(m, name, BT_ATTRS(BT_WHOLE("transB", 1)), bt_onnx_in(m, node, 0), bt_onnx_in(m, node, 1),
                            bt_onnx_in(m, node, 2));
    bt_onnx_out(m, node, 0, linear->activation ? BT_ONNX(m, "Relu", NULL, y) : y);
}

/* ---- images ---- */

static const char *turned(bt_onnx *m, const char *x, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t axes[] = {a, b, c, d};
    return BT_ONNX(m, "Transpose", BT_ATTRS(BT_WHOLES("perm", axes, 4)), x);
}

static const char *channels_first(bt_onnx *m, const char *x) { return turned(m, x, 0, 3, 1, 2); }
static const char *channels_last(bt_onnx *m, const char *x) { return turned(m, x, 0, 2, 3, 1); }

/* conv and conv_bias; here the weight is [height, width, in, out]. */
static void write_conv(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_conv_attr *c = node->attr;
    const int64_t pads[] = {c->padding[0], c->padding[1], c->padding[0], c->padding[1]};
    const char *in[] = {bt_onnx_in(m, node, 0), bt_onnx_in(m, node, 1), NULL, NULL};
    in[0] = channels_first(m, in[0]);
    in[1] = turned(m, in[1], 3, 2, 0, 1);
    in[2] = node->inputs > 2 ? bt_onnx_in(m, node, 2) : NULL;
    const char *y = bt_onnx_op(m, name,
                               BT_ATTRS(BT_WHOLES("dilations", c->dilation, 2), BT_WHOLE("group", c->groups),
                                        BT_WHOLES("pads", pads, 4), BT_WHOLES("strides", c->stride, 2)),
                               in);
    bt_onnx_out(m, node, 0, channels_last(m, y));
}

/* The sum, mean or maximum of the pixels from..to-1 along an axis, which is kept. */
static const char *reduced(bt_onnx *m, const char *op, const char *x, int64_t axis, int64_t from, int64_t to)
{
    const char *part = BT_ONNX(m, "Slice", NULL, x, bt_onnx_wholes(m, &from, 1), bt_onnx_wholes(m, &to, 1),
                               bt_onnx_wholes(m, &axis, 1));
    return bt_onnx_reduce(m, op, part, &axis, 1, 1);
}

/* One axis of adaptive pooling: its windows differ in size, so each is computed separately. */
static const char *adaptive_axis(bt_onnx *m, const bt_node *node, const char *x, int side, const char *op)
{
    const bt_window_attr *w = node->attr;
    const int64_t axis = 1 + side, count = w->axis[side].out;
    const char **parts = bt_alloc_array((size_t)count + 1, sizeof *parts), *joined = "";
    for (int64_t o = 0; parts && o < count; o++) {
        int64_t from, to;
        bt_window_range(w, side, o, &from, &to);
        parts[o] = reduced(m, op, x, axis, from, to);
    }
    if (parts)
        joined = count == 1 ? parts[0] : bt_onnx_op(m, "Concat", BT_ATTRS(BT_WHOLE("axis", axis)), parts);
    else
        bt_onnx_fail(m, BT_ERROR_MEMORY, "out of memory");
    bt_free(parts);
    return joined;
}

static void write_adaptive(bt_onnx *m, const bt_node *node, const char *reduce)
{
    const char *x = adaptive_axis(m, node, bt_onnx_in(m, node, 0), 0, reduce);
    bt_onnx_out(m, node, 0, adaptive_axis(m, node, x, 1, reduce));
}

static const char *pooled(bt_onnx *m, const bt_node *node, const char *name, int64_t with_padding)
{
    const bt_window_axis *a = ((const bt_window_attr *)node->attr)->axis;
    const int64_t window[] = {a[0].window, a[1].window}, strides[] = {a[0].stride, a[1].stride};
    const int64_t pads[] = {a[0].padding, a[1].padding, a[0].padding, a[1].padding};
    const bt_onnx_attr attrs[] = {BT_WHOLES("kernel_shape", window, 2),
                                  BT_WHOLES("pads", pads, 4),
                                  BT_WHOLES("strides", strides, 2),
                                  BT_WHOLE(with_padding ? "count_include_pad" : NULL, with_padding),
                                  {.name = NULL}};
    return channels_last(m, BT_ONNX(m, name, attrs, channels_first(m, bt_onnx_in(m, node, 0))));
}

/* If the pixel indices are also read, the model is refused: ONNX numbers pixels differently. */
static void write_window_max(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_window_attr *w = node->attr;
    if (w->adaptive)
        write_adaptive(m, node, "ReduceMax");
    else
        bt_onnx_out(m, node, 0, pooled(m, node, name, 0));
}

/* A sum is the average over the whole window, including padding, times its number of pixels. */
static void write_window_sum(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_window_attr *w = node->attr;
    if (w->adaptive) {
        write_adaptive(m, node, w->average ? "ReduceMean" : "ReduceSum");
        return;
    }
    const char *y = pooled(m, node, name, !w->average);
    const char *count = bt_onnx_number(m, node->out->dtype, (double)(w->axis[0].window * w->axis[1].window));
    bt_onnx_out(m, node, 0, w->average ? y : BT_ONNX(m, "Mul", NULL, y, count));
}

/* Each output row is one input row or a weighted sum of two, which are gathered by index. */
static const char *taps(bt_onnx *m, const bt_node *node, int which, bool weighted)
{
    const bt_resample_attr *r = node->attr;
    bt_array at = {.dtype = BT_I64, .rank = 1, .dims = {r->to}}, weight = {.dtype = BT_F64, .rank = 1, .dims = {r->to}};
    at.data = bt_alloc(bt_array_bytes(at));
    weight.data = bt_alloc(bt_array_bytes(weight));
    if (!at.data || !weight.data)
        bt_onnx_fail(m, BT_ERROR_MEMORY, "out of memory");
    for (int64_t o = 0; at.data && weight.data && o < r->to; o++) {
        int64_t places[2];
        double weights[2];
        bt_resample_taps(r, o, places, weights);
        bt_put(BT_I64, at.data, o, (double)places[which]);
        bt_put(BT_F64, weight.data, o, weights[which]);
    }
    for (int k = (int)r->axis + 1; k < node->out->rank; k++)
        weight.dims[weight.rank++] = 1;
    const char *x =
        BT_ONNX(m, "Gather", BT_ATTRS(BT_WHOLE("axis", r->axis)), bt_onnx_in(m, node, 0), bt_onnx_array(m, at));
    if (weighted)
        x = BT_ONNX(m, "Mul", NULL, x, bt_onnx_array(m, weight));
    bt_free(at.data);
    bt_free(weight.data);
    return x;
}

static void write_resample(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_resample_attr *r = node->attr;
    if (r->adjoint) {
        bt_onnx_refuse(m, node, "the adjoint");
        return;
    }
    const char *y = taps(m, node, 0, r->linear), *other = r->linear ? taps(m, node, 1, true) : NULL;
    bt_onnx_out(m, node, 0, other ? BT_ONNX(m, name, NULL, y, other) : y);
}

/* ---- channels: statistics and coefficients are [lead..., c], for x [lead..., rows..., c] ---- */

static int row_axes(const bt_channel_attr *channel, int rank, int64_t axes[BT_MAX_RANK])
{
    int count = 0;
    for (int64_t a = channel->lead; a < rank - 1; a++)
        axes[count++] = a;
    return count;
}

/* Reshapes a coefficient to broadcast against x; without leading axes, ONNX's rule, that of NumPy, is enough. */
static const char *beside(bt_onnx *m, const bt_node *node, int input, int rank)
{
    const bt_channel_attr *channel = node->attr;
    int64_t axes[BT_MAX_RANK];
    const int count = row_axes(channel, rank, axes);
    const char *x = bt_onnx_in(m, node, input);
    return count && channel->lead ? BT_ONNX(m, "Unsqueeze", NULL, x, bt_onnx_wholes(m, axes, count)) : x;
}

/* Batch norm with fixed statistics: (x - mean) weight / sqrt(variance + eps) + bias, all of them parameters or buffers.
 * ONNX runtimes recognise its own op and fold it into a convolution. */
typedef struct fixed_norm {
    const bt_tensor *of[5]; /* in the order of ONNX's op: x, weight, bias, mean, variance */
    double eps;
} fixed_norm;

static bool is_fixed_norm(const bt_node *mix, fixed_norm *norm)
{
    const bt_channel_attr *channel = mix->attr;
    const bt_channel_inputs at = bt_channel_inputs_of(channel);
    const int rank = mix->out->rank;
    if (channel->lead || channel->terms != 1 || at.centre[0] < 0 || at.scale[0] < 0 || at.shift < 0 || at.gate >= 0 ||
        (rank != 2 && rank != 4))
        return false;
    const bt_node *scale = mix->in[at.scale[0]]->node;
    const bt_node *root = scale->op == &bt_op_div ? scale->in[1]->node : NULL;
    const bt_node *sum = root && root->op == &bt_op_sqrt ? root->in[0]->node : NULL;
    if (!sum || sum->op != &bt_op_add || !bt_uniform(sum->in[1], &norm->eps))
        return false;
    const bt_tensor *of[] = {mix->in[at.x[0]], scale->in[0], mix->in[at.shift], mix->in[at.centre[0]], sum->in[0]};
    for (int i = 0; i < BT_COUNT_OF(of); i++) {
        norm->of[i] = of[i];
        if (i && of[i]->node->op != &bt_op_read)
            return false;
    }
    return true;
}

static int reads_of_mix(const bt_node *node, const bt_tensor *what[BT_ONNX_READS])
{
    fixed_norm norm;
    if (!is_fixed_norm(node, &norm))
        return 0;
    for (int i = 0; i < BT_COUNT_OF(norm.of); i++)
        what[i] = norm.of[i];
    return BT_COUNT_OF(norm.of);
}

static void write_fixed_norm(bt_onnx *m, const bt_node *node, const fixed_norm *norm)
{
    const bool images = node->out->rank == 4;
    const char *in[6] = {NULL};
    for (int i = 0; i < BT_COUNT_OF(norm->of); i++)
        in[i] = bt_onnx_value_of(m, norm->of[i]);
    if (images)
        in[0] = channels_first(m, in[0]);
    const char *y = bt_onnx_op(m, "BatchNormalization", BT_ATTRS(BT_REAL("epsilon", norm->eps)), in);
    if (((const bt_channel_attr *)node->attr)->relu)
        y = BT_ONNX(m, "Relu", NULL, y);
    bt_onnx_out(m, node, 0, images ? channels_last(m, y) : y);
}

static void write_channel_mix(bt_onnx *m, const bt_node *node, const char *name)
{
    fixed_norm norm;
    if (is_fixed_norm(node, &norm)) {
        write_fixed_norm(m, node, &norm);
        return;
    }
    const bt_channel_attr *channel = node->attr;
    const bt_channel_inputs at = bt_channel_inputs_of(channel);
    const int rank = node->out->rank;
    const char *sum = NULL;
    for (int k = 0; k < channel->terms; k++) {
        const char *term = bt_onnx_in(m, node, at.x[k]);
        if (at.centre[k] >= 0)
            term = BT_ONNX(m, "Sub", NULL, term, beside(m, node, at.centre[k], rank));
        if (at.scale[k] >= 0)
            term = BT_ONNX(m, "Mul", NULL, term, beside(m, node, at.scale[k], rank));
        sum = sum ? BT_ONNX(m, name, NULL, sum, term) : term;
    }
    if (at.shift >= 0)
        sum = BT_ONNX(m, name, NULL, sum, beside(m, node, at.shift, rank));
    if (channel->relu)
        sum = BT_ONNX(m, "Relu", NULL, sum);
    if (at.gate >= 0) {
        const char *zero = bt_onnx_number(m, node->out->dtype, 0);
        const char *open = BT_ONNX(m, "Greater", NULL, bt_onnx_in(m, node, at.gate), zero);
        sum = BT_ONNX(m, "Where", NULL, open, sum, zero);
    }
    bt_onnx_out(m, node, 0, sum);
}

static void write_channel_moments(bt_onnx *m, const bt_node *node, const char *name)
{
    int64_t axes[BT_MAX_RANK];
    const int count = row_axes(node->attr, node->in[0]->rank, axes);
    const char *x = bt_onnx_in(m, node, 0);
    if (!count) {
        bt_onnx_out(m, node, 0, x);
        bt_onnx_out(m, node, 1, BT_ONNX(m, "Sub", NULL, x, x));
        return;
    }
    const char *mean = bt_onnx_reduce(m, name, x, axes, count, 1);
    const char *apart = BT_ONNX(m, "Sub", NULL, x, mean), *square = BT_ONNX(m, "Mul", NULL, apart, apart);
    bt_onnx_out(m, node, 0, BT_ONNX(m, "Squeeze", NULL, mean, bt_onnx_wholes(m, axes, count)));
    bt_onnx_out(m, node, 1, bt_onnx_reduce(m, name, square, axes, count, 0));
}

/* ---- rows ---- */

static void write_softmax(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_axis_attr *along = node->attr;
    bt_onnx_out(m, node, 0, BT_ONNX(m, name, BT_ATTRS(BT_WHOLE("axis", along->axis)), bt_onnx_in(m, node, 0)));
}

static void write_layer_norm(bt_onnx *m, const bt_node *node, const char *name)
{
    const bt_eps_attr *norm = node->attr;
    bt_onnx_out(m, node, 0,
                BT_ONNX(m, name, BT_ATTRS(BT_REAL("epsilon", norm->eps)), bt_onnx_in(m, node, 0),
                        bt_onnx_in(m, node, 1), bt_onnx_in(m, node, 2)));
}

const bt_onnx_rule bt_onnx_rules_network[] = {
    BT_RULE(dot, write_dot, "MatMul"),
    BT_RULE(linear, write_linear, "Gemm"),
    BT_RULE(conv, write_conv, "Conv"),
    BT_RULE(conv_bias, write_conv, "Conv"),
    BT_RULE(window_max, write_window_max, "MaxPool"),
    BT_RULE(window_sum, write_window_sum, "AveragePool"),
    BT_RULE(resample, write_resample, "Add"),
    BT_READS(channel_mix, write_channel_mix, "Add", reads_of_mix),
    BT_RULE(channel_moments, write_channel_moments, "ReduceMean"),
    BT_RULE(softmax, write_softmax, "Softmax"),
    BT_RULE(log_softmax, write_softmax, "LogSoftmax"),
    BT_RULE(layer_norm, write_layer_norm, "LayerNormalization"),
    {.op = NULL},
};
