/* Folders of images: PNG of every kind, written here byte by byte; PGM and PPM; classes, splits; broken files. */
#include "data/dataset.h"
#include "data/read.h"
#include "files.h"

#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* ---- a PNG writer, by the specification ---- */

typedef struct picture {
    int width, height, bits, kind; /* kind: 0 grey, 2 colour, 3 palette, 4 grey and alpha, 6 colour and alpha */
    bool interlaced, transparent;
    int break_at; /* the byte of the file to change; 0: none */
    int cut;      /* the number of bytes missing at the end */
} picture;

static unsigned char file[1 << 16];
static size_t size;

static void put(const void *bytes, size_t count)
{
    ck_assert_uint_le(size + count, sizeof file);
    memcpy(file + size, bytes, count);
    size += count;
}

static void put32(uint32_t value)
{
    const unsigned char bytes[4] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16),
                                    (unsigned char)(value >> 8), (unsigned char)value};
    put(bytes, 4);
}

static void put_chunk(const char *name, const void *bytes, size_t count)
{
    put32((uint32_t)count);
    size_t begin = size;
    put(name, 4);
    put(bytes, count);
    put32((uint32_t)crc32(crc32(0, NULL, 0), file + begin, (unsigned)(size - begin)));
}

static int samples(const picture *p) { return p->kind == 2 ? 3 : p->kind == 4 ? 2 : p->kind == 6 ? 4 : 1; }

/* Sample c of the pixel in row y, column x: noise within the range of the bits. */
static int sample(const picture *p, int y, int x, int c)
{
    double noise = bt_host_uniform(3, (uint64_t)(y * 64 + x), (uint64_t)(c + 10 * p->kind + 100 * p->bits));
    return (int)(noise * (1 << p->bits));
}

/* Writes one pass: rows y, y + dy, ... with pixels x0, x0 + dx, ..., each row after a filter byte of 0. */
static size_t put_pass(const picture *p, int y, int dy, int x0, int dx, unsigned char *to)
{
    unsigned char *at = to;
    for (; y < p->height && x0 < p->width; y += dy) {
        *at++ = 0;
        unsigned bits = 0, have = 0;
        for (int x = x0; x < p->width; x += dx)
            for (int c = 0; c < samples(p); c++) {
                bits = (bits << p->bits) | (unsigned)sample(p, y, x, c);
                for (have += (unsigned)p->bits; have >= 8; have -= 8)
                    *at++ = (unsigned char)(bits >> (have - 8));
            }
        if (have)
            *at++ = (unsigned char)(bits << (8 - have));
    }
    return (size_t)(at - to);
}

static unsigned char palette_at(int i) { return (unsigned char)(i * 37 + 11); }

static void make_png(const picture *p)
{
    static const int passes[7][4] = {{0, 8, 0, 8}, {0, 8, 4, 8}, {4, 8, 0, 4}, {0, 4, 2, 4},
                                     {2, 4, 0, 2}, {0, 2, 1, 2}, {1, 2, 0, 1}};
    static unsigned char raw[1 << 15], packed[1 << 15], palette[3 * 256];
    size_t count = 0;
    for (int k = 0; k < 7 && p->interlaced; k++)
        count += put_pass(p, passes[k][0], passes[k][1], passes[k][2], passes[k][3], raw + count);
    if (!p->interlaced)
        count = put_pass(p, 0, 1, 0, 1, raw);
    uLongf length = sizeof packed;
    ck_assert_int_eq(compress(packed, &length, raw, count), Z_OK);
    size = 0;
    put("\x89PNG\r\n\x1a\n", 8);
    const unsigned char header[13] = {0,
                                      0,
                                      (unsigned char)(p->width >> 8),
                                      (unsigned char)p->width,
                                      0,
                                      0,
                                      (unsigned char)(p->height >> 8),
                                      (unsigned char)p->height,
                                      (unsigned char)p->bits,
                                      (unsigned char)p->kind,
                                      0,
                                      0,
                                      p->interlaced};
    put_chunk("IHDR", header, 13);
    put_chunk("gAMA", "\0\1\x86\xa0", 4); /* 1.0: it is ignored */
    put_chunk("tEXt", "Comment\0none", 12);
    for (int i = 0; i < 3 * 256; i++)
        palette[i] = palette_at(i);
    if (p->kind == 3)
        put_chunk("PLTE", palette, 3U << p->bits);
    if (p->transparent)
        put_chunk("tRNS", "\0\1\0\2\0\3", p->kind == 0 ? 2 : p->kind == 2 ? 6 : 1);
    put_chunk("IDAT", packed, length / 2); /* in two chunks */
    put_chunk("IDAT", packed + length / 2, length - length / 2);
    put_chunk("IEND", "", 0);
    if (p->break_at)
        file[p->break_at] ^= 0x55;
    size -= (size_t)p->cut;
}

