/* Data files read by bytes, by lines and in chunks, plain and compressed; and files that cannot be read at all. */
#include "files.h"

#include "data/read.h"
#include "support/suite.h"
#include <string.h>
#include <sys/stat.h>

enum { SIZE = 300000 }; /* more than the reader holds at once */

static void write_numbers(bool packed)
{
    static char bytes[SIZE];
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (char)(i % 251 == 10 ? 11 : i % 251); /* without line ends */
    write_bytes(packed ? "numbers.gz" : "numbers", bytes, SIZE);
}

/* Bytes and chunks, in turn, match the file. */
START_TEST(bytes_and_pieces)
{
    static unsigned char piece[SIZE];
    write_numbers(_i);
    bt_source *source = bt_source_open(path_of(_i ? "numbers.gz" : "numbers"));
    ck_assert_ptr_nonnull(source);
    int64_t at = 0, got = 1;
    for (int64_t size = 1; got > 0; size = size * 3 % 70001) {
        int byte = bt_source_byte(source);
        ck_assert_int_eq(byte, at == SIZE ? -1 : at % 251 == 10 ? 11 : at % 251);
        at += byte >= 0;
        ck_assert_int_eq(bt_source_read(source, piece, size, &got), BT_OK);
        for (int64_t i = 0; i < got; i++)
            ck_assert_int_eq(piece[i], (at + i) % 251 == 10 ? 11 : (at + i) % 251);
        at += got;
    }
    ck_assert_int_eq(at, SIZE);
    ck_assert_int_eq(bt_source_size(source), _i ? -1 : SIZE);
    bt_source_close(source);
}
END_TEST

START_TEST(lines)
{
    static const char *const expected[] = {"one", "", "three", "four"};
    const char *line;
    int64_t length;
    write_text("lines", "one\n\r\nthree\r\nfour");
    bt_source *source = bt_source_open(path_of("lines"));
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(bt_source_line(source, &line, &length), BT_OK);
        ck_assert_str_eq(line, expected[i]);
        ck_assert_int_eq(length, (int64_t)strlen(expected[i]));
    }
    ck_assert_int_eq(bt_source_line(source, &line, &length), BT_OK);
    ck_assert_ptr_null(line);
    bt_source_close(source);
}
END_TEST

static void expect_closed(const char *name, const char *why)
{
    ck_assert_ptr_null(bt_source_open(path_of(name)));
    expect_failure(BT_ERROR_FILE, name, why);
}

START_TEST(what_cannot_be_read)
{
    ck_assert_int_eq(mkfifo(path_of("pipe"), 0600), 0);
    expect_closed("pipe", "cannot be read: it is not a regular file"); /* opening it would block for ever */
    expect_closed("missing", "cannot be read: No such file or directory");
    expect_closed("", "cannot be read: it is a folder");
    ck_assert_ptr_null(bt_read_csv(path_of("missing"), NULL));
    expect_failure(BT_ERROR_FILE, "missing", "cannot be read");
    ck_assert_ptr_null(bt_read_libsvm(path_of("missing"), (bt_libsvm_form){0}, 0));
    expect_failure(BT_ERROR_FILE, "missing", "cannot be read");
    ck_assert_ptr_null(bt_read_idx(path_of("missing"), path_of("missing"), 10));
    expect_failure(BT_ERROR_FILE, "missing", "cannot be read");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.source");
    ADD_CASE(suite, lines);
    ADD_CASE(suite, what_cannot_be_read);
    TCase *pieces = tcase_create("pieces");
    tcase_add_checked_fixture(pieces, files_setup, files_teardown);
    tcase_add_loop_test(pieces, bytes_and_pieces, 0, 2);
    suite_add_tcase(suite, pieces);
    return run_suite(suite);
}
