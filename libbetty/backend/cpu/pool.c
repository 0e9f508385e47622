/* backend/cpu/pool.c: pooling and resampling of images, along the channels. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/reference.h"
#include "backend/cpu/vector.h"
#include "ops/windows.h"

typedef struct range {
    int64_t from, to;
} range;

/* Height or width. For each output: its window and one over the window's size (1 for sums). For each pixel: the outputs
 * whose windows contain it. */
typedef struct axis {
    int64_t size, out;
    range *window, *user;
    double *share;
} axis;

typedef struct pooling {
    axis axis[2];
    int64_t images, pixels, outputs, channels;
    int64_t step; /* elements from one pixel of the input to the next */
    const char *in;
    char *out;
    int32_t *index;
    bool average;
    range *ranges; /* of both axes */
    double *shares;
} pooling;

typedef struct tap {
    int64_t at[2];
    double weight[2];
} tap;

typedef struct resampling {
    int64_t slabs, from, to;
    bt_view outer;             /* where the slabs of the input begin */
    int64_t along;             /* elements of the input from one place on the axis to the next */
    int64_t rows, row_step, n; /* the elements at a place: rows of n, row_step apart */
    const char *in;
    char *out;
    tap *taps;
} resampling;

#define T     float
#define R(x)  x##_f32
#define MASK  int32_t
#define V     bt_f32w
#define VI    bt_i32w
#define VF(f) BT_F32W(f)
#define LANES (BT_VECTOR / 4)
#include "backend/cpu/pool_template.h"
#undef T
#undef R
#undef MASK
#undef V
#undef VI
#undef VF
#undef LANES
#define T     double
#define R(x)  x##_f64
#define MASK  int64_t
#define V     bt_f64w
#define VI    bt_i64w
#define VF(f) BT_F64W(f)
#define LANES (BT_VECTOR / 8)
#include "backend/cpu/pool_template.h"
#undef T
#undef R
#undef MASK
#undef V
#undef VI
#undef VF
#undef LANES

static bool accepts(const bt_call *call)
{
    bool fits = bt_dtype_floats(call->in[0].dtype) && call->in[0].dtype == call->out[0].dtype;
    for (int i = 0; i < call->inputs; i++)
        fits = fits && bt_cpu_contiguous(&call->in[i]);
    return fits;
}

/* Pixels and their channels must be adjacent, but a pixel may have other channels beside these. */
static bool window_accepts(const bt_call *call)
{
    const bt_view *x = &call->in[0];
    bool fits = bt_dtype_floats(x->dtype) && x->dtype == call->out[0].dtype && (x->strides[3] == 1 || x->dims[3] == 1);
    int64_t step = x->strides[2];
    return fits && step >= x->dims[3] && x->strides[1] == step * x->dims[2] &&
           (x->dims[0] == 1 || x->strides[0] == x->strides[1] * x->dims[1]);
}

typedef void part_fn(const void *state, int64_t begin, int64_t end);

typedef struct shared { /* between threads */
    part_fn *part;
    const void *state;
    int64_t units;
} shared;

static void share(const void *work, int t, int threads)
{
    const shared *s = work;
    s->part(s->state, s->units * t / threads, s->units * (t + 1) / threads);
}

static void run(const bt_call *call, const void *state, int64_t units, part_fn *f32, part_fn *f64)
{
    part_fn *part = call->out[0].dtype == BT_F32 ? f32 : f64;
    int64_t in = bt_cpu_count(&call->in[0]), out = bt_cpu_count(&call->out[0]);
    int threads = call->threads > 1 && units > 1 && in + out >= 1 << 16 ? call->threads : 1;
    bt_team_do(share, &(shared){part, state, units}, threads);
}

/* ---- windows ---- */

