/* backend/cpu/conv_f32.c: convolutions in f32. */
#include "backend/cpu/conv.h"

#include "backend/cpu/transpose.h"

typedef float T;
#define FULL_V    bt_f32w
#define FULL_VI   bt_i32w
#define FULL_F(f) BT_F32W(f)
#define FMA       bt_f32_fma
#define TURN_ALL  bt_turn_all4
#define SUM4      bt_f32_sum4
#define CONV_TYPE BT_ISA(bt_conv_f32)
#include "backend/cpu/conv_template.h"
