/* engine/session/export.c: exports a run's network: an ONNX model, or parameters for PyTorch. */
#include "engine/session/session.h"

#include "engine/state/checkpoint.h"
#include "engine/traced/forward.h"
#include "export/export.h"
#include <string.h>

static bt_status find(bt_engine *engine, const char *name, bt_problem **found)
{
    bt_context *context = &engine->context;
    bt_text list = {0};
    *found = name ? bt_problem_find(context, name) : context->problem_count == 1 ? context->problems[0] : NULL;
    if (*found)
        return BT_OK;
    const char *names = bt_problem_list(context, &list);
    bt_status status =
        name ? bt_fail(BT_ERROR_CONFIG, "--problem %s: this run has no such problem; its problems are %s", name, names)
             : bt_fail(BT_ERROR_CONFIG,
                       "--export: name the problem whose network is written: --problem NAME, one of %s", names);
    bt_text_free(&list);
    return status;
}

static bt_status write_forward(const bt_exporting *what, const bt_heard heard[2])
{
    const char *names[BT_MAX_ITEMS];
    bt_text text = {0};
    for (int i = 0; i < heard[0].count; i++)
        names[i] = heard[0].names[i];
    if (heard[0].count != heard[1].count)
        return bt_fail(BT_ERROR_UNSUPPORTED, "the network's input depends on the number of examples in a batch");
    const bt_problem *problem = heard[0].problem;
    const bt_forward_pair pair = {.of = {{heard[0].graph, heard[0].vars}, {heard[1].graph, heard[1].vars}},
                                  .names = names,
                                  .inputs = heard[0].count,
                                  .level = problem->name,
                                  .instance = problem->context->instance};
    BT_TRY(bt_onnx_write(&pair, what->path));
    bt_forward_describe(&pair, &text);
    fprintf(what->file, "%s: the network of %s at step %lld: %s\n", what->path, problem->name,
            (long long)problem->context->step, bt_text_get(&text));
    bt_text_free(&text);
    return BT_OK;
}

static void set_low(bt_problem *problem, bt_dtype low)
{
    problem->low = low;
    if (problem->module)
        problem->module->low = low;
}

/* The export computes in full precision, whatever precision a level was trained in. */
static bt_status hear_both(bt_context *context, bt_heard heard[2])
{
    bt_dtype *low = bt_alloc_array((size_t)context->problem_count, sizeof *low);
    if (!low)
        return BT_ERROR_MEMORY;
    for (int i = 0; i < context->problem_count; i++) {
        low[i] = context->problems[i]->low;
        set_low(context->problems[i], BT_F32);
    }
    bt_stage_enter(context, BT_STAGE_PROGRAM); /* traced code must not start the engine */
    bt_status status = bt_hear(&heard[0]);
    if (status == BT_OK)
        status = bt_hear(&heard[1]);
    bt_stage_leave(context);
    for (int i = 0; i < context->problem_count; i++)
        set_low(context->problems[i], low[i]);
    bt_free(low);
    return status;
}

static bt_status export_forward(const bt_exporting *what, bt_problem *problem)
{
    bt_heard heard[2] = {{.problem = problem, .examples = BT_FEWER}, {.problem = problem, .examples = BT_MORE}};
    bt_status status = hear_both(problem->context, heard);
    if (status == BT_OK)
        status = write_forward(what, heard);
    bt_heard_free(&heard[0]);
    bt_heard_free(&heard[1]);
    return status;
}

static bt_status export_parameters(const bt_exporting *what, const bt_problem *problem)
{
    const bt_module *module = problem->module;
    BT_TRY(bt_torch_write(problem->module, problem->context->instance, what->path));
    fprintf(what->file, "%s: the network of %s at step %lld: %lld parameters and %lld buffers\n", what->path,
            problem->name, (long long)problem->context->step, (long long)module->param_count,
            (long long)module->buffer_count);
    return BT_OK;
}

static bt_status export(bt_engine *engine, const bt_exporting *what)
{
    bt_export_format format;
    bt_problem *problem;
    BT_TRY(bt_export_format_of(what->path, &format));
    BT_TRY(bt_engine_enter_model(engine, "bt_engine_export"));
    BT_TRY(find(engine, what->problem, &problem));
    BT_TRY(bt_checkpoint_load_model(&engine->context, what->folder));
    return format == BT_EXPORT_TORCH ? export_parameters(what, problem) : export_forward(what, problem);
}

bt_status bt_engine_export(bt_engine *engine, const bt_exporting *what)
{
    if (!engine || !what || !what->folder || !what->path || !what->file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_export: an argument is NULL");
    return bt_fail(export(engine, what), "failed");
}
