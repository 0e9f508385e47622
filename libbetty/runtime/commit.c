/* runtime/commit.c: where assigned values live, and what may be written in place.
 *
 * A program reads every variable as it was at entry. A value that is assigned is computed straight into its variable
 * where nobody reads the old value later; otherwise it is computed aside and copied at the end. */
#include "runtime/program.h"

#include "ops/ops.h"
#include <string.h>

static bool overlap(const bt_buffer *buffer, const bt_var *root, size_t start, size_t bytes)
{
    return buffer->home == BT_HOME_VAR && buffer->var == root && buffer->start < start + bytes &&
           start < buffer->start + buffer->bytes;
}

bool bt_step_overwrites(const bt_program *program, const bt_call_step *step, int o, int i, size_t bytes)
{
    const bt_op_info *info = step->call.op->info;
    const bt_buffer *buffer = &program->buffers[step->in[i].buffer];
    return info && o < BT_MAX_OUTPUTS && i < 32 && (info->overwrites[o] >> i) & 1u && step->in[i].offset == 0 &&
           buffer->bytes == bytes && bt_view_dense(&step->call.in[i]) &&
           bt_dtype_size(step->call.in[i].dtype) == bt_dtype_size(step->call.out[o].dtype);
}

/* The step that computes the buffer, and which of its outputs that is. */
static int64_t maker(const bt_program *program, int64_t buffer, int *output)
{
    for (int64_t s = 0; s < program->step_count; s++)
        for (int o = 0; o < program->steps[s].call.outputs; o++)
            if (program->steps[s].out[o].buffer == buffer) {
                *output = o;
                return s;
            }
    return -1;
}

/* Whether the buffer can be computed in the variable's own bytes: nobody reads those after it. */
static bool safe(const bt_program *program, int64_t buffer, const bt_var *root, size_t start)
{
    size_t bytes = program->buffers[buffer].bytes;
    int output = 0;
    int64_t made = maker(program, buffer, &output);
    if (made < 0)
        return false;
    for (int64_t s = made; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[s];
        for (int i = 0; i < step->call.inputs; i++) {
            const bt_buffer *read = &program->buffers[step->in[i].buffer];
            if (!overlap(read, root, start, bytes) || step->in[i].buffer == buffer)
                continue;
            if (s > made || read->start != start || !bt_step_overwrites(program, step, output, i, bytes))
                return false;
        }
    }
    return true;
}

static bool assigned(const bt_program *program, const bt_var *root)
{
    for (int64_t i = 0; i < program->graph->assign_count; i++)
        if (bt_var_root(program->graph->assigns[i].var) == root)
            return true;
    return false;
}

static bool shows_whole(const bt_program *program, const bt_look *look, size_t bytes)
{
    const bt_buffer *buffer = &program->buffers[look->at.buffer];
    return buffer->home == BT_HOME_ARENA && look->at.offset == 0 && buffer->bytes == bytes &&
           bt_view_dense(&look->view);
}

/* Old values of variables that change here are set aside before anything is written. */
static bt_status set_aside(bt_program *program, const bt_assign *assign, bt_look *look)
{
    const bt_buffer *from = &program->buffers[look->at.buffer];
    if (from->home != BT_HOME_VAR || !assigned(program, from->var))
        return BT_OK;
    bt_array shape = bt_tensor_array(assign->value);
    bt_buffer like = {
        .home = BT_HOME_ARENA, .bytes = bt_array_bytes(shape), .category = BT_ACTIVATIONS, .node = assign->value->node};
    bt_operand to = {.buffer = bt_program_buffer(program, &like)};
    if (to.buffer < 0)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_program_copy(program, assign->value->node, *look, to, shape));
    *look = (bt_look){to, bt_view_of(shape)};
    return BT_OK;
}

static bt_status place_assign(bt_program *program, const bt_assign *assign, const bt_look *look)
{
    bt_var *root = bt_var_root(assign->var);
    size_t start = bt_var_start(assign->var);
    bt_buffer *buffer = &program->buffers[look->at.buffer];
    if (shows_whole(program, look, assign->var->bytes) && !buffer->result &&
        safe(program, look->at.buffer, root, start)) {
        buffer->home = BT_HOME_VAR;
        buffer->var = root;
        buffer->start = start;
        return BT_OK;
    }
    bt_buffer like = {.home = BT_HOME_VAR, .bytes = assign->var->bytes, .var = root, .start = start};
    bt_operand to = {.buffer = bt_program_buffer(program, &like)};
    if (to.buffer < 0)
        return BT_ERROR_MEMORY;
    return bt_program_copy(program, assign->value->node, *look, to, bt_tensor_array(assign->value));
}

