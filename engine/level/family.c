/* engine/level/family.c: who depends on whom. */
#include "engine/level/level.h"

#include <string.h>

static bool edge(const bt_context *context, bt_direction direction, const bt_problem *from, const bt_problem *to)
{
    int count;
    const bt_dependency *all = bt_config_dependencies(context->config, &count);
    for (int i = 0; i < count; i++)
        if (all[i].direction == direction && strcmp(all[i].from, from->name) == 0 && strcmp(all[i].to, to->name) == 0)
            return true;
    return false;
}

bool bt_u2l(const bt_problem *upper, const bt_problem *lower) { return edge(upper->context, BT_U2L, upper, lower); }

/* Marks all problems that can be reached from `from`; `seen` is by place. */
static void reach(const bt_context *context, bt_direction direction, const bt_problem *from, bool *seen)
{
    for (int i = 0; i < context->problem_count; i++) {
        const bt_problem *to = context->problems[i];
        if (!seen[i] && edge(context, direction, from, to)) {
            seen[i] = true;
            reach(context, direction, to, seen);
        }
    }
}

/* One after another: a problem comes when nobody below it (or, with `down`, above it), by u2l, is still waiting. */
static int order(const bt_context *context, const bool *in, bool down, bt_problem **list)
{
    bool *done = bt_alloc_array((size_t)context->problem_count, sizeof *done);
    int count = 0;
    for (bool found = done != NULL; found;) {
        found = false;
        for (int i = 0; i < context->problem_count && !found; i++) {
            bool free = in[i] && !done[i];
            for (int j = 0; free && j < context->problem_count; j++)
                free = !(in[j] && !done[j] && j != i &&
                         bt_u2l(context->problems[down ? j : i], context->problems[down ? i : j]));
            if (free) {
                done[i] = found = true;
                list[count++] = context->problems[i];
            }
        }
    }
    bt_free(done);
    return count;
}

/* Marks what can be reached against u2l from a marked problem, within `below`: its loss does not enter the upper one's,
 * but its solution that of a problem whose does. */
static void reach_back(const bt_context *context, const bool *below, bool *in)
{
    for (bool found = true; found;) {
        found = false;
        for (int i = 0; i < context->problem_count; i++)
            for (int j = 0; j < context->problem_count && below[i] && !in[i]; j++)
                if (in[j] && bt_u2l(context->problems[i], context->problems[j]))
                    found = in[i] = true;
    }
}

int bt_lowers(const bt_problem *upper, bt_problem **lowers)
{
    const bt_context *context = upper->context;
    size_t count = (size_t)context->problem_count;
    bool *below = bt_alloc_array(count, sizeof *below), *above = bt_alloc_array(count, sizeof *above);
    bool *in = bt_alloc_array(count, sizeof *in);
    int found = 0;
    if (below && above && in) {
        reach(context, BT_U2L, upper, below);
        below[upper->place] = false;
        for (int i = 0; i < context->problem_count; i++) {
            memset(above, 0, count * sizeof *above);
            reach(context, BT_L2U, context->problems[i], above);
            in[i] = below[i] && context->problems[i]->settings->active && above[upper->place];
        }
        reach_back(context, below, in);
        found = order(context, in, false, lowers);
    }
    bt_free(below);
    bt_free(above);
    bt_free(in);
    return found;
}

static bt_status add_family(bt_problem *child, bt_problem *parent)
{
    bt_problem **parents = bt_alloc_array((size_t)child->parent_count + 1, sizeof(bt_problem *));
    bt_problem **children = bt_alloc_array((size_t)parent->child_count + 1, sizeof(bt_problem *));
    if (!parents || !children) {
        bt_free(parents);
        bt_free(children);
        return BT_ERROR_MEMORY;
    }
    if (child->parent_count)
        memcpy(parents, child->parents, (size_t)child->parent_count * sizeof *parents);
    if (parent->child_count)
        memcpy(children, parent->children, (size_t)parent->child_count * sizeof *children);
    bt_free(child->parents);
    bt_free(parent->children);
    child->parents = parents;
    parent->children = children;
    child->parents[child->parent_count++] = parent;
    parent->children[parent->child_count++] = child;
    return BT_OK;
}

/* Whose solution it uses; NULL: nobody's. */
static const bt_problem *first_child(const bt_problem *problem)
{
    const bt_context *context = problem->context;
    for (int i = 0; i < context->problem_count; i++)
        if (context->problems[i]->settings->active && edge(context, BT_L2U, context->problems[i], problem))
            return context->problems[i];
    return NULL;
}

