/* runtime/instance.c: where phases run. */
#include "runtime/phase.h"

#include "base/footprint.h"
#include "compile/work.h"
#include "runtime/copies.h"
#include "runtime/lockstep.h"
#include <stdlib.h>
#include <string.h>

enum { FILL = 0x7f }; /* as f32 or f64 a number that no training produces */

bt_instance *bt_instance_new(const bt_backend *backend, int threads)
{
    bt_instance *instance = bt_alloc(sizeof *instance);
    if (!instance)
        return NULL;
    const char *plan = getenv("BETTY_PLAN");
    instance->backend = backend;
    instance->threads = threads > 0 ? threads : bt_cores();
    instance->options = bt_compile_defaults(&backend->kernels, instance->threads);
    instance->red_zone = plan && strcmp(plan, "guard") == 0 ? BT_ALIGN : 0;
    instance->planned = !(plan && (strcmp(plan, "off") == 0 || instance->red_zone));
    instance->world.ranks = 1;
    instance->first = instance;
    if (backend->device && !(instance->queue = bt_queue_open(backend->device))) {
        bt_instance_free(instance);
        return NULL;
    }
    return instance;
}

int bt_instance_busiest(const bt_instance *instance, double *work)
{
    int most = 1;
    *work = 0;
    for (int64_t i = 0; i < instance->phase_count; i++)
        for (int64_t e = 0; e < instance->phases[i]->entry_count; e++) {
            const bt_program *program = instance->phases[i]->entries[e].program;
            for (int64_t s = 0; s < program->step_count; s++) {
                const bt_call *call = &program->steps[s].call;
                double own = bt_call_work(call);
                *work = own > *work ? own : *work;
                most = call->threads > most ? call->threads : most;
            }
        }
    return most;
}

void bt_instance_drop_arena(bt_instance *instance)
{
    if (instance->queue)
        bt_live_far(-(int64_t)instance->arena_size);
    if (instance->world.rank)
        bt_live_far((int64_t)instance->arena_size);
    bt_queue_free(instance->queue, instance->arena);
    instance->arena = NULL;
    instance->arena_size = 0;
}

void bt_instance_free(bt_instance *instance)
{
    if (!instance)
        return;
    for (int r = 0; r < bt_instance_others(instance); r++)
        bt_instance_free(instance->others[r]);
    bt_free(instance->others);
    bt_lockstep_free(instance->lockstep);
    bt_instance_drop_arena(instance);
    bt_queue_leave(instance->queue);
    bt_free(instance->phases);
    bt_free(instance);
}

int bt_instance_others(const bt_instance *instance) { return instance->others ? instance->world.ranks - 1 : 0; }

static bool layout_of(void *user, const bt_var *root, bt_spread *layout)
{
    (void)user;
    return bt_var_layout(root, layout);
}

static bt_status decide(void *user, bt_var *root, const bt_spread *layout)
{
    return bt_var_decide(root, ((const bt_instance *)user)->world.ranks, layout);
}

static bt_var *local_of(void *user, bt_var *var)
{
    const bt_world *world = &((const bt_instance *)user)->world;
    return bt_var_of_rank(var, world->rank, world->ranks);
}

static void join_world(bt_instance *instance, int rank, int ranks)
{
    instance->world = (bt_world){rank, ranks, layout_of, decide, local_of, instance};
}

bt_status bt_instance_spread(bt_instance *instance, int ranks)
{
    if (ranks < 2)
        return BT_OK;
    if (instance->queue)
        return bt_fail(BT_ERROR_UNSUPPORTED, "%d ranks: ranks in lockstep are computed by the processor, not by %s",
                       ranks, instance->backend->kernels.device);
    if (instance->phase_count)
        return bt_fail(BT_ERROR_INTERNAL, "the number of ranks has to be said before the first phase");
    join_world(instance, 0, ranks);
    if (instance->dry)
        return BT_OK;
    instance->others = bt_alloc_array((size_t)ranks - 1, sizeof(bt_instance *));
    instance->lockstep = bt_lockstep_new(ranks);
    if (!instance->others || !instance->lockstep)
        return BT_ERROR_MEMORY;
    for (int r = 1; r < ranks; r++) {
        bt_instance *other = bt_instance_new(instance->backend, instance->threads);
        if (!other)
            return bt_error_status();
        instance->others[r - 1] = other;
        other->first = instance;
        join_world(other, r, ranks);
    }
    return BT_OK;
}

bt_status bt_instance_wait(bt_instance *instance) { return bt_queue_wait(instance->queue); }

int64_t bt_instance_waits(const bt_instance *instance) { return bt_queue_waits(instance->queue); }

void bt_instance_fill(bt_instance *instance)
{
    instance->filled = true;
    if (instance->arena)
        bt_queue_fill(instance->queue, instance->arena, FILL, instance->arena_size);
}

size_t bt_instance_touched(const bt_instance *instance)
{
    size_t touched = instance->arena ? instance->arena_size : 0;
    char *copy = touched && instance->queue ? bt_alloc(touched) : NULL;
    const char *arena = instance->queue ? copy : instance->arena;
    if (copy)
        bt_queue_read(instance->queue, copy, instance->arena, touched);
    while (touched && arena && arena[touched - 1] == FILL)
        touched--;
    bt_free(copy);
    return touched;
}
