/* engine/session/ask.c: what a program may ask an engine: the check of its hypergradients. */
#include "engine/session/session.h"

#include "engine/check/check.h"
#include <string.h>

bt_status bt_engine_check_hypergradient(bt_engine *engine, const char *level, int64_t samples, bool json, FILE *file)
{
    bool found = false;
    BT_TRY(bt_engine_enter(engine, BT_REQUEST_RUN, "bt_engine_check_hypergradient"));
    BT_TRY(bt_update_scalars(&engine->context));
    for (int i = 0; i < engine->context.problem_count; i++) {
        bt_problem *problem = engine->context.problems[i];
        if (!problem->settings->active || !problem->child_count || (level && strcmp(level, problem->name) != 0))
            continue;
        found = true;
        BT_TRY(bt_check_level(problem, samples, json, file));
    }
    if (found)
        return BT_OK;
    return bt_fail(BT_ERROR_ARGUMENT, "--level %s: there is no such upper level in this run", level ? level : "(any)");
}
