/* engine/level/inputs.c: numbers that programs read from the host: update counts, host scalars, static ints. */
#include "engine/level/level.h"

#include "ops/ops.h"
#include "runtime/store.h"
#include <string.h>

void bt_number_set(const bt_context *context, bt_var *var, double value)
{
    bt_store_write(context->instance, var, 0, &value, sizeof value);
}

double bt_number_get(const bt_context *context, const bt_var *var)
{
    double value = 0;
    bt_store_read(context->instance, var, 0, &value, sizeof value);
    return value;
}

void bt_count_set(const bt_context *context, bt_var *var, int64_t value)
{
    bt_store_write(context->instance, var, 0, &value, sizeof value);
}

int64_t bt_count_get(const bt_context *context, const bt_var *var)
{
    int64_t value = 0;
    bt_store_read(context->instance, var, 0, &value, sizeof value);
    return value;
}

static bt_scalar *find_scalar(bt_problem *self, const char *name)
{
    for (int i = 0; i < self->scalar_count; i++)
        if (strcmp(self->scalars[i].name, name) == 0)
            return &self->scalars[i];
    bt_text words = {0};
    if (!bt_name_is_free(self, name, &words))
        bt_fail(BT_ERROR_ARGUMENT,
                "%s: a number on the host (bt_host_scalar, bt_static_int) is called `%s`, which is the name of %s; "
                "choose another name",
                self->name, name, bt_text_get(&words));
    bt_text_free(&words);
    if (bt_error_status() != BT_OK)
        return NULL;
    int64_t capacity = self->scalar_capacity;
    bt_scalar *scalars = bt_grow(self->scalars, &capacity, self->scalar_count + 1, sizeof *scalars);
    if (!scalars)
        return NULL;
    self->scalars = scalars;
    self->scalar_capacity = (int)capacity;
    bt_scalar *scalar = &scalars[self->scalar_count];
    *scalar = (bt_scalar){.name = bt_strdup(name)};
    scalar->var = bt_ledger_var(self->context, self, BT_ROLE_INPUT, BT_BATCH, name, (bt_array){.dtype = BT_F64});
    if (!scalar->name || !scalar->var) {
        bt_free(scalar->name);
        bt_ledger_var_free(self->context, scalar->var);
        return NULL;
    }
    self->scalar_count++;
    self->context->scalar_count++;
    return scalar;
}

static void show_steps(const bt_problem *problem)
{
    bool now = problem->context->steps_now;
    bt_number_set(problem->context, problem->step_count, (double)(now ? problem->steps : problem->seen));
    bt_number_set(problem->context, problem->inner_count, (double)(now ? problem->inner : problem->inner_seen));
}

bool bt_shows_steps(const bt_problem *problem, const bt_var *var)
{
    return var == problem->step_count || var == problem->inner_count;
}

static bt_tensor *read_steps(bt_problem *self, bt_var *var)
{
    bt_trace *trace = bt_trace_now();
    if (trace && !self->shows_steps) {
        self->shows_steps = true;
        show_steps(self);
    }
    bt_tensor *step = bt_trace_read(var);
    return trace && !bt_poisoned(step) ? bt_as(step, trace->dtype) : step;
}

bt_tensor *bt_step(bt_problem *self)
{
    return bt_usable(self, "bt_step") ? read_steps(self, self->step_count)
                                      : bt_trace_poison(BT_ERROR_ARGUMENT, "bt_step: no such problem");
}

bt_tensor *bt_inner_step(bt_problem *self)
{
    return bt_usable(self, "bt_inner_step") ? read_steps(self, self->inner_count)
                                            : bt_trace_poison(BT_ERROR_ARGUMENT, "bt_inner_step: no such problem");
}

bt_tensor *bt_host_scalar(bt_problem *self, const char *name, double (*fn)(bt_problem *self))
{
    bt_trace *trace = bt_trace_now();
    if (!bt_usable(self, "bt_host_scalar") || !name || !fn)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_host_scalar: expected a problem, a name and a function, one of "
                                                  "them is NULL");
    bt_scalar *scalar = find_scalar(self, name);
    if (!scalar || scalar->integer || (scalar->number && scalar->number != fn))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: bt_host_scalar `%s` is defined twice", self->name, name);
    if (!scalar->number) { /* its first value; later ones are set before each run */
        bt_trace *suspended = bt_trace_suspend();
        double first = fn(self);
        bt_trace_resume(suspended);
        scalar = find_scalar(self, name); /* the function may have evaluated something that added others */
        bt_number_set(self->context, scalar->var, first);
    }
    scalar->number = fn;
    bt_tensor *value = bt_trace_read(scalar->var);
    return trace && !bt_poisoned(value) ? bt_as(value, trace->dtype) : value;
}

int64_t bt_static_int(bt_problem *self, const char *name, int64_t (*fn)(bt_problem *self))
{
    if (!bt_usable(self, "bt_static_int"))
        return 0;
    if (!name || !fn) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_static_int: expected a problem, a name and a function, one of them is "
                                           "NULL");
        return 0;
    }
    bt_scalar *scalar = find_scalar(self, name);
    if (!scalar || scalar->number || (scalar->integer && scalar->integer != fn)) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "%s: bt_static_int `%s` is defined twice", self->name, name);
        return 0;
    }
    if (!scalar->integer) {
        bt_trace *suspended = bt_trace_suspend();
        int64_t first = fn(self);
        bt_trace_resume(suspended);
        scalar = find_scalar(self, name);
        scalar->value = first;
        scalar->integer = fn;
    }
    return scalar->value;
}

/* ---- before a run ---- */

/* Updates the host scalars; returns whether a static int has changed. */
static bool update_scalars(bt_problem *problem)
{
    bool changed = false;
    for (int i = 0; i < problem->scalar_count; i++) {
        bt_scalar *scalar = &problem->scalars[i];
        bt_guest before = bt_problem_enter(problem, scalar->name);
        double number = scalar->number ? scalar->number(problem) : 0;
        int64_t integer = scalar->integer ? scalar->integer(problem) : 0;
        scalar = &problem->scalars[i]; /* the function may have evaluated something that added others */
        if (scalar->number)
            bt_number_set(problem->context, scalar->var, number);
        changed |= scalar->integer && integer != scalar->value;
        scalar->value = integer;
        bt_problem_leave(problem, scalar->name, before);
    }
    return changed;
}

bool bt_steps_show(bt_context *context, bool now)
{
    bool before = context->steps_now;
    context->steps_now = now;
    for (int p = 0; p < context->problem_count; p++)
        if (context->problems[p]->shows_steps)
            show_steps(context->problems[p]);
    return before;
}

int64_t bt_tick(const bt_context *context)
{
    int64_t sum = 0;
    for (int i = 0; i < context->problem_count; i++)
        sum += context->problems[i]->steps;
    return sum;
}

bool bt_scalars_update(bt_context *context)
{
    bool changed = false;
    for (int p = 0; p < context->problem_count; p++)
        changed |= update_scalars(context->problems[p]);
    return changed;
}
