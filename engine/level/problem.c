/* engine/level/problem.c: a problem's life: made, configured, freed. */
#include "engine/level/level.h"

#include "engine/solve/unrolled.h"
#include <stdlib.h>
#include <string.h>

bt_problem *bt_problem_new(bt_engine *engine, const bt_problem_def *def, void *user)
{
    bt_problem *problem = bt_alloc(sizeof *problem);
    if (!problem)
        return NULL;
    *problem = (bt_problem){.engine = engine, .def = def, .name = def->name, .user = user, .inner_loop_start = true};
    problem->step_count = bt_var_new(BT_RUN, BT_BATCH, def->name, "step", (bt_array){.dtype = BT_F64});
    if (problem->step_count)
        return problem;
    bt_problem_free(problem);
    return NULL;
}

bt_guest bt_problem_enter(const bt_problem *problem, const char *callback)
{
    return bt_guest_enter((bt_guest){problem->source, problem->name, callback});
}

static void free_storage(bt_problem *problem)
{
    for (int i = 0; i < BT_MAX_ITEMS; i++)
        bt_block_free(&problem->slots[i]);
    bt_block_free(&problem->slope);
    bt_optimizer_free(problem->optimizer);
    bt_module_free(problem->module);
    bt_stream_free(problem->train);
    bt_stream_free(problem->valid);
    bt_dataset_free(problem->train_data);
    bt_dataset_free(problem->valid_data);
}

void bt_problem_free(bt_problem *problem)
{
    if (!problem)
        return;
    bt_problem_uncompile(problem);
    bt_block_free(&problem->step.sums);
    bt_adapted_free(problem->adapted);
    for (int i = 0; problem->troubles && i < problem->engine->problem_count; i++)
        bt_var_free(problem->troubles[i].count);
    bt_free(problem->troubles);
    for (int i = 0; problem->solutions && i < problem->engine->problem_count; i++)
        bt_var_free(problem->solutions[i]);
    bt_free(problem->solutions);
    for (int i = 0; i < problem->scalar_count; i++) {
        bt_free(problem->scalars[i].name);
        bt_var_free(problem->scalars[i].var);
    }
    free_storage(problem);
    for (int64_t i = 0; i < problem->memory_count; i++)
        bt_free(problem->memory[i].name);
    bt_free(problem->memory);
    for (int i = 0; i < problem->snapshot_count; i++)
        bt_var_free(problem->snapshot[i]);
    bt_free(problem->scalars);
    bt_free(problem->group);
    bt_free(problem->trainable);
    bt_free(problem->meta_trainable);
    bt_free(problem->children);
    bt_free(problem->parents);
    bt_free(problem->ready);
    bt_var_free(problem->step_count);
    bt_free(problem);
}

bt_problem *bt_problem_find(bt_engine *engine, const char *name)
{
    for (int i = 0; name && i < engine->problem_count; i++)
        if (strcmp(engine->problems[i]->name, name) == 0)
            return engine->problems[i];
    return NULL;
}

const char *bt_problem_list(bt_engine *engine, bt_text *text)
{
    for (int i = 0; i < engine->problem_count; i++)
        bt_text_add(text, i ? ", %s" : "%s", engine->problems[i]->name);
    return bt_text_get(text);
}

/* What patterns call parameter i: its path, without the problem's name. */
static const char *pattern_name(const bt_problem *problem, size_t i)
{
    const char *path = problem->module->params[i]->path;
    size_t prefix = strlen(problem->name);
    return strncmp(path, problem->name, prefix) == 0 && path[prefix] == '.' ? path + prefix + 1 : path;
}

static bt_status no_such_parameter(const bt_problem *problem, const char *group, const char *key, const char *patterns,
                                   const char *pattern, size_t length)
{
    enum { SHOWN = 8 };
    bt_text names = {0};
    size_t count = (size_t)problem->module->param_count;
    for (size_t i = 0; i < count && i < SHOWN; i++)
        bt_text_add(&names, i ? ", %s" : "%s", pattern_name(problem, i));
    bt_status status =
        bt_fail(BT_ERROR_CONFIG, "[%s%s%s] %s = %s: no parameter of %s has a name like %.*s; it has %s%s",
                problem->name, group ? "." : "", group ? group : "", key, patterns, problem->name, (int)length, pattern,
                bt_text_get(&names), count > SHOWN ? ", ..." : "");
    bt_text_free(&names);
    return status;
}

