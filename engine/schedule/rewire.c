/* engine/schedule/rewire.c: changes the dependencies between two steps.
 *
 * The programs of every level are recompiled, because the losses may need other derivatives. Parameters, optimiser
 * state, positions in the data and counters do not change. What a method keeps for an upper problem is dropped with
 * the dependency. An invalid change is refused, and everything stays as it was. */
#include "engine/schedule/schedule.h"

/* Which solutions are ready for which problem, [upper, lower] by place; `to`: copies into the problems, else from
 * them. */
static void copy_ready(bt_context *context, bool *ready, bool to)
{
    for (int i = 0; i < context->problem_count; i++) {
        bt_problem *upper = context->problems[i];
        for (int c = 0; c < upper->child_count; c++) {
            bool *known = &ready[i * context->problem_count + upper->children[c]->place];
            *(to ? &upper->ready[c] : known) = *(to ? known : &upper->ready[c]);
        }
    }
}

/* Builds everything for the current dependencies. A ready lower problem stays ready for those that still use it. */
static bt_status build(bt_context *context)
{
    size_t count = (size_t)context->problem_count;
    bool *ready = bt_alloc_array(count * count, sizeof *ready);
    if (!ready)
        return BT_ERROR_MEMORY;
    copy_ready(context, ready, false);
    bt_status status = bt_wire(context);
    if (status == BT_OK) {
        copy_ready(context, ready, true);
        status = bt_loop_starts_open(context);
    }
    if (status == BT_OK)
        status = bt_levels_compile(context);
    for (int i = 0; status == BT_OK && i < context->problem_count; i++)
        if (context->problems[i]->step)
            bt_solve_forget(context->problems[i], &context->problems[i]->step->site);
    bt_free(ready);
    return status;
}

bt_status bt_rewire_apply(bt_context *context, bt_edges *edges)
{
    bt_stage_enter(context, BT_STAGE_PROGRAM); /* what is traced must not start the engine */
    bt_config_swap_edges(context->config, edges);
    bt_status status = build(context);
    if (status != BT_OK) {
        bt_failure failure = bt_failure_take();
        bt_config_swap_edges(context->config, edges);
        bt_status again = bt_keep_error(context, build(context));
        bt_failure_give(&failure);
        status = again == BT_OK ? status : again;
    }
    bt_stage_leave(context);
    bt_free(edges->list);
    *edges = (bt_edges){0};
    return status;
}

bt_status bt_rewire_parse(bt_context *context, const char *u2l, const char *l2u, const char *origin, bt_edges *edges)
{
    bt_text old[2] = {{0}};
    bt_config_print_edges(context->config, BT_U2L, &old[BT_U2L]);
    bt_config_print_edges(context->config, BT_L2U, &old[BT_L2U]);
    bt_status status = bt_config_parse_edges(context->config, u2l ? u2l : bt_text_get(&old[BT_U2L]),
                                             l2u ? l2u : bt_text_get(&old[BT_L2U]), origin, edges);
    bt_text_free(&old[BT_U2L]);
    bt_text_free(&old[BT_L2U]);
    if (status == BT_OK) {
        bt_config_swap_edges(context->config, edges);
        status = bt_wires_check(context);
        bt_config_swap_edges(context->config, edges);
    }
    if (status == BT_OK)
        return BT_OK;
    bt_free(edges->list);
    *edges = (bt_edges){0};
    return status;
}

bt_status bt_rewire(bt_context *context, const char *u2l, const char *l2u, const char *origin)
{
    bt_edges edges;
    BT_TRY(bt_rewire_parse(context, u2l, l2u, origin, &edges));
    return bt_rewire_apply(context, &edges);
}
