/* Derivatives with known right answers: conventions at ties and kinks, and the closed forms of the optimisers' updates.
 */
#include "interpret.h"
#include "test_trace.h"

#include "graph/variable.h"
#include "ops/ops.h"
#include "support/suite.h"
#include "transform/grad.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>


static void begin(void) { trace_open(BT_F64); }

static void end(void) { trace_close(); }

#define VECTOR(...) bt_constant(BT_ARRAY(((double[]){__VA_ARGS__}), sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

static bt_tensor *number(double value) { return bt_number(value, BT_F64); }

static bt_tensor *truth(bool value) { return bt_number(value, BT_BOOL); }

static void expect(int line, bt_tensor *x, const double *expected, int count)
{
    ck_assert_msg(!bt_poisoned(x), "line %d: %s", line, graph->message);
    ck_assert_int_eq(bt_tensor_count(x), count);
    interpreter *in = interpreter_new(graph);
    interpreter_run(in);
    for (int i = 0; i < count; i++) {
        double found = interpreter_value(in, x)[i];
        ck_assert_msg(fabs(found - expected[i]) <= 1e-12 * fmax(1e-8, fabs(expected[i])),
                      "line %d: [%d] is %.15g, expected %.15g", line, i, found, expected[i]);
    }
    interpreter_free(in);
}

#define EXPECT(x, ...)                                                                                                 \
    expect(__LINE__, (x), (const double[]){__VA_ARGS__}, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))
#define GRAD(y, x) bt_grad(bt_sum(y), (x))

START_TEST(test_kinks)
{
    bt_tensor *x = VECTOR(-2, 0, 3);
    EXPECT(GRAD(bt_abs(x), x), -1, 0, 1);
    EXPECT(GRAD(bt_relu(x), x), 0, 0, 1);
    EXPECT(GRAD(bt_sign(x), x), 0, 0, 0);
    EXPECT(GRAD(bt_softplus(x), x), 0.11920292202211755, 0.5, 0.9525741268224334);
    EXPECT(GRAD(GRAD(bt_softplus(x), x), x), 0.10499358540350662, 0.25, 0.04517665973091213);
    EXPECT(GRAD(bt_maximum(x, 0), x), 0, 0.5, 1);
    EXPECT(GRAD(bt_minimum(x, 0), x), 1, 0.5, 0);
    EXPECT(GRAD(bt_clamp(x, -1, 3), x), 0, 1, 0.5);
    EXPECT(GRAD(bt_max(VECTOR(1, 2)), x), 0, 0, 0); /* does not depend on x */
    x = VECTOR(1, 4, 4, 2, 4);
    EXPECT(bt_grad(bt_max(x), x), 0, 1. / 3, 1. / 3, 0, 1. / 3);
    x = VECTOR(0, 0, 0, 0, 2);
    bt_tensor *exponent = VECTOR(0, 1, 2, 3, 0);
    EXPECT(GRAD(bt_pow(x, exponent), x), 0, 1, 0, 0, 0);
    EXPECT(GRAD(GRAD(bt_pow(x, exponent), x), x), 0, 0, 2, 0, 0);
    EXPECT(GRAD(GRAD(GRAD(bt_pow(x, exponent), x), x), x), 0, 0, 0, 6, 0);
    EXPECT(GRAD(bt_pow(x, exponent), exponent), 0, 0, 0, 0, log(2));
}
END_TEST

START_TEST(test_detach_and_friends)
{
    bt_tensor *x = VECTOR(2, 3);
    EXPECT(GRAD(bt_mul(x, bt_detach(x)), x), 2, 3);
    EXPECT(GRAD(bt_mul(x, bt_stop(x)), x), 2, 3);
    EXPECT(GRAD(bt_square(bt_print(x, "x")), x), 4, 6);
    EXPECT(GRAD(bt_square(bt_copy(x)), x), 4, 6);
    EXPECT(GRAD(bt_detach(x), x), 0, 0);
    bt_tensor *y = bt_sum(bt_mul(bt_stop(x), bt_mul(bt_detach(x), x))), *one = number(1), *result;
    bt_vjp(graph, &y, &one, 1, &x, 1, &result, true); /* through detach, not through stop */
    EXPECT(result, 8, 18);
    /* A derivative on a path not taken does not affect the result. */
    bt_tensor *positive = bt_greater(x, 2), *safe = bt_where(positive, bt_sub(x, 2), 1);
    EXPECT(GRAD(bt_where(positive, bt_sqrt(safe), 0), x), 0, 0.5);
}
END_TEST

