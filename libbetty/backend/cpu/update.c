/* backend/cpu/update.c: the optimisers' updates, each in one pass over contiguous arrays. */
#include "backend/update.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/vector.h"
#include "ops/codes.h"

enum { STATES = 3 };

typedef struct update { /* of elements 0 .. n-1 */
    int64_t n;
    const void *p, *g, *state[STATES - 1];
    void *out[STATES]; /* p', then the states */
    double scalar[BT_UPDATE_SCALARS];
} update;

#define SGD_PLAIN(type, T)                                                                                             \
    static void sgd_plain_##type(const update *u)                                                                      \
    {                                                                                                                  \
        const bt_sgd_##type with = bt_sgd_of_##type(u->scalar);                                                        \
        const T *p = u->p, *g = u->g;                                                                                  \
        T *to = u->out[0];                                                                                             \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            T x = p[i];                                                                                                \
            bt_sgd_plain_step_##type(&with, &x, g[i]);                                                                 \
            to[i] = x;                                                                                                 \
        }                                                                                                              \
    }
SGD_PLAIN(f32, float)
SGD_PLAIN(f64, double)

#define SGD(name, type, T, nesterov, first)                                                                            \
    static void name##_##type(const update *u)                                                                         \
    {                                                                                                                  \
        const bt_sgd_##type with = bt_sgd_of_##type(u->scalar);                                                        \
        const T *p = u->p, *g = u->g, *old = u->state[0];                                                              \
        T *to = u->out[0], *to_m = u->out[1];                                                                          \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            T x = p[i], m = old[i];                                                                                    \
            bt_sgd_step_##type(&with, nesterov, first, &x, g[i], &m);                                                  \
            to[i] = x;                                                                                                 \
            to_m[i] = m;                                                                                               \
        }                                                                                                              \
    }
#define SGDS(type, T)                                                                                                  \
    SGD(sgd, type, T, 0, 0)                                                                                            \
    SGD(sgd_first, type, T, 0, 1)                                                                                      \
    SGD(sgd_nesterov, type, T, 1, 0)                                                                                   \
    SGD(sgd_nesterov_first, type, T, 1, 1)
SGDS(f32, float)
SGDS(f64, double)

#define ADAM(type, T)                                                                                                  \
    static void adam_##type(const update *u)                                                                           \
    {                                                                                                                  \
        const bt_adam_##type with = bt_adam_of_##type(u->scalar);                                                      \
        const T *p = u->p, *g = u->g, *old_m = u->state[0], *old_v = u->state[1];                                      \
        T *to = u->out[0], *to_m = u->out[1], *to_v = u->out[2];                                                       \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            T x = p[i], m = old_m[i], v = old_v[i];                                                                    \
            bt_adam_step_##type(&with, &x, g[i], &m, &v);                                                              \
            to[i] = x;                                                                                                 \
            to_m[i] = m;                                                                                               \
            to_v[i] = v;                                                                                               \
        }                                                                                                              \
    }
ADAM(f32, float)
ADAM(f64, double)

#define LION(type, T)                                                                                                  \
    static void lion_##type(const update *u)                                                                           \
    {                                                                                                                  \
        const bt_lion_##type with = bt_lion_of_##type(u->scalar);                                                      \
        const T *p = u->p, *g = u->g, *old = u->state[0];                                                              \
        T *to = u->out[0], *to_m = u->out[1];                                                                          \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            T x = p[i], m = old[i];                                                                                    \
            bt_lion_step_##type(&with, &x, g[i], &m);                                                                  \
            to[i] = x;                                                                                                 \
            to_m[i] = m;                                                                                               \
        }                                                                                                              \
    }
LION(f32, float)
LION(f64, double)

/* For a skipped update: the outputs are copies of the inputs. */
static void keep(const update *u, int states, size_t size)
{
    const void *from[] = {u->p, u->state[0], u->state[1]};
    for (int i = 0; i < states; i++)
        if (u->out[i] != from[i] && u->n)
            memcpy(u->out[i], from[i], (size_t)u->n * size);
}

