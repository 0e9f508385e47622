/* Data sets in memory, joined sets, and user-registered sets. */
#include "files.h"

#include "support/suite.h"
#include <stdlib.h>
#include <string.h>

START_TEST(fields)
{
    double x[6] = {1, 2, 3, 4, 5, 6};
    uint8_t flags[3] = {1, 0, 255};
    int64_t big[3] = {INT64_MAX, -1, 0};
    float y[3] = {0.5F, 1, 2};
    bt_dataset *data = bt_dataset_new(3);
    ck_assert_int_eq(bt_dataset_add(data, "x", BT_ARRAY(x, 3, 2)), BT_OK);
    ck_assert_int_eq(bt_dataset_add(data, "flags", BT_ARRAY(flags, 3)), BT_OK);
    ck_assert_int_eq(bt_dataset_add(data, "big", BT_ARRAY(big, 3)), BT_OK);
    ck_assert_int_eq(bt_dataset_add(data, "y", BT_ARRAY(y, 3)), BT_OK);
    memset(x, 0, sizeof x); /* copied */
    ck_assert_int_eq(bt_dataset_count(data), 3);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 0), 3);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 1), 2);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 2), -1);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", -1), -1);
    ck_assert_int_eq(bt_dataset_field_dim(data, "z", 0), -1);
    ck_assert_int_eq(bt_dataset_field_dim(data, "index", 0), 3);
    ck_assert_uint_eq(bt_dataset_bytes(data), 6 * 8 + 3 + 3 * 8 + 3 * 4);
    const bt_batch *batch = whole(data);
    ck_assert_int_eq(batch->field_count, 5);
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq(f64_of(batch, "x")[i], i + 1);
    ck_assert_double_eq(f64_of(batch, "y")[0], 0.5);                /* floating-point: the requested precision */
    ck_assert_int_eq(field_of(batch, "flags")->array.dtype, BT_U8); /* others: unchanged */
    ck_assert_mem_eq(field_of(batch, "flags")->array.data, flags, sizeof flags);
    ck_assert_int_eq(field_of(batch, "big")->array.dtype, BT_I64);
    ck_assert_mem_eq(field_of(batch, "big")->array.data, big, sizeof big);
}
END_TEST

START_TEST(faults)
{
    double x[6] = {0};
    const struct {
        const char *name;
        bt_array values;
        bt_status status;
        const char *piece;
    } cases[] = {
        {"x", BT_ARRAY(x, 2, 3), BT_ERROR_SHAPE,
         "\"x\" is of shape [2, 3]; the size of its first axis must be 3, the number of examples"},
        {"x", BT_ARRAY(x), BT_ERROR_SHAPE, "[]"},
        {"x", BT_ARRAY((double *)NULL, 3), BT_ERROR_ARGUMENT, "data is NULL"},
        {"x", BT_ARRAY(x, 3, 0), BT_ERROR_SHAPE, "[3, 0]"},
        {"x", BT_ARRAY(x, 3, -1), BT_ERROR_SHAPE, "[3, -1]"},
        {"x", BT_ARRAY(x, 3, INT64_MAX / 2, 4), BT_ERROR_SHAPE, "fit into memory"},
        {"", BT_ARRAY(x, 3), BT_ERROR_ARGUMENT, "no name"},
        {NULL, BT_ARRAY(x, 3), BT_ERROR_ARGUMENT, "no name"},
        {"index", BT_ARRAY(x, 3), BT_ERROR_ARGUMENT, "\"index\" is reserved"},
        {"there", BT_ARRAY(x, 3), BT_ERROR_ARGUMENT, "\"there\" already exists"},
        {"x", {.dtype = (bt_dtype)77, .rank = 1, .dims = {3}, .data = x}, BT_ERROR_ARGUMENT, "not a valid array"},
        {"x", {.dtype = BT_F64, .rank = 9, .dims = {3}, .data = x}, BT_ERROR_ARGUMENT, "not a valid array"},
        {"x", {.dtype = BT_F64, .rank = -1, .data = x}, BT_ERROR_ARGUMENT, "not a valid array"},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        bt_dataset *data = bt_dataset_new(3);
        ck_assert_int_eq(bt_dataset_add(data, "there", BT_ARRAY(x, 3)), BT_OK);
        ck_assert_int_eq(bt_dataset_add(data, cases[i].name, cases[i].values), cases[i].status);
        expect_failure(cases[i].status, "bt_dataset_add", cases[i].piece);
        ck_assert_ptr_null(bt_loader_open(data, NULL)); /* it remains unusable */
        expect_failure(cases[i].status, "incomplete");
    }
    ck_assert_ptr_null(bt_dataset_new(0));
    expect_failure(BT_ERROR_ARGUMENT, "count is 0");
    ck_assert_ptr_null(bt_dataset_new(-5));
    expect_failure(BT_ERROR_ARGUMENT, "count is -5");
    ck_assert_ptr_null(bt_dataset_new(INT64_C(1) << 31));
    expect_failure(BT_ERROR_ARGUMENT, "2147483648", "2147483647");
    ck_assert_int_eq(bt_dataset_add(NULL, "x", BT_ARRAY(x, 3)), BT_ERROR_ARGUMENT);
    expect_failure(BT_ERROR_ARGUMENT, "NULL");
    bt_dataset_free(NULL);
    ck_assert_int_eq(bt_dataset_count(NULL), 0);
    ck_assert_int_eq(bt_dataset_field_dim(NULL, "x", 0), -1);
    ck_assert_uint_eq(bt_dataset_bytes(NULL), 0);
}
END_TEST

