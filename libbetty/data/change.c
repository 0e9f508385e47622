/* data/change.c: changes images at random while a batch is gathered. What happens to an image depends only on the
 * seeds, its epoch and its place, not on its batch or the thread.
 *
 * Crops and flips of CIFAR: He et al., "Deep residual learning for image recognition" (CVPR 2016). Cutout: DeVries and
 * Taylor (2017). Mixup: Zhang et al. (ICLR 2018); here each example has its own share and partner. Random resized
 * crops: Szegedy et al. (CVPR 2015), with the proportions and the ten trials of torchvision. */
#include "base/random.h"
#include "base/team.h"
#include "data/dataset.h"

#include <math.h>
#include <string.h>

/* ---- random numbers for an example ---- */

typedef struct example { /* of the set in an epoch; or its partner, which has random numbers of its own */
    int32_t place;
    bool is_partner;
    uint64_t moment; /* epoch and place of the example itself, as one number */
} example;

static example example_at(const bt_drawn *drawn, int64_t i)
{
    uint64_t epoch = (uint64_t)((drawn->from + i) / drawn->per_epoch);
    return (example){.place = drawn->places[i], .moment = (epoch << 31) | (uint32_t)drawn->places[i]};
}

static bt_random numbers_for(const bt_augment *a, bt_change change, const example *e)
{
    return bt_random_begin(a->seeds[change], BT_FOR_CHANGE, 2 * (uint32_t)change + e->is_partner, e->moment);
}

/* A normally distributed number: Box and Muller (1958). */
static double normal(bt_random *random)
{
    double radius = sqrt(-2 * log(bt_random_unit(random)));
    return radius * cos(2 * 3.14159265358979323846 * bt_random_unit(random));
}

/* The logarithm of a gamma-distributed number: Marsaglia and Tsang, "A simple method for generating gamma variables"
 * (2000). For a small shape, whose numbers would underflow, it is computed from that of shape + 1. */
static double log_gamma_variate(bt_random *random, double shape)
{
    if (shape < 1) {
        double larger = log_gamma_variate(random, shape + 1);
        return larger + log(bt_random_unit(random)) / shape;
    }
    const double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(random), root = 1 + c * x, v = root * root * root, u = bt_random_unit(random);
        if (v > 0 && log(u) < 0.5 * x * x + d * (1 - v + log(v)))
            return log(d * v);
    }
}

/* The share that an example keeps is Beta(alpha, alpha) distributed; the partner is any other example. */
static double draw_partner(const bt_dataset *set, const example *e, int32_t *partner)
{
    bt_random random = numbers_for(set->augment, BT_MIXUP, e);
    *partner = e->place;
    if (set->count > 1) {
        *partner = (int32_t)bt_random_below(&random, (uint32_t)set->count - 1);
        *partner += *partner >= e->place;
    }
    double own = log_gamma_variate(&random, set->augment->alpha);
    return 1 / (1 + exp(log_gamma_variate(&random, set->augment->alpha) - own));
}

typedef struct changes { /* of one image */
    int64_t dy, dx;      /* output pixel (y, x) is input pixel (y + dy, x + dx), or 0 outside */
    bool flip;
    int64_t top, bottom, left, right; /* the hole */
    int64_t y, x, height, width;      /* the part that is enlarged to the whole image; height 0: none */
} changes;

static void clip(int64_t centre, int64_t hole, int64_t size, int64_t *from, int64_t *to)
{
    int64_t first = centre - hole / 2, end = first + hole;
    *from = first < 0 ? 0 : first;
    *to = end > size ? size : end;
}

