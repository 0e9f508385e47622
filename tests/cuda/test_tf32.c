/* tests/cuda/test_tf32.c: precision = tf32: products and convolutions on the device use factors rounded to 11 bits,
 * summed in f32, and nothing else is rounded. The reference rounds the factors here and computes on the processor. */
#include "engine/levels.h"

#include "base/half.h"
#include "engine/session/session.h"
#include "fake.h"
#include "support/scene.h"
#include "support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { M = 8, K = 64, N = 12, IMAGES = 2, SIDE = 4, IN = 4, OUT = 8, WINDOW = 3, MOST = 4096 };

/* Rounds to nearest, ties to even. */
static double rounded(double x)
{
    const uint32_t bits = bt_f32_bits((float)x), odd = bits >> 13 & 1;
    return (double)bt_f32_of((bits + 0xfff + odd) & ~UINT32_C(0x1fff));
}

static double number(int64_t i, int which) { return (double)((i * 7919 + which * 31) % 1009) / 1009 - 0.5; }

/* Factor number `which`, or the addend of a product. */
static bt_tensor *operand(scene *s, int which, bool round, const int64_t *dims)
{
    static const char *const names[] = {"a", "b", "c", "bias", "x", "w", "y"};
    double values[MOST];
    for (int64_t i = 0; i < MOST; i++)
        values[i] = round ? rounded(number(i, which)) : number(i, which);
    return bt_trace_read(scene_var(s, names[which], BT_F32, values, dims));
}
#define OPERAND(s, which, round, ...) operand((s), (which), (round), (const int64_t[]){__VA_ARGS__, BT_END})

static void record_products(scene *s, bool round)
{
    const bt_linear_attr line = {1};
    bt_tensor *a = OPERAND(s, 0, round, M, K), *b = OPERAND(s, 1, round, K, N), *c = OPERAND(s, 2, false, M, N);
    bt_tensor *bias = OPERAND(s, 3, false, M), *one = bt_number(1, BT_F32);
    bt_graph_output(s->graph, bt_dot(a, b));
    bt_graph_output(s->graph, BT_RECORD0(&bt_op_dot_add, a, b, c, one));
    bt_graph_output(s->graph, BT_RECORD(&bt_op_linear, &line, bt_transpose(b), a, bias));
}

static void record_convolutions(scene *s, bool round)
{
    const bt_conv_attr attr = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
    bt_conv_attr to_x = attr, to_w = attr;
    bt_tensor *x = OPERAND(s, 4, round, IMAGES, SIDE, SIDE, IN), *w = OPERAND(s, 5, round, WINDOW, WINDOW, IN, OUT);
    bt_tensor *y = OPERAND(s, 6, round, IMAGES, SIDE, SIDE, OUT);
    to_x.size[0] = to_x.size[1] = SIDE;
    to_w.size[0] = to_w.size[1] = WINDOW;
    bt_graph_output(s->graph, BT_RECORD(&bt_op_conv, &attr, x, w));
    bt_graph_output(s->graph, BT_RECORD(&bt_op_conv_dx, &to_x, y, w));
    bt_graph_output(s->graph, BT_RECORD(&bt_op_conv_dw, &to_w, x, y));
}

static void (*const records[])(scene *s, bool round) = {record_products, record_convolutions};

/* All results concatenated, to be freed. backend: NULL for the processor. */
static double *run(int which, const char *backend, bt_dtype low, bool round, int64_t *count)
{
    scene s;
    if (backend)
        setenv("BETTY_TEST_BACKEND", backend, 1);
    else
        unsetenv("BETTY_TEST_BACKEND");
    scene_begin(&s, BT_F32);
    s.trace.tag.low = low;
    records[which](&s, round);
    scene_end(&s);
    *count = output_elements(s.graph);
    double *values = run_once(s.graph);
    scene_free(&s);
    return values;
}

