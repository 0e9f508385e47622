/* engine/output/timing.c: the mean time of a step. A median would ignore the time of upper updates, if only one step in
 * many includes one. */
#include "engine/output/log.h"

#include <math.h>

void bt_timing_start(bt_timing *timing, int64_t total_steps)
{
    *timing = (bt_timing){.warmup = total_steps / 10 < 50 ? total_steps / 10 : 50};
}

void bt_timing_add(bt_timing *timing, double seconds)
{
    if (timing->warmup > 0)
        timing->warmup--;
    else {
        timing->seconds += seconds;
        timing->count++;
    }
}

double bt_timing_mean_ms(const bt_timing *timing)
{
    return timing->count ? 1e3 * timing->seconds / (double)timing->count : NAN;
}
