/* engine/level/keep.c: what a question may change while it is answered, kept beforehand and put back afterwards: run
 * variables, the position of every training stream, counters; where updates are made, also who is ready, and the user's
 * memory. */
#include "engine/session/engine_inside.h"

#include <string.h>

typedef struct bt_saved_var {
    const bt_var *var;
    size_t bytes;
    char *copy;
    bool alive; /* it has not been made anew since, as some are with the programs */
} bt_saved_var;

typedef struct bt_saved_problem {
    int64_t position, kept; /* of the training stream: how many were drawn, how many of these are at hand */
    int64_t steps, seen, since, task, calls;
    bool ahead, inner_loop_start, return_due;
    bool *ready;
    char *memory; /* of the user, by bt_state, one after the other */
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
    state->vars[state->count++] = (bt_saved_var){.var = var, .bytes = var->bytes, .copy = copy};
}

static size_t memory_size(const bt_problem *problem)
{
    size_t size = 0;
    for (int64_t i = 0; i < problem->memory_count; i++)
        size += problem->memory[i].size;
    return size;
}

/* What the hierarchy and the user's callbacks go by. */
static void save_problem(bt_kept *state, bt_saved_problem *saved, const bt_problem *problem)
{
    *saved = (bt_saved_problem){.steps = problem->steps,
                                .seen = problem->seen,
                                .since = problem->since,
                                .calls = problem->calls,
                                .inner_loop_start = problem->inner_loop_start,
                                .return_due = problem->return_due};
    if (problem->train) {
        saved->position = bt_stream_position(problem->train);
        saved->kept = problem->train->kept_count;
        saved->task = problem->train->task;
        saved->ahead = problem->train->ahead;
    }
    if (!state->all)
        return;
    saved->ready = bt_alloc_array((size_t)problem->child_count + 1, sizeof *saved->ready);
    saved->memory = bt_alloc(memory_size(problem) + 1);
    if (!saved->ready || !saved->memory) {
        state->failed = true;
        return;
    }
    for (int c = 0; c < problem->child_count; c++)
        saved->ready[c] = problem->ready[c];
    char *to = saved->memory;
    for (int64_t i = 0; i < problem->memory_count; to += problem->memory[i++].size)
        memcpy(to, problem->memory[i].data, problem->memory[i].size);
}

static bt_status restore_problem(const bt_kept *state, const bt_saved_problem *saved, bt_problem *problem)
{
    problem->steps = saved->steps;
    problem->seen = saved->seen;
    problem->since = saved->since;
    if (state->all) {
        problem->calls = saved->calls;
        problem->inner_loop_start = saved->inner_loop_start;
        problem->return_due = saved->return_due;
        for (int c = 0; c < problem->child_count; c++)
            problem->ready[c] = saved->ready[c];
        const char *from = saved->memory;
        for (int64_t i = 0; i < problem->memory_count; from += problem->memory[i++].size)
            memcpy(problem->memory[i].data, from, problem->memory[i].size);
    }
    if (!problem->train)
        return BT_OK;
    problem->train->task = saved->task;
    if (bt_stream_position(problem->train) == saved->position)
        return BT_OK;
    return bt_stream_rewind(problem->train, saved->position, saved->kept);
}

bt_kept *bt_kept_save(bt_engine *engine, bool all)
{
    bt_kept *state = bt_alloc(sizeof *state);
    if (!state)
        return NULL;
    *state = (bt_kept){.engine = engine, .all = all};
    state->problems = bt_alloc_array((size_t)engine->problem_count, sizeof *state->problems);
    for (int i = 0; state->problems && i < engine->problem_count; i++)
        save_problem(state, &state->problems[i], engine->problems[i]);
    bt_engine_visit(engine, NULL, save, state);
    if (state->problems && !state->failed)
        return state;
    bt_kept_free(state);
    return NULL;
}

static void find(void *user, const bt_var *var, const bt_block *block)
{
    (void)block;
    bt_kept *state = user;
    for (int64_t i = 0; i < state->count; i++)
        if (state->vars[i].var == var && state->vars[i].bytes == var->bytes) {
            state->vars[i].alive = true;
            return;
        }
}

static void mark_alive(bt_kept *state)
{
    for (int64_t i = 0; i < state->count; i++)
        state->vars[i].alive = false;
    bt_engine_visit(state->engine, NULL, find, state);
}

bt_status bt_kept_restore(bt_kept *state)
{
    mark_alive(state);
    for (int64_t i = 0; i < state->count; i++)
        if (state->vars[i].alive)
            memcpy(state->vars[i].var->data, state->vars[i].copy, state->vars[i].bytes);
    for (int i = 0; i < state->engine->problem_count; i++)
        BT_TRY(restore_problem(state, &state->problems[i], state->engine->problems[i]));
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
    for (int i = 0; state->problems && i < state->engine->problem_count; i++) {
        bt_free(state->problems[i].ready);
        bt_free(state->problems[i].memory);
    }
    bt_free(state->problems);
    bt_free(state);
}
