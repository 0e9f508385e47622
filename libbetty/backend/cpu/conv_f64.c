/* backend/cpu/conv_f64.c: convolutions in f64. */
#include "backend/cpu/conv.h"

#include "backend/cpu/transpose.h"

typedef double T;
#define FULL_V    bt_f64w
#define FULL_VI   bt_i64w
#define FULL_F(f) BT_F64W(f)
#define FMA       bt_f64_fma
#define TURN_ALL  bt_turn_all8
#define SUM4      bt_f64_sum4
#define CONV_TYPE BT_ISA(bt_conv_f64)
#include "backend/cpu/conv_template.h"
