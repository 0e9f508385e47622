/* runtime/lockstep.c: the ranks of one process. */
#include "runtime/lockstep.h"

#include "ops/ops.h"
#include "runtime/profile.h"
#include "runtime/watch.h"
#include <string.h>

typedef struct runner { /* one rank */
    bt_phase *phase;
    const bt_program *program;
    bt_bound *bound;
    int entry;
    int64_t at; /* its next step */
} runner;

static const bt_call_step *next(const runner *r)
{
    return r->at < r->program->step_count ? &r->program->steps[r->at] : NULL;
}

static bool collective(const bt_call_step *step) { return bt_op_flags(step->call.op) & BT_OP_COLLECTIVE; }

static bt_status begin(runner *r)
{
    return r->phase->instance->planned ? bt_bound_begin(r->bound) : BT_OK; /* else before each step */
}

static bt_status reach(const runner *r)
{
    return r->phase->instance->planned ? BT_OK : bt_watch_reach(r->phase, r->entry, r->at);
}

static bt_status profiled(const runner *r, double begin)
{
    return r->phase->instance->profile ? bt_profile_step(r->phase, r->entry, r->at, begin) : BT_OK;
}

/* Up to the next collective, or to the end. */
static bt_status go_on(runner *r)
{
    for (const bt_call_step *step; (step = next(r)) && !collective(step); r->at++) {
        BT_TRY(reach(r));
        double begin = bt_seconds();
        bt_status status = bt_bound_step(r->bound, r->at);
        if (status != BT_OK) {
            const bt_world *world = &r->phase->instance->world;
            bt_error_context("rank %d of %d, which has a part of the rows", world->rank, world->ranks);
            return status;
        }
        BT_TRY(profiled(r, begin));
    }
    return BT_OK;
}

static bt_status parted(const runner *first, const runner *other)
{
    const bt_call_step *here = next(first), *there = next(other);
    return bt_fail(BT_ERROR_INTERNAL, "the ranks do not meet: rank 0 is at %s, rank %d at %s",
                   here ? here->call.op->name : "its end", other->phase->instance->world.rank,
                   there ? there->call.op->name : "its end");
}

/* Both are calls of one collective: of what it is about only the rank differs. */
static bool same(const bt_call *a, const bt_call *b)
{
    if (a->op != b->op)
        return false;
    bt_collective_attr here, there;
    memcpy(&here, a->attr, sizeof here);
    memcpy(&there, b->attr, sizeof there);
    there.rank = here.rank;
    return memcmp(&here, &there, sizeof here) == 0 && a->in[0].dtype == b->in[0].dtype;
}

/* All stand before the same collective, or are at their ends. */
static bt_status meet(const runner *runners, int ranks)
{
    const bt_call_step *first = next(&runners[0]);
    for (int r = 1; r < ranks; r++) {
        const bt_call_step *step = next(&runners[r]);
        if (!first != !step || (first && !same(&first->call, &step->call)))
            return parted(&runners[0], &runners[r]);
    }
    return BT_OK;
}

static bt_status join(runner *runners, int ranks, const bt_call **calls)
{
    double begin = bt_seconds();
    for (int r = 0; r < ranks; r++) {
        BT_TRY(reach(&runners[r]));
        calls[r] = &runners[r].bound->calls[runners[r].at];
    }
    bt_status status = runners[0].phase->instance->backend->kernels.join(calls, ranks);
    if (status != BT_OK)
        bt_bound_blame(runners[0].bound, runners[0].at, status);
    else
        status = profiled(&runners[0], begin);
    for (int r = 0; r < ranks; r++)
        runners[r].at++;
    return status;
}

static bt_status run(runner *runners, int ranks, const bt_call **calls)
{
    for (int r = 0; r < ranks; r++)
        BT_TRY(begin(&runners[r]));
    for (bool all = false; !all;) {
        for (int r = 0; r < ranks; r++)
            BT_TRY(go_on(&runners[r]));
        BT_TRY(meet(runners, ranks));
        all = !next(&runners[0]);
        if (!all)
            BT_TRY(join(runners, ranks, calls));
    }
    for (int r = 0; r < ranks; r++)
        if (runners[r].program->step_count)
            BT_TRY(bt_bound_end(runners[r].bound));
    return BT_OK;
}

bt_status bt_lockstep_run(bt_phase *phase, int entry)
{
    const int ranks = phase->instance->world.ranks;
    runner *runners = bt_alloc_array((size_t)ranks, sizeof *runners);
    const bt_call **calls = bt_alloc_array((size_t)ranks, sizeof(const bt_call *));
    for (int r = 0; runners && r < ranks; r++) {
        bt_phase *own = r ? phase->others[r - 1] : phase;
        const bt_phase_entry *e = &own->entries[entry];
        e->bound->place = e->place;
        runners[r] = (runner){own, e->program, e->bound, entry, 0};
    }
    bt_status status = runners && calls ? run(runners, ranks, calls) : BT_ERROR_MEMORY;
    bt_free(runners);
    bt_free(calls);
    return status;
}
