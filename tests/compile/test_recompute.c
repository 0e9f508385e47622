/* tests/compile/test_recompute.c: which steps are rerun, counted by hand on chains of equal layers: what each policy
 * keeps, how often a value is computed, and the bytes that takes. */
#include "support/scene.h"

#include "compile/work.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 640, BYTES = N * (int)sizeof(double) };

static scene s;
static bt_instance *instance;
static bt_phase *phase;
static bt_level_checkpointing level;

static void begin(void)
{
    scene_begin(&s, BT_F64);
    instance = bt_instance_new(bt_backend_cpu(), 1);
    instance->options.chain = false;                           /* steps are counted */
    instance->options.absorb = instance->options.fuse = false; /* a layer is a step */
    instance->options.rule = BT_ORDER_WRITTEN;
    level = (bt_level_checkpointing){.level = "net"};
    instance->options.levels = &level;
    instance->options.level_count = 1;
    phase = bt_phase_new(instance, "test", "recompute");
    s.trace.tag.level = "net";
}

static void end(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    scene_free(&s);
    bt_error_clear();
}

static bt_tensor *layers(bt_tensor *x, int count)
{
    char path[32];
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "layer%d", i);
        const char *before = bt_trace_push(path);
        x = bt_tanh(x);
        bt_trace_pop(before);
    }
    return x;
}

static bt_tensor *input(void)
{
    double x[N];
    for (int i = 0; i < N; i++)
        x[i] = sin(i);
    bt_tensor *in = scene_read(&s, "x", x, (const int64_t[]){N, BT_END});
    scene_var(&s, "slope", BT_F64, NULL, (const int64_t[]){N, BT_END});
    bt_trace_push("net");
    return in;
}

/* The gradient of the sum over `count` layers applied to x. */
static const bt_program *chain(int count, bt_checkpointing how)
{
    level.how = how;
    bt_tensor *x = input(), *y = layers(x, count);
    bt_graph_assign(s.graph, s.vars[1], bt_grad(bt_sum(y), x));
    return scene_run_in(&s, phase);
}

static void expect_chain(int count)
{
    for (int i = 0; i < N; i++) {
        double y = sin(i), slope = 1;
        for (int l = 0; l < count; l++) {
            y = tanh(y);
            slope *= 1 - y * y;
        }
        ck_assert_double_eq_tol(var_get(s.vars[1], i), slope, 1e-12);
    }
}

/* Checks that each node is launched at most `most` times; returns the number of repeated launches. */
static int count_again(const bt_program *p, int most)
{
    int again = 0;
    for (int64_t i = 0; i < p->step_count; i++) {
        int times = 0;
        for (int64_t k = 0; k <= i; k++)
            times += p->steps[k].node == p->steps[i].node;
        ck_assert_int_le(times, most);
        ck_assert_int_eq(p->steps[i].again, times > 1);
        again += times > 1;
    }
    ck_assert_int_eq(again, p->again);
    return again;
}

/* ---- cuts ---- */

/* Of n values, all but the last are cuts, and every k-th of them is held. In the backward pass the held ones coexist
 * with the values after the last cut, which are held as well, or with the k - 1 others of the previous stretch. */
START_TEST(every_nth_cut)
{
    int n = 10 + _i % 20, k = 2 + _i / 20, held = (n - 1) / k, rest = n - held * k;
    const bt_program *p = chain(n, (bt_checkpointing){BT_CHECKPOINTING_EVERY, .number = k});
    int most = held + (rest > k - 1 ? rest : k - 1);
    ck_assert_uint_eq(p->held, (size_t)n * BYTES);
    ck_assert_int_eq(level.named, n - 1);
    ck_assert_uint_eq(p->most, (size_t)most * BYTES);
    ck_assert_uint_eq(phase->bound, p->most);
    ck_assert_int_eq(count_again(p, 2), held * (k - 1));
    expect_chain(n);
    end();
}
END_TEST

