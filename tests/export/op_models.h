/* tests/export/op_models.h: every op that has a rule, by its own samples, as a model of its own. */
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
    bt_array out;    /* dtype, as it is in the model, and shape of the output, once it has been computed; no data */
} op_model;

/* Calls `take` with each; what it gets is freed afterwards. Left out: samples without elements, which would be read as
 * a batch of any size, and of 16 bits, which no model has. */
void each_op_model(void (*take)(void *user, op_model *model), void *user);

/* What the op computes itself, into `result`, with room for so many numbers; sets model->out. */
bt_status compute_op_model(op_model *model, double *result, int64_t room);

#endif