static void write_png(const char *name, picture p)
{
    make_png(&p);
    unlink(path_of(name)); /* some file systems wait for the disk when a file is overwritten */
    write_bytes(name, file, size);
}

/* The expected byte of channel c of a pixel. */
static int due(const picture *p, int channels, int y, int x, int c)
{
    if (p->kind == 3)
        return palette_at(3 * sample(p, y, x, 0) + c);
    int own = p->kind == 2 || p->kind == 6 ? 3 : 1, value = sample(p, y, x, own == 3 || channels == 1 ? c : 0);
    return p->bits == 16 ? (value * 255 + 32895) >> 16 : value * 255 / ((1 << p->bits) - 1); /* rounded as in libpng */
}

static void check(const bt_batch *batch, int64_t i, const picture *p)
{
    const bt_array image = field_of(batch, "image")->array;
    ck_assert_int_eq(image.dims[1], p->height);
    ck_assert_int_eq(image.dims[2], p->width);
    const double *value = (const double *)image.data + i * p->height * p->width * image.dims[3];
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++)
            for (int c = 0; c < image.dims[3]; c++, value++)
                ck_assert_msg(*value == due(p, (int)image.dims[3], y, x, c) / 255.0,
                              "kind %d, %d bits: (%d, %d, %d) is %g, not %d", p->kind, p->bits, y, x, c, *value * 255,
                              due(p, (int)image.dims[3], y, x, c));
}

static const struct {
    int kind, bits;
} kinds[] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
             {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};

static picture kind_of(int k, int width, int height)
{
    return (picture){.width = width, .height = height, .bits = kinds[k].bits, .kind = kinds[k].kind};
}

/* Each kind separately, in colour or grey as stored; plain, transparent, interlaced; with odd sizes. */
START_TEST(every_kind)
{
    make_folder("set");
    make_folder("set/train");
    make_folder("set/train/a");
    for (int k = 0; k < BT_COUNT_OF(kinds); k++)
        for (int how = 0; how < 6; how++) {
            picture p = kind_of(k, how < 4 ? 13 : 1, how < 4 ? 11 : 3);
            p.interlaced = how % 2;
            p.transparent = how / 2 == 1 && p.kind < 4;
            write_png("set/train/a/x.png", p);
            const bt_batch *batch = whole(bt_dataset_open(path_of("set"), "train"));
            ck_assert_int_eq(field_of(batch, "image")->array.dims[3], p.kind == 0 || p.kind == 4 ? 1 : 3);
            check(batch, 0, &p);
            files_forget();
        }
}
END_TEST

/* There is one warning for properties that are ignored. */
START_TEST(what_is_lost_is_told)
{
    make_folder("set");
    make_folder("set/train");
    make_folder("set/train/a");
    picture plain = kind_of(5, 5, 4), deep = kind_of(6, 5, 4), clear = kind_of(13, 5, 4), marked = kind_of(5, 5, 4);
    marked.transparent = true;
    write_png("set/train/a/0.png", plain);
    bt_dataset *data = bt_dataset_open(path_of("set"), "train");
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_ptr_null(bt_dataset_next_note(data));
    bt_dataset_free(data);
    write_png("set/train/a/1.png", deep);
    write_png("set/train/a/2.png", clear);
    write_png("set/train/a/3.png", marked);
    data = bt_dataset_open(path_of("set"), "train");
    bt_dataset *again = bt_dataset_open(path_of("set"), "train");
    char *note = bt_dataset_next_note(data);
    ck_assert_ptr_nonnull(note);
    ck_assert_msg(strstr(note, "set/train: 1 of 4 images have 16 bits per channel") != NULL, "%s", note);
    ck_assert_msg(strstr(note, "2 of 4 images have transparency") != NULL, "%s", note);
    ck_assert_ptr_null(bt_dataset_next_note(data));
    ck_assert_ptr_null(bt_dataset_next_note(again));
    bt_free(note);
    bt_dataset_free(data);
    bt_dataset_free(again);
}
END_TEST

