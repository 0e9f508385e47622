/* backend/cuda/row.cu: softmax, cross-entropy, layer_norm, and their derivatives: each measures something over a line,
 * and computes the line's elements from it. Elements are computed in f32, with the CPU's exponential, or in f64; sums
 * in f64. */
#include "backend/cuda/measure.h"

static __device__ inline float power(float x) { return bt_exp_f32(x); }
static __device__ inline double power(double x) { return exp(x); }

struct larger { /* NaN is larger than any number */
    static __device__ double join(double a, double b) { return b > a || b != b ? b : a; }
};

struct added {
    static __device__ double join(double a, double b) { return a + b; }
};

/* ---- operands: with one element per element of a line; with one per line; with elements that all lines share ---- */

static bt_measure_operand alike(const bt_view *x, int64_t axis)
{
    const uint32_t along = UINT32_C(1) << axis;
    return {x->data, x->dtype, bt_walk_of(x, ~along), bt_walk_of(x, along)};
}

static bt_measure_operand of_lines(const bt_view *x)
{
    return {x->data, x->dtype, bt_walk_of(x, ~UINT32_C(0)), bt_walk_of(x, 0)};
}

static bt_measure_operand of_all(const bt_view *x)
{
    return {x->data, x->dtype, bt_walk_of(x, 0), bt_walk_of(x, ~UINT32_C(0))};
}

/* The arrangement of threads, by operand 0. */
static bt_tile tile_of(const bt_measure_operand &x)
{
    const int64_t next = bt_walk_step(x.lines), step = bt_walk_step(x.along);
    return bt_tile_cut(x.lines.n, x.along.n, step > 1 && next < step);
}

/* Lines of x along the axis; none if they have no elements. */
template <class OP> static bt_measure<OP> lines_of(const bt_view *x, int64_t axis)
{
    bt_measure<OP> a = {};
    a.in[0] = alike(x, axis);
    a.tile = tile_of(a.in[0]);
    a.tile.lines = a.tile.n ? a.tile.lines : 0;
    a.step = 1;
    for (int64_t d = axis + 1; d < x->rank; d++)
        a.step *= x->dims[d];
    return a;
}

template <class OP> static bt_measure<OP> lines_along(const bt_call *call) /* with bt_axis_attr */
{
    return lines_of<OP>(&call->in[0], ((const bt_axis_attr *)call->attr)->axis);
}

template <class OP> static bt_measure<OP> rows_of(const bt_call *call)
{
    return lines_of<OP>(&call->in[0], call->in[0].rank - 1);
}

/* ---- the largest element of a line, and the sum of the exponentials of all elements minus the largest ---- */

template <class T> struct peak {
    T most;
    double sum;
};

template <class T> struct peaks {
    typedef T number;
    typedef double room;
    typedef peak<T> state;

    static __device__ state none() { return {-(T)__builtin_inf(), 0}; }

    /* A piece of only -infinity adds nothing to others. */
    static __device__ double below(const state &x, double top)
    {
        return x.most == -(T)__builtin_inf() ? 0 : x.sum * exp((double)x.most - top);
    }
    static __device__ state join(const state &a, const state &b)
    {
        const double top = larger::join((double)a.most, (double)b.most);
        return {(T)top, below(a, top) + below(b, top)};
    }
    static __device__ state measure(const auto &a, const auto &me, double *room)
    {
        double most = -__builtin_inf(), sum = 0;
        bt_measure_each<1>(a, me, [&](int64_t, const T *x) { most = larger::join(most, (double)x[0]); });
        const T top = (T)bt_tile_join<larger>(a.tile, room, most);
        bt_measure_each<1>(a, me, [&](int64_t, const T *x) { sum += (double)power(x[0] - top); });
        return {top, bt_tile_join<added>(a.tile, room, sum)};
    }
    static __device__ void leave(const auto &, int64_t, const auto &) {}
};

