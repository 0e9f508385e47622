/* JPEG files, decoded as Pillow does; images resized and cropped as torchvision does, byte for byte; fixed rules for
 * inks, 16 bits, and class names. */
#include "data/dataset.h"
#include "data/read.h"
#include "files.h"
#include "golden_jpeg.h"

#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void make_set(void)
{
    make_folder("set");
    make_folder("set/train");
    make_folder("set/train/cat");
    make_folder("set/train/dog");
}

static bt_dataset *open_set(const bt_image_options *options)
{
    char path[512];
    snprintf(path, sizeof path, "%s", path_of("set"));
    return bt_dataset_images(path, "train", options);
}

/* Within one level: versions of libjpeg may differ by that. */
static void check_pixels(const bt_batch *batch, int64_t i, const unsigned char *due, size_t count, double off)
{
    const double *image = f64_of(batch, "image") + i * (int64_t)count;
    for (size_t k = 0; k < count; k++)
        ck_assert_msg(fabs(image[k] * 255 - due[k]) <= off + 1e-9, "image %lld, %zu: %g, not %d", (long long)i, k,
                      image[k] * 255, due[k]);
}

static const struct {
    const char *name;
    const unsigned char *file, *pixels;
    size_t size, count;
    int height, width, channels;
} files[] = {
    {"colour", jpeg_colour, pixels_colour, sizeof jpeg_colour, sizeof pixels_colour, 17, 23, 3},
    {"grey", jpeg_grey, pixels_grey, sizeof jpeg_grey, sizeof pixels_grey, 9, 8, 1},
    {"progressive", jpeg_progressive, pixels_progressive, sizeof jpeg_progressive, sizeof pixels_progressive, 16, 16,
     3},
    {"inks", jpeg_inks, pixels_inks, sizeof jpeg_inks, sizeof pixels_inks, 8, 11, 3},
};

START_TEST(decoded)
{
    make_set();
    write_text("set/train/cat/notes.txt", "no image");
    write_text("set/train/dog/0.pgm", "");
    for (int k = 0; k < BT_COUNT_OF(files); k++) {
        write_bytes("set/train/cat/0.JPEG", files[k].file, files[k].size);
        write_bytes("set/train/dog/0.pgm", files[k].file, files[k].size); /* the format is recognised by its bytes */
        const bt_batch *batch = whole(open_set(NULL));
        const bt_array image = field_of(batch, "image")->array;
        ck_assert_int_eq(image.dims[1], files[k].height);
        ck_assert_int_eq(image.dims[2], files[k].width);
        ck_assert_int_eq(image.dims[3], files[k].channels);
        check_pixels(batch, 0, files[k].pixels, files[k].count, 1);
        check_pixels(batch, 1, files[k].pixels, files[k].count, 1);
        files_forget();
    }
}
END_TEST

START_TEST(broken)
{
    make_set();
    rmdir(path_of("set/train/dog"));
    for (int k = 0; k < BT_COUNT_OF(files); k++) {
        static unsigned char bytes[sizeof jpeg_colour + sizeof jpeg_inks + sizeof jpeg_grey + sizeof jpeg_progressive];
        int cut = 0;
        for (size_t length = 0; length < files[k].size; length += 1 + length / 12, cut++) {
            write_bytes("set/train/cat/0.jpg", files[k].file, length);
            ck_assert_msg(open_set(NULL) == NULL, "%s: %zu of %zu bytes are taken", files[k].name, length,
                          files[k].size);
            expect_failure(BT_ERROR_DATA, "cat/0.jpg", "not a complete JPEG image");
        }
        for (size_t at = 2; at < files[k].size; at += 7) { /* accepted, or refused with a message */
            memcpy(bytes, files[k].file, files[k].size);
            bytes[at] ^= 0x41;
            write_bytes("set/train/cat/0.jpg", bytes, files[k].size);
            bt_dataset *data = open_set(NULL);
            ck_assert((data == NULL) == (*bt_error() != 0));
            bt_error_clear();
            bt_dataset_free(data);
        }
    }
    unsigned char large[sizeof jpeg_grey];
    memcpy(large, jpeg_grey, sizeof large);
    for (size_t i = 0; i + 8 < sizeof large; i++)
        if (large[i] == 0xff && large[i + 1] == 0xc0) /* the frame header: height and width */
            large[i + 5] = large[i + 7] = 0xf0;
    write_bytes("set/train/cat/0.jpg", large, sizeof large);
    ck_assert_ptr_null(open_set(NULL));
    expect_failure(BT_ERROR_DATA, "too short for the sizes in its header");
}
END_TEST

/* The noise of golden_jpeg.py. */
static void write_noise(const char *name, int height, int width, int channels)
{
    static char file[1 << 15];
    int at = snprintf(file, sizeof file, "P%d %d %d 255\n", channels == 1 ? 5 : 6, width, height);
    for (uint64_t k = 0; k < (uint64_t)(height * width * channels); k++)
        file[at++] = (char)((k * 2654435761U >> 13) % 256);
    write_bytes(name, file, (size_t)at);
}

