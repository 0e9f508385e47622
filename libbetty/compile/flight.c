/* compile/flight.c: a collective may be under way while the steps behind it run, up to the first that reads what it
 * gives, but not longer than until the next one has begun: so what two of them need is alive, and no more. That there
 * are such steps, readers are put off until then; collectives keep their order. While one is under way nobody writes
 * what it reads: commit.c and merge.c look at where it ends. */
#include "compile/compile_inside.h"

#include <string.h>

typedef struct flight {
    bt_program *program;
    bt_call_step *steps, *held; /* as they were; those that are put off */
    int64_t *late, now;         /* by buffer: `now`, if it comes of what is under way, or put off */
    int64_t held_count;
    bool says; /* something that prints is put off */
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
        release(f); /* whoever reads the one before */
        mark(f, step);
    } else if (late) {
        f->held[f->held_count++] = *step;
        f->says = f->says || bt_op_flags(step->call.op) & BT_OP_EFFECT;
        mark(f, step);
    } else {
        emit(f, step);
    }
}

/* Before which step each has to be done; where that is the next one, it is waited for at once. */
static void find_ends(flight *f)
{
    bt_program *program = f->program;
    int64_t *maker = f->late, before = -1; /* by buffer: the collective, and one more; the one before */
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
