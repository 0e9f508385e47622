/* Few-shot tasks: their contents, how they are drawn, where the same task comes again; rotated images. */
#include "files.h"

#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 9, PER_CLASS = 7, EXAMPLES = CLASSES * PER_CLASS };

static bt_loader *open_loader(bt_dataset *data, int64_t batch_size, bool prefetch, int64_t keep)
{
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = batch_size;
    options.prefetch = prefetch;
    options.keep = keep;
    options.dtype = BT_F64;
    bt_loader *loader = bt_loader_open(data, &options);
    ck_assert_msg(loader != NULL, "%s", bt_error());
    return loader;
}

/* From a set made by numbered(EXAMPLES, CLASSES): example i is of class i mod CLASSES. */
static bt_loader *open_tasks(int64_t ways, int64_t shots, int64_t queries, uint64_t seed)
{
    bt_dataset *data = bt_dataset_tasks(numbered(EXAMPLES, CLASSES), ways, shots, queries, seed);
    ck_assert_msg(data != NULL, "%s", bt_error());
    return open_loader(data, 0, false, 1);
}

static const bt_batch *draw(bt_loader *loader)
{
    const bt_batch *batch = NULL;
    ck_assert_int_eq(bt_loader_draw(loader, &batch), BT_OK);
    return batch;
}

/* The examples of one part of a task: x and `index` identify them, and class k of the task is class classes[k] of the
 * set. Marks them. */
static void check_part(const bt_batch *task, const char *part, int ways, int each, int *classes, uint8_t *marks)
{
    char name[32];
    snprintf(name, sizeof name, "%s.x", part);
    const double *x = f64_of(task, name);
    ck_assert_int_eq(field_of(task, name)->array.dims[0], ways * each);
    snprintf(name, sizeof name, "%s.label", part);
    const int32_t *label = i32_of(task, name);
    snprintf(name, sizeof name, "%s.index", part);
    const int32_t *index = i32_of(task, name);
    int counts[CLASSES] = {0};
    for (int i = 0; i < ways * each; i++) {
        int example = (int)x[2 * i];
        ck_assert_int_eq(index[i], example);
        ck_assert(example >= 0 && example < EXAMPLES && !marks[example]); /* none comes twice */
        marks[example] = 1;
        ck_assert(label[i] >= 0 && label[i] < ways);
        counts[label[i]]++;
        if (classes[label[i]] < 0)
            classes[label[i]] = example % CLASSES;
        ck_assert_int_eq(classes[label[i]], example % CLASSES);
    }
    for (int k = 0; k < ways; k++)
        ck_assert_int_eq(counts[k], each);
}

static void check_task(const bt_batch *task, int ways, int shots, int queries, int *classes, uint8_t *marks)
{
    for (int k = 0; k < CLASSES; k++)
        classes[k] = -1;
    memset(marks, 0, EXAMPLES);
    check_part(task, "support", ways, shots, classes, marks);
    check_part(task, "query", ways, queries, classes, marks);
    for (int k = 0; k < ways; k++)
        for (int other = 0; other < k; other++)
            ck_assert_int_ne(classes[k], classes[other]);
    ck_assert_int_eq(bt_batch_count(task), ways * queries);
}

START_TEST(a_task_is_what_it_should_be)
{
    static const int sizes[][3] = {{5, 1, 3}, {1, 1, 1}, {9, 3, 4}, {2, 6, 1}, {9, 1, 6}};
    int classes[CLASSES];
    uint8_t marks[EXAMPLES];
    for (int s = 0; s < BT_COUNT_OF(sizes); s++) {
        bt_loader *loader = open_tasks(sizes[s][0], sizes[s][1], sizes[s][2], 7);
        for (int i = 0; i < 50; i++) {
            const bt_batch *task = draw(loader);
            check_task(task, sizes[s][0], sizes[s][1], sizes[s][2], classes, marks);
            ck_assert_int_eq(task->number, i);
        }
        bt_loader_free(loader);
    }
    expect_no_failure();
}
END_TEST

/* Pearson's statistic for counts that should be equal. */
static double chi_square(const int *counts, int count)
{
    double total = 0, sum = 0;
    for (int i = 0; i < count; i++)
        total += counts[i];
    for (int i = 0; i < count; i++)
        sum += (counts[i] - total / count) * (counts[i] - total / count) / (total / count);
    return sum;
}

