/* IDX files: what is accepted, and what is refused. */
#include "files.h"

#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGES "train-images-idx3-ubyte"
#define LABELS "train-labels-idx1-ubyte"

static bt_dataset *open_here(void) { return bt_dataset_open(path_of(""), "train"); }

/* 5 images of 2 x 3, pixels 0, 1, 2, ...; labels 3, 4, 5, 6, 7. */
static void write_good(const char *images, const char *labels)
{
    write_idx(images, 3, (uint32_t[]){5, 2, 3}, 0, 256);
    write_idx(labels, 1, (uint32_t[]){5}, 3, 256);
}

static void check_good(bt_dataset *data)
{
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_count(data), 5);
    ck_assert_int_eq(bt_dataset_field_dim(data, "image", 0), 5);
    ck_assert_int_eq(bt_dataset_field_dim(data, "image", 1), 2);
    ck_assert_int_eq(bt_dataset_field_dim(data, "image", 2), 3);
    ck_assert_int_eq(bt_dataset_field_dim(data, "image", 3), 1);
    ck_assert_int_eq(bt_dataset_field_dim(data, "image", 4), -1);
    ck_assert_int_eq(bt_dataset_field_dim(data, "label", 0), 5);
    ck_assert_int_eq(bt_dataset_field_dim(data, "label", 1), -1);
    ck_assert_uint_eq(bt_dataset_bytes(data), 5 * 6 + 5 * 4); /* pixels stay bytes */
    const bt_batch *batch = whole(data);
    const double *image = f64_of(batch, "image");
    for (int i = 0; i < 30; i++)
        ck_assert_double_eq(image[i], i / 255.0);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(i32_of(batch, "label")[i], 3 + i);
    expect_no_failure();
}

START_TEST(plain_and_packed)
{
    write_good(IMAGES, LABELS);
    check_good(open_here());
    check_good(bt_dataset_open(path_of(IMAGES), "train"));
    make_folder("packed");
    write_good("packed/" IMAGES ".gz", "packed/" LABELS ".gz");
    check_good(bt_dataset_open(path_of("packed"), "train"));
    check_good(bt_dataset_open(path_of("packed/"), "train"));
    check_good(bt_dataset_open(path_of("packed/" IMAGES), "train"));
    check_good(bt_dataset_open(path_of("packed/train"), "train"));
    make_folder("mixed"); /* one compressed, one not */
    write_good("mixed/" IMAGES ".gz", "mixed/" LABELS);
    check_good(bt_dataset_open(path_of("mixed"), "train"));
    make_folder("dots");
    write_good("dots/train-images.idx3-ubyte", "dots/train-labels.idx1-ubyte");
    check_good(bt_dataset_open(path_of("dots"), "train"));
}
END_TEST

START_TEST(splits_and_prefixes)
{
    write_good("letters-train-images-idx3-ubyte.gz", "letters-train-labels-idx1-ubyte.gz");
    write_idx("letters-test-images-idx3-ubyte.gz", 3, (uint32_t[]){2, 2, 3}, 0, 256);
    write_idx("letters-test-labels-idx1-ubyte.gz", 1, (uint32_t[]){2}, 0, 256);
    check_good(bt_dataset_open(path_of("letters"), "train"));
    bt_dataset *test = bt_dataset_open(path_of("letters"), "test");
    ck_assert_int_eq(bt_dataset_count(test), 2);
    bt_dataset_free(test);
    write_idx("t10k-images-idx3-ubyte", 3, (uint32_t[]){3, 2, 3}, 0, 256);
    write_idx("t10k-labels-idx1-ubyte", 1, (uint32_t[]){3}, 0, 256);
    test = bt_dataset_open(path_of(""), "test");
    ck_assert_int_eq(bt_dataset_count(test), 3);
    bt_dataset_free(test);
    ck_assert_ptr_null(open_here());
    expect_failure(BT_ERROR_FILE, "no split \"train\"", IMAGES);
    write_good(IMAGES, LABELS);
    test = bt_dataset_open(path_of(IMAGES), "test"); /* the other file is next to this one */
    ck_assert_int_eq(bt_dataset_count(test), 3);
    bt_dataset_free(test);
}
END_TEST

