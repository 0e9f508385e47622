/* optim/update.c: one traced update of a set of segments: finiteness, clipping, schedules, the rule, counters. */
#include "optim/optim.h"

#include "ops/ops.h"
#include <stdio.h>

typedef struct update_trace { /* shared by all segments of one update */
    bt_optimizer *optimizer;
    char what[80];                      /* "optimizer adam" */
    bt_tensor *applied;                 /* I64 [] */
    bt_tensor *ok;                      /* BT_BOOL [] */
    bt_tensor *scale;                   /* factor of the gradient, F64 []; NULL: 1 */
    bool slopes;                        /* slopes are requested */
    bt_tensor *scheduled[BT_MAX_ITEMS]; /* the value set by `schedule`; NULL: none */
    bt_tensor **rates;                  /* by group; NULL: not kept */
} update_trace;

static bool fits(const bt_tensor *x, const bt_tensor *like)
{
    return bt_shape_same(bt_tensor_array(x), bt_tensor_array(like));
}

/* ---- the gradient ---- */

/* The squared norm of all segments together, F64 []. */
static bt_tensor *total_square(const bt_update *update)
{
    bt_tensor *sum = NULL;
    for (int64_t i = 0; i < (update->wholes ? update->wholes : update->count); i++) {
        bt_tensor *grad = update->wholes ? update->whole[i] : update->segments[i].grad;
        bt_tensor *square = bt_as(bt_norm_square(grad), BT_F64);
        sum = sum ? bt_add(sum, square) : square;
    }
    return sum ? sum : bt_number(0, BT_F64);
}

static bt_tensor *clip_value(const bt_optimizer *optimizer, bt_tensor *grad)
{
    double limit = optimizer->clip.value;
    return limit > 0 ? bt_clamp(grad, -limit, limit) : grad;
}

/* min(1, limit / (norm + 1e-6)), as PyTorch's clip_grad_norm_. */
static bt_tensor *norm_scale(double limit, bt_tensor *norm)
{
    return bt_minimum(1.0, bt_div(limit, bt_add(norm, 1e-6)));
}

/* Whether the gradient is finite and, with a tolerance, exceeds it. A replayed update follows `made` instead. */
static bt_tensor *is_within(const bt_optimizer *optimizer, const bt_update *update)
{
    if (!optimizer->rested || update->made)
        return update->finite;
    /* The norm of a gradient that is not finite may be above. */
    return bt_greater(bt_where(update->finite, update->norm, bt_zeros_like(update->norm)), optimizer->tolerance);
}

/* Clips by value, checks that everything is finite, and finds the scale for the norm. */
static void prepare_gradient(update_trace *trace, bt_update *update)
{
    const bt_clip *clip = &trace->optimizer->clip;
    bt_tensor *square = total_square(update);
    update->norm = bt_sqrt(square);
    update->finite = update->made ? update->made : bt_isfinite(square);
    update->ok = trace->ok = is_within(trace->optimizer, update);
    if (clip->value > 0) {
        for (int64_t i = 0; i < update->count; i++) {
            bt_segment *segment = &update->segments[i];
            bt_tensor *clipped = clip_value(trace->optimizer, segment->grad);
            if (update->slopes && !bt_poisoned(clipped))
                segment->slope = bt_as(bt_equal(clipped, segment->grad), clipped->dtype);
            segment->grad = clipped;
        }
        for (int64_t i = 0; i < update->wholes; i++)
            update->whole[i] = clip_value(trace->optimizer, update->whole[i]);
        square = clip->norm > 0 ? total_square(update) : square;
    }
    trace->scale = clip->norm > 0 ? norm_scale(clip->norm, bt_sqrt(square)) : NULL;
}

/* ---- hyperparameters ---- */

/* A group's hyperparameter before `schedule` changes it, F64 []. */
static bt_tensor *own_value(const update_trace *trace, int group, int hyper)
{
    const bt_optimizer *optimizer = trace->optimizer;
    const bt_optimizer_group *settings = &optimizer->groups[group];
    if (!settings->vars[hyper])
        return bt_number(settings->values[hyper], BT_F64);
    bt_tensor *value = bt_trace_read(settings->vars[hyper]);
    if (hyper == bt_hyper_index(optimizer->kind.def->hypers, "lr"))
        value = bt_scheduler_lr(&optimizer->scheduler, value, trace->applied,
                                settings->scale ? bt_trace_read(settings->scale) : NULL);
    return value;
}

