/* Kernels of user-defined ops: they get dense inputs, scratch of their own and outputs that overlap nothing; their
 * error messages come with the module path; if no kernel accepts a call, the body is used. */
#include "support/scene.h"

#include "runtime/evaluate.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static scene s;
static int launches, threads_seen;

static void setup(void)
{
    scene_begin(&s, BT_F64);
    launches = threads_seen = 0;
}

static void teardown(void)
{
    scene_free(&s);
    bt_error_clear();
}

static void run_expecting(bt_status status)
{
    scene_end(&s);
    double room[64];
    bt_array results[4];
    for (int64_t o = 0; o < s.graph->output_count; o++) {
        results[o] = bt_tensor_array(s.graph->outputs[o]);
        results[o].dtype = BT_F64;
        results[o].data = room + 16 * o;
    }
    ck_assert_int_eq(bt_evaluate(s.graph, results), status);
}

/* weighted(x [n, m], w [n, m]): sum over j of (j + 1) x[i, j] w[i, j], and the last of x; with plain pointers. */
typedef struct weighted_attr {
    int64_t power;
} weighted_attr;

static bt_status weighted_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    if (in[0].rank != 2 || in[1].rank != 2 || in[0].dtype != in[1].dtype)
        return bt_fail(BT_ERROR_SHAPE, "weighted: two matrices, please");
    out[0] = (bt_array){.dtype = in[0].dtype, .rank = 1, .dims = {in[0].dims[0]}};
    out[1] = (bt_array){.dtype = in[0].dtype};
    return BT_OK;
}

static size_t weighted_scratch(const void *attr, const bt_array *in, int threads)
{
    (void)attr, (void)threads;
    return (size_t)in[0].dims[1] * sizeof(double) + 3; /* not aligned to anything */
}

static bt_status weighted_kernel(const bt_launch *run)
{
    const weighted_attr *attr = run->attr;
    int64_t n = run->in[0].dims[0], m = run->in[0].dims[1];
    const double *x = run->in[0].data, *w = run->in[1].data;
    double *y = run->out[0].data, *factor = run->scratch;
    ck_assert((uintptr_t)factor % BT_ALIGN == 0 && (uintptr_t)y % BT_ALIGN == 0);
    ck_assert_int_eq(run->in[2].rank, 0); /* the list ends with an empty entry */
    ck_assert_ptr_null(run->in[2].data);
    launches++;
    threads_seen = run->threads;
    for (int64_t j = 0; j < m; j++)
        factor[j] = pow((double)(j + 1), (double)attr->power);
    for (int64_t i = 0; i < n; i++) {
        y[i] = 0; /* before x is read: if y were stored over x, it would show */
        for (int64_t j = 0; j < m; j++)
            y[i] += factor[j] * x[i * m + j] * w[i * m + j];
    }
    *(double *)run->out[1].data = x[n * m - 1];
    return BT_OK;
}

static void weighted_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    int64_t power = ((const weighted_attr *)attr)->power;
    double factor[16];
    for (int64_t j = 0; j < in[0]->dims[1]; j++)
        factor[j] = pow((double)(j + 1), (double)power);
    bt_tensor *f = bt_constant(bt_array_of(BT_F64, factor, (const int64_t[]){in[0]->dims[1], BT_END}));
    out[0] = bt_sum(bt_mul(bt_mul(in[0], in[1]), bt_as(f, in[0]->dtype)), 1);
    out[1] = bt_at(in[0], -1, -1);
}

static const bt_op weighted = {
    .name = "weighted",
    .inputs = 2,
    .outputs = 2,
    .attr_size = sizeof(weighted_attr),
    .infer = weighted_infer,
    .body = weighted_body,
    .kernels = {{.device = BT_CUDA, .dtype = BT_F64, .launch = weighted_kernel}, /* for another device: not used */
                {.device = BT_CPU, .dtype = BT_F64, .scratch = weighted_scratch, .launch = weighted_kernel}}};

