/* backend/cpu/matmul_vector.h: the products of matmul_template.h in which m, n or k is 1: matrix times vector, and
 * column times row. The matrix is m [rows, k]; strides count elements. */

typedef struct vector_args {
    const T *m, *x;
    T *y;
    int64_t m_row, m_column, k;
} vector_args;

/* Up to four contiguous rows of m. Each is summed in two vectors, in the same order for every row. A partial vector at
 * the end of k goes to the second sum. */
BT_INLINE void along_rows(int rows, const vector_args *v, int64_t row)
{
    const T *m = v->m + row * v->m_row, *x = v->x;
    FULL_V sum[4][2];
    int64_t p = 0, k = v->k, m_row = v->m_row;
    BT_UNROLL(4)
    for (int i = 0; i < 4; i++)
        sum[i][0] = sum[i][1] = (FULL_V){0};
    for (; p + 2 * FULL <= k; p += 2 * FULL) {
        FULL_V x0 = FULL_F(load)(x + p), x1 = FULL_F(load)(x + p + FULL);
        BT_UNROLL(4)
        for (int i = 0; i < rows; i++) {
            sum[i][0] = FULL_F(fma)(FULL_F(load)(m + i * m_row + p), x0, sum[i][0]);
            sum[i][1] = FULL_F(fma)(FULL_F(load)(m + i * m_row + p + FULL), x1, sum[i][1]);
        }
    }
    if (p + FULL <= k) {
        FULL_V x0 = FULL_F(load)(x + p);
        BT_UNROLL(4)
        for (int i = 0; i < rows; i++)
            sum[i][0] = FULL_F(fma)(FULL_F(load)(m + i * m_row + p), x0, sum[i][0]);
        p += FULL;
    }
    if (p < k) {
        FULL_V x1 = FULL_F(part)(x + p, k - p);
        BT_UNROLL(4)
        for (int i = 0; i < rows; i++)
            sum[i][1] = FULL_F(fma)(FULL_F(part)(m + i * m_row + p, k - p), x1, sum[i][1]);
    }
    T all[4];
    SUM4(sum[0][0] + sum[0][1], sum[1][0] + sum[1][1], sum[2][0] + sum[2][1], sum[3][0] + sum[3][1], all);
    BT_UNROLL(4)
    for (int i = 0; i < rows; i++)
        v->y[row + i] = all[i];
}

enum { CHAIN = 64 }; /* products that are summed before their sum is added to the total */

enum { MANY = 8 }; /* vectors of columns, each with its own chain */

/* MANY vectors of contiguous columns of m: products from .. end - 1. */
static void along_columns(const vector_args *v, int64_t row, int64_t from, int64_t end)
{
    FULL_V sum[MANY];
    BT_UNROLL(8)
    for (int i = 0; i < MANY; i++)
        sum[i] = (FULL_V){0};
    for (int64_t p = from; p < end; p++) {
        const T *m = v->m + row + p * v->m_column;
        FULL_V x = FULL_F(fill)(v->x[p]);
        BT_UNROLL(8)
        for (int i = 0; i < MANY; i++)
            sum[i] = FULL_F(fma)(x, FULL_F(load)(m + i * FULL), sum[i]);
    }
    T *y = v->y + row;
    BT_UNROLL(8)
    for (int i = 0; i < MANY; i++, y += FULL)
        FULL_F(store)(y, from ? FULL_F(load)(y) + sum[i] : sum[i]);
}

/* Adds the products of `vectors` vectors of columns, the last one partial, with x[0], ..., x[chains - 1], each to its
 * own sum. half: the last one has no more than half its columns. */
BT_INLINE void add_products(int vectors, bool half, int chains, FULL_V sum[4][4], const T *m, int64_t step, const T *x,
                            int64_t last)
{
    BT_UNROLL(4)
    for (int i = 0; i < chains; i++, m += step) {
        FULL_V value = FULL_F(fill)(x[i]);
        BT_UNROLL(4)
        for (int j = 0; j + 1 < vectors; j++)
            sum[i][j] = FULL_F(fma)(value, FULL_F(load)(m + j * FULL), sum[i][j]);
        const T *rest = m + (vectors - 1) * FULL;
        FULL_V part = half ? FULL_F(half)(rest, last) : FULL_F(part)(rest, last);
        sum[i][vectors - 1] = FULL_F(fma)(value, part, sum[i][vectors - 1]);
    }
}

