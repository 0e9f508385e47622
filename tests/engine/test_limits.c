/* tests/engine/test_limits.c: limits: one item too many is refused with a message. */
#include "levels.h"
#include "ridge.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bt_tensor *plain_start(bt_rule *rule, bt_tensor *v) { return (void)rule, v; }
static bt_tensor *plain_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    return (void)rule, bt_sub(param, bt_mul(0.1, grad));
}

static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                    "j", "k", "l", "m", "n", "o", "p", "q"};

static bt_status use(const bt_export *parts)
{
    bt_engine *engine = bt_engine_new();
    bt_status status = bt_engine_use(engine, parts, NULL);
    bt_engine_free(engine);
    return status;
}

static void expect(bt_status status, const char *words)
{
    ck_assert_msg(status != BT_OK && strstr(bt_error(), words), "`%s` is not in: %s", words, bt_error());
    bt_error_clear();
}

/* Sixteen entries are accepted; a seventeenth, in the place of the NULL, is not. */
START_TEST(lists_of_an_export)
{
    static const bt_dataset_def none = {.name = "none"};
    static bt_method_def methods[BT_MAX_ITEMS + 1];
    static bt_optimizer_def optimizers[BT_MAX_ITEMS + 1];
    bt_export some = {.abi = BT_ABI}, problems = {.abi = BT_ABI}, datasets = {.abi = BT_ABI};
    for (int i = 0; i <= BT_MAX_ITEMS; i++) {
        methods[i] = (bt_method_def){.name = names[i], .start = plain_start};
        optimizers[i] = (bt_optimizer_def){.name = names[i], .update = plain_update};
        problems.problems[i] = ridge_parts.problems[0];
        datasets.datasets[i] = &none;
    }
    for (int i = 0; i < BT_MAX_ITEMS; i++) {
        some.methods[i] = &methods[i];
        some.optimizers[i] = &optimizers[i];
    }
    EXPECT_OK(use(&some));
    some.methods[BT_MAX_ITEMS] = &methods[BT_MAX_ITEMS];
    expect(use(&some), "lists more than 16 methods");
    some.optimizers[BT_MAX_ITEMS] = &optimizers[BT_MAX_ITEMS];
    expect(use(&some), "lists more than 16 optimizers");
    expect(use(&problems), "lists more than 16 problems");
    expect(use(&datasets), "lists more than 16 datasets");
}
END_TEST

START_TEST(lists_of_methods_and_optimizers)
{
    bt_method_def method = {.name = "m", .start = plain_start};
    bt_optimizer_def optimizer = {.name = "o", .update = plain_update};
    bt_export parts = {.abi = BT_ABI, .methods = {&method}, .optimizers = {&optimizer}};
    for (int i = 0; i < BT_MAX_ITEMS; i++) {
        optimizer.hypers[i] = method.hypers[i] = (bt_hyper_def){names[i], 1, 0, 2, "one", BT_HYPER_REAL};
        optimizer.slots[i] = names[i];
        *(i < 8 ? &method.slots[i] : &method.stacks[i - 8]) = names[i];
    }
    EXPECT_OK(use(&parts));
    method.stacks[8] = "q";
    expect(use(&parts), "method m: its record lists more than 16 slots and stacks");
    method.stacks[8] = NULL;
    method.hypers[BT_MAX_ITEMS] = (bt_hyper_def){"q", 1, 0, 2, "one", BT_HYPER_REAL};
    expect(use(&parts), "method m: its record lists more than 16 hyperparameters");
    method.hypers[BT_MAX_ITEMS].name = NULL;
    optimizer.slots[BT_MAX_ITEMS] = "q";
    expect(use(&parts), "optimizer o: its record lists more than 16 slots");
    ck_assert_ptr_null(bt_optimizer_of(&optimizer));
    expect(bt_error_status(), "optimizer o: its record lists more than 16 slots");
    optimizer.slots[BT_MAX_ITEMS] = NULL;
    optimizer.hypers[BT_MAX_ITEMS] = (bt_hyper_def){"q", 1, 0, 2, "one", BT_HYPER_REAL};
    expect(use(&parts), "optimizer o: its record lists more than 16 hyperparameters");
}
END_TEST

