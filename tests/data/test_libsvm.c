/* libsvm files: what is accepted, and what is refused. */
#include "data/dataset.h"
#include "files.h"

#include "support/suite.h"
#include <string.h>

static bt_dataset *open_text(const char *text)
{
    write_text("t.libsvm", text);
    return bt_dataset_open(path_of("t.libsvm"), "train");
}

static void check_dense(bt_dataset *data, int64_t rows, int64_t features, const double *x, const double *y)
{
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_count(data), rows);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 1), features);
    const bt_batch *batch = whole(data);
    for (int64_t i = 0; i < rows * features; i++)
        ck_assert_double_eq(f64_of(batch, "x")[i], x[i]);
    for (int64_t i = 0; i < rows; i++)
        ck_assert_double_eq(f64_of(batch, "y")[i], y[i]);
    expect_no_failure();
}

static const double x[] = {0, 0.5, 0, 1, 0, 0, 0, 0, -2, 0, 0, 3e-1}, y[] = {1, -1, 0.5};

START_TEST(shapes_of_files)
{
    static const char *const texts[] = {
        "+1 2:0.5 4:1\n-1\n0.5 1:-2 4:3e-1\n",
        "+1 2:0.5 4:1\n-1\n0.5 1:-2 4:3e-1",
        "1  2:0.5\t4:1 \r\n -1 \r\n5e-1 1:-2 4:0.3\r\n",
        "# a comment\n1 2:.5 4:1 # another\n\n-1#third\n0.5 1:-2. 3:0 4:0.3\n",
    };
    for (int i = 0; i < BT_COUNT_OF(texts); i++)
        check_dense(open_text(texts[i]), 3, 4, x, y);
    write_text("packed.libsvm.gz", texts[0]);
    check_dense(bt_dataset_open(path_of("packed.libsvm"), "train"), 3, 4, x, y);
    check_dense(bt_dataset_open(path_of("packed"), "train"), 3, 4, x, y);
    write_text("noname", texts[0]); /* recognised by its colons */
    check_dense(bt_dataset_open(path_of("noname"), "train"), 3, 4, x, y);
}
END_TEST

START_TEST(exact_values_stay_small)
{
    bt_dataset *data = open_text("+1 2:0.5 4:1\n-1\n");
    ck_assert_uint_eq(bt_dataset_bytes(data), 2 * 4 * 4 + 2 * 4);
    bt_dataset_free(data);
    data = open_text("+1 2:0.1 4:1\n-1\n");
    ck_assert_uint_eq(bt_dataset_bytes(data), 2 * 4 * 8 + 2 * 4);
    bt_dataset_free(data);
}
END_TEST

/* A feature that only one split has: both are as wide as the wider one. */
START_TEST(splits_are_equally_wide)
{
    write_text("s", "+1 2:1 5:1\n-1 1:1\n");
    write_text("s.t", "+1 3:1\n");
    bt_dataset *train = bt_dataset_open(path_of("s"), "train"), *test = bt_dataset_open(path_of("s"), "test");
    ck_assert_msg(train && test, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_field_dim(train, "x", 1), 5);
    ck_assert_int_eq(bt_dataset_field_dim(test, "x", 1), 5);
    ck_assert_int_eq(bt_dataset_count(test), 1);
    bt_dataset_free(train);
    bt_dataset_free(test);
    write_text("s.t", "+1 7:1\n");
    train = bt_dataset_open(path_of("s"), "train");
    ck_assert_int_eq(bt_dataset_field_dim(train, "x", 1), 7);
    bt_dataset_free(train);
    write_text("s.t", "+1 1:oops\n");
    ck_assert_ptr_null(bt_dataset_open(path_of("s"), "train"));
    expect_failure(BT_ERROR_DATA, "s.t, line 1", "1:oops");
}
END_TEST

