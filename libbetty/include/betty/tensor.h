/* betty/tensor.h: operations on symbolic tensors */
#ifndef BETTY_TENSOR_H
#define BETTY_TENSOR_H

#include <betty/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For traced callbacks. The trace in progress is the thread's, so no call names it; outside of one, all is poisoned.
 * Axes may be negative; shapes broadcast as in NumPy; images are [n, height, width, channels]. Where a tensor may be a
 * number, bt_mul(0.5, x), the number takes the dtype of the other operand and is a constant of the program. */

int bt_rank(const bt_tensor *x);              /* how many axes; 0 if poisoned */
int64_t bt_dim(const bt_tensor *x, int axis); /* the size of an axis; 1 if poisoned */

bt_tensor *bt_constant(bt_array values); /* copied into the program */
bt_tensor *bt_zeros_like(bt_tensor *x);  /* zeros, of x's shape, dtype and batch axis */
bt_tensor *bt_normal_like(bt_tensor *x); /* independent standard normal numbers; the same in every pass of a step */

/* Elementwise, one operand; the shape stays. */
bt_tensor *bt_neg(bt_tensor *x);
bt_tensor *bt_abs(bt_tensor *x);  /* derivative 0 at 0 */
bt_tensor *bt_sign(bt_tensor *x); /* derivative 0 */
bt_tensor *bt_square(bt_tensor *x);
bt_tensor *bt_sqrt(bt_tensor *x);
bt_tensor *bt_exp(bt_tensor *x);
bt_tensor *bt_log(bt_tensor *x);
bt_tensor *bt_log1p(bt_tensor *x);
bt_tensor *bt_expm1(bt_tensor *x); /* exp(x) - 1, exact near 0 */
bt_tensor *bt_sin(bt_tensor *x);
bt_tensor *bt_cos(bt_tensor *x);
bt_tensor *bt_atan(bt_tensor *x);
bt_tensor *bt_sinh(bt_tensor *x);
bt_tensor *bt_cosh(bt_tensor *x);
bt_tensor *bt_tanh(bt_tensor *x);
bt_tensor *bt_erf(bt_tensor *x);   /* 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x */
bt_tensor *bt_floor(bt_tensor *x); /* derivative 0 */
bt_tensor *bt_sigmoid(bt_tensor *x);
bt_tensor *bt_softplus(bt_tensor *x);  /* log(1 + exp(x)) */
bt_tensor *bt_relu(bt_tensor *x);      /* derivative 0 at 0 */
bt_tensor *bt_gelu(bt_tensor *x);      /* exact, by erf (Hendrycks and Gimpel 2016) */
bt_tensor *bt_gelu_tanh(bt_tensor *x); /* its approximation by tanh, as in GPT-2 */
bt_tensor *bt_leaky_relu(bt_tensor *x, double slope);
bt_tensor *bt_elu(bt_tensor *x, double alpha); /* alpha (exp(x) - 1) below 0 */
bt_tensor *bt_selu(bt_tensor *x);
bt_tensor *bt_silu(bt_tensor *x); /* x sigmoid(x) */
bt_tensor *bt_mish(bt_tensor *x); /* x tanh(softplus(x)) */
bt_tensor *bt_log_sigmoid(bt_tensor *x);
bt_tensor *bt_logit(bt_tensor *x); /* log(x / (1 - x)) */
bt_tensor *bt_tan(bt_tensor *x);
bt_tensor *bt_asin(bt_tensor *x);
bt_tensor *bt_acos(bt_tensor *x);
bt_tensor *bt_asinh(bt_tensor *x);
bt_tensor *bt_acosh(bt_tensor *x);
bt_tensor *bt_atanh(bt_tensor *x);
bt_tensor *bt_ceil(bt_tensor *x);     /* derivative 0 */
bt_tensor *bt_rint(bt_tensor *x);     /* to the nearest, halves to the even one; derivative 0 */
bt_tensor *bt_isfinite(bt_tensor *x); /* BT_BOOL */
/* x in another dtype. Into integers the fraction is cut off, what is too large becomes the nearest bound and NaN 0;
 * into BT_BOOL: whether it is not 0. The derivative passes between floating dtypes; elsewhere it is 0. */
bt_tensor *bt_cast(bt_tensor *x, bt_dtype dtype);