/* Every active level must take part: be trained, or be what a trained one depends on. */
static bt_status check_reach(const bt_problem *problem)
{
    const bt_context *context = problem->context;
    const bt_problem *child = first_child(problem);
    bool uses = false, used = false;
    for (int i = 0; i < context->problem_count; i++) {
        uses |= bt_u2l(problem, context->problems[i]) && context->problems[i]->settings->active;
        used |= edge(context, BT_L2U, problem, context->problems[i]) || bt_u2l(context->problems[i], problem);
    }
    if (problem->settings->meta_batch > 1 && !child)
        return bt_fail(BT_ERROR_CONFIG,
                       "[%s] meta_batch counts inner loops, but no solution reaches %s (l2u): for several batches to "
                       "one step take gradient_accumulation",
                       problem->name, problem->name);
    if (uses && !used && !child)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s is upper to a problem (u2l), but no solution reaches its loss: it would have no "
                       "hypergradient. Add `l2u = LOWER > %s` under [dependencies], for the problem whose solution its "
                       "loss uses",
                       problem->name, problem->name);
    return BT_OK;
}

static bt_status check_precision(const bt_problem *a, const bt_problem *b)
{
    if (a->dtype == b->dtype)
        return BT_OK;
    return bt_fail(BT_ERROR_UNSUPPORTED, "%s (%s) and %s (%s) depend on each other and need the same precision",
                   a->name, bt_dtype_name(a->dtype), b->name, bt_dtype_name(b->dtype));
}

bt_status bt_wires_check(const bt_context *context)
{
    for (int i = 0; i < context->problem_count; i++)
        for (int j = 0; j < context->problem_count; j++) {
            const bt_problem *a = context->problems[i], *b = context->problems[j];
            if (a->settings->active && b->settings->active && i != j && (edge(context, BT_L2U, a, b) || bt_u2l(a, b)))
                BT_TRY(check_precision(a, b));
        }
    for (int i = 0; i < context->problem_count; i++)
        if (context->problems[i]->settings->active)
            BT_TRY(check_reach(context->problems[i]));
    return BT_OK;
}

/* A leaf whose solution the loss of another one reads comes before that one. */
static bt_status list_leaves(bt_context *context)
{
    size_t count = (size_t)context->problem_count;
    bool *in = bt_alloc_array(count, sizeof *in);
    bt_problem **leaves = bt_alloc_array(count, sizeof *leaves);
    if (!in || !leaves) {
        bt_free(in);
        bt_free(leaves);
        return BT_ERROR_MEMORY;
    }
    for (int i = 0; i < context->problem_count; i++)
        in[i] = context->problems[i]->settings->active && !context->problems[i]->child_count;
    context->leaf_count = order(context, in, true, leaves);
    bt_free(in);
    bt_free(context->leaves);
    context->leaves = leaves;
    return BT_OK;
}

/* Whose solution is ready for the problem is part of the run: "ready.CHILD". */
static bt_status open_ready(bt_problem *problem)
{
    size_t count = (size_t)problem->child_count;
    if (!count)
        return BT_OK;
    problem->ready = bt_alloc_array(count, sizeof *problem->ready);
    problem->ready_names = bt_alloc_array(count, sizeof *problem->ready_names);
    if (!problem->ready || !problem->ready_names)
        return BT_ERROR_MEMORY;
    for (int c = 0; c < problem->child_count; c++) {
        problem->ready_names[c] = bt_string("ready.%s", problem->children[c]->name);
        if (!problem->ready_names[c])
            return BT_ERROR_MEMORY;
        BT_TRY(bt_ledger_enter_number(problem->context, problem, BT_ROLE_CLOCK, problem->ready_names[c], BT_ROW_BOOL,
                                      &problem->ready[c]));
    }
    return BT_OK;
}

bt_status bt_wire(bt_context *context)
{
    BT_TRY(bt_wires_check(context));
    for (int i = 0; i < context->problem_count; i++)
        for (int j = 0; j < context->problem_count; j++) {
            bt_problem *a = context->problems[i], *b = context->problems[j];
            if (a->settings->active && b->settings->active && i != j && edge(context, BT_L2U, a, b))
                BT_TRY(add_family(a, b));
        }
    for (int i = 0; i < context->problem_count; i++)
        BT_TRY(open_ready(context->problems[i]));
    return list_leaves(context);
}

void bt_unwire(bt_problem *problem)
{
    for (int c = 0; problem->ready && c < problem->child_count; c++) {
        bt_ledger_leave(problem->context, &problem->ready[c]);
        if (problem->ready_names)
            bt_free(problem->ready_names[c]);
    }
    bt_free(problem->ready_names);
    bt_free(problem->ready);
    bt_free(problem->parents);
    bt_free(problem->children);
    problem->parents = problem->children = NULL;
    problem->ready = NULL;
    problem->ready_names = NULL;
    problem->parent_count = problem->child_count = 0;
}
