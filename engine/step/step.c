/* engine/step/step.c: a problem's phases: its step (gradient, hypergradient, update) and its validation. */
#include "engine/solve/trajectory.h"

#include "ops/ops.h"
#include "transform/grad.h"
#include <string.h>

/* ---- the step ---- */

static bt_status make_gradients(bt_problem *problem)
{
    bt_step_phase *step = &problem->step;
    bt_module *module = problem->module;
    int64_t count = module->param_count;
    bt_array *shapes = bt_alloc_array((size_t)count, sizeof *shapes);
    const char **names = bt_alloc_array((size_t)count, sizeof *names);
    int64_t *order = bt_alloc_array((size_t)count, sizeof *order);
    bt_status status = shapes && names && order ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < count; i++) {
        int64_t place = 0; /* as the parameters lie */
        for (int64_t j = 0; j < count; j++)
            place += module->params[j]->var->offset < module->params[i]->var->offset ||
                     (module->params[j]->var->offset == module->params[i]->var->offset && j < i);
        order[place] = i;
        shapes[i] = module->params[i]->shape;
        shapes[i].dtype = problem->dtype;
        names[i] = module->params[i]->path;
    }
    if (status == BT_OK)
        status = bt_block_new(&step->gradients, BT_PHASE, BT_GRADIENTS, problem->name, "gradients", problem->dtype,
                              shapes, names, order, count);
    if (status == BT_OK && problem->settings->meta_batch > 1 && !step->sums.flat)
        status = bt_block_new(&step->sums, BT_RUN, BT_GRADIENTS, problem->name, "gradient sums", problem->dtype, shapes,
                              names, order, count);
    if (status == BT_OK)
        step->gradients.flat->clear = problem->settings->gradient_accumulation > 1;
    bt_free(shapes);
    bt_free(names);
    bt_free(order);
    return status;
}

/* Writes a gradient into its window; over several micro-batches, the sum of count times gradient. */
static void keep_gradient(bt_graph *graph, bt_var *window, bt_tensor *gradient, double count, bool sum)
{
    if (!sum)
        bt_graph_assign(graph, window, gradient ? gradient : bt_zeros_like(bt_graph_read(graph, window)));
    else if (gradient)
        bt_graph_assign(graph, window, (bt_add)(bt_graph_read(graph, window), bt_mul(count, gradient)));
}

/* A batch whose gradient is not finite leaves no trace in the buffers either. */
static void guard_buffers(bt_problem *problem, bt_graph *graph, bt_tensor *const *gradient, const bool *skip, int count)
{
    bt_tensor *sum = NULL, *ok = NULL;
    for (int64_t i = 0; i < graph->assign_count; i++) {
        bt_assign *assign = &graph->assigns[i];
        if (!bt_owns_buffer(problem, assign->var))
            continue;
        for (int k = 0; !ok && k < count; k++)
            if (!skip[k] && gradient[k]) {
                bt_tensor *square = bt_as(bt_norm_square(gradient[k]), BT_F64);
                sum = sum ? bt_add(sum, square) : square;
            }
        if (!ok && sum)
            ok = bt_isfinite(sum);
        if (ok)
            assign->value = bt_where(ok, assign->value, bt_graph_read(graph, assign->var));
    }
}

/* Everything that the loss is differentiated with respect to: the own parameters, then those of the levels to solve. */
static int gather(bt_problem *problem, bt_tensor **wrt, bt_var **windows, bool *skip)
{
    bt_step_phase *step = &problem->step;
    int count = 0;
    bt_problem_params(problem, wrt);
    for (int64_t i = 0; i < problem->module->param_count; i++, count++) {
        windows[count] = step->gradients.windows[i];
        skip[count] = !problem->trainable[i];
    }
    for (int q = 0; q < step->solve_count; q++) {
        bt_problem *lower = step->solves[q].problem;
        bt_problem_params(lower, wrt + count);
        for (int64_t i = 0; i < lower->module->param_count; i++, count++) {
            windows[count] = step->solves[q].adjoint.windows[i];
            skip[count] = !lower->meta_trainable[i];
        }
    }
    return count;
}

