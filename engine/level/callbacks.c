/* engine/level/callbacks.c: what a problem's callbacks may ask: peers, options, numbers that move. */
#include "engine/level/level.h"

#include "ops/ops.h"
#include <string.h>

static bt_problem nobody = {.name = "(missing)", .missing = true};

/* In a trace a mistake poisons, so that the first one is kept: that a peer is missing is explained already. */
static bool usable(const bt_problem *self, const char *function)
{
    if (self && !self->missing)
        return true;
    bt_trace_poison(BT_ERROR_ARGUMENT, self ? "%s is called for a problem that there is not" : "%s is called with NULL",
                    function);
    return false;
}

bt_problem *bt_peer(bt_problem *self, const char *name)
{
    if (!usable(self, "bt_peer") || !name)
        return &nobody;
    bt_problem *peer = bt_problem_find(self->engine, name);
    if (peer)
        return peer;
    bt_text list = {0};
    bt_trace *trace = bt_trace_now();
    bt_problem_list(self->engine, &list);
    if (trace)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_peer: there is no problem `%s`; there are %s", name, bt_text_get(&list));
    else
        bt_fail(BT_ERROR_ARGUMENT, "%s: bt_peer: there is no problem `%s`; there are %s", self->name, name,
                bt_text_get(&list));
    bt_text_free(&list);
    return &nobody;
}

bt_module *bt_net(bt_problem *self)
{
    if (!self || self->missing)
        return NULL;
    return bt_problem_configure(self) == BT_OK ? self->module : NULL;
}

bt_tensor *bt_forward_problem_(bt_problem *p, bt_tensor *const *in)
{
    bt_module *net = bt_net(p);
    bt_trace *trace = bt_trace_now();
    if (!net)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_forward: the problem has no module");
    if (!p->def->forward)
        return bt_forward_module_(net, in);
    bt_tag tag = trace ? trace->tag : (bt_tag){0};
    bt_guest before = bt_problem_enter(p, "forward");
    bt_tensor *out = p->def->forward(p, in);
    bt_guest_leave(before);
    if (trace)
        trace->tag = tag;
    return out ? out : bt_trace_poison(BT_ERROR_ARGUMENT, "%s: forward returned nothing", p->name);
}

bt_status bt_state(bt_problem *self, const char *name, void *memory, size_t size)
{
    if (!self || self->missing || !name || !*name || !memory || !size || size > INT64_MAX)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_state: a problem, a name and memory are needed");
    if (self->engine->ready)
        return bt_fail(BT_ERROR_ARGUMENT,
                       "%s: bt_state `%s` comes too late: call it while the problem is set up, as in configure_module",
                       self->name, name);
    for (int64_t i = 0; i < self->memory_count; i++) {
        const bt_memory *known = &self->memory[i];
        if (strcmp(known->name, name) == 0)
            return known->data == memory && known->size == size
                       ? BT_OK
                       : bt_fail(BT_ERROR_ARGUMENT, "%s: bt_state `%s` is given twice", self->name, name);
    }
    bt_memory *grown = bt_grow(self->memory, &self->memory_capacity, self->memory_count + 1, sizeof *grown);
    if (!grown)
        return BT_ERROR_MEMORY;
    self->memory = grown;
    grown[self->memory_count] = (bt_memory){bt_strdup(name), memory, size};
    return grown[self->memory_count].name ? (self->memory_count++, BT_OK) : BT_ERROR_MEMORY;
}

void *bt_user(bt_problem *self) { return self ? self->user : NULL; }

uint64_t bt_seed(bt_problem *self)
{
    return usable(self, "bt_seed") && self->engine->settings ? (uint64_t)self->engine->settings->seed : 0;
}

int64_t bt_data_dim(bt_problem *self, const char *field, int axis)
{
    if (!usable(self, "bt_data_dim") || !field)
        return 1;
    if (!self->train && !self->train_data) {
        bt_dataset *(*open)(bt_problem *) = self->def->configure_train_data;
        if (!open) {
            bt_fail(BT_ERROR_ARGUMENT, "%s: bt_data_dim needs configure_train_data", self->name);
            return 1;
        }
        bt_guest before = bt_problem_enter(self, "configure_train_data");
        self->train_data = open(self);
        bt_guest_leave(before);
        if (!self->train_data) {
            bt_fail(BT_ERROR_DATA, "no data set was returned");
            bt_error_context("%s, configure_train_data", self->name);
            return 1;
        }
    }
    const bt_dataset *data = self->train_data ? self->train_data
                             : self->train    ? bt_loader_data(self->train->loader)
                                              : NULL;
    int64_t size = data ? bt_dataset_field_dim(data, field, axis) : 0;
    if (size < 1) {
        bt_fail(BT_ERROR_DATA, "%s: the training data have no field `%s` with an axis %d", self->name, field, axis);
        return 1;
    }
    return size;
}

