/* backend/cuda/host.cu: ops that tell the host something: print, by a host function that runs in the order of the
 * stream; check, by the record of failures, so that the host does nothing as long as all is true. */
#include "backend/cuda/lines.h"
#include "backend/cuda/move.h"

extern "C" {
#include "backend/cpu/reference.h"
}

/* ---- print ---- */

typedef struct note { /* of one call: its values on the way to the host, dense in pinned memory */
    bt_call call;
    bt_view x;
} note;

static void print_release(bt_call *call)
{
    note *n = (note *)call->state;
    if (n && n->x.data)
        cudaFreeHost(n->x.data);
    bt_free(n);
    call->state = nullptr;
}

static bt_status print_prepare(bt_call *call)
{
    void *pinned = nullptr;
    note *n = (note *)bt_alloc(sizeof *n);
    if (!n)
        return BT_ERROR_MEMORY;
    call->state = n;
    n->x = bt_view_of(bt_view_array(&call->in[0]));
    n->call = {.op = call->op, .attr = call->attr, .inputs = 1, .in = &n->x};
    const size_t bytes = (size_t)bt_cpu_count(&n->x) * bt_dtype_size(n->x.dtype);
    const cudaError_t error = cudaHostAlloc(&pinned, bytes ? bytes : 1, cudaHostAllocDefault);
    n->x.data = (char *)pinned;
    if (error != cudaSuccess)
        print_release(call);
    return bt_cuda_try(error, "pinning memory");
}

static void tell(void *told) { bt_cpu_print(&((note *)told)->call); }

static bt_status print(const bt_call *call)
{
    const bt_cuda_queue *queue = (const bt_cuda_queue *)call->queue;
    note *n = (note *)call->state;
    BT_TRY(bt_cuda_copy_of(call, &call->in[0], n->x.data, n->x.dtype));
    BT_TRY(bt_cuda_try(cudaLaunchHostFunc(queue->stream, tell, n), "print"));
    return bt_cuda_copy_of(call, &call->in[0], call->out[0].data, call->out[0].dtype);
}

/* ---- check ---- */

typedef struct checking {
    bt_lines<1> truth; /* the output is one number */
    bt_cuda_record *record;
    int64_t site;
} checking;

static __global__ void check_kernel(const checking c)
{
    BT_SHARED(unsigned long long, first, 1);
    if (threadIdx.x == 0)
        *first = ~0ULL;
    __syncthreads();
    BT_CUDA_EACH(i, c.truth.n)
    {
        int64_t at;
        bt_lines_at<1>(c.truth, i, &at);
        if (!c.truth.in[0].data[at]) {
            atomicMin(first, (unsigned long long)i);
            break;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0 && *first != ~0ULL)
        bt_cuda_fail(c.record, c.site, (int64_t)*first, 0);
    if (threadIdx.x == 0 && blockIdx.x == 0)
        *c.truth.out = 1;
}

static bt_status tell_untrue(const bt_cuda_site *site, int64_t element)
{
    return bt_cpu_untrue((const bt_text_attr *)site->attr, &site->index, element);
}

static bt_status check(const bt_call *call)
{
    bt_cuda_queue *queue = (bt_cuda_queue *)call->queue;
    const int64_t site = bt_cuda_watch_as(queue, call, tell_untrue);
    const checking c = {bt_lines_of<1>(call->in, &call->out[0]), queue->record, site};
    if (site < 0)
        return BT_ERROR_MEMORY;
    return bt_cuda_each<checking>(call, check_kernel, c.truth.n ? c.truth.n : 1, c);
}

extern "C" const bt_kernel_impl bt_cuda_host[] = {
    {.op = &bt_op_print,
     .name = "print.cuda",
     .prepare = print_prepare,
     .launch = print,
     .release = print_release,
     .half = true},
    BT_CUDA_KERNEL(check, check),
    {},
};
