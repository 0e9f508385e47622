/* engine/level/prune.c: magnitude pruning between steps: finds the smallest weights among all that a problem prunes.
 * These are its trained parameters with two axes or more; biases, scales and shifts are not pruned. The programs keep
 * pruned weights at 0 (traced/prune.c). */
#include "engine/level/prune.h"

#include "runtime/store.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t bt_prune_due(const bt_problem_settings *settings, int64_t updates, int64_t weights)
{
    const double length = (double)(settings->prune_end - settings->prune_begin);
    const double t = fmin(fmax((double)(updates - settings->prune_begin) / length, 0), 1);
    return (int64_t)nearbyint(settings->prune * (1 - pow(1 - t, 3)) * (double)weights);
}

/* ---- the masks ---- */

static bool prunes(const bt_problem *problem, int64_t i)
{
    return problem->trainable[i] && problem->module->params[i]->shape.rank >= 2;
}

static bt_status check(const bt_problem *problem)
{
    const bt_problem_settings *s = problem->settings;
    bool any = false;
    for (int64_t i = 0; i < problem->module->param_count; i++)
        any |= prunes(problem, i);
    const char *place = bt_config_place(problem->context->config, problem->name, "prune");
    if (!any)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s = %g: %s trains no parameter with two axes or more, and others are not pruned", place,
                       s->prune, problem->name);
    if (s->prune_end <= s->prune_begin)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s = %g: it is reached at update prune_end = %lld, which must be above prune_begin = %lld",
                       place, s->prune, (long long)s->prune_end, (long long)s->prune_begin);
    if (s->method->unrolls)
        return bt_fail(
            BT_ERROR_UNSUPPORTED,
            "%s = %g: type = %s differentiates through the steps, which do not include pruning; use another type",
            place, s->prune, s->method->name);
    if (problem->def->start)
        return bt_fail(BT_ERROR_UNSUPPORTED,
                       "%s = %g: `start` sets the parameters of %s at the start of each inner loop, so pruned weights "
                       "would not stay 0",
                       place, s->prune, problem->name);
    return BT_OK;
}

static bt_status make_masks(bt_problem *problem)
{
    const int64_t count = problem->module->param_count;
    bt_array *shapes = bt_alloc_array((size_t)count, sizeof *shapes);
    const char **names = bt_alloc_array((size_t)count, sizeof *names);
    bt_status status = shapes && names ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < count; i++) {
        const bt_slate *param = problem->module->params[i];
        shapes[i] = (bt_array){.dtype = BT_U8, .rank = 1, .dims = {(bt_array_count(param->shape) + 7) / 8}};
        names[i] = prunes(problem, i) ? param->path : NULL;
    }
    if (status == BT_OK)
        status = bt_block_new(&problem->masks, BT_RUN, BT_OPTIMIZER, problem->name, "prune", BT_U8, shapes, names,
                              problem->order, count);
    bt_free(shapes);
    bt_free(names);
    return status;
}

/* ---- a mask on the host ---- */

typedef struct weight {
    double size;
    int64_t parameter, element;
} weight;

typedef struct pruning {
    bt_problem *problem;
    unsigned char **masks; /* by parameter; NULL: not pruned */
    int64_t weights, kept; /* of all masks */
} pruning;

static bool is_kept(const unsigned char *mask, int64_t e) { return mask[e / 8] >> (e % 8) & 1; }

static int64_t elements(const bt_problem *problem, int64_t i)
{
    return bt_array_count(problem->module->params[i]->shape);
}

static void pruning_free(pruning *p)
{
    for (int64_t i = 0; p->masks && i < p->problem->module->param_count; i++)
        bt_free(p->masks[i]);
    bt_free(p->masks);
}

static bt_status pruning_new(pruning *p, bt_problem *problem)
{
    const bt_instance *instance = problem->context->instance;
    *p = (pruning){.problem = problem};
    p->masks = bt_alloc_array((size_t)problem->module->param_count, sizeof *p->masks);
    for (int64_t i = 0; p->masks && i < problem->module->param_count; i++) {
        const bt_var *mask = problem->masks.windows[i];
        if (!mask)
            continue;
        if (!(p->masks[i] = bt_alloc(mask->bytes)))
            return BT_ERROR_MEMORY;
        BT_TRY(bt_store_read(instance, mask, 0, p->masks[i], mask->bytes));
        p->weights += elements(problem, i);
        for (int64_t e = 0; e < elements(problem, i); e++)
            p->kept += is_kept(p->masks[i], e);
    }
    return p->masks ? BT_OK : BT_ERROR_MEMORY;
}

