/* runtime/join.c: collectives between processes. What is computed of the ranks' values is what ranks in lockstep
 * compute, by the same kernels, so that the bits are the same: where the values of all are reached, each rank computes
 * its share in their place; else it brings them here, or parts of them, and asks for its own result only. */
#include "runtime/transport.h"

#include "base/footprint.h"
#include "ops/ops.h"

enum { SMALL = 1 << 12 }; /* bytes of a rank that are copied rather than met for twice */
enum { PART = 1 << 16 };  /* bytes of each that are gathered, and folded, at once */

size_t bt_transport_share(size_t bytes, int rank, int ranks)
{
    return rank == ranks ? bytes : 8 * (size_t)bt_share_first((int64_t)(bytes / 8), rank, ranks);
}

bt_status bt_transport_parted(int rank, int other)
{
    return bt_fail(BT_ERROR_INTERNAL, "the ranks do not meet: rank %d is at another call than rank %d", other, rank);
}

typedef struct seat { /* a call of each rank: those of others have inputs only */
    bt_call call;
    bt_collective_attr attr;
    bt_view in, out;
} seat;

struct bt_joint {
    bt_transport *transport;
    const bt_kernel_table *kernels;
    seat *seats;
    const bt_call **calls; /* of the seats */
    char *all;             /* of what is gathered */
    size_t room;
};

bt_joint *bt_joint_new(bt_transport *transport, const bt_kernel_table *kernels)
{
    const size_t ranks = (size_t)transport->ranks;
    bt_joint *joint = bt_alloc(sizeof *joint);
    if (!joint)
        return NULL;
    *joint = (bt_joint){
        transport, kernels, bt_alloc_array(ranks, sizeof(seat)), bt_alloc_array(ranks, sizeof(const bt_call *)),
        NULL,      0};
    if (joint->seats && joint->calls)
        return joint;
    bt_joint_free(joint);
    return NULL;
}

void bt_joint_free(bt_joint *joint)
{
    if (!joint)
        return;
    bt_free(joint->all);
    bt_free(joint->seats);
    bt_free(joint->calls);
    bt_free(joint);
}

int bt_joint_rank(const bt_joint *joint) { return joint->transport->rank; }

int bt_joint_ranks(const bt_joint *joint) { return joint->transport->ranks; }

int bt_joint_cores(const bt_joint *joint) { return joint->transport->threads; }

char *bt_joint_alloc(bt_joint *joint, size_t bytes)
{
    bt_transport *t = joint->transport;
    char *memory = t->lend ? t->lend(t, bytes) : NULL;
    if (!memory)
        return bt_alloc_aligned(bytes);
    bt_live_far((int64_t)bytes);
    return memory;
}

void bt_joint_release(bt_joint *joint, char *memory, size_t bytes)
{
    bt_transport *t = joint->transport;
    if (!memory || !t->lend || !t->reaches(t, memory)) {
        bt_free_aligned(memory);
        return;
    }
    bt_live_far(-(int64_t)bytes);
    t->take_back(t);
}

static bt_status make_room(bt_joint *joint, size_t bytes)
{
    if (bytes <= joint->room)
        return BT_OK;
    bt_free(joint->all);
    joint->all = bt_alloc(bytes);
    joint->room = joint->all ? bytes : 0;
    return joint->all ? BT_OK : BT_ERROR_MEMORY;
}

static void sit(bt_joint *joint, int rank, const bt_op *op, const bt_collective_attr *attr, bt_view in, bt_view out)
{
    seat *s = &joint->seats[rank];
    *s = (seat){.attr = *attr, .in = in, .out = out};
    s->attr.rank = rank;
    s->call =
        (bt_call){.op = op, .attr = &s->attr, .inputs = 1, .outputs = 1, .in = &s->in, .out = &s->out, .threads = 1};
    joint->calls[rank] = &s->call;
}

/* ---- sums, by parts ---- */

typedef struct reduction {
    bt_joint *joint;
    bt_dtype dtype;
    bt_collective_attr attr;
} reduction;

