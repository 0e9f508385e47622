/* backend/cpu/matmul_f32.c: the blocked product in f32. */
#include "backend/cpu/matmul.h"

#include "backend/cpu/transpose.h"

typedef float T;
#define FULL_V    bt_f32w
#define FULL_VI   bt_i32w
#define FULL_F(f) BT_F32W(f)
#if BT_VECTOR == 64
typedef int32_t half_mask __attribute__((vector_size(32)));
typedef int32_t quad_mask __attribute__((vector_size(16)));
#define HALF_V    bt_f32x8
#define HALF_VI   half_mask
#define HALF_F(f) bt_f32x8_##f
#define QUAD_V    bt_f32x4
#define QUAD_VI   quad_mask
#define QUAD_F(f) bt_f32x4_##f
#define SUMS      bt_f32_sums
#endif
#define FMA       bt_f32_fma
#define TURN_ALL  bt_turn_all4
#define SUM4      bt_f32_sum4
#define GEMM_PLAN BT_ISA(bt_gemm_plan_f32)
#include "backend/cpu/matmul_template.h"
#include "backend/cpu/matmul_vector.h"
