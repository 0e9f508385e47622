/* The trace in progress: nesting, reads, module paths, sites of random ops, detached values, poison. */
#include "support/scene.h"

#include "support/suite.h"
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static scene s;

static void setup(void) { scene_begin(&s, BT_F64); }

static void teardown(void)
{
    scene_free(&s);
    bt_error_clear();
}

START_TEST(traces_nest)
{
    bt_graph *inner_graph = bt_graph_new();
    bt_trace inner;
    bt_tensor *x = SCALAR(&s, "x", 1);
    ck_assert_ptr_eq(bt_trace_now(), &s.trace);
    bt_trace_begin(&inner, inner_graph, BT_VALID, BT_F32);
    ck_assert_ptr_eq(bt_trace_now(), &inner);
    ck_assert(inner.mode == BT_VALID && inner.dtype == BT_F32 && inner.record == NULL);
    bt_tensor *y = bt_number(2, BT_F32);
    ck_assert_ptr_eq(y->node->graph, inner_graph);
    ck_assert(bt_poisoned(bt_neg(x))); /* of the outer trace */
    ck_assert_str_eq(inner_graph->message, "neg: operand 1 belongs to another trace");
    bt_trace_end(&inner);
    ck_assert_ptr_eq(bt_trace_now(), &s.trace);
    ck_assert_int_eq(s.graph->status, BT_OK); /* each has its own errors */
    ck_assert(!bt_poisoned(bt_neg(x)));
    bt_graph_free(inner_graph);
}
END_TEST

static void *look_elsewhere(void *user)
{
    bt_trace **found = user;
    *found = bt_trace_now();
    return NULL;
}

START_TEST(a_trace_is_the_threads)
{
    pthread_t thread;
    bt_trace *found = &s.trace;
    ck_assert_int_eq(pthread_create(&thread, NULL, look_elsewhere, &found), 0);
    pthread_join(thread, NULL);
    ck_assert_ptr_null(found);
}
END_TEST

START_TEST(outside_of_a_trace)
{
    bt_tensor *x = SCALAR(&s, "x", 1);
    scene_end(&s);
    ck_assert_ptr_null(bt_trace_now());
    bt_tensor *found[] = {bt_neg(x),
                          bt_number(1, BT_F64),
                          bt_trace_read(s.vars[0]),
                          bt_grad(x, x),
                          bt_constant(BT_ARRAY(&(double){1})),
                          bt_detach(x),
                          bt_add(x, 1)};
    for (int i = 0; i < BT_COUNT_OF(found); i++)
        ck_assert(found[i] && bt_poisoned(found[i]));
    ck_assert_str_eq(bt_error(), "neg: tensors can only be computed inside a traced callback");
    ck_assert_str_eq(bt_trace_push("layer"), "");
    bt_trace_pop("");
    bt_trace_overlay(s.vars[0], x);
    ck_assert_uint_eq(bt_trace_site(), 0);
    ck_assert_int_eq(s.graph->node_count, 1);
}
END_TEST

START_TEST(reads_and_overlays)
{
    bt_var *v = scene_var(&s, "v", BT_F64, NULL, (const int64_t[]){BT_END});
    bt_var *w = scene_var(&s, "w", BT_F64, NULL, (const int64_t[]){BT_END});
    bt_tensor *leaf = bt_trace_read(v), *y = bt_exp(leaf), *z = bt_neg(y);
    ck_assert_ptr_eq(bt_trace_read(v), leaf);
    bt_trace_overlay(v, y);
    ck_assert_ptr_eq(bt_trace_read(v), y);
    bt_trace_overlay(v, z);
    ck_assert_ptr_eq(bt_trace_read(v), z);
    ck_assert_ptr_eq(bt_trace_read(w)->node->op, &bt_op_read);
    ck_assert_ptr_eq(bt_graph_read(s.graph, v), leaf); /* the leaf itself still exists */
    ck_assert(bt_poisoned(bt_trace_read(NULL)));
    ck_assert_str_eq(s.graph->message, "the variable to read is NULL");
}
END_TEST

