/* backend/cpu/matmul_finish.h: finishes a vector of the product's sums, for matmul_tile.h and matmul_narrow.h.
 * V: the vector, of LANES elements; VF(f): its function f; TILE(x): x with the width in its name. */

#if BT_VECTOR == 64 /* the tile's stored columns that are in the vector from `column` on */
#define LANES_OF(t, column)                                                                                            \
    unsigned lanes = (unsigned)(((1ULL << (t)->end) - (1ULL << (t)->begin)) >> (column)) & ((1U << LANES) - 1)
#define LOAD(from)       VF(lanes)(from, lanes)
#define STORE(to, value) VF(store_lanes)(to, value, lanes)
#else
#define LANES_OF(t, column) (void)(column)
#define LOAD(from)          VF(load)(from)
#define STORE(to, value)    VF(store)(to, value)
#endif

/* Adds the addend and the bias, applies relu, and stores the sum. */
BT_INLINE void TILE(finish)(const tile *t, V sum, T *c, int64_t column)
{
    LANES_OF(t, column);
    c += column;
    if (t->addend)
        sum = VF(fma)(VF(fill)(t->factor), LOAD(t->addend + (c - t->c)), sum);
    if (t->bias)
        sum += LOAD(t->bias + column);
    if (t->relu)
        sum = (V)((VI)sum & ((VI)(sum > 0) | (VI)(sum != sum)));
    STORE(c, sum);
}

#undef LANES_OF
#undef LOAD
#undef STORE
