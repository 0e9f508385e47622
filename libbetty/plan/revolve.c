/* plan/revolve.c: Revolve's schedule, in closed form. beta(s, r) = C(s + r, s) is how many steps can be reversed with s
 * states if no step runs more than r times. */
#include "plan/revolve.h"

static int64_t beta(int64_t s, int64_t r)
{
    int64_t value = r < 0 ? 0 : 1, less = s < r ? s : r, more = s + r - less;
    for (int64_t i = 1; i <= less; i++) { /* C(more + i, i) */
        if (value > BT_REVOLVE_MANY / (more + i))
            return BT_REVOLVE_MANY;
        value = value * (more + i) / i;
    }
    return value;
}

/* How often a step runs at most: the least r with steps <= beta(s, r). */
static int64_t repeats(int64_t steps, int64_t states)
{
    int64_t high = 1;
    while (beta(states, high) < steps)
        high *= 2;
    int64_t low = high / 2; /* too few, unless 0 */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (beta(states, middle) < steps)
            low = middle;
        else
            high = middle;
    }
    return steps <= 1 ? 0 : high;
}

int64_t bt_revolve_split(int64_t steps, int64_t states)
{
    if (states <= 1)
        return steps - 1;
    int64_t r = repeats(steps, states);
    int64_t before = beta(states, r - 1), after = steps - beta(states - 1, r - 1); /* each part within its own bound */
    int64_t split = before < after ? before : after;
    return split > 1 ? split : 1;
}

int64_t bt_revolve_again(int64_t steps, int64_t states)
{
    int64_t r = repeats(steps, states);
    if (steps <= 1)
        return 0;
    return r > BT_REVOLVE_MANY / steps ? BT_REVOLVE_MANY : r * steps - beta(states + 1, r - 1) - (steps - 1);
}
