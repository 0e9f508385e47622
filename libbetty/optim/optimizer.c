/* optim/optimizer.c: an optimiser's settings, groups of parameters, and the scalar variables of its state. */
#include "optim/optim.h"

#include "runtime/store.h"
#include <math.h>
#include <string.h>

static int hyper_count(const bt_optimizer *optimizer) { return bt_hyper_count(optimizer->kind.def->hypers); }

/* ---- making ---- */

static bt_status check_def(const bt_optimizer_def *def)
{
    if (!def || !def->name || !*def->name)
        return bt_fail(BT_ERROR_CONFIG, "an optimiser's record is NULL or has no name");
    if (!def->update)
        return bt_fail(BT_ERROR_CONFIG, "optimizer %s: its record has no `update`", def->name);
    BT_TRY(bt_record_fits("optimizer", def->name, def->hypers, def->slots));
    for (int i = 0, count = bt_hyper_count(def->hypers); i < count; i++) {
        const bt_hyper_def *hyper = &def->hypers[i];
        if (!(hyper->value >= hyper->low && hyper->value <= hyper->high))
            return bt_fail(BT_ERROR_CONFIG, "optimizer %s: the default of \"%s\", %g, is not between %g and %g",
                           def->name, hyper->name, hyper->value, hyper->low, hyper->high);
    }
    return BT_OK;
}

bt_optimizer *bt_optimizer_of(const bt_optimizer_def *def)
{
    if (check_def(def) != BT_OK)
        return NULL;
    bt_optimizer *optimizer = bt_alloc(sizeof *optimizer);
    if (!optimizer)
        return NULL;
    optimizer->kind = bt_optimizer_kind_of(def);
    optimizer->scheduler = bt_scheduler_defaults();
    if (bt_optimizer_group_add(optimizer, "") < 0) {
        bt_optimizer_free(optimizer);
        return NULL;
    }
    return optimizer;
}

bt_optimizer *bt_optimizer_new(const char *name)
{
    const char *names[BT_MAX_ITEMS + 1] = {0};
    const bt_optimizer_def *def = bt_optimizer_find(name);
    bt_text all = {0};
    if (def)
        return bt_optimizer_of(def);
    for (int i = 0; i < BT_MAX_ITEMS && (def = bt_optimizer_builtin(i)); i++) {
        names[i] = def->name;
        bt_text_add(&all, i ? ", %s" : "%s", def->name);
    }
    const char *nearest = bt_nearest(name, names);
    bt_fail(BT_ERROR_ARGUMENT, "there is no optimizer \"%s\"%s%s%s are: %s", name ? name : "(NULL)",
            nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"? There" : "; there",
            bt_text_get(&all));
    bt_text_free(&all);
    return NULL;
}

void bt_optimizer_free(bt_optimizer *optimizer)
{
    if (!optimizer)
        return;
    for (int g = 0; g < optimizer->group_count; g++) {
        for (int i = 0; i < BT_MAX_ITEMS; i++)
            bt_var_free(optimizer->groups[g].vars[i]);
        bt_var_free(optimizer->groups[g].rate);
        bt_var_free(optimizer->groups[g].scale);
        bt_free(optimizer->groups[g].name);
    }
    bt_free(optimizer->groups);
    bt_var_free(optimizer->applied);
    bt_var_free(optimizer->skipped);
    bt_var_free(optimizer->rested);
    for (int i = 0; i < BT_MAX_ITEMS; i++)
        if (optimizer->blocks[i].flat)
            bt_block_free(&optimizer->blocks[i]);
    bt_free(optimizer);
}

int bt_optimizer_group_add(bt_optimizer *optimizer, const char *name)
{
    if (!optimizer || !name || optimizer->started) {
        bt_fail(BT_ERROR_ARGUMENT, "a group of parameters cannot be added: %s",
                optimizer ? (name ? "the optimiser is already in use" : "its name is NULL") : "the optimiser is NULL");
        return -1;
    }
    int index = optimizer->group_count;
    bt_optimizer_group *groups = bt_alloc_array((size_t)index + 1, sizeof *groups);
    char *copy = bt_strdup(name);
    if (!groups || !copy) {
        bt_free(groups);
        bt_free(copy);
        return -1;
    }
    if (index)
        memcpy(groups, optimizer->groups, (size_t)index * sizeof *groups);
    groups[index] = (bt_optimizer_group){.name = copy, .lr_factor = 1};
    for (int i = 0, count = hyper_count(optimizer); i < count; i++)
        groups[index].values[i] = index ? groups[0].values[i] : optimizer->kind.def->hypers[i].value;
    bt_free(optimizer->groups);
    optimizer->groups = groups;
    optimizer->group_count++;
    return index;
}

