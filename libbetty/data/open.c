/* data/open.c: opens data sets by name or path. */
#include "data/find.h"
#include "data/places.h"
#include "data/read.h"
#include "data/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define COMES_WITH_IT "it comes with the library, in its folder data; set BETTY_DATA to that folder"

static const struct {
    const char *name, *help; /* what to do if it is missing */
    int classes;             /* labels are 0 .. classes-1; 0: unknown */
    const char *folder;      /* another folder where it may be, next to that name or inside it; NULL: none */
} known[] = {
    {"fashion-mnist", "install it: apt install dataset-fashion-mnist", 10, NULL},
    {"mnist",
     "put its four IDX files, train-images-idx3-ubyte.gz and so on, into the folder mnist of $BETTY_DATA or of ./data",
     10, NULL},
    {"a9a", COMES_WITH_IT, 0, NULL},
    {"breast_cancer", COMES_WITH_IT, 0, NULL},
    {"omniglot", COMES_WITH_IT, 0, NULL},
    {"digits", COMES_WITH_IT, 0, NULL},
    {"semeval", COMES_WITH_IT, 0, NULL},
    {"austen", "it comes with the library, but it is a text; open it with bt_dataset_windows", 0, NULL},
    {"trec",
     "put its files, trec.train.tsv, trec.valid.tsv and trec.test.tsv, into the folder trec of $BETTY_DATA or of "
     "./data",
     0, NULL},
    {"cifar10",
     "download its binary version and put the folder cifar-10-batches-bin, with data_batch_1.bin to data_batch_5.bin "
     "and test_batch.bin (or .bin.gz), into $BETTY_DATA or ./data; or give the path of such a folder, or of one .bin "
     "file",
     10, "cifar-10-batches-bin"},
    {"cifar100",
     "download its binary version and put the folder cifar-100-binary, with train.bin and test.bin (or .bin.gz), into "
     "$BETTY_DATA or ./data; or give the path of such a folder, or of one .bin file",
     100, "cifar-100-binary"},
};

static int known_index(const char *name)
{
    for (int i = 0; i < BT_COUNT_OF(known); i++)
        if (strcmp(known[i].name, name) == 0)
            return i;
    return -1;
}

/* ---- reading the files found ---- */

static _Thread_local bool blank;

bool bt_data_blank(bool now)
{
    bool before = blank;
    blank = now;
    return before;
}

typedef enum format { FORMAT_IDX, FORMAT_CSV, FORMAT_LIBSVM, FORMAT_UNKNOWN } format;

static bool has_end(const char *path, const char *end)
{
    size_t length = strlen(path), tail = strlen(end);
    if (length > 3 && strcmp(path + length - 3, ".gz") == 0)
        length -= 3;
    return length >= tail && strncmp(path + length - tail, end, tail) == 0;
}

/* Tells the format by the file name, or else by the first bytes. */
static bt_status tell_format(const char *path, format *kind)
{
    char head[4096] = "";
    int64_t got;
    bt_source *source = bt_source_open(path);
    if (!source)
        return bt_error_status();
    bt_status status = bt_source_read(source, head, sizeof head - 1, &got);
    bt_source_close(source);
    BT_TRY(status);
    BT_TRY(bt_check_text(path, head, got));
    size_t line = strcspn(head, "\n");
    if (got >= 4 && head[0] == 0 && head[1] == 0)
        *kind = FORMAT_IDX;
    else if (has_end(path, ".csv") || has_end(path, ".tsv"))
        *kind = FORMAT_CSV;
    else if (has_end(path, ".libsvm") || has_end(path, ".svm"))
        *kind = FORMAT_LIBSVM;
    else if (memchr(head, ',', line))
        *kind = FORMAT_CSV;
    else if (strchr(head, ':'))
        *kind = FORMAT_LIBSVM;
    else
        *kind = memchr(head, ';', line) || memchr(head, '\t', line) ? FORMAT_CSV : FORMAT_UNKNOWN;
    return BT_OK;
}

