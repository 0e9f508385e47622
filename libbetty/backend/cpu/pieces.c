/* backend/cpu/pieces.c: runs calls with 16-bit operands or results by the f32 kernels, piece by piece. Operands that
 * are cut along the first axis are converted within a cache as they are used, so that memory holds no f32 copy of them.
 * Pieces are the same for any number of threads. */
#include "backend/cpu/pieces.h"

#include "backend/cpu/loop.h"
#include "backend/cpu/reference.h"
#include "backend/cpu/vector.h"
#include "base/half.h"

#include <string.h>

#define QUOTED_(name) #name
#define QUOTED(name)  QUOTED_(name)

enum { PIECE = 256 << 10, FLAT_PIECE = 24 << 10, INPUTS = 16, OUTPUTS = BT_MAX_OUTPUTS };

/* Which operands are cut; the others are converted whole, once. */
typedef enum way {
    ALL,    /* elementwise */
    ROWS,   /* all operands, by rows */
    FIRST,  /* the first operand, by rows or images */
    SUMS,   /* the first two; the pieces' results are added */
    JOINED, /* the first; the pieces' moments are joined */
    CHANNEL /* the operands of channel_mix that have the size of its result */
} way;

/* ---- converting ---- */

#define CONVERT(name, T, U, convert)                                                                                   \
    static void name(int64_t n, void *out, const void *const *in)                                                      \
    {                                                                                                                  \
        const T *x = in[0];                                                                                            \
        U *y = out;                                                                                                    \
        BT_SIMD                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                \
            y[i] = convert(x[i]);                                                                                      \
    }
CONVERT(widen_bf16, uint16_t, float, bt_f32_of_bf16)
CONVERT(narrow_bf16, float, uint16_t, bt_bf16_of)
#if defined __F16C__
static void widen_f16(int64_t n, void *out, const void *const *in)
{
    const uint16_t *x = in[0];
    float *y = out;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(x + i))));
    for (; i < n; i++)
        y[i] = bt_f32_of_f16(x[i]);
}
static void narrow_f16(int64_t n, void *out, const void *const *in)
{
    const float *x = in[0];
    uint16_t *y = out;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i_u *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        y[i] = bt_f16_of(x[i]);
}
#else
CONVERT(widen_f16, uint16_t, float, bt_f32_of_f16)
CONVERT(narrow_f16, float, uint16_t, bt_f16_of)
#endif

static void plan_widening(bt_loop *loop, const bt_view *from)
{
    bt_row_fn *const variants[] = {from->dtype == BT_BF16 ? widen_bf16 : widen_f16, NULL};
    BT_ISA(bt_loop_plan)(loop, from, 1, BT_F32, variants, 1, 1);
}

static void narrow(bt_dtype dtype, int64_t count, void *to, const void *from)
{
    (dtype == BT_BF16 ? narrow_bf16 : narrow_f16)(count, to, &from);
}

/* ---- planning ---- */

typedef struct size { /* pieces of so many rows: all pieces except perhaps the last */
    int64_t rows;
    bt_call inner;
    bt_view in[INPUTS], out[OUTPUTS];
    const bt_loop *widening[INPUTS];
    const bt_kernel_impl *kernel;
} size;

typedef struct pieces {
    way way;
    unsigned cut, half_in, half_out; /* bit i: for operand or result i */
    int64_t rows, count;             /* rows in all; pieces */
    int threads;
    bt_view whole_in[INPUTS], whole_out[OUTPUTS]; /* the call's views, flattened if possible */
    const bt_loop *widening[INPUTS];              /* of operands that are not cut */
    size_t at[INPUTS], out_at[OUTPUTS];           /* offsets in scratch: of whole operands; of a thread's pieces */
    size_t inner_at, own, shared; /* offset of the inner kernel's scratch; bytes per thread, in common */
    size sizes[2];
    bt_loop loops[]; /* which `widening` points to */
} pieces;

static bool is_sum(const pieces *p) { return p->way == SUMS || p->way == JOINED; }

static size_t bytes_of(const bt_view *view) { return (size_t)bt_cpu_count(view) * sizeof(float); }

static bt_view dense_f32(const bt_view *like)
{
    bt_view view = *like;
    int64_t stride = 1;
    view.dtype = BT_F32;
    view.data = NULL;
    for (int d = view.rank - 1; d >= 0; stride *= view.dims[d--])
        view.strides[d] = stride;
    return view;
}