static bt_status note_tails(bt_program *program)
{
    const bt_graph *graph = program->graph;
    program->tails = bt_region_alloc(program->region, (size_t)(graph->assign_count + 1) * sizeof *program->tails);
    if (!program->tails)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < graph->assign_count; i++) {
        bt_var *var = graph->assigns[i].var;
        if (!var->tail)
            continue;
        bt_buffer like = {
            .home = BT_HOME_VAR, .bytes = var->bytes + var->tail, .var = bt_var_root(var), .start = bt_var_start(var)};
        bt_tail tail = {.buffer = bt_program_buffer(program, &like), .bytes = var->tail};
        if (tail.buffer < 0)
            return BT_ERROR_MEMORY;
        program->tails[program->tail_count++] = tail;
    }
    return BT_OK;
}

bt_status bt_program_commit(bt_program *program, const bt_look *looks)
{
    const bt_graph *graph = program->graph;
    bt_look *from = bt_region_alloc(program->region, (size_t)(graph->assign_count + 1) * sizeof *from);
    program->results = bt_region_alloc(program->region, (size_t)(graph->output_count + 1) * sizeof *program->results);
    if (!from || !program->results)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < graph->output_count; i++) { /* a dense copy, or the buffer itself */
        bt_look look = looks[graph->outputs[i]->id];
        size_t bytes = bt_tensor_bytes(graph->outputs[i]);
        if (!shows_whole(program, &look, bytes)) {
            bt_buffer like = {
                .home = BT_HOME_ARENA, .bytes = bytes, .category = BT_ACTIVATIONS, .node = graph->outputs[i]->node};
            bt_operand to = {.buffer = bt_program_buffer(program, &like)};
            if (to.buffer < 0)
                return BT_ERROR_MEMORY;
            BT_TRY(bt_program_copy(program, graph->outputs[i]->node, look, to, bt_tensor_array(graph->outputs[i])));
            look.at = to;
        }
        program->buffers[look.at.buffer].result = true;
        program->results[i] = look.at;
    }
    for (int64_t i = 0; i < graph->assign_count; i++) {
        from[i] = looks[graph->assigns[i].value->id];
        BT_TRY(set_aside(program, &graph->assigns[i], &from[i]));
    }
    for (int64_t i = 0; i < graph->assign_count; i++)
        BT_TRY(place_assign(program, &graph->assigns[i], &from[i]));
    return note_tails(program);
}

/* First and last steps of every buffer, and which values a derivative reads. */
static void lifetimes(bt_program *program)
{
    for (int64_t s = 0; s < program->step_count; s++) {
        bt_call_step *step = &program->steps[s];
        for (int o = 0; o < step->call.outputs; o++) {
            bt_buffer *buffer = &program->buffers[step->out[o].buffer];
            buffer->first = buffer->first < 0 ? s : buffer->first;
            buffer->last = s;
        }
        for (int i = 0; i < step->call.inputs; i++) {
            bt_buffer *buffer = &program->buffers[step->in[i].buffer];
            buffer->first = buffer->first < 0 ? s : buffer->first;
            buffer->last = s;
            if (buffer->home == BT_HOME_ARENA && buffer->node->tag.order == 0 && step->node->tag.order > 0)
                buffer->saved = true;
        }
        if (step->scratch >= 0)
            program->buffers[step->scratch].first = program->buffers[step->scratch].last = s;
    }
    for (int64_t b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].result)
            program->buffers[b].last = program->step_count - 1;
    for (int64_t i = 0; i < program->tail_count; i++) { /* touched when the last step is over */
        bt_buffer *tail = &program->buffers[program->tails[i].buffer];
        tail->first = tail->last = program->step_count - 1;
    }
}

/* Whether output o can take the place of input i, which dies here. */
static bool takes_over(const bt_program *program, int64_t s, int o, int i)
{
    const bt_call_step *step = &program->steps[s];
    const bt_buffer *out = &program->buffers[step->out[o].buffer];
    int64_t root = program->buffers[step->in[i].buffer].root;
    const bt_buffer *in = &program->buffers[root];
    if (in->home != BT_HOME_ARENA || in->result || in->last != s || in->bytes != out->bytes ||
        !bt_step_overwrites(program, step, o, i, out->bytes))
        return false;
    for (int j = 0; j < step->call.inputs; j++) /* no other look at the same bytes */
        if (program->buffers[step->in[j].buffer].root == root && !bt_step_overwrites(program, step, o, j, out->bytes))
            return false;
    for (int p = 0; p < step->call.outputs; p++) /* not taken already */
        if (p != o && program->buffers[step->out[p].buffer].root == root)
            return false;
    return true;
}

bt_status bt_program_merge(bt_program *program)
{
    lifetimes(program);
    for (int64_t s = 0; s < program->step_count; s++) {
        bt_call_step *step = &program->steps[s];
        for (int o = 0; o < step->call.outputs; o++) {
            bt_buffer *out = &program->buffers[step->out[o].buffer];
            for (int i = 0; out->home == BT_HOME_ARENA && i < step->call.inputs; i++)
                if (takes_over(program, s, o, i)) {
                    bt_buffer *root = &program->buffers[program->buffers[step->in[i].buffer].root];
                    out->home = BT_HOME_MERGED;
                    out->root = program->buffers[step->in[i].buffer].root;
                    root->last = out->last;
                    root->result |= out->result;
                }
        }
    }
    return BT_OK;
}
