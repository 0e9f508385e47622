/* backend/cpu/reduce.c: sum, max, argmax and norm_square of f32 and f64. The sum of one output always has the same
 * pieces in the same order, for any number of threads. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/row.h"

/* The reduced axes as rows: the innermost axis, of n elements, and the others, of `rows`. */
typedef struct reduction {
    bt_view kept, outer; /* the output's elements; the rows of one of them */
    int64_t outputs, rows, n, stride, size;
    bool by_columns;       /* kept's innermost axis is contiguous: its elements are reduced side by side */
    int64_t width, groups; /* by columns: the size of that axis; how many such axes there are */
    int threads;
    double (*row)(const void *row, int64_t n, int64_t stride); /* the sum or maximum of a row */
} reduction;

typedef struct columns { /* rows that are reduced side by side */
    const char *data;
    const reduction *r;
    int64_t rows;
} columns;

enum { COLUMNS = 128, CHAIN = 16 }; /* columns side by side; f32 additions in a chain */

/* A row of `columns`, counted over the outer axes and the innermost. */
static const char *row_at(const columns *c, int64_t row)
{
    const reduction *r = c->r;
    int64_t outer = r->rows == 1 ? 0 : bt_cpu_offset(&r->outer, row / r->n);
    return c->data + (outer + (r->rows == 1 ? row : row % r->n) * r->stride) * r->size;
}

/* Adds the sums of up to four vectors of columns to `total`; they stay in registers for CHAIN rows. The last vector has
 * `left` columns. */
