/* compile/order.c: puts the steps in the order that holds the fewest bytes, and chooses which run again. */
#include "compile/recompute.h"

#include <string.h>

static bt_status choose(const bt_order *given, bt_order_rule rule, int64_t *by, bt_order_choice *choice)
{
    if (rule == BT_ORDERS)
        return bt_order_steps(given, by, choice);
    choice->rule = rule;
    return bt_order_by(given, rule, by, &choice->most);
}

static bt_status rearrange(bt_program *program, const bt_order *given, bt_order_rule rule)
{
    bt_order_choice choice = {0};
    size_t count = (size_t)program->step_count;
    int64_t *by = bt_alloc_array(count, sizeof *by);
    bt_call_step *steps = bt_alloc_array(count, sizeof *steps);
    bt_status status = by && steps ? choose(given, rule, by, &choice) : BT_ERROR_MEMORY;
    if (status == BT_OK && count)
        memcpy(steps, program->steps, count * sizeof *steps);
    for (size_t s = 0; status == BT_OK && s < count; s++)
        program->steps[s] = steps[by[s]];
    program->order = bt_order_name(choice.rule);
    program->most = choice.most;
    bt_free(by);
    bt_free(steps);
    return status;
}

bt_status bt_pass_order(bt_compilation *c)
{
    bt_arrays arrays;
    bt_status status = bt_arrays_new(&arrays, c);
    if (status == BT_OK)
        status = bt_recompute_wanted(c) ? bt_recompute_steps(c, &arrays)
                                        : rearrange(c->program, &arrays.order, c->options->rule);
    bt_arrays_free(&arrays);
    return status;
}
