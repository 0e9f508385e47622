/* Memory: checked arithmetic, growing, regions, aligned memory and its count. */
#include "base/base.h"
#include "base/footprint.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static void setup(void) { bt_error_clear(); }

/* Memory allocated and freed in all ways is counted; the peak is recorded. */
START_TEST(own_bytes)
{
    const size_t before = bt_own_bytes();
    bt_own_peak_begin();
    char *memory = bt_alloc(1000), *copy = bt_strdup("text");
    int64_t room = 0, *list = NULL;
    ck_assert(bt_own_bytes() >= before + 1005 && bt_own_bytes() < before + 2000);
    for (int64_t i = 1; i <= 100000; i *= 10)
        ck_assert_ptr_nonnull(list = bt_grow(list, &room, i, sizeof *list));
    ck_assert(bt_own_bytes() >= before + 1005 + (size_t)room * sizeof *list);
    ck_assert(bt_own_bytes() < before + 10000 + (size_t)room * sizeof *list);
    bt_free(memory);
    bt_free(copy);
    bt_free(list);
    bt_free(NULL);
    ck_assert_uint_eq(bt_own_bytes(), before);
    ck_assert(bt_own_peak() >= before + 1005 + 100000 * sizeof *list);
    bt_own_peak_begin();
    ck_assert_uint_eq(bt_own_peak(), before);
}
END_TEST

/* Every pair of sizes near 0, near the root of the maximum and near the maximum, against arithmetic of twice the
 * width. */
START_TEST(arithmetic_is_checked)
{
    static const size_t near[] = {
        0, 1, 2, 3, 63, 64, 65, UINT32_MAX, (size_t)1 << 32, SIZE_MAX / 2, SIZE_MAX / 2 + 1, SIZE_MAX - 64, SIZE_MAX};
    for (int i = 0; i < BT_COUNT_OF(near); i++)
        for (int j = 0; j < BT_COUNT_OF(near); j++) {
            __extension__ unsigned __int128 product = (unsigned __int128)near[i] * near[j],
                                            sum = (unsigned __int128)near[i] + near[j];
            size_t result;
            bool fits = bt_mul_size(near[i], near[j], &result);
            ck_assert_int_eq(fits, product <= SIZE_MAX);
            ck_assert(!fits || result == product);
            fits = bt_add_size(near[i], near[j], &result);
            ck_assert_int_eq(fits, sum <= SIZE_MAX);
            ck_assert(!fits || result == sum);
        }
}
END_TEST

START_TEST(sizes_are_rounded_up)
{
    static const size_t cases[][2] = {{0, 0},
                                      {1, 64},
                                      {63, 64},
                                      {64, 64},
                                      {65, 128},
                                      {313600, 313600},
                                      {400, 448},
                                      {SIZE_MAX - 63, SIZE_MAX - 63}, /* the largest multiple of 64 */
                                      {SIZE_MAX - 64, SIZE_MAX - 63},
                                      {SIZE_MAX - 62, SIZE_MAX}, /* there is no such multiple */
                                      {SIZE_MAX, SIZE_MAX}};
    for (int i = 0; i < BT_COUNT_OF(cases); i++)
        ck_assert_uint_eq(bt_align_up(cases[i][0]), cases[i][1]);
}
END_TEST

static bool zeroed(const void *memory, size_t size)
{
    const unsigned char *bytes = memory;
    for (size_t i = 0; i < size; i++)
        if (bytes[i])
            return false;
    return true;
}

START_TEST(memory_is_zeroed)
{
    for (int round = 0; round < 3; round++) { /* repeated, so that used memory is available */
        char *some = bt_alloc(1000), *many = bt_alloc_array(250, 4), *aligned = bt_alloc_aligned(1000);
        ck_assert(some && many && aligned);
        ck_assert(zeroed(some, 1000) && zeroed(many, 1000) && zeroed(aligned, 1000));
        memset(some, 1, 1000);
        memset(many, 1, 1000);
        memset(aligned, 1, 1000);
        bt_free(some);
        bt_free(many);
        bt_free_aligned(aligned);
    }
    void *none = bt_alloc(0), *nothing = bt_alloc_array(0, 8);
    ck_assert(none && nothing && none != nothing);
    bt_free(none);
    bt_free(nothing);
    bt_free(NULL);
    bt_free_aligned(NULL);
    ck_assert_str_eq(bt_error(), "");
}
END_TEST

START_TEST(impossible_sizes_are_an_error)
{
    int64_t capacity = 0;
    void *items = NULL;
    ck_assert_ptr_null(bt_alloc_array(SIZE_MAX / 2, 3));
    ck_assert_int_eq(bt_error_status(), BT_ERROR_MEMORY);
    bt_error_clear();
    ck_assert_ptr_null(bt_alloc_array((size_t)1 << 33, (size_t)1 << 33));
    ck_assert_int_eq(bt_error_status(), BT_ERROR_MEMORY);
    bt_error_clear();
    ck_assert_ptr_null(bt_alloc(SIZE_MAX - 8));
    ck_assert_int_eq(bt_error_status(), BT_ERROR_MEMORY);
    bt_error_clear();
    for (size_t less = 0; less < 200; less++) { /* around every rounding boundary */
        ck_assert_ptr_null(bt_alloc_aligned(SIZE_MAX - less));
        ck_assert_int_eq(bt_error_status(), BT_ERROR_MEMORY);
        bt_error_clear();
    }
    ck_assert_ptr_null(bt_grow(items, &capacity, INT64_MAX, 1));
    ck_assert_ptr_null(bt_grow(items, &capacity, INT64_MAX / 2, 64));
    ck_assert_int_eq(capacity, 0);
    ck_assert_int_eq(bt_error_status(), BT_ERROR_MEMORY);
    bt_error_clear();
}
END_TEST

