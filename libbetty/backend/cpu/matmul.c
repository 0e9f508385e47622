/* backend/cpu/matmul.c: dot, dot_add and linear with the blocked product. */
#include "backend/cpu/matmul.h"

#include "backend/cpu/vector.h"

typedef struct plan {
    bt_gemm gemm;
    int threads; /* cut along: */
    enum { BATCH, ROWS, COLUMNS } cut;
    int64_t part; /* batches, rows or columns per thread, except the last */
    bt_gemm_range whole;
    size_t own, scratch; /* bytes: from one thread's scratch to the next; of all */
} plan;

/* The stride of an axis of size 1 is free: it is set to one that helps. */
static bt_gemm shape_of(const bt_call *call)
{
    const bt_view *a = &call->in[0], *b = &call->in[1];
    bool linear = call->op == &bt_op_linear;
    int row = a->rank - 2, column = row + 1, b_row = linear ? 1 : row, b_column = linear ? 0 : column;
    bt_gemm gemm = {.batch = 1,
                    .m = a->dims[row],
                    .k = a->dims[column],
                    .n = b->dims[b_column],
                    .a_row = a->strides[row],
                    .a_column = a->strides[column],
                    .b_row = b->strides[b_row],
                    .b_column = b->strides[b_column],
                    .relu = linear && ((const bt_linear_attr *)call->attr)->activation,
                    .adds = call->op == &bt_op_dot_add,
                    .shifts = linear && call->inputs > 2};
    for (int i = 0; i < row; i++)
        gemm.batch *= a->dims[i];
    if (gemm.k == 1)
        gemm.a_column = gemm.b_row = 1;
    if (gemm.n == 1)
        gemm.b_column = 1;
    if (gemm.m == 1)
        gemm.a_row = 1;
    return gemm;
}

static bt_gemm gemm_of(const bt_call *call)
{
    bt_gemm gemm = shape_of(call);
    if (call->out[0].dtype == BT_F32)
        BT_ISA(bt_gemm_plan_f32)(&gemm);
    else
        BT_ISA(bt_gemm_plan_f64)(&gemm);
    return gemm;
}

enum { TINY = 4 * 4 * 4, SHORT = 512 };

/* Shapes for which wider vectors take more time: tiny products; a column times a row, which only stores; a vector times
 * columns that fill half a vector or one and a half; and a vector times rows, unless they are so long that the sums
 * across vectors do not matter. */
static bool left_to_narrower(const bt_call *call)
{
    enum { HALF_BYTES = BT_VECTOR / 2 };
    bt_gemm g = shape_of(call);
    if (BT_VECTOR > 16 && g.m * g.n * g.k <= TINY)
        return true;
    int64_t lanes = g.n == 1 ? g.m : g.n, bytes = lanes * (int64_t)bt_dtype_size(call->out[0].dtype);
    if (BT_VECTOR < 64 || (g.m > 1 && g.n > 1))
        return BT_VECTOR == 64 && g.k == 1;
    bool rows = g.n == 1 ? g.a_column == 1 : g.b_row == 1, columns = g.n == 1 ? g.a_row == 1 : g.b_column == 1;
    return rows ? g.k <= SHORT : columns && (bytes <= HALF_BYTES || bytes == 3 * HALF_BYTES);
}

static bool floats(const bt_call *call)
{
    return bt_dtype_floats(call->out[0].dtype) && bt_cpu_same_dtypes(call, 0, call->inputs - 1);
}

static bool dot_accepts(const bt_call *call) { return floats(call) && !left_to_narrower(call); }

static bool linear_accepts(const bt_call *call)
{
    return dot_accepts(call) && (call->inputs < 3 || call->in[2].strides[0] == 1 || call->in[2].dims[0] == 1);
}