START_TEST(every_draw_is_as_likely)
{
    enum { TASKS = 6000, WAYS = 3 };
    int first[CLASSES] = {0}, pairs[CLASSES * CLASSES] = {0}, examples[EXAMPLES] = {0}, classes[CLASSES];
    uint8_t marks[EXAMPLES];
    bt_loader *loader = open_tasks(WAYS, 2, 2, 1);
    for (int i = 0; i < TASKS; i++) {
        const bt_batch *task = draw(loader);
        check_task(task, WAYS, 2, 2, classes, marks);
        first[classes[0]]++;
        pairs[classes[0] * CLASSES + classes[2]]++;
        examples[i32_of(task, "support.index")[0]]++;
    }
    int different[CLASSES * (CLASSES - 1)], count = 0;
    for (int i = 0; i < CLASSES * CLASSES; i++)
        if (i / CLASSES != i % CLASSES)
            different[count++] = pairs[i];
    ck_assert_int_eq(count, BT_COUNT_OF(different));
    /* 0.1 % points for 8, 71 and 62 degrees of freedom. */
    ck_assert_double_lt(chi_square(first, CLASSES), 26.2);
    ck_assert_double_lt(chi_square(different, count), 112.4);
    ck_assert_double_lt(chi_square(examples, EXAMPLES), 101.0);
    bt_loader_free(loader);
}
END_TEST

/* A place used in the support is used as often in the query, and the two are independent. */
START_TEST(parts_are_dealt_independently)
{
    enum { TASKS = 7000 };
    int pairs[PER_CLASS * PER_CLASS] = {0}, different[PER_CLASS * (PER_CLASS - 1)], count = 0;
    bt_loader *loader = open_tasks(1, 1, 1, 5);
    for (int i = 0; i < TASKS; i++) {
        const bt_batch *task = draw(loader);
        int support = i32_of(task, "support.index")[0] / CLASSES, query = i32_of(task, "query.index")[0] / CLASSES;
        pairs[support * PER_CLASS + query]++;
    }
    for (int i = 0; i < PER_CLASS * PER_CLASS; i++)
        if (i / PER_CLASS != i % PER_CLASS)
            different[count++] = pairs[i];
        else
            ck_assert_int_eq(pairs[i], 0);
    ck_assert_double_lt(chi_square(different, count), 74.8); /* 41 degrees of freedom, 0.1 % */
    bt_loader_free(loader);
}
END_TEST

static bool same_task(const bt_batch *a, const bt_batch *b)
{
    ck_assert(bt_batch_fits(a, b));
    for (int i = 0; i < a->field_count; i++)
        if (memcmp(a->fields[i].array.data, b->fields[i].array.data, bt_array_bytes(a->fields[i].array)) != 0)
            return false;
    return true;
}

START_TEST(a_task_depends_on_seed_and_number_alone)
{
    bt_loader *a = open_tasks(4, 1, 2, 3), *b = open_tasks(4, 1, 2, 3), *other = open_tasks(4, 1, 2, 4);
    int same = 0, alike = 0;
    static const int order[] = {17, 0, 18, 3, 3, 1000000, 17};
    for (int i = 0; i < BT_COUNT_OF(order); i++) { /* wherever the loader was before */
        ck_assert_int_eq(bt_loader_seek(a, order[i]), BT_OK);
        ck_assert_int_eq(bt_loader_seek(b, order[i] > 2 ? order[i] - 2 : 0), BT_OK);
        const bt_batch *task = draw(a), *passed = draw(b);
        while (passed->number < order[i])
            passed = draw(b);
        ck_assert(same_task(task, passed));
    }
    bt_loader_seek(a, 0);
    bt_loader_seek(b, 1);
    for (int i = 0; i < 50; i++) {
        const bt_batch *task = draw(a);
        same += same_task(task, draw(other));
        alike += same_task(task, draw(b));
    }
    ck_assert_int_eq(same, 0);
    ck_assert_int_eq(alike, 0);
    bt_loader_free(a);
    bt_loader_free(b);
    bt_loader_free(other);
}
END_TEST

