/* Variables, windows and blocks: their bytes, their offsets, their names; impossible sizes. */
#include "support/scene.h"

#include "runtime/variable.h"
#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static void setup(void) { bt_error_clear(); }

START_TEST(one_of_the_run)
{
    size_t live = bt_live_bytes();
    bt_array shape = {.dtype = BT_F32, .rank = 2, .dims = {3, 5}};
    char name[] = "net.weight", owner[] = "lower";
    bt_var *var = bt_var_new(BT_RUN, BT_PARAMETERS, owner, name, shape);
    ck_assert_ptr_nonnull(var);
    name[0] = owner[0] = 'x'; /* it has its own copies */
    ck_assert_str_eq(var->name, "net.weight");
    ck_assert_str_eq(var->owner, "lower");
    ck_assert(var->bytes == 60 && var->dtype == BT_F32 && var->rank == 2 && var->dims[1] == 5 && var->dims[2] == 0);
    ck_assert_uint_eq(bt_live_bytes(), live + 60);
    ck_assert_uint_eq((uintptr_t)var->data % BT_ALIGN, 0);
    for (int i = 0; i < 15; i++)
        ck_assert_double_eq(bt_get(BT_F32, var->data, i), 0);
    ck_assert(bt_var_root(var) == var && bt_var_start(var) == 0 && bt_var_data(var) == var->data);
    bt_array array = bt_var_array(var);
    ck_assert(!array.data && array.rank == 2 && array.dims[0] == 3);
    bt_var_free(var);
    ck_assert_uint_eq(bt_live_bytes(), live);
    bt_var_free(NULL);
}
END_TEST

START_TEST(others_have_no_memory)
{
    size_t live = bt_live_bytes();
    bt_array shape = {.dtype = BT_F64};
    bt_var *phase = bt_var_new(BT_PHASE, BT_VECTORS, NULL, NULL, shape);
    bt_var *outside = bt_var_new(BT_EXTERNAL, BT_BATCH, "", "batch", shape);
    ck_assert(phase && outside && !phase->data && !outside->data && !bt_var_data(phase));
    ck_assert_str_eq(phase->name, "");
    ck_assert_str_eq(phase->owner, "");
    ck_assert_uint_eq(bt_live_bytes(), live);
    bt_var_free(phase);
    bt_var_free(outside);
}
END_TEST

START_TEST(windows)
{
    bt_array ten = {.dtype = BT_F64, .rank = 1, .dims = {10}}, four = {.dtype = BT_F64, .rank = 2, .dims = {2, 2}},
             two = {.dtype = BT_F64, .rank = 1, .dims = {2}};
    bt_var *base = bt_var_new(BT_RUN, BT_BUFFERS, "lower", "base", ten);
    bt_var *window = bt_var_window(base, 16, "window", four), *inner = bt_var_window(window, 16, "inner", two);
    ck_assert(window && inner);
    ck_assert(window->base == base && inner->base == base); /* a window of a window is one of the base */
    ck_assert(bt_var_start(window) == 16 && bt_var_start(inner) == 32);
    ck_assert(bt_var_root(inner) == base && bt_var_data(inner) == base->data + 32);
    ck_assert_str_eq(inner->owner, "lower");
    ck_assert(inner->lifetime == BT_RUN && inner->category == BT_BUFFERS);
    ck_assert_ptr_nonnull(bt_var_data(window));
    bt_var_free(inner);
    bt_var_free(window);
    bt_var *last = bt_var_window(base, 64, "last", two); /* just fits */
    ck_assert_ptr_nonnull(last);
    bt_var_free(last);
    ck_assert_ptr_null(bt_var_window(base, 72, "late", two));
    ck_assert_str_eq(bt_error(), "late: a window of 16 bytes at 72 does not fit into the 80 bytes of base");
    bt_error_clear();
    ck_assert_ptr_null(bt_var_window(base, SIZE_MAX - 7, "far", two));
    ck_assert_ptr_null(bt_var_window(NULL, 0, "none", two));
    bt_error_clear();
    bt_var_free(base);
}
END_TEST

START_TEST(impossible_sizes)
{
    bt_array wide = {.dtype = BT_F64, .rank = 2, .dims = {(int64_t)1 << 31, (int64_t)1 << 31}},
             negative = {.dtype = BT_F64, .rank = 1, .dims = {-1}},
             much = {.dtype = BT_U8, .rank = 1, .dims = {INT64_MAX}};
    ck_assert_ptr_null(bt_var_new(BT_RUN, BT_BUFFERS, "", "wide", wide));
    ck_assert_str_eq(bt_error(), "wide: impossible size");
    bt_error_clear();
    ck_assert_ptr_null(bt_var_new(BT_PHASE, BT_BUFFERS, "", "negative", negative));
    bt_error_clear();
    ck_assert_ptr_null(bt_var_new(BT_RUN, BT_BUFFERS, "", "much", much));
    ck_assert_int_eq(bt_error_status(), BT_ERROR_MEMORY);
    bt_error_clear();
    ck_assert_ptr_null(bt_var_new(BT_RUN, BT_BUFFERS, NULL, NULL, negative));
    ck_assert_int_eq(bt_error_status(), BT_ERROR_SHAPE);
}
END_TEST