START_TEST(a_long_key_of_a_method)
{
    char name[140] = "";
    memset(name, 'x', 125);
    bt_method_def method = {.name = "m", .start = plain_start, .hypers = {{name, 1, 0, 2, "one", BT_HYPER_REAL}}};
    bt_export parts = {.abi = BT_ABI, .methods = {&method}};
    EXPECT_OK(use(&parts));
    memset(name, 'x', 126);
    expect(use(&parts), "has more than 127 characters");
}
END_TEST

/* In the configuration file that a run writes, its section appears once. */
START_TEST(a_long_name_of_a_problem)
{
    char name[301] = "", section[320], *text = NULL;
    size_t size;
    memset(name, 'p', 300);
    bt_engine *engine = bt_engine_new();
    bt_config *config = engine->context.config;
    EXPECT_OK(bt_config_add_problem(config, name));
    EXPECT_OK(bt_config_resolve(config));
    FILE *file = open_memstream(&text, &size);
    EXPECT_OK(bt_config_print(config, file));
    fclose(file);
    snprintf(section, sizeof section, "[%s]", name);
    const char *first = strstr(text, section);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(strstr(first + 1, section));
    free(text);
    bt_engine_free(engine);
}
END_TEST

/* ---- ops ---- */

static bt_status add_all(const bt_launch *run) { return (void)run, BT_OK; }
static bt_status like_first(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    out[0] = in[0];
    return BT_OK;
}
static void first_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_mul(2, in[0]);
}
static const bt_op with_kernel = {.name = "wide",
                                  .inputs = -1,
                                  .infer = like_first,
                                  .body = first_body,
                                  .kernels = {{.device = BT_CPU, .dtype = BT_F64, .launch = add_all}}},
                   without = {.name = "wide", .inputs = -1, .infer = like_first, .body = first_body};

START_TEST(operands_of_a_kernel)
{
    static const double x[] = {1, 2};
    for (int count = BT_MAX_ITEMS; count <= BT_MAX_ITEMS + 1; count++)
        for (int kernel = 0; kernel < 2; kernel++) {
            bt_trace trace;
            bt_graph *graph = bt_graph_new();
            bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
            bt_tensor *in[BT_MAX_ITEMS + 2] = {NULL};
            for (int i = 0; i < count; i++)
                in[i] = bt_constant(BT_ARRAY(x, 2));
            (bt_apply)(kernel ? &with_kernel : &without, NULL, in);
            bt_trace_end(&trace);
            if (kernel && count > BT_MAX_ITEMS)
                ck_assert_msg(strstr(graph->message, "wide: a kernel can have at most 16 operands and 8 results") !=
                                  NULL,
                              "%s", graph->message);
            else
                ck_assert_int_eq(graph->status, BT_OK);
            bt_graph_free(graph);
        }
}
END_TEST

START_TEST(sizes_of_an_array)
{
    static const double x[1] = {1};
    bt_array array = BT_ARRAY(x, 1, 1, 1, 1, 1, 1, 1, 1);
    ck_assert_int_eq(array.rank, 8);
    ck_assert_int_eq(bt_array_count(array), 1);
    array = BT_ARRAY(x, 1, 1, 1, 1, 1, 1, 1, 1, 2);
    ck_assert_int_eq(bt_array_count(array), -1);
    expect(bt_error_status(), "BT_ARRAY: more than 8 sizes");
}
END_TEST

/* A truncated message ends with dots, whatever is prepended to it later. */
START_TEST(long_messages)
{
    char text[6001] = "";
    memset(text, 'y', 6000);
    bt_fail(BT_ERROR_DATA, "%s", text);
    ck_assert_uint_eq(strlen(bt_error()), 4095);
    ck_assert_str_eq(bt_error() + 4092, "...");
    bt_error_context("where");
    ck_assert_int_eq(strncmp(bt_error(), "where: yy", 9), 0);
    ck_assert_str_eq(bt_error() + 4092, "...");
    bt_error_clear();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limits");
    TCase *tests = tcase_create("limits");
    tcase_add_test(tests, lists_of_an_export);
    tcase_add_test(tests, lists_of_methods_and_optimizers);
    tcase_add_test(tests, a_long_key_of_a_method);
    tcase_add_test(tests, a_long_name_of_a_problem);
    tcase_add_test(tests, operands_of_a_kernel);
    tcase_add_test(tests, sizes_of_an_array);
    tcase_add_test(tests, long_messages);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