/* Wide enough for prefetching on a thread. */
static bt_dataset *wide_tasks(void)
{
    enum { NUMBERS = 3000 };
    double *x = malloc(sizeof *x * EXAMPLES * NUMBERS);
    ck_assert_ptr_nonnull(x);
    for (int i = 0; i < EXAMPLES * NUMBERS; i++)
        x[i] = i;
    bt_dataset *data = numbered(EXAMPLES, CLASSES);
    bt_dataset_add(data, "wide", BT_ARRAY(x, EXAMPLES, NUMBERS));
    free(x);
    return bt_dataset_tasks(data, 3, 1, 2, 9);
}

START_TEST(working_ahead_changes_nothing)
{
    bt_loader *now = open_loader(wide_tasks(), 0, false, 1), *ahead = open_loader(wide_tasks(), 0, true, 3);
    for (int i = 0; i < 60; i++) {
        if (i == 40) {
            bt_loader_seek(now, 1234);
            bt_loader_seek(ahead, 1234);
        }
        ck_assert(same_task(draw(now), draw(ahead)));
    }
    bt_loader_free(now);
    bt_loader_free(ahead);
}
END_TEST

START_TEST(there_are_no_epochs)
{
    const bt_batch *shapes[2], *task;
    bt_loader *loader = bt_loader_new(bt_dataset_tasks(numbered(EXAMPLES, CLASSES), 5, 1, 2, 1), 1000, 1);
    ck_assert_msg(loader != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_loader_shapes(loader, shapes), 1);
    ck_assert_int_eq(shapes[0]->count, 10);
    for (int i = 0; i < 300; i++)
        ck_assert_int_eq(bt_loader_next(loader, &task), BT_OK);
    ck_assert_int_eq(bt_loader_per_epoch(loader), 0);
    ck_assert_int_eq(bt_loader_epoch(loader), 0);
    ck_assert_int_eq(bt_loader_position(loader), 300);
    bt_loader_free(loader);
}
END_TEST

START_TEST(sizes_are_known_beforehand)
{
    bt_dataset *data = bt_dataset_tasks(numbered(EXAMPLES, CLASSES), 5, 1, 3, 1);
    ck_assert_int_eq(bt_dataset_field_dim(data, "support.x", 0), 5);
    ck_assert_int_eq(bt_dataset_field_dim(data, "query.x", 0), 15);
    ck_assert_int_eq(bt_dataset_field_dim(data, "query.x", 1), 2);
    ck_assert_int_eq(bt_dataset_field_dim(data, "support.index", 0), 5);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 1), -1);
    ck_assert_int_eq(bt_dataset_field_dim(data, "support", 0), -1);
    ck_assert_int_eq(bt_dataset_field_dim(data, "support.y", 0), -1);
    data = bt_dataset_join(numbered(10, 2), "meta", data);
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 0), 10);
    ck_assert_int_eq(bt_dataset_field_dim(data, "meta.query.x", 0), 15);
    ck_assert_int_eq(bt_dataset_field_dim(data, "query.x", 0), -1);
    bt_dataset_free(data);
}
END_TEST

START_TEST(tasks_of_a_part)
{
    /* The last four of each class, whose positions in the part differ from those in the set. */
    uint8_t left[EXAMPLES] = {0};
    const bt_batch *rest = whole(bt_dataset_per_class(numbered(EXAMPLES, CLASSES), 3, BT_REST, 2));
    for (int64_t i = 0; i < bt_batch_count(rest); i++)
        left[(int)f64_of(rest, "x")[2 * i]] = 1;
    bt_dataset *data = bt_dataset_per_class(numbered(EXAMPLES, CLASSES), 3, BT_REST, 2);
    bt_loader *loader = open_loader(bt_dataset_tasks(data, CLASSES, 1, 3, 1), 0, false, 1);
    const bt_batch *task = draw(loader);
    int used = 0;
    for (int i = 0; i < CLASSES; i++)
        used += left[(int)f64_of(task, "support.x")[2 * i]];
    for (int i = 0; i < 3 * CLASSES; i++)
        used += left[(int)f64_of(task, "query.x")[2 * i]];
    ck_assert_int_eq(used, 4 * CLASSES);
    bt_loader_free(loader);
}
END_TEST

