/* tests/runtime/counting.h: the process's allocations, seen from outside the library: malloc and its kin are replaced.
 */
#ifndef COUNTING_H
#define COUNTING_H

#include <stdbool.h>
#include <stddef.h>

/* Under a sanitizer, which replaces malloc itself, nothing is counted. */
bool counting_works(void);

void counting_start(void); /* from here on, on all threads */
void counting_stop(void);
size_t counting_calls(void); /* allocations of any kind */
size_t counting_peak(void);  /* most bytes live at once, of those made by aligned_alloc since the start */

#endif
