/* data/find.c: finds the files of a data set by the names that people commonly give them. */
#include "data/find.h"
#include "data/read.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_file(const char *path)
{
    struct stat info;
    return *path && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return *path && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_test(const char *split) { return strcmp(split, "test") == 0; }

static bool build(char *path, const char *format, ...) BT_FORMAT(2, 3);

/* If the path is too long, returns false and sets "". */
static bool build(char *path, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(path, BT_PATH, format, args);
    va_end(args);
    if (length < 0 || length >= BT_PATH)
        path[0] = 0;
    return path[0] != 0;
}

static bool with_gz(char *path, const char *plain)
{
    return (build(path, "%s", plain) && is_file(path)) || (build(path, "%s.gz", plain) && is_file(path));
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Replaces the last `word` in the file name of `path`; "" if it does not occur. */
static bool replace(char *to, const char *path, const char *word, const char *by)
{
    const char *last = NULL;
    for (const char *at = base_name(path); (at = strstr(at, word)) != NULL; at++)
        last = at;
    to[0] = 0;
    return last && build(to, "%.*s%s%s", (int)(last - path), path, by, last + strlen(word));
}

/* ---- images ---- */

/* Derives the name of the labels: images -> labels, idx3 or idx4 -> idx1, and ubyte -> short or int if necessary; gzip
 * or not. */
static bool labels_of(char *labels, const char *images)
{
    char name[BT_PATH], short_name[BT_PATH], plain[BT_PATH];
    if (!replace(name, images, "images", "labels"))
        return false;
    if (!replace(short_name, name, "idx3", "idx1") && !replace(short_name, name, "idx4", "idx1"))
        build(short_name, "%s", name);
    if (build(labels, "%s", short_name) && is_file(labels))
        return true;
    size_t length = strlen(short_name);
    if (length > 3 && strcmp(short_name + length - 3, ".gz") == 0)
        short_name[length - 3] = 0;
    return with_gz(labels, short_name) || (replace(plain, short_name, "ubyte", "short") && with_gz(labels, plain)) ||
           (replace(plain, short_name, "ubyte", "int") && with_gz(labels, plain));
}

static bt_status found_images(bt_found *found, const char *path)
{
    build(found->file, "%s", path);
    if (!labels_of(found->labels, path))
        return bt_fail(
            BT_ERROR_FILE,
            "%s: its labels file is not beside it; expected the same name, with \"labels\" for \"images\" and \"idx1\" "
            "for \"idx3\"",
            path);
    found->kind = BT_FOUND_IMAGES;
    return BT_OK;
}

/* Names as in MNIST and EMNIST: PREFIX train-images-idx3-ubyte, and t10k or test. */
static bool find_images(char *path, const char *prefix, const char *split)
{
    static const char *const words[] = {"train", "t10k", "test"};
    static const char *const ends[] = {"-images-idx3-ubyte", "-images.idx3-ubyte", "-images-idx4-ubyte"};
    char plain[BT_PATH];
    for (int w = is_test(split) ? 1 : 0; w < (is_test(split) ? 3 : 1); w++)
        for (int e = 0; e < BT_COUNT_OF(ends); e++)
            if (build(plain, "%s%s%s", prefix, words[w], ends[e]) && with_gz(path, plain))
                return true;
    path[0] = 0;
    return false;
}

static bt_status images_in(bt_found *found, const char *prefix, const char *split)
{
    char path[BT_PATH];
    if (find_images(path, prefix, split))
        return found_images(found, path);
    if (find_images(path, prefix, is_test(split) ? "train" : "test"))
        return bt_fail(BT_ERROR_FILE, "%s: there is no split \"%s\" beside it; expected %s%s-images-idx3-ubyte or .gz",
                       path, split, prefix, is_test(split) ? "t10k" : "train");
    return BT_OK;
}

/* ---- CIFAR ---- */

static bool is_in(char *path, const char *inside, const char *name)
{
    char plain[BT_PATH];
    return build(plain, "%s%s", inside, name) && with_gz(path, plain);
}

static bt_status cifar_files(bt_found *found, const char *inside, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (!is_in(i ? found->more[i - 1] : found->file, inside, names[i]))
            return bt_fail(BT_ERROR_FILE, "%s%s is missing; expected %s%s%s (or .bin.gz) in that folder", inside,
                           names[i], names[0], count > 1 ? " to " : "", count > 1 ? names[count - 1] : "");
    found->kind = BT_FOUND_CIFAR;
    return BT_OK;
}

/* Recognises the folders cifar-10-batches-bin and cifar-100-binary by their content, whatever their names. */
static bt_status cifar_in(bt_found *found, const char *inside, const char *split)
{
    static const char *const ten[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                      "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"},
                             *const hundred[] = {"train.bin", "test.bin"};
    char path[BT_PATH];
    bool is_ten = false, is_hundred = is_in(path, inside, hundred[0]) || is_in(path, inside, hundred[1]);
    for (int i = 0; i < BT_COUNT_OF(ten); i++)
        is_ten = is_ten || is_in(path, inside, ten[i]);
    if (is_ten)
        return is_test(split) ? cifar_files(found, inside, ten + 5, 1) : cifar_files(found, inside, ten, 5);
    return is_hundred ? cifar_files(found, inside, hundred + is_test(split), 1) : BT_OK;
}

/* ---- tables ---- */

/* The k-th possible name for the test split of `path`; false after the last. */
static bool test_name(char *name, const char *path, int k)
{
    static const char *const marks[] = {".test", "_test", "-test"};
    char plain[BT_PATH];
    size_t length = strlen(path);
    bool packed = length > 3 && strcmp(path + length - 3, ".gz") == 0;
    build(plain, "%.*s", (int)(packed ? length - 3 : length), path);
    const char *dot = strrchr(base_name(plain), '.');
    int stem = dot && dot != base_name(plain) ? (int)(dot - plain) : (int)strlen(plain);
    switch (k) {
    case 0:
        replace(name, plain, "train", "test");
        return true;
    case 1:
        replace(name, plain, "train", "t10k");
        return true;
    case 2:
        build(name, "%s.t", plain); /* as on libsvm's web pages */
        return true;
    default:
        if (k - 3 >= BT_COUNT_OF(marks))
            return false;
        build(name, "%.*s%s%s", stem, plain, marks[k - 3], plain + stem);
        return true;
    }
}

static bool find_test(char *path, const char *train)
{
    char name[BT_PATH];
    for (int k = 0; test_name(name, train, k); k++)
        if (*name && with_gz(path, name) && strcmp(path, train) != 0)
            return true;
    path[0] = 0;
    return false;
}

static bt_status no_test(const char *train)
{
    char name[BT_PATH];
    bt_text tried = {0};
    for (int k = 0; test_name(name, train, k); k++)
        if (*name && (k != 1 || strstr(name, "images")))
            bt_text_add(&tried, "%s%s", tried.size ? ", " : "", base_name(name));
    bt_status status =
        bt_fail(BT_ERROR_FILE,
                "%s: there is no split \"test\" beside it; expected one of %s (or with .gz); or take parts of the "
                "split \"train\"",
                train, bt_text_get(&tried));
    bt_text_free(&tried);
    return status;
}

/* Whether the name ends in .bin, plain or compressed: no table has such a name. */
static bool is_binary(const char *path)
{
    size_t length = strlen(path);
    if (length > 3 && strcmp(path + length - 3, ".gz") == 0)
        length -= 3;
    return length > 4 && strncmp(path + length - 4, ".bin", 4) == 0;
}

/* A single file is the split "train"; a file next to it may be the other split. */
static bt_status found_file(bt_found *found, const char *path, const char *split)
{
    char test[BT_PATH];
    bool has_test = find_test(test, path);
    if (is_test(split) && !has_test)
        return no_test(path);
    if (strstr(base_name(path), "images"))
        return found_images(found, is_test(split) ? test : path);
    build(found->file, "%s", is_test(split) ? test : path);
    if (is_binary(path)) {
        found->kind = BT_FOUND_CIFAR;
        return BT_OK;
    }
    build(found->other, "%s", is_test(split) ? path : test);
    found->kind = BT_FOUND_TABLE;
    return BT_OK;
}

static bool find_table(char *path, const char *base)
{
    static const char *const ends[] = {"", ".csv", ".tsv", ".libsvm", ".svm", ".bin"};
    char plain[BT_PATH];
    for (int i = 0; i < BT_COUNT_OF(ends); i++)
        if (build(plain, "%s%s", base, ends[i]) && with_gz(path, plain))
            return true;
    return false;
}

/* ---- texts with votes: BASE.train.tsv, BASE.valid.tsv, BASE.test.tsv ---- */

static bt_status texts_at(bt_found *found, const char *base, const char *split)
{
    static const char *const splits[] = {"train", "valid", "test"};
    char *const paths[] = {found->file, found->labels, found->other};
    char plain[BT_PATH];
    for (int i = 0; i < BT_COUNT_OF(splits); i++)
        if (!build(plain, "%s.%s.tsv", base, splits[i]) || !with_gz(paths[i], plain))
            paths[i][0] = 0;
    if (!*found->file)
        return BT_OK;
    found->kind = BT_FOUND_TEXTS;
    for (int i = 0; i < BT_COUNT_OF(splits); i++)
        if (strcmp(splits[i], split) == 0 && !*paths[i])
            return bt_fail(BT_ERROR_FILE, "%s: there is no split \"%s\" beside it; expected %s.%s.tsv or .gz",
                           found->file, split, base_name(base), split);
    return BT_OK;
}

/* ---- folders of arrays: SPLIT/FIELD.npy; without splits, all of it is for training ---- */

static bt_status arrays_in(bt_found *found, const char *inside, const char *split)
{
    char path[BT_PATH], other[BT_PATH];
    if (build(path, "%s%s", inside, split) && bt_has_arrays(path)) {
        build(found->file, "%s", path);
        found->kind = BT_FOUND_ARRAYS;
        return BT_OK;
    }
    const bool plain = bt_has_arrays(inside), train = strcmp(split, "train") == 0;
    const bool apart = build(other, "%s%s", inside, train ? "test" : "train") && bt_has_arrays(other);
    if (plain && train) {
        build(found->file, "%.*s", (int)strlen(inside) - 1, inside); /* without the slash */
        found->kind = BT_FOUND_ARRAYS;
    } else if (plain || apart) {
        return bt_fail(BT_ERROR_FILE,
                       "%s: there is no split \"%s\"; expected the folder %s with a .npy file for each "
                       "field%s",
                       inside, split, path, train ? "" : "; or take parts of the split \"train\"");
    }
    return BT_OK;
}

/* ---- folders of images: SPLIT/CLASS/FILE ---- */

static bt_status folders_in(bt_found *found, const char *inside, const char *split)
{
    char train[BT_PATH], path[BT_PATH];
    bool has_train = build(train, "%strain", inside) && is_folder(train);
    bool has_split = build(path, "%s%s", inside, split) && is_folder(path);
    if (!has_split && strcmp(split, "valid") == 0)
        has_split = build(path, "%sval", inside) && is_folder(path);
    if (!has_train && !has_split)
        return BT_OK;
    if (!has_split)
        return bt_fail(BT_ERROR_FILE, "%s: there is no split \"%s\" beside it; expected the folder %s%s", train, split,
                       inside, split);
    build(found->file, "%s", path);
    build(found->other, "%s", has_train ? train : path);
    found->kind = BT_FOUND_FOLDERS;
    return BT_OK;
}

static bt_status find_in_folder(bt_found *found, const char *folder, const char *split)
{
    char inside[BT_PATH], path[BT_PATH];
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    build(inside, "%.*s/", (int)length, folder);
    BT_TRY(images_in(found, inside, split));
    if (found->kind == BT_FOUND_NOTHING)
        BT_TRY(cifar_in(found, inside, split));
    if (found->kind == BT_FOUND_NOTHING)
        BT_TRY(arrays_in(found, inside, split));
    if (found->kind != BT_FOUND_NOTHING)
        return BT_OK;
    char name[BT_PATH];
    build(name, "%.*s", (int)length, folder);
    if ((build(inside, "%s/%s", name, base_name(name)) && find_table(path, inside)) ||
        (build(inside, "%s/train", name) && find_table(path, inside)))
        return found_file(found, path, split);
    if (build(inside, "%s/%s", name, base_name(name)))
        BT_TRY(texts_at(found, inside, split));
    return found->kind == BT_FOUND_NOTHING && build(inside, "%s/", name) ? folders_in(found, inside, split) : BT_OK;
}

bt_status bt_find_files(const char *base, const char *split, bt_found *found)
{
    char path[BT_PATH], prefix[BT_PATH];
    *found = (bt_found){.kind = BT_FOUND_NOTHING};
    if (is_file(base))
        return found_file(found, base, split);
    if (is_folder(base)) {
        BT_TRY(find_in_folder(found, base, split));
        if (found->kind != BT_FOUND_NOTHING)
            return BT_OK;
    }
    if (find_table(path, base))
        return found_file(found, path, split);
    BT_TRY(texts_at(found, base, split));
    if (found->kind != BT_FOUND_NOTHING)
        return BT_OK;
    if (build(prefix, "%s-images-idx3-ubyte", base) && with_gz(path, prefix))
        return found_file(found, path, split);
    if (build(prefix, "%s-", base))
        BT_TRY(images_in(found, prefix, split));
    if (found->kind == BT_FOUND_NOTHING)
        BT_TRY(images_in(found, base, split));
    return BT_OK;
}