/* The rank's seat: so many bytes of its operand, and where their sum is wanted; NULL: nowhere. */
static void sit_with(const reduction *r, int rank, const char *from, char *to, size_t bytes)
{
    bt_view in = {.data = (char *)(uintptr_t)from,
                  .dtype = r->dtype,
                  .rank = 1,
                  .dims = {(int64_t)(bytes / bt_dtype_size(r->dtype))},
                  .strides = {1}};
    bt_view out = in;
    out.data = to;
    sit(r->joint, rank, &bt_op_all_reduce, &r->attr, in, out);
}

static bt_status fold(const bt_folding *how, const char *const *parts, size_t bytes, char *to)
{
    const reduction *r = how->user;
    const bt_transport *t = r->joint->transport;
    for (int k = 0; k < t->ranks; k++)
        sit_with(r, k, parts[k], k == t->rank ? to : NULL, bytes);
    return r->joint->kernels->join(r->joint->calls, t->ranks);
}

/* Each rank folds everything. */
static bt_status fold_gathered(reduction r, uint64_t what, const char *own, char *to, size_t bytes)
{
    bt_joint *joint = r.joint;
    bt_transport *t = joint->transport;
    BT_TRY(make_room(joint, (size_t)t->ranks * (bytes < PART ? bytes : PART)));
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < PART ? bytes - at : PART;
        BT_TRY(t->gather(t, what, own + at, some, joint->all, some));
        for (int k = 0; k < t->ranks; k++)
            sit_with(&r, k, joint->all + (size_t)k * some, k == t->rank ? to + at : NULL, some);
        BT_TRY(joint->kernels->join(joint->calls, t->ranks));
    }
    return BT_OK;
}

static bt_status reduce(reduction r, uint64_t what, const void *own, void *to, int64_t count)
{
    bt_transport *t = r.joint->transport;
    const size_t bytes = (size_t)count * bt_dtype_size(r.dtype);
    if (t->reduce && bytes > SMALL)
        return t->reduce(t, what, &(bt_folding){fold, &r}, own, to, bytes);
    return fold_gathered(r, what, own, to, bytes);
}

bt_status bt_joint_sum(bt_joint *joint, bt_dtype dtype, void *numbers, int64_t count)
{
    const bt_collective_attr attr = {.ranks = joint->transport->ranks, .reduction = BT_REDUCE_SUM};
    return reduce((reduction){joint, dtype, attr}, bt_hash_text((uint64_t)count, "sum"), numbers, numbers, count);
}

/* ---- parts, gathered ---- */

bt_status bt_joint_any(bt_joint *joint, bool *flag)
{
    bt_transport *t = joint->transport;
    BT_TRY(make_room(joint, (size_t)t->ranks));
    const char own = *flag;
    BT_TRY(t->gather(t, bt_hash_text(0, "any"), &own, 1, joint->all, 1));
    for (int r = 0; r < t->ranks; r++)
        *flag = *flag || joint->all[r];
    return BT_OK;
}

bt_status bt_joint_compare(bt_joint *joint, const char *why, const uint64_t *numbers, int64_t count, int64_t *which,
                           int *rank)
{
    bt_transport *t = joint->transport;
    const size_t bytes = (size_t)count * sizeof *numbers;
    *which = -1;
    BT_TRY(make_room(joint, (size_t)t->ranks * bytes));
    BT_TRY(t->gather(t, bt_hash_text((uint64_t)count, why), numbers, bytes, joint->all, bytes));
    const uint64_t *all = (const uint64_t *)(const void *)joint->all;
    for (int64_t i = 0; i < count && *which < 0; i++)
        for (*rank = 1; *rank < t->ranks && *which < 0; ++*rank)
            if (all[*rank * count + i] != all[i]) {
                *which = i;
                break;
            }
    return BT_OK;
}

/* What this rank gives, as that one gives it. */
static bt_view given_by(const bt_call *call, int rank)
{
    const bt_collective_attr *attr = call->attr;
    bt_view in = call->in[0];
    if (call->op == &bt_op_all_gather)
        in.dims[attr->axis] = bt_collective_first(attr, rank + 1) - bt_collective_first(attr, rank);
    return in;
}

static size_t bytes_of(const bt_view *view)
{
    size_t bytes = bt_dtype_size(view->dtype);
    for (int i = 0; i < view->rank; i++)
        bytes *= (size_t)view->dims[i];
    return bytes;
}

