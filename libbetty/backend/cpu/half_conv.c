/* backend/cpu/half_conv.c: conv, conv_dx and conv_dw of bf16 numbers, with the products of pairs.h.
 *
 * An image is held with a border of zeros, as rows of `wide` pixels one after the other. The pixels of the result,
 * counted in rows of the same width, are then the rows of a matrix. Its columns are a row of the window's taps, which
 * is contiguous in memory. Values computed for pixels beyond the result's width are dropped. conv_dx is conv with the
 * window reversed. conv_dw has the pixels along k: x, transposed so that each channel's pixels are contiguous and a tap
 * is the same data some pixels further on, times g, which is 0 beyond its width. A non-finite pixel may therefore reach
 * taps that do not cover it. */
#include "backend/cpu/half_pack.h"

#include <string.h>

enum { Y, X };
enum {
    SUM_BYTES = 32 << 10, /* of f32 sums before they are stored */
    POINTS = 1024,        /* of conv_dw: about this many pixels at a time */
    STEP = 2 * BT_PAIRS_DEEP,
    LINE = 32 /* bf16 numbers of a cache line */
};

typedef struct plan {
    bool back, sums;                                 /* conv_dx; conv_dw */
    int64_t n, from[2], to[2], window[2], before[2]; /* before: rows and pixels of zeros before an image */
    int64_t inner, outer;                            /* channels of `from`; of the result, or of g */
    int64_t wide, high, taps;
    int threads;

    int64_t pixel, rows, deep;           /* numbers per pixel, even; rows of the result at a time; see bt_pairs */
    int64_t images, points, held, pitch; /* of conv_dw: at a time; pixels of g, of x; between channels */
    size_t packed, image, sum, table, g, own, scratch; /* bytes */
} plan;

static int64_t up(int64_t a, int64_t unit) { return (a + unit - 1) / unit * unit; }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- planning ---- */

static bool is_plain(const bt_conv_attr *a)
{
    return a->stride[Y] == 1 && a->stride[X] == 1 && a->dilation[Y] == 1 && a->dilation[X] == 1 && a->groups == 1;
}

static bool side_by_side(const bt_view *x) { return x->strides[3] == 1 || x->dims[3] == 1; }

static plan shape_of(const bt_call *call)
{
    const bt_conv_attr *attr = call->attr;
    plan p = {.back = call->op == &bt_op_conv_dx, .sums = call->op == &bt_op_conv_dw, .n = call->in[0].dims[0]};
    const bt_view *to = p.sums ? &call->in[1] : &call->out[0], *window = p.sums ? &call->out[0] : &call->in[1];
    for (int a = Y; a <= X; a++) {
        p.from[a] = call->in[0].dims[1 + a];
        p.to[a] = to->dims[1 + a];
        p.window[a] = window->dims[a];
        p.before[a] = p.back ? p.window[a] - 1 - attr->padding[a] : attr->padding[a];
    }
    p.inner = call->in[0].dims[3];
    p.outer = to->dims[3];
    p.wide = p.to[X] + p.window[X] - 1;
    p.high = p.to[Y] + p.window[Y] - 1;
    p.taps = p.window[Y] * p.window[X];
    double work = (double)bt_cpu_count(to) * (double)(p.taps * p.inner);
    p.threads = work < 1e7 ? 1 : (int)smaller(call->threads, p.sums ? p.taps : p.n);
    return p;
}

static void lay_out_places(plan *p)
{
    const int64_t across = bt_pairs_across(p->outer);
    p->pixel = up(p->inner, 2);
    p->deep = bt_pairs_deep(p->window[X] * p->pixel / 2);
    p->rows = smaller(larger(SUM_BYTES / 4 / across / p->wide, 1), p->to[Y]);
    p->packed = bt_align_up((size_t)(p->taps * p->pixel * across) * 2);
    p->image = bt_align_up((size_t)(p->high * p->wide * p->pixel) * 2);
    p->sum = (size_t)((p->rows * p->wide - p->window[X] + 1) * across) * sizeof(float);
    p->own = p->image + bt_align_up(p->sum);
    p->scratch = p->packed + (size_t)(p->threads - 1) * p->own + p->image + p->sum;
}

