/* The functions of betty/tensor.h: values, dtypes, broadcasting, and error messages. */
#include "interpret.h"
#include "test_trace.h"

#include "graph/variable.h"
#include "ops/ops.h"
#include "support/suite.h"
#include "transform/simplify.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>


static void begin(void) { trace_open(BT_F32); }

static void end(void) { trace_close(); }

static void expect(int line, bt_tensor *x, bt_dtype dtype, const char *shape, const double *values, int count)
{
    char found[256];
    ck_assert_msg(!bt_poisoned(x), "line %d: %s", line, graph->message);
    ck_assert_msg(x->dtype == dtype, "line %d: dtype %s", line, bt_dtype_name(x->dtype));
    ck_assert_msg(strcmp(bt_shape_text(found, x->rank, x->dims), shape) == 0, "line %d: shape %s", line, found);
    ck_assert_int_eq(bt_tensor_count(x), count);
    interpreter *in = interpreter_new(graph);
    interpreter_run(in);
    for (int i = 0; i < count; i++) {
        double value = interpreter_value(in, x)[i];
        ck_assert_msg(fabs(value - values[i]) <= 1e-6 * fabs(values[i]), "line %d: [%d] is %.9g, expected %.9g", line,
                      i, value, values[i]);
    }
    interpreter_free(in);
}

