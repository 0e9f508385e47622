/* Texts with votes: words, their weights, votes, splits, and what is refused. */
#include "files.h"

#include "data/words.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAIN                                                                                                          \
    "0\t0\t0:0,2:1\tThe cat, the CAT!\n"                                                                               \
    "2\t1\t1:1\ta dog\tthe\tdog\n"                                                                                     \
    "1\t-1\t-\t\n"                                                                                                     \
    "0\t0\t2:0\ta cat2 na\xc3\xafve\n"

static void write_set(void)
{
    write_text("pets.train.tsv", TRAIN);
    write_text("pets.valid.tsv", "3\t3\t4:3\tCat dog fish\r\n");
    write_text("pets.test.tsv.gz", "1\t-1\t-\tthe the the dog\n0\t0\t0:0\tunknown words");
}

static bt_dataset *open_set(const char *split)
{
    bt_dataset *data = bt_dataset_open(path_of("pets"), split);
    ck_assert_msg(data != NULL, "%s", bt_error());
    return data;
}

START_TEST(words_and_weights)
{
    /* Words in texts: a 2, the 2, cat 1, cat2 1, dog 1, na\xc3\xafve 1; ties are ordered by bytes. n is 4. */
    const double two = log(5 / 3.0) + 1, one = log(5 / 2.0) + 1;
    write_set();
    const bt_batch *batch = whole(open_set("train"));
    ck_assert_int_eq(field_of(batch, "x")->array.dims[1], 6);
    const double *x = f64_of(batch, "x");
    double norm = sqrt(4 * two * two + 4 * one * one);
    const double expected[4][6] = {{0, 2 * two / norm, 2 * one / norm, 0, 0, 0},
                                   {two / sqrt(2 * two * two + 4 * one * one),
                                    two / sqrt(2 * two * two + 4 * one * one), 0, 0,
                                    2 * one / sqrt(2 * two * two + 4 * one * one), 0},
                                   {0, 0, 0, 0, 0, 0},
                                   {two / sqrt(two * two + 2 * one * one), 0, 0, one / sqrt(two * two + 2 * one * one),
                                    0, one / sqrt(two * two + 2 * one * one)}};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 6; k++)
            ck_assert_double_eq_tol(x[6 * i + k], expected[i][k], 1e-7);
    expect_no_failure();
}
END_TEST

START_TEST(votes_and_counts)
{
    write_set();
    const bt_batch *batch = whole(open_set("train"));
    ck_assert_int_eq(field_of(batch, "votes")->array.dims[1], 5); /* the fifth only votes in another split */
    ck_assert_int_eq(field_of(batch, "counts")->array.dims[1], 4);
    static const int32_t votes[4][5] = {
        {0, -1, 1, -1, -1}, {-1, 1, -1, -1, -1}, {-1, -1, -1, -1, -1}, {-1, -1, 0, -1, -1}};
    static const double counts[4][4] = {{1, 1, 0, 0}, {0, 1, 0, 0}, {0, 0, 0, 0}, {1, 0, 0, 0}};
    static const int32_t labels[4] = {0, 2, 1, 0};
    ck_assert_mem_eq(i32_of(batch, "votes"), votes, sizeof votes);
    ck_assert_mem_eq(f64_of(batch, "counts"), counts, sizeof counts);
    ck_assert_mem_eq(i32_of(batch, "label"), labels, sizeof labels);
}
END_TEST

/* Other splits use the words of the training split, and have as many functions and classes. */
START_TEST(splits)
{
    const double two = log(5 / 3.0) + 1, one = log(5 / 2.0) + 1;
    write_set();
    const bt_batch *valid = whole(open_set("valid")), *test = whole(open_set("test"));
    ck_assert_int_eq(bt_batch_count(valid), 1);
    ck_assert_int_eq(bt_batch_count(test), 2);
    const double expected[3][6] = {
        {0, 0, sqrt(0.5), 0, sqrt(0.5), 0},
        {0, 3 * two / sqrt(9 * two * two + one * one), 0, 0, one / sqrt(9 * two * two + one * one), 0},
        {0, 0, 0, 0, 0, 0}};
    for (int k = 0; k < 18; k++) {
        const double *x = k < 6 ? f64_of(valid, "x") : f64_of(test, "x") - 6;
        ck_assert_double_eq_tol(x[k], expected[k / 6][k % 6], 1e-7);
    }
    ck_assert_int_eq(i32_of(valid, "votes")[4], 3);
    ck_assert_int_eq(i32_of(test, "votes")[5], 0);
    ck_assert_int_eq(i32_of(test, "votes")[9], -1);
    ck_assert_double_eq(f64_of(valid, "counts")[3], 1);
    ck_assert_int_eq(i32_of(valid, "label")[0], 3);
}
END_TEST

