/* Sets derived from sets: subsets, classes, long tails, wrong labels. */
#include "files.h"

#include "support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of numbered() that a set has, as marks; each at most once, in increasing order. */
static int64_t marks_of(bt_dataset *data, uint8_t *marks, int64_t room)
{
    const bt_batch *batch = whole(data);
    const double *x = f64_of(batch, "x");
    int64_t count = bt_batch_count(batch);
    memset(marks, 0, (size_t)room);
    for (int64_t i = 0; i < count; i++) {
        int64_t number = (int64_t)x[2 * i];
        ck_assert(number >= 0 && number < room && !marks[number]);
        ck_assert_double_eq(x[2 * i + 1], (double)-number);
        ck_assert(i == 0 || x[2 * i] > x[2 * i - 2]);
        ck_assert_int_eq(i32_of(batch, "index")[i], i);
        marks[number] = 1;
    }
    return count;
}

static int64_t common(const uint8_t *a, const uint8_t *b, int64_t count)
{
    int64_t both = 0;
    for (int64_t i = 0; i < count; i++)
        both += a[i] && b[i];
    return both;
}

START_TEST(parts_cover_and_do_not_overlap)
{
    uint8_t a[101], b[101], c[101];
    ck_assert_int_eq(marks_of(bt_dataset_part(numbered(101, 3), 0, 0.25, 9), a, 101), 25);
    ck_assert_int_eq(marks_of(bt_dataset_part(numbered(101, 3), 0.25, 0.5, 9), b, 101),
                     26); /* 25.25 and 50.5 rounded */
    ck_assert_int_eq(marks_of(bt_dataset_part(numbered(101, 3), 0.5, 1, 9), c, 101), 50);
    for (int i = 0; i < 101; i++)
        ck_assert_int_eq(a[i] + b[i] + c[i], 1);
    /* Shuffled: a quarter of the first half is expected in the first quarter, not all of it. */
    int64_t early = 0;
    for (int i = 0; i < 25; i++)
        early += a[i];
    ck_assert_int_lt(early, 16);
    uint8_t all[101];
    ck_assert_int_eq(marks_of(bt_dataset_part(numbered(101, 3), 0, 1, 9), all, 101), 101);
}
END_TEST

START_TEST(parts_depend_on_the_seed_alone)
{
    uint8_t a[200], b[200], c[200];
    marks_of(bt_dataset_part(numbered(200, 4), 0, 0.5, 1), a, 200);
    marks_of(bt_dataset_part(numbered(200, 4), 0, 0.5, 1), b, 200);
    marks_of(bt_dataset_part(numbered(200, 4), 0, 0.5, 2), c, 200);
    ck_assert_mem_eq(a, b, 200);
    int64_t both = common(a, c, 200); /* hypergeometric: 50 +- 3.5 */
    ck_assert(both > 30 && both < 70);
}
END_TEST

START_TEST(parts_of_parts)
{
    uint8_t outer[120], a[120], b[120];
    marks_of(bt_dataset_part(numbered(120, 4), 0.5, 1, 3), outer, 120);
    int64_t n = marks_of(bt_dataset_part(bt_dataset_part(numbered(120, 4), 0.5, 1, 3), 0, 0.5, 3), a, 120);
    int64_t m = marks_of(bt_dataset_part(bt_dataset_part(numbered(120, 4), 0.5, 1, 3), 0.5, 1, 3), b, 120);
    ck_assert_int_eq(n, 30);
    ck_assert_int_eq(m, 30);
    for (int i = 0; i < 120; i++)
        ck_assert_int_eq(a[i] + b[i], outer[i]);
}
END_TEST

START_TEST(per_class_complements)
{
    uint8_t a[103], b[103];
    ck_assert_int_eq(marks_of(bt_dataset_per_class(numbered(103, 10), 0, 3, 4), a, 103), 30);
    ck_assert_int_eq(marks_of(bt_dataset_per_class(numbered(103, 10), 3, BT_REST, 4), b, 103), 73);
    int64_t of_class[10] = {0};
    for (int i = 0; i < 103; i++) {
        ck_assert_int_eq(a[i] + b[i], 1);
        of_class[i % 10] += a[i];
    }
    for (int k = 0; k < 10; k++)
        ck_assert_int_eq(of_class[k], 3);
    /* Chosen at random, independently for each class: not the same three of each. */
    int64_t rows[11] = {0}, most = 0;
    for (int i = 0; i < 103; i++)
        rows[i / 10] += a[i];
    for (int i = 0; i < 11; i++)
        most = rows[i] > most ? rows[i] : most;
    ck_assert_int_lt(most, 9);
    uint8_t other[103], again[103];
    marks_of(bt_dataset_per_class(numbered(103, 10), 0, 3, 5), other, 103);
    marks_of(bt_dataset_per_class(numbered(103, 10), 0, 3, 4), again, 103);
    ck_assert_mem_eq(a, again, 103);
    ck_assert_int_lt(common(a, other, 103), 25);
}
END_TEST