static bool is_softmax(const bt_op *op)
{
    return op == &bt_op_softmax || op == &bt_op_softmax_grad || op == &bt_op_log_softmax;
}

/* For softmax and sum: the op's axes are not the axis of the pieces. */
static bool goes_by_rows(const bt_call *call)
{
    if (call->op == &bt_op_sum)
        return !(((const bt_reduce_attr *)call->attr)->axes & 1);
    return call->op == &bt_op_cross_entropy || call->op == &bt_op_cross_entropy_grad ||
           (is_softmax(call->op) && ((const bt_axis_attr *)call->attr)->axis > 0);
}

static way way_of(const bt_call *call)
{
    const bt_op *op = call->op;
    if (goes_by_rows(call))
        return ROWS;
    bool sums = op == &bt_op_conv_dw || op == &bt_op_channel_dot || op == &bt_op_sum;
    bool first = op == &bt_op_conv || op == &bt_op_conv_bias || op == &bt_op_conv_dx || op == &bt_op_linear ||
                 op == &bt_op_dot || op == &bt_op_dot_add || op == &bt_op_window_sum || op == &bt_op_window_spread;
    if (op == &bt_op_channel_moments)
        return JOINED;
    return sums ? SUMS : op == &bt_op_channel_mix ? CHANNEL : first ? FIRST : ALL;
}

static unsigned cut_of(const bt_call *call, way way)
{
    const bt_channel_attr *attr = call->attr;
    unsigned all = (1U << call->inputs) - 1, cut = 0;
    if (way == ALL || way == ROWS || (call->op == &bt_op_dot && call->in[0].rank > 2))
        return all;
    if (call->op == &bt_op_dot_add)
        return 1 | 4; /* and the addend */
    if (way != CHANNEL)
        return way == SUMS ? 3 : 1;
    bt_channel_inputs at = bt_channel_inputs_of(attr);
    for (int k = 0; k < attr->terms; k++)
        cut |= 1U << at.x[k];
    return at.gate >= 0 ? cut | 1U << at.gate : cut;
}

/* Whether all inputs are contiguous, so that one axis is enough. */
static bool is_flat(const bt_call *call)
{
    for (int i = 0; i < call->inputs; i++)
        if (!bt_cpu_contiguous(&call->in[i]))
            return false;
    return true;
}

static void flatten(bt_view *view)
{
    int64_t count = bt_cpu_count(view);
    view->rank = 1;
    view->dims[0] = count;
    view->strides[0] = 1;
}

static void look_at(const bt_call *call, pieces *p)
{
    p->way = way_of(call);
    p->cut = cut_of(call, p->way);
    bool flat = p->way == ALL && is_flat(call);
    for (int i = 0; i < call->inputs; i++) {
        p->whole_in[i] = call->in[i];
        p->half_in |= bt_dtype_half(call->in[i].dtype) ? 1U << i : 0;
        if (flat)
            flatten(&p->whole_in[i]);
    }
    for (int o = 0; o < call->outputs; o++) {
        p->whole_out[o] = call->out[o];
        p->half_out |= bt_dtype_half(call->out[o].dtype) ? 1U << o : 0;
        if (flat)
            flatten(&p->whole_out[o]);
    }
    p->rows = p->whole_in[0].rank ? p->whole_in[0].dims[0] : 0;
}

/* The rows of a piece: as many as a cache holds in f32. */
static int64_t rows_of_piece(const bt_call *call, const pieces *p)
{
    int64_t row = 0, most = p->way == ALL ? FLAT_PIECE : PIECE;
    for (int i = 0; i < call->inputs; i++)
        row += p->cut >> i & 1 ? (int64_t)bytes_of(&p->whole_in[i]) / p->rows : 0;
    for (int o = 0; o < call->outputs && !is_sum(p); o++)
        row += (int64_t)bytes_of(&p->whole_out[o]) / p->rows;
    int64_t rows = row ? most / row : p->rows;
    return rows < 1 ? 1 : rows < p->rows ? rows : p->rows;
}

