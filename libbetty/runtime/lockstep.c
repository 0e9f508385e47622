/* runtime/lockstep.c: runs the ranks of one process. */
#include "runtime/lockstep.h"

#include "ops/ops.h"
#include "runtime/profile.h"
#include "runtime/sender.h"
#include "runtime/watch.h"

typedef struct runner { /* one rank */
    bt_phase *phase;
    int entry;
    const bt_phase_entry *e;
    int64_t at;  /* its next step */
    int64_t met; /* collectives before it, as many on all ranks */
} runner;

struct bt_lockstep {
    int ranks;
    runner *runners;
    const bt_call **calls; /* of a collective, by rank */
    int64_t given;         /* calls given to the sender in this run */
};

bt_lockstep *bt_lockstep_new(int ranks)
{
    bt_lockstep *l = bt_alloc(sizeof *l);
    if (!l)
        return NULL;
    l->ranks = ranks;
    l->runners = bt_alloc_array((size_t)ranks, sizeof *l->runners);
    l->calls = bt_alloc_array((size_t)ranks, sizeof(const bt_call *));
    if (l->runners && l->calls)
        return l;
    bt_lockstep_free(l);
    return NULL;
}

void bt_lockstep_free(bt_lockstep *l)
{
    if (!l)
        return;
    bt_free(l->runners);
    bt_free(l->calls);
    bt_free(l);
}

static const bt_call_step *next(const runner *r)
{
    return r->at < r->e->program->step_count ? &r->e->program->steps[r->at] : NULL;
}

static bt_status begin(runner *r)
{
    return r->phase->instance->planned ? bt_bound_begin(r->e->bound) : BT_OK; /* else done before each step */
}

static bt_status reach(const runner *r)
{
    return r->phase->instance->planned ? BT_OK : bt_watch_reach(r->phase, r->entry, r->at);
}

static double start(const runner *r) { return r->phase->instance->profile ? bt_seconds() : 0; }

static bt_status profiled(const runner *r, double begin)
{
    return r->phase->instance->profile ? bt_profile_step(r->phase, r->entry, r->at, begin) : BT_OK;
}

/* Collectives are made on the sender's thread only if steps run as planned and are not timed one by one. */
static bt_sender *sender_of(const runner *r)
{
    const bt_instance *instance = r->phase->instance;
    return instance->planned && !instance->profile ? instance->sender : NULL;
}

static bt_status await(const runner *r, const bt_call_step *step)
{
    bt_sender *sender = sender_of(r);
    return sender && step->awaits ? bt_sender_wait(sender, step->awaits) : BT_OK;
}

/* Runs up to the next collective or the end. */
static bt_status go_on(runner *r)
{
    for (const bt_call_step *step; (step = next(r)) && !bt_step_joins(step); r->at++) {
        BT_TRY(await(r, step));
        BT_TRY(reach(r));
        double begin = start(r);
        bt_status status = bt_bound_step(r->e->bound, r->at);
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

/* Checks that all are at the same collective, or at the end. */
static bt_status meet(const runner *runners, int ranks)
{
    const bt_call_step *first = next(&runners[0]);
    for (int r = 1; r < ranks; r++) {
        const bt_call_step *step = next(&runners[r]);
        if (!first != !step || (first && !bt_calls_meet(&first->call, &step->call)))
            return parted(&runners[0], &runners[r]);
    }
    return BT_OK;
}

/* The other ranks are processes. */
static bt_status join_processes(bt_lockstep *l, const runner *r)
{
    const bt_phase *phase = r->phase;
    const bt_call *call = &r->e->bound->calls[r->at];
    const uint64_t at = bt_hash_text(bt_hash_text((uint64_t)r->met, phase->name), phase->owner) + (uint64_t)r->entry;
    bt_sender *sender = sender_of(r);
    if (sender && next(r)->until) {
        l->given = bt_sender_give(sender, call, at);
        return BT_OK;
    }
    if (sender)
        BT_TRY(bt_sender_wait(sender, l->given));
    return bt_joint_call(phase->instance->joint, call, at);
}

static bt_status join(bt_lockstep *l)
{
    bt_instance *instance = l->runners[0].phase->instance;
    const double begin = start(&l->runners[0]);
    BT_TRY(await(&l->runners[0], next(&l->runners[0])));
    for (int r = 0; r < l->ranks; r++) {
        const runner *own = &l->runners[r];
        BT_TRY(reach(own));
        l->calls[r] = &own->e->bound->calls[own->at];
    }
    if (instance->joint)
        BT_TRY(join_processes(l, &l->runners[0]));
    else
        BT_TRY(instance->backend->kernels.join(l->calls, l->ranks));
    BT_TRY(profiled(&l->runners[0], begin));
    for (int r = 0; r < l->ranks; r++) {
        l->runners[r].at++;
        l->runners[r].met++;
    }
    return BT_OK;
}

static bt_status run(bt_lockstep *l, bt_phase *phase, int entry)
{
    for (int r = 0; r < l->ranks; r++) {
        bt_phase *own = r ? phase->others[r - 1] : phase;
        l->runners[r] = (runner){own, entry, &own->entries[entry], 0, 0};
        BT_TRY(begin(&l->runners[r]));
    }
    for (bool all = false; !all;) {
        for (int r = 0; r < l->ranks; r++)
            BT_TRY(go_on(&l->runners[r]));
        BT_TRY(meet(l->runners, l->ranks));
        all = !next(&l->runners[0]);
        if (!all)
            BT_TRY(join(l));
    }
    if (l->given)
        BT_TRY(bt_sender_wait(phase->instance->sender, l->given));
    for (int r = 0; r < l->ranks; r++)
        if (l->runners[r].at) /* without a step, nothing lives */
            BT_TRY(bt_bound_end(l->runners[r].e->bound));
    return BT_OK;
}

bt_status bt_lockstep_run(bt_phase *phase, int entry)
{
    bt_lockstep *l = phase->instance->lockstep;
    l->given = 0;
    const bt_status status = run(l, phase, entry);
    if (l->given) /* leave nothing under way: other ranks reach the same calls, or fail */
        bt_sender_drain(phase->instance->sender);
    return status;
}
