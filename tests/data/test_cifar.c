/* CIFAR-10 and CIFAR-100, by name, as folders and as files; errors in them; values and shapes. */
#include "data/dataset.h"
#include "data/read.h"
#include "files.h"

#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, PIXELS = 3 * PLANE };

/* Channel c of the pixel in row y, column x of image i: a formula of this test. */
static int pixel(int64_t i, int c, int y, int x) { return (int)((i * 7 + c * 91 + y * 5 + x * 3 + y * x) % 256); }
static int label_of(int64_t i, int classes) { return (int)(i * 3 % classes); }

/* The bytes of images first .. first + count - 1, preceded by one label (of ten) or two (of 20 and 100). */
static unsigned char *records(int64_t first, int64_t count, int labels, size_t *size)
{
    *size = (size_t)(count * (labels + PIXELS));
    unsigned char *bytes = malloc(*size), *at = bytes;
    ck_assert_ptr_nonnull(bytes);
    for (int64_t i = first; i < first + count; i++) {
        if (labels == 2)
            *at++ = (unsigned char)label_of(i, 20);
        *at++ = (unsigned char)label_of(i, labels == 2 ? 100 : 10);
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < SIDE; y++)
                for (int x = 0; x < SIDE; x++)
                    *at++ = (unsigned char)pixel(i, c, y, x);
    }
    return bytes;
}

static void write_records(const char *name, int64_t first, int64_t count, int labels)
{
    size_t size;
    unsigned char *bytes = records(first, count, labels, &size);
    write_bytes(name, bytes, size);
    free(bytes);
}

/* Checks that the set has the images first, first + 1, ... */
static void check(bt_dataset *data, int64_t first, int64_t count, int labels)
{
    ck_assert_msg(data != NULL, "%s", bt_error());
    const bt_batch *batch = whole(data);
    const bt_array image = field_of(batch, "image")->array;
    ck_assert_int_eq(bt_batch_count(batch), count);
    ck_assert(image.rank == 4 && image.dims[1] == SIDE && image.dims[2] == SIDE && image.dims[3] == 3);
    const double *value = f64_of(batch, "image");
    for (int64_t i = 0; i < count; i++) {
        ck_assert_int_eq(i32_of(batch, "label")[i], label_of(first + i, labels == 2 ? 100 : 10));
        if (labels == 2)
            ck_assert_int_eq(i32_of(batch, "coarse")[i], label_of(first + i, 20));
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                for (int c = 0; c < 3; c++, value++)
                    ck_assert(*value == pixel(first + i, c, y, x) / 255.0);
    }
    ck_assert_int_eq(batch->field_count, labels + 2); /* and index */
}

START_TEST(single_files)
{
    write_records("a.bin", 0, 3, 1);
    write_records("b.bin.gz", 5, 4, 1);
    write_records("c.bin", 0, 3, 2);
    write_records("d.bin.gz", 2, 30, 2);
    write_records("e_train.bin", 0, 1, 1);
    write_records("e_test.bin.gz", 1, 2, 1);
    check(bt_dataset_open(path_of("a.bin"), "train"), 0, 3, 1);
    check(bt_dataset_open(path_of("a"), "train"), 0, 3, 1);
    check(bt_dataset_open(path_of("b.bin.gz"), "train"), 5, 4, 1);
    check(bt_dataset_open(path_of("c.bin"), "train"), 0, 3, 2);
    check(bt_dataset_open(path_of("d"), "train"), 2, 30, 2);
    check(bt_dataset_open(path_of("e_train.bin"), "train"), 0, 1, 1);
    check(bt_dataset_open(path_of("e_train.bin"), "test"), 1, 2, 1);
    ck_assert_ptr_null(bt_dataset_open(path_of("a.bin"), "test"));
    expect_failure(BT_ERROR_FILE, "a.bin", "no split \"test\"");
    ck_assert_ptr_null(bt_dataset_open(path_of("a.bin:x"), "train"));
    expect_failure(BT_ERROR_DATA, "a.bin", "images have no target column \"x\"");
}
END_TEST