/* The loss has a derivative with respect to entry k of what `gather` collects. */
static void mark(bt_problem *problem, int64_t k)
{
    bt_step_phase *step = &problem->step;
    if (k < problem->module->param_count) {
        step->used[k] = true;
        return;
    }
    k -= problem->module->param_count;
    for (int q = 0; q < step->solve_count; q++) {
        int64_t count = step->solves[q].problem->module->param_count;
        if (k >= 0 && k < count)
            step->solves[q].reached = true;
        k -= count;
    }
}

static void differentiate(bt_problem *problem, bt_graph *graph, bt_tensor *loss, double count)
{
    bt_step_phase *step = &problem->step;
    int64_t most = problem->module->param_count;
    for (int q = 0; q < step->solve_count; q++)
        most += step->solves[q].problem->module->param_count;
    bt_tensor **wrt = bt_region_alloc(graph->region, (size_t)most * 2 * sizeof *wrt), **gradient = wrt + most;
    bt_var **windows = bt_region_alloc(graph->region, (size_t)most * sizeof *windows);
    bool *skip = bt_region_alloc(graph->region, (size_t)most * sizeof *skip);
    if (!wrt || !windows || !skip) {
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory");
        return;
    }
    int wrts = gather(problem, wrt, windows, skip);
    bt_tensor *one = bt_number(1, loss->dtype);
    bt_vjp(graph, &loss, &one, 1, wrt, wrts, gradient, false);
    guard_buffers(problem, graph, gradient, skip, wrts);
    bool sum = problem->settings->gradient_accumulation > 1;
    for (int k = 0; k < wrts && graph->status == BT_OK; k++) {
        if (gradient[k])
            mark(problem, k);
        keep_gradient(graph, windows[k], skip[k] ? NULL : gradient[k], count, sum);
    }
}

static bt_graph *trace_loss(bt_problem *problem, const bt_micro *micro, bt_trace_kind kind, bool gradient)
{
    bt_trace trace;
    bt_tracing tracing;
    bt_graph *graph = bt_graph_new();
    if (!graph)
        return NULL;
    bt_problem_begin(&trace, &tracing, problem, graph, kind, micro);
    bt_tensor *loss = bt_problem_loss(problem, micro->batch, kind == BT_TRACE_VALID ? BT_VALID : BT_TRAIN);
    bt_metric_tensor_(problem, "loss", loss);
    bt_keep_effects(graph, problem, kind);
    if (gradient && problem->settings->gradient_accumulation > 1 && graph->status == BT_OK)
        bt_warn_batch(problem, graph);
    if (gradient && !bt_poisoned(loss) && graph->status == BT_OK)
        differentiate(problem, graph, loss, (double)micro->batch->count);
    bt_trace_end(&trace);
    if (bt_graph_take_error(graph, problem, kind == BT_TRACE_VALID ? "validation_step" : "training_step") == BT_OK)
        return graph;
    bt_graph_free(graph);
    return NULL;
}

/* A graph kept for the purity check: the callback alone, without derivatives. */
static bt_status keep_pure(bt_problem *problem, int kind, const bt_micro *micro)
{
    if (problem->pure[kind])
        return BT_OK;
    problem->pure[kind] = trace_loss(problem, micro, kind == BT_PURE_VALID ? BT_TRACE_VALID : BT_TRACE_STEP, false);
    return problem->pure[kind] ? BT_OK : bt_error_status();
}

bt_graph *bt_problem_retrace(bt_problem *problem, int kind)
{
    if (kind == BT_PURE_UPDATE) {
        bt_graph *graph = bt_graph_new();
        if (graph && bt_update_trace(problem, graph) == BT_OK)
            return graph;
        bt_graph_free(graph);
        return NULL;
    }
    bool valid = kind == BT_PURE_VALID;
    return trace_loss(problem, valid ? &problem->validation.micros[0] : &problem->step.micros[0],
                      valid ? BT_TRACE_VALID : BT_TRACE_STEP, false);
}

static bt_status trace_gradients(bt_problem *problem, bt_graph **gradients)
{
    bt_step_phase *step = &problem->step;
    for (int s = 0; s < problem->train->shape_count; s++) {
        BT_TRY(bt_micro_new(&step->micros[s], problem->train, s));
        gradients[s] = trace_loss(problem, &step->micros[s], BT_TRACE_STEP, true);
        if (!gradients[s])
            return bt_error_status();
    }
    return keep_pure(problem, BT_PURE_STEP, &step->micros[0]);
}

