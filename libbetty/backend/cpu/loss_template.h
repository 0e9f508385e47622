/* backend/cpu/loss_template.h: softmax, layer_norm and their relatives over contiguous rows, for one element type T;
 * included by loss.c. R(x): the name x with the type in it; EXP, LOG: functions of one number; TURN_ALL: see
 * backend/cpu/transpose.h. Short rows are done several at a time, so that the exponentials fill whole vectors; very
 * short rows are transposed, one to a lane. */

enum { R(BLOCK) = 512 }; /* exponentials at a time */

static void R(exp_all)(T *y, const T *x, int64_t n)
{
    BT_SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] = EXP(x[i]);
}

static void R(log_all)(T *y, int64_t n)
{
    BT_SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] = LOG(y[i]);
}

/* ---- very short rows ---- */

enum { R(SHORT) = 32, R(LANES) = 32 };

typedef struct R(group) { /* LANES rows side by side: x[j * LANES + lane] */
    T x[R(SHORT) * R(LANES)], power[R(SHORT) * R(LANES)], sum[R(LANES)];
} R(group);

static bool R(are_short)(const rows *r) { return r->n <= R(SHORT) && r->first.step >= 0; }

/* Loads rows minus their maxima, their exponentials and the sums of these. Returns how many rows. */
static int64_t R(take_group)(const rows *r, int64_t row, int64_t end, R(group) * g)
{
    int64_t n = r->n, count = end - row < R(LANES) ? end - row : R(LANES);
    T most[R(LANES)];
    if (count < R(LANES))
        memset(g->x, 0, (size_t)(n * R(LANES)) * sizeof(T));
    TURN_ALL(row_of(r, row), r->first.step / (int64_t)sizeof(T), g->x, R(LANES), count, n);
    memcpy(most, g->x, sizeof most);
    for (int64_t j = 1; j < n; j++) {
        BT_SIMD
        for (int64_t lane = 0; lane < R(LANES); lane++) {
            T x = g->x[j * R(LANES) + lane];
            most[lane] = x > most[lane] ? x : most[lane];
        }
    }
    for (int64_t j = 0; j < n; j++) {
        BT_SIMD
        for (int64_t lane = 0; lane < R(LANES); lane++)
            g->x[j * R(LANES) + lane] -= most[lane];
    }
    R(exp_all)(g->power, g->x, n * R(LANES));
    memset(g->sum, 0, sizeof g->sum);
    for (int64_t j = 0; j < n; j++) {
        BT_SIMD
        for (int64_t lane = 0; lane < R(LANES); lane++)
            g->sum[lane] += g->power[j * R(LANES) + lane];
    }
    return count;
}

static void R(scale_lanes)(T *y, int64_t n, const T *factor)
{
    for (int64_t j = 0; j < n; j++) {
        BT_SIMD
        for (int64_t lane = 0; lane < R(LANES); lane++)
            y[j * R(LANES) + lane] *= factor[lane];
    }
}

/* power becomes the softmax of the rows. */
static int64_t R(softmax_group)(const rows *r, int64_t row, int64_t end, R(group) * g)
{
    int64_t count = R(take_group)(r, row, end, g);
    BT_SIMD
    for (int64_t lane = 0; lane < R(LANES); lane++)
        g->sum[lane] = 1 / g->sum[lane];
    R(scale_lanes)(g->power, r->n, g->sum);
    return count;
}

static void R(softmax_short)(const rows *r, int64_t begin, int64_t end)
{
    R(group) g;
    for (int64_t row = begin, count; row < end; row += count) {
        count = R(softmax_group)(r, row, end, &g);
        TURN_ALL(g.power, R(LANES), (T *)r->out + row * r->n, r->n, r->n, count);
    }
}

static void R(log_softmax_short)(const rows *r, int64_t begin, int64_t end)
{
    R(group) g;
    int64_t n = r->n;
    for (int64_t row = begin, count; row < end; row += count) {
        count = R(take_group)(r, row, end, &g);
        R(log_all)(g.sum, R(LANES));
        for (int64_t j = 0; j < n; j++) {
            BT_SIMD
            for (int64_t lane = 0; lane < R(LANES); lane++)
                g.x[j * R(LANES) + lane] -= g.sum[lane];
        }
        TURN_ALL(g.x, R(LANES), (T *)r->out + row * n, n, n, count);
    }
}

