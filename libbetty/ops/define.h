/* ops/define.h: shared by the files of ops/: checks of shapes and dtypes, operands of builders, samples for tests. */
#ifndef BT_DEFINE_H
#define BT_DEFINE_H

#include "ops/ops.h"
#include "ops/samples.h"

/* ---- infer.c: checks; each message starts with the op's name and says what was found and what is expected ---- */

enum {                                       /* kinds of dtypes */
       BT_FLOATS = 1,                        /* f32, f64: used in floating arithmetic */
       BT_INTEGERS = 2,                      /* i32, i64 */
       BT_SMALL = 4,                         /* u8, bool */
       BT_HALVES = 8,                        /* bf16, f16: only stored; widened before anything is computed from them */
       BT_NUMBERS = BT_FLOATS | BT_INTEGERS, /* used in arithmetic */
       BT_EVERY = BT_NUMBERS | BT_SMALL | BT_HALVES
};

bool bt_dtype_is(bt_dtype dtype, unsigned kinds);
bt_status bt_check_dtype(const char *op, const char *what, bt_dtype found, unsigned kinds);
bt_status bt_check_equal(const char *op, const char *what, bt_array found, const char *like, bt_array expected);
bt_status bt_check_scalar(const char *op, const char *what, bt_array found, bt_dtype dtype);
bt_status bt_check_axis(const char *op, int64_t axis, int rank);

/* Checks that all `count` inputs have one shape and one dtype of these kinds. The output is like them. */
bt_status bt_infer_equal(const char *op, unsigned kinds, int count, const bt_array *in, bt_array *out);

#define BT_INFER_EQUAL(op, kinds, count)                                                                               \
    static bt_status op##_infer(const void *attr, const bt_array *in, bt_array *out)                                   \
    {                                                                                                                  \
        (void)attr;                                                                                                    \
        return bt_infer_equal(#op, (kinds), (count), in, out);                                                         \
    }

double bt_flops_none(const void *attr, const bt_array *in, const bt_array *out);  /* a view */
double bt_flops_input(const void *attr, const bt_array *in, const bt_array *out); /* one per element of input 0 */

/* For the `shares` rules of bt_op_info. */
bool bt_shares_none(bt_shares *shares);     /* a rule itself: the op needs whole operands */
bool bt_shares_outer(bt_array x, int axis); /* whether each part of x along the axis is contiguous */

bool bt_view_same(const void *attr, const bt_view *in, bt_view *out, int64_t *offset); /* the identity view */

/* ---- derivative rules ---- */

/* A rule for an op with one operand and a diagonal Jacobian; vjp and jvp are the same. x, y: input and output; g: the
 * given tangent or cotangent. */
#define BT_DIAGONAL_RULE(op, expression)                                                                               \
    static void op##_rule(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,      \
                          bt_tensor **wanted)                                                                          \
    {                                                                                                                  \
        bt_tensor *x = in[0], *y = out[0], *g = given[0];                                                              \
        (void)attr, (void)x, (void)y;                                                                                  \
        wanted[0] = g ? (expression) : NULL;                                                                           \
    }

/* ---- operand.c: checks and conversions of a builder's operands ---- */

/* These return NULL if all is well, else a poison for the builder to return. */
bt_tensor *bt_operand_missing(const char *op, const bt_tensor *x);
bt_tensor *bt_operand_axis(const char *op, const bt_tensor *x, int64_t given, int *axis); /* negative: from the end */

bool bt_operand_is_number(const bt_tensor *x, double value); /* whether x is a C number equal to `value` */

typedef enum bt_promotion {
    BT_PROMOTE_FLOAT,  /* integers become floats of the trace's dtype */
    BT_PROMOTE_NUMBER, /* bool becomes float, u8 becomes i32 */
    BT_PROMOTE_KEEP    /* converts only if all share a dtype */
} bt_promotion;

