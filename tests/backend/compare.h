/* tests/backend/compare.h: runs every kernel of an op, for every instruction set of this machine, on one, two and five
 * threads, and compares the results with the plain loops. Outputs and scratch have guards around them, scratch is
 * written to its last byte, and inputs must not change. */
#ifndef BT_TEST_COMPARE_H
#define BT_TEST_COMPARE_H

#include "backend/cpu/cpu.h"
#include "base/base.h"
#include "ops/ops.h"

enum layout {
    PLAIN,  /* row-major */
    TURNED, /* stored with reversed axes */
    SLICED, /* part of a larger array: gaps between elements and rows */
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
    bool bits;                 /* a device must give the bits of the processor's kernel */
    int alias[5];              /* output o may overlay input alias[o] - 1; 0: none */
    uint64_t seed;             /* for the values */
} trial;

/* Returns how many runs of fast kernels were compared; fails the test if one differs. */
int compare(const trial *trial);

/* The same, but requires at least one fast kernel for each instruction set. */
void compare_fast(const trial *trial);

/* Whether the set has a kernel whose name contains `part` and that accepts the call; true if this machine lacks the
 * set. */
bool takes(const trial *trial, const char *isa, const char *part);

extern const char *const isas[]; /* "generic", "v3", "v4", "v4b", "amx"; ends with NULL */

/* Runs one kernel on the operands; free the outputs' data with bt_free_aligned. */
const bt_kernel_impl *kernel_named(const bt_kernel_impl *const *kernels, const bt_op *op, const char *part);

#endif
