/* ops/ops.h: the op table: every record of the library, and the attributes that kernels read.
 * Adding an op: its record in a file of ops/, one line in BT_OP_LIST. */
#ifndef BT_OPS_H
#define BT_OPS_H

#include "graph/graph.h"

/* clang-format off */
#define BT_OP_LIST(X)                                                                                                  \
    /* leaves (leaf.c) */         X(read) X(constant)                                                                  \
    /* one operand (unary.c) */   X(neg) X(abs) X(sign) X(square) X(sqrt) X(exp) X(log) X(log1p) X(sin) X(cos)         \
                                  X(expm1) X(sinh) X(cosh) X(atan)                                                    \
                                  X(tanh) X(erf) X(sigmoid) X(relu) X(step) X(floor) X(isfinite)                      \
    /* two operands (binary.c) */ X(add) X(sub) X(mul) X(div) X(pow) X(minimum) X(maximum) X(gate)                     \
    /* choosing (select.c) */     X(less) X(greater) X(equal) X(where) X(cast)                                         \
    /* 16 bits (half.c) */        X(widen) X(round) X(stochastic_round)                                                \
    /* reductions (reduce.c) */   X(sum) X(max) X(argmax) X(min) X(norm_square)                                        \
    /* shape (shape.c) */         X(reshape) X(permute)                                                                \
    /* repeating (broadcast.c) */ X(broadcast)                                                                         \
    /* parts (part.c) */          X(slice) X(pad) X(concat) X(copy)                                                    \
    /* indices (index.c) */       X(gather) X(scatter_add) X(one_hot)                                                  \
    /* one axis (along.c) */      X(argsort) X(take_along) X(put_along) X(cumsum)                                      \
    /* contraction (dot.c) */     X(dot) X(dot_add)                                                                    \
    /* convolution (conv.c) */    X(conv) X(conv_dx) X(conv_dw)                                                        \
    /* control (control.c) */     X(detach) X(stop) X(print) X(check)                                                  \
    /* identity (alias.c) */      X(alias)                                                                             \
    /* random (random.c) */       X(uniform) X(normal) X(dropout)                                                      \
    /* composites: activation.c */ X(softplus) X(gelu) X(gelu_tanh)                                                    \
    /* softmax.c */               X(softmax) X(softmax_grad) X(log_softmax)                                            \
    /* loss.c */                  X(cross_entropy) X(cross_entropy_grad) X(binary_cross_entropy)                       \
    /* linear.c */                X(linear)                                                                            \
    /* linalg.c */                X(solve) X(logdet)                                                                  \
    /* conv.c */                  X(conv_bias)                                                                         \
    /* norm.c */                  X(layer_norm) X(layer_norm_grad) X(layer_norm_dot)                                  \
    /* attention.c */             X(attention)                                                                         \
    /* channel.c */               X(channel_moments) X(channel_dot) X(channel_mix)                                     \
    /* channel_norm.c */          X(channel_norm)                                                                      \
    /* pool.c */                  X(window_sum) X(window_spread) X(window_max) X(window_gather) X(window_scatter)      \
    /* resample.c */              X(resample)                                                                          \
    /* update.c */                X(sgd_plain_update) X(sgd_update) X(adam_update)                                     \
    /* eight.c */                 X(scales) X(encode) X(decode) X(adam8bit_update) X(lion8bit_update)                 \
    /* ranks (collective.c) */    X(all_reduce) X(all_gather) X(reduce_scatter)
/* clang-format on */

#define BT_OP_DECLARE(name) extern const bt_op bt_op_##name;
BT_OP_LIST(BT_OP_DECLARE)
#undef BT_OP_DECLARE

extern const bt_op *const bt_op_table[]; /* all of them, in this order; ends with NULL (ops/table.c) */

