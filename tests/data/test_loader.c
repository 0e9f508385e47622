/* Loaders: epochs, orders, short batches, seeking, prefetching, joined sets. */
#include "files.h"

#include "support/suite.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A set of images [h, w] whose pixels identify the example, wide enough to be gathered on a thread. */
static bt_dataset *wide(int64_t count, int64_t numbers)
{
    float *x = malloc((size_t)(count * numbers) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < count * numbers; i++)
        x[i] = (float)(i / numbers) + (float)(i % numbers) / 4096;
    bt_dataset *data = bt_dataset_new(count);
    ck_assert_int_eq(bt_dataset_add(data, "x", BT_ARRAY(x, count, numbers)), BT_OK);
    free(x);
    return data;
}

static bt_loader *open_loader(bt_dataset *data, int64_t batch_size, uint64_t seed, bool prefetch)
{
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = batch_size;
    options.seed = seed;
    options.prefetch = prefetch;
    bt_loader *loader = bt_loader_open(data, &options);
    ck_assert_msg(loader != NULL, "%s", bt_error());
    return loader;
}

static const bt_batch *draw(bt_loader *loader)
{
    const bt_batch *batch = NULL;
    ck_assert_int_eq(bt_loader_draw(loader, &batch), BT_OK);
    ck_assert_ptr_nonnull(batch);
    return batch;
}

/* The indices of one epoch, in the order drawn; x must belong to that example. */
static void draw_epoch(bt_loader *loader, int32_t *places, int64_t count)
{
    int64_t at = 0;
    for (int64_t b = 0; b < bt_loader_per_epoch(loader); b++) {
        const bt_batch *batch = draw(loader);
        const int32_t *index = i32_of(batch, "index");
        const bt_batch_field *x = field_of(batch, "x");
        int64_t numbers = x->array.dims[1];
        for (int64_t i = 0; i < bt_batch_count(batch); i++) {
            ck_assert_int_lt(at, count);
            ck_assert_float_eq(((const float *)x->array.data)[i * numbers], (float)index[i]);
            places[at++] = index[i];
        }
    }
    ck_assert_int_eq(at, count);
}

static bool is_permutation(const int32_t *places, int64_t count)
{
    bool *seen = calloc((size_t)count, sizeof *seen), good = true;
    for (int64_t i = 0; i < count; i++) {
        good = good && places[i] >= 0 && places[i] < count && !seen[places[i]];
        if (good)
            seen[places[i]] = true;
    }
    free(seen);
    return good;
}

START_TEST(epochs)
{
    enum { N = 103 };
    int32_t places[3][N], again[N];
    bt_loader *loader = open_loader(wide(N, 2), 10, 5, false);
    ck_assert_int_eq(bt_loader_per_epoch(loader), 11);
    for (int e = 0; e < 3; e++) {
        ck_assert_int_eq(bt_loader_epoch(loader), e);
        ck_assert_int_eq(bt_loader_position(loader), 11 * e);
        draw_epoch(loader, places[e], N);
        ck_assert(is_permutation(places[e], N));
    }
    int fixed = 0, same = 0;
    for (int i = 0; i < N; i++) {
        fixed += places[0][i] == i;
        same += places[0][i] == places[1][i];
    }
    ck_assert_int_lt(fixed, 8); /* Poisson, mean 1 */
    ck_assert_int_lt(same, 8);
    bt_loader_free(loader);
    loader = open_loader(wide(N, 2), 10, 5, false);
    draw_epoch(loader, again, N);
    ck_assert_mem_eq(again, places[0], sizeof again);
    bt_loader_free(loader);
    loader = open_loader(wide(N, 2), 10, 6, false);
    draw_epoch(loader, again, N);
    ck_assert_mem_ne(again, places[0], sizeof again);
    bt_loader_free(loader);
    /* The order depends on the seed and the epoch, not on the batch size. */
    loader = open_loader(wide(N, 2), 7, 5, false);
    draw_epoch(loader, again, N);
    ck_assert_mem_eq(again, places[0], sizeof again);
    bt_loader_free(loader);
}
END_TEST