START_TEST(per_class_faults)
{
    uint8_t marks[103];
    ck_assert_ptr_null(bt_dataset_per_class(numbered(103, 10), 0, 11, 1)); /* classes 3 to 9 have ten */
    expect_failure(BT_ERROR_DATA, "bt_dataset_per_class", "class 3", "10 examples", "11");
    ck_assert_ptr_null(bt_dataset_per_class(numbered(103, 10), 11, BT_REST, 1));
    expect_failure(BT_ERROR_DATA, "class 3", "11");
    ck_assert_int_eq(marks_of(bt_dataset_per_class(numbered(103, 10), 10, BT_REST, 1), marks, 103), 3);
    ck_assert_ptr_null(bt_dataset_per_class(numbered(100, 10), 10, BT_REST, 1)); /* nothing is left */
    expect_failure(BT_ERROR_DATA, "none of the 100 examples is left");
    ck_assert_ptr_null(bt_dataset_per_class(numbered(100, 10), 3, 3, 1));
    expect_failure(BT_ERROR_ARGUMENT, "from 3 to 3");
    ck_assert_ptr_null(bt_dataset_per_class(numbered(100, 10), -1, 3, 1));
    expect_failure(BT_ERROR_ARGUMENT, "from -1 to 3");
}
END_TEST

static void count_classes(bt_dataset *data, int64_t *counts, int classes)
{
    const bt_batch *batch = whole(data);
    memset(counts, 0, (size_t)classes * sizeof *counts);
    for (int64_t i = 0; i < bt_batch_count(batch); i++)
        counts[i32_of(batch, "label")[i]]++;
}

START_TEST(long_tail_counts)
{
    /* 6000 * 100^(-c/9), truncated: with a pocket calculator. */
    const int64_t expected[10] = {6000, 3596, 2156, 1292, 774, 464, 278, 166, 100, 60};
    int64_t counts[10];
    count_classes(bt_dataset_long_tail(numbered(60000, 10), 100, 1), counts, 10);
    for (int k = 0; k < 10; k++)
        ck_assert_int_eq(counts[k], expected[k]);
    /* Powers of two must be exact: none may be lost to rounding. */
    count_classes(bt_dataset_long_tail(numbered(256 * 5, 5), 16, 1), counts, 5);
    for (int k = 0; k < 5; k++)
        ck_assert_int_eq(counts[k], 256 >> k);
    count_classes(bt_dataset_long_tail(numbered(20, 2), 1000, 1), counts, 2);
    ck_assert_int_eq(counts[0], 10);
    ck_assert_int_eq(counts[1], 1); /* at least one */
    count_classes(bt_dataset_long_tail(numbered(20, 1), 7, 1), counts, 1);
    ck_assert_int_eq(counts[0], 20);
    count_classes(bt_dataset_long_tail(numbered(21, 2), 1, 1), counts, 2);
    ck_assert_int_eq(counts[0], 11);
    ck_assert_int_eq(counts[1], 10);
}
END_TEST

START_TEST(long_tail_of_uneven_classes)
{
    /* Classes of 10, 11, 10: counts start from the largest, and no class gets more than it had. */
    int32_t label[31];
    for (int i = 0; i < 31; i++)
        label[i] = i == 30 ? 1 : i % 3;
    bt_dataset *data = bt_dataset_new(31);
    bt_dataset_add(data, "label", BT_ARRAY(label, 31));
    int64_t counts[3];
    count_classes(bt_dataset_long_tail(data, 1.21, 1), counts, 3); /* wanted: 11, 10, 9.09 */
    ck_assert_int_eq(counts[0], 10);
    ck_assert_int_eq(counts[1], 10);
    ck_assert_int_eq(counts[2], 9);
}
END_TEST

START_TEST(long_tail_seed)
{
    uint8_t a[100], b[100], c[100];
    marks_of(bt_dataset_long_tail(numbered(100, 2), 5, 1), a, 100);
    marks_of(bt_dataset_long_tail(numbered(100, 2), 5, 1), b, 100);
    marks_of(bt_dataset_long_tail(numbered(100, 2), 5, 2), c, 100);
    ck_assert_mem_eq(a, b, 100);
    ck_assert(memcmp(a, c, 100) != 0);
    const double wrong[] = {0.5, 0, -1, NAN, INFINITY};
    for (int i = 0; i < BT_COUNT_OF(wrong); i++) {
        ck_assert_ptr_null(bt_dataset_long_tail(numbered(100, 2), wrong[i], 1));
        expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_long_tail: found factor", "at least 1");
    }
}
END_TEST

