/* data/images.c: reads a folder of images: SPLIT/CLASS/FILE, as PNG, JPEG, PGM or PPM. The classes are the subfolders
 * in order of their names. */
#include "data/listing.h"
#include "data/read.h"

#include <sys/stat.h>

/* ---- names ---- */

static bt_status is_class(const char *path, bool *take)
{
    *take = bt_entry_of(path) == BT_ENTRY_FOLDER;
    return BT_OK;
}

static bt_status is_picture(const char *path, bool *take)
{
    static const char *const read[] = {".jpg", ".jpeg", ".png", ".pgm", ".ppm", ".pnm"}, *const unread[] = {
                                                                                             ".bmp", ".gif", ".tif",
                                                                                             ".tiff", ".webp"};
    const bool file = bt_entry_of(path) == BT_ENTRY_FILE;
    *take = file && bt_ends_with_one_of(path, read, BT_COUNT_OF(read));
    if (file && bt_ends_with_one_of(path, unread, BT_COUNT_OF(unread)))
        return bt_fail(BT_ERROR_UNSUPPORTED, "%s: images of this format cannot be read; convert them to JPEG or PNG",
                       path);
    return BT_OK;
}

/* ---- finding the files ---- */

typedef struct files {
    bt_names paths, classes; /* classes: those of the whole set, by number */
    int32_t *labels;         /* [paths.capacity] */
    int64_t room;
} files;

static bt_status add_class(files *all, const char *folder, const char *class, int32_t label)
{
    bt_names list = {0};
    char *inside = bt_string("%s/%s", folder, class);
    bt_status status = inside ? bt_names_in(inside, is_picture, &list) : BT_ERROR_MEMORY;
    if (status == BT_OK && !list.count)
        status = bt_fail(BT_ERROR_DATA,
                         "%s: the folder of this class has no image; expected files .jpg, .png, .pgm or .ppm", inside);
    if (status == BT_OK && list.count > BT_MAX_EXAMPLES - all->paths.count)
        status = bt_fail(BT_ERROR_DATA, "%s: more than %d images", folder, BT_MAX_EXAMPLES);
    for (int64_t i = 0; status == BT_OK && i < list.count; i++) {
        int32_t *labels = bt_grow(all->labels, &all->room, all->paths.count + 1, sizeof *labels);
        status = labels ? BT_OK : BT_ERROR_MEMORY;
        all->labels = labels ? labels : all->labels;
        if (labels)
            labels[all->paths.count] = label;
        if (labels)
            status = bt_names_add(&all->paths, bt_string("%s/%s", inside, list.items[i]));
    }
    bt_names_free(&list);
    bt_free(inside);
    return status;
}

/* A class that only the test split has is refused: it would shift the numbers of the others. */
static bt_status number_of(const char *folder, const char *class, const char *numbered_by, const bt_names *classes,
                           int32_t *label)
{
    const int64_t found = bt_names_find(classes, class);
    if (found < 0)
        return bt_fail(BT_ERROR_DATA, "%s: the class \"%s\" is not among the %lld classes of %s", folder, class,
                       (long long)classes->count, numbered_by);
    *label = (int32_t)found;
    return BT_OK;
}

static bt_status find_files(const char *folder, const char *numbered_by, files *all)
{
    bt_names own = {0};
    bt_status status = bt_names_in(numbered_by, is_class, &all->classes);
    if (status == BT_OK)
        status = bt_names_in(folder, is_class, &own);
    if (status == BT_OK && !own.count)
        status =
            bt_fail(BT_ERROR_DATA, "%s: there are no subfolders; expected one for each class, with its images", folder);
    for (int64_t i = 0; status == BT_OK && i < own.count; i++) {
        int32_t label = 0;
        status = number_of(folder, own.items[i], numbered_by, &all->classes, &label);
        if (status == BT_OK)
            status = add_class(all, folder, own.items[i], label);
    }
    bt_names_free(&own);
    return status;
}

static void free_files(files *all)
{
    bt_names_free(&all->paths);
    bt_names_free(&all->classes);
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
    bt_image_options options;
    int64_t at;                /* index of the image being read */
    int64_t count;             /* number of images read */
    bt_picture first;          /* size and channels of all images in the set */
    bt_picture found;          /* the image being read, before it is resized */
    uint8_t *pixels;           /* of the set */
    uint8_t *raw;              /* of that image, if it is to be resized */
    int64_t room;              /* of raw, in bytes */
    int64_t deep, transparent; /* number of such images */
} album;

static const char *path_at(const album *a, int64_t i) { return a->all->paths.items[i]; }

static size_t size_of(const album *a) { return (size_t)(a->first.height * a->first.width * a->first.channels); }