START_TEST(short_batches_and_shapes)
{
    const bt_batch *shapes[2] = {NULL, NULL};
    bt_loader *loader = open_loader(wide(25, 2), 10, 1, false);
    ck_assert_int_eq(bt_loader_shapes(loader, shapes), 2);
    ck_assert_int_eq(shapes[0]->count, 10);
    ck_assert_int_eq(shapes[1]->count, 5);
    ck_assert_ptr_null(field_of(shapes[0], "x")->array.data);
    for (int i = 0; i < 7; i++) {
        const bt_batch *batch = draw(loader);
        bool is_short = i % 3 == 2;
        ck_assert_int_eq(bt_batch_count(batch), is_short ? 5 : 10);
        ck_assert_int_eq(field_of(batch, "x")->array.dims[0], is_short ? 5 : 10);
        ck_assert_int_eq(field_of(batch, "index")->array.dims[0], is_short ? 5 : 10);
        ck_assert(bt_batch_fits(batch, shapes[is_short]));
        ck_assert(!bt_batch_fits(batch, shapes[!is_short]));
        ck_assert_int_eq(batch->number, i);
        ck_assert_ptr_eq(bt_var_data(field_of(batch, "x")->var), field_of(batch, "x")->array.data);
    }
    bt_loader_free(loader);
    /* Batches that divide the set evenly; and one larger than the set. */
    loader = open_loader(wide(20, 2), 10, 1, false);
    ck_assert_int_eq(bt_loader_shapes(loader, shapes), 1);
    ck_assert_int_eq(bt_loader_per_epoch(loader), 2);
    bt_loader_free(loader);
    loader = open_loader(wide(20, 2), 64, 1, false);
    ck_assert_int_eq(bt_loader_shapes(loader, shapes), 1);
    ck_assert_int_eq(shapes[0]->count, 20);
    ck_assert_int_eq(bt_loader_per_epoch(loader), 1);
    bt_loader_free(loader);
}
END_TEST

START_TEST(dropping_the_last)
{
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = 10;
    options.drop_last = true;
    const bt_batch *shapes[2];
    bt_loader *loader = bt_loader_open(wide(25, 2), &options);
    ck_assert_int_eq(bt_loader_shapes(loader, shapes), 1);
    ck_assert_int_eq(bt_loader_per_epoch(loader), 2);
    bool ever[25] = {false};
    for (int e = 0; e < 20; e++) {
        bool seen[25] = {false};
        for (int b = 0; b < 2; b++) {
            const bt_batch *batch = draw(loader);
            for (int i = 0; i < 10; i++) {
                int32_t place = i32_of(batch, "index")[i];
                ck_assert(!seen[place]);
                seen[place] = ever[place] = true;
            }
        }
    }
    for (int i = 0; i < 25; i++)
        ck_assert(ever[i]); /* not always the same ones are dropped */
    bt_loader_free(loader);
    options.batch_size = 26;
    ck_assert_ptr_null(bt_loader_open(wide(25, 2), &options));
    expect_failure(BT_ERROR_DATA, "no batch is left: there are 25 examples for batches of 26");
}
END_TEST

START_TEST(without_shuffling)
{
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = 4;
    options.shuffle = false;
    bt_loader *loader = bt_loader_open(wide(10, 2), &options);
    int32_t places[10];
    for (int e = 0; e < 2; e++) {
        draw_epoch(loader, places, 10);
        for (int i = 0; i < 10; i++)
            ck_assert_int_eq(places[i], i);
    }
    bt_loader_free(loader);
}
END_TEST

/* Checks that both loaders give the same batch. */
static void same_batch(const bt_batch *a, const bt_batch *b)
{
    ck_assert(bt_batch_fits(a, b));
    ck_assert_int_eq(a->number, b->number);
    for (int i = 0; i < a->field_count; i++)
        ck_assert_mem_eq(a->fields[i].array.data, b->fields[i].array.data, bt_array_bytes(a->fields[i].array));
}

