/* backend/cpu/reference_linalg.c: solve and logdet by elimination with row exchanges, in double precision. */
#include "backend/cpu/reference.h"

#include <math.h>

/* a and the columns of b, row-major in scratch. */
typedef struct matrices {
    double *a, *b;
    int64_t n, m;
} matrices;

static size_t scratch(const bt_call *call)
{
    const bt_view *a = &call->in[0], *b = call->inputs > 1 ? &call->in[1] : NULL;
    int64_t n = a->dims[a->rank - 1], m = b ? b->dims[b->rank - 1] : 0;
    return bt_cpu_count(a) && (!b || bt_cpu_count(b)) ? (size_t)(n * (n + m)) * sizeof(double) : 0;
}

static matrices room_of(const bt_call *call)
{
    const bt_view *a = &call->in[0];
    matrices x = {.a = call->scratch, .n = a->dims[a->rank - 1]};
    x.m = call->inputs > 1 ? call->in[1].dims[a->rank - 1] : 0;
    x.b = x.a + x.n * x.n;
    return x;
}

static void load(double *to, const bt_view *from, int64_t number, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = bt_cpu_get(from, number * count + i);
}

static void exchange(double *x, int64_t columns, int64_t row, int64_t other)
{
    for (int64_t j = 0; j < columns && row != other; j++) {
        double kept = x[row * columns + j];
        x[row * columns + j] = x[other * columns + j];
        x[other * columns + j] = kept;
    }
}

/* Makes a upper triangular and applies the same steps to b. False: it met a column of zeros, which stays. */
static bool eliminate(const matrices *x)
{
    bool regular = true;
    int64_t n = x->n, m = x->m;
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(x->a[i * n + k]) > fabs(x->a[best * n + k]))
                best = i;
        exchange(x->a, n, k, best);
        exchange(x->b, m, k, best);
        regular &= !(x->a[k * n + k] >= 0 && x->a[k * n + k] <= 0); /* NaN counts as regular */
        for (int64_t i = k + 1; i < n && regular; i++) {
            double factor = x->a[i * n + k] / x->a[k * n + k];
            for (int64_t j = k; j < n; j++)
                x->a[i * n + j] -= factor * x->a[k * n + j];
            for (int64_t j = 0; j < m; j++)
                x->b[i * m + j] -= factor * x->b[k * m + j];
        }
    }
    return regular;
}

static void substitute(const matrices *x)
{
    int64_t n = x->n, m = x->m;
    for (int64_t i = n - 1; i >= 0; i--)
        for (int64_t j = 0; j < m; j++) {
            for (int64_t k = i + 1; k < n; k++)
                x->b[i * m + j] -= x->a[i * n + k] * x->b[k * m + j];
            x->b[i * m + j] /= x->a[i * n + i];
        }
}

bt_status bt_cpu_singular(int64_t matrix)
{
    return bt_fail(BT_ERROR_NUMERIC,
                   "solve: matrix %lld is singular; if that can happen, add a small number to its diagonal",
                   (long long)matrix);
}

static bt_status solve(const bt_call *call)
{
    int64_t count = bt_cpu_count(&call->out[0]);
    matrices x = room_of(call);
    int64_t size = x.n * x.m;
    for (int64_t g = 0; size && g < count / size; g++) {
        load(x.a, &call->in[0], g, x.n * x.n);
        load(x.b, &call->in[1], g, size);
        if (!eliminate(&x))
            return bt_cpu_singular(g);
        substitute(&x);
        for (int64_t i = 0; i < size; i++)
            bt_cpu_put(&call->out[0], g * size + i, x.b[i]);
    }
    return BT_OK;
}

/* Minus infinity for a singular matrix. */
static bt_status logdet(const bt_call *call)
{
    int64_t count = bt_cpu_count(&call->out[0]);
    matrices x = room_of(call);
    for (int64_t g = 0; g < count; g++) {
        double sum = 0;
        load(x.a, &call->in[0], g, x.n * x.n);
        bool regular = eliminate(&x);
        for (int64_t k = 0; k < x.n; k++)
            sum += log(fabs(x.a[k * x.n + k]));
        bt_cpu_put(&call->out[0], g, regular ? sum : -INFINITY);
    }
    return BT_OK;
}

const bt_kernel_impl bt_cpu_reference_linalg[] = {
    {.op = &bt_op_solve, .name = "solve.reference", .scratch = scratch, .launch = solve, .plain = true},
    {.op = &bt_op_logdet, .name = "logdet.reference", .scratch = scratch, .launch = logdet, .plain = true},
    {.op = NULL},
};