/* ---- options ---- */

bool bt_option_bool(bt_problem *self, const char *key, bool value)
{
    bool result = value;
    if (usable(self, "bt_option_bool"))
        bt_config_option_bool(self->engine->config, self->name, key, value, &result);
    return result;
}

int64_t bt_option_int(bt_problem *self, const char *key, int64_t value, int64_t low, int64_t high)
{
    int64_t result = value;
    if (usable(self, "bt_option_int"))
        bt_config_option_int(self->engine->config, self->name, key, value, low, high, &result);
    return result;
}

double bt_option_double(bt_problem *self, const char *key, double value, double low, double high)
{
    double result = value;
    if (usable(self, "bt_option_double"))
        bt_config_option_double(self->engine->config, self->name, key, value, low, high, &result);
    return result;
}

const char *bt_option_text(bt_problem *self, const char *key, const char *value)
{
    const char *result = value;
    if (usable(self, "bt_option_text"))
        bt_config_option_text(self->engine->config, self->name, key, value, &result);
    return result;
}

/* ---- numbers that move ---- */

static bt_scalar *find_scalar(bt_problem *self, const char *name)
{
    for (int i = 0; i < self->scalar_count; i++)
        if (strcmp(self->scalars[i].name, name) == 0)
            return &self->scalars[i];
    int64_t capacity = self->scalar_capacity;
    bt_scalar *scalars = bt_grow(self->scalars, &capacity, self->scalar_count + 1, sizeof *scalars);
    if (!scalars)
        return NULL;
    self->scalars = scalars;
    self->scalar_capacity = (int)capacity;
    bt_scalar *scalar = &scalars[self->scalar_count];
    *scalar = (bt_scalar){.name = bt_strdup(name)};
    scalar->var = bt_var_new(BT_RUN, BT_BATCH, self->name, name, (bt_array){.dtype = BT_F64});
    if (!scalar->name || !scalar->var) {
        bt_free(scalar->name);
        bt_var_free(scalar->var);
        return NULL;
    }
    self->scalar_count++;
    return scalar;
}

bt_tensor *bt_step(bt_problem *self)
{
    if (!usable(self, "bt_step"))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_step: no such problem");
    bt_trace *trace = bt_trace_now();
    bt_tensor *step = bt_trace_read(self->step_count);
    return trace && !bt_poisoned(step) ? bt_as(step, trace->dtype) : step;
}

bt_tensor *bt_host_scalar(bt_problem *self, const char *name, double (*fn)(bt_problem *self))
{
    bt_trace *trace = bt_trace_now();
    if (!usable(self, "bt_host_scalar") || !name || !fn)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_host_scalar: a problem, a name and a function are needed");
    bt_scalar *scalar = find_scalar(self, name);
    if (!scalar || scalar->integer || (scalar->number && scalar->number != fn))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: bt_host_scalar `%s` is defined twice", self->name, name);
    if (!scalar->number) { /* its first value; the others come before each run */
        bt_trace *suspended = bt_trace_suspend();
        double first = fn(self);
        bt_trace_resume(suspended);
        scalar = find_scalar(self, name); /* the function may have evaluated something that brought others */
        bt_put(BT_F64, scalar->var->data, 0, first);
    }
    scalar->number = fn;
    bt_tensor *value = bt_trace_read(scalar->var);
    return trace && !bt_poisoned(value) ? bt_as(value, trace->dtype) : value;
}

int64_t bt_static_int(bt_problem *self, const char *name, int64_t (*fn)(bt_problem *self))
{
    if (!usable(self, "bt_static_int") || !name || !fn)
        return 0;
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

static bool on_host(const char *function)
{
    if (!bt_trace_now())
        return true;
    bt_trace_poison(BT_ERROR_ARGUMENT,
                    "%s is a number on the host and would be frozen into the program: use bt_step or bt_host_scalar",
                    function);
    return false;
}

int64_t bt_host_step(bt_problem *self)
{
    return usable(self, "bt_host_step") && on_host("bt_host_step") ? self->steps : 0;
}

int64_t bt_host_epoch(bt_problem *self)
{
    if (!usable(self, "bt_host_epoch") || !on_host("bt_host_epoch") || !self->train || !self->train->loader)
        return 0;
    return bt_loader_epoch(self->train->loader);
}
