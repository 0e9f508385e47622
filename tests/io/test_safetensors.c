/* tests/io/test_safetensors.c: the format byte by byte, reading back what was written, and files with false headers. */
#include "io/safetensors.h"

#include "support/suite.h"
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], before[4096];

static void setup(void)
{
    strcpy(folder, "/tmp/betty-io-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    ck_assert_int_eq(chdir(folder), 0);
    bt_error_clear();
}

static void teardown(void)
{
    unlink("x.safetensors");
    rmdir("file.tmp");
    ck_assert_int_eq(chdir(before), 0);
    ck_assert_int_eq(rmdir(folder), 0); /* there are no other files */
}

#define EXPECT_OK(call) ck_assert_msg((call) == BT_OK, "%s: %s", #call, bt_error())

/* ---- round trip ---- */

START_TEST(what_is_written)
{
    const float f[] = {1, -2, 0.5F};
    const uint8_t u[] = {7, 8, 9, 10, 11};
    const int64_t i[] = {-1, INT64_MAX};
    const bt_stored items[] = {{.name = "a", .array = BT_ARRAY(f, 3, 1)},
                               {.name = "b.c", .array = BT_ARRAY(u, 5)},
                               {.name = "d:e", .array = BT_ARRAY(i, 2)}};
    static const char header[] = "{\"d:e\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
                                 "\"a\":{\"dtype\":\"F32\",\"shape\":[3,1],\"data_offsets\":[16,28]},"
                                 "\"b.c\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[28,33]}}";
    bt_file_sum sum;
    char *data;
    size_t size, length = (sizeof header - 1 + 7) / 8 * 8;
    EXPECT_OK(bt_safetensors_write("x.safetensors", items, 3, &sum));
    EXPECT_OK(bt_file_read("x.safetensors", &data, &size));
    ck_assert_uint_eq(size, 8 + length + 33);
    ck_assert_uint_eq((unsigned char)data[0], length & 255);
    ck_assert_uint_eq((unsigned char)data[1], length >> 8);
    for (int k = 2; k < 8; k++)
        ck_assert_int_eq(data[k], 0);
    ck_assert_mem_eq(data + 8, header, sizeof header - 1);
    for (size_t k = sizeof header - 1; k < length; k++)
        ck_assert_int_eq(data[8 + k], ' ');
    ck_assert_mem_eq(data + 8 + length, i, 16);
    ck_assert_mem_eq(data + 8 + length + 16, f, 12);
    ck_assert_mem_eq(data + 8 + length + 28, u, 5);
    bt_file_sum again = bt_file_sum_of(data, size);
    ck_assert(sum.bytes == size && again.bytes == size && again.hash == sum.hash);
    bt_free(data);
}
END_TEST

START_TEST(reads_back)
{
    double d = 0.1;
    int32_t n[] = {3, -4};
    static float large[100000];
    bool yes[] = {true, false, true};
    uint16_t halves[] = {0x3c00, 0x7bff, 0x8001}, upper[] = {0x3f80, 0x7f7f};
    for (int k = 0; k < 100000; k++)
        large[k] = (float)bt_host_uniform(3, 0, (uint64_t)k);
    const bt_stored items[] = {
        {.name = "z", .array = BT_ARRAY(&d)},
        {.name = "n", .array = BT_ARRAY(n, 1, 2, 1)},
        {.name = "large", .array = BT_ARRAY(large, 1000, 100)},
        {.name = "f16", .array = bt_array_of(BT_F16, halves, (const int64_t[]){3, BT_END})},
        {.name = "bf16", .array = bt_array_of(BT_BF16, upper, (const int64_t[]){1, 2, BT_END})},
        {.name = "nothing", .array = bt_array_of(BT_F64, NULL, (const int64_t[]){3, 0, BT_END})},
        {.name = "yes", .array = bt_array_of(BT_BOOL, yes, (const int64_t[]){3, BT_END})},
        {.name = "gr\xc3\xbc\xc3\x9f\x65 \"quoted\"", .array = BT_ARRAY(n, 2)},
    };
    enum { COUNT = sizeof items / sizeof *items };
    char *data;
    size_t size;
    bt_safetensors file;
    EXPECT_OK(bt_safetensors_write("x.safetensors", items, COUNT, NULL));
    EXPECT_OK(bt_file_read("x.safetensors", &data, &size));
    EXPECT_OK(bt_safetensors_parse("x.safetensors", data, size, &file));
    ck_assert_int_eq(file.count, COUNT);
    for (int k = 0; k < COUNT; k++) {
        const bt_array *due = &items[k].array;
        const bt_stored *found = bt_safetensors_find(&file, items[k].name);
        ck_assert_msg(found != NULL, "%s is missing", items[k].name);
        ck_assert_int_eq(found->array.dtype, due->dtype);
        ck_assert_int_eq(found->array.rank, due->rank);
        for (int axis = 0; axis < due->rank; axis++)
            ck_assert_int_eq(found->array.dims[axis], due->dims[axis]);
        if (bt_array_bytes(*due))
            ck_assert_mem_eq(found->array.data, due->data, bt_array_bytes(*due));
    }
    ck_assert_ptr_null(bt_safetensors_find(&file, "other"));
    bt_safetensors_free(&file);
    bt_free(data);
    EXPECT_OK(bt_safetensors_write("x.safetensors", NULL, 0, NULL));
    EXPECT_OK(bt_file_read("x.safetensors", &data, &size));
    ck_assert_uint_eq(size, 16);
    EXPECT_OK(bt_safetensors_parse("x.safetensors", data, size, &file));
    ck_assert_int_eq(file.count, 0);
    bt_safetensors_free(&file);
    bt_free(data);
}
END_TEST

/* ---- files with false headers ---- */

/* Parses header and data; returns the result. */
static bt_status parse(const char *header, size_t data)
{
    size_t length = strlen(header), size = 8 + length + data;
    char *bytes = bt_alloc(size); /* of exactly this size, so that a sanitizer detects reads past the end */
    for (int k = 0; k < 8; k++)
        bytes[k] = (char)(length >> (8 * k) & 255);
    memcpy(bytes + 8, header, length);
    bt_safetensors file;
    bt_status status = bt_safetensors_parse("x", bytes, size, &file);
    for (int64_t k = 0; status == BT_OK && k < file.count; k++) {
        const char *first = file.items[k].array.data;
        ck_assert(first >= bytes && first + file.items[k].bytes <= bytes + size);
    }
    bt_safetensors_free(&file);
    bt_free(bytes);
    return status;
}

#define A(dtype, shape, from, to)                                                                                      \
    "\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"
#define B(dtype, shape, from, to)                                                                                      \
    "\"b\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static const struct {
    const char *header;
    size_t data;
    const char *message; /* NULL: it is valid */
} cases[] = {
    {"{" A("F32", "[2]", "0", "8") "}", 8, NULL},
    {"{" A("F32", "[2]", "0", "8") "}    ", 8, NULL},
    {"{" A("F32", "[]", "4", "8") ", " B("U8", "[4]", "0", "4") "}", 8, NULL},
    {"{\"__metadata__\":{\"format\":\"pt\"}," A("F32", "[0,5]", "0", "0") "}", 0, NULL},
    {"{" A("F32", "[2]", "0", "8") "}", 7, "a: its `data_offsets` lie outside the file"},
    {"{" A("F32", "[2]", "0", "8") "}", 9, "bytes after the last array"},
    {"{" A("F32", "[3]", "0", "8") "}", 8, "a: its `shape` and `dtype` do not match its `data_offsets`"},
    {"{" A("F64", "[2]", "0", "8") "}", 8, "a: its `shape` and `dtype` do not match its `data_offsets`"},
    {"{" A("F32", "[1]", "4", "8") "}", 8, "a: its data do not begin where the data before them end"},
    {"{" A("F32", "[2]", "0", "8") "," B("F32", "[1]", "4", "8") "}", 8, "its data do not begin where"},
    {"{" A("F32", "[1]", "0", "4") "," B("F32", "[1]", "8", "12") "}", 12, "b: its data do not begin where"},
    {"{" A("F32", "[1]", "8", "4") "}", 8, "a: its `data_offsets` lie outside"},
    {"{" A("F32", "[1]", "-4", "0") "}", 8, "a: its `data_offsets` must be two whole numbers"},
    {"{" A("F32", "[1]", "0", "4.0") "}", 4, "a: its `data_offsets` must be two whole numbers"},
    {"{" A("F32", "[1]", "0", "4,8") "}", 4, "a: its `data_offsets` must be two whole numbers"},
    {"{" A("F32", "[1]", "0", "18446744073709551620") "}", 4, "the header is not JSON"},
    {"{" A("F32", "[4611686018427387905]", "0", "4") "}", 4, "a: its `shape` and `dtype` do not match"},
    {"{" A("F32", "[4294967296,4294967297]", "0", "4") "}", 4, "a: its `shape` and `dtype` do not match"},
    {"{" A("F32", "[0,9223372036854775807,9223372036854775807]", "0", "4") "}", 4, "do not match"},
    {"{" A("F32", "[-1]", "0", "4") "}", 4, "a: a size in its `shape` is not a whole number"},
    {"{" A("F32", "[1.0]", "0", "4") "}", 4, "a: a size in its `shape` is not a whole number"},
    {"{" A("F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, NULL}, /* harmless, unless it is needed */
    {"{" A("F8_E4M3", "[7,-1]", "0", "4") "}", 4, "a: a size in its `shape` is not a whole number"},
    {"{" A("F16", "[3]", "0", "4") "}", 4, "a: its `shape` and `dtype` do not match"},
    {"{" A("F16", "[9223372036854775807]", "0", "4") "}", 4, "a: its `shape` and `dtype` do not match"},
    {"{" A("F32", "1", "0", "4") "}", 4, "a: its `shape` must be a list"},
    {"{" A("BF16", "[2]", "0", "4") "}", 4, NULL},
    {"{" A("F8_E4M3", "[4]", "0", "4") "}", 4, NULL},
    {"{" A("", "[1]", "0", "4") "}", 4, "a: its `dtype` must be a text, such as F32"},
    {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a: its `dtype` must be a text, such as F32"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "a: its entry must be an object of"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4,
     "a: its entry must be an object"},
    {"{\"a\":[]}", 4, "a: its entry must be an object"},
    {"{" A("F32", "[1]", "0", "4") "," A("F32", "[1]", "4", "8") "}", 8, "the header is not JSON: duplicate"},
    {"{\"__metadata__\":7}", 0, "__metadata__: it must be an object with texts"},
    {"{\"__metadata__\":{\"format\":7}}", 0, "__metadata__: it must be an object with texts"},
    {"[]", 0, "the header does not begin with {"},
    {" {}", 0, "the header does not begin with {"},
    {"", 0, "the header does not begin with {"},
    {"{", 0, "the header is not JSON"},
    {"{} x", 0, "the header is not JSON"},
    {"{\"a\xff\":{}}", 0, "the header is not JSON"},
};

START_TEST(hostile_headers)
{
    bt_error_clear();
    bt_status status = parse(cases[_i].header, cases[_i].data);
    ck_assert_int_eq(status, cases[_i].message ? BT_ERROR_FILE : BT_OK);
    if (cases[_i].message) {
        ck_assert_int_eq(strncmp(bt_error(), "x: ", 3), 0);
        ck_assert_msg(strstr(bt_error(), cases[_i].message) != NULL, "%s", bt_error());
    }
}
END_TEST

START_TEST(hostile_lengths)
{
    static const uint64_t lengths[] = {9, 100000001, UINT64_C(1) << 32, UINT64_MAX, UINT64_MAX - 7};
    bt_safetensors file;
    for (size_t size = 0; size < 8; size++) {
        bt_error_clear();
        ck_assert_int_eq(bt_safetensors_parse("x", "\2\0\0\0\0\0\0", size, &file), BT_ERROR_FILE);
        ck_assert_str_eq(bt_error(), "x: too short for a safetensors file, which begins with 8 bytes");
        bt_safetensors_free(&file);
    }
    for (int k = 0; k < 5; k++) {
        char bytes[16] = {0};
        for (int b = 0; b < 8; b++)
            bytes[b] = (char)(lengths[k] >> (8 * b) & 255);
        bt_error_clear();
        ck_assert_int_eq(bt_safetensors_parse("x", bytes, sizeof bytes, &file), BT_ERROR_FILE);
        ck_assert_ptr_nonnull(strstr(bt_error(), "bytes long, but the file has 8"));
        bt_safetensors_free(&file);
    }
}
END_TEST

/* Many random changes of bytes: either a message, or a result within the bytes. */
START_TEST(random_damage)
{
    static const char header[] = "{" A("F32", "[2]", "0", "8") "," B("I64", "[1,2]", "8", "24") "}";
    char changed[sizeof header];
    for (uint64_t round = 0; round < 3000; round++) {
        memcpy(changed, header, sizeof header);
        for (uint64_t k = 0; k < 1 + round % 3; k++) {
            double where = bt_host_uniform(9, round, 2 * k), what = bt_host_uniform(9, round, 2 * k + 1);
            static const char letters[] = "0123456789-.,:[]{}\"eFI ";
            changed[(int)(where * (sizeof header - 1))] = letters[(int)(what * (sizeof letters - 1))];
        }
        bt_error_clear();
        bt_status status = parse(changed, 24);
        ck_assert(status == BT_OK || (status == BT_ERROR_FILE && *bt_error()));
    }
}
END_TEST

/* Half precision, by bits: IEEE 754, and the upper half of a float. */
START_TEST(halves)
{
    static const struct {
        uint16_t bits;
        double f16, bf16;
    } cases[] = {
        {0x0000, 0, 0},
        {0x3c00, 1, 0.0078125},
        {0x3f80, 1.875, 1},
        {0xc000, -2, -2},
        {0x0001, 0x1p-24, 0x1p-133},
        {0x83ff, -1023 * 0x1p-24, -0x1.fep-120},
        {0x7bff, 65504, 0x1.fep120},
        {0x4248, 3.140625, 50},
        {0x7c00, (double)INFINITY, 0x1p121},
        {0x7f80, (double)NAN, (double)INFINITY},
        {0xffff, (double)NAN, (double)NAN},
    };
    enum { N = sizeof cases / sizeof *cases };
    for (int form = 0; form < 2; form++) {
        char bytes[512], header[256];
        int length = snprintf(header, sizeof header,
                              "{\"u\":{\"dtype\":\"F8_E5M2\",\"shape\":[1],\"data_offsets\":[0,1]},"
                              "\"a\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[1,%d]}}",
                              form ? "BF16" : "F16", N, 1 + 2 * N);
        memset(bytes, 0, 8);
        bytes[0] = (char)length;
        memcpy(bytes + 8, header, (size_t)length);
        for (int i = 0; i < N; i++)
            memcpy(bytes + 8 + length + 1 + 2 * i, &cases[i].bits, 2); /* not aligned */
        bt_safetensors file;
        double values[N];
        EXPECT_OK(bt_safetensors_parse("x", bytes, (size_t)(8 + length + 1 + 2 * N), &file));
        EXPECT_OK(bt_stored_values(bt_safetensors_find(&file, "a"), BT_ARRAY(values, N)));
        for (int i = 0; i < N; i++) {
            double due = form ? cases[i].bf16 : cases[i].f16;
            ck_assert_msg(values[i] == due || (values[i] != values[i] && due != due), "%04x: %.9g, not %.9g",
                          cases[i].bits, values[i], due);
        }
        ck_assert_int_eq(bt_stored_values(bt_safetensors_find(&file, "u"), BT_ARRAY(values, 1)), BT_ERROR_FILE);
        ck_assert_msg(strstr(bt_error(), "\"u\" is of dtype F8_E5M2") != NULL, "%s", bt_error());
        bt_error_clear();
        bt_safetensors_free(&file);
    }
}
END_TEST

START_TEST(other_formats)
{
    static const struct {
        const char *bytes, *what;
    } cases[] = {
        {"PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0", "a zip archive, as torch.save (.pt"},
        {"\x80\2\x8a\nl\xfc\x9c\x46\xf9 jP.\0\0", "a Python pickle"},
        {"\x93NUMPY\1\0v\0{'descr'", "NumPy"},
        {"\x89HDF\r\n\x1a\n\0\0\0\0\0\0\0\0", "HDF5"},
        {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
        {"<!DOCTYPE html><html lang=\"en\">", "a web page"},
    };
    for (int i = 0; i < 6; i++) {
        bt_safetensors file;
        ck_assert_int_eq(bt_safetensors_parse("model.pt", cases[i].bytes, i < 4 ? 16 : 30, &file), BT_ERROR_FILE);
        ck_assert_msg(strncmp(bt_error(), "model.pt: this is ", 18) == 0 && strstr(bt_error(), cases[i].what) &&
                          strstr(bt_error(), "safetensors.torch.save_file"),
                      "%s", bt_error());
        bt_error_clear();
        bt_safetensors_free(&file);
    }
}
END_TEST

/* ---- errors of writing and reading ---- */

START_TEST(names)
{
    const bt_stored twice[] = {{.name = "a", .array = BT_ARRAY(&(float){1})},
                               {.name = "a", .array = BT_ARRAY(&(double){1})}};
    const bt_stored none[] = {{.name = NULL, .array = BT_ARRAY(&(float){1})}},
                    reserved[] = {{.name = "__metadata__", .array = BT_ARRAY(&(float){1})}},
                    bytes[] = {{.name = "\xff", .array = BT_ARRAY(&(float){1})}};
    ck_assert_int_eq(bt_safetensors_write("x.safetensors", twice, 2, NULL), BT_ERROR_ARGUMENT);
    ck_assert_str_eq(bt_error(), "`a` is the name of two arrays of one file, or cannot be a name");
    ck_assert_int_eq(bt_safetensors_write("x.safetensors", none, 1, NULL), BT_ERROR_ARGUMENT);
    ck_assert_int_eq(bt_safetensors_write("x.safetensors", reserved, 1, NULL), BT_ERROR_ARGUMENT);
    ck_assert_int_eq(bt_safetensors_write("x.safetensors", bytes, 1, NULL), BT_ERROR_ARGUMENT);
    ck_assert_int_eq(bt_safetensors_write(NULL, twice, 1, NULL), BT_ERROR_ARGUMENT);
    ck_assert_int_eq(bt_safetensors_write("x.safetensors", NULL, 1, NULL), BT_ERROR_ARGUMENT);
    ck_assert_int_eq(bt_safetensors_parse(NULL, NULL, 0, NULL), BT_ERROR_ARGUMENT);
    ck_assert_ptr_null(bt_safetensors_find(NULL, "a"));
    bt_safetensors_free(NULL);
    ck_assert_int_ne(access("x.safetensors", F_OK), 0);
}
END_TEST

START_TEST(a_full_disk)
{
    static float values[40000];
    const bt_stored one[] = {{.name = "one", .array = BT_ARRAY(values, 3)}},
                    many[] = {{.name = "many", .array = BT_ARRAY(values, 40000)}};
    struct rlimit limit;
    char *data;
    size_t size, length;
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_OK(bt_safetensors_write("x.safetensors", one, 1, NULL));
    EXPECT_OK(bt_file_read("x.safetensors", &data, &size));
    bt_free(data);
    for (rlim_t room = 0; room < 160000; room += 39000) {
        bt_error_clear();
        getrlimit(RLIMIT_FSIZE, &limit);
        limit.rlim_cur = room;
        setrlimit(RLIMIT_FSIZE, &limit);
        bt_status status = bt_safetensors_write("x.safetensors", many, 1, NULL);
        limit.rlim_cur = RLIM_INFINITY;
        setrlimit(RLIMIT_FSIZE, &limit);
        ck_assert_int_eq(status, BT_ERROR_FILE);
        ck_assert_str_eq(bt_error(), "x.safetensors cannot be written: File too large");
        EXPECT_OK(bt_file_read("x.safetensors", &data, &length)); /* the old contents are unchanged */
        ck_assert_uint_eq(length, size);
        bt_free(data);
        ck_assert_int_ne(access("x.safetensors.tmp", F_OK), 0);
    }
}
END_TEST

START_TEST(no_file)
{
    char *data;
    size_t size;
    ck_assert_int_eq(bt_file_read("missing", &data, &size), BT_ERROR_FILE);
    ck_assert_str_eq(bt_error(), "missing cannot be read: No such file or directory");
    bt_error_clear();
    ck_assert_int_eq(bt_file_read("/dev/null", &data, &size), BT_ERROR_FILE);
    ck_assert_str_eq(bt_error(), "/dev/null cannot be read: it is not a regular file");
    ck_assert_ptr_null(data);
    bt_error_clear();
    ck_assert_int_eq(bt_file_read(NULL, NULL, NULL), BT_ERROR_ARGUMENT);
    ck_assert_ptr_null(bt_writer_open(NULL));
    bt_writer_put(NULL, "x", 1);
    ck_assert_int_ne(bt_writer_close(NULL, true, NULL), BT_OK);
    bt_folder_sync(NULL);
    bt_error_clear();
    ck_assert_int_eq(mkdir("file.tmp", 0777), 0);
    bt_writer *writer = bt_writer_open("file");
    bt_writer_put(writer, "x", 1);
    ck_assert_int_eq(bt_writer_close(writer, true, NULL), BT_ERROR_FILE);
    ck_assert_str_eq(bt_error(), "file cannot be written: Is a directory");
    writer = bt_writer_open("dropped");
    bt_writer_put(writer, "x", 1);
    ck_assert_int_eq(bt_writer_close(writer, false, NULL), BT_OK); /* leaves nothing: see teardown */
}
END_TEST

/* A path that is not a regular file is written to, and stays what it is. */
START_TEST(a_pipe)
{
    char *data;
    size_t size;
    char read_back[8] = "";
    ck_assert_int_eq(mkfifo("pipe", 0666), 0);
    int reader = open("pipe", O_RDONLY | O_NONBLOCK);
    bt_writer *writer = bt_writer_open("pipe");
    bt_writer_put(writer, "rows", 4);
    ck_assert_int_eq(bt_writer_close(writer, true, NULL), BT_OK);
    ck_assert_int_eq(read(reader, read_back, sizeof read_back), 4);
    ck_assert_str_eq(read_back, "rows");
    close(reader);
    ck_assert_int_eq(bt_file_read("pipe", &data, &size), BT_ERROR_FILE);
    ck_assert_str_eq(bt_error(), "pipe cannot be read: it is not a regular file");
    bt_error_clear();
    ck_assert_int_eq(symlink("/dev/full", "full"), 0);
    writer = bt_writer_open("full");
    bt_writer_put(writer, "rows", 4);
    ck_assert_int_eq(bt_writer_close(writer, true, NULL), BT_ERROR_FILE);
    ck_assert_str_eq(bt_error(), "full cannot be written: No space left on device");
    bt_error_clear();
    ck_assert_int_eq(unlink("pipe") | unlink("full"), 0); /* there are no other files: see teardown */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tests = tcase_create("safetensors");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_is_written);
    tcase_add_test(tests, reads_back);
    tcase_add_loop_test(tests, hostile_headers, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tests, hostile_lengths);
    tcase_add_test(tests, random_damage);
    tcase_add_test(tests, halves);
    tcase_add_test(tests, other_formats);
    tcase_add_test(tests, names);
    tcase_add_test(tests, a_full_disk);
    tcase_add_test(tests, no_file);
    tcase_add_test(tests, a_pipe);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
