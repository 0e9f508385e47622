/* backend/cpu/matmul_turned.h: matmul_template.h's product if c has few columns and a's columns are contiguous. It
 * computes c' = b' a' in scratch, block by block, where tiles have whole vectors along c's rows, and transposes each
 * block into c. g is planned for c' [n, m]; a range's columns are c's rows. */

enum {
    TURNED = 8 * FULL,          /* rows of c in a block, */
    MOST = TURNED + TURNED / 2, /* or up to half as many more in the last one */
    SPARE = 2 * FULL            /* the last panel may begin before the block does */
};

static int64_t rows_of_block(int64_t left) { return left <= MOST ? left : TURNED; }

/* The height of the tallest block when `rows` rows are cut into blocks. */
static int64_t tallest(int64_t rows)
{
    int64_t most = 0;
    for (int64_t count; rows > 0; rows -= count) {
        count = rows_of_block(rows);
        most = count > most ? count : most;
    }
    return most;
}

static bool stores_plainly(const bt_gemm *g) { return !g->shifts && !g->adds && !g->relu; }

/* Stores `count` rows of c after adding the addend and bias and applying relu. */
static void finish_rows(const bt_gemm *g, const bt_gemm_data *data, const T *sums, int64_t row, int64_t count)
{
    tile t = {.bias = data->bias,
              .addend = data->addend ? (const T *)data->addend + row * g->m : NULL,
              .c = (T *)data->c + row * g->m,
              .factor = (T)data->factor,
              .c_row = g->m,
              .end = g->m,
              .relu = g->relu};
    store_edge(&t, sums, (int)count, (int)g->m, t.c);
}

static void run_turned(const bt_gemm *g, const bt_gemm_data *data, void *scratch, bt_gemm_range range)
{
    const bool plain = stores_plainly(g);
    bt_gemm block = *g;
    T *from = (T *)scratch + SPARE, *to = from + g->m * MOST;
    T *rest = to + (plain ? 0 : g->m * tallest(range.column_end - range.column));
    block.n = MOST;
    block.relu = false;
    for (int64_t row = range.column, count; row < range.column_end; row += count) {
        count = rows_of_block(range.column_end - row);
        bt_gemm_data part = {.a = data->b, .b = (const T *)data->a + row, .c = from};
        T *c = plain ? (T *)data->c + row * g->m : to;
        run_tiles(&block, &part, rest, (bt_gemm_range){0, g->m, 0, count});
        TURN_ALL(from, MOST, c, g->m, g->m, count);
        if (!plain)
            finish_rows(g, data, to, row, count);
    }
}

/* Room for the block's product, for its transposed sums, and for what run_tiles packs. */
static size_t room_of_turned(const bt_gemm *g, bt_gemm_range range)
{
    size_t rest = 0;
    int64_t rows = range.column_end - range.column, tall = tallest(rows), sums = stores_plainly(g) ? 0 : g->m * tall;
    for (int64_t count; rows > 0; rows -= count) {
        count = rows_of_block(rows);
        size_t room = room_of_tiles(g, (bt_gemm_range){0, g->m, 0, count});
        rest = room > rest ? room : rest;
    }
    int64_t product = sums || rest ? g->m * MOST : (g->m - 1) * MOST + tall;
    return (size_t)(SPARE + product + sums) * sizeof(T) + rest;
}

static void plan_tiles(bt_gemm *g);

static bool may_turn(const bt_gemm *g)
{
    return g->a_row == 1 && g->a_column != 1 && g->n <= ROWS1 && g->n % FULL && g->m >= 4 * FULL;
}

static void plan_turned(bt_gemm *g)
{
    bt_gemm turned = *g;
    turned.m = g->n;
    turned.n = g->m;
    turned.a_row = g->b_column;
    turned.a_column = g->b_row;
    turned.b_row = g->a_column;
    turned.b_column = g->a_row;
    plan_tiles(&turned);
    turned.narrow = false;
    turned.turned = true;
    turned.panel = panel_end(&turned);
    turned.run = run_turned;
    turned.room = room_of_turned;
    turned.columns = TURNED;
    *g = turned;
}
