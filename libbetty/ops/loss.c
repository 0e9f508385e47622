/* ops/loss.c: losses, one value per example. */
#include "ops/define.h"

static bt_status check_logits(const char *op, bt_array logits, bt_array label)
{
    char a[256], b[256];
    bt_shape_text(a, logits.rank, logits.dims);
    bt_shape_text(b, label.rank, label.dims);
    BT_TRY(bt_check_dtype(op, "logits", logits.dtype, BT_FLOATS));
    BT_TRY(bt_check_dtype(op, "label", label.dtype, BT_INTEGERS));
    if (logits.rank != 2 || label.rank != 1 || label.dims[0] != logits.dims[0])
        return bt_fail(BT_ERROR_SHAPE, "%s: logits %s with label %s, must be [n, classes] with [n]", op, a, b);
    if (logits.dims[1] == 0)
        return bt_fail(BT_ERROR_SHAPE, "%s: logits %s have no classes", op, a);
    return BT_OK;
}

static double five_flops(const void *attr, const bt_array *in, const bt_array *out)
{
    return 5 * bt_flops_input(attr, in, out);
}

/* A BT_BOOL in the shape of the logits: true at each row's label. */
static bt_tensor *at_label(bt_tensor *logits, bt_tensor *label)
{
    int64_t classes = logits->dims[1];
    bt_array numbers = {.dtype = label->dtype, .rank = 1, .dims = {classes}};
    numbers.data = bt_region_alloc(bt_trace_now()->graph->region, bt_array_bytes(numbers));
    for (int64_t i = 0; i < classes && numbers.data; i++)
        bt_put(numbers.dtype, numbers.data, i, (double)i);
    return bt_equal(bt_along(label, logits, 1), bt_along(bt_constant(numbers), logits, 0));
}

/* ---- cross_entropy(logits [n, c], label [n]): [n] ---- */

static bt_status cross_entropy_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    BT_TRY(check_logits("cross_entropy", in[0], in[1]));
    *out = (bt_array){.dtype = in[0].dtype, .rank = 1, .dims = {in[0].dims[0]}};
    return BT_OK;
}

static void cross_entropy_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_neg(bt_sum(bt_where(at_label(in[0], in[1]), bt_log_softmax(in[0], 1), 0), 1));
}

static bt_tensor *cross_entropy_grad(bt_tensor *logits, bt_tensor *label, bt_tensor *g)
{
    return BT_RECORD0(&bt_op_cross_entropy_grad, logits, label, g);
}

/* sum((softmax - onehot) c) over each row: [n] */
static bt_tensor *along_gradient(bt_tensor *logits, bt_tensor *label, bt_tensor *like, bt_tensor *c)
{
    return bt_sum(bt_mul(cross_entropy_grad(logits, label, bt_ones_like(like)), c), 1);
}

static void cross_entropy_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                              bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? cross_entropy_grad(in[0], in[1], given[0]) : NULL;
}

static void cross_entropy_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                              bt_tensor **wanted)
{
    (void)attr;
    wanted[0] = given[0] ? along_gradient(in[0], in[1], out[0], given[0]) : NULL;
}

static bool cross_entropy_shares(bt_shares *shares)
{
    for (int i = 0; i < shares->inputs; i++)
        if (shares->in_axis[i] == 0)
            return bt_shares_along(shares, 0, 1);
    return false;
}

static const double some_labels[] = {2, 0, 1, 0};

static void cross_entropy_samples(bt_sampler *sampler)
{
    static const double large[] = {1000, 999, 1000.5, -1000, -1000.25, -1001};
    BT_SAMPLE(sampler, .name = "three classes", .inputs = 2,
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 4, 3), BT_LISTED(some_labels, BT_I32, 1, 4)});
    BT_SAMPLE(sampler, .name = "many classes", .inputs = 2,
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 5, 19), BT_DRAWN(0, 19, BT_I64, 1, 5)});
    BT_SAMPLE(sampler, .name = "one class", .inputs = 2,
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 1), BT_DRAWN(0, 1, BT_I32, 1, 3)});
    BT_SAMPLE(sampler, .name = "no examples", .inputs = 2,
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 0, 3), BT_DRAWN(0, 3, BT_I32, 1, 0)});
    BT_SAMPLE(sampler, .name = "large", .inputs = 2,
              .in = {BT_LISTED(large, BT_F64, 2, 2, 3), BT_LISTED(some_labels, BT_I32, 1, 2)});
}

