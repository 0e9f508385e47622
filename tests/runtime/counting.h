/* tests/runtime/counting.h: counts the allocations of the process from outside the library, by replacing malloc and its
 * relatives. */
#ifndef COUNTING_H
#define COUNTING_H

#include <stdbool.h>
#include <stddef.h>

/* False under a sanitizer, which replaces malloc itself: nothing is counted then. */
bool counting_works(void);

void counting_start(void); /* starts counting, on all threads */
void counting_stop(void);
size_t counting_calls(void); /* allocations of any kind */
size_t counting_peak(void);  /* peak of live bytes from aligned_alloc since the start */

#endif