static void seek_like_drawing(bool prefetch, int64_t numbers)
{
    const int64_t targets[] = {0, 1, 5, 6, 7, 12, 13, 29, 30, 3};
    for (int k = 0; k < BT_COUNT_OF(targets); k++) {
        bt_loader *a = open_loader(wide(53, numbers), 8, 2, false), *b = open_loader(wide(53, numbers), 8, 2, prefetch);
        for (int64_t i = 0; i < targets[k]; i++)
            draw(a);
        for (int i = 0; i < k; i++)
            draw(b);
        ck_assert_int_eq(bt_loader_seek(b, targets[k]), BT_OK);
        ck_assert_int_eq(bt_loader_position(b), targets[k]);
        ck_assert_int_eq(bt_loader_epoch(a), bt_loader_epoch(b));
        for (int i = 0; i < 9; i++)
            same_batch(draw(a), draw(b));
        bt_loader_free(a);
        bt_loader_free(b);
    }
}

START_TEST(seeking)
{
    seek_like_drawing(false, 2);
    seek_like_drawing(true, 4096);
    bt_loader *loader = open_loader(wide(53, 2), 8, 2, false);
    ck_assert_int_eq(bt_loader_seek(loader, -1), BT_ERROR_ARGUMENT);
    expect_failure(BT_ERROR_ARGUMENT, "position -1");
    ck_assert_int_eq(bt_loader_seek(loader, INT64_MAX), BT_ERROR_ARGUMENT);
    expect_failure(BT_ERROR_ARGUMENT, "9223372036854775807");
    ck_assert_int_eq(bt_loader_seek(loader, 1000000000), BT_OK); /* distant positions cost no more than near ones */
    ck_assert_int_eq(draw(loader)->number, 1000000000);
    bt_loader_free(loader);
}
END_TEST

/* Seeking as far as examples can be counted; 53 rows in 7 batches of 8, the last of 5, or in 6. */
START_TEST(seeking_far)
{
    static const int64_t targets[] = {INT64_C(1073741825), (INT64_C(1) << 31) + 1, INT64_C(1) << 40,
                                      INT64_C(1000000000000000000)};
    for (int drop = 0; drop < 2; drop++)
        for (int k = 0; k < BT_COUNT_OF(targets); k++) {
            bt_loader_options options = bt_loader_defaults();
            options.batch_size = 8, options.shuffle = false, options.drop_last = drop;
            bt_loader *loader = bt_loader_open(wide(53, 2), &options);
            ck_assert_ptr_nonnull(loader);
            int64_t epoch = drop ? 6 : 7;
            ck_assert_int_eq(bt_loader_seek(loader, targets[k]), BT_OK);
            for (int64_t i = targets[k]; i < targets[k] + 15; i++) {
                const bt_batch *batch = draw(loader);
                ck_assert_int_eq(batch->number, i);
                ck_assert_int_eq(batch->count, i % epoch == 6 ? 5 : 8);
                const bt_array *index = &batch->fields[batch->field_count - 1].array;
                for (int64_t e = 0; e < batch->count; e++)
                    ck_assert_int_eq(((const int32_t *)index->data)[e], i % epoch * 8 + e);
            }
            bt_loader_free(loader);
        }
}
END_TEST

/* The end: the last draw that can be counted, and no further. */
START_TEST(the_last_draw)
{
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        bt_loader *loader = open_loader(wide(53, 4096), 8, 2, prefetch);
        int64_t most = bt_loader_most(loader);
        ck_assert_int_gt(most, INT64_MAX / 9);
        ck_assert_int_le(most, INT64_MAX / 8);
        ck_assert_int_eq(bt_loader_seek(loader, most - 1), BT_OK);
        ck_assert_int_eq(draw(loader)->number, most - 1);
        const bt_batch *batch;
        ck_assert_int_eq(bt_loader_draw(loader, &batch), BT_ERROR_UNSUPPORTED);
        ck_assert_ptr_null(batch);
        expect_failure(BT_ERROR_UNSUPPORTED, "cannot count the examples");
        bt_loader_free(loader);
    }
}
END_TEST