static void windows_of(const bt_window_attr *attr, int which, axis *a)
{
    int64_t from = 0, to = 0;
    for (int64_t o = 0; o < a->out; o++) {
        bt_window_range(attr, which, o, &a->window[o].from, &a->window[o].to);
        a->share[o] = attr->average ? 1 / (double)(a->window[o].to - a->window[o].from) : 1;
    }
    for (int64_t pixel = 0; pixel < a->size; pixel++) { /* windows begin and end in order */
        while (from < a->out && a->window[from].to <= pixel)
            from++;
        while (to < a->out && a->window[to].from <= pixel)
            to++;
        a->user[pixel] = (range){from, to};
    }
}

static void release(bt_call *call)
{
    pooling *p = call->state;
    if (p) {
        bt_free(p->ranges);
        bt_free(p->shares);
    }
    bt_free(p);
    call->state = NULL;
}

static bt_status prepare(bt_call *call)
{
    const bt_window_attr *attr = call->attr;
    int64_t ranges = 0, outs = 0;
    pooling *p = call->state = bt_alloc(sizeof *p);
    if (!p)
        return BT_ERROR_MEMORY;
    *p = (pooling){.images = call->in[0].dims[0],
                   .channels = call->in[0].dims[3],
                   .step = call->in[0].strides[2],
                   .average = attr->average != 0};
    for (int i = 0; i < 2; i++) {
        p->axis[i] = (axis){.size = attr->axis[i].size, .out = attr->axis[i].out};
        ranges += p->axis[i].size + p->axis[i].out;
        outs += p->axis[i].out;
    }
    p->ranges = bt_alloc_array((size_t)ranges, sizeof *p->ranges);
    p->shares = bt_alloc_array((size_t)outs, sizeof *p->shares);
    if (!p->ranges || !p->shares) {
        release(call);
        return BT_ERROR_MEMORY;
    }
    range *next = p->ranges;
    for (int i = 0; i < 2; i++) {
        axis *a = &p->axis[i];
        a->window = next;
        a->user = next + a->out;
        a->share = i ? p->shares + p->axis[0].out : p->shares;
        next = a->user + a->size;
        windows_of(attr, i, a);
    }
    return BT_OK;
}

static pooling pooling_of(const bt_call *call)
{
    pooling p = *(const pooling *)call->state;
    p.in = call->in[0].data;
    p.out = call->out[0].data;
    p.index = call->outputs > 1 ? (void *)call->out[1].data : NULL;
    return p;
}

static bt_status window_sum(const bt_call *call)
{
    pooling p = pooling_of(call);
    run(call, &p, p.images * p.axis[0].out, sum_rows_f32, sum_rows_f64);
    return BT_OK;
}

static bt_status window_spread(const bt_call *call)
{
    pooling p = pooling_of(call);
    run(call, &p, p.images * p.axis[0].size, spread_rows_f32, spread_rows_f64);
    return BT_OK;
}

static bt_status window_max(const bt_call *call)
{
    pooling p = pooling_of(call);
    run(call, &p, p.images * p.axis[0].out, max_rows_f32, max_rows_f64);
    return BT_OK;
}

/* ---- by index ---- */

static bool index_accepts(const bt_call *call) { return accepts(call) && call->in[1].dtype == BT_I32; }

/* large: the images of pixels. */
static bt_status by_index(const bt_call *call, const bt_view *large, part_fn *f32, part_fn *f64)
{
    const bt_view *index = &call->in[1];
    pooling p = {.images = large->dims[0],
                 .pixels = large->dims[1] * large->dims[2],
                 .outputs = index->dims[1] * index->dims[2],
                 .channels = large->dims[3],
                 .in = call->in[0].data,
                 .out = call->out[0].data,
                 .index = (void *)index->data};
    int64_t count = bt_cpu_count(index), at;
    bool outside = false;
    for (int64_t i = 0; i < count; i++)
        outside |= p.index[i] < 0 || p.index[i] >= p.pixels;
    for (int64_t i = 0; i < count && outside; i++)
        BT_TRY(bt_cpu_index(call, index, i, p.pixels, &at));
    run(call, &p, p.images, f32, f64);
    return BT_OK;
}

