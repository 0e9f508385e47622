/* Folders of .npy files: bytes written by NumPy, every version and type, splits, broken files. A set that stays in its
 * files has the same batches as in memory, and its pages do not stay in the process. */
#include "data/dataset.h"
#include "files.h"

#include "support/suite.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

/* A header of the format, padded as NumPy does, and the numbers. */
static void write_npy(const char *name, int version, const char *dictionary, const void *numbers, size_t size)
{
    static unsigned char file[1 << 16];
    const size_t first = version > 1 ? 12 : 10, length = (first + strlen(dictionary) + 64) / 64 * 64 - first;
    ck_assert_uint_le(first + length + size, sizeof file);
    memset(file, ' ', first + length);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (unsigned char)version;
    file[7] = 0;
    for (size_t i = 8; i < first; i++)
        file[i] = (unsigned char)(length >> (8 * (i - 8)));
    memcpy(file + first, dictionary, strlen(dictionary));
    file[first + length - 1] = '\n';
    if (size)
        memcpy(file + first + length, numbers, size);
    unlink(path_of(name));
    write_bytes(name, file, first + length + size);
}

static bt_dataset *open_set(const char *name, const char *split)
{
    char path[512];
    snprintf(path, sizeof path, "%s", path_of(name));
    return bt_dataset_open(path, split);
}

/* ---- */

/* The output of numpy.save, NumPy 2.4.6, for array([[0, 1], [2.5, -3], [4, 5e10]], '<f4') and array([2, 0, 7]). */
START_TEST(golden)
{
    static const char head[] = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }",
                      label[] = "\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }",
                      x[] = "\x00\x00\x00\x00\x00\x00\x80?\x00\x00 @\x00\x00@\xc0\x00\x00\x80@\xb7"
                            "C:Q";
    static const int64_t y[] = {2, 0, 7};
    char file[152];
    make_folder("set");
    memset(file, ' ', sizeof file);
    memcpy(file, head, sizeof head - 1);
    file[127] = '\n';
    memcpy(file + 128, x, 24);
    write_bytes("set/x.npy", file, 152);
    memset(file, ' ', sizeof file);
    memcpy(file, label, sizeof label - 1);
    file[127] = '\n';
    memcpy(file + 128, y, 24);
    write_bytes("set/label.npy", file, 152);
    const size_t before = bt_store_bytes();
    bt_dataset *data = open_set("set", "train");
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_count(data), 3);
    ck_assert_uint_eq(bt_store_bytes(), before); /* the values stay in the files */
    ck_assert_uint_eq(bt_dataset_bytes(data), 0);
    const bt_batch *batch = whole(data);
    static const double due[] = {0, 1, 2.5, -3, 4, 5e10F};
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq(f64_of(batch, "x")[i], due[i]);
    ck_assert_int_eq(memcmp(field_of(batch, "label")->array.data, y, sizeof y), 0);
}
END_TEST

START_TEST(types_and_versions)
{
    static const uint8_t image[] = {0, 51, 102, 255}, mask[] = {1, 0};
    static const double d[] = {0.1, -2};
    static const int32_t k[] = {-5, 1 << 30};
    make_folder("set");
    make_folder("set/train");
    write_npy("set/train/image.npy", 2, "{\"shape\" : (2,1,2,1), 'descr':'|u1','fortran_order':False}", image, 4);
    write_npy("set/train/bytes.npy", 1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2,), }", image, 2);
    write_npy("set/train/mask.npy", 3, "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", mask, 2);
    write_npy("set/train/d.NPY", 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", d, 16);
    write_npy("set/train/k.npy", 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 1), }", k, 8);
    write_text("set/train/readme.txt", "no array");
    const bt_batch *batch = whole(open_set("set", "train"));
    ck_assert_int_eq(batch->field_count, 6);
    ck_assert_double_eq(f64_of(batch, "image")[1], 51 / 255.0); /* like images of other formats */
    ck_assert_double_eq(f64_of(batch, "d")[0], 0.1);
    ck_assert_int_eq(((const uint8_t *)field_of(batch, "bytes")->array.data)[1], 51);
    ck_assert_int_eq(((const uint8_t *)field_of(batch, "mask")->array.data)[0], 1);
    ck_assert_int_eq(i32_of(batch, "k")[0], -5);
    ck_assert_ptr_null(open_set("set", "test"));
    expect_failure(BT_ERROR_FILE, "split \"test\"", "set/test", ".npy");
    make_folder("set/valid");
    write_npy("set/valid/k.npy", 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 1), }", k, 8);
    bt_dataset *valid = open_set("set", "valid");
    ck_assert_int_eq(bt_dataset_count(valid), 2);
    bt_dataset_free(valid);
}
END_TEST

