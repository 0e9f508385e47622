/* backend/cpu/conv_depthwise.h: convolutions of each channel with its own window, for one element type T. Vectors run
 * along the channels. Included by conv_template.h. */

/* ---- conv and conv_dx ---- */

/* `points` pixels times `vectors` vectors of channels from c on; weights are [taps, channels]. */
BT_INLINE void depthwise_tile(int points, int vectors, const bt_conv_panel *p, int64_t first, int64_t count, int64_t c)
{
    FULL_V sum[POINTS1][2];
    const T *x[POINTS1], *w = (const T *)p->weights + p->row * p->columns + c, *bias = p->bias;
    const int64_t *list = p->list;
    BT_UNROLL(8)
    for (int i = 0; i < points; i++) {
        x[i] = (const T *)p->from + p->at_from[first + (i < count ? i : count - 1)] + c;
        for (int v = 0; v < vectors; v++)
            sum[i][v] = bias ? FULL_F(load)(bias + c + v * FULL) : (FULL_V){0};
    }
    for (int64_t r = 0; r < p->runs; r++, w += (p->step - p->run) * p->columns)
        for (int64_t k = 0; k < p->run; k++, w += p->columns) {
            int64_t at = *list++;
            FULL_V w0 = FULL_F(load)(w), w1 = vectors > 1 ? FULL_F(load)(w + FULL) : w0;
            BT_UNROLL(8)
            for (int i = 0; i < points; i++) {
                sum[i][0] = FULL_F(fma)(FULL_F(load)(x[i] + at), w0, sum[i][0]);
                if (vectors > 1)
                    sum[i][1] = FULL_F(fma)(FULL_F(load)(x[i] + at + FULL), w1, sum[i][1]);
            }
        }
    BT_UNROLL(8)
    for (int i = 0; i < points; i++) {
        if (i >= count)
            break;
        T *to = (T *)p->to + p->at_to[first + i] + c;
        for (int v = 0; v < vectors; v++)
            FULL_F(store)(to + v * FULL, sum[i][v]);
    }
}

static void depthwise_channel(const bt_conv_panel *p, int64_t first, int64_t count, int64_t c)
{
    const T *bias = p->bias;
    for (int64_t i = first; i < first + count; i++) {
        const T *x = (const T *)p->from + p->at_from[i] + c, *w = (const T *)p->weights + p->row * p->columns + c;
        T sum = bias ? bias[c] : 0;
        const int64_t *list = p->list;
        for (int64_t r = 0; r < p->runs; r++, w += (p->step - p->run) * p->columns)
            for (int64_t k = 0; k < p->run; k++, w += p->columns)
                sum = FMA(x[*list++], *w, sum);
        ((T *)p->to)[p->at_to[i] + c] = sum;
    }
}

static void run_depthwise(const bt_conv_panel *p)
{
    for (int64_t i = 0; i < p->points; i += POINTS2) {
        int64_t count = p->points - i < POINTS2 ? p->points - i : POINTS2, c = 0;
        fetch_ahead(p->ahead, count);
        for (; c + 2 * FULL <= p->columns; c += 2 * FULL)
            depthwise_tile(POINTS2, 2, p, i, count, c);
        for (; c + FULL <= p->columns; c += FULL)
            depthwise_tile(POINTS2, 1, p, i, count, c);
        for (; c < p->columns; c++)
            depthwise_channel(p, i, count, c);
    }
}

/* ---- conv_dw: rows are taps ---- */

BT_INLINE void depthwise_sum_tile(int rows, int vectors, const bt_conv_sum *s, int64_t row, int64_t count, int64_t c)
{
    FULL_V sum[POINTS1][2];
    const T *x[POINTS1];
    BT_UNROLL(8)
    for (int i = 0; i < rows; i++) {
        x[i] = (const T *)s->from + s->list[row + (i < count ? i : count - 1)] + c;
        sum[i][0] = sum[i][1] = (FULL_V){0};
    }
    for (int64_t q = 0; q < s->points; q++) {
        int64_t at = s->at_from[q];
        const T *g = (const T *)s->g + s->at_g[q] + c;
        FULL_V g0 = FULL_F(load)(g), g1 = vectors > 1 ? FULL_F(load)(g + FULL) : g0;
        BT_UNROLL(8)
        for (int i = 0; i < rows; i++) {
            sum[i][0] = FULL_F(fma)(FULL_F(load)(x[i] + at), g0, sum[i][0]);
            if (vectors > 1)
                sum[i][1] = FULL_F(fma)(FULL_F(load)(x[i] + at + FULL), g1, sum[i][1]);
        }
    }
    BT_UNROLL(8)
    for (int i = 0; i < rows; i++) {
        if (i >= count)
            break;
        T *to = (T *)s->to + s->rows[row + i] * s->pitch + c;
        BT_UNROLL(2)
        for (int v = 0; v < vectors; v++)
            FULL_F(store)(to + v * FULL, FULL_F(load)(to + v * FULL) + sum[i][v]);
    }
}

static void depthwise_sum_channel(const bt_conv_sum *s, int64_t row, int64_t c)
{
    const T *x = (const T *)s->from + s->list[row] + c, *g = (const T *)s->g + c;
    T sum = 0;
    for (int64_t q = 0; q < s->points; q++)
        sum = FMA(x[s->at_from[q]], g[s->at_g[q]], sum);
    ((T *)s->to)[s->rows[row] * s->pitch + c] += sum;
}

static void run_depthwise_sum(const bt_conv_sum *s)
{
    for (int64_t row = 0; row < s->count; row += POINTS2) {
        int64_t count = s->count - row < POINTS2 ? s->count - row : POINTS2, c = 0;
        fetch_ahead(s->ahead, s->points);
        for (; c + 2 * FULL <= s->columns; c += 2 * FULL)
            depthwise_sum_tile(POINTS2, 2, s, row, count, c);
        for (; c + FULL <= s->columns; c += FULL)
            depthwise_sum_tile(POINTS2, 1, s, row, count, c);
        for (; c < s->columns; c++)
            for (int64_t i = row; i < row + count; i++)
                depthwise_sum_channel(s, i, c);
    }
}
