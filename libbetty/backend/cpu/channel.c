/* backend/cpu/channel.c: moments, products and combinations of the channels of channels-last tensors. Rows of few
 * channels are joined to tiles: a whole number of vectors that begins with channel 0. Values per channel are repeated
 * over the tile, so that all loops run along memory. Sums always have the same parts in the same order, for any number
 * of threads. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/vector.h"

enum {
    LONGEST_TILE = 2048, /* elements */
    BLOCK = 16384,       /* bytes of rows summed before their sums are added to those in double */
    FEWEST = 32,         /* rows, or tiles, per block */
    MOST = 64,
    PARTS = 32 /* most parts of a group's rows */
};

enum last { NOTHING, RELU, GATE }; /* what is applied to a combination */

typedef struct job {
    int64_t groups, rows, channels;
    int64_t tile, block; /* elements of a tile; rows of a block, whole tiles */
    int64_t parts;       /* per group, for threads */
    const char *x, *z;
    int terms;
    enum last last;
    const char *gate, *term[BT_CHANNEL_TERMS];
    const bt_view *centre, *m[BT_CHANNEL_TERMS], *a[BT_CHANNEL_TERMS], *d; /* per channel; NULL: missing */
    char *out, *second;
    double *sums; /* if parts > 1: 2 x channels for each part of each group */
    int threads;
    char *local;                /* the scratch of each thread */
    size_t local_bytes, locals; /* of one thread; between threads */
} job;

#define T     float
#define R(x)  x##_f32
#define V     bt_f32w
#define VI    bt_i32w
#define VF(f) BT_F32W(f)
#define LANES (BT_VECTOR / 4)
#define FMA   bt_f32_fma
#include "backend/cpu/channel_template.h"
#undef T
#undef R
#undef V
#undef VI
#undef VF
#undef LANES
#undef FMA
#define T     double
#define R(x)  x##_f64
#define V     bt_f64w
#define VI    bt_i64w
#define VF(f) BT_F64W(f)
#define LANES (BT_VECTOR / 8)
#define FMA   bt_f64_fma
#include "backend/cpu/channel_template.h"
#undef T
#undef R
#undef V
#undef VI
#undef VF
#undef LANES
#undef FMA

/* ---- planning ---- */

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The scratch of one thread: 2 tiles per term and one more for combinations; 3 tiles for sums; for moments also 3 x
 * channels in double. */
static size_t local_bytes(const bt_call *call, const job *j)
{
    size_t tile = (size_t)j->tile * bt_dtype_size(call->in[0].dtype);
    if (call->op == &bt_op_channel_mix)
        return (2 * (size_t)((const bt_channel_attr *)call->attr)->terms + 1) * tile;
    return 3 * tile + (call->op == &bt_op_channel_moments ? 3 * (size_t)j->channels * sizeof(double) : 0);
}

static job job_of(const bt_call *call)
{
    const bt_channel_attr *attr = call->attr;
    const bt_view *x = &call->in[0];
    job j = {.groups = 1, .rows = 1, .channels = x->dims[x->rank - 1], .x = x->data, .out = call->out[0].data};
    int64_t size = (int64_t)bt_dtype_size(x->dtype), strip = 4 * BT_VECTOR / size, channels = j.channels;
    for (int d = 0; d < x->rank - 1; d++)
        *(d < attr->lead ? &j.groups : &j.rows) *= x->dims[d];
    channels = channels ? channels : 1;
    j.tile = channels / common_divisor(channels, strip) * strip;
    if (j.tile > LONGEST_TILE || j.tile > j.rows * channels / 4)
        j.tile = channels;
    int64_t tiles = BLOCK / (j.tile * size);
    tiles = tiles < FEWEST ? FEWEST : tiles > MOST ? MOST : tiles;
    j.block = tiles * (j.tile / channels);
    int64_t blocks = (j.rows + j.block - 1) / j.block;
    j.parts = j.groups >= PARTS || blocks < 2 ? 1 : blocks < PARTS ? blocks : PARTS;
    int64_t units = j.groups * j.parts;
    bool long_enough = (double)j.groups * (double)j.rows * (double)j.channels >= 1 << 16;
    j.threads = !long_enough || units < 2 ? 1 : units < call->threads ? (int)units : call->threads;
    j.local_bytes = local_bytes(call, &j);
    j.locals = bt_align_up(j.local_bytes);
    return j;
}

