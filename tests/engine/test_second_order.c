/* tests/engine/test_second_order.c: hypergradients through all kinds of losses, against differences of the whole inner
 * loop, in double precision: itd must agree as a whole, and of the other methods every product. */
#include "levels.h"

#include "engine/session/front.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, FEATURES = 3, HIDDEN = 4 };
enum { DROPOUT = 1, NORM = 2, NORMALISED = 4, PENALTY = 8, EVERYTHING = 15 };

static int parts_of_loss;

static bt_dataset *rows(bt_problem *self)
{
    double x[ROWS * FEATURES], y[ROWS];
    for (int i = 0; i < ROWS * FEATURES; i++)
        x[i] = sin(1.7 * i + 0.3);
    for (int i = 0; i < ROWS; i++)
        y[i] = cos(2.1 * i);
    (void)self;
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, FEATURES));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    return data;
}

/* x -> linear -> layer norm -> tanh -> dropout -> linear; dropped elements are never added. */
static bt_tensor *net_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *h = bt_forward(bt_child(self, "in"), in[0]);
    if (parts_of_loss & NORM)
        h = bt_forward(bt_child(self, "norm"), h);
    h = bt_tanh(h);
    if (parts_of_loss & DROPOUT)
        h = bt_forward(bt_child(self, "drop"), h);
    return bt_squeeze(bt_forward(bt_child(self, "out"), h), 1);
}

static bt_module *net(bt_problem *self)
{
    bt_module *module = bt_module_new(net_forward);
    (void)self;
    bt_module_add(module, bt_nn_linear(FEATURES, HIDDEN), "in");
    if (parts_of_loss & NORM)
        bt_module_add(module, bt_nn_layer_norm(HIDDEN), "norm");
    if (parts_of_loss & DROPOUT)
        bt_module_add(module, bt_nn_dropout(0.4), "drop");
    bt_module_add(module, bt_nn_linear(HIDDEN, 1), "out");
    return module;
}

static bt_module *weights(bt_problem *self)
{
    static const double start[] = {0.3, -0.2, 0.4};
    (void)self;
    return bt_nn_parameter(bt_init_array(BT_ARRAY(start, 3)), 3);
}

static bt_tensor *errors(bt_problem *model, const bt_batch *batch)
{
    return bt_square(bt_sub(bt_forward(model, bt_field(batch, "x")), bt_field(batch, "y")));
}

/* Examples weighted by the upper level, and a weight decay that it sets. */
static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *lambda = bt_forward(bt_peer(self, "upper")), *x = bt_field(batch, "x");
    bt_tensor *score = bt_add(bt_mul(bt_at(lambda, 0), bt_squeeze(bt_slice(x, 1, 0, 1), 1)),
                              bt_mul(bt_at(lambda, 1), bt_squeeze(bt_slice(x, 1, 1, 2), 1)));
    bt_tensor *each = errors(self, batch), *loss;
    if (parts_of_loss & NORMALISED)
        loss = bt_sum(bt_mul(bt_softmax(score, 0), each));
    else
        loss = bt_mean(bt_mul(bt_sigmoid(score), each));
    loss = bt_add(loss, bt_mul(bt_mul(0.05, bt_exp(bt_at(lambda, 2))), bt_sum(bt_square(bt_params(self)))));
    if (parts_of_loss & PENALTY)
        loss = bt_add(loss, bt_mul(0.05, bt_sum(bt_square(bt_grad(bt_mean(each), bt_params(self))))));
    return loss;
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    bt_problem *lower = bt_peer(self, "lower");
    bt_tensor *loss = bt_mean(errors(lower, batch));
    if (parts_of_loss & PENALTY)
        loss = bt_add(loss, bt_mul(0.1, bt_sum(bt_square(bt_grad(loss, bt_params(lower))))));
    return bt_add(loss, bt_mul(0.1, bt_sum(bt_square(bt_forward(self)))));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = weights, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = rows, .configure_module = net, .training_step = lower_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static void expect(const char *settings, bt_status due, const char *words)
{
    char lines[700], *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.lr = 0.2\n"
             "lower.unroll_steps = 3\nlower.batch_size = 4\nupper.batch_size = 3\nengine.seed = 3\n%s",
             settings);
    bt_engine *engine = levels_engine(&parts, NULL, lines);
    bt_status status = bt_engine_check_hypergradient(engine, &(bt_checking){.file = file});
    fclose(file);
    ck_assert_msg(status == due && strstr(text, words), "%s: %s%s", settings, bt_error(), text);
    bt_error_clear();
    free(text);
    bt_engine_free(engine);
}