/* For a plan, only the first image is read, so a later one may be broken. The number of images, their classes, and the
 * memory for them are known; a set opened afterwards has all of them. */
START_TEST(the_first_stands_for_all)
{
    make_folder("set");
    make_folder("set/train");
    make_folder("set/train/a");
    make_folder("set/train/b");
    picture first = kind_of(5, 5, 4);
    write_png("set/train/a/0.png", first);
    write_png("set/train/a/1.png", kind_of(6, 5, 4));
    write_text("set/train/b/0.png", "no image");
    size_t before = bt_store_bytes(), image = 5 * 4 * (size_t)(first.kind == 2 ? 3 : 1);
    ck_assert(!bt_data_blank(true));
    bt_dataset *data = bt_dataset_open(path_of("set"), "train");
    ck_assert(bt_data_blank(false));
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_uint_eq(bt_store_bytes() - before, image + 3 * sizeof(int32_t));
    ck_assert_uint_eq(bt_store_absent(), 2 * image);
    const bt_batch *batch = whole(data);
    ck_assert_int_eq(bt_batch_count(batch), 3);
    for (int k = 0; k < 3; k++) {
        check(batch, k, &first);
        ck_assert_int_eq(i32_of(batch, "label")[k], k / 2);
    }
    ck_assert_ptr_null(bt_dataset_open(path_of("set"), "train"));
    expect_failure(BT_ERROR_DATA, "0.png", "not a complete PNG image");
}
END_TEST

/* A grey image can be in a set in colour; the order is by name, not the order of the folder. */
START_TEST(a_set_in_colour)
{
    static const char *const classes[] = {"Z", "a", "b10", "b2"}; /* sorted by bytes */
    picture written[BT_COUNT_OF(kinds)];
    char name[64];
    make_folder("set");
    make_folder("set/train");
    make_folder("set/test");
    for (int c = 3; c >= 0; c--) {
        snprintf(name, sizeof name, "set/train/%s", classes[c]);
        make_folder(name);
    }
    for (int k = 0; k < BT_COUNT_OF(kinds); k++) {
        int which = (k + 6) % BT_COUNT_OF(kinds); /* in colour first */
        written[k] = kind_of(which, 5, 4);
        snprintf(name, sizeof name, "set/train/%s/%02d.%s", classes[k / 4], k, k % 2 ? "png" : "PNG");
        write_png(name, written[k]);
    }
    write_text("set/train/a/.hidden.png", "no image");
    write_text("set/train/a/notes.txt", "no image");
    write_text("set/train/notes.png", "no class");
    const bt_batch *batch = whole(bt_dataset_open(path_of("set"), "train"));
    ck_assert_int_eq(bt_batch_count(batch), BT_COUNT_OF(kinds));
    for (int k = 0; k < BT_COUNT_OF(kinds); k++) {
        check(batch, k, &written[k]);
        ck_assert_int_eq(i32_of(batch, "label")[k], k / 4);
    }
    /* The test split uses the class numbers of the training images, although it lacks a class; a class too many is an
     * error. */
    make_folder("set/test/b2");
    make_folder("set/test/a");
    write_png("set/test/b2/0.png", kind_of(5, 5, 4));
    write_png("set/test/a/1.png", kind_of(5, 5, 4));
    batch = whole(bt_dataset_open(path_of("set"), "test"));
    ck_assert_int_eq(i32_of(batch, "label")[0], 1);
    ck_assert_int_eq(i32_of(batch, "label")[1], 3);
    make_folder("set/test/c");
    ck_assert_ptr_null(bt_dataset_open(path_of("set"), "test"));
    expect_failure(BT_ERROR_DATA, "set/test: the class \"c\" is not among the 4 classes of", "set/train");
    ck_assert_ptr_null(bt_dataset_open(path_of("set"), "valid"));
    expect_failure(BT_ERROR_FILE, "set/train", "no split \"valid\"", "expected the folder", "set/valid");
    make_folder("set/val");
    make_folder("set/val/a");
    write_png("set/val/a/0.png", kind_of(5, 5, 4));
    batch = whole(bt_dataset_open(path_of("set"), "valid"));
    ck_assert_int_eq(i32_of(batch, "label")[0], 1);
}
END_TEST