/* Variants of libsvm's format, on request. */
START_TEST(other_forms)
{
    write_text("z.libsvm", "+1 0:5 2:6\n-1 1:7\n");
    bt_dataset *data = bt_dataset_open(path_of("z.libsvm:from_zero"), "train");
    ck_assert_msg(data != NULL, "%s", bt_error());
    static const double zero[] = {5, 0, 6, 0, 7, 0}, mixed[] = {6, 5, 0, 7};
    ck_assert_mem_eq(f64_of(whole(data), "x"), zero, sizeof zero);
    write_text("m.libsvm", "+1 2:5 1:6\n-1 2:7\n");
    data = bt_dataset_open(path_of("m.libsvm:any_order"), "train");
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_mem_eq(f64_of(whole(data), "x"), mixed, sizeof mixed);
    write_text("b.libsvm", "+1 1:5 0:6\n-1 1:7\n");
    data = bt_dataset_open(path_of("b.libsvm:any_order, from_zero"), "train");
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_mem_eq(f64_of(whole(data), "x"), mixed, sizeof mixed);
    ck_assert_ptr_null(bt_dataset_open(path_of("b.libsvm"), "train"));
    expect_failure(BT_ERROR_DATA, "line 1", "\"0:6\"", "FILE:from_zero");
    ck_assert_ptr_null(bt_dataset_open(path_of("m.libsvm"), "train"));
    expect_failure(BT_ERROR_DATA, "line 1", "\"1:6\"", "FILE:any_order");
    write_text("twice.libsvm", "+1 3:5 1:6 3:0\n");
    ck_assert_ptr_null(bt_dataset_open(path_of("twice.libsvm:any_order"), "train"));
    expect_failure(BT_ERROR_DATA, "line 1: index 3 occurs twice");
    write_text("wide.libsvm", "+1 2:1 1:5\n"); /* the other split is read in the same way */
    write_text("wide.libsvm.t", "+1 4:1 3:5\n");
    data = bt_dataset_open(path_of("wide.libsvm:any_order"), "train");
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 1), 4);
    bt_dataset_free(data);
}
END_TEST

START_TEST(faults)
{
    static const struct {
        const char *text, *pieces[4];
    } cases[] = {
        {"", {"t.libsvm", "no rows"}},
        {"# only\n\n", {"t.libsvm", "no rows"}},
        {"+1\n-1\n", {"t.libsvm", "no line has a feature"}},
        {"+1 1:1\nyes 2:1\n", {"line 2", "found \"yes\"; expected the target"}},
        {"+1 1:1\n1,2 2:1\n", {"line 2", "found \"1,2\""}},
        {"+1 1:1\nnan 2:1\n", {"line 2", "found \"nan\""}},
        {"+1 1:1\n1:1 2:1\n", {"line 2", "found \"1:1\"; expected the target"}},
        {"+1 0:1\n", {"line 1", "\"0:1\"; expected an index of at least 1"}},
        {"+1 2:1 2:1\n", {"line 1", "\"2:1\"; expected a larger index"}},
        {"+1 2:1 1:1\n", {"line 1", "\"1:1\"; expected a larger index"}},
        {"+1 -1:1\n", {"line 1", "\"-1:1\"; expected INDEX:VALUE"}},
        {"+1 1\n", {"line 1", "\"1\"; expected INDEX:VALUE"}},
        {"+1 1.5:1\n", {"line 1", "\"1.5:1\"; expected INDEX:VALUE"}},
        {"+1 :1\n", {"line 1", "\":1\"; expected INDEX:VALUE"}},
        {"+1 qid:3 1:1\n", {"line 1", "\"qid:3\""}},
        {"+1 1:\n", {"line 1", "\"1:\"; expected a number after the colon"}},
        {"+1 1:x\n", {"line 1", "\"1:x\"; expected a number after the colon"}},
        {"+1 1:nan\n", {"line 1", "\"1:nan\""}},
        {"+1 1:2:3\n", {"line 1", "\"1:2:3\""}},
        {"+1 1:1e999\n", {"line 1", "a double can hold"}},
        {"+1 16777217:1\n", {"line 1", "\"16777217:1\"; expected an index of at most 16777216"}},
        {"+1 99999999999999999999999999:1\n", {"line 1", "at most 16777216"}},
        {"+1 999999999999\n", {"line 1", "at most 16777216"}},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        ck_assert_msg(open_text(cases[i].text) == NULL, "accepted: %s", cases[i].text);
        expect_failure_(BT_ERROR_DATA, cases[i].pieces);
    }
    write_bytes("t.libsvm", "+1 1:1\0002\n", 9);
    ck_assert_ptr_null(bt_dataset_open(path_of("t.libsvm"), "train"));
    expect_failure(BT_ERROR_DATA, "line 1", "\"1:1?2\"");
    write_text("t.libsvm", "+1 1:1\n");
    ck_assert_ptr_null(bt_dataset_open(path_of("t.libsvm:2"), "train"));
    expect_failure(BT_ERROR_DATA, "target column is given as \"2\"", "target is always first");
}
END_TEST