static const struct {
    int parts;
    const char *settings;
} cases[] = {
    {0, ""},
    {DROPOUT, ""},
    {NORM, ""},
    {NORMALISED, ""},
    {PENALTY, ""},
    {EVERYTHING, "lower.momentum = 0.5\nlower.weight_decay = 0.01\n"},
    {0, "lower.gradient_clipping = 0.2\n"},
    {DROPOUT | NORM, "lower.gradient_clipping = 0.2\nlower.optimizer = adam\n"},
    /* 4 + 1 + 4 rows: the micro-batch in the middle is short */
    {0, "lower.gradient_accumulation = 3\nlower.product_batches = all\n"},
    {DROPOUT | NORM | PENALTY, "lower.gradient_accumulation = 2\nlower.product_batches = all\n"
                               "upper.gradient_accumulation = 2\n"},
};

enum { CASES = sizeof cases / sizeof *cases };

START_TEST(the_steps_as_a_whole)
{
    char settings[300];
    parts_of_loss = cases[_i].parts;
    snprintf(settings, sizeof settings, "%slower.type = itd\n", cases[_i].settings);
    expect(settings, BT_OK, "\nagrees, in direction and in length");
}
END_TEST

START_TEST(every_product)
{
    static const char *const products[] = {"jvp", "vjp"};
    char settings[300];
    parts_of_loss = cases[_i % CASES].parts;
    snprintf(settings, sizeof settings, "%slower.type = cg\nlower.cg_iterations = 2\nlower.product = %s\n",
             cases[_i % CASES].settings, products[_i / CASES]);
    bool clips = strstr(settings, "clipping") != NULL; /* not visible to cg, and active here */
    expect(settings, clips ? BT_ERROR_NUMERIC : BT_OK,
           clips ? "they also depend on gradient_clipping" : "the parts that must be exact agree");
}
END_TEST

/* ---- a derivative within both losses, against a closed form of third order ----
 *
 * C = lambda w^4 / 4 + w^2 / 2 with its gradient penalty p (dC0/dw)^2 / 2 of C0 = w^3 / 3, so
 * g = lambda w^3 + w + 2 p w^3,  F = w^3 / 3 + (dF0/dw)^2 / 2 of F0 = w^2 / 2:  v = w^2 + w
 * darts: -lambda's g times v = -w^3 (w^2 + w);  cg: over H = 3 lambda w^2 + 1 + 6 p w^2 */

static const double w0 = 0.7, lambda0 = 0.4, p = 0.3;

static bt_module *number(bt_problem *self)
{
    return bt_nn_parameter(bt_init_constant(strcmp(bt_option_text(self, "role", "w"), "w") == 0 ? w0 : lambda0));
}

static bt_tensor *power(bt_tensor *x, int n)
{
    bt_tensor *y = x;
    for (int i = 1; i < n; i++)
        y = bt_mul(y, x);
    return y;
}

static bt_tensor *w_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = bt_forward(self), *lambda = bt_forward(bt_peer(self, "upper"));
    bt_tensor *slope = bt_sum(bt_grad(bt_div(power(w, 3), 3), bt_params(self)));
    bt_tensor *loss = bt_add(bt_div(bt_mul(lambda, power(w, 4)), 4), bt_div(bt_square(w), 2));
    return bt_add(loss, bt_mul(p / 2, bt_square(slope)));
}

static bt_tensor *lambda_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_problem *lower = bt_peer(self, "lower");
    bt_tensor *w = bt_forward(lower), *slope = bt_sum(bt_grad(bt_div(bt_square(w), 2), bt_params(lower)));
    return bt_add(bt_div(power(w, 3), 3), bt_div(bt_square(slope), 2));
}

static const bt_problem_def penalised = {
    .name = "lower", .configure_train_data = rows, .configure_module = number, .training_step = w_step};
static const bt_problem_def above = {
    .name = "upper", .configure_train_data = rows, .configure_module = number, .training_step = lambda_step};

START_TEST(third_order)
{
    static const char *const methods[] = {"darts", "cg"}, *const products[] = {"jvp", "vjp"};
    bt_export two = {.abi = BT_ABI, .problems = {&above, &penalised}};
    char settings[300];
    double found, v = w0 * w0 + w0, h = 3 * lambda0 * w0 * w0 + 1 + 6 * p * w0 * w0;
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nupper.role = lambda\n"
             "lower.type = %s\nlower.product = %s\n",
             methods[_i / 2], products[_i % 2]);
    bt_engine *engine = levels_engine(&two, NULL, settings);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found)));
    ck_assert_double_eq_tol(found, -w0 * w0 * w0 * v / (_i / 2 ? h : 1), 1e-13);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("second order");
    TCase *tests = tcase_create("through everything");
    tcase_add_loop_test(tests, the_steps_as_a_whole, 0, CASES);
    tcase_add_loop_test(tests, every_product, 0, 2 * CASES);
    tcase_add_loop_test(tests, third_order, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