static bt_dataset *read_table(const bt_found *found, const char *target)
{
    format kind, other = FORMAT_UNKNOWN;
    bt_libsvm_form form;
    int64_t features = 0;
    if (tell_format(found->file, &kind) != BT_OK)
        return NULL;
    switch (kind) {
    case FORMAT_CSV:
        return bt_read_csv(found->file, target);
    case FORMAT_LIBSVM:
        /* A feature that occurs in only one split widens both, because both must fit one model. */
        if (bt_libsvm_form_of(found->file, target, &form) != BT_OK)
            return NULL;
        if (*found->other && tell_format(found->other, &other) == BT_OK && other == FORMAT_LIBSVM &&
            bt_libsvm_width(found->other, form, &features) != BT_OK)
            return NULL;
        return bt_read_libsvm(found->file, form, features);
    case FORMAT_IDX:
        bt_fail(BT_ERROR_DATA,
                "%s: the name of this IDX file does not say what it holds; expected a file called ...images..., beside "
                "one called ...labels..., or the folder of both",
                found->file);
        return NULL;
    case FORMAT_UNKNOWN:
        break;
    }
    bt_fail(BT_ERROR_DATA, "%s: unknown format; expected IDX, CSV, libsvm or CIFAR (.bin), plain or .gz", found->file);
    return NULL;
}

/* ---- sets read from the same files share memory ---- */

enum { MOST_FIELDS = BT_TEXT_FIELDS };

static const char *const image_fields[] = {"image", "label", "coarse"}, *const table_fields[] = {"x", "y"};

/* The field names of a set from such files: between `least` and `most` of them. */
static const char *const *fields_of(const bt_found *found, const char *target, int *least, int *most)
{
    format kind;
    bt_libsvm_form form = {0};
    if (found->kind == BT_FOUND_TABLE && target && tell_format(found->file, &kind) == BT_OK && kind == FORMAT_LIBSVM &&
        bt_libsvm_form_of(found->file, target, &form) == BT_OK && form.sparse) {
        *least = *most = BT_SPARSE_FIELDS;
        return bt_sparse_fields;
    }
    *least = found->kind == BT_FOUND_TEXTS ? BT_TEXT_FIELDS : 2;
    *most = found->kind == BT_FOUND_CIFAR ? BT_CIFAR_FIELDS : *least;
    return found->kind == BT_FOUND_TEXTS ? bt_text_fields : found->kind == BT_FOUND_TABLE ? table_fields : image_fields;
}

/* The number under which a field is published: it includes the field count, so that sets with different numbers of
 * fields are not confused. */
static int number_of(int field, int count) { return count * MOST_FIELDS + field; }

/* Fills `stores` with those in memory: all or none. */
static bool find_stores(const char *key, bt_store **stores, int count)
{
    bool all = true;
    for (int i = 0; i < count; i++)
        all = (stores[i] = bt_store_find(key, number_of(i, count))) != NULL && all;
    for (int i = 0; !all && i < count; i++)
        bt_store_release(stores[i]);
    return all;
}

static int split_number(const char *split)
{
    return strcmp(split, "train") == 0 ? 0 : strcmp(split, "valid") == 0 ? 1 : 2;
}

static bt_dataset *read_files(const bt_found *found, const char *split, const char *target, int classes,
                              const bt_image_options *o)
{
    const char *files[BT_CIFAR_FILES] = {found->file};
    int count = 1;
    switch (found->kind) {
    case BT_FOUND_TEXTS:
        return bt_read_texts((const char *const[]){found->file, found->labels, found->other}, split_number(split),
                             NULL);
    case BT_FOUND_CIFAR:
        for (; count < BT_CIFAR_FILES && *found->more[count - 1]; count++)
            files[count] = found->more[count - 1];
        return bt_read_cifar(files, count, classes);
    case BT_FOUND_FOLDERS:
        return bt_read_images(found->file, found->other, o, blank);
    case BT_FOUND_TABLE:
        return read_table(found, target);
    case BT_FOUND_ARRAYS:
    case BT_FOUND_IMAGES:
    case BT_FOUND_NOTHING:
        break;
    }
    return bt_read_idx(found->file, found->labels, classes);
}

