/* backend/cpu/update.c: the optimisers' updates, in one pass over contiguous arrays. The formulas are PyTorch's. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/vector.h"

#include <math.h>

enum { STATES = 3, SCALARS = 7 };

typedef struct update { /* of elements 0 .. n-1 */
    int64_t n;
    const void *p, *g, *state[STATES - 1];
    void *out[STATES]; /* p', then the states */
    double scalar[SCALARS];
} update;

#define SGD_PLAIN(name, T)                                                                                             \
    static void name(const update *u)                                                                                  \
    {                                                                                                                  \
        const T *p = u->p, *g = u->g;                                                                                  \
        T *to = u->out[0], lr = (T)u->scalar[0], decay = (T)u->scalar[3];                                              \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < u->n; i++)                                                                             \
            to[i] = p[i] - lr * (g[i] + decay * p[i]);                                                                 \
    }
SGD_PLAIN(sgd_plain_f32, float)
SGD_PLAIN(sgd_plain_f64, double)

/* Each kind its own loop: a step that is the new m alone must not meet 0 times infinity. */
#define SGD(name, T, next, step)                                                                                       \
    static void name(const update *u)                                                                                  \
    {                                                                                                                  \
        const T *p = u->p, *g = u->g, *old = u->state[0];                                                              \
        T *to = u->out[0], *to_m = u->out[1], lr = (T)u->scalar[0], momentum = (T)u->scalar[1];                        \
        T fresh = (T)(1 - u->scalar[2]), decay = (T)u->scalar[3];                                                      \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            T d = g[i] + decay * p[i], m = next;                                                                       \
            to[i] = p[i] - lr * (step);                                                                                \
            to_m[i] = m;                                                                                               \
        }                                                                                                              \
        (void)old, (void)momentum, (void)fresh;                                                                        \
    }
