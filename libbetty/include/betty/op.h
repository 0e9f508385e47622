/* betty/op.h: your own operations */
#ifndef BETTY_OP_H
#define BETTY_OP_H

#include <betty/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An operation is a constant record, identified by its address. If it has a body, the library derives everything else:
 * shapes, and derivatives of every order. A kernel makes it fast. An op without a body needs a kernel and `infer`, and
 * `vjp` if it is differentiated. Lists of inputs and outputs have the op's own lengths. Input lists end with NULL. */

typedef struct bt_launch { /* the arguments of a kernel; a kernel allocates nothing */
    const void *attr;
    const bt_array *in;
    const bt_array *out;
    void *scratch;
    int threads;
    void *stream; /* CUDA: the cudaStream_t; NULL on the CPU */
} bt_launch;

/* Inputs are dense. The launch function of a CUDA kernel runs on the host. The data of its arrays and its scratch are
 * in device memory. It enqueues its work on the stream and returns. It must not wait, allocate or use another stream,
 * because its work is recorded in a CUDA graph, which is then launched many times without a call of the function. */
typedef struct bt_kernel {
    bt_device device;
    bt_dtype dtype; /* of the first input */
    /* The number of bytes of scratch memory that launch needs. launch must write the last byte. NULL: none. */
    size_t (*scratch)(const void *attr, const bt_array *in, int threads);
    bt_status (*launch)(const bt_launch *run);
} bt_kernel;

/* Infers the dtypes and shapes of the outputs from those of the inputs. */
typedef bt_status bt_infer_fn(const void *attr, const bt_array *in, bt_array *out);
bt_infer_fn bt_infer_same; /* one output, like the first input */

/* Records the computation of the op in terms of other ops. */
typedef void bt_body_fn(const void *attr, bt_tensor *const *in, bt_tensor **out);

/* vjp: `given` holds the cotangents of the outputs, and `wanted` receives those of the inputs. jvp: `given` holds the
 * tangents of the inputs, and `wanted` receives those of the outputs. NULL stands for zero. */
typedef void bt_derivative_fn(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                              bt_tensor **wanted);

typedef struct bt_op {
    const char *name;
    int inputs, outputs; /* outputs: 0 means 1 */
    /* Size of the attributes in bytes. Attributes are plain data, which are copied, compared and hashed as bytes. They
     * may hold no pointers and no unset padding (start from memset, or leave no gaps). A checkpoint is refused if they
     * differ. */
    size_t attr_size;
    bt_infer_fn *infer;                  /* NULL: from the body */
    bt_body_fn *body;                    /* NULL: opaque */
    bt_derivative_fn *vjp, *jvp;         /* NULL: from the body (jvp also: from vjp) */
    bt_kernel kernels[BT_MAX_ITEMS + 1]; /* the best first, at most BT_MAX_ITEMS; none: the body */
    const struct bt_op_info *info; /* for library ops: cost, views, what may be overwritten; NULL: safe defaults */
} bt_op;

bt_tensor *(bt_apply)(const bt_op *op, const void *attr, bt_tensor *const *in);          /* the first output */
#define bt_apply(op, attr, ...) (bt_apply)((op), (attr), BT_TENSORS_(__VA_ARGS__, NULL)) /* ..., inputs */

#ifdef __cplusplus
}
#endif
#endif