template <class T> struct softmax : peaks<T> {
    enum { INPUTS = 1, EACH = 1 };
    struct told {
        T most, factor;
    };
    static bt_measure<softmax> plan(const bt_call *call) { return lines_along<softmax>(call); }
    static __device__ told tell(const auto &, const auto &, const peak<T> &all) { return {all.most, (T)(1 / all.sum)}; }
    static __device__ T give(const told &line, int64_t, const T *x) { return power(x[0] - line.most) * line.factor; }
};

template <class T> struct log_softmax : peaks<T> {
    enum { INPUTS = 1, EACH = 1 };
    struct told {
        T most, shift;
    };
    static bt_measure<log_softmax> plan(const bt_call *call) { return lines_along<log_softmax>(call); }
    static __device__ told tell(const auto &, const auto &, const peak<T> &all) { return {all.most, (T)log(all.sum)}; }
    static __device__ T give(const told &line, int64_t, const T *x) { return x[0] - line.most - line.shift; }
};

/* The label, operand 1. */
static __device__ inline int64_t label_of(const auto &a, const auto &me)
{
    const int64_t label = bt_load<int64_t>(a.in[1].dtype, a.in[1].data, me.start[1]);
    return bt_cuda_index(a.record, a.site, me.own.line, label, a.in[0].along.n);
}

template <class T> struct cross_entropy : peaks<T> {
    enum { INPUTS = 2, EACH = 0 };
    typedef T told; /* the loss */
    static bt_measure<cross_entropy> plan(const bt_call *call)
    {
        bt_measure<cross_entropy> a = rows_of<cross_entropy>(call);
        a.in[1] = of_lines(&call->in[1]);
        return a;
    }
    static __device__ told tell(const auto &a, const auto &me, const peak<T> &all)
    {
        const int64_t at = me.start[0] + bt_walk_at(a.in[0].along, label_of(a, me));
        return (T)(log(all.sum) - (double)(bt_load<T>(a.in[0].dtype, a.in[0].data, at) - all.most));
    }
    static __device__ void leave(const auto &a, int64_t line, T loss)
    {
        bt_store(a.given[0], a.outputs[0], line, loss);
    }
};

template <class T> struct cross_entropy_grad : peaks<T> {
    enum { INPUTS = 3, EACH = 1 };
    struct told {
        T most, factor, given;
        int64_t label;
    };
    static bt_measure<cross_entropy_grad> plan(const bt_call *call)
    {
        bt_measure<cross_entropy_grad> a = rows_of<cross_entropy_grad>(call);
        a.in[1] = of_lines(&call->in[1]);
        a.in[2] = of_lines(&call->in[2]);
        return a;
    }
    static __device__ told tell(const auto &a, const auto &me, const peak<T> &all)
    {
        return {all.most, (T)(1 / all.sum), bt_measure_line(a, me, 2), label_of(a, me)};
    }
    static __device__ T give(const told &line, int64_t i, const T *x)
    {
        return (power(x[0] - line.most) * line.factor - (T)(i == line.label)) * line.given;
    }
};

/* ---- y (g - sum(y g)) ---- */

template <class T> struct softmax_grad {
    enum { INPUTS = 2, EACH = 2 };
    typedef T number, told;
    typedef double room, state;
    static bt_measure<softmax_grad> plan(const bt_call *call)
    {
        bt_measure<softmax_grad> a = lines_along<softmax_grad>(call);
        a.in[1] = alike(&call->in[1], ((const bt_axis_attr *)call->attr)->axis);
        return a;
    }
    static __device__ double none() { return 0; }
    static __device__ double join(double a, double b) { return a + b; }
    static __device__ double measure(const auto &a, const auto &me, double *room)
    {
        double sum = 0;
        bt_measure_each<2>(a, me, [&](int64_t, const T *x) { sum = bt_f64_fma((double)x[0], (double)x[1], sum); });
        return bt_tile_join<added>(a.tile, room, sum);
    }
    static __device__ T tell(const auto &, const auto &, double sum) { return (T)sum; }
    static __device__ T give(T sum, int64_t, const T *x) { return x[0] * (x[1] - sum); }
    static __device__ void leave(const auto &, int64_t, T) {}
};

