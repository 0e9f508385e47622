/* The bytes of variables: read, written, copied and cleared through the backend's memory; and what is refused. */
#include "support/scene.h"

#include "runtime/phase.h"
#include "runtime/store.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A device whose memory counts what is done with it. */
static int blocks, reads, writes, copies, fills;

static void *take(size_t bytes)
{
    blocks++;
    return bt_near_memory.alloc(bytes);
}

static void give(void *memory)
{
    blocks -= memory != NULL;
    bt_near_memory.free(memory);
}

#define COUNTED(name, counter)                                                                                         \
    static void name(void *to, const void *from, size_t bytes)                                                         \
    {                                                                                                                  \
        counter++;                                                                                                     \
        memcpy(to, from, bytes);                                                                                       \
    }
COUNTED(read_bytes, reads)
COUNTED(write_bytes, writes)
COUNTED(copy_bytes, copies)

static void fill_bytes(void *to, int byte, size_t bytes)
{
    fills++;
    memset(to, byte, bytes);
}

static const bt_device_memory memory = {take, give, read_bytes, write_bytes, copy_bytes, fill_bytes};

static scene s;
static bt_backend backend;
static bt_instance *instance;

static void setup(void)
{
    scene_begin(&s, BT_F64);
    backend = *bt_backend_cpu();
    backend.memory = &memory;
    blocks = reads = writes = copies = fills = 0;
    instance = bt_instance_new(&backend, 1);
}

static void teardown(void)
{
    bt_instance_free(instance);
    scene_free(&s);
    bt_error_clear();
}

static bt_var *numbers(const char *name, const double *values)
{
    return scene_var(&s, name, BT_F64, values, (const int64_t[]){4, BT_END});
}

START_TEST(whole_and_in_parts)
{
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
    ck_assert(reads == 3 && writes == 2 && copies == 1 && fills == 1);
    EXPECT_OK(bt_store_copy(NULL, x, y)); /* a variable that no instance runs yet */
    EXPECT_VAR(x, 0, 1, 2, 3, 7);
    ck_assert_int_eq(copies, 1);
}
END_TEST

START_TEST(as_an_array_of_any_dtype)
{
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
    ck_assert_ptr_nonnull(strstr(bt_error(), "x has 4 elements, the array 3"));
    bt_error_clear();
    ck_assert_int_eq(bt_store_from_array(instance, x, (bt_array){.dtype = BT_F32, .rank = 1, .dims = {4}}),
                     BT_ERROR_SHAPE);
    bt_error_clear();
    EXPECT_VAR(x, 0, 1, 2, 3, 4);
}
END_TEST

START_TEST(what_is_refused)
{
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
    EXPECT_OK(bt_store_copy(instance, x, outside));
    EXPECT_VAR(x, 0, 1, 2, 3, 4);
    bt_store_point(outside, NULL);
    ck_assert_int_eq(bt_store_clear(instance, outside), BT_ERROR_INTERNAL);
}
END_TEST

/* A phase's arena is the device's, and is given back. */
START_TEST(an_arena_of_the_device)
{
    bt_tensor *x = VECTOR(&s, "x", 1, 2, 3, 4);
    bt_graph_output(s.graph, bt_exp(x));
    scene_end(&s);
    bt_phase *phase = bt_phase_new(instance, "test", "phase");
    ck_assert_msg(bt_phase_add(phase, s.graph, 0, "whole") == 0, "%s", bt_error());
    EXPECT_OK(bt_phase_plan(phase));
    ck_assert_int_eq(blocks, instance->planned ? 1 : 0);
    bt_phase_free(phase);
    bt_instance_free(instance);
    instance = NULL;
    ck_assert_int_eq(blocks, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *tests = tcase_create("store");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, whole_and_in_parts);
    tcase_add_test(tests, as_an_array_of_any_dtype);
    tcase_add_test(tests, what_is_refused);
    tcase_add_test(tests, an_arena_of_the_device);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
