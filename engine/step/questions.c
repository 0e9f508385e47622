/* engine/step/questions.c: questions to a problem between steps: bt_eval, bt_hypergradient, validation batches. */
#include "engine/step/step.h"

#include "engine/level/keep.h"
#include "engine/traced/batch.h"
#include "runtime/evaluate.h"

static bt_eval_cache *cache_find(bt_problem *self, bt_step_fn *fn, const bt_batch *batch)
{
    for (bt_eval_cache *cache = self->evals; cache; cache = cache->next)
        if (cache->fn == fn && (batch ? cache->batch && bt_batch_fits(cache->batch, batch) : !cache->batch))
            return cache;
    return NULL;
}

/* NULL after an error. */
static bt_graph *trace_eval(bt_problem *self, const bt_eval_cache *cache)
{
    bt_trace trace;
    bt_tracing tracing;
    bt_graph *graph = bt_graph_new();
    if (!graph)
        return NULL;
    bt_micro micro = {.batch = cache->batch, .record = cache->record, .context = self->context};
    bt_problem_begin(&trace, &tracing, self, graph, BT_TRACE_EVAL, &micro);
    bt_guest before = bt_problem_enter(self, "the function of bt_eval");
    bt_tensor *value = cache->fn(self, cache->batch);
    bt_problem_leave(self, "the function of bt_eval", before);
    bt_keep_effects(graph, self, BT_TRACE_EVAL);
    if (bt_poisoned(value))
        bt_trace_poison(BT_ERROR_ARGUMENT, "the function returned nothing");
    else
        bt_graph_output(graph, value);
    bt_trace_end(&trace);
    if (bt_graph_take_error(graph, self, "bt_eval") == BT_OK && bt_chunk_rows(self, &graph, NULL, 0) == BT_OK)
        return graph;
    bt_graph_free(graph);
    return NULL;
}

static bt_status cache_fill(bt_problem *self, bt_eval_cache *cache, const bt_batch *batch)
{
    cache->record = bt_ledger_var(self->context, self, BT_ROLE_INPUT, BT_BATCH, "record", (bt_array){.dtype = BT_I64});
    cache->batch = batch ? bt_batch_template(batch) : NULL;
    cache->phase = bt_phase_new(self->context->instance, self->name, "evaluation");
    if (cache->record && (!batch || cache->batch) && cache->phase)
        cache->graph = trace_eval(self, cache);
    if (!cache->graph)
        return bt_error_status();
    if (bt_phase_add(cache->phase, cache->graph, 0, "evaluation") < 0)
        return bt_error_status();
    return bt_budget_plan(self->context, cache->phase);
}

static void cache_free(bt_problem *self, bt_eval_cache *cache)
{
    bt_phase_free(cache->phase);
    bt_graph_free(cache->graph);
    bt_batch_free(cache->batch);
    bt_ledger_var_free(self->context, cache->record);
    bt_free(cache);
}

void bt_questions_free(bt_problem *self)
{
    for (bt_eval_cache *cache = self->evals, *next; cache; cache = next) {
        next = cache->next;
        cache_free(self, cache);
    }
    self->evals = NULL;
}

static bt_eval_cache *cache_make(bt_problem *self, bt_step_fn *fn, const bt_batch *batch)
{
    bt_eval_cache *cache = bt_alloc(sizeof *cache);
    if (!cache)
        return NULL;
    cache->fn = fn;
    if (cache_fill(self, cache, batch) == BT_OK) {
        cache->next = self->evals;
        self->evals = cache;
        return cache;
    }
    cache_free(self, cache);
    return NULL;
}

static bt_status ask(bt_problem *self, bt_request call, const char *function)
{
    if (!self || self->missing)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: no such problem", function);
    if (bt_trace_now())
        return bt_fail(BT_ERROR_ARGUMENT, "%s is for the host, and cannot be called in a traced callback", function);
    if (bt_stage_now(self->context) != BT_STAGE_FAILED && bt_error_status() != BT_OK)
        return bt_error_status(); /* the error of an earlier call, until bt_error_clear */
    return bt_context_may(self->context, call, function);
}

/* For calls that draw batches, which must wait for the end of a step or a validation. */
bt_status bt_ask_between(bt_problem *self, const char *function) { return ask(self, BT_REQUEST_QUESTION, function); }

