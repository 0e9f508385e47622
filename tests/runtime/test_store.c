/* The bytes of variables: read, written, copied and cleared, in host memory and on a device; and what is refused. */
#include "support/far.h"
#include "support/scene.h"

#include "runtime/settle.h"
#include "runtime/store.h"
#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static scene s;
static bt_instance *instance;

static void begin(int far)
{
    scene_begin(&s, BT_F64);
    instance = bt_instance_new(far ? far_backend() : bt_backend_cpu(), 1);
    ck_assert_msg(instance != NULL, "%s", bt_error());
}

static void end(void)
{
    bt_instance_free(instance);
    scene_free(&s);
    bt_error_clear();
}

static bt_var *numbers(const char *name, const double *values)
{
    bt_var *var = scene_var(&s, name, BT_F64, values, (const int64_t[]){4, BT_END});
    EXPECT_OK(bt_var_settle(var, instance->queue));
    return var;
}

START_TEST(whole_and_in_parts)
{
    begin(_i);
    bt_var *x = numbers("x", NUMBERS(1, 2, 3, 4)), *y = numbers("y", NULL);
    bt_var *part = scene_own(&s, bt_var_window(x, 16, "part", (bt_array){.dtype = BT_F64, .rank = 1, .dims = {2}}));
    double found[2] = {0}, value = 0;
    EXPECT_OK(bt_store_read(instance, x, 8, found, sizeof found));
    EXPECT_VALUES(found, 0, 2, 3);
    EXPECT_OK(bt_store_read(instance, part, 0, found, sizeof found));
    EXPECT_VALUES(found, 0, 3, 4);
    EXPECT_OK(bt_store_write(instance, part, 8, NUMBERS(7), sizeof(double)));
    EXPECT_OK(bt_store_copy(instance, y, x));
    EXPECT_OK(bt_store_put(instance, part, 0, -5));
    EXPECT_VAR(x, 0, 1, 2, -5, 7);
    EXPECT_VAR(y, 0, 1, 2, 3, 7);
    EXPECT_OK(bt_store_get(instance, x, 2, &value));
    ck_assert_double_eq(value, -5);
    EXPECT_OK(bt_store_clear(instance, part));
    EXPECT_VAR(x, 0, 1, 2, 0, 0);
    EXPECT_OK(bt_store_copy(NULL, x, y)); /* a variable that is not part of an instance yet */
    EXPECT_VAR(x, 0, 1, 2, 3, 7);
    EXPECT_OK(bt_store_move(instance, y, 0, x, 8, 16));
    EXPECT_VAR(y, 0, 2, 3, 3, 7);
    end();
}
END_TEST

START_TEST(as_an_array_of_any_dtype)
{
    begin(_i);
    bt_var *x = numbers("x", NUMBERS(1, 2, 3, 4)),
           *counts = scene_own(
               &s, bt_var_new(BT_RUN, BT_BUFFERS, "", "counts", (bt_array){.dtype = BT_I64, .rank = 1, .dims = {4}}));
    float found[2][2] = {{0}};
    int64_t whole[4] = {0};
    EXPECT_OK(bt_store_to_array(instance, x, BT_ARRAY(&found[0][0], 2, 2)));
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq(found[i / 2][i % 2], (float)(i + 1));
    found[1][0] = -7;
    EXPECT_OK(bt_store_from_array(instance, counts, BT_ARRAY(&found[0][0], 4)));
    EXPECT_OK(bt_store_read(instance, counts, 0, whole, sizeof whole));
    ck_assert(whole[0] == 1 && whole[1] == 2 && whole[2] == -7 && whole[3] == 4);
    ck_assert_int_eq(bt_store_to_array(instance, x, BT_ARRAY(&found[0][0], 3)), BT_ERROR_SHAPE);
    ck_assert_ptr_nonnull(strstr(bt_error(), "x has 4 elements, but the array has 3"));
    bt_error_clear();
    ck_assert_int_eq(bt_store_from_array(instance, x, (bt_array){.dtype = BT_F32, .rank = 1, .dims = {4}}),
                     BT_ERROR_SHAPE);
    bt_error_clear();
    EXPECT_VAR(x, 0, 1, 2, 3, 4);
    end();
}
END_TEST

START_TEST(what_is_refused)
{
    begin(_i);
    bt_var *x = numbers("x", NULL);
    bt_var *outside = scene_own(
        &s, bt_var_new(BT_EXTERNAL, BT_BATCH, "", "field", (bt_array){.dtype = BT_F64, .rank = 1, .dims = {4}}));
    double values[4] = {1, 2, 3, 4};
    ck_assert_int_eq(bt_store_write(instance, x, 8, values, sizeof values), BT_ERROR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(bt_error(), "x: 32 bytes from byte 8 on, of 32"));
    bt_error_clear();
    ck_assert_int_eq(bt_store_read(instance, x, SIZE_MAX, values, 1), BT_ERROR_INTERNAL);
    bt_error_clear();
    ck_assert_int_eq(bt_store_copy(instance, x, outside), BT_ERROR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(bt_error(), "field is not bound to data"));
    bt_error_clear();
    bt_store_point(outside, values);
    EXPECT_OK(bt_store_copy(instance, x, outside)); /* in host memory, from wherever x is */
    EXPECT_VAR(x, 0, 1, 2, 3, 4);
    bt_store_point(outside, NULL);
    ck_assert_int_eq(bt_store_clear(instance, outside), BT_ERROR_INTERNAL);
    end();
}
END_TEST

/* More than is converted, or sent, at once. */
START_TEST(many)
{
    enum { COUNT = (1 << 19) + 100 };
    begin(_i);
    double *values = calloc(COUNT, sizeof *values), *found = calloc(COUNT, sizeof *found);
    ck_assert(values && found);
    for (int i = 0; i < COUNT; i++)
        values[i] = i + 0.5;
    bt_var *x = scene_var(&s, "x", BT_F64, NULL, (const int64_t[]){COUNT, BT_END});
    EXPECT_OK(bt_store_from_array(instance, x, BT_ARRAY(values, COUNT)));
    EXPECT_OK(bt_var_settle(x, instance->queue));
    EXPECT_OK(bt_store_to_array(instance, x, BT_ARRAY(found, COUNT)));
    ck_assert_mem_eq(found, values, COUNT * sizeof *values);
    for (int i = 0; i < COUNT; i++)
        values[i] = -i;
    EXPECT_OK(bt_store_write(instance, x, 0, values, COUNT * sizeof *values));
    memset(found, 0, COUNT * sizeof *found);
    EXPECT_OK(bt_store_read(instance, x, 0, found, COUNT * sizeof *found));
    ck_assert_mem_eq(found, values, COUNT * sizeof *values);
    free(values);
    free(found);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *tests = tcase_create("store");
    tcase_add_loop_test(tests, whole_and_in_parts, 0, 2);
    tcase_add_loop_test(tests, as_an_array_of_any_dtype, 0, 2);
    tcase_add_loop_test(tests, what_is_refused, 0, 2);
    tcase_add_loop_test(tests, many, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