START_TEST(inputs_are_dense)
{
    weighted_attr attr = {1};
    bt_tensor *x = MATRIX(&s, "x", 3, 2, 1, 2, 3, 4, 5, 6), *w = MATRIX(&s, "w", 2, 2, 1, 10, 100, 1000);
    bt_tensor *turned = bt_slice(bt_permute(x, 1, 0), 1, 1, 3), *spread = bt_broadcast_like(bt_slice(w, 0, 1, 2), w);
    bt_tensor *y = bt_apply(&weighted, &attr, turned, spread);
    bt_graph_output(s.graph, y);
    bt_graph_output(s.graph, &y->node->out[1]);
    scene_end(&s); /* turned: 3 5 / 4 6; spread: 100 1000, twice */
    EXPECT_RUN(s.graph, 0, 300 + 2 * 5000, 400 + 2 * 6000, 6);
    ck_assert_int_eq(launches, 1);
    ck_assert_int_eq(threads_seen, 1);
}
END_TEST

START_TEST(the_body_gives_the_same)
{
    weighted_attr attr = {2};
    bt_tensor *x = MATRIX(&s, "x", 2, 3, 1, 2, 3, 4, 5, 6), *w = MATRIX(&s, "w", 2, 3, 1, -1, 1, 0.5, 0.5, 2);
    bt_tensor *y = bt_apply(&weighted, &attr, x, w);
    bt_graph_output(s.graph, y);
    bt_graph_output(s.graph, &y->node->out[1]);
    bt_graph_output(s.graph, bt_grad(bt_sum(bt_apply(&weighted, &attr, x, w)), w));
    scene_end(&s);
    interpreter *in = interpret(s.graph); /* it uses the body */
    double *values = run_once(s.graph);
    expect_values(__FILE__, __LINE__, values, interpreter_value(in, s.graph->outputs[0]), 2, 1e-15);
    expect_values(__FILE__, __LINE__, values + 2, interpreter_value(in, s.graph->outputs[1]), 1, 1e-15);
    EXPECT_VALUES(values + 3, 1e-15, 1, 8, 27, 4, 20, 54);
    ck_assert_int_eq(launches, 1);
    interpreter_free(in);
    free(values);
}
END_TEST

/* A dtype without a kernel: uses the body. */
START_TEST(another_dtype)
{
    weighted_attr attr = {1};
    bt_tensor *x = MATRIX(&s, "x", 1, 2, 1, 2), *w = MATRIX(&s, "w", 1, 2, 1, 10);
    bt_graph_output(s.graph, bt_apply(&weighted, &attr, bt_as(x, BT_F32), bt_as(w, BT_F32)));
    scene_end(&s);
    EXPECT_RUN(s.graph, 0, 41);
    ck_assert_int_eq(launches, 0);
}
END_TEST

/* An assigned output is only written directly to its variable if the kernel does not read that variable. */
START_TEST(outputs_are_nobody_elses)
{
    weighted_attr attr = {0};
    bt_tensor *x = MATRIX(&s, "x", 2, 1, 3, 4), *w = MATRIX(&s, "w", 2, 1, 10, 100);
    bt_tensor *y = bt_apply(&weighted, &attr, x, w);
    bt_graph_assign(s.graph, s.vars[0], bt_reshape(y, 2, 1));
    scene_end(&s);
    free(run_once(s.graph));
    EXPECT_VAR(s.vars[0], 0, 30, 400);
}
END_TEST

/* Equal calls are merged; calls with different attributes are not. */
START_TEST(equal_calls_are_merged)
{
    weighted_attr one = {1}, two = {2};
    bt_tensor *x = MATRIX(&s, "x", 1, 2, 1, 2), *w = MATRIX(&s, "w", 1, 2, 1, 10);
    bt_tensor *sum = bt_add(bt_apply(&weighted, &one, x, w), bt_apply(&weighted, &one, x, w));
    bt_graph_output(s.graph, bt_add(sum, bt_apply(&weighted, &two, x, w)));
    scene_end(&s);
    EXPECT_RUN(s.graph, 0, 41 + 41 + 81);
    ck_assert_int_eq(launches, 2);
}
END_TEST

/* ---- failures ---- */

static bt_status angry(const bt_launch *run)
{
    return bt_fail(BT_ERROR_DATA, "row %d of %d is odd", 1, (int)run->in[0].dims[0]);
}

static bt_status silent(const bt_launch *run)
{
    (void)run;
    return BT_ERROR_NUMERIC;
}

#define FAILING(fn) .inputs = 1, .infer = bt_infer_same, .kernels = {{.device = BT_CPU, .dtype = BT_F64, .launch = fn}}
static const bt_op angry_op = {.name = "angry", FAILING(angry)}, silent_op = {.name = "silent", FAILING(silent)};

