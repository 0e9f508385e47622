/* engine/traced/forward.c: a network's forward pass by itself, as its problem's steps ask for it: what they give it
 * becomes its inputs. */
#include "engine/traced/forward.h"

#include "engine/traced/traced.h"

#include "data/dataset.h"
#include "ops/ops.h"
#include "runtime/variable.h"
#include <stdio.h>
#include <string.h>

/* ---- what is given ---- */

static const bt_batch_field *field_of(const bt_heard *heard, const bt_tensor *x)
{
    const bt_var *var = x->node->op == &bt_op_read ? ((const bt_read_attr *)x->node->attr)->var : NULL;
    for (int i = 0; var && i < heard->batch->field_count; i++)
        if (heard->batch->fields[i].var == var)
            return &heard->batch->fields[i];
    return NULL;
}

/* Whether a field of the batch is among what it is computed from; else it is of the run, such as another problem's
 * parameters, and belongs to the network. */
static bool depends(const bt_heard *heard, const bt_tensor *x)
{
    const bt_graph *graph = x->node->graph;
    bool *needed = bt_alloc_array((size_t)graph->node_count + 1, sizeof *needed), found = false;
    if (!needed)
        return true; /* the failure is told by who asks for memory next */
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

/* Called like the field that it is a look at, if it is one of a single field: else input, input1, ... */
static void name_input(bt_heard *heard, const bt_tensor *x)
{
    char *name = heard->names[heard->count];
    const size_t room = sizeof heard->names[0];
    while (x->node->inputs == 1)
        x = x->node->in[0];
    const bt_batch_field *field = field_of(heard, x);
    snprintf(name, room, "%.100s", field ? field->name : "input");
    for (int i = 0, number = 1; i < heard->count; i++)
        if (strcmp(heard->names[i], name) == 0) {
            snprintf(name, room, "%.100s%d", field ? field->name : "input", number++);
            i = -1;
        }
}

/* What stands for an input: a variable, or what stood for it before. */
static bt_tensor *stand_in(bt_heard *heard, bt_tensor *x)
{
    for (int i = 0; i < heard->count; i++)
        if (heard->given[i] == x)
            return heard->stands[i];
    if (bt_poisoned(x) || !depends(heard, x))
        return x;
    if (heard->count == BT_MAX_ITEMS)
        return bt_trace_poison(BT_ERROR_UNSUPPORTED, "a network of more than %d inputs", BT_MAX_ITEMS);
    name_input(heard, x);
    bt_var *var = bt_var_new(BT_EXTERNAL, BT_BATCH, "", heard->names[heard->count], bt_tensor_array(x));
    if (!var)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    heard->vars[heard->count] = var;
    heard->given[heard->count] = x;
    bt_tensor *read = bt_trace_read(var);
    if (!bt_poisoned(read))
        read->batch_axis = x->batch_axis;
    return heard->stands[heard->count++] = read;
}

bool bt_heard_begin(bt_problem *problem, bt_tensor *const *in, bt_tensor **stands)
{
    bt_heard *heard = problem->context->heard;
    int count = 0;
    if (!heard || heard->problem != problem || heard->begun || !bt_trace_now())
        return false;
    heard->begun = true;
    for (; in && in[count] && count < BT_MAX_ITEMS; count++)
        stands[count] = stand_in(heard, in[count]);
    stands[count] = NULL;
    if (in && in[count])
        bt_trace_poison(BT_ERROR_UNSUPPORTED, "a network of more than %d inputs", BT_MAX_ITEMS);
    return true;
}

void bt_heard_end(bt_problem *problem, bt_tensor *out) { problem->context->heard->out = out; }

/* ---- the step that asks ---- */

static bt_graph *trace_step(bt_problem *asker, bt_step_fn *step, const char *callback, const bt_batch *batch)
{
    bt_trace trace;
    bt_tracing tracing;
    bt_heard *heard = asker->context->heard;
    bt_graph *graph = bt_graph_new();
    bt_micro micro = {.batch = heard->batch = bt_batch_resized(batch, heard->examples),
                      .record = heard->record =
                          bt_var_new(BT_EXTERNAL, BT_BATCH, "", "record", (bt_array){.dtype = BT_I64}),
                      .context = asker->context};
    if (!graph || !micro.batch || !micro.record) {
        bt_graph_free(graph);
        return NULL;
    }
    bt_problem_begin(&trace, &tracing, asker, graph, BT_TRACE_EVAL, &micro);
    bt_guest before = bt_problem_enter(asker, callback);
    step(asker, micro.batch);
    bt_problem_leave(asker, callback, before);
    if (heard->begun && !bt_poisoned(heard->out))
        bt_graph_output(graph, heard->out);
    bt_trace_end(&trace);
    graph->assign_count = 0;
    if (bt_graph_take_error(graph, asker, callback) == BT_OK)
        return graph;
    bt_graph_free(graph);
    return NULL;
}

static bt_status hear(bt_problem *asker, bt_mode mode)
{
    bt_heard *heard = asker->context->heard;
    const bool valid = mode == BT_VALID;
    const bt_stream *stream = valid ? asker->valid : asker->train;
    bt_step_fn *step = valid ? asker->def->validation_step : asker->def->training_step;
    if (heard->begun || !step || !stream || !asker->settings->active)
        return BT_OK;
    bt_heard_free(heard); /* of a step that has not asked */
    heard->graph = trace_step(asker, step, valid ? "validation_step" : "training_step", stream->shapes[0]);
    return heard->graph ? BT_OK : bt_error_status();
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
    if (status != BT_OK || (heard->begun && heard->graph->output_count == 1))
        return status;
    return bt_fail(BT_ERROR_CONFIG,
                   "no step of the run calls bt_forward(%s, ...), which would say what its network takes; "
                   "NAME.safetensors takes its parameters alone",
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
