/* ops/ops.h: the op table: every record of the library, and the attributes that kernels read. To add an op, write its
 * record in a file of ops/ and add it to BT_OP_LIST. */
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
    /* composites: activation.c */ X(softplus) X(gelu) X(gelu_slope) X(gelu_tanh)                                      \
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

extern const bt_op *const bt_op_table[]; /* all ops in this order; ends with NULL (ops/table.c) */

/* Dtypes that kernels see. add, sub, mul, minimum, maximum, neg, abs, sign, square, less, greater, equal, sum, max,
 * argmax, argsort, cumsum: f32, f64, i32, i64. where, cast, and ops that only move values (shape, parts, gather,
 * take_along, copy, print): every dtype. All others: f32, f64. An f32 tensor may be stored as bf16 or f16
 * (compile/lower.c); a kernel's record says whether it accepts that. less, greater, equal, isfinite give BT_BOOL (one
 * byte, 0 or 1); a cast to BT_BOOL is x != 0; the condition of where is BT_BOOL. Labels and indices are i32 or i64; a
 * value out of range makes the run fail (BT_ERROR_DATA). Sizes may be 0.
 *
 * gate(g, y): g where y > 0, else 0; the derivative of relu uses it. Linear in g; its derivative in y is zero.
 * softmax_grad(y, g), attribute bt_axis_attr: y * (g - sum(y * g along the axis)), the derivative of softmax
 * computed from its output. cross_entropy_grad(logits [n, c], label [n], g [n]): (softmax(logits) - onehot(label)) *
 * g, [n, c]. */

/* ---- attributes: plain data, with all padding bytes defined (start from {0}) ---- */

typedef struct bt_cast_attr {
    int64_t dtype;
} bt_cast_attr; /* cast: dtype of the result */

typedef struct bt_reduce_attr { /* sum, max, min; argmax: one axis, keep = 0 */
    uint32_t axes;              /* bit a: reduce axis a */
    uint32_t keep;              /* 1: reduced axes stay, with size 1 */
} bt_reduce_attr;

typedef struct bt_shape_attr { /* reshape, broadcast: shape of the result; dims past rank are 0 */
    int64_t rank, dims[BT_MAX_RANK];
    int64_t axes[BT_MAX_RANK]; /* permute: result axis k is input axis axes[k]; broadcast: input axis i becomes result
                                  axis axes[i] (ascending; its size is 1 or equal); reshape: unused */
} bt_shape_attr;

typedef struct bt_range_attr { /* slice: from <= i < to; pad: puts `from` zeros before, and zeros after up to the size
                                  `to`; concat: number of parts `from`, total size `to` */
    int64_t axis, from, to;
} bt_range_attr;

typedef struct bt_rows_attr {
    int64_t rows;
} bt_rows_attr; /* scatter_add(index [k], values [k, ...]): [rows, ...] */

typedef struct bt_one_hot_attr {
    int64_t classes, dtype; /* a floating dtype, of the result */
} bt_one_hot_attr;          /* one_hot(label [...]): [..., classes], 1 at the label, else 0 */

typedef struct bt_sort_attr {
    int64_t axis, count, descending; /* descending: 0 or 1 */
} bt_sort_attr; /* argsort(x): i32, the positions along the axis of the first `count` elements in sorted order. Equal
                   elements keep their order in both directions; NaN counts as the largest */

/* take_along(x, index), attribute bt_axis_attr: element i along the axis is x's element index[i]; the other axes
 * correspond. put_along(index, values) is its adjoint: place p along the axis is the sum of the values whose index is
 * p. */
typedef struct bt_places_attr {
    int64_t axis, size; /* put_along: number of places */
} bt_places_attr;

typedef struct bt_cumsum_attr {
    int64_t axis, reverse; /* reverse = 1: from the end */
} bt_cumsum_attr;

/* dot(a, b): a [m, k] x b [k, n], or batches of matrices: a [g, m, k] x b [g, k, n], a [g, h, m, k] x b [g, h, k, n].
 * dot_add(a, b, c, f): f c + a b for single matrices, with a scalar f of their dtype; transform/fuse.c makes it from
 * sums. */

