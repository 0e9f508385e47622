/* engine/step/purity.c: a traced callback must record the same each time. It is traced again now and then and compared. */
#include "engine/step/step.h"

#include "graph/variable.h"
#include <string.h>

static const char *const callbacks[] = {"training_step", "validation_step", "schedule or a callback"};

/* The first difference as text; false: none. */
static bool differ(const bt_graph *a, const bt_graph *b, bt_text *text)
{
    for (int64_t n = 0; n < a->node_count && n < b->node_count; n++) {
        const bt_node *x = a->nodes[n], *y = b->nodes[n];
        bool same = x->op == y->op && x->inputs == y->inputs && x->attr_size == y->attr_size &&
                    memcmp(x->attr, y->attr, x->attr_size) == 0 && x->out->rank == y->out->rank &&
                    x->out->dtype == y->out->dtype && memcmp(x->out->dims, y->out->dims, sizeof x->out->dims) == 0;
        for (int i = 0; same && i < x->inputs; i++)
            same = x->in[i]->id == y->in[i]->id;
        if (same)
            continue;
        bt_text_add(text, "node %lld: `", (long long)n);
        bt_node_describe(x, text);
        bt_text_add(text, "` became `");
        bt_node_describe(y, text);
        bt_text_add(text, "`");
        return true;
    }
    if (a->node_count == b->node_count)
        return false;
    bt_text_add(text, "%lld nodes became %lld", (long long)a->node_count, (long long)b->node_count);
    return true;
}

static bool due(int64_t steps)
{
    if (steps == 2 || steps == 3)
        return true;
    for (int64_t ten = 10; ten <= steps; ten *= 10)
        if (ten == steps)
            return true;
    return false;
}

bt_status bt_check_purity(bt_problem *problem)
{
    if (!due(problem->steps) || problem->calls)
        return BT_OK;
    for (int kind = 0; kind < BT_PURE_KINDS; kind++) {
        if (!problem->pure[kind])
            continue;
        bt_graph *again = bt_problem_retrace(problem, kind);
        if (!again)
            return bt_error_status();
        bt_text text = {0};
        if (differ(problem->pure[kind], again, &text))
            bt_fail(BT_ERROR_ARGUMENT,
                    "%s: %s is not pure: traced again at step %lld, %s. What changes from run to run must come from "
                    "bt_step or bt_host_scalar (a number in the program) or bt_static_int (a new program)",
                    problem->name, callbacks[kind], (long long)problem->steps, bt_text_get(&text));
        bt_text_free(&text);
        bt_graph_free(again);
        BT_TRY(bt_error_status());
    }
    return BT_OK;
}
