/* Rows of batches, converted by each instruction set, against plain loops; floats stored as bytes against the same
 * floats stored as floats. */
#include "backend/cpu/cpu.h"
#include "data/dataset.h"
#include "files.h"

#include "support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const isas[] = {"generic", "v3", "v4"};

static void *room(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1); /* not a byte more, so that a sanitizer notices */
    ck_assert_ptr_nonnull(memory);
    return memory;
}

/* ---- conversions ---- */

enum { GUARD = 8, MOST = 300 };

static void check_bytes(const bt_conversions *convert, int64_t count, int first)
{
    uint8_t *from = room((size_t)count);
    float *narrow = room(sizeof *narrow * (size_t)(count + GUARD));
    double *wide = room(sizeof *wide * (size_t)(count + GUARD));
    for (int64_t i = 0; i < count; i++)
        from[i] = (uint8_t)(first + i);
    for (int64_t i = count; i < count + GUARD; i++)
        narrow[i] = -7, wide[i] = -7;
    convert->pixels_to_f32(count, from, narrow);
    for (int64_t i = 0; i < count; i++)
        ck_assert_mem_eq(&narrow[i], &(float){(float)from[i] / 255.0F}, sizeof(float));
    convert->pixels_to_f64(count, from, wide);
    for (int64_t i = 0; i < count; i++)
        ck_assert_mem_eq(&wide[i], &(double){from[i] / 255.0}, sizeof(double));
    convert->floats_to_f64(count, from, wide);
    for (int64_t i = 0; i < count; i++)
        ck_assert_mem_eq(&wide[i], &(double){(float)from[i] / 255.0F}, sizeof(double));
    convert->f64_to_f32(count, wide, narrow);
    for (int64_t i = 0; i < count; i++)
        ck_assert_mem_eq(&narrow[i], &(float){(float)from[i] / 255.0F}, sizeof(float));
    convert->f32_to_f64(count, narrow, wide);
    for (int64_t i = 0; i < count; i++)
        ck_assert(wide[i] == (double)narrow[i]);
    for (int64_t i = count; i < count + GUARD; i++)
        ck_assert(narrow[i] == -7 && wide[i] == -7);
    free(from);
    free(narrow);
    free(wide);
}

START_TEST(every_byte_and_length)
{
    int tried = 0;
    for (int k = 0; k < BT_COUNT_OF(isas); k++) {
        const bt_conversions *convert = bt_cpu_conversions(isas[k]);
        if (!convert)
            continue; /* not supported by this machine */
        for (int64_t count = 0; count < 80; count++)
            check_bytes(convert, count, (int)(count * 37));
        check_bytes(convert, MOST, 0);
        tried++;
    }
    ck_assert_int_ge(tried, 1);
}
END_TEST

/* ---- rows ---- */

static double number(int64_t row, int64_t k) { return floor(256 * bt_host_uniform(3, (uint64_t)row, (uint64_t)k)); }

/* The contents of a store of that kind, and, depending on `f64`, the expected batch in that precision. */
typedef struct kind {
    bt_dtype dtype;
    bool scaled, single;
} kind;

static const kind kinds[] = {{BT_U8, true, false},   {BT_U8, true, true},    {BT_F32, false, false},
                             {BT_F64, false, false}, {BT_I32, false, false}, {BT_U8, false, false}};

static double wanted(kind of, double x, bt_dtype dtype)
{
    if (of.scaled && (of.single || dtype == BT_F32))
        return (double)((float)x / 255.0F);
    if (of.scaled)
        return x / 255.0;
    return of.dtype == BT_F64 && dtype == BT_F32 ? (double)(float)(x / 7) : of.dtype == BT_F64 ? x / 7 : x;
}

/* The rows of a batch: some at random; all in order; the same, except for the last. */
enum { ROWS = 50 };
typedef enum way { LOOSE_ONES, ONE_PIECE, BUT_THE_LAST, WAYS } way;