const bt_op bt_op_cross_entropy = {
    .name = "cross_entropy",
    .inputs = 2,
    .infer = cross_entropy_infer,
    .body = cross_entropy_body,
    .vjp = cross_entropy_vjp,
    .jvp = cross_entropy_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_HIGH,
                                .differentiable = 1,
                                .flops = five_flops,
                                .shares = cross_entropy_shares,
                                .samples = cross_entropy_samples},
};

/* ---- cross_entropy_grad(logits [n, c], label [n], g [n]): (softmax(logits) - onehot(label)) g, [n, c] ---- */

static bt_status cross_entropy_grad_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    BT_TRY(check_logits("cross_entropy_grad", in[0], in[1]));
    bt_array loss = {.dtype = in[0].dtype, .rank = 1, .dims = {in[0].dims[0]}};
    BT_TRY(bt_check_equal("cross_entropy_grad", "the cotangent", in[2], "the loss", loss));
    out[0] = in[0];
    return BT_OK;
}

static void cross_entropy_grad_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    bt_tensor *onehot = bt_as(at_label(in[0], in[1]), in[0]->dtype);
    (void)attr;
    out[0] = bt_mul(bt_sub(bt_softmax(in[0], 1), onehot), bt_along(in[2], in[0], 1));
}

/* softmax's derivative in the direction t, row i times g[i]; symmetric. */
static bt_tensor *curvature(bt_tensor *logits, bt_tensor *g, bt_tensor *t)
{
    bt_axis_attr attr = {1};
    return BT_RECORD(&bt_op_softmax_grad, &attr, bt_softmax(logits, 1), bt_mul(t, bt_along(g, logits, 1)));
}

static void cross_entropy_grad_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out,
                                   bt_tensor *const *given, bt_tensor **wanted)
{
    (void)attr, (void)out;
    if (!given[0])
        return;
    wanted[0] = curvature(in[0], in[2], given[0]);
    wanted[2] = along_gradient(in[0], in[1], in[2], given[0]);
}

static void cross_entropy_grad_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out,
                                   bt_tensor *const *given, bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = bt_accumulate(given[0] ? curvature(in[0], in[2], given[0]) : NULL,
                              given[2] ? cross_entropy_grad(in[0], in[1], given[2]) : NULL);
}

static void cross_entropy_grad_samples(bt_sampler *sampler)
{
    BT_SAMPLE(
        sampler, .name = "three classes", .inputs = 3,
        .in = {BT_DRAWN(-2, 2, BT_F64, 2, 4, 3), BT_LISTED(some_labels, BT_I32, 1, 4), BT_DRAWN(-2, 2, BT_F64, 1, 4)});
    BT_SAMPLE(sampler, .name = "many classes", .inputs = 3,
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 5, 19), BT_DRAWN(0, 19, BT_I64, 1, 5), BT_DRAWN(-2, 2, BT_F64, 1, 5)});
    BT_SAMPLE(sampler, .name = "one class", .inputs = 3,
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 3, 1), BT_DRAWN(0, 1, BT_I32, 1, 3), BT_DRAWN(-2, 2, BT_F64, 1, 3)});
    BT_SAMPLE(sampler, .name = "no examples", .inputs = 3,
              .in = {BT_DRAWN(-2, 2, BT_F64, 2, 0, 3), BT_DRAWN(0, 3, BT_I32, 1, 0), BT_DRAWN(-2, 2, BT_F64, 1, 0)});
}