/* ---- layer_norm: operands x, scale, shift ---- */

struct moments { /* of n elements: their mean, and the sum of squared distances from it */
    double mean, squares, n;
};

template <class T> struct layer_norm {
    enum { INPUTS = 3, EACH = 3 };
    typedef T number;
    typedef double room;
    typedef moments state;
    struct told {
        double mean; /* double: differences of nearly equal elements need all its digits */
        T deviation, factor;
    };
    static bt_measure<layer_norm> plan(const bt_call *call)
    {
        bt_measure<layer_norm> a = rows_of<layer_norm>(call);
        a.in[1] = of_all(&call->in[1]);
        a.in[2] = of_all(&call->in[2]);
        a.eps = ((const bt_eps_attr *)call->attr)->eps;
        return a;
    }
    static __device__ moments none() { return {0, 0, 0}; }

    /* Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979. */
    static __device__ moments join(const moments &a, const moments &b)
    {
        const double n = a.n + b.n, part = n > 0 ? b.n / n : 0, apart = b.mean - a.mean;
        return {a.mean + apart * part, a.squares + b.squares + apart * apart * a.n * part, n};
    }
    static __device__ moments measure(const auto &a, const auto &me, double *room)
    {
        const double n = (double)(me.own.to - me.own.from);
        double sum = 0, squares = 0;
        bt_measure_each<1>(a, me, [&](int64_t, const T *x) { sum += (double)x[0]; });
        const double mean = bt_tile_join<added>(a.tile, room, sum) / n;
        bt_measure_each<1>(a, me, [&](int64_t, const T *x) {
            const double apart = (double)x[0] - mean;
            squares = bt_f64_fma(apart, apart, squares);
        });
        return {mean, bt_tile_join<added>(a.tile, room, squares), n};
    }
    static __device__ told tell(const auto &a, const auto &, const moments &all)
    {
        const double deviation = sqrt(all.squares / all.n + a.eps);
        return {all.mean, (T)deviation, (T)(1 / deviation)};
    }
    static __device__ T give(const told &line, int64_t, const T *x)
    {
        return (T)((double)x[0] - line.mean) * line.factor * x[1] + x[2];
    }
    static __device__ void leave(const auto &a, int64_t line, const told &told)
    {
        bt_store(a.given[1], a.outputs[1], line, (T)told.mean);
        bt_store(a.given[2], a.outputs[2], line, told.deviation);
    }
};

/* ---- its derivatives: operands x, g, mean, deviation ---- */

struct two_sums {
    double first, second;
};

template <class T> struct layer_norm_grad {
    enum { INPUTS = 4, EACH = 2 };
    typedef T number;
    typedef two_sums room, state; /* of g, and of (x - mean) g */
    struct told {
        T mean, factor, level, slope;
    };
    static bt_measure<layer_norm_grad> plan(const bt_call *call)
    {
        bt_measure<layer_norm_grad> a = rows_of<layer_norm_grad>(call);
        a.in[1] = alike(&call->in[3], call->in[3].rank - 1);
        a.in[2] = of_lines(&call->in[1]);
        a.in[3] = of_lines(&call->in[2]);
        return a;
    }
    static __device__ state none() { return {0, 0}; }
    static __device__ state join(const state &a, const state &b) { return {a.first + b.first, a.second + b.second}; }
    static __device__ state measure(const auto &a, const auto &me, room *shared)
    {
        const T mean = bt_measure_line(a, me, 2);
        double level = 0, slope = 0;
        bt_measure_each<2>(a, me, [&](int64_t, const T *x) {
            level += (double)x[1];
            slope = bt_f64_fma((double)(x[0] - mean), (double)x[1], slope);
        });
        return bt_tile_join<layer_norm_grad>(a.tile, shared, state{level, slope});
    }
    static __device__ told tell(const auto &a, const auto &me, const state &all)
    {
        const double n = (double)a.tile.n, factor = 1 / (double)bt_measure_line(a, me, 3);
        const T mean = bt_measure_line(a, me, 2);
        return {mean, (T)factor, (T)(all.first / n), (T)(all.second / n * factor * factor)};
    }
    static __device__ T give(const told &line, int64_t, const T *x)
    {
        return (x[1] - line.level - (x[0] - line.mean) * line.slope) * line.factor;
    }
    static __device__ void leave(const auto &, int64_t, const told &) {}
};

