/* backend/cpu/cpu.h: the kernel lists of the CPU backend, compiled once per instruction set. */
#ifndef BT_CPU_H
#define BT_CPU_H

#include "backend/cpu/view.h"
#include "base/team.h"
#include "ops/ops.h"
#include "runtime/backend.h"

/* Files in BT_CPU_KERNEL_SOURCES see BT_ISA_SUFFIX (generic, v3, v4) and append it to the names they export. */
#define BT_ISA_JOIN_(name, suffix) name##_##suffix
#define BT_ISA_JOIN(name, suffix)  BT_ISA_JOIN_(name, suffix)
#define BT_ISA(name)               BT_ISA_JOIN(name, BT_ISA_SUFFIX)

/* One list per file, bt_cpu_NAME_ISA, ending with a record without an op. */
#define BT_CPU_FAMILIES(X, isa)                                                                                        \
    X(matmul, isa)                                                                                                     \
    X(conv, isa)                                                                                                       \
    X(unary, isa)                                                                                                      \
    X(binary, isa)                                                                                                     \
    X(select, isa)                                                                                                     \
    X(reduce, isa) X(move, isa) X(index, isa) X(random, isa) X(loss, isa) X(update, isa) X(channel, isa) X(pool, isa)
#define BT_CPU_DECLARE(name, isa) extern const bt_kernel_impl bt_cpu_##name##_##isa[];
BT_CPU_FAMILIES(BT_CPU_DECLARE, generic)
BT_CPU_FAMILIES(BT_CPU_DECLARE, v3)
BT_CPU_FAMILIES(BT_CPU_DECLARE, v4)
#undef BT_CPU_DECLARE
extern const bt_conversions bt_cpu_convert_generic, bt_cpu_convert_v3, bt_cpu_convert_v4; /* convert.c */

/* All kernels, with those of one instruction set ("generic", "v3", "v4", "v4b", "amx"; "": only the plain loops). NULL
 * if this machine cannot run it or the library was built without it. */
const bt_kernel_impl *const *bt_cpu_kernels(const char *isa);
const bt_conversions *bt_cpu_conversions(const char *isa); /* likewise */

#endif
