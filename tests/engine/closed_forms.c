/* tests/engine/closed_forms.c */
#include "closed_forms.h"

#include <string.h>

static bt_dataset *rows(bt_problem *self)
{
    numbers *n = bt_user(self);
    int count = n->rows ? n->rows : 1, columns = n->columns ? n->columns : 1;
    bt_dataset *data = bt_dataset_new(count);
    bt_dataset_add(data, "x", BT_ARRAY(n->x, count, columns));
    bt_dataset_add(data, "y", BT_ARRAY(n->y, count));
    return data;
}

static bt_module *lower_module(bt_problem *self)
{
    numbers *n = bt_user(self);
    return bt_nn_parameter(bt_init_array(BT_ARRAY(n->w, n->ws)), n->ws);
}

static bt_module *upper_module(bt_problem *self)
{
    numbers *n = bt_user(self);
    return bt_nn_parameter(bt_init_array(BT_ARRAY(n->lambda, n->lambdas)), n->lambdas);
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    return ((numbers *)bt_user(self))->lower(self, batch);
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return ((numbers *)bt_user(self))->upper(self, batch);
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = upper_module, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = rows, .configure_module = lower_module, .training_step = lower_step};

const bt_export closed_forms = {.abi = BT_ABI, .problems = {&upper, &lower}};

bt_engine *closed_form_engine(numbers *n, const char *settings)
{
    bt_engine *engine = bt_engine_new();
    bt_engine_use(engine, &closed_forms, n);
    bt_engine_set(engine, "dependencies.u2l", "upper > lower");
    bt_engine_set(engine, "dependencies.l2u", "lower > upper");
    bt_engine_set(engine, "engine.precision", "fp64");
    bt_engine_set(engine, "engine.valid_step", "0");
    bt_engine_set(engine, "lower.batch_size", "all");
    bt_engine_set(engine, "upper.batch_size", "all");
    while (*settings) {
        char line[256] = {0};
        size_t length = strcspn(settings, "\n");
        memcpy(line, settings, length < sizeof line ? length : sizeof line - 1);
        settings += length + (settings[length] == '\n');
        char *equals = strstr(line, " = ");
        if (!equals)
            continue;
        *equals = 0;
        bt_engine_set(engine, line, "%s", equals + 3);
    }
    if (!*bt_error())
        return engine;
    bt_engine_free(engine);
    return NULL;
}

bt_status closed_form_hypergradient(numbers *n, const char *settings, double *result)
{
    bt_engine *engine = closed_form_engine(n, settings);
    bt_status status = engine ? BT_OK : BT_ERROR_CONFIG;
    if (engine)
        status = bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(result, n->lambdas));
    bt_engine_free(engine);
    return status;
}