/* conv(x [n, h, w, in], w [kh, kw, in/groups, out]): [n, oh, ow, out]; conv_dx(g [n, oh, ow, out], w): like x;
 * conv_dw(x, g): like w; conv_bias(x, w, b [out]): conv(x, w) + b. Output channels are ordered by group. Output
 * position y reads x from y stride - padding on, in steps of dilation; x is 0 beyond its edges. oh = (h + 2 padding -
 * (kh - 1) dilation - 1) / stride + 1, rounded down. */
typedef struct bt_conv_attr {
    int64_t stride[2], padding[2], dilation[2]; /* along height and width */
    int64_t groups;
    int64_t size[2]; /* conv_dx: h, w; conv_dw: kh, kw; conv: 0 */
} bt_conv_attr;

typedef struct bt_random_attr { /* uniform, normal (their only input is the record), dropout */
    bt_dtype dtype;
    int32_t rank;
    int64_t dims[BT_MAX_RANK];
    uint64_t key;       /* from the seed and the problem */
    uint32_t site;      /* from the tag */
    uint32_t zero;      /* always 0 */
    double probability; /* dropout: of dropping an element */
    int64_t first;      /* for a part of a whole: number of elements before it; element numbers start here */
} bt_random_attr;
/* Inputs: uniform(record I64 []), normal(record), dropout(x, record). Element e uses Philox with counter (e / 4 low 32
 * bits, site, record low, record high) and key (key low, key high). f32: word e % 4. f64: counter e / 2, words 2 (e %
 * 2) as high and 2 (e % 2) + 1 as low. See bt_random_word in ops/random.h. */

typedef struct bt_stochastic_attr {
    uint64_t key;
    uint32_t site, zero; /* always 0 */
    int64_t first;       /* as for uniform */
} bt_stochastic_attr;
/* stochastic_round(x, count I64 []): rounds each element to one of the two neighbouring bf16 numbers, at random, and
 * gives it in x's dtype. It is (bits + r) with the lower half cut off: bits are those of its f32, r is a random
 * 16-bit number. So the probability of rounding away from 0 is the cut-off fraction. r: the lower half of the word
 * that uniform uses for the element in f32, with `count` in place of the record. Infinities and NaN are rounded to
 * nearest. */

typedef struct bt_linear_attr {
    int64_t activation;
} bt_linear_attr; /* linear(x [n, in], w [out, in], b [out]): 0 none, 1 relu */
typedef struct bt_axis_attr {
    int64_t axis;
} bt_axis_attr; /* softmax, log_softmax: >= 0 */
typedef struct bt_eps_attr {
    double eps;
} bt_eps_attr; /* layer_norm */
/* layer_norm(x [..., f], scale [f], shift [f]): y, mean, deviation. y = h scale + shift with h = (x - mean) / deviation
 * and deviation = sqrt(variance + eps). The statistics of each row are [..., 1]. layer_norm_grad(x, mean, deviation,
 * u): (u - mean(u) - h mean(h u)) / deviation. It turns a cotangent u of h into that of x, and a tangent u of x into
 * that of h. layer_norm_dot(x, mean, deviation, g): the sum of h g over all rows, [f]. */

/* attention(q [..., queries, width], k [..., keys, width], v [..., keys, values], mask, record): softmax(q k' /
 * sqrt(width)) v. mask and record are inputs only if the attributes say so. mask: BT_BOOL [n, keys], or [keys] if there
 * is no axis before the last two; keys that are false get no weight. record: I64 [], for dropout of weights. */
typedef struct bt_attention_attr {
    int64_t causal;     /* 1: a query does not see later keys; the last query and the last key have the same position */
    int64_t masked;     /* 1: there is a mask */
    int64_t block;      /* number of queries processed at a time */
    int64_t held;       /* 1: intermediate results are kept for derivatives, not recomputed */
    double probability; /* of dropping a weight; > 0: the record is an input */
    uint64_t key;
    uint32_t site, zero; /* always 0 */
} bt_attention_attr;