START_TEST(channels)
{
    write_idx("train-images-idx4-ubyte", 4, (uint32_t[]){4, 2, 2, 3}, 0, 256);
    write_idx(LABELS, 1, (uint32_t[]){4}, 0, 256);
    bt_dataset *data = open_here();
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_field_dim(data, "image", 3), 3);
    const double *image = f64_of(whole(data), "image");
    ck_assert_double_eq(image[47], 47 / 255.0);
}
END_TEST

START_TEST(missing_labels)
{
    write_idx(IMAGES, 3, (uint32_t[]){5, 2, 3}, 0, 256);
    ck_assert_ptr_null(open_here());
    expect_failure(BT_ERROR_FILE, IMAGES, "labels file is not beside it");
    ck_assert_ptr_null(bt_dataset_open(path_of(IMAGES), "train"));
    expect_failure(BT_ERROR_FILE, "labels file is not beside it");
}
END_TEST

static void expect_refused(const char *file, const char *piece)
{
    ck_assert_ptr_null(open_here());
    expect_failure(BT_ERROR_DATA, file, piece);
}

START_TEST(counts_differ)
{
    write_idx(IMAGES, 3, (uint32_t[]){5, 2, 3}, 0, 256);
    write_idx(LABELS, 1, (uint32_t[]){4}, 0, 256);
    expect_refused(LABELS, "4 labels for 5 images");
}
END_TEST

START_TEST(wrong_headers)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *piece;
    } cases[] = {
        {"", 0, "ends at byte 0; expected an IDX header"},
        {"\0\0\x08", 3, "ends at byte 3"},
        {"\0\0\x08\x03\0\0", 6, "ends at byte 6, within its header; expected 3 sizes"},
        {"\0\0\x08\x03\0\0\0\1\0\0\0\1", 12, "ends at byte 12, within its header"},
        {"\0\0\x08\x01\0\0\0\1\7", 9, "found the bytes 00 00 08 01; expected an IDX file of images: 00 00 08 03"},
        {"\0\0\x0d\x03\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\0", 20, "found the bytes 00 00 0d 03"},
        {"\1\0\x08\x03\0\0\0\1\0\0\0\1\0\0\0\1\0", 17, "found the bytes 01 00 08 03"},
        {"\0\0\x08\x05", 4, "found the bytes 00 00 08 05"},
        {"\0\0\x08\x03\0\0\0\0\0\0\0\1\0\0\0\1", 16, "byte 4: found the size 0; expected at least 1"},
        {"\0\0\x08\x03\0\0\0\1\0\0\0\0\0\0\0\1", 16, "byte 8: found the size 0"},
        {"\0\0\x08\x03\xff\xff\xff\xff\0\0\0\1\0\0\0\1", 16, "byte 4: found the size 4294967295"},
        {"\0\0\x08\x03\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16, "more than any machine holds"},
        {"\0\0\x08\x04\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 20, "more than any machine"},
        {"\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\2xyz", 19, "has 19 bytes; its header, [2, 1, 2], promises 20"},
        {"\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\2wxyzz", 21, "has 21 bytes; its header, [2, 1, 2], promises 20"},
        {"\0\0\x08\x03\x7f\xff\xff\xff\0\0\4\0\0\0\4\0xyz", 19, "promises 2251799812636688"},
    };
    write_idx(LABELS, 1, (uint32_t[]){2}, 0, 256);
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        write_bytes(IMAGES, cases[i].bytes, cases[i].size);
        expect_refused(IMAGES, cases[i].piece);
    }
    write_good(IMAGES, LABELS);
    write_bytes(LABELS, "\0\0\x08\x03\0\0\0\1\0\0\0\1\0\0\0\1\0", 17);
    expect_refused(LABELS, "expected an IDX file of labels: 00 00 08 01");
    write_bytes(LABELS, "\0\0\x08\x01\0\0\0\5\1\2\3\4", 12);
    expect_refused(LABELS, "has 12 bytes");
}
END_TEST