/* Each pattern of a key has to fit a parameter: one that does not is misspelled. */
static bt_status check_patterns(const bt_problem *problem, const char *group, const char *key, const char *patterns)
{
    const char *rest = patterns, *pattern;
    size_t length, count = (size_t)problem->module->param_count;
    while (count && (pattern = bt_word_next(&rest, ',', &length)) != NULL) {
        size_t i = 0;
        while (i < count && !bt_match(pattern, length, pattern_name(problem, i), NULL, 0, NULL))
            i++;
        if (i == count)
            return no_such_parameter(problem, group, key, patterns, pattern, length);
    }
    return BT_OK;
}

static bt_status check_all_patterns(const bt_problem *problem)
{
    const bt_problem_settings *s = problem->settings;
    BT_TRY(check_patterns(problem, NULL, "trainable", s->trainable));
    BT_TRY(check_patterns(problem, NULL, "meta_trainable", s->meta_trainable));
    for (int g = 0; g < s->group_count; g++)
        BT_TRY(check_patterns(problem, s->groups[g].name, "params", s->groups[g].params));
    return BT_OK;
}

/* Which group a parameter belongs to: the last whose patterns match. Frozen groups make it untrainable. */
static bt_status sort_parameters(bt_problem *problem)
{
    const bt_problem_settings *s = problem->settings;
    size_t count = (size_t)problem->module->param_count;
    BT_TRY(check_all_patterns(problem));
    problem->group = bt_alloc_array(count, sizeof *problem->group);
    problem->trainable = bt_alloc_array(count, sizeof *problem->trainable);
    problem->meta_trainable = bt_alloc_array(count, sizeof *problem->meta_trainable);
    if (!problem->group || !problem->trainable || !problem->meta_trainable)
        return BT_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const char *name = pattern_name(problem, i);
        problem->trainable[i] = bt_pattern_match(s->trainable ? s->trainable : "*", name);
        problem->meta_trainable[i] = bt_pattern_match(s->meta_trainable ? s->meta_trainable : "*", name);
        for (int g = 0; g < s->group_count; g++)
            if (bt_pattern_match(s->groups[g].params, name)) {
                problem->group[i] = g + 1;
                problem->trainable[i] = problem->trainable[i] && !s->groups[g].frozen;
            }
        if (!problem->trainable[i] && !(problem->def->start && bt_unrolls(problem)))
            problem->meta_trainable[i] = false; /* what does not move, but by `start`, is no solution */
    }
    return BT_OK;
}

/* The order in their block: by group, trained before frozen, the differentiated before the others. */
static bool before(const bt_problem *p, int64_t a, int64_t b)
{
    if (p->trainable[a] != p->trainable[b])
        return p->trainable[a];
    if (p->group[a] != p->group[b])
        return p->group[a] < p->group[b];
    if (p->meta_trainable[a] != p->meta_trainable[b])
        return p->meta_trainable[a];
    return a < b;
}

