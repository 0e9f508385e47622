/* engine/hierarchy/wire.c: who depends on whom. */
#include "engine/solve/unrolled.h"
#include "engine/solve/methods.h"

#include <string.h>

static bool edge(const bt_engine *engine, bt_direction direction, const bt_problem *from, const bt_problem *to)
{
    int count;
    const bt_dependency *all = bt_config_dependencies(engine->config, &count);
    for (int i = 0; i < count; i++)
        if (all[i].direction == direction && strcmp(all[i].from, from->name) == 0 && strcmp(all[i].to, to->name) == 0)
            return true;
    return false;
}

bool bt_u2l(const bt_problem *upper, const bt_problem *lower) { return edge(upper->engine, BT_U2L, upper, lower); }

/* Marks all problems that can be reached from `from`; `seen` is by place. */
static void reach(const bt_engine *engine, bt_direction direction, const bt_problem *from, bool *seen)
{
    for (int i = 0; i < engine->problem_count; i++) {
        const bt_problem *to = engine->problems[i];
        if (!seen[i] && edge(engine, direction, from, to)) {
            seen[i] = true;
            reach(engine, direction, to, seen);
        }
    }
}

/* One after another: a problem comes when nobody below it (or, with `down`, above it), by u2l, is still waiting. */
static int order(const bt_engine *engine, const bool *in, bool down, bt_problem **list)
{
    bool *done = bt_alloc_array((size_t)engine->problem_count, sizeof *done);
    int count = 0;
    for (bool found = done != NULL; found;) {
        found = false;
        for (int i = 0; i < engine->problem_count && !found; i++) {
            bool free = in[i] && !done[i];
            for (int j = 0; free && j < engine->problem_count; j++)
                free = !(in[j] && !done[j] && j != i &&
                         bt_u2l(engine->problems[down ? j : i], engine->problems[down ? i : j]));
            if (free) {
                done[i] = found = true;
                list[count++] = engine->problems[i];
            }
        }
    }
    bt_free(done);
    return count;
}

/* Marks what can be reached against u2l from a marked problem, within `below`: its loss does not enter the upper one's,
 * but its solution that of a problem whose does. */
static void reach_back(const bt_engine *engine, const bool *below, bool *in)
{
    for (bool found = true; found;) {
        found = false;
        for (int i = 0; i < engine->problem_count; i++)
            for (int j = 0; j < engine->problem_count && below[i] && !in[i]; j++)
                if (in[j] && bt_u2l(engine->problems[i], engine->problems[j]))
                    found = in[i] = true;
    }
}

int bt_lowers(const bt_problem *upper, bt_problem **lowers)
{
    const bt_engine *engine = upper->engine;
    size_t count = (size_t)engine->problem_count;
    bool *below = bt_alloc_array(count, sizeof *below), *above = bt_alloc_array(count, sizeof *above);
    bool *in = bt_alloc_array(count, sizeof *in);
    int found = 0;
    if (below && above && in) {
        reach(engine, BT_U2L, upper, below);
        below[upper->place] = false;
        for (int i = 0; i < engine->problem_count; i++) {
            memset(above, 0, count * sizeof *above);
            reach(engine, BT_L2U, engine->problems[i], above);
            in[i] = below[i] && engine->problems[i]->settings->active && above[upper->place];
        }
        reach_back(engine, below, in);
        found = order(engine, in, false, lowers);
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
    bool *ready = bt_alloc_array((size_t)parent->child_count + 1, sizeof *ready);
    if (!parents || !children || !ready) {
        bt_free(parents);
        bt_free(children);
        bt_free(ready);
        return BT_ERROR_MEMORY;
    }
    if (child->parent_count)
        memcpy(parents, child->parents, (size_t)child->parent_count * sizeof *parents);
    if (parent->child_count)
        memcpy(children, parent->children, (size_t)parent->child_count * sizeof *children);
    bt_free(child->parents);
    bt_free(parent->children);
    bt_free(parent->ready);
    child->parents = parents;
    parent->children = children;
    parent->ready = ready;
    child->parents[child->parent_count++] = parent;
    parent->children[parent->child_count++] = child;
    return BT_OK;
}

/* Whose solution it uses; NULL: nobody's. */
static const bt_problem *first_child(const bt_problem *problem)
{
    const bt_engine *engine = problem->engine;
    for (int i = 0; i < engine->problem_count; i++)
        if (engine->problems[i]->settings->active && edge(engine, BT_L2U, engine->problems[i], problem))
            return engine->problems[i];
    return NULL;
}

/* Every active level must take part: be trained, or be what a trained one depends on. */
static bt_status check_reach(const bt_problem *problem)
{
    const bt_engine *engine = problem->engine;
    const bt_problem *child = first_child(problem);
    bool uses = false, used = false;
    for (int i = 0; i < engine->problem_count; i++) {
        uses |= bt_u2l(problem, engine->problems[i]) && engine->problems[i]->settings->active;
        used |= edge(engine, BT_L2U, problem, engine->problems[i]) || bt_u2l(engine->problems[i], problem);
    }
    if (problem->settings->meta_batch > 1 && !child)
        return bt_fail(BT_ERROR_CONFIG,
                       "[%s] meta_batch counts inner loops, but no solution reaches %s (l2u): for several batches to "
                       "one step take gradient_accumulation",
                       problem->name, problem->name);
    if (uses && !used && !child)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s is upper to a problem (u2l), but no solution reaches its loss: it would never step. Add "
                       "`l2u = LOWER > %s` under [dependencies]",
                       problem->name, problem->name);
    if (!child)
        return BT_OK;
    bt_problem **lowers = bt_alloc_array((size_t)engine->problem_count, sizeof(bt_problem *));
    int count = lowers ? bt_lowers(problem, lowers) : 0;
    bt_free(lowers);
    if (count)
        return BT_OK;
    return bt_fail(BT_ERROR_CONFIG,
                   "%s uses the solution of %s (l2u), but nothing of it reaches that problem (u2l): its "
                   "hypergradient would be its direct gradient alone. Add `u2l = %s > %s` under [dependencies]",
                   problem->name, child->name, problem->name, child->name);
}