START_TEST(module_paths)
{
    bt_tensor *x = SCALAR(&s, "x", 1);
    const char *root = bt_trace_push("classifier"), *outer = bt_trace_push("layer1");
    ck_assert_str_eq(root, "");
    ck_assert_str_eq(outer, "classifier");
    ck_assert_str_eq(bt_neg(x)->node->tag.path, "classifier.layer1");
    const char *same = bt_trace_push("");
    ck_assert_str_eq(bt_neg(x)->node->tag.path, "classifier.layer1");
    bt_trace_pop(same);
    same = bt_trace_push(NULL);
    bt_trace_pop(same);
    bt_trace_pop(outer);
    ck_assert_str_eq(bt_neg(x)->node->tag.path, "classifier");
    ck_assert_str_eq(bt_number(1, BT_F64)->node->tag.path, "classifier");
    bt_trace_pop(root);
    ck_assert_str_eq(bt_neg(x)->node->tag.path, "");
}
END_TEST

/* ---- poison ---- */

START_TEST(poison_spreads_with_the_first_message)
{
    bt_tensor *a = VECTOR(&s, "a", 1, 2), *b = VECTOR(&s, "b", 1, 2, 3);
    const char *before = bt_trace_push("net.layer2");
    bt_tensor *bad = bt_add(a, b);
    bt_trace_pop(before);
    ck_assert(bt_poisoned(bad) && bad != NULL);
    ck_assert_int_eq(bt_rank(bad), 0);
    ck_assert_int_eq(bt_dim(bad, 0), 1);
    int64_t nodes = s.graph->node_count;
    before = bt_trace_push("head");
    bt_tensor *worse = bt_sum(bt_exp(bt_mul(bad, a)));
    ck_assert(bt_poisoned(worse) && worse != NULL);
    ck_assert(bt_poisoned(bt_record(&bt_op_add, NULL, 0, (bt_tensor *const[]){a, NULL}, 2)));
    ck_assert(bt_poisoned(bt_dot(a, b))); /* an error of its own */
    bt_trace_poison(BT_ERROR_DATA, "and another");
    bt_trace_pop(before);
    ck_assert_int_eq(s.graph->status, BT_ERROR_SHAPE);
    ck_assert_int_eq(strncmp(s.graph->message, "net.layer2: add: shapes [2] and [3] do not match", 46), 0);
    ck_assert_int_eq(s.graph->node_count, nodes);
    ck_assert_str_eq(bt_error(), "");
}
END_TEST

/* An error detected by infer, not by a builder; the module's name is the beginning of the op's. */
START_TEST(the_path_stands_before_every_message)
{
    bt_tensor *a = MATRIX(&s, "a", 1, 2, 1, 2), *b = MATRIX(&s, "b", 1, 3, 1, 2, 3);
    const char *before = bt_trace_push("d");
    ck_assert(bt_poisoned(bt_dot(a, b)));
    bt_trace_pop(before);
    ck_assert_int_eq(strncmp(s.graph->message, "d: dot: ", 8), 0);
}
END_TEST

START_TEST(the_first_path_stays)
{
    bt_tensor *a = MATRIX(&s, "a", 1, 2, 1, 2), *b = MATRIX(&s, "b", 1, 3, 1, 2, 3);
    const char *before = bt_trace_push("first");
    ck_assert(bt_poisoned(bt_dot(a, b)));
    bt_trace_pop(before);
    char message[512];
    snprintf(message, sizeof message, "%s", s.graph->message);
    before = bt_trace_push("second");
    ck_assert(bt_poisoned(bt_dot(b, a)));
    ck_assert(bt_poisoned(bt_record(&bt_op_neg, NULL, 0, (bt_tensor *const[]){NULL}, 1)));
    bt_trace_pop(before);
    ck_assert_str_eq(s.graph->message, message);
}
END_TEST

