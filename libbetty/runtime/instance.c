/* runtime/instance.c: where phases run. */
#include "runtime/phase.h"

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

void bt_instance_free(bt_instance *instance)
{
    if (!instance)
        return;
    instance->backend->memory->free(instance->arena);
    bt_free(instance->phases);
    bt_free(instance);
}

void bt_instance_fill(bt_instance *instance)
{
    instance->filled = true;
    if (instance->arena)
        instance->backend->memory->fill(instance->arena, FILL, instance->arena_size);
}

size_t bt_instance_touched(const bt_instance *instance)
{
    size_t touched = instance->arena ? instance->arena_size : 0;
    while (touched && instance->arena[touched - 1] == FILL)
        touched--;
    return touched;
}