/* `schedule` has set hyperparameter `i`: poisons if the program does not allow it to change. */
static void check_scheduled(const update_trace *trace, int i)
{
    const bt_optimizer *optimizer = trace->optimizer;
    const bt_optimizer_kind *kind = &optimizer->kind;
    double values[BT_MAX_ITEMS];
    for (int k = 0; k < BT_MAX_ITEMS; k++)
        values[k] = optimizer->groups[0].values[k];
    values[i] = 0.5; /* anything but 0 */
    if (kind->fixed >> i & 1)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_hyper_set: %s: \"%s\" is fixed during training", trace->what,
                        kind->def->hypers[i].name);
    else if (kind->slots && (kind->slots(values) & ~optimizer->slots))
        bt_trace_poison(BT_ERROR_ARGUMENT,
                        "bt_hyper_set: %s: \"%s\" is %g in the settings, so no slot is kept for it; give it another "
                        "value there",
                        trace->what, kind->def->hypers[i].name, optimizer->groups[0].values[i]);
}

/* Whether the value is out of range or NaN. Constants are checked now. */
static bt_tensor *strays(const bt_hyper_def *def, bt_tensor *value)
{
    double number;
    if (bt_uniform(value, &number) && number >= def->low && number <= def->high)
        return NULL;
    return bt_equal(bt_as(bt_equal(value, bt_clamp(value, def->low, def->high)), BT_F64), 0);
}

static void call_schedule(update_trace *trace, bt_update *update)
{
    const bt_optimizer_def *def = trace->optimizer->kind.def;
    bt_rule rule;
    int count = bt_hyper_count(def->hypers), lr = bt_hyper_index(def->hypers, "lr");
    bt_rule_begin(&rule, trace->what, bt_trace_now()->dtype);
    rule.scheduling = true;
    for (int i = 0; i < count; i++)
        bt_rule_add_hyper(&rule, def->hypers[i].name, trace->optimizer->groups[0].values[i], own_value(trace, 0, i));
    if (update->schedule)
        update->schedule(update->context, &rule);
    for (int i = 0; i < count; i++) {
        trace->scheduled[i] = rule.hypers[i].next;
        if (rule.hypers[i].next)
            check_scheduled(trace, i);
        update->scheduled[i] = rule.hypers[i].next ? bt_as(rule.hypers[i].next, BT_F64) : NULL;
        update->strays[i] = rule.hypers[i].next ? strays(&def->hypers[i], rule.hypers[i].next) : NULL;
    }
    update->lr = lr < 0 ? NULL : bt_as(bt_rule_next(&rule.hypers[lr]), BT_F64);
}

/* A group's rule without slots, with numbers of the given dtype. */
static void group_rule(const update_trace *trace, int group, bt_dtype dtype, bt_rule *rule)
{
    const bt_optimizer *optimizer = trace->optimizer;
    const bt_optimizer_group *settings = &optimizer->groups[group];
    const bt_hyper_def *hypers = optimizer->kind.def->hypers;
    int lr = bt_hyper_index(hypers, "lr");
    bt_rule_begin(rule, trace->what, dtype);
    for (int i = 0, count = bt_hyper_count(hypers); i < count; i++) {
        bool scheduled = trace->scheduled[i] && !(settings->own >> i & 1);
        bt_tensor *value = scheduled ? trace->scheduled[i] : own_value(trace, group, i);
        if (i == lr && settings->lr_factor != 1)
            value = bt_mul(value, settings->lr_factor);
        if (i == lr && trace->rates)
            trace->rates[group] = bt_as(value, BT_F64);
        bt_rule_add_hyper(rule, hypers[i].name, settings->values[i], value);
    }
    rule->ok = trace->ok;
    rule->first = bt_equal(trace->applied, 0);
    rule->count = bt_as(bt_add(trace->applied, 1), BT_F64);
}

/* ---- segments ---- */

