/* backend/cpu/channel_template.h: channel.c for one element type T. V: its vector of LANES elements; VF(f): the vector
 * function f; R(x): the name x with the type in it. Sums are in T within a block and in double across blocks. */

/* What to sum over rows. */
enum R(sums) {
    R(PLAIN),    /* of x */
    R(SQUARES),  /* of (x - m)^2, and of x - m */
    R(PRODUCTS), /* of (x - m) z, and of z */
};

/* Sums four vectors of a tile, at x, z and m, over `tiles` tiles. first: squares or products; second: the plain sum. */
BT_INLINE void R(sum_strip)(enum R(sums) what, int64_t tiles, int64_t tile, const T *x, const T *z, const T *m,
                            T *first, T *second)
{
    V a[4], b[4], centre[4];
    BT_UNROLL(4)
    for (int k = 0; k < 4; k++) {
        a[k] = b[k] = (V){0};
        centre[k] = what == R(PLAIN) ? a[k] : VF(load)(m + k * LANES);
    }
    for (int64_t t = 0; t < tiles; t++, x += tile, z += what == R(PRODUCTS) ? tile : 0) {
        BT_UNROLL(4)
        for (int k = 0; k < 4; k++) {
            V d = VF(load)(x + k * LANES) - centre[k], w = what == R(PRODUCTS) ? VF(load)(z + k * LANES) : d;
            if (what != R(PLAIN))
                a[k] = VF(fma)(d, w, a[k]);
            b[k] += w;
        }
    }
    BT_UNROLL(4)
    for (int k = 0; k < 4; k++) {
        if (what != R(PLAIN))
            VF(store)(first + k * LANES, a[k]);
        VF(store)(second + k * LANES, b[k]);
    }
}

/* Adds one row, or part of a tile, to the sums. */
BT_INLINE void R(sum_row)(enum R(sums) what, int64_t n, const T *x, const T *z, const T *m, T *first, T *second)
{
    BT_SIMD
    for (int64_t j = 0; j < n; j++) {
        T d = what == R(PLAIN) ? x[j] : x[j] - m[j], w = what == R(PRODUCTS) ? z[j] : d;
        if (what != R(PLAIN))
            first[j] += d * w;
        second[j] += w;
    }
}

/* Sums n elements; only the last tile may be incomplete. */
BT_INLINE void R(sum_block)(enum R(sums) what, int64_t n, int64_t tile, const T *x, const T *z, const T *m, T *first,
                            T *second)
{
    int64_t tiles = n / tile, strips = tile / (4 * LANES) * (4 * LANES);
    for (int64_t s = 0; s < strips; s += 4 * LANES)
        R(sum_strip)(what, tiles, tile, x + s, z + s, m + s, first + s, second + s);
    for (int64_t j = strips; j < tile; j++)
        first[j] = second[j] = 0;
    for (int64_t at = strips; at < tiles * tile && strips < tile; at += tile) {
        R(sum_row)(what, tile - strips, x + at, z + at, m + strips, first + strips, second + strips);
    }
    R(sum_row)(what, n - tiles * tile, x + tiles * tile, z + tiles * tile, m, first, second);
}

/* Adds a tile's sums, channel by channel, to the sums in double. */
static void R(fold)(const T *sums, int64_t tile, int64_t channels, double *to)
{
    for (; tile > 0; tile -= channels, sums += channels)
        for (int64_t c = 0; c < channels; c++)
            to[c] += sums[c];
}

/* Repeats the first `period` numbers to fill `count`, a multiple of `period`. */
static void R(repeat)(T *to, int64_t period, int64_t count)
{
    for (int64_t at = period; at < count; at += period)
        memcpy(to + at, to, (size_t)period * sizeof(T));
}

/* Expands a group's coefficients from one per channel to one per element of a tile; NULL: all are `missing`. */
static void R(spread)(const bt_view *from, int64_t group, T missing, int64_t tile, int64_t channels, T *to)
{
    const T *x = from ? (const T *)(const void *)from->data + bt_cpu_offset(from, group * channels) : &missing;
    int64_t step = from ? from->strides[from->rank - 1] : 0;
    for (int64_t c = 0; c < channels; c++)
        to[c] = x[c * step];
    R(repeat)(to, channels, tile);
}

/* ---- channel_moments: rows from .. to - 1 of a group; mean and sum of squared deviations, in mean and squares ----
 * Each block is centred on its own mean; its moments are then shifted to the mean of the first block. */

