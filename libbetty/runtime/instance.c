/* runtime/instance.c: where phases run. */
#include "runtime/phase.h"

#include "base/footprint.h"
#include "compile/work.h"
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
    bt_queue_free(instance->queue, instance->arena);
    instance->arena = NULL;
    instance->arena_size = 0;
}

void bt_instance_free(bt_instance *instance)
{
    if (!instance)
        return;
    bt_instance_drop_arena(instance);
    bt_queue_leave(instance->queue);
    bt_free(instance->phases);
    bt_free(instance);
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
