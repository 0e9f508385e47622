/* The dump of a graph: readable, complete, and the same every time. */
#include "support/scene.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static scene s;

static void setup(void) { scene_begin(&s, BT_F32); }

static void teardown(void)
{
    scene_free(&s);
    bt_error_clear();
}

static void expect_dump(const char *expected)
{
    bt_text text = {0};
    bt_graph_dump(s.graph, &text);
    ck_assert_str_eq(bt_text_get(&text), expected);
    bt_text_free(&text);
}

static void two_outputs(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_neg(in[0]);
    out[1] = bt_sum(in[0]);
}

static const bt_op split = {.name = "split", .inputs = 1, .outputs = 2, .body = two_outputs};

START_TEST(a_small_graph)
{
    bt_var *w = scene_var(&s, "net.layer1.weight", BT_F32, NULL, (const int64_t[]){4, 3, BT_END});
    bt_var *b = scene_var(&s, "net.layer1.bias", BT_F32, NULL, (const int64_t[]){4, BT_END});
    bt_var *data = scene_var(&s, "image", BT_F32, NULL, (const int64_t[]){2, 3, BT_END});
    bt_tensor *x = bt_trace_read(data), *weight = bt_trace_read(w), *bias = bt_trace_read(b);
    x->batch_axis = 0;
    const char *before = bt_trace_push("net.layer1");
    bt_tensor *y = bt_linear(x, weight, bias, true);
    bt_trace_pop(before);
    bt_tensor *parts = bt_apply(&split, NULL, bt_mul(0.5, bt_slice(y, 1, 0, 2)));
    bt_tensor *other = bt_constant(BT_ARRAY(((float[]){1, 2.5F, -3, 4, 5}), 5));
    bt_graph_assign(s.graph, b, bt_slice(other, 0, 0, 4));
    bt_graph_output(s.graph, &parts->node->out[1]);
    bt_graph_output(s.graph, bt_greater(parts, 0));
    scene_end(&s);
    expect_dump("%0 = f32[2, 3]@0 read image\n"
                "%1 = f32[4, 3] read net.layer1.weight\n"
                "%2 = f32[4] read net.layer1.bias\n"
                "%3 = f32[2, 4]@0 linear %0, %1, %2 {relu}  # net.layer1\n"
                "%4 = f32[2, 2]@0 slice %3 {axis 1, 0, 2}\n"
                "%5 = f32[] constant 0.5\n"
                "%6 = f32[2, 2] broadcast %5 {[2, 2]}\n"
                "%7 = f32[2, 2]@0 mul %6, %4\n"
                "%8 = f32[2, 2]@0, f32[] split %7\n"
                "%9 = f32[5] constant 1, 2.5, -3, 4, ...\n"
                "%10 = f32[4] slice %9 {axis 0, 0, 4}\n"
                "%11 = f32[] constant 0\n"
                "%12 = f32[2, 2] broadcast %11 {[2, 2]}\n"
                "%13 = bool[2, 2]@0 greater %8.0, %12\n"
                "net.layer1.bias := %10.0\n"
                "return %8.1\n"
                "return %13.0\n");
}
END_TEST

START_TEST(nothing)
{
    expect_dump("");
    bt_graph_placeholder(s.graph, &(bt_tensor){.dtype = BT_I64, .batch_axis = -1});
    bt_graph_constant(s.graph, (bt_array){.dtype = BT_F64, .rank = 1});
    expect_dump("%0 = i64[] read (input)\n%1 = f64[0] constant \n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dump");
    TCase *tests = tcase_create("dump");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_small_graph);
    tcase_add_test(tests, nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
