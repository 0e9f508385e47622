/* compile/lower.c: from nodes to kernel calls. Views cost nothing: a tensor is a look at a buffer. The buffer is copied
 * into a dense one only if no kernel takes the look as it is.
 *
 * Looks handle 16-bit numbers too. `widen` is a look, as f32, at a value stored in 16 bits. A value that only its cast
 * reads is stored as that cast by the step that computes it. If a kernel takes neither, it gets f32 copies. Each reader
 * casts a variable for itself, so that no parameter has a lasting second copy. */
#include "compile/compile_inside.h"

#include "compile/work.h"
#include "ops/ops.h"
#include "transform/rewrite.h"

int64_t bt_program_buffer(bt_program *program, const bt_buffer *like)
{
    bt_buffer *buffers =
        bt_grow(program->buffers, &program->buffer_capacity, program->buffer_count + 1, sizeof *buffers);
    if (!buffers)
        return -1;
    program->buffers = buffers;
    int64_t index = program->buffer_count++;
    buffers[index] = *like;
    buffers[index].root = index;
    buffers[index].first = buffers[index].last = -1;
    return index;
}

static bt_call_step *step_new(bt_compilation *c, const bt_node *node, const bt_op *op, const void *attr, int inputs,
                              int outputs)
{
    bt_program *program = c->program;
    bt_call_step *steps = bt_grow(program->steps, &program->step_capacity, program->step_count + 1, sizeof *steps);
    if (!steps)
        return NULL;
    program->steps = steps;
    bt_call_step *step = &steps[program->step_count];
    *step = (bt_call_step){.node = node, .scratch = -1};
    step->call =
        (bt_call){.op = op, .attr = attr, .inputs = inputs, .outputs = outputs, .threads = c->options->threads};
    step->call.tag = node->tag;
    step->call.in = bt_region_alloc(program->region, (size_t)inputs * sizeof *step->call.in);
    step->call.out = bt_region_alloc(program->region, (size_t)outputs * sizeof *step->call.out);
    step->in = bt_region_alloc(program->region, (size_t)inputs * sizeof *step->in);
    step->out = bt_region_alloc(program->region, (size_t)outputs * sizeof *step->out);
    return step->call.in && step->call.out && step->in && step->out ? step : NULL;
}

/* Gives the step its kernel: prepares it, adds its scratch, and appends it to the list. */
static bt_status step_commit(bt_compilation *c, bt_call_step *step, const bt_kernel_impl *kernel)
{
    bt_program *program = c->program;
    step->kernel = kernel;
    if (!bt_kernel_is_users(kernel)) /* the work of a user's kernel is unknown */
        step->call.threads = bt_call_threads(&step->call, c->options->threads);
    if (kernel->prepare)
        BT_TRY(kernel->prepare(&step->call));
    program->step_count++; /* from here on bt_program_free releases it */
    size_t scratch = kernel->scratch ? kernel->scratch(&step->call) : 0;
    if (scratch) {
        int64_t buffer = bt_program_buffer(
            program,
            &(bt_buffer){.home = BT_HOME_ARENA, .bytes = scratch, .category = BT_WORKSPACE, .node = step->node});
        if (buffer < 0)
            return BT_ERROR_MEMORY;
        program->steps[program->step_count - 1].scratch = buffer;
    }
    return BT_OK;
}

static const bt_kernel_impl *choose(const bt_compilation *c, const bt_call *call)
{
    const bt_kernel_impl *kernel = bt_user_kernel(c->options->kernels, call);
    return kernel ? kernel : bt_kernel_choose(c->options->kernels, call);
}

bt_status bt_compile_copy(bt_compilation *c, const bt_node *node, bt_look from, bt_operand to, bt_array shape)
{
    const bt_op *op = from.view.dtype == shape.dtype   ? &bt_op_copy
                      : bt_dtype_half(from.view.dtype) ? &bt_op_widen
                                                       : &bt_op_cast;
    bt_call_step *step = step_new(c, node, op, NULL, 1, 1);
    if (!step)
        return BT_ERROR_MEMORY;
    step->in[0] = from.at;
    step->out[0] = to;
    step->call.in[0] = from.view;
    step->call.out[0] = bt_view_of(shape);
    const bt_kernel_impl *kernel = choose(c, &step->call);
    if (!kernel)
        return bt_fail(BT_ERROR_INTERNAL, "no kernel copies %s", bt_dtype_name(shape.dtype));
    return step_commit(c, step, kernel);
}