static void lay_out_sums(plan *p)
{
    const int64_t across = bt_pairs_across(p->outer), image = p->high * p->wide;
    const int64_t furthest = (p->window[Y] - 1) * p->wide + p->window[X] - 1;
    p->images = smaller(larger(POINTS / image, 1), p->n);
    p->points = up(p->images * image - furthest, STEP);
    p->held = up(p->points + furthest, STEP);
    p->pitch = up(p->held, LINE) | LINE; /* an odd number of lines */
    p->packed = across == p->outer ? 0 : bt_align_up((size_t)(p->taps * p->inner * across) * sizeof(float));
    p->image = (size_t)((p->inner - 1) * p->pitch + p->held) * 2;
    p->table = bt_align_up((size_t)p->held * sizeof(int64_t));
    p->sum = bt_align_up((size_t)(BT_PAIRS_DEEP * bt_pairs_across(p->inner)) * 4); /* pairs of x to be transposed */
    p->g = bt_align_up((size_t)(p->points * across) * 2);
    p->own = 2 * p->table + p->sum + p->g + bt_align_up(p->image);
    p->scratch = p->packed + (size_t)(p->threads - 1) * p->own + 2 * p->table + p->sum + p->g + p->image;
}

static plan plan_of(const bt_call *call)
{
    plan p = shape_of(call);
    if (p.sums)
        lay_out_sums(&p);
    else
        lay_out_places(&p);
    return p;
}

enum { WORTH = 4 }; /* pairs at a time: fewer would leave most of a tile empty */

static bool accepts(const bt_call *call)
{
    const bt_dtype to = call->out[0].dtype;
    if (call->in[0].dtype != BT_BF16 || call->in[1].dtype != BT_BF16 || (to != BT_BF16 && to != BT_F32) ||
        !is_plain(call->attr) || !side_by_side(&call->in[0]) || !bt_cpu_count(&call->in[0]) ||
        !bt_cpu_count(&call->in[1]) || !bt_cpu_count(&call->out[0]))
        return false;
    const plan p = shape_of(call);
    if (p.before[Y] < 0 || p.before[X] < 0 || p.before[Y] >= p.window[Y] || p.before[X] >= p.window[X])
        return false;
    return p.sums ? to == BT_F32 && side_by_side(&call->in[1])
                  : bt_pairs_deep(p.window[X] * up(p.inner, 2) / 2) >= WORTH;
}

static size_t scratch(const bt_call *call) { return plan_of(call).scratch; }

static bt_status prepare(bt_call *call)
{
    plan *p = call->state = bt_alloc(sizeof *p);
    if (!p)
        return BT_ERROR_MEMORY;
    *p = plan_of(call);
    return BT_OK;
}

static void release(bt_call *call)
{
    bt_free(call->state);
    call->state = NULL;
}

/* ---- pairs ---- */

/* Interleaves rows 2 k and 2 k + 1 of `channels` numbers, for `pairs` pairs, `across` apart; rows begin at from +
 * at[...]. */
static void zip(const uint16_t *from, const int64_t *at, int64_t pairs, int64_t channels, uint16_t *to, int64_t across)
{
    for (int64_t k = 0; k < pairs; k++, at += 2, to += 2 * across)
        bt_half_zip(from, at[0], at[1], channels, to, across);
}

/* ---- conv, conv_dx ---- */

/* The offset of the weight of tap (y, x) between channel c of `from` and channel o of the result. */
static int64_t weight_at(const plan *p, const bt_view *w, int64_t y, int64_t x, int64_t c, int64_t o)
{
    const int64_t *s = w->strides;
    return p->back ? (p->window[Y] - 1 - y) * s[0] + (p->window[X] - 1 - x) * s[1] + o * s[2] + c * s[3]
                   : y * s[0] + x * s[1] + c * s[2] + o * s[3];
}

/* Packs one row of taps for one panel of columns. */
static uint16_t *pack_run(const plan *p, const bt_view *w, int64_t y, int64_t column, int64_t columns, uint16_t *to)
{
    const uint16_t *from = (const void *)w->data;
    const int64_t step = w->strides[p->back ? 2 : 3], count = smaller(p->outer - column, columns);
    for (int64_t x = 0; x < p->window[X]; x++)
        for (int64_t c = 0; c < p->pixel; c += 2, to += 2 * columns) {
            const bool both = c + 1 < p->inner;
            const uint16_t *a = from + weight_at(p, w, y, x, c, column);
            const uint16_t *b = both ? from + weight_at(p, w, y, x, c + 1, column) : a;
            if (step == 1) {
                const int64_t at[] = {0, both ? b - a : -1};
                zip(a, at, 1, count, to, columns);
                continue;
            }
            for (int64_t j = 0; j < columns; j++) {
                to[2 * j] = j < count ? a[j * step] : 0;
                to[2 * j + 1] = both && j < count ? b[j * step] : 0;
            }
        }
    return to;
}

