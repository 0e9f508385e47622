/* optim/scheduler.c: learning rates as traced functions of the number of applied updates, in double precision. */
#include "optim/optim.h"

#include "ops/ops.h"
#include <math.h>

bt_scheduler bt_scheduler_defaults(void)
{
    return (bt_scheduler){.kind = BT_SCHEDULER_NONE,
                          .step_size = 1,
                          .gamma = 0.1,
                          .t_max = 1,
                          .start_factor = 1.0 / 3,
                          .end_factor = 1,
                          .total_iters = 5,
                          .patience = 10,
                          .threshold = 1e-4,
                          .eps = 1e-8};
}

bool bt_scheduler_moves(const bt_scheduler *scheduler)
{
    return scheduler->kind != BT_SCHEDULER_NONE || scheduler->warmup > 0;
}

static bt_status check_milestones(const bt_scheduler *scheduler)
{
    if (scheduler->milestone_count < 1 || scheduler->milestone_count > BT_MAX_ITEMS)
        return bt_fail(BT_ERROR_CONFIG, "the scheduler multistep has %d milestones; expected 1 to %d",
                       scheduler->milestone_count, BT_MAX_ITEMS);
    for (int i = 0; i < scheduler->milestone_count; i++)
        if (scheduler->milestones[i] < 0 || (i && scheduler->milestones[i] <= scheduler->milestones[i - 1]))
            return bt_fail(
                BT_ERROR_CONFIG,
                "milestone %d of the scheduler multistep is %lld; milestones must be ascending counts of updates",
                i + 1, (long long)scheduler->milestones[i]);
    return BT_OK;
}

static bt_status check_linear(const bt_scheduler *scheduler)
{
    double start = scheduler->start_factor, end = scheduler->end_factor;
    if (!(start > 0 && isfinite(start) && end >= 0 && isfinite(end)))
        return bt_fail(BT_ERROR_CONFIG,
                       "the scheduler linear goes from the factor %g to %g; expected above 0, and at least 0", start,
                       end);
    if (scheduler->total_iters < 1)
        return bt_fail(BT_ERROR_CONFIG, "the scheduler linear has total_iters %lld; expected at least 1",
                       (long long)scheduler->total_iters);
    return BT_OK;
}

static bt_status check_plateau(const bt_scheduler *scheduler)
{
    if (scheduler->gamma >= 1)
        return bt_fail(BT_ERROR_CONFIG, "the scheduler plateau has gamma %g; expected below 1", scheduler->gamma);
    if (scheduler->patience < 0 || scheduler->cooldown < 0)
        return bt_fail(BT_ERROR_CONFIG,
                       "the scheduler plateau has patience %lld and cooldown %lld; expected at least 0",
                       (long long)scheduler->patience, (long long)scheduler->cooldown);
    if (!(scheduler->threshold >= 0 && isfinite(scheduler->threshold) && scheduler->eps >= 0))
        return bt_fail(BT_ERROR_CONFIG, "the scheduler plateau has threshold %g and eps %g; expected at least 0",
                       scheduler->threshold, scheduler->eps);
    return BT_OK;
}