static void R(moments_part)(const job *j, int64_t group, int64_t from, int64_t to, char *local, double *mean,
                            double *squares)
{
    int64_t c = j->channels, tile = j->tile;
    double *origin = (void *)local, *sum = origin + c, *square = sum + c;
    T *m = (void *)(square + c), *first = m + tile, *second = first + tile;
    for (int64_t i = 0; i < c; i++)
        mean[i] = squares[i] = 0;
    for (int64_t row = from; row < to; row += j->block) {
        int64_t rows = to - row < j->block ? to - row : j->block, n = rows * c;
        const T *x = (const T *)j->x + (group * j->rows + row) * c;
        for (int64_t i = 0; i < c; i++)
            sum[i] = square[i] = 0;
        R(sum_block)(R(PLAIN), n, tile, x, x, m, first, second);
        R(fold)(second, tile, c, sum);
        for (int64_t i = 0; i < c; i++) {
            m[i] = (T)(sum[i] / (double)rows);
            sum[i] = 0;
        }
        R(repeat)(m, c, tile);
        R(sum_block)(R(SQUARES), n, tile, x, x, m, first, second);
        R(fold)(first, tile, c, square);
        R(fold)(second, tile, c, sum);
        for (int64_t i = 0; i < c; i++) {
            double own = m[i] + sum[i] / (double)rows;
            origin[i] = row == from ? own : origin[i];
            double off = own - origin[i];
            mean[i] += own * (double)rows;
            squares[i] += square[i] - sum[i] * sum[i] / (double)rows + off * off * (double)rows;
        }
    }
    for (int64_t i = 0; i < c; i++) {
        double count = (double)(to - from);
        mean[i] /= count;
        squares[i] -= (mean[i] - origin[i]) * (mean[i] - origin[i]) * count;
    }
}

/* ---- channel_dot: the same rows; the sum of the products and the sum of z ---- */

static void R(dot_part)(const job *j, int64_t group, int64_t from, int64_t to, char *local, double *dot, double *sum)
{
    int64_t c = j->channels, tile = j->tile;
    T *m = (void *)local, *first = m + tile, *second = first + tile;
    for (int64_t i = 0; i < c; i++)
        dot[i] = sum[i] = 0;
    R(spread)(j->centre, group, 0, tile, c, m);
    for (int64_t row = from; row < to; row += j->block) {
        int64_t rows = to - row < j->block ? to - row : j->block, at = (group * j->rows + row) * c;
        R(sum_block)(R(PRODUCTS), rows * c, tile, (const T *)j->x + at, (const T *)j->z + at, m, first, second);
        R(fold)(first, tile, c, dot);
        R(fold)(second, tile, c, sum);
    }
}

/* ---- channel_mix: y may be the first x ---- */

/* Term k's centre and scale; after all terms, the shift. Each has one value per element of a tile. */
#define CENTRE(k)    (coefficients + 2 * (k)*tile)
#define SCALE(k)     (CENTRE(k) + tile)
#define SHIFT(terms) CENTRE(terms)

/* Mixes four vectors of a tile, at s, over `tiles` tiles. The terms are added to the shift in order. */
BT_INLINE void R(mix_strip)(int terms, enum last last, int64_t tiles, int64_t tile, int64_t s, T *y, const T *const *x,
                            const T *gate, const T *coefficients)
{
    V m[BT_CHANNEL_TERMS][4], a[BT_CHANNEL_TERMS][4], d[4];
    BT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        d[i] = VF(load)(SHIFT(terms) + s + i * LANES);
        BT_UNROLL(4)
        for (int k = 0; k < terms; k++) {
            m[k][i] = VF(load)(CENTRE(k) + s + i * LANES);
            a[k][i] = VF(load)(SCALE(k) + s + i * LANES);
        }
    }
    for (int64_t at = s; tiles > 0; tiles--, at += tile) {
        BT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            V sum = d[i];
            BT_UNROLL(4)
            for (int k = 0; k < terms; k++)
                sum = VF(fma)(VF(load)(x[k] + at + i * LANES) - m[k][i], a[k][i], sum);
            if (last == RELU)
                sum = (V)((VI)sum & ~(VI)(sum <= 0));
            if (last == GATE)
                sum = (V)((VI)sum & (VI)(VF(load)(gate + at + i * LANES) > 0));
            VF(store)(y + at + i * LANES, sum);
        }
    }
}