START_TEST(pgm_and_ppm)
{
    make_folder("set");
    make_folder("set/train");
    make_folder("set/train/a");
    write_bytes("set/train/a/1.ppm", "P6 2\n1 255\n\1\2\3\375\376\377", 17);
    write_bytes("set/train/a/2.pgm", "P5\n# a comment 9\n#another\n2#with a number\n 1\t15\n\0\17rest", 54);
    const double expected[] = {1, 2, 3, 253, 254, 255, 0, 0, 0, 255, 255, 255};
    const bt_batch *batch = whole(bt_dataset_open(path_of("set"), "train"));
    ck_assert_int_eq(bt_batch_count(batch), 2);
    for (int i = 0; i < 12; i++)
        ck_assert(f64_of(batch, "image")[i] == expected[i] / 255);
    files_forget();
    ck_assert_int_eq(unlink(path_of("set/train/a/1.ppm")), 0);
    batch = whole(bt_dataset_open(path_of("set"), "train"));
    ck_assert_int_eq(field_of(batch, "image")->array.dims[3], 1);
    ck_assert(f64_of(batch, "image")[0] == 0 && f64_of(batch, "image")[1] == 1);
    write_bytes("set/train/a/2.pgm", "P5 2 1 1000\n\1\x37\3\350", 16); /* 311 and 1000 of 1000 */
    files_forget();
    batch = whole(bt_dataset_open(path_of("set"), "train"));
    ck_assert(f64_of(batch, "image")[0] == 79 / 255.0 && f64_of(batch, "image")[1] == 1);
    static const struct {
        const char *bytes, *message;
        size_t count;
    } faults[] = {
        {"", "found something else", 0},
        {"P", "found something else", 1},
        {"P2 1 1 255 7\n", "numbers as text", 13},
        {"P4 1 1 \1", "a bitmap", 8},
        {"P7\n", "found something else", 3},
        {"P5 1 1 65535\n\0", "promises 2", 14},
        {"P5 1 1 300\n\1\55", "found a pixel of 301; its header says at most 300", 13},
        {"P5 1 1 65536\n\0\0", "no sense", 15},
        {"P5 1 1 0\n\0", "no sense", 10},
        {"P5 0 1 255\n\0", "no sense", 12},
        {"P5 -1 1 255\n\0", "no sense", 13},
        {"P5 1 99999999999999999999 255\n\0", "no sense", 31},
        {"P5 1 1 255#\1", "no sense", 12},
        {"P5 # no end", "no sense", 11},
        {"P5 3 2 255\n12345", "promises 6", 16},
        {"P5 1000000 1000000 255\n12345", "promises 1000000000000", 28},
        {"P5 1 1 7\n\10", "found a pixel of 8; its header says at most 7", 10},
    };
    for (int k = 0; k < BT_COUNT_OF(faults); k++) {
        write_bytes("set/train/a/2.pgm", faults[k].bytes, faults[k].count);
        ck_assert_ptr_null(bt_dataset_open(path_of("set"), "train"));
        expect_failure(BT_ERROR_DATA, "2.pgm", faults[k].message);
    }
}
END_TEST

/* Each byte of a file changed, and every third length: whatever the result, nothing leaks, and a failure has a
 * message. */
START_TEST(broken_png)
{
    make_folder("set");
    make_folder("set/train");
    make_folder("set/train/a");
    for (int k = 5; k < BT_COUNT_OF(kinds); k += 5) {
        picture whole_one = kind_of(k, 9, 7);
        whole_one.interlaced = k == 10;
        make_png(&whole_one);
        const int length = (int)size;
        int refused = 0;
        for (int at = 0; at < 2 * length; at += at < length ? 1 : 3) {
            picture p = whole_one;
            p.break_at = at < length ? at : 0;
            p.cut = at < length ? 0 : at - length;
            write_png("set/train/a/x.png", p);
            bt_dataset *data = bt_read_images(path_of("set/train"), path_of("set/train"), NULL, false);
            refused += data == NULL;
            ck_assert_msg((data == NULL) == (*bt_error() != 0), "byte %d: %s", at, bt_error());
            if (data == NULL)
                ck_assert_msg(strstr(bt_error(), "x.png") != NULL, "byte %d: %s", at, bt_error());
            if (data == NULL && at >= length)
                expect_failure(BT_ERROR_DATA, "not a complete PNG image");
            bt_error_clear();
            bt_dataset_free(data);
        }
        /* Ignored chunks, and the checksum of the end, may be broken. */
        ck_assert_int_gt(refused, length + length / 3 - 100);
    }
    write_text("set/train/a/x.png", "GIF89a, and so on");
    ck_assert_ptr_null(bt_dataset_open(path_of("set"), "train"));
    expect_failure(BT_ERROR_DATA, "x.png", "not a complete PNG image", "Not a PNG file");
    picture huge = kind_of(5, 60000, 60000);
    huge.width = huge.height = 8;
    make_png(&huge);
    file[18] = file[22] = 255; /* 65,288 pixels in each direction */
    uint32_t check_sum = (uint32_t)crc32(crc32(0, NULL, 0), file + 12, 17);
    for (int i = 0; i < 4; i++)
        file[29 + i] = (unsigned char)(check_sum >> (24 - 8 * i));
    write_bytes("set/train/a/x.png", file, size);
    ck_assert_ptr_null(bt_dataset_open(path_of("set"), "train"));
    expect_failure(BT_ERROR_DATA, "x.png", "too short for the sizes in its header");
}
END_TEST