/* ---- the smallest ---- */

static int by_size(const void *a, const void *b)
{
    const weight *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    if (x->parameter != y->parameter)
        return x->parameter < y->parameter ? -1 : 1;
    return x->element < y->element ? -1 : x->element > y->element;
}

/* Adds the kept weights of a parameter. */
static bt_status add_kept(const pruning *p, int64_t i, weight *list, int64_t *count)
{
    const bt_problem *problem = p->problem;
    const int64_t n = elements(problem, i);
    double *values = bt_alloc_array((size_t)n + 1, sizeof *values);
    bt_status status =
        values ? bt_store_to_array(problem->context->instance, problem->module->params[i]->var, BT_ARRAY(values, n))
               : BT_ERROR_MEMORY;
    for (int64_t e = 0; status == BT_OK && e < n; e++)
        if (is_kept(p->masks[i], e))
            list[(*count)++] = (weight){fabs(values[e]), i, e};
    bt_free(values);
    return status;
}

/* The kept weights, smallest first; NULL after an error. */
static weight *sorted(const pruning *p)
{
    weight *list = bt_alloc_array((size_t)p->kept + 1, sizeof *list);
    bt_status status = list ? BT_OK : BT_ERROR_MEMORY;
    int64_t count = 0;
    for (int64_t i = 0; status == BT_OK && i < p->problem->module->param_count; i++)
        if (p->masks[i])
            status = add_kept(p, i, list, &count);
    if (status == BT_OK) {
        qsort(list, (size_t)count, sizeof *list, by_size);
        return list;
    }
    bt_free(list);
    return NULL;
}

/* Sets a weight to 0, and the optimiser's floating-point state for it, if there is one value per weight. */
static bt_status drop(pruning *p, const weight *w)
{
    bt_problem *problem = p->problem;
    bt_instance *instance = problem->context->instance;
    p->masks[w->parameter][w->element / 8] &= (unsigned char)~(1u << (w->element % 8));
    BT_TRY(bt_store_put(instance, problem->module->params[w->parameter]->var, w->element, 0));
    for (int k = 0; k < bt_optimizer_slot_count(problem->optimizer); k++) {
        bt_var *slot = problem->slots[k].windows[w->parameter];
        if (slot && bt_dtype_floats(slot->dtype) &&
            bt_shape_same(bt_var_array(slot), problem->module->params[w->parameter]->shape))
            BT_TRY(bt_store_put(instance, slot, w->element, 0));
    }
    return BT_OK;
}

static bt_status drop_due(pruning *p)
{
    const int64_t due = bt_prune_due(p->problem->settings, p->problem->steps, p->weights) - (p->weights - p->kept);
    if (due <= 0)
        return BT_OK;
    weight *list = sorted(p);
    bt_status status = list ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t k = 0; k < due && status == BT_OK; k++)
        status = drop(p, &list[k]);
    bt_free(list);
    for (int64_t i = 0; i < p->problem->module->param_count && status == BT_OK; i++) {
        bt_var *mask = p->problem->masks.windows[i];
        if (mask)
            status = bt_store_write(p->problem->context->instance, mask, 0, p->masks[i], mask->bytes);
    }
    return status;
}

/* ---- a problem's life ---- */

bt_status bt_prune_open(bt_problem *problem)
{
    if (problem->settings->prune == 0 || !problem->settings->active)
        return BT_OK;
    BT_TRY(check(problem));
    BT_TRY(make_masks(problem));
    for (int64_t i = 0; i < problem->module->param_count; i++) {
        bt_var *mask = problem->masks.windows[i];
        for (size_t b = 0; mask && b < mask->bytes; b++)
            BT_TRY(bt_store_write(problem->context->instance, mask, b, &(unsigned char){0xff}, 1));
    }
    return bt_ledger_enter_block(problem->context, problem, BT_ROLE_SLOT, &problem->masks);
}

bt_status bt_prune_step(bt_problem *problem)
{
    if (!problem->masks.flat || problem->steps <= problem->settings->prune_begin)
        return BT_OK;
    pruning p;
    bt_status status = pruning_new(&p, problem);
    if (status == BT_OK)
        status = drop_due(&p);
    pruning_free(&p);
    return status == BT_ERROR_MEMORY ? bt_fail(status, "%s: out of memory", problem->name) : status;
}
