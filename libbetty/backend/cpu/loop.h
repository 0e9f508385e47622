/* backend/cpu/loop.h: applies a function of rows to operands with any strides. The plan joins adjacent axes where it
 * can, so that most calls are one long row. An operand that is not contiguous along a row is copied to a small buffer,
 * piece by piece. */
#ifndef BT_CPU_LOOP_H
#define BT_CPU_LOOP_H

#include "backend/cpu/cpu.h"

enum { BT_LOOP_INPUTS = BT_ROW_INPUTS };

typedef struct bt_loop {
    int inputs, rank, threads;
    int64_t rows, n, outer[BT_MAX_RANK]; /* outer: the sizes of the axes that count rows */
    int64_t step[BT_LOOP_INPUTS][BT_MAX_RANK], along[BT_LOOP_INPUTS], size[BT_LOOP_INPUTS], out_size; /* bytes */
    bool staged[BT_LOOP_INPUTS], any_staged, turned; /* turned: the contiguous axis of one is just outside the row */
    bt_row_fn *row;
} bt_loop;

/* The inputs have equal shapes; the output may have another shape with the same elements in row-major order.
 * variants[mask] is the function for the case that the inputs in the mask are scalars; NULL: there is none, and the
 * scalars are expanded into buffers. variants[0] must exist. cost: the time per element, in simple operations. */
void BT_ISA(bt_loop_plan)(bt_loop *loop, const bt_view *in, int inputs, bt_dtype out, bt_row_fn *const *variants,
                          int threads, int cost);
void BT_ISA(bt_loop_run)(const bt_loop *loop, char *out, const char *const *in);

/* The same for a call whose operands are the loop's. */
bt_status BT_ISA(bt_loop_prepare)(bt_call *call, bt_row_fn *const *variants, int cost);
bt_status BT_ISA(bt_loop_launch)(const bt_call *call);
void BT_ISA(bt_loop_release)(bt_call *call);

#endif