/* ---- settings ---- */

static bt_status unknown_hyper(const bt_optimizer *optimizer, const char *name)
{
    const bt_optimizer_def *def = optimizer->kind.def;
    const char *names[BT_MAX_ITEMS + 1] = {0};
    bt_text text = {0};
    for (int i = 0, count = hyper_count(optimizer); i < count; i++) {
        names[i] = def->hypers[i].name;
        bt_text_add(&text, i ? ", %s" : "%s", names[i]);
    }
    const char *nearest = bt_nearest(name, names);
    bt_fail(BT_ERROR_ARGUMENT, "optimizer %s has no hyperparameter \"%s\"%s%s%s has: %s", def->name,
            name ? name : "(NULL)", nearest ? "; did you mean \"" : "", nearest ? nearest : "",
            nearest ? "\"? It" : "; it", bt_text_get(&text));
    bt_text_free(&text);
    return BT_ERROR_ARGUMENT;
}

/* Whether hyperparameter `index` of a started optimiser may take this value: not if that would change the programs. */
static bt_status check_late(const bt_optimizer *optimizer, const bt_optimizer_group *group, int index, double value)
{
    const bt_optimizer_kind *kind = &optimizer->kind;
    double values[BT_MAX_ITEMS];
    memcpy(values, group->values, sizeof values);
    values[index] = value;
    bool fixed = (kind->fixed >> index & 1) && value != group->values[index];
    bool more_slots = kind->slots && (kind->slots(values) & ~optimizer->slots);
    if (fixed || more_slots)
        return bt_fail(BT_ERROR_ARGUMENT,
                       "optimizer %s: \"%s\" can no longer become %g: the programs were compiled for %g",
                       kind->def->name, kind->def->hypers[index].name, value, group->values[index]);
    return kind->check ? kind->check(kind->def->name, values) : BT_OK;
}

static void put_value(bt_optimizer_group *group, int index, double value)
{
    group->values[index] = value;
    if (group->vars[index])
        bt_store_put(NULL, group->vars[index], 0, value);
}

bt_status bt_optimizer_group_set(bt_optimizer *optimizer, int group, const char *hyper, double value)
{
    if (!optimizer)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_optimizer_set: the optimiser is NULL");
    if (group < 0 || group >= optimizer->group_count)
        return bt_fail(BT_ERROR_ARGUMENT, "there is no group %d of parameters", group);
    int index = bt_hyper_index(optimizer->kind.def->hypers, hyper);
    if (index < 0)
        return unknown_hyper(optimizer, hyper);
    const bt_hyper_def *def = &optimizer->kind.def->hypers[index];
    if (!(value >= def->low && value <= def->high))
        return bt_fail(BT_ERROR_ARGUMENT, "optimizer %s: \"%s\" is %g; expected %g to %g", optimizer->kind.def->name,
                       hyper, value, def->low, def->high);
    int last = group == 0 ? optimizer->group_count - 1 : group;
    for (int g = group; g <= last && optimizer->started; g++)
        if (g == group || !(optimizer->groups[g].own >> index & 1))
            BT_TRY(check_late(optimizer, &optimizer->groups[g], index, value));
    for (int g = group; g <= last; g++)
        if (g == group || !(optimizer->groups[g].own >> index & 1))
            put_value(&optimizer->groups[g], index, value);
    if (group > 0)
        optimizer->groups[group].own |= 1U << index;
    return BT_OK;
}

bt_status bt_optimizer_set(bt_optimizer *optimizer, const char *hyper, double value)
{
    return bt_optimizer_group_set(optimizer, 0, hyper, value);
}

/* ---- state ---- */

static bt_status check_settings(const bt_optimizer *optimizer)
{
    const bt_optimizer_kind *kind = &optimizer->kind;
    for (int g = 0; g < optimizer->group_count; g++)
        if (kind->check)
            BT_TRY(kind->check(kind->def->name, optimizer->groups[g].values));
    BT_TRY(bt_scheduler_check(&optimizer->scheduler));
    if (bt_scheduler_moves(&optimizer->scheduler) && bt_hyper_index(kind->def->hypers, "lr") < 0)
        return bt_fail(BT_ERROR_CONFIG, "optimizer %s has no hyperparameter \"lr\", so a scheduler cannot change it",
                       kind->def->name);
    const bt_clip *clip = &optimizer->clip;
    if (!(clip->norm >= 0 && clip->value >= 0))
        return bt_fail(BT_ERROR_CONFIG,
                       "gradients are clipped to the norm %g and the value %g; both must be at least 0", clip->norm,
                       clip->value);
    return BT_OK;
}