/* ---- random ops ---- */

enum { SITES = 7 };

/* Requests sites as a model would: two modules, one of them used twice, and another owner. */
static void ask_sites(uint32_t *sites, bool more_nodes)
{
    int at = 0;
    bt_tensor *x = more_nodes ? bt_number(1, BT_F64) : NULL;
    const char *root = bt_trace_push("net");
    sites[at++] = bt_trace_site();
    for (int i = 0; i < 2; i++) {
        const char *before = bt_trace_push(i ? "b" : "a");
        sites[at++] = bt_trace_site();
        sites[at++] = bt_trace_site();
        bt_trace_pop(before);
        for (int k = 0; x && k < 10; k++)
            x = bt_neg(x);
    }
    const char *before = bt_trace_push("a"); /* again */
    sites[at++] = bt_trace_site();
    bt_trace_pop(before);
    bt_trace_now()->tag.owner = "other";
    sites[at++] = bt_trace_site();
    bt_trace_pop(root);
}

START_TEST(sites_are_the_same_in_every_trace)
{
    uint32_t first[SITES], second[SITES];
    ask_sites(first, false);
    bt_graph *graph = bt_graph_new();
    bt_trace trace;
    bt_trace_begin(&trace, graph, BT_VALID, BT_F32);
    ask_sites(second, true);
    bt_trace_end(&trace);
    bt_graph_free(graph);
    ck_assert_mem_eq(first, second, sizeof first);
    for (int i = 0; i < SITES; i++)
        for (int j = 0; j < i; j++)
            ck_assert_msg(first[i] != first[j], "sites %d and %d are one", j, i);
}
END_TEST

START_TEST(equal_modules_draw_different_numbers)
{
    s.trace.record = scene_var(&s, "record", BT_I64, NUMBERS(5), (const int64_t[]){BT_END});
    s.trace.seed = 99;
    bt_tensor *x = VECTOR(&s, "x", 0, 0, 0), *drawn[3];
    for (int i = 0; i < 3; i++) {
        const char *before = bt_trace_push(i == 2 ? "layer2" : "layer1");
        drawn[i] = bt_normal_like(x);
        bt_trace_pop(before);
        const bt_random_attr *attr = drawn[i]->node->attr;
        ck_assert_uint_eq(attr->key, 99);
        ck_assert(drawn[i]->dtype == BT_F64 && drawn[i]->dims[0] == 3);
        for (int j = 0; j < i; j++)
            ck_assert(attr->site != ((const bt_random_attr *)drawn[j]->node->attr)->site);
    }
    scene_end(&s);
}
END_TEST

START_TEST(no_random_numbers_without_a_record)
{
    bt_tensor *x = VECTOR(&s, "x", 0, 0, 0);
    const char *before = bt_trace_push("layer1");
    ck_assert(bt_poisoned(bt_normal_like(x)));
    bt_trace_pop(before);
    ck_assert_int_eq(s.graph->status, BT_ERROR_UNSUPPORTED);
    ck_assert_int_eq(strncmp(s.graph->message, "layer1: normal_like: ", 21), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace");
    TCase *tests = tcase_create("trace");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, traces_nest);
    tcase_add_test(tests, a_trace_is_the_threads);
    tcase_add_test(tests, outside_of_a_trace);
    tcase_add_test(tests, reads_and_overlays);
    tcase_add_test(tests, module_paths);
    tcase_add_test(tests, poison_spreads_with_the_first_message);
    tcase_add_test(tests, the_path_stands_before_every_message);
    tcase_add_test(tests, the_first_path_stays);
    tcase_add_test(tests, sites_are_the_same_in_every_trace);
    tcase_add_test(tests, equal_modules_draw_different_numbers);
    tcase_add_test(tests, no_random_numbers_without_a_record);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
