/* betty/tensor.h: operations on symbolic tensors */
#ifndef BETTY_TENSOR_H
#define BETTY_TENSOR_H

#include <betty/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For traced callbacks. Each thread has its own trace in progress, so no call names it. Outside a trace, every result
 * is poisoned. Axes may be negative. Shapes broadcast as in NumPy. Images are [n, height, width, channels]. An operand
 * that is a number, as in bt_mul(0.5, x), takes the dtype of the other operand and is a constant of the program. */

int bt_rank(const bt_tensor *x);              /* the number of axes; 0 if poisoned */
int64_t bt_dim(const bt_tensor *x, int axis); /* the size of an axis; 1 if poisoned */

bt_tensor *bt_constant(bt_array values); /* copied into the program */
bt_tensor *bt_zeros_like(bt_tensor *x);  /* zeros with the shape, dtype and batch axis of x */
bt_tensor *bt_normal_like(bt_tensor *x); /* independent standard normal numbers; the same in every pass of a step */

/* Elementwise, one operand. The result has the shape of x. */
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
bt_tensor *bt_gelu_tanh(bt_tensor *x); /* gelu approximated by tanh, as in GPT-2 */
bt_tensor *bt_leaky_relu(bt_tensor *x, double slope);
bt_tensor *bt_elu(bt_tensor *x, double alpha); /* below 0: alpha (exp(x) - 1) */
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
bt_tensor *bt_rint(bt_tensor *x);     /* to the nearest integer, halves to even; derivative 0 */
bt_tensor *bt_isfinite(bt_tensor *x); /* BT_BOOL */
/* Converts x to another dtype. A cast to integers drops the fraction, clamps values out of range to the nearest bound
 * and maps NaN to 0. A cast to BT_BOOL is true where x is not 0. The derivative passes between floating dtypes; it
 * is 0 for all others. */
bt_tensor *bt_cast(bt_tensor *x, bt_dtype dtype);

/* Elementwise, several operands, each a tensor or a number. Comparisons return BT_BOOL, which counts as 0 or 1 in
 * arithmetic. */
bt_tensor *(bt_add)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_sub)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_mul)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_div)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_pow)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_minimum)(bt_tensor *a, bt_tensor *b); /* at ties each operand gets half of the derivative */
bt_tensor *(bt_maximum)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_less)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_greater)(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_equal)(bt_tensor *a, bt_tensor *b);
bt_tensor *bt_not(bt_tensor *x); /* BT_BOOL; x counts as true where it is not 0. The same holds for bt_and and bt_or */
bt_tensor *bt_and(bt_tensor *a, bt_tensor *b);
bt_tensor *bt_or(bt_tensor *a, bt_tensor *b);
bt_tensor *(bt_clamp)(bt_tensor *x, bt_tensor *low, bt_tensor *high);
bt_tensor *(bt_soft_threshold)(bt_tensor *x, bt_tensor *by); /* moves x towards 0 by `by`; 0 where |x| <= by */
bt_tensor *(bt_where)(bt_tensor *condition, bt_tensor *a, bt_tensor *b); /* a where the condition is true, else b */
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

/* Reductions over the listed axes, or over all axes if none is listed. Over the batch axis they include all ranks. */
bt_tensor *(bt_sum)(bt_tensor *x, const int64_t *axes);
bt_tensor *(bt_mean)(bt_tensor *x, const int64_t *axes);
bt_tensor *(bt_max)(bt_tensor *x, const int64_t *axes); /* at ties the derivative is shared equally */
bt_tensor *(bt_min)(bt_tensor *x, const int64_t *axes);
#define bt_sum(...)  BT_LIST_(bt_sum, __VA_ARGS__, BT_END)            /* bt_sum(x, axes...) */
#define bt_mean(...) BT_LIST_(bt_mean, __VA_ARGS__, BT_END)           /* bt_mean(x, axes...) */
#define bt_max(...)  BT_LIST_(bt_max, __VA_ARGS__, BT_END)            /* bt_max(x, axes...) */
#define bt_min(...)  BT_LIST_(bt_min, __VA_ARGS__, BT_END)            /* bt_min(x, axes...) */
bt_tensor *(bt_logsumexp)(bt_tensor *x, const int64_t *axes);         /* the logarithm of the sum of the exponentials */
#define bt_logsumexp(...) BT_LIST_(bt_logsumexp, __VA_ARGS__, BT_END) /* bt_logsumexp(x, axes...) */
bt_tensor *bt_prod(bt_tensor *x, int axis);                           /* the product of the elements along the axis */
bt_tensor *bt_argmax(bt_tensor *x, int axis);                         /* BT_I32; at ties the first */
bt_tensor *bt_argmin(bt_tensor *x, int axis);                         /* the same, for the smallest */
/* bt_variance is the sample variance: it divides by the count minus 1, so it needs at least two elements. bt_std is its
 * square root, and bt_norm is the Euclidean norm. Both have derivative 0 where they are 0. */
