/* engine/session/dependency.c: bt_set_dependency: takes effect at once between two steps, or at the end of the current
 * one. */
#include "engine/session/session.h"

bt_status bt_rewire_due(bt_engine *engine)
{
    if (!engine->rewire_due)
        return BT_OK;
    bt_edges edges = engine->due;
    engine->due = (bt_edges){0};
    engine->rewire_due = false;
    bt_status status = bt_rewire_apply(&engine->context, &edges);
    engine->rewired = engine->rewired || status == BT_OK;
    return status;
}

static bt_status set_dependency(bt_engine *engine, const char *u2l, const char *l2u)
{
    static const char origin[] = "bt_set_dependency";
    bt_stage stage = bt_stage_now(&engine->context);
    if (stage == BT_STAGE_READY || stage == BT_STAGE_RUN)
        return bt_rewire(&engine->context, u2l, l2u, origin);
    bt_edges edges;
    BT_TRY(bt_rewire_parse(&engine->context, u2l, l2u, origin, &edges));
    bt_free(engine->due.list);
    engine->due = edges;
    engine->rewire_due = true;
    return BT_OK;
}

bt_status bt_set_dependency(bt_problem *self, const char *u2l, const char *l2u)
{
    if (!self || self->missing)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_set_dependency: there is no such problem");
    if (bt_trace_now())
        return bt_fail(BT_ERROR_ARGUMENT,
                       "%s: bt_set_dependency must be called by the host: call it in epoch_callback or validation_end, "
                       "or between two runs",
                       self->name);
    bt_engine *engine = self->context->engine;
    BT_TRY(bt_context_may(&engine->context, BT_REQUEST_REWIRE, "bt_set_dependency"));
    if (engine->context.on_trial)
        return BT_OK;
    return set_dependency(engine, u2l, l2u);
}

bt_status bt_session_step(bt_engine *engine)
{
    BT_TRY(bt_step_leaves(&engine->context));
    return bt_rewire_due(engine);
}
