/* backend/update.h: the update of one element by each optimiser, the same on every device. The formulas are PyTorch's.
 * Hyperparameters are passed as doubles; values that depend only on them are computed in double precision. */
#ifndef BT_BACKEND_UPDATE_H
#define BT_BACKEND_UPDATE_H

#include "backend/math.h"

#include <float.h>
#include <math.h>

enum { BT_UPDATE_SCALARS = 7 };

/* SGD: lr, momentum, dampening, decay. */

/* Adam: computes what bt_adam_of_ takes from lr, beta1, beta2, eps, decay and t. */
BT_INLINE void bt_adam_scalars(const double *given, int decoupled, double *scalar)
{
    const double lr = given[0], decay = given[4], t = given[5];
    scalar[0] = lr / (1 - pow(given[1], t));
    scalar[1] = given[1];
    scalar[2] = given[2];
    scalar[3] = given[3];
    scalar[4] = decoupled ? 1 - lr * decay : 1;
    scalar[5] = decoupled ? 0 : decay;
    scalar[6] = 1 / (1 - pow(given[2], t));
}

/* Lion: computes what bt_lion_of_ takes from lr, beta1, beta2 and decay. */
BT_INLINE void bt_lion_scalars(const double *given, double *scalar)
{
    scalar[0] = given[0];
    scalar[1] = given[1];
    scalar[2] = given[2];
    scalar[3] = 1 - given[0] * given[3];
}

/* settled: state that is kept between steps is set to 0 if it is subnormal. Otherwise a moment whose gradients are 0
 * would stay subnormal for ever (0.9 times 5 of the smallest number rounds to 5 of them), and subnormal arithmetic is
 * many times slower.
 * sgd_step: `nesterov` and `first` (m holds nothing yet) are separate cases, because a step that uses only the new m
 * must not multiply infinity by 0. Each step updates the parameter p and the states m, v; g is the gradient. */
#define BT_UPDATES(type, T, absolute, root, least)                                                                     \
    typedef struct bt_sgd_##type {                                                                                     \
        T lr, momentum, fresh, decay;                                                                                  \
    } bt_sgd_##type;                                                                                                   \
    typedef struct bt_adam_##type {                                                                                    \
        T step, beta1, fresh1, beta2, fresh2, eps, shrink, decay, correction;                                          \
    } bt_adam_##type;                                                                                                  \
    typedef struct bt_lion_##type {                                                                                    \
        T lr, beta1, fresh1, beta2, fresh2, shrink;                                                                    \
    } bt_lion_##type;                                                                                                  \
    BT_INLINE bt_sgd_##type bt_sgd_of_##type(const double *s)                                                          \
    {                                                                                                                  \
        const bt_sgd_##type with = {(T)s[0], (T)s[1], (T)(1 - s[2]), (T)s[3]};                                         \
        return with;                                                                                                   \
    }                                                                                                                  \
    BT_INLINE bt_adam_##type bt_adam_of_##type(const double *s)                                                        \
    {                                                                                                                  \
        const bt_adam_##type with = {(T)s[0], (T)s[1], (T)(1 - s[1]), (T)s[2], (T)(1 - s[2]),                          \
                                     (T)s[3], (T)s[4], (T)s[5],       (T)s[6]};                                        \
        return with;                                                                                                   \
    }                                                                                                                  \
    BT_INLINE bt_lion_##type bt_lion_of_##type(const double *s)                                                        \
    {                                                                                                                  \
        const bt_lion_##type with = {(T)s[0], (T)s[1], (T)(1 - s[1]), (T)s[2], (T)(1 - s[2]), (T)s[3]};                \
        return with;                                                                                                   \
    }                                                                                                                  \
    BT_INLINE T bt_settled_##type(T x) { return absolute(x) < least ? 0 : x; }                                         \
    BT_INLINE void bt_sgd_plain_step_##type(const bt_sgd_##type *with, T *p, T g)                                      \
    {                                                                                                                  \
        *p = *p - with->lr * (g + with->decay * *p);                                                                   \
    }                                                                                                                  \
    BT_INLINE void bt_sgd_step_##type(const bt_sgd_##type *with, int nesterov, int first, T *p, T g, T *m)             \
    {                                                                                                                  \
        const T d = g + with->decay * *p, next = first ? d : with->momentum * *m + with->fresh * d;                    \
        *p = *p - with->lr * (nesterov ? d + with->momentum * next : next);                                            \
        *m = bt_settled_##type(next);                                                                                  \
    }                                                                                                                  \
    BT_INLINE void bt_adam_step_##type(const bt_adam_##type *with, T *p, T g, T *m, T *v)                              \
    {                                                                                                                  \
        const T d = g + with->decay * *p;                                                                              \
        const T next = with->beta1 * *m + with->fresh1 * d, square = with->beta2 * *v + with->fresh2 * d * d;          \
        *p = with->shrink * *p - with->step * next / (root(square * with->correction) + with->eps);                    \
        *m = bt_settled_##type(next);                                                                                  \
        *v = bt_settled_##type(square);                                                                                \
    }                                                                                                                  \
    BT_INLINE void bt_lion_step_##type(const bt_lion_##type *with, T *p, T g, T *m)                                    \
    {                                                                                                                  \
        const T way = with->beta1 * *m + with->fresh1 * g, sign = way > 0 ? (T)1 : way < 0 ? (T)-1 : (T)0;             \
        *p = with->shrink * *p - with->lr * sign;                                                                      \
        *m = with->beta2 * *m + with->fresh2 * g;                                                                      \
    }

BT_UPDATES(f32, float, __builtin_fabsf, __builtin_sqrtf, FLT_MIN)
BT_UPDATES(f64, double, __builtin_fabs, __builtin_sqrt, DBL_MIN)

#endif