bt_tensor *(bt_variance)(bt_tensor *x, const int64_t *axes);
bt_tensor *(bt_std)(bt_tensor *x, const int64_t *axes);
bt_tensor *(bt_norm)(bt_tensor *x, const int64_t *axes);
#define bt_variance(...) BT_LIST_(bt_variance, __VA_ARGS__, BT_END) /* bt_variance(x, axes...) */
#define bt_std(...)      BT_LIST_(bt_std, __VA_ARGS__, BT_END)      /* bt_std(x, axes...) */
#define bt_norm(...)     BT_LIST_(bt_norm, __VA_ARGS__, BT_END)     /* bt_norm(x, axes...) */

/* These work along one axis and keep the others. NaN counts as the largest value. Equal elements keep their order, in
 * either direction. The derivative goes to the elements that were chosen, as in bt_take_along. */
bt_tensor *bt_sort(bt_tensor *x, int axis, bool descending);
bt_tensor *bt_argsort(bt_tensor *x, int axis, bool descending); /* BT_I32: the positions in x of the sorted elements */
/* The k largest elements, largest first. *index receives their positions, BT_I32; index may be NULL. */
bt_tensor *bt_topk(bt_tensor *x, int64_t k, int axis, bt_tensor **index);
/* Along the axis, element i of the result is element index[i] of x. x and index have the same sizes along the other
 * axes. A position outside x ends the run (BT_ERROR_DATA). */
bt_tensor *bt_take_along(bt_tensor *x, bt_tensor *index, int axis);
bt_tensor *bt_cumsum(bt_tensor *x, int axis); /* the sum of each element and all before it */

/* Shape. */
bt_tensor *(bt_reshape)(bt_tensor *x, const int64_t *sizes);
bt_tensor *(bt_permute)(bt_tensor *x, const int64_t *axes);
#define bt_reshape(...) BT_LIST_(bt_reshape, __VA_ARGS__, BT_END) /* (x, sizes...); one size may be -1 (the rest) */
#define bt_permute(...) BT_LIST_(bt_permute, __VA_ARGS__, BT_END) /* (x, axes...): result axis k is axes[k] of x */
bt_tensor *bt_squeeze(bt_tensor *x, int axis);                    /* removes an axis of size 1 */
bt_tensor *bt_unsqueeze(bt_tensor *x, int axis);                  /* adds an axis of size 1 at `axis` of the result */

bt_tensor *(bt_expand)(bt_tensor *x, const int64_t *sizes);
#define bt_expand(...) BT_LIST_(bt_expand, __VA_ARGS__, BT_END) /* (x, sizes...): repeats by NumPy's rule */
bt_tensor *bt_flip(bt_tensor *x, int axis);                     /* reverses the order along the axis */
bt_tensor *bt_roll(bt_tensor *x, int64_t by, int axis);         /* shifts by `by` places; the last wrap to the front */
bt_tensor *bt_pad(bt_tensor *x, int axis, int64_t before, int64_t behind); /* adds zeros */
bt_tensor *bt_tril(bt_tensor *x, int64_t by); /* x [..., rows, columns] where column <= row + by, else 0 */
bt_tensor *bt_triu(bt_tensor *x, int64_t by); /* x where column >= row + by, else 0 */
bt_tensor *bt_arange(int64_t count);          /* 0, 1, ..., count - 1, BT_I32 */
bt_tensor *bt_eye(int64_t size);              /* the identity matrix */

/* Parts. A negative index counts from the end. */
bt_tensor *bt_slice(bt_tensor *x, int axis, int64_t from, int64_t to); /* from <= i < to; `to` may be BT_REST */
bt_tensor *bt_gather(bt_tensor *x, bt_tensor *index);                  /* result[k, ...] = x[index[k], ...] */
bt_tensor *(bt_at)(bt_tensor *x, const int64_t *index);
bt_tensor *(bt_concat)(int axis, bt_tensor *const *parts);
#define bt_at(...)           BT_LIST_(bt_at, __VA_ARGS__, BT_END)                /* bt_at(x, i, j): x[i, j, ...] */
#define bt_concat(axis, ...) (bt_concat)((axis), BT_TENSORS_(__VA_ARGS__, NULL)) /* (axis, parts...) */

bt_tensor *(bt_stack)(int axis, bt_tensor *const *parts);
#define bt_stack(axis, ...) (bt_stack)((axis), BT_TENSORS_(__VA_ARGS__, NULL)) /* along a new axis of the result */

