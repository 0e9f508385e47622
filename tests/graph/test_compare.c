/* How graphs are compared: attributes, constants, bodies; and what a node exposes of its op's body. */
#include "support/scene.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static double outside = 1; /* a C variable that a body uses */

typedef struct times_attr {
    double factor;
} times_attr;

static void times_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    out[0] = bt_mul(((const times_attr *)attr)->factor, in[0]);
}

static void taking_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_mul(outside, in[0]);
}

static void holding_body(const void *attr, bt_tensor *const *in, bt_tensor **out);
static const bt_op times = {.name = "times", .inputs = 1, .attr_size = sizeof(times_attr), .body = times_body};
static const bt_op opaque = {.name = "opaque", .inputs = 1, .attr_size = sizeof(times_attr), .infer = bt_infer_same};
static const bt_op taking = {.name = "taking", .inputs = 1, .infer = bt_infer_same, .body = taking_body};
static const bt_op holding = {.name = "holding", .inputs = 1, .body = holding_body};

static void holding_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_apply(&taking, NULL, in[0]);
}

typedef struct version {
    const bt_op *op;
    double factor, outside, constant;
    bool other; /* returns the constant */
} version;

static void record(scene *s, version v)
{
    outside = v.outside;
    scene_begin(s, BT_F64);
    bt_tensor *x = VECTOR(s, "x", 1, 2), *list = bt_constant(BT_ARRAY(((double[]){1, 2, 3, 4, v.constant}), 5));
    times_attr attr = {v.factor};
    bt_tensor *y = bt_apply(v.op, v.op->attr_size ? &attr : NULL, x);
    bt_graph_output(s->graph, v.other ? list : y);
    scene_end(s);
}

static const version first = {&times, 2, 1, 5, false};

START_TEST(what_makes_a_difference)
{
    static const struct {
        version a, b;
        const char *what; /* NULL: they are equal */
    } cases[] = {{{&times, 2, 1, 5, false}, {&times, 2, 1, 5, false}, NULL},
                 {{&times, 2, 1, 5, false}, {&times, 3, 1, 5, false}, "times"},
                 {{&opaque, 2, 1, 5, false}, {&opaque, 2, 1, 5, false}, NULL},
                 {{&opaque, 2, 1, 5, false}, {&opaque, 3, 1, 5, false}, "opaque"},
                 {{&times, 2, 1, 5, false}, {&times, 2, 1, 6, false}, "constant"},
                 {{&times, 2, 1, 5, false}, {&times, 2, 1, 5, true}, "returns or sets other values"},
                 {{&taking, 0, 1, 5, false}, {&taking, 0, 1, 5, false}, NULL},
                 {{&taking, 0, 1, 5, false}, {&taking, 0, 2, 5, false}, "the body of `%2 = f64[2] taking %0` records"},
                 {{&holding, 0, 1, 5, false}, {&holding, 0, 2, 5, false}, "the body of `%2 = f64[2] holding %0`"}};
    scene a, b;
    bt_text text = {0};
    record(&a, cases[_i].a);
    record(&b, cases[_i].b);
    a.graph->nodes[0]->attr = b.graph->nodes[0]->attr; /* the same variable */
    bool same = bt_graph_hash(a.graph) == bt_graph_hash(b.graph), differ = bt_graph_differs(a.graph, b.graph, &text);
    ck_assert_int_eq(same, cases[_i].what == NULL);
    ck_assert_int_eq(differ, cases[_i].what != NULL);
    if (cases[_i].what)
        ck_assert_msg(strstr(bt_text_get(&text), cases[_i].what) != NULL, "%s", bt_text_get(&text));
    bt_text_free(&text);
    scene_free(&a);
    scene_free(&b);
}
END_TEST

START_TEST(more_nodes)
{
    scene a, b;
    bt_text text = {0};
    record(&a, first);
    record(&b, first);
    a.graph->nodes[0]->attr = b.graph->nodes[0]->attr;
    a.graph->node_count--;
    ck_assert(bt_graph_differs(a.graph, b.graph, &text));
    ck_assert_str_eq(bt_text_get(&text), "2 nodes became 3");
    a.graph->node_count++;
    bt_text_free(&text);
    scene_free(&a);
    scene_free(&b);
}
END_TEST

/* ---- differences within bodies ---- */

static void rule(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                 bt_tensor **wanted)
{
    (void)attr, (void)in, (void)out;
    wanted[0] = given[0];
}

static void ruled_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_print(bt_detach(in[0]), "x");
}

static const bt_op ruled = {
    .name = "ruled", .inputs = 1, .infer = bt_infer_same, .body = ruled_body, .vjp = rule, .jvp = rule};

static void around_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_apply(&ruled, NULL, in[0]);
}

static const bt_op around = {.name = "around", .inputs = 1, .body = around_body};

static void twice_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_apply(&around, NULL, in[0]);
}

static const bt_op twice = {.name = "twice", .inputs = 1, .body = twice_body};

START_TEST(what_bodies_hide)
{
    static const unsigned all[] = {BT_OP_EFFECT, BT_OP_DETACH, BT_OP_OWN_VJP, BT_OP_OWN_JVP};
    scene s;
    scene_begin(&s, BT_F64);
    bt_tensor *x = VECTOR(&s, "x", 1, 2), *plain = bt_apply(&times, &(times_attr){2}, x);
    bt_tensor *deep[] = {bt_apply(&ruled, NULL, x), bt_apply(&around, NULL, x), bt_apply(&twice, NULL, x)};
    for (size_t f = 0; f < sizeof all / sizeof *all; f++) {
        ck_assert(!bt_node_any(plain->node, all[f]) && !bt_node_any(x->node, all[f]));
        for (int k = 0; k < 3; k++)
            ck_assert(bt_node_any(deep[k]->node, all[f]));
    }
    ck_assert(!(bt_op_flags(&around) & BT_OP_OWN_VJP) && bt_op_flags(&ruled) & BT_OP_OWN_VJP);
    scene_free(&s);
}
END_TEST

START_TEST(when_to_look_again)
{
    static const int64_t times_due[] = {2, 3, 10, 100, 1000, 10000};
    size_t next = 0;
    for (int64_t t = -1; t <= 10000; t++)
        if (bt_look_again(t))
            ck_assert_int_eq(times_due[next++], t);
    ck_assert_uint_eq(next, sizeof times_due / sizeof *times_due);
    ck_assert(!bt_look_again(INT64_MAX - 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compare");
    TCase *tests = tcase_create("compare");
    tcase_add_loop_test(tests, what_makes_a_difference, 0, 9);
    tcase_add_test(tests, more_nodes);
    tcase_add_test(tests, what_bodies_hide);
    tcase_add_test(tests, when_to_look_again);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