/* 784-100-10: each window at a multiple of 64 bytes, in the requested order of storage, listed in the order of the
 * shapes. */
START_TEST(blocks)
{
    const bt_array shapes[] = {{.dtype = BT_F32, .rank = 2, .dims = {100, 784}},
                               {.dtype = BT_F32, .rank = 1, .dims = {100}},
                               {.dtype = BT_F32, .rank = 2, .dims = {10, 100}},
                               {.dtype = BT_F32, .rank = 1, .dims = {10}}};
    const char *const names[] = {"0.weight", "0.bias", "1.weight", "1.bias"};
    const int64_t order[] = {3, 1, 0, 2};
    const size_t plain[] = {0, 313600, 314048, 318080}, ordered[] = {64 + 448, 64, 64 + 448 + 313600, 0};
    for (int way = 0; way < 2; way++) {
        bt_block block;
        EXPECT_OK(bt_block_new(&block, BT_RUN, BT_PARAMETERS, "classifier", "parameters", BT_F32, shapes, names,
                               way ? order : NULL, 4));
        ck_assert(block.count == 4 && block.flat->bytes == 318144 && block.flat->rank == 1);
        ck_assert_int_eq(block.flat->dims[0], 79536);
        for (int i = 0; i < 4; i++) {
            ck_assert_uint_eq(block.windows[i]->offset, way ? ordered[i] : plain[i]);
            ck_assert_str_eq(block.windows[i]->name, names[i]);
            ck_assert_uint_eq(block.windows[i]->bytes, bt_array_bytes(shapes[i]));
        }
        ck_assert(block.windows[0]->tail == 0 && block.windows[1]->tail == 48 && block.windows[3]->tail == 24);
        bt_block_free(&block);
        ck_assert(!block.flat && !block.windows && !block.count);
        bt_block_free(&block); /* freeing again is harmless */
    }
    bt_block_free(NULL);
}
END_TEST

START_TEST(blocks_of_nothing)
{
    bt_block block;
    EXPECT_OK(bt_block_new(&block, BT_RUN, BT_PARAMETERS, "", "none", BT_F64, NULL, NULL, NULL, 0));
    ck_assert(block.flat && block.flat->bytes == 0 && block.count == 0);
    bt_block_free(&block);
    const bt_array shapes[] = {{.dtype = BT_F64, .rank = 1}, {.dtype = BT_F64, .rank = 1, .dims = {1}}};
    const char *const names[] = {"empty", "one"};
    EXPECT_OK(bt_block_new(&block, BT_RUN, BT_PARAMETERS, "", "some", BT_F64, shapes, names, NULL, 2));
    ck_assert(block.flat->bytes == 64 && block.windows[0]->bytes == 0 && block.windows[1]->offset == 0);
    bt_block_free(&block);
}
END_TEST

START_TEST(blocks_too_large)
{
    const bt_array shapes[] = {{.dtype = BT_F64, .rank = 1, .dims = {INT64_MAX / 8}},
                               {.dtype = BT_F64, .rank = 1, .dims = {INT64_MAX / 8}},
                               {.dtype = BT_F64, .rank = 1, .dims = {INT64_MAX / 8}}};
    const char *const names[] = {"a", "b", "c"};
    bt_block block;
    ck_assert_int_eq(bt_block_new(&block, BT_PHASE, BT_PARAMETERS, "", "huge", BT_F64, shapes, names, NULL, 3),
                     BT_ERROR_SHAPE);
    ck_assert_str_eq(bt_error(), "a block of parameters is too large");
    ck_assert(!block.flat && !block.windows);
    bt_error_clear();
    ck_assert_int_eq(bt_block_new(&block, BT_RUN, BT_PARAMETERS, "", "large", BT_F64, shapes, names, NULL, 1),
                     BT_ERROR_MEMORY);
    ck_assert(!block.flat && !block.windows);
}
END_TEST

START_TEST(categories_have_names)
{
    ck_assert_str_eq(bt_category_name(BT_PARAMETERS), "parameters");
    ck_assert_str_eq(bt_category_name(BT_WORKSPACE), "workspace");
    ck_assert_str_eq(bt_category_name(BT_CATEGORIES), "unknown");
    ck_assert_str_eq(bt_category_name((bt_category)-1), "unknown");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("variable");
    TCase *tests = tcase_create("variable");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, one_of_the_run);
    tcase_add_test(tests, others_have_no_memory);
    tcase_add_test(tests, windows);
    tcase_add_test(tests, impossible_sizes);
    tcase_add_test(tests, blocks);
    tcase_add_test(tests, blocks_of_nothing);
    tcase_add_test(tests, blocks_too_large);
    tcase_add_test(tests, categories_have_names);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