/* Dtypes that kernels meet. add, sub, mul, minimum, maximum, neg, abs, sign, square, less, greater, equal, sum, max,
 * argmax, argsort, cumsum: f32, f64, i32, i64. where, cast, and all that only moves values (shape, parts, gather,
 * take_along, copy, print): every dtype. The rest: f32, f64. Where a tensor is f32, what stands in memory may be bf16
 * or f16 (compile/lower.c): that a kernel takes it, its record says. less, greater, equal, isfinite give BT_BOOL (one
 * byte, 0 or 1); a cast to BT_BOOL is x != 0; where's condition is BT_BOOL. Labels and indices: i32 or i64; one outside
 * its range is an error of the run (BT_ERROR_DATA). Sizes may be 0.
 *
 * gate(g, y): g where y > 0, else 0: what relu does to a derivative. Linear in g; its derivative in y is zero.
 * softmax_grad(y, g), attribute bt_axis_attr: y * (g - sum(y * g along the axis)): the derivative of softmax, from its
 * output. cross_entropy_grad(logits [n, c], label [n], g [n]): (softmax(logits) - onehot(label)) * g, [n, c]. */

/* ---- attributes: plain data, no padding bytes left undefined (start from {0}) ---- */

typedef struct bt_cast_attr {
    int64_t dtype;
} bt_cast_attr; /* cast: the result's */

typedef struct bt_reduce_attr { /* sum, max, min; argmax: one axis, keep = 0 */
    uint32_t axes;              /* bit a: axis a is reduced */
    uint32_t keep;              /* 1: it stays, with size 1 */
} bt_reduce_attr;

typedef struct bt_shape_attr { /* reshape: the result's; broadcast: the result's; dims past rank are 0 */
    int64_t rank, dims[BT_MAX_RANK];
    int64_t axes[BT_MAX_RANK]; /* permute: result axis k is axes[k]; broadcast: input axis i becomes result axis axes[i]
                                * (ascending; of size 1 or equal); reshape: unused */
} bt_shape_attr;

typedef struct bt_range_attr { /* slice: from <= i < to; pad: puts `from` zeros before, up to size `to` in all;
                                * concat: `from` parts, size `to` in all */
    int64_t axis, from, to;
} bt_range_attr;

typedef struct bt_rows_attr {
    int64_t rows;
} bt_rows_attr; /* scatter_add(index [k], values [k, ...]): [rows, ...] */

typedef struct bt_one_hot_attr {
    int64_t classes, dtype; /* the result's, a floating one */
} bt_one_hot_attr;          /* one_hot(label [...]): [..., classes], 1 at the label, else 0 */

typedef struct bt_sort_attr {
    int64_t axis, count, descending; /* descending: 0 or 1 */
} bt_sort_attr; /* argsort(x): i32, the places along the axis of the first `count` elements in order; at ties the first
                 * comes first in either direction; NaN counts as the largest */

/* take_along(x, index), attribute bt_axis_attr: element i along the axis is x's element index[i], all else alike.
 * put_along(index, values): its adjoint: place p along the axis is the sum of the values whose index is p. */
typedef struct bt_places_attr {
    int64_t axis, size; /* put_along: how many places */
} bt_places_attr;

typedef struct bt_cumsum_attr {
    int64_t axis, reverse; /* reverse = 1: from the end */
} bt_cumsum_attr;

/* dot(a, b): a [m, k] x b [k, n], or many of them: a [g, m, k] x b [g, k, n], a [g, h, m, k] x b [g, h, k, n].
 * dot_add(a, b, c, f): f c + a b, of matrices, f a scalar of their dtype: what transform/fuse.c makes of sums. */

/* conv(x [n, h, w, in], w [kh, kw, in/groups, out]): [n, oh, ow, out], conv_dx(g [n, oh, ow, out], w): like x,
 * conv_dw(x, g): like w, conv_bias(x, w, b [out]): conv(x, w) + b. Output channels stand by group; output place y looks
 * at x from y stride - padding on, in steps of dilation; beyond its edges x is 0. oh = (h + 2 padding - (kh - 1)
 * dilation - 1) / stride + 1, rounded down. */
