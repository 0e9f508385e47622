/* compile/merge.c: how long values live, and which of them overwrite a value that dies. */
#include "compile/compile_inside.h"

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static void touch(const bt_program *program, bt_buffer *buffer, int64_t step)
{
    const int64_t end = bt_step_ends(program, step);
    int64_t *way = program->steps[step].move ? &buffer->moving : &buffer->busy;
    buffer->first = buffer->first < 0 ? step : buffer->first;
    buffer->last = later(buffer->last, end);
    buffer->read = step;
    *way = end > step ? later(*way, end + 1) : *way;
}

/* Finds the step before which each collective and each move must be done. */
static void find_awaited(bt_program *program)
{
    int64_t count = 0;
    for (int64_t s = 0; s < program->step_count; s++) {
        const int64_t until = program->steps[s].until, move = program->steps[s].move;
        count += until > 0 && !move;
        if (until == 0 || until >= program->step_count)
            continue;
        if (move)
            program->steps[until].meets = later(program->steps[until].meets, move);
        else
            program->steps[until].awaits = count;
    }
}

/* First and last steps of every buffer, and which values a derivative reads. */
bt_status bt_pass_lives(bt_compilation *c)
{
    bt_program *program = c->program;
    find_awaited(program);
    for (int64_t s = 0; s < program->step_count; s++) {
        bt_call_step *step = &program->steps[s];
        for (int o = 0; o < step->call.outputs; o++)
            touch(program, &program->buffers[step->out[o].buffer], s);
        for (int i = 0; i < step->call.inputs; i++) {
            bt_buffer *buffer = &program->buffers[step->in[i].buffer];
            touch(program, buffer, s);
            if (buffer->home == BT_HOME_ARENA && buffer->node->tag.order == 0 && step->node->tag.order > 0 &&
                !(bt_op_flags(step->call.op) & BT_OP_COLLECTIVE))
                buffer->saved = s;
        }
        if (step->scratch >= 0) {
            program->buffers[step->scratch].first = s;
            program->buffers[step->scratch].last = bt_step_ends(program, s);
        }
    }
    for (int64_t b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].result)
            program->buffers[b].last = program->step_count - 1;
    for (int64_t i = 0; i < program->tail_count; i++) { /* tails are cleared after the last step */
        bt_buffer *tail = &program->buffers[program->tails[i].buffer];
        tail->first = tail->last = program->step_count - 1;
    }
    return BT_OK;
}

/* Whether the step is the last to use the buffer. A collective runs after those still under way. */
static bool is_last(const bt_program *program, int64_t s, const bt_buffer *buffer)
{
    return buffer->read == s && buffer->moving <= s && (program->steps[s].until || buffer->busy <= s);
}

/* Whether nobody reads the root after this step, in the program or later. */
static bool dies(const bt_compilation *c, int64_t s, int64_t root)
{
    const bt_program *program = c->program;
    const bt_buffer *in = &program->buffers[root];
    if (in->home != BT_HOME_VAR)
        return in->home == BT_HOME_ARENA && !in->result && is_last(program, s, in);
    bool last = in->var == c->options->spent && !in->var->lasting && is_last(program, s, in);
    for (int64_t b = 0; last && b < program->buffer_count; b++) { /* other windows of the same bytes */
        const bt_buffer *other = &program->buffers[b];
        bool shares = other->home == BT_HOME_VAR && other->var == in->var && b != root &&
                      other->start < in->start + in->bytes && in->start < other->start + other->bytes;
        last = !shares || other->last < s;
    }
    return last;
}

/* Whether input i dies here and output o can take its place. */
static bool takes_over(const bt_compilation *c, int64_t s, int o, int i)
{
    const bt_program *program = c->program;
    const bt_call_step *step = &program->steps[s];
    const bt_buffer *out = &program->buffers[step->out[o].buffer];
    int64_t root = program->buffers[step->in[i].buffer].root;
    const bt_buffer *in = &program->buffers[root];
    if (in->bytes != out->bytes || !bt_step_overwrites(program, step, o, i, out->bytes) || !dies(c, s, root))
        return false;
    for (int j = 0; j < step->call.inputs; j++) /* no other look at the same bytes */
        if (program->buffers[step->in[j].buffer].root == root && !bt_step_overwrites(program, step, o, j, out->bytes))
            return false;
    for (int p = 0; p < step->call.outputs; p++) /* not taken already */
        if (p != o && program->buffers[step->out[p].buffer].root == root)
            return false;
    return true;
}

bt_status bt_pass_merge(bt_compilation *c)
{
    bt_program *program = c->program;
    for (int64_t s = 0; s < program->step_count; s++) {
        bt_call_step *step = &program->steps[s];
        for (int o = 0; o < step->call.outputs; o++) {
            bt_buffer *out = &program->buffers[step->out[o].buffer];
            for (int i = 0; out->home == BT_HOME_ARENA && i < step->call.inputs; i++)
                if (takes_over(c, s, o, i)) {
                    bt_buffer *root = &program->buffers[program->buffers[step->in[i].buffer].root];
                    out->home = BT_HOME_MERGED;
                    out->root = program->buffers[step->in[i].buffer].root;
                    root->last = out->last;
                    root->read = out->read;
                    root->busy = later(root->busy, out->busy);
                    root->moving = later(root->moving, out->moving);
                    root->result |= out->result;
                }
        }
    }
    return BT_OK;
}