/* torch 2.15, float64: F.cross_entropy(logits, label, ignore_index=-100, label_smoothing=s), with reduction='none', and
 * the gradient of its mean. */
START_TEST(test_cross_entropy_options)
{
    static const double smoothings[] = {0, 0.1, 1};
    static const double losses[][4] = {{0.23419613713579818, 0, 2.129734806050817, 5.132845233727576},
                                       {0.39086280380246485, 0, 2.046401472717484, 4.866178567060909},
                                       {1.800862803802465, 0, 1.2964014727174837, 2.4661785670609087}};
    static const double slopes[][12] = {
        {0.058847352955457045, 0.010750441819078001, -0.06959779477453505, 0, 0, 0, -0.2937103956790565,
         0.19625369495141926, 0.09745670072763715, 0.29186686502102926, -0.3313667498660324, 0.039499884845003205},
        {0.04773624184434593, -0.00036066929203311046, -0.04737557255231285, 0, 0, 0, -0.2714881734568343,
         0.18514258384030818, 0.08634558961652607, 0.2807557539099182, -0.3091445276438102, 0.028388773733892102},
        {-0.05226375815565406, -0.1003606692920331, 0.15262442744768714, 0, 0, 0, -0.07148817345683427,
         0.08514258384030816, -0.01365441038347395, 0.18075575390991816, -0.10914452764381018, -0.0716112262661079}};
    bt_tensor *logits = bt_reshape(VECTOR(0.5, -1.2, 2, 1.1, 0.3, -0.4, -0.7, 0.9, 0.2, 3, -2, 1), 4, 3);
    bt_tensor *label =
        bt_constant(_i % 2 ? BT_ARRAY(((int64_t[]){2, -100, 0, 1}), 4) : BT_ARRAY(((int32_t[]){2, -100, 0, 1}), 4));
    bt_cross_entropy_options options = {.ignore = -100, .smoothing = smoothings[_i / 2]};
    bt_tensor *loss = bt_cross_entropy_with(logits, label, &options), *count = bt_label_count(label, -100);
    expect(__LINE__, loss, losses[_i / 2], 4);
    expect(__LINE__, GRAD(bt_div(bt_sum(loss), count), logits), slopes[_i / 2], 12);
    ck_assert_int_eq(count->dtype, BT_I64);
    EXPECT(count, 3);
    EXPECT(bt_label_count(label, BT_NO_LABEL), 4);
    EXPECT(bt_label_count(label, (int64_t)1 << 40), 4); /* no 32-bit label has this value */
}
END_TEST

/* To third order: compared with the sum over all classes. */
START_TEST(test_smoothed_cross_entropy)
{
    bt_tensor *logits = bt_reshape(VECTOR(0.5, -1.2, 2, 1.1, 0.3, -0.4, -0.7, 0.9, 0.2, 3, -2, 1), 4, 3);
    bt_tensor *label = bt_constant(BT_ARRAY(((int32_t[]){2, 7, 0, 1}), 4)), *along = bt_sin(bt_mul(logits, 3));
    bt_tensor *target = bt_constant(BT_ARRAY(((double[]){.1, .1, .8, 0, 0, 0, .8, .1, .1, .1, .8, .1}), 4, 3));
    bt_tensor *loss = bt_cross_entropy_with(logits, label, &(bt_cross_entropy_options){.ignore = 7, .smoothing = 0.3});
    bt_tensor *sum = bt_neg(bt_sum(bt_mul(target, bt_log_softmax(logits, 1)), 1));
    for (int order = 0; order < 4; order++) {
        EXPECT(bt_sum(bt_square(bt_sub(loss, sum))), 0);
        along = bt_detach(along);
        loss = bt_mul(along, GRAD(loss, logits));
        sum = bt_mul(along, GRAD(sum, logits));
    }
}
END_TEST

