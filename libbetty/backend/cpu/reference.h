/* backend/cpu/reference.h: plain loops for every dtype, shape and stride. They are the last in each op's list, and
 * tests compare the other kernels with them. Floating-point numbers are computed in double precision. */
#ifndef BT_CPU_REFERENCE_H
#define BT_CPU_REFERENCE_H

#include "backend/cpu/view.h"
#include "ops/ops.h"

/* Each list ends with a record without an op. */
extern const bt_kernel_impl bt_cpu_along[], bt_cpu_collective[];
extern const bt_kernel_impl bt_cpu_reference_elementwise[], bt_cpu_reference_reduce[], bt_cpu_reference_move[],
    bt_cpu_reference_index[], bt_cpu_reference_conv[], bt_cpu_reference_dot[], bt_cpu_reference_random[],
    bt_cpu_reference_loss[], bt_cpu_reference_update[], bt_cpu_reference_channel[], bt_cpu_reference_pool[],
    bt_cpu_reference_linalg[];

#define BT_REFERENCE(op_name, function)                                                                                \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".reference", .launch = function, .plain = true, .half = true         \
    }
/* Without 16-bit dtypes: the kernel accumulates in its result or depends on the dtype. */
#define BT_REFERENCE_WIDE(op_name, function)                                                                           \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".reference", .launch = function, .plain = true                       \
    }

/* Reads an index from integers. If it is outside 0 .. size-1, the run fails with an error that names the op. */
bt_status bt_cpu_index(const bt_call *call, const bt_view *index, int64_t element, int64_t size, int64_t *result);
bt_status bt_cpu_no_index(const bt_op *op, const bt_view *index, int64_t element, int64_t found,
                          int64_t size); /* that error */

bt_status bt_cpu_join(const bt_call *const *calls, int ranks); /* bt_kernel_table */

bt_status bt_cpu_singular(int64_t matrix); /* solve's error for a singular matrix */

void bt_cpu_print(const bt_call *call);      /* what the op print shows */
bt_status bt_cpu_check(const bt_call *call); /* the op check; the error names the first element that is false */
bt_status bt_cpu_untrue(const bt_text_attr *attr, const bt_view *x, int64_t element); /* that error */

#endif