#define SGDS(type, T)                                                                                                  \
    SGD(sgd_##type, T, momentum *old[i] + fresh * d, m)                                                                \
    SGD(sgd_first_##type, T, d, m)                                                                                     \
    SGD(sgd_nesterov_##type, T, momentum *old[i] + fresh * d, d + momentum * m)                                        \
    SGD(sgd_nesterov_first_##type, T, d, d + momentum * m)
SGDS(f32, float)
SGDS(f64, double)

#define ADAM(name, T, root)                                                                                            \
    static void name(const update *u)                                                                                  \
    {                                                                                                                  \
        const T *p = u->p, *g = u->g, *m = u->state[0], *v = u->state[1];                                              \
        T *to = u->out[0], *to_m = u->out[1], *to_v = u->out[2];                                                       \
        T step = (T)u->scalar[0], beta1 = (T)u->scalar[1], beta2 = (T)u->scalar[2], eps = (T)u->scalar[3];             \
        T shrink = (T)u->scalar[4], decay = (T)u->scalar[5], fresh1 = (T)(1 - u->scalar[1]);                           \
        T fresh2 = (T)(1 - u->scalar[2]), correction = (T)u->scalar[6];                                                \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            T d = g[i] + decay * p[i];                                                                                 \
            T m_new = beta1 * m[i] + fresh1 * d, v_new = beta2 * v[i] + fresh2 * d * d;                                \
            to[i] = shrink * p[i] - step * m_new / (root(v_new * correction) + eps);                                   \
            to_m[i] = m_new;                                                                                           \
            to_v[i] = v_new;                                                                                           \
        }                                                                                                              \
    }
ADAM(adam_f32, float, __builtin_sqrtf)
ADAM(adam_f64, double, __builtin_sqrt)

/* Where nothing is to be done: what stays, stays. */
static void keep(const update *u, int states, size_t size)
{
    const void *from[] = {u->p, u->state[0], u->state[1]};
    for (int i = 0; i < states; i++)
        if (u->out[i] != from[i] && u->n)
            memcpy(u->out[i], from[i], (size_t)u->n * size);
}

typedef void update_fn(const update *u);

static const char *move(const void *data, int64_t bytes) { return data ? (const char *)data + bytes : NULL; }

/* The same for a part of the elements. */
static update part_of(const update *u, int64_t begin, int64_t end, int64_t size)
{
    update part = *u;
    part.n = end - begin;
    part.p = move(u->p, begin * size);
    part.g = move(u->g, begin * size);
    for (int i = 0; i < STATES - 1; i++)
        part.state[i] = move(u->state[i], begin * size);
    for (int i = 0; i < STATES; i++)
        part.out[i] = u->out[i] ? (char *)u->out[i] + begin * size : NULL;
    return part;
}

typedef struct shared { /* between threads */
    const update *update;
    update_fn *function;
    int64_t size;
} shared;

static void share(const void *work, int t, int threads)
{
    const shared *s = work;
    int64_t n = s->update->n, units = (n + 63) / 64;
    int64_t begin = units * t / threads * 64, end = units * (t + 1) / threads * 64;
    update part = part_of(s->update, begin, end < n ? end : n, s->size);
    s->function(&part);
}

static bt_status run(const bt_call *call, const update *u, update_fn *f32, update_fn *f64)
{
    bool single = call->out[0].dtype == BT_F32;
    update_fn *function = single ? f32 : f64;
    int threads = call->threads > 1 && u->n >= 1 << 15 ? call->threads : 1;
    if (threads == 1)
        function(u);
    else
        bt_team_do(share, &(shared){u, function, single ? 4 : 8}, threads);
    return BT_OK;
}

/* ---- the ops ---- */

static double scalar(const bt_call *call, int input) { return bt_cpu_get(&call->in[input], 0); }

/* The first `arrays` inputs are arrays of the output's dtype. */
static bool arrays(const bt_call *call, int count)
{
    for (int i = 0; i < count; i++)
        if (!bt_cpu_contiguous(&call->in[i]) || call->in[i].dtype != call->out[0].dtype)
            return false;
    return bt_dtype_floats(call->out[0].dtype);
}

static update update_of(const bt_call *call)
{
    update u = {.n = bt_cpu_count(&call->out[0]), .p = call->in[0].data, .g = call->in[1].data};
    for (int i = 0; i < call->outputs; i++) {
        u.out[i] = call->out[i].data;
        if (i)
            u.state[i - 1] = call->in[i + 1].data;
    }
    return u;
}

static bool sgd_plain_accepts(const bt_call *call) { return arrays(call, 2); }

static bt_status sgd_plain_update(const bt_call *call)
{
    update u = update_of(call);
    if (scalar(call, 2) == 0) {
        keep(&u, 1, bt_dtype_size(call->out[0].dtype));
        return BT_OK;
    }
    u.scalar[0] = scalar(call, 3);
    u.scalar[3] = scalar(call, 4);
    return run(call, &u, sgd_plain_f32, sgd_plain_f64);
}

static bool sgd_accepts(const bt_call *call) { return arrays(call, 3); }

static bt_status sgd_update(const bt_call *call)
{
    static update_fn *const functions[2][2][2] = {
        {{sgd_f32, sgd_f64}, {sgd_first_f32, sgd_first_f64}},
        {{sgd_nesterov_f32, sgd_nesterov_f64}, {sgd_nesterov_first_f32, sgd_nesterov_first_f64}},
    };
    update u = update_of(call);
    if (scalar(call, 3) == 0) {
        keep(&u, 2, bt_dtype_size(call->out[0].dtype));
        return BT_OK;
    }
    for (int i = 0; i < 4; i++)
        u.scalar[i] = scalar(call, 4 + i); /* lr, momentum, dampening, decay */
    update_fn *const *chosen = functions[((const bt_sgd_attr *)call->attr)->nesterov != 0][scalar(call, 8) != 0];
    return run(call, &u, chosen[0], chosen[1]);
}

static bool adam_accepts(const bt_call *call) { return arrays(call, 4); }

static bt_status adam_update(const bt_call *call)
{
    update u = update_of(call);
    if (scalar(call, 4) == 0) {
        keep(&u, 3, bt_dtype_size(call->out[0].dtype));
        return BT_OK;
    }
    bool decoupled = ((const bt_adam_attr *)call->attr)->decoupled != 0;
    double lr = scalar(call, 5), beta1 = scalar(call, 6), beta2 = scalar(call, 7), decay = scalar(call, 9);
    double t = scalar(call, 10);
    u.scalar[0] = lr / (1 - pow(beta1, t));
    u.scalar[1] = beta1;
    u.scalar[2] = beta2;
    u.scalar[3] = scalar(call, 8);
    u.scalar[4] = decoupled ? 1 - lr * decay : 1;
    u.scalar[5] = decoupled ? 0 : decay;
    u.scalar[6] = 1 / (1 - pow(beta2, t));
    return run(call, &u, adam_f32, adam_f64);
}

const bt_kernel_impl BT_ISA(bt_cpu_update)[] = {
    {&bt_op_sgd_plain_update, "sgd_plain_update.vector", sgd_plain_accepts, NULL, NULL, sgd_plain_update, NULL, false},
    {&bt_op_sgd_update, "sgd_update.vector", sgd_accepts, NULL, NULL, sgd_update, NULL, false},
    {&bt_op_adam_update, "adam_update.vector", adam_accepts, NULL, NULL, adam_update, NULL, false},
    {.op = NULL},
};