/* Whether the addend is laid out like the result. */
static bool adding_accepts(const bt_call *call)
{
    const bt_view *c = &call->in[2];
    return floats(call) && (c->dims[1] < 2 || c->strides[1] == 1) && (c->dims[0] < 2 || c->strides[0] == c->dims[1]);
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The thread's part of each matrix. */
static bt_gemm_range range_of(const plan *p, int thread)
{
    bt_gemm_range range = p->whole;
    int64_t from = thread * p->part, to = from + p->part;
    if (p->threads > 1 && p->cut == ROWS) {
        range.row = from;
        range.row_end = to < range.row_end ? to : range.row_end;
    } else if (p->threads > 1 && p->cut == COLUMNS) {
        range.column = from;
        range.column_end = to < range.column_end ? to : range.column_end;
    }
    return range;
}

static size_t room_of(const plan *p, int thread)
{
    const bt_gemm *g = &p->gemm;
    return g->batch && g->m && g->n ? g->room(g, range_of(p, thread)) : 0;
}

/* The scratch ends with the last byte that the last thread with scratch writes. */
static void find_scratch(plan *p)
{
    for (int t = 0; t < p->threads; t++) {
        size_t room = bt_align_up(room_of(p, t));
        p->own = room > p->own ? room : p->own;
    }
    for (int t = p->threads - 1; t >= 0 && p->own && !p->scratch; t--)
        p->scratch = room_of(p, t) ? (size_t)t * p->own + room_of(p, t) : 0;
}

/* Cuts the work between threads along the axis where the largest part is smallest, if there is enough work. */
static void cut(plan *p, int64_t threads)
{
    const bt_gemm *g = &p->gemm;
    double products = (double)g->batch * (double)g->m * (double)g->n * (double)g->k;
    if (threads < 2 || products < 1.5e6)
        return;
    int64_t sizes[] = {g->batch, g->m, g->n}, units[] = {1, g->rows, g->columns};
    double best = 0.8; /* a smaller gain is not worth it */
    for (int cut = BATCH; cut <= COLUMNS; cut++) {
        int64_t part = divide_up(divide_up(sizes[cut], units[cut]), threads) * units[cut];
        double share = (double)part / (double)sizes[cut] + (cut == ROWS && g->pack_b ? 0.03 : 0);
        if (share < best) {
            best = share;
            p->cut = cut == BATCH ? BATCH : cut == ROWS ? ROWS : COLUMNS;
            p->part = part;
            p->threads = (int)divide_up(sizes[cut], part);
        }
    }
}

static plan plan_of(const bt_call *call)
{
    plan p = {.gemm = gemm_of(call), .threads = 1, .cut = ROWS};
    p.whole = (bt_gemm_range){0, p.gemm.m, 0, p.gemm.n};
    p.part = p.gemm.m;
    cut(&p, call->threads);
    find_scratch(&p);
    return p;
}

static size_t scratch(const bt_call *call) { return plan_of(call).scratch; }

static bt_status prepare(bt_call *call)
{
    plan *p = bt_alloc(sizeof *p);
    if (!p)
        return BT_ERROR_MEMORY;
    *p = plan_of(call);
    call->state = p;
    return BT_OK;
}

static void release(bt_call *call)
{
    bt_free(call->state);
    call->state = NULL;
}

static void run_part(const void *work, int thread, int threads)
{
    const bt_call *call = work;
    const plan *p = call->state;
    const bt_gemm *g = &p->gemm;
    int64_t size = (int64_t)bt_dtype_size(call->out[0].dtype), from = thread * p->part, to = from + p->part;
    int64_t batch = 0, batch_end = g->batch;
    if (threads > 1 && p->cut == BATCH) {
        batch = from;
        batch_end = to < batch_end ? to : batch_end;
    }
    bt_gemm_data data = {.factor = 0};
    if (g->adds) {
        data.addend = call->in[2].data;
        data.factor = bt_cpu_get(&call->in[3], 0);
    } else if (call->inputs > 2) {
        data.bias = call->in[2].data;
    }
    char *own = call->scratch ? (char *)call->scratch + (size_t)thread * p->own : NULL;
    for (; batch < batch_end; batch++) {
        data.a = bt_cpu_matrix(&call->in[0], batch);
        data.b = bt_cpu_matrix(&call->in[1], batch);
        data.c = call->out[0].data + batch * g->m * g->n * size;
        g->run(g, &data, own, range_of(p, thread));
    }
}

static bt_status launch(const bt_call *call)
{
    const plan *p = call->state;
    if (bt_cpu_count(&call->out[0]))
        bt_team_do(run_part, call, p->threads);
    return BT_OK;
}

const bt_kernel_impl BT_ISA(bt_cpu_matmul)[] = {
    {&bt_op_dot, "dot.blocked", dot_accepts, scratch, prepare, launch, release, false, false},
    {&bt_op_dot_add, "dot_add.blocked", adding_accepts, scratch, prepare, launch, release, false, false},
    {&bt_op_linear, "linear.blocked", linear_accepts, scratch, prepare, launch, release, false, false},
    {.op = NULL},
};