/* Elementwise, several operands, each a tensor or a number. A comparison gives BT_BOOL, in arithmetic 0 or 1. */
bt_tensor *(bt_add)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_sub)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_mul)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_div)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_pow)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_minimum)(bt_tensor *a, bt_tensor *b); /* at ties each gets half of the derivative */
bt_tensor *(bt_maximum)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_less)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_greater)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_equal)(bt_tensor *a, bt_tensor *b);
bt_tensor *bt_not(bt_tensor *x); /* BT_BOOL, of what is not 0; so bt_and, bt_or */
bt_tensor *bt_and(bt_tensor *a, bt_tensor *b);
bt_tensor *bt_or(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_clamp)(bt_tensor *x, bt_tensor *low, bt_tensor *high);
bt_tensor *(bt_soft_threshold)(bt_tensor *x, bt_tensor *by); /* nearer to 0 by that much; 0 where |x| <= by */
bt_tensor *(bt_where)(bt_tensor *condition, bt_tensor *a, bt_tensor *b); /* a where true, else b */
#define bt_add(a, b)              (bt_add)(BT_OPERAND_(a), BT_OPERAND_(b))
#define bt_sub(a, b)              (bt_sub)(BT_OPERAND_(a), BT_OPERAND_(b))
#define bt_mul(a, b)              (bt_mul)(BT_OPERAND_(a), BT_OPERAND_(b))
#define bt_div(a, b)              (bt_div)(BT_OPERAND_(a), BT_OPERAND_(b))
#define bt_pow(a, b)              (bt_pow)(BT_OPERAND_(a), BT_OPERAND_(b))
#define bt_minimum(a, b)          (bt_minimum)(BT_OPERAND_(a), BT_OPERAND_(b))
#define bt_maximum(a, b)          (bt_maximum)(BT_OPERAND_(a), BT_OPERAND_(b))
#define bt_less(a, b)             (bt_less)(BT_OPERAND_(a), BT_OPERAND_(b))
#define bt_greater(a, b)          (bt_greater)(BT_OPERAND_(a), BT_OPERAND_(b))
#define bt_equal(a, b)            (bt_equal)(BT_OPERAND_(a), BT_OPERAND_(b))
#define bt_clamp(x, low, high)    (bt_clamp)((x), BT_OPERAND_(low), BT_OPERAND_(high))
#define bt_soft_threshold(x, by)  (bt_soft_threshold)((x), BT_OPERAND_(by))
#define bt_where(condition, a, b) (bt_where)((condition), BT_OPERAND_(a), BT_OPERAND_(b))

/* Reductions over the listed axes, or over all. Over the batch axis they span all ranks. */
bt_tensor *(bt_sum)(bt_tensor *x, const int64_t *axes);
bt_tensor *(bt_mean)(bt_tensor *x, const int64_t *axes);
bt_tensor *(bt_max)(bt_tensor *x, const int64_t *axes); /* at ties the derivative is shared equally */
bt_tensor *(bt_min)(bt_tensor *x, const int64_t *axes);
#define bt_sum(...)  BT_LIST_(bt_sum, __VA_ARGS__, BT_END)            /* bt_sum(x, axes...) */
#define bt_mean(...) BT_LIST_(bt_mean, __VA_ARGS__, BT_END)           /* bt_mean(x, axes...) */
#define bt_max(...)  BT_LIST_(bt_max, __VA_ARGS__, BT_END)            /* bt_max(x, axes...) */
#define bt_min(...)  BT_LIST_(bt_min, __VA_ARGS__, BT_END)            /* bt_min(x, axes...) */
bt_tensor *(bt_logsumexp)(bt_tensor *x, const int64_t *axes);         /* the logarithm of the sum of exponentials */
#define bt_logsumexp(...) BT_LIST_(bt_logsumexp, __VA_ARGS__, BT_END) /* bt_logsumexp(x, axes...) */
bt_tensor *bt_prod(bt_tensor *x, int axis);                           /* the product of all elements along the axis */
bt_tensor *bt_argmax(bt_tensor *x, int axis);                         /* BT_I32; the first at ties */
bt_tensor *bt_argmin(bt_tensor *x, int axis);                         /* likewise */
/* The sample variance, divided by the count less 1, so of at least two elements; its root, and the Euclidean norm,
 * both with derivative 0 where they are 0. */