/* The first row of a part, which has whole blocks. */
static int64_t part_begin(const job *j, int64_t part)
{
    int64_t blocks = (j->rows + j->block - 1) / j->block, row = blocks * part / j->parts * j->block;
    return row < j->rows ? row : j->rows;
}

static size_t mix_scratch(const bt_call *call)
{
    job j = job_of(call);
    return j.channels && j.groups ? (size_t)(j.threads - 1) * j.locals + j.local_bytes : 0;
}

static size_t sums_scratch(const bt_call *call)
{
    job j = job_of(call);
    size_t sums = (size_t)(j.groups * j.parts * j.channels) * 2 * sizeof(double);
    return sums ? (size_t)j.threads * j.locals + sums : 0;
}

/* Rows must be adjacent; operands with one number per channel may have any strides. */
static bool accepts(const bt_call *call)
{
    return bt_dtype_floats(call->in[0].dtype) && bt_cpu_same_dtypes(call, 0, call->inputs - 1) &&
           bt_cpu_contiguous(&call->in[0]);
}

static bool dot_accepts(const bt_call *call) { return accepts(call) && bt_cpu_contiguous(&call->in[1]); }

static bool mix_accepts(const bt_call *call)
{
    const bt_channel_attr *attr = call->attr;
    bt_channel_inputs at = bt_channel_inputs_of(attr);
    for (int k = 1; k < attr->terms; k++)
        if (!bt_cpu_contiguous(&call->in[at.x[k]]))
            return false;
    return accepts(call) && (at.gate < 0 || bt_cpu_contiguous(&call->in[at.gate]));
}

/* ---- running ---- */

typedef void part_fn(const job *j, int64_t unit, char *local);

typedef struct shared { /* between threads */
    const job *job;
    part_fn *part;
    int64_t units;
} shared;

static void share(const void *work, int t, int threads)
{
    const shared *s = work;
    for (int64_t unit = s->units * t / threads; unit < s->units * (t + 1) / threads; unit++)
        s->part(s->job, unit, s->job->local + (size_t)t * s->job->locals);
}

static void run(const bt_call *call, job *j, part_fn *part)
{
    j->local = call->scratch;
    if (j->channels)
        bt_team_do(share, &(shared){j, part, j->groups * j->parts}, j->threads);
}

static bt_dtype dtype_of(const bt_call *call) { return call->in[0].dtype; }

#define PART(name)                                                                                                     \
    static void name(const job *j, int64_t unit, char *local)                                                          \
    {                                                                                                                  \
        double *sums = j->sums + unit * 2 * j->channels;                                                               \
        int64_t part = unit % j->parts;                                                                                \
        name##_part(j, unit / j->parts, part_begin(j, part), part_begin(j, part + 1), local, sums,                     \
                    sums + j->channels);                                                                               \
    }
#define moments_f32_part moments_part_f32
#define moments_f64_part moments_part_f64
#define dot_f32_part     dot_part_f32
#define dot_f64_part     dot_part_f64
PART(moments_f32)
PART(moments_f64)
PART(dot_f32)
PART(dot_f64)

/* Joins the moments of a group's first rows with those of more rows. */
static void join_moments(double *mean, double *squares, double count, double more_mean, double more_squares,
                         double more)
{
    double off = more_mean - *mean;
    *mean += off * more / (count + more);
    *squares += more_squares + off * off * count * more / (count + more);
}