START_TEST(test_gradients_by_hand)
{
    bt_tensor *logits = bt_reshape(VECTOR(0, 1, 2, 3, 0, 0), 2, 3);
    bt_tensor *label = bt_constant(BT_ARRAY(((int32_t[]){2, 1}), 2));
    EXPECT(GRAD(bt_cross_entropy(logits, label), logits), 0.09003057317038046, 0.24472847105479764, -0.3347590442251782,
           0.9094429985127419, -0.9547214992563709, 0.0452785007436291);
    bt_tensor *logit = VECTOR(0.5, -2), *target = VECTOR(1, 0);
    EXPECT(GRAD(bt_binary_cross_entropy(logit, target), logit), -0.3775406687981454, 0.11920292202211755);
    /* s - label, s (1 - s), s (1 - s) (1 - 2 s), for s = sigmoid(logit); -logit and -1 by the label */
    bt_tensor *slope = GRAD(bt_binary_cross_entropy(logit, target), logit), *curve = GRAD(slope, logit);
    EXPECT(curve, 0.2350037122015945, 0.10499358540350652);
    EXPECT(GRAD(curve, logit), -0.05755679485232076, 0.07996250105615305);
    EXPECT(GRAD(bt_binary_cross_entropy(logit, target), target), -0.5, 2);
    EXPECT(GRAD(slope, target), -1, -1);
    bt_tensor *x = VECTOR(1);
    bt_tensor *gelu_slope = GRAD(bt_gelu(x), x), *gelu_curve = GRAD(gelu_slope, x);
    EXPECT(gelu_slope, 1.083315470587684);            /* Phi(1) + phi(1) */
    EXPECT(gelu_curve, 0.2419707245191434);           /* (2 - x^2) phi(x) */
    EXPECT(GRAD(gelu_curve, x), -0.7259121735574301); /* (x^3 - 4 x) phi(x) */
    /* relu(x w^T + b): two units, the second off. */
    bt_tensor *in = bt_reshape(VECTOR(1, 2), 1, 2), *weight = bt_reshape(VECTOR(1, 1, 1, -1), 2, 2),
              *bias = VECTOR(0, 0);
    bt_tensor *out = bt_linear(in, weight, bias, true);
    EXPECT(GRAD(out, in), 1, 1);
    EXPECT(GRAD(out, weight), 1, 2, 0, 0);
    EXPECT(GRAD(out, bias), 1, 0);
    /* logistic loss: first derivative s - y, second s (1 - s) */
    bt_tensor *w = number(1), *loss = bt_softplus(bt_neg(w));
    EXPECT(bt_grad(loss, w), -0.2689414213699951);
    EXPECT(bt_grad(bt_grad(loss, w), w), 0.19661193324148185);
}
END_TEST

/* Inputs in the op's order. */
static bt_tensor *adam(bt_tensor *p, bt_tensor *g, double m, double v, double beta2, double eps, double t,
                       bool decoupled, double decay)
{
    bt_adam_attr attr = {decoupled};
    return BT_RECORD(&bt_op_adam_update, &attr, p, g, number(m), number(v), truth(true), number(1e-3), number(0.9),
                     number(beta2), number(eps), number(decay), number(t));
}

/* The first step is lr g / (|g| + eps), its derivative lr eps / (|g| + eps)^2: finite at g = 0. */
START_TEST(test_adam_first_step)
{
    const double g[] = {0, 1e-8, 1e-4}, step[] = {0, 5e-4, 9.9990000999900e-4},
                 slope[] = {1e5, 2.5e4, 9.99800029996e-4};
    for (int i = 0; i < 3; i++) {
        bt_tensor *p = number(0), *gradient = number(g[i]), *next = adam(p, gradient, 0, 0, 0.999, 1e-8, 1, false, 0);
        bt_tensor *found = bt_grad(next, gradient);
        interpreter *in = interpreter_new(graph);
        interpreter_run(in);
        ck_assert_double_eq_tol(-interpreter_value(in, next)[0], step[i], 1e-12);
        ck_assert_double_eq_tol(-interpreter_value(in, found)[0] / slope[i], 1, 1e-9);
        interpreter_free(in);
    }
}
END_TEST