#define EXPECT(x, dtype, shape, ...)                                                                                   \
    expect(__LINE__, (x), (dtype), (shape), (const double[]){__VA_ARGS__},                                             \
           (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* Checks that x is poisoned with this message; then a new trace begins. */
static void expect_mistake(int line, bt_tensor *x, const char *message)
{
    ck_assert_msg(bt_poisoned(x) && x != NULL, "line %d: no poison", line);
    ck_assert_msg(graph->status != BT_OK && strcmp(graph->message, message) == 0, "line %d: message \"%s\"", line,
                  graph->message ? graph->message : "");
    end();
    begin();
}

#define MISTAKE(x, message) expect_mistake(__LINE__, (x), (message))

#define VECTOR(type, ...) bt_constant(BT_ARRAY(((type[]){__VA_ARGS__}), sizeof((type[]){__VA_ARGS__}) / sizeof(type)))
#define F32(...)          VECTOR(float, __VA_ARGS__)
#define F64(...)          VECTOR(double, __VA_ARGS__)
#define I32(...)          VECTOR(int32_t, __VA_ARGS__)
#define I64(...)          VECTOR(int64_t, __VA_ARGS__)
#define U8(...)           VECTOR(uint8_t, __VA_ARGS__)

/* 0, 1, 2, ... */
static bt_tensor *count_up(bt_dtype dtype, const int64_t *dims)
{
    double values[512];
    for (int i = 0; i < BT_COUNT_OF(values); i++)
        values[i] = i;
    bt_array array = bt_array_of(BT_F64, values, dims);
    ck_assert_int_le(bt_array_count(array), BT_COUNT_OF(values));
    return bt_as(bt_constant(array), dtype);
}
#define SHAPE(...) count_up(BT_F32, (const int64_t[]){__VA_ARGS__, BT_END})

START_TEST(test_dtypes)
{
    EXPECT(bt_mul(0.1, F64(1, 2)), BT_F64, "[2]", 0.1, 0.2);
    EXPECT(bt_mul(F32(1, 2), 3), BT_F32, "[2]", 3, 6);
    EXPECT(bt_add(I32(1, 2), 3), BT_I32, "[2]", 4, 5);
    EXPECT(bt_add(I64(1, 2), 0.5), BT_F32, "[2]", 1.5, 2.5); /* not truncated to 0 */
    EXPECT(bt_mul(U8(255, 51), 1 / 255.), BT_F32, "[2]", 1, 0.2);
    EXPECT(bt_add(U8(200), U8(100)), BT_I32, "[1]", 300);
    EXPECT(bt_div(I32(1, 3), I32(2, 2)), BT_F32, "[2]", 0.5, 1.5);
    EXPECT(bt_add(F32(1), F64(2)), BT_F64, "[1]", 3);
    EXPECT(bt_add(I32(1), F32(2)), BT_F32, "[1]", 3);
    EXPECT(bt_add(I32(1), I64(2)), BT_I64, "[1]", 3);
    EXPECT(bt_sqrt(I32(4)), BT_F32, "[1]", 2);
    EXPECT(bt_neg(I32(4)), BT_I32, "[1]", -4);
    EXPECT(bt_add(1, 2), BT_I64, "[]", 3);
    EXPECT(bt_add(1, 2.5), BT_F32, "[]", 3.5);
    EXPECT(bt_less(F32(1, 2, 3), 2), BT_BOOL, "[3]", 1, 0, 0);
    EXPECT(bt_mul(bt_greater(F32(1, 2, 3), 2), F32(5, 6, 7)), BT_F32, "[3]", 0, 0, 7);
    EXPECT(bt_sub(1, bt_equal(I32(1, 2), 2)), BT_F32, "[2]", 1, 0);
    EXPECT(bt_sum(bt_greater(F32(1, 2, 3), 1.5)), BT_F32, "[]", 2);
    EXPECT(bt_mean(I32(1, 2)), BT_F32, "[]", 1.5);
    EXPECT(bt_where(bt_less(I32(1, 2), 2), I32(5, 6), 0), BT_I32, "[2]", 5, 0);
    EXPECT(bt_where(bt_less(I32(1, 2), 2), F64(5, 6), 0.1), BT_F64, "[2]", 5, 0.1);
    EXPECT(bt_constant(BT_ARRAY(((double[]){7}))), BT_F64, "[]", 7);
    int64_t large = (INT64_C(1) << 62) + 1;
    bt_tensor *kept = bt_add(I64(0), large);
    ck_assert_int_eq(((const int64_t *)kept->node->in[1]->node->in[0]->node->attr)[0], large);
}
END_TEST

START_TEST(test_elementwise)
{
    EXPECT(bt_abs(F32(-1, 2)), BT_F32, "[2]", 1, 2);
    EXPECT(bt_sign(F32(-3, 0, 2)), BT_F32, "[3]", -1, 0, 1);
    EXPECT(bt_square(F32(-3, 2)), BT_F32, "[2]", 9, 4);
    EXPECT(bt_exp(F32(0, 1)), BT_F32, "[2]", 1, 2.718281828459045);
    EXPECT(bt_log(F32(1, 2)), BT_F32, "[2]", 0, 0.6931471805599453);
    EXPECT(bt_log1p(F64(1e-12)), BT_F64, "[1]", 1e-12);
    EXPECT(bt_sin(F32(1)), BT_F32, "[1]", 0.8414709848078965);
    EXPECT(bt_cos(F32(1)), BT_F32, "[1]", 0.5403023058681398);
    EXPECT(bt_tanh(F32(1)), BT_F32, "[1]", 0.7615941559557649);
    EXPECT(bt_sigmoid(F32(-1, 100)), BT_F32, "[2]", 0.2689414213699951, 1);
    EXPECT(bt_softplus(F64(-1, 0, 1000)), BT_F64, "[3]", 0.31326168751822286, 0.6931471805599453, 1000);
    EXPECT(bt_relu(F32(-1, 0, 2)), BT_F32, "[3]", 0, 0, 2);
    EXPECT(bt_gelu(F64(-1, 0, 2)), BT_F64, "[3]", -0.15865525393145707, 0, 1.9544997361036416);
    EXPECT(bt_pow(F32(2, 3), F32(3, 0.5)), BT_F32, "[2]", 8, 1.7320508075688772);
    EXPECT(bt_pow(F32(-3), 2), BT_F32, "[1]", 9);
    EXPECT(bt_minimum(F32(1, 5), 2), BT_F32, "[2]", 1, 2);
    EXPECT(bt_maximum(F32(1, 5), 2), BT_F32, "[2]", 2, 5);
    EXPECT(bt_clamp(F32(-5, 0.5, 5), -1, 1), BT_F32, "[3]", -1, 0.5, 1);
    EXPECT(bt_floor(F32(-0.5, 1.5)), BT_F32, "[2]", -1, 1);
    EXPECT(bt_step_positive(F32(-0.5, 0, 1.5)), BT_F32, "[3]", 0, 0, 1);
    EXPECT(bt_isfinite(F32(INFINITY, 0)), BT_BOOL, "[2]", 0, 1);
    EXPECT(bt_zeros_like(F64(1, 2)), BT_F64, "[2]", 0, 0);
    EXPECT(bt_full_like(F32(1), 0.25), BT_F32, "[1]", 0.25);
}
END_TEST

START_TEST(test_broadcasting)
{
    EXPECT(bt_add(SHAPE(2, 1), SHAPE(3)), BT_F32, "[2, 3]", 0, 1, 2, 1, 2, 3);
    EXPECT(bt_mul(SHAPE(2, 3), bt_constant(BT_ARRAY(((float[]){2})))), BT_F32, "[2, 3]", 0, 2, 4, 6, 8, 10);
    EXPECT(bt_where(bt_less(SHAPE(3), 1), SHAPE(2, 1), 9), BT_F32, "[2, 3]", 0, 9, 9, 1, 9, 9);
    EXPECT(bt_sum_like(SHAPE(2, 3), SHAPE(3)), BT_F32, "[3]", 3, 5, 7);
    EXPECT(bt_sum_like(SHAPE(2, 3), SHAPE(2, 1)), BT_F32, "[2, 1]", 3, 12);
    EXPECT(bt_sum_like(SHAPE(2, 2, 3), SHAPE(1, 3)), BT_F32, "[1, 3]", 18, 22, 26);
    EXPECT(bt_broadcast_like(SHAPE(3), SHAPE(2, 3)), BT_F32, "[2, 3]", 0, 1, 2, 0, 1, 2);
    MISTAKE(bt_mul(SHAPE(4, 10), SHAPE(4)), "mul: shapes [4, 10] and [4] do not match: counted from the last, each "
                                            "pair of axes must be equal, or one of them 1");
    int64_t nodes = graph->node_count;
    bt_tensor *x = F32(1, 2);
    (void)bt_add(x, x); /* nothing to broadcast, nothing to cast */
    ck_assert_int_eq(graph->node_count - nodes, 2);
    (void)bt_mul(0.5, x); /* a constant, broadcast, times x */
    ck_assert_int_eq(graph->node_count - nodes, 5);
}
END_TEST

START_TEST(test_reductions)
{
    bt_tensor *x = SHAPE(2, 3, 2);
    EXPECT(bt_sum(x), BT_F32, "[]", 66);
    EXPECT(bt_sum(x, 1), BT_F32, "[2, 2]", 6, 9, 24, 27);
    EXPECT(bt_sum(x, 0, -1), BT_F32, "[3]", 14, 22, 30);
    EXPECT(bt_sum(x, -1, BT_KEEP), BT_F32, "[2, 3, 1]", 1, 5, 9, 13, 17, 21);
    EXPECT(bt_sum(x, BT_KEEP), BT_F32, "[1, 1, 1]", 66);
    EXPECT(bt_mean(x, 0, 1), BT_F32, "[2]", 5, 6);
    EXPECT(bt_max(x, 0, 2), BT_F32, "[3]", 7, 9, 11);
    EXPECT(bt_max(x), BT_F32, "[]", 11);
    EXPECT(bt_argmax(SHAPE(2, 3), -1), BT_I32, "[2]", 2, 2);
    EXPECT(bt_argmax(F32(3, 5, 5), 0), BT_I32, "[]", 1);
    EXPECT(bt_norm_square(F32(3, 4)), BT_F32, "[]", 25);
    EXPECT(bt_sum(bt_constant(BT_ARRAY(((float[]){2})))), BT_F32, "[]", 2);
    MISTAKE(bt_sum(SHAPE(2, 3), 2), "sum: axis 2 of [2, 3], which has 2 axes");
    MISTAKE(bt_sum(SHAPE(2, 3), 1, -1), "sum: axis 1 is listed twice");
    MISTAKE(bt_max(SHAPE(2, 0), 1), "max: [2, 0] has no elements along axis 1, so there is no largest");
    MISTAKE(bt_mean(SHAPE(0, 3), 0), "mean: [0, 3] has no elements along the axes, so there is no mean");
    MISTAKE(bt_argmax(SHAPE(2, 3), 5), "argmax: axis 5 of [2, 3], which has 2 axes");
}
END_TEST

START_TEST(test_shapes)
{
    bt_tensor *x = SHAPE(2, 3);
    EXPECT(bt_reshape(x, 3, -1), BT_F32, "[3, 2]", 0, 1, 2, 3, 4, 5);
    EXPECT(bt_reshape(x, -1), BT_F32, "[6]", 0, 1, 2, 3, 4, 5);
    EXPECT(bt_reshape(F32(4)), BT_F32, "[]", 4);
    EXPECT(bt_permute(x, 1, 0), BT_F32, "[3, 2]", 0, 3, 1, 4, 2, 5);
    EXPECT(bt_permute(x, -1, -2), BT_F32, "[3, 2]", 0, 3, 1, 4, 2, 5);
    EXPECT(bt_transpose(x), BT_F32, "[3, 2]", 0, 3, 1, 4, 2, 5);
    EXPECT(bt_unsqueeze(F32(1, 2), 0), BT_F32, "[1, 2]", 1, 2);
    EXPECT(bt_unsqueeze(F32(1, 2), -1), BT_F32, "[2, 1]", 1, 2);
    EXPECT(bt_squeeze(bt_unsqueeze(F32(1, 2), 1), -1), BT_F32, "[2]", 1, 2);
    ck_assert_ptr_eq(bt_reshape(x, 2, 3), x);
    ck_assert_ptr_eq(bt_permute(x, 0, 1), x);
    ck_assert_int_eq(bt_rank(x), 2);
    ck_assert_int_eq(bt_dim(x, -1), 3);
    MISTAKE(bt_reshape(SHAPE(2, 3), 4, -1),
            "reshape: the 6 elements of [2, 3] are not a multiple of 4, so -1 has no size");
    MISTAKE(bt_reshape(SHAPE(2, 3), 4), "reshape: [2, 3] has 6 elements, but [4] has 4");
    MISTAKE(bt_reshape(SHAPE(2, 3), -1, -1), "reshape: -1, for the rest, is given twice");
    MISTAKE(bt_reshape(SHAPE(2, 3), -2), "reshape: the size -2 of axis 0");
    MISTAKE(bt_reshape(SHAPE(1), 1, 1, 1, 1, 1, 1, 1, 1, 1), "reshape: more than 8 sizes");
    MISTAKE(bt_permute(SHAPE(2, 3), 0, 0), "permute: each of the 2 axes of [2, 3] must be listed once");
    MISTAKE(bt_permute(SHAPE(2, 3), 1), "permute: each of the 2 axes of [2, 3] must be listed once");
    MISTAKE(bt_squeeze(SHAPE(2, 3), 1), "squeeze: axis 1 of [2, 3] has size 3, must have 1");
    MISTAKE(bt_unsqueeze(SHAPE(2, 3), 4), "unsqueeze: axis 4 cannot be inserted into [2, 3]");
    MISTAKE(bt_transpose(F32(1)), "transpose: a tensor of 1 axes, must have at least 2");
    ck_assert_int_eq(bt_dim(SHAPE(2, 3), 2), 1);
    ck_assert_str_eq(graph->message, "bt_dim: axis 2 of [2, 3], which has 2 axes");
}
END_TEST

START_TEST(test_parts)
{
    bt_tensor *x = SHAPE(2, 4);
    EXPECT(bt_slice(x, 1, 1, 3), BT_F32, "[2, 2]", 1, 2, 5, 6);
    EXPECT(bt_slice(x, -1, 2, BT_REST), BT_F32, "[2, 2]", 2, 3, 6, 7);
    EXPECT(bt_slice(x, 1, -1, BT_REST), BT_F32, "[2, 1]", 3, 7);
    EXPECT(bt_slice(x, 1, 0, -3), BT_F32, "[2, 1]", 0, 4);
    ck_assert_ptr_eq(bt_slice(x, 1, 0, 4), x);
    EXPECT(bt_at(x, 1), BT_F32, "[4]", 4, 5, 6, 7);
    EXPECT(bt_at(x, 1, 2), BT_F32, "[]", 6);
    EXPECT(bt_at(x, -1, -1), BT_F32, "[]", 7);
    EXPECT(bt_concat(0, F32(1, 2), F32(3)), BT_F32, "[3]", 1, 2, 3);
    EXPECT(bt_concat(-1, x, bt_unsqueeze(F32(8, 9), 1)), BT_F32, "[2, 5]", 0, 1, 2, 3, 8, 4, 5, 6, 7, 9);
    EXPECT(bt_concat(0, I32(1), F64(2.5)), BT_F64, "[2]", 1, 2.5);
    EXPECT(bt_pad_axis(F32(1, 2), 0, 1, 4), BT_F32, "[4]", 0, 1, 2, 0);
    EXPECT(bt_gather(x, I32(1, 0, 1)), BT_F32, "[3, 4]", 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
    EXPECT(bt_gather(F32(10, 20, 30), bt_reshape(U8(2, 1, 0, 0), 2, 2)), BT_F32, "[2, 2]", 30, 20, 10, 10);
    EXPECT(bt_scatter_add(I32(1, 1), F32(2, 3), 3), BT_F32, "[3]", 0, 5, 0);
    MISTAKE(bt_slice(SHAPE(2, 4), 1, 3, 5), "slice: from 3 to 5 along axis 1 of [2, 4], whose size is 4");
    MISTAKE(bt_slice(SHAPE(2, 4), 1, 5, BT_REST), "slice: from 5 to the end along axis 1 of [2, 4], whose size is 4");
    MISTAKE(bt_at(SHAPE(2, 4), 2), "at: index 2 along axis 0 of [2, 4], whose size is 2");
    MISTAKE(bt_at(SHAPE(2, 4), 0, 0, 0), "at: more indices than the 2 axes of [2, 4]");
    MISTAKE(bt_concat(0, SHAPE(2, 4), SHAPE(2, 3)),
            "concat: a part is f32 [2, 3], must be f32 [2, 4], as the first, but for the joined axis");
    MISTAKE(bt_concat(2, SHAPE(2, 4), SHAPE(2, 4)), "concat: axis 2 of [2, 4], which has 2 axes");
    MISTAKE(bt_concat(0, NULL), "concat: there are no parts, or the first is NULL");
    MISTAKE(bt_gather(SHAPE(2, 4), F32(1)), "gather: the index is f32, must be of integers");
}
END_TEST

START_TEST(test_matmul)
{
    bt_tensor *a = SHAPE(2, 3), *b = SHAPE(3, 2);
    EXPECT(bt_matmul(a, b), BT_F32, "[2, 2]", 10, 13, 28, 40);
    EXPECT(bt_matmul(a, F32(1, 0, 2)), BT_F32, "[2]", 4, 13);
    EXPECT(bt_matmul(F32(1, 0, 2), b), BT_F32, "[2]", 8, 11);
    EXPECT(bt_matmul(F32(1, 2), F32(3, 4)), BT_F32, "[]", 11);
    EXPECT(bt_matmul(SHAPE(2, 1, 3), b), BT_F32, "[2, 1, 2]", 10, 13, 28, 40);
    EXPECT(bt_matmul(SHAPE(2, 2, 2), SHAPE(2, 2, 1)), BT_F32, "[2, 2, 1]", 1, 3, 23, 33);
    EXPECT(bt_matmul(SHAPE(2, 2, 2), F32(1, 1)), BT_F32, "[2, 2]", 1, 5, 9, 13);
    EXPECT(bt_matmul(SHAPE(1, 2), SHAPE(2, 2, 1)), BT_F32, "[2, 1, 1]", 1, 3);
    EXPECT(bt_matmul(SHAPE(2, 1, 1, 2), SHAPE(2, 2, 1)), BT_F32, "[2, 2, 1, 1]", 1, 3, 3, 13);
    EXPECT(bt_matmul(SHAPE(2, 3), I32(1, 1, 1)), BT_F32, "[2]", 3, 12);
    int64_t nodes = graph->node_count;
    (void)bt_matmul(a, b);
    ck_assert_int_eq(graph->node_count - nodes, 1);
    MISTAKE(bt_matmul(SHAPE(10, 4), SHAPE(5, 3)), "matmul: [10, 4] times [5, 3]: the inner sizes 4 and 5 differ");
    MISTAKE(bt_matmul(SHAPE(2, 2, 2), SHAPE(3, 2, 1)),
            "matmul: [2, 2, 2] times [3, 2, 1]: the leading sizes 2 and 3 do not match");
    MISTAKE(bt_matmul(bt_constant(BT_ARRAY(((float[]){2}))), F32(1)),
            "matmul: [] times [1]: a scalar is not a matrix; use bt_mul");
}
END_TEST

START_TEST(test_classification)
{
    bt_tensor *x = bt_reshape(F64(0, 1, 2, 3, 0, 0), 2, 3);
    EXPECT(bt_softmax(x, -1), BT_F64, "[2, 3]", 0.09003057317038046, 0.24472847105479764, 0.6652409557748218,
           0.9094429985127419, 0.0452785007436291, 0.0452785007436291);
    EXPECT(bt_log_softmax(x, 1), BT_F64, "[2, 3]", -2.40760596444438, -1.4076059644443801, -0.4076059644443802,
           -0.09492296091220036, -3.0949229609122004, -3.0949229609122004);
    EXPECT(bt_cross_entropy(x, U8(2, 1)), BT_F64, "[2]", 0.4076059644443802, 3.0949229609122004);
    EXPECT(bt_binary_cross_entropy(F64(0.5, -2), I32(1, 0)), BT_F64, "[2]", 0.47407698418010663, 0.1269280110429726);
    EXPECT(bt_accuracy(x, I64(2, 1)), BT_F64, "[2]", 1, 0);
    EXPECT(bt_linear(F64(1, 2), bt_reshape(F64(1, 1, 1, -1), 2, 2), F64(0.5, 0.5), true), BT_F64, "[2]", 3.5, 0);
    EXPECT(bt_linear(SHAPE(2, 1, 2), bt_reshape(F32(1, -1), 1, 2), NULL, false), BT_F32, "[2, 1, 1]", -1, -1);
    EXPECT(bt_layer_norm(bt_reshape(F64(1, 3), 1, 2), F64(1, 2), F64(0, 1), 0), BT_F64, "[1, 2]", -1, 3);
    MISTAKE(bt_cross_entropy(SHAPE(4, 3), I32(1, 2)),
            "cross_entropy: logits [4, 3] with label [2], must be [n, classes] with [n]");
    MISTAKE(bt_cross_entropy(SHAPE(4, 3), F32(1, 2, 0, 0)), "cross_entropy: the index is f32, must be of integers");
    MISTAKE(bt_binary_cross_entropy(SHAPE(4, 1), F32(1, 0, 0, 0)),
            "binary_cross_entropy: the second operand is f32 [4], must be f32 [4, 1], as the first operand");
    MISTAKE(bt_softmax(SHAPE(4, 3), 2), "softmax: axis 2 of [4, 3], which has 2 axes");
    MISTAKE(bt_accuracy(SHAPE(4, 3), I32(1)), "accuracy: logits [4, 3] with label [1], must be [n, classes] with [n]");
    MISTAKE(bt_linear(SHAPE(2, 3), SHAPE(4, 5), NULL, false),
            "linear: x [2, 3] with weight [4, 5], must be [..., in] with [out, in]");
    MISTAKE(bt_where(F32(1), 1, 2),
            "where: the condition is f32, must be bool: a comparison, such as bt_greater(x, 0)");
    MISTAKE(bt_layer_norm(SHAPE(2, 3), F32(1), F32(1), 0),
            "layer_norm: scale is f32 [1], must be f32 [3], as the last axis of x");
}
END_TEST

START_TEST(test_random)
{
    bt_var record = {.name = "record", .owner = "", .dtype = BT_I64};
    int64_t zero = 0;
    record.data = (char *)&zero;
    MISTAKE(bt_normal_like(F32(1, 2)),
            "normal_like: there are no random numbers here: they belong to a problem's batch");
    MISTAKE(bt_dropout(F32(1), 1.5), "dropout: probability 1.5, must be from 0 to 1");
    trace.record = &record;
    trace.seed = 5;
    bt_tensor *x = SHAPE(20, 20), *first = bt_normal_like(x), *second = bt_normal_like(x), *kept = bt_dropout(x, 0.25);
    ck_assert_ptr_eq(bt_dropout(x, 0), x);
    EXPECT(bt_dropout(F32(1, 2), 1), BT_F32, "[2]", 0, 0);
    trace.mode = BT_VALID;
    ck_assert_ptr_eq(bt_dropout(x, 0.25), x);
    interpreter *in = interpreter_new(graph);
    interpreter_run(in);
    double mean = 0, square = 0, dropped = 0;
    for (int i = 0; i < 400; i++) {
        double a = interpreter_value(in, first)[i], b = interpreter_value(in, second)[i];
        ck_assert(a != b);
        mean += a / 400;
        square += a * a / 400;
        double y = interpreter_value(in, kept)[i];
        dropped += y == 0 && i > 0;
        ck_assert(y == 0 || fabs(y - i / 0.75) < 1e-4);
    }
    ck_assert(fabs(mean) < 0.2 && fabs(square - 1) < 0.3 && fabs(dropped - 100) < 40);
    interpreter_free(in);
}
END_TEST

START_TEST(test_batch_axis)
{
    bt_tensor *x = SHAPE(4, 3), *w = SHAPE(3, 2), *y;
    x->batch_axis = 0;
    ck_assert_int_eq(bt_exp(x)->batch_axis, 0);
    ck_assert_int_eq(bt_mul(2, x)->batch_axis, 0);
    ck_assert_int_eq(bt_sum(x, 1)->batch_axis, 0);
    ck_assert_int_eq(bt_sum(x, 1, BT_KEEP)->batch_axis, 0);
    ck_assert_int_eq(bt_sum(x, 0)->batch_axis, -1);
    ck_assert_int_eq(bt_mean(x)->batch_axis, -1);
    ck_assert_int_eq(bt_permute(x, 1, 0)->batch_axis, 1);
    ck_assert_int_eq(bt_sum(bt_permute(x, 1, 0), 0)->batch_axis, 0);
    ck_assert_int_eq(bt_reshape(x, 4, 3, 1)->batch_axis, 0);
    ck_assert_int_eq(bt_reshape(x, 12)->batch_axis, 0);
    ck_assert_int_eq(bt_reshape(x, 2, 6)->batch_axis, -1);
    ck_assert_int_eq(bt_unsqueeze(x, 0)->batch_axis, 1);
    ck_assert_int_eq(bt_matmul(x, w)->batch_axis, 0);
    y = bt_matmul(x, w);
    ck_assert_int_eq(bt_dot(bt_transpose(x), y)->batch_axis, -1); /* a weight's gradient: summed over the batch */
    ck_assert_int_eq(bt_dot(w, bt_transpose(y))->batch_axis, 1);
    ck_assert_int_eq(bt_linear(x, bt_transpose(w), F32(1, 1), true)->batch_axis, 0);
    ck_assert_int_eq(bt_cross_entropy(x, I32(0, 0, 0, 0))->batch_axis, 0);
    ck_assert_int_eq(bt_softmax(x, 1)->batch_axis, 0);
    ck_assert_int_eq(bt_slice(x, 0, 1, 2)->batch_axis, -1);
    ck_assert_int_eq(bt_slice(x, 1, 1, 2)->batch_axis, 0);
    ck_assert_int_eq(bt_concat(1, x, x)->batch_axis, 0);
    ck_assert_int_eq(bt_zeros_like(x)->batch_axis, 0);
    ck_assert_int_eq(bt_argmax(x, 1)->batch_axis, 0);
    ck_assert_int_eq(bt_norm_square(x)->batch_axis, -1);
    y = I32(0, 1, 2, 0, 1);
    y->batch_axis = 0;
    ck_assert_int_eq(bt_gather(w, y)->batch_axis, 0);
}
END_TEST

START_TEST(test_examples_are_not_paired)
{
    bt_tensor *column = SHAPE(4, 1), *flat = SHAPE(4), *single = SHAPE(1, 1), *alone = SHAPE(1);
    column->batch_axis = flat->batch_axis = single->batch_axis = alone->batch_axis = 0;
    ck_assert(!bt_poisoned(bt_sub(column, bt_unsqueeze(flat, 0)))); /* intended */
    ck_assert(!bt_poisoned(bt_sub(column, bt_unsqueeze(flat, 1))));
    ck_assert(!bt_poisoned(bt_sub(bt_squeeze(column, 1), flat)));
    ck_assert(!bt_poisoned(bt_sub(column, SHAPE(4)))); /* a constant row, not examples */
    ck_assert(!bt_poisoned(bt_sub(single, alone)));
    MISTAKE(bt_sub(column, flat),
            "sub: shapes [4, 1] and [4] would pair every example of the batch with every other one; bt_squeeze or "
            "bt_reshape one of them or, if you want that, bt_unsqueeze the one with fewer axes");
}
END_TEST

START_TEST(test_nothing_crashes)
{
    bt_tensor *x = F32(1, 2), *null = NULL, *poison = graph->poison;
    bt_tensor *mistakes[] = {null, poison};
    for (int i = 0; i < BT_COUNT_OF(mistakes); i++) {
        bt_tensor *m = mistakes[i];
        bt_tensor *results[] = {bt_neg(m),
                                bt_exp(m),
                                bt_softplus(m),
                                bt_gelu(m),
                                bt_add(m, x),
                                bt_add(x, m),
                                bt_mul(2, m),
                                bt_pow(m, 2),
                                bt_less(m, 1),
                                bt_clamp(m, 0, 1),
                                bt_clamp(x, m, 1),
                                bt_where(m, x, x),
                                bt_where(bt_less(x, 1), m, 0),
                                bt_sum(m),
                                bt_mean(m, 0),
                                bt_max(m),
                                bt_argmax(m, 0),
                                bt_reshape(m, 2),
                                bt_permute(m, 0),
                                bt_squeeze(m, 0),
                                bt_unsqueeze(m, 0),
                                bt_slice(m, 0, 0, 1),
                                bt_gather(m, I32(0)),
                                bt_gather(x, m),
                                bt_at(m, 0),
                                bt_concat(0, x, m, x),
                                bt_matmul(m, x),
                                bt_matmul(x, m),
                                bt_softmax(m, 0),
                                bt_log_softmax(m, 0),
                                bt_cross_entropy(m, x),
                                bt_cross_entropy(x, m),
                                bt_binary_cross_entropy(m, x),
                                bt_accuracy(m, x),
                                bt_accuracy(bt_reshape(x, 1, 2), m),
                                bt_detach(m),
                                bt_print(m, NULL),
                                bt_zeros_like(m),
                                bt_normal_like(m),
                                bt_dropout(m, 0.5),
                                bt_linear(m, x, x, false),
                                bt_layer_norm(m, x, x, 1),
                                bt_norm_square(m),
                                bt_stop(m),
                                bt_copy(m),
                                bt_transpose(m),
                                bt_dot(m, x),
                                bt_scatter_add(m, x, 1),
                                bt_scatter_add(I32(0, 0), m, 1),
                                bt_broadcast_like(m, x),
                                bt_sum_like(x, m),
                                bt_pad_axis(m, 0, 0, 1),
                                bt_isfinite(m),
                                bt_as(m, BT_F64),
                                bt_alias(m)};
        for (int r = 0; r < BT_COUNT_OF(results); r++) /* a NULL ends bt_concat's list, so in this case it is not the
                                                        * first argument */
            ck_assert_msg(bt_poisoned(results[r]) || (!m && results[r]->node->op == &bt_op_copy) || results[r] == x,
                          "result %d of mistake %d is no poison", r, i);
        bt_check(m, "message");
        ck_assert_int_eq(bt_rank(m), 0);
        ck_assert_int_eq(bt_dim(m, 0), 1);
    }
    ck_assert_int_ne(graph->status, BT_OK);
    bt_check(x, NULL);
}
END_TEST

START_TEST(test_outside_of_a_trace)
{
    end();
    ck_assert(bt_poisoned(bt_operand_number_(1)));
    ck_assert(bt_poisoned(bt_constant(BT_ARRAY(((float[]){2})))));
    ck_assert(strstr(bt_error(), "inside a traced callback") != NULL);
    ck_assert(bt_poisoned(bt_concat(0, NULL)));
    bt_error_clear();
    begin();
}
END_TEST

START_TEST(test_first_mistake_stays)
{
    const char *before = bt_trace_push("classifier");
    bt_trace_push("layer2");
    bt_tensor *x = bt_matmul(SHAPE(10, 4), SHAPE(5, 3));
    bt_tensor *y = bt_add(bt_sum(x), bt_reshape(SHAPE(3), 5));
    bt_trace_pop(before);
    MISTAKE(y, "classifier.layer2: matmul: [10, 4] times [5, 3]: the inner sizes 4 and 5 differ");
    bt_trace_push("net");
    y = bt_reshape(SHAPE(3), 5);
    bt_trace_pop("");
    MISTAKE(y, "net: reshape: [3] has 3 elements, but [5] has 5");
}
END_TEST

/* ---- algebraic simplifications ---- */

static void expect_simpler(int line, bt_tensor *y, const bt_op *op)
{
    ck_assert_msg(!bt_poisoned(y), "line %d: %s", line, graph->message);
    bt_graph_output(graph, y);
    interpreter *in = interpreter_new(graph);
    interpreter_run(in);
    bt_graph *simple = bt_simplify(graph, false);
    ck_assert_ptr_nonnull(simple);
    interpreter *other = interpreter_new(simple);
    interpreter_run(other);
    const bt_tensor *z = simple->outputs[0];
    ck_assert_msg(z->node->op == op, "line %d: %s is left", line, z->node->op->name);
    ck_assert(z->dtype == y->dtype && bt_tensor_count(z) == bt_tensor_count(y) && z->rank == y->rank);
    for (int64_t i = 0; i < bt_tensor_count(y); i++)
        ck_assert_msg(interpreter_value(in, y)[i] == interpreter_value(other, z)[i], "line %d: element %lld", line,
                      (long long)i);
    interpreter_free(in);
    interpreter_free(other);
    bt_graph_free(simple);
    end();
    begin();
}

#define SIMPLER(y, name) expect_simpler(__LINE__, (y), &bt_op_##name)

START_TEST(test_algebra)
{
    static float values[] = {1, -2, 3, 4, 5, 6};
    static bt_var var = {.name = "x", .owner = "", .dtype = BT_F32, .rank = 2, .dims = {2, 3}, .data = (char *)values};
    static bt_var single = {.name = "s", .owner = "", .dtype = BT_F32, .data = (char *)values};
#define READ bt_graph_read(graph, &var)
#define ONE  bt_graph_read(graph, &single)
    SIMPLER(bt_mul(READ, 1), read);
    SIMPLER(bt_mul(1.0, READ), read);
    SIMPLER(bt_mul(READ, -1), neg);
    SIMPLER(bt_add(READ, 0), read);
    SIMPLER(bt_add(0, READ), read);
    SIMPLER(bt_sub(READ, 0), read);
    SIMPLER(bt_sub(0, READ), neg);
    SIMPLER(bt_div(READ, 1), read);
    SIMPLER((bt_pow)(READ, bt_operand_number_(1)), read);
    SIMPLER((bt_pow)(READ, bt_full_like(ONE, 2)), square);
    SIMPLER(bt_neg(bt_neg(READ)), read);
    SIMPLER(bt_mul(READ, bt_sub(3, 2)), mul); /* integers: not folded */
    SIMPLER(bt_mul(READ, bt_sub(3.0, 2.0)), read);
    SIMPLER(bt_mul(READ, bt_div(bt_full_like(READ, 3), 3)), read);
    SIMPLER(bt_reshape(bt_reshape(READ, 6), 2, 3), read);
    SIMPLER(bt_reshape(bt_reshape(READ, 6), 3, 2), reshape);
    SIMPLER(bt_transpose(bt_transpose(READ)), read);
    SIMPLER(bt_permute(bt_permute(bt_reshape(READ, 1, 2, 3), 1, 2, 0), 1, 0, 2), permute);
    SIMPLER(bt_broadcast_like(bt_broadcast_like(ONE, bt_full_like(bt_sum(READ, 0), 1)), READ), broadcast);
    SIMPLER(bt_transpose(bt_broadcast_like(ONE, READ)), broadcast);
    SIMPLER(bt_reshape(bt_broadcast_like(ONE, READ), 6), broadcast);
    SIMPLER(bt_sum(bt_broadcast_like(ONE, READ), 0), broadcast);
    SIMPLER(bt_sum(bt_broadcast_like(ONE, READ)), mul);
    SIMPLER(bt_slice(bt_pad_axis(READ, 0, 1, 4), 0, 1, 3), read);
    SIMPLER(bt_slice(bt_pad_axis(READ, 0, 1, 4), 0, 0, 2), slice);
    SIMPLER(bt_slice(bt_concat(1, bt_neg(READ), READ), 1, 3, 6), read);
    SIMPLER(bt_slice(bt_concat(1, bt_neg(READ), READ), 1, 2, 5), slice);
    SIMPLER(bt_where(bt_less(READ, 2), READ, READ), read);
    SIMPLER(bt_exp(bt_full_like(READ, 0)), broadcast);
}
END_TEST

START_TEST(test_identities_stay_until_the_end)
{
    bt_graph_output(graph, bt_exp(bt_detach(bt_stop(bt_alias(F32(1, 2))))));
    bt_graph *kept = bt_simplify(graph, false), *final = bt_simplify(graph, true);
    ck_assert_int_eq(kept->node_count, 5);
    ck_assert_int_eq(final->node_count, 2);
    bt_graph_free(kept);
    bt_graph_free(final);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops: builders");
    TCase *builders = tcase_create("builders");
    tcase_add_checked_fixture(builders, begin, end);
    tcase_add_test(builders, test_dtypes);
    tcase_add_test(builders, test_elementwise);
    tcase_add_test(builders, test_broadcasting);
    tcase_add_test(builders, test_reductions);
    tcase_add_test(builders, test_shapes);
    tcase_add_test(builders, test_parts);
    tcase_add_test(builders, test_matmul);
    tcase_add_test(builders, test_classification);
    tcase_add_test(builders, test_random);
    tcase_add_test(builders, test_batch_axis);
    tcase_add_test(builders, test_examples_are_not_paired);
    tcase_add_test(builders, test_nothing_crashes);
    tcase_add_test(builders, test_outside_of_a_trace);
    tcase_add_test(builders, test_first_mistake_stays);
    tcase_add_test(builders, test_algebra);
    tcase_add_test(builders, test_identities_stay_until_the_end);
    suite_add_tcase(suite, builders);
    return run_suite(suite);
}