/* The held values accumulate, so the stretches between them shrink by one each: M + (M - 1) + ... + 1 values need M. */
START_TEST(the_root)
{
    int n = 10 + _i, m = 1;
    while (m * (m + 1) / 2 < n)
        m++;
    const bt_program *p = chain(n, (bt_checkpointing){.kind = BT_CHECKPOINTING_SQRT});
    ck_assert_uint_eq(p->most, (size_t)m * BYTES);
    ck_assert_uint_eq(phase->bound, p->most);
    ck_assert_int_lt(count_again(p, 2), n);
    expect_chain(n);
    end();
}
END_TEST

/* A value parallel to the chain, as large as those in it, that the last layer reads: then nothing is a cut. A small
 * value does not matter. */
START_TEST(what_a_cut_is)
{
    level.how = (bt_checkpointing){BT_CHECKPOINTING_EVERY, .number = 3};
    bt_tensor *in = input(), *x = bt_reshape(in, N / 32, 32), *wide = bt_sin(x);
    bt_tensor *beside = _i ? bt_reshape(bt_sum(wide, 1), N / 32, 1) : wide;
    bt_tensor *y = bt_mul(layers(bt_mul(x, beside), 9), beside);
    bt_graph_assign(s.graph, s.vars[1], bt_grad(bt_sum(bt_sin(y)), in));
    const bt_program *p = scene_run_in(&s, phase);
    ck_assert_int_eq(p->again > 0, _i);
    end();
}
END_TEST

/* ---- names ---- */

/* Which layers rerun steps, and which steps. */
static void expect_layers(const bt_program *p, const char *expected)
{
    char found[64] = "";
    for (int layer = 0; layer < 10; layer++) {
        char path[32];
        snprintf(path, sizeof path, "net.layer%d", layer);
        for (int64_t i = 0; i < p->step_count; i++)
            if (p->steps[i].again && strcmp(p->steps[i].node->tag.path, path) == 0) {
                ck_assert_int_eq(p->steps[i].node->tag.order, 0);
                snprintf(found + strlen(found), sizeof found - strlen(found), "%d%s ", layer,
                         p->steps[i].call.op->name);
            }
    }
    ck_assert_str_eq(found, expected);
}

/* Three values; only the last leaves the layer. */
static bt_tensor *wide_layer(void *user, bt_tensor *const *in)
{
    (void)user;
    return bt_tanh(bt_exp(bt_tanh(in[0])));
}

static bt_tensor *wide_layers(bt_tensor *x, int count, bool regions)
{
    char path[32];
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "layer%d", i);
        const char *before = bt_trace_push(path);
        x = regions ? bt_checkpoint(wide_layer, NULL, x) : wide_layer(NULL, (bt_tensor *const[]){x, NULL});
        bt_trace_pop(before);
    }
    return x;
}

static const bt_program *wide(int count, bt_checkpointing how, bool regions)
{
    level.how = how;
    bt_tensor *x = input();
    bt_graph_assign(s.graph, s.vars[1], bt_grad(bt_sum(bt_exp(wide_layers(x, count, regions))), x));
    return scene_run_in(&s, phase);
}

static const struct naming {
    bt_checkpointing how;
    bool regions;
    const char *again;
    int named;
} namings[] = {
    {{BT_CHECKPOINTING_MODULES, .patterns = "layer1, layer*3"}, false, "1tanh 1exp 3tanh 3exp ", 4},
    {{BT_CHECKPOINTING_MODULES, .patterns = "layer*"}, false, "0tanh 0exp 1tanh 1exp 2tanh 2exp 3tanh 3exp ", 8},
    {{BT_CHECKPOINTING_MODULES, .patterns = "net.layer1, layer, 1"}, false, "", 0},
    {{BT_CHECKPOINTING_OPS, .patterns = "exp"}, false, "0exp 1exp 2exp 3exp ", 5},
    {{BT_CHECKPOINTING_OPS, .patterns = "ex*, si"}, false, "0exp 1exp 2exp 3exp ", 5},
    {{.kind = BT_CHECKPOINTING_NONE}, true, "0tanh 0exp 1tanh 1exp 2tanh 2exp 3tanh 3exp ", 0},
    {{.kind = BT_CHECKPOINTING_UNSET}, true, "0tanh 0exp 1tanh 1exp 2tanh 2exp 3tanh 3exp ", 0},
    {{.kind = BT_CHECKPOINTING_NONE}, false, "", 0},
};

