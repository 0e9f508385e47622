/* tests/optim/plain.h: a second SGD, Adam and AdamW, in plain double precision, one number at a time, from the formulas
 * in PyTorch's documentation; and a small training problem for both implementations. */
#ifndef BT_TEST_PLAIN_H
#define BT_TEST_PLAIN_H

#include <betty/betty.h>
#include <stdbool.h>

enum { PLAIN_SIZE = 11 }; /* the size of the training problem: parameters "a" [2, 3] and "b" [5] */

typedef struct plain_settings {
    const char *name; /* sgd, adam, adamw */
    double lr, momentum, dampening, weight_decay;
    bool nesterov;
    double beta1, beta2, eps;
} plain_settings;

typedef struct plain_state {
    double p[PLAIN_SIZE], m[PLAIN_SIZE], v[PLAIN_SIZE];
    int count;   /* of numbers in use */
    int updates; /* applied so far */
} plain_state;

/* One update with the learning rate `lr`. */
void plain_update(plain_state *state, const plain_settings *settings, double lr, const double *grad);

/* The training problem: loss = sum(k (p - c)^2) / 2 + sum(noise p), noise from the batch field "noise" [PLAIN_SIZE]. */
bt_module *plain_module(void);
bt_tensor *plain_loss(bt_module *module, const bt_batch *batch);
void plain_start(plain_state *state);
void plain_grad(const plain_state *state, const double *noise, double *grad);
void plain_noise(int step, double *noise);

/* The optimiser's settings by name, as bt_optimizer_set takes them. */
bt_optimizer *plain_optimizer(const plain_settings *settings);

/* One training step by the library: the user data of bt_function. */
typedef struct plain_training {
    bt_module *module;
    bt_optimizer *optimizer;
    bt_function *function;
} plain_training;
plain_training plain_training_new(bt_optimizer *optimizer);
void plain_training_free(plain_training *training);    /* also frees the optimiser */
bt_function *plain_function(plain_training *training); /* of a step; plain_step calls it too */
void plain_step(plain_training *training, const double *noise);
const double *plain_found(const plain_training *training, double *to); /* the parameters as one vector */
void plain_assert_close(const double *found, const plain_state *expected, const char *what, int step);

#endif