START_TEST(prefetching_changes_nothing)
{
    bt_loader *a = open_loader(wide(70, 4096), 16, 3, false), *b = open_loader(wide(70, 4096), 16, 3, true);
    ck_assert_uint_eq(bt_loader_bytes(b), 2 * bt_loader_bytes(a));
    ck_assert_uint_eq(bt_loader_bytes(a), 16 * 4096 * 4 + 64); /* x, and index padded to the next cache line */
    for (int i = 0; i < 40; i++) {
        same_batch(draw(a), draw(b));
        ck_assert_int_eq(bt_loader_position(a), bt_loader_position(b));
    }
    ck_assert(bt_loader_wait_seconds(a) > 0);
    ck_assert(bt_loader_wait_seconds(b) >= 0);
    bt_loader_free(a);
    bt_loader_free(b);
    for (int i = 0; i < 50; i++) { /* freed at any moment of the thread's work */
        b = open_loader(wide(70, 4096), 16, 3, true);
        for (int k = 0; k < i % 4; k++)
            draw(b);
        if (i % 3 == 0) {
            struct timespec moment = {0, 200000};
            nanosleep(&moment, NULL);
        }
        bt_loader_free(b);
    }
}
END_TEST

/* Batches are stored in lent memory, and nothing is written there once it is taken back; without any, in the loader's
 * own memory. */
static void lend(bool prefetch)
{
    bt_loader *a = open_loader(wide(70, 4096), 16, 3, false);
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = 16, options.seed = 3, options.prefetch = prefetch, options.lent = true;
    bt_loader *b = bt_loader_open(wide(70, 4096), &options);
    size_t one = bt_loader_bytes(a), room = bt_loader_room(b);
    ck_assert_uint_eq(bt_loader_room(a), 0);
    ck_assert_uint_eq(room, (prefetch ? 2 : 1) * one);
    ck_assert_uint_eq(bt_loader_bytes(b), 0);
    char *memory = bt_alloc_aligned(room), *copy = malloc(room);
    ck_assert(memory && copy);
    for (int round = 0; round < 3; round++) {
        bt_loader_lend(b, memory);
        for (int i = 0; i < 7; i++) {
            const bt_batch *batch = draw(b);
            ck_assert_int_eq(batch->number, 7 * round + i);
            for (int f = 0; f < batch->field_count; f++) {
                const char *at = batch->fields[f].array.data;
                ck_assert(at >= memory && at < memory + room);
            }
            same_batch(draw(a), batch);
        }
        bt_loader_lend(b, NULL);
        memcpy(copy, memory, room);
        nanosleep(&(struct timespec){0, 2000000}, NULL);
        ck_assert_int_eq(memcmp(copy, memory, room), 0);
    }
    ck_assert_uint_eq(bt_loader_bytes(b), 0);
    same_batch(draw(a), draw(b));
    ck_assert_int_eq(memcmp(copy, memory, room), 0);
    ck_assert_uint_eq(bt_loader_bytes(b), room);
    bt_loader_lend(NULL, memory);
    bt_loader_lend(a, memory); /* it has its own */
    same_batch(draw(a), draw(b));
    bt_loader_free(a);
    bt_loader_free(b);
    bt_free_aligned(memory);
    free(copy);
}

START_TEST(lent_memory)
{
    lend(false);
    lend(true);
}
END_TEST

START_TEST(threads_change_nothing)
{
    for (int threads = 2; threads < 5; threads++) {
        bt_loader_options options = bt_loader_defaults();
        options.batch_size = 16;
        options.prefetch = false;
        bt_loader *a = bt_loader_open(wide(70, 4096), &options);
        options.threads = threads;
        bt_loader *b = bt_loader_open(wide(70, 4096), &options);
        ck_assert(a && b);
        for (int i = 0; i < 12; i++)
            same_batch(draw(a), draw(b));
        bt_loader_free(a);
        bt_loader_free(b);
    }
}
END_TEST