const bt_op bt_op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .inputs = 3,
    .infer = cross_entropy_grad_infer,
    .body = cross_entropy_grad_body,
    .vjp = cross_entropy_grad_vjp,
    .jvp = cross_entropy_grad_jvp,
    .info = &(const bt_op_info){.differentiable = 5,
                                .overwrites = {1},
                                .flops = five_flops,
                                .shares = cross_entropy_shares,
                                .samples = cross_entropy_grad_samples},
};

/* ---- binary_cross_entropy(logit, label in 0..1): softplus(logit) - logit label, and sigmoid(logit) ----
 * The derivatives of the first output use the second; both need only one exponential. */

static bt_status binary_cross_entropy_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    BT_TRY(bt_infer_equal("binary_cross_entropy", BT_FLOATS, 2, in, out));
    out[1] = out[0];
    return BT_OK;
}

static void binary_cross_entropy_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_sub(bt_softplus(in[0]), bt_mul(in[0], in[1]));
    out[1] = bt_sigmoid(in[0]);
}

/* g times the derivative of the loss, and of the sigmoid, with respect to the logit; NULL if g is NULL. */
static bt_tensor *loss_slope(bt_tensor *g, bt_tensor *label, bt_tensor *sigmoid)
{
    return g ? bt_mul(g, bt_sub(sigmoid, label)) : NULL;
}

static bt_tensor *sigmoid_slope(bt_tensor *g, bt_tensor *sigmoid)
{
    return g ? bt_mul(g, bt_sub(sigmoid, bt_square(sigmoid))) : NULL;
}

static void binary_cross_entropy_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out,
                                     bt_tensor *const *given, bt_tensor **wanted)
{
    (void)attr;
    wanted[0] = bt_accumulate(loss_slope(given[0], in[1], out[1]), sigmoid_slope(given[1], out[1]));
    wanted[1] = given[0] ? bt_neg(bt_mul(given[0], in[0])) : NULL;
}

static void binary_cross_entropy_jvp(const void *attr, bt_tensor *const *in, bt_tensor *const *out,
                                     bt_tensor *const *given, bt_tensor **wanted)
{
    (void)attr;
    wanted[0] = bt_accumulate(loss_slope(given[0], in[1], out[1]), given[1] ? bt_neg(bt_mul(given[1], in[0])) : NULL);
    wanted[1] = sigmoid_slope(given[0], out[1]);
}

static void binary_cross_entropy_samples(bt_sampler *sampler)
{
    static const double far[] = {-800, -30, 30, 800}, label[] = {0, 1, 1, 0}, zero[] = {0};
    bt_samples_equal(sampler, 2, 0.1, 1);
    BT_SAMPLE(sampler, .name = "far out", .inputs = 2,
              .in = {BT_LISTED(far, BT_F64, 1, 4), BT_LISTED(label, BT_F64, 1, 4)});
    BT_SAMPLE(sampler, .name = "zero", .inputs = 2, .kink = true,
              .in = {BT_LISTED(zero, BT_F64, 1, 1), BT_LISTED(zero, BT_F64, 1, 1)});
}

const bt_op bt_op_binary_cross_entropy = {
    .name = "binary_cross_entropy",
    .inputs = 2,
    .outputs = 2,
    .infer = binary_cross_entropy_infer,
    .body = binary_cross_entropy_body,
    .vjp = binary_cross_entropy_vjp,
    .jvp = binary_cross_entropy_jvp,
    .info = &(const bt_op_info){.cast = BT_CAST_HIGH,
                                .flags = BT_OP_ELEMENTWISE,
                                .differentiable = 3,
                                .overwrites = {1, 2},
                                .flops = five_flops,
                                .samples = binary_cross_entropy_samples},
};

/* ---- builders ---- */

bt_cross_entropy_options bt_cross_entropy_defaults(void)
{
    return (bt_cross_entropy_options){.ignore = BT_NO_LABEL, .smoothing = 0};
}