/* A dense copy of what the look shows, with the shape's dtype. */
static bt_status densify(bt_compilation *c, const bt_node *node, bt_look *look, bt_dtype dtype)
{
    bt_array shape = bt_view_array(&look->view);
    shape.dtype = dtype;
    bt_buffer like = {.home = BT_HOME_ARENA, .bytes = bt_array_bytes(shape), .category = BT_ACTIVATIONS, .node = node};
    bt_operand to = {.buffer = bt_program_buffer(c->program, &like)};
    if (to.buffer < 0)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_compile_copy(c, node, *look, to, shape));
    *look = (bt_look){.at = to, .view = bt_view_of(shape)};
    return BT_OK;
}

static bt_status lower_leaf(bt_program *program, const bt_node *node, bt_look *look)
{
    bt_buffer like = {
        .home = BT_HOME_CONSTANT, .bytes = bt_tensor_bytes(node->out), .constant = node->attr, .node = node};
    if (node->op == &bt_op_read) {
        bt_var *var = ((const bt_read_attr *)node->attr)->var;
        if (!var)
            return bt_fail(BT_ERROR_INTERNAL, "a graph cannot run while one of its inputs is unbound");
        like.home = BT_HOME_VAR;
        like.constant = NULL;
        like.var = bt_var_root(var);
        like.start = bt_var_start(var);
    }
    int64_t buffer = bt_program_buffer(program, &like);
    *look = (bt_look){.at = {buffer, 0}, .view = bt_view_of(bt_tensor_array(node->out))};
    return buffer < 0 ? BT_ERROR_MEMORY : BT_OK;
}

/* True if the node's output is a look at its first input. */
static bool lower_view(const bt_node *node, const bt_look *from, bt_look *look)
{
    int64_t offset = 0;
    const bt_op_info *info = node->op->info;
    *look = *from;
    if (!info || !info->view || !info->view(node->attr, &from->view, &look->view, &offset))
        return false;
    look->at.offset += (size_t)offset * bt_dtype_size(from->view.dtype);
    return true;
}

static bt_status no_kernel(const bt_compilation *c, const bt_node *node)
{
    bt_text text = {0};
    bt_node_describe(node, &text);
    bt_fail(BT_ERROR_UNSUPPORTED, "the %s backend has no kernel for %s%s", c->options->kernels->device,
            bt_text_get(&text), node->op->info ? "" : ": give the op one for this device and dtype, or a body");
    bt_text_free(&text);
    return BT_ERROR_UNSUPPORTED;
}

/* How good the kernel for a call is: none, a plain loop, or one made for the op. On few elements a plain loop counts as
 * KERNEL. */
enum worth { NO_KERNEL, PLAIN_LOOP, KERNEL };

/* Whether the look is dense and has the tensor's own dtype. */
static bool lies_dense(const bt_tensor *x, const bt_look *look)
{
    return look->view.dtype == x->dtype && bt_view_dense(&look->view);
}

static enum worth worth_of(const bt_compilation *c, const bt_call *call)
{
    const bt_kernel_impl *kernel = choose(c, call);
    return !kernel ? NO_KERNEL : kernel->plain && !bt_call_small(call) ? PLAIN_LOOP : KERNEL;
}

/* Finds the kernel for the call. If dense inputs allow a better kernel than the inputs as they are, copies those that
 * it cannot take as they are. */
