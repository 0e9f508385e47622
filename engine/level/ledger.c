/* engine/level/ledger.c: what an engine holds: the plan's side of the account. */
#include "engine/session/engine_inside.h"
#include "engine/solve/trajectory.h"

static void visit_block(const bt_block *block, bt_visit_var_fn *visit, void *user)
{
    if (block->flat)
        visit(user, block->flat, block);
}

static void visit_micro(const bt_micro *micro, bt_visit_var_fn *visit, void *user)
{
    if (micro->record)
        visit(user, micro->record, NULL);
}

static void visit_micros(const bt_micro_set *set, bt_visit_var_fn *visit, void *user)
{
    for (int64_t m = 0; set->items && m < set->variants * set->count; m++)
        visit_micro(&set->items[m], visit, user);
}

static void visit_optimizer(const bt_problem *problem, bt_visit_var_fn *visit, void *user)
{
    const bt_optimizer *optimizer = problem->optimizer;
    if (!optimizer)
        return;
    if (optimizer->applied)
        visit(user, optimizer->applied, NULL);
    if (optimizer->skipped)
        visit(user, optimizer->skipped, NULL);
    for (int g = 0; g < optimizer->group_count; g++)
        for (int i = 0; i < BT_MAX_ITEMS; i++)
            if (optimizer->groups[g].vars[i])
                visit(user, optimizer->groups[g].vars[i], NULL);
    for (int k = 0; k < BT_MAX_ITEMS; k++)
        visit_block(&problem->slots[k], visit, user);
    visit_block(&problem->slope, visit, user);
}

static void visit_step(const bt_step_phase *step, bt_visit_var_fn *visit, void *user)
{
    if (step->total)
        visit(user, step->total, NULL);
    if (step->loop)
        visit(user, step->loop, NULL);
    visit_block(&step->sums, visit, user);
    for (int s = 0; s < BT_MAX_SHAPES; s++)
        visit_micro(&step->micros[s], visit, user);
    for (int q = 0; q < step->solve_count; q++) {
        visit_micros(&step->solves[q].micros, visit, user);
        visit_micros(&step->solves[q].upper, visit, user);
    }
}

static void visit_problem(const bt_problem *problem, bt_visit_var_fn *visit, void *user)
{
    if (problem->module) {
        visit_block(&problem->module->param_block, visit, user);
        visit_block(&problem->module->buffer_block, visit, user);
    }
    visit_optimizer(problem, visit, user);
    visit_step(&problem->step, visit, user);
    bt_trajectory_visit(problem->trajectory, visit, user);
    for (int i = 0; problem->troubles && i < problem->engine->problem_count; i++)
        if (problem->troubles[i].count)
            visit(user, problem->troubles[i].count, NULL);
    for (int i = 0; problem->solutions && i < problem->engine->problem_count; i++)
        if (problem->solutions[i])
            visit(user, problem->solutions[i], NULL);
    for (int s = 0; s < BT_MAX_SHAPES; s++)
        visit_micro(&problem->validation.micros[s], visit, user);
    for (const bt_eval_cache *cache = problem->evals; cache; cache = cache->next)
        visit(user, cache->record, NULL);
    for (int i = 0; i < problem->scalar_count; i++)
        visit(user, problem->scalars[i].var, NULL);
    visit(user, problem->step_count, NULL);
    for (int i = 0; i < problem->snapshot_count; i++)
        visit(user, problem->snapshot[i], NULL);
    for (int i = 0; i < problem->engine->metric_count; i++)
        if (problem->engine->metrics[i]->problem == problem) {
            visit(user, problem->engine->metrics[i]->sum, NULL);
            visit(user, problem->engine->metrics[i]->weight, NULL);
        }
}

void bt_engine_visit(const bt_engine *engine, const bt_problem *problem, bt_visit_var_fn *visit, void *user)
{
    for (int i = 0; i < engine->problem_count; i++)
        if (!problem || engine->problems[i] == problem)
            visit_problem(engine->problems[i], visit, user);
}

size_t bt_problem_batch_bytes(const bt_problem *problem)
{
    size_t bytes = 0;
    if (problem->train && problem->train->loader)
        bytes += bt_loader_bytes(problem->train->loader);
    if (problem->valid && problem->valid->loader)
        bytes += bt_loader_bytes(problem->valid->loader);
    return bytes;
}

static void add(void *user, const bt_var *var, const bt_block *block)
{
    (void)block;
    size_t *by_category = user;
    by_category[var->category] += var->bytes;
}

size_t bt_engine_persistent(const bt_engine *engine, size_t by_category[BT_CATEGORIES], const bt_problem *problem)
{
    size_t sum = 0;
    for (int c = 0; c < BT_CATEGORIES; c++)
        by_category[c] = 0;
    bt_engine_visit(engine, problem, add, by_category);
    for (int i = 0; i < engine->problem_count; i++)
        if (!problem || engine->problems[i] == problem)
            by_category[BT_BATCH] += bt_problem_batch_bytes(engine->problems[i]);
    for (int c = 0; c < BT_CATEGORIES; c++)
        sum += by_category[c];
    return sum;
}

size_t bt_engine_arena(const bt_engine *engine)
{
    size_t most = 0;
    for (int64_t i = 0; engine->instance && i < engine->instance->phase_count; i++)
        if (engine->instance->phases[i]->arena > most)
            most = engine->instance->phases[i]->arena;
    return most;
}

size_t bt_engine_arena_used(const bt_engine *engine)
{
    size_t most = 0;
    for (int64_t i = 0; engine->instance && i < engine->instance->phase_count; i++)
        if (engine->instance->phases[i]->used > most)
            most = engine->instance->phases[i]->used;
    return most;
}

void bt_engine_note_touched(bt_engine *engine)
{
    size_t touched = bt_instance_touched(engine->instance);
    if (touched > engine->standing.touched)
        engine->standing.touched = touched;
}