static void pack_weights(const plan *p, const bt_view *w, uint16_t *to)
{
    const int64_t across = bt_pairs_across(p->outer);
    for (int64_t j = 0; j < across; j += BT_PAIRS_COLUMNS)
        for (int64_t y = 0; y < p->window[Y]; y++)
            to = pack_run(p, w, y, j, smaller(across - j, BT_PAIRS_COLUMNS), to);
}

/* Copies the image between the zeros, which are already there. */
static void copy_image(const plan *p, const bt_view *from, int64_t image, uint16_t *to)
{
    const uint16_t *start = (const uint16_t *)(const void *)from->data + image * from->strides[0];
    const int64_t rows = smaller(p->from[Y], p->high - p->before[Y]);
    const int64_t pixels = smaller(p->from[X], p->wide - p->before[X]);
    const bool whole = p->pixel == p->inner && (from->strides[2] == p->inner || pixels == 1);
    for (int64_t y = 0; y < rows; y++) {
        const uint16_t *line = start + y * from->strides[1];
        uint16_t *at = to + ((y + p->before[Y]) * p->wide + p->before[X]) * p->pixel;
        if (whole)
            memcpy(at, line, (size_t)(pixels * p->pixel) * 2);
        for (int64_t x = 0; x < pixels && !whole; x++)
            memcpy(at + x * p->pixel, line + x * from->strides[2], (size_t)p->inner * 2);
    }
}

/* Stores `rows` rows of the result from the sums; `place` is the first one's place. */
static void store_rows(const bt_call *call, const plan *p, float *sums, int64_t rows, int64_t place)
{
    const int64_t across = bt_pairs_across(p->outer), size = (int64_t)bt_dtype_size(call->out[0].dtype);
    char *to = call->out[0].data + place * p->outer * size;
    for (int64_t o = 0; o < p->outer && call->inputs > 2; o++) {
        const float bias = (float)bt_cpu_get(&call->in[2], o);
        for (int64_t i = 0; i < rows * p->wide - p->window[X] + 1; i++)
            sums[i * across + o] += bias;
    }
    for (int64_t y = 0; y < rows; y++, sums += p->wide * across, to += p->to[X] * p->outer * size) {
        if (across == p->outer) {
            bt_half_store(call->out[0].dtype, p->to[X] * p->outer, sums, to);
            continue;
        }
        for (int64_t x = 0; x < p->to[X]; x++)
            bt_half_store(call->out[0].dtype, p->outer, sums + x * across, to + x * p->outer * size);
    }
}

static void place_share(const void *work, int thread, int threads)
{
    const bt_call *call = work;
    const plan *p = call->state;
    char *own = (char *)call->scratch + p->packed + (size_t)thread * p->own;
    uint16_t *image = (void *)own;
    float *sums = (void *)(own + p->image);
    bt_pairs pairs = {.b = (const void *)call->scratch,
                      .c = sums,
                      .a_row = p->pixel,
                      .c_row = bt_pairs_across(p->outer),
                      .columns = bt_pairs_across(p->outer),
                      .runs = p->window[Y],
                      .a_run = p->wide * p->pixel,
                      .pairs = p->window[X] * p->pixel / 2,
                      .deep = p->deep};
    memset(image, 0, (size_t)(p->high * p->wide * p->pixel) * 2);
    for (int64_t i = p->n * thread / threads; i < p->n * (thread + 1) / threads; i++) {
        copy_image(p, &call->in[0], i, image);
        for (int64_t y = 0; y < p->to[Y]; y += p->rows) {
            const int64_t rows = smaller(p->rows, p->to[Y] - y);
            pairs.a = image + y * p->wide * p->pixel;
            pairs.rows = rows * p->wide - p->window[X] + 1;
            BT_ISA(bt_pairs_run)(&pairs);
            store_rows(call, p, sums, rows, (i * p->to[Y] + y) * p->to[X]);
        }
    }
}

/* ---- conv_dw ---- */

/* The places of the pixels of some images, counted in rows of `wide` pixels of the images with their border of zeros,
 * `before` of them first; -1: zeros. */
static void find_pixels(const plan *p, const bt_view *x, const int64_t *before, int64_t images, int64_t count,
                        int64_t *at)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t image = i / (p->high * p->wide), row = i / p->wide % p->high - before[Y];
        const int64_t column = i % p->wide - before[X];
        const bool inside = image < images && row >= 0 && row < x->dims[1] && column >= 0 && column < x->dims[2];
        at[i] = inside ? image * x->strides[0] + row * x->strides[1] + column * x->strides[2] : -1;
    }
}

