/* The tree of modules: names, order, errors, initial values, storage. Nothing here runs a program. */
#include "nn/module.h"
#include "support/vars.h"

#include "support/suite.h"
#include <betty/betty.h>
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bt_tensor *identity(bt_module *self, bt_tensor *const *in)
{
    (void)self;
    return in[0];
}

static void assert_message(const char *part)
{
    ck_assert_msg(strstr(bt_error(), part) != NULL, "message \"%s\" lacks \"%s\"", bt_error(), part);
    bt_error_clear();
}

/* The tree a(weight, [one.inner.weight, one.bias], buffer mean, late) with children added before its own parameters. */
static bt_module *tree(void)
{
    bt_module *inner = bt_module_new(identity), *one = bt_module_new(NULL), *root = bt_module_new(NULL);
    bt_module_add_param(inner, "weight", bt_init_uniform(-1, 1), 3, 5);
    bt_module_add(one, inner, "inner");
    bt_module_add_param(one, "bias", bt_init_normal(0, 1), 7);
    bt_module_add(root, one, "one");
    bt_module_add_param(root, "scale", bt_init_constant(2.5));
    bt_module_add_buffer(root, "mean", bt_init_constant(-1), 4);
    bt_module_add(root, bt_nn_linear(4, 2), "layer%d", 3);
    return root;
}