/* A small program over whole blocks: fn records the assigns. */
int bt_step_add(bt_problem *problem, const char *part, void (*fn)(bt_problem *problem, bt_graph *graph))
{
    bt_trace trace;
    bt_tracing tracing;
    bt_graph *graph = bt_graph_new();
    if (!graph)
        return -1;
    bt_problem_begin(&trace, &tracing, problem, graph, BT_TRACE_PRODUCT, NULL);
    fn(problem, graph);
    bt_trace_end(&trace);
    int entry = -1;
    if (bt_graph_take_error(graph, problem, part) == BT_OK)
        entry = bt_phase_add(problem->step.phase, graph, 0, part);
    bt_graph_free(graph);
    return entry;
}

static void average(bt_problem *problem, bt_graph *graph)
{
    bt_step_phase *step = &problem->step;
    bt_tensor *total = bt_as(bt_graph_read(graph, step->total), problem->dtype);
    bt_graph_assign(graph, step->gradients.flat, (bt_div)(bt_graph_read(graph, step->gradients.flat), total));
    for (int q = 0; q < step->solve_count; q++) {
        bt_var *adjoint = step->solves[q].adjoint.flat;
        bt_graph_assign(graph, adjoint, (bt_div)(bt_graph_read(graph, adjoint), total));
    }
}

static void collect(bt_problem *problem, bt_graph *graph)
{
    bt_step_phase *step = &problem->step;
    bt_tensor *sums = bt_graph_read(graph, step->sums.flat), *now = bt_graph_read(graph, step->gradients.flat);
    bt_graph_assign(graph, step->sums.flat, (bt_add)(sums, now));
}

static bt_status add_gradients(bt_problem *problem, bt_graph *const *gradients)
{
    bt_step_phase *step = &problem->step;
    bool many = problem->settings->gradient_accumulation > 1;
    for (int s = 0; s < problem->train->shape_count; s++) {
        step->gradient[s] =
            bt_phase_add(step->phase, gradients[s], many ? 1 : 0, s ? "gradient, short batch" : "gradient");
        if (step->gradient[s] < 0)
            return bt_error_status();
    }
    if (many && (step->average = bt_step_add(problem, "average", average)) < 0)
        return bt_error_status();
    return BT_OK;
}

/* Entries in the order in which they run. */
static bt_status build_hypergradient(bt_problem *problem, bt_graph **gradients)
{
    bt_step_phase *step = &problem->step;
    BT_TRY(trace_gradients(problem, gradients));
    for (int q = 0; q < step->solve_count; q++)
        BT_TRY(bt_solve_open(problem, &step->solves[q]));
    BT_TRY(bt_joined_build(problem, gradients));
    if (!step->joins)
        BT_TRY(add_gradients(problem, gradients));
    for (int q = step->joins; q < step->solve_count; q++)
        BT_TRY(bt_solve_build(problem, &step->solves[q]));
    return BT_OK;
}

/* Levels that are linked, but not by their losses: said once. */
static void warn_unreached(bt_problem *problem)
{
    const bt_step_phase *step = &problem->step;
    if (problem->engine->ready || !step->solve_count)
        return;
    for (int q = 0; q < step->solve_count; q++)
        if (!step->solves[q].reached)
            bt_engine_warn(problem->engine,
                           "%s: its loss does not use the parameters of %s: nothing of its hypergradient passes there",
                           problem->name, step->solves[q].problem->name);
    if (!step->reached)
        bt_engine_warn(problem->engine,
                       "%s: no lower problem's gradient uses its parameters: its hypergradient is the direct gradient "
                       "of its own loss alone",
                       problem->name);
}

/* A level that is taught, and does not move: said once. */
static void warn_still(bt_problem *problem)
{
    const bt_optimizer *optimizer = problem->optimizer;
    int lr = bt_hyper_index(optimizer->kind.def->hypers, "lr");
    bool still = lr >= 0 && !problem->def->schedule && !problem->engine->ready;
    for (int g = 0; still && g < optimizer->group_count; g++)
        still = optimizer->groups[g].values[lr] == 0;
    if (still)
        bt_engine_warn(problem->engine, "%s: lr = 0: its parameters stay as they are", problem->name);
}

