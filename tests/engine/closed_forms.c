/* tests/engine/closed_forms.c */
#include "closed_forms.h"

#include "levels.h"
#include <stdio.h>

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
    static const char links[] = "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n"
                                "lower.batch_size = all\nupper.batch_size = all\n";
    char lines[1024];
    snprintf(lines, sizeof lines, "%s%s", links, settings);
    return levels_engine(&closed_forms, n, lines);
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