static double distance(const double *a, const double *b, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

START_TEST(products)
{
    int64_t count;
    double *exact = run(_i, NULL, BT_F32, false, &count), *due = run(_i, NULL, BT_F32, true, &count);
    double *near = run(_i, NULL, BT_TF32, false, &count), *full = run(_i, "cuda", BT_F32, false, &count);
    double *found = run(_i, "cuda", BT_TF32, false, &count);
    ck_assert_double_lt(distance(found, due, count), 1e-5);
    ck_assert_double_lt(distance(full, exact, count), 1e-5);
    ck_assert_double_gt(distance(exact, due, count), 1e-4);
    ck_assert(memcmp(near, exact, (size_t)count * sizeof *near) == 0); /* the processor computes it in f32 */
    free(exact);
    free(due);
    free(near);
    free(full);
    free(found);
}
END_TEST

/* ---- a level ---- */

static bt_module *weights(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "w", bt_init_constant(0), K, N);
    return module;
}

static bt_status batch_of(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    static double a[M * K], c[M * N];
    (void)self, (void)mode, (void)index;
    for (int i = 0; i < M * K; i++)
        a[i] = number(i, 0);
    for (int i = 0; i < M * N; i++)
        c[i] = number(i, 2);
    BT_TRY(bt_batch_set(batch, "a", BT_ARRAY(a, M, K)));
    return bt_batch_set(batch, "c", BT_ARRAY(c, M, N));
}

/* Its gradient is a' c. */
static bt_tensor *slope(bt_problem *self, const bt_batch *batch)
{
    return bt_sum(bt_mul(bt_field(batch, "c"), bt_dot(bt_field(batch, "a"), bt_param(self, "w"))));
}

static const bt_problem_def model = {
    .name = "model", .configure_module = weights, .get_batch = batch_of, .training_step = slope};
static const bt_export parts = {.abi = BT_ABI, .problems = {&model}};

/* Two steps of length 1 from 0, the second one replayed from a recording. The largest distance from -2 a' c. */
static double trained(const char *settings, bool round)
{
    static double found[K * N], due[K * N];
    bt_engine *engine = levels_engine(&parts, NULL, settings);
    memset(due, 0, sizeof due);
    for (int m = 0; m < M; m++)
        for (int k = 0; k < K; k++)
            for (int n = 0; n < N; n++) {
                const double a = number(m * K + k, 0), c = number(m * N + n, 2);
                due[k * N + n] -= 2 * (round ? rounded(a) * rounded(c) : a * c);
            }
    levels_step(engine, 2);
    levels_params(engine, "model", found, K * N);
    bt_engine_free(engine);
    return distance(found, due, K * N);
}

START_TEST(a_level)
{
    static const char *const orders[] = {"eager", "lazy", "1", "2"};
    static const char tf32[] = "engine.precision = tf32\nmodel.optimizer = sgd\nmodel.lr = 1\n";
    static const char other[] =
        "engine.precision = tf32\nmodel.precision = fp32\nmodel.optimizer = sgd\nmodel.lr = 1\n";
    setenv("BETTY_TEST_BACKEND", "cuda", 1);
    for (int o = 0; o < BT_COUNT_OF(orders); o++) {
        fake_order(orders[o]);
        ck_assert_double_lt(trained(tf32, true), 1e-5);
    }
    ck_assert_double_gt(trained(tf32, false), 1e-4);
    ck_assert_double_lt(trained(other, false), 1e-5);
    unsetenv("BETTY_TEST_BACKEND");
    ck_assert_double_lt(trained(tf32, false), 1e-5);
}
END_TEST

/* It has an effect here: no warning. */
START_TEST(acts)
{
    setenv("BETTY_TEST_BACKEND", "cuda", 1);
    bt_engine *engine = levels_engine(&parts, NULL, "engine.precision = tf32\n");
    EXPECT_OK(bt_engine_setup(engine));
    ck_assert_str_eq(bt_text_get(&engine->context.warnings), "");
    bt_engine_free(engine);
}
END_TEST

static bt_engine *make(void *user)
{
    (void)user;
    return levels_engine(&parts, NULL, "engine.precision = tf32\nmodel.lr = 0.1\n");
}

START_TEST(resumes)
{
    setenv("BETTY_TEST_BACKEND", "cuda", 1);
    levels_expect_resumes(make, NULL, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("CUDA: tf32");
    TCase *tests = tcase_create("tf32");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, products, 0, BT_COUNT_OF(records));
    tcase_add_test(tests, a_level);
    tcase_add_test(tests, acts);
    tcase_add_test(tests, resumes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