/* Matrices. */
bt_tensor *bt_matmul(bt_tensor *a, bt_tensor *b); /* [..., m, k] x [..., k, n]; b may be [k]: then [..., m] */
/* For square matrices a [..., n, n], by elimination in double precision. bt_linear_solve returns the x with a x = b,
 * where b is [..., n, m] or [..., n]. bt_inverse returns the inverse, and bt_logdet returns log |det a|, [...]. In the
 * first two, a singular matrix ends the run (BT_ERROR_NUMERIC). In bt_logdet it gives -infinity. */
bt_tensor *bt_linear_solve(bt_tensor *a, bt_tensor *b);
bt_tensor *bt_inverse(bt_tensor *a);
bt_tensor *bt_logdet(bt_tensor *a);
/* Sums of products with one letter per axis: bt_einsum("nij,njk->nik", a, b). Letters that are missing in the result
 * are summed over. A letter that occurs twice in one operand takes the diagonal. Without "->" the result has the
 * letters that occur once, in alphabetical order. */
bt_tensor *(bt_einsum)(const char *equation, bt_tensor *const *operands);
#define bt_einsum(equation, ...) (bt_einsum)((equation), BT_TENSORS_(__VA_ARGS__, NULL))

/* Attention: softmax(q k' / sqrt(width)) v over the keys that count (Vaswani et al. 2017). q is [..., queries, width],
 * k is [..., keys, width], v is [..., keys, values], and the result is [..., queries, values]. At most two axes may
 * come first, for example examples and heads. The queries are processed in blocks, so memory holds at most block x keys
 * weights at a time. The weights are recomputed for derivatives. */
typedef struct bt_attention_options {
    bool causal; /* a query sees the keys up to its own position; the last query and the last key share a position */
    bt_tensor *mask; /* [keys], or [n, keys] for q's first axis: keys count where it is not 0; NULL: all keys count. A
                      * query for which no key counts gets 0 */
    double dropout;  /* probability of dropping a weight, 0 <= p < 1; no dropout in BT_VALID */
    int64_t block;   /* number of queries processed at a time; 0: chosen automatically */
    bool held;       /* keep the weights for derivatives; all queries are then one block, unless `block` is set */
} bt_attention_options;
bt_attention_options bt_attention_defaults(void); /* all false, NULL or 0; used if options is NULL */
bt_tensor *bt_attention(bt_tensor *q, bt_tensor *k, bt_tensor *v, const bt_attention_options *options);

/* Positions of tokens. bt_sinusoidal returns [places, width]: sin(p / 10000^(i / width)) for even i, and next to it the
 * cosine of the same angle (Vaswani et al. 2017). bt_rotary takes x [..., tokens, width] and rotates each pair of
 * numbers 2 f, 2 f + 1 by the angle p / 10000^(2 f / width). Its positions p count from `first` (Su et al. 2021). */
bt_tensor *bt_sinusoidal(int64_t places, int64_t width);
bt_tensor *bt_rotary(bt_tensor *x, int64_t first);

/* Convolutions, channels last. x is [n, height, width, in], weight is [height, width, in/groups, out], bias is [out] or
 * NULL, and the result is [n, ..., out]. In 1-d, x is [n, length, in] and weight is [length, in/groups, out]. Output
 * channels are ordered by group. */
typedef struct bt_conv2d_options {
    int64_t stride, padding, dilation, groups; /* padding: zeros on each side */
    bool bias;                                 /* for modules: whether they have a bias */
} bt_conv2d_options;
bt_conv2d_options bt_conv2d_defaults(void); /* 1, 0, 1, 1, true; used if options is NULL */
bt_tensor *bt_conv2d(bt_tensor *x, bt_tensor *weight, bt_tensor *bias, const bt_conv2d_options *options);
bt_tensor *bt_conv1d(bt_tensor *x, bt_tensor *weight, bt_tensor *bias, const bt_conv2d_options *options);

/* Images are [n, height, width, channels]. */
bt_tensor *bt_max_pool2d(bt_tensor *x, int64_t window, int64_t stride, int64_t padding);
bt_tensor *bt_avg_pool2d(bt_tensor *x, int64_t window, int64_t stride, int64_t padding); /* padding is not counted */
bt_tensor *bt_adaptive_max_pool2d(bt_tensor *x, int64_t height, int64_t width);          /* to this height and width */
bt_tensor *bt_adaptive_avg_pool2d(bt_tensor *x, int64_t height, int64_t width);
bt_tensor *bt_upsample_nearest(bt_tensor *x, int64_t height, int64_t width);
bt_tensor *bt_upsample_bilinear(bt_tensor *x, int64_t height, int64_t width); /* corners are not aligned */