static void choose_places(way how, int64_t count, int32_t *places)
{
    for (int64_t i = 0; i < count; i++)
        if (how == LOOSE_ONES)
            places[i] = i == 0 ? ROWS - 1 : (int32_t)(ROWS * bt_host_uniform(5, (uint64_t)count, (uint64_t)i));
        else
            places[i] = (int32_t)(1 + count % 7 + i) - (how == BUT_THE_LAST && i == count - 1);
}

static void check_rows(kind of, int64_t width, bool mapped, bt_dtype floats)
{
    bt_array array = {.dtype = of.dtype, .rank = 2, .dims = {ROWS, width}};
    array.data = bt_alloc(bt_array_bytes(array));
    ck_assert_ptr_nonnull(array.data);
    double *values = room(sizeof *values * (size_t)(ROWS * width));
    for (int64_t i = 0; i < ROWS * width; i++) {
        values[i] = number(i / width, i % width);
        bt_put(of.dtype, array.data, i, values[i] / (of.dtype == BT_F64 ? 7 : 1));
    }
    bt_store *store = bt_store_new(array, of.scaled);
    store->single = of.single;
    bt_rows *rows = room(sizeof *rows + ROWS * sizeof rows->at[0]);
    for (int32_t i = 0; i < ROWS; i++)
        rows->at[i] = (i * 7 + 3) % ROWS;
    const bt_column column = {.store = store, .rows = mapped ? rows : NULL};
    const bt_dtype dtype = bt_store_dtype(store, floats);
    for (int64_t turn = WAYS; turn < WAYS * 41; turn++) {
        const int64_t count = turn / WAYS;
        int32_t places[40];
        choose_places((way)(turn % WAYS), count, places);
        char *out = room((size_t)(count * width) * bt_dtype_size(dtype));
        bt_gather_rows(&column, places, count, dtype, out, 1);
        for (int64_t i = 0; i < count * width; i++) {
            int32_t row = mapped ? rows->at[places[i / width]] : places[i / width];
            double found = bt_get(dtype, out, i), due = wanted(of, values[row * width + i % width], dtype);
            if (found != due)
                ck_abort_msg("row %lld of %lld, number %lld of %lld: %.17g, not %.17g", (long long)i / width,
                             (long long)count, (long long)i % width, (long long)width, found, due);
        }
        free(out);
    }
    free(rows);
    free(values);
    bt_store_release(store);
}

START_TEST(rows_are_those_asked_for)
{
    static const int64_t widths[] = {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 65, 128, 255, 784, 1023, 1024, 1025, 1300};
    for (int k = 0; k < BT_COUNT_OF(widths); k++)
        check_rows(kinds[_i], widths[k], k % 2, k % 3 ? BT_F32 : BT_F64);
    check_rows(kinds[_i], 784, true, BT_F32);
    check_rows(kinds[_i], 784, false, BT_F64);
}
END_TEST

/* ---- floats stored as bytes ---- */

static size_t bytes_of(const float *x, int64_t count, float *back, double *wide)
{
    for (int precise = 0; precise < 2; precise++) {
        bt_dataset *data = bt_dataset_new(count);
        ck_assert_int_eq(bt_dataset_add(data, "x", BT_ARRAY((float *)(uintptr_t)x, count)), BT_OK);
        size_t bytes = bt_dataset_bytes(data);
        bt_loader_options options = bt_loader_defaults();
        options.dtype = precise ? BT_F64 : BT_F32;
        bt_loader *loader = bt_loader_open(data, &options);
        const bt_batch *batch = NULL;
        ck_assert_int_eq(bt_loader_draw(loader, &batch), BT_OK);
        memcpy(precise ? (void *)wide : back, field_of(batch, "x")->array.data,
               (size_t)count * (precise ? sizeof *wide : sizeof *back));
        bt_loader_free(loader);
        if (precise)
            return bytes;
    }
    return 0;
}

