/* backend/cpu/matmul_narrow.h: the last few columns of matmul_template.h's product, fewer than would fill a vector:
 * vectors run along k instead, where a's rows and b's columns are contiguous. So do all columns where a has so few rows
 * that it would not pay to pack b. */

enum { NARROW = FULL / 2 < 4 ? FULL / 2 : 4, NARROW_ROWS = BT_VECTOR == 64 ? 5 : 3, NARROW_DEPTH = 4 * FULL };
/* Where all columns are: sums along k end in sums across a vector, which cost more than packing unless k is long. The
 * line between 40 shapes that were measured on Zen 3 and Zen 4 (m 4 to 32, k 64 to 784): k >= 24 m, too. */
enum { ALL_NARROW_DEPTH = 192 };

/* NARROW_ROWS or fewer rows, NARROW columns: t->b holds columns, t->b_row apart. Of the last k % FULL products, vectors
 * that end with k are taken, without the lanes that had their turn. */
BT_INLINE void narrow_tile(int rows, const tile *t, int64_t row, FULL_VI last)
{
    const T *a = t->a + row * t->a_row, *b[NARROW];
    int64_t a_row = t->a_row, k = t->k, p = 0;
    FULL_V sum[NARROW_ROWS][4], x[NARROW_ROWS];
    BT_UNROLL(8)
    for (int j = 0; j < NARROW; j++) /* where there are fewer, the last one again: the sums are not used */
        b[j] = t->b + (j < t->end ? j : t->end - 1) * t->b_row;
    BT_UNROLL(8)
    for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = (FULL_V){0};
    for (; p + FULL <= k; p += FULL) {
        BT_UNROLL(8)
        for (int i = 0; i < rows; i++)
            x[i] = FULL_F(load)(a + i * a_row + p);
        BT_UNROLL(8)
        for (int j = 0; j < NARROW; j++) {
            FULL_V y = FULL_F(load)(b[j] + p);
            BT_UNROLL(8)
            for (int i = 0; i < rows; i++)
                sum[i][j] = FULL_F(fma)(x[i], y, sum[i][j]);
        }
    }
    if (p < k) {
        BT_UNROLL(8)
        for (int i = 0; i < rows; i++)
            x[i] = (FULL_V)((FULL_VI)FULL_F(load)(a + i * a_row + k - FULL) & last);
        BT_UNROLL(8)
        for (int j = 0; j < NARROW; j++) {
            FULL_V y = (FULL_V)((FULL_VI)FULL_F(load)(b[j] + k - FULL) & last);
            BT_UNROLL(8)
            for (int i = 0; i < rows; i++)
                sum[i][j] = FULL_F(fma)(x[i], y, sum[i][j]);
        }
    }
    T *c = t->c + row * t->c_row;
#if BT_VECTOR == 64
    BT_UNROLL(8)
    for (int i = 0; i < rows; i++)
        quad_finish(t, SUMS(sum[i][0], sum[i][1], sum[i][2], sum[i][3]), c + i * t->c_row, 0);
#else
    T sums[NARROW_ROWS * 4];
    BT_UNROLL(8)
    for (int i = 0; i < rows; i++)
        SUM4(sum[i][0], sum[i][1], sum[i][2], sum[i][3], sums + 4 * i);
    store_edge(t, sums, rows, 4, c);
#endif
}

#define NARROW_TILE(rows)                                                                                              \
    static __attribute__((noinline)) void narrow_##rows(const tile *t, int64_t row, FULL_VI last)                      \
    {                                                                                                                  \
        narrow_tile(rows, t, row, last);                                                                               \
    }
NARROW_TILE(1)
NARROW_TILE(2)
NARROW_TILE(3)
#if BT_VECTOR == 64
NARROW_TILE(4)
NARROW_TILE(5)
#endif
#undef NARROW_TILE

static void (*const narrow_tiles[])(const tile *t, int64_t row, FULL_VI last) = {narrow_1, narrow_2, narrow_3,
#if BT_VECTOR == 64
                                                                                 narrow_4, narrow_5
#endif
};

static void run_narrow(const tile *t, int64_t rows)
{
    FULL_VI last;
    for (int i = 0; i < FULL; i++)
        last[i] = i >= FULL - t->k % FULL ? -1 : 0;
    int64_t row = 0;
    for (int64_t tiles = (rows + NARROW_ROWS - 1) / NARROW_ROWS, count; tiles > 0; tiles--, row += count) {
        count = (rows - row + tiles - 1) / tiles; /* of about the same size */
        narrow_tiles[count - 1](t, row, last);
    }
}
