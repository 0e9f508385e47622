/* export/module.c: bt_module_export: exports a module without a problem. */
#include "export/export.h"

#include "nn/module.h"
#include "runtime/variable.h"
#include <string.h>

bt_status bt_export_format_of(const char *path, bt_export_format *format)
{
    const char *end = strrchr(path, '.');
    if (end && (strcmp(end, ".onnx") == 0 || strcmp(end, ".safetensors") == 0)) {
        *format = strcmp(end, ".onnx") == 0 ? BT_EXPORT_ONNX : BT_EXPORT_TORCH;
        return BT_OK;
    }
    return bt_fail(
        BT_ERROR_ARGUMENT,
        "%s: expected a model's name as NAME.onnx, for inference, or NAME.safetensors, its parameters for PyTorch",
        path);
}

typedef struct recording {
    bt_module *module;
    const bt_model_input *inputs;
    int count;
    bt_var **vars[2]; /* the inputs' variables, for fewer and for more examples */
    bt_graph *graphs[2];
} recording;

static const int64_t examples[2] = {BT_FEWER, BT_MORE};

static bt_status check_inputs(const recording *r)
{
    for (int i = 0; i < r->count; i++) {
        const bt_model_input *input = &r->inputs[i];
        bool fits = input->name && *input->name && bt_is_utf8(input->name) && input->shape.rank >= 0 &&
                    input->shape.rank <= BT_MAX_RANK && bt_dtype_size(input->shape.dtype);
        for (int a = 0; fits && a < input->shape.rank; a++)
            fits = input->shape.dims[a] >= 0;
        for (int k = 0; fits && k < i; k++)
            fits = strcmp(r->inputs[k].name, input->name) != 0;
        if (!fits)
            return bt_fail(BT_ERROR_ARGUMENT,
                           "bt_module_export: input %d has no name of its own, or an impossible shape", i);
    }
    return BT_OK;
}

static bt_status make_vars(recording *r, int k)
{
    r->vars[k] = bt_alloc_array((size_t)r->count + 1, sizeof(bt_var *));
    for (int i = 0; r->vars[k] && i < r->count; i++) {
        bt_array shape = r->inputs[i].shape;
        for (int a = 0; a < shape.rank; a++)
            shape.dims[a] = shape.dims[a] ? shape.dims[a] : examples[k];
        shape.data = NULL;
        if (!(r->vars[k][i] = bt_var_new(BT_EXTERNAL, BT_BATCH, "", r->inputs[i].name, shape)))
            return bt_error_status();
    }
    return r->vars[k] ? BT_OK : BT_ERROR_MEMORY;
}

/* Reads an input as a problem's callback would: with a batch axis, and floats in the module's dtype. */
static bt_tensor *read_input(const recording *r, int k, int i)
{
    bt_tensor *x = bt_trace_read(r->vars[k][i]);
    const bt_array *shape = &r->inputs[i].shape;
    for (int a = shape->rank - 1; a >= 0 && !bt_poisoned(x); a--)
        if (!shape->dims[a])
            x->batch_axis = a;
    return !bt_poisoned(x) && bt_dtype_floats(x->dtype) ? bt_as(x, bt_trace_now()->dtype) : x;
}

static bt_status record(recording *r, int k)
{
    bt_trace trace;
    BT_TRY(make_vars(r, k));
    bt_tensor **in = bt_alloc_array((size_t)r->count + 1, sizeof *in);
    bt_graph *graph = r->graphs[k] = in ? bt_graph_new() : NULL;
    if (!graph) {
        bt_free(in);
        return BT_ERROR_MEMORY;
    }
    const bt_dtype dtype = bt_dtype_half(r->module->dtype) ? BT_F32 : r->module->dtype, low = r->module->low;
    r->module->low = BT_F32;
    bt_trace_begin(&trace, graph, BT_VALID, dtype);
    for (int i = 0; i < r->count; i++)
        in[i] = read_input(r, k, i);
    bt_tensor *out = bt_forward_module_(r->module, in);
    if (!bt_poisoned(out))
        bt_graph_output(graph, out);
    bt_trace_end(&trace);
    r->module->low = low;
    graph->assign_count = 0;
    bt_free(in);
    return graph->status == BT_OK ? bt_error_status() : bt_fail(graph->status, "%s", graph->message);
}

static bt_status write_record(const recording *r, const char *path)
{
    const char **names = bt_alloc_array((size_t)r->count + 1, sizeof *names);
    for (int i = 0; names && i < r->count; i++)
        names[i] = r->inputs[i].name;
    const bt_forward_pair pair = {.of = {{r->graphs[0], r->vars[0]}, {r->graphs[1], r->vars[1]}},
                                  .names = names,
                                  .inputs = r->count,
                                  .level = r->module->name};
    bt_status status = names ? bt_onnx_write(&pair, path) : BT_ERROR_MEMORY;
    bt_free(names);
    return status;
}

static bt_status export_forward(recording *r, const char *path)
{
    BT_TRY(check_inputs(r));
    bt_status status = BT_OK;
    for (int k = 0; k < 2 && status == BT_OK; k++)
        status = record(r, k);
    if (status == BT_OK)
        status = write_record(r, path);
    for (int k = 0; k < 2; k++) {
        bt_graph_free(r->graphs[k]);
        for (int i = 0; r->vars[k] && i < r->count; i++)
            bt_var_free(r->vars[k][i]);
        bt_free(r->vars[k]);
    }
    return status;
}

bt_status bt_module_export(bt_module *module, const char *path, const bt_model_input *inputs, int count)
{
    bt_export_format format;
    if (!module || !path || count < 0 || (count && !inputs))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_module_export: the %s missing (NULL)",
                       !module ? "module is"
                       : !path ? "path is"
                               : "inputs are");
    if (module->parent)
        return bt_fail(BT_ERROR_ARGUMENT,
                       "bt_module_export: \"%s\" is a part of another module; export the whole module", module->name);
    if (!module->adopted)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_module_export: the module has no storage yet: call bt_module_init first");
    BT_TRY(bt_error_status()); /* a failure of an earlier call, until bt_error_clear */
    BT_TRY(bt_export_format_of(path, &format));
    recording r = {.module = module, .inputs = inputs, .count = count};
    bt_status status = format == BT_EXPORT_TORCH ? bt_torch_write(module, NULL, path) : export_forward(&r, path);
    if (status != BT_OK)
        bt_error_context("%s", path);
    return status;
}
