/* engine/level/params.c: what a problem trains: its parameters by pattern and group, its optimiser, and blocks shaped
 * like the parameters. */
#include "engine/level/divide.h"
#include "engine/level/offload.h"
#include "engine/level/prune.h"
#include "engine/level/rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The name of parameter i in patterns: its path without the problem's name. */
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
    char *section = group ? bt_string("%s.%s", problem->name, group) : bt_strdup(problem->name);
    bt_status status = section
                           ? bt_fail(BT_ERROR_CONFIG, "%s = %s: no parameter of %s has a name like %.*s; it has %s%s",
                                     bt_config_place(problem->context->config, section, key), patterns, problem->name,
                                     (int)length, pattern, bt_text_get(&names), count > SHOWN ? ", ..." : "")
                           : BT_ERROR_MEMORY;
    bt_free(section);
    bt_text_free(&names);
    return status;
}

/* Each pattern of a key must match a parameter; one that does not is misspelled. */
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

/* Assigns each parameter to the last group whose patterns match. Frozen groups make it untrainable. */
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
        if (!problem->trainable[i] && !(problem->def->start && problem->settings->method->unrolls))
            problem->meta_trainable[i] = false; /* fixed (not even set by `start`): no solution */
    }
    return BT_OK;
}

/* The order in the block: trained before frozen, then by group, differentiated before the others. */
typedef struct ordered {
    bool trainable, meta_trainable;
    int group;
    int64_t i;
} ordered;

static int by_group(const void *a, const void *b)
{
    const ordered *x = a, *y = b;
    if (x->trainable != y->trainable)
        return x->trainable ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->meta_trainable != y->meta_trainable)
        return x->meta_trainable ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

static int64_t *block_order(const bt_problem *problem)
{
    size_t count = (size_t)problem->module->param_count;
    int64_t *order = bt_alloc_array(count, sizeof *order);
    ordered *list = bt_alloc_array(count, sizeof *list);
    for (size_t i = 0; order && list && i < count; i++)
        list[i] = (ordered){problem->trainable[i], problem->meta_trainable[i], problem->group[i], (int64_t)i};
    if (order && list && count)
        qsort(list, count, sizeof *list, by_group);
    for (size_t i = 0; order && list && i < count; i++)
        order[i] = list[i].i;
    if (!list) {
        bt_free(order);
        order = NULL;
    }
    bt_free(list);
    return order;
}

typedef struct like_params { /* by parameter */
    bt_array *shapes;
    const char **names;
} like_params;

static void like_params_free(like_params *like)
{
    bt_free(like->shapes);
    bt_free(like->names);
}

static bt_status like_params_new(like_params *like, const bt_problem *problem, bt_dtype dtype)
{
    int64_t count = problem->module->param_count;
    like->shapes = bt_alloc_array((size_t)count, sizeof *like->shapes);
    like->names = bt_alloc_array((size_t)count, sizeof *like->names);
    if (!like->shapes || !like->names) {
        like_params_free(like);
        return BT_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < count; i++) {
        like->shapes[i] = problem->module->params[i]->shape;
        like->shapes[i].dtype = dtype;
        like->names[i] = problem->module->params[i]->path;
    }
    return BT_OK;
}

bt_status bt_block_like_params(bt_block *block, const bt_problem *problem, bt_lifetime lifetime, bt_category category,
                               const char *name, bt_dtype dtype)
{
    like_params like;
    BT_TRY(like_params_new(&like, problem, dtype));
    bt_status status = bt_block_new(block, lifetime, category, problem->name, name, dtype, like.shapes, like.names,
                                    problem->order, problem->module->param_count);
    like_params_free(&like);
    return status;
}

/* Frozen parameters have no slots. Trained ones come first in the block, so their slots have the same offsets. */
static bt_status make_slots(bt_problem *problem)
{
    bt_context *context = problem->context;
    const int64_t count = problem->module->param_count;
    bt_slotted *params = bt_alloc_array((size_t)count, sizeof *params);
    bt_status status = params ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; params && i < count; i++) {
        const bt_slate *param = problem->module->params[i];
        params[i] = (bt_slotted){.like = param->shape, .table = param->table};
        params[i].like.dtype = problem->dtype;
        params[i].name = !problem->trainable || problem->trainable[i] ? param->path : NULL;
        params[i].group = problem->group ? problem->group[i] : 0;
    }
    for (int k = 0; status == BT_OK && k < bt_optimizer_slot_count(problem->optimizer); k++) {
        status = bt_slot_block(problem->optimizer, k, &problem->slots[k], problem->name, params, problem->order, count);
        if (status == BT_OK)
            status = bt_divide_slots(problem, &problem->slots[k]);
        if (status == BT_OK && bt_offloads(problem, BT_OFFLOAD_OPTIMIZER))
            bt_var_offload(problem->slots[k].flat);
        if (status == BT_OK)
            status = bt_ledger_enter_block(context, problem, BT_ROLE_SLOT, &problem->slots[k]);
    }
    bt_free(params);
    BT_TRY(status);
    if (!problem->settings->method->slope)
        return BT_OK;
    BT_TRY(bt_block_like_params(&problem->slope, problem, BT_RUN, BT_OPTIMIZER, "slope of the update", problem->dtype));
    BT_TRY(bt_divide_from(problem, 1, problem->slope.flat));
    return bt_ledger_enter_block(context, problem, BT_ROLE_SLOT, &problem->slope);
}