START_TEST(test_adam_later_step)
{
    bt_tensor *p = number(1), *g = number(0.2), *next = adam(p, g, 0.1, 0.01, 0.999, 1e-8, 10, false, 0);
    bt_tensor *move = bt_sub(p, next);
    interpreter *in = interpreter_new(graph);
    interpreter_run(in);
    ck_assert_double_eq_tol(interpreter_value(in, move)[0], 1.68255784994389e-4, 1e-16);
    interpreter_free(in);
    bt_tensor *slope = bt_grad(bt_neg(next), g);
    in = interpreter_new(graph);
    interpreter_run(in);
    ck_assert_double_eq_tol(interpreter_value(in, slope)[0], 1.49604754025536e-4, 1e-16);
    interpreter_free(in);
}
END_TEST

/* With decay: coupled, it is added to the gradient; decoupled, the parameter shrinks by lr decay and the step is
 * Adam's. */
START_TEST(test_adam_decay)
{
    bt_tensor *p = number(2), *g = number(0.3);
    bt_tensor *coupled = adam(p, g, 0, 0, 0.999, 1e-8, 1, false, 0.1),
              *plain = adam(p, number(0.5), 0, 0, 0.999, 1e-8, 1, false, 0);
    bt_tensor *decoupled = adam(p, g, 0, 0, 0.999, 1e-8, 1, true, 0.1),
              *bare = adam(p, g, 0, 0, 0.999, 1e-8, 1, false, 0);
    EXPECT(bt_sub(coupled, plain), 0);
    EXPECT(bt_sub(bare, decoupled), 2 * 1e-3 * 0.1);
}
END_TEST

/* Momentum on a = 1: after two steps w = 0.72, dw/dw0 = 0.72, dw/dlr = -2.7, dw/dmomentum = -0.1. */
START_TEST(test_sgd_with_momentum)
{
    bt_sgd_attr attr = {0};
    bt_tensor *w0 = number(1), *lr = number(0.1), *momentum = number(0.9), *zero = number(0);
    bt_tensor *first =
        BT_RECORD(&bt_op_sgd_update, &attr, w0, w0, number(NAN), truth(true), lr, momentum, zero, zero, truth(true));
    bt_tensor *w1 = first, *m1 = &first->node->out[1];
    bt_tensor *w2 =
        BT_RECORD(&bt_op_sgd_update, &attr, w1, w1, m1, truth(true), lr, momentum, zero, zero, truth(false));
    EXPECT(w2, 0.72);
    EXPECT(bt_grad(w2, w0), 0.72);
    EXPECT(bt_grad(w2, lr), -2.7);
    EXPECT(bt_grad(w2, momentum), -0.1);
    bt_tensor *kept =
        BT_RECORD(&bt_op_sgd_update, &attr, w1, number(NAN), m1, truth(false), lr, momentum, zero, zero, truth(false));
    EXPECT(bt_sub(kept, w1), 0);
    EXPECT(bt_sub(&kept->node->out[1], m1), 0);
    EXPECT(bt_grad(kept, lr), -1); /* w1 = w0 - lr w0 */
    /* Without momentum, with decay: w - lr (w + 0.5 w). */
    EXPECT(BT_RECORD0(&bt_op_sgd_plain_update, w0, w0, truth(true), lr, number(0.5)), 0.85);
    /* Nesterov, dampening 0.5, decay 0.5: g = 1.5, m = 0.9 * 2 + 0.5 * 1.5 = 2.55, w = 1 - 0.1 (1.5 + 0.9 * 2.55) */
    bt_sgd_attr nesterov = {1};
    bt_tensor *half = number(0.5);
    EXPECT(
        BT_RECORD(&bt_op_sgd_update, &nesterov, w0, w0, number(2), truth(true), lr, momentum, half, half, truth(false)),
        0.6205);
}
END_TEST

