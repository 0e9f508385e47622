/* data/augment.c: settings for changes to images when batches are gathered; change.c applies them. */
#include "data/dataset.h"

#include <math.h>
#include <string.h>

void bt_augment_free(bt_augment *a)
{
    if (!a)
        return;
    bt_free(a->linear[0]);
    bt_free(a->linear[1]);
    bt_free(a);
}

bool bt_augment_is_random(const bt_augment *a)
{
    return a && (a->padding || a->flip || a->hole || a->alpha != 0 || a->least != 0);
}

/* Hashes all that affects a batch besides the values of the set. */
uint64_t bt_augment_hash(const bt_augment *a, uint64_t hash)
{
    const int64_t numbers[] = {a->padding, a->flip, a->hole};
    hash = bt_hash(hash, numbers, sizeof numbers);
    hash = bt_hash(hash, &a->alpha, sizeof a->alpha);
    hash = bt_hash(hash, a->seeds, BT_ZOOM * sizeof a->seeds[0]);
    if (a->least != 0) { /* so that sets without this setting keep the hashes they had before it existed */
        hash = bt_hash(hash, &a->least, sizeof a->least);
        hash = bt_hash(hash, &a->seeds[BT_ZOOM], sizeof a->seeds[0]);
    }
    const size_t pixel = (size_t)a->channels * sizeof(double); /* the rest of the row repeats it */
    for (int k = 0; k < 2 && a->linear[0]; k++)
        hash = bt_hash(hash, (const double *)a->linear[0] + k * a->row, pixel);
    return hash;
}

/* ---- setting it up ---- */

static const bt_array *images_of(const char *function, bt_dataset *data, int64_t *column)
{
    char shape[256];
    const bt_column *image = bt_dataset_column(data, "image");
    if (!image) {
        bt_fail(BT_ERROR_DATA, "%s: the data set has no field \"image\"", function);
        return NULL;
    }
    const bt_array *array = &image->store->array;
    if (array->rank != 4 || !bt_dtype_floats(bt_store_dtype(image->store, BT_F32))) {
        bt_fail(BT_ERROR_SHAPE,
                "%s: field \"image\" is %s of shape %s; expected floating numbers [n, height, width, channels]",
                function, bt_dtype_name(array->dtype), bt_shape_text(shape, array->rank, array->dims));
        return NULL;
    }
    *column = image - data->columns;
    return array;
}

/* The settings of the set, made at the first call. NULL on failure. */
static bt_augment *augment_of(const char *function, bt_dataset *data)
{
    int64_t column;
    const bt_array *image = bt_dataset_usable(function, data) ? images_of(function, data, &column) : NULL;
    if (image && !data->augment && (data->augment = bt_alloc(sizeof *data->augment)))
        *data->augment = (bt_augment){.image = column,
                                      .label = -1,
                                      .height = image->dims[1],
                                      .width = image->dims[2],
                                      .channels = image->dims[3],
                                      .row = image->dims[2] * image->dims[3]};
    return image ? data->augment : NULL;
}

static bt_dataset *done(bt_dataset *data, bool good)
{
    return bt_dataset_done(data, good ? BT_OK : bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_ARGUMENT);
}

static bool is_first(const char *function, bool before)
{
    if (before)
        bt_fail(BT_ERROR_ARGUMENT, "%s: was already called on this data set; call it only once", function);
    return !before;
}

/* Both move the image. */
static bool is_alone(const char *function, bool other)
{
    if (other)
        bt_fail(BT_ERROR_ARGUMENT, "%s: a data set takes bt_dataset_crop or bt_dataset_random_resized_crop, not both",
                function);
    return !other;
}

bt_dataset *bt_dataset_random_resized_crop(bt_dataset *data, double least, uint64_t seed)
{
    static const char function[] = "bt_dataset_random_resized_crop";
    bt_augment *a = augment_of(function, data);
    bool good = a && is_first(function, a->least != 0) && is_alone(function, a->padding);
    if (good && !(least > 0 && least <= 1)) {
        bt_fail(BT_ERROR_ARGUMENT, "%s: found a smallest share of %g; expected more than 0, up to 1", function, least);
        good = false;
    }
    if (good) {
        a->least = least;
        a->seeds[BT_ZOOM] = seed;
    }
    return done(data, good);
}

