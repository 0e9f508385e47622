/* Random augmentation while a batch is gathered: the change of each image is found by trying all possible ones. */
#include "data/dataset.h"
#include "files.h"

#include "support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { H = 6, W = 8, C = 3, ROW = W * C, IMAGE = H * ROW };

/* The byte in row y and column x of image i: noise, so that no two views of images are equal; never 0. */
static int byte_at(int64_t i, int64_t y, int64_t x, int64_t c)
{
    return 1 + (int)(255 * bt_host_uniform(7, (uint64_t)i, (uint64_t)((y * W + x) * C + c)));
}

/* Images as bytes for x/255, or the same numbers in f32; label i mod classes. */
static bt_dataset *noise(int64_t count, int classes, bool bytes)
{
    bt_array image = {.dtype = bytes ? BT_U8 : BT_F32, .rank = 4, .dims = {count, H, W, C}};
    image.data = bt_alloc(bt_array_bytes(image));
    int32_t *label = calloc((size_t)count, sizeof *label);
    ck_assert(image.data && label);
    for (int64_t k = 0; k < count * IMAGE; k++) {
        int value = byte_at(k / IMAGE, k % IMAGE / ROW, k % ROW / C, k % C);
        bt_put(image.dtype, image.data, k, bytes ? value : value / 255.0);
    }
    for (int64_t i = 0; i < count; i++)
        label[i] = (int32_t)(i % classes);
    bt_dataset *data = bt_dataset_new(count);
    ck_assert_int_eq(bt_dataset_take(data, "image", bt_store_new(image, bytes)), BT_OK);
    ck_assert_int_eq(bt_dataset_add(data, "label", BT_ARRAY(label, count)), BT_OK);
    free(label);
    return data;
}

typedef struct view { /* of an image */
    int dy, dx, flip;
} view;

/* The expected pixel (y, x) in that view of image i. */
static double seen(int64_t i, view v, int y, int x, int c)
{
    int fy = y + v.dy, fx = (v.flip ? W - 1 - x : x) + v.dx;
    return fy < 0 || fy >= H || fx < 0 || fx >= W ? 0 : byte_at(i, fy, fx, c) / 255.0;
}

static bool is_view(bt_array image, int64_t at, int64_t i, view v)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < C; c++)
                if (fabs(bt_get(image.dtype, image.data, at * IMAGE + y * ROW + x * C + c) - seen(i, v, y, x, c)) >
                    1e-7)
                    return false;
    return true;
}

/* Finds the view of image i that batch entry `at` has: exactly one of those shifted by up to `padding`. */
static view view_of(bt_array image, int64_t at, int64_t i, int padding)
{
    view found = {0, 0, -1};
    for (int dy = -padding; dy <= padding; dy++)
        for (int dx = -padding; dx <= padding; dx++)
            for (int flip = 0; flip < 2; flip++)
                if (is_view(image, at, i, (view){dy, dx, flip})) {
                    ck_assert_int_eq(found.flip, -1);
                    found = (view){dy, dx, flip};
                }
    ck_assert_int_ge(found.flip, 0);
    return found;
}

static bt_loader *open_with(bt_dataset *data, bt_loader_options options)
{
    bt_loader *loader = bt_loader_open(data, &options);
    ck_assert_msg(loader != NULL, "%s", bt_error());
    return loader;
}

static bt_loader_options of_size(int64_t batch_size)
{
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = batch_size;
    options.prefetch = false;
    return options;
}

static const bt_batch *draw(bt_loader *loader)
{
    const bt_batch *batch = NULL;
    ck_assert_int_eq(bt_loader_draw(loader, &batch), BT_OK);
    return batch;
}

/* The views of all examples in some epochs, [epochs * count], by epoch and position. */
static view *views(bt_dataset *data, bt_loader_options options, int epochs, int padding)
{
    int64_t count = bt_dataset_count(data);
    bt_loader *loader = open_with(data, options);
    view *found = calloc((size_t)(count * epochs), sizeof *found);
    ck_assert_ptr_nonnull(found);
    while (bt_loader_epoch(loader) < epochs) {
        int64_t epoch = bt_loader_epoch(loader);
        const bt_batch *batch = draw(loader);
        for (int64_t k = 0; k < bt_batch_count(batch); k++) {
            int32_t i = i32_of(batch, "index")[k];
            found[epoch * count + i] = view_of(field_of(batch, "image")->array, k, i, padding);
        }
    }
    bt_loader_free(loader);
    return found;
}

static bt_dataset *moved(int64_t count, bool bytes, uint64_t crop_seed, uint64_t flip_seed)
{
    return bt_dataset_flip(bt_dataset_crop(noise(count, 3, bytes), 2, crop_seed), flip_seed);
}