/* Plans the call for a piece of so many rows, and finds its kernel; false: there is none. */
static bool plan_size(const bt_call *call, const pieces *p, int64_t rows, size *s)
{
    s->rows = rows;
    s->inner = *call;
    s->inner.in = s->in;
    s->inner.out = s->out;
    s->inner.threads = is_sum(p) ? call->threads : 1;
    s->inner.state = NULL;
    for (int i = 0; i < call->inputs; i++) {
        s->in[i] = p->whole_in[i];
        if (p->cut >> i & 1)
            s->in[i].dims[0] = rows;
        if (p->half_in >> i & 1)
            s->in[i] = dense_f32(&s->in[i]);
    }
    for (int o = 0; o < call->outputs; o++) {
        s->out[o] = p->whole_out[o];
        if (!is_sum(p))
            s->out[o].dims[0] = rows;
        s->out[o].dtype = p->half_out >> o & 1 ? BT_F32 : s->out[o].dtype;
    }
    const bt_kernel_impl *const *kernel = bt_cpu_kernels(QUOTED(BT_ISA_SUFFIX));
    while (kernel && *kernel && !((*kernel)->op == call->op && bt_kernel_accepts(*kernel, &s->inner)))
        kernel++;
    s->kernel = kernel ? *kernel : NULL;
    return s->kernel && !s->kernel->plain;
}

/* False: the call cannot be cut this way. */
static bool plan(const bt_call *call, pieces *p)
{
    if (call->inputs > INPUTS || call->outputs > OUTPUTS)
        return false;
    look_at(call, p);
    bool channels = p->way == CHANNEL || p->way == JOINED || call->op == &bt_op_channel_dot;
    if ((is_softmax(call->op) && p->way != ROWS) || p->rows < 1 || !bt_cpu_count(&call->out[0]) ||
        (is_sum(p) && p->half_out) ||
        (channels && (((const bt_channel_attr *)call->attr)->lead || call->in[0].rank < 2)))
        return false;
    int64_t rows = rows_of_piece(call, p);
    p->count = (p->rows + rows - 1) / rows;
    p->threads = is_sum(p) || p->count < call->threads ? 1 : call->threads;
    return plan_size(call, p, rows, &p->sizes[0]) && plan_size(call, p, p->rows - (p->count - 1) * rows, &p->sizes[1]);
}

static size_t place(size_t *end, size_t bytes)
{
    size_t at = bt_align_up(*end);
    *end = bytes ? at + bytes : *end;
    return at;
}

/* The bytes of a thread's own scratch that a piece writes. */
static size_t written(const bt_call *call, const pieces *p, const size *s, size_t inner)
{
    size_t end = inner ? p->inner_at + inner : 0;
    for (int i = 0; i < call->inputs; i++)
        if (p->half_in >> i & p->cut >> i & 1 && p->at[i] + bytes_of(&s->in[i]) > end)
            end = p->at[i] + bytes_of(&s->in[i]);
    for (int o = 0; o < call->outputs; o++)
        if ((p->half_out >> o & 1 || is_sum(p)) && p->out_at[o] + bytes_of(&s->out[o]) > end)
            end = p->out_at[o] + bytes_of(&s->out[o]);
    return end;
}

/* Lays out the scratch: first the part that threads share, then each thread's own. */
static size_t lay_out(const bt_call *call, pieces *p)
{
    size_t inner[2];
    for (int k = 0; k < 2; k++) {
        const size *s = &p->sizes[k];
        inner[k] = s->kernel->scratch ? s->kernel->scratch(&s->inner) : 0;
    }
    for (int i = 0; i < call->inputs; i++)
        if (p->half_in >> i & 1)
            p->at[i] = p->cut >> i & 1 ? place(&p->own, bytes_of(&p->sizes[0].in[i]))
                                       : place(&p->shared, bytes_of(&p->whole_in[i]));
    for (int o = 0; o < call->outputs; o++)
        if (p->half_out >> o & 1 || is_sum(p))
            p->out_at[o] = place(&p->own, bytes_of(&p->sizes[0].out[o]));
    p->inner_at = place(&p->own, inner[0] > inner[1] ? inner[0] : inner[1]);
    p->shared = p->own ? bt_align_up(p->shared) : p->shared;
    size_t first = written(call, p, &p->sizes[0], inner[0]), last = written(call, p, &p->sizes[1], inner[1]);
    p->own = bt_align_up(p->own);
    if (p->count > p->threads && first > last) /* else the last thread has only the last piece */
        last = first;
    return p->shared + (size_t)(p->threads - 1) * p->own + last;
}

