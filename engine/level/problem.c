/* engine/level/problem.c: creates, configures and frees a problem. */
#include "engine/level/level.h"
#include "engine/level/scale.h"

#include <string.h>

bt_problem *bt_problem_new(bt_context *context, const bt_problem_def *def, void *user)
{
    bt_problem *problem = bt_alloc(sizeof *problem);
    if (!problem)
        return NULL;
    *problem = (bt_problem){
        .context = context, .def = def, .name = def->name, .user = user, .inner_loop_start = true, .spacing = 1};
    problem->step_count = bt_ledger_var(context, problem, BT_ROLE_INPUT, BT_BATCH, "step", (bt_array){.dtype = BT_F64});
    problem->inner_count =
        bt_ledger_var(context, problem, BT_ROLE_INPUT, BT_BATCH, "inner step", (bt_array){.dtype = BT_F64});
    if (problem->step_count && problem->inner_count && bt_clock_enter(problem) == BT_OK)
        return problem;
    bt_problem_free(problem);
    return NULL;
}

bt_guest bt_problem_enter(const bt_problem *problem, const char *callback)
{
    return bt_guest_enter((bt_guest){problem->source, problem->name, callback});
}

void bt_problem_leave(const bt_problem *problem, const char *callback, bt_guest before)
{
    bt_guest_leave(before);
    if (bt_error_status() != BT_OK) /* no callback is called while there is an error, so this error is its own */
        bt_error_context("%s, %s", problem->name, callback);
}

static void free_storage(bt_problem *problem)
{
    bt_params_close(problem);
    bt_stream_free(problem->train);
    bt_stream_free(problem->valid);
    bt_dataset_free(problem->train_data);
    bt_dataset_free(problem->valid_data);
}

void bt_problem_free(bt_problem *problem)
{
    if (!problem)
        return;
    bt_ledger_leave(problem->context, problem->sums.flat);
    bt_block_free(&problem->sums);
    for (int i = 0; i < problem->scalar_count; i++) {
        bt_free(problem->scalars[i].name);
        bt_ledger_var_free(problem->context, problem->scalars[i].var);
    }
    free_storage(problem);
    for (int64_t i = 0; i < problem->memory_count; i++) {
        bt_ledger_leave(problem->context, problem->memory[i].data);
        bt_free(problem->memory[i].name);
    }
    bt_free(problem->memory);
    bt_free(problem->scalars);
    bt_free(problem->order);
    bt_free(problem->group);
    bt_free(problem->trainable);
    bt_free(problem->meta_trainable);
    bt_scale_close(problem);
    bt_ledger_var_free(problem->context, problem->step_count);
    bt_ledger_var_free(problem->context, problem->inner_count);
    bt_clock_leave(problem);
    bt_free(problem);
}

bt_problem *bt_problem_find(bt_context *context, const char *name)
{
    for (int i = 0; name && i < context->problem_count; i++)
        if (strcmp(context->problems[i]->name, name) == 0)
            return context->problems[i];
    return NULL;
}

const char *bt_problem_list(bt_context *context, bt_text *text)
{
    for (int i = 0; i < context->problem_count; i++)
        bt_text_add(text, i ? ", %s" : "%s", context->problems[i]->name);
    return bt_text_get(text);
}

static const char *configure_name(bt_configure which)
{
    static const char *const names[] = {[BT_CONFIGURE_MODULE] = "configure_module",
                                        [BT_CONFIGURE_TRAIN_DATA] = "configure_train_data",
                                        [BT_CONFIGURE_VALID_DATA] = "configure_valid_data"};
    return names[which];
}

/* Before the callback is called; the caller clears problem->configuring afterwards. */
static bt_status configure_begin(bt_problem *problem, bt_configure which)
{
    if (problem->configuring[which])
        return bt_fail(BT_ERROR_ARGUMENT,
                       "%s: %s depends on its own result: something that it calls, here or in another problem's "
                       "callback, needs the value that it has not returned yet",
                       problem->name, configure_name(which));
    problem->configuring[which] = true;
    return BT_OK;
}

/* Takes ownership of the module that configure_module returned, unless another problem has it. */
static bt_status take_module(bt_problem *problem, bt_module *module)
{
    const bt_context *context = problem->context;
    const bt_module *root = module ? bt_module_root(module) : NULL;
    for (int i = 0; root && i < context->problem_count; i++)
        if (context->problems[i]->module == root)
            return bt_fail(BT_ERROR_ARGUMENT,
                           "configure_module returned the module of %s, or a part of it; make a second module, or use "
                           "that one: bt_forward(bt_peer(self, \"%s\"), ...)",
                           context->problems[i]->name, context->problems[i]->name);
    if (root && root != module)
        return bt_fail(BT_ERROR_ARGUMENT, "configure_module returned a part of another module, \"%s\"", module->name);
    problem->module = module;
    if (bt_error_status() != BT_OK)
        return bt_error_status();
    return module ? BT_OK : bt_fail(BT_ERROR_ARGUMENT, "configure_module returned nothing");
}

