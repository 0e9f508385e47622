/* engine/session/rewire.c: bt_set_dependency: who depends on whom changes while a run goes on.
 *
 * The programs of every level are made anew, for the losses may have other derivatives to take; parameters, optimiser
 * state, positions in the data and counters are not touched. What a method keeps for an upper problem goes with the
 * dependency. What cannot be is refused, and all stays as it was. */
#include "engine/session/session.h"

#include <string.h>

/* ---- parents and children ---- */

/* Whose solution is ready for whom, [upper, lower] by place; `to`: into the problems, else from them. */
static void copy_ready(bt_engine *engine, bool *ready, bool to)
{
    for (int i = 0; i < engine->context.problem_count; i++) {
        bt_problem *upper = engine->context.problems[i];
        for (int c = 0; c < upper->child_count; c++) {
            bool *known = &ready[i * engine->context.problem_count + upper->children[c]->place];
            *(to ? &upper->ready[c] : known) = *(to ? known : &upper->ready[c]);
        }
    }
}

/* By the dependencies now in force. A lower problem that is ready stays so for those that go on to use it. */
static bt_status build(bt_engine *engine)
{
    size_t count = (size_t)engine->context.problem_count;
    bool *ready = bt_alloc_array(count * count, sizeof *ready);
    if (!ready)
        return BT_ERROR_MEMORY;
    copy_ready(engine, ready, false);
    bt_status status = bt_wire(&engine->context);
    if (status == BT_OK) {
        copy_ready(engine, ready, true);
        status = bt_levels_recompile(&engine->context);
    }
    if (status == BT_OK)
        status = bt_loop_starts_open(&engine->context);
    for (int i = 0; status == BT_OK && i < engine->context.problem_count; i++)
        if (engine->context.problems[i]->step)
            bt_solve_forget(engine->context.problems[i], &engine->context.problems[i]->step->site);
    bt_free(ready);
    return status;
}

/* ---- the change ---- */

/* `edges` come in force, and those before are freed; or all is as it was. */
static bt_status apply(bt_engine *engine, bt_edges *edges)
{
    bt_config_swap_edges(engine->context.config, edges);
    bt_status status = build(engine);
    if (status != BT_OK) {
        bt_failure failure = bt_failure_take();
        bt_config_swap_edges(engine->context.config, edges);
        bt_status again = bt_keep_error(&engine->context, build(engine));
        bt_failure_give(&failure);
        status = again == BT_OK ? status : again;
    }
    engine->rewired = engine->rewired || status == BT_OK;
    bt_free(edges->list);
    *edges = (bt_edges){0};
    return status;
}

/* What the lines say, checked; a line that is NULL stays as it is. */
static bt_status parse(bt_engine *engine, const char *u2l, const char *l2u, const char *origin, bt_edges *edges)
{
    bt_text old[2] = {{0}};
    bt_config_print_edges(engine->context.config, BT_U2L, &old[BT_U2L]);
    bt_config_print_edges(engine->context.config, BT_L2U, &old[BT_L2U]);
    bt_status status = bt_config_parse_edges(engine->context.config, u2l ? u2l : bt_text_get(&old[BT_U2L]),
                                             l2u ? l2u : bt_text_get(&old[BT_L2U]), origin, edges);
    bt_text_free(&old[BT_U2L]);
    bt_text_free(&old[BT_L2U]);
    if (status == BT_OK) {
        bt_config_swap_edges(engine->context.config, edges);
        status = bt_wires_check(&engine->context);
        bt_config_swap_edges(engine->context.config, edges);
    }
    if (status == BT_OK)
        return BT_OK;
    bt_free(edges->list);
    *edges = (bt_edges){0};
    return status;
}

bt_status bt_rewire(bt_engine *engine, const char *u2l, const char *l2u, const char *origin)
{
    bt_edges edges;
    BT_TRY(parse(engine, u2l, l2u, origin, &edges));
    return apply(engine, &edges);
}

bt_status bt_rewire_due(bt_engine *engine)
{
    if (!engine->rewire_due)
        return BT_OK;
    bt_edges edges = engine->due;
    engine->due = (bt_edges){0};
    engine->rewire_due = false;
    return apply(engine, &edges);
}

static bt_status set_dependency(bt_engine *engine, const char *u2l, const char *l2u)
{
    static const char origin[] = "bt_set_dependency";
    if (!engine->context.stepping && !engine->context.validating && !engine->context.busy)
        return bt_rewire(engine, u2l, l2u, origin);
    bt_edges edges;
    BT_TRY(parse(engine, u2l, l2u, origin, &edges));
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
                       "%s: bt_set_dependency is for the host: call it in epoch_callback or "
                       "validation_end, or between two runs",
                       self->name);
    bt_engine *engine = self->context->engine;
    if (!engine->context.ready)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: bt_set_dependency comes too early: at the start [dependencies] holds",
                       self->name);
    if (engine->context.until) /* a check, which takes the hierarchy as it is */
        return BT_OK;
    return set_dependency(engine, u2l, l2u);
}

bt_status bt_session_step(bt_engine *engine)
{
    BT_TRY(bt_step_leaves(&engine->context));
    return bt_rewire_due(engine);
}
