/* engine/logging/timing.c: the median time of a step. */
#include "engine/logging/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void bt_timing_start(bt_timing *timing, int64_t total_steps)
{
    timing->count = timing->seen = 0;
    timing->stride = 1;
    timing->warmup = total_steps / 10 < 50 ? total_steps / 10 : 50;
}

/* Every stride-th step is kept; when the room is full, every second of those goes and the stride doubles. */
void bt_timing_add(bt_timing *timing, double seconds)
{
    int64_t step = timing->seen++ - timing->warmup;
    if (step < 0 || step % timing->stride != 0)
        return;
    int64_t room = (int64_t)BT_COUNT_OF(timing->samples);
    if (timing->count == room) {
        for (int64_t i = 0; i < room / 2; i++)
            timing->samples[i] = timing->samples[2 * i];
        timing->count = room / 2;
        timing->stride *= 2;
        if (step % timing->stride != 0)
            return;
    }
    timing->samples[timing->count++] = seconds;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bt_timing_median_ms(const bt_timing *timing)
{
    if (timing->count == 0)
        return NAN;
    bt_timing sorted = *timing;
    qsort(sorted.samples, (size_t)sorted.count, sizeof sorted.samples[0], compare);
    const double *middle = &sorted.samples[sorted.count / 2];
    return 1e3 * (sorted.count % 2 ? middle[0] : (middle[-1] + middle[0]) / 2);
}
