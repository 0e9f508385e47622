/* CSV files: what is accepted, and what is refused. */
#include "files.h"

#include "support/suite.h"
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bt_dataset *open_text(const char *text)
{
    write_text("t.csv", text);
    return bt_dataset_open(path_of("t.csv"), "train");
}

/* Checks the numbers x and y of a table, row by row, the target last. */
static void check_rows(bt_dataset *data, int64_t rows, int64_t columns, const double *expected)
{
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_count(data), rows);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 1), columns - 1);
    const bt_batch *batch = whole(data);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < columns - 1; k++)
            ck_assert_double_eq(f64_of(batch, "x")[i * (columns - 1) + k], expected[i * columns + k]);
        ck_assert_double_eq(f64_of(batch, "y")[i], expected[i * columns + columns - 1]);
    }
    expect_no_failure();
}

static const double two_by_three[] = {1, 2.5, -3, 4e2, 0.1, 6};

START_TEST(shapes_of_files)
{
    static const char *const texts[] = {
        "1,2.5,-3\n4e2,.1,6\n",
        "1,2.5,-3\n4e2,.1,6", /* no line end */
        "a,b,target\n1,2.5,-3\n4e2,0.1,6\n",
        "a,b,target\r\n1,2.5,-3\r\n4e2,0.1,6\r\n",
        "1,2.5,-3\r4e2,0.1,6\r",
        "\xEF\xBB\xBF"
        "a,b,target\n1,2.5,-3\n4e2,0.1,6\n",
        "\xEF\xBB\xBF"
        "1,2.5,-3\n4e2,0.1,6\n",
        "1,2.5,-3\n\n\r\n4E+2,0.1000,+6.\n\n",
        " 1 ,\t2.5 , -3\n 4e2,0.1,6 \n",
        "  \na,b,target\n\t\n1,2.5,-3\n   \n4e2,0.1,6\n ", /* blank lines */
        "\"1\",\"2.5\",\"-3\"\n\"4e2\",0.1,\"6\"\n",
        "\"first, with \"\"comma\"\"\",\"two\nlines\",target\n1,2.5,-3\n4e2,0.1,6\n",
        "1;2.5;-3\n4e2;0.1;6\n",
        "1\t2.5\t-3\n4e2\t0.1\t6\n",
        "a,7,\"x;y\"\n1,2.5,-3\n4e2,0.1,6\n", /* two of three are text */
    };
    for (int i = 0; i < BT_COUNT_OF(texts); i++)
        check_rows(open_text(texts[i]), 2, 3, two_by_three);
    write_text("packed.csv.gz", texts[2]);
    check_rows(bt_dataset_open(path_of("packed.csv.gz"), "train"), 2, 3, two_by_three);
    check_rows(bt_dataset_open(path_of("packed.csv"), "train"), 2, 3, two_by_three);
    check_rows(bt_dataset_open(path_of("packed"), "train"), 2, 3, two_by_three);
    write_text("noname", texts[0]);
    check_rows(bt_dataset_open(path_of("noname"), "train"), 2, 3, two_by_three);
}
END_TEST

START_TEST(targets)
{
    const double first[] = {2.5, -3, 1, 0.1, 6, 4e2}, second[] = {1, -3, 2.5, 4e2, 6, 0.1};
    write_text("t.csv", "price, size,age\n1,2.5,-3\n4e2,0.1,6\n");
    check_rows(bt_dataset_open(path_of("t.csv:price"), "train"), 2, 3, first);
    check_rows(bt_dataset_open(path_of("t.csv:size"), "train"), 2, 3, second);
    check_rows(bt_dataset_open(path_of("t.csv:age"), "train"), 2, 3, two_by_three);
    check_rows(bt_dataset_open(path_of("t.csv:1"), "train"), 2, 3, first);
    check_rows(bt_dataset_open(path_of("t.csv:3"), "train"), 2, 3, two_by_three);
    ck_assert_ptr_null(bt_dataset_open(path_of("t.csv:cost"), "train"));
    expect_failure(BT_ERROR_DATA, "t.csv", "no target column \"cost\"", "1 to 3 or a name",
                   "\"price\", \" size\", \"age\"");
    ck_assert_ptr_null(bt_dataset_open(path_of("t.csv:4"), "train"));
    expect_failure(BT_ERROR_DATA, "\"4\"");
    ck_assert_ptr_null(bt_dataset_open(path_of("t.csv:0"), "train"));
    expect_failure(BT_ERROR_DATA, "\"0\"");
    ck_assert_ptr_null(bt_dataset_open(path_of("t.csv:99999999999999999999"), "train"));
    expect_failure(BT_ERROR_DATA, "99999");
    write_text("plain.csv", "1,2.5,-3\n4e2,0.1,6\n");
    check_rows(bt_dataset_open(path_of("plain.csv:2"), "train"), 2, 3, second);
    ck_assert_ptr_null(bt_dataset_open(path_of("plain.csv:price"), "train"));
    expect_failure(BT_ERROR_DATA, "no header line");
    write_text("a:b.csv", "1,2.5,-3\n4e2,0.1,6\n"); /* a file with exactly that name has priority */
    check_rows(bt_dataset_open(path_of("a:b.csv"), "train"), 2, 3, two_by_three);
}
END_TEST

