/* backend/cuda/update.cu: the optimisers' updates, in f32 with the CPU's bits: backend/update.h. Only values computed
 * from hyperparameters alone, in double precision, may differ in their last bits. */
#include "backend/cuda/update.h"

template <int N> struct updating {
    bt_lines<N> lines; /* p, g and the states */
    struct {
        char *data;
        bt_dtype dtype;
    } out[N - 1]; /* p', then the states */
    bt_update_numbers numbers;
};

template <class U> static __global__ void update(const updating<U::states + 2> u)
{
    typedef typename U::T T;
    const int N = U::states + 2;
    BT_SHARED(double, scalar, BT_UPDATE_SCALARS);
    bt_update_prepare<U>(u.numbers, scalar);
    const bool ok = bt_update_ok(u.numbers);
    const typename U::with with = U::of(scalar);
    BT_CUDA_EACH(i, u.lines.n)
    {
        int64_t at[N];
        T x[N];
        bt_lines_at<N>(u.lines, i, at);
        for (int k = 0; k < N; k++)
            x[k] = bt_load<T>(u.lines.in[k].dtype, u.lines.in[k].data, at[k]);
        if (ok)
            U::step(with, scalar, u.numbers.flag, x);
        for (int k = 0; k < N - 1; k++)
            bt_store<T>(u.out[k].dtype, u.out[k].data, i, x[k ? k + 1 : 0]);
    }
}

template <class U> static bt_status start(const bt_call *call, int64_t flag)
{
    const int N = U::states + 2;
    updating<N> u = {};
    u.lines = bt_lines_of<N>(call->in, &call->out[0]);
    u.numbers = bt_update_numbers_of(call, N, U::given, flag);
    for (int k = 0; k < N - 1; k++)
        u.out[k] = {call->out[k].data, call->out[k].dtype};
    return bt_cuda_each<updating<N>>(call, update<U>, u.lines.n, u);
}

static bool wide(const bt_call *call) { return call->out[0].dtype == BT_F64; }

static bt_status sgd_plain(const bt_call *call)
{
    return wide(call) ? start<bt_update_plain_f64>(call, 0) : start<bt_update_plain_f32>(call, 0);
}

static bt_status sgd(const bt_call *call)
{
    const int64_t nesterov = ((const bt_sgd_attr *)call->attr)->nesterov;
    return wide(call) ? start<bt_update_momentum_f64>(call, nesterov) : start<bt_update_momentum_f32>(call, nesterov);
}

static bt_status adam(const bt_call *call)
{
    const int64_t decoupled = ((const bt_adam_attr *)call->attr)->decoupled;
    return wide(call) ? start<bt_update_adam_f64>(call, decoupled) : start<bt_update_adam_f32>(call, decoupled);
}

extern "C" const bt_kernel_impl bt_cuda_update[] = {
    BT_CUDA_KERNEL(sgd_plain_update, sgd_plain),
    BT_CUDA_KERNEL(sgd_update, sgd),
    BT_CUDA_KERNEL(adam_update, adam),
    {},
};
