/* backend/cpu/matmul_f32.c: the blocked product in f32. */
#include "backend/cpu/matmul.h"

#include "backend/cpu/transpose.h"

typedef float T;
#if BT_VECTOR == 64
#define FULL_V    bt_f32x16
#define FULL_F(f) bt_f32x16_##f
#define HALF_V    bt_f32x8
#define HALF_F(f) bt_f32x8_##f
typedef int32_t FULL_VI __attribute__((vector_size(64)));
typedef int32_t HALF_VI __attribute__((vector_size(32)));
#elif BT_VECTOR == 32
#define FULL_V    bt_f32x8
#define FULL_F(f) bt_f32x8_##f
typedef int32_t FULL_VI __attribute__((vector_size(32)));
#else
#define FULL_V    bt_f32x4
#define FULL_F(f) bt_f32x4_##f
typedef int32_t FULL_VI __attribute__((vector_size(16)));
#endif
#define FMA       bt_f32_fma
#define TURN_ALL  bt_turn_all4
#define GEMM_PLAN BT_ISA(bt_gemm_plan_f32)
#include "backend/cpu/matmul_template.h"
#include "backend/cpu/matmul_vector.h"
