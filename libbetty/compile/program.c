/* compile/program.c: compiled programs. */
#include "compile/program.h"

#include "compile/joined.h"
#include <stdio.h>

void bt_program_free(bt_program *program)
{
    if (!program)
        return;
    for (int64_t s = 0; s < program->step_count; s++)
        if (program->steps[s].kernel->release)
            program->steps[s].kernel->release(&program->steps[s].call);
    bt_graph_free(program->graph);
    bt_sharded_free(&program->sharded);
    bt_region_free(program->region);
    bt_free(program->steps);
    bt_free(program->buffers);
    bt_free(program);
}

bool bt_program_outside(const bt_program *program, bt_operand at)
{
    const bt_buffer *root = &program->buffers[program->buffers[at.buffer].root];
    return root->home == BT_HOME_VAR && root->var->lifetime == BT_EXTERNAL;
}

bool bt_step_joins(const bt_call_step *step) { return bt_op_flags(step->call.op) & BT_OP_COLLECTIVE; }

bt_space bt_operand_space(const bt_program *program, bt_operand at)
{
    return program->buffers[program->buffers[at.buffer].root].space;
}

void bt_program_gathered(const bt_program *program, int64_t *gathers, int64_t *elements)
{
    *gathers = program->sharded.gathers;
    *elements = program->sharded.gathered;
    for (int64_t s = 0; s < program->step_count; s++)
        if (program->steps[s].again && bt_step_joins(&program->steps[s])) {
            ++*gathers;
            *elements += bt_array_count(bt_view_array(&program->steps[s].call.out[0]));
        }
}

uint64_t bt_program_meetings(const bt_program *program)
{
    uint64_t hash = 0;
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call *call = &program->steps[s].call;
        if (!bt_step_joins(&program->steps[s]))
            continue;
        const bool parts = ((const bt_collective_attr *)call->attr)->parts;
        hash = bt_collective_hash(hash, call->op, call->attr);
        for (int i = 0; i < call->inputs; i++) { /* the attributes give each rank's part of a divided operand */
            const int64_t own[] = {call->in[i].dtype, parts ? 0 : bt_array_count(bt_view_array(&call->in[i]))};
            hash = bt_hash(hash, own, sizeof own);
        }
    }
    return hash;
}

static void describe_operand(const bt_program *program, bt_operand at, bt_text *text)
{
    const bt_buffer *buffer = &program->buffers[at.buffer];
    const bt_buffer *root = &program->buffers[buffer->root];
    if (root->home == BT_HOME_VAR)
        bt_text_add(text, " %s+%zu", root->var->name, root->start + at.offset);
    else if (root->home == BT_HOME_CONSTANT)
        bt_text_add(text, " const");
    else
        bt_text_add(text, " b%lld+%zu", (long long)buffer->root, at.offset);
}

void bt_program_describe(const bt_program *program, bt_text *text)
{
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[s];
        char name[64];
        const bt_joined *joined = step->call.joined;
        if (joined)
            snprintf(name, sizeof name, "%s.%lld", step->call.op->name, (long long)joined->count);
        bt_text_add(text, "%4lld %-28s", (long long)s, joined ? name : step->kernel->name);
        for (int i = 0; i < step->call.inputs; i++)
            describe_operand(program, step->in[i], text);
        bt_text_add(text, " ->");
        for (int o = 0; o < step->call.outputs; o++) {
            char shape[256];
            describe_operand(program, step->out[o], text);
            bt_text_add(text, " %s%s", bt_dtype_name(step->call.out[o].dtype),
                        bt_shape_text(shape, step->call.out[o].rank, step->call.out[o].dims));
        }
        if (*step->node->tag.path || step->again)
            bt_text_add(text, "  # %s%s", step->node->tag.path, step->again ? " again" : "");
        bt_text_add(text, "\n");
    }
}
