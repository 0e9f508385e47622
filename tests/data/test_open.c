/* Data sets by name or path: the search path, splits, the sets that come with the library, Fashion-MNIST. */
#include "data/dataset.h"
#include "files.h"

#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t count_of(const char *name, const char *split)
{
    bt_dataset *data = bt_dataset_open(name, split);
    ck_assert_msg(data != NULL, "%s %s: %s", name, split, bt_error());
    int64_t count = bt_dataset_count(data);
    bt_dataset_free(data);
    return count;
}

/* A table with this many rows. */
static void write_rows(const char *name, int rows)
{
    char text[1000] = "a,b\n";
    for (int i = 0; i < rows; i++)
        strcat(text, "1,2\n");
    write_text(name, text);
}

START_TEST(places)
{
    make_folder("own");
    make_folder("own/sub");
    make_folder("work");
    make_folder("work/data");
    write_rows("work/data/t.csv", 1);
    ck_assert_int_eq(chdir(path_of("work")), 0);
    ck_assert_int_eq(count_of("t", "train"), 1); /* ./data */
    ck_assert_int_eq(count_of("t.csv", "train"), 1);
    ck_assert_int_eq(count_of("data/t", "train"), 1);
    ck_assert_int_eq(count_of("./data/t.csv", "train"), 1);
    ck_assert_int_eq(count_of(path_of("work/data/t"), "train"), 1);
    write_rows("own/t.csv.gz", 2);
    write_rows("own/sub/u.csv", 3);
    setenv("BETTY_DATA", path_of("own"), 1);
    ck_assert_int_eq(count_of("t", "train"), 2); /* $BETTY_DATA has priority over ./data */
    ck_assert_int_eq(count_of("sub/u", "train"), 3);
    write_rows("work/t.csv", 4);
    ck_assert_int_eq(count_of("t", "train"), 2);     /* a name is first looked up in the folders */
    ck_assert_int_eq(count_of("t.csv", "train"), 4); /* but a path is used as it is */
    ck_assert_int_eq(count_of("t.csv:a", "train"), 4);
    unsetenv("BETTY_DATA");
    char folder[512];
    snprintf(folder, sizeof folder, "%s", path_of("own"));
    ck_assert_ptr_null(bt_data_beside(folder)); /* the same for the INI file's folder */
    ck_assert_int_eq(count_of("sub/u.csv", "train"), 3);
    ck_assert_int_eq(count_of("t.csv", "train"), 4); /* after the working folder */
    ck_assert_str_eq(bt_data_beside(NULL), folder);
    write_rows("work/v.csv", 5);
    ck_assert_int_eq(count_of("v", "train"), 5);
    ck_assert_int_eq(chdir("/"), 0);
    expect_no_failure();
}
END_TEST

START_TEST(folders)
{
    make_folder("a");
    make_folder("b");
    make_folder("c");
    write_rows("a/a.csv", 1);
    write_rows("a/a_test.csv", 2);
    write_rows("b/train.csv.gz", 3);
    write_rows("b/test.csv.gz", 4);
    ck_assert_int_eq(count_of(path_of("a"), "train"), 1);
    ck_assert_int_eq(count_of(path_of("a/"), "test"), 2);
    ck_assert_int_eq(count_of(path_of("b"), "train"), 3);
    ck_assert_int_eq(count_of(path_of("b"), "test"), 4);
    ck_assert_ptr_null(bt_dataset_open(path_of("c"), "train")); /* an empty folder */
    expect_failure(BT_ERROR_FILE, "the folder holds no data set", "train-images-idx3-ubyte.gz");
    ck_assert_int_eq(chdir(path_of("")), 0);
    ck_assert_ptr_null(bt_dataset_open("c", "train")); /* by a name next to which one exists */
    expect_failure(BT_ERROR_FILE, "the folder holds no data set", "train/CLASS/FILE");
    ck_assert_int_eq(chdir("/"), 0);
    setenv("BETTY_DATA", path_of(""), 1); /* and a file found there is described as if by its path */
    ck_assert_ptr_null(bt_dataset_open("c", "train"));
    expect_failure(BT_ERROR_FILE, "/c\": the folder holds no data set", "train/CLASS/FILE");
    unsetenv("BETTY_DATA");
}
END_TEST