static bt_var *scalar(bt_dtype dtype, const char *owner, const char *name)
{
    return bt_var_new(BT_RUN, BT_OPTIMIZER, owner, name, (bt_array){.dtype = dtype});
}

/* A number that only the host sets. */
static bt_var *setting(const char *owner, const char *name)
{
    bt_var *var = scalar(BT_F64, owner, name);
    if (var)
        var->mailed = true;
    return var;
}

static bt_status make_rate(bt_optimizer_group *group, const char *owner)
{
    bt_text name = {0};
    bt_text_add(&name, *group->name ? "%s.%s" : "%s%s", group->name, "lr_used");
    group->rate = name.failed ? NULL : scalar(BT_F64, owner, name.data);
    bt_text_free(&name);
    return group->rate ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status make_scale(bt_optimizer_group *group, const char *owner)
{
    bt_text name = {0};
    bt_text_add(&name, *group->name ? "%s.%s" : "%s%s", group->name, "lr_scale");
    group->scale = name.failed ? NULL : setting(owner, name.data);
    bt_text_free(&name);
    return group->scale ? bt_store_put(NULL, group->scale, 0, 1) : BT_ERROR_MEMORY;
}

static bt_status make_group(bt_optimizer *optimizer, bt_optimizer_group *group, const char *owner)
{
    for (int i = 0, count = hyper_count(optimizer); i < count; i++) {
        if ((optimizer->kind.fixed >> i & 1) || group->vars[i])
            continue;
        bt_text name = {0};
        bt_text_add(&name, *group->name ? "%s.%s" : "%s%s", group->name, optimizer->kind.def->hypers[i].name);
        group->vars[i] = name.failed ? NULL : setting(owner, name.data);
        bt_text_free(&name);
        if (!group->vars[i])
            return BT_ERROR_MEMORY;
        put_value(group, i, group->values[i]);
    }
    if (optimizer->keeps_rate && !group->rate)
        BT_TRY(make_rate(group, owner));
    return optimizer->scheduler.kind == BT_SCHEDULER_PLATEAU && !group->scale ? make_scale(group, owner) : BT_OK;
}

bt_status bt_optimizer_start(bt_optimizer *optimizer, const char *owner)
{
    if (!optimizer)
        return bt_fail(BT_ERROR_ARGUMENT, "the optimiser is NULL");
    if (optimizer->started)
        return BT_OK;
    BT_TRY(check_settings(optimizer));
    const char *name = owner ? owner : "";
    const bt_optimizer_kind *kind = &optimizer->kind;
    unsigned all = (1U << bt_slot_name_count(kind->def->slots)) - 1, slots = kind->slots ? 0 : all;
    for (int g = 0; g < optimizer->group_count; g++) {
        BT_TRY(make_group(optimizer, &optimizer->groups[g], name));
        slots |= kind->slots ? kind->slots(optimizer->groups[g].values) & all : 0;
    }
    if (!optimizer->applied)
        optimizer->applied = scalar(BT_I64, name, "applied");
    if (!optimizer->skipped)
        optimizer->skipped = scalar(BT_I64, name, "skipped");
    if (optimizer->tolerance > 0 && !optimizer->rested)
        optimizer->rested = scalar(BT_I64, name, "rested");
    if (!optimizer->applied || !optimizer->skipped || (optimizer->tolerance > 0 && !optimizer->rested))
        return BT_ERROR_MEMORY;
    optimizer->slots = slots;
    optimizer->started = true;
    return BT_OK;
}

int bt_optimizer_slot_count(const bt_optimizer *optimizer)
{
    return optimizer ? __builtin_popcount(optimizer->slots) : 0;
}

const char *bt_optimizer_slot_name(const bt_optimizer *optimizer, int slot)
{
    for (int i = 0; optimizer && i < BT_MAX_ITEMS; i++)
        if ((optimizer->slots >> i & 1) && slot-- == 0)
            return optimizer->kind.def->slots[i];
    return NULL;
}
