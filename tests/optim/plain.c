/* tests/optim/plain.c: see plain.h. */
#include "plain.h"

#include "nn/module.h"
#include "support/vars.h"
#include <check.h>
#include <math.h>
#include <string.h>

static void sgd(plain_state *s, const plain_settings *o, double lr, const double *grad)
{
    for (int i = 0; i < s->count; i++) {
        double g = grad[i] + o->weight_decay * s->p[i];
        if (o->momentum != 0) {
            s->m[i] = s->updates == 0 ? g : o->momentum * s->m[i] + (1 - o->dampening) * g;
            g = o->nesterov ? g + o->momentum * s->m[i] : s->m[i];
        }
        s->p[i] -= lr * g;
    }
}

static void adam(plain_state *s, const plain_settings *o, double lr, const double *grad, bool decoupled)
{
    int t = s->updates + 1;
    for (int i = 0; i < s->count; i++) {
        double g = grad[i];
        if (decoupled)
            s->p[i] *= 1 - lr * o->weight_decay;
        else
            g += o->weight_decay * s->p[i];
        s->m[i] = o->beta1 * s->m[i] + (1 - o->beta1) * g;
        s->v[i] = o->beta2 * s->v[i] + (1 - o->beta2) * g * g;
        double m = s->m[i] / (1 - pow(o->beta1, t)), v = s->v[i] / (1 - pow(o->beta2, t));
        s->p[i] -= lr * m / (sqrt(v) + o->eps);
    }
}

void plain_update(plain_state *state, const plain_settings *settings, double lr, const double *grad)
{
    if (strcmp(settings->name, "sgd") == 0)
        sgd(state, settings, lr, grad);
    else
        adam(state, settings, lr, grad, strcmp(settings->name, "adamw") == 0);
    state->updates++;
}

/* ---- the training problem ---- */

static double curvature(int i) { return 0.3 + 0.35 * i; }

static double centre(int i) { return sin(1.7 * i + 0.4); }

void plain_start(plain_state *state)
{
    memset(state, 0, sizeof *state);
    state->count = PLAIN_SIZE;
    for (int i = 0; i < PLAIN_SIZE; i++)
        state->p[i] = cos(2.3 * i) + 0.1 * i;
}

void plain_noise(int step, double *noise)
{
    for (int i = 0; i < PLAIN_SIZE; i++)
        noise[i] = bt_host_uniform(17, (uint64_t)step, (uint64_t)i) - 0.5;
}

void plain_grad(const plain_state *state, const double *noise, double *grad)
{
    for (int i = 0; i < PLAIN_SIZE; i++)
        grad[i] = curvature(i) * (state->p[i] - centre(i)) + noise[i];
}

bt_module *plain_module(void)
{
    plain_state state;
    plain_start(&state);
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "a", bt_init_array(BT_ARRAY(state.p, 2, 3)), 2, 3);
    bt_module_add_param(module, "b", bt_init_array(BT_ARRAY(state.p + 6, PLAIN_SIZE - 6)), PLAIN_SIZE - 6);
    ck_assert_msg(bt_module_init(module, BT_CPU, BT_F64, 1) == BT_OK, "%s", bt_error());
    return module;
}

bt_tensor *plain_loss(bt_module *module, const bt_batch *batch)
{
    double k[PLAIN_SIZE], c[PLAIN_SIZE];
    for (int i = 0; i < PLAIN_SIZE; i++) {
        k[i] = curvature(i);
        c[i] = centre(i);
    }
    bt_tensor *p = bt_params(module);
    bt_tensor *away = bt_square(bt_sub(p, bt_constant(BT_ARRAY(c, PLAIN_SIZE))));
    bt_tensor *bowl = bt_mul(0.5, bt_sum(bt_mul(bt_constant(BT_ARRAY(k, PLAIN_SIZE)), away)));
    return bt_add(bowl, bt_sum(bt_mul(bt_field(batch, "noise"), p)));
}

bt_optimizer *plain_optimizer(const plain_settings *o)
{
    bt_optimizer *optimizer = bt_optimizer_new(o->name);
    ck_assert_ptr_nonnull(optimizer);
    ck_assert_int_eq(bt_optimizer_set(optimizer, "lr", o->lr), BT_OK);
    ck_assert_int_eq(bt_optimizer_set(optimizer, "weight_decay", o->weight_decay), BT_OK);
    if (strcmp(o->name, "sgd") == 0) {
        ck_assert_int_eq(bt_optimizer_set(optimizer, "momentum", o->momentum), BT_OK);
        ck_assert_int_eq(bt_optimizer_set(optimizer, "dampening", o->dampening), BT_OK);
        ck_assert_int_eq(bt_optimizer_set(optimizer, "nesterov", o->nesterov), BT_OK);
    } else {
        ck_assert_int_eq(bt_optimizer_set(optimizer, "beta1", o->beta1), BT_OK);
        ck_assert_int_eq(bt_optimizer_set(optimizer, "beta2", o->beta2), BT_OK);
        ck_assert_int_eq(bt_optimizer_set(optimizer, "eps", o->eps), BT_OK);
    }
    return optimizer;
}

static bt_tensor *step(void *user, const bt_batch *batch)
{
    plain_training *training = user;
    bt_tensor *loss = plain_loss(training->module, batch);
    bt_optimizer_minimize(training->optimizer, loss, training->module);
    return loss;
}

plain_training plain_training_new(bt_optimizer *optimizer)
{
    return (plain_training){.module = plain_module(), .optimizer = optimizer};
}

bt_function *plain_function(plain_training *training) { return bt_function_new(step, training, BT_TRAIN); }

void plain_step(plain_training *training, const double *noise)
{
    if (!training->function)
        training->function = plain_function(training);
    double loss;
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "noise", BT_ARRAY(noise, PLAIN_SIZE));
    ck_assert_msg(bt_function_run(training->function, batch, BT_ARRAY(&loss)) == BT_OK, "%s", bt_error());
    bt_batch_free(batch);
}

void plain_training_free(plain_training *training)
{
    bt_function_free(training->function);
    bt_optimizer_free(training->optimizer);
    bt_module_free(training->module);
}

const double *plain_found(const plain_training *training, double *to)
{
    memcpy(to, var_near(training->module->params[0]->var), 6 * sizeof *to);
    memcpy(to + 6, var_near(training->module->params[1]->var), (PLAIN_SIZE - 6) * sizeof *to);
    return to;
}

void plain_assert_close(const double *found, const plain_state *expected, const char *what, int step)
{
    for (int i = 0; i < expected->count; i++)
        ck_assert_msg(fabs(found[i] - expected->p[i]) <= 1e-12 * (1 + fabs(expected->p[i])),
                      "%s, step %d, number %d: found %.17g, expected %.17g", what, step, i, found[i], expected->p[i]);
}