static int64_t *block_order(const bt_problem *problem)
{
    int64_t count = problem->module->param_count;
    int64_t *order = bt_alloc_array((size_t)count, sizeof *order);
    for (int64_t i = 0; order && i < count; i++) {
        int64_t j = i;
        for (; j > 0 && before(problem, i, order[j - 1]); j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
    return order;
}

static bt_status make_slots(bt_problem *problem, const int64_t *order)
{
    int64_t count = problem->module->param_count;
    bt_array *shapes = bt_alloc_array((size_t)count, sizeof *shapes);
    const char **names = bt_alloc_array((size_t)count, sizeof *names);
    bt_status status = shapes && names ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < count; i++) {
        shapes[i] = problem->module->params[i]->shape;
        shapes[i].dtype = problem->dtype;
        names[i] = problem->module->params[i]->path;
    }
    for (int k = 0; status == BT_OK && k < bt_optimizer_slot_count(problem->optimizer); k++)
        status =
            bt_block_new(&problem->slots[k], BT_RUN, BT_OPTIMIZER, problem->name,
                         bt_optimizer_slot_name(problem->optimizer, k), problem->dtype, shapes, names, order, count);
    if (status == BT_OK && problem->settings->method->slope)
        status = bt_block_new(&problem->slope, BT_RUN, BT_OPTIMIZER, problem->name, "slope of the update",
                              problem->dtype, shapes, names, order, count);
    bt_free(shapes);
    bt_free(names);
    return status;
}

static bt_status make_optimizer(bt_problem *problem)
{
    const bt_problem_settings *s = problem->settings;
    bt_optimizer *optimizer = problem->optimizer = bt_optimizer_of(s->optimizer);
    if (!optimizer)
        return bt_error_status();
    for (int i = 0; i < bt_hyper_count(s->optimizer->hypers); i++)
        BT_TRY(bt_optimizer_group_set(optimizer, 0, s->optimizer->hypers[i].name, s->hypers[i]));
    for (int g = 0; g < s->group_count; g++) {
        int group = bt_optimizer_group_add(optimizer, s->groups[g].name);
        if (group < 0)
            return bt_error_status();
        for (int i = 0; i < bt_hyper_count(s->optimizer->hypers); i++)
            if ((s->groups[g].own >> i) & 1u)
                BT_TRY(bt_optimizer_group_set(optimizer, group, s->optimizer->hypers[i].name, s->groups[g].hypers[i]));
    }
    optimizer->scheduler = s->scheduler;
    optimizer->clip = (bt_clip){.norm = s->gradient_clipping, .value = s->gradient_clipping_value};
    return bt_optimizer_start(optimizer, problem->name);
}

static bt_status configure(bt_problem *problem)
{
    if (!problem->def->configure_module)
        return bt_fail(BT_ERROR_ARGUMENT, "the definition has no configure_module");
    bt_guest before = bt_problem_enter(problem, "configure_module");
    problem->module = problem->def->configure_module(problem);
    bt_guest_leave(before);
    if (bt_error_status() != BT_OK)
        return bt_error_status();
    if (!problem->module)
        return bt_fail(BT_ERROR_ARGUMENT, "configure_module returned nothing");
    BT_TRY(bt_module_list(problem->module));
    BT_TRY(sort_parameters(problem));
    int64_t *order = block_order(problem);
    if (!order)
        return BT_ERROR_MEMORY;
    bt_status status = bt_module_adopt(problem->module, problem->name, problem->dtype,
                                       (uint64_t)problem->engine->settings->seed, order);
    if (status == BT_OK && !problem->module->name && !(problem->module->name = bt_strdup(problem->name)))
        status = BT_ERROR_MEMORY; /* module paths begin with the problem's name */
    if (status == BT_OK)
        status = bt_problem_load_weights(problem);
    if (status == BT_OK)
        status = make_optimizer(problem);
    if (status == BT_OK && problem->settings->active)
        status = make_slots(problem, order);
    bt_free(order);
    return status;
}

bt_status bt_problem_configure(bt_problem *problem)
{
    if (problem->module)
        return BT_OK;
    if (bt_error_status() != BT_OK)
        return bt_error_status();
    if (!problem->settings)
        return bt_fail(BT_ERROR_ARGUMENT, "%s is asked for its module before it is configured", problem->name);
    if (problem->configuring)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: its module asks for itself while it is made", problem->name);
    problem->configuring = true;
    bt_status status = configure(problem);
    problem->configuring = false;
    if (status != BT_OK) {
        bt_fail(status, "out of memory");
        bt_error_context("%s, configure_module", problem->name);
    }
    return status;
}

static bt_status open_set(bt_problem *problem, bt_dataset *(*open)(bt_problem *), bt_dataset **data,
                          const char *callback)
{
    if (!open || *data)
        return BT_OK;
    bt_guest before = bt_problem_enter(problem, callback);
    *data = open(problem);
    bt_guest_leave(before);
    if (!*data || bt_error_status() != BT_OK) {
        bt_status status = bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_DATA;
        bt_fail(status, "no data set was returned");
        bt_error_context("%s, %s", problem->name, callback);
        return status;
    }
    return BT_OK;
}

bt_status bt_problem_open_data(bt_problem *problem)
{
    const bt_problem_def *def = problem->def;
    const bt_problem_settings *s = problem->settings;
    if (!def->configure_train_data && !def->get_batch && !def->batch_of)
        return bt_fail(BT_ERROR_ARGUMENT,
                       "%s has no data: the definition needs configure_train_data, get_batch or batch_of",
                       problem->name);
    if (!problem->train) {
        BT_TRY(open_set(problem, def->configure_train_data, &problem->train_data, "configure_train_data"));
        problem->train = bt_stream_open(problem, BT_TRAIN, s->gradient_accumulation);
        if (!problem->train)
            return bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_MEMORY;
    }
    if (def->validation_step && !problem->valid) {
        BT_TRY(open_set(problem, def->configure_valid_data, &problem->valid_data, "configure_valid_data"));
        if (problem->valid_data || def->get_batch) {
            problem->valid = bt_stream_open(problem, BT_VALID, 1);
            if (!problem->valid)
                return bt_error_status() != BT_OK ? bt_error_status() : BT_ERROR_MEMORY;
        }
    }
    return BT_OK;
}
