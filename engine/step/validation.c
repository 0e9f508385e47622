/* engine/step/validation.c: the validation of a level: its programs, and a pass over the same batches each time. */
#include "engine/step/step_inside.h"

/* The batches are in the arena, which a validation seldom fills. */
static bt_status make_room(bt_valid_phase *validation, const bt_problem *problem)
{
    int64_t bytes = (int64_t)bt_loader_room(problem->valid->loader);
    bt_array shape = {.dtype = BT_U8, .rank = 1, .dims = {bytes}};
    if (!bytes)
        return BT_OK;
    validation->batches =
        bt_phase_own(validation->phase, bt_var_new(BT_PHASE, BT_BATCH, problem->name, "batches", shape));
    if (!validation->batches)
        return BT_ERROR_MEMORY;
    validation->batches->lasting = true;
    return BT_OK;
}

bt_status bt_validation_build(bt_problem *problem)
{
    if (!problem->valid || !problem->def->validation_step)
        return BT_OK;
    bt_valid_phase *validation = problem->validation = bt_alloc(sizeof *validation);
    if (!validation)
        return BT_ERROR_MEMORY;
    validation->phase = bt_phase_new(problem->context->instance, problem->name, "validation");
    if (!validation->phase)
        return BT_ERROR_MEMORY;
    BT_TRY(make_room(validation, problem));
    for (int s = 0; s < problem->valid->shape_count; s++) {
        BT_TRY(bt_micro_new(&validation->micros[s], problem, problem->valid, s));
        bt_graph *graph = bt_loss_trace(problem, &validation->micros[s], BT_TRACE_VALID, NULL);
        validation->phase->runs = s ? 0 : 1;
        validation->entries[s] =
            graph ? bt_phase_add(validation->phase, graph, 0, s ? "validation, short batch" : "validation") : -1;
        bt_graph_free(graph);
        if (validation->entries[s] < 0)
            return bt_error_status();
    }
    return bt_phase_plan(validation->phase);
}

void bt_validation_free(bt_problem *problem)
{
    bt_valid_phase *validation = problem->validation;
    if (!validation)
        return;
    bt_phase_free(validation->phase);
    for (int s = 0; s < BT_MAX_SHAPES; s++)
        bt_micro_free(&validation->micros[s]);
    bt_free(validation);
    problem->validation = NULL;
}

/* Uses the same batches each time, so that validations can be compared. */
static bt_status run_validation(bt_problem *problem)
{
    bt_valid_phase *validation = problem->validation;
    bt_stream *stream = problem->valid;
    int64_t batches = bt_stream_validation(stream);
    BT_TRY(bt_stream_rewind(stream, 0, 0));
    for (int64_t i = 0; i < batches; i++) {
        BT_TRY(bt_stream_draw(stream, 1));
        int shape = bt_stream_shape(stream, stream->kept[0]);
        if (shape < 0)
            return bt_error_status();
        bt_micro_bind(&validation->micros[shape], stream->kept[0]);
        BT_TRY(bt_part_run(validation->phase, validation->entries[shape]));
        if (problem->context->validating)
            problem->context->validating(problem->context->validating_user, problem->name, i + 1, batches);
    }
    return BT_OK;
}

static bt_status validate(bt_problem *problem)
{
    bt_valid_phase *validation = problem->validation;
    bt_phase_begin(validation->phase);
    if (validation->batches)
        bt_loader_lend(problem->valid->loader, bt_phase_lend(validation->phase, validation->batches));
    bt_status status = run_validation(problem);
    bt_loader_lend(problem->valid->loader, NULL);
    bt_phase_end(validation->phase);
    return status;
}

static bt_status pass(bt_problem *problem, bool *any)
{
    bt_context *context = problem->context;
    if (!problem->validation)
        return BT_OK;
    BT_TRY(bt_update_scalars(context));
    bt_stage_enter(context, BT_STAGE_PROGRAM);
    bt_steps_show(context, true);
    bt_status status = validate(problem);
    bt_steps_show(context, false);
    bt_stage_leave(context);
    *any = true;
    return status;
}

static bt_status end(bt_problem *problem, bool *any)
{
    if (!problem->def->validation_end)
        return BT_OK;
    bt_guest before = bt_problem_enter(problem, "validation_end");
    problem->def->validation_end(problem);
    bt_problem_leave(problem, "validation_end", before);
    *any = true;
    return bt_error_status();
}

/* The callbacks come after all passes, because each may ask for the results of any problem. */
bt_status bt_validate(bt_context *context, bool *any)
{
    bt_status status = BT_OK;
    *any = false;
    BT_TRY(bt_kept_error(context));
    bt_stage_enter(context, BT_STAGE_VALIDATION);
    for (int p = 0; p < context->problem_count && status == BT_OK; p++)
        if (context->problems[p]->settings->active)
            status = pass(context->problems[p], any);
    for (int p = 0; p < context->problem_count && status == BT_OK; p++)
        if (context->problems[p]->settings->active)
            status = end(context->problems[p], any);
    bt_stage_leave(context);
    return status;
}