/* Checks that the optimiser's state can be kept in bf16. */
static bt_status check_narrow(const bt_problem *problem)
{
    const bt_optimizer_kind *kind = &problem->optimizer->kind;
    const char *place = bt_config_place(problem->context->config, problem->name, "optimizer_state");
    if (kind->codes)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s = bf16: optimizer = %s already keeps its state in 8-bit codes; remove one of the two "
                       "settings",
                       place, kind->def->name);
    if (problem->dtype == BT_F64)
        return bt_fail(BT_ERROR_CONFIG, "%s = bf16: with precision = fp64 the state is fp64; use precision = fp32",
                       place);
    return BT_OK;
}

static bt_status make_optimizer(bt_problem *problem)
{
    const bt_problem_settings *s = problem->settings;
    bt_optimizer *optimizer = problem->optimizer = bt_optimizer_of(s->optimizer);
    if (!optimizer)
        return bt_error_status();
    optimizer->narrow = s->optimizer_state == BT_STATE_BF16;
    if (optimizer->narrow)
        BT_TRY(check_narrow(problem));
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
    optimizer->keeps_rate = bt_rates_move(problem);
    optimizer->tolerance = s->unroll_tolerance;
    optimizer->clip = (bt_clip){.norm = s->gradient_clipping, .value = s->gradient_clipping_value};
    return bt_optimizer_start(optimizer, problem->name);
}

/* What plateaus are detected by is also part of the run. */
static bt_status enter_plateau(bt_problem *problem)
{
    bt_context *context = problem->context;
    bt_plateau *plateau = &problem->plateau;
    *plateau = (bt_plateau){.best = NAN};
    BT_TRY(bt_ledger_enter_number(context, problem, BT_ROLE_CLOCK, "plateau.best", BT_ROW_REAL, &plateau->best));
    BT_TRY(bt_ledger_enter_number(context, problem, BT_ROLE_CLOCK, "plateau.bad", BT_ROW_INT, &plateau->bad));
    return bt_ledger_enter_number(context, problem, BT_ROLE_CLOCK, "plateau.cooling", BT_ROW_INT, &plateau->cooling);
}

static bt_status enter_optimizer(bt_problem *problem)
{
    const bt_optimizer *optimizer = problem->optimizer;
    BT_TRY(bt_ledger_enter_var(problem->context, problem, BT_ROLE_SLOT, optimizer->applied));
    BT_TRY(bt_ledger_enter_var(problem->context, problem, BT_ROLE_OPTIMIZER, optimizer->skipped));
    if (optimizer->rested)
        BT_TRY(bt_ledger_enter_var(problem->context, problem, BT_ROLE_OPTIMIZER, optimizer->rested));
    for (int g = 0; g < optimizer->group_count; g++) {
        for (int i = 0; i < BT_MAX_ITEMS; i++)
            if (optimizer->groups[g].vars[i])
                BT_TRY(bt_ledger_enter_var(problem->context, problem, BT_ROLE_OPTIMIZER, optimizer->groups[g].vars[i]));
        if (optimizer->groups[g].rate)
            BT_TRY(bt_ledger_enter_var(problem->context, problem, BT_ROLE_OPTIMIZER, optimizer->groups[g].rate));
        if (optimizer->groups[g].scale)
            BT_TRY(bt_ledger_enter_var(problem->context, problem, BT_ROLE_OPTIMIZER, optimizer->groups[g].scale));
    }
    return optimizer->scheduler.kind == BT_SCHEDULER_PLATEAU ? enter_plateau(problem) : BT_OK;
}

/* Determines which of the module's parameters are trained, in which group, and their order in the block. */
bt_status bt_params_sort(bt_problem *problem)
{
    BT_TRY(sort_parameters(problem));
    problem->order = block_order(problem);
    return problem->order ? BT_OK : BT_ERROR_MEMORY;
}