static bt_status window_gather(const bt_call *call)
{
    return by_index(call, &call->in[0], gather_images_f32, gather_images_f64);
}

static bt_status window_scatter(const bt_call *call)
{
    return by_index(call, &call->out[0], scatter_images_f32, scatter_images_f64);
}

/* ---- resampling ---- */

static void resample_release(bt_call *call)
{
    resampling *r = call->state;
    if (r)
        bt_free(r->taps);
    bt_free(r);
    call->state = NULL;
}

/* Describes the elements inside the axis as contiguous rows at equal distances; false: they are not. */
static bool rows_at_place(const bt_view *x, int64_t axis, resampling *r)
{
    r->rows = r->n = 1;
    r->row_step = 0;
    for (int d = x->rank - 1; d > axis; d--) {
        if (x->dims[d] == 1)
            continue;
        if (r->rows == 1 && x->strides[d] == r->n) {
            r->n *= x->dims[d];
        } else if (r->rows == 1 || x->strides[d] == r->row_step * r->rows) {
            r->row_step = r->rows == 1 ? x->strides[d] : r->row_step;
            r->rows *= x->dims[d];
        } else {
            return false;
        }
    }
    return true;
}

static bool resample_accepts(const bt_call *call)
{
    const bt_view *x = &call->in[0];
    resampling r;
    return bt_dtype_floats(x->dtype) && x->dtype == call->out[0].dtype &&
           rows_at_place(x, ((const bt_resample_attr *)call->attr)->axis, &r) && (r.n > 1 || r.rows == 1);
}

static bt_status resample_prepare(bt_call *call)
{
    const bt_resample_attr *attr = call->attr;
    const bt_view *x = &call->in[0];
    resampling *r = call->state = bt_alloc(sizeof *r);
    if (!r)
        return BT_ERROR_MEMORY;
    *r = (resampling){.from = attr->from, .to = attr->to, .along = x->strides[attr->axis]};
    rows_at_place(x, attr->axis, r);
    bt_view inside;
    bt_cpu_split(x, ~0U << attr->axis, &r->outer, &inside);
    r->slabs = bt_cpu_count(&r->outer);
    r->taps = bt_alloc_array((size_t)r->to, sizeof *r->taps);
    if (!r->taps) {
        resample_release(call);
        return BT_ERROR_MEMORY;
    }
    for (int64_t o = 0; o < r->to; o++)
        bt_resample_taps(attr, o, r->taps[o].at, r->taps[o].weight);
    return BT_OK;
}

static bt_status resample(const bt_call *call)
{
    resampling r = *(const resampling *)call->state;
    r.in = call->in[0].data;
    r.out = call->out[0].data;
    if (r.rows * r.n == 0)
        return BT_OK;
    if (((const bt_resample_attr *)call->attr)->adjoint)
        run(call, &r, r.slabs, resample_back_f32, resample_back_f64);
    else
        run(call, &r, r.slabs, resample_slabs_f32, resample_slabs_f64);
    return BT_OK;
}

#define WINDOW(name)                                                                                                   \
    {                                                                                                                  \
        &bt_op_##name, #name ".rows", window_accepts, NULL, prepare, name, release, false, false                       \
    }

const bt_kernel_impl BT_ISA(bt_cpu_pool)[] = {
    WINDOW(window_sum),
    WINDOW(window_spread),
    WINDOW(window_max),
    {&bt_op_window_gather, "window_gather.images", index_accepts, NULL, NULL, window_gather, NULL, false, false},
    {&bt_op_window_scatter, "window_scatter.images", index_accepts, NULL, NULL, window_scatter, NULL, false, false},
    {&bt_op_resample, "resample.slabs", resample_accepts, NULL, resample_prepare, resample, resample_release, false,
     false},
    {.op = NULL},
};