static bt_status check_segment(const update_trace *trace, const bt_segment *segment)
{
    const bt_tensor *param = segment->param, *grad = segment->grad;
    char found[256], expected[256];
    if (bt_poisoned(param) || bt_poisoned(grad)) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "%s: a parameter or its gradient is missing", trace->what);
        return BT_ERROR_ARGUMENT;
    }
    if (segment->group < 0 || segment->group >= trace->optimizer->group_count) {
        bt_trace_poison(BT_ERROR_INTERNAL, "%s: there is no group %d", trace->what, segment->group);
        return BT_ERROR_INTERNAL;
    }
    if (!fits(param, grad) || param->dtype != grad->dtype) {
        bt_trace_poison(BT_ERROR_SHAPE, "%s: a parameter is %s %s, but its gradient is %s %s", trace->what,
                        bt_dtype_name(param->dtype), bt_shape_text(expected, param->rank, param->dims),
                        bt_dtype_name(grad->dtype), bt_shape_text(found, grad->rank, grad->dims));
        return BT_ERROR_SHAPE;
    }
    return BT_OK;
}

static bt_tensor *next_param(const update_trace *trace, const bt_segment *segment, bt_tensor *grad, bt_rule *rule)
{
    bt_tensor *param = segment->param;
    char found[256], expected[256];
    bt_guest before = bt_guest_enter((bt_guest){.owner = trace->what, .function = "update"});
    bt_tensor *next = trace->optimizer->kind.def->update(rule, param, grad);
    bt_guest_leave(before);
    if (!next)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: `update` returned NULL", trace->what);
    if (bt_poisoned(next))
        return next;
    if (!fits(next, param))
        return bt_trace_poison(BT_ERROR_SHAPE, "%s: a parameter is %s, but the value that `update` returned is %s",
                               trace->what, bt_shape_text(expected, param->rank, param->dims),
                               bt_shape_text(found, next->rank, next->dims));
    return bt_as(next, param->dtype);
}

/* The slope of the update, after clipping of the gradient; the scale for the norm counts as a constant. */
static void add_slope(const update_trace *trace, bt_segment *segment, bt_tensor *grad, bt_tensor *next, int64_t first)
{
    bt_tensor *scale = segment->slope ? segment->slope : bt_number(1, segment->param->dtype);
    if (trace->scale)
        scale = bt_mul(scale, bt_as(trace->scale, segment->param->dtype));
    const bt_optimizer_kind *kind = &trace->optimizer->kind;
    segment->slope = bt_update_slope(trace->what, grad, next, scale, first, kind->flat || kind->elementwise);
}

/* Rounds values kept in bf16 to one of the two neighbouring numbers. An unchanged value is already such a number. */
static void round_segment(const update_trace *trace, bt_segment *segment)
{
    const bt_slotted like = {.like = bt_tensor_array(segment->param), .group = segment->group};
    if (segment->narrow)
        segment->next_param = bt_stochastic_round(segment->next_param, segment->name, "", trace->applied);
    for (int s = 0; s < bt_optimizer_slot_count(trace->optimizer); s++) {
        bt_tensor **next = &segment->next_slots[s];
        if (*next && bt_slot_array(trace->optimizer, s, &like).dtype == BT_BF16)
            *next =
                bt_stochastic_round(*next, segment->name, bt_optimizer_slot_name(trace->optimizer, s), trace->applied);
    }
}

static void update_segment(const update_trace *trace, bt_segment *segment, const bt_rule *group)
{
    const bt_graph *graph = bt_trace_now()->graph;
    bool guarded = trace->optimizer->kind.guarded;
    int slots = bt_optimizer_slot_count(trace->optimizer);
    bt_rule rule = *group;
    for (int s = 0; s < slots; s++)
        if (segment->slots[s])
            bt_rule_add_slot(&rule, bt_optimizer_slot_name(trace->optimizer, s), segment->slots[s]);
    bt_tensor *grad = segment->grad;
    if (trace->scale)
        grad = bt_mul(grad, bt_as(trace->scale, grad->dtype));
    if (!guarded)
        grad = bt_where(trace->ok, grad, 0); /* no derivative may meet a value that is not finite */
    if (trace->slopes)
        grad = bt_alias(grad); /* so that only the update lies between it and the parameter */
    int64_t first = graph->node_count;
    bt_tensor *next = next_param(trace, segment, grad, &rule);
    if (trace->slopes)
        add_slope(trace, segment, grad, next, first);
    segment->next_param = guarded ? next : bt_where(trace->ok, next, segment->param);
    for (int s = 0, k = 0; s < slots; s++) {
        bt_tensor *value = segment->slots[s] ? bt_rule_next(&rule.slots[k++]) : NULL;
        segment->next_slots[s] = !value || guarded ? value : bt_where(trace->ok, value, segment->slots[s]);
    }
    round_segment(trace, segment);
}

