/* backend/cpu/move.c: ops that only move values: copies of views with any strides, pad and concat; ops that look at
 * values as they pass. */
#include "backend/cpu/loop.h"
#include "backend/cpu/reference.h"
#include "backend/cpu/vector.h"

/* A part of the output: from one place on along an axis, for all outer axes. */
typedef struct piece {
    bt_loop loop;  /* over the axis and those inside it */
    bt_view outer; /* the input's axes outside it */
    int64_t outer_count;
    int64_t input, offset; /* bytes: the start of the input; the piece's place in the output */
    int64_t step;          /* bytes between outer elements of the output */
} piece;

typedef struct move {
    int64_t zeros; /* bytes of the output to zero first */
    int count;
    piece pieces[];
} move;

#define COPY(size, T)                                                                                                  \
    static void copy##size(int64_t n, void *out, const void *const *in)                                                \
    {                                                                                                                  \
        if (out != in[0])                                                                                              \
            memcpy(out, in[0], (size_t)n *size);                                                                       \
    }                                                                                                                  \
    typedef T value##size __attribute__((may_alias));                                                                  \
    static void fill##size(int64_t n, void *out, const void *const *in)                                                \
    {                                                                                                                  \
        value##size x = *(const value##size *)in[0], *y = out;                                                         \
        for (int64_t i = 0; i < n; i++)                                                                                \
            y[i] = x;                                                                                                  \
    }
COPY(1, uint8_t)
COPY(2, uint16_t)
COPY(4, uint32_t)
COPY(8, uint64_t)
static bt_row_fn *const rows[][2] = {
    [1] = {copy1, fill1}, [2] = {copy2, fill2}, [4] = {copy4, fill4}, [8] = {copy8, fill8}};

static bool accepts(const bt_call *call) { return bt_cpu_same_dtypes(call, 0, call->inputs - 1); }

/* Plans to copy the input into the output from place `from` of `axis` on (axis 0 of a scalar: all of it). */
static void plan_piece(piece *p, const bt_call *call, const bt_view *look, int axis, int64_t from)
{
    const bt_view *out = &call->out[0];
    int64_t size = (int64_t)bt_dtype_size(out->dtype), inner = size;
    uint32_t inside = ~0U << axis;
    bt_view rest;
    bt_cpu_split(look, inside, &p->outer, &rest);
    p->outer_count = bt_cpu_count(&p->outer);
    for (int d = axis + 1; d < out->rank; d++)
        inner *= out->dims[d];
    p->offset = from * inner;
    p->step = out->rank ? out->dims[axis] * inner : inner;
    BT_ISA(bt_loop_plan)(&p->loop, &rest, 1, out->dtype, rows[size], p->outer_count > 1 ? 1 : call->threads, 1);
}

/* NULL after bt_fail. */
static move *allocate(bt_call *call, int count)
{
    move *m = bt_alloc(sizeof(move) + (size_t)count * sizeof(piece));
    if (m)
        m->count = count;
    return call->state = m;
}

static void release(bt_call *call)
{
    bt_free(call->state);
    call->state = NULL;
}

static bt_status prepare_look(bt_call *call, bt_cpu_look *function)
{
    move *m = allocate(call, 1);
    bt_view look;
    if (!m)
        return BT_ERROR_MEMORY;
    function(call, &look);
    plan_piece(&m->pieces[0], call, &look, 0, 0);
    m->pieces[0].step = 0; /* all of it is inside */
    return BT_OK;
}

static bt_status prepare_same(bt_call *call) { return prepare_look(call, bt_cpu_look_same); }

static bt_status prepare_permute(bt_call *call) { return prepare_look(call, bt_cpu_look_permute); }

static bt_status prepare_broadcast(bt_call *call) { return prepare_look(call, bt_cpu_look_broadcast); }

static bt_status prepare_slice(bt_call *call)
{
    const bt_range_attr *attr = call->attr;
    BT_TRY(prepare_look(call, bt_cpu_look_slice));
    ((move *)call->state)->pieces[0].input =
        attr->from * call->in[0].strides[attr->axis] * (int64_t)bt_dtype_size(call->in[0].dtype);
    return BT_OK;
}

static bt_status prepare_pad(bt_call *call)
{
    const bt_range_attr *attr = call->attr;
    move *m = allocate(call, 1);
    if (!m)
        return BT_ERROR_MEMORY;
    plan_piece(&m->pieces[0], call, &call->in[0], (int)attr->axis, attr->from);
    m->zeros = bt_cpu_count(&call->out[0]) * (int64_t)bt_dtype_size(call->out[0].dtype);
    return BT_OK;
}

static bt_status prepare_concat(bt_call *call)
{
    const bt_range_attr *attr = call->attr;
    move *m = allocate(call, call->inputs);
    if (!m)
        return BT_ERROR_MEMORY;
    int64_t from = 0;
    for (int i = 0; i < call->inputs; i++) {
        plan_piece(&m->pieces[i], call, &call->in[i], (int)attr->axis, from);
        from += call->in[i].dims[attr->axis];
    }
    return BT_OK;
}

static bt_status launch(const bt_call *call)
{
    const move *m = call->state;
    if (m->zeros)
        memset(call->out[0].data, 0, (size_t)m->zeros);
    for (int i = 0; i < m->count; i++) {
        const piece *p = &m->pieces[i];
        int64_t size = (int64_t)bt_dtype_size(p->outer.dtype);
        for (int64_t e = 0; e < p->outer_count; e++) {
            const char *from = call->in[i].data + p->input + bt_cpu_offset(&p->outer, e) * size;
            BT_ISA(bt_loop_run)(&p->loop, call->out[0].data + p->offset + e * p->step, &from);
        }
    }
    return BT_OK;
}

static bt_status print(const bt_call *call)
{
    bt_cpu_print(call);
    return launch(call);
}

static bool check_accepts(const bt_call *call)
{
    return call->in[0].dtype == BT_BOOL && bt_cpu_contiguous(&call->in[0]);
}

static bt_status check(const bt_call *call)
{
    const uint8_t *truth = (const void *)call->in[0].data;
    int64_t count = bt_cpu_count(&call->in[0]);
    uint8_t wrong = 0;
    for (int64_t i = 0; i < count; i++)
        wrong |= truth[i] == 0;
    if (wrong)
        return bt_cpu_check(call);
    *(uint8_t *)call->out[0].data = 1;
    return BT_OK;
}

#define MOVE(name, prepare)                                                                                            \
    {                                                                                                                  \
        &bt_op_##name, #name ".vector", accepts, NULL, prepare, launch, release, false, true                           \
    }

const bt_kernel_impl BT_ISA(bt_cpu_move)[] = {
    MOVE(reshape, prepare_same),
    MOVE(permute, prepare_permute),
    MOVE(broadcast, prepare_broadcast),
    MOVE(slice, prepare_slice),
    MOVE(copy, prepare_same),
    MOVE(detach, prepare_same),
    MOVE(stop, prepare_same),
    MOVE(alias, prepare_same),
    MOVE(pad, prepare_pad),
    MOVE(concat, prepare_concat),
    {&bt_op_print, "print.vector", accepts, NULL, prepare_same, print, release, false, true},
    {&bt_op_check, "check.vector", check_accepts, NULL, NULL, check, NULL, false, false},
    {.op = NULL},
};