static const struct {
    const char *dictionary, *message[3];
    size_t size;
    bt_status status;
} broken[] = {
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", {"[3, 2]", "found 23 bytes"}, 23, BT_ERROR_DATA},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", {"promises", "found 25 bytes"}, 25, BT_ERROR_DATA},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }",
     {"byte 19", ">f4", "astype"},
     12,
     BT_ERROR_UNSUPPORTED},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", {"<c8"}, 24, BT_ERROR_UNSUPPORTED},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", {"records"}, 12, BT_ERROR_DATA},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", {"stored by columns"}, 24, BT_ERROR_UNSUPPORTED},
    {"{'descr': '<f4', 'fortran_order': No, 'shape': (3, 2), }", {"byte 44", "True or False"}, 24, BT_ERROR_DATA},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", {"a single number"}, 4, BT_ERROR_SHAPE},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0), }", {"at least 1"}, 0, BT_ERROR_DATA},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3 2), }", {"a comma"}, 24, BT_ERROR_DATA},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }", {"at least 1"}, 12, BT_ERROR_DATA},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999, 999999999999), }",
     {"99999999999999", "at most 2147483647 examples"},
     4,
     BT_ERROR_DATA},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 9999999999999, 9999999999999), }",
     {"promises"},
     4,
     BT_ERROR_DATA},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", {"at most 8"}, 4, BT_ERROR_DATA},
    {"{'descr': '<f4', 'shape': (3, 2), }", {"lacks 'fortran_order'"}, 24, BT_ERROR_DATA},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", {"once more"}, 24, BT_ERROR_DATA},
    {"{'other': '<f4', 'fortran_order': False, 'shape': (3, 2), }", {"\"other\""}, 24, BT_ERROR_DATA},
    {"{'descr': '<f4, ", {"a closing quote"}, 0, BT_ERROR_DATA},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)", {"closing brace"}, 0, BT_ERROR_DATA},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } x", {"nothing after"}, 24, BT_ERROR_DATA},
    {"3", {"a dictionary"}, 0, BT_ERROR_DATA},
};