/* Up to ten trials; after that the largest central part with allowed proportions. */
static void draw_part(const bt_augment *a, const example *e, changes *drawn)
{
    const double narrowest = 3.0 / 4, widest = 4.0 / 3, area = (double)(a->height * a->width);
    bt_random random = numbers_for(a, BT_ZOOM, e);
    for (int trial = 0; trial < 10; trial++) {
        const double part = area * (a->least + (1 - a->least) * bt_random_unit(&random));
        const double sides = narrowest * pow(widest / narrowest, bt_random_unit(&random));
        drawn->width = llround(sqrt(part * sides));
        drawn->height = llround(sqrt(part / sides));
        if (drawn->width > 0 && drawn->width <= a->width && drawn->height > 0 && drawn->height <= a->height) {
            drawn->y = bt_random_below(&random, (uint32_t)(a->height - drawn->height) + 1);
            drawn->x = bt_random_below(&random, (uint32_t)(a->width - drawn->width) + 1);
            return;
        }
    }
    const double whole = (double)a->width / (double)a->height;
    drawn->width = whole > widest ? llround((double)a->height * widest) : a->width;
    drawn->height = whole < narrowest ? llround((double)a->width / narrowest) : a->height;
    drawn->y = (a->height - drawn->height) / 2;
    drawn->x = (a->width - drawn->width) / 2;
}

static changes draw_changes(const bt_augment *a, const example *e)
{
    changes drawn = {0};
    if (a->padding) {
        bt_random random = numbers_for(a, BT_CROP, e);
        const uint32_t ways = 2 * (uint32_t)a->padding + 1;
        drawn.dy = (int64_t)bt_random_below(&random, ways) - a->padding;
        drawn.dx = (int64_t)bt_random_below(&random, ways) - a->padding;
    }
    if (a->least != 0)
        draw_part(a, e, &drawn);
    if (a->flip) {
        bt_random random = numbers_for(a, BT_FLIP, e);
        drawn.flip = bt_random_below(&random, 2);
    }
    if (a->hole) {
        bt_random random = numbers_for(a, BT_CUTOUT, e);
        clip(bt_random_below(&random, (uint32_t)a->height), a->hole, a->height, &drawn.top, &drawn.bottom);
        clip(bt_random_below(&random, (uint32_t)a->width), a->hole, a->width, &drawn.left, &drawn.right);
    }
    return drawn;
}

/* ---- pixels ---- */

typedef struct near { /* the two pixels of a line of the part between which a pixel of the whole lies */
    int64_t first, second;
    double share; /* of the second */
} near;

static near near_to(int64_t i, int64_t whole, int64_t part)
{
    const double at = ((double)i + 0.5) * (double)part / (double)whole - 0.5, low = floor(at);
    const int64_t first = (int64_t)low, second = first + 1;
    return (near){first < 0 ? 0 : first, second < part ? second : part - 1, at - low};
}

enum { BLOCK = 16 }; /* loops of fixed length are vectorised */

