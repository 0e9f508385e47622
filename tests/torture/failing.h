/* tests/torture/failing.h: the allocator of this process, which fails on demand. */
#ifndef FAILING_H
#define FAILING_H

#include <stdbool.h>

/* From here on, allocation number `countdown` on this thread fails (0: the next), and with `all` every later one too.
 * Allocations and frees are counted. */
void failing_start(long countdown, bool all);
bool failing_stop(void); /* whether an allocation failed */

/* While `pause` is set, allocations do not fail and are not counted down. */
void failing_pause(bool pause);

/* The same for the next `count` allocations on this thread. */
void failing_spare(long count);

/* The distance from one failing allocation to the next: 1; under a sanitizer, where runs are slow, `sanitized`. */
long failing_step(long sanitized);

/* Blocks allocated and not freed since the start; 0 under a sanitizer, which detects leaks itself. */
long failing_live(void);

#endif