/* The mask is the same in every pass: the derivative is 1 / (1 - p) exactly where the value was kept. */
START_TEST(test_dropout_derivative)
{
    int64_t count = 3;
    bt_var record = {.name = "record", .owner = "", .dtype = BT_I64, .data = (char *)&count};
    double ones[64];
    for (int i = 0; i < 64; i++)
        ones[i] = 1;
    trace.record = &record;
    bt_tensor *x = bt_constant(BT_ARRAY(ones, 64)), *y = bt_dropout(x, 0.5), *slope = GRAD(y, x);
    interpreter *in = interpreter_new(graph);
    interpreter_run(in);
    int kept = 0;
    for (int i = 0; i < 64; i++) {
        ck_assert(interpreter_value(in, slope)[i] == interpreter_value(in, y)[i]);
        kept += interpreter_value(in, y)[i] == 2;
    }
    ck_assert(kept > 16 && kept < 48);
    interpreter_free(in);
}
END_TEST

/* Random rounding with the derivative 1; each part of each name has its own random numbers, and each update draws new
 * ones. */
START_TEST(test_stochastic_round)
{
    int64_t counts[] = {3, 4};
    bt_var updates = {.name = "updates", .owner = "", .dtype = BT_I64, .data = (char *)&counts[0]},
           later = {.name = "later", .owner = "", .dtype = BT_I64, .data = (char *)&counts[1]};
    enum { N = 64, WAYS = 4 };
    float between[N];
    for (int i = 0; i < N; i++)
        between[i] = 1 + 0x1p-8F; /* halfway to the next bf16 number */
    trace.seed = 17;
    bt_tensor *x = bt_constant(BT_ARRAY(between, N)), *count = bt_trace_read(&updates);
    bt_tensor *y[WAYS] = {bt_stochastic_round(x, "w", "m", count), bt_stochastic_round(x, "w", "v", count),
                          bt_stochastic_round(x, "b", "m", count),
                          bt_stochastic_round(x, "w", "m", bt_trace_read(&later))};
    bt_tensor *again = bt_stochastic_round(x, "w", "m", count), *slope = GRAD(y[0], x);
    interpreter *in = interpreter_new(graph);
    interpreter_run(in);
    for (int way = 0; way < WAYS; way++) {
        int up = 0, others = 0;
        for (int i = 0; i < N; i++) {
            double found = interpreter_value(in, y[way])[i];
            ck_assert(found == 1 || found == 1 + 0x1p-7);
            up += found > 1;
            others += found != interpreter_value(in, y[0])[i];
        }
        ck_assert_msg(up > 16 && up < 48 && (others > 16) == (way > 0), "%d: %d up, %d others", way, up, others);
    }
    for (int i = 0; i < N; i++) {
        ck_assert(interpreter_value(in, slope)[i] == 1);
        ck_assert(interpreter_value(in, again)[i] == interpreter_value(in, y[0])[i]);
    }
    interpreter_free(in);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops: formulas");
    TCase *formulas = tcase_create("formulas");
    tcase_add_checked_fixture(formulas, begin, end);
    tcase_add_test(formulas, test_kinks);
    tcase_add_test(formulas, test_detach_and_friends);
    tcase_add_loop_test(formulas, test_cross_entropy_options, 0, 6);
    tcase_add_test(formulas, test_smoothed_cross_entropy);
    tcase_add_test(formulas, test_gradients_by_hand);
    tcase_add_test(formulas, test_adam_first_step);
    tcase_add_test(formulas, test_adam_later_step);
    tcase_add_test(formulas, test_adam_decay);
    tcase_add_test(formulas, test_sgd_with_momentum);
    tcase_add_test(formulas, test_dropout_derivative);
    tcase_add_test(formulas, test_stochastic_round);
    suite_add_tcase(suite, formulas);
    return run_suite(suite);
}