typedef void update_fn(const update *u);

static const char *move(const void *data, int64_t bytes) { return data ? (const char *)data + bytes : NULL; }

/* The same update for some of the elements. */
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

/* The first `count` inputs are arrays of the output's dtype. */
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

/* lr, beta1, beta2, eps, decay and t are the inputs from `first` on. */
static void adam_scalars(const bt_call *call, int first, update *u)
{
    double given[6];
    for (int i = 0; i < BT_COUNT_OF(given); i++)
        given[i] = scalar(call, first + i);
    bt_adam_scalars(given, ((const bt_adam_attr *)call->attr)->decoupled != 0, u->scalar);
}

static bt_status adam_update(const bt_call *call)
{
    update u = update_of(call);
    if (scalar(call, 4) == 0) {
        keep(&u, 3, bt_dtype_size(call->out[0].dtype));
        return BT_OK;
    }
    adam_scalars(call, 5, &u);
    return run(call, &u, adam_f32, adam_f64);
}

/* ---- states in 8 bits: a block is decoded, updated and encoded while it is in the cache ---- */

typedef struct eight_state {
    const uint8_t *codes;
    const float *scales;
    uint8_t *to_codes;
    float *to_scales;
    const bt_code_book *book;
} eight_state;

typedef struct eight {
    update update; /* of all elements, without its states */
    update_fn *function;
    bool single;
    int states;
    eight_state state[STATES - 1];
} eight;

#define DECODE(name, T)                                                                                                \
    static void name(T *to, const eight_state *s, int64_t block, int64_t n)                                            \
    {                                                                                                                  \
        const uint8_t *codes = s->codes + block * BT_CODES_BLOCK;                                                      \
        T scale = (T)s->scales[block];                                                                                 \
        for (int64_t i = 0; i < n; i++)                                                                                \
            to[i] = (T)s->book->value[codes[i]] * scale;                                                               \
    }
#define ENCODE(name, T, absolute)                                                                                      \
    static void name(const T *x, const eight_state *s, int64_t block, int64_t n)                                       \
    {                                                                                                                  \
        uint8_t *codes = s->to_codes + block * BT_CODES_BLOCK;                                                         \
        T most = 0;                                                                                                    \
        for (int64_t i = 0; i < n; i++)                                                                                \
            most = absolute(x[i]) > most ? absolute(x[i]) : most;                                                      \
        T scale = (T)(s->to_scales[block] = (float)most);                                                              \
        for (int64_t i = 0; i < n; i++)                                                                                \
            codes[i] = bt_code_of(s->book, scale > 0 ? (double)(x[i] / scale) : 0);                                    \
    }
DECODE(decode_f32, float)
DECODE(decode_f64, double)
ENCODE(encode_f32, float, __builtin_fabsf)
ENCODE(encode_f64, double, __builtin_fabs)

static void eight_block(const eight *e, int64_t block)
{
    _Alignas(64) double room[STATES - 1][BT_CODES_BLOCK];
    int64_t begin = block * BT_CODES_BLOCK, end = begin + BT_CODES_BLOCK;
    update part = part_of(&e->update, begin, end < e->update.n ? end : e->update.n, e->single ? 4 : 8);
    for (int i = 0; i < e->states; i++) {
        part.state[i] = part.out[i + 1] = room[i];
        if (e->single)
            decode_f32((float *)(void *)room[i], &e->state[i], block, part.n);
        else
            decode_f64(room[i], &e->state[i], block, part.n);
    }
    e->function(&part);
    for (int i = 0; i < e->states; i++)
        if (e->single)
            encode_f32((const float *)(const void *)room[i], &e->state[i], block, part.n);
        else
            encode_f64(room[i], &e->state[i], block, part.n);
}

static void share_eight(const void *work, int t, int threads)
{
    const eight *e = work;
    int64_t blocks = bt_codes_blocks(e->update.n);
    for (int64_t b = blocks * t / threads, end = blocks * (t + 1) / threads; b < end; b++)
        eight_block(e, b);
}

