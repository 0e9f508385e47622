/* optim/rule.c: hyperparameters and slots by name, for an update, a schedule or a method. */
#include "optim/rule.h"

#include <string.h>

void bt_rule_begin(bt_rule *rule, const char *what, bt_dtype dtype) { *rule = (bt_rule){.what = what, .dtype = dtype}; }

static void add(bt_rule_item *items, int *count, bt_rule_item item)
{
    if (*count < BT_MAX_ITEMS)
        items[(*count)++] = item;
}

void bt_rule_add_hyper(bt_rule *rule, const char *name, double fixed, bt_tensor *value)
{
    add(rule->hypers, &rule->hyper_count, (bt_rule_item){.name = name, .value = value, .fixed = fixed});
}

void bt_rule_add_slot(bt_rule *rule, const char *name, bt_tensor *value)
{
    add(rule->slots, &rule->slot_count, (bt_rule_item){.name = name, .value = value});
}

static bt_rule_item *find(bt_rule_item *items, int count, const char *name)
{
    for (int i = 0; name && i < count; i++)
        if (strcmp(items[i].name, name) == 0)
            return &items[i];
    return NULL;
}

bt_rule_item *bt_rule_hyper(bt_rule *rule, const char *name)
{
    return rule ? find(rule->hypers, rule->hyper_count, name) : NULL;
}

bt_rule_item *bt_rule_slot(bt_rule *rule, const char *name)
{
    return rule ? find(rule->slots, rule->slot_count, name) : NULL;
}

bt_tensor *bt_rule_next(const bt_rule_item *item) { return item->next ? item->next : item->value; }

/* Poisons, as there is no `kind` of that name; lists those that exist. */
static bt_tensor *missing(const bt_rule *rule, const char *call, const char *kind, const char *name,
                          const bt_rule_item *items, int count)
{
    if (!rule || !name)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: the %s is NULL", call, rule ? "name" : "rule");
    const char *names[BT_MAX_ITEMS + 1] = {0};
    bt_text text = {0};
    for (int i = 0; i < count; i++) {
        names[i] = items[i].name;
        bt_text_add(&text, i ? ", %s" : "%s", names[i]);
    }
    const char *nearest = bt_nearest(name, names);
    bt_tensor *poison =
        bt_trace_poison(BT_ERROR_ARGUMENT, "%s: %s has no %s \"%s\"%s%s%s %s: %s", call, rule->what, kind, name,
                        nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : ";",
                        nearest ? "It has" : "it has", count ? bt_text_get(&text) : "none");
    bt_text_free(&text);
    return poison;
}

bt_tensor *bt_hyper(bt_rule *rule, const char *name)
{
    bt_rule_item *item = bt_rule_hyper(rule, name);
    if (!item)
        return missing(rule, "bt_hyper", "hyperparameter", name, rule ? rule->hypers : NULL,
                       rule ? rule->hyper_count : 0);
    return bt_as(bt_rule_next(item), rule->dtype);
}

void bt_hyper_set(bt_rule *rule, const char *name, bt_tensor *value)
{
    bt_rule_item *item = bt_rule_hyper(rule, name);
    char found[256];
    if (!item)
        missing(rule, "bt_hyper_set", "hyperparameter", name, rule ? rule->hypers : NULL, rule ? rule->hyper_count : 0);
    else if (!rule->scheduling)
        bt_trace_poison(BT_ERROR_ARGUMENT,
                        "bt_hyper_set: %s: hyperparameters can be set only in the callback `schedule`", rule->what);
    else if (!value)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_hyper_set: %s: the value for \"%s\" is NULL", rule->what, name);
    else if (bt_poisoned(value))
        return; /* explained already */
    else if (bt_tensor_count(value) != 1)
        bt_trace_poison(BT_ERROR_SHAPE, "bt_hyper_set: %s: \"%s\" is one number, but its new value is %s", rule->what,
                        name, bt_shape_text(found, value->rank, value->dims));
    else
        item->next = value->rank == 0 ? value : (bt_reshape)(value, (const int64_t[]){BT_END});
}

bool bt_has_slot(bt_rule *rule, const char *name) { return bt_rule_slot(rule, name) != NULL; }

bt_tensor *bt_slot(bt_rule *rule, const char *name)
{
    bt_rule_item *item = bt_rule_slot(rule, name);
    if (!item)
        return missing(rule, "bt_slot", "slot", name, rule ? rule->slots : NULL, rule ? rule->slot_count : 0);
    return item->value;
}

void bt_slot_set(bt_rule *rule, const char *name, bt_tensor *value)
{
    bt_rule_item *item = bt_rule_slot(rule, name);
    char found[256], expected[256];
    if (!item)
        missing(rule, "bt_slot_set", "slot", name, rule ? rule->slots : NULL, rule ? rule->slot_count : 0);
    else if (!value)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_slot_set: %s: the value for \"%s\" is NULL", rule->what, name);
    else if (bt_poisoned(value) || bt_poisoned(item->value))
        return; /* explained already */
    else if (!bt_shape_same(bt_tensor_array(item->value), bt_tensor_array(value)))
        bt_trace_poison(BT_ERROR_SHAPE, "bt_slot_set: %s: the slot \"%s\" is %s, but its new value is %s", rule->what,
                        name, bt_shape_text(expected, item->value->rank, item->value->dims),
                        bt_shape_text(found, value->rank, value->dims));
    else
        item->next = bt_as(value, item->value->dtype);
}

/* ---- for methods only ---- */

static bool may_ask(const bt_rule *rule, const char *call, bt_tensor **poison)
{
    if (rule && rule->calls)
        return true;
    *poison = rule ? bt_trace_poison(BT_ERROR_ARGUMENT,
                                     "%s: %s: only a hypergradient method has a lower problem to ask", call, rule->what)
                   : bt_trace_poison(BT_ERROR_ARGUMENT, "%s: the rule is NULL", call);
    return false;
}

bt_tensor *bt_hvp(bt_rule *rule, bt_tensor *x)
{
    bt_tensor *poison;
    return may_ask(rule, "bt_hvp", &poison) ? rule->calls->hvp(rule->context, x) : poison;
}

bt_tensor *bt_lower_gradient(bt_rule *rule, bt_tensor *shift)
{
    bt_tensor *poison;
    return may_ask(rule, "bt_lower_gradient", &poison) ? rule->calls->lower_gradient(rule->context, shift) : poison;
}

bt_tensor *bt_upper_gradient(bt_rule *rule, bt_tensor *shift)
{
    bt_tensor *poison;
    return may_ask(rule, "bt_upper_gradient", &poison) ? rule->calls->upper_gradient(rule->context, shift) : poison;
}

bt_tensor *bt_slope(bt_rule *rule)
{
    bt_tensor *poison;
    return may_ask(rule, "bt_slope", &poison) ? rule->calls->slope(rule->context) : poison;
}

bt_tensor *bt_iteration(bt_rule *rule)
{
    bt_tensor *poison;
    return may_ask(rule, "bt_iteration", &poison) ? rule->calls->iteration(rule->context) : poison;
}

bt_tensor *bt_unit(bt_rule *rule)
{
    bt_tensor *poison;
    return may_ask(rule, "bt_unit", &poison) ? rule->calls->unit(rule->context) : poison;
}

bt_tensor *bt_last_solution(bt_rule *rule)
{
    bt_tensor *poison;
    return may_ask(rule, "bt_last_solution", &poison) ? rule->calls->last_solution(rule->context) : poison;
}
