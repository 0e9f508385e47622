/* backend/cpu/matmul_f64.c: the blocked product in f64. */
#include "backend/cpu/matmul.h"

#include "backend/cpu/transpose.h"

typedef double T;
#if BT_VECTOR == 64
#define FULL_V    bt_f64x8
#define FULL_F(f) bt_f64x8_##f
#define HALF_V    bt_f64x4
#define HALF_F(f) bt_f64x4_##f
typedef int64_t FULL_VI __attribute__((vector_size(64)));
typedef int64_t HALF_VI __attribute__((vector_size(32)));
#elif BT_VECTOR == 32
#define FULL_V    bt_f64x4
#define FULL_F(f) bt_f64x4_##f
typedef int64_t FULL_VI __attribute__((vector_size(32)));
#else
#define FULL_V    bt_f64x2
#define FULL_F(f) bt_f64x2_##f
typedef int64_t FULL_VI __attribute__((vector_size(16)));
#endif
#define FMA       bt_f64_fma
#define TURN_ALL  bt_turn_all8
#define GEMM_PLAN BT_ISA(bt_gemm_plan_f64)
#include "backend/cpu/matmul_template.h"
#include "backend/cpu/matmul_vector.h"