START_TEST(drawn_batches_stay)
{
    for (int prefetch = 0; prefetch < 2; prefetch++)
        for (int64_t keep = 1; keep < 5; keep++) {
            bt_loader_options options = bt_loader_defaults();
            options.batch_size = 16;
            options.keep = keep;
            options.prefetch = prefetch;
            bt_loader *loader = bt_loader_open(wide(70, 2048), &options),
                      *single = open_loader(wide(70, 2048), 16, 0, false);
            const bt_batch *kept[4];
            for (int64_t i = 0; i < 30; i++) {
                kept[i % keep] = draw(loader);
                if (i % 3 == 0) {
                    struct timespec moment = {0, 300000}; /* gives the thread time to overwrite what it must not */
                    nanosleep(&moment, NULL);
                }
                for (int64_t k = i - keep + 1 > 0 ? i - keep + 1 : 0; k <= i; k++) {
                    ck_assert_int_eq(bt_loader_seek(single, k), BT_OK);
                    same_batch(kept[k % keep], draw(single));
                }
            }
            bt_loader_free(loader);
            bt_loader_free(single);
        }
}
END_TEST

START_TEST(all_examples_are_gathered_once)
{
    bt_loader_options options = bt_loader_defaults();
    options.keep = 3;
    bt_loader *loader = bt_loader_open(wide(100, 1000), &options);
    ck_assert_uint_eq(bt_loader_bytes(loader), 100 * 1000 * 4 + 448); /* a single buffer, however much is prefetched */
    ck_assert_int_eq(bt_loader_per_epoch(loader), 1);
    const bt_batch *first = draw(loader), *second = draw(loader), *third = draw(loader);
    ck_assert_int_eq(first->number, 0);
    ck_assert_int_eq(second->number, 1);
    ck_assert_int_eq(third->number, 2);
    float *x = field_of(first, "x")->array.data;
    ck_assert_ptr_eq(x, field_of(third, "x")->array.data);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(i32_of(first, "index")[i], i);
    x[0] = -1; /* gathering again would restore it */
    ck_assert_float_eq(((float *)field_of(draw(loader), "x")->array.data)[0], -1);
    ck_assert_int_eq(bt_loader_epoch(loader), 4);
    ck_assert_int_eq(bt_loader_seek(loader, 17), BT_OK);
    ck_assert_int_eq(draw(loader)->number, 17);
    bt_loader_free(loader);
    loader = open_loader(wide(100, 1000), 100, 1, true); /* the same if the batch size is that number */
    ck_assert_uint_eq(bt_loader_bytes(loader), 100 * 1000 * 4 + 448);
    bt_loader_free(loader);
}
END_TEST

START_TEST(precisions)
{
    double x[3] = {0.1, 1e300, -2};
    float y[3] = {0.1F, 2, 3};
    for (int wide_numbers = 0; wide_numbers < 2; wide_numbers++) {
        bt_dataset *data = bt_dataset_new(3);
        bt_dataset_add(data, "x", BT_ARRAY(x, 3));
        bt_dataset_add(data, "y", BT_ARRAY(y, 3));
        bt_loader_options options = bt_loader_defaults();
        options.dtype = wide_numbers ? BT_F64 : BT_F32;
        bt_loader *loader = bt_loader_open(data, &options);
        const bt_batch *batch = draw(loader);
        const bt_batch_field *a = field_of(batch, "x"), *b = field_of(batch, "y");
        ck_assert_int_eq(a->array.dtype, options.dtype);
        ck_assert_int_eq(b->array.dtype, options.dtype);
        if (wide_numbers) {
            ck_assert_double_eq(((double *)a->array.data)[0], 0.1);
            ck_assert_double_eq(((double *)b->array.data)[0], (double)0.1F);
        } else {
            ck_assert_float_eq(((float *)a->array.data)[0], 0.1F);
            ck_assert_float_eq(((float *)b->array.data)[0], 0.1F);
        }
        bt_loader_free(loader);
    }
}
END_TEST

/* Pixels become x/255, rounded once; every byte value, in rows of every length up to more than the vector blocks. */
START_TEST(pixels)
{
    for (uint32_t width = 1; width < 80; width += 3) {
        write_idx("train-images-idx3-ubyte", 3, (uint32_t[]){300, 1, width}, 7, 256);
        write_idx("train-labels-idx1-ubyte", 1, (uint32_t[]){300}, 0, 10);
        bt_loader *loader = open_loader(bt_dataset_open(path_of(""), "train"), 300, 1, false);
        const float *image = field_of(draw(loader), "image")->array.data;
        for (uint32_t i = 0; i < 300 * width; i++)
            ck_assert_float_eq(image[i], (float)((7 + i) % 256) / 255.0F);
        bt_loader_free(loader);
    }
}
END_TEST

