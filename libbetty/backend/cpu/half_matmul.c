/* backend/cpu/half_matmul.c: dot, dot_add and linear of bf16 numbers, with the products of pairs.h.
 *
 * c is computed in blocks, whose f32 sums stay in scratch until the last piece of k. The rows of a for a block are read
 * in place or packed. The columns of b for a block are packed once for all blocks of the same columns, or for each
 * block if there are several pieces of k. */
#include "backend/cpu/half_pack.h"

enum {
    ACROSS = 128, /* most columns of a block */
    DEEP = 1024,  /* of a piece of k: even, like ACROSS */
    SUMS = 16384, /* sums of a block */
    STEP = 2 * BT_PAIRS_DEEP,
    WORTH = 16 /* rows, columns, products per sum: fewer would leave tiles empty */
};

typedef struct plan {
    int64_t batch, m, n, k;
    int64_t a_row, a_column, b_row, b_column;
    bool in_place;                     /* a's rows are read in place */
    int64_t rows, columns, deep, step; /* of a block; of a piece of k; see bt_pairs */
    int64_t down, along;               /* blocks per matrix */
    int threads;
    size_t some, a, b, own, scratch; /* bytes */
} plan;

typedef struct worker {
    uint16_t *some, *a, *b;
    float *sums, bias[ACROSS];
    int64_t matrix, column; /* whose columns are packed; -1: none */
} worker;

typedef struct block {
    int64_t matrix, row, rows, column, columns;
} block;

static int64_t up(int64_t a, int64_t unit) { return (a + unit - 1) / unit * unit; }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- planning ---- */

static plan shape_of(const bt_call *call)
{
    const bt_view *a = &call->in[0], *b = &call->in[1];
    const bool linear = call->op == &bt_op_linear;
    const int row = a->rank - 2, column = row + 1, b_row = linear ? 1 : row, b_column = linear ? 0 : column;
    plan p = {.batch = 1,
              .m = a->dims[row],
              .k = a->dims[column],
              .n = b->dims[b_column],
              .a_row = a->strides[row],
              .a_column = a->strides[column],
              .b_row = b->strides[b_row],
              .b_column = b->strides[b_column]};
    for (int i = 0; i < row; i++)
        p.batch *= a->dims[i];
    return p;
}

static block block_of(const plan *p, int64_t unit)
{
    const int64_t in_matrix = unit % (p->down * p->along);
    block c = {.matrix = unit / (p->down * p->along)};
    c.column = in_matrix / p->down * p->columns;
    c.row = in_matrix % p->down * p->rows;
    c.columns = smaller(p->columns, p->n - c.column);
    c.rows = smaller(p->rows, p->m - c.row);
    return c;
}

static int64_t first_unit(const plan *p, int64_t thread) { return p->batch * p->down * p->along * thread / p->threads; }

/* Each thread's sums come last; the last thread has room for no more than it needs. */
static void lay_out(plan *p)
{
    int64_t last = 0;
    for (int64_t unit = first_unit(p, p->threads - 1); unit < p->batch * p->down * p->along; unit++) {
        const block c = block_of(p, unit);
        const int64_t sums = c.rows * bt_pairs_across(c.columns);
        last = sums > last ? sums : last;
    }
    p->some = bt_align_up((size_t)(BT_PAIRS_DEEP * bt_pairs_across(p->rows)) * 4);
    p->a = p->in_place ? 0 : bt_align_up((size_t)(p->rows * p->deep) * 2);
    p->b = bt_align_up((size_t)(p->deep * bt_pairs_across(p->columns)) * 2);
    const size_t before = p->some + p->a + p->b;
    p->own = before + bt_align_up((size_t)(p->rows * bt_pairs_across(p->columns)) * sizeof(float));
    p->scratch = (size_t)(p->threads - 1) * p->own + before + (size_t)last * sizeof(float);
}

static plan plan_of(const bt_call *call)
{
    plan p = shape_of(call);
    const int64_t pairs = p.k / 2;
    p.in_place = p.a_column == 1 && p.k % 2 == 0 && p.k <= DEEP && bt_pairs_deep(pairs) >= BT_PAIRS_DEEP / 2;
    p.columns = smaller(p.n, ACROSS);
    p.deep = p.in_place ? p.k : smaller(up(p.k, STEP), DEEP);
    p.step = p.in_place ? bt_pairs_deep(pairs) : BT_PAIRS_DEEP;
    const int64_t most = smaller(SUMS / bt_pairs_across(p.columns), 256), pieces = (p.m + most - 1) / most;
    p.rows = smaller(up((p.m + pieces - 1) / pieces, 16), p.m);
    p.down = (p.m + p.rows - 1) / p.rows;
    p.along = (p.n + p.columns - 1) / p.columns;
    const double products = (double)p.batch * (double)p.m * (double)p.n * (double)p.k;
    p.threads = products < 1e7 ? 1 : (int)smaller(call->threads, p.batch * p.down * p.along);
    lay_out(&p);
    return p;
}