typedef struct bt_conv_attr {
    int64_t stride[2], padding[2], dilation[2]; /* along the height and the width */
    int64_t groups;
    int64_t size[2]; /* conv_dx: h, w; conv_dw: kh, kw; conv: 0 */
} bt_conv_attr;

typedef struct bt_random_attr { /* uniform, normal (no tensor input but the record), dropout */
    bt_dtype dtype;
    int32_t rank;
    int64_t dims[BT_MAX_RANK];
    uint64_t key;       /* of seed and problem */
    uint32_t site;      /* of the tag */
    uint32_t zero;      /* 0 */
    double probability; /* dropout: of being dropped */
    int64_t first;      /* of a part of a whole: how many of its elements come before those here; they are counted on */
} bt_random_attr;
/* inputs: uniform(record I64 []), normal(record), dropout(x, record). Element e takes Philox with
 * counter (e / 4 low 32 bits, site, record low, record high) and key (key low, key high), word e % 4 for f32;
 * f64: counter e / 2, words 2 (e % 2) high and 2 (e % 2) + 1 low. See bt_random_word in ops/random.h. */

typedef struct bt_stochastic_attr {
    uint64_t key;
    uint32_t site, zero; /* 0 */
    int64_t first;       /* as of uniform */
} bt_stochastic_attr;
/* stochastic_round(x, count I64 []): each element as one of the two numbers of bf16 that it lies between, in x's dtype;
 * the one further from 0 for as many of the 65,536 values of r as the lower half of its f32's bits says: (bits + r)
 * with the lower half cut off. r: the lower half of the word that uniform has for the element in f32, `count` in the
 * record's place. What is not finite is rounded to the nearest. */

typedef struct bt_linear_attr {
    int64_t activation;
} bt_linear_attr; /* linear(x [n, in], w [out, in], b [out]): 0 none, 1 relu */
typedef struct bt_axis_attr {
    int64_t axis;
} bt_axis_attr; /* softmax, log_softmax: >= 0 */
typedef struct bt_eps_attr {
    double eps;
} bt_eps_attr; /* layer_norm */
/* layer_norm(x [..., f], scale [f], shift [f]): y, mean, deviation: h scale + shift with h = (x - mean) / deviation,
 * the statistics of each row being [..., 1]; deviation: sqrt(variance + eps). layer_norm_grad(x, mean, deviation, u):
 * what x gets of a cotangent u of h, and h of a tangent u of x: (u - mean(u) - h mean(h u)) / deviation.
 * layer_norm_dot(x, mean, deviation, g): sum of h g over all rows, [f]. */

/* attention(q [..., queries, width], k [..., keys, width], v [..., keys, values], then, as the attributes say, a mask,
 * BT_BOOL [n, keys], or [keys] where nothing stands before the last two axes, and the record, I64 []): softmax(q k' /
 * sqrt(width)) v, of the keys that count, and of the weights those that are not dropped. */
typedef struct bt_attention_attr {
    int64_t causal; /* 1: the keys behind a query do not count, the last query and the last key being of one place */
    int64_t masked; /* 1: there is a mask */
    int64_t block;  /* queries at a time */
    int64_t held;   /* 1: what is computed on the way is not computed again for derivatives */
    double probability; /* of a weight being dropped; > 0: there is a record */
    uint64_t key;
    uint32_t site, zero; /* 0 */
} bt_attention_attr;

/* Channels-last: x is [lead..., rows..., c]. Statistics, and what has one value per channel, are [lead..., c]: `lead`
 * counts the axes before the rows (0: the whole batch is one sample, as in batch norm; 1: each example is one).
 *
 * channel_moments(x): mean, variance (of the rows, divided by their number; there must be some).
 * channel_dot(x, z[, m]): sum((x - m) z), sum(z), over the rows.
 * channel_mix(terms, shift, gate): sum over the terms of (x - m) a, plus the shift, [lead..., rows..., c]; relu = 1:
 * max(0, that); gated = 1: that where the gate, like x, is > 0, else 0. Inputs: each term's x, then its centre m and
 * its scale a if the masks say that it has them; then the shift if there is one; at last the gate. A missing centre is
 * 0, a missing scale 1. */
