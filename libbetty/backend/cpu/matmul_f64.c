/* backend/cpu/matmul_f64.c: the blocked product in f64. */
#include "backend/cpu/matmul.h"

#include "backend/cpu/transpose.h"

typedef double T;
#define FULL_V    bt_f64w
#define FULL_VI   bt_i64w
#define FULL_F(f) BT_F64W(f)
#if BT_VECTOR == 64
typedef int64_t half_mask __attribute__((vector_size(32)));
typedef int64_t quad_mask __attribute__((vector_size(32)));
#define HALF_V    bt_f64x4
#define HALF_VI   half_mask
#define HALF_F(f) bt_f64x4_##f
#define QUAD_V    bt_f64x4
#define QUAD_VI   quad_mask
#define QUAD_F(f) bt_f64x4_##f
#define SUMS      bt_f64_sums
#endif
#define FMA       bt_f64_fma
#define TURN_ALL  bt_turn_all8
#define SUM4      bt_f64_sum4
#define GEMM_PLAN BT_ISA(bt_gemm_plan_f64)
#include "backend/cpu/matmul_template.h"
#include "backend/cpu/matmul_vector.h"
