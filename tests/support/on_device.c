#include "support/on_device.h"

#include "base/base.h"
#include <stdlib.h>
#include <string.h>

bool device_is_chosen(void)
{
    const char *wanted = getenv("BETTY_TEST_BACKEND");
    return wanted && strcmp(wanted, "cuda") == 0;
}

const bt_backend *device_backend(void)
{
    const bt_backend *cuda = device_is_chosen() ? bt_backend_cuda() : NULL;
    if (device_is_chosen() && !cuda)
        abort();
    return cuda;
}

typedef struct visit { /* the spans on the device and in pinned memory */
    const bt_device_table *device;
    void *queue;
    const host_span *spans;
    int count;
    char *far[MOST_SPANS], *pinned[MOST_SPANS];
} visit;

static char *there(const visit *v, char *data)
{
    for (int i = 0; i < v->count; i++)
        if (data >= v->spans[i].memory && data < v->spans[i].memory + v->spans[i].bytes)
            return v->far[i] + (data - v->spans[i].memory);
    return data;
}

static bt_status send(visit *v)
{
    for (int i = 0; i < v->count; i++) {
        const host_span *span = &v->spans[i];
        v->far[i] = v->device->alloc(v->queue, span->bytes);
        v->pinned[i] = v->device->pin(span->bytes);
        if (!v->far[i] || !v->pinned[i])
            return bt_error_status();
        memcpy(v->pinned[i], span->memory, span->bytes);
        BT_TRY(v->device->send(v->queue, v->far[i], v->pinned[i], span->bytes));
    }
    return BT_OK;
}

static bt_status wait(visit *v)
{
    bt_device_failure found = v->device->wait(v->queue, v->device->mark(v->queue));
    if (found.failure.status != BT_OK) {
        const bt_status status = found.failure.status;
        bt_failure_give(&found.failure);
        return status;
    }
    return BT_OK;
}

static bt_status fetch(visit *v)
{
    for (int i = 0; i < v->count; i++)
        BT_TRY(v->device->fetch(v->queue, v->pinned[i], v->far[i], v->spans[i].bytes));
    BT_TRY(wait(v));
    for (int i = 0; i < v->count; i++)
        memcpy(v->spans[i].memory, v->pinned[i], v->spans[i].bytes);
    return BT_OK;
}

static bt_status launch(visit *v, const bt_kernel_impl *kernel, const bt_call *call)
{
    bt_view in[MOST_SPANS], out[MOST_SPANS];
    bt_call placed = *call;
    for (int i = 0; i < call->inputs; i++) {
        in[i] = call->in[i];
        in[i].data = there(v, in[i].data);
    }
    for (int o = 0; o < call->outputs; o++) {
        out[o] = call->out[o];
        out[o].data = there(v, out[o].data);
    }
    placed.in = in;
    placed.out = out;
    placed.scratch = call->scratch ? there(v, call->scratch) : NULL;
    BT_TRY(v->device->launch(v->queue, kernel, &placed, (bt_launched){NULL, 0}));
    return wait(v);
}

bt_status run_on_device(const bt_backend *backend, const bt_kernel_impl *kernel, bt_call *call, const host_span *spans,
                        int count)
{
    static void *queue; /* shared by all calls, until the process ends */
    if (!queue && !(queue = backend->device->open()))
        return bt_error_status();
    visit v = {.device = backend->device, .queue = queue, .spans = spans, .count = count};
    bt_status status = send(&v);
    if (status == BT_OK)
        status = launch(&v, kernel, call);
    if (status == BT_OK)
        status = fetch(&v);
    for (int i = 0; i < count; i++) {
        if (v.far[i])
            v.device->free(v.queue, v.far[i]);
        if (v.pinned[i])
            v.device->unpin(v.pinned[i]);
    }
    return status;
}