/* The first image determines size and channels of the set. */
static bt_status begin(album *a, const bt_picture *found)
{
    size_t size;
    a->first = *found;
    if (a->options.crop)
        a->first.height = a->first.width = a->options.crop;
    if (a->options.colour)
        a->first.channels = 3;
    if (!bt_mul_size((size_t)(a->first.height * a->first.width), (size_t)a->first.channels, &size) || size > INT32_MAX)
        return bt_fail(BT_ERROR_DATA, "%s: the image has %lld x %lld pixels; expected less than 2 GiB", path_at(a, 0),
                       (long long)a->first.width, (long long)a->first.height);
    BT_TRY(bt_check_dense(path_at(a, 0), a->all->paths.count, (int64_t)size, 1));
    a->pixels = bt_alloc_array((size_t)a->count, size);
    return a->pixels ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status check_size(const album *a, const bt_picture *found)
{
    int64_t height, width;
    bt_resized_size(found, &a->options, &height, &width);
    if (a->options.crop && (height < a->options.crop || width < a->options.crop))
        return bt_fail(BT_ERROR_DATA, "%s has %lld x %lld pixels%s; expected at least the %lld x %lld of the crop",
                       path_at(a, a->at), (long long)width, (long long)height, a->options.resize ? ", resized" : "",
                       (long long)a->options.crop, (long long)a->options.crop);
    if (!a->options.crop && (height != a->first.height || width != a->first.width))
        return bt_fail(BT_ERROR_DATA,
                       "%s has %lld x %lld pixels, %s has %lld x %lld; expected images of one size; ask for them to be "
                       "resized (bt_dataset_images; `resize` of problems that have it)",
                       path_at(a, a->at), (long long)width, (long long)height, path_at(a, 0), (long long)a->first.width,
                       (long long)a->first.height);
    return BT_OK;
}

/* Provides memory for the image whose header has just been read. */
static bt_status place(void *user, const bt_picture *found, int64_t *channels, uint8_t **pixels)
{
    album *a = user;
    a->found = *found;
    if (a->at == 0)
        BT_TRY(begin(a, found));
    BT_TRY(check_size(a, found));
    if (found->channels > a->first.channels)
        return bt_fail(BT_ERROR_DATA, "%s is in colour, %s is grey; expected all images to be like the first one",
                       path_at(a, a->at), path_at(a, 0));
    a->deep += found->deep;
    a->transparent += found->transparent;
    *channels = a->first.channels;
    *pixels = a->pixels + (size_t)a->at * size_of(a);
    if (!a->options.crop)
        return BT_OK;
    uint8_t *raw = bt_grow(a->raw, &a->room, found->height * found->width * a->first.channels, 1);
    a->raw = raw ? raw : a->raw;
    *pixels = raw;
    return raw ? BT_OK : BT_ERROR_MEMORY;
}

/* Chooses the reader by the first bytes. An unknown format is reported according to the file's extension. */
static bt_status read_by_kind(album *a, bt_source *source)
{
    static const char *const jpeg[] = {".jpg", ".jpeg"}, *const png[] = {".png"};
    const char *path = bt_source_path(source);
    const unsigned char *head;
    const int64_t ready = bt_source_peek(source, &head);
    BT_TRY(bt_source_status(source));
    const int first = ready ? head[0] : 0;
    const bool known = (first == 'P' && ready > 1) || first == 0x89 || first == 0xff;
    if (first == 0xff || (!known && bt_ends_with_one_of(path, jpeg, 2)))
        return bt_read_jpeg(source, place, a);
    if (first == 0x89 || (!known && bt_ends_with_one_of(path, png, 1)))
        return bt_read_png(source, place, a);
    return bt_read_pnm(source, place, a);
}

static bt_status read_picture(album *a, const char *path)
{
    bt_source *source = bt_source_open(path);
    bt_status status = source ? read_by_kind(a, source) : bt_error_status();
    bt_source_close(source);
    return status;
}

static bt_status read_album(album *a)
{
    for (; a->at < a->count; a->at++) {
        BT_TRY(read_picture(a, path_at(a, a->at)));
        if (a->options.crop)
            BT_TRY(
                bt_resize(&a->found, &a->options, a->raw, a->first.channels, a->pixels + (size_t)a->at * size_of(a)));
    }
    return BT_OK;
}

/* Notes which parts of the images are not used; NULL: all are used, or there is no memory. */
static char *note_of(const album *a, const char *folder)
{
    bt_text text = {0};
    if (a->deep)
        bt_text_add(&text, "%s: %lld of %lld images have 16 bits per channel, of which 8 are used", folder,
                    (long long)a->deep, (long long)a->all->paths.count);
    if (a->transparent)
        bt_text_add(&text, "%s%s: %lld of %lld images have transparency, which is ignored", a->deep ? "; " : "", folder,
                    (long long)a->transparent, (long long)a->all->paths.count);
    return text.data;
}

static bt_store *name_classes(bt_store *label, const bt_names *classes)
{
    if (label && bt_store_name(label, classes->items, classes->count) == BT_OK)
        return label;
    bt_store_release(label);
    return NULL;
}

bt_dataset *bt_read_images(const char *folder, const char *numbered_by, const bt_image_options *options, bool blank)
{
    files all = {0};
    album a = {.all = &all, .options = options ? *options : (bt_image_options){0}};
    bt_status status = find_files(folder, numbered_by, &all);
    const int64_t count = all.paths.count;
    a.count = blank && count ? 1 : count;
    if (status == BT_OK)
        status = read_album(&a);
    bt_free(a.raw);
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
    bt_names_free(&all.paths);
    bt_store *images = bt_store_new(image, true);
    if (images)
        images->note = note;
    else
        bt_free(note);
    bt_store *labels = name_classes(bt_store_new(label, false), &all.classes);
    bt_names_free(&all.classes);
    bt_dataset *data = bt_dataset_of(bt_dataset_new(count), (const char *const[]){"image", "label"},
                                     (bt_store *[]){images, labels}, 2);
    return data && blank ? bt_dataset_done(data, bt_dataset_repeat(data, "image")) : data;
}
