/* engine/level/rates.c: logs the learning rates that updates use, and the updates that change nothing. */
#include "engine/level/rates.h"

#include <math.h>
#include <string.h>

int bt_rates_index(const bt_problem *problem)
{
    const bt_hyper_def *hypers = problem->settings->optimizer->hypers;
    const int relative = bt_hyper_index(hypers, "relative_step");
    return relative >= 0 && problem->settings->hypers[relative] != 0 ? -1 : bt_hyper_index(hypers, "lr");
}

static bool trains_some(const bt_problem *problem, int group)
{
    for (int64_t i = 0; i < problem->module->param_count; i++)
        if (problem->trainable[i] && (problem->group ? problem->group[i] : 0) == group)
            return true;
    return false;
}

/* A metric with this name that the problem itself logs takes precedence. */
static bool is_free(const bt_problem *problem, const char *full)
{
    for (int i = 0; i < problem->context->metric_count; i++)
        if (strcmp(problem->context->metrics[i]->full, full) == 0)
            return false;
    return true;
}

bool bt_rates_move(const bt_problem *problem)
{
    return bt_rates_index(problem) >= 0 &&
           (problem->def->schedule || bt_scheduler_moves(&problem->settings->scheduler));
}

bt_status bt_rates_open(bt_problem *problem)
{
    const bt_optimizer *optimizer = problem->optimizer;
    problem->rate_names = bt_alloc_array((size_t)optimizer->group_count, sizeof *problem->rate_names);
    if (!problem->rate_names)
        return BT_ERROR_MEMORY;
    if (optimizer->rested && !(problem->rested_name = bt_string("%s.rested_steps", problem->name)))
        return BT_ERROR_MEMORY;
    for (int g = 0; g < optimizer->group_count && bt_rates_index(problem) >= 0; g++) {
        const char *group = optimizer->groups[g].name;
        if (!trains_some(problem, g))
            continue;
        problem->rate_names[g] = bt_string("%s.%s%slr", problem->name, group, *group ? "." : "");
        if (!problem->rate_names[g])
            return BT_ERROR_MEMORY;
    }
    return BT_OK;
}

void bt_rates_close(bt_problem *problem)
{
    for (int g = 0; problem->rate_names && g < problem->optimizer->group_count; g++)
        bt_free(problem->rate_names[g]);
    bt_free(problem->rate_names);
    bt_free(problem->rested_name);
    problem->rate_names = NULL;
    problem->rested_name = NULL;
}

int bt_rates_take(const bt_problem *problem, bt_metric_value *values)
{
    int count = 0;
    for (int g = 0; problem->rate_names && g < problem->optimizer->group_count; g++) {
        const bt_optimizer_group *group = &problem->optimizer->groups[g];
        const int lr = bt_rates_index(problem);
        if (!problem->rate_names[g] || !is_free(problem, problem->rate_names[g]))
            continue;
        bt_metric_value *value = &values[count++];
        *value = (bt_metric_value){.name = problem->rate_names[g], .interval = NAN};
        value->value = group->rate       ? bt_number_get(problem->context, group->rate)
                       : group->vars[lr] ? bt_number_get(problem->context, group->vars[lr]) * group->lr_factor
                                         : group->values[lr] * group->lr_factor;
    }
    if (problem->rested_name && is_free(problem, problem->rested_name)) {
        const int64_t rested = bt_count_get(problem->context, problem->optimizer->rested);
        values[count++] = (bt_metric_value){.name = problem->rested_name, .value = (double)rested, .interval = NAN};
    }
    return count;
}
