/* function/function.c: traced functions of a batch, without a problem: compiled at the first run and for each new set
 * of shapes. */
#include "data/data.h"
#include "runtime/evaluate.h"
#include "runtime/store.h"
#include <betty/function.h>

typedef struct compiled { /* one per set of shapes */
    bt_batch *batch;      /* template; NULL: a run without a batch */
    bt_graph *graph;      /* as first traced */
    bt_phase *phase;
    int64_t runs;
    struct compiled *next;
} compiled;

struct bt_function {
    bt_function_fn *fn;
    void *user;
    bt_mode mode;
    bt_instance *instance;
    bt_var *record; /* I64 []: number of the run, for random ops */
    int64_t runs;
    compiled *programs;
};

bt_function *bt_function_new(bt_function_fn *fn, void *user, bt_mode mode)
{
    if (!fn) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_function_new: the function is NULL");
        return NULL;
    }
    bt_function *function = bt_alloc(sizeof *function);
    if (!function)
        return NULL;
    *function = (bt_function){.fn = fn, .user = user, .mode = mode};
    function->instance = bt_instance_new(bt_backend_cpu(), 0);
    function->record = bt_var_new(BT_RUN, BT_BATCH, "", "run", (bt_array){.dtype = BT_I64});
    if (function->record)
        function->record->mailed = true;
    if (function->instance && function->record)
        return function;
    bt_function_free(function);
    return NULL;
}

static void compiled_free(compiled *program)
{
    bt_phase_free(program->phase);
    bt_graph_free(program->graph);
    bt_batch_free(program->batch);
    bt_free(program);
}

void bt_function_free(bt_function *function)
{
    if (!function)
        return;
    for (compiled *program = function->programs, *next; program; program = next) {
        next = program->next;
        compiled_free(program);
    }
    bt_instance_free(function->instance);
    bt_var_free(function->record);
    bt_free(function);
}

/* The dtype in which the function computes: that of the batch's first floating field; f32 if there is none. */
static bt_dtype dtype_of(const bt_batch *batch)
{
    for (int i = 0; batch && i < batch->field_count; i++)
        if (bt_dtype_floats(batch->fields[i].array.dtype))
            return batch->fields[i].array.dtype;
    return BT_F32;
}

static bt_graph *trace_function(bt_function *function, const bt_batch *batch)
{
    bt_trace trace;
    bt_graph *graph = bt_graph_new();
    if (!graph)
        return NULL;
    bt_trace_begin(&trace, graph, function->mode, dtype_of(batch));
    trace.record = function->record;
    bt_tensor *value = function->fn(function->user, batch);
    if (bt_poisoned(value))
        bt_trace_poison(BT_ERROR_ARGUMENT, "the function returned nothing");
    else
        bt_graph_output(graph, value);
    bt_trace_end(&trace);
    if (function->mode == BT_VALID)
        graph->assign_count = 0; /* a validation function changes nothing */
    if (graph->status == BT_OK && bt_error_status() == BT_OK)
        return graph;
    bt_fail(graph->status, "%s", graph->message);
    bt_graph_free(graph);
    return NULL;
}

static compiled *compile(bt_function *function, const bt_batch *batch)
{
    compiled *program = bt_alloc(sizeof *program);
    if (!program)
        return NULL;
    program->batch = batch ? bt_batch_template(batch) : NULL;
    program->phase = bt_phase_new(function->instance, "", "function");
    if (program->phase && (!batch || program->batch))
        program->graph = trace_function(function, program->batch);
    if (program->graph && bt_phase_add(program->phase, program->graph, 0, "function") >= 0 &&
        bt_phase_plan(program->phase) == BT_OK) {
        program->next = function->programs;
        function->programs = program;
        return program;
    }
    compiled_free(program);
    return NULL;
}

/* Traces the function again now and then: it must record the same graph. */
static bt_status check_purity(bt_function *function, compiled *program)
{
    if (!bt_look_again(++program->runs))
        return BT_OK;
    bt_graph *again = trace_function(function, program->batch);
    if (!again)
        return bt_error_status();
    bt_text text = {0};
    if (bt_graph_differs(program->graph, again, &text))
        bt_fail(BT_ERROR_ARGUMENT,
                "bt_function_run: the function is not pure: traced again at run %lld, %s. What changes from run to run "
                "must come from the batch, or from a new bt_function",
                (long long)program->runs, bt_text_get(&text));
    bt_text_free(&text);
    bt_graph_free(again);
    return bt_error_status();
}

static compiled *find(const bt_function *function, const bt_batch *batch)
{
    for (compiled *program = function->programs; program; program = program->next)
        if (batch ? program->batch && bt_batch_fits(program->batch, batch) : !program->batch)
            return program;
    return NULL;
}

bt_status bt_function_run(bt_function *function, const bt_batch *batch, bt_array result)
{
    if (!function)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_function_run: the function is NULL");
    if (bt_error_status() != BT_OK)
        return bt_error_status();
    compiled *program = find(function, batch);
    if (!program)
        program = compile(function, batch);
    if (!program)
        return bt_error_status();
    BT_TRY(check_purity(function, program));
    if (batch)
        bt_batch_bind(program->batch, batch);
    BT_TRY(bt_store_write(function->instance, function->record, 0, &function->runs, sizeof function->runs));
    function->runs++;
    bt_phase_begin(program->phase);
    bt_status status = bt_phase_run(program->phase, 0);
    if (status == BT_OK && result.data)
        status = bt_phase_give(program->phase, 0, 0, result);
    if (status == BT_OK)
        status = bt_instance_wait(function->instance);
    bt_phase_end(program->phase);
    return status;
}