/* A BT_BOOL in the shape of the labels; NULL: no label can be equal to `ignore`. */
static bt_tensor *ignored(bt_tensor *label, int64_t ignore)
{
    if (ignore == BT_NO_LABEL || (label->dtype == BT_I32 && (ignore < INT32_MIN || ignore > INT32_MAX)))
        return NULL;
    bt_array number = {.dtype = label->dtype};
    number.data = label->dtype == BT_I32 ? (void *)&(int32_t){(int32_t)ignore} : (void *)&ignore;
    return bt_equal(label, bt_constant(number));
}

/* The term that smoothing adds: s (logit at the label - mean of the logits). */
static bt_tensor *smoothing_of(bt_tensor *logits, bt_tensor *label, double smoothing)
{
    bt_tensor *own = bt_squeeze(bt_take_along(logits, bt_unsqueeze(label, 1), 1), 1);
    return bt_mul(smoothing, bt_sub(own, bt_mean(logits, 1)));
}

bt_tensor *bt_cross_entropy_with(bt_tensor *logits, bt_tensor *label, const bt_cross_entropy_options *options)
{
    const bt_cross_entropy_options o = options ? *options : bt_cross_entropy_defaults();
    if (!(o.smoothing >= 0 && o.smoothing <= 1))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "cross_entropy: smoothing %g, must be from 0 to 1", o.smoothing);
    bt_tensor *poison = bt_operands_promote("cross_entropy", &logits, 1, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    label = bt_index_of("cross_entropy", label);
    if (bt_poisoned(label))
        return label;
    bt_tensor *none = ignored(label, o.ignore);
    label = none ? bt_where(none, 0, label) : label;
    bt_tensor *loss = BT_RECORD0(&bt_op_cross_entropy, logits, label);
    if (o.smoothing > 0 && !bt_poisoned(loss))
        loss = bt_add(loss, smoothing_of(logits, label, o.smoothing));
    return none ? bt_where(none, 0, loss) : loss;
}

bt_tensor *bt_cross_entropy(bt_tensor *logits, bt_tensor *label) { return bt_cross_entropy_with(logits, label, NULL); }

bt_tensor *bt_label_count(bt_tensor *label, int64_t ignore)
{
    label = bt_index_of("label_count", label);
    if (bt_poisoned(label))
        return label;
    bt_tensor *none = ignored(label, ignore), *all = bt_add(bt_as(bt_zeros_like(label), BT_I64), 1);
    return bt_sum(none ? bt_where(none, 0, all) : all);
}

bt_tensor *bt_binary_cross_entropy(bt_tensor *logit, bt_tensor *label)
{
    bt_tensor *x[] = {logit, label}, *poison = bt_operands_promote("binary_cross_entropy", x, 2, BT_PROMOTE_FLOAT);
    return poison ? poison : BT_RECORD0(&bt_op_binary_cross_entropy, x[0], x[1]);
}

