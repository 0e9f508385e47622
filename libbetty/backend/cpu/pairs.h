/* backend/cpu/pairs.h: sums of products of bf16 numbers, two at a time, into f32: c = a b, or c += a b. The machine's
 * instructions treat numbers below 2^-126 as 0, and round the sum once per pair of products or more often.
 *
 * Each row of a has its k numbers side by side, in runs; the next run of all rows begins `a_run` further. b is packed:
 * for each panel of BT_PAIRS_COLUMNS columns (the last one has the rest), for each run, [pairs][columns] of two numbers
 * that are adjacent along k. The number of columns is padded to a multiple of sixteen. */
#ifndef BT_CPU_PAIRS_H
#define BT_CPU_PAIRS_H

#include "backend/cpu/cpu.h"

enum { BT_PAIRS_COLUMNS = 32, BT_PAIRS_LANES = 16, BT_PAIRS_DEEP = 16 };

typedef struct bt_pairs {
    const uint16_t *a, *b;
    float *c;
    int64_t rows, a_row, c_row; /* strides count elements */
    int64_t columns;            /* a multiple of BT_PAIRS_LANES */
    int64_t runs, a_run, pairs; /* pairs of each run */
    int64_t deep;               /* pairs done at a time: a divisor of `pairs`, at most BT_PAIRS_DEEP */
    bool adds;                  /* to the contents of c */
} bt_pairs;

void BT_ISA(bt_pairs_run)(const bt_pairs *p);

/* Lists of kernels, each ending with a record without an op. v4b is v4 with AVX512_BF16; amx also has AMX. */
extern const bt_kernel_impl bt_cpu_half_conv_v4b[], bt_cpu_half_conv_amx[];     /* half_conv.c */
extern const bt_kernel_impl bt_cpu_half_matmul_v4b[], bt_cpu_half_matmul_amx[]; /* half_matmul.c */

/* The largest divisor of `pairs` that can be `deep`. */
static inline int64_t bt_pairs_deep(int64_t pairs)
{
    int64_t deep = pairs < BT_PAIRS_DEEP ? pairs : BT_PAIRS_DEEP;
    while (deep > 1 && pairs % deep)
        deep--;
    return deep;
}

/* The number of columns of packed b. */
static inline int64_t bt_pairs_across(int64_t columns)
{
    return (columns + BT_PAIRS_LANES - 1) / BT_PAIRS_LANES * BT_PAIRS_LANES;
}

#endif