START_TEST(lists_grow)
{
    int64_t *items = NULL, capacity = 0;
    for (int64_t count = 0; count < 5000; count++) {
        items = bt_grow(items, &capacity, count + 1, sizeof *items);
        ck_assert_ptr_nonnull(items);
        ck_assert_int_gt(capacity, count);
        ck_assert_int_le(capacity, count < 4 ? 8 : 2 * count);
        items[count] = 3 * count;
    }
    bool kept = true;
    for (int64_t i = 0; i < 5000; i++)
        kept &= items[i] == 3 * i;
    ck_assert(kept);
    int64_t before = capacity;
    void *same = bt_grow(items, &capacity, 10, sizeof *items);
    ck_assert(same == items && capacity == before);
    ck_assert_ptr_null(bt_grow(items, &capacity, INT64_MAX / 4, sizeof *items)); /* the items are kept */
    ck_assert_int_eq(items[4999], 3 * 4999);
    ck_assert_int_eq(capacity, before);
    bt_free(items);
    bt_error_clear();
}
END_TEST

START_TEST(live_bytes_balance)
{
    size_t start = bt_live_bytes(), sizes[] = {0, 1, 63, 64, 65, 1000, 1 << 20}, sum = 0;
    void *memory[BT_COUNT_OF(sizes)];
    for (int i = 0; i < BT_COUNT_OF(sizes); i++) {
        memory[i] = bt_alloc_aligned(sizes[i]);
        ck_assert_ptr_nonnull(memory[i]);
        ck_assert_uint_eq((uintptr_t)memory[i] % BT_ALIGN, 0);
        sum += sizes[i]; /* the requested bytes, without rounding */
        ck_assert_uint_eq(bt_live_bytes(), start + sum);
    }
    ck_assert_ptr_null(bt_alloc_aligned(SIZE_MAX - 1000)); /* a failure is not counted */
    bt_error_clear();
    for (int i = 0; i < BT_COUNT_OF(sizes); i++) {
        bt_free_aligned(memory[(i + 3) % BT_COUNT_OF(sizes)]);
        sum -= sizes[(i + 3) % BT_COUNT_OF(sizes)];
        ck_assert_uint_eq(bt_live_bytes(), start + sum);
    }
}
END_TEST

/* Pieces of all sizes, smaller and larger than a region's blocks: aligned, zeroed, without overlap. */
START_TEST(regions_hold_many_pieces)
{
    enum { PIECES = 3000 };
    static unsigned char *pieces[PIECES];
    static size_t sizes[PIECES];
    bt_region *region = bt_region_new();
    ck_assert_ptr_nonnull(region);
    for (int i = 0; i < PIECES; i++) {
        sizes[i] = i % 100 == 99 ? 20000 + (size_t)i : (size_t)(i * 37 % 211);
        pieces[i] = bt_region_alloc(region, sizes[i]);
        ck_assert_ptr_nonnull(pieces[i]);
        ck_assert_uint_eq((uintptr_t)pieces[i] % 16, 0);
        ck_assert(zeroed(pieces[i], sizes[i]));
        memset(pieces[i], 1 + i % 255, sizes[i]);
    }
    bool kept = true;
    for (int i = 0; i < PIECES; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            kept &= pieces[i][k] == 1 + i % 255;
    ck_assert(kept);
    bt_region_free(region);
    bt_region_free(NULL);
}
END_TEST

START_TEST(regions_copy_and_format)
{
    static const double numbers[] = {1, 2.5, -3};
    bt_region *region = bt_region_new();
    double *copy = bt_region_copy(region, numbers, sizeof numbers);
    ck_assert(copy && copy != numbers && memcmp(copy, numbers, sizeof numbers) == 0);
    ck_assert_ptr_nonnull(bt_region_copy(region, NULL, 0));
    char *text = bt_region_format(region, "%s.%d", "layer", 2);
    ck_assert_str_eq(text, "layer.2");
    char *longer = bt_region_format(region, "%*d", 40000, 7);
    ck_assert_uint_eq(strlen(longer), 40000);
    ck_assert(longer[39999] == '7' && longer[0] == ' ');
    ck_assert_str_eq(text, "layer.2");
    ck_assert_ptr_null(bt_region_alloc(region, SIZE_MAX));
    ck_assert_ptr_null(bt_region_alloc(region, SIZE_MAX / 2 - 100));
    ck_assert_int_eq(bt_error_status(), BT_ERROR_MEMORY);
    ck_assert_ptr_nonnull(bt_region_alloc(region, 8)); /* and it still works */
    ck_assert_ptr_null(bt_region_alloc(NULL, 8));
    bt_region_free(region);
    bt_error_clear();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("memory");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, arithmetic_is_checked);
    tcase_add_test(tests, sizes_are_rounded_up);
    tcase_add_test(tests, memory_is_zeroed);
    tcase_add_test(tests, impossible_sizes_are_an_error);
    tcase_add_test(tests, lists_grow);
    tcase_add_test(tests, live_bytes_balance);
    tcase_add_test(tests, own_bytes);
    tcase_add_test(tests, regions_hold_many_pieces);
    tcase_add_test(tests, regions_copy_and_format);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
