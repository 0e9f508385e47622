/* backend/cpu/pool_template.h: pool.c for one element type T. V: its vector of LANES elements; VF(f): the vector
 * function f; VI: its comparison mask, of MASK elements; R(x): the name x with the type in it. */

/* Calls at(vectors, first) to cover the channels, with as many vectors at once as possible; the last vector may overlap
 * the one before it. If there are fewer channels than lanes, calls one(channel) for each. */
#define STRIPS(c, at, one)                                                                                             \
    do {                                                                                                               \
        int64_t first_ = 0;                                                                                            \
        for (; first_ + 4 * LANES <= (c); first_ += 4 * LANES)                                                         \
            at(4, first_);                                                                                             \
        for (; first_ + 2 * LANES <= (c); first_ += 2 * LANES)                                                         \
            at(2, first_);                                                                                             \
        for (; first_ + LANES <= (c); first_ += LANES)                                                                 \
            at(1, first_);                                                                                             \
        if (first_ < (c) && (c) >= LANES)                                                                              \
            at(1, (c)-LANES);                                                                                          \
        for (; first_ < (c) && (c) < LANES; first_++)                                                                  \
            one(first_);                                                                                               \
    } while (0)

/* A window's pixels in x. Its rows are `row` elements apart, its pixels `c`. */
struct R(taps) {
    const T *x;
    int64_t high, wide, row, c;
    const double *down, *across; /* the pixels' shares; NULL: 1 */
};

/* Sums the window's pixels, channel by channel. Each row of the window is summed before it is added to the total. */
BT_INLINE void R(sum_strip)(int vectors, const struct R(taps) * w, int64_t first, T share, T *y)
{
    V total[4], sum[4];
    BT_UNROLL(4)
    for (int i = 0; i < vectors; i++)
        total[i] = (V){0};
    for (int64_t h = 0; h < w->high; h++) {
        const T *x = w->x + h * w->row + first;
        BT_UNROLL(4)
        for (int i = 0; i < vectors; i++)
            sum[i] = (V){0};
        for (int64_t k = 0; k < w->wide; k++, x += w->c) {
            V part = VF(fill)(w->across ? (T)(w->down[h] * w->across[k]) : 1);
            BT_UNROLL(4)
            for (int i = 0; i < vectors; i++)
                sum[i] += w->across ? VF(load)(x + i * LANES) * part : VF(load)(x + i * LANES);
        }
        BT_UNROLL(4)
        for (int i = 0; i < vectors; i++)
            total[i] += sum[i];
    }
    BT_UNROLL(4)
    for (int i = 0; i < vectors; i++)
        VF(store)(y + first + i * LANES, total[i] * VF(fill)(share));
}

BT_INLINE void R(sum_one)(const struct R(taps) * w, int64_t channel, T share, T *y)
{
    T total = 0;
    for (int64_t h = 0; h < w->high; h++) {
        const T *x = w->x + h * w->row + channel;
        T sum = 0;
        for (int64_t k = 0; k < w->wide; k++)
            sum += w->across ? x[k * w->c] * (T)(w->down[h] * w->across[k]) : x[k * w->c];
        total += sum;
    }
    y[channel] = total * share;
}

/* ---- window_sum: rows of outputs ---- */

static void R(sum_rows)(const void *state, int64_t begin, int64_t end)
{
    const pooling *p = state;
    const axis *down = &p->axis[0], *across = &p->axis[1];
    int64_t c = p->channels, step = p->step;
    for (int64_t row = begin; row < end; row++) {
        const T *image = (const T *)p->in + row / down->out * down->size * across->size * step;
        T *y = (T *)p->out + row * across->out * c;
        range h = down->window[row % down->out];
        for (int64_t o = 0; o < across->out; o++, y += c) {
            range k = across->window[o];
            T share = (T)(down->share[row % down->out] * across->share[o]);
            struct R(taps) w = {image + (h.from * across->size + k.from) * step,
                                h.to - h.from,
                                k.to - k.from,
                                across->size * step,
                                step,
                                NULL,
                                NULL};
#define AT(vectors, first) R(sum_strip)((vectors), &w, (first), share, y)
#define ONE(channel)       R(sum_one)(&w, (channel), share, y)
            STRIPS(c, AT, ONE);
#undef AT
#undef ONE
        }
    }
}