/* The 25 positions and 2 directions are equally frequent: the sum of squares is chi-squared. */
START_TEST(crops_and_flips_are_uniform)
{
    enum { N = 50, EPOCHS = 40, ALL = N * EPOCHS };
    view *found = views(moved(N, true, 1, 1), of_size(16), EPOCHS, 2);
    int counts[2][5][5] = {0}, same = 0;
    double chi = 0, expected = ALL / 50.0;
    for (int k = 0; k < ALL; k++) {
        counts[found[k].flip][found[k].dy + 2][found[k].dx + 2]++;
        same += k >= N && memcmp(&found[k], &found[k - N], sizeof *found) == 0;
    }
    for (int k = 0; k < 50; k++)
        chi += pow((&counts[0][0][0])[k] - expected, 2) / expected;
    ck_assert_double_lt(chi, 100); /* 49 degrees of freedom: mean 49, deviation 10 */
    ck_assert_double_gt(chi, 20);
    ck_assert_int_lt(same, 80); /* in the next epoch: 39 are expected */
    free(found);
}
END_TEST

START_TEST(a_function_of_seed_epoch_and_index)
{
    enum { N = 30, EPOCHS = 3 };
    bt_loader_options o = of_size(7);
    view *expected = views(moved(N, true, 5, 6), o, EPOCHS, 2);
    const size_t size = N * EPOCHS * sizeof *expected;
    for (int k = 0; k < 6; k++) {
        bt_loader_options other = o;
        other.batch_size = k == 0 ? 11 : k == 1 ? 0 : 7; /* all at once, in the set's order */
        other.seed = k == 2 ? 99 : 0;
        other.shuffle = k != 3;
        other.prefetch = k == 4;
        other.dtype = k == 5 ? BT_F64 : BT_F32;
        view *found = views(moved(N, k != 3, 5, 6), other, EPOCHS, 2);
        ck_assert_mem_eq(found, expected, size);
        free(found);
    }
    view *crop = views(moved(N, true, 4, 6), o, EPOCHS, 2), *flip = views(moved(N, true, 5, 4), o, EPOCHS, 2);
    int fixed[4] = {0};
    for (int i = 0; i < N * EPOCHS; i++) {
        fixed[0] += crop[i].dy == expected[i].dy && crop[i].dx == expected[i].dx;
        fixed[1] += crop[i].flip == expected[i].flip;
        fixed[2] += flip[i].dy == expected[i].dy && flip[i].dx == expected[i].dx;
        fixed[3] += flip[i].flip == expected[i].flip;
    }
    ck_assert(fixed[0] < 15 && fixed[1] == 90 && fixed[2] == 90 && fixed[3] > 25 && fixed[3] < 65);
    free(expected);
    free(crop);
    free(flip);
}
END_TEST

/* As on a large machine: many threads, prefetching; from the middle; the same bits in both precisions. */
START_TEST(threads_and_seeking)
{
    enum { N = 1300, BATCH = 600 };
    static float expected[6][BATCH * IMAGE];
    for (int k = 0; k < 3; k++) {
        bt_loader_options o = of_size(BATCH);
        o.threads = k == 1 ? 3 : 1;
        o.prefetch = k == 2;
        bt_dataset *data = bt_dataset_mixup(bt_dataset_cutout(moved(N, true, 1, 2), 3, 3), 0.3, 4);
        bt_loader *loader = open_with(data, o);
        ck_assert_int_eq(bt_loader_seek(loader, k ? 1 : 0), BT_OK);
        for (int b = k ? 1 : 0; b < 6; b++) {
            bt_array image = field_of(draw(loader), "image")->array;
            ck_assert_int_eq(image.dims[0], b % 3 == 2 ? 100 : BATCH);
            if (k == 0)
                memcpy(expected[b], image.data, bt_array_bytes(image));
            else
                ck_assert_mem_eq(image.data, expected[b], bt_array_bytes(image));
        }
        bt_loader_free(loader);
    }
}
END_TEST

static const double mean[C] = {0.5, 0.25, 0.125}, deviation[C] = {0.5, 2, 0.25};

static bt_dataset *normal(bt_dataset *data)
{
    return bt_dataset_normalize(data, BT_ARRAY(mean, C), BT_ARRAY(deviation, C));
}

/* In both precisions, from bytes and floats; padding of a crop is black before normalisation. */
START_TEST(normalized)
{
    for (int k = 0; k < 4; k++) {
        bt_loader_options o = of_size(5);
        o.dtype = k % 2 ? BT_F64 : BT_F32;
        view *expected = views(moved(20, k < 2, 1, 2), o, 1, 2);
        bt_loader *loader = open_with(normal(moved(20, k < 2, 1, 2)), o);
        for (int b = 0; b < 4; b++) {
            const bt_batch *batch = draw(loader);
            bt_array image = field_of(batch, "image")->array;
            ck_assert_int_eq(image.dtype, o.dtype);
            for (int at = 0; at < 5 * IMAGE; at++) {
                int c = at % C, y = at % IMAGE / ROW, x = at % ROW / C, i = i32_of(batch, "index")[at / IMAGE];
                double due = (seen(i, expected[i], y, x, c) - mean[c]) / deviation[c];
                ck_assert_double_eq_tol(bt_get(image.dtype, image.data, at), due, k == 1 ? 1e-15 : 3e-7);
            }
        }
        bt_loader_free(loader);
        free(expected);
    }
}
END_TEST