/* Few contiguous columns of m, all in registers. Each has `chains` sums that take turns, so that none stalls on itself.
 * They are combined after 4 CHAIN products, because sums of sums keep more digits. */
BT_INLINE void few_columns(int vectors, bool half, int chains, const vector_args *v, int64_t row, int64_t count)
{
    int64_t last = count - (vectors - 1) * FULL, step = v->m_column, p = 0;
    FULL_V all[4], sum[4][4];
    BT_UNROLL(4)
    for (int j = 0; j < vectors; j++)
        all[j] = (FULL_V){0};
    while (p < v->k) {
        int64_t end = v->k - p < 4 * CHAIN ? v->k : p + 4 * CHAIN;
        BT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            BT_UNROLL(4)
            for (int j = 0; j < vectors; j++)
                sum[i][j] = (FULL_V){0};
        }
        for (; p + chains <= end; p += chains)
            add_products(vectors, half, chains, sum, v->m + row + p * step, step, v->x + p, last);
        for (; p < end; p++)
            add_products(vectors, half, 1, sum, v->m + row + p * step, step, v->x + p, last);
        BT_UNROLL(4)
        for (int j = 0; j < vectors; j++)
            all[j] += chains == 4 ? (sum[0][j] + sum[1][j]) + (sum[2][j] + sum[3][j]) : sum[0][j] + sum[1][j];
    }
    T *y = v->y + row;
    BT_UNROLL(4)
    for (int j = 0; j + 1 < vectors; j++, y += FULL)
        FULL_F(store)(y, all[j]);
    FULL_F(store_part)(y, all[vectors - 1], last);
}

BT_INLINE void few_of(bool half, const vector_args *v, int64_t row, int64_t count)
{
    if (count > 3 * FULL)
        few_columns(4, half, 2, v, row, count);
    else if (count > 2 * FULL)
        few_columns(3, half, 2, v, row, count);
    else if (count > FULL)
        few_columns(2, half, 4, v, row, count);
    else
        few_columns(1, half, 4, v, row, count);
}

/* Whether the last of `count` numbers fill no more than half a vector, which is read faster than a whole one. */
static bool few_left(int64_t count) { return BT_VECTOR == 64 && count % FULL && count % FULL <= FULL / 2; }

static void all_few(const vector_args *v, int64_t row, int64_t count)
{
    if (few_left(count))
        few_of(true, v, row, count);
    else
        few_of(false, v, row, count);
}

/* Takes CHAIN products at a time, so that the rows of m stay in the L1 cache while the pieces of y pass by. The rest of
 * y, shorter than a piece, is the same however threads share it. */
static void contiguous_columns(const vector_args *v, int64_t begin, int64_t end)
{
    int64_t row, whole = end - (end - begin) % (MANY * FULL);
    for (int64_t from = 0, to; begin < whole && (from == 0 || from < v->k); from = to) {
        to = v->k - from < CHAIN ? v->k : from + CHAIN;
        for (row = begin; row < whole; row += MANY * FULL)
            along_columns(v, row, from, to);
        if (to == from)
            break; /* there is nothing to sum */
    }
    for (row = whole; row < end; row += 4 * FULL)
        all_few(v, row, end - row < 4 * FULL ? end - row : 4 * FULL);
}

/* Neither rows nor columns of m are contiguous. */
static void scattered_row(const vector_args *v, int64_t row)
{
    const T *m = v->m + row * v->m_row;
    T all = 0;
    for (int64_t p = 0, end; p < v->k; p = end) {
        T sum = 0;
        end = v->k - p < CHAIN ? v->k : p + CHAIN;
        for (int64_t i = p; i < end; i++)
            sum = FMA(m[i * v->m_column], v->x[i], sum);
        all = p ? all + sum : sum;
    }
    v->y[row] = all;
}

static void times_vector(const vector_args *v, int64_t begin, int64_t end)
{
    int64_t row = begin;
    if (v->m_column == 1) {
        for (; row + 4 <= end; row += 4)
            along_rows(4, v, row);
        for (; row < end; row++)
            along_rows(1, v, row);
        return;
    }
    if (v->m_row == 1) {
        contiguous_columns(v, begin, end);
        return;
    }
    for (; row < end; row++)
        scattered_row(v, row);
}