bt_tensor *bt_accuracy(bt_tensor *logits, bt_tensor *label)
{
    bt_tensor *poison = bt_operands_promote("accuracy", &logits, 1, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    label = bt_index_of("accuracy", label);
    if (bt_poisoned(label))
        return label;
    if (logits->rank != 2 || label->rank != 1 || logits->dims[0] != label->dims[0]) {
        char a[256], b[256];
        return bt_trace_poison(BT_ERROR_SHAPE, "accuracy: logits %s with label %s, must be [n, classes] with [n]",
                               bt_shape_text(a, logits->rank, logits->dims),
                               bt_shape_text(b, label->rank, label->dims));
    }
    return bt_as(bt_equal(bt_argmax(logits, 1), label), bt_dtype_half(logits->dtype) ? BT_F32 : logits->dtype);
}

/* Checks that both have one shape of at least `rank` axes. Returns NULL or a poison. */
static bt_tensor *check_pair(const char *op, const char *first, const char *second, bt_tensor **x, int rank)
{
    char a[256], b[256];
    bt_tensor *poison = bt_operands_promote(op, x, 2, BT_PROMOTE_FLOAT);
    if (poison)
        return poison;
    x[0] = bt_wide(x[0]), x[1] = bt_wide(x[1]); /* losses are computed in f32 */
    bt_shape_text(a, x[0]->rank, x[0]->dims);
    bt_shape_text(b, x[1]->rank, x[1]->dims);
    bool fits = x[0]->rank == x[1]->rank && x[0]->rank >= rank;
    for (int d = 0; fits && d < x[0]->rank; d++)
        fits = x[0]->dims[d] == x[1]->dims[d];
    return fits
               ? NULL
               : bt_trace_poison(BT_ERROR_SHAPE, "%s: %s %s with %s %s, must be of one shape%s", op, first, a, second,
                                 b, rank ? ", [..., classes]" : "; bt_squeeze, bt_unsqueeze or bt_reshape one of them");
}

/* The mean over all axes but the first. */
static bt_tensor *mean_of_each(bt_tensor *x)
{
    int64_t axes[BT_MAX_RANK];
    if (bt_poisoned(x) || x->rank < 2)
        return x;
    for (int d = 1; d < x->rank; d++)
        axes[d - 1] = d;
    axes[x->rank - 1] = BT_END;
    return (bt_mean)(x, axes);
}

bt_tensor *bt_mse(bt_tensor *prediction, bt_tensor *target)
{
    bt_tensor *x[] = {prediction, target}, *poison = check_pair("mse", "prediction", "target", x, 0);
    return poison ? poison : mean_of_each(bt_square(bt_sub(x[0], x[1])));
}

bt_tensor *bt_mae(bt_tensor *prediction, bt_tensor *target)
{
    bt_tensor *x[] = {prediction, target}, *poison = check_pair("mae", "prediction", "target", x, 0);
    return poison ? poison : mean_of_each(bt_abs(bt_sub(x[0], x[1])));
}

bt_tensor *bt_huber(bt_tensor *prediction, bt_tensor *target, double delta)
{
    bt_tensor *x[] = {prediction, target}, *poison = check_pair("huber", "prediction", "target", x, 0);
    if (poison)
        return poison;
    if (!(delta > 0))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "huber: delta is %g, must be above 0", delta);
    bt_tensor *d = bt_abs(bt_sub(x[0], x[1])), *near = bt_mul(0.5, bt_square(d));
    return mean_of_each(bt_where(bt_greater(d, delta), bt_mul(delta, bt_sub(d, 0.5 * delta)), near));
}

bt_tensor *bt_soft_cross_entropy(bt_tensor *logits, bt_tensor *target)
{
    bt_tensor *x[] = {logits, target}, *poison = check_pair("soft_cross_entropy", "logits", "target", x, 1);
    return poison ? poison : bt_neg(bt_sum(bt_mul(x[1], bt_log_softmax(x[0], -1)), -1));
}

bt_tensor *bt_cosine_similarity(bt_tensor *a, bt_tensor *b, int axis)
{
    bt_tensor *x[] = {a, b}, *poison = check_pair("cosine_similarity", "a", "b", x, 0);
    if (!poison)
        poison = bt_operand_axis("cosine_similarity", x[0], axis, &axis);
    if (poison)
        return poison;
    bt_tensor *one = bt_maximum(bt_norm(x[0], axis), 1e-8), *other = bt_maximum(bt_norm(x[1], axis), 1e-8);
    return bt_div(bt_sum(bt_mul(x[0], x[1]), axis), bt_mul(one, other));
}

bt_tensor *bt_kl_div(bt_tensor *log_prediction, bt_tensor *target)
{
    bt_tensor *x[] = {log_prediction, target}, *poison = check_pair("kl_div", "log_prediction", "target", x, 1);
    if (poison)
        return poison;
    /* Where the target is 0, neither log 0 nor its derivative is computed. */
    bt_tensor *none = bt_equal(x[1], 0), *log_target = bt_log(bt_where(none, 1, x[1]));
    return bt_sum(bt_mul(x[1], bt_sub(log_target, bt_where(none, 0, x[0]))), -1);
}