START_TEST(joined_with_plain_sets)
{
    const bt_batch *shapes[2];
    /* Tasks first: the other set continues in epochs of its own. */
    bt_dataset *data =
        bt_dataset_join(bt_dataset_tasks(numbered(EXAMPLES, CLASSES), 3, 1, 2, 1), "plain", numbered(10, 2));
    bt_loader *loader = open_loader(data, 4, false, 1), *alone = open_tasks(3, 1, 2, 1);
    int seen[10] = {0};
    for (int i = 0; i < 25; i++) {
        const bt_batch *batch = draw(loader), *task = draw(alone);
        ck_assert_mem_eq(i32_of(batch, "query.index"), i32_of(task, "query.index"), 6 * sizeof(int32_t));
        ck_assert_int_eq(field_of(batch, "plain.x")->array.dims[0], 4);
        for (int k = 0; k < 4; k++)
            seen[i32_of(batch, "plain.index")[k]]++;
        ck_assert_int_eq(bt_batch_count(batch), 6);
    }
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(seen[i], 10);
    bt_loader_free(loader);
    bt_loader_free(alone);
    /* A plain set first: its epochs, its short batches, and a whole task with each. */
    data = bt_dataset_join(numbered(10, 2), "few", bt_dataset_tasks(numbered(EXAMPLES, CLASSES), 3, 1, 2, 1));
    loader = open_loader(data, 4, false, 1);
    alone = open_tasks(3, 1, 2, 1);
    ck_assert_int_eq(bt_loader_shapes(loader, shapes), 2);
    ck_assert_int_eq(bt_loader_per_epoch(loader), 3);
    for (int i = 0; i < 9; i++) {
        const bt_batch *batch = draw(loader), *task = draw(alone);
        ck_assert_int_eq(bt_batch_count(batch), i % 3 == 2 ? 2 : 4);
        ck_assert_mem_eq(f64_of(batch, "few.support.x"), f64_of(task, "support.x"), 6 * sizeof(double));
        ck_assert_mem_eq(i32_of(batch, "few.query.label"), i32_of(task, "query.label"), 6 * sizeof(int32_t));
    }
    bt_loader_free(loader);
    bt_loader_free(alone);
}
END_TEST

START_TEST(labels_of_any_kind)
{
    /* Targets -1 and +1 of a table, and bytes: a task's labels are still numbers from 0. */
    float y[40];
    uint8_t label[600];
    for (int i = 0; i < 40; i++)
        y[i] = i % 4 ? -1.0F : 1.0F;
    for (int i = 0; i < 600; i++)
        label[i] = (uint8_t)(i % 200 + 50);
    bt_dataset *table = bt_dataset_new(40), *bytes = bt_dataset_new(600);
    bt_dataset_add(table, "y", BT_ARRAY(y, 40));
    bt_dataset_add(bytes, "label", BT_ARRAY(label, 600));
    bt_loader *loader = open_loader(bt_dataset_tasks(table, 2, 2, 3, 1), 0, false, 1);
    const bt_batch *task = draw(loader);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(i32_of(task, "query.y")[i], i / 3);
    bt_loader_free(loader);
    loader = open_loader(bt_dataset_tasks(bytes, 200, 1, 2, 1), 0, false, 1);
    ck_assert_int_eq(i32_of(draw(loader), "support.label")[199], 199);
    bt_loader_free(loader);
}
END_TEST

