/* data/images.c: a folder of images: SPLIT/CLASS/FILE, PNG or PGM or PPM. The classes are the subfolders, by name. */
#include "data/read.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- names ---- */

typedef struct names {
    char **items;
    int64_t count, capacity;
} names;

static void free_names(names *list)
{
    for (int64_t i = 0; i < list->count; i++)
        bt_free(list->items[i]);
    bt_free(list->items);
}

/* Takes the name over, also on failure. */
static bt_status add_name(names *list, char *name)
{
    char **grown = name ? bt_grow(list->items, &list->capacity, list->count + 1, sizeof *grown) : NULL;
    if (!grown) {
        bt_free(name);
        return BT_ERROR_MEMORY;
    }
    list->items = grown;
    grown[list->count++] = name;
    return BT_OK;
}

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

typedef enum kind { SOMETHING_ELSE, FOLDER, PICTURE, UNREAD_PICTURE } kind;

static bool ends_with_one_of(const char *name, const char *const *ends, int count)
{
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && i < count; i++)
        if (strcasecmp(dot, ends[i]) == 0)
            return true;
    return false;
}

static bool is_png(const char *name) { return ends_with_one_of(name, (const char *const[]){".png"}, 1); }

static kind kind_of(const char *path)
{
    static const char *const read[] = {".png", ".pgm", ".ppm", ".pnm"}, *const unread[] = {".jpg", ".jpeg", ".bmp",
                                                                                           ".gif", ".tif",  ".tiff",
                                                                                           ".webp"};
    struct stat info;
    if (stat(path, &info) != 0)
        return SOMETHING_ELSE;
    return S_ISDIR(info.st_mode)                                 ? FOLDER
           : !S_ISREG(info.st_mode)                              ? SOMETHING_ELSE
           : ends_with_one_of(path, read, BT_COUNT_OF(read))     ? PICTURE
           : ends_with_one_of(path, unread, BT_COUNT_OF(unread)) ? UNREAD_PICTURE
                                                                 : SOMETHING_ELSE;
}

static bt_status add_if(names *list, const char *folder, const char *name, kind wanted)
{
    char *path = bt_string("%s/%s", folder, name);
    kind found = path ? kind_of(path) : SOMETHING_ELSE;
    bt_status status = path ? BT_OK : BT_ERROR_MEMORY;
    if (found == UNREAD_PICTURE && wanted == PICTURE)
        status = bt_fail(BT_ERROR_UNSUPPORTED,
                         "%s: images of this format are not read; convert them to PNG, PGM or PPM", path);
    bt_free(path);
    return status == BT_OK && found == wanted ? add_name(list, bt_strdup(name)) : status;
}

/* What is of that kind in a folder, sorted; hidden things are left out. */
static bt_status list_names(const char *folder, kind wanted, names *list)
{
    DIR *open = opendir(folder);
    if (!open)
        return bt_fail(errno == ENOMEM ? BT_ERROR_MEMORY : BT_ERROR_FILE, "%s: cannot be read: %s", folder,
                       errno == ENOMEM ? "out of memory" : strerror(errno));
    bt_status status = BT_OK;
    for (struct dirent *entry; status == BT_OK && (entry = readdir(open));)
        if (entry->d_name[0] != '.')
            status = add_if(list, folder, entry->d_name, wanted);
    closedir(open);
    if (status == BT_OK && list->count)
        qsort(list->items, (size_t)list->count, sizeof *list->items, compare);
    return status;
}

/* ---- which files ---- */

typedef struct files {
    names paths;
    int32_t *labels; /* [paths.capacity] */
    int64_t room;
} files;

static bt_status add_class(files *all, const char *folder, const char *class, int32_t label)
{
    names list = {0};
    char *inside = bt_string("%s/%s", folder, class);
    bt_status status = inside ? list_names(inside, PICTURE, &list) : BT_ERROR_MEMORY;
    if (status == BT_OK && !list.count)
        status = bt_fail(BT_ERROR_DATA, "%s: no image of this class; expected files .png, .pgm or .ppm", inside);
    if (status == BT_OK && list.count > BT_MAX_EXAMPLES - all->paths.count)
        status = bt_fail(BT_ERROR_DATA, "%s: more than %d images", folder, BT_MAX_EXAMPLES);
    for (int64_t i = 0; status == BT_OK && i < list.count; i++) {
        int32_t *labels = bt_grow(all->labels, &all->room, all->paths.count + 1, sizeof *labels);
        status = labels ? BT_OK : BT_ERROR_MEMORY;
        all->labels = labels ? labels : all->labels;
        if (labels)
            labels[all->paths.count] = label;
        if (labels)
            status = add_name(&all->paths, bt_string("%s/%s", inside, list.items[i]));
    }
    free_names(&list);
    bt_free(inside);
    return status;
}

/* A class that only the test has would shift the numbers of the others. */
static bt_status number_of(const char *folder, const char *class, const char *numbered_by, const names *classes,
                           int32_t *label)
{
    char **found =
        classes->count ? bsearch(&class, classes->items, (size_t)classes->count, sizeof class, compare) : NULL;
    if (!found)
        return bt_fail(BT_ERROR_DATA, "%s: the class \"%s\" is not among the %lld of %s", folder, class,
                       (long long)classes->count, numbered_by);
    *label = (int32_t)(found - classes->items);
    return BT_OK;
}

