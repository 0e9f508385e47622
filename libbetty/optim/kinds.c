/* optim/kinds.c: the list of the library's optimisers, and helpers shared by their updates. */
#include "optim/kinds.h"

#include <string.h>

int bt_hyper_count(const bt_hyper_def *hypers)
{
    int count = 0;
    while (hypers && count < BT_MAX_ITEMS && hypers[count].name)
        count++;
    return count;
}

int bt_hyper_index(const bt_hyper_def *hypers, const char *name)
{
    for (int i = 0, count = bt_hyper_count(hypers); name && i < count; i++)
        if (strcmp(hypers[i].name, name) == 0)
            return i;
    return -1;
}

int bt_slot_name_count(const char *const *slots)
{
    int count = 0;
    while (slots && count < BT_MAX_ITEMS && slots[count])
        count++;
    return count;
}

bt_status bt_record_fits(const char *kind, const char *name, const bt_hyper_def *hypers, const char *const *slots)
{
    bool many = hypers[BT_MAX_ITEMS].name != NULL;
    if (!many && !slots[BT_MAX_ITEMS])
        return BT_OK;
    return bt_fail(BT_ERROR_ARGUMENT, "%s %s: its record lists more than %d %s", kind, name, BT_MAX_ITEMS,
                   many ? "hyperparameters" : "slots");
}

/* ---- shared by updates ---- */

bt_tensor *bt_rule_number(bt_rule *rule, const char *hyper)
{
    return bt_as(bt_rule_next(bt_rule_hyper(rule, hyper)), BT_F64);
}

bool bt_rule_is_on(bt_rule *rule, const char *hyper) { return bt_rule_hyper(rule, hyper)->fixed != 0; }

bt_tensor *bt_rule_round(const bt_rule *rule, bt_tensor *number) { return bt_as(number, rule->dtype); }

bt_tensor *bt_rule_left(bt_rule *rule, const char *beta)
{
    return bt_sub(1, bt_pow(bt_rule_number(rule, beta), rule->count));
}

bt_tensor *bt_rule_mean(bt_rule *rule, const char *slot, const char *share, bt_tensor *x)
{
    bt_tensor *kept = bt_rule_number(rule, share), *fresh = bt_rule_round(rule, bt_sub(1, kept));
    bt_tensor *mean = bt_add(bt_mul(bt_rule_round(rule, kept), bt_slot(rule, slot)), bt_mul(fresh, x));
    bt_slot_set(rule, slot, mean);
    return mean;
}

bt_tensor *bt_root_or_zero(bt_tensor *v)
{
    bt_tensor *positive = bt_greater(v, 0);
    return bt_where(positive, bt_sqrt(bt_where(positive, v, 1)), 0);
}

bt_tensor *bt_rule_coupled(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    return bt_add(grad, bt_mul(bt_hyper(rule, "weight_decay"), param));
}

bt_tensor *bt_rule_decayed(bt_rule *rule, bt_tensor *param)
{
    bt_tensor *share = bt_mul(bt_rule_number(rule, "lr"), bt_rule_number(rule, "weight_decay"));
    return bt_mul(bt_rule_round(rule, bt_sub(1, share)), param);
}

/* ---- the list ---- */

static const bt_optimizer_kind *const kinds[] = {
#define BT_KIND_ITEM(name) &bt_kind_##name,
    BT_KIND_LIST(BT_KIND_ITEM)
#undef BT_KIND_ITEM
};

const bt_optimizer_def *bt_optimizer_builtin(int index)
{
    return index >= 0 && index < BT_COUNT_OF(kinds) ? kinds[index]->def : NULL;
}

const bt_optimizer_def *bt_optimizer_find(const char *name)
{
    for (int i = 0; name && i < BT_COUNT_OF(kinds); i++)
        if (strcmp(kinds[i]->def->name, name) == 0)
            return kinds[i]->def;
    return NULL;
}

bt_optimizer_kind bt_optimizer_kind_of(const bt_optimizer_def *def)
{
    for (int i = 0; i < BT_COUNT_OF(kinds); i++)
        if (kinds[i]->def == def)
            return *kinds[i];
    return (bt_optimizer_kind){.def = def};
}