START_TEST(joined_sets_have_their_own_epochs)
{
    const struct {
        int64_t first, second, batch;
    } cases[] = {{20, 7, 3}, {7, 20, 3}, {9, 4, 4}, {10, 3, 5}, {6, 6, 3}, {5, 50, 5}};
    for (int k = 0; k < BT_COUNT_OF(cases); k++) {
        int64_t n = cases[k].first, m = cases[k].second, batch_size = cases[k].batch;
        bt_loader *loader = open_loader(bt_dataset_join(wide(n, 2), "o", wide(m, 3)), batch_size, 4, false);
        int64_t from_second = batch_size < m ? batch_size : m, per_epoch = (n + batch_size - 1) / batch_size;
        ck_assert_int_eq(bt_loader_per_epoch(loader), per_epoch);
        const bt_batch *shapes[2];
        ck_assert_int_eq(bt_loader_shapes(loader, shapes), n % batch_size ? 2 : 1);
        int32_t *first = malloc((size_t)(n * m) * sizeof *first),
                *second = malloc((size_t)(n * m * batch_size) * sizeof *second);
        int64_t a = 0, b = 0;
        for (int64_t i = 0; i < per_epoch * m; i++) { /* m epochs of the first */
            const bt_batch *batch = draw(loader);
            ck_assert_int_eq(field_of(batch, "o.x")->array.dims[0], from_second);
            for (int64_t r = 0; r < bt_batch_count(batch); r++)
                first[a++] = i32_of(batch, "index")[r];
            for (int64_t r = 0; r < from_second; r++) {
                second[b++] = i32_of(batch, "o.index")[r];
                ck_assert_float_eq(((const float *)field_of(batch, "o.x")->array.data)[3 * r], (float)second[b - 1]);
            }
        }
        ck_assert_int_eq(a, n * m);
        for (int64_t e = 0; e < m; e++)
            ck_assert(is_permutation(first + e * n, n));
        for (int64_t e = 0; e < b / m; e++)
            ck_assert(is_permutation(second + e * m, m)); /* each epoch covers the second once, too */
        free(first);
        free(second);
        bt_loader_free(loader);
    }
}
END_TEST

START_TEST(joined_sets_have_their_own_orders)
{
    bt_loader *loader = open_loader(bt_dataset_join(wide(60, 2), "o", wide(60, 2)), 20, 4, false);
    int same = 0;
    for (int i = 0; i < 3; i++) {
        const bt_batch *batch = draw(loader);
        for (int r = 0; r < 20; r++)
            same += i32_of(batch, "index")[r] == i32_of(batch, "o.index")[r];
    }
    ck_assert_int_lt(same, 8);
    bt_loader_free(loader);
    /* Seeking and prefetching also work for joined sets. */
    bt_loader *a = open_loader(bt_dataset_join(wide(60, 900), "o", wide(17, 900)), 20, 4, true);
    bt_loader *b = open_loader(bt_dataset_join(wide(60, 900), "o", wide(17, 900)), 20, 4, false);
    for (int i = 0; i < 12; i++) {
        ck_assert_int_eq(bt_loader_seek(b, i), BT_OK);
        same_batch(draw(a), draw(b));
    }
    bt_loader_free(a);
    bt_loader_free(b);
}
END_TEST

START_TEST(without_a_problem)
{
    bt_loader *loader = bt_loader_new(wide(25, 2), 10, 7);
    for (int e = 0; e < 3; e++) {
        int32_t places[25];
        int64_t at = 0;
        const bt_batch *batch;
        bt_status status;
        while ((status = bt_loader_next(loader, &batch)) == BT_OK)
            for (int64_t i = 0; i < bt_batch_count(batch); i++)
                places[at++] = i32_of(batch, "index")[i];
        ck_assert_int_eq(status, BT_DONE);
        ck_assert_ptr_null(batch);
        ck_assert_int_eq(at, 25);
        ck_assert(is_permutation(places, 25));
    }
    bt_loader_free(loader);
    loader = bt_loader_new(wide(25, 2), 0, 7); /* all: one batch, then the end of the epoch, and so on */
    for (int e = 0; e < 3; e++) {
        const bt_batch *batch;
        ck_assert_int_eq(bt_loader_next(loader, &batch), BT_OK);
        ck_assert_int_eq(bt_batch_count(batch), 25);
        ck_assert_int_eq(bt_loader_next(loader, &batch), BT_DONE);
    }
    bt_loader_free(loader);
    expect_no_failure();
}
END_TEST

