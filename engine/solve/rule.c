/* engine/solve/rule.c: a method's start and step as graphs: its hyperparameters, slots, stacks and trouble counts. */
#include "engine/solve/implicit_inside.h"

#include "ops/ops.h"

bool bt_builder_begin(bt_builder *b)
{
    b->graph = bt_graph_new();
    if (b->graph)
        bt_problem_begin(&b->trace, &b->tracing, b->lower, b->graph, BT_TRACE_PRODUCT, NULL);
    return b->graph != NULL;
}

bt_graph *bt_builder_end(bt_builder *b, const char *part)
{
    bt_graph *graph = b->graph;
    b->graph = NULL;
    bt_trace_end(&b->trace);
    if (bt_graph_take_error(graph, b->lower, part) == BT_OK)
        return graph;
    bt_graph_free(graph);
    return NULL;
}

/* Slots, followed by stacks. */
static int slot_count(const bt_builder *b)
{
    const bt_method_def *method = b->lower->settings->method;
    return bt_slot_name_count(method->slots) + bt_slot_name_count(method->stacks);
}

static const char *slot_name(const bt_builder *b, int k)
{
    const bt_method_def *method = b->lower->settings->method;
    int slots = bt_slot_name_count(method->slots);
    return k < slots ? method->slots[k] : method->stacks[k - slots];
}

bt_var *bt_method_slot(const bt_builder *b, int k)
{
    int slots = bt_slot_name_count(b->lower->settings->method->slots);
    return k < slots ? b->own->slots[k].flat : b->own->stacks[k - slots];
}

static void open_rule(bt_builder *b)
{
    const bt_method_def *method = b->lower->settings->method;
    bt_rule_begin(&b->rule, method->name, b->lower->dtype);
    for (int i = 0; i < bt_hyper_count(method->hypers); i++) {
        double value = b->lower->settings->method_hypers[i];
        bt_rule_add_hyper(&b->rule, method->hypers[i].name, value, bt_number(value, b->lower->dtype));
    }
    for (int k = 0; k < slot_count(b); k++)
        bt_rule_add_slot(&b->rule, slot_name(b, k), bt_graph_read(b->graph, bt_method_slot(b, k)));
    b->rule.calls = &bt_method_calls;
    b->rule.context = b;
    b->reads_batch = b->reads_iteration = false;
    b->asked = 0;
}

static void assign_slots(bt_builder *b)
{
    for (int k = 0; k < b->rule.slot_count; k++)
        if (b->rule.slots[k].next)
            bt_graph_assign(b->graph, bt_method_slot(b, k), b->rule.slots[k].next);
}

/* The counter of the method's failures for this upper problem; NULL after an error. */
static bt_trouble *trouble_of(bt_builder *b)
{
    size_t count = (size_t)b->upper->context->problem_count;
    if (!b->upper->troubles)
        b->upper->troubles = bt_alloc_array(count, sizeof *b->upper->troubles);
    bt_trouble *trouble = b->upper->troubles ? &b->upper->troubles[b->lower->place] : NULL;
    if (trouble && !trouble->count) {
        char *name = bt_string("solver trouble of %s", b->lower->name);
        if (name)
            trouble->count = bt_ledger_var(b->upper->context, b->upper, BT_ROLE_SOLVER, BT_BUFFERS, name,
                                           (bt_array){.dtype = BT_I64});
        bt_free(name);
    }
    return trouble && trouble->count ? trouble : NULL;
}

/* Counts the steps in which the method reports a failure. */
static bt_status count_trouble(bt_builder *b)
{
    if (!b->rule.trouble)
        return BT_OK;
    bt_trouble *trouble = trouble_of(b);
    if (!trouble)
        return BT_ERROR_MEMORY;
    trouble->means = b->rule.trouble_means;
    bt_tensor *count = bt_graph_read(b->graph, trouble->count);
    bt_graph_assign(b->graph, trouble->count, (bt_add)(count, bt_as(b->rule.trouble, BT_I64)));
    return BT_OK;
}