START_TEST(resized)
{
    static const struct {
        const unsigned char *due;
        int height, width, channels, resize, crop;
    } cases[] = {{resized_smaller, 37, 53, 3, 16, 12},
                 {resized_larger, 11, 9, 1, 20, 19},
                 {resized_odd, 61, 40, 3, 9, 8},
                 {resized_same, 8, 13, 1, 8, 8},
                 {resized_even, 16, 19, 1, 16, 16}};
    make_set();
    rmdir(path_of("set/train/dog"));
    for (int k = 0; k < BT_COUNT_OF(cases); k++) {
        write_noise("set/train/cat/0.ppm", cases[k].height, cases[k].width, cases[k].channels);
        const bt_image_options o = {.resize = cases[k].resize, .crop = cases[k].crop};
        const bt_batch *batch = whole(open_set(&o));
        const int64_t *dims = field_of(batch, "image")->array.dims;
        ck_assert(dims[1] == o.crop && dims[2] == o.crop && dims[3] == cases[k].channels);
        check_pixels(batch, 0, cases[k].due, (size_t)(o.crop * o.crop * cases[k].channels), 0);
        files_forget();
    }
}
END_TEST

START_TEST(sizes)
{
    make_set();
    write_noise("set/train/cat/0.pgm", 12, 30, 1);
    write_noise("set/train/dog/0.ppm", 21, 10, 3);
    ck_assert_ptr_null(open_set(&(bt_image_options){.resize = 8}));
    expect_failure(BT_ERROR_DATA, "dog/0.ppm is in colour");
    const bt_batch *batch = whole(open_set(&(bt_image_options){.resize = 8, .colour = true}));
    const int64_t *dims = field_of(batch, "image")->array.dims;
    ck_assert(dims[0] == 2 && dims[1] == 8 && dims[2] == 8 && dims[3] == 3);
    for (int i = 0; i < 64; i++) /* a grey image has three equal channels */
        ck_assert(f64_of(batch, "image")[3 * i] == f64_of(batch, "image")[3 * i + 2]);
    batch = whole(open_set(&(bt_image_options){.crop = 10, .colour = true})); /* cropped only: rows 1 to 10 of 12 */
    ck_assert_double_eq(f64_of(batch, "image")[0], (double)((40 * 2654435761U >> 13) % 256) / 255);
    ck_assert_ptr_null(open_set(&(bt_image_options){.crop = 11, .colour = true}));
    expect_failure(BT_ERROR_DATA, "dog/0.ppm has 10 x 21 pixels", "at least the 11 x 11");
    ck_assert_ptr_null(open_set(&(bt_image_options){.resize = 8, .crop = 9}));
    expect_failure(BT_ERROR_ARGUMENT, "found resize 8 and crop 9");
    ck_assert_ptr_null(open_set(&(bt_image_options){.resize = -1}));
    expect_failure(BT_ERROR_ARGUMENT, "resize -1");
    ck_assert_ptr_null(open_set(NULL));
    expect_failure(BT_ERROR_DATA, "expected images of one size", "bt_dataset_images");
    write_text("t.csv", "a,b\n1,2\n");
    ck_assert_ptr_null(bt_dataset_images(path_of("t.csv"), "train", &(bt_image_options){.resize = 8}));
    expect_failure(BT_ERROR_UNSUPPORTED, "t.csv", "only folders of images");
}
END_TEST

/* The folders give the names of classes, also with wrong labels; for a table, the values do. */
START_TEST(classes)
{
    make_set();
    write_noise("set/train/cat/0.pgm", 4, 4, 1);
    write_noise("set/train/dog/0.pgm", 4, 4, 1);
    bt_dataset *data = open_set(NULL), *again = bt_dataset_label_noise(open_set(NULL), 0.5, 1);
    for (int k = 0; k < 2; k++) {
        const bt_dataset *set = k ? again : data;
        ck_assert_int_eq(bt_dataset_classes(set), 2);
        ck_assert_str_eq(bt_dataset_class_name(set, 0), "cat");
        ck_assert_str_eq(bt_dataset_class_name(set, 1), "dog");
        ck_assert_ptr_null(bt_dataset_class_name(set, 2));
        ck_assert_ptr_null(bt_dataset_class_name(set, -1));
    }
    bt_dataset_free(data);
    bt_dataset_free(again);
    write_text("t.csv", "a,y\n1,1\n2,-1\n3,7\n");
    write_text("t.test.csv", "a,y\n1,7\n2,1\n");
    data =
        bt_dataset_number_label(bt_dataset_open(path_of("t.csv"), "test"), bt_dataset_open(path_of("t.csv"), "train"));
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_classes(data), 3);
    ck_assert_str_eq(bt_dataset_class_name(data, 0), "-1");
    const bt_batch *batch = whole(data);
    ck_assert(i32_of(batch, "label")[0] == 2 && i32_of(batch, "label")[1] == 1);
    write_text("t.test.csv", "a,y\n1,8\n2,1\n");
    ck_assert_ptr_null(
        bt_dataset_number_label(bt_dataset_open(path_of("t.csv"), "test"), bt_dataset_open(path_of("t.csv"), "train")));
    expect_failure(BT_ERROR_DATA, "example 0 is of class 8");
    data = bt_dataset_open(path_of("t.csv"), "train");
    ck_assert_int_eq(bt_dataset_classes(data), 0);
    expect_failure(BT_ERROR_DATA, "from -1 to 7", "bt_dataset_number_label");
    bt_dataset_free(data);
    data = numbered(9, 4);
    ck_assert_int_eq(bt_dataset_classes(data), 4);
    ck_assert_ptr_null(bt_dataset_class_name(data, 0));
    bt_dataset_free(data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.jpeg");
    ADD_CASE(suite, decoded);
    ADD_CASE(suite, broken);
    ADD_CASE(suite, resized);
    ADD_CASE(suite, sizes);
    ADD_CASE(suite, classes);
    return run_suite(suite);
}
