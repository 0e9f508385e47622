/* compile/spaces_verify.c: checks that a program with moves does what spaces.h promises. It looks only at the finished
 * program, and at every step while a move is under way. */
#include "compile/compile_inside.h"
#include "compile/spaces.h"

static bt_status wrong(const bt_program *program, int64_t s, const char *what)
{
    const bt_call_step *step = &program->steps[s];
    return bt_fail(BT_ERROR_INTERNAL, "step %lld, %s of %s: %s", (long long)s, step->call.op->name,
                   step->node->tag.path, what);
}

/* Whether two buffers share bytes, wherever the phase will place them. */
static bool share(const bt_program *program, int64_t a, int64_t b)
{
    const int64_t root = program->buffers[a].root, other = program->buffers[b].root;
    const bt_buffer *x = &program->buffers[root], *y = &program->buffers[other];
    return root == other || (x->home == BT_HOME_VAR && y->home == BT_HOME_VAR && x->var == y->var &&
                             x->start < y->start + y->bytes && y->start < x->start + x->bytes);
}

static bt_status check_call(const bt_program *program, int64_t s)
{
    const bt_call_step *step = &program->steps[s];
    const bool move = bt_is_move(&step->call);
    const bt_space to = move ? bt_move_to(&step->call) : BT_SPACE_DEVICE;
    const bt_space from = move && to == BT_SPACE_DEVICE ? BT_SPACE_HOST : BT_SPACE_DEVICE;
    for (int i = 0; i < step->call.inputs; i++)
        if (bt_operand_space(program, step->in[i]) != from)
            return wrong(program, s, "it reads what lies in the other memory");
    for (int o = 0; o < step->call.outputs; o++)
        if (bt_operand_space(program, step->out[o]) != to)
            return wrong(program, s, "it writes what lies in the other memory");
    if (step->scratch >= 0 && program->buffers[step->scratch].space != BT_SPACE_DEVICE)
        return wrong(program, s, "its scratch lies in the other memory");
    return BT_OK;
}

/* Checks step s, which runs while the move m is under way. Moves run one after the other, so other moves are fine. */
static bt_status check_meanwhile(const bt_program *program, int64_t m, int64_t s)
{
    const bt_call_step *move = &program->steps[m], *step = &program->steps[s];
    const int64_t source = move->in[0].buffer, target = move->out[0].buffer;
    if (bt_is_move(&step->call))
        return BT_OK;
    for (int i = 0; i < step->call.inputs; i++)
        if (share(program, step->in[i].buffer, target))
            return wrong(program, s, "it reads what is still being copied");
    for (int o = 0; o < step->call.outputs; o++)
        if (share(program, step->out[o].buffer, target) || share(program, step->out[o].buffer, source))
            return wrong(program, s, "it writes over what is still being copied");
    return BT_OK;
}

/* Checks that source and target keep their places while the move lasts, and that there is something to copy. */
static bt_status check_ends(const bt_program *program, int64_t m)
{
    const bt_call_step *move = &program->steps[m];
    const int64_t source = program->buffers[move->in[0].buffer].root;
    const bt_buffer *from = &program->buffers[source],
                    *to = &program->buffers[program->buffers[move->out[0].buffer].root];
    bool there = from->home != BT_HOME_ARENA;
    if (from->first > m || from->last < move->until - 1 || to->first > m || to->last < move->until - 1)
        return wrong(program, m, "others may have its place before it is done");
    for (int64_t s = 0; s < m && !there; s++)
        for (int o = 0; o < program->steps[s].call.outputs; o++)
            there = there || program->buffers[program->steps[s].out[o].buffer].root == source;
    return there ? BT_OK : wrong(program, m, "nobody has computed what it copies");
}

bt_status bt_spaces_verify(const bt_program *program)
{
    int64_t moves = 0;
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[s];
        BT_TRY(check_call(program, s));
        if (!bt_is_move(&step->call))
            continue;
        if (step->move != ++moves || step->until <= s || step->until > program->step_count)
            return wrong(program, s, "nobody waits for it");
        if (step->until < program->step_count && program->steps[step->until].meets < step->move)
            return wrong(program, step->until, "it does not wait for a copy");
        BT_TRY(check_ends(program, s));
        for (int64_t k = s + 1; k < step->until; k++)
            BT_TRY(check_meanwhile(program, s, k));
    }
    return BT_OK;
}
