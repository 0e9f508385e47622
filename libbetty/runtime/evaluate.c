/* runtime/evaluate.c: a graph run once. */
#include "runtime/evaluate.h"

bt_array bt_phase_result(const bt_phase *phase, int entry, int64_t output)
{
    const bt_program *program = phase->entries[entry].program;
    bt_array array = bt_tensor_array(program->graph->outputs[output]);
    int64_t number = program->buffers[program->results[output].buffer].root;
    int64_t value = phase->entries[entry].bound->values[number];
    const bt_buffer *root = &program->buffers[number];
    bool elsewhere = root->home == BT_HOME_VAR && root->var->lifetime != BT_PHASE;
    if (elsewhere)
        array.data = root->var->data + root->start;
    else
        array.data = value < 0 ? NULL : bt_phase_address((bt_phase *)(uintptr_t)phase, value, root->start);
    return array;
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
        status = bt_array_convert(results[i], bt_phase_result(phase, 0, i));
    bt_phase_free(phase);
    bt_instance_free(instance);
    return status;
}
