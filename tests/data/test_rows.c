/* Loaders of ranks: each reads exactly the rows of its rank, as a single loader of the whole batch would give them. */
#include "files.h"

#include "ops/ops.h"
#include "support/suite.h"
#include <stdlib.h>
#include <string.h>

enum { SIDE = 5, UNTOUCHED = 0xa5 };

/* Images of noise, with labels; randomly mixed, shifted and flipped. */
static bt_dataset *images(int64_t count)
{
    float *x = malloc((size_t)(count * SIDE * SIDE) * sizeof *x);
    int32_t *label = malloc((size_t)count * sizeof *label);
    ck_assert(x && label);
    for (int64_t i = 0; i < count * SIDE * SIDE; i++)
        x[i] = (float)(i * 7919 % 1009) / 1009;
    for (int64_t i = 0; i < count; i++)
        label[i] = (int32_t)i % 3;
    bt_dataset *data = bt_dataset_new(count);
    ck_assert_int_eq(bt_dataset_add(data, "image", BT_ARRAY(x, count, SIDE, SIDE, 1)), BT_OK);
    ck_assert_int_eq(bt_dataset_add(data, "label", BT_ARRAY(label, count)), BT_OK);
    free(x);
    free(label);
    return bt_dataset_flip(bt_dataset_crop(bt_dataset_mixup(data, 0.5, 3), 1, 3), 3);
}

static bt_dataset *one(void) { return images(10); }
static bt_dataset *joined(void) { return bt_dataset_join(images(10), "o", images(7)); }
static bt_dataset *larger(void) { return bt_dataset_join(images(10), "o", images(3)); } /* its batches are smaller */
static bt_dataset *tasks(void) { return bt_dataset_tasks(numbered(63, 9), 3, 2, 4, 5); }

static bt_loader *open_rank(bt_dataset *data, int64_t batch_size, int rank, int ranks, bool prefetch)
{
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = batch_size, options.seed = 9, options.prefetch = prefetch;
    options.rank = rank, options.ranks = ranks, options.lent = true;
    bt_loader *loader = bt_loader_open(data, &options);
    ck_assert_msg(loader != NULL, "%s", bt_error());
    return loader;
}

/* The rank's bytes of a field are those of the whole batch; no others were written. */
static void expect_rows(const bt_batch *whole, const bt_batch *own, int rank, int ranks)
{
    for (int f = 0; f < whole->field_count; f++) {
        const bt_array *due = &whole->fields[f].array, *found = &own->fields[f].array;
        const size_t row = bt_array_bytes(*due) / (size_t)due->dims[0];
        const bool split = due->dims[0] == bt_batch_count(whole), index = strstr(whole->fields[f].name, "index");
        const int64_t first = split ? bt_share_first(due->dims[0], rank, ranks) : 0;
        const int64_t end = split ? bt_share_first(due->dims[0], rank + 1, ranks) : due->dims[0];
        ck_assert_int_eq(found->dims[0], due->dims[0]);
        ck_assert_msg(end == first || memcmp((char *)found->data + (size_t)first * row,
                                             (char *)due->data + (size_t)first * row, (size_t)(end - first) * row) == 0,
                      "%s of rank %d of %d", whole->fields[f].name, rank, ranks);
        for (size_t i = 0; !index && i < bt_array_bytes(*found); i++)
            if ((i < (size_t)first * row || i >= (size_t)end * row) && ((unsigned char *)found->data)[i] != UNTOUCHED)
                ck_abort_msg("%s of rank %d of %d: byte %zu was written", whole->fields[f].name, rank, ranks, i);
    }
}

static void same_rows(bt_dataset *make(void), int64_t batch_size, int ranks, int draws)
{
    bt_loader *whole = open_rank(make(), batch_size, 0, 1, false);
    for (int rank = 0; rank < ranks; rank++) {
        bt_loader *own = open_rank(make(), batch_size, rank, ranks, rank % 2 == 1);
        const size_t room = bt_loader_room(own);
        char *memory = bt_alloc_aligned(room);
        ck_assert(room > 0 && memory);
        bt_loader_lend(own, memory);
        ck_assert_int_eq(bt_loader_seek(whole, 0), BT_OK);
        for (int i = 0; i < draws; i++) {
            const bt_batch *due, *found;
            memset(memory, UNTOUCHED, room);
            ck_assert_int_eq(bt_loader_draw(whole, &due), BT_OK);
            ck_assert_int_eq(bt_loader_draw(own, &found), BT_OK);
            ck_assert_int_eq(found->number, i);
            expect_rows(due, found, rank, ranks);
            bt_loader_complete(own, found);
            ck_assert_int_eq(found->number, i);
            expect_rows(due, found, 0, 1);
        }
        bt_loader_free(own);
        bt_free_aligned(memory);
    }
    bt_loader_free(whole);
}