static void update_segments(const update_trace *trace, bt_update *update)
{
    bt_rule rule = {0};
    int group = -1;
    for (int64_t i = 0; i < update->count; i++) {
        bt_segment *segment = &update->segments[i];
        if (segment->group != group || segment->param->dtype != rule.dtype)
            group_rule(trace, segment->group, segment->param->dtype, &rule);
        group = segment->group;
        update_segment(trace, segment, &rule);
    }
}

/* Poisons all results, if nothing can be recorded. */
static void poison_results(bt_update *update, bt_tensor *poison)
{
    int slots = BT_MAX_ITEMS;
    update->norm = update->finite = update->ok = update->lr = poison;
    update->next_applied = update->next_skipped = update->next_rested = poison;
    for (int64_t i = 0; i < update->count; i++) {
        update->segments[i].next_param = poison;
        for (int s = 0; s < slots; s++)
            update->segments[i].next_slots[s] = poison;
    }
}

static void record_update(bt_optimizer *optimizer, bt_update *update)
{
    if (!optimizer || !update || !bt_trace_now() || !optimizer->started) {
        bt_tensor *poison = bt_trace_poison(BT_ERROR_ARGUMENT, "an optimiser's update: %s",
                                            optimizer ? "outside of a trace, or before it is started" : "it is NULL");
        if (update)
            poison_results(update, poison);
        return;
    }
    update_trace trace = {
        .optimizer = optimizer, .applied = bt_trace_read(optimizer->applied), .slopes = update->slopes};
    snprintf(trace.what, sizeof trace.what, "optimizer %s", optimizer->kind.def->name);
    for (int64_t i = 0; i < update->count; i++)
        if (check_segment(&trace, &update->segments[i]) != BT_OK) {
            poison_results(update, bt_trace_now()->graph->poison);
            return;
        }
    prepare_gradient(&trace, update);
    call_schedule(&trace, update);
    if (optimizer->keeps_rate)
        trace.rates = update->rates = bt_graph_list(bt_trace_now()->graph, optimizer->group_count);
    update_segments(&trace, update);
    bt_tensor *made = bt_as(update->ok, BT_I64), *finite = bt_as(update->finite, BT_I64);
    update->next_applied = bt_add(trace.applied, made);
    update->next_skipped = bt_add(bt_trace_read(optimizer->skipped), bt_sub(1, finite));
    if (optimizer->rested)
        update->next_rested = bt_add(bt_trace_read(optimizer->rested), bt_sub(finite, made));
}

void bt_optimizer_update(bt_optimizer *optimizer, bt_update *update)
{
    bt_trace *trace = bt_trace_now();
    bool before = trace && trace->tag.update;
    if (trace)
        trace->tag.update = update && !update->made; /* a replayed update is differentiated, value by value */
    record_update(optimizer, update);
    if (trace)
        trace->tag.update = before;
}

void bt_optimizer_advance(bt_optimizer *optimizer, const bt_update *update)
{
    bt_trace *trace = bt_trace_now();
    if (!optimizer || !update || !trace || !optimizer->started)
        return;
    bt_graph_assign(trace->graph, optimizer->applied, update->next_applied);
    bt_graph_assign(trace->graph, optimizer->skipped, update->next_skipped);
    if (optimizer->rested)
        bt_graph_assign(trace->graph, optimizer->rested, update->next_rested);
    for (int g = 0; update->rates && g < optimizer->group_count; g++)
        if (update->rates[g])
            bt_graph_assign(trace->graph, optimizer->groups[g].rate, update->rates[g]);
}