static bt_status moments(const bt_call *call)
{
    job j = job_of(call);
    j.sums = (void *)((char *)call->scratch + (size_t)j.threads * j.locals);
    run(call, &j, dtype_of(call) == BT_F32 ? moments_f32 : moments_f64);
    for (int64_t g = 0; g < j.groups; g++) {
        double *mean = j.sums + g * j.parts * 2 * j.channels, *squares = mean + j.channels;
        for (int64_t p = 1; p < j.parts; p++) {
            const double *more = mean + p * 2 * j.channels;
            double begin = (double)part_begin(&j, p), count = (double)part_begin(&j, p + 1) - begin;
            for (int64_t c = 0; c < j.channels; c++)
                join_moments(&mean[c], &squares[c], begin, more[c], more[j.channels + c], count);
        }
        for (int64_t c = 0; c < j.channels; c++) {
            double variance = squares[c] / (double)j.rows;
            bt_put(dtype_of(call), call->out[0].data, g * j.channels + c, mean[c]);
            bt_put(dtype_of(call), call->out[1].data, g * j.channels + c, variance < 0 ? 0 : variance);
        }
    }
    return BT_OK;
}

static bt_status dot(const bt_call *call)
{
    job j = job_of(call);
    j.z = call->in[1].data;
    j.centre = call->inputs > 2 ? &call->in[2] : NULL;
    j.sums = (void *)((char *)call->scratch + (size_t)j.threads * j.locals);
    run(call, &j, dtype_of(call) == BT_F32 ? dot_f32 : dot_f64);
    for (int64_t g = 0; g < j.groups; g++) {
        double *sums = j.sums + g * j.parts * 2 * j.channels;
        for (int64_t i = 2 * j.channels; i < j.parts * 2 * j.channels; i++)
            sums[i % (2 * j.channels)] += sums[i];
        for (int64_t i = 0; i < 2 * j.channels; i++)
            bt_put(dtype_of(call), call->out[i / j.channels].data, g * j.channels + i % j.channels, sums[i]);
    }
    return BT_OK;
}

#define MIX_PART(name, part_)                                                                                          \
    static void name(const job *j, int64_t unit, char *local)                                                          \
    {                                                                                                                  \
        int64_t part = unit % j->parts;                                                                                \
        part_(j, unit / j->parts, part_begin(j, part), part_begin(j, part + 1), local);                                \
    }
MIX_PART(mix_f32, mix_part_f32)
MIX_PART(mix_f64, mix_part_f64)

static bt_status mix(const bt_call *call)
{
    const bt_channel_attr *attr = call->attr;
    bt_channel_inputs at = bt_channel_inputs_of(attr);
    job j = job_of(call);
    j.terms = attr->terms;
    j.last = attr->relu ? RELU : attr->gated ? GATE : NOTHING;
    j.gate = at.gate >= 0 ? call->in[at.gate].data : NULL;
    for (int k = 0; k < attr->terms; k++) {
        j.term[k] = call->in[at.x[k]].data;
        j.m[k] = at.centre[k] >= 0 ? &call->in[at.centre[k]] : NULL;
        j.a[k] = at.scale[k] >= 0 ? &call->in[at.scale[k]] : NULL;
    }
    j.d = at.shift >= 0 ? &call->in[at.shift] : NULL;
    run(call, &j, dtype_of(call) == BT_F32 ? mix_f32 : mix_f64);
    return BT_OK;
}

const bt_kernel_impl BT_ISA(bt_cpu_channel)[] = {
    {&bt_op_channel_moments, "channel_moments.tiles", accepts, sums_scratch, NULL, moments, NULL, false, false},
    {&bt_op_channel_dot, "channel_dot.tiles", dot_accepts, sums_scratch, NULL, dot, NULL, false, false},
    {&bt_op_channel_mix, "channel_mix.tiles", mix_accepts, mix_scratch, NULL, mix, NULL, false, false},
    {.op = NULL},
};
