/* backend/cpu/pieces.h: kernels that run other kernels piece by piece; each list ends with a record without an op. */
#ifndef BT_CPU_PIECES_H
#define BT_CPU_PIECES_H

#include "backend/cpu/cpu.h"

extern const bt_kernel_impl bt_cpu_pieces_generic[], bt_cpu_pieces_v3[], bt_cpu_pieces_v4[];

#endif