typedef struct bt_channel_attr {
    int64_t lead;
    int32_t terms;                 /* mix: 1 .. BT_CHANNEL_TERMS; moments: 0, dot: 1 */
    uint32_t centred, scaled;      /* bit k: term k has a centre, a scale; dot: centred 0 or 1 */
    uint32_t shifted, relu, gated; /* 0 or 1; not both relu and gated */
} bt_channel_attr;
enum { BT_CHANNEL_TERMS = 4 };

/* Which inputs of a channel_mix are what; -1: missing. */
typedef struct bt_channel_inputs {
    int x[BT_CHANNEL_TERMS], centre[BT_CHANNEL_TERMS], scale[BT_CHANNEL_TERMS], shift, gate, count;
} bt_channel_inputs;
bt_channel_inputs bt_channel_inputs_of(const bt_channel_attr *attr);

/* channel_norm(x, scale [c], shift [c]): y, mean, variance: (x - mean) / sqrt(variance + eps) scale + shift, with the
 * statistics of the rows and of each group of c / groups neighbouring channels together, repeated to [lead..., c]. */
typedef struct bt_channel_norm_attr {
    int64_t lead, groups;
    double eps;
} bt_channel_norm_attr;

/* Windows over the height and width of images, [n, h, w, c] to [n, oh, ow, c]; padding is never looked at.
 *
 * window_sum(x): sums; window_spread(g): its adjoint, [n, h, w, c]. average = 1: sums divided by how many there are.
 * window_max(x): the largest, and, BT_I32, which pixel of the image that is, y w + x: the first of several, and the
 * last NaN if there is any. window_gather(x, index [n, oh, ow, c]): these pixels; window_scatter(g, index), attribute
 * bt_pixels_attr: its adjoint, [n, h, w, c]. */
typedef struct bt_window_axis {
    int64_t size, out;
    int64_t window, stride, padding; /* output o: window pixels from o stride - padding, but those outside */
} bt_window_axis;
typedef struct bt_window_attr {
    bt_window_axis axis[2];
    int64_t adaptive; /* 1: output o is floor(o size / out) <= pixel < ceil((o + 1) size / out); the rest is 0 */
    int64_t average;
} bt_window_attr;
typedef struct bt_pixels_attr {
    int64_t height, width;
} bt_pixels_attr;

/* resample(x): from size `from` to size `to` along an axis, pixels being areas (as in PyTorch, corners not aligned):
 * output o is input floor(o from / to), or, linear = 1, between the two whose centres are next to its own.
 * adjoint = 1: the adjoint of that, from size `to` to size `from`. */
typedef struct bt_resample_attr {
    int64_t axis, from, to, linear, adjoint;
} bt_resample_attr;

/* sgd_plain_update(p, g, ok, lr, weight_decay): p'. SGD without momentum; where ok is false, p stays. No attributes.
 * sgd_update(p, g, m, ok, lr, momentum, dampening, weight_decay, first): p', m'. PyTorch's SGD with momentum; `first`
 * says that m holds nothing yet; where ok is false, p and m stay. */
typedef struct bt_sgd_attr {
    int64_t nesterov;
} bt_sgd_attr;
/* adam_update(p, g, m, v, ok, lr, beta1, beta2, eps, weight_decay, t): p', m', v'. t: the count of this update, from 1,
 * a scalar of p's dtype. decoupled = 1: AdamW. */
typedef struct bt_adam_attr {
    int64_t decoupled;
} bt_adam_attr;
/* p, g, m, v have one shape; the rest are scalars of p's dtype, ok and first BT_BOOL. */