START_TEST(faults)
{
    bt_loader_options options = bt_loader_defaults();
    const bt_batch *batch = (const bt_batch *)&options;
    ck_assert_ptr_null(bt_loader_open(NULL, &options));
    expect_failure(BT_ERROR_ARGUMENT, "a loader needs a data set");
    ck_assert_ptr_null(bt_loader_new(NULL, 3, 1));
    expect_failure(BT_ERROR_ARGUMENT, "a loader needs a data set");
    ck_assert_ptr_null(bt_loader_new(bt_dataset_new(3), 3, 1));
    expect_failure(BT_ERROR_DATA, "no fields");
    ck_assert_ptr_null(bt_loader_new(wide(3, 2), -3, 1));
    expect_failure(BT_ERROR_ARGUMENT, "batch size -3");
    options.keep = 0;
    ck_assert_ptr_null(bt_loader_open(wide(3, 2), &options));
    expect_failure(BT_ERROR_ARGUMENT, "keep 0 batches");
    options = bt_loader_defaults();
    options.dtype = BT_I32;
    ck_assert_ptr_null(bt_loader_open(wide(3, 2), &options));
    expect_failure(BT_ERROR_ARGUMENT, "as i32; expected f32 or f64");
    ck_assert_int_eq(bt_loader_draw(NULL, &batch), BT_ERROR_ARGUMENT);
    ck_assert_ptr_null(batch);
    expect_failure(BT_ERROR_ARGUMENT, "bt_loader_draw");
    ck_assert_int_eq(bt_loader_next(NULL, NULL), BT_ERROR_ARGUMENT);
    bt_error_clear();
    ck_assert_int_eq(bt_loader_seek(NULL, 0), BT_ERROR_ARGUMENT);
    bt_error_clear();
    bt_loader_free(NULL);
    ck_assert_int_eq(bt_loader_shapes(NULL, NULL), 0);
    ck_assert_int_eq(bt_loader_epoch(NULL), 0);
    ck_assert_int_eq(bt_loader_position(NULL), 0);
    ck_assert_int_eq(bt_loader_per_epoch(NULL), 0);
    ck_assert_uint_eq(bt_loader_bytes(NULL), 0);
}
END_TEST

/* All memory is freed again. */
START_TEST(memory_is_given_back)
{
    size_t before = bt_live_bytes();
    bt_loader *loader = open_loader(wide(70, 4096), 16, 3, true);
    ck_assert_uint_gt(bt_live_bytes(), before);
    ck_assert_uint_eq(bt_live_bytes() - before, bt_loader_bytes(loader));
    draw(loader);
    bt_loader_free(loader);
    ck_assert_uint_eq(bt_live_bytes(), before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.loader");
    ADD_CASE(suite, epochs);
    ADD_CASE(suite, short_batches_and_shapes);
    ADD_CASE(suite, dropping_the_last);
    ADD_CASE(suite, without_shuffling);
    ADD_CASE(suite, seeking);
    ADD_CASE(suite, seeking_far);
    ADD_CASE(suite, the_last_draw);
    ADD_CASE(suite, prefetching_changes_nothing);
    ADD_CASE(suite, lent_memory);
    ADD_CASE(suite, threads_change_nothing);
    ADD_CASE(suite, drawn_batches_stay);
    ADD_CASE(suite, all_examples_are_gathered_once);
    ADD_CASE(suite, precisions);
    ADD_CASE(suite, pixels);
    ADD_CASE(suite, joined_sets_have_their_own_epochs);
    ADD_CASE(suite, joined_sets_have_their_own_orders);
    ADD_CASE(suite, without_a_problem);
    ADD_CASE(suite, faults);
    ADD_CASE(suite, memory_is_given_back);
    return run_suite(suite);
}