/* The labels have been checked. */
static void R(cross_entropy_short)(const rows *r, int64_t begin, int64_t end)
{
    R(group) g;
    for (int64_t row = begin, count; row < end; row += count) {
        count = R(take_group)(r, row, end, &g);
        R(log_all)(g.sum, R(LANES));
        for (int64_t lane = 0; lane < count; lane++)
            ((T *)r->out)[row + lane] = g.sum[lane] - g.x[label_of(r, row + lane) * R(LANES) + lane];
    }
}

static void R(cross_entropy_grad_short)(const rows *r, int64_t begin, int64_t end)
{
    R(group) g;
    T given[R(LANES)] = {0};
    for (int64_t row = begin, count; row < end; row += count) {
        count = R(softmax_group)(r, row, end, &g);
        for (int64_t lane = 0; lane < count; lane++) {
            g.power[label_of(r, row + lane) * R(LANES) + lane] -= 1;
            given[lane] = *(const T *)second_of(r, row + lane);
        }
        R(scale_lanes)(g.power, r->n, given);
        TURN_ALL(g.power, R(LANES), (T *)r->out + row * r->n, r->n, r->n, count);
    }
}

/* ---- rows of any length ---- */

/* The sum of exp(x) of a long row. */
static double R(exp_sum)(const T *x, int64_t n)
{
    T piece[R(BLOCK)];
    double sum = 0;
    for (int64_t at = 0; at < n; at += R(BLOCK)) {
        int64_t count = n - at < R(BLOCK) ? n - at : R(BLOCK);
        R(exp_all)(piece, x + at, count);
        sum += R(sum_row)(piece, count, 1);
    }
    return sum;
}

static void R(softmax_rows)(const rows *r, int64_t begin, int64_t end)
{
    if (R(are_short)(r)) {
        R(softmax_short)(r, begin, end);
        return;
    }
    int64_t n = r->n, at_once = n < R(BLOCK) ? R(BLOCK) / n : 1;
    for (int64_t row = begin; row < end; row += at_once) {
        int64_t count = end - row < at_once ? end - row : at_once;
        T *y = (T *)r->out + row * n;
        for (int64_t i = 0; i < count; i++)
            R(lower_row)(y + i * n, row_of(r, row + i), n);
        R(exp_all)(y, y, count * n);
        for (int64_t i = 0; i < count; i++)
            R(scale_row)(y + i * n, n, (T)(1 / R(sum_row)(y + i * n, n, 1)));
    }
}

static void R(log_softmax_rows)(const rows *r, int64_t begin, int64_t end)
{
    if (R(are_short)(r)) {
        R(log_softmax_short)(r, begin, end);
        return;
    }
    int64_t n = r->n, at_once = n < R(BLOCK) ? R(BLOCK) / n : 1;
    T power[R(BLOCK)];
    for (int64_t row = begin; row < end; row += at_once) {
        int64_t count = end - row < at_once ? end - row : at_once;
        T *y = (T *)r->out + row * n;
        for (int64_t i = 0; i < count; i++)
            R(lower_row)(y + i * n, row_of(r, row + i), n);
        if (n <= R(BLOCK))
            R(exp_all)(power, y, count * n);
        for (int64_t i = 0; i < count; i++) {
            double sum = n <= R(BLOCK) ? R(sum_row)(power + i * n, n, 1) : R(exp_sum)(y + i * n, n);
            T shift = LOG((T)sum);
            BT_SIMD
            for (int64_t j = i * n; j < i * n + n; j++)
                y[j] -= shift;
        }
    }
}

static double R(dot)(const T *a, const T *b, int64_t n)
{
    double sum[4] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; j++)
            sum[j] += (double)a[i + j] * (double)b[i + j];
    for (; i < n; i++)
        rest += (double)a[i] * (double)b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]) + rest;
}

static void R(softmax_grad_rows)(const rows *r, int64_t begin, int64_t end)
{
    int64_t n = r->n;
    for (int64_t row = begin; row < end; row++) {
        const T *y = row_of(r, row), *g = second_of(r, row);
        T *x = (T *)r->out + row * n, sum = (T)R(dot)(y, g, n);
        BT_SIMD
        for (int64_t i = 0; i < n; i++)
            x[i] = y[i] * (g[i] - sum);
    }
}