/* Channels-last: x is [lead..., rows..., c]. Statistics and other per-channel values are [lead..., c]. `lead` is the
 * number of axes before the rows: 0 treats the whole batch as one sample, as in batch norm; 1 treats each example as
 * one.
 *
 * channel_moments(x): mean and variance of the rows (biased); there must be at least one row. channel_dot(x, z[, m]):
 * sum((x - m) z) and sum(z), over the rows. channel_mix(terms, shift, gate): the sum of (x - m) a over the terms, plus
 * the shift, [lead..., rows..., c]. relu = 1: max(0, that). gated = 1: that where the gate, which is like x, is > 0,
 * else 0. Inputs: for each term its x, then its centre m and its scale a if the masks include them; then the shift and
 * the gate, if any. A missing centre is 0, a missing scale 1. */
typedef struct bt_channel_attr {
    int64_t lead;
    int32_t terms;                 /* mix: 1 .. BT_CHANNEL_TERMS; moments: 0, dot: 1 */
    uint32_t centred, scaled;      /* bit k: term k has a centre, a scale; dot: centred is 0 or 1 */
    uint32_t shifted, relu, gated; /* each 0 or 1; relu and gated are not both 1 */
} bt_channel_attr;
enum { BT_CHANNEL_TERMS = 4 };

/* Input indices of a channel_mix; -1: missing. */
typedef struct bt_channel_inputs {
    int x[BT_CHANNEL_TERMS], centre[BT_CHANNEL_TERMS], scale[BT_CHANNEL_TERMS], shift, gate, count;
} bt_channel_inputs;
bt_channel_inputs bt_channel_inputs_of(const bt_channel_attr *attr);

/* channel_norm(x, scale [c], shift [c]): y, mean, variance. y = (x - mean) / sqrt(variance + eps) scale + shift. The
 * statistics are over the rows and over each group of c / groups adjacent channels, repeated to [lead..., c]. */
typedef struct bt_channel_norm_attr {
    int64_t lead, groups;
    double eps;
} bt_channel_norm_attr;

/* Windows over the height and width of images, [n, h, w, c] to [n, oh, ow, c]; padding is never read.
 *
 * window_sum(x): sums. window_spread(g): its adjoint, [n, h, w, c]. average = 1: sums divided by the number of pixels.
 * window_max(x): the largest pixel, and its index in the image, y w + x, as BT_I32: the first of equal ones, or the
 * last NaN if there is one. window_gather(x, index [n, oh, ow, c]): these pixels. window_scatter(g, index), attribute
 * bt_pixels_attr: its adjoint, [n, h, w, c]. */
typedef struct bt_window_axis {
    int64_t size, out;
    int64_t window, stride, padding; /* output o: `window` pixels from o stride - padding on, clipped to the image */
} bt_window_axis;
typedef struct bt_window_attr {
    bt_window_axis axis[2];
    int64_t adaptive; /* 1: output o is floor(o size / out) <= pixel < ceil((o + 1) size / out); window, stride and
                         padding are 0 */
    int64_t average;
} bt_window_attr;
typedef struct bt_pixels_attr {
    int64_t height, width;
} bt_pixels_attr;

/* resample(x): resizes an axis from `from` to `to`, treating pixels as areas (as PyTorch does with
 * align_corners=False). Output o is input floor(o from / to); with linear = 1, it is interpolated between the two
 * inputs whose centres are nearest. adjoint = 1: the adjoint, from size `to` to size `from`. */
typedef struct bt_resample_attr {
    int64_t axis, from, to, linear, adjoint;
} bt_resample_attr;

/* sgd_plain_update(p, g, ok, lr, weight_decay): p'. SGD without momentum; if ok is false, p is unchanged. No
 * attributes. sgd_update(p, g, m, ok, lr, momentum, dampening, weight_decay, first): p', m'. PyTorch's SGD with
 * momentum; `first` says that m is not set yet. If ok is false, p and m are unchanged. */
typedef struct bt_sgd_attr {
    int64_t nesterov;
} bt_sgd_attr;
/* adam_update(p, g, m, v, ok, lr, beta1, beta2, eps, weight_decay, t): p', m', v'. t: the number of this update, from
 * 1, as a scalar of p's dtype. decoupled = 1: AdamW. */
