/* base/machine.c: the machine's clock. */
#include "base/base.h"

#include <time.h>

double bt_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