/* The labels have been checked. */
static void R(cross_entropy_rows)(const rows *r, int64_t begin, int64_t end)
{
    if (R(are_short)(r)) {
        R(cross_entropy_short)(r, begin, end);
        return;
    }
    int64_t n = r->n, at_once = n < R(BLOCK) ? R(BLOCK) / n : 1;
    T lowered[R(BLOCK)], power[R(BLOCK)], sums[R(BLOCK)];
    for (int64_t row = begin; row < end; row += at_once) {
        int64_t count = end - row < at_once ? end - row : at_once;
        T *loss = (T *)r->out + row;
        if (n > R(BLOCK)) {
            const T *x = row_of(r, row);
            T most = (T)R(max_row)(x, n, 1);
            double sum = 0;
            for (int64_t at = 0; at < n; at += R(BLOCK)) {
                int64_t some = n - at < R(BLOCK) ? n - at : R(BLOCK);
                for (int64_t j = 0; j < some; j++)
                    lowered[j] = x[at + j] - most;
                sum += R(exp_sum)(lowered, some);
            }
            *loss = (T)(log(sum) - (double)(x[label_of(r, row)] - most));
            continue;
        }
        for (int64_t i = 0; i < count; i++)
            R(lower_row)(lowered + i * n, row_of(r, row + i), n);
        R(exp_all)(power, lowered, count * n);
        for (int64_t i = 0; i < count; i++)
            sums[i] = (T)R(sum_row)(power + i * n, n, 1);
        R(log_all)(sums, count);
        for (int64_t i = 0; i < count; i++)
            loss[i] = sums[i] - lowered[i * n + label_of(r, row + i)];
    }
}

static void R(cross_entropy_grad_rows)(const rows *r, int64_t begin, int64_t end)
{
    if (R(are_short)(r)) {
        R(cross_entropy_grad_short)(r, begin, end);
        return;
    }
    int64_t n = r->n;
    R(softmax_rows)(r, begin, end);
    for (int64_t row = begin; row < end; row++) {
        T *y = (T *)r->out + row * n, g = *(const T *)second_of(r, row);
        y[label_of(r, row)] -= 1;
        R(scale_row)(y, n, g);
    }
}

static void R(layer_norm_rows)(const rows *r, int64_t begin, int64_t end)
{
    int64_t n = r->n;
    const T *scale = r->scale, *shift = r->shift;
    for (int64_t row = begin; row < end; row++) {
        const T *x = row_of(r, row);
        T *y = (T *)r->out + row * n, mean = (T)(R(sum_row)(x, n, 1) / (double)n);
        BT_SIMD
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] - mean;
        double deviation = sqrt(R(square_row)(y, n, 1) / (double)n + r->eps);
        T factor = (T)(1 / deviation);
        ((T *)r->mean)[row] = mean;
        ((T *)r->deviation)[row] = (T)deviation;
        BT_SIMD
        for (int64_t i = 0; i < n; i++)
            y[i] = y[i] * factor * scale[i] + shift[i];
    }
}

static void R(layer_norm_grad_rows)(const rows *r, int64_t begin, int64_t end)
{
    int64_t n = r->n;
    for (int64_t row = begin; row < end; row++) {
        const T *x = row_of(r, row), *u = second_of(r, row);
        T *y = (T *)r->out + row * n, mean = ((const T *)r->mean)[row], factor = 1 / ((const T *)r->deviation)[row];
        T level = (T)(R(sum_row)(u, n, 1) / (double)n);
        double along = 0;
        for (int64_t i = 0; i < n; i += R(BLOCK)) {
            T product[R(BLOCK)];
            int64_t count = n - i < R(BLOCK) ? n - i : R(BLOCK);
            BT_SIMD
            for (int64_t j = 0; j < count; j++)
                product[j] = (x[i + j] - mean) * u[i + j];
            along += R(sum_row)(product, count, 1);
        }
        T slope = (T)(along / (double)n * factor * factor);
        BT_SIMD
        for (int64_t i = 0; i < n; i++)
            y[i] = (u[i] - level - (x[i] - mean) * slope) * factor;
    }
}

/* Columns begin .. end - 1 of the result, summed in double precision. */
static void R(layer_norm_dot_columns)(const rows *r, int64_t begin, int64_t end)
{
    enum { COLUMNS = 64 };
    for (int64_t from = begin; from < end; from += COLUMNS) {
        double sum[COLUMNS] = {0};
        int64_t count = end - from < COLUMNS ? end - from : COLUMNS;
        for (int64_t row = 0; row < r->count; row++) {
            const T *x = (const T *)row_of(r, row) + from, *g = (const T *)second_of(r, row) + from;
            T mean = ((const T *)r->mean)[row], factor = 1 / ((const T *)r->deviation)[row];
            BT_SIMD
            for (int64_t i = 0; i < count; i++)
                sum[i] += (double)((x[i] - mean) * factor * g[i]);
        }
        for (int64_t i = 0; i < count; i++)
            ((T *)r->out)[from + i] = (T)sum[i];
    }
}
