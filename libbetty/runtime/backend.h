/* runtime/backend.h: what a backend offers: for each op a best-first list of kernels. */
#ifndef BT_BACKEND_H
#define BT_BACKEND_H

#include "graph/graph.h"

/* One call of a kernel, as planned: views of the inputs (any strides) and outputs (always contiguous, row-major). */
typedef struct bt_call {
    const bt_op *op;
    const void *attr;
    int inputs, outputs;
    bt_view *in, *out; /* data is NULL while planning */
    void *scratch;
    int threads; /* how many it may use; at least 1 */
    void *state; /* made by prepare */
    bt_tag tag;
    uint64_t seed; /* of random ops: the key */
} bt_call;

typedef struct bt_kernel_impl {
    const bt_op *op;
    const char *name;                         /* "dot.blocked.f32" */
    bool (*accepts)(const bt_call *call);     /* these dtypes, shapes and strides; NULL: everything */
    size_t (*scratch)(const bt_call *call);   /* bytes it needs while it runs; NULL: none */
    bt_status (*prepare)(bt_call *call);      /* may allocate call->state; NULL: nothing to do */
    bt_status (*launch)(const bt_call *call); /* allocates nothing */
    void (*release)(bt_call *call);           /* frees what prepare made */
} bt_kernel_impl;

typedef struct bt_backend {
    const char *name;
    const char *(*isa)(void);                      /* "x86-64-v4" */
    const bt_kernel_impl *const *(*kernels)(void); /* all, ends with NULL; for one op the best first */
} bt_backend;

const bt_backend *bt_backend_cpu(void);

/* The first kernel of the backend that accepts the call as it is; NULL if none. */
const bt_kernel_impl *bt_backend_choose(const bt_backend *backend, const bt_call *call);
bool bt_backend_knows(const bt_backend *backend, const bt_op *op); /* has any kernel for it */

#endif
