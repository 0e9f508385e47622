/* backend/cpu/matmul_template.h: the blocked product for one element type T, included by matmul_f32.c and matmul_f64.c.
 *
 * c is computed in tiles of rows x columns that stay in registers while k runs. Columns are taken in panels, one or two
 * vectors wide. A piece of b, `deep` rows of one panel, stays in the L1 cache while all rows of a (or `tall` of them)
 * pass by. If b's rows are not contiguous, or too far apart, the piece is packed first. a is read in place, or packed
 * for similar reasons. Each element of c is thus one chain of fused products per piece of k, whatever the tile, panel
 * or thread. */

#include "backend/cpu/ahead.h"
#include "backend/cpu/pack.h"

typedef struct tile {
    const T *a, *b, *bias;
    const T *addend; /* NULL, or laid out like c: `factor` times it is added; from the second piece of k on, c itself */
    T *c, factor;
    T *keep; /* NULL, or where a panel's first tile copies the rows of b, side by side, for the other tiles */
    int64_t a_row, a_column, b_row, c_row, k;
    int64_t begin, end; /* the panel's columns that are stored */
    bool plain, relu;
    bt_ahead b_next, c_next; /* over b's next panel, and over the next tile's rows of c; a part for STEPS steps of k */
} tile;

enum {
    STEPS = 8,
    AHEAD_BYTES = 96 << 10 /* matrices with fewer are left to the caches */
};

typedef void tile_fn(tile *t, int64_t row);

/* Stores sums one by one: if partial vector stores are slow or missing, and for transposed sums. */
static void __attribute__((noinline)) store_edge(const tile *t, const T *sums, int rows, int width, T *c)
{
    for (int i = 0; i < rows; i++, sums += width, c += t->c_row)
        for (int64_t j = t->begin; j < t->end; j++) {
            T sum = t->addend ? FMA(t->factor, t->addend[c - t->c + j], sums[j]) : sums[j];
            if (t->bias)
                sum += t->bias[j];
            c[j] = t->relu && sum <= 0 ? 0 : sum;
        }
}

#if BT_VECTOR == 64
#define ROWS1 14
#define ROWS2 14
#else
#define ROWS1 12
#define ROWS2 6
#endif
#define COUNT6(X)  X(1) X(2) X(3) X(4) X(5) X(6)
#define COUNT12(X) COUNT6(X) X(7) X(8) X(9) X(10) X(11) X(12)
#define COUNT14(X) COUNT12(X) X(13) X(14)


#if BT_VECTOR == 64 /* half vectors for narrow edges, where they halve the cost */
#define V       QUAD_V
#define VI      QUAD_VI
#define VF(f)   QUAD_F(f)
#define LANES   4
#define TILE(x) quad_##x
#include "backend/cpu/matmul_finish.h"
#undef V
#undef VI
#undef VF
#undef LANES
#undef TILE
enum { HALF = FULL / 2 };
#define V             HALF_V
#define VI            HALF_VI
#define VF(f)         HALF_F(f)
#define LANES         HALF
#define TILE(x)       half_##x
#define TILE_ROWS1(X) COUNT14(X)
#include "backend/cpu/matmul_tile.h"
#define V             FULL_V
#define VI            FULL_VI
#define VF(f)         FULL_F(f)
#define LANES         FULL
#define TILE(x)       full_##x
#define TILE_ROWS1(X) COUNT14(X)
#define TILE_ROWS2(X) COUNT14(X)
#include "backend/cpu/matmul_tile.h"
#else
#define V             FULL_V
#define VI            FULL_VI
#define VF(f)         FULL_F(f)
#define LANES         FULL
#define TILE(x)       full_##x
#define TILE_ROWS1(X) COUNT12(X)
#define TILE_ROWS2(X) COUNT6(X)
#include "backend/cpu/matmul_tile.h"
#endif

#include "backend/cpu/matmul_narrow.h"

/* ---- panels of columns ---- */

typedef struct panel {
    tile_fn *const *tiles; /* by rows - 1 */
    int rows;              /* of the largest tile */
    int64_t column, width; /* where it starts; its width in whole vectors */
    int64_t begin, end;    /* its columns that are stored */
} panel;

/* How many columns the next panel takes if `columns` are left. */
static int64_t panel_width(const bt_gemm *g, int64_t columns)
{
    int64_t spare = g->narrow ? NARROW : 0;
    if (columns <= spare)
        return columns;
    if (g->all_narrow)
        return FOUR;
    if (NARROW > FOUR && columns <= 2 * spare && columns > 2 * FOUR)
        return NARROW;
#if BT_VECTOR == 64
    if (columns <= HALF + spare)
        return HALF;
#endif
    return columns <= FULL + spare ? FULL : 2 * FULL;
}