START_TEST(test_splits)
{
    static const char *const names[][2] = {
        {"p.csv", "p.test.csv"},          {"q.csv", "q_test.csv"},
        {"r.csv", "r-test.csv"},          {"s", "s.t"},
        {"x-train.csv", "x-test.csv.gz"}, {"train-train.csv.gz", "train-test.csv"},
        {"w.libsvm", "w.libsvm.t.gz"},
    };
    for (int i = 0; i < BT_COUNT_OF(names); i++) {
        write_rows(names[i][0], 1);
        if (strchr(names[i][0], '.') && !strstr(names[i][0], "csv"))
            write_text(names[i][0], "1 1:2\n");
        ck_assert_ptr_null(bt_dataset_open(path_of(names[i][0]), "test"));
        expect_failure(BT_ERROR_FILE, names[i][0], "there is no split \"test\" beside it", "take parts of the split");
        ck_assert_int_eq(count_of(path_of(names[i][0]), "train"), 1);
        if (strstr(names[i][1], "libsvm"))
            write_text(names[i][1], "1 1:2\n2 1:1\n");
        else
            write_rows(names[i][1], 2);
        ck_assert_int_eq(count_of(path_of(names[i][0]), "test"), 2);
        ck_assert_int_eq(count_of(path_of(names[i][0]), "train"), 1);
    }
}
END_TEST