static bt_status find_kernel(bt_compilation *c, const bt_node *node, bt_call *call, bt_look *in,
                             const bt_kernel_impl **kernel)
{
    enum worth worth = worth_of(c, call), dense = worth;
    if (worth != KERNEL) {
        for (int i = 0; i < node->inputs; i++)
            call->in[i] = bt_view_of(bt_tensor_array(node->in[i]));
        dense = worth_of(c, call);
    }
    for (int i = 0; i < node->inputs && worth != KERNEL; i++) {
        bt_view copy = call->in[i];
        call->in[i] = in[i].view;
        if (dense == worth || lies_dense(node->in[i], &in[i]) || worth_of(c, call) == dense)
            continue;
        call->in[i] = copy;
        bool widens = in[i].view.dtype != node->in[i]->dtype; /* a copy not to be shared: twice as large */
        bt_look *look = widens ? &in[i] : &c->looks[node->in[i]->id];
        if (!lies_dense(node->in[i], look)) /* the same tensor may be two inputs: copied once */
            BT_TRY(densify(c, node, look, node->in[i]->dtype));
        in[i] = *look; /* later readers share the copy */
    }
    *kernel = choose(c, call);
    return *kernel ? BT_OK : no_kernel(c, node);
}

/* Whether a kernel made for the op can store the outputs as the call says, with the inputs as they are or dense. */
static bool stores(const bt_compilation *c, const bt_node *node, bt_call *call, const bt_look *in)
{
    bool stores = worth_of(c, call) == KERNEL;
    for (int i = 0; i < node->inputs && !stores; i++)
        call->in[i] = bt_view_of(bt_tensor_array(node->in[i]));
    stores = stores || worth_of(c, call) == KERNEL;
    for (int i = 0; i < node->inputs; i++)
        call->in[i] = in[i].view;
    return stores;
}

/* Stores an output in 16 bits if only its cast is read and a kernel can. */
static void choose_outputs(const bt_compilation *c, const bt_node *node, bt_call *call, const bt_look *in)
{
    bool half = false;
    for (int o = 0; o < node->outputs; o++) {
        const bt_tensor *stored = c->stored[node->out[o].id];
        call->out[o] = bt_view_of(bt_tensor_array(stored ? stored : &node->out[o]));
        half |= stored != NULL;
    }
    if (!half || stores(c, node, call, in))
        return;
    for (int o = 0; o < node->outputs; o++)
        call->out[o] = bt_view_of(bt_tensor_array(&node->out[o]));
}

/* Rounds the numbers for a reader, if the look has them unrounded. */
static bt_status round_look(bt_compilation *c, const bt_node *node, bt_look *look)
{
    return look->rounds == BT_F32 ? BT_OK : densify(c, node, look, look->rounds);
}

static bt_status lower_call(bt_compilation *c, const bt_node *node)
{
    bt_program *program = c->program;
    bt_look *looks = c->looks;
    bt_look *in = bt_grow(c->in, &c->in_room, node->inputs, sizeof *in);
    c->in = in ? in : c->in;
    bt_view *trial = bt_grow(c->trial, &c->trial_room, node->inputs + node->outputs, sizeof *trial);
    c->trial = trial ? trial : c->trial;
    if (!in || !trial)
        return BT_ERROR_MEMORY;
    bt_call call = {.op = node->op, .attr = node->attr, .inputs = node->inputs, .outputs = node->outputs};
    call.threads = c->options->threads;
    call.tag = node->tag;
    call.in = trial;
    call.out = trial + node->inputs;
    for (int i = 0; i < node->inputs; i++) {
        in[i] = looks[node->in[i]->id];
        BT_TRY(round_look(c, node, &in[i]));
        call.in[i] = in[i].view;
    }
    choose_outputs(c, node, &call, in);
    const bt_kernel_impl *kernel;
    BT_TRY(find_kernel(c, node, &call, in, &kernel));
    bt_call_step *step = step_new(c, node, node->op, node->attr, node->inputs, node->outputs);
    if (!step)
        return BT_ERROR_MEMORY;
    for (int i = 0; i < node->inputs; i++) {
        step->in[i] = in[i].at;
        step->call.in[i] = in[i].view;
    }
    for (int i = 0; i < node->outputs; i++) {
        bt_array shape = bt_view_array(&call.out[i]);
        step->call.out[i] = call.out[i];
        bt_buffer like = {
            .home = BT_HOME_ARENA, .bytes = bt_array_bytes(shape), .category = BT_ACTIVATIONS, .node = node};
        step->out[i].buffer = bt_program_buffer(program, &like);
        if (step->out[i].buffer < 0)
            return BT_ERROR_MEMORY;
        looks[node->out[i].id] = (bt_look){.at = step->out[i], .view = step->call.out[i]};
    }
    return step_commit(c, step, kernel);
}

