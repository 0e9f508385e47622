/* engine/level/callbacks.c: what a problem's callbacks can ask for: peers, options, numbers that change. */
#include "engine/level/level.h"

#include <string.h>

static bt_problem nobody = {.name = "(missing)", .missing = true};

/* During a trace an error poisons, so that the first one is kept. A missing peer has already been reported. */
bool bt_usable(const bt_problem *self, const char *function)
{
    if (self && !self->missing)
        return true;
    bt_trace_poison(BT_ERROR_ARGUMENT,
                    self ? "%s is called for a problem that does not exist" : "%s is called with NULL", function);
    return false;
}

bt_problem *bt_peer(bt_problem *self, const char *name)
{
    if (!bt_usable(self, "bt_peer"))
        return &nobody;
    name = name ? name : "(NULL)";
    bt_problem *peer = bt_problem_find(self->context, name);
    if (peer)
        return peer;
    bt_text list = {0};
    bt_trace *trace = bt_trace_now();
    bt_problem_list(self->context, &list);
    if (trace)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_peer: no problem is called `%s`; the problems are %s", name,
                        bt_text_get(&list));
    else
        bt_fail(BT_ERROR_ARGUMENT, "%s: bt_peer: no problem is called `%s`; the problems are %s", self->name, name,
                bt_text_get(&list));
    bt_text_free(&list);
    return &nobody;
}

bt_status bt_state(bt_problem *self, const char *name, void *memory, size_t size)
{
    if (!self || self->missing || !name || !*name || !memory || !size || size > INT64_MAX)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_state: expected a problem, a name and memory, one of them is NULL");
    if (!bt_is_utf8(name))
        return bt_fail(BT_ERROR_ARGUMENT, "%s: bt_state: the name `%s` is not UTF-8", self->name, name);
    if (bt_context_may(self->context, BT_REQUEST_STATE, "bt_state") != BT_OK) {
        bt_error_context("%s, `%s`", self->name, name);
        return bt_error_status();
    }
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
    if (!grown[self->memory_count].name)
        return BT_ERROR_MEMORY;
    self->memory_count++;
    return bt_ledger_enter_bytes(self->context, self, grown[self->memory_count - 1].name, memory, size);
}

void *bt_user(bt_problem *self) { return self ? self->user : NULL; }

uint64_t bt_seed(bt_problem *self)
{
    return bt_usable(self, "bt_seed") && self->context->settings ? (uint64_t)self->context->settings->seed : 0;
}

/* The training data, opened if necessary; NULL: an error. */
static const bt_dataset *train_data(bt_problem *self, const char *function, const char *field)
{
    if (!bt_usable(self, function))
        return NULL;
    const bt_status status = !field ? bt_fail(BT_ERROR_ARGUMENT, "%s: %s: the field is NULL", self->name, function)
                             : !self->train && !self->def->configure_train_data
                                 ? bt_fail(BT_ERROR_ARGUMENT, "%s: %s needs configure_train_data", self->name, function)
                                 : bt_problem_open_set(self, BT_TRAIN);
    if (status != BT_OK)
        return NULL;
    const bt_dataset *data = self->train_data ? self->train_data
                             : self->train    ? bt_loader_data(self->train->loader)
                                              : NULL;
    if (!data)
        bt_fail(BT_ERROR_DATA, "%s: %s: the training data are not a data set, and have no field `%s`", self->name,
                function, field);
    return data;
}

bool bt_data_has(bt_problem *self, const char *field)
{
    const bt_dataset *data = train_data(self, "bt_data_has", field);
    return data && bt_dataset_field_dim(data, field, 0) >= 0;
}

int64_t bt_data_classes(bt_problem *self)
{
    const bt_dataset *data = train_data(self, "bt_data_classes", "label");
    const int64_t classes = data ? bt_dataset_classes(data) : 0;
    return classes > 0 ? classes : 1;
}

int64_t bt_data_dim(bt_problem *self, const char *field, int axis)
{
    const bt_dataset *data = train_data(self, "bt_data_dim", field);
    if (!data)
        return 1;
    int64_t size = bt_dataset_field_dim(data, field, axis);
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
    if (bt_usable(self, "bt_option_bool"))
        bt_config_option_bool(self->context->config, self->name, key, value, &result);
    return result;
}

int64_t bt_option_int(bt_problem *self, const char *key, int64_t value, int64_t low, int64_t high)
{
    int64_t result = value;
    if (bt_usable(self, "bt_option_int"))
        bt_config_option_int(self->context->config, self->name, key, value, low, high, &result);
    return result;
}

double bt_option_double(bt_problem *self, const char *key, double value, double low, double high)
{
    double result = value;
    if (bt_usable(self, "bt_option_double"))
        bt_config_option_double(self->context->config, self->name, key, value, low, high, &result);
    return result;
}

const char *bt_option_text(bt_problem *self, const char *key, const char *value)
{
    const char *result = value;
    if (bt_usable(self, "bt_option_text"))
        bt_config_option_text(self->context->config, self->name, key, value, &result);
    return result;
}

/* ---- numbers that change ---- */

static bool on_host(const char *function)
{
    if (!bt_trace_now())
        return true;
    bt_trace_poison(BT_ERROR_ARGUMENT,
                    "%s is a number on the host, and the program would keep its present value for ever: use bt_step or "
                    "bt_host_scalar",
                    function);
    return false;
}

int64_t bt_host_step(bt_problem *self)
{
    return bt_usable(self, "bt_host_step") && on_host("bt_host_step") ? self->steps : 0;
}

int64_t bt_host_epoch(bt_problem *self)
{
    if (!bt_usable(self, "bt_host_epoch") || !on_host("bt_host_epoch") || !self->train || !self->train->loader)
        return 0;
    return bt_loader_epoch(self->train->loader);
}
