/* Ops that are the only readers of a norm over channels are merged with it: fewer passes over memory, the same bits. */
#include "support/scene.h"

#include "ops/define.h"
#include "runtime/phase.h"
#include "support/suite.h"
#include "transform/absorb.h"
#include "transform/grad.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static scene s;
static bt_graph *lowered, *fused;

static void setup(void)
{
    scene_begin(&s, BT_F32);
    lowered = fused = NULL;
}

static void teardown(void)
{
    bt_graph_free(lowered);
    bt_graph_free(fused);
    scene_free(&s);
    bt_error_clear();
}

static bt_tensor *numbers(const char *name, const int64_t *dims)
{
    bt_var *var = scene_var(&s, name, BT_F32, NULL, dims);
    int64_t count = bt_array_count(bt_array_of(BT_F32, NULL, dims));
    for (int64_t i = 0; i < count; i++)
        var_put(var, i, bt_host_uniform(3, (uint64_t)s.count, (uint64_t)i) - 0.5);
    return bt_trace_read(var);
}

static bt_tensor *images(const char *name) { return numbers(name, (const int64_t[]){2, 3, 4, 5, BT_END}); }
static bt_tensor *channels(const char *name) { return numbers(name, (const int64_t[]){5, BT_END}); }

static bt_tensor *norm(bt_tensor *x)
{
    return bt_batch_norm(x, 1, channels("scale"), channels("shift"), 1e-3, NULL, NULL);
}

static void fuse(void)
{
    scene_end(&s);
    bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    lowered = bt_compile_lowered(s.graph, &options);
    ck_assert_msg(lowered != NULL, "%s", bt_error());
    EXPECT_OK(bt_absorb(lowered, &fused));
    if (fused)
        EXPECT_OK(bt_graph_verify(fused, "absorb"));
}

/* Counts the nodes of images, by op. */
static int count(const bt_graph *graph, const bt_op *op)
{
    int found = 0;
    for (int64_t n = 0; graph && n < graph->node_count; n++)
        found += graph->nodes[n]->op == op && graph->nodes[n]->out->rank == 4;
    return found;
}

/* Fewer passes: this many nodes of the op are left. */
static void expect_left(const bt_op *op, int left)
{
    ck_assert_ptr_nonnull(fused);
    ck_assert_msg(count(fused, op) == left, "%s: %d left, not %d", op->name, count(fused, op), left);
}

/* Runs the graph, which fuses, and again with the parts as outputs, so they have two readers and stay. */
static void expect_same_bits(bt_tensor *const *parts, int count)
{
    int64_t elements = output_elements(s.graph);
    double *together = run_once(s.graph);
    for (int i = 0; i < count; i++)
        bt_graph_output(s.graph, parts[i]);
    double *apart = run_once(s.graph);
    for (int64_t i = 0; i < elements; i++)
        ck_assert_msg(memcmp(&together[i], &apart[i], sizeof(double)) == 0, "[%lld]: %.17g and %.17g", (long long)i,
                      together[i], apart[i]);
    free(together);
    free(apart);
}

START_TEST(residual_block)
{
    bt_tensor *n = norm(images("x")), *sum = _i ? bt_add(images("shortcut"), n) : bt_add(n, images("shortcut"));
    bt_graph_output(s.graph, bt_relu(sum));
    fuse();
    expect_left(&bt_op_channel_mix, 1);
    expect_left(&bt_op_add, 0);
    expect_left(&bt_op_relu, 0);
    expect_same_bits((bt_tensor *[]){n, sum}, 2);
}
END_TEST

/* The norm of the shortcut stays separate: two norms in one would be added in another order. */
START_TEST(two_norms)
{
    bt_tensor *n = norm(images("x")), *other = norm(images("z")), *sum = bt_add(n, other);
    bt_graph_output(s.graph, bt_relu(sum));
    fuse();
    expect_left(&bt_op_channel_mix, 2);
    expect_left(&bt_op_add, 0);
    expect_same_bits((bt_tensor *[]){n, other, sum}, 3);
}
END_TEST