bt_dataset *bt_dataset_crop(bt_dataset *data, int64_t padding, uint64_t seed)
{
    bt_augment *a = augment_of("bt_dataset_crop", data);
    bool good = a && is_first("bt_dataset_crop", a->padding) && is_alone("bt_dataset_crop", a->least != 0);
    int64_t most = !a ? 0 : a->height < a->width ? a->height : a->width;
    if (good && (padding < 1 || padding > most || padding > BT_MAX_PADDING)) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_crop: found padding %lld; expected 1 to %lld pixels", (long long)padding,
                (long long)(most < BT_MAX_PADDING ? most : BT_MAX_PADDING));
        good = false;
    }
    if (good) {
        a->padding = padding;
        a->seeds[BT_CROP] = seed;
    }
    return done(data, good);
}

bt_dataset *bt_dataset_flip(bt_dataset *data, uint64_t seed)
{
    bt_augment *a = augment_of("bt_dataset_flip", data);
    bool good = a && is_first("bt_dataset_flip", a->flip);
    if (good) {
        a->flip = true;
        a->seeds[BT_FLIP] = seed;
    }
    return done(data, good);
}

bt_dataset *bt_dataset_cutout(bt_dataset *data, int64_t size, uint64_t seed)
{
    bt_augment *a = augment_of("bt_dataset_cutout", data);
    bool good = a && is_first("bt_dataset_cutout", a->hole);
    int64_t most = !a ? 0 : a->height > a->width ? a->height : a->width;
    if (good && (size < 1 || size > most)) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_cutout: found size %lld; expected 1 to %lld pixels", (long long)size,
                (long long)most);
        good = false;
    }
    if (good) {
        a->hole = size;
        a->seeds[BT_CUTOUT] = seed;
    }
    return done(data, good);
}

static bool can_mix(const bt_dataset *data, double alpha)
{
    const bt_column *label = bt_dataset_column(data, "label");
    if (!(alpha > 0 && alpha <= 1e6)) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_mixup: found alpha %g; expected more than 0, up to 1e6", alpha);
        return false;
    }
    if (!label || label->store->array.rank != 1) {
        bt_fail(BT_ERROR_DATA, "bt_dataset_mixup: the data set has no field \"label\"%s",
                label ? " with one number per example" : "");
        return false;
    }
    return true;
}

bt_dataset *bt_dataset_mixup(bt_dataset *data, double alpha, uint64_t seed)
{
    bt_augment *a = augment_of("bt_dataset_mixup", data);
    bool good = a && is_first("bt_dataset_mixup", a->alpha != 0) && can_mix(data, alpha);
    if (good) {
        a->label = bt_dataset_column(data, "label") - data->columns;
        a->alpha = alpha;
        a->seeds[BT_MIXUP] = seed;
    }
    return done(data, good);
}

static bool are_channels(const bt_augment *a, const char *what, bt_array values, bool positive)
{
    char shape[256];
    if (bt_check_field("bt_dataset_normalize", what, values) != BT_OK)
        return false;
    if (values.rank != 1 || values.dims[0] != a->channels) {
        bt_fail(BT_ERROR_SHAPE, "bt_dataset_normalize: the %s is of shape %s; expected [%lld], one for each channel",
                what, bt_shape_text(shape, values.rank, values.dims), (long long)a->channels);
        return false;
    }
    for (int64_t c = 0; c < a->channels; c++) {
        double value = bt_get(values.dtype, values.data, c);
        if (!isfinite(value) || (positive && !(value >= 1e-30))) {
            bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_normalize: the %s of channel %lld is %g; expected a %s number", what,
                    (long long)c, value, positive ? "positive" : "finite");
            return false;
        }
    }
    return true;
}

/* For both precisions, stores a row of factors, then a row of summands, so that loops over a row need not know of
 * channels. */
static bool make_linear(bt_augment *a, bt_array mean, bt_array deviation)
{
    float *narrow = bt_alloc_array(2 * (size_t)a->row, sizeof *narrow);
    double *wide = bt_alloc_array(2 * (size_t)a->row, sizeof *wide);
    a->linear[0] = wide;
    a->linear[1] = narrow;
    if (!narrow || !wide)
        return false;
    for (int64_t i = 0; i < a->row; i++) {
        double scale = 1 / bt_get(deviation.dtype, deviation.data, i % a->channels);
        wide[i] = scale;
        wide[a->row + i] = -bt_get(mean.dtype, mean.data, i % a->channels) * scale;
        narrow[i] = (float)wide[i];
        narrow[a->row + i] = (float)wide[a->row + i];
    }
    return true;
}

bt_dataset *bt_dataset_normalize(bt_dataset *data, bt_array mean, bt_array deviation)
{
    bt_augment *a = augment_of("bt_dataset_normalize", data);
    return done(data, a && is_first("bt_dataset_normalize", a->linear[0] != NULL) &&
                          are_channels(a, "mean", mean, false) && are_channels(a, "deviation", deviation, true) &&
                          make_linear(a, mean, deviation));
}