static bool accepts(const bt_call *call)
{
    pieces p = {0};
    return bt_call_half(call) && plan(call, &p);
}

static size_t scratch(const bt_call *call)
{
    pieces p = {0};
    return plan(call, &p) ? lay_out(call, &p) : 0;
}

static void release(bt_call *call)
{
    pieces *p = call->state;
    for (int k = 0; p && k < 2; k++)
        if (p->sizes[k].kernel && p->sizes[k].kernel->release)
            p->sizes[k].kernel->release(&p->sizes[k].inner);
    bt_free(p);
    call->state = NULL;
}

/* Plans how operand i is converted: whole, or in pieces of either size. */
static bt_loop *plan_operand(pieces *p, int i, bt_loop *loop)
{
    const bool cut = p->cut >> i & 1;
    for (int k = 0; k < (cut ? 2 : 1); k++, loop++) {
        bt_view part = p->whole_in[i];
        if (cut)
            part.dims[0] = p->sizes[k].rows;
        plan_widening(loop, &part);
        *(cut ? &p->sizes[k].widening[i] : &p->widening[i]) = loop;
    }
    return loop;
}

static bt_status prepare(bt_call *call)
{
    pieces *p = call->state = bt_alloc(sizeof *p + 2 * (size_t)call->inputs * sizeof *p->loops);
    if (!p)
        return BT_ERROR_MEMORY;
    plan(call, p);
    lay_out(call, p);
    bt_loop *loop = p->loops;
    for (int i = 0; i < call->inputs; i++)
        loop = p->half_in >> i & 1 ? plan_operand(p, i, loop) : loop;
    for (int k = 0; k < 2; k++)
        if (p->sizes[k].kernel->prepare)
            BT_TRY(p->sizes[k].kernel->prepare(&p->sizes[k].inner));
    return BT_OK;
}

/* ---- running ---- */

/* Joins the moments of the `before` rows so far with those of `more` rows: Chan et al. (1979). */
static void join(const bt_call *call, const bt_view *piece, double before, double more)
{
    float *mean = (void *)call->out[0].data, *variance = (void *)call->out[1].data;
    const float *next = (const void *)piece[0].data, *spread = (const void *)piece[1].data;
    int64_t channels = bt_cpu_count(&call->out[0]);
    double part = more / (before + more), rest = 1 - part;
    for (int64_t c = 0; c < channels; c++) {
        double off = before > 0 ? (double)next[c] - (double)mean[c] : 0;
        double old = before > 0 ? (double)variance[c] : 0;
        mean[c] = before > 0 ? (float)((double)mean[c] + off * part) : next[c];
        variance[c] = (float)(old * rest + (double)spread[c] * part + off * off * part * rest);
    }
}

static void add(const bt_view *to, int64_t count, const float *from, bool first)
{
    float *y = (void *)to->data;
    BT_SIMD
    for (int64_t i = 0; i < count; i++)
        y[i] = first ? from[i] : y[i] + from[i];
}