/* A level that nothing could teach: its own loss uses none of its parameters, and no hypergradient comes to them. */
static bt_status check_taught(const bt_problem *problem)
{
    const bt_step_phase *step = &problem->step;
    bool any = false;
    for (int64_t i = 0; i < problem->module->param_count; i++) {
        any = any || problem->trainable[i];
        if (step->reached || (problem->trainable[i] && step->used[i]))
            return BT_OK;
    }
    if (!any)
        return BT_OK;
    for (int q = 0; q < step->solve_count; q++) {
        const bt_problem *lower = step->solves[q].problem;
        if (lower->def->start && !step->solves[q].unroll)
            return bt_fail(BT_ERROR_CONFIG,
                           "%s: its gradient is zero: type = %s of %s sees what the loss of %s uses, and not what its "
                           "start does: take type = itd, or add the distance from there to the loss",
                           problem->name, lower->settings->method->name, lower->name, lower->name);
    }
    return bt_fail(BT_ERROR_CONFIG,
                   "%s: its gradient is zero: its loss does not use its parameters, and no lower problem that its loss "
                   "depends on (l2u) uses them either; use %s in that problem's training_step, with bt_peer",
                   problem->name, problem->name);
}

/* Parameters that neither the loss nor a lower problem's loss uses. */
static bt_status check_used(bt_problem *problem)
{
    if (problem->engine->apart) /* a check has looked at what trains, and now takes products alone */
        return BT_OK;
    BT_TRY(check_taught(problem));
    warn_unreached(problem);
    warn_still(problem);
    const bt_module *module = problem->module;
    for (int64_t i = 0; i < module->param_count && !problem->settings->allow_unused; i++)
        if (problem->trainable[i] && !problem->step.used[i])
            return bt_fail(BT_ERROR_CONFIG,
                           "%s: the loss does not use the parameter %s, and allow_unused = false: use it, freeze it "
                           "(trainable), or allow it",
                           problem->name, module->params[i]->path);
    return BT_OK;
}

static bt_status open_solves(bt_problem *problem)
{
    bt_step_phase *step = &problem->step;
    bt_problem **lowers = bt_alloc_array((size_t)problem->engine->problem_count + 1, sizeof(bt_problem *));
    if (!lowers)
        return BT_ERROR_MEMORY;
    int count = bt_lowers(problem, lowers);
    step->solves = bt_alloc_array((size_t)count, sizeof *step->solves);
    bt_status status = step->solves ? BT_OK : BT_ERROR_MEMORY;
    for (int q = 0; status == BT_OK && q < count; q++) {
        step->solves[q].problem = lowers[q];
        step->solves[q].adjoint =
            bt_vector_new(step->phase, lowers[q], "adjoint", problem->settings->gradient_accumulation > 1);
        step->solve_count = q + 1;
        status = step->solves[q].adjoint.flat ? BT_OK : BT_ERROR_MEMORY;
    }
    bt_free(lowers);
    return status;
}

static bt_status build_update(bt_problem *problem)
{
    bt_step_phase *step = &problem->step;
    bt_graph *graph = bt_graph_new();
    bt_status status = graph ? bt_update_trace(problem, graph) : BT_ERROR_MEMORY;
    if (status == BT_OK) {
        step->update = bt_phase_add(step->phase, graph, 0, "update");
        status = step->update < 0 ? bt_error_status() : BT_OK;
    }
    if (status == BT_OK && (problem->def->schedule || problem->def->grad_callback || problem->def->param_callback)) {
        bt_graph_free(problem->pure[BT_PURE_UPDATE]);
        problem->pure[BT_PURE_UPDATE] = graph;
    } else {
        bt_graph_free(graph);
    }
    return status;
}

