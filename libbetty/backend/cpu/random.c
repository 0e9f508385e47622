/* backend/cpu/random.c: uniform, normal, dropout and stochastic rounding, from several blocks of Philox side by
 * side. */
#include "ops/random.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/vector.h"
#include "backend/random.h"

enum { BLOCKS = 32, WORDS = 4 * BLOCKS }; /* computed at a time */

typedef struct stream {
    uint64_t key;
    uint32_t site;
    int64_t record, first; /* first: element 0 is this element of the whole array */
} stream;

static stream stream_of(const bt_call *call, int record)
{
    const bt_random_attr *attr = call->attr;
    return (stream){attr->key, attr->site, bt_cpu_get_int(&call->in[record], 0), attr->first};
}

static stream stream_of_updates(const bt_call *call)
{
    const bt_stochastic_attr *attr = call->attr;
    return (stream){attr->key, attr->site, bt_cpu_get_int(&call->in[1], 0), attr->first};
}

/* bt_random_word for BLOCKS blocks. */
static void fill(uint32_t *words, const stream *s, uint64_t block)
{
    uint32_t c0[BLOCKS], c1[BLOCKS], c2[BLOCKS], c3[BLOCKS];
    uint32_t key0 = (uint32_t)s->key, key1 = (uint32_t)(s->key >> 32);
    for (int i = 0; i < BLOCKS; i++) {
        c0[i] = (uint32_t)block + (uint32_t)i;
        c1[i] = s->site;
        c2[i] = (uint32_t)(uint64_t)s->record;
        c3[i] = (uint32_t)((uint64_t)s->record >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            uint64_t product0 = UINT64_C(0xD2511F53) * c0[i], product1 = UINT64_C(0xCD9E8D57) * c2[i];
            c0[i] = (uint32_t)(product1 >> 32) ^ c1[i] ^ key0;
            c2[i] = (uint32_t)(product0 >> 32) ^ c3[i] ^ key1;
            c1[i] = (uint32_t)product1;
            c3[i] = (uint32_t)product0;
        }
        key0 += UINT32_C(0x9E3779B9);
        key1 += UINT32_C(0xBB67AE85);
    }
    for (int i = 0; i < BLOCKS; i++) {
        words[4 * i] = c0[i];
        words[4 * i + 1] = c1[i];
        words[4 * i + 2] = c2[i];
        words[4 * i + 3] = c3[i];
    }
}

/* Turns words into elements first .. first + n - 1; n is at most WORDS (f64: WORDS / 2). */
typedef void use_fn(const bt_call *call, const uint32_t *words, int64_t first, int64_t n);

static double unit_f64(const uint32_t *words, int64_t i) { return bt_philox_f64(words[2 * i], words[2 * i + 1]); }

static void uniform_f32(const bt_call *call, const uint32_t *words, int64_t first, int64_t n)
{
    float *y = (float *)(void *)call->out[0].data + first;
    for (int64_t i = 0; i < n; i++)
        y[i] = bt_unit_f32(words[i]);
}

static void uniform_f64(const bt_call *call, const uint32_t *words, int64_t first, int64_t n)
{
    double *y = (double *)(void *)call->out[0].data + first;
    for (int64_t i = 0; i < n; i++)
        y[i] = unit_f64(words, i);
}

static void normal_f32(const bt_call *call, const uint32_t *words, int64_t first, int64_t n)
{
    float *y = (float *)(void *)call->out[0].data + first;
    for (int64_t i = 0; i < n; i++)
        y[i] = bt_normal_f32(words[2 * i], words[2 * i + 1]);
}

static void normal_f64(const bt_call *call, const uint32_t *words, int64_t first, int64_t n)
{
    double *y = (double *)(void *)call->out[0].data + first;
    for (int64_t i = 0; i < n; i++)
        y[i] = bt_philox_normal(words[2 * i], words[2 * i + 1]);
}

static void dropout_f32(const bt_call *call, const uint32_t *words, int64_t first, int64_t n)
{
    double probability = ((const bt_random_attr *)call->attr)->probability;
    const float *x = (const float *)(const void *)call->in[0].data + first;
    float *y = (float *)(void *)call->out[0].data + first, scale = (float)(1 / (1 - probability));
    const int32_t least = bt_least_kept(probability);
    BT_SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] = bt_kept(words[i], least) ? x[i] * scale : 0.0F;
}