#define BY_VECTORS(type, T, V, VF)                                                                                     \
    enum { LANES_##type = sizeof(V) / sizeof(T) };                                                                     \
                                                                                                                       \
    BT_INLINE void sum_vectors_##type(const columns *c, int64_t first, int vectors, int64_t left, double *total)       \
    {                                                                                                                  \
        for (int64_t row = 0; row < c->rows;) {                                                                        \
            int64_t end = c->rows - row < CHAIN ? c->rows : row + CHAIN;                                               \
            V sum[4] = {{0}};                                                                                          \
            T part[4 * LANES_##type];                                                                                  \
            for (; row < end; row++) {                                                                                 \
                const T *x = (const T *)(const void *)row_at(c, row) + first;                                          \
                BT_UNROLL(4)                                                                                           \
                for (int k = 0; k < vectors; k++)                                                                      \
                    sum[k] += left ? VF(part)(x, left) : VF(load)(x + k * LANES_##type);                               \
            }                                                                                                          \
            BT_UNROLL(4)                                                                                               \
            for (int k = 0; k < vectors; k++)                                                                          \
                VF(store)(part + k * LANES_##type, sum[k]);                                                            \
            for (int j = 0; j < vectors * LANES_##type; j++)                                                           \
                total[j] += part[j];                                                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    static void sum_columns_##type(const columns *c, int64_t first, int64_t n, void *out)                              \
    {                                                                                                                  \
        double total[COLUMNS] = {0};                                                                                   \
        int64_t j = 0;                                                                                                 \
        for (; j + 4 * LANES_##type <= n; j += 4 * LANES_##type)                                                       \
            sum_vectors_##type(c, first + j, 4, 0, total + j);                                                         \
        for (; j + LANES_##type <= n; j += LANES_##type)                                                               \
            sum_vectors_##type(c, first + j, 1, 0, total + j);                                                         \
        if (j < n)                                                                                                     \
            sum_vectors_##type(c, first + j, 1, n - j, total + j);                                                     \
        for (j = 0; j < n; j++)                                                                                        \
            ((T *)out)[j] = (T)total[j];                                                                               \
    }
BY_VECTORS(f32, float, bt_f32w, BT_F32W)
BY_VECTORS(f64, double, bt_f64w, BT_F64W)

/* Up to COLUMNS columns of all rows. */
#define BY_COLUMNS(type, T)                                                                                            \
    static void square_columns_##type(const columns *c, int64_t first, int64_t n, void *out)                           \
    {                                                                                                                  \
        double total[COLUMNS] = {0};                                                                                   \
        for (int64_t row = 0; row < c->rows; row++) {                                                                  \
            const T *x = (const T *)(const void *)row_at(c, row) + first;                                              \
            for (int64_t j = 0; j < n; j++)                                                                            \
                total[j] += (double)x[j] * (double)x[j];                                                               \
        }                                                                                                              \
        for (int64_t j = 0; j < n; j++)                                                                                \
            ((T *)out)[j] = (T)total[j];                                                                               \
    }                                                                                                                  \
                                                                                                                       \
    static void max_columns_##type(const columns *c, int64_t first, int64_t n, void *out)                              \
    {                                                                                                                  \
        T most[COLUMNS];                                                                                               \
        for (int64_t j = 0; j < n; j++)                                                                                \
            most[j] = -(T)__builtin_inf();                                                                             \
        for (int64_t row = 0; row < c->rows; row++) {                                                                  \
            const T *x = (const T *)(const void *)row_at(c, row) + first;                                              \
            for (int64_t j = 0; j < n; j++)                                                                            \
                most[j] = larger_##type(most[j], x[j]);                                                                \
        }                                                                                                              \
        memcpy(out, most, (size_t)n * sizeof(T));                                                                      \
    }
BY_COLUMNS(f32, float)
BY_COLUMNS(f64, double)

/* ---- planning ---- */

static bool accepts(const bt_call *call) { return bt_dtype_floats(call->in[0].dtype); }

/* Drops axes of size 1 and joins adjacent axes where possible. */
static void join(bt_view *x)
{
    int rank = 0;
    for (int d = 0; d < x->rank; d++) {
        if (x->dims[d] == 1)
            continue;
        if (rank && x->strides[rank - 1] == x->strides[d] * x->dims[d]) {
            x->dims[rank - 1] *= x->dims[d];
            x->strides[rank - 1] = x->strides[d];
        } else {
            x->dims[rank] = x->dims[d];
            x->strides[rank++] = x->strides[d];
        }
    }
    x->rank = rank;
}

static bt_status plan(bt_call *call, uint32_t axes)
{
    reduction *r = call->state = bt_alloc(sizeof *r);
    if (!r)
        return BT_ERROR_MEMORY;
    bt_cpu_split(&call->in[0], axes, &r->kept, &r->outer);
    join(&r->kept);
    join(&r->outer);
    r->outputs = bt_cpu_count(&r->kept);
    r->size = (int64_t)bt_dtype_size(call->in[0].dtype);
    r->n = r->stride = 1;
    int last = r->outer.rank - 1, inner = r->kept.rank - 1;
    if (last >= 0) {
        r->n = r->outer.dims[last];
        r->stride = r->outer.strides[last];
        r->outer.rank--;
    }
    r->rows = bt_cpu_count(&r->outer);
    r->by_columns = inner >= 0 && r->kept.strides[inner] == 1 && r->kept.dims[inner] >= 4 && r->stride != 1;
    if (r->by_columns) {
        r->width = r->kept.dims[inner];
        r->groups = r->outputs ? r->outputs / r->width : 0;
        r->kept.rank--;
    }
    double work = (double)r->outputs * (double)r->rows * (double)r->n;
    r->threads = call->threads > 1 && r->outputs > 1 && work >= 1 << 17 ? call->threads : 1;
    return BT_OK;
}

static void release(bt_call *call)
{
    bt_free(call->state);
    call->state = NULL;
}

static bt_status prepare(bt_call *call) { return plan(call, ((const bt_reduce_attr *)call->attr)->axes); }

/* One output of one dense row. */
#define ALL(name, row)                                                                                                 \
    static void name##_f32(int64_t n, void *out, const void *const *in)                                                \
    {                                                                                                                  \
        *(float *)out = (float)row##_f32(in[0], n, 1);                                                                 \
    }                                                                                                                  \
    static void name##_f64(int64_t n, void *out, const void *const *in) { *(double *)out = row##_f64(in[0], n, 1); }
ALL(sum_all, sum_row)
ALL(square_all, square_row)

static void note_row(bt_call *call, bt_row_fn *f32, bt_row_fn *f64)
{
    const reduction *r = call->state;
    if (r->outputs == 1 && r->rows == 1 && r->n > 0 && r->stride == 1) {
        call->row = call->in[0].dtype == BT_F32 ? f32 : f64;
        call->n = r->n;
    }
}

static bt_status prepare_sum(bt_call *call)
{
    BT_TRY(prepare(call));
    note_row(call, sum_all_f32, sum_all_f64);
    return BT_OK;
}

static bt_status prepare_norm_square(bt_call *call)
{
    BT_TRY(prepare(call));
    note_row(call, square_all_f32, square_all_f64);
    return BT_OK;
}

/* ---- running ---- */

/* One output by rows. */
static double one(const reduction *r, const char *data, double (*row)(const void *, int64_t, int64_t), bool add)
{
    double result = row(data, r->rows ? r->n : 0, r->stride);
    for (int64_t i = 1; i < r->rows; i++) {
        double next = row(data + bt_cpu_offset(&r->outer, i) * r->size, r->n, r->stride);
        result = add ? result + next : larger_f64(result, next);
    }
    return result;
}

static void by_rows(const reduction *r, const bt_call *call, int64_t begin, int64_t end,
                    double (*row)(const void *, int64_t, int64_t), bool add)
{
    for (int64_t e = begin; e < end; e++) {
        const char *data = call->in[0].data + bt_cpu_offset(&r->kept, e) * r->size;
        double result = one(r, data, row, add);
        if (r->size == 4)
            ((float *)(void *)call->out[0].data)[e] = (float)result;
        else
            ((double *)(void *)call->out[0].data)[e] = result;
    }
}

/* Reduces blocks begin .. end - 1 of COLUMNS columns, counted over all groups. */
static void by_columns(const reduction *r, const bt_call *call, int64_t begin, int64_t end,
                       void (*function)(const columns *, int64_t, int64_t, void *))
{
    int64_t blocks = (r->width + COLUMNS - 1) / COLUMNS;
    for (int64_t block = begin; block < end; block++) {
        int64_t group = block / blocks, first = block % blocks * COLUMNS;
        int64_t n = r->width - first < COLUMNS ? r->width - first : COLUMNS;
        columns c = {call->in[0].data + bt_cpu_offset(&r->kept, group) * r->size, r, r->rows * r->n};
        function(&c, first, n, call->out[0].data + (group * r->width + first) * r->size);
    }
}

typedef struct shared { /* between threads */
    const bt_call *call;
    int64_t units;
    double (*row)(const void *, int64_t, int64_t);
    void (*function)(const columns *, int64_t, int64_t, void *);
    bool add;
} shared;

static void share(const void *work, int t, int threads)
{
    const shared *s = work;
    const reduction *r = s->call->state;
    int64_t begin = s->units * t / threads, end = s->units * (t + 1) / threads;
    if (r->by_columns)
        by_columns(r, s->call, begin, end, s->function);
    else
        by_rows(r, s->call, begin, end, s->row, s->add);
}

static void run(const bt_call *call, double (*row)(const void *, int64_t, int64_t),
                void (*function)(const columns *, int64_t, int64_t, void *), bool add)
{
    const reduction *r = call->state;
    int64_t units = r->by_columns ? r->groups * ((r->width + COLUMNS - 1) / COLUMNS) : r->outputs;
    bt_team_do(share, &(shared){call, units, row, function, add}, units < r->threads ? 1 : r->threads);
}

static bt_status sum(const bt_call *call)
{
    bool f32 = call->in[0].dtype == BT_F32;
    run(call, f32 ? sum_row_f32 : sum_row_f64, f32 ? sum_columns_f32 : sum_columns_f64, true);
    return BT_OK;
}

static bt_status max(const bt_call *call)
{
    bool f32 = call->in[0].dtype == BT_F32;
    run(call, f32 ? max_row_f32 : max_row_f64, f32 ? max_columns_f32 : max_columns_f64, false);
    return BT_OK;
}

static bt_status norm_square(const bt_call *call)
{
    bool f32 = call->in[0].dtype == BT_F32;
    run(call, f32 ? square_row_f32 : square_row_f64, f32 ? square_columns_f32 : square_columns_f64, true);
    return BT_OK;
}

static bool argmax_accepts(const bt_call *call) { return accepts(call) && call->out[0].dtype == BT_I32; }

static bt_status argmax(const bt_call *call)
{
    uint32_t axes = ((const bt_reduce_attr *)call->attr)->axes;
    bt_view kept, along;
    bt_cpu_split(&call->in[0], axes, &kept, &along);
    int64_t outputs = bt_cpu_count(&kept), n = bt_cpu_count(&along), stride = along.rank ? along.strides[0] : 1;
    int64_t size = (int64_t)bt_dtype_size(along.dtype);
    int32_t *out = (void *)call->out[0].data;
    for (int64_t e = 0; e < outputs; e++) {
        const char *row = kept.data + bt_cpu_offset(&kept, e) * size;
        out[e] = (int32_t)(along.dtype == BT_F32 ? argmax_row_f32(row, n, stride) : argmax_row_f64(row, n, stride));
    }
    return BT_OK;
}

/* ---- integers: sums wrap around ---- */

#define INTEGER_ROWS(type, T)                                                                                          \
    static void sum_row_##type(const void *row, int64_t n, int64_t stride, int64_t *sum)                               \
    {                                                                                                                  \
        const T *x = row;                                                                                              \
        uint64_t total = (uint64_t)*sum;                                                                               \
        for (int64_t i = 0; i < n; i++)                                                                                \
            total += (uint64_t)x[i * stride];                                                                          \
        *sum = (int64_t)total;                                                                                         \
    }                                                                                                                  \
    static void max_row_##type(const void *row, int64_t n, int64_t stride, int64_t *most)                              \
    {                                                                                                                  \
        const T *x = row;                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                                                \
            *most = x[i * stride] > *most ? x[i * stride] : *most;                                                     \
    }                                                                                                                  \
    static void argmax_row_##type(const void *row, int64_t n, int64_t stride, int64_t *place)                          \
    {                                                                                                                  \
        const T *x = row;                                                                                              \
        for (int64_t i = *place = 0; i < n; i++)                                                                       \
            *place = x[i * stride] > x[*place * stride] ? i : *place;                                                  \
    }
INTEGER_ROWS(i32, int32_t)
INTEGER_ROWS(i64, int64_t)

typedef void integer_row(const void *row, int64_t n, int64_t stride, int64_t *result);

static bool integers_accept(const bt_call *call) { return call->in[0].dtype == BT_I32 || call->in[0].dtype == BT_I64; }

/* Reduces all rows into one result, which begins as `start`. */
static bt_status reduce_integers(const bt_call *call, int64_t start, integer_row *row)
{
    const reduction *r = call->state;
    for (int64_t e = 0; e < r->outputs; e++) {
        const char *data = call->in[0].data + bt_cpu_offset(&r->kept, e) * r->size;
        int64_t result = start;
        for (int64_t i = 0; i < r->rows; i++)
            row(data + bt_cpu_offset(&r->outer, i) * r->size, r->n, r->stride, &result);
        if (call->out[0].dtype == BT_I32)
            ((int32_t *)(void *)call->out[0].data)[e] = (int32_t)result;
        else
            ((int64_t *)(void *)call->out[0].data)[e] = result;
    }
    return BT_OK;
}

static bt_status prepare_integers(bt_call *call)
{
    BT_TRY(plan(call, ((const bt_reduce_attr *)call->attr)->axes));
    reduction *r = call->state;
    if (r->by_columns) /* they are reduced one by one */
        r->kept.rank++;
    return BT_OK;
}

static bool small_integers(const bt_call *call) { return call->in[0].dtype == BT_I32; }

static bt_status sum_integers(const bt_call *call)
{
    return reduce_integers(call, 0, small_integers(call) ? sum_row_i32 : sum_row_i64);
}

static bt_status max_integers(const bt_call *call)
{
    return small_integers(call) ? reduce_integers(call, INT32_MIN, max_row_i32)
                                : reduce_integers(call, INT64_MIN, max_row_i64);
}

static bt_status argmax_integers(const bt_call *call)
{
    return reduce_integers(call, 0, small_integers(call) ? argmax_row_i32 : argmax_row_i64);
}

#define INTEGERS(name)                                                                                                 \
    {                                                                                                                  \
        &bt_op_##name, #name ".rows", integers_accept, NULL, prepare_integers, name##_integers, release, false, false  \
    }

const bt_kernel_impl BT_ISA(bt_cpu_reduce)[] = {
    {&bt_op_sum, "sum.vector", accepts, NULL, prepare_sum, sum, release, false, false},
    {&bt_op_max, "max.vector", accepts, NULL, prepare, max, release, false, false},
    {&bt_op_norm_square, "norm_square.vector", accepts, NULL, prepare_norm_square, norm_square, release, false, false},
    {&bt_op_argmax, "argmax.vector", argmax_accepts, NULL, NULL, argmax, NULL, false, false},
    INTEGERS(sum),
    INTEGERS(max),
    INTEGERS(argmax),
    {.op = NULL},
};
