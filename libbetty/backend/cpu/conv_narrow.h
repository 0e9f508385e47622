/* backend/cpu/conv_narrow.h: results with so few channels that a vector of them would be mostly empty, such as the
 * gradient of grey or colour images. Vectors run along the channels of `from` instead, and are summed at the end.
 * Weights are [columns, taps, inner]. Included by conv_template.h. */

/* Where there are registers enough, a vector that several products share is loaded once: compilers would load it for
 * each of them. */
#if BT_VECTOR == 64
#define HOLD(vector) __asm__("" : "+v"(vector))
#else
#define HOLD(vector) (void)0
#endif

BT_INLINE void narrow_tile(int points, int columns, const bt_conv_panel *p, int64_t first, int64_t count)
{
    FULL_V sum[12];
    const T *x[POINTS1], *w = (const T *)p->weights + p->row, *bias = p->bias;
    const int64_t *list = p->list;
    BT_UNROLL(12)
    for (int i = 0; i < points * columns; i++)
        sum[i] = (FULL_V){0};
    BT_UNROLL(8)
    for (int i = 0; i < points; i++)
        x[i] = (const T *)p->from + p->at_from[first + (i < count ? i : count - 1)];
    for (int64_t r = 0; r < p->runs; r++, w += p->step - p->run)
        for (int64_t k = 0; k < p->run; k += FULL, w += FULL, list += FULL) {
            int64_t at = *list;
            FULL_V weight[4];
            BT_UNROLL(4)
            for (int c = 0; c < columns; c++) {
                weight[c] = FULL_F(load)(w + c * p->packed);
                HOLD(weight[c]);
            }
            BT_UNROLL(8)
            for (int i = 0; i < points; i++) {
                FULL_V value = FULL_F(load)(x[i] + at);
                if (columns > 1)
                    HOLD(value);
                BT_UNROLL(4)
                for (int c = 0; c < columns; c++)
                    sum[i * columns + c] = FULL_F(fma)(value, weight[c], sum[i * columns + c]);
            }
        }
    T sums[12] = {0}, shift[4] = {0};
    BT_UNROLL(4)
    for (int c = 0; c < columns && bias; c++)
        shift[c] = bias[c];
    BT_UNROLL(3)
    for (int i = 0; i < points * columns; i += 4)
        SUM4(sum[i], sum[i + 1], sum[i + 2], sum[i + 3], sums + i);
    for (int i = 0; i < count; i++) {
        T *to = (T *)p->to + p->at_to[first + i];
        BT_UNROLL(4)
        for (int c = 0; c < columns; c++)
            to[c] = sums[i * columns + c] + shift[c];
    }
}

#define NARROW_TILE(columns, points)                                                                                   \
    static __attribute__((noinline)) void narrow_##columns(const bt_conv_panel *p, int64_t first, int64_t count)       \
    {                                                                                                                  \
        narrow_tile(points, columns, p, first, count);                                                                 \
    }
NARROW_TILE(1, 8)
NARROW_TILE(2, 6)
NARROW_TILE(3, 4)
NARROW_TILE(4, 3)

static void run_narrow(const bt_conv_panel *p)
{
    static void (*const tiles[])(const bt_conv_panel *p, int64_t first, int64_t count) = {narrow_1, narrow_2, narrow_3,
                                                                                          narrow_4};
    static const int64_t points[] = {8, 6, 4, 3};
    int64_t step = points[p->columns - 1];
    for (int64_t i = 0; i < p->points; i += step) {
        int64_t count = p->points - i < step ? p->points - i : step;
        fetch_ahead(p->ahead, count);
        tiles[p->columns - 1](p, i, count);
    }
}