static bool casts_to_half(const bt_node *node)
{
    return node->op == &bt_op_cast && bt_dtype_half(node->out->dtype) && node->in[0]->dtype == BT_F32;
}

/* Finds the values that only their casts read. */
static bt_status find_stored(bt_compilation *c)
{
    const bt_graph *graph = c->program->graph;
    int64_t *uses = bt_alloc_array((size_t)graph->tensor_count + 1, sizeof *uses);
    bool *live = bt_live_nodes(graph);
    c->stored = bt_alloc_array((size_t)graph->tensor_count + 1, sizeof *c->stored);
    bool ready = uses && live && c->stored;
    if (ready)
        bt_count_uses(graph, live, uses, NULL);
    for (int64_t n = 0; ready && n < graph->node_count; n++) {
        bt_node *node = graph->nodes[n];
        if (casts_to_half(node) && uses[node->in[0]->id] == 1)
            c->stored[node->in[0]->id] = node->out;
    }
    bt_free(uses);
    bt_free(live);
    return ready ? BT_OK : BT_ERROR_MEMORY;
}

/* True if the node's cast needs no step: the value is stored that way already, or its readers cast it. */
static bool lower_cast(const bt_compilation *c, const bt_node *node)
{
    if (!casts_to_half(node))
        return false;
    const bt_look *from = &c->looks[node->in[0]->id];
    bool stored = from->view.dtype == node->out->dtype;
    if (!stored && c->program->buffers[from->at.buffer].home != BT_HOME_VAR)
        return false;
    c->looks[node->out->id] = *from;
    if (!stored)
        c->looks[node->out->id].rounds = node->out->dtype;
    return true;
}

bt_status bt_pass_lower(bt_compilation *c)
{
    const bt_graph *graph = c->program->graph;
    bt_look *looks = c->looks = bt_alloc_array((size_t)graph->tensor_count + 1, sizeof *looks);
    if (!looks)
        return BT_ERROR_MEMORY;
    BT_TRY(find_stored(c));
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        if (bt_op_flags(node->op) & BT_OP_LEAF) {
            BT_TRY(lower_leaf(c->program, node, &looks[node->out->id]));
            continue;
        }
        if (lower_cast(c, node))
            continue;
        if (node->inputs > 0 && node->outputs == 1) {
            bt_look *from = &looks[node->in[0]->id];
            if (lower_view(node, from, &looks[node->out->id]))
                continue;
            if (node->op->info && node->op->info->view && !bt_view_dense(&from->view)) {
                BT_TRY(densify(c, node, from, from->rounds ? from->rounds : from->view.dtype));
                if (lower_view(node, from, &looks[node->out->id]))
                    continue;
            }
        }
        BT_TRY(lower_call(c, node));
    }
    for (int64_t i = 0; i < graph->assign_count; i++)
        BT_TRY(round_look(c, graph->assigns[i].value->node, &looks[graph->assigns[i].value->id]));
    for (int64_t i = 0; i < graph->output_count; i++)
        BT_TRY(round_look(c, graph->outputs[i]->node, &looks[graph->outputs[i]->id]));
    for (int64_t s = 0; s < c->program->step_count; s++)
        c->program->work += bt_call_work(&c->program->steps[s].call);
    return BT_OK;
}

bool bt_compile_takes(const bt_node *node, void *user)
{
    const bt_compilation *c = user;
    bt_view in[BT_MAX_ITEMS], out[BT_MAX_OUTPUTS];
    if (node->inputs > BT_MAX_ITEMS || node->outputs > BT_MAX_OUTPUTS)
        return false;
    for (int i = 0; i < node->inputs; i++)
        in[i] = bt_view_of(bt_tensor_array(node->in[i]));
    for (int i = 0; i < node->outputs; i++)
        out[i] = bt_view_of(bt_tensor_array(&node->out[i]));
    bt_call call = {.op = node->op,
                    .attr = node->attr,
                    .inputs = node->inputs,
                    .outputs = node->outputs,
                    .in = in,
                    .out = out,
                    .threads = c->options->threads};
    enum worth worth = worth_of(c, &call);
    return worth == KERNEL || (worth == PLAIN_LOOP && !bt_kernel_made_for(c->options->kernels, node->op));
}