/* Whether the addend is laid out like the result. */
static bool adds_well(const bt_call *call)
{
    const bt_view *c = &call->in[2];
    return call->out[0].dtype == BT_F32 && c->dtype == BT_F32 && (c->dims[1] < 2 || c->strides[1] == 1) &&
           (c->dims[0] < 2 || c->strides[0] == c->dims[1]);
}

static bool accepts(const bt_call *call)
{
    const bt_dtype to = call->out[0].dtype;
    if (call->in[0].dtype != BT_BF16 || call->in[1].dtype != BT_BF16 || (to != BT_BF16 && to != BT_F32))
        return false;
    const plan p = shape_of(call);
    return p.batch > 0 && p.m >= WORTH && p.n >= WORTH && p.k >= WORTH &&
           (call->op != &bt_op_dot_add || adds_well(call));
}

static size_t scratch(const bt_call *call) { return plan_of(call).scratch; }

static bt_status prepare(bt_call *call)
{
    plan *p = call->state = bt_alloc(sizeof *p);
    if (!p)
        return BT_ERROR_MEMORY;
    *p = plan_of(call);
    return BT_OK;
}

static void release(bt_call *call)
{
    bt_free(call->state);
    call->state = NULL;
}

/* ---- packing ---- */

/* Packs x [rows, deep] so that its rows are contiguous along k, padded with zeros to `to_row` numbers each. */
static void pack_rows(const uint16_t *x, int64_t row, int64_t column, int64_t rows, int64_t deep, uint16_t *some,
                      uint16_t *to, int64_t to_row)
{
    const int64_t across = bt_pairs_across(rows);
    if (row == 1 && column != 1) { /* contiguous columns: their pairs are transposed */
        for (int64_t k = 0; k < to_row; k += STEP) {
            for (int64_t j = 0; j < STEP; j += 2)
                bt_half_zip(x, k + j < deep ? (k + j) * column : -1, k + j + 1 < deep ? (k + j + 1) * column : -1, rows,
                            some + j * across, across);
            bt_turn_all4((const float *)(const void *)some, across, (float *)(void *)(to + k), to_row / 2,
                         BT_PAIRS_DEEP, rows);
        }
        return;
    }
    for (int64_t i = 0; i < rows; i++, to += to_row) {
        for (int64_t k = 0; k < deep && column != 1; k++)
            to[k] = x[i * row + k * column];
        if (column == 1)
            memcpy(to, x + i * row, (size_t)deep * 2);
        memset(to + deep, 0, (size_t)(to_row - deep) * 2);
    }
}

/* Packs one panel of b [deep, columns], padded with zeros to `held` numbers along k and `across` columns. */
static void pack_panel(const plan *p, const uint16_t *b, int64_t deep, int64_t held, int64_t columns, int64_t across,
                       uint16_t *to)
{
    const int64_t row = p->b_row, column = p->b_column;
    if (column == 1) {
        for (int64_t k = 0; k < held; k += 2, to += 2 * across)
            bt_half_zip(b, k < deep ? k * row : -1, k + 1 < deep ? (k + 1) * row : -1, columns, to, across);
        return;
    }
    const int64_t whole = row == 1 && column % 2 == 0 ? deep / 2 : 0; /* pairs that can be transposed directly */
    if (columns < across || whole < held / 2)
        memset(to, 0, (size_t)(held * across) * 2);
    if (whole)
        bt_turn_all4((const float *)(const void *)b, column / 2, (float *)(void *)to, across, columns, whole);
    for (int64_t k = 2 * whole; k < deep; k++)
        for (int64_t j = 0; j < columns; j++)
            to[k / 2 * 2 * across + 2 * j + k % 2] = b[k * row + j * column];
}

