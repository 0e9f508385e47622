/* tests/export/op_models.h: for every op that has a rule, a model for each of its samples. */
#ifndef TESTS_EXPORT_OP_MODELS_H
#define TESTS_EXPORT_OP_MODELS_H

#include <betty/betty.h>

enum { OP_INPUTS = 16 };

typedef struct op_model {
    char name[160]; /* "softmax.rows.0": the op, the sample, the output */
    bt_module *module;
    bt_model_input inputs[OP_INPUTS];
    int count;
    bt_batch *batch; /* the inputs' values */
    bt_array out;    /* dtype (as in the model) and shape of the output, once computed; no data */
} op_model;

/* Calls `take` with each model, which is freed afterwards. Skips samples without elements, whose empty axis would be
 * read as a batch of any size, and 16-bit samples, which no model has. */
void each_op_model(void (*take)(void *user, op_model *model), void *user);

/* Computes the op itself into `result`, which has room for `room` numbers; sets model->out. */
bt_status compute_op_model(op_model *model, double *result, int64_t room);

#endif
