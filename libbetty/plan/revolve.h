/* plan/revolve.h: going back through a chain of steps with only a few of its states kept: Revolve's schedule (Griewank
 * and Walther, "Algorithm 799", 2000). */
#ifndef BT_REVOLVE_H
#define BT_REVOLVE_H

#include "base/base.h"

/* So many steps are to be gone back through, each of them from the state before it, the last one first. The state
 * before the first is one of `states` that may be kept (at least 1). After how many steps the next is kept, so that as
 * few as possible are made: 1 to steps - 1; with two steps or more. With one state: all but one, and it is not kept. */
int64_t bt_revolve_split(int64_t steps, int64_t states);

/* How many steps are repeated in all, in addition to the chain itself, whose last state is available when going back
 * begins; BT_REVOLVE_MANY: more than that. */
int64_t bt_revolve_again(int64_t steps, int64_t states);
#define BT_REVOLVE_MANY (INT64_MAX / 4)

#endif