typedef struct bt_adam_attr {
    int64_t decoupled;
} bt_adam_attr;
/* In these updates p, g, m, v have one shape; the other inputs are scalars of p's dtype, except ok and first, which are
 * BT_BOOL. */

/* 8-bit codes (ops/codes.h), in blocks of 256 in row-major order. scales(x): F32 [blocks], the largest absolute value
 * of each block. encode(x, scales): BT_U8 codes like x. decode(codes, scales): the numbers. adam8bit_update(p, g, m,
 * m_scale, v, v_scale, ok, lr, beta1, beta2, eps, weight_decay, t), attribute bt_adam_attr: p', m', m_scale', v',
 * v_scale'. It does the step of adam_update and encodes the new m and v. lion8bit_update(p, g, m, m_scale, ok, lr,
 * beta1, beta2, weight_decay): p', m', m_scale'. */
typedef struct bt_codes_attr {
    int64_t positive; /* 1: the positive book */
    int64_t dtype;    /* decode: the floating dtype of the result; encode: BT_F32 */
} bt_codes_attr;
int64_t bt_codes_blocks(int64_t count); /* blocks for so many numbers */

/* Ops between ranks, each of which runs its own graph. Of a batch of n rows, rank r has bt_share_first(n, r, ranks) up
 * to bt_share_first(n, r + 1, ranks), where bt_share_first is r n / ranks, rounded up. So no rank has more rows than
 * rank 0. all_reduce(x, ...): the sum over the ranks, or the elementwise maximum or minimum, where NaN wins. x has the
 * same shape on all ranks, and so has the result; several x of one dtype are reduced separately. all_gather(x): the
 * parts along the axis in rank order, on all ranks. reduce_scatter(x): the rank's own part along the axis of the sum of
 * the x, which are whole. Sums are taken in rank order and in the dtype of x: f32, f64, i32 or i64. If an axis of
 * `size` is split by rows, each row is size / rows elements. */
typedef enum bt_reduction { BT_REDUCE_SUM, BT_REDUCE_MAX, BT_REDUCE_MIN } bt_reduction;
typedef struct bt_collective_attr {
    int64_t rank, ranks;
    int64_t reduction;        /* of all_reduce; for the others BT_REDUCE_SUM */
    int64_t parts;            /* 1: the op splits or joins along the axis; all_reduce: 0, like the remaining fields */
    int64_t axis, rows, size; /* size: of the whole axis */
    int64_t of, from; /* of > 0: the axis is the range of a line of `of` elements that starts at `from`, and the line is
                         split into `rows` rows; else both 0 */
} bt_collective_attr;
int64_t bt_share_first(int64_t rows, int rank, int ranks);
int64_t bt_collective_first(const bt_collective_attr *attr, int64_t rank); /* where its part begins along the axis */
/* Hash of the op and its attributes except the rank. */
uint64_t bt_collective_hash(uint64_t seed, const bt_op *op, const bt_collective_attr *attr);
bool bt_collective_same(const bt_collective_attr *a, const bt_collective_attr *b); /* equal except for the rank */

typedef struct bt_text_attr {
    char text[128];
} bt_text_attr; /* print: the label; check: the message */

/* ---- builders that other parts of the library use besides the public functions of tensor.h ---- */