/* Numbers in 8 bits: ops/codes.h. Blocks of 256, in row-major order. scales(x): F32 [blocks], the largest absolute
 * value of each; encode(x, scales): BT_U8 codes like x; decode(codes, scales): the numbers. adam8bit_update(p, g, m,
 * m_scale, v, v_scale, ok, lr, beta1, beta2, eps, weight_decay, t), attribute bt_adam_attr: p', m', m_scale', v',
 * v_scale'. The step is that of adam_update; what it leaves is encoded. lion8bit_update(p, g, m, m_scale, ok, lr,
 * beta1, beta2, weight_decay): p', m', m_scale'. */
typedef struct bt_codes_attr {
    int64_t positive; /* 1: no signs */
    int64_t dtype;    /* decode: the result's, a floating one; encode: BT_F32 */
} bt_codes_attr;
int64_t bt_codes_blocks(int64_t count); /* of so many numbers */

/* Between ranks, each of which runs a graph of its own: rank r has rows bt_share_first(n, r, ranks) to
 * bt_share_first(n, r + 1, ranks) of a batch of n: r n / ranks, rounded up, so that rank 0 has as many as any.
 * all_reduce(x, ...): the sum over the ranks, or the largest or smallest of each element, where NaN counts as such; of
 * one shape on all ranks, and so is the result; of several x, which have one dtype, each by itself. all_gather(x): the
 * parts along the axis in their order, on all ranks. reduce_scatter(x): of the sum of the x, which are whole, the
 * rank's own part along the axis. Sums are taken in the order of ranks, in the dtype: f32, f64, i32 or i64. A part
 * along an axis of size `size` is as many rows' times size / rows. */
typedef enum bt_reduction { BT_REDUCE_SUM, BT_REDUCE_MAX, BT_REDUCE_MIN } bt_reduction;
typedef struct bt_collective_attr {
    int64_t rank, ranks;
    int64_t reduction;        /* all_reduce; the others: BT_REDUCE_SUM */
    int64_t parts;            /* 1: along the axis; all_reduce: 0, and so are the rest */
    int64_t axis, rows, size; /* size: of the whole */
    int64_t of, from;         /* of > 0: the axis is the stretch from `from` on of a line of `of` elements, and the line
                               * is what is split as so many rows; else both 0 */
} bt_collective_attr;
int64_t bt_share_first(int64_t rows, int rank, int ranks);
int64_t bt_collective_first(const bt_collective_attr *attr, int64_t rank); /* where its part begins along the axis */
/* Of what it is about, but for the rank. */
uint64_t bt_collective_hash(uint64_t seed, const bt_op *op, const bt_collective_attr *attr);
bool bt_collective_same(const bt_collective_attr *a, const bt_collective_attr *b); /* but for the rank */

typedef struct bt_text_attr {
    char text[128];
} bt_text_attr; /* print: the label; check: the message */

/* ---- what other parts of the library record besides the public functions of tensor.h ---- */