/* The number of wrong labels in a set made by numbered(count, classes); also counts their new values. */
static int64_t wrong_labels(const bt_batch *batch, int classes, int64_t *became)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < bt_batch_count(batch); i++) {
        int32_t label = i32_of(batch, "label")[i], right = (int32_t)f64_of(batch, "x")[2 * i] % classes;
        ck_assert(label >= 0 && label < classes);
        wrong += label != right;
        if (label != right && became)
            became[(label - right + classes) % classes]++;
    }
    return wrong;
}

START_TEST(label_noise_share_is_exact)
{
    const double shares[] = {0.4, 0.123, 1, 0.0004, 0.5};
    const int64_t expected[] = {400, 123, 1000, 0, 500};
    for (int i = 0; i < BT_COUNT_OF(shares); i++) {
        const bt_batch *batch = whole(bt_dataset_label_noise(numbered(1000, 10), shares[i], 3));
        ck_assert_int_eq(bt_batch_count(batch), 1000);
        ck_assert_int_eq(wrong_labels(batch, 10, NULL), expected[i]);
    }
    /* 2.5 = 5 * 0.5 is rounded half away from zero. */
    ck_assert_int_eq(wrong_labels(whole(bt_dataset_label_noise(numbered(5, 2), 0.5, 3)), 2, NULL), 3);
}
END_TEST

START_TEST(label_noise_is_uniform_over_the_others)
{
    enum { N = 45000 };
    int64_t became[10] = {0};
    ck_assert_int_eq(wrong_labels(whole(bt_dataset_label_noise(numbered(N, 10), 1, 3)), 10, became), N);
    ck_assert_int_eq(became[0], 0);
    double chi = 0;
    for (int k = 1; k < 10; k++)
        chi += ((double)became[k] - N / 9.0) * ((double)became[k] - N / 9.0) / (N / 9.0);
    ck_assert_double_lt(chi, 26.1); /* 8 degrees of freedom, 0.1 % */
}
END_TEST

START_TEST(label_noise_seed_and_views)
{
    const int32_t *a = i32_of(whole(bt_dataset_label_noise(numbered(300, 10), 0.4, 1)), "label");
    const int32_t *b = i32_of(whole(bt_dataset_label_noise(numbered(300, 10), 0.4, 1)), "label");
    const int32_t *c = i32_of(whole(bt_dataset_label_noise(numbered(300, 10), 0.4, 2)), "label");
    ck_assert_mem_eq(a, b, 300 * sizeof *a);
    ck_assert(memcmp(a, c, 300 * sizeof *a) != 0);
    /* For a view, and a view of that: x and label must stay together. */
    bt_dataset *data = bt_dataset_label_noise(bt_dataset_per_class(numbered(300, 10), 5, BT_REST, 1), 0.4, 1);
    ck_assert_int_eq(wrong_labels(whole(data), 10, NULL), 100); /* of 250 */
    data = bt_dataset_label_noise(bt_dataset_per_class(numbered(300, 10), 5, BT_REST, 1), 0.4, 1);
    int64_t first = wrong_labels(whole(bt_dataset_part(data, 0, 0.5, 1)), 10, NULL);
    data = bt_dataset_label_noise(bt_dataset_per_class(numbered(300, 10), 5, BT_REST, 1), 0.4, 1);
    int64_t second = wrong_labels(whole(bt_dataset_part(data, 0.5, 1, 1)), 10, NULL);
    ck_assert_int_eq(first + second, 100);
    ck_assert(first > 30 && first < 70);
}
END_TEST

START_TEST(label_noise_takes_labels_as_they_are)
{
    /* Targets -1 and +1 of a table; and labels from 1, without a class 0. */
    float y[40];
    int64_t label[60];
    for (int i = 0; i < 40; i++)
        y[i] = i % 4 ? -1.0F : 1.0F;
    for (int i = 0; i < 60; i++)
        label[i] = 1 + i % 3;
    bt_dataset *table = bt_dataset_new(40), *letters = bt_dataset_new(60);
    bt_dataset_add(table, "y", BT_ARRAY(y, 40));
    bt_dataset_add(letters, "label", BT_ARRAY(label, 60));
    const double *noisy = f64_of(whole(bt_dataset_label_noise(table, 1, 1)), "y");
    for (int i = 0; i < 40; i++)
        ck_assert_double_eq(noisy[i], (double)-y[i]);
    const bt_batch_field *field = field_of(whole(bt_dataset_label_noise(letters, 1, 1)), "label");
    ck_assert_int_eq(field->array.dtype, BT_I64);
    for (int i = 0; i < 60; i++) {
        int64_t now = ((const int64_t *)field->array.data)[i];
        ck_assert(now >= 1 && now <= 3 && now != label[i]);
    }
}
END_TEST

