/* betty/op.h: own operations */
#ifndef BETTY_OP_H
#define BETTY_OP_H

#include <betty/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An operation is a constant record; its address is its identity. With a body, the rest follows: shapes, derivatives
 * of every order. A kernel makes it fast. An op without a body needs a kernel and `infer`; for derivatives, `vjp`.
 * Lists of inputs and outputs have the op's own lengths; those of inputs end with NULL. */

typedef struct bt_launch { /* what a kernel is given; it allocates nothing */
    const void *attr;
    const bt_array *in;
    const bt_array *out;
    void *scratch;
    int threads;
    void *stream; /* CUDA: the cudaStream_t */
} bt_launch;

typedef struct bt_kernel {
    bt_device device;
    bt_dtype dtype; /* of the first input */
    size_t (*scratch)(const void *attr, const bt_array *in,
                      int threads); /* bytes, the last one is written; NULL: none */
    bt_status (*launch)(const bt_launch *run);
} bt_kernel;

/* Dtypes and shapes of the outputs from those of the inputs. */
typedef bt_status bt_infer_fn(const void *attr, const bt_array *in, bt_array *out);
bt_infer_fn bt_infer_same; /* one output, like the first input */

/* Records what the op computes, in terms of other ops. */
typedef void bt_body_fn(const void *attr, bt_tensor *const *in, bt_tensor **out);

/* vjp: `given` holds the outputs' cotangents, `wanted` receives the inputs'. jvp: `given` holds the inputs' tangents,
 * `wanted` receives the outputs'. NULL stands for zero. */
typedef void bt_derivative_fn(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                              bt_tensor **wanted);

typedef struct bt_op {
    const char *name;
    int inputs, outputs; /* outputs: 0 means 1 */
    /* Bytes. Attributes are plain data, copied, compared and hashed as bytes: no pointers, and no padding that is not
     * set (start from memset, or leave no gaps): a checkpoint is refused where they differ. */
    size_t attr_size;
    bt_infer_fn *infer;                  /* NULL: from the body */
    bt_body_fn *body;                    /* NULL: opaque */
    bt_derivative_fn *vjp, *jvp;         /* NULL: from the body (jvp also: from vjp) */
    bt_kernel kernels[BT_MAX_ITEMS + 1]; /* the best first, BT_MAX_ITEMS at most; none: the body */
    const struct bt_op_info *info; /* the library's own ops: cost, views, what may be overwritten; NULL: safe answers */
} bt_op;

bt_tensor *(bt_apply)(const bt_op *op, const void *attr, bt_tensor *const *in);          /* the first output */
#define bt_apply(op, attr, ...) (bt_apply)((op), (attr), BT_TENSORS_(__VA_ARGS__, NULL)) /* ..., inputs */

#ifdef __cplusplus
}
#endif
#endif
