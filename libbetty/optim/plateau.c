/* optim/plateau.c: learning rates that fall when validations stop improving. */
#include "optim/optim.h"

#include "runtime/store.h"
#include <math.h>

static bool better(const bt_scheduler *scheduler, double value, double best)
{
    double by = scheduler->threshold;
    bool most = scheduler->mode == 1;
    if (isnan(best))
        return most ? value > -(double)INFINITY : value < (double)INFINITY;
    if (scheduler->threshold_mode == 1)
        return most ? value > best + by : value < best - by;
    return most ? value > best * (1 + by) : value < best * (1 - by);
}

bool bt_plateau_see(const bt_scheduler *scheduler, bt_plateau *plateau, double value)
{
    bool improved = better(scheduler, value, plateau->best);
    plateau->best = improved ? value : plateau->best;
    plateau->bad = improved ? 0 : plateau->bad + 1;
    if (plateau->cooling > 0) {
        plateau->cooling--;
        plateau->bad = 0;
    }
    if (plateau->bad <= scheduler->patience)
        return false;
    plateau->cooling = scheduler->cooldown;
    plateau->bad = 0;
    return true;
}

bt_status bt_optimizer_reduce(bt_optimizer *optimizer, bool *reduced)
{
    const bt_scheduler *scheduler = &optimizer->scheduler;
    int lr = bt_hyper_index(optimizer->kind.def->hypers, "lr");
    *reduced = false;
    for (int g = 0; g < optimizer->group_count; g++) {
        bt_optimizer_group *group = &optimizer->groups[g];
        double scale;
        if (!group->scale)
            continue;
        BT_TRY(bt_store_get(NULL, group->scale, 0, &scale));
        double base = group->values[lr], old = base * scale, next = fmax(old * scheduler->gamma, scheduler->eta_min);
        if (!(old - next > scheduler->eps))
            continue;
        BT_TRY(bt_store_put(NULL, group->scale, 0, next / base));
        *reduced = true;
    }
    return BT_OK;
}