static bt_status find_files(const char *folder, const char *numbered_by, files *all)
{
    names classes = {0}, own = {0};
    bt_status status = list_names(numbered_by, FOLDER, &classes);
    if (status == BT_OK)
        status = list_names(folder, FOLDER, &own);
    if (status == BT_OK && !own.count)
        status = bt_fail(BT_ERROR_DATA, "%s: no subfolders; expected one for each class, with its images", folder);
    for (int64_t i = 0; status == BT_OK && i < own.count; i++) {
        int32_t label = 0;
        status = number_of(folder, own.items[i], numbered_by, &classes, &label);
        if (status == BT_OK)
            status = add_class(all, folder, own.items[i], label);
    }
    free_names(&classes);
    free_names(&own);
    return status;
}

static void free_files(files *all)
{
    free_names(&all->paths);
    bt_free(all->labels);
}

bt_status bt_images_hash(const char *folder, const char *numbered_by, uint64_t *hash)
{
    files all = {0};
    bt_status status = find_files(folder, numbered_by, &all);
    for (int64_t i = 0; status == BT_OK && i < all.paths.count; i++) {
        struct stat info;
        *hash = bt_hash_text(*hash ^ (uint64_t)all.labels[i], all.paths.items[i]);
        if (stat(all.paths.items[i], &info) == 0) {
            const int64_t identity[] = {(int64_t)info.st_dev, (int64_t)info.st_ino, info.st_size, info.st_mtim.tv_sec,
                                        info.st_mtim.tv_nsec};
            *hash = bt_hash(*hash, identity, sizeof identity);
        }
    }
    free_files(&all);
    return status;
}

/* ---- reading ---- */

typedef struct album {
    const files *all;
    int64_t at;       /* which is being read */
    int64_t count;    /* how many are read */
    bt_picture first; /* what all must be like */
    uint8_t *pixels;
    int64_t deep, transparent; /* how many */
} album;

static const char *path_at(const album *a, int64_t i) { return a->all->paths.items[i]; }

/* Where the image goes, whose header has just been read. */
static bt_status place(void *user, const bt_picture *found, int64_t *channels, uint8_t **pixels)
{
    album *a = user;
    const int64_t count = a->all->paths.count;
    size_t size;
    if (a->at == 0) {
        a->first = *found;
        if (!bt_mul_size((size_t)(found->height * found->width), (size_t)found->channels, &size) || size > INT32_MAX)
            return bt_fail(BT_ERROR_DATA, "%s: %lld x %lld pixels; expected less than 2 GiB", path_at(a, 0),
                           (long long)found->width, (long long)found->height);
        BT_TRY(bt_check_dense(path_at(a, 0), count, (int64_t)size, 1));
        a->pixels = bt_alloc_array((size_t)a->count, size);
        if (!a->pixels)
            return BT_ERROR_MEMORY;
    }
    if (found->height != a->first.height || found->width != a->first.width)
        return bt_fail(BT_ERROR_DATA, "%s is of %lld x %lld pixels, %s of %lld x %lld; expected images of one size",
                       path_at(a, a->at), (long long)found->width, (long long)found->height, path_at(a, 0),
                       (long long)a->first.width, (long long)a->first.height);
    if (found->channels > a->first.channels)
        return bt_fail(BT_ERROR_DATA, "%s is in colour, %s is grey; expected images like the first one",
                       path_at(a, a->at), path_at(a, 0));
    a->deep += found->deep;
    a->transparent += found->transparent;
    *channels = a->first.channels;
    *pixels = a->pixels + (size_t)a->at * (size_t)(a->first.height * a->first.width * a->first.channels);
    return BT_OK;
}

static bt_status read_album(album *a)
{
    for (; a->at < a->count; a->at++) {
        const char *path = path_at(a, a->at);
        bt_source *source = bt_source_open(path);
        if (!source)
            return bt_error_status();
        bt_status status = is_png(path) ? bt_read_png(source, place, a) : bt_read_pnm(source, place, a);
        bt_source_close(source);
        BT_TRY(status);
    }
    return BT_OK;
}

/* What is not taken of them; NULL: nothing is lost, or there is no memory. */
static char *note_of(const album *a, const char *folder)
{
    bt_text text = {0};
    if (a->deep)
        bt_text_add(&text, "%s: %lld of %lld images have 16 bits per channel, of which 8 are taken", folder,
                    (long long)a->deep, (long long)a->all->paths.count);
    if (a->transparent)
        bt_text_add(&text, "%s%s: %lld of %lld images have transparency, which is left out", a->deep ? "; " : "",
                    folder, (long long)a->transparent, (long long)a->all->paths.count);
    return text.data;
}

bt_dataset *bt_read_images(const char *folder, const char *numbered_by, bool blank)
{
    files all = {0};
    album a = {.all = &all};
    bt_status status = find_files(folder, numbered_by, &all);
    const int64_t count = all.paths.count;
    a.count = blank && count ? 1 : count;
    if (status == BT_OK)
        status = read_album(&a);
    bt_array image = {.dtype = BT_U8,
                      .rank = 4,
                      .dims = {a.count, a.first.height, a.first.width, a.first.channels},
                      .data = a.pixels};
    bt_array label = {.dtype = BT_I32, .rank = 1, .dims = {count}, .data = all.labels};
    if (status != BT_OK) {
        bt_free(a.pixels);
        free_files(&all);
        return NULL;
    }
    char *note = note_of(&a, folder);
    free_names(&all.paths);
    bt_store *images = bt_store_new(image, true);
    if (images)
        images->note = note;
    else
        bt_free(note);
    bt_dataset *data = bt_dataset_of(bt_dataset_new(count), (const char *const[]){"image", "label"},
                                     (bt_store *[]){images, bt_store_new(label, false)}, 2);
    return data && blank ? bt_dataset_done(data, bt_dataset_repeat(data, "image")) : data;
}
