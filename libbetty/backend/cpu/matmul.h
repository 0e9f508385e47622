/* backend/cpu/matmul.h: a small blocked matrix product, c = a b, with any strides of a and b. */
#ifndef BT_CPU_MATMUL_H
#define BT_CPU_MATMUL_H

#include "backend/cpu/cpu.h"

typedef struct bt_gemm bt_gemm;

typedef struct bt_gemm_range { /* the part of c that one thread computes */
    int64_t row, row_end, column, column_end;
} bt_gemm_range;

typedef struct bt_gemm_data { /* one matrix of the batch */
    const void *a, *b;
    const void *bias;   /* NULL, or [n], stride 1 */
    const void *addend; /* NULL, or like c, or c itself; `factor` times it is added */
    double factor;
    void *c;
} bt_gemm_data;

typedef void bt_gemm_fn(const bt_gemm *gemm, const bt_gemm_data *data, void *scratch, bt_gemm_range range);
typedef size_t bt_gemm_room_fn(const bt_gemm *gemm, bt_gemm_range range);

/* Strides count elements. c is [batch, m, n], row-major. */
struct bt_gemm {
    int64_t batch, m, n, k;
    int64_t a_row, a_column, b_row, b_column; /* of each matrix */
    bool relu, adds, shifts;                  /* adds: there is an addend; shifts: a bias */

    /* planned */
    bt_gemm_fn *run;
    bt_gemm_room_fn *room; /* bytes of scratch up to the last one that `run` writes for this part of c */
    bool pack_a;           /* a is packed into scratch, so that its rows are contiguous */
    bool pack_b;           /* b is packed into scratch, panel by panel */
    bool narrow;           /* the last few columns use vectors along k; */
    bool all_narrow;       /* all columns do */
    bool turned;           /* planned for c', as b' a' */
    int64_t panel;         /* elements of scratch for a panel of b */
    int64_t deep, tall;    /* how much of k and of m is done at a time */
    int64_t rows, columns; /* threads split c at multiples of these */
};

void BT_ISA(bt_gemm_plan_f32)(bt_gemm *gemm);
void BT_ISA(bt_gemm_plan_f64)(bt_gemm *gemm);

#endif