START_TEST(faults)
{
    static const struct {
        const char *text, *pieces[4];
    } cases[] = {
        {"", {"t.csv", "empty"}},
        {"\n\n", {"t.csv", "empty"}},
        {"a,b\n", {"t.csv", "no rows of numbers after the header"}},
        {"1\n2\n", {"line 1", "one column; expected at least two"}},
        {"1,2\n3\n", {"line 2", "1 field; expected 2"}},
        {"1,2\n3,4,5\n", {"line 2", "3 fields; expected 2, as in the lines before"}},
        {"a,b\n\n1,2\n\n3,4,\n", {"line 5", "3 fields; expected 2, as in the header line"}},
        {"1,2,3\n4,,6\n", {"line 2, column 2", "found a missing value; expected a number"}},
        {"a,b,c\n1,2,3\n4,5,\n", {"line 3, column 3 (c)", "missing value", "remove the row"}},
        {"a,b,c\n1,2,3\n4,NA,6\n", {"line 3, column 2 (b)", "a missing value, \"NA\""}},
        {"a,b,c\n1,2,3\n4,nan,6\n", {"line 3, column 2 (b)", "a missing value, \"nan\""}},
        {"a,b,c\n1,2,3\n4,NaN,6\n", {"line 3, column 2 (b)", "a missing value, \"NaN\""}},
        {"a,b,c\n1,2,3\n4,?,6\n", {"line 3, column 2 (b)", "a missing value, \"?\""}},
        {"a,b,c\n1,2,NEAR BAY\n", {"line 2, column 3 (c)", "text, \"NEAR BAY\"", "remove the column"}},
        {"a,b,c\n1,inf,3\n", {"line 2, column 2 (b)", "text, \"inf\""}},
        {"a,b,c\n1,0x10,3\n", {"line 2, column 2 (b)", "text, \"0x10\""}},
        {"a,b,c\n1,1e999,3\n", {"line 2, column 2 (b)", "too large a number, \"1e999\""}},
        {"a,b,c\n1,-1e999,3\n", {"line 2, column 2 (b)", "too large a number"}},
        {"a,b,c\n1,1e,3\n", {"column 2", "text, \"1e\""}},
        {"a,b,c\n1,.,3\n", {"column 2", "a missing value"}},
        {"a,b,c\n1,1.2.3,3\n", {"column 2", "text, \"1.2.3\""}},
        {"a,b,c\n1,1 2,3\n", {"column 2", "text, \"1 2\""}},
        {"a,b,c\n1,--2,3\n", {"column 2", "text, \"--2\""}},
        {"1,2,x3\n4,5,6\n", {"line 1, column 3", "\"x3\"", "first line is not taken as a header"}},
        {"1,NA,NA\n4,5,6\n", {"line 1, column 2", "missing value"}},
        {"a,b\n1,2\n\"3,4\n5,6\n", {"line 3", "the quote that opens here is not closed"}},
        {"a,b\n1,2\n\"3\"x,4\n", {"line 3, column 1", "found x after a closing quote"}},
        {"\"a\nb\",c\n1,x\n", {"line 3, column 2 (c)", "text"}},
        {"a,b,a\n1,2,3\n", {"line 1", "columns 1 and 3 are both called \"a\""}},
        {"y,b, b ,c\n1,2,3,4\n", {"line 1", "columns 2 and 3 are both called \"b\""}},
        {"a,b\n1,\x01\x7f\xff\n", {"column 2", "text, \"???\""}},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        ck_assert_msg(open_text(cases[i].text) == NULL, "accepted: %s", cases[i].text);
        expect_failure_(BT_ERROR_DATA, cases[i].pieces);
    }
    static const struct {
        const char *bytes;
        size_t size;
    } wide[] = {{"\xff\xfe"
                 "a\0,\0b\0\n\0"
                 "1\0,\0"
                 "2\0",
                 16},
                {"\xfe\xff\0a\0,\0b\0\n", 10},
                {"a\0,\0b\0\n\0", 8},
                {"\0a\0,\0b", 6}};
    for (int i = 0; i < BT_COUNT_OF(wide); i++) {
        write_bytes("t.csv", wide[i].bytes, wide[i].size);
        ck_assert_ptr_null(bt_dataset_open(path_of("t.csv"), "train"));
        expect_failure(BT_ERROR_DATA, "t.csv: the text is UTF-16", "UTF-8");
    }
    write_bytes("t.csv", "a,b\n1,2\0003\n", 10);
    ck_assert_ptr_null(bt_dataset_open(path_of("t.csv"), "train"));
    expect_failure(BT_ERROR_DATA, "column 2", "text, \"2?3\"");
}
END_TEST