static bt_status configure(bt_problem *problem)
{
    if (!problem->def->configure_module)
        return bt_fail(BT_ERROR_ARGUMENT, "the definition has no configure_module");
    bt_guest before = bt_problem_enter(problem, configure_name(BT_CONFIGURE_MODULE));
    bt_module *module = problem->def->configure_module(problem);
    bt_guest_leave(before);
    BT_TRY(take_module(problem, module));
    BT_TRY(bt_module_list(problem->module));
    BT_TRY(bt_params_sort(problem));
    const bt_context *context = problem->context;
    problem->module->low = problem->low;
    problem->module->narrow = problem->narrow;
    problem->module->norm_groups = problem->settings->batch_norm_groups;
    bt_status status = context->instance->dry
                           ? bt_module_house(problem->module, problem->name, problem->dtype, problem->order)
                           : bt_module_adopt(problem->module, problem->name, problem->dtype,
                                             (uint64_t)context->settings->seed, problem->order);
    if (status == BT_OK && !problem->module->name && !(problem->module->name = bt_strdup(problem->name)))
        status = BT_ERROR_MEMORY; /* module paths begin with the problem's name */
    if (status == BT_OK)
        status = bt_problem_load_weights(problem);
    if (status == BT_OK)
        status = bt_params_open(problem);
    return status == BT_OK ? bt_scale_open(problem) : status;
}

bt_status bt_problem_configure(bt_problem *problem)
{
    if (problem->module)
        return BT_OK;
    if (bt_error_status() != BT_OK)
        return bt_error_status();
    if (!problem->settings)
        return bt_fail(BT_ERROR_ARGUMENT, "%s is asked for its module before it is configured", problem->name);
    BT_TRY(configure_begin(problem, BT_CONFIGURE_MODULE));
    bt_status status = configure(problem);
    problem->configuring[BT_CONFIGURE_MODULE] = false;
    if (status != BT_OK) {
        bt_fail(status, "out of memory");
        bt_error_context("%s, %s", problem->name, configure_name(BT_CONFIGURE_MODULE));
    }
    return status;
}

bt_status bt_problem_open_set(bt_problem *problem, bt_mode mode)
{
    bool train = mode == BT_TRAIN;
    bt_configure which = train ? BT_CONFIGURE_TRAIN_DATA : BT_CONFIGURE_VALID_DATA;
    bt_dataset *(*open)(bt_problem *) = train ? problem->def->configure_train_data : problem->def->configure_valid_data;
    bt_dataset **data = train ? &problem->train_data : &problem->valid_data;
    if (!open || *data || (train ? problem->train : problem->valid))
        return BT_OK;
    BT_TRY(configure_begin(problem, which));
    bt_guest before = bt_problem_enter(problem, configure_name(which));
    bt_dataset *opened = open(problem);
    bt_guest_leave(before);
    problem->configuring[which] = false;
    bt_status status = bt_error_status();
    if (status == BT_OK && !opened)
        status = bt_fail(BT_ERROR_DATA, "no data set was returned");
    if (status == BT_OK) {
        for (char *note; (note = bt_dataset_next_note(opened)); bt_free(note))
            bt_warn(problem->context, "%s: %s", problem->name, note);
        *data = opened;
        return BT_OK;
    }
    bt_dataset_free(opened);
    bt_error_context("%s, %s", problem->name, configure_name(which));
    return status;
}

bt_status bt_problem_open_data(bt_problem *problem)
{
    const bt_problem_def *def = problem->def;
    const bt_problem_settings *s = problem->settings;
    if (!problem->train) {
        BT_TRY(bt_problem_open_set(problem, BT_TRAIN));
        problem->train = bt_stream_open(problem, BT_TRAIN, s->gradient_accumulation);
        if (!problem->train)
            return bt_error_status();
    }
    if (def->validation_step && !problem->valid) {
        BT_TRY(bt_problem_open_set(problem, BT_VALID));
        if (problem->valid_data || bt_makes_batches(def)) {
            problem->valid = bt_stream_open(problem, BT_VALID, 1);
            if (!problem->valid)
                return bt_error_status();
        }
    }
    return BT_OK;
}