START_TEST(views_share_memory)
{
    size_t values = 1000 * 2 * 8 + 1000 * 4;
    bt_dataset *data = numbered(1000, 10);
    ck_assert_uint_eq(bt_dataset_bytes(data), values);
    data = bt_dataset_part(data, 0, 0.1, 1);
    ck_assert_uint_eq(bt_dataset_bytes(data), values + 100 * 4); /* the values stay; a new map of indices */
    data = bt_dataset_label_noise(data, 0.5, 1);
    ck_assert_uint_eq(bt_dataset_bytes(data), 1000 * 2 * 8 + 100 * 4 + 100 * 4);
    data = bt_dataset_per_class(data, 0, 1, 1);
    ck_assert_uint_eq(bt_dataset_bytes(data),
                      1000 * 2 * 8 + 10 * 4 + 100 * 4 + 10 * 4); /* x and label each have a map */
    ck_assert_int_eq(bt_dataset_count(data), 10);
    bt_dataset_free(data);
    /* A field added to a view has a row for each example of the view. */
    data = bt_dataset_part(numbered(10, 2), 0, 0.5, 1);
    int32_t extra[5] = {10, 11, 12, 13, 14};
    ck_assert_int_eq(bt_dataset_add(data, "extra", BT_ARRAY(extra, 5)), BT_OK);
    ck_assert_mem_eq(i32_of(whole(data), "extra"), extra, sizeof extra);
}
END_TEST

START_TEST(joined)
{
    bt_dataset *data = bt_dataset_join(numbered(4, 2), "other", bt_dataset_part(numbered(10, 5), 0, 0.5, 1));
    data = bt_dataset_join(data, "third", bt_dataset_join(numbered(3, 3), "deep", numbered(2, 2)));
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_count(data), 4);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 0), 4);
    ck_assert_int_eq(bt_dataset_field_dim(data, "other.x", 0), 5);
    ck_assert_int_eq(bt_dataset_field_dim(data, "other.x", 1), 2);
    ck_assert_int_eq(bt_dataset_field_dim(data, "other.index", 0), 5);
    ck_assert_int_eq(bt_dataset_field_dim(data, "third.label", 0), 3);
    ck_assert_int_eq(bt_dataset_field_dim(data, "third.deep.label", 0), 2);
    ck_assert_int_eq(bt_dataset_field_dim(data, "deep.label", 0), -1);
    ck_assert_int_eq(bt_dataset_field_dim(data, "others.x", 0), -1);
    const bt_batch *batch = whole(data);
    ck_assert_int_eq(batch->field_count, 12);
    ck_assert_int_eq(bt_batch_count(batch), 4);
    ck_assert_int_eq(field_of(batch, "third.deep.x")->array.dims[0], 2);
    ck_assert_double_eq(f64_of(batch, "third.x")[4], 2);
}
END_TEST

START_TEST(join_faults)
{
    bt_dataset *same = numbered(4, 2);
    ck_assert_ptr_null(bt_dataset_join(same, "o", same));
    expect_failure(BT_ERROR_ARGUMENT, "itself");
    ck_assert_ptr_null(bt_dataset_join(numbered(4, 2), "o", NULL));
    expect_failure(BT_ERROR_ARGUMENT, "NULL");
    ck_assert_ptr_null(bt_dataset_join(NULL, "o", numbered(4, 2)));
    expect_failure(BT_ERROR_ARGUMENT, "NULL");
    ck_assert_ptr_null(bt_dataset_join(numbered(4, 2), "", numbered(4, 2)));
    expect_failure(BT_ERROR_ARGUMENT, "prefix");
    bt_dataset *data = bt_dataset_join(numbered(4, 2), "o", numbered(4, 2));
    ck_assert_ptr_null(bt_dataset_join(data, "o", numbered(4, 2)));
    expect_failure(BT_ERROR_ARGUMENT, "\"o\" is already used");
    data = bt_dataset_join(numbered(4, 2), "o", numbered(4, 2));
    ck_assert_ptr_null(bt_dataset_part(data, 0, 0.5, 1));
    expect_failure(BT_ERROR_UNSUPPORTED, "joined");
    /* A field whose name conflicts with a joined one is detected when a loader is opened. */
    float x[4] = {0};
    data = numbered(4, 2);
    bt_dataset_add(data, "o.x", BT_ARRAY(x, 4));
    ck_assert_ptr_null(bt_loader_open(bt_dataset_join(data, "o", numbered(4, 2)), NULL));
    expect_failure(BT_ERROR_ARGUMENT, "two fields called \"o.x\"");
    data = bt_dataset_join(numbered(4, 2), "o", numbered(4, 2));
    ck_assert_int_eq(bt_dataset_add(data, "late", BT_ARRAY(x, 4)), BT_ERROR_ARGUMENT);
    expect_failure(BT_ERROR_ARGUMENT, "before joining");
    bt_dataset_free(data);
}
END_TEST