/* Adds to the key the identity of the files and the settings they are read with. */
static bt_status add_key(bt_text *key, const bt_found *found, const char *split, const char *target, int classes,
                         const bt_image_options *o)
{
    uint64_t hash = 0;
    if (found->kind == BT_FOUND_FOLDERS)
        BT_TRY(bt_images_hash(found->file, found->other, &hash));
    bt_store_identify(key, found->file);
    bt_store_identify(key, found->kind == BT_FOUND_IMAGES ? "" : found->other);
    bt_store_identify(key, found->kind == BT_FOUND_TABLE ? "" : found->labels);
    for (int i = 0; i < BT_MORE_FILES && *found->more[i]; i++)
        bt_store_identify(key, found->more[i]);
    bt_text_add(key, "%d/%s/%s/%llx", classes, target ? target : "", found->kind == BT_FOUND_TEXTS ? split : "",
                (unsigned long long)hash);
    if (o)
        bt_text_add(key, "/%lld/%lld/%d", (long long)o->resize, (long long)o->crop, o->colour);
    return BT_OK;
}

/* A store in which one row stands for rows that were not read is never shared. */
static bool is_whole(const bt_dataset *data)
{
    for (int64_t i = 0; i < data->column_count; i++)
        if (data->columns[i].store->absent)
            return false;
    return true;
}

static bt_dataset *read_found(const bt_found *found, const char *split, const char *target, int classes,
                              const bt_image_options *o)
{
    int count, most;
    if (found->kind == BT_FOUND_ARRAYS) /* the kernel shares the memory of mapped files */
        return bt_read_arrays(found->file);
    const char *const *names = fields_of(found, target, &count, &most);
    bt_store *stores[MOST_FIELDS];
    bt_text key = {0};
    bt_dataset *data = NULL;
    if (add_key(&key, found, split, target, classes, o) != BT_OK) {
        bt_text_free(&key);
        return NULL;
    }
    while (count <= most && !find_stores(bt_text_get(&key), stores, count))
        count++;
    if (count <= most) {
        data = bt_dataset_of(bt_dataset_new(stores[0]->array.dims[0]), names, stores, count);
    } else {
        data = read_files(found, split, target, classes, o);
        count = data ? (int)data->column_count : 0;
        const bool shared = data && !key.failed && is_whole(data);
        for (int i = 0; i < count && shared; i++)
            bt_store_publish(bt_dataset_column(data, names[i])->store, bt_text_get(&key), number_of(i, count));
    }
    bt_text_free(&key);
    return data;
}

/* ---- search ---- */

/* Looks for its name; for a known set also for the folder that it is distributed as, next to it or inside. */
static bt_status search_in(const char *folder, const char *name, const char *split, bt_found *found)
{
    const int index = known_index(name);
    const char *own = index >= 0 ? known[index].folder : NULL, *start = strcmp(folder, ".") == 0 ? "" : folder;
    for (int i = 0; i < (own ? 3 : 1) && found->kind == BT_FOUND_NOTHING; i++) {
        bt_text path = {0};
        bt_text_add(&path, "%s%s%s%s%s", start, *start ? "/" : "", i == 1 ? own : name, i == 2 ? "/" : "",
                    i == 2 ? own : "");
        bt_status status = path.failed ? BT_ERROR_MEMORY : bt_find_files(path.data, split, found);
        bt_text_free(&path);
        BT_TRY(status);
    }
    return BT_OK;
}

bt_status bt_find_data(const char *name, const char *split, bt_found *found)
{
    bt_places places;
    bt_status status = bt_places_for(name, &places);
    *found = (bt_found){.kind = BT_FOUND_NOTHING};
    for (int i = 0; i < places.count && found->kind == BT_FOUND_NOTHING && status == BT_OK; i++)
        status = search_in(places.folders[i], name, split, found);
    bt_places_free(&places);
    return status;
}