/* Losses return one value per example, [n]. Take bt_mean of them. */
bt_tensor *bt_mse(bt_tensor *prediction, bt_tensor *target); /* both [n, ...]; the mean over each example */
bt_tensor *bt_mae(bt_tensor *prediction, bt_tensor *target); /* the same, for absolute differences */
/* Half the squared error up to delta, linear beyond it (Huber 1964); the mean over each example. */
bt_tensor *bt_huber(bt_tensor *prediction, bt_tensor *target, double delta);
bt_tensor *bt_soft_cross_entropy(bt_tensor *logits, bt_tensor *target); /* target: probabilities, [n, classes] */
bt_tensor *bt_cosine_similarity(bt_tensor *a, bt_tensor *b, int axis);  /* norms below 1e-8 count as 1e-8 */
/* The Kullback-Leibler divergence from the prediction to the target, both [n, classes]: the sum of target (log target -
 * log_prediction). log_prediction holds logarithms, for example from bt_log_softmax. A target of 0 contributes 0, and
 * so does its derivative. */
bt_tensor *bt_kl_div(bt_tensor *log_prediction, bt_tensor *target);

/* Classification. */
bt_tensor *bt_one_hot(bt_tensor *label, int64_t classes); /* integers [...] in 0..classes-1 to floats [..., classes] */
bt_tensor *bt_softmax(bt_tensor *x, int axis);
bt_tensor *bt_log_softmax(bt_tensor *x, int axis);
bt_tensor *bt_cross_entropy(bt_tensor *logits, bt_tensor *label); /* logits [n, classes], integer labels [n] */
/* Like bt_cross_entropy, with options; NULL: no options. A row whose label is `ignore`, for example padding, has loss 0
 * and derivative 0. The mean over the other rows is bt_div(bt_sum(loss), bt_label_count(label, ignore)). With smoothing
 * s, from 0 to 1, the target is 1 - s + s / classes at the label and s / classes elsewhere: Szegedy et al., "Rethinking
 * the Inception architecture" (CVPR 2016). Both options work as in PyTorch's cross_entropy. */
#define BT_NO_LABEL INT64_MIN
typedef struct bt_cross_entropy_options {
    int64_t ignore; /* BT_NO_LABEL: all rows count */
    double smoothing;
} bt_cross_entropy_options;
bt_cross_entropy_options bt_cross_entropy_defaults(void); /* BT_NO_LABEL, 0 */
bt_tensor *bt_cross_entropy_with(bt_tensor *logits, bt_tensor *label, const bt_cross_entropy_options *options);
bt_tensor *bt_label_count(bt_tensor *label, int64_t ignore); /* BT_I64 []: how many of these integers, of any shape, are
                                                                not `ignore`; for bt_loss_count */
bt_tensor *bt_binary_cross_entropy(bt_tensor *logit, bt_tensor *label); /* [n], and [n] in 0..1 */
bt_tensor *bt_accuracy(bt_tensor *logits, bt_tensor *label); /* [n]: 1 where the largest logit is the label's */

/* Derivatives. */
bt_tensor *bt_detach(bt_tensor *x); /* x as a constant: the derivative is 0 */
/* The derivative of a scalar y, with the shape of wrt, which may be bt_params(...). The result is an ordinary tensor
 * and can be differentiated again. */
bt_tensor *bt_grad(bt_tensor *y, bt_tensor *wrt);
/* bt_checkpoint(fn, user, inputs...) calls fn(user, in) at once and returns its result; `in` holds the inputs and ends
 * with NULL. Values computed inside fn are recomputed for derivatives rather than kept. This is done in each program of
 * the level that needs fewer bytes that way, whatever the level's `checkpointing` says. The results are the same to the
 * last bit. Values that are read outside are kept: the result of fn, and anything it leaves in *user, such as a second
 * result. If one bt_checkpoint is inside another, only the outer one counts. */
typedef bt_tensor *bt_checkpoint_fn(void *user, bt_tensor *const *in);
bt_tensor *(bt_checkpoint)(bt_checkpoint_fn *fn, void *user, bt_tensor *const *in);
#define bt_checkpoint(...)            BT_CHECKPOINT_(__VA_ARGS__, NULL)
#define BT_CHECKPOINT_(fn, user, ...) (bt_checkpoint)((fn), (user), BT_TENSORS_(__VA_ARGS__))

/* These inspect values each time the program runs. */
bt_tensor *bt_print(bt_tensor *x, const char *label);     /* prints x and returns it */
void bt_check(bt_tensor *condition, const char *message); /* ends the run if any element is false */

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
