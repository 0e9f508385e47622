/* Columns of tables: left out, standardised, used as labels; rows in file order. */
#include "files.h"

#include "support/suite.h"
#include <betty/function.h>
#include <betty/tensor.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char table[] = "id,size,flat,kind\n0,1,7,2\n1,2,7,0\n2,4,7,1\n3,9,7,2\n";

static bt_dataset *open_table(void)
{
    write_text("t.csv", table);
    return bt_dataset_open(path_of("t.csv"), "train");
}

static void expect_x(bt_dataset *data, int64_t rows, int64_t columns, const double *values)
{
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_count(data), rows);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 1), columns);
    const double *x = f64_of(whole(data), "x");
    for (int64_t i = 0; i < rows * columns; i++)
        ck_assert_double_eq(x[i], values[i]);
}

START_TEST(left_out)
{
    expect_x(bt_dataset_drop(open_table(), "size"), 4, 2, (const double[]){0, 7, 1, 7, 2, 7, 3, 7});
    expect_x(bt_dataset_drop(bt_dataset_drop(open_table(), "1"), "flat"), 4, 1, (const double[]){1, 2, 4, 9});
    expect_x(bt_dataset_drop(bt_dataset_drop(open_table(), "1"), "1"), 4, 1, (const double[]){7, 7, 7, 7});
    expect_x(bt_dataset_drop(bt_dataset_rows(open_table(), 1, 3), "flat"), 2, 2, (const double[]){1, 2, 2, 4});
    ck_assert_ptr_null(bt_dataset_drop(open_table(), "kind")); /* the target */
    expect_failure(BT_ERROR_DATA, "no column \"kind\"", "1 to 3 or a name", "\"id\", \"size\", \"flat\"");
    ck_assert_ptr_null(bt_dataset_drop(open_table(), "4"));
    expect_failure(BT_ERROR_DATA, "no column \"4\"");
    ck_assert_ptr_null(bt_dataset_drop(open_table(), NULL));
    expect_failure(BT_ERROR_ARGUMENT, "the column is missing");
    write_text("two.csv", "a,b\n1,2\n");
    ck_assert_ptr_null(bt_dataset_drop(bt_dataset_open(path_of("two.csv"), "train"), "a"));
    expect_failure(BT_ERROR_DATA, "the last column");
    ck_assert_ptr_null(bt_dataset_drop(NULL, "a"));
    expect_failure(BT_ERROR_ARGUMENT, "NULL");
}
END_TEST

START_TEST(rows_in_order)
{
    expect_x(bt_dataset_rows(open_table(), 1, 3), 2, 3, (const double[]){1, 2, 7, 2, 4, 7});
    expect_x(bt_dataset_rows(open_table(), -1, BT_REST), 1, 3, (const double[]){3, 9, 7});
    expect_x(bt_dataset_rows(open_table(), 0, -3), 1, 3, (const double[]){0, 1, 7});
    static const int64_t wrong[][2] = {{2, 2}, {0, 5}, {-5, 2}, {3, 1}, {4, BT_REST}};
    for (int i = 0; i < BT_COUNT_OF(wrong); i++) {
        ck_assert_ptr_null(bt_dataset_rows(open_table(), wrong[i][0], wrong[i][1]));
        expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_rows", "of 4 examples");
    }
}
END_TEST

/* With the statistics of the first three rows: sizes 1, 2, 4 have mean 7/3 and deviation sqrt(14)/3; ids 1 and
 * sqrt(2/3). */
START_TEST(standardized)
{
    const double size = 7.0 / 3, spread = sqrt(14.0) / 3, third = sqrt(2.0 / 3);
    bt_dataset *last =
        bt_dataset_standardize(bt_dataset_rows(open_table(), 3, 4), "x", bt_dataset_rows(open_table(), 0, 3));
    ck_assert_msg(last != NULL, "%s", bt_error());
    const double *x = f64_of(whole(last), "x");
    ck_assert_double_eq_tol(x[0], (3 - 1) / third, 1e-14);
    ck_assert_double_eq_tol(x[1], (9 - size) / spread, 1e-14);
    ck_assert_double_eq(x[2], 0);
    bt_dataset *own = bt_dataset_standardize(bt_dataset_standardize(open_table(), "x", NULL), "y", NULL);
    ck_assert_msg(own != NULL, "%s", bt_error());
    const bt_batch *batch = whole(own);
    for (int k = 0; k < 2; k++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < 4; i++) {
            sum += f64_of(batch, "x")[3 * i + k];
            squares += f64_of(batch, "x")[3 * i + k] * f64_of(batch, "x")[3 * i + k];
        }
        ck_assert_double_eq_tol(sum, 0, 1e-14);
        ck_assert_double_eq_tol(squares, 4, 1e-14);
    }
    ck_assert_double_eq_tol(f64_of(batch, "y")[1], -1.25 / sqrt(0.6875), 1e-14);
    write_text("two.csv", "a,b\n1,2\n");
    ck_assert_ptr_null(bt_dataset_standardize(open_table(), "x", bt_dataset_open(path_of("two.csv"), "train")));
    expect_failure(BT_ERROR_SHAPE, "[4, 3]", "[1, 1]");
    ck_assert_ptr_null(bt_dataset_standardize(open_table(), "z", NULL));
    expect_failure(BT_ERROR_DATA, "no field \"z\"", "x, y");
    ck_assert_ptr_null(bt_dataset_standardize(numbered(4, 2), "label", NULL));
    expect_failure(BT_ERROR_DATA, "\"label\"", "floating");
}
END_TEST