/* A few bytes per row, and terabytes in memory: refused before anything is allocated. */
START_TEST(too_large_as_a_dense_table)
{
    bt_text text = {0};
    bt_text_add(&text, "1 16777216:1\n");
    for (int i = 0; i < 20000; i++)
        bt_text_add(&text, "1\n");
    ck_assert_ptr_null(open_text(bt_text_get(&text)));
    expect_failure(BT_ERROR_DATA, "20001 rows of 16777216 features need 2.4 TiB", "half of this machine's memory");
    bt_text_free(&text);
}
END_TEST

/* Each row is as long as the longest, both splits equally wide; opened twice, the values are stored once. */
START_TEST(sparse_rows)
{
    static const double value[] = {0.5, 1, 0, 0, -2, 0.3};
    static const int32_t column[] = {1, 3, 0, 0, 0, 3};
    write_text("s.libsvm", "+1 2:0.5 4:1\n-1 3:0\n0.5 1:-2 4:3e-1\n");
    write_text("s.libsvm.t", "1 6:1 7:2 9:1\n");
    bt_dataset *data = bt_dataset_open(path_of("s.libsvm:sparse"), "train"), *again;
    ck_assert_msg(data != NULL, "%s", bt_error());
    again = bt_dataset_open(path_of("s.libsvm:sparse"), "train");
    ck_assert_ptr_eq(bt_dataset_column(data, "x.value")->store, bt_dataset_column(again, "x.value")->store);
    bt_dataset_free(again);
    again = bt_dataset_open(path_of("s.libsvm"), "train"); /* dense: a separate set */
    ck_assert_int_eq(bt_dataset_field_dim(again, "x", 1), 9);
    bt_dataset_free(again);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 0), 3);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 1), 9);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 2), -1);
    ck_assert_int_eq(bt_dataset_field_dim(data, "z", 1), -1);
    const bt_batch *batch = whole(data);
    ck_assert_int_eq(field_of(batch, "x.value")->array.dims[1], 2);
    for (int i = 0; i < 6; i++) {
        ck_assert_double_eq(f64_of(batch, "x.value")[i], value[i]);
        ck_assert_int_eq(i32_of(batch, "x.column")[i], column[i]);
    }
    ck_assert_double_eq(f64_of(batch, "y")[2], 0.5);
    data = bt_dataset_open(path_of("s.libsvm:from_zero,sparse"), "test");
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 1), 10);
    batch = whole(data);
    ck_assert_int_eq(i32_of(batch, "x.column")[2], 9);
    ck_assert_ptr_null(bt_dataset_open(path_of("s.libsvm:sparsely"), "train"));
    expect_failure(BT_ERROR_DATA, "\"sparsely\"", "from_zero, any_order and sparse");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.libsvm");
    ADD_CASE(suite, shapes_of_files);
    ADD_CASE(suite, exact_values_stay_small);
    ADD_CASE(suite, splits_are_equally_wide);
    ADD_CASE(suite, other_forms);
    ADD_CASE(suite, faults);
    ADD_CASE(suite, too_large_as_a_dense_table);
    ADD_CASE(suite, sparse_rows);
    return run_suite(suite);
}
