/* Batches: setting fields, templates, and reading fields in a trace. */
#include "files.h"
#include "graph/graph.h"

#include "support/suite.h"
#include <string.h>

START_TEST(setting)
{
    float x[6] = {1, 2, 3, 4, 5, 6};
    int32_t label[2] = {7, 8};
    double scale = 0.5;
    bt_batch *batch = bt_batch_new();
    ck_assert_int_eq(bt_batch_count(batch), 1);
    ck_assert_int_eq(bt_batch_set(batch, "scale", BT_ARRAY(&scale)), BT_OK);
    ck_assert_int_eq(bt_batch_count(batch), 1);
    ck_assert_int_eq(bt_batch_set(batch, "x", BT_ARRAY(x, 2, 3)), BT_OK);
    ck_assert_int_eq(bt_batch_set(batch, "label", BT_ARRAY(label, 2)), BT_OK);
    ck_assert_int_eq(bt_batch_count(batch), 2); /* of the first field with an axis */
    x[0] = 100;                                 /* copied */
    const bt_batch_field *field = field_of(batch, "x");
    ck_assert_float_eq(((float *)field->array.data)[0], 1);
    ck_assert_ptr_eq(bt_var_data(field->var), field->array.data);
    const bt_var *before = field->var;
    ck_assert_int_eq(bt_batch_set(batch, "x", BT_ARRAY(x, 2, 3)), BT_OK);
    ck_assert_ptr_eq(field_of(batch, "x")->var, before); /* the same shape: the same variable */
    ck_assert_float_eq(((float *)field_of(batch, "x")->array.data)[0], 100);
    ck_assert_int_eq(bt_batch_set(batch, "x", BT_ARRAY(x, 3, 2)), BT_OK);
    ck_assert_int_eq(field_of(batch, "x")->var->dims[0], 3);
    ck_assert_int_eq(bt_batch_count(batch), 3);
    ck_assert_int_eq(batch->field_count, 3);
    bt_batch_free(batch);
    expect_no_failure();
}
END_TEST

START_TEST(faults)
{
    float x[4] = {0};
    bt_batch *batch = bt_batch_new();
    ck_assert_int_eq(bt_batch_set(NULL, "x", BT_ARRAY(x, 4)), BT_ERROR_ARGUMENT);
    expect_failure(BT_ERROR_ARGUMENT, "bt_batch_set", "NULL");
    ck_assert_int_eq(bt_batch_set(batch, NULL, BT_ARRAY(x, 4)), BT_ERROR_ARGUMENT);
    expect_failure(BT_ERROR_ARGUMENT, "no name");
    ck_assert_int_eq(bt_batch_set(batch, "x", BT_ARRAY(x, 0)), BT_ERROR_SHAPE);
    expect_failure(BT_ERROR_SHAPE, "bt_batch_set: field \"x\" is of shape [0]");
    ck_assert_int_eq(bt_batch_set(batch, "x", BT_ARRAY((float *)NULL, 4)), BT_ERROR_ARGUMENT);
    expect_failure(BT_ERROR_ARGUMENT, "data is NULL");
    ck_assert_int_eq(bt_batch_count(NULL), 0);
    expect_failure(BT_ERROR_ARGUMENT, "bt_batch_count");
    bt_batch_free(batch);
    bt_batch_free(NULL);
    ck_assert_ptr_null(bt_batch_template(NULL));
    bt_error_clear();
    ck_assert(!bt_batch_fits(NULL, NULL));
    bt_batch_bind(NULL, NULL);
}
END_TEST

