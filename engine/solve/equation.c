/* engine/solve/equation.c: prints the equation of every level. */
#include "engine/solve/solve.h"

/* " - (d2C_q/d(p)d(q))^T x_q" */
static void add_product(bt_text *text, const bt_problem *p, const bt_problem *q)
{
    bt_text_add(text, " - (d2C_%s/d(%s)d(%s))^T x_%s", q->name, p->name, q->name, q->name);
}

static void add_solve(bt_text *text, const bt_problem *upper, bt_problem *const *lowers, int q)
{
    static const char *const products[] = {"jvp", "vjp", "finite", "of the penalty"}, *const detaches[] = {
                                                                                          "frozen", "field", "follow"};
    const bt_problem *lower = lowers[q];
    const bt_problem_settings *s = lower->settings;
    const bt_graph *loss = bt_traced_graph(lower, BT_PURE_STEP);
    int product = s->method->penalty ? BT_COUNT_OF(products) - 1 : loss ? bt_product_of(lower, loss) : s->product;
    bt_text_add(text, "  x_%s = ", lower->name);
    bt_solver_of(lower)->describe(lower, products[product], text);
    bt_text_add(text, ", detach %s; a_%s = dC_%s/d(%s)", detaches[s->detach], lower->name, upper->name, lower->name);
    for (int r = 0; r < q; r++)
        if (bt_u2l(lower, lowers[r]))
            add_product(text, lower, lowers[r]);
    bt_text_add(text, "\n");
}

void bt_print_equation(bt_context *context, bt_text *text)
{
    bt_problem **lowers = bt_alloc_array((size_t)context->problem_count + 1, sizeof(bt_problem *));
    for (int i = 0; lowers && i < context->problem_count; i++) {
        const bt_problem *upper = context->problems[i];
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
        for (int c = 0; c < upper->child_count; c++)
            if (bt_is_constant(upper->children[c]))
                bt_text_add(text, "  %s: type = none, its solution counts as a constant\n", upper->children[c]->name);
    }
    text->failed = text->failed || !lowers;
    bt_free(lowers);
}