START_TEST(by_name)
{
    const struct naming *n = &namings[_i];
    const bt_program *p = wide(4, n->how, n->regions);
    expect_layers(p, n->again);
    ck_assert_int_eq(level.named, n->named);
    count_again(p, 2);
    end();
}
END_TEST

/* The value in *user is read outside, and so is held. */
static bt_tensor *two_results(void *user, bt_tensor *const *in)
{
    bt_tensor *second = bt_sin(bt_softplus(in[0]));
    *(bt_tensor **)user = second;
    return bt_tanh(bt_sin(second));
}

START_TEST(a_second_result)
{
    bt_tensor *x = input(), *y = x, *second = NULL, *sum = bt_number(0, BT_F64);
    for (int i = 0; i < 3; i++) {
        y = bt_checkpoint(two_results, &second, y);
        sum = bt_add(sum, bt_sum(bt_exp(second)));
    }
    bt_graph_assign(s.graph, s.vars[1], bt_grad(bt_add(bt_sum(y), sum), x));
    const bt_program *p = scene_run_in(&s, phase);
    for (int64_t i = 0; i < p->step_count; i++)
        if (p->steps[i].again) /* softplus, and the sine of the second, from which tanh is computed */
            ck_assert_msg(p->steps[i].node->in[0]->node->op != &bt_op_softplus, "the second result is computed again");
    ck_assert_int_gt(p->again, 2);
    end();
}
END_TEST

/* ---- costs ---- */

enum { SIDE = 64 };

/* Products, and arithmetic on their results; turned: with a matrix that they must pack. */
static const bt_program *products_of(bt_checkpointing how, bool turned)
{
    double w[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++)
        w[i] = sin(i) / SIDE;
    level.how = how;
    bt_tensor *x = scene_read(&s, "x", w, (const int64_t[]){SIDE, SIDE, BT_END}), *y = x;
    scene_var(&s, "slope", BT_F64, NULL, (const int64_t[]){SIDE, SIDE, BT_END});
    for (int i = 0; i < 8; i++)
        y = bt_sin(bt_softplus(bt_matmul(y, turned ? bt_transpose(x) : x)));
    bt_graph_assign(s.graph, s.vars[1], bt_grad(bt_sum(y), x));
    return scene_run_in(&s, phase);
}

static const bt_program *products(bt_checkpointing how) { return products_of(how, false); }

static double part_again(const bt_program *p, int *product)
{
    double once = 0, again = 0;
    for (int64_t i = 0; i < p->step_count; i++) {
        double work = bt_call_work(&p->steps[i].call);
        *(p->steps[i].again ? &again : &once) += work;
        *product += p->steps[i].again && (bt_op_flags(p->steps[i].call.op) & BT_OP_PRODUCT);
    }
    return again / once;
}

START_TEST(cheap_runs_no_product_again)
{
    int product = 0;
    const bt_program *p = products((bt_checkpointing){BT_CHECKPOINTING_CHEAP, .cost = 0.5});
    double extra = part_again(p, &product);
    ck_assert_int_gt(p->again, 0);
    ck_assert_int_eq(product, 0);
    ck_assert_double_le(extra, 0.5);
    end();
}
END_TEST

START_TEST(no_more_than_the_cost)
{
    const double cost[] = {0, 0.02, 0.05, 0.1, 0.2, 0.4, 10};
    size_t before = SIZE_MAX;
    end();
    for (int i = 0; i < BT_COUNT_OF(cost); i++) {
        int product = 0;
        begin();
        const bt_program *p = products((bt_checkpointing){BT_CHECKPOINTING_COST, .cost = cost[i]});
        double extra = part_again(p, &product);
        ck_assert_double_le(extra, cost[i] + 1e-9);
        ck_assert_double_eq_tol(extra, p->extra, 1e-9);
        ck_assert_uint_le(p->most, before);
        ck_assert(i == 0 ? p->again == 0 : i < BT_COUNT_OF(cost) - 1 || product > 0);
        before = p->most;
        end();
    }
}
END_TEST

