/* tests/engine/linear.c */
#include "linear.h"

static const char *const names[LINEAR_LEVELS] = {LINEAR_NAMES};

static bt_dataset *rows(bt_problem *self)
{
    static const double x[] = {1, 2, 3};
    (void)self;
    bt_dataset *data = bt_dataset_new(3);
    bt_dataset_add(data, "x", BT_ARRAY(x, 3));
    return data;
}

static bt_module *number(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0.5)); }

static bt_tensor *step(bt_problem *self, int i)
{
    const linear_reads *reads = bt_user(self);
    bt_tensor *rest = bt_forward(self);
    for (int j = 0; j < LINEAR_LEVELS; j++)
        if ((*reads)[i][j] != 0)
            rest = bt_sub(rest, bt_mul((*reads)[i][j], bt_forward(bt_peer(self, names[j]))));
    return bt_mul(0.5, bt_square(rest));
}

static bt_tensor *t_step(bt_problem *self, const bt_batch *batch) { return (void)batch, step(self, 0); }
static bt_tensor *a_step(bt_problem *self, const bt_batch *batch) { return (void)batch, step(self, 1); }
static bt_tensor *b_step(bt_problem *self, const bt_batch *batch) { return (void)batch, step(self, 2); }
static bt_tensor *c_step(bt_problem *self, const bt_batch *batch) { return (void)batch, step(self, 3); }
static bt_tensor *d_step(bt_problem *self, const bt_batch *batch) { return (void)batch, step(self, 4); }

void (*linear_epoch)(bt_problem *self), (*linear_validated)(bt_problem *self);

static void epoch(bt_problem *self)
{
    if (linear_epoch)
        linear_epoch(self);
}

static void validated(bt_problem *self)
{
    if (linear_validated)
        linear_validated(self);
}

#define LEVEL(called)                                                                                                  \
    static const bt_problem_def called = {.name = #called,                                                             \
                                          .configure_train_data = rows,                                                \
                                          .configure_module = number,                                                  \
                                          .training_step = called##_step,                                              \
                                          .epoch_callback = epoch,                                                     \
                                          .validation_end = validated}
LEVEL(t);
LEVEL(a);
LEVEL(b);
LEVEL(c);
LEVEL(d);

const bt_export linear_parts = {.abi = BT_ABI, .problems = {&t, &a, &b, &c, &d}};

double linear_derivative(double (*reads)[LINEAR_LEVELS], const bool (*upper)[LINEAR_LEVELS], const double *p)
{
    double slope[LINEAR_LEVELS] = {1}, rest = p[0], change = 1;
    for (int pass = 0; pass < LINEAR_LEVELS; pass++) /* as many times as the longest path has levels */
        for (int i = 1; i < LINEAR_LEVELS; i++) {
            slope[i] = 0;
            for (int j = 0; j < LINEAR_LEVELS; j++)
                slope[i] += upper[j][i] ? reads[i][j] * slope[j] : 0;
        }
    for (int j = 1; j < LINEAR_LEVELS; j++) {
        rest -= reads[0][j] * p[j];
        change -= reads[0][j] * slope[j];
    }
    return rest * change;
}
