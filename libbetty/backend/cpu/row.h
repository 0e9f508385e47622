/* backend/cpu/row.h: sums and maxima of rows, of f32 and of f64. */
#ifndef BT_CPU_ROW_H
#define BT_CPU_ROW_H

#include "backend/cpu/fold.h"

#define T     float
#define R(x)  x##_f32
#define V     bt_f32w
#define VF(f) BT_F32W(f)
#define WIDE  BT_F32W(wide)
#define LANES (BT_VECTOR / 4)
#include "backend/cpu/row_template.h"
#undef T
#undef R
#undef V
#undef VF
#undef WIDE
#undef LANES

#define T     double
#define R(x)  x##_f64
#define V     bt_f64w
#define VF(f) BT_F64W(f)
#define WIDE
#define LANES (BT_VECTOR / 8)
#include "backend/cpu/row_template.h"
#undef T
#undef R
#undef V
#undef VF
#undef WIDE
#undef LANES

#endif
