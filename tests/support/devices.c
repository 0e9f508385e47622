#include "support/devices.h"

#include "base/hash.h"
#include "support/forked.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static void begin(member *m)
{
    RIGHT(bt_cuda_choose(m->rank, m->ranks) == BT_OK && bt_backend_cuda());
    m->device = bt_backend_cuda()->device;
    RIGHT((m->queue = m->device->open()));
    RIGHT((m->pinned = m->device->pin(DEVICE_ROOM)));
}

void member_join(member *m)
{
    const bt_status status = m->device->join(m->queue, m->transport);
    if (status == BT_ERROR_DEVICE && strstr(bt_error(), "there is no libnccl"))
        _exit(NO_NCCL);
    RIGHT(status == BT_OK);
}

typedef struct shared { /* between all members */
    member_body *body;
    int ranks;
} shared;

static int run_member(bt_transport *transport, int rank, void *user)
{
    const shared *all = user;
    member m = {.transport = transport, .rank = rank, .ranks = all->ranks};
    begin(&m);
    all->body(&m);
    m.device->unpin(m.pinned);
    m.device->close(m.queue);
    return 0;
}

void devices_run(int ranks, member_body *body, int *codes)
{
    forked_run(ranks, run_member, &(shared){body, ranks}, codes);
}

void devices_right(int ranks, member_body *body)
{
    int codes[MOST_DEVICES];
    devices_run(ranks, body, codes);
    for (int r = 0; r < ranks; r++)
        ck_assert_msg(codes[r] == 0, "rank %d of %d ends with %d", r, ranks, codes[r]);
}

size_t member_bytes(const bt_view *view) { return (size_t)bt_array_bytes(bt_view_array(view)); }

bt_status member_wait(member *m)
{
    bt_device_failure found = m->device->wait(m->queue, m->device->mark(m->queue));
    const bt_status status = found.failure.status;
    if (status != BT_OK)
        bt_failure_give(&found.failure);
    return status;
}

/* Dense [3, n, 5], or [n]. */
bt_view member_array(member *m, bt_dtype dtype, bool wide, int64_t n)
{
    bt_view view = bt_view_of(wide ? (bt_array){.dtype = dtype, .rank = 3, .dims = {3, n, 5}}
                                   : (bt_array){.dtype = dtype, .rank = 1, .dims = {n}});
    view.data = m->device->alloc(m->queue, member_bytes(&view));
    RIGHT(view.data && member_bytes(&view) <= DEVICE_ROOM);
    return view;
}

void member_send(member *m, const bt_view *view)
{
    RIGHT(m->device->send(m->queue, view->data, m->pinned, member_bytes(view)) == BT_OK && member_wait(m) == BT_OK);
}

const char *member_fetch(member *m, const bt_view *view)
{
    RIGHT(m->device->fetch(m->queue, m->pinned, view->data, member_bytes(view)) == BT_OK && member_wait(m) == BT_OK);
    return m->pinned;
}

void member_choose(member *m, const bt_op *op, int operands)
{
    m->call = (bt_call){
        .op = op, .attr = &m->attr, .inputs = operands, .outputs = operands, .in = m->in, .out = m->out, .threads = 1};
    RIGHT((m->kernel = bt_kernel_choose(&bt_backend_cuda()->kernels, &m->call)));
    const size_t scratch = m->kernel->scratch ? m->kernel->scratch(&m->call) : 0;
    m->call.scratch = scratch ? m->device->alloc(m->queue, scratch) : NULL;
}

bt_status member_launch(member *m) { return m->device->launch(m->queue, m->kernel, &m->call, (bt_launched){NULL, 0}); }

void member_forget(member *m)
{
    for (int i = 0; i < m->call.inputs; i++) {
        m->device->free(m->queue, m->in[i].data);
        if (m->out[i].data != m->in[i].data)
            m->device->free(m->queue, m->out[i].data);
    }
    if (m->call.scratch)
        m->device->free(m->queue, m->call.scratch);
}

/* All ranks have the same bits. */
void member_alike(member *m, const char *bits, size_t bytes)
{
    uint64_t own = bt_hash(0, bits, bytes), all[MOST_DEVICES];
    RIGHT(m->transport->gather(m->transport, 1, &own, sizeof own, all, sizeof own) == BT_OK);
    for (int r = 0; r < m->ranks; r++)
        RIGHT(all[r] == own);
}
