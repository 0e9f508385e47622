/* backend/cpu/matmul_tile.h: the inner kernels of matmul_template.h, included once per vector width.
 * V: the vector, of LANES elements; VF(f): its function f; TILE(x): x with the width in its name. */

#include "backend/cpu/matmul_finish.h"

/* If `keeps`, b's rows are also copied to t->keep. */
BT_INLINE void TILE(sum)(int rows, int vectors, bool keeps, tile *t, int64_t row, V sum[][2])
{
    const T *b = t->b;
    const char *a[(ROWS1 + 2) / 3]; /* of every third row: loads add the offset of the two rows after it */
    int64_t ahead = 16 * t->b_row;  /* rows of b may be pages apart, which the hardware does not predict */
    int64_t a_row = t->a_row * (int64_t)sizeof(T), a_column = t->a_column * (int64_t)sizeof(T), b_row = t->b_row;
    T *keep = t->keep;
    BT_UNROLL(16)
    for (int i = 0; i < rows; i += 3)
        a[i / 3] = (const char *)(t->a + (row + i) * t->a_row);
    for (int64_t left = t->k, steps = t->b_next.step || t->c_next.step ? STEPS : left; left > 0; left -= steps) {
        bt_ask(&t->b_next, 1, BT_TO_L1);
        bt_ask(&t->c_next, 1, BT_TO_WRITE);
        for (int64_t p = left < steps ? left : steps; p > 0; p--, b += b_row) {
            if (keeps)
                __builtin_prefetch(b + ahead);
            V b0 = VF(load)(b), b1 = vectors > 1 ? VF(load)(b + LANES) : b0;
            if (keeps) {
                VF(store)(keep, b0);
                if (vectors > 1)
                    VF(store)(keep + LANES, b1);
                keep += vectors * LANES;
            }
            BT_UNROLL(16)
            for (int i = 0; i < rows; i += 3) /* else the compiler derives them all from one and spills registers */
                __asm__("" : "+r"(a[i / 3]));
            BT_UNROLL(16)
            for (int i = 0; i < rows; i++) {
                V x = VF(fill)(*(const T *)(const void *)(a[i / 3] + i % 3 * a_row));
                sum[i][0] = VF(fma)(x, b0, sum[i][0]);
                if (vectors > 1)
                    sum[i][1] = VF(fma)(x, b1, sum[i][1]);
            }
            BT_UNROLL(16)
            for (int i = 0; i < rows; i += 3)
                a[i / 3] += a_column;
        }
    }
}

/* rows x (vectors * LANES) elements of c: a may have any strides, the rows of b are contiguous. */
BT_INLINE void TILE(body)(int rows, int vectors, tile *t, int64_t row)
{
    V sum[ROWS1][2];
    int64_t c_row = t->c_row;
    T *c = t->c + row * c_row;
    BT_UNROLL(16)
    for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = (V){0};
    if (t->keep)
        TILE(sum)(rows, vectors, true, t, row, sum);
    else
        TILE(sum)(rows, vectors, false, t, row, sum);
    if (t->plain) {
        BT_UNROLL(16)
        for (int i = 0; i < rows; i++) {
            VF(store)(c + i * c_row, sum[i][0]);
            if (vectors > 1)
                VF(store)(c + i * c_row + LANES, sum[i][1]);
        }
        return;
    }
#if BT_VECTOR < 64
    if (t->end - t->begin < vectors * LANES) {
        T sums[ROWS1 * 2 * LANES];
        BT_UNROLL(16)
        for (int i = 0; i < rows; i++) {
            VF(store)(sums + i * vectors * LANES, sum[i][0]);
            if (vectors > 1)
                VF(store)(sums + i * vectors * LANES + LANES, sum[i][1]);
        }
        store_edge(t, sums, rows, vectors * LANES, c);
        return;
    }
#endif
    BT_UNROLL(16)
    for (int i = 0; i < rows; i++) {
        TILE(finish)(t, sum[i][0], c + i * c_row, 0);
        if (vectors > 1)
            TILE(finish)(t, sum[i][1], c + i * c_row, LANES);
    }
}

#define TILE_ONE(rows)                                                                                                 \
    static void TILE(one_##rows)(tile * t, int64_t row) { TILE(body)(rows, 1, t, row); }
#define TILE_TWO(rows)                                                                                                 \
    static void TILE(two_##rows)(tile * t, int64_t row) { TILE(body)(rows, 2, t, row); }
#define TILE_ONE_ENTRY(rows) TILE(one_##rows),
#define TILE_TWO_ENTRY(rows) TILE(two_##rows),

TILE_ROWS1(TILE_ONE)
static tile_fn *const TILE(one)[] = {TILE_ROWS1(TILE_ONE_ENTRY)};
#if defined TILE_ROWS2
TILE_ROWS2(TILE_TWO)
static tile_fn *const TILE(two)[] = {TILE_ROWS2(TILE_TWO_ENTRY)};
#endif

#undef TILE_ONE
#undef TILE_TWO
#undef TILE_ONE_ENTRY
#undef TILE_TWO_ENTRY
#undef TILE_ROWS1
#undef TILE_ROWS2
#undef TILE
#undef VF
#undef V
#undef VI
#undef LANES