bt_tensor *bt_step_positive(bt_tensor *x); /* 1 where x > 0, else 0, in x's dtype */
bt_tensor *bt_broadcast(bt_tensor *x, int rank, const int64_t *dims, const int *axes);
bt_tensor *bt_broadcast_like(bt_tensor *x, bt_tensor *like); /* by NumPy's rule */
bt_tensor *bt_sum_like(bt_tensor *x, bt_tensor *like);       /* the adjoint of bt_broadcast_like */
bt_tensor *bt_transpose(bt_tensor *x);                       /* swaps the last two axes */
bool bt_transposes(const bt_node *node);                     /* it does just that */
bt_tensor *bt_pad_axis(bt_tensor *x, int axis, int64_t before, int64_t size);
bt_tensor *bt_dot(bt_tensor *a, bt_tensor *b);
/* Of the attributes' size nothing is read: image is h, w, and window kh, kw. */
bt_tensor *bt_conv(bt_tensor *x, bt_tensor *w, const bt_conv_attr *attr);
bt_tensor *bt_conv_dx(bt_tensor *g, bt_tensor *w, const int64_t *image, const bt_conv_attr *attr);
bt_tensor *bt_conv_dw(bt_tensor *x, bt_tensor *g, const int64_t *window, const bt_conv_attr *attr);
bt_tensor *bt_scatter_add(bt_tensor *index, bt_tensor *values, int64_t rows);
bt_tensor *bt_stop(bt_tensor *x); /* a constant at every order, whatever detach means */
bt_tensor *bt_copy(bt_tensor *x);
/* stochastic_round by the trace's seed; name, part: what is rounded, which is where its random numbers come from. */
bt_tensor *bt_stochastic_round(bt_tensor *x, const char *name, const char *part, bt_tensor *count);
bt_tensor *bt_alias(bt_tensor *x);                       /* x under another name, differentiable */
bt_tensor *bt_dropout(bt_tensor *x, double probability); /* scaled by 1/(1-p); in BT_VALID x itself */
bt_tensor *bt_linear(bt_tensor *x, bt_tensor *weight, bt_tensor *bias, bool relu); /* bias may be NULL */
bt_tensor *bt_layer_norm(bt_tensor *x, bt_tensor *scale, bt_tensor *shift, double eps);
/* x is [n, ..., c], scale and shift are [c], or NULL: none. Of the statistics, [c], of all axes but the last: mean and
 * variance (biased) are for those who ask for them, else NULL. groups > 1 divides n: each n / groups rows that follow
 * each other are normalised by themselves, and the statistics are [groups, c]. */
bt_tensor *bt_batch_norm(bt_tensor *x, int64_t groups, bt_tensor *scale, bt_tensor *shift, double eps, bt_tensor **mean,
                         bt_tensor **variance);
bt_tensor *bt_batch_norm_fixed(bt_tensor *x, bt_tensor *mean, bt_tensor *variance, bt_tensor *scale, bt_tensor *shift,
                               double eps); /* with these, [c] */
/* x is [n, ..., c]: the statistics of each example and group of channels. groups = c: instance norm. */
bt_tensor *bt_group_norm(bt_tensor *x, int64_t groups, bt_tensor *scale, bt_tensor *shift, double eps);
bt_tensor *bt_norm_square(bt_tensor *x);                 /* sum of squares of all elements; f64 in kernels */
bt_tensor *bt_norm_square_along(bt_tensor *x, int axis); /* likewise, of those along an axis, which goes */
bt_tensor *bt_full_like(bt_tensor *x, double value);
bt_tensor *bt_ones_like(bt_tensor *x);
bt_tensor *bt_concat_list(int axis, bt_tensor *const *parts, int count); /* any count */
/* The sum of two pads with zeros whose contents lie side by side: one pad of both, joined. NULL: they are not such. */
bt_tensor *bt_pads_joined(bt_tensor *a, bt_tensor *b);

bt_tensor *bt_all_reduce(bt_tensor *x, int rank, int ranks, bt_reduction reduction);
bt_tensor *bt_all_gather(bt_tensor *x, int rank, int ranks, int axis, int64_t rows, int64_t size);
bt_tensor *bt_reduce_scatter(bt_tensor *x, int rank, int ranks, int axis, int64_t rows);
/* Of a stretch of a line that the ranks share (attr.of), along axis 0. */
bt_tensor *bt_gather_stretch(bt_tensor *x, const bt_collective_attr *stretch);
bt_tensor *bt_scatter_stretch(bt_tensor *x, const bt_collective_attr *stretch);

/* Whether all elements of x are one known number: a constant, or a view of one. */
bool bt_uniform(const bt_tensor *x, double *value);

/* The adjoint's sum of two parts, either of which may be NULL (zero). */
bt_tensor *bt_accumulate(bt_tensor *a, bt_tensor *b);

#endif