static void write_ten(const char *folder, int except)
{
    char name[64];
    make_folder(folder);
    for (int k = 1; k <= 5; k++) {
        snprintf(name, sizeof name, "%s/data_batch_%d.bin%s", folder, k, k == 4 ? ".gz" : "");
        if (k != except)
            write_records(name, 2 * (k - 1), 2, 1);
    }
    snprintf(name, sizeof name, "%s/test_batch.bin", folder);
    write_records(name, 40, 3, 1);
}

START_TEST(folders)
{
    write_ten("ten", 0);
    check(bt_dataset_open(path_of("ten"), "train"), 0, 10, 1);
    check(bt_dataset_open(path_of("ten/"), "test"), 40, 3, 1);
    make_folder("hundred");
    write_records("hundred/train.bin.gz", 0, 4, 2);
    write_records("hundred/test.bin", 9, 2, 2);
    check(bt_dataset_open(path_of("hundred"), "train"), 0, 4, 2);
    check(bt_dataset_open(path_of("hundred"), "test"), 9, 2, 2);
    ck_assert_int_eq(unlink(path_of("hundred/test.bin")), 0);
    ck_assert_ptr_null(bt_dataset_open(path_of("hundred"), "test"));
    expect_failure(BT_ERROR_FILE, "hundred/test.bin is missing");
    write_ten("gap", 3);
    ck_assert_ptr_null(bt_dataset_open(path_of("gap"), "train"));
    expect_failure(BT_ERROR_FILE, "gap/data_batch_3.bin is missing", "data_batch_1.bin to data_batch_5.bin (or");
    check(bt_dataset_open(path_of("gap"), "test"), 40, 3, 1);
    ck_assert_ptr_null(bt_dataset_open(path_of("ten"), "valid"));
    expect_failure(BT_ERROR_ARGUMENT, "found split \"valid\"");
}
END_TEST