static bt_status run_cache(const bt_problem *self, bt_eval_cache *cache, const bt_batch *batch, bt_array result)
{
    bt_micro micro = {.batch = cache->batch, .record = cache->record, .context = self->context};
    if (batch)
        bt_micro_bind(&micro, batch);
    bt_phase_begin(cache->phase);
    bt_status status = bt_part_run(cache->phase, 0);
    if (status == BT_OK)
        status = bt_phase_give(cache->phase, 0, 0, result);
    bt_phase_end(cache->phase);
    return status;
}

static bt_status answer(bt_problem *self, bt_step_fn *fn, const bt_batch *batch, bt_array result)
{
    bt_eval_cache *cache = cache_find(self, fn, batch);
    if (!cache && !(cache = cache_make(self, fn, batch)))
        return bt_error_status();
    if (bt_look_again(++cache->calls))
        BT_TRY(bt_check_same(self, "the function of bt_eval", cache->graph, trace_eval(self, cache), "call",
                             cache->calls));
    bool before = bt_steps_show(self->context, true);
    bt_status status = run_cache(self, cache, batch, result);
    bt_steps_show(self->context, before);
    return status;
}

/* The engine is at work while its callbacks run, so that none of them can start or free it. */
static bool begin_work(bt_context *context, bt_stage stage)
{
    bt_stage now = bt_stage_now(context);
    bool begins = now != stage && now != BT_STAGE_PROGRAM && now != BT_STAGE_QUESTION;
    if (begins)
        bt_stage_enter(context, stage);
    return begins;
}

/* A get_batch may ask this in the middle of a step, because going back through an inner loop draws its batches
 * again. */
static bt_status evaluate(bt_problem *self, bt_step_fn *fn, const bt_batch *batch, bt_array result)
{
    bt_instance *instance = self->context->instance;
    bt_aside aside;
    if (!fn || !result.data)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_eval: the %s is NULL", fn ? "place for the result" : "function");
    BT_TRY(bt_update_scalars(self->context)); /* before the look-up, because it may rebuild programs */
    BT_TRY(bt_instance_set_aside(instance, &aside));
    bool begun = begin_work(self->context, BT_STAGE_PROGRAM);
    bt_status status = answer(self, fn, batch, result), back = bt_instance_put_back(instance, &aside);
    if (begun)
        bt_stage_leave(self->context);
    return status == BT_OK ? back : status;
}

bt_status bt_eval(bt_problem *self, bt_step_fn *fn, const bt_batch *batch, bt_array result)
{
    BT_TRY(ask(self, BT_REQUEST_EVAL, "bt_eval"));
    return bt_fail(evaluate(self, fn, batch, result), "failed");
}

static bt_status check_room(const bt_problem *problem, bt_array result)
{
    int64_t total = bt_params_elements(problem), room = result.data ? bt_array_count(result) : 0;
    if (room == total)
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE, "bt_hypergradient: %s has %lld parameters, but the result has room for %lld",
                   problem->name, (long long)total, (long long)room);
}

static bool is_child(const bt_problem *self, const bt_problem *lower)
{
    for (int c = 0; c < self->child_count; c++)
        if (self->children[c] == lower)
            return true;
    return false;
}

/* Checks that there are steps to differentiate through; otherwise the answer would be a 0 that no step uses. A step
 * needs one of each child before it. */
static bt_status check_steps(const bt_problem *self)
{
    const bt_problem *still = NULL; /* has no step to go back through; preferably a child */
    bool moved = false, child = false;
    for (int q = 0; q < self->step->site.solve_count; q++) {
        const bt_solve *solve = &self->step->site.solves[q];
        const bt_problem *lower = solve->problem;
        if (lower->settings->method->slope && !lower->steps)
            return bt_fail(BT_ERROR_ARGUMENT,
                           "bt_hypergradient: %s needs the last update of %s (type = %s), but it has not made one: ask "
                           "after the first step of %s",
                           self->name, lower->name, lower->settings->method->name, lower->name);
        if (solve->solver->ready && solve->solver->ready(self, lower))
            moved = true;
        else if (solve->solver->ready && !child) {
            still = lower;
            child = is_child(self, lower);
        }
    }
    if (!still || (moved && !child))
        return BT_OK;
    return bt_fail(BT_ERROR_ARGUMENT,
                   "bt_hypergradient: %s differentiates through the steps that %s has made since the last step of %s "
                   "(type = %s), and there are none: ask after a step of %s, as in its epoch_callback",
                   self->name, still->name, self->name, still->settings->method->name, still->name);
}

