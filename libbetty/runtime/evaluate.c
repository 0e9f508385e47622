/* runtime/evaluate.c: runs a graph once. */
#include "runtime/evaluate.h"

/* A near copy of an output that lies on the device; NULL after an error. */
static char *show(bt_phase_entry *entry, int64_t output, bt_queue *queue, const char *far, size_t bytes)
{
    const int64_t outputs = entry->program->graph->output_count;
    if (!entry->shown && !(entry->shown = bt_alloc_array((size_t)outputs, sizeof *entry->shown)))
        return NULL;
    char **shown = &entry->shown[output];
    if (!*shown && !(*shown = bt_alloc(bytes)))
        return NULL;
    return bt_queue_read(queue, *shown, far, bytes) == BT_OK ? *shown : NULL;
}

bt_array bt_phase_result(const bt_phase *phase, int entry, int64_t output)
{
    const bt_program *program = phase->entries[entry].program;
    bt_array array = bt_tensor_array(program->graph->outputs[output]);
    int64_t number = program->buffers[program->results[output].buffer].root;
    int64_t value = phase->entries[entry].bound->values[number];
    const bt_buffer *root = &program->buffers[number];
    bool elsewhere = root->home == BT_HOME_VAR && root->var->lifetime != BT_PHASE;
    bt_queue *queue = elsewhere ? root->var->queue : phase->instance->queue;
    char *data = NULL;
    if (elsewhere)
        data = root->var->data + root->start;
    else if (value >= 0)
        data = bt_phase_address((bt_phase *)(uintptr_t)phase, value, root->start);
    bool far = data && queue && !phase->instance->dry;
    array.data = far ? show(&phase->entries[entry], output, queue, data, bt_array_bytes(array)) : data;
    return array;
}

bt_status bt_phase_give(const bt_phase *phase, int entry, int64_t output, bt_array to)
{
    bt_array found = bt_phase_result(phase, entry, output);
    return found.data ? bt_array_convert(to, found) : bt_error_status();
}

bt_status bt_evaluate(const bt_graph *graph, const bt_array *results)
{
    bt_instance *instance = bt_instance_new(bt_backend_cpu(), 1);
    bt_phase *phase = instance ? bt_phase_new(instance, "", "evaluate") : NULL;
    bt_status status = phase ? BT_OK : BT_ERROR_MEMORY;
    if (phase && bt_phase_add(phase, graph, 0, "evaluate") < 0)
        status = bt_error_status();
    if (status == BT_OK)
        status = bt_phase_plan(phase);
    if (status == BT_OK) {
        bt_phase_begin(phase);
        status = bt_phase_run(phase, 0);
    }
    for (int64_t i = 0; status == BT_OK && i < graph->output_count; i++)
        status = bt_phase_give(phase, 0, i, results[i]);
    if (status == BT_OK && phase)
        status = bt_instance_wait(instance);
    bt_phase_free(phase);
    bt_instance_free(instance);
    return status;
}
