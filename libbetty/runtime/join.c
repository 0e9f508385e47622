/* runtime/join.c: collectives between processes. They compute what ranks in lockstep compute, with the same kernels, so
 * the bits are the same. If all operands can be reached, each rank computes its share in place; otherwise it gathers
 * the operands, or parts of them, and computes only its own result. */
#include "runtime/transport.h"

#include "base/footprint.h"
#include "ops/ops.h"
#include <string.h>

enum { TOGETHER = 1 << 20 }; /* bytes of operands that are exchanged together */
enum { SMALL = 1 << 12 };    /* up to this many bytes, copying is cheaper than meeting twice */
enum { PART = 1 << 16 };     /* bytes per rank that are gathered and folded at once */

size_t bt_transport_share(size_t bytes, int rank, int ranks)
{
    return rank == ranks ? bytes : 8 * (size_t)bt_share_first((int64_t)(bytes / 8), rank, ranks);
}

bt_status bt_transport_parted(int rank, int other)
{
    return bt_fail(BT_ERROR_INTERNAL, "the ranks do not meet: rank %d is at a different call than rank %d", other,
                   rank);
}

typedef struct seat { /* one rank's call; other ranks' calls have inputs only */
    bt_call call;
    bt_collective_attr attr;
    bt_view in, out;
} seat;

struct bt_joint {
    bt_transport *transport;
    const bt_kernel_table *kernels;
    seat *seats;
    const bt_call **calls; /* of the seats */
    char *all, *aside;     /* gathered bytes; operands side by side, or a sum of which others want parts */
    size_t room, room_aside;
};