START_TEST(templates)
{
    float x[6] = {1, 2, 3, 4, 5, 6};
    int32_t label[2] = {7, 8}, more[3] = {1, 2, 3};
    bt_batch *batch = bt_batch_new(), *other = bt_batch_new();
    bt_batch_set(batch, "x", BT_ARRAY(x, 2, 3));
    bt_batch_set(batch, "label", BT_ARRAY(label, 2));
    batch->number = 12;
    bt_batch *shape = bt_batch_template(batch);
    ck_assert(bt_batch_fits(shape, batch) && bt_batch_fits(batch, shape));
    ck_assert_int_eq(shape->count, 2);
    ck_assert_ptr_ne(field_of(shape, "x")->var, field_of(batch, "x")->var);
    ck_assert_ptr_null(field_of(shape, "x")->array.data);
    ck_assert_ptr_null(bt_var_data(field_of(shape, "x")->var));
    ck_assert_int_eq(field_of(shape, "x")->var->lifetime, BT_EXTERNAL);
    ck_assert_int_eq(field_of(shape, "x")->var->category, BT_BATCH);
    bt_batch_bind(shape, batch);
    ck_assert_ptr_eq(bt_var_data(field_of(shape, "x")->var), field_of(batch, "x")->array.data);
    ck_assert_int_eq(shape->number, 12);
    ck_assert_int_eq(bt_batch_set(shape, "x", BT_ARRAY(x, 2, 3)), BT_ERROR_ARGUMENT);
    expect_failure(BT_ERROR_ARGUMENT, "a loader's");
    /* Another order of fields is accepted; another shape, dtype or field is not. */
    bt_batch_set(other, "label", BT_ARRAY(label, 2));
    ck_assert(!bt_batch_fits(shape, other));
    bt_batch_set(other, "x", BT_ARRAY(x, 2, 3));
    ck_assert(bt_batch_fits(shape, other));
    bt_batch_bind(shape, other);
    ck_assert_ptr_eq(bt_var_data(field_of(shape, "x")->var), field_of(other, "x")->array.data);
    ck_assert_ptr_eq(bt_var_data(field_of(shape, "label")->var), field_of(other, "label")->array.data);
    bt_batch_set(other, "x", BT_ARRAY(x, 3, 2));
    ck_assert(!bt_batch_fits(shape, other));
    bt_batch_set(other, "x", BT_ARRAY(x, 2, 3));
    bt_batch_set(other, "label", BT_ARRAY(more, 3));
    ck_assert(!bt_batch_fits(shape, other));
    bt_batch_set(other, "label", BT_ARRAY(x, 2));
    ck_assert(!bt_batch_fits(shape, other));
    bt_batch_free(shape);
    bt_batch_free(other);
    bt_batch_free(batch);
}
END_TEST

START_TEST(traced)
{
    float x[6] = {1, 2, 3, 4, 5, 6};
    int32_t label[2] = {7, 8};
    double scale = 2;
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "x", BT_ARRAY(x, 2, 3));
    bt_batch_set(batch, "support.label", BT_ARRAY(label, 2));
    bt_batch_set(batch, "scale", BT_ARRAY(&scale));
    for (int wide = 0; wide < 2; wide++) {
        bt_trace trace;
        bt_graph *graph = bt_graph_new();
        bt_trace_begin(&trace, graph, BT_TRAIN, wide ? BT_F64 : BT_F32);
        bt_tensor *a = bt_field(batch, "x"), *b = bt_field(batch, "%s.label", "support"), *c = bt_field(batch, "scale");
        ck_assert_int_eq(graph->status, BT_OK);
        ck_assert_int_eq(a->dtype, wide ? BT_F64 : BT_F32); /* in the precision of the trace */
        ck_assert_int_eq(a->rank, 2);
        ck_assert_int_eq(a->dims[1], 3);
        ck_assert_int_eq(a->batch_axis, 0);
        ck_assert_int_eq(b->dtype, BT_I32);
        ck_assert_int_eq(b->batch_axis, 0);
        ck_assert_int_eq(c->dtype, wide ? BT_F64 : BT_F32);
        ck_assert_int_eq(c->rank, 0);
        ck_assert_int_eq(c->batch_axis, -1);
        ck_assert_ptr_eq(bt_field(batch, "support.label"), b);
        bt_trace_end(&trace);
        bt_graph_free(graph);
    }
    bt_batch_free(batch);
    expect_no_failure();
}
END_TEST

START_TEST(missing_fields_poison)
{
    float x[6] = {0};
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "x", BT_ARRAY(x, 2, 3));
    bt_batch_set(batch, "weight", BT_ARRAY(x, 2));
    bt_trace trace;
    bt_graph *graph = bt_graph_new();
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F32);
    bt_tensor *y = bt_field(batch, "y");
    ck_assert(y != NULL && bt_poisoned(y));
    ck_assert_int_eq(graph->status, BT_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(graph->message, "no field \"y\"; its fields are: x [2, 3], weight [2]"));
    bt_trace_end(&trace);
    bt_graph_free(graph);
    graph = bt_graph_new();
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F32);
    ck_assert(bt_poisoned(bt_field(NULL, "y")));
    ck_assert_ptr_nonnull(strstr(graph->message, "batch is NULL"));
    bt_trace_end(&trace);
    bt_graph_free(graph);
    bt_error_clear();
    ck_assert(bt_poisoned(bt_field(batch, "x"))); /* outside a trace */
    expect_failure(BT_ERROR_ARGUMENT, "traced callback");
    bt_batch_free(batch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.batch");
    ADD_CASE(suite, setting);
    ADD_CASE(suite, faults);
    ADD_CASE(suite, templates);
    ADD_CASE(suite, traced);
    ADD_CASE(suite, missing_fields_poison);
    return run_suite(suite);
}