bt_tensor *(bt_variance)(bt_tensor *x, const int64_t *axes);
bt_tensor *(bt_std)(bt_tensor *x, const int64_t *axes);
bt_tensor *(bt_norm)(bt_tensor *x, const int64_t *axes);
#define bt_variance(...) BT_LIST_(bt_variance, __VA_ARGS__, BT_END) /* bt_variance(x, axes...) */
#define bt_std(...)      BT_LIST_(bt_std, __VA_ARGS__, BT_END)      /* bt_std(x, axes...) */
#define bt_norm(...)     BT_LIST_(bt_norm, __VA_ARGS__, BT_END)     /* bt_norm(x, axes...) */

/* Along one axis; the other axes stay. NaN counts as the largest; at ties the first comes first, in either direction.
 * A derivative goes to the elements that were chosen, as bt_take_along says. */
bt_tensor *bt_sort(bt_tensor *x, int axis, bool descending);
bt_tensor *bt_argsort(bt_tensor *x, int axis, bool descending); /* BT_I32: bt_sort takes the elements at these places */
/* The k largest, the largest first; *index: their places, BT_I32 (index may be NULL). */
bt_tensor *bt_topk(bt_tensor *x, int64_t k, int axis, bt_tensor **index);
/* Along the axis, element i is x's element index[i]; x and the index are alike along the other axes. A place outside
 * of x ends the run (BT_ERROR_DATA). */
bt_tensor *bt_take_along(bt_tensor *x, bt_tensor *index, int axis);
bt_tensor *bt_cumsum(bt_tensor *x, int axis); /* each element with all before it added */

/* Shape. */
bt_tensor *(bt_reshape)(bt_tensor *x, const int64_t *sizes);
bt_tensor *(bt_permute)(bt_tensor *x, const int64_t *axes);
#define bt_reshape(...) BT_LIST_(bt_reshape, __VA_ARGS__, BT_END) /* (x, sizes...); one may be -1: the rest */
#define bt_permute(...) BT_LIST_(bt_permute, __VA_ARGS__, BT_END) /* (x, axes...): result axis k is axes[k] */
bt_tensor *bt_squeeze(bt_tensor *x, int axis);                    /* drops an axis of size 1 */
bt_tensor *bt_unsqueeze(bt_tensor *x, int axis);                  /* puts an axis of size 1 at `axis` of the result */

bt_tensor *(bt_expand)(bt_tensor *x, const int64_t *sizes);
#define bt_expand(...) BT_LIST_(bt_expand, __VA_ARGS__, BT_END) /* (x, sizes...): repeated, by NumPy's rule */
bt_tensor *bt_flip(bt_tensor *x, int axis);                     /* the last comes first */
bt_tensor *bt_roll(bt_tensor *x, int64_t by, int axis); /* each element `by` places on, the last ones to the front */
bt_tensor *bt_pad(bt_tensor *x, int axis, int64_t before, int64_t behind); /* with zeros */
bt_tensor *bt_tril(bt_tensor *x, int64_t by); /* of [..., rows, columns] where column <= row + by, elsewhere 0 */
bt_tensor *bt_triu(bt_tensor *x, int64_t by); /* where column >= row + by */
bt_tensor *bt_arange(int64_t count);          /* 0, 1, ..., count - 1, BT_I32 */
bt_tensor *bt_eye(int64_t size);              /* the unit matrix */

/* Parts. A negative index counts from the end. */
bt_tensor *bt_slice(bt_tensor *x, int axis, int64_t from, int64_t to); /* from <= i < to; BT_REST */
bt_tensor *bt_gather(bt_tensor *x, bt_tensor *index);                  /* result[k, ...] = x[index[k], ...] */
bt_tensor *(bt_at)(bt_tensor *x, const int64_t *index);
bt_tensor *(bt_concat)(int axis, bt_tensor *const *parts);
#define bt_at(...)           BT_LIST_(bt_at, __VA_ARGS__, BT_END)                /* bt_at(x, i, j): x[i, j, ...] */
#define bt_concat(axis, ...) (bt_concat)((axis), BT_TENSORS_(__VA_ARGS__, NULL)) /* (axis, parts...) */

bt_tensor *(bt_stack)(int axis, bt_tensor *const *parts);
#define bt_stack(axis, ...) (bt_stack)((axis), BT_TENSORS_(__VA_ARGS__, NULL)) /* along a new axis of the result */

/* Matrices. */
bt_tensor *bt_matmul(bt_tensor *a, bt_tensor *b); /* [..., m, k] x [..., k, n]; b may be [k]: result [..., m] */
/* Of square matrices [..., n, n], by elimination in double precision: x with a x = b, b being [..., n, m], or [..., n];
 * the inverse; and log |det a|, [...]. A singular matrix ends the run (BT_ERROR_NUMERIC); its logdet is -infinity. */
