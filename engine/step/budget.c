/* engine/step/budget.c: memory_budget, and checkpointing = budget: phases that need more than the budget are planned
 * again.
 *
 * Nothing of the arena is allocated before it is known to fit. */
#include "engine/step/step.h"

#include "engine/config/keys.h"
#include "engine/level/ledger.h"
#include "runtime/fit.h"
#include <string.h>

/* ---- the limits of phases ---- */

typedef struct limit {   /* of one phase */
    size_t budget, kept; /* kept: the part of the budget taken by what the whole run keeps */
    const char *section, *key;
} limit;

/* Bytes that the phase's arena may have. */
static size_t room(const limit *limit) { return limit->budget > limit->kept ? limit->budget - limit->kept : 0; }

static void lower(limit *limit, int64_t budget, size_t kept, const char *section, const char *key)
{
    const struct limit other = {(size_t)budget, kept, section, key};
    if (room(&other) < room(limit))
        *limit = other;
}

static limit of_memory_budgets(const bt_context *context, const bt_phase *phase)
{
    size_t categories[BT_CATEGORIES];
    limit limit = {.budget = SIZE_MAX};
    if (context->proposal.arena)
        return (struct limit){context->proposal.arena, 0, "engine", "memory_budget"};
    if (context->settings->memory_budget)
        lower(&limit, context->settings->memory_budget, bt_persistent_bytes(context, categories, NULL), "engine",
              "memory_budget");
    for (int i = 0; i < context->problem_count; i++) {
        const bt_problem *problem = context->problems[i];
        if (problem->settings->memory_budget && strcmp(phase->owner, problem->name) == 0)
            lower(&limit, problem->settings->memory_budget, bt_persistent_bytes(context, categories, problem),
                  problem->name, "memory_budget");
    }
    return limit;
}

static limit of_checkpointing(const bt_context *context, const bt_phase *phase)
{
    limit limit = {.budget = SIZE_MAX};
    for (int i = 0; i < context->problem_count; i++) {
        const bt_problem *problem = context->problems[i];
        if (problem->settings->checkpointing.kind == BT_CHECKPOINTING_BUDGET && bt_phase_saves(phase, problem->name))
            lower(&limit, problem->settings->checkpointing.number, 0, problem->name, "checkpointing");
    }
    return limit;
}

/* ---- fitting ---- */

static bt_status too_small(const bt_context *context, const bt_phase *phase, const limit *limit)
{
    char least[32], kept[32], live[32], worst[256] = "";
    if (bt_phase_extra(phase) > 0)
        snprintf(worst, sizeof worst, ", where everything that can be recomputed is (%.1f times the work)",
                 1 + bt_phase_extra(phase));
    bt_text text = {0};
    if (limit->kept)
        bt_text_add(&text, "%s kept for the whole run, ", bt_bytes_text(kept, limit->kept));
    const bt_section_kind kind = strcmp(limit->section, "engine") == 0 ? BT_SECTION_ENGINE : BT_SECTION_PROBLEM;
    bt_status status =
        bt_fail(BT_ERROR_CONFIG, "%s: the smallest plan found needs %zuB (%s): %s%s live at the peak of %s, %s%s",
                bt_config_departs(context->config, limit->section, bt_key_find(kind, limit->key)),
                phase->arena + limit->kept, bt_bytes_text(least, phase->arena + limit->kept), bt_text_get(&text),
                bt_bytes_text(live, phase->arena), phase->owner, phase->name, worst);
    bt_text_free(&text);
    return status;
}

static bt_status fit_phase(const bt_context *context, bt_phase *phase)
{
    const limit named = of_checkpointing(context, phase), whole = of_memory_budgets(context, phase);
    BT_TRY(bt_phase_fit(phase, room(&named), false));
    return bt_phase_fit(phase, room(&whole), true);
}

/* The limit that the phase exceeds by most. */
static limit missed(const bt_context *context, const bt_phase *phase)
{
    const limit named = of_checkpointing(context, phase), whole = of_memory_budgets(context, phase);
    return room(&named) < room(&whole) ? named : whole;
}

bool bt_budget_any(const bt_context *context)
{
    bool any = context->proposal.arena > 0 || context->settings->memory_budget > 0;
    for (int i = 0; i < context->problem_count; i++) {
        const bt_problem_settings *s = context->problems[i]->settings;
        any |= s->active && (s->memory_budget > 0 || s->checkpointing.kind == BT_CHECKPOINTING_BUDGET);
    }
    return any && !context->apart;
}

bt_status bt_budget_fit(const bt_context *context)
{
    for (int64_t i = 0; i < context->instance->phase_count; i++)
        BT_TRY(fit_phase(context, context->instance->phases[i]));
    return BT_OK;
}

size_t bt_budget_over(const bt_context *context, const bt_phase *phase)
{
    const limit limit = missed(context, phase);
    return phase->arena > room(&limit) ? phase->arena + limit.kept - limit.budget : 0;
}

bt_status bt_budget_check(const bt_context *context, bt_tight *tight)
{
    const bt_phase *worst = NULL;
    size_t most = 0;
    for (int64_t i = 0; i < context->instance->phase_count; i++) {
        const bt_phase *phase = context->instance->phases[i];
        const size_t over = bt_budget_over(context, phase);
        if (over > most) {
            most = over;
            worst = phase;
        }
    }
    *tight = (bt_tight){0};
    if (!worst)
        return BT_OK;
    const limit limit = missed(context, worst);
    *tight = (bt_tight){most, limit.kept ? limit.section : NULL};
    return too_small(context, worst, &limit);
}

bt_status bt_budget_plan(const bt_context *context, bt_phase *phase)
{
    bt_instance *instance = context->instance;
    const bool dry = instance->dry, any = bt_budget_any(context);
    instance->dry = dry || any;
    bt_status status = bt_phase_plan(phase);
    if (status == BT_OK && any)
        status = fit_phase(context, phase);
    instance->dry = dry;
    if (status == BT_OK && any && bt_budget_over(context, phase)) {
        const limit limit = missed(context, phase);
        status = too_small(context, phase, &limit);
    }
    return status == BT_OK ? bt_instance_reserve(instance) : status;
}
