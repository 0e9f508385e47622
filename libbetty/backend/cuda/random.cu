/* backend/cuda/random.cu: uniform, normal, dropout and stochastic rounding. Each element is a pure function of its
 * number (ops/random.h). A thread computes its element with the whole block of Philox, which takes less time than
 * memory does. f32 has the CPU's bits; in f64, normal numbers use the device's logarithm and cosine. */
#include "backend/cuda/lines.h"
#include "backend/random.h"

extern "C" {
#include "ops/random.h"
}

typedef struct stream {
    uint64_t key, first; /* first: element 0 is this element of the whole array */
    uint32_t site;
    bt_view record;
    char *out;
    bt_dtype dtype;
    int64_t n;
} stream;

typedef struct filter { /* what is done to each number of x */
    stream random;
    bt_lines<1> x;
    double probability;
} filter;

static inline __device__ int64_t record_of(const stream &s) { return bt_get_at<int64_t>(s.record, 0); }

/* Selects by comparisons: an array indexed by a run-time number would be in memory. */
static inline __device__ uint32_t word(const stream &s, int64_t record, uint64_t e)
{
    const bt_philox block = bt_random_word(s.key, s.site, record, e / 4);
    const uint32_t first = e & 1 ? block.word[1] : block.word[0], last = e & 1 ? block.word[3] : block.word[2];
    return e & 2 ? last : first;
}

typedef struct pair {
    uint32_t high, low;
} pair;

static inline __device__ pair words(const stream &s, int64_t record, uint64_t e)
{
    const bt_philox block = bt_random_word(s.key, s.site, record, e / 2);
    return {e & 1 ? block.word[2] : block.word[0], e & 1 ? block.word[3] : block.word[1]};
}

static inline __device__ double unit(const pair &w) { return bt_philox_f64(w.high, w.low); }

/* ---- uniform, normal ---- */

static __global__ void uniform_kernel(const stream s)
{
    const int64_t record = record_of(s);
    BT_CUDA_EACH(i, s.n)
    {
        const uint64_t e = s.first + (uint64_t)i;
        if (s.dtype == BT_F32)
            ((float *)s.out)[i] = bt_unit_f32(word(s, record, e));
        else
            ((double *)s.out)[i] = unit(words(s, record, e));
    }
}

static __global__ void normal_kernel(const stream s)
{
    const int64_t record = record_of(s);
    BT_CUDA_EACH(i, s.n)
    {
        const uint64_t e = s.first + (uint64_t)i;
        const pair w = words(s, record, e);
        if (s.dtype == BT_F32)
            ((float *)s.out)[i] = bt_normal_f32(w.high, w.low);
        else
            ((double *)s.out)[i] = bt_philox_normal(w.high, w.low);
    }
}

static stream stream_of(const bt_call *call, int record)
{
    const bt_random_attr *attr = (const bt_random_attr *)call->attr;
    const bt_view *out = &call->out[0];
    return {attr->key, (uint64_t)attr->first, attr->site, call->in[record], out->data, out->dtype, bt_cpu_count(out)};
}

static bt_status uniform(const bt_call *call)
{
    const stream s = stream_of(call, 0);
    return bt_cuda_each<stream>(call, uniform_kernel, s.n, s);
}

static bt_status normal(const bt_call *call)
{
    const stream s = stream_of(call, 0);
    return bt_cuda_each<stream>(call, normal_kernel, s.n, s);
}

/* ---- dropout, stochastic_round ---- */

static __global__ void drop(const filter f)
{
    const stream &s = f.random;
    const int64_t record = record_of(s);
    const double scale = 1 / (1 - f.probability);
    const int32_t least = bt_least_kept(f.probability);
    BT_CUDA_EACH(i, s.n)
    {
        const uint64_t e = s.first + (uint64_t)i;
        int64_t at;
        bt_lines_at<1>(f.x, i, &at);
        if (s.dtype == BT_F32) {
            const float x = bt_load<float>(f.x.in[0].dtype, f.x.in[0].data, at);
            ((float *)s.out)[i] = bt_kept(word(s, record, e), least) ? x * (float)scale : 0.0F;
        } else {
            const double x = bt_load<double>(f.x.in[0].dtype, f.x.in[0].data, at);
            ((double *)s.out)[i] = unit(words(s, record, e)) >= f.probability ? x * scale : 0.0;
        }
    }
}

static __global__ void round_kernel(const filter f)
{
    const stream &s = f.random;
    const int64_t updates = record_of(s);
    BT_CUDA_EACH(i, s.n)
    {
        int64_t at;
        bt_lines_at<1>(f.x, i, &at);
        const uint32_t bits = bt_f32_bits(bt_load<float>(f.x.in[0].dtype, f.x.in[0].data, at));
        const uint32_t kept = bt_stochastic_bits(bits, word(s, updates, s.first + (uint64_t)i)) & 0xffff0000;
        bt_store<float>(s.dtype, s.out, i, bt_f32_of(kept));
    }
}

static bt_status dropout(const bt_call *call)
{
    const bt_random_attr *attr = (const bt_random_attr *)call->attr;
    const filter f = {stream_of(call, 1), bt_lines_of<1>(call->in, &call->out[0]), attr->probability};
    return bt_cuda_each<filter>(call, drop, f.random.n, f);
}

static bt_status stochastic_round(const bt_call *call)
{
    const bt_stochastic_attr *attr = (const bt_stochastic_attr *)call->attr;
    const bt_view *out = &call->out[0];
    const stream s = {attr->key,  (uint64_t)attr->first, attr->site, call->in[1], out->data,
                      out->dtype, bt_cpu_count(out)};
    const filter f = {s, bt_lines_of<1>(call->in, out), 0};
    return bt_cuda_each<filter>(call, round_kernel, s.n, f);
}

/* Without 16-bit dtypes: u has the result's dtype. */
#define RANDOM(op_name)                                                                                                \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".cuda", .launch = op_name                                            \
    }

extern "C" const bt_kernel_impl bt_cuda_random[] = {
    RANDOM(uniform), RANDOM(normal), RANDOM(dropout), BT_CUDA_KERNEL(stochastic_round, stochastic_round), {},
};