/* Why a parameter is not trained: the key that excludes it, for a message. */
static void add_reason(const bt_problem *problem, size_t i, bt_text *text)
{
    const bt_problem_settings *s = problem->settings;
    const bt_group_settings *frozen = NULL;
    for (int g = 0; g < s->group_count; g++)
        if (s->groups[g].frozen && bt_pattern_match(s->groups[g].params, pattern_name(problem, i)))
            frozen = &s->groups[g];
    if (frozen)
        bt_text_add(text, "[%s.%s] params = %s, frozen = true", s->name, frozen->name, frozen->params);
    else
        bt_text_add(text, "[%s] trainable = %s", s->name, s->trainable);
}

bt_status bt_params_check(const bt_problem *problem)
{
    size_t count = (size_t)problem->module->param_count;
    for (size_t i = 0; i < count; i++)
        if (problem->trainable[i])
            return BT_OK;
    if (!count)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s has nothing to train: its module has no parameters%s; give it one (bt_nn_parameter, "
                       "bt_module_add_param), or leave the problem out (engine.levels)",
                       problem->name, problem->module->buffer_block.flat ? ", only buffers" : "");
    bt_text reason = {0};
    add_reason(problem, 0, &reason);
    bt_status status = bt_fail(BT_ERROR_CONFIG,
                               "%s has nothing to train: all of its parameters are excluded, %s by %s; train at least "
                               "one of them, or leave out the problem (engine.levels)",
                               problem->name, pattern_name(problem, 0), bt_text_get(&reason));
    bt_text_free(&reason);
    return status;
}

bt_status bt_params_open(bt_problem *problem)
{
    bt_context *context = problem->context;
    BT_TRY(bt_ledger_enter_block(context, problem, BT_ROLE_PARAM, &problem->module->param_block));
    BT_TRY(bt_ledger_enter_block(context, problem, BT_ROLE_BUFFER, &problem->module->buffer_block));
    BT_TRY(make_optimizer(problem));
    BT_TRY(enter_optimizer(problem));
    if (problem->settings->active) {
        BT_TRY(bt_rates_open(problem));
        BT_TRY(make_slots(problem));
    }
    BT_TRY(bt_divide_from(problem, 3, problem->module->param_block.flat));
    return bt_prune_open(problem);
}

int64_t bt_params_elements(const bt_problem *problem)
{
    int64_t elements = 0;
    for (int64_t i = 0; i < problem->module->param_count; i++)
        elements += bt_array_count(problem->module->params[i]->shape);
    return elements;
}

bool bt_owns_buffer(const bt_problem *problem, bt_var *var)
{
    return problem->module && problem->module->buffer_block.flat &&
           bt_var_root(var) == problem->module->buffer_block.flat;
}

/* A parameter that no gradient reaches is not updated, as in PyTorch: it neither decays nor follows its momentum. A
 * gradient from a grad_callback counts. */
bool bt_is_updated(const bt_problem *problem, int64_t i)
{
    return problem->trainable[i] && (problem->used[i] || problem->def->grad_callback);
}

static void close_block(bt_problem *problem, bt_block *block)
{
    bt_ledger_leave(problem->context, block->flat);
    bt_block_free(block);
}

void bt_params_close(bt_problem *problem)
{
    bt_optimizer *optimizer = problem->optimizer;
    bt_rates_close(problem);
    for (int i = 0; i < BT_MAX_ITEMS; i++)
        close_block(problem, &problem->slots[i]);
    close_block(problem, &problem->slope);
    close_block(problem, &problem->masks);
    for (int i = 0; i < BT_MAX_ITEMS; i++) {
        bt_ledger_var_free(problem->context, problem->strays[i].count);
        bt_ledger_var_free(problem->context, problem->strays[i].first);
        problem->strays[i] = (bt_stray){0};
    }
    if (optimizer) {
        bt_ledger_leave(problem->context, optimizer->applied);
        bt_ledger_leave(problem->context, optimizer->skipped);
        if (optimizer->rested)
            bt_ledger_leave(problem->context, optimizer->rested);
    }
    for (int g = 0; optimizer && g < optimizer->group_count; g++) {
        for (int i = 0; i < BT_MAX_ITEMS; i++)
            bt_ledger_leave(problem->context, optimizer->groups[g].vars[i]);
        bt_ledger_leave(problem->context, optimizer->groups[g].rate);
        bt_ledger_leave(problem->context, optimizer->groups[g].scale);
    }
    bt_ledger_leave(problem->context, &problem->plateau.best);
    bt_ledger_leave(problem->context, &problem->plateau.bad);
    bt_ledger_leave(problem->context, &problem->plateau.cooling);
    bt_optimizer_free(optimizer);
    if (problem->module) {
        bt_ledger_leave(problem->context, problem->module->param_block.flat);
        bt_ledger_leave(problem->context, problem->module->buffer_block.flat);
    }
    bt_module_free(problem->module);
}