/* ---- user-registered sets ---- */

static bt_dataset *open_small(const char *split) { return numbered(strcmp(split, "train") == 0 ? 6 : 3, 3); }
static bt_dataset *open_large(const char *split) { return numbered(strcmp(split, "train") == 0 ? 60 : 30, 3); }
static bt_dataset *open_half(const char *split) { return bt_dataset_part(bt_dataset_open("mine", split), 0, 0.5, 1); }
static bt_dataset *open_nothing(const char *split)
{
    (void)split;
    return NULL;
}
static bt_dataset *open_failing(const char *split)
{
    bt_fail(BT_ERROR_DATA, "no %s today", split);
    return NULL;
}

static int64_t count_of(const char *name, const char *split)
{
    bt_dataset *data = bt_dataset_open(name, split);
    int64_t count = bt_dataset_count(data);
    bt_dataset_free(data);
    return count;
}

START_TEST(registered)
{
    static const bt_dataset_def small = {"mine", open_small}, large = {"mine", open_large}, half = {"mine", open_half};
    static const bt_dataset_def nothing = {"nothing", open_nothing}, failing = {"failing", open_failing};
    static const bt_dataset_def mnist = {"fashion-mnist", open_small};
    ck_assert_int_eq(bt_dataset_register(&small), BT_OK);
    ck_assert_int_eq(count_of("mine", "train"), 6);
    ck_assert_int_eq(count_of("mine", "other"), 3); /* it has its own splits */
    ck_assert_int_eq(bt_dataset_register(&large), BT_OK);
    ck_assert_int_eq(count_of("mine", "train"), 60); /* the latest one */
    ck_assert_int_eq(bt_dataset_register(&half), BT_OK);
    ck_assert_int_eq(count_of("mine", "train"), 30); /* built on the one below it */
    bt_dataset_unregister(&large);
    ck_assert_int_eq(count_of("mine", "train"), 3);
    bt_dataset_unregister(&half);
    bt_dataset_unregister(&half); /* was already removed */
    ck_assert_int_eq(count_of("mine", "train"), 6);
    ck_assert_int_eq(bt_dataset_register(&mnist), BT_OK);
    ck_assert_int_eq(count_of("fashion-mnist", "train"), 6); /* before those of the library */
    expect_no_failure();
    ck_assert_int_eq(bt_dataset_register(&nothing), BT_OK);
    ck_assert_int_eq(bt_dataset_register(&failing), BT_OK);
    ck_assert_ptr_null(bt_dataset_open("nothing", "train"));
    expect_failure(BT_ERROR_DATA, "\"nothing\"", "returned none", "\"train\"");
    ck_assert_ptr_null(bt_dataset_open("failing", "test"));
    expect_failure(BT_ERROR_DATA, "no test today");
    bt_dataset_unregister(&small);
    ck_assert_ptr_null(bt_dataset_open("mine", "train"));
    expect_failure(BT_ERROR_FILE, "data set \"mine\" not found");
    ck_assert_ptr_null(bt_dataset_open("noting", "train"));
    expect_failure(BT_ERROR_FILE, "did you mean \"nothing\"?", "failing");
    bt_dataset_unregister(&mnist);
    bt_dataset_unregister(&nothing);
    bt_dataset_unregister(&failing);
    bt_dataset_unregister(NULL);
}
END_TEST

START_TEST(register_faults)
{
    static const bt_dataset_def unnamed = {NULL, open_small}, empty = {"", open_small}, hollow = {"hollow", NULL};
    ck_assert_int_eq(bt_dataset_register(NULL), BT_ERROR_ARGUMENT);
    ck_assert_int_eq(bt_dataset_register(&unnamed), BT_ERROR_ARGUMENT);
    ck_assert_int_eq(bt_dataset_register(&empty), BT_ERROR_ARGUMENT);
    bt_error_clear();
    ck_assert_int_eq(bt_dataset_register(&hollow), BT_ERROR_ARGUMENT);
    expect_failure(BT_ERROR_ARGUMENT, "\"hollow\"", "open function");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.dataset");
    ADD_CASE(suite, fields);
    ADD_CASE(suite, faults);
    ADD_CASE(suite, views_share_memory);
    ADD_CASE(suite, joined);
    ADD_CASE(suite, join_faults);
    ADD_CASE(suite, registered);
    ADD_CASE(suite, register_faults);
    return run_suite(suite);
}