/* ---- window_spread: rows of pixels, each pixel from the windows that contain it ---- */

BT_INLINE void R(spread_row)(const pooling *p, int64_t row, bool average)
{
    const axis *down = &p->axis[0], *across = &p->axis[1];
    int64_t c = p->channels, step = p->step;
    const T *image = (const T *)p->in + row / down->size * down->out * across->out * step;
    T *y = (T *)p->out + row * across->size * c;
    range h = down->user[row % down->size];
    for (int64_t o = 0; o < across->size; o++, y += c) {
        range k = across->user[o];
        struct R(taps) w = {image + (h.from * across->out + k.from) * step,
                            h.to - h.from,
                            k.to - k.from,
                            across->out * step,
                            step,
                            average ? down->share + h.from : NULL,
                            average ? across->share + k.from : NULL};
#define AT(vectors, first) R(sum_strip)((vectors), &w, (first), 1, y)
#define ONE(channel)       R(sum_one)(&w, (channel), 1, y)
        STRIPS(c, AT, ONE);
#undef AT
#undef ONE
    }
}

static void R(spread_rows)(const void *state, int64_t begin, int64_t end)
{
    const pooling *p = state;
    for (int64_t row = begin; row < end; row++)
        if (p->average)
            R(spread_row)(p, row, true);
        else
            R(spread_row)(p, row, false);
}

/* ---- window_max: rows of outputs ---- */

/* pixel: the number of the window's first pixel in the image; width: of the image. */
BT_INLINE void R(max_strip)(int vectors, const struct R(taps) * w, int64_t first, int64_t pixel, int64_t width, T *y,
                            int32_t *index)
{
    V most[4];
    VI place[4];
    BT_UNROLL(4)
    for (int i = 0; i < vectors; i++) {
        most[i] = VF(load)(w->x + first + i * LANES);
        place[i] = (MASK)pixel - (VI){0};
    }
    for (int64_t h = 0; h < w->high; h++) {
        const T *x = w->x + h * w->row + first;
        for (int64_t k = 0; k < w->wide; k++, x += w->c) {
            VI here = (MASK)(pixel + h * width + k) - (VI){0};
            BT_UNROLL(4)
            for (int i = 0; i < vectors; i++) {
                V now = VF(load)(x + i * LANES);
                VI take = (VI)(now > most[i]) | (VI)(now != now);
                most[i] = (V)(((VI)now & take) | ((VI)most[i] & ~take));
                place[i] = (here & take) | (place[i] & ~take);
            }
        }
    }
    BT_UNROLL(4)
    for (int i = 0; i < vectors; i++) {
        VF(store)(y + first + i * LANES, most[i]);
        for (int lane = 0; lane < LANES; lane++)
            index[first + i * LANES + lane] = (int32_t)place[i][lane];
    }
}

BT_INLINE void R(max_one)(const struct R(taps) * w, int64_t channel, int64_t pixel, int64_t width, T *y, int32_t *index)
{
    T most = w->x[channel];
    int64_t place = pixel;
    for (int64_t h = 0; h < w->high; h++)
        for (int64_t k = 0; k < w->wide; k++) {
            T now = w->x[h * w->row + k * w->c + channel];
            bool take = (now > most) | (now != now);
            most = take ? now : most;
            place = take ? pixel + h * width + k : place;
        }
    y[channel] = most;
    index[channel] = (int32_t)place;
}