#define BT_PIXELS(T, suffix, precision)                                                                                \
    static inline void flip_rows_##suffix(T *image, const bt_augment *a, int64_t channels)                             \
    {                                                                                                                  \
        for (int64_t y = 0; y < a->height; y++, image += a->row)                                                       \
            for (T *left = image, *right = image + a->row - channels; left < right;                                    \
                 left += channels, right -= channels)                                                                  \
                for (int64_t k = 0; k < channels; k++) {                                                               \
                    T value = left[k];                                                                                 \
                    left[k] = right[k];                                                                                \
                    right[k] = value;                                                                                  \
                }                                                                                                      \
    }                                                                                                                  \
    static void flip_##suffix(T *image, const bt_augment *a)                                                           \
    {                                                                                                                  \
        if (a->channels == 3)                                                                                          \
            flip_rows_##suffix(image, a, 3);                                                                           \
        else                                                                                                           \
            flip_rows_##suffix(image, a, a->channels);                                                                 \
    }                                                                                                                  \
    static void normalize_##suffix(T *restrict image, const bt_augment *a)                                             \
    {                                                                                                                  \
        const T *restrict scale = a->linear[precision], *restrict shift = scale + a->row;                              \
        for (int64_t y = 0; y < a->height; y++, image += a->row) {                                                     \
            int64_t i = 0;                                                                                             \
            for (; i + BLOCK <= a->row; i += BLOCK)                                                                    \
                for (int k = 0; k < BLOCK; k++)                                                                        \
                    image[i + k] = image[i + k] * scale[i + k] + shift[i + k];                                         \
            for (; i < a->row; i++)                                                                                    \
                image[i] = image[i] * scale[i] + shift[i];                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    /* Interpolates between the two nearest pixels each way; border pixels also stand for what is outside the part. */ \
    static void zoom_##suffix(const T *restrict from, const bt_augment *a, const changes *how, T *restrict to)         \
    {                                                                                                                  \
        for (int64_t y = 0; y < a->height; y++) {                                                                      \
            const near rows = near_to(y, a->height, how->height);                                                      \
            const T *upper = from + (how->y + rows.first) * a->row, *lower = from + (how->y + rows.second) * a->row;   \
            for (int64_t x = 0; x < a->width; x++) {                                                                   \
                const near at = near_to(x, a->width, how->width);                                                      \
                const int64_t left = (how->x + at.first) * a->channels, right = (how->x + at.second) * a->channels;    \
                for (int64_t k = 0; k < a->channels; k++) {                                                            \
                    const double above = upper[left + k] + at.share * ((double)upper[right + k] - upper[left + k]),    \
                                 below = lower[left + k] + at.share * ((double)lower[right + k] - lower[left + k]);    \
                    *to++ = (T)(above + rows.share * (below - above));                                                 \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void blend_##suffix(T *restrict image, const T *restrict other, T share, int64_t count)                     \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        for (; i + BLOCK <= count; i += BLOCK)                                                                         \
            for (int k = 0; k < BLOCK; k++)                                                                            \
                image[i + k] = share * image[i + k] + (1 - share) * other[i + k];                                      \
        for (; i < count; i++)                                                                                         \
            image[i] = share * image[i] + (1 - share) * other[i];                                                      \
    }

BT_PIXELS(double, f64, 0)
BT_PIXELS(float, f32, 1)

static void blacken(char *to, int64_t from, int64_t count, size_t item)
{
    memset(to + (size_t)from * item, 0, (size_t)count * item);
}

/* Copies the image from `off` numbers on (dy rows and dx pixels) in one piece, since rows are contiguous. Then it
 * blackens what came from outside or from the end of another row. */
static void crop(const bt_augment *a, const bt_store *store, const char *from, const changes *how, bt_dtype dtype,
                 char *to)
{
    const size_t item = bt_dtype_size(dtype);
    const int64_t all = store->row_items, sideways = how->dx * a->channels, off = how->dy * a->row + sideways;
    const int64_t begin = off < 0 ? -off : 0, end = off > 0 ? all - off : all;
    if (end > begin)
        bt_gather_convert(store, from + (size_t)(begin + off) * bt_dtype_size(store->array.dtype), end - begin, dtype,
                          to + (size_t)begin * item);
    for (int64_t y = 0; y < a->height; y++) {
        bool outside = y + how->dy < 0 || y + how->dy >= a->height;
        if (outside)
            blacken(to, y * a->row, a->row, item);
        else if (sideways < 0)
            blacken(to, y * a->row, -sideways, item);
        else if (sideways > 0)
            blacken(to, (y + 1) * a->row - sideways, sideways, item);
    }
}

static void cut_out(const bt_augment *a, const changes *how, size_t item, char *to)
{
    for (int64_t y = how->top; y < how->bottom; y++)
        blacken(to, y * a->row + how->left * a->channels, (how->right - how->left) * a->channels, item);
}

static void zoom(const bt_augment *a, const bt_store *store, const char *from, const changes *how, bt_dtype dtype,
                 void *whole, void *to)
{
    const size_t off = (size_t)(how->y * a->row), bytes = bt_dtype_size(dtype);
    bt_gather_convert(store, from + off * bt_dtype_size(store->array.dtype), how->height * a->row, dtype,
                      (char *)whole + off * bytes);
    if (dtype == BT_F64)
        zoom_f64(whole, a, how, to);
    else
        zoom_f32(whole, a, how, to);
}

/* Makes one image as it appears in a batch; without chance, only normalised. The scratch memory holds one unchanged
 * image. */
static void make_image(const bt_dataset *set, const example *e, bool chance, bt_dtype dtype, void *to, void *scratch)
{
    const bt_augment *a = set->augment;
    const bt_column *column = &set->columns[a->image];
    const changes how = chance ? draw_changes(a, e) : (changes){0};
    if (how.height)
        zoom(a, column->store, bt_gather_row(column, e->place), &how, dtype, scratch, to);
    else if (how.dy || how.dx)
        crop(a, column->store, bt_gather_row(column, e->place), &how, dtype, to);
    else
        bt_gather_convert(column->store, bt_gather_row(column, e->place), column->store->row_items, dtype, to);
    if (dtype == BT_F64) {
        if (how.flip)
            flip_f64(to, a);
        if (a->linear[0])
            normalize_f64(to, a);
    } else {
        if (how.flip)
            flip_f32(to, a);
        if (a->linear[0])
            normalize_f32(to, a);
    }
    cut_out(a, &how, bt_dtype_size(dtype), to);
}

/* Memory for one image. */
static size_t image_room(const bt_augment *a, bt_dtype dtype)
{
    return bt_align_up((size_t)(a->height * a->row) * bt_dtype_size(dtype));
}

/* The scratch memory holds the partner, followed by what make_image needs. */
static void mix(const bt_dataset *set, const example *e, bt_dtype dtype, void *to, char *scratch)
{
    example partner = {.is_partner = true, .moment = e->moment};
    double share = draw_partner(set, e, &partner.place);
    int64_t count = set->columns[set->augment->image].store->row_items;
    make_image(set, &partner, true, dtype, scratch, scratch + image_room(set->augment, dtype));
    if (dtype == BT_F64)
        blend_f64(to, (const double *)(void *)scratch, share, count);
    else
        blend_f32(to, (const float *)(void *)scratch, (float)share, count);
}

static void make_images(const bt_dataset *set, const bt_drawn *drawn, int64_t from, int64_t end, bt_dtype dtype,
                        char *out, char *scratch)
{
    const bt_column *column = &set->columns[set->augment->image];
    const size_t step = (size_t)column->store->row_items * bt_dtype_size(dtype);
    for (int64_t i = from; i < end; i++) {
        const example e = example_at(drawn, i);
        bt_gather_near(column, drawn->places + from, i - from, end - from);
        make_image(set, &e, drawn->chance, dtype, out + (size_t)i * step, scratch);
        if (drawn->chance && set->augment->alpha != 0)
            mix(set, &e, dtype, out + (size_t)i * step, scratch);
    }
}

size_t bt_change_scratch(const bt_dataset *set, bt_dtype dtype)
{
    const bt_augment *a = set->augment;
    return a ? ((size_t)(a->alpha != 0) + (a->least != 0)) * image_room(a, dtype) : 0;
}

typedef struct shared { /* between threads */
    const bt_dataset *set;
    const bt_drawn *drawn;
    bt_dtype dtype;
    char *out, *scratch; /* scratch: each part uses `room` bytes of it */
    size_t room;
} shared;

static void share(const void *work, int t, int threads)
{
    const shared *s = work;
    const int64_t count = s->drawn->count;
    make_images(s->set, s->drawn, count * t / threads, count * (t + 1) / threads, s->dtype, s->out,
                s->scratch ? s->scratch + (size_t)t * s->room : NULL);
}

void bt_change_images(const bt_dataset *set, const bt_drawn *drawn, bt_dtype dtype, void *out, char *scratch,
                      int threads)
{
    if ((size_t)drawn->count * set->columns[set->augment->image].store->row_bytes < BT_WORTH_A_THREAD)
        threads = 1;
    bt_team_do(share, &(shared){set, drawn, dtype, out, scratch, bt_change_scratch(set, dtype)}, threads);
}

void bt_change_labels(const bt_dataset *set, const bt_drawn *drawn, const bt_array *other, const bt_array *share)
{
    const bt_column *label = &set->columns[set->augment->label];
    char *to = other->data;
    for (int64_t i = 0; i < drawn->count; i++) {
        const example e = example_at(drawn, i);
        int32_t partner = e.place;
        bt_put(share->dtype, share->data, i, drawn->chance ? draw_partner(set, &e, &partner) : 1);
        bt_gather_convert(label->store, bt_gather_row(label, partner), 1, other->dtype,
                          to + (size_t)i * bt_dtype_size(other->dtype));
    }
}
