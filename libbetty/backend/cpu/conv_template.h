/* backend/cpu/conv_template.h: the inner loops of convolutions for one element type T, included by conv_f32.c and
 * conv_f64.c. A tile of the result stays in registers while all its products are summed, in the order of the window's
 * taps and channels. Each element is thus one chain of fused products (several in conv_narrow.h), whatever the tile,
 * block or thread. */

#include "backend/cpu/pack.h"

enum {
    COLUMNS = 2 * FULL,                /* of a panel: two vectors */
    POINTS2 = BT_VECTOR == 64 ? 8 : 6, /* most pixels of a tile of two vectors: each pixel's address has a register */
    POINTS1 = 8                        /* of one vector */
};

/* How many of `left` pixels the next tile takes, so that all tiles are about as large. */
BT_INLINE int64_t next_tile(int64_t left, int64_t most)
{
    int64_t tiles = (left + most - 1) / most;
    return (left + tiles - 1) / tiles;
}

#if BT_VECTOR == 64
#define EACH_TILE(tile) EACH_SMALL(tile) tile(7, 1) tile(8, 1) tile(7, 2) tile(8, 2)
#define TILES(tile)                                                                                                    \
    {                                                                                                                  \
        {TILES_OF(tile, 1), tile##_1_7, tile##_1_8}, { TILES_OF(tile, 2), tile##_2_7, tile##_2_8 }                     \
    }
#else
#define EACH_TILE(tile) EACH_SMALL(tile) tile(7, 1) tile(8, 1)
#define TILES(tile)                                                                                                    \
    {                                                                                                                  \
        {TILES_OF(tile, 1), tile##_1_7, tile##_1_8}, { TILES_OF(tile, 2) }                                             \
    }
#endif
#define EACH_SMALL(tile)                                                                                               \
    tile(1, 1) tile(2, 1) tile(3, 1) tile(4, 1) tile(5, 1) tile(6, 1) tile(1, 2) tile(2, 2) tile(3, 2) tile(4, 2)      \
        tile(5, 2) tile(6, 2)
#define TILES_OF(tile, vectors)                                                                                        \
    tile##_##vectors##_1, tile##_##vectors##_2, tile##_##vectors##_3, tile##_##vectors##_4, tile##_##vectors##_5,      \
        tile##_##vectors##_6

/* Before a tile of so many pixels. */
BT_INLINE void fetch_ahead(bt_ahead *ahead, int64_t points)
{
    bt_ask(&ahead[0], points, BT_TO_L2);
    bt_ask(&ahead[1], points, BT_TO_L2);
}

/* ---- images with a border of zeros ---- */

static void copy_row(const T *from, int64_t pixel, int64_t channel, int64_t pixels, int64_t channels, T *to,
                     int64_t to_pixel)
{
    if (channel == 1 && pixel == channels && to_pixel == channels) {
        memcpy(to, from, (size_t)(pixels * channels) * sizeof(T));
        return;
    }
    for (int64_t i = 0; i < pixels; i++, from += pixel, to += to_pixel) {
        if (channel == 1)
            memcpy(to, from, (size_t)channels * sizeof(T));
        else
            for (int64_t c = 0; c < channels; c++)
                to[c] = from[c * channel];
    }
}

static void copy(const bt_conv_plan *p, const bt_conv_block *block, const void *from, void *to)
{
    const int64_t *s = p->strides;
    int64_t left = p->low < 0 ? -p->low : 0, first = p->low + left, pixel = p->pitch[2];
    int64_t end = p->low + p->width < p->from[1] ? p->low + p->width : p->from[1], pixels = end - first;
    int64_t right = p->width - left - (pixels > 0 ? pixels : 0);
    for (int64_t image = 0; image < block->images; image++)
        for (int64_t row = 0; row < block->height; row++) {
            int64_t y = block->first + row;
            T *at = (T *)to + image * p->pitch[0] + row * p->pitch[1];
            if (y < 0 || y >= p->from[0] || pixels <= 0) {
                memset(at, 0, (size_t)p->pitch[1] * sizeof(T));
                continue;
            }
            const T *line = (const T *)from + (block->image + image) * s[0] + y * s[1] + first * s[2];
            memset(at, 0, (size_t)(left * pixel) * sizeof(T));
            copy_row(line, s[2], s[3], pixels, p->groups * p->inner, at + left * pixel, pixel);
            memset(at + (left + pixels) * pixel, 0, (size_t)(right * pixel) * sizeof(T));
        }
}

/* ---- weights ---- */

static int64_t tap_offset(const bt_conv_plan *p, const bt_conv_axis *axes, int64_t y, int64_t x)
{
    return (axes[0].window_first + y * axes[0].window_step) * p->other_strides[0] +
           (axes[1].window_first + x * axes[1].window_step) * p->other_strides[1];
}

/* For conv_narrow.h: each column on its own. */
static T *pack_narrow(const bt_conv_plan *p, const bt_conv_axis *axes, const T *weights, int64_t group, T *to)
{
    const int64_t *s = p->other_strides;
    bool back = p->kind == BT_CONV_DX;
    const T *own = weights + group * (back ? p->inner : p->outer) * s[3];
    for (int64_t j = 0; j < p->outer; j++)
        for (int64_t y = 0; y < axes[0].taps; y++)
            for (int64_t x = 0; x < axes[1].taps; x++, to += p->inner)
                copy_row(own + tap_offset(p, axes, y, x) + j * (back ? s[2] : s[3]), p->inner, back ? s[3] : s[2], 1,
                         p->inner, to, p->inner);
    return to;
}

/* One group's taps of one residue: panels of columns, each [taps, inner, columns]. */
static T *pack_residue(const bt_conv_plan *p, const bt_conv_axis *axes, const T *weights, int64_t group, T *to)
{
    const int64_t *s = p->other_strides;
    bool back = p->kind == BT_CONV_DX;
    int64_t row = back ? s[3] : s[2], column = back ? s[2] : s[3];
    const T *own = weights + group * (back ? p->inner : p->outer) * s[3];
    for (int64_t j = 0; j < p->outer; j += COLUMNS) {
        int64_t count = p->outer - j < COLUMNS ? p->outer - j : COLUMNS, width = count <= FULL ? FULL : COLUMNS;
        for (int64_t y = 0; y < axes[0].taps; y++)
            for (int64_t x = 0; x < axes[1].taps; x++, to += p->inner * width)
                pack(to, own + tap_offset(p, axes, y, x) + j * column, row, column, p->inner, count, width);
    }
    return to;
}

static T *pack_depthwise(const bt_conv_plan *p, const bt_conv_axis *axes, const T *weights, T *to)
{
    for (int64_t y = 0; y < axes[0].taps; y++)
        for (int64_t x = 0; x < axes[1].taps; x++, to += p->groups)
            copy_row(weights + tap_offset(p, axes, y, x), p->groups, p->other_strides[3], 1, p->groups, to, p->groups);
    return to;
}

static void pack_weights(const bt_conv_plan *p, const void *weights, void *packed)
{
    T *to = packed;
    for (int64_t y = 0; y < p->residues[0]; y++)
        for (int64_t x = 0; x < p->residues[1]; x++) {
            bt_conv_axis axes[] = {bt_conv_residue(p, 0, y), bt_conv_residue(p, 1, x)};
            if (p->depthwise)
                to = pack_depthwise(p, axes, weights, to);
            for (int64_t group = 0; group < p->groups && !p->depthwise; group++)
                to = p->narrow ? pack_narrow(p, axes, weights, group, to) : pack_residue(p, axes, weights, group, to);
        }
}

/* ---- conv and conv_dx ---- */

/* The first `count` elements of a vector; all of them if `count` is larger. */
static FULL_V load_some(const T *from, int64_t count)
{
    T values[FULL] = {0};
    for (int64_t j = 0; j < count && j < FULL; j++)
        values[j] = from[j];
    return FULL_F(load)(values);
}

/* Stores the first columns of a tile: `count` pixels of `vectors` vectors. */
static __attribute__((noinline)) void store_edge(const bt_conv_panel *p, const T *sums, int vectors, int64_t first,
                                                 int64_t count)
{
    for (int64_t i = first; i < first + count; i++, sums += vectors * FULL)
        memcpy((T *)p->to + p->at_to[i], sums, (size_t)p->columns * sizeof(T));
}

/* Multiplies the row of weights at w (one or two vectors) by the value at `offset` from each of `points` places x;
 * moves w on. */
#define TILE_STEP(offset)                                                                                              \
    do {                                                                                                               \
        int64_t at = (offset);                                                                                         \
        FULL_V w0 = FULL_F(load)(w), w1 = vectors > 1 ? FULL_F(load)(w + FULL) : w0;                                   \
        w += vectors * FULL;                                                                                           \
        BT_UNROLL(8)                                                                                                   \
        for (int i = 0; i < points; i++) {                                                                             \
            FULL_V value = FULL_F(fill)(x[i][at]);                                                                     \
            sum[i][0] = FULL_F(fma)(value, w0, sum[i][0]);                                                             \
            if (vectors > 1)                                                                                           \
                sum[i][1] = FULL_F(fma)(value, w1, sum[i][1]);                                                         \
        }                                                                                                              \
    } while (0)

/* Writes a tile's sums one after the other, if it is not stored as a whole. */
BT_INLINE void spill(int points, int vectors, FULL_V sum[POINTS1][2], T *sums)
{
    BT_UNROLL(8)
    for (int i = 0; i < points; i++) {
        FULL_F(store)(sums + i * vectors * FULL, sum[i][0]);
        if (vectors > 1)
            FULL_F(store)(sums + (i * vectors + 1) * FULL, sum[i][1]);
    }
}

/* `points` pixels times `vectors` vectors. */
BT_INLINE void point_tile(int points, int vectors, const bt_conv_panel *p, int64_t first)
{
    FULL_V sum[POINTS1][2], start[2] = {{0}, {0}};
    const T *x[POINTS1], *w = p->weights, *bias = p->bias;
    const int64_t *list = p->list;
    BT_UNROLL(2)
    for (int v = 0; v < vectors && bias; v++)
        start[v] = load_some(bias + v * FULL, p->columns - v * FULL);
    BT_UNROLL(8)
    for (int i = 0; i < points; i++) {
        x[i] = (const T *)p->from + p->at_from[first + i];
        sum[i][0] = start[0];
        sum[i][1] = start[1];
    }
    w += p->row * vectors * FULL;
    for (int64_t r = 0; r < p->runs; r++, w += (p->step - p->run) * vectors * FULL) {
        const int64_t *end = list + p->run;
        for (; list + 2 <= end; list += 2) {
            TILE_STEP(list[0]);
            TILE_STEP(list[1]);
        }
        if (list < end)
            TILE_STEP(*list++);
    }
    if (p->columns == vectors * FULL) {
        BT_UNROLL(8)
        for (int i = 0; i < points; i++) {
            T *to = (T *)p->to + p->at_to[first + i];
            FULL_F(store)(to, sum[i][0]);
            if (vectors > 1)
                FULL_F(store)(to + FULL, sum[i][1]);
        }
        return;
    }
    T sums[POINTS1 * 2 * FULL];
    spill(points, vectors, sum, sums);
    store_edge(p, sums, vectors, first, points);
}

/* A tile of each size, of one and of two vectors. */
#define POINT_TILE(points, vectors)                                                                                    \
    static __attribute__((noinline)) void point_tile_##vectors##_##points(const bt_conv_panel *p, int64_t first)       \
    {                                                                                                                  \
        point_tile(points, vectors, p, first);                                                                         \
    }
EACH_TILE(POINT_TILE)

static void run_panel(const bt_conv_panel *p)
{
    static void (*const tiles[][POINTS1])(const bt_conv_panel *p, int64_t first) = TILES(point_tile);
    int vectors = p->columns <= FULL ? 1 : 2;
    for (int64_t i = 0, count; i < p->points; i += count) {
        count = next_tile(p->points - i, vectors == 1 ? POINTS1 : POINTS2);
        fetch_ahead(p->ahead, count);
        tiles[vectors - 1][count - 1](p, i);
    }
}

/* ---- conv_dw ---- */

/* Adds the first columns of a tile: `count` rows of `vectors` vectors. */
static __attribute__((noinline)) void add_edge(const bt_conv_sum *s, const T *sums, int vectors, int64_t row,
                                               int64_t count)
{
    for (int64_t i = row; i < row + count; i++, sums += vectors * FULL) {
        T *to = (T *)s->to + s->rows[i] * s->pitch;
        for (int64_t j = 0; j < s->columns; j++)
            to[j] += sums[j];
    }
}

/* `points` rows, of `vectors` vectors, from `row` on. */
BT_INLINE void sum_tile(int points, int vectors, const bt_conv_sum *s, int64_t row)
{
    FULL_V sum[POINTS1][2];
    const T *x[POINTS1];
    BT_UNROLL(8)
    for (int i = 0; i < points; i++) {
        x[i] = (const T *)s->from + s->list[row + i];
        sum[i][0] = sum[i][1] = (FULL_V){0};
    }
    for (int64_t q = 0; q < s->points; q++) {
        const T *w = (const T *)s->g + s->at_g[q];
        TILE_STEP(s->at_from[q]);
    }
    if (s->columns == vectors * FULL) {
        BT_UNROLL(8)
        for (int i = 0; i < points; i++) {
            T *to = (T *)s->to + s->rows[row + i] * s->pitch;
            FULL_F(store)(to, FULL_F(load)(to) + sum[i][0]);
            if (vectors > 1)
                FULL_F(store)(to + FULL, FULL_F(load)(to + FULL) + sum[i][1]);
        }
        return;
    }
    T sums[POINTS1 * 2 * FULL];
    spill(points, vectors, sum, sums);
    add_edge(s, sums, vectors, row, points);
}

#define SUM_TILE(points, vectors)                                                                                      \
    static __attribute__((noinline)) void sum_tile_##vectors##_##points(const bt_conv_sum *s, int64_t row)             \
    {                                                                                                                  \
        sum_tile(points, vectors, s, row);                                                                             \
    }
EACH_TILE(SUM_TILE)

static void run_sum(const bt_conv_sum *s)
{
    static void (*const tiles[][POINTS1])(const bt_conv_sum *s, int64_t row) = TILES(sum_tile);
    int vectors = s->columns <= FULL ? 1 : 2;
    for (int64_t row = 0, count; row < s->count; row += count) {
        count = next_tile(s->count - row, POINTS2);
        fetch_ahead(s->ahead, s->points);
        tiles[vectors - 1][count - 1](s, row);
    }
}

static void pack_g(const void *g, int64_t channel_stride, const int64_t *at, int64_t points, int64_t columns,
                   void *packed)
{
    T *to = packed;
    for (int64_t q = 0; q < points; q++, to += COLUMNS) {
        const T *from = (const T *)g + at[q];
        if (columns == COLUMNS && channel_stride == 1) {
            FULL_F(store)(to, FULL_F(load)(from));
            FULL_F(store)(to + FULL, FULL_F(load)(from + FULL));
        } else {
            copy_row(from, columns, channel_stride, 1, columns, to, columns);
            memset(to + columns, 0, (size_t)(COLUMNS - columns) * sizeof(T));
        }
    }
}

#include "backend/cpu/conv_depthwise.h"
#include "backend/cpu/conv_narrow.h"

const bt_conv_type CONV_TYPE = {
    .tile = POINTS2,
    .columns = COLUMNS,
    .copy = copy,
    .pack = pack_weights,
    .panel = run_panel,
    .narrow = run_narrow,
    .sum = run_sum,
    .pack_g = pack_g,
    .depthwise = run_depthwise,
    .depthwise_sum = run_depthwise_sum,
};
