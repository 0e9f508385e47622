/* data/resize.c: resizes images of bytes. Each pixel is the mean of those that it covers, weighted by a triangle twice
 * as wide as the pixel (when enlarging, as wide as two source pixels). It resizes rows first, then columns, and rounds
 * to a byte each time. Weights are rounded to 22 fractional bits. Pillow does the same, and so does torchvision, which
 * uses it. */
#include "data/read.h"

#include <math.h>

enum { BITS = 22 };

typedef struct taps { /* for `count` pixels of a line: weights of the width[i] source pixels from first[i] on */
    int64_t *first, *width;
    int32_t *weights; /* [count, most] */
    int64_t count, most;
} taps;

static void free_taps(taps *t)
{
    bt_free(t->first);
    bt_free(t->width);
    bt_free(t->weights);
}

static void weigh(taps *t, int64_t i, double centre, double reach, int64_t size, double *weights)
{
    const int64_t low = (int64_t)(centre - reach + 0.5), high = (int64_t)(centre + reach + 0.5);
    double sum = 0;
    t->first[i] = low < 0 || centre - reach + 0.5 < 0 ? 0 : low;
    t->width[i] = (high < size ? high : size) - t->first[i];
    for (int64_t k = 0; k < t->width[i]; k++) {
        const double away = fabs((double)(k + t->first[i]) - centre + 0.5) * (1 / reach);
        weights[k] = away < 1 ? 1 - away : 0;
        sum += weights[k];
    }
    for (int64_t k = 0; k < t->width[i]; k++)
        t->weights[i * t->most + k] = (int32_t)(0.5 + weights[k] / sum * (1 << BITS));
}

/* Computes the pixels from..from + count of a line of `size` pixels resized to `resized`. */
static bt_status make_taps(taps *t, int64_t size, int64_t resized, int64_t from, int64_t count)
{
    const double scale = (double)size / (double)resized, reach = scale > 1 ? scale : 1;
    *t = (taps){.count = count, .most = (int64_t)ceil(reach) * 2 + 1};
    t->first = bt_alloc_array((size_t)count, sizeof *t->first);
    t->width = bt_alloc_array((size_t)count, sizeof *t->width);
    t->weights = bt_alloc_array((size_t)(count * t->most), sizeof *t->weights);
    double *weights = bt_alloc_array((size_t)t->most, sizeof *weights);
    const bool good = t->first && t->width && t->weights && weights;
    for (int64_t i = 0; good && i < count; i++)
        weigh(t, i, ((double)(from + i) + 0.5) * scale, reach, size, weights);
    bt_free(weights);
    return good ? BT_OK : BT_ERROR_MEMORY;
}

/* Pixel i of the taps, from bytes that are `step` apart. */
static uint8_t blend(const taps *t, int64_t i, const uint8_t *from, int64_t step)
{
    int32_t sum = 1 << (BITS - 1);
    from += t->first[i] * step;
    for (int64_t k = 0; k < t->width[i]; k++)
        sum += from[k * step] * t->weights[i * t->most + k];
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void resize(const taps *rows, const taps *columns, const uint8_t *from, int64_t width, int64_t channels,
                   uint8_t *middle, uint8_t *to)
{
    const int64_t top = rows->first[0], bottom = rows->first[rows->count - 1] + rows->width[rows->count - 1];
    const int64_t row = columns->count * channels;
    for (int64_t y = top; y < bottom; y++)
        for (int64_t x = 0; x < columns->count; x++)
            for (int64_t c = 0; c < channels; c++)
                middle[(y - top) * row + x * channels + c] =
                    blend(columns, x, from + y * width * channels + c, channels);
    for (int64_t y = 0; y < rows->count; y++)
        for (int64_t i = 0; i < row; i++)
            to[y * row + i] = blend(rows, y, middle + i - top * row, row);
}

/* Where the central part of `size` begins in a line; halves are rounded to even. */
static int64_t middle_of(int64_t line, int64_t size)
{
    const int64_t spare = line - size, half = spare / 2;
    return spare % 2 == 0 ? half : half + half % 2;
}

void bt_resized_size(const bt_picture *found, const bt_image_options *o, int64_t *height, int64_t *width)
{
    *height = found->height;
    *width = found->width;
    if (o->resize && found->height < found->width) {
        *width = o->resize * found->width / found->height;
        *height = o->resize;
    } else if (o->resize) {
        *height = o->resize * found->height / found->width;
        *width = o->resize;
    }
}

bt_status bt_resize(const bt_picture *found, const bt_image_options *o, const uint8_t *from, int64_t channels,
                    uint8_t *to)
{
    int64_t height, width;
    taps rows = {0}, columns = {0};
    uint8_t *middle = bt_alloc_array((size_t)found->height, (size_t)(o->crop * channels));
    bt_resized_size(found, o, &height, &width);
    bt_status status =
        middle ? make_taps(&rows, found->height, height, middle_of(height, o->crop), o->crop) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = make_taps(&columns, found->width, width, middle_of(width, o->crop), o->crop);
    if (status == BT_OK)
        resize(&rows, &columns, from, found->width, channels, middle, to);
    free_taps(&rows);
    free_taps(&columns);
    bt_free(middle);
    return status;
}
