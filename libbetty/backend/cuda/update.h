/* backend/cuda/update.h: shared by the updates of update.cu and eight.cu: the scalars, and a step on the numbers x of
 * one element, which are p, g and the states. */
#ifndef BT_CUDA_UPDATE_H
#define BT_CUDA_UPDATE_H

#include "backend/cuda/lines.h"
#include "backend/update.h"

enum { BT_UPDATE_GIVEN = 6 };

struct bt_update_numbers { /* in the device's memory */
    struct number {
        const char *data;
        bt_dtype dtype;
    } ok, given[BT_UPDATE_GIVEN];
    int flag; /* nesterov; decoupled */
};

/* The call's numbers: input `ok` and the `given` inputs after it. */
static inline bt_update_numbers bt_update_numbers_of(const bt_call *call, int ok, int given, int64_t flag)
{
    bt_update_numbers numbers = {};
    numbers.ok = {call->in[ok].data, call->in[ok].dtype};
    for (int i = 0; i < given; i++)
        numbers.given[i] = {call->in[ok + 1 + i].data, call->in[ok + 1 + i].dtype};
    numbers.flag = flag != 0;
    return numbers;
}

static inline __device__ bool bt_update_ok(const bt_update_numbers &numbers)
{
    return bt_load<int32_t>(numbers.ok.dtype, numbers.ok.data, 0) != 0;
}

/* Run by the first thread of a block for all its threads. */
template <class U> static inline __device__ void bt_update_prepare(const bt_update_numbers &numbers, double *scalar)
{
    if (threadIdx.x == 0) {
        double given[BT_UPDATE_GIVEN] = {};
        for (int i = 0; i < U::given; i++)
            given[i] = bt_load<double>(numbers.given[i].dtype, numbers.given[i].data, 0);
        U::prepare(given, numbers.flag, scalar);
    }
    __syncthreads();
}

struct bt_update_plain { /* lr, weight_decay */
    static const int states = 0, given = 2;
    static __device__ inline void prepare(const double *from, int, double *scalar)
    {
        scalar[0] = from[0];
        scalar[1] = scalar[2] = 0;
        scalar[3] = from[1];
    }
};

struct bt_update_momentum { /* lr, momentum, dampening, weight_decay, first */
    static const int states = 1, given = 5;
    static __device__ inline void prepare(const double *from, int, double *scalar)
    {
        for (int i = 0; i < given; i++)
            scalar[i] = from[i];
    }
};

struct bt_update_adam { /* lr, beta1, beta2, eps, weight_decay, t */
    static const int states = 2, given = 6;
    static __device__ inline void prepare(const double *from, int decoupled, double *scalar)
    {
        bt_adam_scalars(from, decoupled, scalar);
    }
};

struct bt_update_lion { /* lr, beta1, beta2, weight_decay */
    static const int states = 1, given = 4;
    static __device__ inline void prepare(const double *from, int, double *scalar) { bt_lion_scalars(from, scalar); }
};

/* The same for one type. */
#define BT_UPDATE_OF(name, type, number, scalars, body)                                                                \
    struct bt_update_##name##_##type : bt_update_##name {                                                              \
        typedef number T;                                                                                              \
        typedef bt_##scalars##_##type with;                                                                            \
        static __device__ inline with of(const double *scalar) { return bt_##scalars##_of_##type(scalar); }            \
        static __device__ inline void step(const with &w, const double *scalar, int flag, T *x)                        \
        {                                                                                                              \
            (void)scalar, (void)flag;                                                                                  \
            body;                                                                                                      \
        }                                                                                                              \
    };
#define BT_UPDATES_OF(type, number)                                                                                    \
    BT_UPDATE_OF(plain, type, number, sgd, bt_sgd_plain_step_##type(&w, &x[0], x[1]))                                  \
    BT_UPDATE_OF(momentum, type, number, sgd, bt_sgd_step_##type(&w, flag, scalar[4] != 0, &x[0], x[1], &x[2]))        \
    BT_UPDATE_OF(adam, type, number, adam, bt_adam_step_##type(&w, &x[0], x[1], &x[2], &x[3]))                         \
    BT_UPDATE_OF(lion, type, number, lion, bt_lion_step_##type(&w, &x[0], x[1], &x[2]))
BT_UPDATES_OF(f32, float)
BT_UPDATES_OF(f64, double)

#endif