static bt_status eight_prepare(bt_call *call)
{
    bt_code_book *books = call->state = bt_alloc(2 * sizeof *books); /* signed, unsigned */
    if (!books)
        return BT_ERROR_MEMORY;
    bt_code_book_fill(&books[0], false);
    bt_code_book_fill(&books[1], true);
    return BT_OK;
}

static void eight_release(bt_call *call)
{
    bt_free(call->state);
    call->state = NULL;
}

static bool eight_accepts(const bt_call *call)
{
    for (int i = 0; i < call->outputs + 1; i++)
        if (!bt_cpu_contiguous(&call->in[i]))
            return false;
    return bt_dtype_floats(call->out[0].dtype);
}

/* The call's parameter and states: the first is signed, the second unsigned. */
static eight eight_of(const bt_call *call, update_fn *f32, update_fn *f64)
{
    const bt_code_book *books = call->state;
    bool single = call->out[0].dtype == BT_F32;
    eight e = {.single = single, .function = single ? f32 : f64, .states = (call->outputs - 1) / 2};
    e.update = (update){.n = bt_cpu_count(&call->out[0]), .p = call->in[0].data, .g = call->in[1].data};
    e.update.out[0] = call->out[0].data;
    for (int i = 0; i < e.states; i++)
        e.state[i] = (eight_state){
            (const uint8_t *)call->in[2 + 2 * i].data, (const float *)(const void *)call->in[3 + 2 * i].data,
            (uint8_t *)call->out[1 + 2 * i].data, (float *)(void *)call->out[2 + 2 * i].data, &books[i]};
    return e;
}

static bt_status run_eight(const bt_call *call, const eight *e)
{
    int threads = call->threads > 1 && e->update.n >= 1 << 13 ? call->threads : 1;
    if (threads == 1)
        share_eight(e, 0, 1);
    else
        bt_team_do(share_eight, e, threads);
    return BT_OK;
}

/* For a skipped update: each output is a copy of its input. p and the gradient are the first two inputs. */
static bt_status keep_all(const bt_call *call)
{
    for (int o = 0; o < call->outputs; o++) {
        const bt_view *from = &call->in[o ? o + 1 : 0], *to = &call->out[o];
        size_t bytes = (size_t)bt_cpu_count(to) * bt_dtype_size(to->dtype);
        if (to->data != from->data && bytes)
            memcpy(to->data, from->data, bytes);
    }
    return BT_OK;
}

static bt_status adam8bit_update(const bt_call *call)
{
    if (scalar(call, 6) == 0)
        return keep_all(call);
    eight e = eight_of(call, adam_f32, adam_f64);
    adam_scalars(call, 7, &e.update);
    return run_eight(call, &e);
}

static bt_status lion8bit_update(const bt_call *call)
{
    if (scalar(call, 4) == 0)
        return keep_all(call);
    eight e = eight_of(call, lion_f32, lion_f64);
    const double given[] = {scalar(call, 5), scalar(call, 6), scalar(call, 7), scalar(call, 8)};
    bt_lion_scalars(given, e.update.scalar);
    return run_eight(call, &e);
}

const bt_kernel_impl BT_ISA(bt_cpu_update)[] = {
    {&bt_op_sgd_plain_update, "sgd_plain_update.vector", sgd_plain_accepts, NULL, NULL, sgd_plain_update, NULL, false,
     false},
    {&bt_op_sgd_update, "sgd_update.vector", sgd_accepts, NULL, NULL, sgd_update, NULL, false, false},
    {&bt_op_adam_update, "adam_update.vector", adam_accepts, NULL, NULL, adam_update, NULL, false, false},
    {&bt_op_adam8bit_update, "adam8bit_update.vector", eight_accepts, NULL, eight_prepare, adam8bit_update,
     eight_release, false, false},
    {&bt_op_lion8bit_update, "lion8bit_update.vector", eight_accepts, NULL, eight_prepare, lion8bit_update,
     eight_release, false, false},
    {.op = NULL},
};