START_TEST(test_names_are_in_order_of_declaration)
{
    static const char *const expected[] = {"scale", "one.bias", "one.inner.weight", "layer3.weight", "layer3.bias"};
    bt_module *root = tree();
    ck_assert_int_eq(bt_module_list(root), BT_OK);
    ck_assert_int_eq(root->param_count, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_str_eq(root->params[i]->path, expected[i]);
    ck_assert_int_eq(root->buffer_count, 1);
    ck_assert_str_eq(root->buffers[0]->path, "mean");
    ck_assert_int_eq(bt_param_count(root), 1 + 7 + 15 + 8 + 2);
    ck_assert_int_eq(bt_param_count(bt_child(root, "one")), 22);
    ck_assert_ptr_eq(bt_module_find(root, "one.inner.weight"), root->params[2]);
    ck_assert_ptr_null(bt_module_find(root, "one.weight"));
    ck_assert_ptr_null(bt_module_find(root, "one.inner.weight.x"));
    char *path = bt_module_path(bt_child(root, "one.%s", "inner"));
    ck_assert_str_eq(path, "one.inner");
    free(path);
    bt_module_free(root);
    ck_assert_str_eq(bt_error(), "");
}
END_TEST

START_TEST(test_ready_modules_have_pytorch_names)
{
    static const char *const expected[] = {"0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias",
                                           "1.weight",   "1.bias",   "3.value"};
    bt_module *root = bt_nn_sequential(bt_nn_mlp(bt_tanh, 6, 5, 4), bt_nn_layer_norm(4), bt_nn_dropout(0.5),
                                       bt_nn_parameter(bt_init_constant(0), 2, 3));
    ck_assert_int_eq(bt_module_list(root), BT_OK);
    ck_assert_int_eq(root->param_count, 7);
    for (int i = 0; i < 7; i++)
        ck_assert_str_eq(root->params[i]->path, expected[i]);
    ck_assert_int_eq(root->params[0]->shape.dims[0], 5); /* [out, in] */
    ck_assert_int_eq(root->params[0]->shape.dims[1], 6);
    bt_module_free(root);
}
END_TEST

/* ---- errors ---- */

static void assert_mistake(bt_module *root, const char *part)
{
    ck_assert_int_eq(bt_module_list(root), BT_ERROR_ARGUMENT);
    assert_message(part);
    ck_assert_int_ne(bt_module_init(root, BT_CPU, BT_F32, 1), BT_OK);
    bt_error_clear();
    bt_module_free(root);
}

START_TEST(test_mistakes_in_the_tree_are_named)
{
    bt_module *root = bt_module_new(NULL), *child = bt_module_new(NULL);
    bt_module_add(root, child, "a");
    bt_module_add(root, child, "b");
    assert_mistake(root, "\"b\" is already a part of a module, as \"a\"");

    root = bt_module_new(NULL);
    bt_module_add(root, child = bt_module_new(NULL), "a");
    bt_module_add(child, root, "back");
    assert_mistake(root, "module \"a\": the child \"back\" is a module that contains this one");

    root = bt_module_new(NULL);
    bt_module_add(root, root, "self");
    assert_mistake(root, "\"self\"");

    root = bt_module_new(NULL);
    bt_module_add(root, NULL, "gone%d", 4);
    assert_mistake(root, "the child \"gone4\" is NULL");

    root = bt_module_new(NULL);
    bt_module_add_param(root, "w", bt_init_constant(0), 2);
    bt_module_add_buffer(root, "w", bt_init_constant(0), 2);
    assert_mistake(root, "\"w\" is used twice");

    root = bt_module_new(NULL);
    bt_module_add_param(root, "a.b", bt_init_constant(0));
    assert_mistake(root, "contains a dot");

    root = bt_module_new(NULL);
    bt_module_add(root, bt_module_new(NULL), "%s", "");
    assert_mistake(root, "is empty");
}
END_TEST

START_TEST(test_mistakes_in_sizes_and_values_are_named)
{
    const double values[4] = {1, 2, 3, 4};
    bt_module *root = bt_module_new(NULL);
    bt_module_add_param(root, "w", bt_init_constant(0), 3, 0);
    assert_mistake(root, "size 2 of the parameter \"w\" is 0");

    root = bt_module_new(NULL);
    bt_module_add_param(root, "w", bt_init_constant(0), 1, 1, 1, 1, 1, 1, 1, 1, 1);
    assert_mistake(root, "more than 8 sizes");

    root = bt_module_new(NULL);
    bt_module_add_param(root, "w", bt_init_array(BT_ARRAY(values, 4)), 2, 2);
    assert_mistake(root, "parameter \"w\": bt_init_array: the values have the shape [4], expected [2, 2]");

    root = bt_module_new(NULL);
    bt_module_add_param(root, "w", bt_init_normal(0, -1), 2);
    assert_mistake(root, "deviation");

    root = bt_module_new(NULL);
    bt_module_add_param(root, "w", bt_init_uniform(1, -1), 2);
    assert_mistake(root, "bt_init_uniform");

    assert_mistake(bt_nn_linear(0, 3), "0 inputs and 3 outputs");
    assert_mistake(bt_nn_mlp(NULL, 3, 2), "activation is NULL");
    assert_mistake(bt_nn_mlp(bt_relu, 3), "widths");
    assert_mistake(bt_nn_dropout(1), "the probability is 1");
    assert_mistake(bt_nn_sequential(bt_nn_linear(2, 2), bt_nn_layer_norm(-2)), "module \"1\": bt_nn_layer_norm: -2");
    assert_mistake(bt_nn_fn(NULL), "bt_nn_fn");
    assert_mistake(bt_nn_parameter(bt_init_constant(NAN), 2), "bt_init_constant");
}
END_TEST

START_TEST(test_storage_is_made_once)
{
    bt_module *root = bt_nn_sequential(bt_nn_linear(2, 2)), *child = bt_child(root, "0");
    ck_assert_int_eq(bt_module_init(child, BT_CPU, BT_F32, 1), BT_ERROR_ARGUMENT);
    assert_message("is a part of another one");
    ck_assert_int_eq(bt_module_init(root, BT_CUDA, BT_F32, 1), BT_ERROR_UNSUPPORTED);
    bt_error_clear();
    ck_assert_int_eq(bt_module_init(root, BT_CPU, BT_I32, 1), BT_ERROR_ARGUMENT);
    bt_error_clear();
    ck_assert_int_eq(bt_module_init(root, BT_CPU, BT_F32, 1), BT_OK);
    ck_assert_int_eq(bt_module_init(root, BT_CPU, BT_F32, 1), BT_ERROR_ARGUMENT);
    assert_message("already has its storage");
    bt_module_add_param(child, "late", bt_init_constant(0));
    ck_assert_int_eq(bt_module_list(root), BT_ERROR_ARGUMENT);
    assert_message("too late");
    bt_module *other = bt_module_new(NULL);
    bt_module_add(other, root, "had");
    ck_assert_int_eq(bt_module_list(other), BT_ERROR_ARGUMENT);
    assert_message("already has storage of its own");
    bt_module_free(other);
    ck_assert_uint_eq(bt_live_bytes(), 0);
}
END_TEST

START_TEST(test_null_is_survived)
{
    bt_module_free(NULL);
    bt_module_add(NULL, bt_nn_linear(2, 2), "x");
    assert_message("bt_module_add");
    bt_module_add_param(NULL, "w", bt_init_constant(0));
    assert_message("bt_module_add_param");
    bt_module *root = bt_module_new(NULL);
    bt_module_add_param(root, NULL, bt_init_constant(0));
    assert_message("name");
    assert_mistake(root, "name");
    ck_assert_int_eq(bt_module_init(NULL, BT_CPU, BT_F32, 1), BT_ERROR_ARGUMENT);
    bt_error_clear();
    ck_assert_int_eq(bt_param_count((bt_module *)NULL), 0);
    ck_assert_ptr_null(bt_child((bt_module *)NULL, "x"));
    ck_assert_ptr_nonnull(bt_param((bt_module *)NULL, "x"));
    ck_assert_ptr_nonnull(bt_params((bt_module *)NULL));
    ck_assert_ptr_nonnull(bt_forward((bt_module *)NULL));
    bt_param_set((bt_module *)NULL, "x", NULL);
    assert_message("NULL");
}
END_TEST

START_TEST(test_a_freed_child_leaves_its_parent)
{
    bt_module *root = tree();
    bt_module_free(bt_child(root, "one"));
    ck_assert_int_eq(bt_module_list(root), BT_OK);
    ck_assert_int_eq(root->param_count, 3);
    bt_module_free(root);
}
END_TEST

/* ---- initial values ---- */

static const double *values_of(bt_module *root, const char *path)
{
    bt_slate *slate = bt_module_find(root, path);
    ck_assert_ptr_nonnull(slate);
    return var_near(slate->var);
}

START_TEST(test_linear_has_pytorch_bounds_and_moments)
{
    enum { IN = 400, OUT = 300 };
    bt_module *root = bt_nn_linear(IN, OUT);
    ck_assert_int_eq(bt_module_init(root, BT_CPU, BT_F64, 7), BT_OK);
    const double bound = 0.05, *weight = values_of(root, "weight"), *bias = values_of(root, "bias");
    double sum = 0, square = 0, largest = 0, fourth = 0;
    for (int i = 0; i < IN * OUT; i++) {
        double u = weight[i] / bound;
        ck_assert(fabs(u) <= 1);
        sum += u;
        square += u * u;
        fourth += u * u * u * u;
        largest = fmax(largest, fabs(u));
    }
    for (int i = 0; i < OUT; i++)
        ck_assert(fabs(bias[i]) <= bound);
    /* uniform in -1..1: mean 0, second moment 1/3, fourth 1/5; five standard deviations of the mean of 120,000 */
    ck_assert_double_eq_tol(sum / (IN * OUT), 0, 5 * sqrt(1 / 3.0 / (IN * OUT)));
    ck_assert_double_eq_tol(square / (IN * OUT), 1 / 3.0, 5 * sqrt((1 / 5.0 - 1 / 9.0) / (IN * OUT)));
    ck_assert_double_eq_tol(fourth / (IN * OUT), 1 / 5.0, 5 * sqrt((1 / 9.0 - 1 / 25.0) / (IN * OUT)));
    ck_assert_double_gt(largest, 0.9999);
    bt_module_free(root);
}
END_TEST

START_TEST(test_normal_has_its_moments)
{
    enum { COUNT = 100000 };
    bt_module *root = bt_nn_parameter(bt_init_normal(3, 0.5), COUNT);
    ck_assert_int_eq(bt_module_init(root, BT_CPU, BT_F64, 11), BT_OK);
    const double *x = values_of(root, "value");
    double sum[5] = {0};
    for (int i = 0; i < COUNT; i++)
        for (int k = 1; k <= 4; k++)
            sum[k] += pow((x[i] - 3) / 0.5, k) / COUNT;
    /* moments 0, 1, 0, 3 with variances 1, 2, 15, 96 over the count */
    ck_assert_double_eq_tol(sum[1], 0, 5 * sqrt(1.0 / COUNT));
    ck_assert_double_eq_tol(sum[2], 1, 5 * sqrt(2.0 / COUNT));
    ck_assert_double_eq_tol(sum[3], 0, 5 * sqrt(15.0 / COUNT));
    ck_assert_double_eq_tol(sum[4], 3, 5 * sqrt(96.0 / COUNT));
    bt_module_free(root);
}
END_TEST

START_TEST(test_values_depend_on_path_seed_and_owner_alone)
{
    bt_module *a = tree(), *b = bt_module_new(NULL), *c = tree(), *d = tree(), *single = tree();
    bt_module_add(b, bt_nn_linear(9, 9), "other");
    bt_module *one = bt_module_new(NULL), *inner = bt_module_new(NULL);
    bt_module_add_param(inner, "first", bt_init_uniform(-1, 1), 50);
    bt_module_add_param(inner, "weight", bt_init_uniform(-1, 1), 3, 5);
    bt_module_add(one, inner, "inner");
    bt_module_add(b, one, "one");
    ck_assert_int_eq(bt_module_adopt(a, "", BT_F64, 5, NULL), BT_OK);
    ck_assert_int_eq(bt_module_adopt(b, "", BT_F64, 5, NULL), BT_OK);
    ck_assert_int_eq(bt_module_adopt(c, "", BT_F64, 6, NULL), BT_OK);
    ck_assert_int_eq(bt_module_adopt(d, "upper", BT_F64, 5, NULL), BT_OK);
    ck_assert_int_eq(bt_module_adopt(single, "", BT_F32, 5, NULL), BT_OK);
    const char *path = "one.inner.weight";
    const double *x = values_of(a, path);
    const float *y = var_near(bt_module_find(single, path)->var);
    ck_assert_mem_eq(x, values_of(b, path), 15 * sizeof *x);
    for (int i = 0; i < 15; i++) {
        ck_assert_double_ne(x[i], values_of(c, path)[i]);
        ck_assert_double_ne(x[i], values_of(d, path)[i]);
        ck_assert_float_eq(y[i], (float)x[i]);
    }
    bt_module *const all[] = {a, b, c, d, single};
    for (int i = 0; i < 5; i++)
        bt_module_free(all[i]);
}
END_TEST

START_TEST(test_constants_and_arrays)
{
    float values[2][3] = {{1, 2, 3}, {4, 5, 6}};
    bt_module *root = bt_module_new(NULL);
    bt_module_add_param(root, "w", bt_init_array(BT_ARRAY(&values[0][0], 2, 3)), 2, 3);
    bt_module_add_buffer(root, "b", bt_init_constant(0.25), 2);
    values[0][0] = 99; /* they were copied */
    ck_assert_int_eq(bt_module_init(root, BT_CPU, BT_F64, 1), BT_OK);
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq(values_of(root, "w")[i], i + 1);
    ck_assert_double_eq(values_of(root, "b")[1], 0.25);
    bt_module_free(root);
}
END_TEST

/* ---- storage ---- */

START_TEST(test_the_block_lies_in_the_given_order)
{
    static const int64_t order[] = {4, 2, 0, 1, 3}; /* layer3.bias, one.inner.weight, scale, one.bias, layer3.weight */
    bt_module *plain = tree(), *root = tree();
    ck_assert_int_eq(bt_module_adopt(plain, "p", BT_F64, 3, NULL), BT_OK);
    ck_assert_int_eq(bt_module_adopt(root, "p", BT_F64, 3, order), BT_OK);
    size_t at = 0;
    for (int i = 0; i < 5; i++) {
        const bt_slate *slate = root->params[order[i]];
        ck_assert_uint_eq(bt_var_start(slate->var), at);
        ck_assert_ptr_eq(bt_var_root(slate->var), root->param_block.flat);
        ck_assert_int_eq(slate->var->category, BT_PARAMETERS);
        ck_assert_str_eq(slate->var->owner, "p");
        ck_assert_str_eq(slate->var->name, slate->path);
        ck_assert_mem_eq(var_near(slate->var), var_near(plain->params[order[i]]->var), slate->var->bytes);
        at += (slate->var->bytes + 63) / 64 * 64;
    }
    ck_assert_uint_eq(root->param_block.flat->bytes, at);
    ck_assert_uint_eq(at, 64 + 128 + 64 + 64 + 64); /* 2, 15, 1, 7, 8 doubles */
    ck_assert_int_eq(root->buffers[0]->var->category, BT_BUFFERS);
    ck_assert_ptr_ne(bt_var_root(root->buffers[0]->var), root->param_block.flat);
    bt_module_free(plain);
    bt_module_free(root);
    ck_assert_uint_eq(bt_live_bytes(), 0);

    static const int64_t twice[] = {0, 0, 1, 2, 3};
    root = tree();
    ck_assert_int_eq(bt_module_adopt(root, "p", BT_F64, 3, twice), BT_ERROR_INTERNAL);
    assert_message("permutation");
    bt_module_free(root);
}
END_TEST

/* ---- in a trace ---- */

START_TEST(test_missing_names_list_what_there_is)
{
    bt_module *root = tree();
    bt_graph *graph = bt_graph_new();
    bt_trace trace;
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F32);
    bt_tensor *x = bt_param(root, "one.inner.wieght");
    bt_trace_end(&trace);
    ck_assert(bt_poisoned(x));
    ck_assert_str_eq(graph->message,
                     "there is no parameter or buffer \"one.inner.wieght\"; did you mean \"one.inner.weight\"? There "
                     "are: scale, mean, one.bias, one.inner.weight, layer3.weight, layer3.bias");
    bt_graph_free(graph);
    graph = bt_graph_new();
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F32);
    ck_assert_ptr_null(bt_child(root, "layer2"));
    bt_trace_end(&trace);
    ck_assert_ptr_nonnull(strstr(graph->message, "\"layer3\"? There are: one, one.inner, layer3"));
    bt_graph_free(graph);
    graph = bt_graph_new();
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F32);
    x = bt_param(root, "scale");
    bt_trace_end(&trace);
    ck_assert_ptr_nonnull(strstr(graph->message, "has no storage yet"));
    bt_graph_free(graph);
    bt_module_free(root);
    bt_error_clear();
}
END_TEST