/* The derivative of relu(sum) is the gate of a sum to which the other readers of the sum add theirs. */
START_TEST(gradient_of_a_block)
{
    bt_tensor *x = images("x"), *y = bt_relu(bt_add(norm(x), x)), *other = images("u"), *more = images("w");
    bt_tensor *loss = bt_sum(bt_add(bt_mul(bt_square(y), other), bt_mul(y, more))), *g = bt_grad(loss, x);
    bt_graph_output(s.graph, g);
    fuse();
    expect_left(&bt_op_gate, 0);
    expect_left(&bt_op_relu, 0);
    interpreter *before = interpret(lowered), *after = interpret(fused);
    expect_values(__FILE__, __LINE__, interpreter_value(after, fused->outputs[0]),
                  interpreter_value(before, lowered->outputs[0]), bt_tensor_count(g), 1e-12);
    interpreter_free(before);
    interpreter_free(after);
}
END_TEST

START_TEST(tangent_of_a_norm)
{
    bt_tensor *x = images("x"), *t = images("t"), *y = bt_relu(norm(x)), *result;
    bt_jvp(s.graph, &x, &t, 1, &y, 1, &result, false);
    bt_graph_output(s.graph, result);
    fuse();
    expect_left(&bt_op_gate, 0);
    expect_left(&bt_op_channel_mix, 2);
}
END_TEST

START_TEST(gated_sum)
{
    bt_tensor *sum = bt_add(images("x"), images("z"));
    bt_graph_output(s.graph, _i ? BT_RECORD0(&bt_op_gate, sum, images("y")) : bt_relu(sum));
    fuse();
    expect_left(&bt_op_channel_mix, 1);
    expect_left(&bt_op_add, 0);
    expect_same_bits((bt_tensor *[]){sum}, 1);
}
END_TEST

/* Zeros keep their signs. */
START_TEST(zeros_of_either_sign)
{
    static const double x[] = {0, -0.0, 0, -0.0, 1, -1, 1, -1}, z[] = {0, 0, -0.0, -0.0, -1, 1, 1, 0};
    static const double ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const int64_t dims[] = {1, 2, 2, 2, BT_END};
    bt_var *a = scene_var(&s, "x", BT_F32, x, dims), *b = scene_var(&s, "z", BT_F32, z, dims);
    bt_tensor *sum = bt_add(bt_trace_read(a), bt_trace_read(b));
    bt_graph_output(s.graph, BT_RECORD0(&bt_op_gate, sum, bt_trace_read(scene_var(&s, "q", BT_F32, ones, dims))));
    fuse();
    expect_left(&bt_op_channel_mix, 1);
    expect_same_bits((bt_tensor *[]){sum}, 1);
}
END_TEST

/* Values with other readers stay; so do values that are not a whole tensor, a gate that is a norm, and relu of relu. */
START_TEST(left_alone)
{
    bt_tensor *x = images("x"), *n = norm(x), *y;
    if (_i == 0)
        y = bt_mul(bt_relu(n), n);
    else if (_i == 1)
        y = bt_add(n, bt_broadcast_like(channels("c"), n));
    else if (_i == 2)
        y = BT_RECORD0(&bt_op_gate, x, n);
    else if (_i == 3)
        y = bt_mul(n, x);
    else
        y = bt_add(n, n);
    bt_graph_output(s.graph, y);
    fuse();
    ck_assert_ptr_null(fused);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("absorb");
    TCase *all = tcase_create("absorb");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_loop_test(all, residual_block, 0, 2);
    tcase_add_test(all, two_norms);
    tcase_add_test(all, gradient_of_a_block);
    tcase_add_test(all, tangent_of_a_norm);
    tcase_add_loop_test(all, gated_sum, 0, 2);
    tcase_add_test(all, zeros_of_either_sign);
    tcase_add_loop_test(all, left_alone, 0, 5);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