/* One byte each if all are x/255 in f32; batches have exactly the given numbers, in both precisions. */
START_TEST(floats_that_are_bytes)
{
    enum { N = 700 };
    static float x[N], back[N];
    static double wide[N];
    const float others[] = {nextafterf(1.0F / 255, 1),
                            nextafterf(254.0F / 255, 0),
                            -0.0F,
                            NAN,
                            INFINITY,
                            -1.0F / 255,
                            nextafterf(1, 2),
                            256.0F / 255,
                            0.5F,
                            1e30F,
                            -1e30F,
                            1e-45F};
    static const int places[] = {0, 1, 255, 256, 511, 512, N - 2, N - 1};
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 256) / 255.0F;
    ck_assert_uint_eq(bytes_of(x, N, back, wide), N);
    for (int k = 0; k <= BT_COUNT_OF(others); k++)
        for (int p = 0; p < BT_COUNT_OF(places); p++) {
            const int at = places[p];
            const float before = x[at];
            if (k < BT_COUNT_OF(others)) {
                x[at] = others[k];
                ck_assert_uint_eq(bytes_of(x, N, back, wide), N * sizeof *x);
            }
            ck_assert_mem_eq(back, x, sizeof x);
            for (int i = 0; i < N; i++)
                if (wide[i] != (double)x[i] && !(isnan(wide[i]) && isnan(x[i])))
                    ck_abort_msg("number %d: %.17g, not %.17g", i, wide[i], (double)x[i]);
            x[at] = before;
            if (k == BT_COUNT_OF(others))
                return;
            bytes_of(x, N, back, wide);
        }
}
END_TEST

/* ---- stored as bytes or as floats: the same sets ---- */

enum { EXAMPLES = 24, SIDE = 6, CHANNELS = 3 };

static void add(bt_dataset *data, const char *name, bt_array shape, int most, bool as_bytes)
{
    float *x = bt_alloc_array((size_t)bt_array_count(shape), sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < bt_array_count(shape); i++)
        x[i] = most == 1 ? (float)(i * i % 3 == 1) : (float)number(9, i) / 255.0F;
    shape.dtype = BT_F32;
    shape.data = x;
    if (as_bytes) {
        ck_assert_int_eq(bt_dataset_add(data, name, shape), BT_OK);
        bt_free(x);
    } else
        ck_assert_int_eq(bt_dataset_take(data, name, bt_store_new(shape, false)), BT_OK);
}

/* Image, x with 300 columns, and y with values 0 and 1. */
static bt_dataset *examples(bool as_bytes)
{
    bt_dataset *data = bt_dataset_new(EXAMPLES);
    add(data, "image", (bt_array){.rank = 4, .dims = {EXAMPLES, SIDE, SIDE, CHANNELS}}, 255, as_bytes);
    add(data, "x", (bt_array){.rank = 2, .dims = {EXAMPLES, 301}}, 255, as_bytes);
    add(data, "y", (bt_array){.rank = 1, .dims = {EXAMPLES}}, 1, as_bytes);
    return data;
}

static bt_dataset *as_it_is(bt_dataset *d) { return d; }
static bt_dataset *labelled(bt_dataset *d) { return bt_dataset_label(d, "y"); }
static bt_dataset *standard(bt_dataset *d) { return bt_dataset_standardize(d, "x", NULL); }
static bt_dataset *dropped(bt_dataset *d) { return bt_dataset_drop(bt_dataset_part(d, 0, 0.7, 4), "17"); }
static bt_dataset *noisy(bt_dataset *d) { return bt_dataset_label_noise(d, 0.4, 3); }
static bt_dataset *noisy_part(bt_dataset *d) { return noisy(bt_dataset_part(d, 0.2, 0.9, 6)); }
static bt_dataset *per_class(bt_dataset *d) { return bt_dataset_per_class(d, 1, 6, 2); }
static bt_dataset *turned(bt_dataset *d) { return bt_dataset_rotations(d); }
static bt_dataset *cropped(bt_dataset *d) { return bt_dataset_flip(bt_dataset_crop(d, 2, 1), 8); }
static bt_dataset *blended(bt_dataset *d) { return bt_dataset_mixup(cropped(labelled(d)), 0.7, 5); }
static bt_dataset *tasks(bt_dataset *d) { return bt_dataset_tasks(d, 2, 2, 3, 1); }
static bt_dataset *normal(bt_dataset *d)
{
    static const double mean[CHANNELS] = {0.5, 0.25, 0.1}, deviation[CHANNELS] = {0.3, 2, 0.7};
    return bt_dataset_cutout(bt_dataset_normalize(cropped(d), BT_ARRAY(mean, CHANNELS), BT_ARRAY(deviation, CHANNELS)),
                             2, 3);
}