bt_joint *bt_joint_new(bt_transport *transport, const bt_kernel_table *kernels)
{
    const size_t ranks = (size_t)transport->ranks;
    bt_joint *joint = bt_alloc(sizeof *joint);
    if (!joint)
        return NULL;
    *joint = (bt_joint){.transport = transport,
                        .kernels = kernels,
                        .seats = bt_alloc_array(ranks, sizeof(seat)),
                        .calls = bt_alloc_array(ranks, sizeof(const bt_call *))};
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
    bt_free(joint->aside);
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

static bt_status grow(char **memory, size_t *room, size_t bytes)
{
    if (bytes <= *room)
        return BT_OK;
    bt_free(*memory);
    *memory = bt_alloc(bytes);
    *room = *memory ? bytes : 0;
    return *memory ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status make_room(bt_joint *joint, size_t bytes) { return grow(&joint->all, &joint->room, bytes); }

static bt_status make_room_aside(bt_joint *joint, size_t bytes)
{
    return grow(&joint->aside, &joint->room_aside, bytes);
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

/* Sets a rank's seat: this many bytes of its operand, and where their sum is wanted; NULL: nowhere. */
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

bt_status bt_joint_meet(bt_joint *joint, uint64_t what)
{
    bt_transport *t = joint->transport;
    const char none = 0;
    BT_TRY(make_room(joint, (size_t)t->ranks));
    return t->gather(t, what, &none, 1, joint->all, 1);
}

bt_status bt_joint_sum(bt_joint *joint, bt_dtype dtype, void *numbers, int64_t count)
{
    const bt_collective_attr attr = {.ranks = joint->transport->ranks, .reduction = BT_REDUCE_SUM};
    return reduce((reduction){joint, dtype, attr}, bt_hash_text((uint64_t)count, "sum"), numbers, numbers, count);
}

/* Adds them as 32-bit numbers, since at most one rank's is not 0; bytes beyond a multiple of 4 make one more number. */
bt_status bt_joint_unite(bt_joint *joint, void *bytes, size_t count)
{
    uint32_t last = 0;
    const size_t whole = count / sizeof last, rest = count % sizeof last;
    if (whole)
        BT_TRY(bt_joint_sum(joint, BT_I32, bytes, (int64_t)whole));
    if (!rest)
        return BT_OK;
    memcpy(&last, (char *)bytes + count - rest, rest);
    BT_TRY(bt_joint_sum(joint, BT_I32, &last, 1));
    memcpy((char *)bytes + count - rest, &last, rest);
    return BT_OK;
}

/* ---- parts, gathered ---- */

bt_status bt_joint_any(bt_joint *joint, bool *flags, int count)
{
    bt_transport *t = joint->transport;
    const size_t bytes = (size_t)count * sizeof *flags;
    BT_TRY(make_room(joint, (size_t)t->ranks * bytes));
    BT_TRY(t->gather(t, bt_hash_text(0, "any"), flags, bytes, joint->all, bytes));
    const bool *all = (const bool *)(const void *)joint->all;
    for (int i = 0; i < t->ranks * count; i++)
        flags[i % count] = flags[i % count] || all[i];
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

/* This rank's operand in the shape in which the other rank gives it. */
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

/* Whether each rank's part of the whole view is contiguous. */
static bool in_a_row(const bt_view *whole, int64_t axis)
{
    for (int64_t i = 0; i < axis; i++)
        if (whole->dims[i] != 1)
            return false;
    return true;
}

/* Bytes of the whole before the rank's part. */
static size_t bytes_before(const bt_view *whole, const bt_collective_attr *attr, int rank)
{
    const size_t each = attr->size ? bytes_of(whole) / (size_t)attr->size : 0;
    return (size_t)bt_collective_first(attr, rank) * each;
}

static bt_status gather_pieces(bt_joint *joint, const bt_call *call, uint64_t what)
{
    bt_transport *t = joint->transport;
    const bt_collective_attr *attr = call->attr;
    const bt_view *out = &call->out[0];
    const size_t mine = bytes_of(&call->in[0]);
    size_t most = 0;
    for (int r = 0; r < t->ranks; r++) {
        const size_t own = bytes_before(out, attr, r + 1) - bytes_before(out, attr, r);
        most = own > most ? own : most;
    }
    BT_TRY(make_room(joint, (size_t)t->ranks * (most < PART ? most : PART)));
    for (size_t at = 0, some; at < most; at += some) {
        some = most - at < PART ? most - at : PART;
        const size_t left = at < mine ? mine - at : 0;
        BT_TRY(t->gather(t, what, call->in[0].data + (left ? at : 0), left < some ? left : some, joint->all, some));
        for (int r = 0; r < t->ranks; r++) {
            const size_t first = bytes_before(out, attr, r), own = bytes_before(out, attr, r + 1) - first;
            const size_t there = at < own ? own - at : 0;
            if (there)
                memcpy(out->data + first + at, joint->all + (size_t)r * some, there < some ? there : some);
        }
    }
    return BT_OK;
}

/* Sums the whole piece by piece; each rank keeps its own part. */
static bt_status scatter_pieces(bt_joint *joint, const bt_call *call, uint64_t what)
{
    const bt_collective_attr *attr = call->attr;
    const int rank = joint->transport->rank;
    const bt_view *in = &call->in[0];
    const bt_collective_attr sum = {.ranks = attr->ranks, .reduction = BT_REDUCE_SUM};
    const size_t size = bt_dtype_size(in->dtype), bytes = bytes_of(in);
    const size_t first = bytes_before(in, attr, rank), end = bytes_before(in, attr, rank + 1);
    BT_TRY(make_room_aside(joint, PART));
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < PART ? bytes - at : PART;
        BT_TRY(reduce((reduction){joint, in->dtype, sum}, what, in->data + at, joint->aside, (int64_t)(some / size)));
        const size_t from = first > at ? first : at, to = end < at + some ? end : at + some;
        if (to > from)
            memcpy(call->out[0].data + (from - first), joint->aside + (from - at), to - from);
    }
    return BT_OK;
}

/* No rank's operand is larger than rank 0's. */
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

/* Copies operands from .. end - 1 of the call side by side into `aside`, or its results out of it. */
static void move(const bt_joint *joint, const bt_call *call, int from, int end, bool in)
{
    char *place = joint->aside;
    for (int i = from; i < end; i++) {
        const size_t bytes = bytes_of(&call->in[i]);
        if (bytes)
            memcpy(in ? place : call->out[i].data, in ? call->in[i].data : place, bytes);
        place += bytes;
    }
}

/* Small operands are exchanged together; a large one goes from where it lies. */
static bt_status reduce_each(bt_joint *joint, const bt_call *call, uint64_t what, reduction r)
{
    const size_t size = bt_dtype_size(r.dtype);
    for (int from = 0, end; from < call->inputs; from = end) {
        size_t bytes = bytes_of(&call->in[from]);
        for (end = from + 1; end < call->inputs && bytes + bytes_of(&call->in[end]) <= TOGETHER; end++)
            bytes += bytes_of(&call->in[end]);
        const bool alone = end == from + 1;
        if (!alone) {
            BT_TRY(make_room_aside(joint, TOGETHER));
            move(joint, call, from, end, true);
        }
        const char *own = alone ? call->in[from].data : joint->aside;
        BT_TRY(reduce(r, bt_hash(what, &bytes, sizeof bytes), own, alone ? call->out[from].data : joint->aside,
                      (int64_t)(bytes / size)));
        if (!alone)
            move(joint, call, from, end, false);
    }
    return BT_OK;
}

/* ---- where operands and results are ---- */

typedef struct place { /* of one operand of a rank's call */
    char *in, *out;
} place;

static bool sums(const bt_call *call) { return call->op == &bt_op_all_reduce; }

/* The place of the rank's operand; for an empty one, any. */
static place place_of(const bt_call *call, int i)
{
    char *in = bytes_of(&call->in[i]) ? call->in[i].data : call->out[i].data;
    return (place){in, sums(call) ? call->out[i].data : in};
}

/* Finds the places of all operands, by rank, then by operand; NULL: some cannot be reached. All ranks get the same
 * answer. */
static bt_status find(bt_joint *joint, uint64_t what, const bt_call *call, const place **all)
{
    bt_transport *t = joint->transport;
    const size_t each = (size_t)call->inputs * sizeof(place);
    BT_TRY(make_room(joint, (size_t)(t->ranks + 1) * each));
    place *own = (place *)(void *)(joint->all + (size_t)t->ranks * each);
    for (int i = 0; i < call->inputs; i++)
        own[i] = place_of(call, i);
    BT_TRY(t->gather(t, what, own, each, joint->all, each));
    *all = (const place *)(const void *)joint->all;
    for (int k = 0; *all && k < t->ranks * call->inputs; k++)
        if (!t->reaches(t, (*all)[k].in) || !t->reaches(t, (*all)[k].out))
            *all = NULL;
    return BT_OK;
}

/* Each rank folds its share of an operand into the results of all ranks. */
static bt_status join_shares(const reduction *r, const bt_call *call, int i, const place *all)
{
    const bt_joint *joint = r->joint;
    const bt_transport *t = joint->transport;
    const size_t bytes = bytes_of(&call->in[i]), first = bt_transport_share(bytes, t->rank, t->ranks);
    const size_t own = bt_transport_share(bytes, t->rank + 1, t->ranks) - first;
    for (int k = 0; k < t->ranks; k++) {
        const place *at = &all[k * call->inputs + i];
        sit_with(r, k, at->in + first, at->out + first, own);
    }
    return joint->kernels->join(joint->calls, t->ranks);
}

/* Each rank takes what it needs from the operands. */
static bt_status join_operands(bt_joint *joint, const bt_call *call, const place *all)
{
    const bt_transport *t = joint->transport;
    for (int r = 0; r < t->ranks; r++) {
        bt_view in = given_by(call, r), out = call->out[0];
        in.data = all[r].in;
        out.data = r == t->rank ? out.data : NULL;
        sit(joint, r, call->op, call->attr, in, out);
    }
    return joint->kernels->join(joint->calls, t->ranks);
}

/* *done: every rank has computed in place. */
static bt_status join_in_place(const reduction *r, const bt_call *call, uint64_t what, bool *done)
{
    bt_joint *joint = r->joint;
    bt_transport *t = joint->transport;
    const place *all;
    BT_TRY(find(joint, what, call, &all));
    *done = all;
    if (!all)
        return BT_OK;
    for (int i = 0; sums(call) && i < call->inputs; i++)
        BT_TRY(join_shares(r, call, i, all));
    if (!sums(call))
        BT_TRY(join_operands(joint, call, all));
    const char none = 0;
    return t->gather(t, what, &none, 1, joint->all, 1); /* operands must stay until here */
}

/* Bytes of the whole values, the same on every rank. */
static size_t whole_bytes(const bt_call *call)
{
    size_t bytes = 0;
    for (int i = 0; i < call->inputs; i++)
        bytes += bytes_of(call->op == &bt_op_all_gather ? &call->out[i] : &call->in[i]);
    return bytes;
}

bt_status bt_joint_call(bt_joint *joint, const bt_call *call, uint64_t at)
{
    const bt_collective_attr *attr = call->attr;
    const uint64_t what = bt_collective_hash(at, call->op, attr);
    const reduction r = {joint, call->in[0].dtype, *attr};
    const bool gathers = call->op == &bt_op_all_gather;
    bool done = false;
    if (joint->transport->lend && whole_bytes(call) > SMALL)
        BT_TRY(join_in_place(&r, call, what, &done));
    if (done)
        return BT_OK;
    if (sums(call))
        return reduce_each(joint, call, what, r);
    if (in_a_row(gathers ? &call->out[0] : &call->in[0], attr->axis))
        return gathers ? gather_pieces(joint, call, what) : scatter_pieces(joint, call, what);
    return gather(joint, call, what);
}
