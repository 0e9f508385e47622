/* engine/traced/purity.c: compares what a callback has recorded with what it records when it is traced again. */
#include "engine/traced/traced.h"

const char *bt_pure_name(const bt_problem *problem, int kind)
{
    static const char *const names[] = {"training_step", "validation_step", "schedule or a callback", "condition",
                                        "start"};
    const bt_problem_def *def = problem->def;
    bool called = def->schedule || def->grad_callback || def->param_callback;
    return kind == BT_PURE_UPDATE && !called ? "the optimizer's update" : names[kind];
}

bt_status bt_check_same(const bt_problem *problem, const char *callback, const bt_graph *first, bt_graph *again,
                        const char *times, int64_t time)
{
    if (!again)
        return bt_error_status();
    bt_text text = {0};
    if (bt_graph_differs(first, again, &text))
        bt_fail(BT_ERROR_ARGUMENT,
                "%s: %s is not pure: traced again at %s %lld, %s. What changes from run to run must come from "
                "bt_step or bt_host_scalar (a number in the program) or bt_static_int (a new program)",
                problem->name, callback, times, (long long)time, bt_text_get(&text));
    bt_text_free(&text);
    bt_graph_free(again);
    return bt_error_status();
}
