/* backend/cpu/pairs.c: products of bf16 numbers with AVX512_BF16 (v4b) or AMX (amx). */
#include "backend/cpu/pairs.h"

#include "backend/cpu/vector.h"

#if defined __AMX_BF16__

/* ---- AMX: tiles of 16 rows of 64 bytes ---- */

enum { TILE = 16 };

typedef struct shape { /* the layout that ldtilecfg reads */
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16]; /* per row of each tile */
    uint8_t rows[16];
} shape;

/* Tiles 0 to 3: sums, `above` and `below` rows times two columns of tiles; 4, 5: a; 6, 7: b. */
static void set_shape(int64_t above, int64_t below, int64_t deep)
{
    shape s = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        bool second = i == 2 || i == 3 || i == 5;
        s.rows[i] = (uint8_t)(i > 5 ? deep : second && below ? below : above);
        s.bytes[i] = (uint16_t)(i == 4 || i == 5 ? 4 * deep : 64);
    }
    _tile_loadconfig(&s);
}

/* The sums of up to 32 rows in one panel. */
BT_INLINE void tiles(const bt_pairs *p, const uint16_t *b, float *c, int64_t row, bool two_rows, bool two_columns)
{
    const uint16_t *a = p->a + row * p->a_row, *low = a + TILE * p->a_row;
    const int64_t columns = two_columns ? 2 * TILE : TILE;
    const size_t a_bytes = (size_t)p->a_row * 2, b_bytes = (size_t)columns * 4, c_bytes = (size_t)p->c_row * 4;
    c += row * p->c_row;
    float *c_low = c + TILE * p->c_row;
    if (p->adds) {
        _tile_loadd(0, c, c_bytes);
        if (two_columns)
            _tile_loadd(1, c + TILE, c_bytes);
        if (two_rows)
            _tile_loadd(2, c_low, c_bytes);
        if (two_rows && two_columns)
            _tile_loadd(3, c_low + TILE, c_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t run = 0; run < p->runs; run++)
        for (int64_t k = 0; k < p->pairs; k += p->deep, b += 2 * p->deep * columns) {
            const int64_t at = run * p->a_run + 2 * k;
            _tile_loadd(6, b, b_bytes);
            _tile_loadd(4, a + at, a_bytes);
            _tile_dpbf16ps(0, 4, 6);
            if (two_columns) {
                _tile_loadd(7, b + 2 * TILE, b_bytes);
                _tile_dpbf16ps(1, 4, 7);
            }
            if (two_rows) {
                _tile_loadd(5, low + at, a_bytes);
                _tile_dpbf16ps(2, 5, 6);
            }
            if (two_rows && two_columns)
                _tile_dpbf16ps(3, 5, 7);
        }
    _tile_stored(0, c, c_bytes);
    if (two_columns)
        _tile_stored(1, c + TILE, c_bytes);
    if (two_rows)
        _tile_stored(2, c_low, c_bytes);
    if (two_rows && two_columns)
        _tile_stored(3, c_low + TILE, c_bytes);
}

static void run_rows(const bt_pairs *p, const uint16_t *b, float *c, int64_t row, bool two_rows, bool two_columns)
{
    if (two_rows && two_columns)
        tiles(p, b, c, row, true, true);
    else if (two_rows)
        tiles(p, b, c, row, true, false);
    else if (two_columns)
        tiles(p, b, c, row, false, true);
    else
        tiles(p, b, c, row, false, false);
}

void BT_ISA(bt_pairs_run)(const bt_pairs *p)
{
    const int64_t whole = p->rows - p->rows % (2 * TILE), rest = p->rows - whole;
    const int64_t above = rest < TILE ? rest : TILE, below = rest - above;
    for (int part = 0; part < 2; part++) {
        if (part ? rest == 0 : whole == 0)
            continue;
        set_shape(part ? above : TILE, part ? below : TILE, p->deep);
        const uint16_t *b = p->b;
        for (int64_t j = 0; j < p->columns; j += BT_PAIRS_COLUMNS) {
            const bool two = p->columns - j >= BT_PAIRS_COLUMNS;
            for (int64_t row = part ? whole : 0; row < (part ? p->rows : whole); row += 2 * TILE)
                run_rows(p, b, p->c + j, row, !part || below > 0, two);
            b += p->runs * p->pairs * 2 * (two ? BT_PAIRS_COLUMNS : BT_PAIRS_LANES);
        }
    }
    _tile_release();
}

#else

/* ---- AVX512_BF16 ---- */

enum { ROWS = 12 }; /* per tile, with two vectors of columns */

BT_INLINE __m512 products(__m512 sum, __m512i a, __m512i b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }

BT_INLINE int32_t pair_at(const uint16_t *from)
{
    int32_t pair;
    memcpy(&pair, from, sizeof pair);
    return pair;
}

BT_INLINE void tile(int rows, int vectors, const bt_pairs *p, const uint16_t *b, float *c, int64_t row)
{
    __m512 sum[ROWS][2];
    const uint16_t *start = p->a + row * p->a_row;
    const int64_t a_row = p->a_row, c_row = p->c_row;
    c += row * c_row;
    BT_UNROLL(12)
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            sum[i][v] = p->adds ? _mm512_loadu_ps(c + i * c_row + v * 16) : _mm512_setzero_ps();
    for (int64_t run = 0; run < p->runs; run++) {
        const uint16_t *a = start + run * p->a_run;
        for (int64_t k = 0; k < p->pairs; k++, a += 2, b += 32 * vectors) {
            const __m512i b0 = _mm512_loadu_si512(b), b1 = vectors > 1 ? _mm512_loadu_si512(b + 32) : b0;
            BT_UNROLL(12)
            for (int i = 0; i < rows; i++) {
                const __m512i x = _mm512_set1_epi32(pair_at(a + i * a_row));
                sum[i][0] = products(sum[i][0], x, b0);
                if (vectors > 1)
                    sum[i][1] = products(sum[i][1], x, b1);
            }
        }
    }
    BT_UNROLL(12)
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            _mm512_storeu_ps(c + i * c_row + v * 16, sum[i][v]);
}

typedef void tile_fn(const bt_pairs *p, const uint16_t *b, float *c, int64_t row);

#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define TILES(rows)                                                                                                    \
    static void one_##rows(const bt_pairs *p, const uint16_t *b, float *c, int64_t row)                                \
    {                                                                                                                  \
        tile(rows, 1, p, b, c, row);                                                                                   \
    }                                                                                                                  \
    static void two_##rows(const bt_pairs *p, const uint16_t *b, float *c, int64_t row) { tile(rows, 2, p, b, c, row); }
#define ONE(rows) one_##rows,
#define TWO(rows) two_##rows,
EACH(TILES)
static tile_fn *const one[] = {EACH(ONE)}, *const two[] = {EACH(TWO)};

void BT_ISA(bt_pairs_run)(const bt_pairs *p)
{
    const uint16_t *b = p->b;
    for (int64_t j = 0; j < p->columns; j += BT_PAIRS_COLUMNS) {
        const bool wide = p->columns - j >= BT_PAIRS_COLUMNS;
        int64_t tiles = (p->rows + ROWS - 1) / ROWS, row = 0;
        for (; tiles > 0; tiles--) { /* of about equal size */
            const int64_t count = (p->rows - row + tiles - 1) / tiles;
            (wide ? two : one)[count - 1](p, b, p->c + j, row);
            row += count;
        }
        b += p->runs * p->pairs * 2 * (wide ? BT_PAIRS_COLUMNS : BT_PAIRS_LANES);
    }
}

#endif