/* Checks that the x that a rule returned is a vector like v. */
static bt_tensor *checked(bt_builder *b, bt_tensor *x, const char *callback)
{
    bt_var *like = b->solve->adjoint.flat;
    if (bt_poisoned(x))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "method %s: %s returned nothing", b->rule.what, callback);
    if (bt_array_same(bt_tensor_array(x), bt_var_array(like)))
        return x;
    char found[256], due[256];
    return bt_trace_poison(BT_ERROR_SHAPE, "method %s: %s returned %s %s, expected %s %s like v", b->rule.what,
                           callback, bt_dtype_name(x->dtype), bt_shape_text(found, x->rank, x->dims),
                           bt_dtype_name(like->dtype), bt_shape_text(due, like->rank, like->dims));
}

/* There is nothing to do if x is v. */
bt_graph *bt_method_start(bt_builder *b, bool *same)
{
    const bt_method_def *method = b->lower->settings->method;
    if (!bt_builder_begin(b))
        return NULL;
    open_rule(b);
    bt_tensor *v = bt_graph_read(b->graph, b->solve->adjoint.flat);
    bt_guest before = bt_guest_enter((bt_guest){b->lower->source, method->name, "start"});
    bt_tensor *x = method->start ? method->start(&b->rule, v) : v;
    bt_guest_leave(before);
    x = checked(b, x, "start");
    bt_keep_effects(b->graph, b->lower, BT_TRACE_PRODUCT);
    *same = x == v && !b->own->iterations && !method->penalty;
    if (!*same && !b->own->x.flat)
        b->own->x = bt_vector_new(b->site->phase, b->lower, "x", false);
    if (!*same && b->own->x.flat) {
        bt_graph_assign(b->graph, b->own->x.flat, x);
        assign_slots(b);
        bt_round_assign(b);
    }
    return bt_builder_end(b, "solve start");
}

bt_graph *bt_method_step(bt_builder *b)
{
    const bt_method_def *method = b->lower->settings->method;
    if (!bt_builder_begin(b))
        return NULL;
    open_rule(b);
    bt_tensor *v = bt_graph_read(b->graph, b->solve->adjoint.flat), *x = bt_graph_read(b->graph, b->own->x.flat);
    bt_guest before = bt_guest_enter((bt_guest){b->lower->source, method->name, "step"});
    x = method->step(&b->rule, v, x);
    bt_guest_leave(before);
    x = checked(b, x, "step");
    bt_keep_effects(b->graph, b->lower, BT_TRACE_PRODUCT);
    bt_graph_assign(b->graph, b->own->x.flat, x);
    assign_slots(b);
    bt_round_assign(b);
    if (b->reads_iteration)
        bt_graph_assign(b->graph, b->own->iteration,
                        (bt_add)(bt_graph_read(b->graph, b->own->iteration), bt_number(1, BT_I64)));
    bt_status status = count_trouble(b);
    bt_graph *graph = bt_builder_end(b, method->name);
    if (status == BT_OK)
        return graph;
    bt_graph_free(graph);
    return NULL;
}

bt_status bt_method_slots_open(bt_builder *b)
{
    const bt_method_def *method = b->lower->settings->method;
    for (int k = 0; k < bt_slot_name_count(method->slots); k++) {
        b->own->slots[k] = bt_vector_new(b->site->phase, b->lower, method->slots[k], true);
        if (!b->own->slots[k].flat)
            return BT_ERROR_MEMORY;
    }
    for (int k = 0; k < bt_slot_name_count(method->stacks); k++) {
        bt_array shape = {
            .dtype = b->lower->dtype, .rank = 2, .dims = {b->own->iterations, b->solve->adjoint.flat->dims[0]}};
        b->own->stacks[k] =
            bt_phase_own(b->site->phase, bt_var_new(BT_PHASE, BT_VECTORS, b->lower->name, method->stacks[k], shape));
        if (!b->own->stacks[k])
            return BT_ERROR_MEMORY;
        b->own->stacks[k]->clear = true;
    }
    return BT_OK;
}
