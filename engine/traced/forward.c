/* engine/traced/forward.c: extracts a network's forward pass from the steps of its problem: the arguments that they
 * call it with become its inputs. */
#include "engine/traced/forward.h"

#include "engine/traced/traced.h"

#include "data/dataset.h"
#include "ops/ops.h"
#include "runtime/variable.h"
#include "transform/inline.h"
#include <stdio.h>
#include <string.h>

/* ---- the inputs ---- */

static const bt_batch_field *field_of(const bt_heard *heard, const bt_tensor *x)
{
    const bt_var *var = x->node->op == &bt_op_read ? ((const bt_read_attr *)x->node->attr)->var : NULL;
    for (int i = 0; var && i < heard->batch->field_count; i++)
        if (heard->batch->fields[i].var == var)
            return &heard->batch->fields[i];
    return NULL;
}

/* Whether it is computed from a field of the batch. If not, it belongs to the run, such as another problem's
 * parameters, and becomes part of the network. */
static bool depends(const bt_heard *heard, const bt_tensor *x)
{
    const bt_graph *graph = x->node->graph;
    bool *needed = bt_alloc_array((size_t)graph->node_count + 1, sizeof *needed), found = false;
    if (!needed)
        return true; /* bt_heard_end reports the failure */
    needed[x->node->index] = true;
    for (int64_t n = x->node->index; n >= 0 && !found; n--) {
        const bt_node *node = graph->nodes[n];
        found = needed[n] && field_of(heard, node->out);
        for (int i = 0; needed[n] && i < node->inputs; i++)
            needed[node->in[i]->node->index] = true;
    }
    bt_free(needed);
    return found;
}

/* The field that it is computed from, if it is computed from that field only; else NULL. */
static const bt_batch_field *field_behind(const bt_heard *heard, const bt_tensor *x)
{
    while (x->node->inputs == 1)
        x = x->node->in[0];
    return field_of(heard, x);
}

/* The name of the field that it is computed from; else input, input1, ... */
static void name_input(bt_heard *heard, const bt_tensor *x)
{
    char *name = heard->names[heard->count];
    const size_t room = sizeof heard->names[0];
    const bt_batch_field *field = field_behind(heard, x);
    snprintf(name, room, "%.100s", field ? field->name : "input");
    for (int i = 0, number = 1; i < heard->count; i++)
        if (strcmp(heard->names[i], name) == 0) {
            snprintf(name, room, "%.100s%d", field ? field->name : "input", number++);
            i = -1;
        }
}

/* ---- the inputs at their new size ---- */

/* The axis that counts examples; -1: unknown. If a field counts differently from the batch, like the examples of a
 * task, it is the first axis, unless another input counts the examples of the batch. */
static int axis_of(const bt_heard *heard, const bt_tensor *x)
{
    const bt_batch_field *field = field_behind(heard, x);
    if (x->batch_axis >= 0 || heard->counted || !field || !x->rank || !field->array.rank)
        return x->batch_axis;
    return field->array.dims[0] == x->dims[0] ? 0 : -1;
}

static bt_array grown(const bt_heard *heard, const bt_tensor *x)
{
    bt_array shape = bt_tensor_array(x);
    const int axis = axis_of(heard, x);
    const int64_t count = heard->batch->count;
    if (axis >= 0)
        shape.dims[axis] =
            heard->examples * (count > 0 && shape.dims[axis] % count == 0 ? shape.dims[axis] / count : 1);
    return shape;
}

/* The stand-in for an input: a variable, or the existing stand-in. */
static bt_tensor *stand_in(bt_heard *heard, bt_tensor *x)
{
    for (int i = 0; i < heard->count; i++)
        if (heard->given[i] == x)
            return heard->stands[i];
    if (bt_poisoned(x) || !depends(heard, x))
        return x;
    name_input(heard, x);
    bt_var *var = bt_var_new(BT_EXTERNAL, BT_BATCH, "", heard->names[heard->count], grown(heard, x));
    if (!var)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    heard->vars[heard->count] = var;
    heard->given[heard->count] = x;
    bt_tensor *read = bt_trace_read(var);
    if (!bt_poisoned(read))
        read->batch_axis = axis_of(heard, x);
    return heard->stands[heard->count++] = read;
}