static bt_dataset *(*const ways[])(bt_dataset *) = {as_it_is,  labelled, standard, dropped, noisy, noisy_part,
                                                    per_class, turned,   cropped,  blended, tasks, normal};

static void mix_hash(void *user, const char *prefix, const char *name, uint64_t hash)
{
    uint64_t *all = user;
    *all = bt_hash(bt_hash_text(bt_hash_text(*all, prefix), name), &hash, sizeof hash);
}

START_TEST(batches_and_digests_of_both)
{
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = 7;
    for (int precise = 0; precise < 2; precise++) {
        options.dtype = precise ? BT_F64 : BT_F32;
        bt_loader *loaders[2];
        uint64_t hashes[2] = {0};
        for (int k = 0; k < 2; k++) {
            bt_dataset *data = examples(k == 0);
            ck_assert_uint_eq(bt_dataset_bytes(data),
                              (size_t)EXAMPLES * (SIDE * SIDE * CHANNELS + 302) * (k ? sizeof(float) : 1));
            loaders[k] = bt_loader_open(ways[_i](data), &options);
            ck_assert_msg(loaders[k] != NULL, "%s", bt_error());
            bt_loader_hash(loaders[k], mix_hash, &hashes[k]);
        }
        ck_assert_uint_eq(hashes[0], hashes[1]); /* a run can resume from the checkpoint of either */
        for (int i = 0; i < 12; i++) {
            const bt_batch *batch[2] = {NULL, NULL};
            for (int k = 0; k < 2; k++)
                ck_assert_int_eq(bt_loader_draw(loaders[k], &batch[k]), BT_OK);
            ck_assert_int_eq(batch[0]->field_count, batch[1]->field_count);
            for (int f = 0; f < batch[0]->field_count; f++) {
                const bt_array a = batch[0]->fields[f].array, b = batch[1]->fields[f].array;
                ck_assert(bt_array_same(a, b));
                ck_assert_mem_eq(a.data, b.data, bt_array_bytes(a));
            }
        }
        bt_loader_free(loaders[0]);
        bt_loader_free(loaders[1]);
    }
}
END_TEST

/* Tables are also stored that way, if they consist of zeros and ones. */
START_TEST(tables_of_zeros_and_ones)
{
    write_text("a.csv", "p,q,y\n0,1,2\n1,1,3\n0,0,4\n");
    bt_dataset *data = bt_dataset_open(path_of("a.csv"), "train");
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_uint_eq(bt_dataset_bytes(data), 6 + 3 * sizeof(float));
    static const double x[] = {0, 1, 1, 1, 0, 0};
    ck_assert_mem_eq(f64_of(whole(data), "x"), x, sizeof x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.gather");
    ADD_CASE(suite, every_byte_and_length);
    ADD_CASE(suite, floats_that_are_bytes);
    ADD_CASE(suite, tables_of_zeros_and_ones);
    TCase *loops = tcase_create("loops");
    tcase_set_timeout(loops, 60);
    tcase_add_checked_fixture(loops, files_setup, files_teardown);
    tcase_add_loop_test(loops, rows_are_those_asked_for, 0, BT_COUNT_OF(kinds));
    tcase_add_loop_test(loops, batches_and_digests_of_both, 0, BT_COUNT_OF(ways));
    suite_add_tcase(suite, loops);
    return run_suite(suite);
}
