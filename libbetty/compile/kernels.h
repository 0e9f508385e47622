/* compile/kernels.h: kernels, and the table of them that a backend offers: for each op a best-first list. */
#ifndef BT_KERNELS_H
#define BT_KERNELS_H

#include "graph/graph.h"

/* One call of a kernel, as planned: views of the inputs (any strides) and outputs (always contiguous, row-major). */
enum { BT_ROW_INPUTS = 3 };

/* out[i] = f(in[0][i], in[1][i], ...), 0 <= i < n. An input may be one number for all i; the function knows which. out
 * may equal an input. */
typedef void bt_row_fn(int64_t n, void *out, const void *const *in);

typedef struct bt_call {
    const bt_op *op;
    const void *attr;
    int inputs, outputs;
    bt_view *in, *out; /* data is NULL while compiling: runtime/bind.h gives it */
    void *scratch;
    int threads;    /* how many it may use; at least 1 */
    void *state;    /* made by prepare; only read from then on */
    bt_row_fn *row; /* set by prepare if one call of it, on n numbers, does all that launch would; else NULL */
    bool divided;   /* launch would share the n numbers among threads */
    int64_t n;
    const struct bt_joined *joined; /* it stands for several steps: compile/joined.h; NULL: for one */
    void *queue;                    /* of the device it runs on (runtime/device.h); NULL: the processor */
    void *stream;                   /* CUDA: the queue's stream, for a user's kernels */
    bt_tag tag;
} bt_call;

typedef struct bt_kernel_impl {
    const bt_op *op;
    const char *name;                         /* "dot.blocked.f32" */
    bool (*accepts)(const bt_call *call);     /* these dtypes, shapes and strides; NULL: everything */
    size_t (*scratch)(const bt_call *call);   /* bytes it needs while it runs; NULL: none */
    bt_status (*prepare)(bt_call *call);      /* may allocate call->state, without using data; NULL: nothing to do */
    bt_status (*launch)(const bt_call *call); /* allocates nothing */
    void (*release)(bt_call *call);           /* frees what prepare made */
    bool plain;                               /* a plain loop: if no other kernel takes the call, copied or not */
    bool half;                                /* also considered for calls with 16-bit inputs or outputs */
} bt_kernel_impl;

typedef struct bt_kernel_table {
    const char *device;                         /* "cpu" */
    const bt_kernel_impl *const *(*list)(void); /* all, ends with NULL; for one op the best first */
    /* Launches a call of an op with BT_OP_COLLECTIVE on all ranks at once: calls[r] is rank r's. Collectives are
     * launched one after the other, in the order of the graph. A rank whose output has no data gets none. The launch of
     * such an op's kernel fails. NULL: there are no ranks. */
    bt_status (*join)(const bt_call *const *calls, int ranks);
    bool tf32; /* its products in BT_TF32 (bt_tag.low) differ from those in BT_F32 */
} bt_kernel_table;

/* Launches it, on memory that the processor can read and write. */
static inline bt_status bt_kernel_run(const bt_kernel_impl *kernel, const bt_call *call)
{
    const void *in[BT_ROW_INPUTS];
    if (!call->row || call->divided)
        return kernel->launch(call);
    for (int i = 0; i < call->inputs; i++)
        in[i] = call->in[i].data;
    call->row(call->n, call->out[0].data, in);
    return BT_OK;
}

bt_array bt_view_array(const bt_view *view); /* its dtype, shape and data, without strides */

bool bt_call_half(const bt_call *call);                 /* an input or output is stored in 16 bits */
bool bt_calls_meet(const bt_call *a, const bt_call *b); /* two ranks' calls of the same collective, of equal size */
bool bt_kernel_accepts(const bt_kernel_impl *kernel, const bt_call *call); /* the call is of its op */

/* The first kernel of the table that accepts the call as it is; NULL if none. */
const bt_kernel_impl *bt_kernel_choose(const bt_kernel_table *table, const bt_call *call);
bool bt_kernel_known(const bt_kernel_table *table, const bt_op *op);    /* there is one for the op */
bool bt_kernel_made_for(const bt_kernel_table *table, const bt_op *op); /* there is one that is no plain loop */

#endif