START_TEST(faults)
{
    make_folder("set");
    make_folder("set/train");
    ck_assert_ptr_null(bt_dataset_open(path_of("set"), "train"));
    expect_failure(BT_ERROR_DATA, "set/train: there are no subfolders; expected one for each class");
    make_folder("set/train/a");
    make_folder("set/train/b");
    write_png("set/train/a/1.png", kind_of(3, 5, 4));
    ck_assert_ptr_null(bt_dataset_open(path_of("set"), "train"));
    expect_failure(BT_ERROR_DATA,
                   "set/train/b: the folder of this class has no image; expected files .jpg, .png, .pgm or .ppm");
    write_png("set/train/b/2.png", kind_of(3, 4, 5));
    ck_assert_ptr_null(bt_dataset_open(path_of("set"), "train"));
    expect_failure(BT_ERROR_DATA, "set/train/b/2.png has 4 x 5 pixels", "set/train/a/1.png has 5 x 4",
                   "images of one size");
    write_png("set/train/b/2.png", kind_of(5, 5, 4));
    ck_assert_ptr_null(bt_dataset_open(path_of("set"), "train"));
    expect_failure(BT_ERROR_DATA, "set/train/b/2.png is in colour", "set/train/a/1.png is grey");
    write_text("set/train/b/2.png", "");
    ck_assert_ptr_null(bt_dataset_open(path_of("set"), "train"));
    expect_failure(BT_ERROR_DATA, "set/train/b/2.png", "not a complete PNG image: the file ends too early");
    write_png("set/train/b/2.png", kind_of(3, 5, 4));
    write_text("set/train/b/3.WebP", "");
    ck_assert_ptr_null(bt_dataset_open(path_of("set"), "train"));
    expect_failure(BT_ERROR_UNSUPPORTED, "set/train/b/3.WebP", "convert them to JPEG or PNG");
    ck_assert_int_eq(unlink(path_of("set/train/b/3.WebP")), 0);
    ck_assert_ptr_null(bt_dataset_open(path_of("set"), "test"));
    expect_failure(BT_ERROR_FILE, "set/train: there is no split \"test\" beside it", "set/test");
    ck_assert_ptr_null(bt_read_images(path_of("gone"), path_of("gone"), NULL, false));
    expect_failure(BT_ERROR_FILE, "gone", "cannot be read: No such file");
    /* Read only once, unless a file has changed. */
    bt_dataset *a = bt_dataset_open(path_of("set"), "train"), *b = bt_dataset_open(path_of("set/"), "train");
    ck_assert_msg(a && b, "%s", bt_error());
    ck_assert_ptr_eq(bt_dataset_column(a, "image")->store, bt_dataset_column(b, "image")->store);
    write_png("set/train/b/2.png", kind_of(0, 5, 4));
    bt_dataset *c = bt_dataset_open(path_of("set"), "train");
    ck_assert_ptr_ne(bt_dataset_column(a, "image")->store, bt_dataset_column(c, "image")->store);
    bt_dataset_free(a);
    bt_dataset_free(b);
    bt_dataset_free(c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.images");
    ADD_CASE(suite, every_kind);
    ADD_CASE(suite, what_is_lost_is_told);
    ADD_CASE(suite, the_first_stands_for_all);
    ADD_CASE(suite, a_set_in_colour);
    ADD_CASE(suite, pgm_and_ppm);
    ADD_CASE(suite, broken_png);
    ADD_CASE(suite, faults);
    return run_suite(suite);
}