static void dropout_f64(const bt_call *call, const uint32_t *words, int64_t first, int64_t n)
{
    double probability = ((const bt_random_attr *)call->attr)->probability, scale = 1 / (1 - probability);
    const double *x = (const double *)(const void *)call->in[0].data + first;
    double *y = (double *)(void *)call->out[0].data + first;
    for (int64_t i = 0; i < n; i++)
        y[i] = unit_f64(words, i) >= probability ? x[i] * scale : 0.0;
}

static void stochastic_f32(const bt_call *call, const uint32_t *words, int64_t first, int64_t n)
{
    const uint32_t *x = (const uint32_t *)(const void *)call->in[0].data + first;
    uint32_t *y = (uint32_t *)(void *)call->out[0].data + first;
    for (int64_t i = 0; i < n; i++)
        y[i] = bt_stochastic_bits(x[i], words[i]) & 0xffff0000;
}

static void stochastic_bf16(const bt_call *call, const uint32_t *words, int64_t first, int64_t n)
{
    const uint32_t *x = (const uint32_t *)(const void *)call->in[0].data + first;
    uint16_t *y = (uint16_t *)(void *)call->out[0].data + first;
    for (int64_t i = 0; i < n; i++)
        y[i] = (uint16_t)(bt_stochastic_bits(x[i], words[i]) >> 16);
}

static void part(const bt_call *call, const stream *s, use_fn *use, int per_word, int64_t begin, int64_t end)
{
    uint32_t words[WORDS];
    for (int64_t first = begin, n; first < end; first += n) {
        const int64_t word = (s->first + first) * per_word, skipped = word % 4, most = (WORDS - skipped) / per_word;
        fill(words, s, (uint64_t)(word / 4));
        n = end - first < most ? end - first : most;
        use(call, words + skipped, first, n);
    }
}

typedef struct shared { /* between threads */
    const bt_call *call;
    const stream *stream;
    use_fn *use;
    int per_word;
    int64_t count;
} shared;

static void share(const void *work, int t, int threads)
{
    const shared *s = work;
    int64_t units = (s->count + WORDS - 1) / WORDS, end = units * (t + 1) / threads * WORDS;
    part(s->call, s->stream, s->use, s->per_word, units * t / threads * WORDS, end < s->count ? end : s->count);
}

/* per_word: words per element. */
static bt_status run_stream(const bt_call *call, stream s, use_fn *use, int per_word)
{
    int64_t count = bt_cpu_count(&call->out[0]);
    int threads = call->threads > 1 && count >= 1 << 14 ? call->threads : 1;
    bt_team_do(share, &(shared){call, &s, use, per_word, count}, threads);
    return BT_OK;
}

static bt_status run(const bt_call *call, int record, use_fn *use, int per_word)
{
    return run_stream(call, stream_of(call, record), use, per_word);
}

static bt_status uniform(const bt_call *call)
{
    return call->out[0].dtype == BT_F32 ? run(call, 0, uniform_f32, 1) : run(call, 0, uniform_f64, 2);
}

static bt_status normal(const bt_call *call)
{
    return run(call, 0, call->out[0].dtype == BT_F32 ? normal_f32 : normal_f64, 2);
}

static bool dropout_accepts(const bt_call *call)
{
    return bt_cpu_contiguous(&call->in[0]) && call->in[0].dtype == call->out[0].dtype;
}

static bt_status dropout(const bt_call *call)
{
    return call->out[0].dtype == BT_F32 ? run(call, 1, dropout_f32, 1) : run(call, 1, dropout_f64, 2);
}

static bool stochastic_accepts(const bt_call *call)
{
    bt_dtype to = call->out[0].dtype;
    return bt_cpu_contiguous(&call->in[0]) && call->in[0].dtype == BT_F32 && (to == BT_F32 || to == BT_BF16);
}

static bt_status stochastic_round(const bt_call *call)
{
    return run_stream(call, stream_of_updates(call), call->out[0].dtype == BT_F32 ? stochastic_f32 : stochastic_bf16,
                      1);
}

const bt_kernel_impl BT_ISA(bt_cpu_random)[] = {
    {&bt_op_uniform, "uniform.vector", NULL, NULL, NULL, uniform, NULL, false, false},
    {&bt_op_normal, "normal.vector", NULL, NULL, NULL, normal, NULL, false, false},
    {&bt_op_dropout, "dropout.vector", dropout_accepts, NULL, NULL, dropout, NULL, false, false},
    {&bt_op_stochastic_round, "stochastic_round.vector", stochastic_accepts, NULL, NULL, stochastic_round, NULL, false,
     true},
    {.op = NULL},
};
