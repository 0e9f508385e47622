/* engine/level/divide.c: what the ranks of a run divide among themselves: the stages of ZeRO (Rajbhandari et al. 2020,
 * "ZeRO: Memory optimizations toward training trillion parameter models"), for each level. */
#include "engine/level/divide.h"

int bt_zero_stage(const bt_problem *problem)
{
    static const int stages[] = {[BT_STRATEGY_ZERO1] = 1,
                                 [BT_STRATEGY_ZERO2] = 2,
                                 [BT_STRATEGY_ZERO3] = 3,
                                 [BT_STRATEGY_ZERO] = 1,
                                 [BT_STRATEGY_FSDP] = 3};
    return problem->context->instance->world.ranks > 1 ? stages[problem->settings->strategy] : 0;
}

bool bt_divides_parameters(const bt_context *context)
{
    bool any = false;
    for (int i = 0; i < context->problem_count; i++)
        any = any || (context->problems[i]->settings->active && bt_zero_stage(context->problems[i]) == 3);
    return any;
}

bt_status bt_divide_from(const bt_problem *problem, int stage, bt_var *root)
{
    return root && bt_zero_stage(problem) >= stage ? bt_instance_divide(problem->context->instance, root) : BT_OK;
}

/* Whether the slots have the dtype and shapes of the parameters, and so the same layout. */
static bool lies_like_params(const bt_problem *problem, const bt_block *slots)
{
    for (int64_t i = 0; i < slots->count; i++)
        if (slots->windows[i] && (slots->windows[i]->dtype != problem->dtype ||
                                  !bt_shape_same(bt_var_array(slots->windows[i]), problem->module->params[i]->shape)))
            return false;
    return slots->flat != NULL;
}

bt_status bt_divide_slots(const bt_problem *problem, const bt_block *slots)
{
    return lies_like_params(problem, slots) ? bt_divide_from(problem, 1, slots->flat) : BT_OK;
}

/* In stage 1 each rank holds all gradients as summands, which are added when the optimiser reads its part. 16-bit
 * numbers are not kept for a later sum. */
bt_status bt_divide_gradients(const bt_problem *problem, bt_var *flat)
{
    return bt_zero_stage(problem) == 1 && !bt_dtype_half(flat->dtype)
               ? bt_instance_sum_divided(problem->context->instance, flat)
               : bt_divide_from(problem, 2, flat);
}