bt_tensor *bt_linear_solve(bt_tensor *a, bt_tensor *b);
bt_tensor *bt_inverse(bt_tensor *a);
bt_tensor *bt_logdet(bt_tensor *a);
/* Sums of products, one letter an axis: bt_einsum("nij,njk->nik", a, b). Letters that the result lacks are summed over;
 * one that an operand has twice takes its diagonal; without "->" the result has the letters that occur once, in
 * alphabetical order. */
bt_tensor *(bt_einsum)(const char *equation, bt_tensor *const *operands);
#define bt_einsum(equation, ...) (bt_einsum)((equation), BT_TENSORS_(__VA_ARGS__, NULL))

/* Attention: softmax(q k' / sqrt(width)) v over the keys that count (Vaswani et al. 2017), by blocks of queries: no
 * more than block x keys weights stand in memory at once, and they are computed again for derivatives. q [..., queries,
 * width], k [..., keys, width], v [..., keys, values], to [..., queries, values]; at most two axes stand before, such
 * as examples and heads. */
typedef struct bt_attention_options {
    bool causal;     /* a query sees the keys up to its own place; the last query and the last key are of one place */
    bt_tensor *mask; /* [keys], or [n, keys] for q's first axis: the keys where it is not 0 count; NULL: all. A query
                      * none of whose keys counts gets 0 */
    double dropout;  /* of the weights, 0 <= p < 1; none in BT_VALID */
    int64_t block;   /* queries at a time; 0: it is chosen */
    bool held;       /* the weights are held for derivatives, and all queries taken at once unless `block` is set */
} bt_attention_options;
bt_attention_options bt_attention_defaults(void); /* none of these; what NULL options mean */
bt_tensor *bt_attention(bt_tensor *q, bt_tensor *k, bt_tensor *v, const bt_attention_options *options);

/* Places of tokens. bt_sinusoidal: [places, width], sin(p / 10000^(i / width)) for even i, the cosine of the same
 * beside it (Vaswani et al. 2017). bt_rotary: x [..., tokens, width], each pair of numbers 2 f, 2 f + 1 turned by the
 * angle p / 10000^(2 f / width), p counting from `first` (Su et al. 2021). */
bt_tensor *bt_sinusoidal(int64_t places, int64_t width);
bt_tensor *bt_rotary(bt_tensor *x, int64_t first);

/* Convolutions, channels last: x [n, height, width, in], weight [height, width, in/groups, out], bias [out] or NULL, to
 * [n, ..., out]. 1-d: [n, length, in], [length, in/groups, out]. Output channels stand by group. */
typedef struct bt_conv2d_options {
    int64_t stride, padding, dilation, groups; /* padding: zeros on either side */
    bool bias;                                 /* of modules: whether they have one */
} bt_conv2d_options;
bt_conv2d_options bt_conv2d_defaults(void); /* 1, 0, 1, 1, true; what NULL options mean */
bt_tensor *bt_conv2d(bt_tensor *x, bt_tensor *weight, bt_tensor *bias, const bt_conv2d_options *options);
bt_tensor *bt_conv1d(bt_tensor *x, bt_tensor *weight, bt_tensor *bias, const bt_conv2d_options *options);

/* Images, [n, height, width, channels]. */
bt_tensor *bt_max_pool2d(bt_tensor *x, int64_t window, int64_t stride, int64_t padding);
bt_tensor *bt_avg_pool2d(bt_tensor *x, int64_t window, int64_t stride, int64_t padding); /* padding is not counted */
bt_tensor *bt_adaptive_max_pool2d(bt_tensor *x, int64_t height, int64_t width);          /* of the result */
bt_tensor *bt_adaptive_avg_pool2d(bt_tensor *x, int64_t height, int64_t width);
bt_tensor *bt_upsample_nearest(bt_tensor *x, int64_t height, int64_t width);
bt_tensor *bt_upsample_bilinear(bt_tensor *x, int64_t height, int64_t width); /* corners are not aligned */