/* Transposes x, so that each channel's pixels are contiguous. */
static void turn_pixels(const plan *p, const uint16_t *x, const int64_t *at, uint16_t *some, uint16_t *to)
{
    const int64_t across = bt_pairs_across(p->inner);
    for (int64_t i = 0; i < p->held; i += STEP) {
        zip(x, at + i, BT_PAIRS_DEEP, p->inner, some, across);
        bt_turn_all4((const float *)(const void *)some, across, (float *)(void *)(to + i), p->pitch / 2, BT_PAIRS_DEEP,
                     p->inner);
    }
}

static void zip_panels(const plan *p, const uint16_t *g, const int64_t *at, uint16_t *to)
{
    const int64_t across = bt_pairs_across(p->outer);
    for (int64_t j = 0; j < across; j += BT_PAIRS_COLUMNS) {
        const int64_t columns = smaller(across - j, BT_PAIRS_COLUMNS);
        zip(g + j, at, p->points / 2, p->outer - j, to, columns);
        to += p->points * columns;
    }
}

static void sum_share(const void *work, int thread, int threads)
{
    const bt_call *call = work;
    const plan *p = call->state;
    const bt_view *x = &call->in[0], *g = &call->in[1];
    const int64_t none[] = {0, 0}, across = bt_pairs_across(p->outer);
    char *own = (char *)call->scratch + p->packed + (size_t)thread * p->own;
    int64_t *at_x = (void *)own, *at_g = (void *)(own + p->table), built = 0;
    uint16_t *some = (void *)(own + 2 * p->table), *zipped = (void *)(own + 2 * p->table + p->sum);
    uint16_t *turned = (void *)((char *)zipped + p->g);
    float *sums = (void *)(p->packed ? (char *)call->scratch : call->out[0].data);
    for (int64_t image = 0; image < p->n; image += p->images) {
        const int64_t images = smaller(p->images, p->n - image);
        if (built != images) {
            find_pixels(p, x, p->before, images, p->held, at_x);
            find_pixels(p, g, none, images, p->points, at_g);
            built = images;
        }
        turn_pixels(p, (const uint16_t *)(const void *)x->data + image * x->strides[0], at_x, some, turned);
        zip_panels(p, (const uint16_t *)(const void *)g->data + image * g->strides[0], at_g, zipped);
        for (int64_t tap = p->taps * thread / threads; tap < p->taps * (thread + 1) / threads; tap++)
            BT_ISA(bt_pairs_run)
        (&(bt_pairs){.a = turned + tap / p->window[X] * p->wide + tap % p->window[X],
                     .b = zipped,
                     .c = sums + tap * p->inner * across,
                     .rows = p->inner,
                     .a_row = p->pitch,
                     .c_row = across,
                     .columns = across,
                     .runs = 1,
                     .pairs = p->points / 2,
                     .deep = BT_PAIRS_DEEP,
                     .adds = image > 0});
    }
}

/* Stores sums whose rows are further apart than the result's. */
static void store_sums(const bt_call *call, const plan *p)
{
    const int64_t across = bt_pairs_across(p->outer);
    const float *sums = (const void *)call->scratch;
    for (int64_t i = 0; i < p->taps * p->inner; i++)
        memcpy(call->out[0].data + i * p->outer * 4, sums + i * across, (size_t)p->outer * sizeof(float));
}

static bt_status launch(const bt_call *call)
{
    const plan *p = call->state;
    if (!p->sums)
        pack_weights(p, &call->in[1], call->scratch);
    bt_team_do(p->sums ? sum_share : place_share, call, p->threads);
    if (p->sums && p->packed)
        store_sums(call, p);
    return BT_OK;
}

const bt_kernel_impl BT_ISA(bt_cpu_half_conv)[] = {
    {&bt_op_conv, "conv.pairs", accepts, scratch, prepare, launch, release, false, true},
    {&bt_op_conv_bias, "conv_bias.pairs", accepts, scratch, prepare, launch, release, false, true},
    {&bt_op_conv_dx, "conv_dx.pairs", accepts, scratch, prepare, launch, release, false, true},
    {&bt_op_conv_dw, "conv_dw.pairs", accepts, scratch, prepare, launch, release, false, true},
    {.op = NULL},
};