bt_status bt_scheduler_check(const bt_scheduler *scheduler)
{
    bt_scheduler_kind kind = scheduler->kind;
    if (scheduler->warmup < 0)
        return bt_fail(BT_ERROR_CONFIG, "the scheduler's warm-up lasts %lld updates; expected at least 0",
                       (long long)scheduler->warmup);
    if (kind == BT_SCHEDULER_STEP && scheduler->step_size < 1)
        return bt_fail(BT_ERROR_CONFIG, "the scheduler step has step size %lld; expected at least 1",
                       (long long)scheduler->step_size);
    if (kind == BT_SCHEDULER_MULTISTEP)
        BT_TRY(check_milestones(scheduler));
    bool decays = kind == BT_SCHEDULER_STEP || kind == BT_SCHEDULER_MULTISTEP || kind == BT_SCHEDULER_EXPONENTIAL ||
                  kind == BT_SCHEDULER_PLATEAU;
    if (decays && !(scheduler->gamma > 0 && isfinite(scheduler->gamma)))
        return bt_fail(BT_ERROR_CONFIG, "the scheduler's gamma is %g; expected above 0", scheduler->gamma);
    if (kind == BT_SCHEDULER_COSINE && scheduler->t_max < 1)
        return bt_fail(BT_ERROR_CONFIG, "the scheduler cosine has t_max %lld; expected at least 1",
                       (long long)scheduler->t_max);
    if ((kind == BT_SCHEDULER_COSINE || kind == BT_SCHEDULER_PLATEAU) &&
        !(scheduler->eta_min >= 0 && isfinite(scheduler->eta_min)))
        return bt_fail(BT_ERROR_CONFIG, "the scheduler %s has eta_min %g; expected at least 0",
                       kind == BT_SCHEDULER_COSINE ? "cosine" : "plateau", scheduler->eta_min);
    if (kind == BT_SCHEDULER_LINEAR)
        BT_TRY(check_linear(scheduler));
    return kind == BT_SCHEDULER_PLATEAU ? check_plateau(scheduler) : BT_OK;
}

static bt_tensor *milestones_passed(const bt_scheduler *scheduler, bt_tensor *u)
{
    bt_tensor *passed = bt_number(0, BT_F64);
    for (int i = 0; i < scheduler->milestone_count; i++) {
        bt_tensor *ahead = bt_less(u, (double)scheduler->milestones[i]);
        passed = bt_add(passed, bt_sub(1.0, bt_as(ahead, BT_F64)));
    }
    return passed;
}

static bt_tensor *line(const bt_scheduler *scheduler, bt_tensor *u)
{
    double total = (double)scheduler->total_iters, rise = scheduler->end_factor - scheduler->start_factor;
    return bt_add(scheduler->start_factor, bt_mul(rise, bt_div(bt_minimum(u, total), total)));
}

static bt_tensor *after_warmup(const bt_scheduler *scheduler, bt_tensor *base, bt_tensor *u, bt_tensor *scale)
{
    const double pi = 3.14159265358979323846;
    switch (scheduler->kind) {
    case BT_SCHEDULER_NONE:
        break;
    case BT_SCHEDULER_STEP:
        return bt_mul(base, bt_pow(scheduler->gamma, bt_floor(bt_div(u, (double)scheduler->step_size))));
    case BT_SCHEDULER_MULTISTEP:
        return bt_mul(base, bt_pow(scheduler->gamma, milestones_passed(scheduler, u)));
    case BT_SCHEDULER_COSINE: {
        bt_tensor *height = bt_mul(0.5, bt_add(1.0, bt_cos(bt_mul(pi / (double)scheduler->t_max, u))));
        return bt_add(scheduler->eta_min, bt_mul(bt_sub(base, scheduler->eta_min), height));
    }
    case BT_SCHEDULER_LINEAR:
        return bt_mul(base, line(scheduler, u));
    case BT_SCHEDULER_EXPONENTIAL:
        return bt_mul(base, bt_pow(scheduler->gamma, u));
    case BT_SCHEDULER_PLATEAU:
        return bt_mul(base, scale);
    }
    return base;
}

bt_tensor *bt_scheduler_lr(const bt_scheduler *scheduler, bt_tensor *base, bt_tensor *applied, bt_tensor *scale)
{
    if (!bt_scheduler_moves(scheduler))
        return base;
    bt_tensor *t = bt_as(applied, BT_F64);
    if (scheduler->warmup == 0)
        return after_warmup(scheduler, base, t, scale);
    double warmup = (double)scheduler->warmup;
    bt_tensor *later = after_warmup(scheduler, base, bt_maximum(bt_sub(t, warmup), 0.0), scale);
    return bt_where(bt_less(t, warmup), bt_mul(base, bt_div(bt_add(t, 1.0), warmup)), later);
}