/* Mixes elements from .. to - 1 of the tile that begins at offset `at` of y, x and gate. */
BT_INLINE void R(mix_row)(int terms, enum last last, int64_t at, int64_t from, int64_t to, int64_t tile, T *y,
                          const T *const *x, const T *gate, const T *coefficients)
{
    const T *x0 = x[0] + at, *x1 = terms > 1 ? x[1] + at : x0, *x2 = terms > 2 ? x[2] + at : x0;
    const T *x3 = terms > 3 ? x[3] + at : x0, *q = last == GATE ? gate + at : x0;
    y += at;
    BT_SIMD
    for (int64_t j = from; j < to; j++) {
        T sum = FMA(x0[j] - CENTRE(0)[j], SCALE(0)[j], SHIFT(terms)[j]);
        sum = terms > 1 ? FMA(x1[j] - CENTRE(1)[j], SCALE(1)[j], sum) : sum;
        sum = terms > 2 ? FMA(x2[j] - CENTRE(2)[j], SCALE(2)[j], sum) : sum;
        sum = terms > 3 ? FMA(x3[j] - CENTRE(3)[j], SCALE(3)[j], sum) : sum;
        y[j] = last == RELU ? (sum <= 0 ? 0 : sum) : last == GATE ? (q[j] > 0 ? sum : 0) : sum;
    }
}

/* Mixes n elements from the start of a tile. */
BT_INLINE void R(mix_block)(int terms, enum last last, int64_t n, int64_t tile, T *y, const T *const *x, const T *gate,
                            const T *coefficients)
{
    int64_t tiles = n / tile, strips = tile / (4 * LANES) * (4 * LANES);
    for (int64_t s = 0; s < strips; s += 4 * LANES)
        R(mix_strip)(terms, last, tiles, tile, s, y, x, gate, coefficients);
    for (int64_t t = 0; t < tiles && strips < tile; t++)
        R(mix_row)(terms, last, t * tile, strips, tile, tile, y, x, gate, coefficients);
    R(mix_row)(terms, last, tiles * tile, 0, n - tiles * tile, tile, y, x, gate, coefficients);
}

typedef void R(mix_fn)(int64_t n, int64_t tile, T *y, const T *const *x, const T *gate, const T *coefficients);

#define MIX(name, terms, last)                                                                                         \
    static void R(name)(int64_t n, int64_t tile, T * y, const T *const *x, const T *gate, const T *coefficients)       \
    {                                                                                                                  \
        R(mix_block)(terms, last, n, tile, y, x, gate, coefficients);                                                  \
    }
#define MIXES(terms)                                                                                                   \
    MIX(mix_##terms, terms, NOTHING)                                                                                   \
    MIX(mix_relu_##terms, terms, RELU)                                                                                 \
    MIX(mix_gate_##terms, terms, GATE)
MIXES(1)
MIXES(2)
MIXES(3)
MIXES(4)
#undef MIX
#undef MIXES

static R(mix_fn) *const R(mixes)[][BT_CHANNEL_TERMS] = {
    [NOTHING] = {R(mix_1), R(mix_2), R(mix_3), R(mix_4)},
    [RELU] = {R(mix_relu_1), R(mix_relu_2), R(mix_relu_3), R(mix_relu_4)},
    [GATE] = {R(mix_gate_1), R(mix_gate_2), R(mix_gate_3), R(mix_gate_4)},
};

static void R(mix_part)(const job *j, int64_t group, int64_t from, int64_t to, char *local)
{
    int64_t c = j->channels, tile = j->tile;
    T *coefficients = (void *)local;
    for (int k = 0; k < j->terms; k++) {
        R(spread)(j->m[k], group, 0, tile, c, CENTRE(k));
        R(spread)(j->a[k], group, 1, tile, c, SCALE(k));
    }
    R(spread)(j->d, group, (T)-0.0, tile, c, SHIFT(j->terms)); /* -0 + x is x, even if x is -0 */
    for (int64_t row = from; row < to; row += j->block) {
        const T *x[BT_CHANNEL_TERMS] = {NULL};
        int64_t rows = to - row < j->block ? to - row : j->block, at = (group * j->rows + row) * c;
        for (int k = 0; k < j->terms; k++)
            x[k] = (const T *)j->term[k] + at;
        const T *gate = j->gate ? (const T *)j->gate + at : NULL;
        R(mixes)[j->last][j->terms - 1](rows * c, tile, (T *)j->out + at, x, gate, coefficients);
    }
}

#undef CENTRE
#undef SCALE
#undef SHIFT
