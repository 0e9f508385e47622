/* backend/cuda/reduce.cu: sum, max, argmax, norm_square. Floating numbers are added in double precision. */
#include "backend/cuda/measure.h"

/* ---- reductions: `none` of no numbers, `take` of one, `join` of an earlier and a later part ---- */

struct sum_floats {
    typedef double number, state;
    static __device__ state none() { return 0; }
    static __device__ state take(double x, int64_t) { return x; }
    static __device__ state join(double a, double b) { return a + b; }
    static __device__ double give(double sum, bt_dtype) { return sum; }
};

struct sum_integers { /* they wrap around */
    typedef int64_t number;
    typedef uint64_t state;
    static __device__ state none() { return 0; }
    static __device__ state take(int64_t x, int64_t) { return (uint64_t)x; }
    static __device__ state join(uint64_t a, uint64_t b) { return a + b; }
    static __device__ int64_t give(uint64_t sum, bt_dtype) { return (int64_t)sum; }
};

struct squares {
    typedef double number, state;
    static __device__ state none() { return 0; }
    static __device__ state take(double x, int64_t) { return x * x; }
    static __device__ state join(double a, double b) { return a + b; }
    static __device__ double give(double sum, bt_dtype) { return sum; }
};

static __device__ inline double least(double) { return -__builtin_inf(); }
static __device__ inline int64_t least(int64_t) { return INT64_MIN; }

/* NaN is larger than any number. */
static __device__ inline bool is_larger(double a, double b) { return a > b || (a != a && b == b); }
static __device__ inline bool is_larger(int64_t a, int64_t b) { return a > b; }

template <class T> struct largest {
    typedef T number, state;
    static __device__ T none() { return least(T()); }
    static __device__ T take(T x, int64_t) { return x; }
    static __device__ T join(T a, T b) { return is_larger(b, a) ? b : a; }
    static __device__ T give(T x, bt_dtype dtype) { return dtype == BT_I32 && x < INT32_MIN ? INT32_MIN : x; }
};

template <class T> struct found {
    T value;
    int64_t place;
};

template <class T> struct place_of_largest { /* the first among equals */
    typedef T number;
    typedef found<T> state;
    static __device__ state none() { return {least(T()), 0}; }
    static __device__ state take(T x, int64_t place) { return {x, place}; }
    static __device__ state join(const state &a, const state &b)
    {
        const bool level = !is_larger(a.value, b.value) && !is_larger(b.value, a.value);
        const bool second = is_larger(b.value, a.value) || (level && b.place < a.place); /* lanes are interleaved */
        return {second ? b.value : a.value, second ? b.place : a.place};
    }
    static __device__ int64_t give(const state &x, bt_dtype) { return x.place; }
};

/* ---- as records of measure.h ---- */

template <class F> struct reduction {
    enum { INPUTS = 1, EACH = 0 };
    typedef typename F::number number;
    typedef typename F::state room, state, told;

    static __device__ state none() { return F::none(); }
    static __device__ state join(const state &a, const state &b) { return F::join(a, b); }
    static __device__ state measure(const bt_measure<reduction> &a, const bt_measure_thread<reduction> &me,
                                    room *shared)
    {
        state all = F::none();
        bt_measure_each<1>(a, me, [&](int64_t i, const number *x) { all = F::join(all, F::take(x[0], i)); });
        return bt_tile_join<F>(a.tile, shared, all);
    }
    static __device__ told tell(const bt_measure<reduction> &, const bt_measure_thread<reduction> &, const state &all)
    {
        return all;
    }
    static __device__ void leave(const bt_measure<reduction> &a, int64_t line, const told &all)
    {
        bt_store(a.given[0], a.outputs[0], line, F::give(all, a.given[0]));
    }
};

/* ---- on the host ---- */

template <class F> static bt_measure<reduction<F>> planned(const bt_call *call)
{
    const bt_view *x = &call->in[0];
    const uint32_t axes = ((const bt_reduce_attr *)call->attr)->axes;
    bt_measure<reduction<F>> a = {};
    a.in[0] = {x->data, x->dtype, bt_walk_of(x, ~axes), bt_walk_nearest(x, axes)};
    const int64_t next = bt_walk_step(a.in[0].lines), step = bt_walk_step(a.in[0].along);
    a.tile = bt_tile_cut(a.in[0].lines.n, a.in[0].along.n, step > 1 && next < step);
    return a;
}

template <class F> static size_t scratch(const bt_call *call) { return bt_measure_scratch(planned<F>(call)); }

template <class F> static bt_status launch(const bt_call *call) { return bt_measure_launch(call, planned<F>(call)); }

static bool floats(const bt_call *call) { return bt_dtype_floats(call->in[0].dtype); }
static bool integers(const bt_call *call) { return !floats(call); }

#define REDUCTION(op_name, dtypes, ...)                                                                                \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".cuda", .accepts = dtypes, .scratch = scratch<__VA_ARGS__>,          \
        .launch = launch<__VA_ARGS__>, .half = true                                                                    \
    }

extern "C" const bt_kernel_impl bt_cuda_reduce[] = {
    REDUCTION(sum, floats, sum_floats),
    REDUCTION(sum, integers, sum_integers),
    REDUCTION(max, floats, largest<double>),
    REDUCTION(max, integers, largest<int64_t>),
    REDUCTION(argmax, floats, place_of_largest<double>),
    REDUCTION(argmax, integers, place_of_largest<int64_t>),
    REDUCTION(norm_square, floats, squares),
    {},
};
