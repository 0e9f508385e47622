/* backend/cuda/collective.c: collectives of ranks with a device each. Along the first axis, a rank's part of a whole is
 * one piece of memory. Along another axis, the pieces are put one after the other in scratch, before or after the
 * exchange. */
#include "backend/cpu/view.h"
#include "backend/cuda/move.h"
#include "backend/cuda/pick.h"
#include "backend/cuda/ranks.h"

typedef struct exchange { /* nccl NULL: there is only one rank */
    const bt_call *call;
    const bt_collective_attr *attr;
    const bt_nccl *nccl;
    ncclComm_t comm;
    cudaStream_t stream;
} exchange;

static bt_status begin(exchange *e, const bt_call *call)
{
    bt_cuda_queue *queue = call->queue;
    *e = (exchange){.call = call, .attr = call->attr, .stream = queue->stream};
    return bt_cuda_ranks_of(call, &e->nccl, &e->comm);
}

/* Makes several calls of NCCL as one. */
typedef ncclResult_t member_fn(const exchange *e, const void *user, int number);

static bt_status together(const exchange *e, member_fn *member, const void *user, int count)
{
    ncclResult_t result = e->nccl->group_start();
    BT_TRY(bt_cuda_ranks_try(e->call, result, e->call->op->name));
    for (int i = 0; i < count && result == ncclSuccess; i++)
        result = member(e, user, i);
    const ncclResult_t ended = e->nccl->group_end();
    return bt_cuda_ranks_try(e->call, result == ncclSuccess ? ended : result, e->call->op->name);
}

static size_t bytes_of(const bt_view *view) { return (size_t)bt_cpu_count(view) * bt_dtype_size(view->dtype); }

static bt_status copy(const bt_call *call, int which)
{
    const bt_view *in = &call->in[which];
    return bt_cuda_copy_of(call, in, call->out[which].data, in->dtype);
}

static ncclDataType_t type_of(bt_dtype dtype)
{
    return dtype == BT_F32 ? ncclFloat32 : dtype == BT_F64 ? ncclFloat64 : dtype == BT_I32 ? ncclInt32 : ncclInt64;
}

/* ---- all_reduce ---- */

/* Floating-point extremes are gathered instead: NCCL would ignore NaN. */
static bool picks(const bt_call *call)
{
    return ((const bt_collective_attr *)call->attr)->reduction != BT_REDUCE_SUM && bt_dtype_floats(call->in[0].dtype);
}

/* The bytes of all ranks' operands before this one. */
static size_t gathered_before(const bt_call *call, int which)
{
    size_t bytes = 0;
    for (int i = 0; i < which; i++)
        bytes += bt_align_up(bytes_of(&call->in[i]) * (size_t)((const bt_collective_attr *)call->attr)->ranks);
    return bytes;
}

static size_t all_reduce_scratch(const bt_call *call) { return picks(call) ? gathered_before(call, call->inputs) : 0; }

static ncclResult_t reduce_one(const exchange *e, const void *user, int which)
{
    static const ncclRedOp_t reductions[] = {ncclSum, ncclMax, ncclMin};
    const bt_view *in = &e->call->in[which];
    const size_t count = (size_t)bt_cpu_count(in);
    (void)user;
    if (!count)
        return ncclSuccess;
    if (picks(e->call))
        return e->nccl->all_gather(in->data, (char *)e->call->scratch + gathered_before(e->call, which), bytes_of(in),
                                   ncclInt8, e->comm, e->stream);
    return e->nccl->all_reduce(in->data, e->call->out[which].data, count, type_of(in->dtype),
                               reductions[e->attr->reduction], e->comm, e->stream);
}

static bt_status all_reduce(const bt_call *call)
{
    exchange e;
    BT_TRY(begin(&e, call));
    if (e.nccl)
        BT_TRY(together(&e, reduce_one, NULL, call->inputs));
    for (int i = 0; i < call->inputs; i++) {
        if (!e.nccl)
            BT_TRY(copy(call, i));
        else if (picks(call))
            BT_TRY(bt_cuda_pick(call, (const char *)call->scratch + gathered_before(call, i), e.attr->ranks,
                                bt_cpu_count(&call->in[i]), call->out[i].data));
    }
    return BT_OK;
}

/* ---- parts of a whole ---- */

typedef struct parts {
    const bt_view *whole;
    const bt_collective_attr *attr;
    char *pieces;  /* one after the other, by rank */
    bool in_a_row; /* in the whole, too */
} parts;

static bool in_a_row(const bt_view *whole, int64_t axis)
{
    for (int64_t i = 0; i < axis; i++)
        if (whole->dims[i] != 1)
            return false;
    return true;
}

static parts parts_of(const bt_call *call, const bt_view *whole)
{
    const bt_collective_attr *attr = call->attr;
    const bool row = in_a_row(whole, attr->axis);
    return (parts){whole, attr, row ? whole->data : call->scratch, row};
}

static size_t parts_scratch(const bt_call *call, const bt_view *whole)
{
    return in_a_row(whole, ((const bt_collective_attr *)call->attr)->axis) ? 0 : bytes_of(whole);
}