static void R(max_rows)(const void *state, int64_t begin, int64_t end)
{
    const pooling *p = state;
    const axis *down = &p->axis[0], *across = &p->axis[1];
    int64_t c = p->channels, step = p->step, width = across->size;
    for (int64_t row = begin; row < end; row++) {
        const T *image = (const T *)p->in + row / down->out * down->size * width * step;
        T *y = (T *)p->out + row * across->out * c;
        int32_t *index = p->index + row * across->out * c;
        range h = down->window[row % down->out];
        for (int64_t o = 0; o < across->out; o++, y += c, index += c) {
            range k = across->window[o];
            int64_t pixel = h.from * width + k.from;
            struct R(taps) w = {image + pixel * step, h.to - h.from, k.to - k.from, width * step, step, NULL, NULL};
#define AT(vectors, first) R(max_strip)((vectors), &w, (first), pixel, width, y, index)
#define ONE(channel)       R(max_one)(&w, (channel), pixel, width, y, index)
            STRIPS(c, AT, ONE);
#undef AT
#undef ONE
        }
    }
}
#undef STRIPS

/* ---- by index: images ---- */

static void R(gather_images)(const void *state, int64_t begin, int64_t end)
{
    const pooling *p = state;
    int64_t c = p->channels, large = p->pixels * c, small = p->outputs * c;
    for (int64_t n = begin; n < end; n++) {
        const T *x = (const T *)p->in + n * large;
        const int32_t *index = p->index + n * small;
        T *y = (T *)p->out + n * small;
        for (int64_t o = 0; o < p->outputs; o++, y += c, index += c)
            for (int64_t i = 0; i < c; i++)
                y[i] = x[index[i] * c + i];
    }
}

static void R(scatter_images)(const void *state, int64_t begin, int64_t end)
{
    const pooling *p = state;
    int64_t c = p->channels, large = p->pixels * c, small = p->outputs * c;
    for (int64_t n = begin; n < end; n++) {
        T *y = (T *)p->out + n * large;
        const int32_t *index = p->index + n * small;
        const T *g = (const T *)p->in + n * small;
        memset(y, 0, (size_t)large * sizeof(T));
        for (int64_t o = 0; o < p->outputs; o++, g += c, index += c)
            for (int64_t i = 0; i < c; i++)
                y[index[i] * c + i] += g[i];
    }
}

/* ---- resample: slabs of the elements inside the axis ---- */

BT_INLINE void R(between)(int64_t n, T *y, const T *a, const T *b, T wa, T wb)
{
    if (wb == 0)
        memcpy(y, a, (size_t)n * sizeof(T));
    BT_SIMD
    for (int64_t i = 0; i < n && wb != 0; i++)
        y[i] = a[i] * wa + b[i] * wb;
}

static void R(resample_slabs)(const void *state, int64_t begin, int64_t end)
{
    const resampling *r = state;
    for (int64_t slab = begin; slab < end; slab++) {
        const T *small = (const T *)r->in + bt_cpu_offset(&r->outer, slab);
        T *y = (T *)r->out + slab * r->to * r->rows * r->n;
        for (int64_t o = 0; o < r->to; o++) {
            const tap *t = &r->taps[o];
            const T *a = small + t->at[0] * r->along, *b = small + t->at[1] * r->along;
            for (int64_t row = 0; row < r->rows; row++, y += r->n, a += r->row_step, b += r->row_step)
                R(between)(r->n, y, a, b, (T)t->weight[0], (T)t->weight[1]);
        }
    }
}

BT_INLINE void R(add_scaled)(int64_t n, T *y, const T *x, T a)
{
    BT_SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i] * a;
}

static void R(resample_back)(const void *state, int64_t begin, int64_t end)
{
    const resampling *r = state;
    int64_t inner = r->rows * r->n;
    for (int64_t slab = begin; slab < end; slab++) {
        const T *g = (const T *)r->in + bt_cpu_offset(&r->outer, slab);
        T *small = (T *)r->out + slab * r->from * inner;
        memset(small, 0, (size_t)(r->from * inner) * sizeof(T));
        for (int64_t o = 0; o < r->to; o++)
            for (int k = 0; k < 2; k++) {
                T *y = small + r->taps[o].at[k] * inner, weight = (T)r->taps[o].weight[k];
                for (int64_t row = 0; row < r->rows && r->taps[o].weight[k] != 0; row++)
                    R(add_scaled)(r->n, y + row * r->n, g + o * r->along + row * r->row_step, weight);
            }
    }
}
