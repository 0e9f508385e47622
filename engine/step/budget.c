/* engine/step/budget.c: memory_budget, and checkpointing = budget: phases that need more are planned again.
 *
 * Nothing of the arena is allocated before it is known to fit. */
#include "engine/step/step.h"

#include "engine/config/keys.h"
#include "engine/level/ledger.h"
#include "runtime/fit.h"
#include <string.h>

/* ---- which phases have how much ---- */

typedef struct limit { /* of one phase */
    size_t bytes;      /* for its arena */
    const char *section, *key;
    size_t kept; /* of the budget, what goes to what is kept for the whole run */
} limit;

static void lower(limit *limit, int64_t budget, size_t kept, const char *section, const char *key)
{
    size_t bytes = (size_t)budget > kept ? (size_t)budget - kept : 0;
    if (bytes < limit->bytes)
        *limit = (struct limit){bytes, section, key, kept};
}

static bool has_saved(const bt_phase *phase, const char *level)
{
    for (int64_t e = 0; e < phase->entry_count; e++) {
        const bt_program *program = phase->entries[e].program;
        for (int64_t b = 0; b < program->buffer_count; b++)
            if (program->buffers[b].saved && strcmp(program->buffers[b].node->tag.level, level) == 0)
                return true;
    }
    return false;
}

static limit of_memory_budgets(const bt_context *context, const bt_phase *phase)
{
    size_t categories[BT_CATEGORIES];
    limit limit = {.bytes = SIZE_MAX};
    if (context->proposal.arena)
        return (struct limit){context->proposal.arena, "engine", "memory_budget", 0};
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
    limit limit = {.bytes = SIZE_MAX};
    for (int i = 0; i < context->problem_count; i++) {
        const bt_problem *problem = context->problems[i];
        if (problem->settings->checkpointing.kind == BT_CHECKPOINTING_BUDGET && has_saved(phase, problem->name))
            lower(&limit, problem->settings->checkpointing.number, 0, problem->name, "checkpointing");
    }
    return limit;
}

/* ---- fitting ---- */

static bt_status too_small(const bt_context *context, const bt_phase *phase, const limit *limit)
{
    char least[32], kept[32], live[32], worst[256] = "";
    if (bt_phase_extra(phase) > 0)
        snprintf(worst, sizeof worst, ", where all that can be is computed again (%.1f times the work)",
                 1 + bt_phase_extra(phase));
    bt_text text = {0};
    if (limit->kept)
        bt_text_add(&text, "%s kept for the whole run, ", bt_bytes_text(kept, limit->kept));
    const bt_section_kind kind = strcmp(limit->section, "engine") == 0 ? BT_SECTION_ENGINE : BT_SECTION_PROBLEM;
    bt_status status =
        bt_fail(BT_ERROR_CONFIG, "%s: the least plan found needs %s: %s%s live at the worst moment of %s, %s%s",
                bt_config_departs(context->config, limit->section, bt_key_find(kind, limit->key)),
                bt_bytes_text(least, phase->arena + limit->kept), bt_text_get(&text), bt_bytes_text(live, phase->arena),
                phase->owner, phase->name, worst);
    bt_text_free(&text);
    return status;
}

static bt_status fit(const bt_context *context, bt_phase *phase, const limit *limit, bool anything)
{
    if (phase->arena <= limit->bytes)
        return BT_OK;
    BT_TRY(bt_phase_fit(phase, limit->bytes, anything));
    return phase->arena <= limit->bytes ? BT_OK : too_small(context, phase, limit);
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

/* The problem whose phase it is, if it holds something for a loop. */
static bt_problem *holder(const bt_context *context, const bt_phase *phase)
{
    for (int i = 0; i < context->problem_count; i++) {
        bt_problem *problem = context->problems[i];
        if (problem->step && problem->step->phase == phase && problem->holding < BT_HOLD_NOTHING &&
            problem->step->site.holds)
            return problem;
    }
    return NULL;
}

bt_status bt_budget_fit(const bt_context *context, bt_tight *tight)
{
    bt_status status = BT_OK;
    *tight = (bt_tight){.problem = NULL};
    for (int64_t i = 0; status == BT_OK && bt_budget_any(context) && i < context->instance->phase_count; i++) {
        bt_phase *phase = context->instance->phases[i];
        limit named = of_checkpointing(context, phase);
        status = fit(context, phase, &named, false);
        limit whole = of_memory_budgets(context, phase);
        if (status == BT_OK)
            status = fit(context, phase, &whole, true);
        if (status == BT_ERROR_CONFIG)
            *tight = (bt_tight){holder(context, phase), phase->arena};
    }
    return status;
}