START_TEST(names)
{
    make_folder("own");
    make_folder("none");
    ck_assert_int_eq(chdir(path_of("none")), 0);
    setenv("BETTY_DATA", path_of("own"), 1);
    ck_assert_ptr_null(bt_dataset_open("cifar10", "train"));
    expect_failure(BT_ERROR_FILE, "\"cifar10\" not found", path_of("own"), "cifar-10-batches-bin",
                   "data_batch_1.bin to data_batch_5.bin", "test_batch.bin");
    ck_assert_ptr_null(bt_dataset_open("cifar100", "test"));
    expect_failure(BT_ERROR_FILE, "\"cifar100\" not found", "cifar-100-binary", "train.bin and test.bin");
    ck_assert_ptr_null(bt_dataset_open("cifar", "test"));
    expect_failure(BT_ERROR_FILE, "did you mean \"cifar10");
    write_ten("own/cifar-10-batches-bin", 0); /* in the same folder */
    check(bt_dataset_open("cifar10", "train"), 0, 10, 1);
    make_folder("own/cifar100"); /* in a subfolder */
    make_folder("own/cifar100/cifar-100-binary");
    write_records("own/cifar100/cifar-100-binary/train.bin", 0, 4, 2);
    check(bt_dataset_open("cifar100", "train"), 0, 4, 2);
    make_folder("own/cifar10"); /* under the name itself, which has priority */
    write_records("own/cifar10/test_batch.bin", 7, 1, 1);
    check(bt_dataset_open("cifar10", "test"), 7, 1, 1);
    write_records("own/cifar10/test_batch.bin", 0, 3, 2);
    ck_assert_ptr_null(bt_dataset_open("cifar10", "test"));
    expect_failure(BT_ERROR_DATA, "test_batch.bin", "9222 bytes", "whole records of 3073 bytes (CIFAR-10");
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

START_TEST(broken)
{
    size_t size;
    unsigned char *bytes = records(0, 3, 1, &size);
    write_bytes("short.bin", bytes, size - 1);
    write_bytes("long.bin.gz", bytes, size - 3000);
    write_bytes("empty.bin", bytes, 0);
    bytes[2 * 3073] = 10;
    write_bytes("label.bin", bytes, size);
    ck_assert_ptr_null(bt_dataset_open(path_of("short.bin"), "train"));
    expect_failure(BT_ERROR_DATA, "short.bin", "9218 bytes", "3073 bytes (CIFAR-10", "3074 (CIFAR-100)");
    ck_assert_ptr_null(bt_dataset_open(path_of("long.bin.gz"), "train"));
    expect_failure(BT_ERROR_DATA, "long.bin.gz", "6219 bytes");
    ck_assert_ptr_null(bt_dataset_open(path_of("empty.bin"), "train"));
    expect_failure(BT_ERROR_DATA, "empty.bin", " 0 bytes");
    ck_assert_ptr_null(bt_dataset_open(path_of("label.bin"), "train"));
    expect_failure(BT_ERROR_DATA, "label.bin, byte 6146: found label 10; expected 0 to 9");
    free(bytes);
    bytes = records(0, 2, 2, &size);
    bytes[3074] = 20;
    write_bytes("coarse.bin", bytes, size);
    ck_assert_ptr_null(bt_dataset_open(path_of("coarse.bin"), "train"));
    expect_failure(BT_ERROR_DATA, "coarse.bin, byte 3074: found label 20; expected 0 to 19");
    bytes[3074] = 0;
    bytes[1] = 255;
    write_bytes("fine.bin", bytes, size);
    ck_assert_ptr_null(bt_dataset_open(path_of("fine.bin"), "train"));
    expect_failure(BT_ERROR_DATA, "fine.bin, byte 1: found label 255; expected 0 to 99");
    free(bytes);
    /* A truncated compressed file. */
    write_records("cut.bin.gz", 0, 9, 1);
    ck_assert_int_eq(truncate(path_of("cut.bin.gz"), 500), 0);
    ck_assert_ptr_null(bt_dataset_open(path_of("cut.bin.gz"), "train"));
    expect_failure(BT_ERROR_DATA, "cut.bin.gz", "the gzip stream is cut short");
    /* Files of both kinds in one set. */
    write_records("ten.bin", 0, 2, 1);
    write_records("hundred.bin", 0, 2, 2);
    ck_assert_ptr_null(bt_read_cifar((const char *const[]){path_of("ten.bin"), path_of("hundred.bin")}, 2, 0));
    expect_failure(BT_ERROR_DATA, "hundred.bin", "6148 bytes", "3073");
    ck_assert_ptr_null(bt_read_cifar((const char *const[]){path_of("ten.bin"), path_of("gone.bin")}, 2, 0));
    expect_failure(BT_ERROR_FILE, "gone.bin", "No such file");
}
END_TEST

/* 3074 images of CIFAR-10 have as many bytes as 3073 of CIFAR-100: then the labels decide, as far as possible. */
START_TEST(a_size_that_fits_both)
{
    enum { SIZE = (PIXELS + 1) * (PIXELS + 2) };
    unsigned char *bytes = calloc(1, SIZE);
    ck_assert_ptr_nonnull(bytes);
    write_bytes("ten.bin", bytes, SIZE);
    bytes[SIZE - (PIXELS + 1)] = 10; /* a label of the last image, or a pixel */
    write_bytes("hundred.bin", bytes, SIZE);
    free(bytes);
    bt_dataset *ten = bt_dataset_open(path_of("ten.bin"), "train");
    bt_dataset *hundred = bt_dataset_open(path_of("hundred.bin"), "train");
    ck_assert_msg(ten && hundred, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_count(ten), PIXELS + 2);
    ck_assert_int_eq(bt_dataset_count(hundred), PIXELS + 1);
    bt_dataset_free(ten);
    bt_dataset_free(hundred);
}
END_TEST

static const void *memory_of(const bt_dataset *data, const char *field)
{
    return bt_dataset_column(data, field)->store->array.data;
}

START_TEST(read_once)
{
    make_folder("hundred");
    write_records("hundred/train.bin", 0, 4, 2);
    write_ten("ten", 0);
    bt_dataset *a = bt_dataset_open(path_of("hundred"), "train"), *b = bt_dataset_open(path_of("hundred"), "train");
    static const char *const names[] = {"image", "label", "coarse"};
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_eq(memory_of(a, names[i]), memory_of(b, names[i]));
    bt_dataset *c = bt_dataset_open(path_of("ten"), "train"), *d = bt_dataset_open(path_of("ten"), "train");
    ck_assert_ptr_eq(memory_of(c, "image"), memory_of(d, "image"));
    bt_dataset_free(d);
    write_records("ten/data_batch_5.bin", 0, 7, 1); /* one of the files has changed */
    d = bt_dataset_open(path_of("ten"), "train");
    ck_assert_int_eq(bt_dataset_count(d), 15);
    bt_dataset_free(a);
    bt_dataset_free(b);
    bt_dataset_free(c);
    bt_dataset_free(d);
}
END_TEST

/* Operations on sets with classes apply to these; the class is the fine label, and coarse is kept. */
START_TEST(parts_of_it)
{
    write_records("ten.bin", 0, 200, 1);
    write_records("hundred.bin", 0, 300, 2);
    bt_dataset *data = bt_dataset_long_tail(bt_dataset_open(path_of("ten.bin"), "train"), 10, 1);
    ck_assert_int_eq(bt_dataset_field_dim(data, "image", 1), SIDE);
    ck_assert_int_eq(bt_dataset_field_dim(data, "image", 2), SIDE);
    ck_assert_int_eq(bt_dataset_field_dim(data, "image", 3), 3);
    ck_assert_int_eq(bt_dataset_field_dim(data, "label", 0), bt_dataset_count(data));
    const bt_batch *batch = whole(bt_dataset_label_noise(data, 0.5, 1));
    int counts[10] = {0}, wrong = 0;
    for (int64_t i = 0; i < bt_batch_count(batch); i++) {
        int first = (int)(f64_of(batch, "image")[i * PIXELS] * 255 + 0.5), which = -1;
        for (int k = 0; k < 200; k++) /* the first pixel identifies the image: 7 and 256 have no common factor */
            which = pixel(k, 0, 0, 0) == first ? k : which;
        counts[label_of(which, 10)]++;
        wrong += i32_of(batch, "label")[i] != label_of(which, 10);
    }
    ck_assert_int_eq(counts[0], 20);
    ck_assert_int_eq(counts[9], 2);
    ck_assert_int_eq(wrong, (int)((bt_batch_count(batch) + 1) / 2));
    data = bt_dataset_per_class(bt_dataset_open(path_of("hundred.bin"), "train"), 0, 2, 3);
    ck_assert_int_eq(bt_dataset_count(data), 200);
    ck_assert_int_eq(bt_dataset_field_dim(data, "coarse", 0), 200);
    batch = whole(data);
    for (int64_t i = 0; i < 200; i++) /* both are 3i, modulo 20 and 100 */
        ck_assert_int_eq(i32_of(batch, "label")[i] % 20, i32_of(batch, "coarse")[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.cifar");
    ADD_CASE(suite, single_files);
    ADD_CASE(suite, folders);
    ADD_CASE(suite, names);
    ADD_CASE(suite, broken);
    ADD_CASE(suite, a_size_that_fits_both);
    ADD_CASE(suite, read_once);
    ADD_CASE(suite, parts_of_it);
    return run_suite(suite);
}