bt_tensor *bt_step_positive(bt_tensor *x); /* 1 where x > 0, else 0, in x's dtype */
bt_tensor *bt_broadcast(bt_tensor *x, int rank, const int64_t *dims, const int *axes);
bt_tensor *bt_broadcast_like(bt_tensor *x, bt_tensor *like); /* by NumPy's rules */
bt_tensor *bt_sum_like(bt_tensor *x, bt_tensor *like);       /* the adjoint of bt_broadcast_like */
bt_tensor *bt_transpose(bt_tensor *x);                       /* swaps the last two axes */
bool bt_transposes(const bt_node *node);                     /* whether the node does just that */
bt_tensor *bt_pad_axis(bt_tensor *x, int axis, int64_t before, int64_t size);
bt_tensor *bt_dot(bt_tensor *a, bt_tensor *b);
/* The size in the attributes is ignored: image is h, w; window is kh, kw. */
bt_tensor *bt_conv(bt_tensor *x, bt_tensor *w, const bt_conv_attr *attr);
bt_tensor *bt_conv_dx(bt_tensor *g, bt_tensor *w, const int64_t *image, const bt_conv_attr *attr);
bt_tensor *bt_conv_dw(bt_tensor *x, bt_tensor *g, const int64_t *window, const bt_conv_attr *attr);
bt_tensor *bt_scatter_add(bt_tensor *index, bt_tensor *values, int64_t rows);
bt_tensor *bt_stop(bt_tensor *x); /* a constant for derivatives of every order, whatever detach means */
bt_tensor *bt_copy(bt_tensor *x);
/* stochastic_round with the trace's seed. name, part: what is rounded; they select the random numbers. */
bt_tensor *bt_stochastic_round(bt_tensor *x, const char *name, const char *part, bt_tensor *count);
bt_tensor *bt_alias(bt_tensor *x);                       /* x under another name, differentiable */
bt_tensor *bt_dropout(bt_tensor *x, double probability); /* scaled by 1/(1-p); in BT_VALID it returns x */
bt_tensor *bt_linear(bt_tensor *x, bt_tensor *weight, bt_tensor *bias, bool relu); /* bias may be NULL */
bt_tensor *bt_layer_norm(bt_tensor *x, bt_tensor *scale, bt_tensor *shift, double eps);
/* x is [n, ..., c]; scale and shift are [c], or NULL: none. The statistics are over all axes but the last. mean and
 * variance (biased) return them, [c]; NULL: not wanted. groups > 1 splits n: each n / groups consecutive rows are
 * normalised separately, and the statistics are [groups, c]. */
bt_tensor *bt_batch_norm(bt_tensor *x, int64_t groups, bt_tensor *scale, bt_tensor *shift, double eps, bt_tensor **mean,
                         bt_tensor **variance);
bt_tensor *bt_batch_norm_fixed(bt_tensor *x, bt_tensor *mean, bt_tensor *variance, bt_tensor *scale, bt_tensor *shift,
                               double eps); /* with the given mean and variance, [c] */
/* x is [n, ..., c]: normalises each example and group of channels. groups = c: instance norm. */
bt_tensor *bt_group_norm(bt_tensor *x, int64_t groups, bt_tensor *scale, bt_tensor *shift, double eps);
bt_tensor *bt_norm_square(bt_tensor *x);                 /* the sum of squares of all elements; kernels sum in f64 */
bt_tensor *bt_norm_square_along(bt_tensor *x, int axis); /* the same along one axis, which is removed */
bt_tensor *bt_full_like(bt_tensor *x, double value);
bt_tensor *bt_ones_like(bt_tensor *x);
bt_tensor *bt_concat_list(int axis, bt_tensor *const *parts, int count); /* any count */
/* If a and b are zero-paddings of adjacent parts, their sum as one padding of both parts joined. NULL: they are not. */
bt_tensor *bt_pads_joined(bt_tensor *a, bt_tensor *b);

bt_tensor *bt_all_reduce(bt_tensor *x, int rank, int ranks, bt_reduction reduction);
bt_tensor *bt_all_gather(bt_tensor *x, int rank, int ranks, int axis, int64_t rows, int64_t size);
bt_tensor *bt_reduce_scatter(bt_tensor *x, int rank, int ranks, int axis, int64_t rows);
/* For the range of a line that the ranks share (attr.of), along axis 0. */
bt_tensor *bt_gather_stretch(bt_tensor *x, const bt_collective_attr *stretch);
bt_tensor *bt_scatter_stretch(bt_tensor *x, const bt_collective_attr *stretch);

/* Whether all elements of x are one known number: a constant of at most 64 elements, or a view of one. */
bool bt_uniform(const bt_tensor *x, double *value);

/* The sum of two parts of a derivative; NULL stands for zero. */
bt_tensor *bt_accumulate(bt_tensor *a, bt_tensor *b);

#endif
