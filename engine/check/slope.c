/* engine/check/slope.c: the slope of a function of one variable from its differences, and why it is not what it should
 * be.
 *
 * For a smooth function, halving the step quarters the error of a central difference, and the curvature f(h) - 2
 * f(0) + f(-h). Across a kink the curvature only halves, and across a jump it stays the same. Rounding adds an error
 * that doubles when the step is halved. Its size follows from high-order differences of closely spaced values: J. J.
 * More and S. M. Wild, "Estimating computational noise" (SIAM J. Sci. Comput. 2011). Only results that several steps
 * agree on count against a derivative. */
#include "engine/check/check.h"

#include <float.h>
#include <math.h>

bt_status bt_line_measure(bt_line_fn *line, void *user, double step, bt_line_slope *slope)
{
    static const double at[] = {-1, -0.5, 0.5, 1};
    slope->step = step;
    for (int i = 0; i < 4; i++)
        BT_TRY(line(user, at[i] * step, &slope->at[i]));
    slope->whole = (slope->at[3] - slope->at[0]) / (2 * step);
    slope->half = (slope->at[2] - slope->at[1]) / step;
    slope->value = (4 * slope->half - slope->whole) / 3;
    return BT_OK;
}

/* The standard deviation due to rounding, from third differences next to the point, where no kink is hit twice. */
static bt_status noise(bt_line_fn *line, void *user, double step, double *deviation)
{
    enum { VALUES = 9, ORDER = 3 };
    double values[VALUES], sum = 0;
    for (int k = 0; k < VALUES; k++)
        BT_TRY(line(user, step * (1 + 0.01 * k), &values[k]));
    for (int order = 0; order < ORDER; order++)
        for (int k = 0; k + order + 1 < VALUES; k++)
            values[k] = values[k + 1] - values[k];
    for (int k = 0; k < VALUES - ORDER; k++)
        sum += values[k] * values[k];
    *deviation = sqrt(sum / (VALUES - ORDER) / 20); /* 20 = 1 + 9 + 9 + 1: the squared coefficients */
    return BT_OK;
}

/* Whether halving the step shows that the function is not smooth. */
static bool kinked(const bt_line_slope *slope, double middle, double doubled, double error, double deviation)
{
    double whole = fabs(slope->at[3] - 2 * middle + slope->at[0]);
    double half = fabs(slope->at[2] - 2 * middle + slope->at[1]);
    bool bent = half > 0.35 * whole && half > 0.05 * error * slope->step && half > 10 * deviation;
    double change = fabs(slope->half - slope->whole), before = fabs(slope->whole - doubled);
    bool jumps = change > 0.5 * before && change > 0.2 * error && change > 10 * deviation / slope->step;
    return bent || jumps;
}

/* Whether central differences over 2h, h and h/2 agree, compared with the error of the declared slope. */
static bool consistent(const bt_line_slope *slope, double doubled, double error)
{
    return fabs(slope->half - slope->whole) <= 0.1 * error && fabs(slope->whole - doubled) <= 0.1 * error;
}

/* With one step. BT_CAUSE_KINK also if differences show only that they disagree. */
static bt_status explain(bt_line_fn *line, void *user, const bt_claim *claim, const bt_line_slope *slope,
                         bt_cause *cause)
{
    double h = slope->step, error = fabs(slope->value - claim->declared), middle, plus, minus, deviation;
    BT_TRY(line(user, 0, &middle));
    BT_TRY(line(user, 2 * h, &plus));
    BT_TRY(line(user, -2 * h, &minus));
    BT_TRY(noise(line, user, h, &deviation));
    double epsilon = claim->dtype == BT_F64 ? DBL_EPSILON : FLT_EPSILON;
    deviation = fmax(deviation, 0.25 * epsilon * fabs(middle)); /* a lower bound */
    double doubled = (plus - minus) / (4 * h), bound = 10 * deviation / h;
    if (!isfinite(error))
        *cause = BT_CAUSE_RULE;
    else if (error <= bound)
        *cause = deviation <= 1e-12 * fabs(middle) ? BT_CAUSE_NONE : BT_CAUSE_NOISE;
    else if (kinked(slope, middle, doubled, error, deviation) || !consistent(slope, doubled, error))
        *cause = BT_CAUSE_KINK;
    else
        *cause = BT_CAUSE_RULE;
    return BT_OK;
}

/* Whether a smaller step gives the same result as the one before, and rounding does not hide the difference
 * entirely. */
static bool confirms(const bt_line_slope *now, const bt_line_slope *before, double declared)
{
    bool moves = now->at[0] != now->at[3] && now->at[1] != now->at[2];
    return moves && fabs(now->value - before->value) <= 0.1 * fabs(now->value - declared);
}

/* A sufficiently small step does not reach a kink beside the point; many kinks look like noise at nearby values. In
 * fp32 real noise appears first. */
bt_status bt_line_explain(bt_line_fn *line, void *user, const bt_claim *claim, bt_line_slope *slope, bt_cause *cause)
{
    enum { SMALLER = 5 };
    bt_line_slope now = *slope, before = now;
    bt_cause last;
    BT_TRY(explain(line, user, claim, &now, &last));
    *cause = last;
    for (int i = 0; i < SMALLER && (*cause == BT_CAUSE_KINK || *cause == BT_CAUSE_NOISE); i++) {
        bt_cause found = BT_CAUSE_NONE;
        if (last == BT_CAUSE_NOISE && claim->dtype != BT_F64)
            break;
        BT_TRY(bt_line_measure(line, user, now.step / 8, &now));
        if (!(fabs(now.value - claim->declared) <= claim->enough))
            BT_TRY(explain(line, user, claim, &now, &found));
        bool repeated = found == BT_CAUSE_RULE && last == BT_CAUSE_RULE && confirms(&now, &before, claim->declared);
        if (found == BT_CAUSE_NONE || repeated)
            *cause = found;
        before = now;
        last = found;
    }
    if (*cause == BT_CAUSE_NONE || *cause == BT_CAUSE_RULE)
        *slope = now;
    return BT_OK;
}
