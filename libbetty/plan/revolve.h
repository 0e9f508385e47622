/* plan/revolve.h: going back through a chain of steps while keeping only a few of its states: Revolve's schedule
 * (Griewank and Walther, "Algorithm 799", 2000). */
#ifndef BT_REVOLVE_H
#define BT_REVOLVE_H

#include "base/base.h"

/* Going back through `steps` steps (2 or more), the last one first, each from the state before it. At most `states`
 * states (1 or more) are kept, one of them the state before the first step. Returns after how many steps, 1 to steps -
 * 1, to keep the next state so that the fewest steps are repeated. With one state: steps - 1, and that state is not
 * kept. */
int64_t bt_revolve_split(int64_t steps, int64_t states);

/* How many steps are repeated in all, in addition to the chain itself, whose last state is available when going back
 * begins; BT_REVOLVE_MANY: more than that. */
int64_t bt_revolve_again(int64_t steps, int64_t states);
#define BT_REVOLVE_MANY (INT64_MAX / 4)

#endif