START_TEST(long_messages_are_cut)
{
    char text[600] = "a,b\n1,";
    memset(text + 6, 'z', 500);
    ck_assert_ptr_null(open_text(text));
    ck_assert_uint_lt(strlen(bt_error()), 500);
    expect_failure(BT_ERROR_DATA, "zzz...");
}
END_TEST

/* Stored as f32 only if that is exact: no decimal number loses a bit. */
START_TEST(precision)
{
    bt_dataset *data = open_text("1,0.5\n16777216,-3\n");
    ck_assert_uint_eq(bt_dataset_bytes(data), 2 * 4 + 2 * 4);
    check_rows(data, 2, 2, (const double[]){1, 0.5, 16777216, -3});
    data = open_text("1,0.5\n16777217,-3\n");
    ck_assert_uint_eq(bt_dataset_bytes(data), 2 * 8 + 2 * 4);
    check_rows(data, 2, 2, (const double[]){1, 0.5, 16777217, -3});
    check_rows(open_text("1e300,1e-300\n3.141592653589793,1e-310\n"), 2, 2,
               (const double[]){1e300, 1e-300, 3.141592653589793, 1e-310});
    check_rows(open_text("1e39,2\n3,4\n"), 2, 2, (const double[]){1e39, 2, 3, 4});
}
END_TEST

START_TEST(locale_does_not_matter)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "de_AT.UTF-8"};
    for (int i = 0; i < BT_COUNT_OF(names); i++)
        if (setlocale(LC_ALL, names[i]))
            break;
    check_rows(open_text("1,2.5,-3\n4e2,.1,6\n"), 2, 3, two_by_three);
    setlocale(LC_ALL, "C");
}
END_TEST

START_TEST(many_rows)
{
    enum { N = 5000 };
    char *text = malloc(N * 40), *at = text;
    double *expected = malloc(N * 3 * sizeof *expected);
    ck_assert(text && expected);
    at += sprintf(at, "u,v,w\n");
    for (int i = 0; i < N; i++) {
        expected[3 * i] = i;
        expected[3 * i + 1] = i * 0.25;
        expected[3 * i + 2] = -i;
        at += sprintf(at, "%d,%.2f,%d\n", i, i * 0.25, -i);
    }
    check_rows(open_text(text), N, 3, expected);
    write_text("big.csv.gz", text);
    check_rows(bt_dataset_open(path_of("big.csv.gz"), "train"), N, 3, expected);
    free(text);
    free(expected);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.csv");
    ADD_CASE(suite, shapes_of_files);
    ADD_CASE(suite, targets);
    ADD_CASE(suite, faults);
    ADD_CASE(suite, long_messages_are_cut);
    ADD_CASE(suite, precision);
    ADD_CASE(suite, locale_does_not_matter);
    ADD_CASE(suite, many_rows);
    return run_suite(suite);
}