static bt_status check_precision(const bt_problem *a, const bt_problem *b)
{
    if (a->dtype == b->dtype)
        return BT_OK;
    return bt_fail(BT_ERROR_UNSUPPORTED, "%s (%s) and %s (%s) depend on each other and need the same precision",
                   a->name, bt_dtype_name(a->dtype), b->name, bt_dtype_name(b->dtype));
}

bt_status bt_engine_check_wires(const bt_engine *engine)
{
    for (int i = 0; i < engine->problem_count; i++)
        for (int j = 0; j < engine->problem_count; j++) {
            const bt_problem *a = engine->problems[i], *b = engine->problems[j];
            if (a->settings->active && b->settings->active && i != j && (edge(engine, BT_L2U, a, b) || bt_u2l(a, b)))
                BT_TRY(check_precision(a, b));
        }
    for (int i = 0; i < engine->problem_count; i++)
        if (engine->problems[i]->settings->active)
            BT_TRY(check_reach(engine->problems[i]));
    return BT_OK;
}

/* A leaf whose solution the loss of another one reads comes before that one. */
static bt_status list_leaves(bt_engine *engine)
{
    size_t count = (size_t)engine->problem_count;
    bool *in = bt_alloc_array(count, sizeof *in);
    bt_problem **leaves = bt_alloc_array(count, sizeof *leaves);
    if (!in || !leaves) {
        bt_free(in);
        bt_free(leaves);
        return BT_ERROR_MEMORY;
    }
    for (int i = 0; i < engine->problem_count; i++)
        in[i] = engine->problems[i]->settings->active && !engine->problems[i]->child_count;
    engine->leaf_count = order(engine, in, true, leaves);
    bt_free(in);
    bt_free(engine->leaves);
    engine->leaves = leaves;
    return BT_OK;
}

bt_status bt_engine_wire(bt_engine *engine)
{
    BT_TRY(bt_engine_check_wires(engine));
    for (int i = 0; i < engine->problem_count; i++)
        for (int j = 0; j < engine->problem_count; j++) {
            bt_problem *a = engine->problems[i], *b = engine->problems[j];
            if (a->settings->active && b->settings->active && i != j && edge(engine, BT_L2U, a, b))
                BT_TRY(add_family(a, b));
        }
    return list_leaves(engine);
}

/* ---- what is computed ---- */

/* " - (d2C_q/d(p)d(q))^T x_q" */
static void add_product(bt_text *text, const bt_problem *p, const bt_problem *q)
{
    bt_text_add(text, " - (d2C_%s/d(%s)d(%s))^T x_%s", q->name, p->name, q->name, q->name);
}

/* What goes back through steps has no x of its own: it is summed over them. */
static void add_unrolled(bt_text *text, const bt_problem *lower, const char *product)
{
    long long steps = bt_itd_setting(lower, "steps");
    bt_text_add(text, "  x_%s = itd(a_%s): back through ", lower->name, lower->name);
    if (steps)
        bt_text_add(text, "the last %lld of ", steps);
    bt_text_add(text, "its steps since the upper problem's last%s, product %s",
                lower->def->start ? ", and through start" : "",
                bt_itd_setting(lower, "second_order") ? product : "left out (second_order = 0)");
}

static void add_solve(bt_text *text, const bt_problem *upper, bt_problem *const *lowers, int q)
{
    static const char *const products[] = {"jvp", "vjp", "finite", "of the penalty"}, *const detaches[] = {
                                                                                          "frozen", "field", "follow"};
    const bt_problem *lower = lowers[q];
    const bt_problem_settings *s = lower->settings;
    const bt_graph *loss = lower->pure[BT_PURE_STEP];
    int product = s->method->penalty ? BT_COUNT_OF(products) - 1 : loss ? bt_product_of(lower, loss) : s->product;
    if (bt_unrolls(lower))
        add_unrolled(text, lower, products[product]);
    else
        bt_text_add(text, "  x_%s = %s(a_%s), product %s", lower->name, s->method->name, lower->name,
                    products[product]);
    bt_text_add(text, ", detach %s; a_%s = dC_%s/d(%s)", detaches[s->detach], lower->name, upper->name, lower->name);
    for (int r = 0; r < q; r++)
        if (bt_u2l(lower, lowers[r]))
            add_product(text, lower, lowers[r]);
    bt_text_add(text, "\n");
}

void bt_print_equation(bt_engine *engine, bt_text *text)
{
    bt_problem **lowers = bt_alloc_array((size_t)engine->problem_count + 1, sizeof(bt_problem *));
    for (int i = 0; lowers && i < engine->problem_count; i++) {
        const bt_problem *upper = engine->problems[i];
        if (!upper->settings->active)
            continue;
        int count = bt_lowers(upper, lowers);
        bt_text_add(text, "%s: d/d(%s) = dC_%s/d(%s)", upper->name, upper->name, upper->name, upper->name);
        for (int q = 0; q < count; q++)
            if (bt_u2l(upper, lowers[q]))
                add_product(text, upper, lowers[q]);
        bt_text_add(text, "\n");
        for (int q = 0; q < count; q++)
            add_solve(text, upper, lowers, q);
    }
    text->failed = text->failed || !lowers;
    bt_free(lowers);
}
