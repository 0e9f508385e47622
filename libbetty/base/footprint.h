/* base/footprint.h: the memory that the library itself uses in this process, besides that of bt_alloc_aligned, which is
 * planned. */
#ifndef BT_FOOTPRINT_H
#define BT_FOOTPRINT_H

#include <stddef.h>
#include <stdint.h>

void bt_live_far(int64_t bytes); /* so many bytes more, or fewer, of what bt_live_bytes counts lie on a device */

/* So many bytes more, or fewer, of what is planned are in host memory while there are two spaces: they count there
 * instead. */
void bt_live_host(int64_t bytes);
size_t bt_live_host_bytes(void);

size_t bt_own_bytes(void); /* of bt_alloc and its kin, as the allocator counts them */
size_t bt_own_peak(void);  /* the most that they have been since bt_own_peak_begin */
void bt_own_peak_begin(void);
void bt_own_give_back(void); /* what has been freed, to the system */

#endif