/* Runs one piece, with a thread's part of the scratch. */
static bt_status run_piece(const bt_call *call, int64_t number, char *own)
{
    const pieces *p = call->state;
    const size *s = &p->sizes[number == p->count - 1];
    int64_t row = number * p->sizes[0].rows;
    bt_view in[INPUTS], out[OUTPUTS];
    bt_call inner = s->inner;
    inner.in = in;
    inner.out = out;
    inner.scratch = own + p->inner_at;
    for (int i = 0; i < call->inputs; i++) {
        bool cut = p->cut >> i & 1;
        const char *from = call->in[i].data;
        in[i] = s->in[i];
        if (cut)
            from += row * p->whole_in[i].strides[0] * (int64_t)bt_dtype_size(p->whole_in[i].dtype);
        in[i].data = p->half_in >> i & 1 ? (cut ? own : (char *)call->scratch) + p->at[i] : BT_DATA_(from);
        if (cut && p->half_in >> i & 1)
            BT_ISA(bt_loop_run)(s->widening[i], in[i].data, &from);
    }
    for (int o = 0; o < call->outputs; o++) {
        int64_t count = bt_cpu_count(&s->out[o]), each = is_sum(p) ? 0 : count / s->rows;
        char *to = call->out[o].data + row * each * (int64_t)bt_dtype_size(call->out[o].dtype);
        out[o] = s->out[o];
        out[o].data = p->half_out >> o & 1 || is_sum(p) ? own + p->out_at[o] : to;
    }
    BT_TRY(s->kernel->launch(&inner));
    if (p->way == JOINED) {
        double rows = (double)bt_cpu_count(&s->in[0]) / (double)s->in[0].dims[s->in[0].rank - 1] / (double)s->rows;
        join(call, out, (double)row * rows, (double)s->rows * rows);
        return BT_OK;
    }
    for (int o = 0; o < call->outputs; o++) {
        int64_t count = bt_cpu_count(&s->out[o]);
        if (p->way == SUMS)
            add(&call->out[o], count, (const void *)out[o].data, number == 0);
        else if (p->half_out >> o & 1)
            narrow(call->out[o].dtype, count, call->out[o].data + row * (count / s->rows) * 2, out[o].data);
    }
    return BT_OK;
}

typedef struct shared {
    const bt_call *call;
    bt_status *status; /* per thread */
} shared;

static void share(const void *work, int t, int threads)
{
    const shared *s = work;
    const pieces *p = s->call->state;
    char *own = (char *)s->call->scratch + p->shared + (size_t)t * p->own;
    for (int64_t i = p->count * t / threads; i < p->count * (t + 1) / threads && s->status[t] == BT_OK; i++)
        s->status[t] = run_piece(s->call, i, own);
}

/* Checked here, because a piece would report a row of its own. */
static bt_status check_labels(const bt_call *call)
{
    int64_t label, rows = bt_cpu_count(&call->in[1]);
    for (int64_t i = 0; i < rows; i++)
        BT_TRY(bt_cpu_index(call, &call->in[1], i, call->in[0].dims[1], &label));
    return BT_OK;
}

static bt_status launch(const bt_call *call)
{
    enum { THREADS = 1024 };
    const pieces *p = call->state;
    if (call->op == &bt_op_cross_entropy || call->op == &bt_op_cross_entropy_grad)
        BT_TRY(check_labels(call));
    bt_status status[THREADS] = {BT_OK};
    for (int i = 0; i < call->inputs; i++)
        if (p->half_in >> i & 1 && !(p->cut >> i & 1)) {
            const char *from = call->in[i].data;
            BT_ISA(bt_loop_run)(p->widening[i], (char *)call->scratch + p->at[i], &from);
        }
    int threads = p->threads < THREADS ? p->threads : THREADS;
    bt_team_do(share, &(shared){call, status}, threads);
    for (int t = 0; t < threads; t++)
        BT_TRY(status[t]);
    return BT_OK;
}

#define PIECES(name)                                                                                                   \
    {                                                                                                                  \
        &bt_op_##name, #name ".pieces", accepts, scratch, prepare, launch, release, false, true                        \
    }

const bt_kernel_impl BT_ISA(bt_cpu_pieces)[] = {
    PIECES(conv),        PIECES(conv_bias),     PIECES(conv_dx),
    PIECES(conv_dw),     PIECES(dot),           PIECES(dot_add),
    PIECES(linear),      PIECES(neg),           PIECES(abs),
    PIECES(square),      PIECES(sqrt),          PIECES(exp),
    PIECES(log),         PIECES(log1p),         PIECES(sin),
    PIECES(cos),         PIECES(tanh),          PIECES(erf),
    PIECES(sigmoid),     PIECES(relu),          PIECES(softplus),
    PIECES(gelu),        PIECES(gelu_slope),    PIECES(gelu_tanh),
    PIECES(add),         PIECES(sub),           PIECES(mul),
    PIECES(div),         PIECES(minimum),       PIECES(maximum),
    PIECES(gate),        PIECES(channel_mix),   PIECES(channel_dot),
    PIECES(window_sum),  PIECES(window_spread), PIECES(channel_moments),
    PIECES(sum),         PIECES(softmax),       PIECES(softmax_grad),
    PIECES(log_softmax), PIECES(cross_entropy), PIECES(cross_entropy_grad),
    {.op = NULL},
};
