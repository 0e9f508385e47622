/* runtime/instance.c: instances, in which phases run. */
#include "runtime/phase.h"

#include "base/footprint.h"
#include "compile/work.h"
#include "runtime/copies.h"
#include "runtime/lockstep.h"
#include "runtime/sender.h"
#include "runtime/transport.h"
#include <stdlib.h>
#include <string.h>

enum { FILL = 0x7f }; /* as f32 or f64 a number that no training produces */

bool bt_instance_has_spaces(const bt_instance *instance)
{
    const char *spaces = getenv("BETTY_SPACES");
    return instance->backend->device || (spaces && strcmp(spaces, "2") == 0);
}

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
    instance->options.spaces = bt_instance_has_spaces(instance);
    if (backend->device && backend->device->open && !(instance->queue = bt_queue_open(backend->device))) {
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

/* Whether the other ranks reach its arena. */
static bool is_reached(const bt_instance *instance) { return instance->joint && !instance->queue; }

/* Corrects bt_live_bytes for an arena on a device, or of another rank, which does not count. */
static void count_arena(const bt_instance *instance, int64_t sign)
{
    if (instance->queue)
        bt_live_far(sign * (int64_t)instance->arena_size);
    if (instance->first != instance)
        bt_live_far(-sign * (int64_t)instance->arena_size);
}

bt_status bt_instance_take_arena(bt_instance *instance, size_t size)
{
    bt_instance_drop_arena(instance); /* first, so that the two never exist at the same time */
    instance->arena =
        is_reached(instance) ? bt_joint_alloc(instance->joint, size) : bt_queue_alloc(instance->queue, size);
    instance->arena_size = instance->arena ? size : 0;
    count_arena(instance, 1);
    if (instance->filled)
        bt_instance_fill(instance);
    return instance->arena ? BT_OK : BT_ERROR_MEMORY;
}

static char *alloc_host(const bt_instance *instance, size_t size)
{
    return instance->queue ? bt_queue_pin(instance->queue, size) : bt_alloc_aligned(size);
}

/* Another rank's memory is not counted. */
static void drop_host(bt_instance *instance)
{
    if (!instance->queue)
        bt_live_far((int64_t)instance->host_size);
    if (instance->first == instance)
        bt_live_host(-(int64_t)instance->host_size);
    if (instance->queue)
        bt_queue_unpin(instance->queue, instance->host);
    else
        bt_free_aligned(instance->host);
    instance->host = NULL;
    instance->host_size = 0;
}

bt_status bt_instance_take_host(bt_instance *instance, size_t size)
{
    drop_host(instance);
    if (!(instance->host = alloc_host(instance, size)))
        return BT_ERROR_MEMORY;
    instance->host_size = size;
    if (!instance->queue)
        bt_live_far(-(int64_t)size);
    if (instance->first == instance)
        bt_live_host((int64_t)size);
    return BT_OK;
}

void bt_instance_drop_arena(bt_instance *instance)
{
    count_arena(instance, -1);
    if (is_reached(instance))
        bt_joint_release(instance->joint, instance->arena, instance->arena_size);
    else
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
    bt_sender_free(instance->sender);
    bt_instance_drop_arena(instance);
    drop_host(instance);
    bt_joint_free(instance->joint);
    bt_queue_leave(instance->queue);
    bt_free(instance->phases);
    bt_free(instance);
}

int bt_instance_others(const bt_instance *instance) { return instance->others ? instance->world.ranks - 1 : 0; }

int bt_instance_home(const bt_instance *instance) { return instance->first->world.rank; }

bt_var *bt_instance_own(const bt_instance *instance, bt_var *var)
{
    const bt_world *world = &instance->world;
    return world->ranks > 1 ? bt_var_of_rank(var, world->rank, bt_instance_home(instance), world->ranks) : var;
}

static bool layout_of(void *user, const bt_var *root, bt_spread *layout)
{
    (void)user;
    return bt_var_layout(root, layout);
}

static bt_status decide(void *user, bt_var *root, const bt_spread *layout)
{
    const bt_instance *instance = user;
    return bt_var_decide(root, bt_instance_home(instance), instance->world.ranks, layout);
}

static bt_var *local_of(void *user, bt_var *var) { return bt_instance_own(user, var); }

/* The rows by which ranks divide a variable: whole memory lines if it consists of such, else elements. */
static int64_t rows_of(const bt_var *root)
{
    const int64_t count = bt_array_count(bt_var_array(root)), line = (int64_t)(BT_ALIGN / bt_dtype_size(root->dtype));
    return count % line ? count : count / line;
}

bt_status bt_instance_divide(const bt_instance *instance, bt_var *root)
{
    const bool all = !instance->joint && !instance->dry;
    if (instance->world.ranks == 1 || !root->bytes)
        return BT_OK;
    return bt_var_part(root, bt_instance_home(instance), instance->world.ranks, all, rows_of(root));
}

bt_status bt_instance_sum_divided(const bt_instance *instance, bt_var *root)
{
    const bt_spread layout = {.kind = BT_PARTIAL, .rows = rows_of(root), .of = bt_array_count(bt_var_array(root))};
    if (instance->world.ranks == 1 || !root->bytes)
        return BT_OK;
    return bt_var_decide(root, bt_instance_home(instance), instance->world.ranks, &layout);
}

void bt_instance_window(bt_instance *instance, size_t bytes)
{
    instance->world.window = bytes;
    for (int r = 0; r < bt_instance_others(instance); r++)
        instance->others[r]->world.window = bytes;
}

static void join_world(bt_instance *instance, int rank, int ranks)
{
    instance->world = (bt_world){
        .rank = rank, .ranks = ranks, .layout = layout_of, .decide = decide, .local = local_of, .user = instance};
}

static bt_status may_spread(const bt_instance *instance)
{
    if (instance->phase_count)
        return bt_fail(BT_ERROR_INTERNAL, "set the number of ranks before the first phase");
    return BT_OK;
}

bt_status bt_instance_join(bt_instance *instance, bt_transport *transport)
{
    BT_TRY(may_spread(instance));
    join_world(instance, transport->rank, transport->ranks);
    if (!(instance->joint = bt_joint_new(transport, &bt_backend_cpu()->kernels)))
        return bt_error_status();
    if (instance->queue)
        return bt_queue_join(instance->queue, transport);
    instance->lockstep = bt_lockstep_new(1);
    return instance->lockstep ? BT_OK : BT_ERROR_MEMORY;
}

bt_status bt_instance_overlap(bt_instance *instance)
{
    instance->options.overlap = !instance->queue || bt_queue_overlaps(instance->queue);
    if (is_reached(instance) && !(instance->sender = bt_sender_new(instance->joint)))
        return bt_error_status();
    return BT_OK;
}

int bt_instance_cores(const bt_instance *instance)
{
    return instance->joint ? bt_joint_cores(instance->joint) : bt_cores();
}

bt_status bt_instance_any(bt_instance *instance, bool *flags, int count)
{
    return instance->joint ? bt_joint_any(instance->joint, flags, count) : BT_OK;
}

bt_status bt_instance_spread(bt_instance *instance, int ranks)
{
    if (ranks < 2)
        return BT_OK;
    if (instance->queue)
        return bt_fail(BT_ERROR_UNSUPPORTED, "%d ranks in one process are computed on the processor, not on %s", ranks,
                       instance->backend->kernels.device);
    BT_TRY(may_spread(instance));
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