START_TEST(faults)
{
    ck_assert_ptr_null(bt_dataset_open(NULL, "train"));
    expect_failure(BT_ERROR_ARGUMENT, "name is missing");
    ck_assert_ptr_null(bt_dataset_open("", "train"));
    expect_failure(BT_ERROR_ARGUMENT, "name is missing");
    ck_assert_ptr_null(bt_dataset_open("a9a", NULL));
    expect_failure(BT_ERROR_ARGUMENT, "split is missing");
    ck_assert_ptr_null(bt_dataset_open("a9a", "valid"));
    expect_failure(BT_ERROR_ARGUMENT, "\"a9a\": found split \"valid\"; expected train or test");
    ck_assert_ptr_null(bt_dataset_open("fashon-mnist", "train"));
    expect_failure(BT_ERROR_FILE, "\"fashon-mnist\"", "did you mean \"fashion-mnist\"?", "BETTY_DATA");
    ck_assert_ptr_null(bt_dataset_open("/no/such/thing.csv", "train"));
    expect_failure(BT_ERROR_FILE, "/no/such/thing.csv", "not found");
    ck_assert_ptr_null(bt_dataset_open("/dev/null", "train"));
    expect_failure(BT_ERROR_FILE, "/dev/null");
    write_text("what", "neither one nor the other\n");
    ck_assert_ptr_null(bt_dataset_open(path_of("what"), "train"));
    expect_failure(BT_ERROR_DATA, "what", "unknown format; expected IDX, CSV, libsvm or CIFAR");
    write_rows("secret.csv", 1);
    if (geteuid() != 0) { /* root can read everything */
        ck_assert_int_eq(chmod(path_of("secret.csv"), 0), 0);
        ck_assert_ptr_null(bt_dataset_open(path_of("secret.csv"), "train"));
        expect_failure(BT_ERROR_FILE, "secret.csv", "Permission denied");
    }
    char name[9000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    ck_assert_ptr_null(bt_dataset_open(name, "train"));
    expect_failure(BT_ERROR_FILE, "nnn");
    name[0] = '/';
    ck_assert_ptr_null(bt_dataset_open(name, "test"));
    expect_failure(BT_ERROR_FILE, "nnn");
}
END_TEST

static const void *memory_of(const bt_dataset *data, const char *field)
{
    const bt_column *column = bt_dataset_column(data, field);
    return column ? column->store->array.data : NULL;
}

START_TEST(one_file_is_read_once)
{
    write_rows("t.csv", 3);
    bt_dataset *a = bt_dataset_open(path_of("t.csv"), "train"), *b = bt_dataset_open(path_of("t.csv"), "train");
    bt_dataset *c = bt_dataset_open(path_of("t.csv:a"), "train");
    ck_assert_ptr_nonnull(memory_of(a, "x"));
    ck_assert_ptr_eq(memory_of(a, "x"), memory_of(b, "x"));
    ck_assert_ptr_ne(memory_of(a, "x"), memory_of(c, "x")); /* different columns */
    bt_dataset_free(a);
    a = bt_dataset_open(path_of("t.csv"), "train");
    ck_assert_ptr_eq(memory_of(a, "x"), memory_of(b, "x"));
    a = bt_dataset_label_noise(a, 1, 1); /* all have class 2 */
    expect_failure(BT_ERROR_DATA, "class 2");
    write_rows("t.csv", 4); /* a changed file is a different one */
    a = bt_dataset_open(path_of("t.csv"), "train");
    ck_assert_int_eq(bt_dataset_count(a), 4);
    ck_assert_int_eq(bt_dataset_count(b), 3);
    bt_dataset_free(a);
    bt_dataset_free(b);
    bt_dataset_free(c);
}
END_TEST

/* The folder data of the sources, if it is known. */
static bool shipped(void)
{
    const char *sources = getenv("BT_SOURCE_DIR");
    if (!sources)
        return false;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/data", sources);
    return setenv("BETTY_DATA", folder, 1) == 0;
}

/* Counts made with awk. */
START_TEST(comes_with_the_library)
{
    if (!shipped())
        return;
    bt_dataset *train = bt_dataset_open("a9a", "train"), *test = bt_dataset_open("a9a", "test");
    ck_assert_msg(train && test, "%s", bt_error());
    ck_assert_int_eq(bt_dataset_field_dim(train, "x", 1), 123);
    ck_assert_int_eq(bt_dataset_field_dim(test, "x", 1), 123); /* although its file has 122 */
    const bt_batch *batches[2] = {whole(train), whole(test)};
    const int64_t rows[2] = {32561, 16281}, positive[2] = {7841, 3846}, ones[2] = {451592, 225731};
    for (int k = 0; k < 2; k++) {
        const double *x = f64_of(batches[k], "x"), *y = f64_of(batches[k], "y");
        int64_t plus = 0, sum = 0;
        ck_assert_int_eq(bt_batch_count(batches[k]), rows[k]);
        for (int64_t i = 0; i < rows[k]; i++) {
            ck_assert(y[i] == 1 || y[i] == -1);
            plus += y[i] > 0;
        }
        for (int64_t i = 0; i < rows[k] * 123; i++)
            sum += x[i] == 1;
        ck_assert_int_eq(plus, positive[k]);
        ck_assert_int_eq(sum, ones[k]);
    }
    ck_assert_double_eq(f64_of(batches[0], "x")[2], 1); /* the first line begins -1 3:1 11:1 */
    ck_assert_double_eq(f64_of(batches[0], "x")[10], 1);
    ck_assert_double_eq(f64_of(batches[0], "x")[0], 0);
}
END_TEST

START_TEST(small_tables_come_with_the_library)
{
    if (!shipped())
        return;
    const bt_batch *cancer = whole(bt_dataset_open("breast_cancer", "train"));
    const bt_batch *digits = whole(bt_dataset_open("digits", "train"));
    ck_assert_int_eq(bt_batch_count(cancer), 569);
    ck_assert_int_eq(field_of(cancer, "x")->array.dims[1], 30);
    ck_assert_double_eq(f64_of(cancer, "x")[0], 17.99);
    ck_assert_double_eq(f64_of(cancer, "x")[29], 0.1189);
    double benign = 0, counts[10] = {0};
    for (int i = 0; i < 569; i++)
        benign += f64_of(cancer, "y")[i];
    ck_assert_double_eq(benign, 357);
    ck_assert_int_eq(bt_batch_count(digits), 1797);
    for (int i = 0; i < 1797; i++)
        counts[(int)f64_of(digits, "y")[i]]++;
    const double expected[10] = {178, 182, 177, 183, 181, 182, 181, 179, 174, 180};
    for (int k = 0; k < 10; k++)
        ck_assert_double_eq(counts[k], expected[k]);
    ck_assert_ptr_null(bt_dataset_open("digits", "test"));
    expect_failure(BT_ERROR_FILE, "digits.csv.gz", "no split \"test\"");
}
END_TEST

/* Counts made with Python. */
START_TEST(omniglot_comes_with_the_library)
{
    if (!shipped())
        return;
    static const struct {
        const char *split;
        int first, classes, ink;
    } splits[] = {{"train", 0, 964, 1178110}, {"test", 964, 659, 870778}};
    for (int k = 0; k < 2; k++) {
        const bt_batch *batch = whole(bt_dataset_open("omniglot", splits[k].split));
        const bt_array image = field_of(batch, "image")->array;
        ck_assert_int_eq(bt_batch_count(batch), 20 * splits[k].classes);
        ck_assert(image.rank == 4 && image.dims[1] == 28 && image.dims[2] == 28 && image.dims[3] == 1);
        int ink = 0, paper = 0;
        for (int64_t i = 0; i < bt_array_count(image); i++) {
            ink += ((const double *)image.data)[i] == 1;
            paper += ((const double *)image.data)[i] == 0;
        }
        ck_assert_int_eq(ink, splits[k].ink);
        ck_assert_int_eq(ink + paper, bt_array_count(image));
        for (int i = 0; i < 20 * splits[k].classes; i++)
            ck_assert_int_eq(i32_of(batch, "label")[i], splits[k].first + i / 20);
    }
}
END_TEST

START_TEST(fashion_mnist)
{
    if (access("/usr/share/datasets/fashion-mnist", R_OK) != 0) {
        ck_assert_ptr_null(bt_dataset_open("fashion-mnist", "train"));
        expect_failure(BT_ERROR_FILE, "apt install dataset-fashion-mnist");
        return;
    }
    const char *const splits[2] = {"train", "test"};
    for (int k = 0; k < 2; k++) {
        bt_dataset *data = bt_dataset_open("fashion-mnist", splits[k]);
        ck_assert_msg(data != NULL, "%s", bt_error());
        int64_t count = k ? 10000 : 60000, of_class[10] = {0};
        ck_assert_int_eq(bt_dataset_count(data), count);
        ck_assert_int_eq(bt_dataset_field_dim(data, "image", 1), 28);
        ck_assert_int_eq(bt_dataset_field_dim(data, "image", 2), 28);
        ck_assert_int_eq(bt_dataset_field_dim(data, "image", 3), 1);
        const int32_t *labels = memory_of(data, "label");
        for (int64_t i = 0; i < count; i++)
            of_class[labels[i]]++;
        for (int c = 0; c < 10; c++)
            ck_assert_int_eq(of_class[c], count / 10);
        ck_assert_int_eq(labels[0], 9); /* both begin with an ankle boot */
        bt_dataset_free(data);
    }
    /* The 1000 clean images of the reweighting example and the other 59,000. */
    bt_dataset *clean = bt_dataset_per_class(bt_dataset_open("fashion-mnist", "train"), 0, 100, 1);
    bt_dataset *rest = bt_dataset_per_class(bt_dataset_open("fashion-mnist", "train"), 100, BT_REST, 1);
    ck_assert_int_eq(bt_dataset_count(clean), 1000);
    ck_assert_int_eq(bt_dataset_count(rest), 59000);
    ck_assert_ptr_eq(memory_of(clean, "image"), memory_of(rest, "image"));
    bt_dataset_free(clean);
    bt_dataset_free(rest);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.open");
    ADD_CASE(suite, places);
    ADD_CASE(suite, folders);
    ADD_CASE(suite, test_splits);
    ADD_CASE(suite, faults);
    ADD_CASE(suite, one_file_is_read_once);
    ADD_CASE(suite, comes_with_the_library);
    ADD_CASE(suite, small_tables_come_with_the_library);
    ADD_CASE(suite, omniglot_comes_with_the_library);
    ADD_CASE(suite, fashion_mnist);
    return run_suite(suite);
}