typedef struct part {
    int y, x, height, width;
} part;

/* Pixel o of a line of `size` pixels resized from `count` pixels: their mean, weighted by a triangle around it. */
static double weight_of(int o, int size, int count, int k)
{
    const double centre = (o + 0.5) * count / size;
    double sum = 0, own = 0;
    for (int j = 0; j < count; j++) {
        const double w = fmax(0, 1 - fabs(j + 0.5 - centre));
        sum += w;
        own = j == k ? w : own;
    }
    return own / sum;
}

static bool is_part(const float *image, int64_t i, part p)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < C; c++) {
                double due = 0;
                for (int r = 0; r < p.height; r++)
                    for (int k = 0; k < p.width; k++)
                        due += weight_of(y, H, p.height, r) * weight_of(x, W, p.width, k) *
                               byte_at(i, p.y + r, p.x + k, c) / 255.0;
                if (fabs(image[y * ROW + x * C + c] - due) > 1e-6)
                    return false;
            }
    return true;
}

/* Each is exactly one part of its image, resized: with a share and sides in the requested ranges, at any position. */
START_TEST(parts_resized)
{
    enum { N = 60 };
    bt_loader *loader = open_with(bt_dataset_random_resized_crop(noise(N, 3, true), 0.3, 9), of_size(N));
    const bt_batch *batch = draw(loader);
    const float *image = field_of(batch, "image")->array.data;
    const int32_t *index = i32_of(batch, "index");
    int first[H * W] = {0}, places = 0, sizes[H * W + 1] = {0}, areas = 0;
    for (int64_t i = 0; i < N; i++) {
        int found = 0;
        for (part p = {.height = 1}; p.height <= H; p.height++)
            for (p.width = 1; p.width <= W; p.width++)
                for (p.y = 0; p.y + p.height <= H; p.y++)
                    for (p.x = 0; p.x + p.width <= W; p.x++)
                        if (is_part(image + i * IMAGE, index[i], p)) {
                            const double sides = (double)p.width / p.height,
                                         share = p.width * p.height / (double)(H * W);
                            found++;
                            ck_assert(share > 0.2 && sides > 0.55 && sides < 1.8); /* rounded to whole pixels */
                            places += first[p.y * W + p.x]++ == 0;
                            areas += sizes[p.width * p.height]++ == 0;
                        }
        ck_assert_int_eq(found, 1);
    }
    ck_assert(places > 6 && areas > 6);
    bt_loader_free(loader);
    bt_loader_options o = of_size(N);
    o.chance = false;
    loader = open_with(bt_dataset_random_resized_crop(noise(N, 3, true), 0.3, 9), o);
    batch = draw(loader);
    for (int64_t i = 0; i < N; i++)
        ck_assert(is_part((const float *)field_of(batch, "image")->array.data + i * IMAGE, i32_of(batch, "index")[i],
                          (part){0, 0, H, W}));
    bt_loader_free(loader);
    ck_assert_ptr_null(bt_dataset_random_resized_crop(noise(4, 3, true), 1.5, 9));
    expect_failure(BT_ERROR_ARGUMENT, "smallest share of 1.5");
    ck_assert_ptr_null(bt_dataset_crop(bt_dataset_random_resized_crop(noise(4, 3, true), 0.5, 9), 1, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_crop", "not both");
}
END_TEST

/* With mixup, whose partners are also cropped, on several threads, in both precisions: the same bits. */
START_TEST(parts_and_mixup)
{
    enum { N = 500 };
    static float expected[N * IMAGE];
    for (int k = 0; k < 3; k++) {
        bt_loader_options o = of_size(N);
        o.threads = k ? 3 : 1;
        o.dtype = k == 2 ? BT_F64 : BT_F32;
        bt_dataset *data = bt_dataset_random_resized_crop(noise(N, 3, k != 1), 0.2, 4);
        bt_loader *loader = open_with(bt_dataset_mixup(bt_dataset_flip(data, 5), 0.3, 6), o);
        const bt_array image = field_of(draw(loader), "image")->array;
        if (k == 0)
            memcpy(expected, image.data, sizeof expected);
        for (int64_t i = 0; i < N * IMAGE; i++)
            ck_assert(fabs(bt_get(image.dtype, image.data, i) - (double)expected[i]) <= (k == 2 ? 1e-6 : 0));
        bt_loader_free(loader);
    }
}
END_TEST

/* A square of `size` whose centre is in the image; the part outside does not count. 0 is the mean, after
 * normalisation. */
START_TEST(cutouts)
{
    enum { N = 400, SIZE = 3 };
    int seen_at[H][W] = {0};
    bt_loader *loader = open_with(normal(bt_dataset_cutout(noise(N, 3, true), SIZE, 9)), of_size(N));
    const bt_batch *batch = draw(loader);
    bt_loader *plain = open_with(normal(noise(N, 3, true)), of_size(N));
    const float *cut = field_of(batch, "image")->array.data, *whole_image = field_of(draw(plain), "image")->array.data;
    for (int64_t i = 0; i < N; i++) {
        int top = H, bottom = -1, left = W, right = -1, holes = 0;
        for (int k = 0; k < H * W; k++) {
            const float *a = cut + i * IMAGE + k * C, *b = whole_image + i * IMAGE + k * C;
            bool hole = memcmp(a, b, C * sizeof *a) != 0;
            ck_assert(!hole || (a[0] == 0 && a[1] == 0 && a[2] == 0));
            int y = k / W, x = k % W;
            if (hole) {
                top = y < top ? y : top;
                bottom = y > bottom ? y : bottom;
                left = x < left ? x : left;
                right = x > right ? x : right;
                holes++;
            }
        }
        int height = bottom - top + 1, width = right - left + 1;
        ck_assert_int_eq(holes, height * width);
        ck_assert(height == SIZE || (height == 2 && (top == 0 || bottom == H - 1)));
        ck_assert(width == SIZE || (width == 2 && (left == 0 || right == W - 1)));
        seen_at[top + 1 - (top == 0 && height == 2)][left + 1 - (left == 0 && width == 2)]++;
    }
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            ck_assert(seen_at[y][x] >= 1 && seen_at[y][x] <= 22); /* 8.3 are expected */
    bt_loader_free(loader);
    bt_loader_free(plain);
}
END_TEST

/* The shares and partners of all draws: index [n], partner [n], share [n]. */
static void check_mixture(const bt_batch *batch, int64_t k, int padding)
{
    bt_array image = field_of(batch, "image")->array;
    int32_t i = i32_of(batch, "index")[k], other = i32_of(batch, "other_label")[k]; /* each has its own label */
    double share = bt_get(BT_F32, field_of(batch, "share")->array.data, k);
    ck_assert_int_eq(i32_of(batch, "label")[k], i);
    ck_assert_int_ne(other, i);
    const int side = 2 * padding + 1, ways = side * side * 2;
    int fits = 0;
    for (int a = 0; a < ways; a++)
        for (int b = 0; b < ways; b++) {
            view own = {a / 2 / side - padding, a / 2 % side - padding, a % 2};
            view partner = {b / 2 / side - padding, b / 2 % side - padding, b % 2};
            bool good = true;
            for (int at = 0; at < IMAGE && good; at++) {
                int y = at / ROW, x = at % ROW / C, c = at % C;
                double due = share * seen(i, own, y, x, c) + (1 - share) * seen(other, partner, y, x, c);
                good = fabs(bt_get(image.dtype, image.data, k * IMAGE + at) - due) < 3e-7;
            }
            fits += good;
        }
    ck_assert_int_ge(fits, 1);
    if (share > 0.001 && share < 0.999)
        ck_assert_int_eq(fits, 1);
}

START_TEST(mixtures)
{
    enum { N = 24 };
    bt_dataset *data = bt_dataset_flip(bt_dataset_crop(bt_dataset_mixup(noise(N, N, true), 0.5, 3), 1, 3), 3);
    ck_assert_int_eq(bt_dataset_field_dim(data, "share", 0), N);
    ck_assert_int_eq(bt_dataset_field_dim(data, "other_label", 0), N);
    ck_assert_int_eq(bt_dataset_field_dim(data, "share", 1), -1);
    bt_loader *loader = open_with(data, of_size(8));
    for (int b = 0; b < 6; b++) {
        const bt_batch *batch = draw(loader);
        ck_assert_int_eq(batch->field_count, 5);
        for (int64_t k = 0; k < 8; k++)
            check_mixture(batch, k, 1);
    }
    bt_loader_free(loader);
    loader = open_with(bt_dataset_mixup(noise(1, 1, true), 1, 3), of_size(1)); /* there is no other example */
    ck_assert_int_eq(i32_of(draw(loader), "other_label")[0], 0);
    bt_loader_free(loader);
}
END_TEST

/* Beta(a, a) has mean 1/2 and variance 1/(4(2a + 1)); partners are uniform over the other examples. */
START_TEST(shares_and_partners)
{
    enum { N = 20, EPOCHS = 100, ALL = N * EPOCHS };
    const double alphas[] = {0.01, 0.2, 1, 5, 1e6};
    for (int k = 0; k < BT_COUNT_OF(alphas); k++) {
        bt_loader *loader = open_with(bt_dataset_mixup(noise(N, N, true), alphas[k], 1), of_size(0));
        double sum = 0, square = 0, variance = 1 / (4 * (2 * alphas[k] + 1)), fourth = 0;
        int counts[N] = {0};
        for (int e = 0; e < EPOCHS; e++) {
            const bt_batch *batch = draw(loader);
            const float *share = field_of(batch, "share")->array.data;
            for (int i = 0; i < N; i++) {
                ck_assert(share[i] >= 0 && share[i] <= 1);
                sum += share[i] - 0.5;
                square += pow(share[i] - 0.5, 2);
                fourth += pow(share[i] - 0.5, 4);
                counts[i32_of(batch, "other_label")[i]]++;
            }
        }
        /* Five standard errors of the mean and of the variance. */
        ck_assert_double_lt(fabs(sum / ALL), 5 * sqrt(variance / ALL));
        ck_assert_double_lt(fabs(square / ALL - variance),
                            5 * sqrt((fourth / ALL - variance * variance) / ALL) + 1e-3 * variance);
        for (int i = 0; i < N; i++)
            ck_assert(counts[i] > 55 && counts[i] < 155); /* 100 are expected, with a deviation of 10 */
        bt_loader_free(loader);
    }
}
END_TEST

static bt_dataset *everything(int order, bool bytes)
{
    bt_dataset *data = noise(20, 20, bytes);
    for (int k = 0; k < 5; k++) {
        int what = (order + k) % 5;
        data = what == 0   ? bt_dataset_crop(data, 2, 1)
               : what == 1 ? bt_dataset_flip(data, 2)
               : what == 2 ? normal(data)
               : what == 3 ? bt_dataset_cutout(data, 4, 3)
                           : bt_dataset_mixup(data, 1, 4);
    }
    ck_assert_msg(data != NULL, "%s", bt_error());
    return data;
}

START_TEST(asked_for_in_any_order)
{
    float expected[20 * IMAGE];
    for (int order = 0; order < 5; order++) {
        bt_loader *loader = open_with(everything(order, true), of_size(20));
        bt_array image = field_of(draw(loader), "image")->array;
        if (order == 0)
            memcpy(expected, image.data, sizeof expected);
        ck_assert_mem_eq(image.data, expected, sizeof expected);
        bt_loader_free(loader);
    }
}
END_TEST

/* For validation: normalised, and nothing else; mixture fields refer to the example itself. */
START_TEST(without_chance)
{
    bt_loader_options o = of_size(8);
    o.shuffle = o.chance = false;
    o.dtype = BT_F64;
    bt_loader *loader = open_with(everything(0, false), o), *plain = open_with(normal(noise(20, 20, false)), o);
    for (int b = 0; b < 6; b++) {
        const bt_batch *batch = draw(loader), *due = draw(plain);
        bt_array image = field_of(batch, "image")->array;
        ck_assert_mem_eq(image.data, field_of(due, "image")->array.data, bt_array_bytes(image));
        for (int64_t k = 0; k < bt_batch_count(batch); k++) {
            ck_assert_int_eq(i32_of(batch, "other_label")[k], i32_of(batch, "label")[k]);
            ck_assert(f64_of(batch, "share")[k] == 1);
        }
    }
    bt_loader_free(loader);
    bt_loader_free(plain);
}
END_TEST

/* The image at each index of a set is the right one, however the set was made. */
static void check_index(bt_dataset *data, const int *which, int32_t classes)
{
    bt_loader *loader = open_with(data, of_size(6));
    while (bt_loader_epoch(loader) < 2) {
        const bt_batch *batch = draw(loader);
        for (int64_t k = 0; k < bt_batch_count(batch); k++) {
            int i = which[i32_of(batch, "index")[k]];
            view_of(field_of(batch, "image")->array, k, i, 2);
            ck_assert(classes == 0 || i32_of(batch, "label")[k] == i % classes);
        }
    }
    bt_loader_free(loader);
}

/* The images of `noise` that a set has. */
static void find_images(bt_dataset *data, int *which)
{
    const bt_batch *batch = whole(data);
    for (int64_t k = 0; k < bt_batch_count(batch); k++) {
        which[k] = -1;
        for (int i = 0; i < 30; i++)
            which[k] = is_view(field_of(batch, "image")->array, k, i, (view){0}) ? i : which[k];
        ck_assert_int_ge(which[k], 0);
    }
}

START_TEST(sets_of_sets)
{
    int which[30];
    find_images(bt_dataset_part(noise(30, 3, true), 0.25, 0.75, 1), which);
    check_index(bt_dataset_part(moved(30, true, 1, 2), 0.25, 0.75, 1), which, 3);
    check_index(bt_dataset_flip(bt_dataset_crop(bt_dataset_part(noise(30, 3, true), 0.25, 0.75, 1), 2, 1), 1), which,
                3);
    find_images(bt_dataset_per_class(noise(30, 3, true), 2, 7, 1), which);
    check_index(bt_dataset_per_class(moved(30, true, 1, 2), 2, 7, 1), which, 3);
    find_images(bt_dataset_long_tail(noise(30, 3, true), 5, 1), which);
    check_index(bt_dataset_label_noise(bt_dataset_long_tail(moved(30, true, 1, 2), 5, 1), 0.5, 1), which, 0);
    /* The partner's label is its final one. */
    int32_t labels[30];
    const bt_batch *noisy = whole(bt_dataset_label_noise(noise(30, 30, true), 1, 8));
    memcpy(labels, i32_of(noisy, "label"), sizeof labels);
    bt_dataset *data = bt_dataset_label_noise(bt_dataset_mixup(noise(30, 30, false), 1e6, 1), 1, 8);
    const bt_batch *batch = whole(data); /* almost half each */
    const double *image = f64_of(batch, "image"), *share = f64_of(batch, "share");
    for (int i = 0; i < 30; i++) {
        int fits = 0;
        for (int k = 0; k < 30; k++) {
            double difference = 0;
            for (int at = 0; at < IMAGE; at++)
                difference +=
                    fabs(image[i * IMAGE + at] - share[i] * seen(i, (view){0}, at / ROW, at % ROW / C, at % C) -
                         (1 - share[i]) * seen(k, (view){0}, at / ROW, at % ROW / C, at % C));
            if (difference < 1e-4) {
                ck_assert_int_eq(i32_of(batch, "other_label")[i], labels[k]);
                fits++;
            }
        }
        ck_assert_int_eq(fits, 1);
    }
}
END_TEST

/* Two streams: each has its own epochs, augmentation and fields. */
START_TEST(joined)
{
    enum { N = 20, M = 7 };
    view *first = views(moved(N, true, 1, 2), of_size(5), 2, 2),
         *second = views(moved(M, true, 3, 4), of_size(5), 6, 2);
    bt_dataset *data = bt_dataset_join(moved(N, true, 1, 2), "other", moved(M, true, 3, 4));
    bt_loader *loader = open_with(data, of_size(5));
    for (int b = 0; b < 8; b++) {
        const bt_batch *batch = draw(loader);
        for (int64_t k = 0; k < 5; k++) {
            int32_t i = i32_of(batch, "index")[k], j = i32_of(batch, "other.index")[k];
            view a = view_of(field_of(batch, "image")->array, k, i, 2);
            view c = view_of(field_of(batch, "other.image")->array, k, j, 2);
            ck_assert_mem_eq(&a, &first[b / 4 * N + i], sizeof a);
            ck_assert_mem_eq(&c, &second[(b * 5 + k) / M * M + j], sizeof c);
        }
    }
    bt_loader_free(loader);
    data = bt_dataset_join(moved(N, true, 1, 2), "b", bt_dataset_mixup(moved(M, true, 3, 4), 1, 1));
    ck_assert_int_eq(bt_dataset_field_dim(data, "b.share", 0), M);
    loader = open_with(bt_dataset_join(bt_dataset_mixup(noise(9, 9, true), 1, 1), "a", data), of_size(3));
    const bt_batch *batch = draw(loader);
    ck_assert_int_eq(batch->field_count, 5 + 3 + 5);
    for (int k = 0; k < 3; k++) { /* adjacent fields are not mixed up */
        ck_assert_int_eq(i32_of(batch, "label")[k], i32_of(batch, "index")[k]);
        ck_assert_int_eq(i32_of(batch, "a.label")[k], i32_of(batch, "a.index")[k] % 3);
        ck_assert_int_eq(i32_of(batch, "a.b.label")[k], i32_of(batch, "a.b.index")[k] % 3);
        view_of(field_of(batch, "a.image")->array, k, i32_of(batch, "a.index")[k], 2);
    }
    bt_loader_free(loader);
    free(first);
    free(second);
}
END_TEST

/* Support and query of a task are augmented in the same way; the next task, with the same images, differently. */
START_TEST(tasks)
{
    int same = 0, all = 0;
    static view last[12];
    bt_loader_options o = of_size(4);
    bt_loader *loader = open_with(bt_dataset_tasks(moved(12, true, 1, 2), 3, 2, 2, 5), o);
    bt_loader *again = open_with(bt_dataset_tasks(moved(12, true, 1, 2), 3, 2, 2, 5), o);
    ck_assert_int_eq(bt_loader_seek(again, 10), BT_OK);
    for (int t = 0; t < 40; t++) {
        const bt_batch *task = draw(loader);
        const char *const parts[2][2] = {{"support.image", "support.index"}, {"query.image", "query.index"}};
        for (int p = 0; p < 2; p++)
            for (int64_t k = 0; k < 6; k++, all++) {
                int32_t i = i32_of(task, parts[p][1])[k];
                view found = view_of(field_of(task, parts[p][0])->array, k, i, 2);
                same += memcmp(&found, &last[i], sizeof found) == 0;
                last[i] = found;
            }
        if (t >= 10) {
            const bt_batch *other = draw(again);
            ck_assert_mem_eq(field_of(task, "query.image")->array.data, field_of(other, "query.image")->array.data,
                             6 * IMAGE * sizeof(float));
        }
    }
    ck_assert_int_lt(same, all / 10); /* one of 50 */
    bt_loader_free(loader);
    bt_loader_free(again);
    ck_assert_ptr_null(bt_dataset_tasks(bt_dataset_mixup(noise(12, 3, true), 1, 1), 2, 1, 1, 1));
    expect_failure(BT_ERROR_UNSUPPORTED, "bt_dataset_mixup", "not in the task");
}
END_TEST

static void keep_hash(void *user, const char *prefix, const char *name, uint64_t hash)
{
    uint64_t *hashes = user;
    hashes[strcmp(name, "label") == 0] = hash;
    ck_assert_str_eq(prefix, "");
}

/* A checkpoint can only be resumed with the same augmentation. */
START_TEST(hashes)
{
    static const double other_mean[C] = {0.5, 0.25, 0.126};
    bt_dataset *sets[] = {
        noise(9, 3, true),
        bt_dataset_crop(noise(9, 3, true), 1, 0),
        bt_dataset_crop(noise(9, 3, true), 2, 0),
        bt_dataset_crop(noise(9, 3, true), 1, 1),
        bt_dataset_flip(noise(9, 3, true), 0),
        bt_dataset_cutout(noise(9, 3, true), 2, 0),
        bt_dataset_mixup(noise(9, 3, true), 1, 0),
        bt_dataset_mixup(noise(9, 3, true), 0.5, 0),
        normal(noise(9, 3, true)),
        bt_dataset_normalize(noise(9, 3, true), BT_ARRAY(other_mean, C), BT_ARRAY(deviation, C)),
        bt_dataset_normalize(noise(9, 3, true), BT_ARRAY(mean, C), BT_ARRAY(other_mean, C)),
    };
    uint64_t hashes[BT_COUNT_OF(sets)][2], again[2];
    for (int k = 0; k < BT_COUNT_OF(sets); k++) {
        bt_loader *loader = open_with(sets[k], of_size(3));
        bt_loader_hash(loader, keep_hash, hashes[k]);
        bt_loader_hash(loader, keep_hash, again);
        ck_assert_mem_eq(again, hashes[k], sizeof again);
        ck_assert(hashes[k][1] == hashes[0][1]);
        for (int other = 0; other < k; other++)
            ck_assert(hashes[k][0] != hashes[other][0]);
        bt_loader_free(loader);
    }
}
END_TEST

START_TEST(turned)
{
    float square[2 * 4] = {1, 2, 3, 4, 5, 6, 7, 8};
    int32_t label[2] = {0, 1};
    bt_dataset *data = bt_dataset_new(2);
    bt_dataset_add(data, "image", BT_ARRAY(square, 2, 2, 2, 1));
    bt_dataset_add(data, "label", BT_ARRAY(label, 2));
    data = bt_dataset_rotations(bt_dataset_mixup(bt_dataset_flip(data, 1), 1, 1));
    bt_loader *loader = open_with(data, of_size(0));
    const bt_batch *batch = draw(loader);
    ck_assert_int_eq(bt_batch_count(batch), 8);
    bool seen_class[8] = {false};
    for (int e = 0; e < 8; e++, batch = draw(loader))
        for (int i = 0; i < 8; i++)
            seen_class[i32_of(batch, "other_label")[i]] = true;
    for (int k = 0; k < 8; k++)
        ck_assert(seen_class[k]);
    bt_loader_free(loader);
}
END_TEST

START_TEST(faults)
{
    ck_assert_ptr_null(bt_dataset_crop(NULL, 4, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_crop: the data set is NULL");
    ck_assert_ptr_null(bt_dataset_flip(NULL, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_flip");
    ck_assert_ptr_null(bt_dataset_cutout(NULL, 4, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_cutout");
    ck_assert_ptr_null(bt_dataset_mixup(NULL, 1, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_mixup");
    ck_assert_ptr_null(bt_dataset_normalize(NULL, (bt_array){0}, (bt_array){0}));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_normalize");
    ck_assert_ptr_null(bt_dataset_crop(numbered(4, 2), 4, 1));
    expect_failure(BT_ERROR_DATA, "bt_dataset_crop", "no field \"image\"");
    for (int64_t padding = -1; padding < 1; padding++) {
        ck_assert_ptr_null(bt_dataset_crop(noise(4, 2, true), padding, 1));
        expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_crop: found padding", "expected 1 to 6 pixels");
    }
    ck_assert_ptr_null(bt_dataset_crop(noise(4, 2, true), 7, 1));
    expect_failure(BT_ERROR_ARGUMENT, "found padding 7; expected 1 to 6");
    bt_dataset_free(bt_dataset_crop(noise(4, 2, true), 6, 1));
    ck_assert_ptr_null(bt_dataset_cutout(noise(4, 2, true), 9, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_cutout: found size 9; expected 1 to 8");
    ck_assert_ptr_null(bt_dataset_flip(bt_dataset_flip(noise(4, 2, true), 1), 2));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_flip: was already called");
    ck_assert_ptr_null(normal(normal(noise(4, 2, true))));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_normalize: was already called");
    ck_assert_ptr_null(bt_dataset_mixup(noise(4, 2, true), 0, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_mixup: found alpha 0");
    ck_assert_ptr_null(bt_dataset_mixup(noise(4, 2, true), NAN, 1));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_mixup: found alpha nan");
    ck_assert_ptr_null(bt_dataset_normalize(noise(4, 2, true), BT_ARRAY(mean, 2), BT_ARRAY(deviation, C)));
    expect_failure(BT_ERROR_SHAPE, "the mean is of shape [2]; expected [3], one for each channel");
    static const double zero[C] = {1, 0, 1}, infinite[C] = {0, 0, HUGE_VAL};
    ck_assert_ptr_null(bt_dataset_normalize(noise(4, 2, true), BT_ARRAY(mean, C), BT_ARRAY(zero, C)));
    expect_failure(BT_ERROR_ARGUMENT, "the deviation of channel 1 is 0; expected a positive number");
    ck_assert_ptr_null(bt_dataset_normalize(noise(4, 2, true), BT_ARRAY(infinite, C), BT_ARRAY(deviation, C)));
    expect_failure(BT_ERROR_ARGUMENT, "the mean of channel 2 is inf");
    ck_assert_ptr_null(bt_dataset_flip(bt_dataset_join(noise(4, 2, true), "b", noise(4, 2, true)), 1));
    expect_failure(BT_ERROR_UNSUPPORTED, "bt_dataset_flip", "joined");
    ck_assert_ptr_null(bt_dataset_flip(bt_dataset_tasks(noise(12, 3, true), 2, 1, 1, 1), 1));
    expect_failure(BT_ERROR_UNSUPPORTED, "bt_dataset_flip", "tasks");
    int32_t whole_numbers[4] = {0};
    bt_dataset *data = bt_dataset_new(1);
    bt_dataset_add(data, "image", BT_ARRAY(whole_numbers, 1, 2, 2, 1));
    ck_assert_ptr_null(bt_dataset_flip(data, 1));
    expect_failure(BT_ERROR_SHAPE, "field \"image\" is i32 of shape [1, 2, 2, 1]; expected floating numbers");
    float numbers[4] = {0};
    data = bt_dataset_new(1);
    bt_dataset_add(data, "image", BT_ARRAY(numbers, 1, 2, 2, 1));
    ck_assert_ptr_null(bt_dataset_mixup(data, 1, 1));
    expect_failure(BT_ERROR_DATA, "bt_dataset_mixup", "no field \"label\"");
    data = bt_dataset_mixup(noise(4, 2, true), 1, 1);
    bt_dataset_add(data, "share", BT_ARRAY(numbers, 4));
    ck_assert_ptr_null(bt_loader_new(data, 2, 1));
    expect_failure(BT_ERROR_ARGUMENT, "two fields called \"share\"");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("data.augment");
    ADD_CASE(suite, crops_and_flips_are_uniform);
    ADD_CASE(suite, a_function_of_seed_epoch_and_index);
    ADD_CASE(suite, threads_and_seeking);
    ADD_CASE(suite, normalized);
    ADD_CASE(suite, parts_resized);
    ADD_CASE(suite, parts_and_mixup);
    ADD_CASE(suite, cutouts);
    ADD_CASE(suite, mixtures);
    ADD_CASE(suite, shares_and_partners);
    ADD_CASE(suite, asked_for_in_any_order);
    ADD_CASE(suite, without_chance);
    ADD_CASE(suite, sets_of_sets);
    ADD_CASE(suite, joined);
    ADD_CASE(suite, tasks);
    ADD_CASE(suite, hashes);
    ADD_CASE(suite, turned);
    ADD_CASE(suite, faults);
    return run_suite(suite);
}