/* Losses have one value per example, [n]: take bt_mean. */
bt_tensor *bt_mse(bt_tensor *prediction, bt_tensor *target); /* of one shape, [n, ...]; of each example the mean */
bt_tensor *bt_mae(bt_tensor *prediction, bt_tensor *target); /* likewise, of absolute differences */
/* Half the square up to delta, beyond it a line (Huber 1964); of each example the mean. */
bt_tensor *bt_huber(bt_tensor *prediction, bt_tensor *target, double delta);
bt_tensor *bt_soft_cross_entropy(bt_tensor *logits, bt_tensor *target); /* target: probabilities, [n, classes] */
bt_tensor *bt_cosine_similarity(bt_tensor *a, bt_tensor *b, int axis);  /* norms below 1e-8 count as that */
/* The Kullback-Leibler divergence from the prediction to the target, both [n, classes]: sum of target (log target -
 * log_prediction). log_prediction: logarithms, as of bt_log_softmax. A target of 0 counts as 0, its derivative, too. */
bt_tensor *bt_kl_div(bt_tensor *log_prediction, bt_tensor *target);

/* Classification. */
bt_tensor *bt_one_hot(bt_tensor *label,
                      int64_t classes); /* integers [...] in 0..classes-1, to [..., classes], floats */
bt_tensor *bt_softmax(bt_tensor *x, int axis);
bt_tensor *bt_log_softmax(bt_tensor *x, int axis);
bt_tensor *bt_cross_entropy(bt_tensor *logits, bt_tensor *label); /* [n, classes], integers [n] */
/* Likewise; NULL options: that. A row whose label is `ignore`, as that of padding, is 0, and so is its derivative; the
 * mean over the others is bt_div(bt_sum(loss), bt_label_count(label, ignore)). smoothing s, from 0 to 1: the target is
 * 1 - s + s / classes at the label, and s / classes elsewhere: Szegedy et al., "Rethinking the Inception architecture"
 * (CVPR 2016). Both are as PyTorch's cross_entropy has them. */
#define BT_NO_LABEL INT64_MIN
typedef struct bt_cross_entropy_options {
    int64_t ignore; /* BT_NO_LABEL: all rows count */
    double smoothing;
} bt_cross_entropy_options;
bt_cross_entropy_options bt_cross_entropy_defaults(void); /* BT_NO_LABEL, 0 */
bt_tensor *bt_cross_entropy_with(bt_tensor *logits, bt_tensor *label, const bt_cross_entropy_options *options);
bt_tensor *bt_label_count(bt_tensor *label, int64_t ignore); /* BT_I64 []: of integers of any shape, how many are not
                                                                `ignore`: for bt_loss_count */
bt_tensor *bt_binary_cross_entropy(bt_tensor *logit, bt_tensor *label); /* [n], [n] in 0..1 */
bt_tensor *bt_accuracy(bt_tensor *logits, bt_tensor *label);            /* [n]: 1 if the largest logit is the label's */

/* Derivatives. */
bt_tensor *bt_detach(bt_tensor *x); /* x as a constant: its derivative is zero */
/* Of a scalar y; an ordinary tensor, to be differentiated again. Like wrt, which may be bt_params(...). */
bt_tensor *bt_grad(bt_tensor *y, bt_tensor *wrt);
/* bt_checkpoint(fn, user, inputs...): records fn(user, in) at once, where `in` are the inputs and ends with NULL, and
 * returns what it returns. What is computed within is not held for derivatives but computed again for them, whatever
 * the level's `checkpointing` is, in each of its programs that thereby needs fewer bytes; no bit depends on it. What is
 * read outside is held: what fn returns, and what it leaves in *user, such as a second result. Of one within another,
 * the outer one counts. */
typedef bt_tensor *bt_checkpoint_fn(void *user, bt_tensor *const *in);
bt_tensor *(bt_checkpoint)(bt_checkpoint_fn *fn, void *user, bt_tensor *const *in);
#define bt_checkpoint(...)            BT_CHECKPOINT_(__VA_ARGS__, NULL)
#define BT_CHECKPOINT_(fn, user, ...) (bt_checkpoint)((fn), (user), BT_TENSORS_(__VA_ARGS__))

/* A look inside, each time the program runs. */
bt_tensor *bt_print(bt_tensor *x, const char *label);     /* prints x and returns it */
void bt_check(bt_tensor *condition, const char *message); /* fails the run where an element is false */

bt_tensor *bt_operand_tensor_(bt_tensor *x);
bt_tensor *bt_operand_number_(double value);
bt_tensor *bt_operand_integer_(int64_t value);
/* clang-format off */
#define BT_OPERAND_(x)                                                                                                 \
    _Generic((x), bt_tensor *: bt_operand_tensor_, float: bt_operand_number_, double: bt_operand_number_,              \
             int: bt_operand_integer_, long: bt_operand_integer_, long long: bt_operand_integer_)(x)
/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif
