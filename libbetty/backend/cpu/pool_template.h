/* backend/cpu/pool_template.h: pool.c for one element type T; R(x): x with the type in its name. */

/* y = x, or y += x, or y += x a, n elements. */
BT_INLINE void R(add)(int64_t n, T *y, const T *x)
{
    BT_SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

BT_INLINE void R(add_scaled)(int64_t n, T *y, const T *x, T a)
{
    BT_SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i] * a;
}

/* ---- window_sum: rows of outputs; a row of the window is summed before it is added to the others ---- */

static void R(sum_rows)(const void *state, int64_t begin, int64_t end)
{
    const pooling *p = state;
    const axis *down = &p->axis[0], *across = &p->axis[1];
    int64_t c = p->channels;
    for (int64_t row = begin; row < end; row++) {
        const T *image = (const T *)p->in + row / down->out * down->size * across->size * c;
        T *y = (T *)p->out + row * across->out * c;
        range h = down->window[row % down->out];
        for (int64_t o = 0; o < across->out; o++, y += c) {
            range w = across->window[o];
            T share = (T)(down->share[row % down->out] * across->share[o]);
            for (int64_t first = 0; first < c; first += STRIP) {
                T total[STRIP], sum[STRIP];
                int64_t n = c - first < STRIP ? c - first : STRIP;
                for (int64_t i = 0; i < n; i++)
                    total[i] = 0;
                for (int64_t at = h.from; at < h.to; at++) {
                    const T *x = image + (at * across->size + w.from) * c + first;
                    memcpy(sum, x, (size_t)n * sizeof(T));
                    for (int64_t k = w.from + 1; k < w.to; k++)
                        R(add)(n, sum, x += c);
                    R(add)(n, total, sum);
                }
                for (int64_t i = 0; i < n; i++)
                    y[first + i] = total[i] * share;
            }
        }
    }
}

/* ---- window_spread: rows of pixels, each from the windows that it belongs to ---- */

static void R(spread_rows)(const void *state, int64_t begin, int64_t end)
{
    const pooling *p = state;
    const axis *down = &p->axis[0], *across = &p->axis[1];
    int64_t c = p->channels;
    for (int64_t row = begin; row < end; row++) {
        const T *image = (const T *)p->in + row / down->size * down->out * across->out * c;
        T *y = (T *)p->out + row * across->size * c;
        range h = down->user[row % down->size];
        for (int64_t o = 0; o < across->size; o++, y += c) {
            range w = across->user[o];
            memset(y, 0, (size_t)c * sizeof(T));
            for (int64_t at = h.from; at < h.to; at++)
                for (int64_t k = w.from; k < w.to; k++)
                    R(add_scaled)
            (c, y, image + (at * across->out + k) * c, (T)(down->share[at] * across->share[k]));
        }
    }
}

/* ---- window_max: rows of outputs ---- */

BT_INLINE void R(larger)(int64_t n, T *most, MASK *place, const T *x, MASK here)
{
    BT_SIMD
    for (int64_t i = 0; i < n; i++) {
        bool take = (x[i] > most[i]) | (x[i] != x[i]);
        most[i] = take ? x[i] : most[i];
        place[i] = take ? here : place[i];
    }
}

static void R(max_rows)(const void *state, int64_t begin, int64_t end)
{
    const pooling *p = state;
    const axis *down = &p->axis[0], *across = &p->axis[1];
    int64_t c = p->channels;
    for (int64_t row = begin; row < end; row++) {
        const T *image = (const T *)p->in + row / down->out * down->size * across->size * c;
        T *y = (T *)p->out + row * across->out * c;
        int32_t *index = p->index + row * across->out * c;
        range h = down->window[row % down->out];
        for (int64_t o = 0; o < across->out; o++, y += c, index += c) {
            range w = across->window[o];
            for (int64_t first = 0; first < c; first += STRIP) {
                T most[STRIP];
                MASK place[STRIP];
                int64_t n = c - first < STRIP ? c - first : STRIP, pixel = h.from * across->size + w.from;
                memcpy(most, image + pixel * c + first, (size_t)n * sizeof(T));
                for (int64_t i = 0; i < n; i++)
                    place[i] = (MASK)pixel;
                for (int64_t at = h.from; at < h.to; at++)
                    for (int64_t k = w.from; k < w.to; k++) {
                        pixel = at * across->size + k;
                        R(larger)(n, most, place, image + pixel * c + first, (MASK)pixel);
                    }
                memcpy(y + first, most, (size_t)n * sizeof(T));
                for (int64_t i = 0; i < n; i++)
                    index[first + i] = (int32_t)place[i];
            }
        }
    }
}

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

/* ---- resample: slabs, of what stands inside of the axis ---- */

static void R(resample_slabs)(const void *state, int64_t begin, int64_t end)
{
    const resampling *r = state;
    int64_t n = r->inner;
    for (int64_t slab = begin; slab < end; slab++) {
        const T *small = (const T *)r->in + slab * r->from * n;
        T *y = (T *)r->out + slab * r->to * n;
        for (int64_t o = 0; o < r->to; o++, y += n) {
            const T *a = small + r->taps[o].at[0] * n, *b = small + r->taps[o].at[1] * n;
            T wa = (T)r->taps[o].weight[0], wb = (T)r->taps[o].weight[1];
            if (wb == 0)
                memcpy(y, a, (size_t)n * sizeof(T));
            BT_SIMD
            for (int64_t i = 0; i < n && wb != 0; i++)
                y[i] = a[i] * wa + b[i] * wb;
        }
    }
}

static void R(resample_back)(const void *state, int64_t begin, int64_t end)
{
    const resampling *r = state;
    int64_t n = r->inner;
    for (int64_t slab = begin; slab < end; slab++) {
        const T *g = (const T *)r->in + slab * r->to * n;
        T *small = (T *)r->out + slab * r->from * n;
        memset(small, 0, (size_t)(r->from * n) * sizeof(T));
        for (int64_t o = 0; o < r->to; o++, g += n)
            for (int k = 0; k < 2; k++)
                if (r->taps[o].weight[k] != 0)
                    R(add_scaled)(n, small + r->taps[o].at[k] * n, g, (T)r->taps[o].weight[k]);
    }
}
