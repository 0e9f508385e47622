/* backend/cpu/row_template.h: sums and maxima of rows of one element type T, and rows minus or times a number. V: its
 * vector of LANES elements; VF(f): the vector function f; WIDE(x): a vector in f64 with the same sum as x; R(x): the
 * name x with the type in it. Sums of f32 are in f32 within whole runs of four vectors, and in f64 across them. */

enum {
    R(PIECE) = 1024 * (int)sizeof(double) / (int)sizeof(T)
}; /* elements of a piece, summed in 4 vectors: the chains of additions are short */

static inline double R(sum_piece)(const T *x, int64_t n)
{
    V s0 = {0}, s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        s0 += VF(load)(x + i);
        s1 += VF(load)(x + i + LANES);
        s2 += VF(load)(x + i + 2 * LANES);
        s3 += VF(load)(x + i + 3 * LANES);
    }
    bt_f64w sum = WIDE((s0 + s1) + (s2 + s3));
    for (; i + LANES <= n; i += LANES)
        sum += WIDE(VF(load)(x + i));
    if (i < n)
        sum += WIDE(VF(part)(x + i, n - i));
    return BT_F64W(sum)(sum);
}

static inline double R(sum_row)(const void *row, int64_t n, int64_t stride)
{
    const T *x = row;
    double sum = 0;
    if (stride == 1) {
        for (int64_t i = 0; i < n; i += R(PIECE))
            sum += R(sum_piece)(x + i, n - i < R(PIECE) ? n - i : R(PIECE));
    } else {
        for (int64_t i = 0; i < n; i++)
            sum += x[i * stride];
    }
    return sum;
}

/* If T is float, squares are exact in double, so that a fused multiply-add rounds like a separate product and sum. */
static inline double R(square_row)(const void *row, int64_t n, int64_t stride)
{
    const T *x = row;
    enum { CHAINS = 32 }; /* independent sums, to fill the vectors and hide latency */
    double sum[CHAINS] = {0}, total = 0;
    int64_t i = 0;
    if (stride == 1)
        for (; i + CHAINS <= n; i += CHAINS)
            for (int j = 0; j < CHAINS; j++) {
                double value = x[i + j];
                sum[j] = sizeof(T) < sizeof value ? bt_f64_fma(value, value, sum[j]) : sum[j] + value * value;
            }
    for (; i < n; i++)
        total += (double)x[i * stride] * (double)x[i * stride];
    for (int j = 0; j < CHAINS; j++)
        total += sum[j];
    return total;
}

/* NaN is larger than any number. */
BT_INLINE T R(larger)(T a, T b) { return b > a || b != b ? b : a; }

static inline double R(max_row)(const void *row, int64_t n, int64_t stride)
{
    const T *x = row;
    T most = -(T)__builtin_inf();
    if (stride != 1 || n < LANES) {
        for (int64_t i = 0; i < n; i++)
            most = R(larger)(most, x[i * stride]);
        return most;
    }
    V all = VF(load)(x);
    for (int64_t i = LANES; i < n; i += LANES) /* the last vector has elements of the one before it, too */
        all = VF(larger)(all, VF(load)(x + (i + LANES <= n ? i : n - LANES)));
    return VF(most)(all);
}

/* y = x - max(x); y may be x. The last vector has elements of the one before it, too, and is read before that is
 * written. */
static inline void R(lower_row)(T *y, const T *x, int64_t n)
{
    T most = (T)R(max_row)(x, n, 1);
    for (int64_t i = 0; n < LANES && i < n; i++)
        y[i] = x[i] - most;
    if (n < LANES)
        return;
    V shift = VF(fill)(most), last = VF(load)(x + n - LANES) - shift;
    for (int64_t i = 0; i + LANES < n; i += LANES)
        VF(store)(y + i, VF(load)(x + i) - shift);
    VF(store)(y + n - LANES, last);
}

static inline void R(scale_row)(T *y, int64_t n, T factor)
{
    for (int64_t i = 0; n < LANES && i < n; i++)
        y[i] *= factor;
    if (n < LANES)
        return;
    V last = VF(load)(y + n - LANES) * factor;
    for (int64_t i = 0; i + LANES < n; i += LANES)
        VF(store)(y + i, VF(load)(y + i) * factor);
    VF(store)(y + n - LANES, last);
}

/* The index of the first maximum. */
static inline int64_t R(argmax_row)(const void *row, int64_t n, int64_t stride)
{
    const T *x = row;
    T most = (T)R(max_row)(row, n, stride);
    for (int64_t i = 0; i < n; i++)
        if (x[i * stride] == most || x[i * stride] != x[i * stride])
            return i;
    return 0;
}