static const char *name_of(const char *format, int number)
{
    static char name[32];
    snprintf(name, sizeof name, format, number);
    return name;
}

/* A search through all of them for each would take minutes. */
START_TEST(many_children_and_parameters)
{
    enum { MANY = 100000 };
    bt_module *net = bt_module_new(NULL);
    for (int i = 0; i < MANY; i++) {
        bt_module_add(net, bt_module_new(NULL), "child%d", i);
        (bt_module_add_param)(net, name_of("own%d", i), bt_init_constant(i), (const int64_t[]){BT_END});
    }
    ck_assert_int_eq(bt_module_list(net), BT_OK);
    for (int i = 0; i < MANY; i++) {
        ck_assert_ptr_eq(bt_module_find_child(net, name_of("child%d", i)), net->children[i]);
        ck_assert_ptr_eq(bt_module_find(net, name_of("own%d", i)), net->slates[i]);
    }
    ck_assert_ptr_null(bt_module_find_child(net, "own7"));
    ck_assert_ptr_null(bt_module_find(net, "child7"));
    bt_module_free(net->children[0]); /* the others move up by one */
    ck_assert_ptr_null(bt_module_find_child(net, "child0"));
    ck_assert_ptr_eq(bt_module_find_child(net, "child1"), net->children[0]);
    bt_module_free(net);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("module");
    TCase *test = tcase_create("module");
    tcase_add_test(test, test_names_are_in_order_of_declaration);
    tcase_add_test(test, test_ready_modules_have_pytorch_names);
    tcase_add_test(test, test_mistakes_in_the_tree_are_named);
    tcase_add_test(test, test_mistakes_in_sizes_and_values_are_named);
    tcase_add_test(test, test_storage_is_made_once);
    tcase_add_test(test, test_null_is_survived);
    tcase_add_test(test, test_a_freed_child_leaves_its_parent);
    tcase_add_test(test, test_linear_has_pytorch_bounds_and_moments);
    tcase_add_test(test, test_normal_has_its_moments);
    tcase_add_test(test, test_values_depend_on_path_seed_and_owner_alone);
    tcase_add_test(test, test_constants_and_arrays);
    tcase_add_test(test, test_the_block_lies_in_the_given_order);
    tcase_add_test(test, test_missing_names_list_what_there_is);
    tcase_add_test(test, many_children_and_parameters);
    suite_add_tcase(suite, test);
    return run_suite(suite);
}
