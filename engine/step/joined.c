/* engine/step/joined.c: the upper gradient v and the product with x = v as one program. The factors of v and of its
 * product are then in one chain of matrix products, which transform/reassociate.h can reorder: a gradient X^T d of a
 * large layer is never formed if only Z (X^T d) = (Z X^T) d is needed. If this saves nothing, they stay separate
 * programs, with v in a phase variable. */
#include "engine/step/step.h"

#include "graph/variable.h"
#include "transform/join.h"
#include "transform/reassociate.h"

/* Whether the gradient reads bt_step or bt_inner_step of another level, which the host changes between the gradient and
 * the product. */
static bool reads_steps(const bt_problem *upper, const bt_graph *graph)
{
    for (int p = 0; p < upper->context->problem_count; p++) {
        const bt_problem *other = upper->context->problems[p];
        for (int64_t n = 0; other != upper && other->shows_steps && n < graph->node_count; n++)
            if (graph->nodes[n]->op == &bt_op_read &&
                bt_shows_steps(other, ((const bt_read_attr *)graph->nodes[n]->attr)->var))
                return true;
    }
    return false;
}

/* Whether the step has one gradient, followed by a product with the adjoint that it left. */
static bool may_join(const bt_problem *upper)
{
    const bt_step_phase *step = upper->step;
    return step->phase->options.reassociate && !upper->context->apart && step->site.solve_count > 0 &&
           upper->settings->gradient_accumulation == 1 && !bt_solve_rests(&step->site, &step->site.solves[0]) &&
           step->site.solves[0].solver->is_product && step->site.solves[0].solver->is_product(&step->site.solves[0]);
}

/* Adds to *saved what reordering the graph's products saves. */
static bt_status add_saving(const bt_problem *upper, const bt_graph *graph, double sign, double *saved)
{
    bt_graph *lowered = bt_compile_lowered(graph, &upper->step->phase->options), *shorter;
    double saving;
    if (!lowered)
        return bt_error_status();
    bt_status status = bt_reassociate(lowered, &shorter, &saving);
    *saved += sign * saving;
    bt_graph_free(shorter);
    bt_graph_free(lowered);
    return status;
}

/* Whether joining them saves products. */
static bt_status pays(const bt_problem *upper, const bt_graph *gradient, const bt_graph *product,
                      const bt_graph *joined, bool *gain)
{
    double saved = 0;
    BT_TRY(add_saving(upper, joined, 1, &saved));
    if (saved > 0) {
        BT_TRY(add_saving(upper, gradient, -1, &saved));
        BT_TRY(add_saving(upper, product, -1, &saved));
    }
    *gain = saved > 0;
    return BT_OK;
}

/* Joins every gradient with every product; *all is false if two of them must, or should, stay separate. */
static bt_status join_all(bt_problem *upper, bt_graph *const *gradients, bt_graph **joined, bool *all)
{
    bt_solve *solve = &upper->step->site.solves[0];
    bt_status status = BT_OK;
    *all = true;
    for (int v = 0; v < solve->micros.shape_count && status == BT_OK && *all; v++) {
        bt_graph *product = solve->solver->product(&upper->step->site, solve, v);
        if (!product)
            return bt_error_status();
        for (int s = 0; s < upper->train->shape_count && status == BT_OK && *all; s++) {
            bt_graph **graph = &joined[v * BT_MAX_SHAPES + s];
            status = bt_join(gradients[s], product, solve->adjoint.flat, graph);
            *all = *graph != NULL;
            if (*all && v == 0 && s == 0)
                status = pays(upper, gradients[s], product, *graph, all);
        }
        bt_graph_free(product);
    }
    return status;
}

bt_status bt_joined_build(bt_problem *upper, bt_graph *const *gradients)
{
    bt_step_phase *step = upper->step;
    step->joins = false;
    if (!may_join(upper))
        return BT_OK;
    for (int s = 0; s < upper->train->shape_count; s++)
        if (reads_steps(upper, gradients[s]))
            return BT_OK;
    bt_graph *joined[BT_MAX_SHAPES * BT_MAX_SHAPES] = {NULL};
    bool all;
    bt_status status = join_all(upper, gradients, joined, &all);
    step->joins = status == BT_OK && all;
    for (int i = 0; i < BT_COUNT_OF(joined); i++) {
        if (joined[i] && step->joins && status == BT_OK) {
            step->phase->runs = i ? 0 : 1;
            int entry = bt_phase_add(step->phase, joined[i], 0, "gradient and product");
            step->phase->runs = 1;
            step->joined[i % BT_MAX_SHAPES][i / BT_MAX_SHAPES] = entry;
            status = entry < 0 ? bt_error_status() : BT_OK;
        }
        bt_graph_free(joined[i]);
    }
    return status;
}