/* "FILE:COLUMN": looks for the part before the last colon, if there is one. */
static bt_status search_column(const char *name, const char *split, bt_found *found, const char **target)
{
    const char *colon = strrchr(name, ':');
    *target = NULL;
    if (!colon || colon == name || !colon[1])
        return BT_OK;
    bt_text file = {0};
    bt_text_add(&file, "%.*s", (int)(colon - name), name);
    bt_status status = file.failed ? BT_ERROR_MEMORY : bt_find_data(file.data, split, found);
    bt_text_free(&file);
    if (status == BT_OK && found->kind != BT_FOUND_NOTHING && found->kind != BT_FOUND_TABLE)
        status = bt_fail(BT_ERROR_DATA, "%s: %s have no target column \"%s\"", found->file,
                         found->kind == BT_FOUND_TEXTS ? "texts" : "images", colon + 1);
    *target = colon + 1;
    return status;
}

static void nothing_at(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        bt_fail(BT_ERROR_FILE,
                "data set \"%s\": the folder holds no data set; expected IDX files such as train-images-idx3-ubyte.gz, "
                "those of CIFAR (data_batch_1.bin to data_batch_5.bin and test_batch.bin; train.bin and test.bin), "
                "folders of images (train/CLASS/FILE, test/CLASS/FILE), arrays (FIELD.npy, or train/FIELD.npy and "
                "test/FIELD.npy), or a table with the name of the folder or \"train\" (.csv, .libsvm, .gz)",
                path);
    else
        bt_fail(BT_ERROR_FILE, "data set \"%s\" not found: no such file or folder", path);
}

/* If there is a folder of that name in one of the places, but no data set in it, reports it as for a path. */
static bool found_folder(const char *name)
{
    struct stat info;
    char *path;
    bool found = bt_places_find(name, &path) == BT_OK && path && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (found)
        nothing_at(path);
    bt_free(path);
    return found;
}

static void not_found(const char *name)
{
    int index = known_index(name), count = 0;
    if (name[0] == '/')
        nothing_at(name);
    if (name[0] == '/' || (index < 0 && found_folder(name)))
        return;
    enum { ROOM = 64 };
    const char *names[ROOM + 1];
    for (; count < BT_COUNT_OF(known); count++)
        names[count] = known[count].name;
    count = bt_registry_names(names, count, ROOM);
    names[count] = NULL;
    bt_text text = {0};
    const char *near = index < 0 ? bt_nearest(name, names) : NULL;
    if (index >= 0)
        bt_text_add(&text, "; %s", known[index].help);
    else if (near)
        bt_text_add(&text, "; did you mean \"%s\"?", near);
    for (int i = 0; index < 0 && i < count; i++)
        bt_text_add(&text, "%s%s", i ? ", " : near ? " Known are " : "; known are ", names[i]);
    bt_places_lack("data set", name, bt_text_get(&text));
    bt_text_free(&text);
}

static bt_status wrong_split(const char *name, const char *split)
{
    return bt_fail(
        BT_ERROR_ARGUMENT, "data set \"%s\": found split \"%s\"; expected train or test%s", name, split,
        strcmp(split, "valid") == 0 ? " (only texts with votes and folders of images or of arrays have valid)" : "");
}

/* Refuses image options for all but folders of images. */
static bt_status check_resized(const char *name, const bt_found *found, const bt_image_options *o)
{
    if (!o || found->kind == BT_FOUND_FOLDERS || found->kind == BT_FOUND_NOTHING)
        return BT_OK;
    return bt_fail(BT_ERROR_UNSUPPORTED,
                   "data set \"%s\": only folders of images (SPLIT/CLASS/FILE) can be resized, cropped or made colour "
                   "when they are read",
                   name);
}

