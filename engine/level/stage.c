/* engine/level/stage.c: what an engine is doing, and so which calls are allowed. */
#include "engine/level/context.h"

#define SET_UP  "the engine is already set up: add problems and settings before that, or make another engine"
#define BEING   "the engine is being set up: ask it after its problems are made"
#define NOT_YET "the engine is not set up yet: ask it after its problems are made"
#define RUNNING                                                                                                        \
    "the engine is running, and this is one of its callbacks: call it before bt_engine_run, or after that has "        \
    "returned"
#define SAVING    "the engine is running, and writes its own checkpoints: see engine.checkpoint_step"
#define TOO_LATE  "too late: call it while the problem is set up, as in configure_module"
#define TOO_EARLY "too early: at the start, [dependencies] applies"
#define WITHIN                                                                                                         \
    "it draws batches, so it cannot be called within a step or a validation: call it in epoch_callback, "              \
    "on_inner_loop_start or validation_end"
#define ANSWERING                                                                                                      \
    "it draws batches, so a callback that answers a question cannot call it: call it after the question has been "     \
    "answered"
#define MOVING                                                                                                         \
    "its programs are running: ask between two calls that train, or in epoch_callback, on_inner_loop_start or "        \
    "validation_end"
#define SAYING  "a log callback is running: keep the line, and ask after the training call has returned"
#define EARLIER "an earlier call failed"

/* The columns: NEW, SETUP, READY, RUN, STEP, VALIDATION, PROGRAM, QUESTION, SAYING, FAILED. */
static const char *const refusals[BT_REQUESTS][BT_STAGES] = {
    [BT_REQUEST_CONFIGURE] = {0, SET_UP, SET_UP, SET_UP, SET_UP, SET_UP, SET_UP, SET_UP, SAYING, EARLIER},
    [BT_REQUEST_CHANGE] = {0, BEING, 0, RUNNING, RUNNING, RUNNING, RUNNING, RUNNING, SAYING, EARLIER},
    [BT_REQUEST_VALUES] = {0, BEING, 0, 0, 0, 0, MOVING, MOVING, SAYING, EARLIER},
    [BT_REQUEST_LOG] = {0, 0, 0, 0, 0, 0, 0, 0, SAYING, 0},
    [BT_REQUEST_LOOK] = {0, BEING, 0, 0, 0, 0, 0, 0, SAYING, EARLIER},
    [BT_REQUEST_RUN] = {0, BEING, 0, RUNNING, RUNNING, RUNNING, RUNNING, RUNNING, SAYING, EARLIER},
    [BT_REQUEST_SAVE] = {0, BEING, 0, SAVING, SAVING, SAVING, SAVING, SAVING, SAYING, EARLIER},
    [BT_REQUEST_STATE] = {0, 0, TOO_LATE, TOO_LATE, TOO_LATE, TOO_LATE, TOO_LATE, TOO_LATE, SAYING, EARLIER},
    [BT_REQUEST_REWIRE] = {TOO_EARLY, TOO_EARLY, 0, 0, 0, 0, 0, 0, SAYING, EARLIER},
    [BT_REQUEST_EVAL] = {NOT_YET, BEING, 0, 0, 0, 0, 0, 0, SAYING, EARLIER},
    [BT_REQUEST_QUESTION] = {NOT_YET, BEING, 0, 0, 0, 0, WITHIN, ANSWERING, SAYING, EARLIER},
};

bt_stage bt_stage_now(const bt_context *context)
{
    return context->status == BT_OK ? context->stages.list[context->stages.depth] : BT_STAGE_FAILED;
}

bool bt_stage_within(const bt_context *context, bt_stage stage)
{
    for (int i = 0; i <= context->stages.depth; i++)
        if (context->stages.list[i] == stage)
            return true;
    return false;
}

void bt_stage_enter(bt_context *context, bt_stage stage) { context->stages.list[++context->stages.depth] = stage; }

void bt_stage_leave(bt_context *context) { context->stages.depth--; }

const char *bt_stage_refusal(bt_stage stage, bt_request call) { return refusals[call][stage]; }

bt_status bt_context_may(const bt_context *context, bt_request call, const char *function)
{
    const char *refusal = bt_stage_refusal(bt_stage_now(context), call);
    if (!refusal)
        return BT_OK;
    if (context->status != BT_OK)
        return bt_fail(context->status, "%s", context->message ? context->message : refusal);
    return bt_fail(BT_ERROR_ARGUMENT, "%s: %s", function, refusal);
}