/* The most frequent 2,000 words, however many there are: here word k is in 40 - k / 64 texts. */
START_TEST(vocabulary_is_limited)
{
    enum { WORDS = 2560, TEXTS = 40 };
    char *text = malloc(WORDS * TEXTS * 8 + TEXTS * 16), *at = text;
    ck_assert_ptr_nonnull(text);
    for (int t = 0; t < TEXTS; t++) {
        at += sprintf(at, "0\t0\t0:0\t");
        for (int k = 0; k < WORDS; k++)
            if (t < TEXTS - k / 64)
                at += sprintf(at, "w%04d ", k);
        at += sprintf(at, "\n");
    }
    write_text("many.train.tsv", text);
    free(text);
    bt_dataset *data = bt_dataset_open(path_of("many"), "train");
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_field_dim(data, "x", 1), 2000);
    const double *x = f64_of(whole(data), "x");
    for (int t = 0; t < TEXTS; t++)
        for (int k = 0; k < 2000; k++)
            ck_assert_int_eq(x[2000 * t + k] > 0, t < TEXTS - k / 64);
}
END_TEST

START_TEST(folders_and_sharing)
{
    make_folder("box");
    make_folder("box/pets");
    write_text("box/pets/pets.train.tsv.gz", TRAIN);
    ck_assert_int_eq(setenv("BETTY_DATA", path_of("box"), 1), 0);
    bt_dataset *a = bt_dataset_open("pets", "train"), *b = bt_dataset_open("pets", "train");
    ck_assert_msg(a && b, "%s", bt_error());
    bt_loader *loaders[2] = {bt_loader_new(a, 2, 1), bt_loader_new(b, 2, 1)};
    const bt_batch *batches[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(bt_loader_next(loaders[i], &batches[i]), BT_OK);
    ck_assert(bt_batch_fits(batches[0], batches[1]));
    bt_loader_free(loaders[0]);
    bt_loader_free(loaders[1]);
    ck_assert_ptr_null(bt_dataset_open("pets", "valid"));
    expect_failure(BT_ERROR_FILE, "pets.train.tsv.gz", "no split \"valid\"", "pets.valid.tsv");
    ck_assert_ptr_null(bt_dataset_open("pets", "dev"));
    expect_failure(BT_ERROR_ARGUMENT, "found split \"dev\"");
    ck_assert_ptr_null(bt_dataset_open("pets:label", "train"));
    expect_failure(BT_ERROR_DATA, "texts have no target column \"label\"");
}
END_TEST

START_TEST(refused)
{
    static const struct {
        const char *text, *piece;
    } cases[] = {
        {"", "the file is empty"},
        {"\n", "line 1: found \"\"; expected a label"},
        {"0\t0\t-\n",
         "line 1: found \"0?0?-\"; expected a label from 0 to 65535, the majority's label, the votes and the text"},
        {"0\t0\t-\tfine\n-1\t0\t-\tx\n", "line 2: found \"-1\"; expected a label from 0"},
        {"65536\t0\t-\tx\n", "found \"65536\""},
        {"99999999999999999999\t0\t-\tx\n", "found \"99999999999999999999\""},
        {"cat\t0\t-\tx\n", "found \"cat\""},
        {"\t0\t-\tx\n", "found \"\"; expected a label"},
        {"0\t-2\t-\tx\n", "found \"-2\"; expected the majority's label, or -1"},
        {"0\t\t-\tx\n", "found \"\"; expected the majority's label"},
        {"0\t0\t\tx\n", "found \"\"; expected a vote, FUNCTION:LABEL"},
        {"0\t0\t1\tx\n", "found \"1\"; expected a vote"},
        {"0\t0\t1:\tx\n", "found \"1:\"; expected a vote"},
        {"0\t0\t:1\tx\n", "found \":1\"; expected a vote"},
        {"0\t0\t1:0,\tx\n", "found \"\"; expected a vote"},
        {"0\t0\t1:-1\tx\n", "found \"1:-1\"; expected a vote"},
        {"0\t0\t1:0:2\tx\n", "found \"1:0:2\"; expected a vote"},
        {"0\t0\t65536:0\tx\n", "found \"65536:0\"; expected a vote"},
        {"0\t0\t2:0,2:1\tx\n", "found \"2:1\"; expected a function with a larger number"},
        {"0\t0\t2:0,1:1\tx\n", "found \"1:1\"; expected a function with a larger number"},
        {"0\t0\t-\t...\n", "its texts have no words"},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        write_text("bad.train.tsv", cases[i].text);
        ck_assert_msg(bt_dataset_open(path_of("bad"), "train") == NULL, "case %d is taken", i);
        expect_failure(BT_ERROR_DATA, "bad.train.tsv", cases[i].piece);
    }
    write_set(); /* for whichever split: it determines the number of classes */
    write_text("pets.test.tsv.gz", "0\n");
    ck_assert_ptr_null(bt_dataset_open(path_of("pets"), "train"));
    expect_failure(BT_ERROR_DATA, "pets.test.tsv.gz, line 1");
}
END_TEST

START_TEST(a_small_file_that_would_be_huge)
{
    char *text = malloc(20 * 3000000 + 64), *at = text; /* 3,000,000 rows of 65,536 functions: 786 GB */
    ck_assert_ptr_nonnull(text);
    at += sprintf(at, "0\t0\t65535:0\tword\n");
    for (int i = 1; i < 3000000; i++, at += 8)
        memcpy(at, "0\t0\t-\ta\n", 9);
    write_text("huge.train.tsv", text);
    free(text);
    ck_assert_ptr_null(bt_dataset_open(path_of("huge"), "train"));
    expect_failure(BT_ERROR_DATA, "huge.train.tsv", "3000000 rows", "as a dense table");
}
END_TEST

/* Counts made with Python. */
START_TEST(semeval_comes_with_the_library)
{
    const char *sources = getenv("BT_SOURCE_DIR");
    char folder[4096];
    if (!sources)
        return;
    snprintf(folder, sizeof folder, "%s/data", sources);
    ck_assert_int_eq(setenv("BETTY_DATA", folder, 1), 0);
    static const struct {
        const char *split;
        int rows, right; /* correct majority votes, ties going to the first class */
    } splits[] = {{"train", 1749, 1487}, {"valid", 178, 146}, {"test", 600, 495}};
    for (int s = 0; s < 3; s++) {
        const bt_batch *batch = whole(bt_dataset_open("semeval", splits[s].split));
        ck_assert_int_eq(bt_batch_count(batch), splits[s].rows);
        ck_assert_int_eq(field_of(batch, "votes")->array.dims[1], 164);
        ck_assert_int_eq(field_of(batch, "counts")->array.dims[1], 9);
        ck_assert_int_eq(field_of(batch, "x")->array.dims[1], 2000);
        int right = 0;
        for (int i = 0; i < splits[s].rows; i++) {
            const double *counts = f64_of(batch, "counts") + (ptrdiff_t)9 * i;
            int best = 0;
            for (int c = 1; c < 9; c++)
                best = counts[c] > counts[best] ? c : best;
            right += best == i32_of(batch, "label")[i];
        }
        ck_assert_int_eq(right, splits[s].right);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.texts");
    ADD_CASE(suite, words_and_weights);
    ADD_CASE(suite, votes_and_counts);
    ADD_CASE(suite, splits);
    ADD_CASE(suite, vocabulary_is_limited);
    ADD_CASE(suite, folders_and_sharing);
    ADD_CASE(suite, refused);
    ADD_CASE(suite, a_small_file_that_would_be_huge);
    ADD_CASE(suite, semeval_comes_with_the_library);
    return run_suite(suite);
}