START_TEST(refused)
{
    static const char numbers[32];
    make_folder("set");
    for (int i = 0; i < BT_COUNT_OF(broken); i++) {
        write_npy("set/x.npy", 1, broken[i].dictionary, numbers, broken[i].size);
        ck_assert_msg(open_set("set", "train") == NULL, "%s is read", broken[i].dictionary);
        expect_failure(broken[i].status, "set/x.npy", broken[i].message[0], broken[i].message[1], broken[i].message[2]);
    }
    write_text("set/x.npy", "PK\x03\x04 something else");
    ck_assert_ptr_null(open_set("set", "train"));
    expect_failure(BT_ERROR_DATA, "x.npy, byte 0");
    write_bytes("set/x.npy", "\x93NUMPY\x04\x00v\x00", 10);
    ck_assert_ptr_null(open_set("set", "train"));
    expect_failure(BT_ERROR_UNSUPPORTED, "byte 6", "4.0");
    write_bytes("set/x.npy", "\x93NUMPY\x01\x00v\x00{'", 12);
    ck_assert_ptr_null(open_set("set", "train"));
    expect_failure(BT_ERROR_DATA, "ends within its header");
    write_npy("set/x.npy", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", numbers, 24);
    write_npy("set/y.npy", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", numbers, 16);
    ck_assert_ptr_null(open_set("set", "train"));
    expect_failure(BT_ERROR_DATA, "y.npy has 4 examples", "x.npy in the same folder has 3");
    unlink(path_of("set/y.npy"));
    write_npy("set/index.npy", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", numbers, 12);
    ck_assert_ptr_null(open_set("set", "train"));
    expect_failure(BT_ERROR_DATA, "index.npy", "\"index\"");
}
END_TEST

/* ---- a set in files is drawn like one in memory ---- */

enum { ROWS = 37, NUMBERS = 5 };

static bt_dataset *in_memory(const float *x, const int32_t *label)
{
    bt_dataset *data = bt_dataset_new(ROWS);
    ck_assert_int_eq(bt_dataset_add(data, "label", BT_ARRAY(label, ROWS)), BT_OK);
    ck_assert_int_eq(bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, NUMBERS)), BT_OK);
    return data;
}

static void add_hash(void *user, const char *prefix, const char *name, uint64_t hash)
{
    (void)prefix;
    (void)name;
    *(uint64_t *)user = *(uint64_t *)user * 31 + hash;
}

static bt_loader *load(bt_dataset *data, int view)
{
    bt_loader_options options = bt_loader_defaults();
    data = view == 1 ? bt_dataset_part(data, 0.2, 0.9, 5) : view == 2 ? bt_dataset_tasks(data, 3, 2, 4, 7) : data;
    options.batch_size = 8;
    options.seed = 3;
    options.keep = 2;
    bt_loader *loader = bt_loader_open(data, &options);
    ck_assert_msg(loader != NULL, "%s", bt_error());
    return loader;
}

START_TEST(batches)
{
    static float x[ROWS * NUMBERS];
    static int32_t label[ROWS];
    for (int i = 0; i < ROWS * NUMBERS; i++)
        x[i] = (float)bt_host_uniform(1, 0, (uint64_t)i) * 7 - 3;
    for (int i = 0; i < ROWS; i++)
        label[i] = i % 4;
    make_folder("set");
    write_npy("set/x.npy", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (37, 5), }", x, sizeof x);
    write_npy("set/label.npy", 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (37,), }", label, sizeof label);
    for (int view = 0; view < 3; view++) {
        bt_loader *a = load(in_memory(x, label), view), *b = load(open_set("set", "train"), view);
        uint64_t hashes[2] = {0};
        bt_loader_hash(a, add_hash, &hashes[0]);
        bt_loader_hash(b, add_hash, &hashes[1]);
        ck_assert_uint_eq(hashes[0], hashes[1]); /* a run can resume with the same set in the other form */
        for (int i = 0; i < 40; i++) {
            const bt_batch *due, *found;
            if (i == 20) {
                ck_assert_int_eq(bt_loader_seek(a, 3), BT_OK);
                ck_assert_int_eq(bt_loader_seek(b, 3), BT_OK);
            }
            ck_assert_int_eq(bt_loader_draw(a, &due), BT_OK);
            ck_assert_int_eq(bt_loader_draw(b, &found), BT_OK);
            ck_assert_int_eq(due->field_count, found->field_count);
            for (int f = 0; f < due->field_count; f++) {
                const bt_array *array = &field_of(found, due->fields[f].name)->array;
                ck_assert(bt_array_same(due->fields[f].array, *array));
                ck_assert_int_eq(memcmp(due->fields[f].array.data, array->data, bt_array_bytes(*array)), 0);
            }
        }
        bt_loader_free(a);
        bt_loader_free(b);
    }
}
END_TEST

/* ---- a set larger than the memory that may stay mapped ---- */

/* Resident bytes of mappings: of files, and of memory without a file. */
static size_t mapped_bytes(void)
{
    char line[256];
    size_t kib, sum = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssFile: %zu kB", &kib) == 1 || sscanf(line, "RssShmem: %zu kB", &kib) == 1)
            sum += kib * 1024;
    if (file)
        fclose(file);
    return sum;
}

/* 96 MiB, with only the end written: holes are read as zeros, page by page. */
START_TEST(pages_do_not_stay)
{
    enum { COUNT = 1536, ROW = 1 << 16, BATCH = 32, HEAD = 128 };
    static const size_t MIB = 1 << 20;
    make_folder("set");
    write_npy("set/x.npy", 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (1536, 65536), }", NULL, 0);
    int file = open(path_of("set/x.npy"), O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(ftruncate(file, HEAD + (off_t)COUNT * ROW), 0);
    ck_assert_int_eq(pwrite(file, "z", 1, HEAD + (off_t)COUNT * ROW - 1), 1);
    close(file);
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = BATCH;
    bt_loader *loader = bt_loader_open(open_set("set", "train"), &options);
    ck_assert_msg(loader != NULL, "%s", bt_error());
    ck_assert_uint_le(bt_loader_bytes(loader), 2 * BATCH * (ROW + 64) + COUNT);
    const size_t before = mapped_bytes(), live = bt_live_bytes();
    size_t most = 0;
    bool seen = false;
    for (int i = 0; i < 2 * COUNT / BATCH; i++) {
        const bt_batch *batch;
        ck_assert_int_eq(bt_loader_draw(loader, &batch), BT_OK);
        for (int64_t k = 0; k < BATCH; k++) {
            const uint8_t *row = (const uint8_t *)field_of(batch, "x")->array.data + k * ROW;
            ck_assert_int_eq(row[0], 0);
            seen = seen || row[ROW - 1] == 'z';
        }
        const size_t now = mapped_bytes();
        most = now > before + most ? now - before : most;
    }
    ck_assert(seen);
    ck_assert_uint_eq(bt_live_bytes(), live);
    ck_assert_msg(most < 40 * MIB, "%zu MiB of the file's 96 have stayed", most / MIB);
    bt_loader_free(loader);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.arrays");
    ADD_CASE(suite, golden);
    ADD_CASE(suite, types_and_versions);
    ADD_CASE(suite, refused);
    ADD_CASE(suite, batches);
    ADD_CASE(suite, pages_do_not_stay);
    return run_suite(suite);
}
