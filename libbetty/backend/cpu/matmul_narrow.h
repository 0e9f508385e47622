/* backend/cpu/matmul_narrow.h: the last few columns of matmul_template.h's product, too few to fill a vector. Vectors
 * run along k instead, if a's rows and b's columns are contiguous. If a has too few rows for packing b to pay, all
 * columns are done this way. */

enum {
    FOUR = FULL / 2 < 4 ? FULL / 2 : 4, /* most columns of a tile; */
    NARROW = FULL >= 8 ? 5 : FOUR,      /* or one more: ten columns are two tiles of five */
    NARROW_DEPTH = 4 * FULL
};
/* If all columns are narrow: sums along k end in sums across a vector, which cost more than packing unless k is long.
 * The limit separates 40 shapes measured on Zen 3 and Zen 4 (m 4 to 32, k 64 to 784); k >= 24 m is also required. */
enum { ALL_NARROW_DEPTH = 192 };

enum { NARROW_ROWS = BT_VECTOR == 64 ? 5 : 3 }; /* with four columns */

/* A tile of `rows` rows (at most four with five columns) and `columns` columns. t->b holds columns, t->b_row apart. The
 * last k % FULL products use vectors that end with k, whose lanes outside the mask `last` are already summed. */
BT_INLINE void narrow_tile(int rows, int columns, const tile *t, int64_t row, FULL_VI last)
{
    const T *a = t->a + row * t->a_row, *b[5];
    int64_t a_row = t->a_row, k = t->k, p = 0;
    FULL_V sum[NARROW_ROWS < 4 ? 4 : NARROW_ROWS][5], x[NARROW_ROWS];
    BT_UNROLL(5)
    for (int j = 0; j < columns; j++) /* if there are fewer, the last one is repeated: those sums are not used */
        b[j] = t->b + (j < t->end ? j : t->end - 1) * t->b_row;
    BT_UNROLL(5)
    for (int i = 0; i < BT_COUNT_OF(sum); i++)
        sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = sum[i][4] = (FULL_V){0};
    for (; p + FULL <= k; p += FULL) {
        BT_UNROLL(5)
        for (int i = 0; i < rows; i++)
            x[i] = FULL_F(load)(a + i * a_row + p);
        BT_UNROLL(5)
        for (int j = 0; j < columns; j++) {
            FULL_V y = FULL_F(load)(b[j] + p);
            BT_UNROLL(5)
            for (int i = 0; i < rows; i++)
                sum[i][j] = FULL_F(fma)(x[i], y, sum[i][j]);
        }
    }
    if (p < k) {
        BT_UNROLL(5)
        for (int i = 0; i < rows; i++)
            x[i] = (FULL_V)((FULL_VI)FULL_F(load)(a + i * a_row + k - FULL) & last);
        BT_UNROLL(5)
        for (int j = 0; j < columns; j++) {
            FULL_V y = (FULL_V)((FULL_VI)FULL_F(load)(b[j] + k - FULL) & last);
            BT_UNROLL(5)
            for (int i = 0; i < rows; i++)
                sum[i][j] = FULL_F(fma)(x[i], y, sum[i][j]);
        }
    }
    T *c = t->c + row * t->c_row;
#if BT_VECTOR == 64
    QUAD_V fifth = SUMS(sum[0][4], sum[1][4], sum[2][4], sum[3][4]);
    BT_UNROLL(5)
    for (int i = 0; i < rows; i++, c += t->c_row) {
        quad_finish(t, SUMS(sum[i][0], sum[i][1], sum[i][2], sum[i][3]), c, 0);
        if (columns > 4)
            quad_finish(t, QUAD_F(fill)(fifth[i]), c, 4);
    }
#else
    T sums[4 * 8], fifth[4];
    BT_UNROLL(5)
    for (int i = 0; i < rows; i++)
        SUM4(sum[i][0], sum[i][1], sum[i][2], sum[i][3], sums + 8 * i);
    if (columns > 4) {
        SUM4(sum[0][4], sum[1][4], sum[2][4], sum[3][4], fifth);
        BT_UNROLL(5)
        for (int i = 0; i < rows; i++)
            sums[8 * i + 4] = fifth[i];
    }
    if (!t->plain || t->end < columns) {
        store_edge(t, sums, rows, 8, c);
        return;
    }
    BT_UNROLL(5)
    for (int i = 0; i < rows; i++)
        memcpy(c + i * t->c_row, sums + 8 * i, (size_t)columns * sizeof(T));
#endif
}

typedef void narrow_fn(const tile *t, int64_t row, FULL_VI last);

#define NARROW_TILE(name, rows, columns)                                                                               \
    static __attribute__((noinline)) void name(const tile *t, int64_t row, FULL_VI last)                               \
    {                                                                                                                  \
        narrow_tile(rows, columns, t, row, last);                                                                      \
    }
NARROW_TILE(four_1, 1, FOUR)
NARROW_TILE(four_2, 2, FOUR)
NARROW_TILE(four_3, 3, FOUR)
NARROW_TILE(five_1, 1, NARROW)
NARROW_TILE(five_2, 2, NARROW)
#if BT_VECTOR == 64
NARROW_TILE(four_4, 4, FOUR)
NARROW_TILE(four_5, 5, FOUR)
NARROW_TILE(five_3, 3, NARROW)
NARROW_TILE(five_4, 4, NARROW)
static narrow_fn *const fours[] = {four_1, four_2, four_3, four_4, four_5};
static narrow_fn *const fives[] = {five_1, five_2, five_3, five_4};
#else
static narrow_fn *const fours[] = {four_1, four_2, four_3}, *const fives[] = {five_1, five_2};
#endif
#undef NARROW_TILE

static void run_narrow(const tile *t, int64_t rows)
{
    narrow_fn *const *tiles = t->end > FOUR ? fives : fours;
    const int64_t most = t->end > FOUR ? BT_COUNT_OF(fives) : BT_COUNT_OF(fours);
    FULL_VI last;
    for (int i = 0; i < FULL; i++)
        last[i] = i >= FULL - t->k % FULL ? -1 : 0;
    int64_t row = 0;
    for (int64_t left = (rows + most - 1) / most, count; left > 0; left--, row += count) {
        count = (rows - row + left - 1) / left; /* of about equal size */
        tiles[count - 1](t, row, last);
    }
}
