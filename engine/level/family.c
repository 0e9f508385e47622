/* engine/level/family.c: the problems above and below a problem, from the hierarchy. */
#include "engine/level/level.h"

bool bt_u2l(const bt_problem *upper, const bt_problem *lower)
{
    return bt_hierarchy_has(&upper->context->hierarchy, BT_U2L, upper->place, lower->place);
}

static int as_problems(const bt_context *context, bt_places places, bt_problem **list)
{
    for (int i = 0; i < places.count; i++)
        list[i] = context->problems[places.list[i]];
    return places.count;
}

const bt_method_def bt_method_none = {.name = "none"};

bool bt_is_constant(const bt_problem *lower) { return lower->settings->method == &bt_method_none; }

/* Whether the dependencies of this one's solution are needed, by the upper problem or by one that is solved later. */
static bool is_wanted(const bt_problem *upper, bt_problem *const *later, int count, const bt_problem *lower)
{
    for (int i = 0; i < count; i++)
        if (later[i] && bt_u2l(later[i], lower))
            return true;
    return bt_u2l(upper, lower);
}

int bt_lowers(const bt_problem *upper, bt_problem **lowers)
{
    const bt_hierarchy *h = &upper->context->hierarchy;
    int all = as_problems(upper->context, bt_hierarchy_lowers(h, upper->place), lowers), count = 0;
    bool constants = false;
    for (int q = 0; q < all; q++)
        constants |= bt_is_constant(lowers[q]);
    if (!constants)
        return all;
    for (int q = all - 1; q >= 0; q--)
        if (bt_is_constant(lowers[q]) || !is_wanted(upper, lowers + q + 1, all - q - 1, lowers[q]))
            lowers[q] = NULL;
    for (int q = 0; q < all; q++)
        if (lowers[q])
            lowers[count++] = lowers[q];
    return count;
}

/* Every active level must take part: be trained, or be used by a trained one. */
static bt_status check_reach(const bt_hierarchy *h, const bt_problem *problem)
{
    int place = problem->place;
    bool has_child = bt_hierarchy_next(h, BT_L2U, BT_AGAINST, place).count > 0;
    bool uses = bt_hierarchy_next(h, BT_U2L, BT_ALONG, place).count > 0;
    bool used = bt_hierarchy_next(h, BT_L2U, BT_ALONG, place).count > 0 ||
                bt_hierarchy_next(h, BT_U2L, BT_AGAINST, place).count > 0;
    if (problem->settings->meta_batch > 1 && !has_child)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s counts inner loops, but no solution reaches %s (l2u): to use several batches per step, set "
                       "gradient_accumulation",
                       bt_config_place(problem->context->config, problem->name, "meta_batch"), problem->name);
    if (uses && !used && !has_child)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s is upper to a problem (u2l), but no solution reaches its loss: it would have no "
                       "hypergradient. Add `l2u = LOWER > %s` under [dependencies], for the problem whose solution its "
                       "loss uses; to treat that solution as a constant, as in a first-order search, set type = none "
                       "for LOWER",
                       problem->name, problem->name);
    return BT_OK;
}

/* The first of those places with a different precision; the number of problems if there is none. */
static int other_precision(const bt_context *context, bt_places places, bt_dtype dtype)
{
    for (int i = 0; i < places.count; i++)
        if (context->problems[places.list[i]]->dtype != dtype)
            return places.list[i];
    return context->problem_count;
}

static bt_status check_precision(const bt_hierarchy *h, const bt_problem *a)
{
    const bt_context *context = a->context;
    int lower = other_precision(context, bt_hierarchy_next(h, BT_U2L, BT_ALONG, a->place), a->dtype);
    int upper = other_precision(context, bt_hierarchy_next(h, BT_L2U, BT_ALONG, a->place), a->dtype);
    int first = lower < upper ? lower : upper;
    if (first == context->problem_count)
        return BT_OK;
    const bt_problem *b = context->problems[first];
    bt_fail(BT_ERROR_UNSUPPORTED, "%s (%s) and %s (%s) depend on each other and need the same precision", a->name,
            bt_dtype_name(a->dtype), b->name, bt_dtype_name(b->dtype));
    const char *set = bt_config_origin(context->config, a->name, "precision") ? a->name : b->name;
    bt_error_context("%s", bt_config_place(context->config, set, "precision"));
    return BT_ERROR_UNSUPPORTED;
}

static bt_status check(const bt_context *context, const bt_hierarchy *h)
{
    for (int i = 0; i < context->problem_count; i++)
        BT_TRY(check_precision(h, context->problems[i]));
    for (int i = 0; i < context->problem_count; i++)
        if (context->problems[i]->settings->active)
            BT_TRY(check_reach(h, context->problems[i]));
    return BT_OK;
}

bt_status bt_wires_check(const bt_context *context)
{
    bt_hierarchy h;
    BT_TRY(bt_config_hierarchy(context->config, &h));
    bt_status status = check(context, &h);
    bt_hierarchy_free(&h);
    return status;
}

static void unwire(bt_problem *problem)
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

void bt_unwire(bt_context *context)
{
    for (int i = 0; i < context->problem_count; i++)
        unwire(context->problems[i]);
    bt_free(context->leaves);
    context->leaves = NULL;
    context->leaf_count = 0;
    bt_hierarchy_free(&context->hierarchy);
}

/* The flags that say which solutions are ready for the problem are part of the run: "ready.CHILD". */
static bt_status open_ready(bt_problem *problem)
{
    size_t count = (size_t)problem->child_count;
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

static bt_status list_family(bt_problem *problem)
{
    const bt_context *context = problem->context;
    bt_places children = bt_hierarchy_next(&context->hierarchy, BT_L2U, BT_AGAINST, problem->place);
    bt_places parents = bt_hierarchy_next(&context->hierarchy, BT_L2U, BT_ALONG, problem->place);
    problem->children = bt_alloc_array((size_t)children.count, sizeof(bt_problem *));
    problem->parents = bt_alloc_array((size_t)parents.count, sizeof(bt_problem *));
    if (!problem->children || !problem->parents)
        return BT_ERROR_MEMORY;
    problem->child_count = as_problems(context, children, problem->children);
    problem->parent_count = as_problems(context, parents, problem->parents);
    return open_ready(problem);
}

static bt_status list_leaves(bt_context *context)
{
    size_t count = (size_t)context->problem_count;
    bool *in = bt_alloc_array(count, sizeof *in);
    context->leaves = bt_alloc_array(count, sizeof(bt_problem *));
    for (size_t i = 0; in && i < count; i++)
        in[i] = context->problems[i]->settings->active;
    if (in && context->leaves)
        context->leaf_count = as_problems(context, bt_hierarchy_leaves(&context->hierarchy, in), context->leaves);
    bt_free(in);
    return in && context->leaves ? BT_OK : BT_ERROR_MEMORY;
}

bt_status bt_wire(bt_context *context)
{
    bt_unwire(context);
    BT_TRY(bt_config_hierarchy(context->config, &context->hierarchy));
    BT_TRY(check(context, &context->hierarchy));
    for (int i = 0; i < context->problem_count; i++)
        BT_TRY(list_family(context->problems[i]));
    return list_leaves(context);
}