START_TEST(a_failure_comes_with_the_path)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2);
    const char *outer = bt_trace_push("net"), *inner = bt_trace_push("head");
    bt_tensor *y = bt_apply(&angry_op, NULL, x);
    bt_trace_pop(inner);
    bt_trace_pop(outer);
    bt_graph_output(s.graph, y);
    run_expecting(BT_ERROR_DATA);
    ck_assert_str_eq(bt_error(), "net.head: row 1 of 2 is odd");
}
END_TEST

START_TEST(a_failure_without_a_word)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2);
    const char *before = bt_trace_push("head");
    bt_tensor *y = bt_apply(&silent_op, NULL, x);
    bt_trace_pop(before);
    bt_graph_output(s.graph, y);
    run_expecting(BT_ERROR_NUMERIC);
    ck_assert_str_eq(bt_error(), "head: silent failed");
}
END_TEST

/* A program that fails assigns nothing, except values computed in their own variable before the failure; and the phase
 * can run again. */
START_TEST(after_a_failure)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2);
    bt_graph_output(s.graph, bt_apply(&angry_op, NULL, x));
    scene_end(&s);
    for (int planned = 0; planned < 2; planned++) {
        setenv("BETTY_PLAN", planned ? "on" : "off", 1);
        bt_instance *instance = bt_instance_new(bt_backend_cpu(), 1);
        unsetenv("BETTY_PLAN");
        bt_phase *phase = bt_phase_new(instance, "test", "failing");
        ck_assert_int_eq(bt_phase_add(phase, s.graph, 0, "part"), 0);
        EXPECT_OK(bt_phase_plan(phase));
        for (int i = 0; i < 3; i++) {
            bt_phase_begin(phase);
            bt_status status = bt_phase_run(phase, 0);
            ck_assert_int_eq(status == BT_OK ? bt_instance_wait(instance) : status, BT_ERROR_DATA);
            ck_assert_str_eq(bt_error(), "row 1 of 2 is odd");
            bt_error_clear();
            if (i)
                bt_phase_end(phase);
        }
        bt_phase_free(phase);
        bt_instance_free(instance);
    }
}
END_TEST

static const bt_op bodiless = {.name = "bodiless",
                               .inputs = 1,
                               .infer = bt_infer_same,
                               .kernels = {{.device = BT_CPU, .dtype = BT_F32, .launch = silent}}};

START_TEST(no_kernel_and_no_body)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2);
    bt_graph_output(s.graph, bt_apply(&bodiless, NULL, x));
    run_expecting(BT_ERROR_UNSUPPORTED);
    ck_assert_str_eq(bt_error(),
                     "the cpu backend has no kernel for %1 = f64[2] bodiless %0: give the op one for this device and "
                     "dtype, or a body");
}
END_TEST

/* Sizes of zero reach a kernel like any other size. */
static bt_status count_kernel(const bt_launch *run)
{
    launches++;
    return bt_array_count(run->in[0]) == 0 ? BT_OK : BT_ERROR_DATA;
}

static const bt_op counting_op = {.name = "counting",
                                  .inputs = 1,
                                  .infer = bt_infer_same,
                                  .kernels = {{.device = BT_CPU, .dtype = BT_F64, .launch = count_kernel}}};

START_TEST(nothing_to_do)
{
    bt_tensor *x = bt_trace_read(scene_var(&s, "x", BT_F64, NULL, (const int64_t[]){0, 2, BT_END}));
    bt_graph_output(s.graph, bt_sum(bt_apply(&counting_op, NULL, x)));
    scene_end(&s);
    EXPECT_RUN(s.graph, 0, 0);
    ck_assert_int_eq(launches, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("user_kernel");
    TCase *tests = tcase_create("user_kernel");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, inputs_are_dense);
    tcase_add_test(tests, the_body_gives_the_same);
    tcase_add_test(tests, another_dtype);
    tcase_add_test(tests, outputs_are_nobody_elses);
    tcase_add_test(tests, equal_calls_are_merged);
    tcase_add_test(tests, a_failure_comes_with_the_path);
    tcase_add_test(tests, a_failure_without_a_word);
    tcase_add_test(tests, after_a_failure);
    tcase_add_test(tests, no_kernel_and_no_body);
    tcase_add_test(tests, nothing_to_do);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