bt_status bt_step_build(bt_problem *problem)
{
    bt_step_phase *step = &problem->step;
    step->average = step->collect = step->start = step->update = -1;
    for (int s = 0; s < BT_MAX_SHAPES; s++)
        step->gradient[s] = -1;
    step->phase = bt_phase_new(problem->engine->instance, problem->name,
                               problem->child_count ? "hypergradient step" : "train step");
    step->total = bt_var_new(BT_RUN, BT_BATCH, problem->name, "examples", (bt_array){.dtype = BT_F64});
    if (!step->phase || !step->total)
        return BT_ERROR_MEMORY;
    step->used = bt_alloc_array((size_t)problem->module->param_count, sizeof *step->used);
    if (!step->used)
        return BT_ERROR_MEMORY;
    BT_TRY(make_gradients(problem));
    BT_TRY(open_solves(problem));
    bt_graph *gradients[BT_MAX_SHAPES] = {NULL};
    bt_status status = build_hypergradient(problem, gradients);
    for (int s = 0; s < BT_MAX_SHAPES; s++)
        bt_graph_free(gradients[s]);
    BT_TRY(status);
    BT_TRY(check_used(problem));
    if (step->sums.flat && (step->collect = bt_step_add(problem, "collect", collect)) < 0)
        return bt_error_status();
    BT_TRY(bt_start_build(problem));
    BT_TRY(build_update(problem));
    return bt_phase_plan(step->phase);
}

void bt_step_free(bt_problem *problem)
{
    bt_step_phase *step = &problem->step;
    bt_phase_free(step->phase);
    for (int s = 0; s < BT_MAX_SHAPES; s++)
        bt_micro_free(&step->micros[s]);
    for (int q = 0; q < step->solve_count; q++)
        bt_solve_free(&step->solves[q]);
    bt_free(step->solves);
    bt_free(step->stretches);
    bt_free(step->used);
    bt_block_free(&step->gradients);
    bt_var_free(step->total);
    bt_var_free(step->loop);
    *step = (bt_step_phase){.sums = step->sums}; /* a meta-batch goes on through a retrace */
}

/* ---- validation ---- */

bt_status bt_validation_build(bt_problem *problem)
{
    bt_valid_phase *validation = &problem->validation;
    if (!problem->valid || !problem->def->validation_step)
        return BT_OK;
    validation->phase = bt_phase_new(problem->engine->instance, problem->name, "validation");
    if (!validation->phase)
        return BT_ERROR_MEMORY;
    for (int s = 0; s < problem->valid->shape_count; s++) {
        BT_TRY(bt_micro_new(&validation->micros[s], problem->valid, s));
        bt_graph *graph = trace_loss(problem, &validation->micros[s], BT_TRACE_VALID, false);
        validation->entries[s] =
            graph ? bt_phase_add(validation->phase, graph, 0, s ? "validation, short batch" : "validation") : -1;
        bt_graph_free(graph);
        if (validation->entries[s] < 0)
            return bt_error_status();
    }
    BT_TRY(keep_pure(problem, BT_PURE_VALID, &validation->micros[0]));
    return bt_phase_plan(validation->phase);
}

void bt_validation_free(bt_problem *problem)
{
    bt_phase_free(problem->validation.phase);
    for (int s = 0; s < BT_MAX_SHAPES; s++)
        bt_micro_free(&problem->validation.micros[s]);
    problem->validation = (bt_valid_phase){0};
}

bt_status bt_problem_compile(bt_problem *problem)
{
    bt_status status = bt_step_build(problem);
    if (status == BT_OK)
        status = bt_snapshot_open(problem);
    if (status == BT_OK)
        status = bt_validation_build(problem);
    if (status != BT_OK)
        bt_fail(status, "%s: out of memory", problem->name);
    return status;
}

void bt_problem_uncompile(bt_problem *problem)
{
    bt_trajectory_free(problem->trajectory); /* steps of other programs: there is no going back through them */
    problem->trajectory = NULL;
    bt_step_free(problem);
    bt_validation_free(problem);
    for (bt_eval_cache *cache = problem->evals, *next; cache; cache = next) {
        next = cache->next;
        bt_phase_free(cache->phase);
        bt_batch_free(cache->batch);
        bt_var_free(cache->record);
        bt_free(cache);
    }
    problem->evals = NULL;
    for (int kind = 0; kind < BT_PURE_KINDS; kind++) {
        bt_graph_free(problem->pure[kind]);
        problem->pure[kind] = NULL;
        problem->pure_hash[kind] = 0;
    }
}