START_TEST(mistakes)
{
    float x[6] = {0};
    ck_assert_ptr_null(bt_dataset_tasks(numbered(EXAMPLES, CLASSES), 10, 1, 1, 1));
    expect_failure(BT_ERROR_DATA, "bt_dataset_tasks", "10 classes", "has 9");
    ck_assert_ptr_null(bt_dataset_tasks(numbered(EXAMPLES + 5, CLASSES), 5, 2, 6, 1)); /* classes 0 to 4 have eight */
    expect_failure(BT_ERROR_DATA, "class 5 has 7 examples", "2 shots and 6 queries");
    ck_assert_ptr_null(bt_dataset_tasks(numbered(EXAMPLES, CLASSES), 5, INT64_MAX, INT64_MAX, 1));
    expect_failure(BT_ERROR_DATA, "class 0 has 7 examples");
    static const int64_t sizes[][3] = {{0, 1, 1}, {5, 0, 1}, {5, 1, 0}, {-5, 1, 1}};
    for (int i = 0; i < BT_COUNT_OF(sizes); i++) {
        ck_assert_ptr_null(bt_dataset_tasks(numbered(EXAMPLES, CLASSES), sizes[i][0], sizes[i][1], sizes[i][2], 1));
        expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_tasks", "at least 1");
    }
    bt_dataset *data = bt_dataset_new(3);
    bt_dataset_add(data, "x", BT_ARRAY(x, 3, 2));
    ck_assert_ptr_null(bt_dataset_tasks(data, 1, 1, 1, 1));
    expect_failure(BT_ERROR_DATA, "bt_dataset_tasks", "neither a field \"label\" nor \"y\"");
    ck_assert_ptr_null(bt_dataset_tasks(NULL, 1, 1, 1, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_tasks", "NULL");
    ck_assert_ptr_null(bt_dataset_tasks(bt_dataset_join(numbered(9, 3), "a", numbered(9, 3)), 2, 1, 1, 1));
    expect_failure(BT_ERROR_UNSUPPORTED, "bt_dataset_tasks", "joined");
}
END_TEST

static bt_dataset *tasks(void) { return bt_dataset_tasks(numbered(EXAMPLES, CLASSES), 2, 1, 1, 1); }

START_TEST(what_comes_too_late)
{
    float x[EXAMPLES] = {0};
    ck_assert_ptr_null(bt_dataset_part(tasks(), 0, 0.5, 1));
    expect_failure(BT_ERROR_UNSUPPORTED, "bt_dataset_part", "tasks");
    ck_assert_ptr_null(bt_dataset_per_class(tasks(), 0, 1, 1));
    expect_failure(BT_ERROR_UNSUPPORTED, "bt_dataset_per_class", "tasks");
    ck_assert_ptr_null(bt_dataset_label_noise(tasks(), 0.5, 1));
    expect_failure(BT_ERROR_UNSUPPORTED, "bt_dataset_label_noise", "tasks");
    ck_assert_ptr_null(bt_dataset_tasks(tasks(), 2, 1, 1, 1));
    expect_failure(BT_ERROR_UNSUPPORTED, "bt_dataset_tasks", "tasks");
    bt_dataset *data = tasks();
    ck_assert_int_eq(bt_dataset_add(data, "more", BT_ARRAY(x, EXAMPLES)), BT_ERROR_ARGUMENT);
    expect_failure(BT_ERROR_ARGUMENT, "\"more\" is added too late", "bt_dataset_tasks");
    bt_dataset_free(data);
    /* Two tasks in one batch would need different names. */
    ck_assert_ptr_null(bt_loader_open(bt_dataset_join(tasks(), "query", numbered(9, 3)), NULL));
    expect_failure(BT_ERROR_ARGUMENT, "two fields called \"query.x\"");
}
END_TEST

/* ---- rotated images ---- */

START_TEST(rotations)
{
    /* 0 1 2      2 5 8      8 7 6      6 3 0
     * 3 4 5  ->  1 4 7  ->  5 4 3  ->  7 4 1
     * 6 7 8      0 3 6      2 1 0      8 5 2 */
    static const double turned[4][9] = {{0, 1, 2, 3, 4, 5, 6, 7, 8},
                                        {2, 5, 8, 1, 4, 7, 0, 3, 6},
                                        {8, 7, 6, 5, 4, 3, 2, 1, 0},
                                        {6, 3, 0, 7, 4, 1, 8, 5, 2}};
    float image[3 * 9 * 2];
    int64_t label[3] = {4, 6, 4};
    float other[3] = {10, 20, 30};
    for (int i = 0; i < 3; i++)
        for (int pixel = 0; pixel < 9; pixel++)
            for (int channel = 0; channel < 2; channel++)
                image[(i * 9 + pixel) * 2 + channel] = (float)(100 * i + pixel + 1000 * channel);
    bt_dataset *data = bt_dataset_new(3);
    bt_dataset_add(data, "image", BT_ARRAY(image, 3, 3, 3, 2));
    bt_dataset_add(data, "label", BT_ARRAY(label, 3));
    bt_dataset_add(data, "other", BT_ARRAY(other, 3));
    const bt_batch *batch = whole(bt_dataset_rotations(data));
    ck_assert_int_eq(bt_batch_count(batch), 12);
    for (int i = 0; i < 12; i++) {
        int turns = i / 3;
        for (int pixel = 0; pixel < 9; pixel++)
            for (int channel = 0; channel < 2; channel++)
                ck_assert_double_eq(f64_of(batch, "image")[(i * 9 + pixel) * 2 + channel],
                                    100 * (i % 3) + turned[turns][pixel] + 1000 * channel);
        ck_assert_int_eq(i32_of(batch, "label")[i], label[i % 3] + 3 * turns); /* labels 4 to 6 span 3 */
        ck_assert_double_eq(f64_of(batch, "other")[i], (double)other[i % 3]);
    }
}
END_TEST

START_TEST(rotations_of_a_view)
{
    write_idx("train-images-idx3-ubyte", 3, (uint32_t[]){40, 2, 2}, 0, 251);
    write_idx("train-labels-idx1-ubyte", 1, (uint32_t[]){40}, 0, 4);
    bt_dataset *view = bt_dataset_part(bt_dataset_open(path_of(""), "train"), 0, 0.5, 1);
    const bt_batch *plain = whole(bt_dataset_part(bt_dataset_open(path_of(""), "train"), 0, 0.5, 1));
    const bt_batch *batch = whole(bt_dataset_rotations(view));
    ck_assert_int_eq(bt_batch_count(batch), 80);
    for (int i = 0; i < 20; i++) {
        const double *before = f64_of(plain, "image") + (ptrdiff_t)i * 4,
                     *now = f64_of(batch, "image") + (ptrdiff_t)i * 4;
        ck_assert_mem_eq(now, before, 4 * sizeof *now);
        ck_assert_double_eq(now[20 * 4], before[1]); /* a quarter turn: top right becomes top left */
        ck_assert_int_eq(i32_of(batch, "label")[i + 60], i32_of(plain, "label")[i] + 12);
    }
}
END_TEST

START_TEST(rotations_mistakes)
{
    float x[24] = {0};
    int32_t label[2] = {0, 1};
    ck_assert_ptr_null(bt_dataset_rotations(NULL));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_rotations", "NULL");
    ck_assert_ptr_null(bt_dataset_rotations(numbered(9, 3)));
    expect_failure(BT_ERROR_DATA, "bt_dataset_rotations", "no field \"image\"");
    bt_dataset *data = bt_dataset_new(2);
    bt_dataset_add(data, "image", BT_ARRAY(x, 2, 3, 4, 1));
    bt_dataset_add(data, "label", BT_ARRAY(label, 2));
    ck_assert_ptr_null(bt_dataset_rotations(data));
    expect_failure(BT_ERROR_SHAPE, "[2, 3, 4, 1]", "[n, size, size, channels]");
    label[1] = 600000000;
    data = bt_dataset_new(2);
    bt_dataset_add(data, "image", BT_ARRAY(x, 2, 2, 2, 3));
    bt_dataset_add(data, "label", BT_ARRAY(label, 2));
    ck_assert_ptr_null(bt_dataset_rotations(data));
    expect_failure(BT_ERROR_DATA, "labels from 0 to 600000000");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.tasks");
    ADD_CASE(suite, a_task_is_what_it_should_be);
    ADD_CASE(suite, every_draw_is_as_likely);
    ADD_CASE(suite, parts_are_dealt_independently);
    ADD_CASE(suite, a_task_depends_on_seed_and_number_alone);
    ADD_CASE(suite, working_ahead_changes_nothing);
    ADD_CASE(suite, there_are_no_epochs);
    ADD_CASE(suite, sizes_are_known_beforehand);
    ADD_CASE(suite, tasks_of_a_part);
    ADD_CASE(suite, joined_with_plain_sets);
    ADD_CASE(suite, labels_of_any_kind);
    ADD_CASE(suite, mistakes);
    ADD_CASE(suite, what_comes_too_late);
    ADD_CASE(suite, rotations);
    ADD_CASE(suite, rotations_of_a_view);
    ADD_CASE(suite, rotations_mistakes);
    return run_suite(suite);
}