START_TEST(labels)
{
    bt_dataset *data = bt_dataset_label(open_table(), "y");
    ck_assert_msg(data != NULL, "%s", bt_error());
    const bt_batch *batch = whole(data);
    ck_assert_int_eq(field_of(batch, "label")->array.dtype, BT_I32);
    static const int32_t due[] = {2, 0, 1, 2};
    ck_assert_mem_eq(i32_of(batch, "label"), due, sizeof due);
    ck_assert_double_eq(f64_of(batch, "y")[0], 2);
    write_text("half.csv", "a,b\n1,2\n1,0.5\n");
    ck_assert_ptr_null(bt_dataset_label(bt_dataset_open(path_of("half.csv"), "train"), "y"));
    expect_failure(BT_ERROR_DATA, "example 1 is 0.5", "integer");
    ck_assert_ptr_null(bt_dataset_label(open_table(), "x"));
    expect_failure(BT_ERROR_SHAPE, "3 numbers per example");
    ck_assert_ptr_null(bt_dataset_label(numbered(4, 2), "label"));
    expect_failure(BT_ERROR_ARGUMENT, "already");
}
END_TEST

/* There is one warning for a column that looks like an index, and none if it has been dropped. */
START_TEST(an_index_is_told)
{
    static const struct {
        const char *text;
        bool told;
    } cases[] = {
        {",a,y\n0,5,1\n1,6,2\n", true},
        {"Unnamed: 0,a,y\n0,5,1\n1,6,2\n", true},
        {"\"\",\"a\",\"y\"\n\"1\",5,1\n\"2\",6,2\n", true},
        {",a,y\n0,5,1\n2,6,2\n", false},
        {"id,a,y\n0,5,1\n1,6,2\n", false},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        write_text("t.csv", cases[i].text);
        bt_dataset *data = bt_dataset_open(path_of("t.csv"), "train");
        ck_assert_msg(data != NULL, "%s", bt_error());
        char *note = bt_dataset_next_note(data), *again = bt_dataset_next_note(data);
        ck_assert_msg((note != NULL) == cases[i].told, "%s", cases[i].text);
        ck_assert(!note || (strstr(note, "t.csv: column 1") && strstr(note, "bt_dataset_drop")));
        ck_assert_ptr_null(again);
        bt_free(note);
        bt_dataset_free(data);
    }
    write_text("t.csv", cases[0].text);
    bt_dataset *data = bt_dataset_drop(bt_dataset_open(path_of("t.csv"), "train"), "1");
    ck_assert_ptr_null(bt_dataset_next_note(data));
    expect_x(data, 2, 1, (const double[]){5, 6});
    write_text("t.csv", cases[0].text);
    data = bt_dataset_standardize(bt_dataset_open(path_of("t.csv"), "train"), "x", NULL);
    char *note = bt_dataset_next_note(data);
    ck_assert_ptr_nonnull(note);
    bt_free(note);
    bt_dataset_free(data);
}
END_TEST

/* ---- bt_cast ---- */

static bt_tensor *into(void *user, const bt_batch *batch) { return bt_cast(bt_field(batch, "v"), *(bt_dtype *)user); }

/* d/dv of sum(v * cast(v)): cast(v) + v between floats, otherwise cast(v) alone. */
static bt_tensor *slope(void *user, const bt_batch *batch)
{
    bt_tensor *v = bt_field(batch, "v");
    return bt_grad(bt_sum(bt_mul(v, bt_cast(bt_cast(v, *(bt_dtype *)user), BT_F64))), v);
}

START_TEST(cast)
{
    static const double v[] = {-2.75, -0.5, 0, 0.75, 3, 1e12};
    static const struct {
        bt_dtype dtype;
        double due[6];
    } cases[] = {
        {BT_F64, {-2.75, -0.5, 0, 0.75, 3, 1e12}},
        {BT_F32, {-2.75, -0.5, 0, 0.75, 3, 999999995904}},
        {BT_I32, {-2, 0, 0, 0, 3, 2147483647}},
        {BT_I64, {-2, 0, 0, 0, 3, 1e12}},
        {BT_U8, {0, 0, 0, 0, 3, 255}},
        {BT_BOOL, {1, 1, 0, 1, 1, 1}},
    };
    bt_batch *batch = bt_batch_new();
    ck_assert_int_eq(bt_batch_set(batch, "v", BT_ARRAY(v, 6)), BT_OK);
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        bt_dtype dtype = cases[i].dtype;
        double result[6];
        bt_function *value = bt_function_new(into, &dtype, BT_VALID), *grad = bt_function_new(slope, &dtype, BT_VALID);
        ck_assert_msg(bt_function_run(value, batch, BT_ARRAY(result, 6)) == BT_OK, "%s", bt_error());
        ck_assert_mem_eq(result, cases[i].due, sizeof result);
        ck_assert_msg(bt_function_run(grad, batch, BT_ARRAY(result, 6)) == BT_OK, "%s", bt_error());
        for (int k = 0; k < 6; k++)
            ck_assert_double_eq_tol(result[k], cases[i].due[k] + (i < 2 ? v[k] : 0),
                                    1e-15 + 1e-7 * fabs(v[k])); /* rounded */
        bt_function_free(value);
        bt_function_free(grad);
    }
    bt_dtype none = (bt_dtype)99;
    double result[6];
    bt_function *wrong = bt_function_new(into, &none, BT_VALID);
    ck_assert_int_ne(bt_function_run(wrong, batch, BT_ARRAY(result, 6)), BT_OK);
    expect_failure(BT_ERROR_ARGUMENT, "bt_cast", "99");
    bt_function_free(wrong);
    bt_batch_free(batch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.columns");
    ADD_CASE(suite, left_out);
    ADD_CASE(suite, rows_in_order);
    ADD_CASE(suite, standardized);
    ADD_CASE(suite, labels);
    ADD_CASE(suite, an_index_is_told);
    ADD_CASE(suite, cast);
    return run_suite(suite);
}
