/* base/footprint.h: memory counters: what lies on a device or in host memory, and what the library itself uses beyond
 * the planned memory of bt_alloc_aligned. */
#ifndef BT_FOOTPRINT_H
#define BT_FOOTPRINT_H

#include <stddef.h>
#include <stdint.h>

void bt_live_far(int64_t bytes); /* adds to bt_live_bytes; for memory on a device; negative: subtracts */

/* Adds to the planned bytes in host memory, if host and device memory are separate. They are counted here and not in
 * bt_live_bytes. Negative: subtracts. */
void bt_live_host(int64_t bytes);
size_t bt_live_host_bytes(void);

size_t bt_own_bytes(void); /* held by bt_alloc and its kin, as counted by the allocator */
size_t bt_own_peak(void);  /* the largest value since bt_own_peak_begin */
void bt_own_peak_begin(void);
void bt_own_give_back(void); /* returns freed memory to the system */

#endif