static void finish(T *c, int64_t count, const T *bias, int64_t bias_step, bool relu)
{
    if (bias && bias_step) {
        BT_SIMD
        for (int64_t i = 0; i < count; i++)
            c[i] += bias[i];
    } else if (bias) {
        T shift = bias[0];
        BT_SIMD
        for (int64_t i = 0; i < count; i++)
            c[i] += shift;
    }
    if (relu) {
        BT_SIMD
        for (int64_t i = 0; i < count; i++)
            c[i] = c[i] <= 0 ? 0 : c[i];
    }
}

/* The vector with stride 1: in place, or copied. */
static const T *straight(const T *x, int64_t stride, int64_t count, T *scratch)
{
    if (stride == 1)
        return x;
    for (int64_t i = 0; i < count; i++)
        scratch[i] = x[i * stride];
    return scratch;
}

static void run_column(const bt_gemm *g, const bt_gemm_data *data, void *scratch, bt_gemm_range range) /* n = 1 */
{
    vector_args v = {.m = data->a,
                     .x = straight(data->b, g->b_row, g->k, scratch),
                     .y = data->c,
                     .m_row = g->a_row,
                     .m_column = g->a_column,
                     .k = g->k};
    times_vector(&v, range.row, range.row_end);
    finish((T *)data->c + range.row, range.row_end - range.row, data->bias, 0, g->relu);
}

static void run_row(const bt_gemm *g, const bt_gemm_data *data, void *scratch, bt_gemm_range range) /* m = 1 */
{
    const T *bias = data->bias;
    vector_args v = {.m = data->b,
                     .x = straight(data->a, g->a_column, g->k, scratch),
                     .y = data->c,
                     .m_row = g->b_column,
                     .m_column = g->b_row,
                     .k = g->k};
    times_vector(&v, range.column, range.column_end);
    finish((T *)data->c + range.column, range.column_end - range.column, bias ? bias + range.column : NULL, 1, g->relu);
}

static void run_outer(const bt_gemm *g, const bt_gemm_data *data, void *scratch, bt_gemm_range range) /* k = 1 */
{
    const T *right = straight(data->b, g->b_column, g->n, scratch), *shift = data->bias, *left = data->a;
    int64_t n = g->n;
    for (int64_t i = range.row; i < range.row_end; i++) {
        T x = left[i * g->a_row], *to = (T *)data->c + i * n;
        if (shift) {
            BT_SIMD
            for (int64_t j = range.column; j < range.column_end; j++)
                to[j] = FMA(x, right[j], shift[j]);
        } else {
            BT_SIMD
            for (int64_t j = range.column; j < range.column_end; j++)
                to[j] = x * right[j];
        }
        if (g->relu)
            finish(to + range.column, range.column_end - range.column, NULL, 0, true);
    }
}

static size_t room_of_column(const bt_gemm *g, bt_gemm_range range)
{
    (void)range;
    return g->b_row == 1 ? 0 : (size_t)g->k * sizeof(T);
}

static size_t room_of_row(const bt_gemm *g, bt_gemm_range range)
{
    (void)range;
    return g->a_column == 1 ? 0 : (size_t)g->k * sizeof(T);
}

static size_t room_of_outer(const bt_gemm *g, bt_gemm_range range)
{
    (void)range;
    return g->b_column == 1 ? 0 : (size_t)g->n * sizeof(T);
}

void GEMM_PLAN(bt_gemm *g)
{
    g->deep = g->k;
    g->tall = g->m;
    g->rows = g->columns = 8 * FULL;
    if (g->n > 1 && g->m > 1 && g->k > 1 && may_turn(g)) {
        plan_turned(g);
    } else if (g->adds) {
        plan_tiles(g);
    } else if (g->n == 1 && (g->m > 1 || g->a_column == 1)) {
        g->run = run_column;
        g->room = room_of_column;
    } else if (g->m == 1) {
        g->run = run_row;
        g->room = room_of_row;
    } else if (g->k == 1) {
        g->run = run_outer;
        g->room = room_of_outer;
    } else {
        plan_tiles(g);
    }
}
