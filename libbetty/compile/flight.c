/* compile/flight.c: a collective may be under way while the next steps run. It ends before the first step that reads
 * its result, or when the next collective has begun; so the operands and results of at most two are alive at once.
 * Readers are postponed to make room for such steps; collectives keep their order. While a collective is under way
 * nobody overwrites its operands: commit.c and merge.c check where it ends. */
#include "compile/compile_inside.h"

#include <string.h>

typedef struct flight {
    bt_program *program;
    bt_call_step *steps, *held; /* the old list; the postponed ones */
    int64_t *late, now;         /* by buffer: `now` if it depends on a collective under way, or on a postponed step */
    int64_t held_count;
    bool says; /* a step with an effect is postponed */
} flight;

int64_t bt_step_ends(const bt_program *program, int64_t s)
{
    const int64_t until = program->steps[s].until;
    return until > s ? until - 1 : s;
}

static void emit(flight *f, const bt_call_step *step) { f->program->steps[f->program->step_count++] = *step; }

static void release(flight *f)
{
    for (int64_t i = 0; i < f->held_count; i++)
        emit(f, &f->held[i]);
    f->held_count = 0;
    f->says = false;
    f->now++;
}

static bool is_late(const flight *f, const bt_call_step *step)
{
    bool late = f->says && bt_op_flags(step->call.op) & BT_OP_EFFECT && !bt_step_joins(step);
    for (int i = 0; i < step->call.inputs && !late; i++)
        late = f->late[step->in[i].buffer] == f->now;
    return late;
}

static void mark(flight *f, const bt_call_step *step)
{
    for (int o = 0; o < step->call.outputs; o++)
        f->late[step->out[o].buffer] = f->now;
}

static void visit(flight *f, const bt_call_step *step)
{
    const bool late = is_late(f, step);
    if (bt_step_joins(step)) {
        if (late)
            release(f);
        emit(f, step);
        release(f); /* readers of the previous collective */
        mark(f, step);
    } else if (late) {
        f->held[f->held_count++] = *step;
        f->says = f->says || bt_op_flags(step->call.op) & BT_OP_EFFECT;
        mark(f, step);
    } else {
        emit(f, step);
    }
}

/* Finds the step before which each collective must be done. If that is the next step, the collective is waited for at
 * once. */
static void find_ends(flight *f)
{
    bt_program *program = f->program;
    int64_t *maker = f->late, before = -1; /* by buffer: 1 + its collective; the previous collective */
    memset(maker, 0, (size_t)program->buffer_count * sizeof *maker);
    for (int64_t s = 0; s < program->step_count; s++) {
        bt_call_step *step = &program->steps[s];
        for (int i = 0; i < step->call.inputs; i++) {
            const int64_t made = maker[step->in[i].buffer];
            if (made && program->steps[made - 1].until > s)
                program->steps[made - 1].until = s;
        }
        step->until = 0;
        if (!bt_step_joins(step))
            continue;
        for (int o = 0; o < step->call.outputs; o++)
            maker[step->out[o].buffer] = s + 1;
        step->until = program->step_count;
        if (before >= 0 && program->steps[before].until > s + 1)
            program->steps[before].until = s + 1;
        before = s;
    }
    for (int64_t s = 0; s < program->step_count; s++)
        if (program->steps[s].until == s + 1)
            program->steps[s].until = 0;
}

bt_status bt_pass_flight(bt_compilation *c)
{
    const int64_t count = c->program->step_count;
    flight f = {.program = c->program, .now = 1};
    f.steps = bt_alloc_array(2 * (size_t)count + 1, sizeof *f.steps);
    f.late = bt_alloc_array((size_t)c->program->buffer_count + 1, sizeof *f.late);
    const bool room = f.steps && f.late;
    if (room) {
        f.held = f.steps + count;
        memcpy(f.steps, c->program->steps, (size_t)count * sizeof *f.steps);
        c->program->step_count = 0;
        for (int64_t s = 0; s < count; s++)
            visit(&f, &f.steps[s]);
        release(&f);
        find_ends(&f);
    }
    bt_free(f.steps);
    bt_free(f.late);
    return room ? BT_OK : BT_ERROR_MEMORY;
}