/* Here a line is a column: its elements are from all rows. */
template <class T> struct layer_norm_dot {
    enum { INPUTS = 4, EACH = 0 };
    typedef T number;
    typedef double room, state, told;
    static bt_measure<layer_norm_dot> plan(const bt_call *call)
    {
        const bt_view *x = &call->in[0], *g = &call->in[3];
        const uint32_t columns = UINT32_C(1) << (x->rank - 1);
        bt_measure<layer_norm_dot> a = {};
        a.in[0] = {x->data, x->dtype, bt_walk_of(x, columns), bt_walk_of(x, ~columns)};
        a.in[1] = {g->data, g->dtype, bt_walk_of(g, columns), bt_walk_of(g, ~columns)};
        a.in[2] = of_all(&call->in[1]);
        a.in[3] = of_all(&call->in[2]);
        a.tile = tile_of(a.in[0]);
        return a;
    }
    static __device__ double none() { return 0; }
    static __device__ double join(double a, double b) { return a + b; }
    static __device__ double measure(const auto &a, const auto &me, double *room)
    {
        double sum = 0;
        bt_measure_each<4>(a, me, [&](int64_t, const T *x) { sum += (double)((x[0] - x[2]) / x[3] * x[1]); });
        return bt_tile_join<added>(a.tile, room, sum);
    }
    static __device__ double tell(const auto &, const auto &, double sum) { return sum; }
    static __device__ void leave(const auto &a, int64_t line, double sum)
    {
        bt_store(a.given[0], a.outputs[0], line, sum);
    }
};

/* ---- on the host ---- */

static bool doubles(const bt_call *call) { return call->in[0].dtype == BT_F64; }

template <template <class> class OP> static size_t scratch(const bt_call *call)
{
    return doubles(call) ? bt_measure_scratch(OP<double>::plan(call)) : bt_measure_scratch(OP<float>::plan(call));
}

template <template <class> class OP> static bt_status launch(const bt_call *call)
{
    return doubles(call) ? bt_measure_launch(call, OP<double>::plan(call))
                         : bt_measure_launch(call, OP<float>::plan(call));
}

/* For ops with labels, operand 1. */
template <class OP> static bt_status watched(const bt_call *call)
{
    bt_cuda_queue *queue = (bt_cuda_queue *)call->queue;
    bt_measure<OP> a = OP::plan(call);
    a.record = queue->record;
    a.site = bt_cuda_watch(queue, call, &call->in[1], a.in[0].along.n);
    return a.site < 0 ? BT_ERROR_MEMORY : bt_measure_launch(call, a);
}

template <template <class> class OP> static bt_status launch_watched(const bt_call *call)
{
    return doubles(call) ? watched<OP<double>>(call) : watched<OP<float>>(call);
}

#define ROWS(op_name, function)                                                                                        \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".cuda", .scratch = scratch<op_name>, .launch = function<op_name>,    \
        .half = true                                                                                                   \
    }

extern "C" const bt_kernel_impl bt_cuda_row[] = {
    ROWS(softmax, launch),
    ROWS(softmax_grad, launch),
    ROWS(log_softmax, launch),
    ROWS(cross_entropy, launch_watched),
    ROWS(cross_entropy_grad, launch_watched),
    ROWS(layer_norm, launch),
    ROWS(layer_norm_grad, launch),
    ROWS(layer_norm_dot, launch),
    {},
};
