/* function/minimize.c: bt_optimizer_minimize: records gradients, update and assigns in the current trace, without a
 * problem. */
#include "optim/optim.h"

#include "nn/module.h"
#include "ops/ops.h"
#include "transform/grad.h"

/* Creates one block per slot. */
static bt_status make_slots(bt_optimizer *optimizer, const bt_module *module)
{
    int64_t count = module->param_count;
    bt_slotted *params = bt_alloc_array((size_t)count, sizeof *params);
    bt_status status = params ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < count; i++) {
        const bt_slate *param = module->params[i];
        params[i] = (bt_slotted){.like = param->shape, .name = param->path, .table = param->table};
        params[i].like.dtype = module->dtype;
    }
    for (int s = 0; status == BT_OK && s < bt_optimizer_slot_count(optimizer); s++)
        if (!optimizer->blocks[s].flat)
            status = bt_slot_block(optimizer, s, &optimizer->blocks[s], "", params, NULL, count);
    bt_free(params);
    return status;
}

/* Checks the arguments before anything is recorded; poisons the trace if they are wrong. */
static bool ready(bt_optimizer *optimizer, bt_tensor *loss, bt_module *module)
{
    char found[256];
    bt_trace *trace = bt_trace_now();
    if (!optimizer || !module || !loss)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_optimizer_minimize: the %s is NULL",
                        !optimizer ? "optimiser" : (!module ? "module" : "loss"));
    else if (!trace)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_optimizer_minimize: call it only inside a traced function");
    else if (bt_poisoned(loss))
        return false; /* reported already */
    else if (loss->rank != 0)
        bt_trace_poison(BT_ERROR_SHAPE, "bt_optimizer_minimize: the loss is not a scalar but %s; take its bt_mean",
                        bt_shape_text(found, loss->rank, loss->dims));
    else if (!module->adopted)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_optimizer_minimize: the module has no storage yet: call bt_module_init");
    else if (module->param_count == 0 || module->param_count > INT32_MAX)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_optimizer_minimize: the module has %lld parameters",
                        (long long)module->param_count);
    else if (optimizer->module && optimizer->module != module)
        bt_trace_poison(BT_ERROR_ARGUMENT,
                        "bt_optimizer_minimize: this optimiser's state belongs to another module; make an optimiser "
                        "for each module");
    else if (optimizer->applied && bt_graph_assigned(trace->graph, optimizer->applied))
        bt_trace_poison(BT_ERROR_ARGUMENT,
                        "bt_optimizer_minimize: was called twice in one function with the same optimiser");
    else
        return true;
    return false;
}

static bool start(bt_optimizer *optimizer, bt_module *module)
{
    bt_status status = bt_optimizer_start(optimizer, "");
    if (status == BT_OK)
        status = make_slots(optimizer, module);
    if (status != BT_OK)
        bt_trace_poison(status, "%s", *bt_error() ? bt_error() : "the optimiser cannot be prepared");
    else
        optimizer->module = module;
    return status == BT_OK;
}

/* Fills the segments with parameters, gradients and slots. Returns the number of segments. Parameters that the loss
 * does not reach are left out: as in PyTorch, they neither decay nor follow their momentum. */
static int gather(bt_optimizer *optimizer, bt_tensor *loss, bt_module *module, bt_segment *segments, bt_tensor **params,
                  bt_tensor **grads)
{
    int count = (int)module->param_count, slots = bt_optimizer_slot_count(optimizer), reached = 0;
    for (int i = 0; i < count; i++)
        params[i] = bt_trace_read(module->params[i]->var);
    bt_tensor *one = bt_ones_like(loss);
    bt_vjp(bt_trace_now()->graph, &loss, &one, 1, params, count, grads, false);
    for (int i = 0; i < count; i++) {
        if (!grads[i])
            continue;
        bt_segment *segment = &segments[reached++];
        segment->param = params[i];
        segment->grad = grads[i];
        for (int s = 0; s < slots; s++)
            segment->slots[s] = optimizer->blocks[s].windows[i] ? bt_trace_read(optimizer->blocks[s].windows[i]) : NULL;
    }
    if (!reached)
        bt_trace_poison(BT_ERROR_ARGUMENT,
                        "bt_optimizer_minimize: the loss does not depend on any of the module's parameters");
    return reached;
}

static void record(bt_optimizer *optimizer, bt_module *module, bt_segment *segments, int count, bt_tensor **grads)
{
    bt_graph *graph = bt_trace_now()->graph;
    bt_update update = {.segments = segments, .count = count};
    const bt_segment *segment = segments;
    bt_optimizer_update(optimizer, &update);
    for (int64_t i = 0; i < module->param_count; i++) {
        if (!grads[i])
            continue;
        bt_graph_assign(graph, module->params[i]->var, segment->next_param);
        for (int s = 0; s < bt_optimizer_slot_count(optimizer); s++)
            if (segment->next_slots[s])
                bt_graph_assign(graph, optimizer->blocks[s].windows[i], segment->next_slots[s]);
        segment++;
    }
    bt_optimizer_advance(optimizer, &update);
}

void bt_optimizer_minimize(bt_optimizer *optimizer, bt_tensor *loss, bt_module *module)
{
    if (!ready(optimizer, loss, module) || !start(optimizer, module))
        return;
    size_t count = (size_t)module->param_count;
    bt_segment *segments = bt_alloc_array(count, sizeof *segments);
    bt_tensor **params = bt_alloc_array(count, sizeof(bt_tensor *)),
              **grads = bt_alloc_array(count, sizeof(bt_tensor *));
    int reached = 0;
    if (!segments || !params || !grads)
        bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    else
        reached = gather(optimizer, loss, module, segments, params, grads);
    if (reached)
        record(optimizer, module, segments, reached, grads);
    bt_free(segments);
    bt_free(params);
    bt_free(grads);
}