bool bt_heard_begin(bt_problem *problem, bt_tensor *const *in, bt_tensor **stands)
{
    bt_heard *heard = problem->context->heard;
    int count = 0;
    if (!heard || heard->problem != problem || heard->begun || !bt_trace_now())
        return false;
    heard->begun = true;
    while (in && in[count])
        count++;
    if (count > BT_MAX_ITEMS)
        bt_trace_poison(BT_ERROR_UNSUPPORTED, "a network with more than %d inputs", BT_MAX_ITEMS);
    count = count > BT_MAX_ITEMS ? BT_MAX_ITEMS : count;
    for (int i = 0; i < count; i++)
        heard->counted |= !bt_poisoned(in[i]) && in[i]->batch_axis >= 0 && depends(heard, in[i]);
    for (int i = 0; i < count; i++)
        stands[i] = stand_in(heard, in[i]);
    stands[count] = NULL;
    return true;
}

static bool keep_all(const bt_node *node, void *user) { return (void)node, (void)user, true; }

/* The rest of the step continues with a result of different sizes, and may fail, so the recording so far is copied. */
void bt_heard_end(bt_problem *problem, bt_tensor *out)
{
    bt_graph *graph = bt_trace_now()->graph;
    if (graph->status != BT_OK || bt_poisoned(out))
        return;
    bt_graph_output(graph, out);
    if (bt_error_status() == BT_OK)
        problem->context->heard->graph = bt_inline(graph, keep_all, NULL);
    graph->output_count = 0;
}

/* ---- the step that calls the network ---- */

/* Traces the call of the network; the callback that calls it is not kept. */
static bt_status trace_step(bt_problem *asker, bt_step_fn *step, const char *callback)
{
    bt_trace trace;
    bt_tracing tracing;
    bt_heard *heard = asker->context->heard;
    const bt_micro micro = {.batch = heard->batch, .record = heard->record, .context = asker->context};
    bt_graph *graph = bt_graph_new();
    if (!graph)
        return BT_ERROR_MEMORY;
    bt_problem_begin(&trace, &tracing, asker, graph, BT_TRACE_EVAL, &micro);
    bt_guest before = bt_problem_enter(asker, callback);
    step(asker, micro.batch);
    bt_problem_leave(asker, callback, before);
    bt_trace_end(&trace);
    bt_status status = heard->graph ? BT_OK : bt_graph_take_error(graph, asker, callback);
    bt_graph_free(graph);
    if (heard->graph)
        heard->graph->assign_count = 0;
    return status;
}

static bt_status hear(bt_problem *asker, bt_mode mode)
{
    bt_heard *heard = asker->context->heard;
    const bool valid = mode == BT_VALID;
    const bt_stream *stream = valid ? asker->valid : asker->train;
    bt_step_fn *step = valid ? asker->def->validation_step : asker->def->training_step;
    if (heard->begun || !step || !stream || !asker->settings->active)
        return BT_OK;
    bt_heard_free(heard); /* left by a step that did not call it */
    heard->batch = bt_batch_template(stream->shapes[0]);
    heard->record = bt_var_new(BT_EXTERNAL, BT_BATCH, "", "record", (bt_array){.dtype = BT_I64});
    if (!heard->batch || !heard->record)
        return BT_ERROR_MEMORY;
    return trace_step(asker, step, valid ? "validation_step" : "training_step");
}

bt_status bt_hear(bt_heard *heard)
{
    bt_context *context = heard->problem->context;
    context->heard = heard;
    bt_status status = hear(heard->problem, BT_VALID);
    if (status == BT_OK)
        status = hear(heard->problem, BT_TRAIN);
    for (int i = 0; i < context->problem_count && status == BT_OK; i++)
        status = hear(context->problems[i], BT_TRAIN);
    context->heard = NULL;
    if (status != BT_OK || heard->graph)
        return status;
    return bt_fail(BT_ERROR_CONFIG,
                   "no step of the run calls bt_forward(%s, ...), which would show the network's inputs; "
                   "NAME.safetensors needs only its parameters",
                   heard->problem->name);
}

void bt_heard_free(bt_heard *heard)
{
    bt_graph_free(heard->graph);
    for (int i = 0; i < heard->count; i++)
        bt_var_free(heard->vars[i]);
    bt_batch_free(heard->batch);
    bt_var_free(heard->record);
    *heard = (bt_heard){.problem = heard->problem, .examples = heard->examples};
}