/* Rank 0 gives as much as any. */
static bt_status gather(bt_joint *joint, const bt_call *call, uint64_t what)
{
    bt_transport *t = joint->transport;
    const bt_view most = given_by(call, 0), own = call->in[0];
    const size_t bytes = bytes_of(&most);
    BT_TRY(make_room(joint, (size_t)t->ranks * bytes));
    BT_TRY(t->gather(t, what, own.data, bytes_of(&own), joint->all, bytes));
    for (int r = 0; r < t->ranks; r++) {
        bt_view in = given_by(call, r), out = call->out[0];
        in.data = joint->all + (size_t)r * bytes;
        out.data = r == t->rank ? out.data : NULL;
        sit(joint, r, call->op, call->attr, in, out);
    }
    return joint->kernels->join(joint->calls, t->ranks);
}

/* ---- where operands and results are ---- */

typedef struct place { /* of a rank's call */
    char *in, *out;
} place;

/* Those of all ranks; NULL: some rank's cannot be reached, as all ranks find. */
static bt_status find(bt_joint *joint, uint64_t what, place own, const place **all)
{
    bt_transport *t = joint->transport;
    BT_TRY(make_room(joint, (size_t)t->ranks * sizeof own));
    BT_TRY(t->gather(t, what, &own, sizeof own, joint->all, sizeof own));
    *all = (const place *)(const void *)joint->all;
    for (int r = 0; *all && r < t->ranks; r++)
        if (!t->reaches(t, (*all)[r].in) || !t->reaches(t, (*all)[r].out))
            *all = NULL;
    return BT_OK;
}

/* Each rank folds its share of the operands, into the results of all. */
static void sit_with_shares(const reduction *r, const place *all, size_t bytes)
{
    const bt_transport *t = r->joint->transport;
    const size_t first = bt_transport_share(bytes, t->rank, t->ranks);
    const size_t own = bt_transport_share(bytes, t->rank + 1, t->ranks) - first;
    for (int k = 0; k < t->ranks; k++)
        sit_with(r, k, all[k].in + first, all[k].out + first, own);
}

/* Each takes what it wants of the operands. */
static void sit_with_operands(bt_joint *joint, const bt_call *call, const place *all)
{
    const bt_transport *t = joint->transport;
    for (int r = 0; r < t->ranks; r++) {
        bt_view in = given_by(call, r), out = call->out[0];
        in.data = all[r].in;
        out.data = r == t->rank ? out.data : NULL;
        sit(joint, r, call->op, call->attr, in, out);
    }
}

/* *done: every rank has computed where the values are. */
static bt_status join_in_place(const reduction *r, const bt_call *call, uint64_t what, bool *done)
{
    bt_joint *joint = r->joint;
    bt_transport *t = joint->transport;
    const bool sums = call->op == &bt_op_all_reduce;
    const size_t bytes = bytes_of(&call->in[0]);
    char *in = bytes ? call->in[0].data : call->out[0].data; /* of what is empty anything */
    const place *all;
    BT_TRY(find(joint, what, (place){in, sums ? call->out[0].data : in}, &all));
    *done = all;
    if (!all)
        return BT_OK;
    if (sums)
        sit_with_shares(r, all, bytes);
    else
        sit_with_operands(joint, call, all);
    BT_TRY(joint->kernels->join(joint->calls, t->ranks));
    const char none = 0;
    return t->gather(t, what, &none, 1, joint->all, 1); /* until then operands must stay */
}

bt_status bt_joint_call(bt_joint *joint, const bt_call *call, uint64_t at)
{
    bt_collective_attr attr = *(const bt_collective_attr *)call->attr;
    attr.rank = 0; /* of what it is about only this differs */
    const uint64_t what = bt_hash_text(bt_hash(at, &attr, sizeof attr), call->op->name);
    const bt_view most = given_by(call, 0);
    const reduction r = {joint, most.dtype, attr};
    bool done = false;
    if (joint->transport->lend && bytes_of(&most) > SMALL)
        BT_TRY(join_in_place(&r, call, what, &done));
    if (done)
        return BT_OK;
    if (call->op != &bt_op_all_reduce)
        return gather(joint, call, what);
    return reduce(r, what, call->in[0].data, call->out[0].data, (int64_t)(bytes_of(&most) / bt_dtype_size(most.dtype)));
}