/* o NULL: no image options. */
static bt_dataset *open_set(const char *name, const char *split, const bt_image_options *o)
{
    bool usual = strcmp(split, "train") == 0 || strcmp(split, "test") == 0, valid = strcmp(split, "valid") == 0;
    bt_found *found = bt_alloc(sizeof *found);
    bt_dataset *data = NULL;
    const char *target = NULL;
    bt_status status = !found           ? BT_ERROR_MEMORY
                       : usual || valid ? bt_find_data(name, split, found)
                                        : wrong_split(name, split);
    if (status == BT_OK && found->kind == BT_FOUND_NOTHING)
        status = search_column(name, split, found, &target);
    if (status == BT_OK && !usual && found->kind != BT_FOUND_TEXTS && found->kind != BT_FOUND_FOLDERS &&
        found->kind != BT_FOUND_ARRAYS && found->kind != BT_FOUND_NOTHING)
        status = wrong_split(name, split);
    if (status == BT_OK)
        status = check_resized(name, found, o);
    if (status == BT_OK && found->kind == BT_FOUND_NOTHING)
        not_found(name);
    else if (status == BT_OK)
        data = read_found(found, split, target, known_index(name) >= 0 ? known[known_index(name)].classes : 0, o);
    bt_free(found);
    return data;
}

static bool are_named(const char *function, const char *name, const char *split)
{
    const bool named = name && *name && split && *split;
    if (!named)
        bt_fail(BT_ERROR_ARGUMENT, "%s: the %s is missing", function, name && *name ? "split" : "name");
    return named;
}

bt_dataset *bt_dataset_open(const char *name, const char *split)
{
    if (!are_named("bt_dataset_open", name, split))
        return NULL;
    bool defined;
    bt_dataset *data = bt_registry_open(name, split, &defined);
    return defined ? data : open_set(name, split, NULL);
}

bt_dataset *bt_dataset_images(const char *name, const char *split, const bt_image_options *options)
{
    enum { MOST = 65536 };
    bt_image_options o = options ? *options : (bt_image_options){0};
    if (!are_named("bt_dataset_images", name, split))
        return NULL;
    if (!o.resize && !o.crop && !o.colour)
        return bt_dataset_open(name, split);
    o.crop = o.crop ? o.crop : o.resize;
    if (o.resize < 0 || o.resize > MOST || o.crop < 0 || o.crop > MOST || (o.resize && o.crop > o.resize)) {
        bt_fail(BT_ERROR_ARGUMENT,
                "bt_dataset_images: found resize %lld and crop %lld; expected 0 to %d, and a crop of at most the size",
                (long long)o.resize, (long long)o.crop, MOST);
        return NULL;
    }
    return open_set(name, split, &o);
}

static bt_status check_texts(const char *name, const char *split, const bt_tokenizer *tokenizer)
{
    static const char *const splits[] = {"train", "valid", "test"};
    if (!name || !*name || !split || !tokenizer)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_texts: the %s is missing",
                       !tokenizer ? "tokenizer"
                       : !split   ? "split"
                                  : "name");
    for (int i = 0; i < BT_COUNT_OF(splits); i++)
        if (strcmp(split, splits[i]) == 0)
            return BT_OK;
    return bt_fail(BT_ERROR_ARGUMENT, "data set \"%s\": found split \"%s\"; expected train, valid or test", name,
                   split);
}

bt_dataset *bt_dataset_texts(const char *name, const char *split, const bt_tokenizer *tokenizer, int64_t length)
{
    if (check_texts(name, split, tokenizer) != BT_OK)
        return NULL;
    bt_found *found = bt_alloc(sizeof *found);
    bt_dataset *data = NULL;
    bt_status status = found ? bt_find_data(name, split, found) : BT_ERROR_MEMORY;
    if (status == BT_OK && found->kind == BT_FOUND_NOTHING)
        not_found(name);
    else if (status == BT_OK && found->kind != BT_FOUND_TEXTS)
        bt_fail(BT_ERROR_DATA, "data set \"%s\": expected texts with votes, NAME.train.tsv and so on", name);
    else if (status == BT_OK)
        data = bt_read_texts((const char *const[]){found->file, found->labels, found->other}, split_number(split),
                             &(bt_text_form){tokenizer, length});
    bt_free(found);
    return data;
}
