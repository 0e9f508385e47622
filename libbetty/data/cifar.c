/* data/cifar.c: reads CIFAR-10 and CIFAR-100 in their binary format: records of one label byte, or of two (coarse and
 * fine), followed by 32 x 32 bytes each of red, green and blue. */
#include "data/read.h"

#include <stdio.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, CHANNELS = 3, PIXELS = PLANE * CHANNELS, MOST_LABELS = 2 };

static int64_t record_size(int labels) { return labels + PIXELS; }

/* Labels in the order of a record; the last is the main label. */
static int classes_of(int labels, int which) { return labels == 1 ? 10 : which == 0 ? 20 : 100; }

/* The size of the content; a compressed file must be read through. */
static bt_status measure(const char *path, int64_t *size)
{
    bt_source *source = bt_source_open(path);
    if (!source)
        return bt_error_status();
    uint8_t piece[1 << 12];
    bt_status status = BT_OK;
    *size = bt_source_size(source);
    if (*size < 0) {
        int64_t got = 1;
        for (*size = 0; got > 0 && status == BT_OK; *size += got)
            status = bt_source_read(source, piece, sizeof piece, &got);
    }
    bt_source_close(source);
    return status;
}

/* Whether all labels would be valid if this were CIFAR-10. */
static bt_status has_ten_classes(const char *path, bool *yes)
{
    bt_source *source = bt_source_open(path);
    if (!source)
        return bt_error_status();
    uint8_t record[MOST_LABELS + PIXELS];
    int64_t got = record_size(1);
    bt_status status = BT_OK;
    for (*yes = true; *yes && status == BT_OK && got == record_size(1);) {
        status = bt_source_read(source, record, record_size(1), &got);
        *yes = got == 0 || record[0] < classes_of(1, 0);
    }
    bt_source_close(source);
    return status;
}

/* Sets the number of labels per record, 1 or 2, from the file size, unless it is known (0: unknown). */
static bt_status tell_labels(const char *path, int64_t size, int *labels)
{
    bool ten = size > 0 && size % record_size(1) == 0, hundred = size > 0 && size % record_size(2) == 0;
    if (*labels == 0 && ten && hundred)
        BT_TRY(has_ten_classes(path, &ten));
    if (*labels == 0 && (ten || hundred))
        *labels = ten ? 1 : 2;
    if (*labels == 1 ? ten : *labels == 2 && hundred)
        return BT_OK;
    char due[128];
    snprintf(due, sizeof due, "records of %d bytes (%s and %d bytes of pixels)%s",
             (int)record_size(*labels == 2 ? 2 : 1),
             *labels == 2 ? "CIFAR-100: a coarse and a fine label" : "CIFAR-10: a label", PIXELS,
             *labels == 0 ? " or of 3074 (CIFAR-100)" : "");
    return bt_fail(BT_ERROR_DATA, "%s: the content has %lld bytes; expected whole %s", path, (long long)size, due);
}

/* Converts to channels last. */
static void interleave(const uint8_t *planes, uint8_t *pixels)
{
    for (int i = 0; i < PLANE; i++)
        for (int c = 0; c < CHANNELS; c++)
            pixels[CHANNELS * i + c] = planes[c * PLANE + i];
}

typedef struct images { /* the output: [PIXELS] bytes per example, and one number per example for each label */
    uint8_t *pixels;
    int32_t *labels[MOST_LABELS];
    int label_count;
} images;

static bt_status read_records(bt_source *source, int64_t count, const images *to, int64_t at)
{
    uint8_t record[MOST_LABELS + PIXELS];
    const int64_t size = record_size(to->label_count);
    for (int64_t i = 0; i < count; i++) {
        int64_t got;
        BT_TRY(bt_source_read(source, record, size, &got));
        if (got < size)
            return bt_fail(BT_ERROR_DATA,
                           "%s: the file ends in record %lld, which was there a moment ago (%lld records)",
                           bt_source_path(source), (long long)i, (long long)count);
        for (int k = 0; k < to->label_count; k++) {
            int most = classes_of(to->label_count, k) - 1;
            if (record[k] > most)
                return bt_fail(BT_ERROR_DATA, "%s, byte %lld: found label %d; expected 0 to %d", bt_source_path(source),
                               (long long)(i * size + k), record[k], most);
            to->labels[k][at + i] = record[k];
        }
        interleave(record + to->label_count, to->pixels + (at + i) * PIXELS);
    }
    return BT_OK;
}

static bt_status read_files(const char *const *paths, const int64_t *counts, int files, const images *to)
{
    int64_t at = 0;
    for (int i = 0; i < files; at += counts[i++]) {
        bt_source *source = bt_source_open(paths[i]);
        bt_status status = source ? read_records(source, counts[i], to, at) : bt_error_status();
        bt_source_close(source);
        BT_TRY(status);
    }
    return BT_OK;
}

static bt_dataset *take(const images *read, int64_t count)
{
    static const char *const names[] = {"image", "label", "coarse"};
    const int last = read->label_count - 1;
    bt_array image = {.dtype = BT_U8, .rank = 4, .dims = {count, SIDE, SIDE, CHANNELS}, .data = read->pixels};
    bt_array label = {.dtype = BT_I32, .rank = 1, .dims = {count}, .data = read->labels[last]}, coarse = label;
    coarse.data = read->labels[0];
    bt_store *stores[] = {bt_store_new(image, true), bt_store_new(label, false),
                          last ? bt_store_new(coarse, false) : NULL};
    return bt_dataset_of(bt_dataset_new(count), names, stores, 2 + last);
}

bt_dataset *bt_read_cifar(const char *const *paths, int files, int classes)
{
    int64_t counts[BT_CIFAR_FILES] = {0}, count = 0;
    images to = {.label_count = classes == 10 ? 1 : classes ? 2 : 0};
    bt_status status = BT_OK;
    for (int i = 0; i < files && status == BT_OK; count += counts[i++]) {
        status = measure(paths[i], &counts[i]);
        if (status == BT_OK)
            status = tell_labels(paths[i], counts[i], &to.label_count);
        counts[i] /= record_size(to.label_count);
    }
    if (status == BT_OK && count > BT_MAX_EXAMPLES)
        status = bt_fail(BT_ERROR_DATA, "%s: found %lld images; expected at most %d", paths[0], (long long)count,
                         BT_MAX_EXAMPLES);
    if (status == BT_OK)
        status = bt_check_dense(paths[0], count, PIXELS, 1);
    if (status != BT_OK)
        return NULL;
    to.pixels = bt_alloc_array((size_t)count, PIXELS);
    bool ok = to.pixels != NULL;
    for (int k = 0; k < to.label_count && ok; k++)
        ok = (to.labels[k] = bt_alloc_array((size_t)count, sizeof *to.labels[k])) != NULL;
    if (ok && read_files(paths, counts, files, &to) == BT_OK)
        return take(&to, count);
    bt_free(to.pixels);
    for (int k = 0; k < MOST_LABELS; k++)
        bt_free(to.labels[k]);
    return NULL;
}
