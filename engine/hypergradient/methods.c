/* engine/hypergradient/methods.c: the list of methods, and what they may ask of their rule. */
#include "engine/hypergradient/methods.h"

#include "optim/rule.h"

static const bt_method_def *const methods[] = {&bt_method_darts, &bt_method_neumann, &bt_method_cg};

const bt_method_def *bt_method_builtin(int index)
{
    return index >= 0 && index < BT_COUNT_OF(methods) ? methods[index] : NULL;
}

bt_tensor *bt_hvp(bt_rule *rule, bt_tensor *x)
{
    if (!rule || !rule->hvp)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_hvp: there is a Hessian only in a hypergradient method");
    if (bt_poisoned(x))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_hvp: the operand is NULL or poisoned");
    return rule->hvp(rule->context, x);
}
