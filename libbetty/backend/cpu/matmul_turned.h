/* backend/cpu/matmul_turned.h: matmul_template.h's product where c has few columns and a's columns are contiguous:
 * c' = b' a' instead, block by block in scratch, whose tiles have whole vectors along c's rows, and is turned then. g
 * is planned for c' [n, m]; a range's columns are c's rows. */

enum { TURNED = 8 * FULL }; /* rows of c in a block, or up to half as many more in the last one */

/* `count` rows of c, with what is added to their sums. */
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
    enum { MOST = TURNED + TURNED / 2, SPARE = 2 * FULL }; /* the last panel may begin before the block does */
    bt_gemm block = *g;
    T *from = (T *)scratch + SPARE, *to = from + g->m * MOST, *rest = to + g->m * MOST;
    bool plain = !data->bias && !data->addend && !g->relu;
    block.n = MOST;
    block.relu = false;
    for (int64_t row = range.column, count; row < range.column_end; row += count) {
        count = range.column_end - row <= MOST ? range.column_end - row : TURNED;
        bt_gemm_data part = {.a = data->b, .b = (const T *)data->a + row, .c = from};
        T *c = plain ? (T *)data->c + row * g->m : to;
        run_tiles(&block, &part, rest, (bt_gemm_range){0, g->m, 0, count});
        TURN_ALL(from, MOST, c, g->m, g->m, count);
        if (!plain)
            finish_rows(g, data, to, row, count);
    }
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
    turned.a_batch = g->b_batch;
    turned.a_row = g->b_column;
    turned.a_column = g->b_row;
    turned.b_batch = g->a_batch;
    turned.b_row = g->a_column;
    turned.b_column = g->a_row;
    plan_tiles(&turned);
    turned.narrow = false;
    turned.turned = true;
    turned.run = run_turned;
    turned.columns = TURNED;
    turned.scratch += (size_t)(2 * FULL + 2 * turned.m * (TURNED + TURNED / 2)) * sizeof(T);
    *g = turned;
}