/* Converts all operands to their common dtype; C numbers adapt. Changes x in place. */
bt_tensor *bt_operands_promote(const char *op, bt_tensor **x, int count, bt_promotion promotion);
bt_tensor *bt_operands_broadcast(const char *op, bt_tensor **x, int count); /* to one shape, by NumPy's rules */

bt_tensor *bt_index_of(const char *op, bt_tensor *index); /* as i32 or i64; poison if it is not of integers */

/* For builders that record several ops, or one with several results: they compute from bt_wide(x), and convert the
 * result y back to the dtype of x if that has 16 bits. */
bt_tensor *bt_stored_like(bt_tensor *y, const bt_tensor *x);

bt_tensor *bt_build_unary(const bt_op *op, bt_tensor *x, bt_promotion promotion);
bt_tensor *bt_build_binary(const bt_op *op, bt_tensor *a, bt_tensor *b, bt_promotion promotion);

bt_tensor *bt_reshape_to(bt_tensor *x, int rank, const int64_t *dims);         /* x itself if it has this shape */
bt_tensor *bt_reduce(const bt_op *op, bt_tensor *x, uint32_t axes, bool keep); /* x itself if there is nothing to do */
bt_tensor *bt_sum_axis(bt_tensor *x, int axis, bool keep);
bt_tensor *bt_along(bt_tensor *x, bt_tensor *like, int axis); /* repeats x, which lacks `axis`, along it */

/* random.c: the key and site of the next random op, and the record; a poison if there are no random numbers here. */
bt_tensor *bt_random_stream(const char *op, uint64_t *key, uint32_t *site, bt_tensor **record);

/* ---- channel.c: builders used by rules; they check nothing ---- */

/* The shape of per-channel values, [lead..., c], of an x with `lead` leading axes. */
bt_array bt_channel_shape(int64_t lead, bt_array x);
int64_t bt_channel_rows(int64_t lead, const bt_tensor *x);

typedef struct bt_channel_term {
    bt_tensor *x, *centre, *scale; /* NULL: none */
} bt_channel_term;

/* Any number of terms; a term without x is skipped. shift: NULL: none. like: a tensor of the result's shape. The result
 * may overwrite the first term's x. NULL if there is no term and no shift. */
bt_tensor *bt_channel_mix(int64_t lead, const bt_channel_term *terms, int count, bt_tensor *shift,
                          const bt_tensor *like);
/* sum((x - centre) z); centre: NULL: none. *sum: sum(z). */
bt_tensor *bt_channel_dot(int64_t lead, bt_tensor *x, bt_tensor *z, bt_tensor *centre, bt_tensor **sum);
/* `absorb` of a sum of images: includes the relu or gate that alone reads it. */
bt_tensor *bt_channel_absorb_sum(const bt_op *reader, bt_tensor *const *in, int which);

/* ---- sample.c ---- */

/* Inputs of equal shape in f64, drawn from low..high. The shapes: a matrix, one row, one element, a scalar, an empty
 * one. */
void bt_samples_equal(bt_sampler *sampler, int inputs, double low, double high);
void bt_sample_values(bt_sampler *sampler, const char *name, int inputs, const double *values, int count, bool kink);

#define BT_SAMPLE(sampler, ...) (sampler)->add((sampler), &(const bt_sample){__VA_ARGS__})
#define BT_ATTR(type, ...)      .attr = &(const type){__VA_ARGS__}, .attr_size = sizeof(type)
#define BT_DRAWN(from, to, dtype_, rank_, ...)                                                                         \
    {                                                                                                                  \
        .dtype = (dtype_), .rank = (rank_), .dims = {__VA_ARGS__}, .low = (from), .high = (to)                         \
    }
#define BT_LISTED(list, dtype_, rank_, ...)                                                                            \
    {                                                                                                                  \
        .dtype = (dtype_), .rank = (rank_), .dims = {__VA_ARGS__}, .values = (list), .value_count = BT_COUNT_OF(list)  \
    }

#endif
