/* engine/state.c: what a question may change while it is answered, kept beforehand and put back afterwards: run
 * variables, the position of every training stream, counters. */
#include "engine/engine_inside.h"

#include <string.h>

typedef struct bt_saved_var {
    const bt_var *var;
    char *copy;
} bt_saved_var;

typedef struct bt_saved_problem {
    int64_t position, kept; /* of the training stream: how many were drawn, how many of these are at hand */
    int64_t steps, seen, since, task;
    bool ahead;
} bt_saved_problem;

struct bt_kept {
    bt_engine *engine;
    bool all;
    bt_saved_var *vars;
    int64_t count, capacity;
    bt_saved_problem *problems;
    bool failed;
};

/* By the effects rule only updates write these; questions make none. */
static bool of_updates(const bt_var *var)
{
    return var->category == BT_PARAMETERS || var->category == BT_OPTIMIZER || var->category == BT_GRADIENTS ||
           var->category == BT_TRAJECTORY;
}

static void save(void *user, const bt_var *var, const bt_block *block)
{
    (void)block;
    bt_kept *state = user;
    if (!state->all && of_updates(var))
        return;
    bt_saved_var *vars = bt_grow(state->vars, &state->capacity, state->count + 1, sizeof *vars);
    char *copy = vars ? bt_alloc(var->bytes) : NULL;
    if (vars)
        state->vars = vars;
    if (!copy) {
        state->failed = true;
        return;
    }
    memcpy(copy, var->data, var->bytes);
    state->vars[state->count++] = (bt_saved_var){var, copy};
}

bt_kept *bt_kept_save(bt_engine *engine, bool all)
{
    bt_kept *state = bt_alloc(sizeof *state);
    if (!state)
        return NULL;
    *state = (bt_kept){.engine = engine, .all = all};
    state->problems = bt_alloc_array((size_t)engine->problem_count, sizeof *state->problems);
    for (int i = 0; state->problems && i < engine->problem_count; i++) {
        const bt_problem *problem = engine->problems[i];
        state->problems[i] =
            (bt_saved_problem){.steps = problem->steps, .seen = problem->seen, .since = problem->since};
        if (problem->train) {
            state->problems[i].position = bt_stream_position(problem->train);
            state->problems[i].kept = problem->train->kept_count;
            state->problems[i].task = problem->train->task;
            state->problems[i].ahead = problem->train->ahead;
        }
    }
    bt_engine_visit(engine, NULL, save, state);
    if (state->problems && !state->failed)
        return state;
    bt_kept_free(state);
    return NULL;
}

bt_status bt_kept_restore(const bt_kept *state)
{
    for (int64_t i = 0; i < state->count; i++)
        memcpy(state->vars[i].var->data, state->vars[i].copy, state->vars[i].var->bytes);
    for (int i = 0; i < state->engine->problem_count; i++) {
        bt_problem *problem = state->engine->problems[i];
        const bt_saved_problem *saved = &state->problems[i];
        problem->steps = saved->steps;
        problem->seen = saved->seen;
        problem->since = saved->since;
        if (!problem->train)
            continue;
        problem->train->task = saved->task;
        if (bt_stream_position(problem->train) != saved->position)
            BT_TRY(bt_stream_rewind(problem->train, saved->position, saved->kept));
    }
    for (int i = 0; i < state->engine->problem_count; i++) /* once all are back: one may have drawn for another */
        if (state->engine->problems[i]->train)
            state->engine->problems[i]->train->ahead = state->problems[i].ahead;
    return BT_OK;
}

void bt_kept_free(bt_kept *state)
{
    if (!state)
        return;
    for (int64_t i = 0; i < state->count; i++)
        bt_free(state->vars[i].copy);
    bt_free(state->vars);
    bt_free(state->problems);
    bt_free(state);
}