static void pack_columns(const plan *p, const uint16_t *b, int64_t deep, int64_t held, int64_t columns, uint16_t *to)
{
    const int64_t across = bt_pairs_across(columns);
    for (int64_t j = 0; j < across; j += BT_PAIRS_COLUMNS) {
        const int64_t width = smaller(across - j, BT_PAIRS_COLUMNS);
        pack_panel(p, b + j * p->b_column, deep, held, smaller(columns - j, width), width, to);
        to += held * width;
    }
}

/* ---- running ---- */

/* Finishes the sums of a row and stores them. */
static void store_row(const bt_call *call, const plan *p, const block *c, const float *bias, float *sums, int64_t i)
{
    const int64_t at = (c->matrix * p->m + c->row + i) * p->n + c->column;
    const bt_view *x = &call->in[2];
    const bool adds = call->op == &bt_op_dot_add;
    if (adds) {
        const float *addend = (const float *)(const void *)x->data + at, factor = (float)bt_cpu_get(&call->in[3], 0);
        BT_SIMD
        for (int64_t j = 0; j < c->columns; j++)
            sums[j] = bt_f32_fma(factor, addend[j], sums[j]);
    } else if (call->inputs > 2) {
        BT_SIMD
        for (int64_t j = 0; j < c->columns; j++)
            sums[j] += bias[j];
    }
    if (call->op == &bt_op_linear && ((const bt_linear_attr *)call->attr)->activation) {
        BT_SIMD
        for (int64_t j = 0; j < c->columns; j++)
            sums[j] = sums[j] <= 0 ? 0 : sums[j];
    }
    bt_half_store(call->out[0].dtype, c->columns, sums,
                  call->out[0].data + at * (int64_t)bt_dtype_size(call->out[0].dtype));
}

static void run_block(const bt_call *call, const plan *p, const block *c, worker *w)
{
    const uint16_t *a = (const void *)bt_cpu_matrix(&call->in[0], c->matrix),
                   *b = (const void *)bt_cpu_matrix(&call->in[1], c->matrix);
    a += c->row * p->a_row;
    b += c->column * p->b_column;
    const int64_t across = bt_pairs_across(c->columns);
    for (int64_t from = 0; from < p->k; from += p->deep) {
        const int64_t deep = smaller(p->deep, p->k - from), held = p->in_place ? deep : up(deep, STEP);
        if (!p->in_place)
            pack_rows(a + from * p->a_column, p->a_row, p->a_column, c->rows, deep, w->some, w->a, held);
        if (p->deep < p->k || w->matrix != c->matrix || w->column != c->column)
            pack_columns(p, b + from * p->b_row, deep, held, c->columns, w->b);
        BT_ISA(bt_pairs_run)
        (&(bt_pairs){.a = p->in_place ? a : w->a,
                     .b = w->b,
                     .c = w->sums,
                     .rows = c->rows,
                     .a_row = p->in_place ? p->a_row : held,
                     .c_row = across,
                     .columns = across,
                     .runs = 1,
                     .pairs = held / 2,
                     .deep = p->step,
                     .adds = from > 0});
    }
    w->matrix = c->matrix;
    w->column = c->column;
    for (int64_t j = 0; j < c->columns && call->op == &bt_op_linear && call->inputs > 2; j++)
        w->bias[j] = (float)bt_cpu_get(&call->in[2], c->column + j);
    for (int64_t i = 0; i < c->rows; i++)
        store_row(call, p, c, w->bias, w->sums + i * across, i);
}

static void share(const void *work, int thread, int threads)
{
    const bt_call *call = work;
    const plan *p = call->state;
    (void)threads;
    char *own = (char *)call->scratch + (size_t)thread * p->own;
    worker w = {.some = (void *)own, .a = (void *)(own + p->some), .matrix = -1};
    w.b = (void *)(own + p->some + p->a);
    w.sums = (void *)(own + p->some + p->a + p->b);
    for (int64_t unit = first_unit(p, thread); unit < first_unit(p, thread + 1); unit++) {
        const block c = block_of(p, unit);
        run_block(call, p, &c, &w);
    }
}

static bt_status launch(const bt_call *call)
{
    bt_team_do(share, call, ((const plan *)call->state)->threads);
    return BT_OK;
}

const bt_kernel_impl BT_ISA(bt_cpu_half_matmul)[] = {
    {&bt_op_dot, "dot.pairs", accepts, scratch, prepare, launch, release, false, true},
    {&bt_op_dot_add, "dot_add.pairs", accepts, scratch, prepare, launch, release, false, true},
    {&bt_op_linear, "linear.pairs", accepts, scratch, prepare, launch, release, false, true},
    {.op = NULL},
};