START_TEST(wrong_packed_contents)
{
    make_folder("p");
    write_idx("p/" LABELS, 1, (uint32_t[]){2}, 0, 256);
    /* The contents of a compressed file are only known once it is read. */
    write_bytes("p/" IMAGES ".gz", "\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\2xyz", 19);
    ck_assert_ptr_null(bt_dataset_open(path_of("p"), "train"));
    expect_failure(BT_ERROR_DATA, IMAGES ".gz", "ends after 3 bytes of content; its header promises 4");
    write_bytes("p/" IMAGES ".gz", "\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\2wxyzz", 21);
    ck_assert_ptr_null(bt_dataset_open(path_of("p"), "train"));
    expect_failure(BT_ERROR_DATA, IMAGES ".gz", "more than the 4 bytes");
    /* A header that announces terabytes costs nothing. */
    write_bytes("p/" IMAGES ".gz", "\0\0\x08\x03\x7f\xff\xff\xff\0\0\4\0\0\0\4\0xyz", 19);
    ck_assert_ptr_null(bt_dataset_open(path_of("p"), "train"));
    expect_failure(BT_ERROR_DATA, "promises 2251799812636688 bytes; a gzip file of its size holds at most");
}
END_TEST

static size_t read_file(const char *name, unsigned char *bytes, size_t room)
{
    FILE *file = fopen(path_of(name), "rb");
    ck_assert_ptr_nonnull(file);
    size_t size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

static void write_raw(const char *name, const unsigned char *bytes, size_t size)
{
    FILE *file = fopen(path_of(name), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

START_TEST(damaged_gzip)
{
    unsigned char bytes[512], damaged[512];
    write_good(IMAGES ".gz", LABELS);
    size_t size = read_file(IMAGES ".gz", bytes, sizeof bytes);
    for (size_t length = 0; length < size; length++) { /* truncated at any length */
        write_raw(IMAGES ".gz", bytes, length);
        ck_assert_msg(open_here() == NULL, "%zu of %zu bytes were enough", length, size);
        expect_failure(BT_ERROR_DATA, IMAGES ".gz");
    }
    int refused = 0;
    for (size_t at = 10; at < size;
         at++) { /* after the header's time stamp all bits are checked, except for the padding of the last byte */
        memcpy(damaged, bytes, size);
        damaged[at] ^= 0x10;
        write_raw(IMAGES ".gz", damaged, size);
        bt_dataset *data = open_here();
        refused += data == NULL;
        bt_dataset_free(data);
        bt_error_clear();
    }
    ck_assert_int_ge(refused, (int)size - 11);
    memcpy(damaged, bytes, size);
    damaged[size - 6] ^= 1; /* of the checksum */
    write_raw(IMAGES ".gz", damaged, size);
    ck_assert_ptr_null(open_here());
    expect_failure(BT_ERROR_DATA, IMAGES ".gz", "damaged");
    write_raw(IMAGES ".gz", bytes, size - 4);
    ck_assert_ptr_null(open_here());
    expect_failure(BT_ERROR_DATA, IMAGES ".gz", "is cut short");
}
END_TEST

/* More than 256 classes need labels of two or four bytes, big-endian, in files with matching names. */
START_TEST(wide_labels)
{
    static const struct {
        const char *name, *bytes;
        size_t size;
        int labels[2];
    } good[] = {
        {"train-labels-idx1-short", "\0\0\x0b\1\0\0\0\2\1\2\x7f\xff", 12, {258, 32767}},
        {"train-labels-idx1-short.gz", "\0\0\x0b\1\0\0\0\2\0\0\3\xe8", 12, {0, 1000}},
        {"train-labels-idx1-int", "\0\0\x0c\1\0\0\0\2\0\1\2\3\x7f\xff\xff\xff", 16, {66051, INT32_MAX}},
        {LABELS, "\0\0\x0b\1\0\0\0\2\1\0\1\1", 12, {256, 257}},
    };
    write_idx(IMAGES, 3, (uint32_t[]){2, 2, 3}, 0, 256);
    for (int i = 0; i < BT_COUNT_OF(good); i++) {
        write_bytes(good[i].name, good[i].bytes, good[i].size);
        const bt_batch *batch = whole(open_here());
        ck_assert_int_eq(i32_of(batch, "label")[0], good[i].labels[0]);
        ck_assert_int_eq(i32_of(batch, "label")[1], good[i].labels[1]);
        remove(path_of(good[i].name));
    }
    write_bytes(LABELS, "\0\0\x0b\1\0\0\0\2\0\1\xff\xfd", 12);
    expect_refused(LABELS, "byte 10: found label -3; expected 0 to");
    write_bytes(LABELS, "\0\0\x0c\1\0\0\0\2\0\0\0\0\x80\0\0\0", 16);
    expect_refused(LABELS, "byte 12: found label -2147483648");
    write_bytes(LABELS, "\0\0\x0b\1\0\0\0\2\0\1", 10);
    expect_refused(LABELS, "has 10 bytes; its header, [2], promises 12");
    write_bytes(LABELS, "\0\0\x0d\1\0\0\0\2\0\0\0\0\0\0\0\0", 16);
    expect_refused(LABELS,
                   "found the bytes 00 00 0d 01; expected an IDX file of labels: 00 00 08 01, or 0b or 0c for 08");
    write_bytes(LABELS, "\0\0\x08\1\0\0\0\2\0\1", 10);
    write_bytes(IMAGES, "\0\0\x0b\3\0\0\0\2\0\0\0\1\0\0\0\1\0\0\0\0", 20); /* pixels are bytes */
    expect_refused(IMAGES, "found the bytes 00 00 0b 03");
}
END_TEST

START_TEST(labels_of_known_sets)
{
    ck_assert_int_eq(setenv("BETTY_DATA", path_of(""), 1), 0);
    make_folder("mnist");
    write_idx("mnist/" IMAGES, 3, (uint32_t[]){5, 2, 3}, 0, 256);
    write_idx("mnist/" LABELS, 1, (uint32_t[]){5}, 6, 256); /* 6, 7, 8, 9, 10 */
    ck_assert_ptr_null(bt_dataset_open("mnist", "train"));
    expect_failure(BT_ERROR_DATA, LABELS ", byte 12: found label 10; expected 0 to 9");
    write_idx("mnist/" LABELS, 1, (uint32_t[]){5}, 5, 256);
    bt_dataset *data = bt_dataset_open("mnist", "train");
    ck_assert_msg(data != NULL, "%s", bt_error());
    bt_dataset_free(data);
}
END_TEST

START_TEST(lone_files)
{
    write_good("pictures", "answers");
    ck_assert_ptr_null(bt_dataset_open(path_of("pictures"), "train"));
    expect_failure(BT_ERROR_DATA, "pictures", "does not say what it holds");
    ck_assert_ptr_null(bt_dataset_open("/dev/zero", "train"));
    bt_error_clear();
}
END_TEST


int main(void)
{
    Suite *suite = suite_create("data.idx");
    ADD_CASE(suite, plain_and_packed);
    ADD_CASE(suite, splits_and_prefixes);
    ADD_CASE(suite, channels);
    ADD_CASE(suite, missing_labels);
    ADD_CASE(suite, counts_differ);
    ADD_CASE(suite, wrong_headers);
    ADD_CASE(suite, wrong_packed_contents);
    ADD_CASE(suite, damaged_gzip);
    ADD_CASE(suite, wide_labels);
    ADD_CASE(suite, labels_of_known_sets);
    ADD_CASE(suite, lone_files);
    return run_suite(suite);
}