/* 10 examples in batches of 4: two of 4 and one of 2, which is less than the number of ranks. */
START_TEST(the_rows_of_the_whole)
{
    for (int ranks = 2; ranks <= 5; ranks++) {
        same_rows(one, 4, ranks, 9);
        same_rows(joined, 4, ranks, 9);
        same_rows(larger, 4, ranks, 9);
        same_rows(tasks, 0, ranks, 4);
    }
}
END_TEST

/* Three epochs of 10 examples on 3 ranks: each epoch has every example once, on one rank, in its own order. */
START_TEST(the_union_is_the_epoch)
{
    enum { N = 10, RANKS = 3, EPOCHS = 3 };
    int32_t order[EPOCHS][N];
    int taken[EPOCHS] = {0};
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        memset(taken, 0, sizeof taken);
        for (int rank = 0; rank < RANKS; rank++) {
            bt_loader_options options = bt_loader_defaults();
            options.batch_size = 4, options.rank = rank, options.ranks = RANKS, options.prefetch = prefetch;
            bt_loader *loader = bt_loader_open(images(N), &options);
            ck_assert_int_eq(bt_loader_per_epoch(loader), 3);
            for (int i = 0; i < 3 * EPOCHS; i++) {
                const bt_batch *batch;
                ck_assert_int_eq(bt_loader_draw(loader, &batch), BT_OK);
                const int64_t n = bt_batch_count(batch), end = bt_share_first(n, rank + 1, RANKS);
                for (int64_t r = bt_share_first(n, rank, RANKS); r < end; r++)
                    order[i / 3][taken[i / 3]++] = i32_of(batch, "index")[r];
            }
            bt_loader_free(loader);
        }
        for (int e = 0; e < EPOCHS; e++) {
            bool seen[N] = {0};
            ck_assert_int_eq(taken[e], N);
            for (int i = 0; i < N; i++) {
                ck_assert(!seen[order[e][i]]);
                seen[order[e][i]] = true;
            }
            ck_assert(e == 0 || memcmp(order[e], order[e - 1], sizeof order[e]) != 0);
        }
    }
}
END_TEST

/* All examples in each batch, gathered once. */
START_TEST(the_whole_set)
{
    float x[21];
    for (int i = 0; i < 21; i++)
        x[i] = (float)i;
    for (int rank = 0; rank < 3; rank++) {
        bt_dataset *data = bt_dataset_new(7);
        ck_assert_int_eq(bt_dataset_add(data, "x", BT_ARRAY(x, 7, 3)), BT_OK);
        bt_loader_options options = bt_loader_defaults();
        options.rank = rank, options.ranks = 3;
        bt_loader *loader = bt_loader_open(data, &options);
        const bt_batch *batch;
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(bt_loader_draw(loader, &batch), BT_OK);
            const float *found = field_of(batch, "x")->array.data;
            const int64_t first = 3 * bt_share_first(7, rank, 3), end = 3 * bt_share_first(7, rank + 1, 3);
            ck_assert_int_eq(memcmp(found + first, x + first, (size_t)(end - first) * sizeof *x), 0);
        }
        bt_loader_free(loader);
    }
}
END_TEST

START_TEST(no_such_rank)
{
    const int wrong[][2] = {{0, 0}, {-1, 2}, {2, 2}};
    for (int i = 0; i < BT_COUNT_OF(wrong); i++) {
        bt_loader_options options = bt_loader_defaults();
        options.rank = wrong[i][0], options.ranks = wrong[i][1];
        ck_assert_ptr_null(bt_loader_open(images(4), &options));
        expect_failure(BT_ERROR_ARGUMENT, "a loader is opened for rank");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.rows");
    ADD_CASE(suite, the_rows_of_the_whole);
    ADD_CASE(suite, the_union_is_the_epoch);
    ADD_CASE(suite, the_whole_set);
    ADD_CASE(suite, no_such_rank);
    return run_suite(suite);
}
