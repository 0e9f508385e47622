/* engine/traced/vector.c: the parameters of a problem as tensors of the trace in progress. */
#include "engine/traced/traced.h"

#include "ops/ops.h"

bt_tensor *bt_problem_vector(const bt_problem *problem, bt_tensor *vector, const char *callback)
{
    char found[256];
    int64_t due = bt_params_elements(problem);
    if (bt_poisoned(vector))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s returned nothing", callback);
    if (vector->rank != 1 || vector->dims[0] != due || !bt_dtype_floats(vector->dtype))
        return bt_trace_poison(BT_ERROR_SHAPE, "%s returned %s%s, expected %s[%lld] like bt_params(self)", callback,
                               bt_dtype_name(vector->dtype), bt_shape_text(found, vector->rank, vector->dims),
                               bt_dtype_name(problem->dtype), (long long)due);
    return bt_as(vector, problem->dtype);
}

void bt_problem_params(bt_problem *problem, bt_tensor **params)
{
    for (int64_t i = 0; i < problem->module->param_count; i++)
        params[i] = bt_trace_read(problem->module->params[i]->var);
}

bt_tensor *bt_problem_join(bt_problem *problem, bt_tensor *const *parts)
{
    bt_trace *trace = bt_trace_now();
    int64_t count = problem->module->param_count;
    bt_tensor **flat = bt_region_alloc(trace->graph->region, (size_t)(count + 1) * sizeof *flat);
    if (!flat)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < count; i++)
        flat[i] = bt_poisoned(parts[i]) ? parts[i] : bt_reshape(parts[i], -1);
    return count == 1 ? flat[0] : bt_concat_list(0, flat, (int)count);
}

void bt_problem_split(bt_problem *problem, bt_tensor *vector, bt_tensor **parts)
{
    int64_t at = 0;
    for (int64_t i = 0; i < problem->module->param_count; i++) {
        bt_array shape = problem->module->params[i]->shape;
        int64_t sizes[BT_MAX_RANK + 1], count = bt_array_count(shape);
        for (int k = 0; k < shape.rank; k++)
            sizes[k] = shape.dims[k];
        sizes[shape.rank] = BT_END;
        bt_tensor *part = problem->module->param_count == 1 ? vector : bt_slice(vector, 0, at, at + count);
        parts[i] = (bt_reshape)(part, sizes);
        at += count;
    }
}
