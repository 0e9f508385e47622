/* engine/find_lr/curve.c: losses over learning rates: smoothed, cut off where they are of no use, and what they
 * suggest. */
#include "engine/config/keys.h"
#include "engine/find_lr/find_lr_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define RANGE "1e-7:10:100"
#define KEEP  0.98 /* share of the running mean that each step keeps */
#define TIMES 4    /* a smoothed loss above this multiple of the minimum ends the test */

/* ---- the range ---- */

static bt_status take_part(const char *text, size_t length, const bt_key *key, void *field)
{
    char part[64];
    snprintf(part, sizeof part, "%.*s", (int)length, text);
    return bt_key_parse(key, key->name, part, field);
}

static bt_status read_range(bt_lr_curve *curve, const char *text)
{
    static const bt_key rate = {.name = "--lr-range", .kind = BT_KEY_DOUBLE, .low = 1e-30, .high = 1e6};
    static const bt_key steps = {.name = "--lr-range", .kind = BT_KEY_INT, .low = BT_LR_FEWEST, .high = BT_LR_MOST};
    const char *first = strchr(text, ':'), *second = first ? strchr(first + 1, ':') : NULL;
    if (!second)
        return bt_fail(BT_ERROR_CONFIG, "--lr-range = %s: expected LOW:HIGH:N, such as " RANGE, text);
    BT_TRY(take_part(text, (size_t)(first - text), &rate, &curve->low));
    BT_TRY(take_part(first + 1, (size_t)(second - first - 1), &rate, &curve->high));
    BT_TRY(take_part(second + 1, strlen(second + 1), &steps, &curve->steps));
    if (curve->low < curve->high)
        return BT_OK;
    return bt_fail(BT_ERROR_CONFIG, "--lr-range = %s: the highest rate, %g, must be above the lowest, %g", text,
                   curve->high, curve->low);
}

bt_status bt_lr_open(bt_lr_curve *curve, const char *text)
{
    *curve = (bt_lr_curve){.least = INFINITY};
    BT_TRY(read_range(curve, text ? text : RANGE));
    curve->points = bt_alloc_array((size_t)curve->steps, sizeof *curve->points);
    return curve->points ? BT_OK : bt_fail(BT_ERROR_MEMORY, "out of memory");
}

void bt_lr_close(bt_lr_curve *curve) { bt_free(curve->points); }

double bt_lr_rate(const bt_lr_curve *curve, int64_t step)
{
    return curve->low * pow(curve->high / curve->low, (double)step / (double)(curve->steps - 1));
}

/* ---- the losses ---- */

/* A loss that can be negative is compared with its decrease so far. */
double bt_lr_limit(const bt_lr_curve *curve)
{
    const double least = curve->least;
    return least > 0 ? TIMES * least : least + (TIMES - 1) * fmax(curve->points[0].smooth - least, -least);
}

bool bt_lr_add(bt_lr_curve *curve, double loss)
{
    if (!isfinite(loss)) {
        curve->end = BT_LR_INFINITE;
        return false;
    }
    const int64_t step = curve->count++;
    curve->mean = KEEP * curve->mean + (1 - KEEP) * loss;
    const double smooth = curve->mean / (1 - pow(KEEP, (double)(step + 1)));
    curve->points[step] = (bt_lr_point){bt_lr_rate(curve, step), loss, smooth};
    curve->least = fmin(curve->least, smooth);
    if (smooth > bt_lr_limit(curve))
        curve->end = BT_LR_ROSE;
    return curve->end == BT_LR_ALL && curve->count < curve->steps;
}

/* Skips the first tenth of the steps, where the mean covers few losses, and the last twentieth of those taken. */
const bt_lr_point *bt_lr_suggest(const bt_lr_curve *curve)
{
    const int64_t skipped = curve->count / 20 > 1 ? curve->count / 20 : 1;
    const bt_lr_point *best = NULL;
    double steepest = 0;
    for (int64_t i = curve->steps / 10; i < curve->count - skipped; i++) {
        const double slope = curve->points[i + 1].smooth - curve->points[i - 1].smooth;
        if (slope < steepest) {
            steepest = slope;
            best = &curve->points[i];
        }
    }
    return best;
}