START_TEST(classes_faults)
{
    double y[3] = {0, 1, 2.5};
    float x[6] = {0};
    bt_dataset *data = bt_dataset_new(3);
    bt_dataset_add(data, "y", BT_ARRAY(y, 3));
    ck_assert_ptr_null(bt_dataset_label_noise(data, 0.5, 1));
    expect_failure(BT_ERROR_DATA, "bt_dataset_label_noise", "\"y\" of example 2 is 2.5", "integer");
    y[2] = NAN;
    data = bt_dataset_new(3);
    bt_dataset_add(data, "y", BT_ARRAY(y, 3));
    ck_assert_ptr_null(bt_dataset_per_class(data, 0, 1, 1));
    expect_failure(BT_ERROR_DATA, "example 2 is nan");
    data = bt_dataset_new(3);
    bt_dataset_add(data, "x", BT_ARRAY(x, 3, 2));
    ck_assert_ptr_null(bt_dataset_long_tail(data, 2, 1));
    expect_failure(BT_ERROR_DATA, "neither a field \"label\" nor \"y\"");
    data = bt_dataset_new(3);
    bt_dataset_add(data, "label", BT_ARRAY(x, 3, 2));
    ck_assert_ptr_null(bt_dataset_per_class(data, 0, 1, 1));
    expect_failure(BT_ERROR_SHAPE, "\"label\" has 2 numbers per example");
    ck_assert_ptr_null(bt_dataset_label_noise(numbered(9, 1), 0.5, 1));
    expect_failure(BT_ERROR_DATA, "all examples are of class 0");
    const double wrong[] = {-0.1, 1.1, NAN};
    for (int i = 0; i < BT_COUNT_OF(wrong); i++) {
        ck_assert_ptr_null(bt_dataset_label_noise(numbered(9, 3), wrong[i], 1));
        expect_failure(BT_ERROR_ARGUMENT, "share", "0 to 1");
    }
}
END_TEST

START_TEST(part_faults)
{
    const double wrong[][2] = {{-0.1, 1}, {0, 1.1}, {0.5, 0.5}, {0.6, 0.5}, {NAN, 1}, {0, NAN}};
    for (int i = 0; i < BT_COUNT_OF(wrong); i++) {
        ck_assert_ptr_null(bt_dataset_part(numbered(9, 3), wrong[i][0], wrong[i][1], 1));
        expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_part: found from", "0 <= from < to <= 1");
    }
    ck_assert_ptr_null(bt_dataset_part(numbered(9, 3), 0, 0.01, 1));
    expect_failure(BT_ERROR_DATA, "bt_dataset_part: none of the 9 examples is left");
}
END_TEST

START_TEST(nothing_is_survived)
{
    ck_assert_ptr_null(bt_dataset_part(NULL, 0, 1, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_part", "NULL");
    ck_assert_ptr_null(bt_dataset_per_class(NULL, 0, 1, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_per_class");
    ck_assert_ptr_null(bt_dataset_long_tail(NULL, 2, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_long_tail");
    ck_assert_ptr_null(bt_dataset_label_noise(NULL, 0.5, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_label_noise");
    /* The first failure explains those that follow from it. */
    ck_assert_ptr_null(bt_dataset_label_noise(bt_dataset_long_tail(numbered(9, 3), NAN, 1), 0.5, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_long_tail: found factor nan");
    /* A set that a field could not be added to remains unusable. */
    bt_dataset *data = bt_dataset_new(3);
    float x[2] = {0};
    ck_assert_int_eq(bt_dataset_add(data, "x", BT_ARRAY(x, 2)), BT_ERROR_SHAPE);
    bt_error_clear();
    ck_assert_ptr_null(bt_dataset_part(data, 0, 1, 1));
    expect_failure(BT_ERROR_SHAPE, "incomplete");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.select");
    ADD_CASE(suite, parts_cover_and_do_not_overlap);
    ADD_CASE(suite, parts_depend_on_the_seed_alone);
    ADD_CASE(suite, parts_of_parts);
    ADD_CASE(suite, per_class_complements);
    ADD_CASE(suite, per_class_faults);
    ADD_CASE(suite, long_tail_counts);
    ADD_CASE(suite, long_tail_of_uneven_classes);
    ADD_CASE(suite, long_tail_seed);
    ADD_CASE(suite, label_noise_share_is_exact);
    ADD_CASE(suite, label_noise_is_uniform_over_the_others);
    ADD_CASE(suite, label_noise_seed_and_views);
    ADD_CASE(suite, label_noise_takes_labels_as_they_are);
    ADD_CASE(suite, classes_faults);
    ADD_CASE(suite, part_faults);
    ADD_CASE(suite, nothing_is_survived);
    return run_suite(suite);
}
