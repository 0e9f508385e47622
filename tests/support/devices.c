#include "support/devices.h"

#include "base/hash.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

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

/* Exit codes, or -1 - signal, by rank. Who ends otherwise than with 0 ends the others' waiting, as a parent would. */
void devices_run(int ranks, member_body *body, int *codes)
{
    pid_t ids[MOST_DEVICES];
    bt_page *page = bt_page_new(ranks);
    if (!page)
        abort();
    for (int r = 0; r < ranks; r++)
        if ((ids[r] = fork()) == 0) {
            member m = {.transport = bt_page_transport(page, r), .rank = r, .ranks = ranks};
            begin(&m);
            body(&m);
            m.device->unpin(m.pinned);
            m.device->close(m.queue);
            _exit(0);
        }
    for (int left = ranks; left > 0; left--) {
        int how;
        const pid_t id = waitpid(-1, &how, 0);
        for (int r = 0; r < ranks; r++)
            if (ids[r] == id)
                codes[r] = WIFEXITED(how) ? WEXITSTATUS(how) : -1 - WTERMSIG(how);
        if (!WIFEXITED(how) || WEXITSTATUS(how))
            bt_page_fail(page, "one has ended", 7);
    }
    bt_page_free(page);
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

/* [3, n, 5], or [n]: dense, and what has gone there is seen. */
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