/* Lower problems need a batch to be differentiated on: the last one, or the first if there was none yet. */
static bt_status lower_batches(bt_problem *self)
{
    for (int q = 0; q < self->step->site.solve_count; q++) {
        bt_stream *stream = self->step->site.solves[q].problem->train;
        if (!stream->kept_count)
            BT_TRY(bt_stream_draw(stream, self->step->site.solves[q].problem->settings->gradient_accumulation));
    }
    return BT_OK;
}

bt_status bt_question(bt_problem *self, bt_answer_fn *answer, void *user)
{
    BT_TRY(bt_check_restored(self->context));
    BT_TRY(bt_update_scalars(self->context));
    BT_TRY(check_steps(self));
    bt_kept *state = bt_kept_new(self->context, BT_KEEP_QUESTION, NULL);
    if (!state)
        return BT_ERROR_MEMORY;
    bt_stage_enter(self->context, BT_STAGE_QUESTION);
    bt_status status = lower_batches(self);
    if (status == BT_OK)
        status = answer(self, user);
    bt_phase_end(self->step->phase);
    bt_failure failure = bt_failure_take(); /* batches may have to be made again */
    bt_status restored = bt_keep_error(self->context, bt_kept_restore(state));
    bt_failure_give(&failure);
    bt_stage_leave(self->context);
    bt_kept_free(state);
    return restored == BT_OK ? status : restored;
}

static bt_status answer_gradient(bt_problem *self, void *user)
{
    const bt_array *result = user;
    BT_TRY(bt_step_gradient(self));
    return bt_gradient_read(self, *result);
}

static bt_status hypergradient(bt_problem *self, bt_array result)
{
    if (!self->settings->active)
        return bt_fail(BT_ERROR_ARGUMENT, "%s is not part of this run", self->name);
    BT_TRY(check_room(self, result));
    return bt_question(self, answer_gradient, &result);
}

bt_status bt_hypergradient(bt_problem *self, bt_array result)
{
    BT_TRY(bt_ask_between(self, "bt_hypergradient"));
    return bt_fail(hypergradient(self, result), "failed");
}

static bt_status open_stream(bt_problem *self)
{
    BT_TRY(bt_problem_open_set(self, BT_VALID));
    if (!self->valid_data && !bt_makes_batches(self->def))
        return bt_fail(BT_ERROR_ARGUMENT, "%s has no validation data: it needs configure_valid_data or get_batch",
                       self->name);
    self->valid = bt_stream_open(self, BT_VALID, 1);
    return self->valid ? BT_OK : bt_error_status();
}

static bt_status open_valid(bt_problem *self)
{
    if (self->valid)
        return BT_OK;
    bool begun = bt_stage_now(self->context) == BT_STAGE_READY && begin_work(self->context, BT_STAGE_RUN);
    bt_status status = open_stream(self);
    if (begun)
        bt_stage_leave(self->context);
    return status;
}

const bt_batch *bt_valid_batch(bt_problem *self, int64_t index)
{
    if (bt_ask_between(self, "bt_valid_batch") != BT_OK)
        return NULL;
    bt_status status = open_valid(self);
    if (status == BT_OK && index < 0)
        status = bt_fail(BT_ERROR_ARGUMENT, "bt_valid_batch: found batch %lld; expected 0 or more", (long long)index);
    if (status == BT_OK && index >= bt_stream_validation(self->valid))
        return NULL;
    bool begun = begin_work(self->context, BT_STAGE_PROGRAM);
    if (status == BT_OK)
        status = bt_stream_rewind(self->valid, index, 0);
    if (status == BT_OK)
        status = bt_stream_draw(self->valid, 1);
    if (begun)
        bt_stage_leave(self->context);
    return status == BT_OK ? self->valid->kept[0] : NULL;
}
