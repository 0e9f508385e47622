/* The plain loop is the last resort. Non-dense inputs are copied first if that allows a faster kernel, and only those
 * that must be; a composite without a kernel is replaced by its body. */
#include "support/scene.h"

#include "compile/work.h"
#include "runtime/evaluate.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3, WIDTH = 24, USED = 20 };

static scene s;
static bt_instance *instance;
static bt_phase *phase;
static double x[ROWS][WIDTH];

static void setup(void)
{
    scene_begin(&s, BT_F64);
    instance = bt_instance_new(bt_backend_cpu(), 1);
    phase = bt_phase_new(instance, "test", "plain loops");
    for (int i = 0; i < ROWS * WIDTH; i++)
        (&x[0][0])[i] = sin(i * i);
}

static void teardown(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    scene_free(&s);
    bt_error_clear();
}

static bt_tensor *matrix(void) { return scene_read(&s, "x", &x[0][0], (const int64_t[]){ROWS, WIDTH, BT_END}); }

/* The number of steps that run a kernel with this in its name. */
static int steps(const bt_program *program, const char *name)
{
    int count = 0;
    for (int64_t i = 0; i < program->step_count; i++)
        count += strstr(program->steps[i].kernel->name, name) != NULL;
    return count;
}

static void expect_results(const double *expected, int64_t count)
{
    bt_array result = bt_phase_result(phase, 0, 0);
    ck_assert_int_eq(bt_array_count(result), count);
    expect_values(__FILE__, __LINE__, result.data, expected, count, 1e-14);
}

/* The rows are read as they are; the scale, one number repeated, is copied; the shift is dense already. */
START_TEST(only_what_must_be_is_copied)
{
    bt_tensor *part = bt_slice(matrix(), 1, 2, 2 + USED), *scale = SCALAR(&s, "scale", 3);
    double shift[USED], expected[ROWS][USED];
    for (int i = 0; i < USED; i++)
        shift[i] = i;
    bt_tensor *more = scene_read(&s, "shift", shift, (const int64_t[]){USED, BT_END});
    bt_graph_output(s.graph, bt_layer_norm(part, bt_broadcast_like(scale, more), more, 0.5));
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(steps(program, "copy"), 1);
    ck_assert_int_eq(steps(program, "layer_norm.rows"), 1);
    ck_assert_int_eq(program->step_count, 2);
    for (int r = 0; r < ROWS; r++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < USED; i++)
            mean += x[r][2 + i] / USED;
        for (int i = 0; i < USED; i++)
            variance += (x[r][2 + i] - mean) * (x[r][2 + i] - mean) / USED;
        for (int i = 0; i < USED; i++)
            expected[r][i] = (x[r][2 + i] - mean) / sqrt(variance + 0.5) * 3 + shift[i];
    }
    expect_results(&expected[0][0], ROWS * USED);
}
END_TEST

/* Two readers share one copy: two resamplings need the transposed matrix. */
START_TEST(later_readers_take_the_copy)
{
    bt_tensor *turned = bt_reshape(matrix(), 1, ROWS, WIDTH, 1);
    turned = bt_permute(turned, 0, 2, 3, 1); /* [1, WIDTH, 1, ROWS], the last axis not contiguous */
    bt_tensor *nearest = bt_upsample_nearest(turned, 2 * WIDTH, 1), *fewer = bt_upsample_nearest(turned, WIDTH / 2, 1);
    bt_graph_output(s.graph, bt_add(bt_sum(nearest, 1), bt_sum(fewer, 1)));
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(steps(program, ".reference"), 0);
    ck_assert_int_eq(steps(program, "copy"), 1);
    double expected[ROWS] = {0};
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < WIDTH; i++)
            expected[r] += x[r][i] * (i % 2 ? 2 : 3);
    expect_results(expected, ROWS);
}
END_TEST

/* 16 numbers: no copy; 18: a copy. */
START_TEST(few_numbers_are_not_copied)
{
    for (int wide = 0; wide < 2; wide++) {
        int64_t columns = wide ? 9 : 8;
        bt_tensor *turned = bt_permute(bt_slice(bt_slice(matrix(), 0, 0, 2), 1, 0, columns), 1, 0);
        bt_tensor *rows = bt_softmax(turned, -1);
        bt_graph_output(s.graph, rows);
        const bt_program *program = scene_run_in(&s, phase);
        ck_assert_int_eq(steps(program, "softmax.reference"), !wide);
        ck_assert_int_eq(steps(program, "softmax.rows"), wide);
        ck_assert_int_eq(steps(program, "copy"), wide);
        double expected[9][2];
        for (int i = 0; i < columns; i++)
            for (int r = 0; r < 2; r++)
                expected[i][r] = exp(x[r][i]) / (exp(x[0][i]) + exp(x[1][i]));
        expect_results(&expected[0][0], 2 * columns);
        teardown();
        setup();
    }
}
END_TEST

/* Large zero padding around an image: only the plain loop supports it, and it reads the slice without a copy. */
START_TEST(no_copy_that_does_not_help)
{
    double one = 2;
    bt_tensor *image = bt_slice(bt_reshape(matrix(), 1, 1, WIDTH, ROWS), 3, 0, 1);
    bt_tensor *weight = scene_read(&s, "w", &one, (const int64_t[]){1, 1, 1, 1, BT_END});
    bt_conv2d_options o = {.stride = 1, .padding = 300, .dilation = 1, .groups = 1, .bias = false};
    bt_graph_output(s.graph, bt_sum(bt_conv2d(image, weight, NULL, &o)));
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(steps(program, "conv.reference"), 1);
    ck_assert_int_eq(steps(program, "copy"), 0);
    double expected = 0;
    for (int i = 0; i < WIDTH; i++)
        expected += 2 * (&x[0][0])[i * ROWS];
    expect_results(&expected, 1);
}
END_TEST

/* There is no kernel for softmax along an axis other than the last, but its body has kernels. */
START_TEST(a_body_before_a_plain_loop)
{
    bt_graph_output(s.graph, bt_softmax(matrix(), 0));
    const bt_program *program = scene_run_in(&s, phase);
    ck_assert_int_eq(steps(program, ".reference"), 0);
    ck_assert_int_eq(steps(program, "softmax"), 0);
    double expected[ROWS][WIDTH];
    for (int i = 0; i < WIDTH; i++)
        for (int r = 0; r < ROWS; r++)
            expected[r][i] = exp(x[r][i]) / (exp(x[0][i]) + exp(x[1][i]) + exp(x[2][i]));
    expect_results(&expected[0][0], ROWS * WIDTH);
}
END_TEST

START_TEST(what_is_small)
{
    bt_view few = {.dtype = BT_F32, .rank = 2, .dims = {2, 8}}, more = few, none = few;
    more.dims[1] = 9;
    none.dims[0] = 0;
    bt_call call = {.inputs = 1, .outputs = 1, .in = &few, .out = &none};
    ck_assert(bt_call_small(&call));
    call.out = &more;
    ck_assert(!bt_call_small(&call));
    call.in = &more;
    call.out = &few;
    ck_assert(!bt_call_small(&call));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compile: plain loops");
    TCase *tcase = tcase_create("plain loops");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, only_what_must_be_is_copied);
    tcase_add_test(tcase, later_readers_take_the_copy);
    tcase_add_test(tcase, few_numbers_are_not_copied);
    tcase_add_test(tcase, no_copy_that_does_not_help);
    tcase_add_test(tcase, a_body_before_a_plain_loop);
    tcase_add_test(tcase, what_is_small);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
