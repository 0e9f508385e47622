/* files.c: shared by the tests of data sets. */
#include "files.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char folder[256];
static bt_loader *loaders[64];
static int loader_count;

void files_setup(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/betty-test-XXXXXX", base && *base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    unsetenv("BETTY_DATA");
    loader_count = 0;
    bt_error_clear();
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

void files_forget(void)
{
    while (loader_count > 0)
        bt_loader_free(loaders[--loader_count]);
}

void files_teardown(void)
{
    files_forget();
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *path_of(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void make_folder(const char *name) { ck_assert_int_eq(mkdir(path_of(name), 0700), 0); }

void write_bytes(const char *name, const void *bytes, size_t size)
{
    size_t length = strlen(name);
    if (length > 3 && strcmp(name + length - 3, ".gz") == 0) {
        gzFile file = gzopen(path_of(name), "wb");
        ck_assert_ptr_nonnull(file);
        ck_assert_uint_eq((size_t)gzwrite(file, bytes, (unsigned)size), size);
        ck_assert_int_eq(gzclose(file), Z_OK);
        return;
    }
    FILE *file = fopen(path_of(name), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

void write_text(const char *name, const char *text) { write_bytes(name, text, strlen(text)); }

void write_idx(const char *name, int rank, const uint32_t *dims, int first, int modulo)
{
    size_t count = 1, at = 0;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    unsigned char *bytes = malloc(4 + 4 * (size_t)rank + count);
    ck_assert_ptr_nonnull(bytes);
    const unsigned char magic[4] = {0, 0, 8, (unsigned char)rank};
    for (; at < 4; at++)
        bytes[at] = magic[at];
    for (int i = 0; i < rank; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            bytes[at++] = (unsigned char)(dims[i] >> shift);
    for (size_t i = 0; i < count; i++)
        bytes[at++] = (unsigned char)(((size_t)first + i) % (size_t)modulo);
    write_bytes(name, bytes, at);
    free(bytes);
}

const bt_batch *whole(bt_dataset *data)
{
    bt_loader_options options = bt_loader_defaults();
    options.dtype = BT_F64;
    bt_loader *loader = bt_loader_open(data, &options);
    ck_assert_msg(loader != NULL, "%s", bt_error());
    ck_assert_int_lt(loader_count, BT_COUNT_OF(loaders));
    loaders[loader_count++] = loader;
    const bt_batch *batch;
    ck_assert_int_eq(bt_loader_draw(loader, &batch), BT_OK);
    return batch;
}

const bt_batch_field *field_of(const bt_batch *batch, const char *name)
{
    for (int i = 0; i < batch->field_count; i++)
        if (strcmp(batch->fields[i].name, name) == 0)
            return &batch->fields[i];
    ck_abort_msg("no field %s", name);
    return NULL;
}

const double *f64_of(const bt_batch *batch, const char *name)
{
    const bt_batch_field *field = field_of(batch, name);
    ck_assert_int_eq(field->array.dtype, BT_F64);
    return field->array.data;
}

const int32_t *i32_of(const bt_batch *batch, const char *name)
{
    const bt_batch_field *field = field_of(batch, name);
    ck_assert_int_eq(field->array.dtype, BT_I32);
    return field->array.data;
}

void expect_failure_(bt_status status, const char *const *pieces)
{
    ck_assert_msg(bt_error_status() == status, "status %d, expected %d: %s", bt_error_status(), status, bt_error());
    for (; *pieces; pieces++)
        ck_assert_msg(strstr(bt_error(), *pieces) != NULL, "\"%s\" is not in: %s", *pieces, bt_error());
    bt_error_clear();
}

void expect_no_failure(void) { ck_assert_str_eq(bt_error(), ""); }

bt_dataset *numbered(int64_t count, int classes)
{
    double *x = malloc((size_t)count * 2 * sizeof *x);
    int32_t *label = malloc((size_t)count * sizeof *label);
    ck_assert(x && label);
    for (int64_t i = 0; i < count; i++) {
        x[2 * i] = (double)i;
        x[2 * i + 1] = (double)-i;
        label[i] = (int32_t)(i % classes);
    }
    bt_dataset *data = bt_dataset_new(count);
    ck_assert_int_eq(bt_dataset_add(data, "x", BT_ARRAY(x, count, 2)), BT_OK);
    ck_assert_int_eq(bt_dataset_add(data, "label", BT_ARRAY(label, count)), BT_OK);
    free(x);
    free(label);
    return data;
}

void add_case_(Suite *suite, const char *name, const TTest *test)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, files_setup, files_teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test);
    suite_add_tcase(suite, tcase);
}