START_TEST(within_the_budget)
{
    end();
    begin();
    size_t all = products((bt_checkpointing){.kind = BT_CHECKPOINTING_NONE})->most;
    double before = 0;
    end();
    for (int i = 9; i >= 5; i--) {
        begin();
        phase->options.budget = all * (size_t)i / 10;
        const bt_program *p = products((bt_checkpointing){.kind = BT_CHECKPOINTING_BUDGET});
        ck_assert_uint_le(p->most, phase->options.budget);
        ck_assert_double_ge(p->extra, before); /* less memory never costs less work */
        before = p->extra;
        end();
    }
}
END_TEST

/* ---- what belongs to a launch ---- */

/* Each launch has its own outputs and scratch, and its own prepared kernel state, which is released once. */
START_TEST(launches_share_nothing)
{
    int scratches = 0, states = 0;
    const bt_program *p = products_of((bt_checkpointing){BT_CHECKPOINTING_COST, .cost = 10}, true);
    for (int64_t i = 0; i < p->step_count; i++)
        for (int64_t k = 0; k < i; k++) {
            const bt_call_step *a = &p->steps[i], *b = &p->steps[k];
            ck_assert(a->scratch < 0 || a->scratch != b->scratch);
            ck_assert(!a->call.state || a->call.state != b->call.state);
            for (int o = 0; o < a->call.outputs; o++)
                ck_assert_int_ne(a->out[o].buffer, b->out[0].buffer);
            scratches += a->again && a->scratch >= 0;
            states += a->again && a->call.state;
        }
    ck_assert_int_gt(scratches, 0);
    ck_assert_int_gt(states, 0);
    end();
}
END_TEST

/* It draws the same numbers as the first time: those of the mask. */
START_TEST(the_same_mask_again)
{
    double expected[N], x[N];
    for (int i = 0; i < N; i++)
        x[i] = sin(i);
    for (int again = 0; again <= 1; again++) {
        if (again) {
            end();
            begin();
        }
        level.how = (bt_checkpointing){again ? BT_CHECKPOINTING_MODULES : BT_CHECKPOINTING_NONE, .patterns = "layer*"};
        s.trace.record = scene_var(&s, "record", BT_I64, NULL, (const int64_t[]){BT_END});
        bt_tensor *y = scene_read(&s, "x", x, (const int64_t[]){N, BT_END}), *in = y;
        scene_var(&s, "slope", BT_F64, NULL, (const int64_t[]){N, BT_END});
        bt_trace_push("net");
        for (int i = 0; i < 4; i++) {
            char path[32];
            snprintf(path, sizeof path, "layer%d", i);
            const char *before = bt_trace_push(path);
            y = bt_sin(bt_mul(bt_normal_like(y), bt_softplus(y)));
            bt_trace_pop(before);
        }
        bt_graph_assign(s.graph, s.vars[2], bt_grad(bt_sum(y), in));
        const bt_program *p = scene_run_in(&s, phase);
        int drawn = 0;
        for (int64_t i = 0; i < p->step_count; i++)
            drawn += p->steps[i].again && (bt_op_flags(p->steps[i].call.op) & BT_OP_RANDOM);
        ck_assert_int_eq(drawn > 0, again);
        for (int i = 0; i < N; i++)
            if (again)
                ck_assert(var_get(s.vars[2], i) == expected[i]);
            else
                expected[i] = var_get(s.vars[2], i);
    }
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recompute");
    TCase *tests = tcase_create("recompute");
    tcase_add_checked_fixture(tests, begin, NULL);
    tcase_add_loop_test(tests, every_nth_cut, 0, 60);
    tcase_add_loop_test(tests, the_root, 0, 27);
    tcase_add_loop_test(tests, what_a_cut_is, 0, 2);
    tcase_add_loop_test(tests, by_name, 0, BT_COUNT_OF(namings));
    tcase_add_test(tests, a_second_result);
    tcase_add_test(tests, cheap_runs_no_product_again);
    tcase_add_test(tests, no_more_than_the_cost);
    tcase_add_test(tests, within_the_budget);
    tcase_add_test(tests, launches_share_nothing);
    tcase_add_test(tests, the_same_mask_again);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