/* The panel that begins with column j, of the columns before `end`. If b is read in place, the last panel starts early
 * enough to stay within b. */
static panel panel_at(const bt_gemm *g, int64_t j, int64_t end)
{
    int64_t width = panel_width(g, end - j), count = end - j < width ? end - j : width;
    panel result = {.tiles = full_two, .rows = ROWS2, .column = j, .width = width, .end = count};
    if (width < 2 * FULL) {
        result.rows = ROWS1;
        result.tiles = full_one;
    }
#if BT_VECTOR == 64
    if (width == HALF)
        result.tiles = half_one;
#endif
    if (g->narrow && width <= NARROW)
        result.tiles = NULL;
    if (!g->pack_b && count < width) {
        result.column -= width - count;
        result.begin = width - count;
        result.end = width;
    }
    return result;
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static bool is_large(int64_t rows, int64_t columns) { return rows * columns * (int64_t)sizeof(T) >= AHEAD_BYTES; }

/* A walk over b's panel that begins with column j, before `end`, while `tiles` tiles are computed. */
static bt_ahead panel_ahead(const bt_gemm *g, const T *b, int64_t k, int64_t j, int64_t end, int64_t tiles)
{
    const int64_t size = sizeof(T);
    if (j >= end || !is_large(g->k, g->n) || (g->b_row != 1 && g->b_column != 1))
        return (bt_ahead){0};
    panel p = panel_at(g, j, end);
    b += p.column * g->b_column;
    return g->b_column == 1 ? bt_ahead_of(b, k, g->b_row * size, p.width * size, tiles * divide_up(k, STEPS))
                            : bt_ahead_of(b, p.end, g->b_column * size, k * size, tiles * divide_up(k, STEPS));
}

/* A walk over rows of c, while one tile is computed. */
static bt_ahead rows_ahead(const tile *t, int64_t row, int64_t rows, int64_t width)
{
    const int64_t size = sizeof(T);
    return bt_ahead_of(t->c + row * t->c_row, rows, t->c_row * size, width * size, divide_up(t->k, STEPS));
}

/* Uses as few tiles as possible, of about equal size: a tile of few rows would stall on its own sums. */
static void run_rows(const bt_gemm *g, const panel *p, tile *t, int64_t rows)
{
    const bool large = is_large(g->m, g->n);
    int64_t tiles = divide_up(rows, p->rows), row = 0;
    for (int64_t count = divide_up(rows, tiles), after; tiles > 0; tiles--, count = after) {
        after = tiles > 1 ? divide_up(rows - row - count, tiles - 1) : 0;
        t->c_next = rows_ahead(t, row + count, large ? after : 0, p->width);
        p->tiles[count - 1](t, row);
        row += count;
        if (t->keep) {
            t->b = t->keep;
            t->b_row = p->width;
            t->keep = NULL;
        }
    }
}

/* Multiplies one piece of a, [rows, deep], by b's panels in the range. */
static void run_block(const bt_gemm *g, const tile *block, const T *b, const T *bias, int64_t rows, T *scratch,
                      bt_gemm_range range)
{
    for (int64_t j = range.column; j < range.column_end;) {
        panel p = panel_at(g, j, range.column_end);
        tile t = *block;
        t.b = b + p.column * g->b_column;
        t.bias = bias ? bias + p.column : NULL;
        t.c += p.column;
        t.addend = t.addend ? t.addend + p.column : NULL;
        t.plain = !t.addend && !t.relu && !t.bias && p.end - p.begin == p.width;
        t.begin = p.begin;
        t.end = p.end;
        if (!p.tiles) {
            t.b_row = g->b_column;
            if (g->b_row != 1) {
                pack(scratch, t.b, g->b_column, g->b_row, p.end, t.k, t.k);
                t.b = scratch;
                t.b_row = t.k;
            }
            run_narrow(&t, rows);
        } else {
            if (g->pack_b && g->b_column == 1 && p.end == p.width) {
                t.keep = scratch;
            } else if (g->pack_b) {
                pack(scratch, t.b, g->b_row, g->b_column, t.k, p.end, p.width);
                t.b = scratch;
                t.b_row = p.width;
            }
            t.b_next = panel_ahead(g, b, t.k, j + p.end - p.begin, range.column_end, divide_up(rows, p.rows));
            run_rows(g, &p, &t, rows);
        }
        j += p.end - p.begin;
    }
}

static void run_tiles(const bt_gemm *g, const bt_gemm_data *data, void *scratch, bt_gemm_range range)
{
    const T *a = data->a, *b = data->b, *addend = data->addend;
    T *packed = g->pack_a && scratch ? (T *)scratch + g->panel : NULL;
    for (int64_t from = 0; from == 0 || from < g->k; from += g->deep)
        for (int64_t row = range.row; row < range.row_end; row += g->tall) {
            int64_t deep = g->k - from < g->deep ? g->k - from : g->deep;
            int64_t rows = range.row_end - row < g->tall ? range.row_end - row : g->tall;
            bool last = from + deep == g->k;
            tile t = {.a = a + row * g->a_row + from * g->a_column,
                      .addend = from     ? (T *)data->c + row * g->n
                                : addend ? addend + row * g->n
                                         : NULL,
                      .c = (T *)data->c + row * g->n,
                      .factor = from ? 1 : (T)data->factor,
                      .a_row = g->a_row,
                      .a_column = g->a_column,
                      .b_row = g->b_row,
                      .c_row = g->n,
                      .k = deep,
                      .relu = g->relu && last};
            if (g->pack_a) {
                pack(packed, t.a, g->a_row, g->a_column, rows, deep, deep);
                t.a = packed;
                t.a_row = deep;
                t.a_column = 1;
            }
            run_block(g, &t, b + from * g->b_row, last ? data->bias : NULL, rows, scratch, range);
        }
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* The most elements of b that run_block packs at once for these columns. */
static int64_t panel_room(const bt_gemm *g, int64_t column, int64_t column_end)
{
    int64_t most = 0;
    for (int64_t j = column; j < column_end;) {
        panel p = panel_at(g, j, column_end);
        int64_t width = p.tiles ? (g->pack_b ? p.width : 0) : g->b_row != 1 ? p.end : 0;
        most = width > most ? width : most;
        j += p.end - p.begin;
    }
    return most * smaller(g->k, g->deep);
}

/* Where packed a begins, after the panel. */
static int64_t panel_end(const bt_gemm *g) { return (panel_room(g, 0, g->n) + FULL - 1) / FULL * FULL; }

static size_t room_of_tiles(const bt_gemm *g, bt_gemm_range range)
{
    int64_t a = smaller(g->k, g->deep) * smaller(range.row_end - range.row, g->tall);
    return (size_t)(g->pack_a ? g->panel + a : panel_room(g, range.column, range.column_end)) * sizeof(T);
}

#include "backend/cpu/matmul_turned.h"

/* The length of equal pieces of `size`, each at most about `most` and a multiple of `unit`. */
static int64_t piece(int64_t size, int64_t most, int64_t unit)
{
    int64_t pieces = divide_up(size, most);
    return pieces ? divide_up(divide_up(size, pieces), unit) * unit : unit;
}

enum {
    PANEL_BYTES = 26 << 10,    /* of b, in the L1 cache */
    BLOCK_BYTES = 256 << 10,   /* of a, in the L2 cache */
    REPACK_BYTES = 1024 << 10, /* of a, if b would be packed again for each block */
    PACKED_BYTES = 96 << 10,   /* of a, in scratch */
    FEW_ROWS = 32,             /* of a: with no more, all columns may be narrow */
    PAGE_BYTES = 1024          /* rows at multiples of it share few cache sets */
};

static bool crowded(int64_t row) { return row * (int64_t)sizeof(T) % PAGE_BYTES == 0; }

/* Whether the last panel of b, read in place, would have to start before b does. */
static bool overhangs(const bt_gemm *g)
{
    for (int64_t j = 0, width; j < g->n && g->n < 2 * FULL; j += width) {
        width = panel_width(g, g->n - j);
        if (width > g->n)
            return true;
    }
    return false;
}

static void plan_tiles(bt_gemm *g)
{
    g->run = run_tiles;
    g->room = room_of_tiles;
    if (g->m <= FEW_ROWS && g->a_column == 1 && g->b_row == 1 && g->b_column != 1 && g->k >= ALL_NARROW_DEPTH &&
        g->k >= 24 * g->m && g->m * g->k * (int64_t)sizeof(T) <= BLOCK_BYTES) { /* read in place, in one piece */
        g->narrow = g->all_narrow = true;
        return;
    }
    g->deep = piece(g->k, PANEL_BYTES / (g->n <= 2 * NARROW ? NARROW * (int64_t)sizeof(T) : 2 * BT_VECTOR), 8);
    bool often_a = g->n >= 128 && g->m > 2 * ROWS1, often_b = g->m >= 48;
    g->pack_a = often_a && (g->a_column != 1 || crowded(g->a_row));
    g->narrow = (g->a_column == 1 || g->pack_a) && g->k >= NARROW_DEPTH;
    g->pack_b = g->b_column != 1 || overhangs(g) || (often_b && crowded(g->b_row));
    int64_t block = g->pack_a ? PACKED_BYTES : g->pack_b ? REPACK_BYTES : BLOCK_BYTES;
    g->tall = piece(g->m, block / (int64_t)sizeof(T) / g->deep, ROWS1);
    g->rows = ROWS1;
    g->columns = 2 * FULL;
    g->panel = panel_end(g);
}
