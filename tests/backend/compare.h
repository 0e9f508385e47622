/* tests/backend/compare.h: runs every kernel of an op, of every instruction set that this machine has, on one, two and
 * five threads, and compares with the plain loops. Outputs and scratch stand between guards, and scratch is written to
 * its last byte; inputs must stay as they are. */
#ifndef BT_TEST_COMPARE_H
#define BT_TEST_COMPARE_H

#include "backend/cpu/cpu.h"
#include "base/base.h"
#include "ops/ops.h"

enum layout {
    PLAIN,  /* row-major */
    TURNED, /* the axes are stored in the opposite order */
    SLICED, /* within a larger array: gaps between elements and rows */
    LOOSE,  /* gaps between rows only */
    SPREAD, /* stride 0 along the first axis */
    ONE,    /* stride 0 along all axes */
    INNER   /* stride 0 along the axis before the last */
};

typedef struct operand {
    bt_dtype dtype;
    int rank;
    int64_t dims[BT_MAX_RANK];
    enum layout layout;
    double low, high;     /* values are uniform in low..high; of integers low..high - 1 */
    const double *values; /* or these, repeated */
    int value_count;
} operand;

typedef struct trial {
    const bt_op *op;
    const void *attr;
    int inputs, outputs;
    operand in[16], out[5];
    double relative, absolute; /* errors that are accepted; both 0: equal */
    bool bits;                 /* a device has those of the processor's kernel */
    int alias[5];              /* output o may lie over input alias[o] - 1; 0: over none */
    uint64_t seed;             /* of the values */
} trial;

/* How many runs of fast kernels were compared; fails the test where one differs. */
int compare(const trial *trial);

/* The same, and there must have been at least one fast kernel for each instruction set. */
void compare_fast(const trial *trial);

/* Whether the set has a kernel with this in its name that accepts the call; true where this machine has no such set. */
bool takes(const trial *trial, const char *isa, const char *part);

extern const char *const isas[]; /* "generic", "v3", "v4", "v4b", "amx"; ends with NULL */

/* Runs one kernel on the operands; the outputs' data must be freed with bt_free_aligned. */
const bt_kernel_impl *kernel_named(const bt_kernel_impl *const *kernels, const bt_op *op, const char *part);

#endif
