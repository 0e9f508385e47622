/* tests/torture/failing.h: the allocator of this process, which fails when it is told to. */
#ifndef FAILING_H
#define FAILING_H

#include <stdbool.h>

/* From here on the allocation number `countdown` fails (0: the next), on this thread, and with `all` every one after
 * it; the others succeed. What is allocated and freed is counted. */
void failing_start(long countdown, bool all);
bool failing_stop(void); /* whether it came to that */

/* While `pause` is set nothing fails, and what is asked for is not among the numbers. */
void failing_pause(bool pause);

/* Likewise for the next `count` allocations, on this thread. */
void failing_spare(long count);

/* From one allocation that fails to the next to fail: 1; under a sanitizer, where a run is slow, `sanitized`. */
long failing_step(long sanitized);

/* Blocks allocated and not freed since the start; 0 under a sanitizer, which looks for leaks itself. */
long failing_live(void);

#endif