static size_t begins(const parts *p, int64_t rank)
{
    const size_t each = p->attr->size ? bytes_of(p->whole) / (size_t)p->attr->size : 0;
    return (size_t)bt_collective_first(p->attr, rank) * each;
}

static size_t piece_bytes(const parts *p, int64_t rank) { return begins(p, rank + 1) - begins(p, rank); }

static bool is_even(const parts *p)
{
    for (int64_t r = 1; r < p->attr->ranks; r++)
        if (piece_bytes(p, r) != piece_bytes(p, 0))
            return false;
    return true;
}

static int64_t own_size(const parts *p, int64_t rank)
{
    return bt_collective_first(p->attr, rank + 1) - bt_collective_first(p->attr, rank);
}

/* ---- all_gather ---- */

static size_t all_gather_scratch(const bt_call *call) { return parts_scratch(call, &call->out[0]); }

static ncclResult_t broadcast_piece(const exchange *e, const void *user, int rank)
{
    const parts *p = user;
    char *place = p->pieces + begins(p, rank);
    const void *from = rank == e->attr->rank ? e->call->in[0].data : place;
    const size_t bytes = piece_bytes(p, rank);
    return bytes ? e->nccl->broadcast(from, place, bytes, ncclInt8, rank, e->comm, e->stream) : ncclSuccess;
}

static bt_status gather_pieces(const exchange *e, const parts *p)
{
    const size_t bytes = piece_bytes(p, 0);
    if (!is_even(p))
        return together(e, broadcast_piece, p, (int)e->attr->ranks);
    if (!bytes)
        return BT_OK;
    return bt_cuda_ranks_try(e->call,
                             e->nccl->all_gather(e->call->in[0].data, p->pieces, bytes, ncclInt8, e->comm, e->stream),
                             "all_gather");
}

static bt_status all_gather(const bt_call *call)
{
    exchange e;
    const parts p = parts_of(call, &call->out[0]);
    BT_TRY(begin(&e, call));
    if (!e.nccl)
        return copy(call, 0);
    BT_TRY(gather_pieces(&e, &p));
    for (int64_t r = 0; !p.in_a_row && r < e.attr->ranks; r++) {
        bt_array shape = bt_view_array(p.whole);
        shape.dims[e.attr->axis] = own_size(&p, r);
        bt_view piece = bt_view_of(shape);
        piece.data = p.pieces + begins(&p, r);
        BT_TRY(bt_cuda_place(call, &piece, e.attr->axis, bt_collective_first(e.attr, r)));
    }
    return BT_OK;
}

/* ---- reduce_scatter ---- */

static size_t reduce_scatter_scratch(const bt_call *call) { return parts_scratch(call, &call->in[0]); }

static ncclResult_t reduce_piece(const exchange *e, const void *user, int rank)
{
    const parts *p = user;
    char *place = p->pieces + begins(p, rank);
    void *to = rank == e->attr->rank ? e->call->out[0].data : place;
    const bt_dtype dtype = p->whole->dtype;
    const size_t count = piece_bytes(p, rank) / bt_dtype_size(dtype);
    return count ? e->nccl->reduce(place, to, count, type_of(dtype), ncclSum, rank, e->comm, e->stream) : ncclSuccess;
}

static bt_status scatter_pieces(const exchange *e, const parts *p)
{
    const bt_dtype dtype = p->whole->dtype;
    const size_t count = piece_bytes(p, 0) / bt_dtype_size(dtype);
    if (!is_even(p))
        return together(e, reduce_piece, p, (int)e->attr->ranks);
    if (!count)
        return BT_OK;
    return bt_cuda_ranks_try(
        e->call,
        e->nccl->reduce_scatter(p->pieces, e->call->out[0].data, count, type_of(dtype), ncclSum, e->comm, e->stream),
        "reduce_scatter");
}

static bt_status reduce_scatter(const bt_call *call)
{
    exchange e;
    const parts p = parts_of(call, &call->in[0]);
    BT_TRY(begin(&e, call));
    if (!e.nccl)
        return copy(call, 0);
    for (int64_t r = 0; !p.in_a_row && r < e.attr->ranks; r++) {
        const bt_view part = bt_cpu_part(p.whole, e.attr->axis, bt_collective_first(e.attr, r), own_size(&p, r));
        BT_TRY(bt_cuda_copy_of(call, &part, p.pieces + begins(&p, r), part.dtype));
    }
    return scatter_pieces(&e, &p);
}

/* ---- the kernels ---- */

static bool accepts(const bt_call *call)
{
    for (int i = 0; i < call->inputs; i++)
        if (!bt_cpu_contiguous(&call->in[i]) || call->in[i].dtype != call->out[0].dtype)
            return false;
    return true;
}

#define COLLECTIVE(op_name, moves)                                                                                     \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".nccl", .accepts = accepts, .scratch = op_name##_scratch,            \
        .launch = op_name, .half = moves                                                                               \
    }

const bt_kernel_impl bt_cuda_collective[] = {
    COLLECTIVE(all_reduce, false),
    COLLECTIVE(all_gather, true),
    COLLECTIVE(reduce_scatter, false),
    {.op = NULL},
};
