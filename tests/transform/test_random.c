/* Derivatives of random graphs: forward mode against finite differences, reverse against forward mode, and both orders
 * of second derivatives. */
#include "support/random_graph.h"

#include "runtime/variable.h"
#include "support/suite.h"
#include "support/vars.h"
#include "transform/grad.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAVES = 7, MOST = 1024 };

static scene s;
static bt_tensor *leaves[LEAVES], *tangents[LEAVES], *loss, *one;
static double base[LEAVES][MOST], direction[LEAVES][MOST];

/* The bytes of root variables; windows change with their block. */
static void each_root(void (*fn)(bt_var *var, double *base, double *direction, double step), double step)
{
    for (int i = 0; i < LEAVES; i++)
        if (!s.vars[i]->base)
            fn(s.vars[i], base[i], direction[i], step);
}

static void draw_direction(bt_var *var, double *at, double *along, double step)
{
    (void)step;
    for (int64_t i = 0; i < bt_array_count(bt_var_array(var)); i++) {
        at[i] = var_get(var, i);
        along[i] = 2 * bt_host_uniform(17, (uint64_t)(uintptr_t)var->bytes, (uint64_t)i) - 1;
    }
}

static void move(bt_var *var, double *at, double *along, double step)
{
    for (int64_t i = 0; i < bt_array_count(bt_var_array(var)); i++)
        var_put(var, i, at[i] + step * along[i]);
}

/* Turns the graph's outputs into one number, and every variable into a leaf with a tangent. */
static void begin(uint64_t seed, unsigned what)
{
    random_graph(&s, seed, BT_F64, 40, what);
    bt_trace_begin(&s.trace, s.graph, BT_TRAIN, BT_F64);
    s.tracing = true;
    each_root(draw_direction, 0);
    one = bt_number(1, BT_F64);
    loss = bt_number(0, BT_F64);
    for (int64_t o = 0; o < s.graph->output_count; o++)
        loss = bt_add(loss, bt_sum(bt_sin(bt_add(s.graph->outputs[o], (double)o))));
    s.graph->output_count = 0;
    for (int i = 0; i < LEAVES; i++) {
        bt_array array = bt_var_array(s.vars[i]);
        const bt_var *root = bt_var_root(s.vars[i]);
        int of_root = root == s.vars[0] ? 0 : i;
        array.data = direction[of_root] + bt_var_start(s.vars[i]) / sizeof(double);
        leaves[i] = bt_graph_read(s.graph, s.vars[i]);
        tangents[i] = bt_constant(array);
    }
}

static bt_tensor *along(bt_tensor *y)
{
    bt_tensor *result;
    bt_jvp(s.graph, leaves, tangents, LEAVES, &y, 1, &result, true);
    return result ? result : bt_zeros_like(y);
}

/* <J^T 1, direction> */
static bt_tensor *back(bt_tensor *y)
{
    bt_tensor *gradient[LEAVES], *sum = bt_number(0, BT_F64);
    bt_vjp(s.graph, &y, &one, 1, leaves, LEAVES, gradient, true);
    for (int i = 0; i < LEAVES; i++)
        if (gradient[i])
            sum = bt_add(sum, bt_sum(bt_mul(gradient[i], tangents[i])));
    return sum;
}

static void outputs(bt_tensor *const *x, int count)
{
    for (int i = 0; i < count; i++)
        bt_graph_output(s.graph, x[i]);
    scene_end(&s);
}

static double loss_at(double step)
{
    each_root(move, step);
    double *values = run_once(s.graph), found = values[0];
    free(values);
    each_root(move, 0);
    return found;
}

static void expect_near(double found, double expected, double tolerance, const char *what)
{
    ck_assert_msg(fabs(found - expected) <= tolerance * fmax(1, fabs(expected)), "%s: %.15g, expected %.15g", what,
                  found, expected);
}

START_TEST(first_order)
{
    begin((uint64_t)_i + 1, RANDOM_SMOOTH | RANDOM_COMPOSITES);
    outputs((bt_tensor *[]){loss, along(loss), back(loss)}, 3);
    double *values = run_once(s.graph), h = 1e-5;
    double difference = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
    expect_near(values[2], values[1], 1e-11, "reverse against forward");
    expect_near(values[1], difference, 1e-6, "forward against differences");
    free(values);
    scene_free(&s);
}
END_TEST

START_TEST(second_order)
{
    begin((uint64_t)_i + 1, RANDOM_SMOOTH | RANDOM_COMPOSITES | RANDOM_GRADIENTS);
    bt_tensor *slope = along(loss), *pulled = back(loss);
    outputs((bt_tensor *[]){slope, along(slope), back(slope), along(pulled), back(pulled)}, 5);
    double *values = run_once(s.graph), h = 1e-5;
    double difference = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
    expect_near(values[2], values[1], 1e-10, "reverse over forward");
    expect_near(values[3], values[1], 1e-10, "forward over reverse");
    expect_near(values[4], values[1], 1e-10, "reverse over reverse");
    expect_near(values[1], difference, 1e-5, "against differences of the slope");
    free(values);
    scene_free(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random");
    TCase *tests = tcase_create("random");
    tcase_add_loop_test(tests, first_order, 0, 100);
    tcase_add_loop_test(tests, second_order, 0, 60);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
