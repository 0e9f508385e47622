/* tests/engine/test_own_parts.c: a user-defined optimiser, method and op, in two levels. */
#include "ridge.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- an optimiser with a slot: m = beta m + g, p = p - lr m ---- */

static bt_tensor *heavy_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *m = bt_add(bt_mul(bt_hyper(rule, "beta"), bt_slot(rule, "m")), grad);
    bt_slot_set(rule, "m", m);
    return bt_sub(param, bt_mul(bt_hyper(rule, "lr"), m));
}

static const bt_optimizer_def heavy = {
    .name = "heavy",
    .hypers = {{"lr", 0.01, 0, 10, "rate", BT_HYPER_REAL}, {"beta", 0.5, 0, 1, "of the old m", BT_HYPER_REAL}},
    .slots = {"m"},
    .update = heavy_update};

/* ---- a method with a slot: d = gamma d + omega (v - H x), x = x + d, from x = omega v ---- */

static bt_tensor *ball_start(bt_rule *rule, bt_tensor *v)
{
    bt_tensor *x = bt_mul(bt_hyper(rule, "omega"), v);
    bt_slot_set(rule, "d", x);
    return x;
}

static bt_tensor *ball_step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    bt_tensor *residual = bt_sub(v, bt_hvp(rule, x));
    bt_tensor *d =
        bt_add(bt_mul(bt_hyper(rule, "gamma"), bt_slot(rule, "d")), bt_mul(bt_hyper(rule, "omega"), residual));
    bt_slot_set(rule, "d", d);
    return bt_add(x, d);
}

static const bt_method_def ball = {.name = "ball",
                                   .hypers = {{"iterations", 1, 0, 100, "steps", BT_HYPER_WHOLE},
                                              {"omega", 0.5, 0, 10, "of the residual", BT_HYPER_REAL},
                                              {"gamma", 0.1, 0, 1, "of the last step", BT_HYPER_REAL}},
                                   .slots = {"d"},
                                   .start = ball_start,
                                   .step = ball_step};

static bt_tensor *once_step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    (void)v;
    return bt_hvp(rule, x);
}

static const bt_method_def once = {.name = "once", .step = once_step}; /* x = H v: no start, no hyperparameters */

static bt_tensor *richardson_start(bt_rule *rule, bt_tensor *v) { return bt_sub(v, bt_mul(0.3, bt_hvp(rule, v))); }

static const bt_method_def richardson = {.name = "richardson", .start = richardson_start}; /* x = v - 0.3 H v */

/* x = v - 0.3 H H v; then x + 0.1 (v(w + x) - g(w + x) - H H (x - H v)), v and g the gradients of both losses. */
static bt_tensor *winding_start(bt_rule *rule, bt_tensor *v)
{
    return bt_sub(v, bt_mul(0.3, bt_hvp(rule, bt_hvp(rule, v))));
}

static bt_tensor *winding_step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    bt_tensor *slope = bt_sub(bt_upper_gradient(rule, x), bt_lower_gradient(rule, x));
    bt_tensor *curved = bt_hvp(rule, bt_hvp(rule, bt_sub(x, bt_hvp(rule, v))));
    return bt_add(x, bt_mul(0.1, bt_sub(slope, curved)));
}

static const bt_method_def winding = {.name = "winding",
                                      .hypers = {{"iterations", 3, 0, 100, "steps", BT_HYPER_WHOLE}},
                                      .start = winding_start,
                                      .step = winding_step};

static bt_tensor *first_of_two(bt_tensor *v) { return bt_slice(v, 0, 0, 1); }
static bt_tensor *product_start(bt_rule *rule, bt_tensor *v) { return bt_hvp(rule, first_of_two(v)); }
static bt_tensor *moved_start(bt_rule *rule, bt_tensor *v) { return bt_lower_gradient(rule, first_of_two(v)); }
static bt_tensor *slope_start(bt_rule *rule, bt_tensor *v) { return bt_mul(bt_slope(rule), v); }

static const bt_method_def half_product = {.name = "half_product", .start = product_start};
static const bt_method_def half_moved = {.name = "half_moved", .start = moved_start};
static const bt_method_def undeclared = {.name = "undeclared", .start = slope_start};

static bt_tensor *whole_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bt_tensor *length = bt_sqrt(bt_add(bt_sum(bt_square(grad)), 1e-6));
    return bt_sub(param, bt_mul(bt_hyper(rule, "lr"), bt_div(grad, length)));
}

static const bt_optimizer_def whole = {
    .name = "whole",
    .hypers = {{"lr", 0.01, 0, 10, "rate", BT_HYPER_REAL}, {"beta", 0, 0, 1, "none", BT_HYPER_REAL}},
    .update = whole_update};

static bt_tensor *short_start(bt_rule *rule, bt_tensor *v)
{
    (void)rule;
    return bt_slice(v, 0, 0, 1);
}

static bt_tensor *lost_step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    (void)rule, (void)v, (void)x;
    return NULL;
}

static bt_tensor *slotless_step(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    (void)v;
    return bt_add(x, bt_slot(rule, "velocity"));
}

static bt_tensor *curious_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    return bt_sub(param, bt_hvp(rule, grad));
}

static const bt_method_def too_short = {.name = "short", .start = short_start};
static const bt_method_def lost = {.name = "lost", .step = lost_step};
static const bt_method_def slotless = {.name = "slotless", .slots = {"d"}, .step = slotless_step};
static const bt_optimizer_def curious = {.name = "curious", .update = curious_update};
static const bt_export own_rules = {.abi = BT_ABI,
                                    .optimizers = {&heavy, &curious, &whole},
                                    .methods = {&ball, &once, &too_short, &lost, &slotless, &richardson, &half_product,
                                                &half_moved, &undeclared, &winding}};

static bt_engine *engine_of(ridge *data, const char *settings)
{
    char lines[1200];
    bt_engine *engine = bt_engine_new();
    bt_engine_use(engine, &own_rules, NULL);
    bt_engine_use(engine, &ridge_parts, data);
    snprintf(lines, sizeof lines,
             "engine.precision=fp64\nengine.valid_step=0\nengine.log_step=0\ndependencies.u2l=upper > lower\n"
             "dependencies.l2u=lower > upper\nlower.shuffle=false\nupper.shuffle=false\nlower.batch_size=4\n"
             "upper.batch_size=3\nlower.optimizer=heavy\nupper.optimizer=heavy\nlower.lr=0.3\nlower.beta=0.9\n"
             "upper.lr=0.2\n%s",
             settings);
    for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n")) {
        char *equals = strchr(line, '=');
        *equals = 0;
        bt_engine_set(engine, line, "%s", equals + 1);
    }
    return engine;
}

/* H x of the ridge problem's lower loss, from its gradient, which is affine in w. */
static void hessian(const ridge *data, const rows *batch, const double *lambda, const double *x, double *result)
{
    static const double zero[2];
    double base[2];
    plain_lower(data, batch, 1, zero, lambda, base);
    plain_lower(data, batch, 1, x, lambda, result);
    for (int k = 0; k < 2; k++)
        result[k] -= base[k];
}

enum { ONCE = -1, RICHARDSON = -2, SAMA = -3 }; /* instead of the steps of `ball`; 0.3 is the rate of `heavy` */

static void solve(const ridge *data, const rows *batch, const double *lambda, int iterations, const double *v,
                  double *x)
{
    double d[2], h[2];
    if (iterations < 0) {
        hessian(data, batch, lambda, v, h);
        for (int k = 0; k < 2; k++)
            x[k] = iterations == ONCE ? h[k] : iterations == RICHARDSON ? v[k] - 0.3 * h[k] : 0.3 * v[k];
        return;
    }
    for (int k = 0; k < 2; k++)
        x[k] = d[k] = 0.4 * v[k];
    for (int i = 0; i < iterations; i++) {
        hessian(data, batch, lambda, x, h);
        for (int k = 0; k < 2; k++)
            d[k] = 0.25 * d[k] + 0.4 * (v[k] - h[k]);
        for (int k = 0; k < 2; k++)
            x[k] += d[k];
    }
}

/* -(d/dlambda) <lower gradient, x>, by hand: s (1 - s) <g_data, x> and e <w, x>. */
static void cross(const ridge *data, const rows *batch, const double *w, const double *lambda, const double *x,
                  double *h)
{
    double s = 1 / (1 + exp(-lambda[0])), e = exp(lambda[1]), g[2];
    plain_lower(data, batch, 1, w, lambda, g);
    for (int k = 0; k < 2; k++) {
        h[0] -= s * (1 - s) * (g[k] - e * w[k]) / s * x[k];
        h[1] -= e * w[k] * x[k];
    }
}

START_TEST(optimizer_and_method)
{
    static const struct {
        const char *settings;
        int iterations;
    } cases[] = {
        {"lower.type=ball\nlower.ball_iterations=0\nlower.ball_omega=0.4\nlower.ball_gamma=0.25\n", 0},
        {"lower.type=ball\nlower.ball_omega=0.4\nlower.ball_gamma=0.25\n", 1},
        {"lower.type=ball\nlower.ball_iterations=4\nlower.ball_omega=0.4\nlower.ball_gamma=0.25\n", 4},
        {"lower.type=ball\nlower.ball_iterations=4\nlower.ball_omega=0.4\nlower.ball_gamma=0.25\nlower.product=vjp\n",
         4},
        {"lower.type=once\n", ONCE},
        {"lower.type=richardson\n", RICHARDSON},
        {"lower.type=sama\nlower.product=jvp\n", SAMA},
    };
    ridge data = ridge_data();
    double w[2], lambda[2], m[2] = {0}, upper_m[2] = {0}, found[2];
    int lower_drawn = 0, upper_drawn = 0;
    char settings[400];
    memcpy(w, data.w, sizeof w);
    memcpy(lambda, data.lambda, sizeof lambda);
    snprintf(settings, sizeof settings, "engine.train_iters=7\n%s", cases[_i].settings);
    bt_engine *engine = engine_of(&data, settings);
    levels_run(engine);
    for (int i = 0; i < 7; i++) {
        double g[2], v[2], h[2], x[2];
        rows lower = rows_next(RIDGE_ROWS, 4, &lower_drawn), upper = rows_next(RIDGE_UPPER_ROWS, 3, &upper_drawn);
        plain_lower(&data, &lower, 1, w, lambda, g);
        for (int k = 0; k < 2; k++) {
            m[k] = 0.9 * m[k] + g[k];
            w[k] -= 0.3 * m[k];
        }
        plain_upper(&data, &upper, 1, w, lambda, v, h);
        solve(&data, &lower, lambda, cases[_i].iterations, v, x);
        cross(&data, &lower, w, lambda, x, h);
        for (int k = 0; k < 2; k++) {
            upper_m[k] = 0.5 * upper_m[k] + h[k];
            lambda[k] -= 0.2 * upper_m[k];
        }
    }
    levels_params(engine, "lower", found, 2);
    ck_assert_double_eq_tol(found[0], w[0], 1e-11);
    ck_assert_double_eq_tol(found[1], w[1], 1e-11);
    levels_params(engine, "upper", found, 2);
    ck_assert_double_eq_tol(found[0], lambda[0], 1e-11);
    ck_assert_double_eq_tol(found[1], lambda[1], 1e-11);
    bt_engine_free(engine);
}
END_TEST

/* Whatever a method requests, and however often, with micro-batches it gets the values of the large batch. */
START_TEST(method_over_micro_batches)
{
    static const char *const whole_lower = "lower.batch_size=all\n", *const whole_upper = "upper.batch_size=all\n";
    static const char *const parts[] = {
        "lower.batch_size=4\nlower.gradient_accumulation=3\nlower.product_batches=all\n",
        "upper.batch_size=%d\nupper.gradient_accumulation=2\n"};
    ridge data = ridge_data();
    double due[2], found[2];
    char upper[100], settings[500];
    snprintf(upper, sizeof upper, parts[1], RIDGE_UPPER_ROWS - 2);
    for (int split = 0; split < 4; split++) {
        snprintf(settings, sizeof settings,
                 "engine.train_iters=3\nlower.type=winding\nlower.winding_iterations=%d\n%s%s", _i,
                 split & 1 ? parts[0] : whole_lower, split & 2 ? upper : whole_upper);
        bt_engine *engine = engine_of(&data, settings);
        levels_run(engine);
        levels_params(engine, "upper", split ? found : due, 2);
        bt_engine_free(engine);
        for (int k = 0; split && k < 2; k++)
            ck_assert_double_eq_tol(found[k], due[k], 1e-11);
    }
    ck_assert(isfinite(due[0]) && fabs(due[0] - data.lambda[0]) > 1e-3);
}
END_TEST

START_TEST(rules_that_are_wrong)
{
    ridge data = ridge_data();
    levels_expect_error(engine_of(&data, "lower.type=short\n"), "method short", "start", "[1]", "[2]", NULL);
    levels_expect_error(engine_of(&data, "lower.type=lost\n"), "method lost", "step", "nothing", NULL);
    levels_expect_error(engine_of(&data, "lower.type=slotless\n"), "slotless", "velocity", "d", NULL);
    levels_expect_error(engine_of(&data, "lower.optimizer=curious\n"), "lower", "bt_hvp", "curious", NULL);
    levels_expect_error(engine_of(&data, "lower.type=half_product\n"), "bt_hvp", "half_product", "[1]", "[2]", NULL);
    levels_expect_error(engine_of(&data, "lower.type=half_moved\n"), "bt_lower_gradient", "[1]", "[2]", NULL);
    levels_expect_error(engine_of(&data, "lower.type=undeclared\n"), "undeclared", ".slope = true", NULL);
    levels_expect_error(engine_of(&data, "lower.type=sama\nlower.optimizer=whole\n"), "optimizer whole", "sama",
                        "elementwise", NULL);
    levels_expect_error(engine_of(&data, "lower.type=bal\n"), "bal", "darts", "ball", NULL);
    levels_expect_error(engine_of(&data, "lower.ball_omega=11\n"), "ball_omega", "11", "0 to 10", NULL);
    levels_expect_error(engine_of(&data, "lower.beta=2\n"), "beta", "0 to 1", NULL);
}
END_TEST

/* ---- ops: a x^2 + x, with a body and a kernel for f64; x^3 with a kernel only, and a derivative of its own ---- */

static int launches;

typedef struct bend_attr {
    double a;
} bend_attr;

static void bend_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    const bend_attr *bend = attr;
    out[0] = bt_add(bt_mul(bend->a, bt_square(in[0])), in[0]);
}

static bt_status bend_launch(const bt_launch *run)
{
    const bend_attr *bend = run->attr;
    const double *x = run->in[0].data;
    double *y = run->out[0].data;
    launches++;
    for (int64_t i = 0; i < bt_array_count(run->in[0]); i++)
        y[i] = bend->a * x[i] * x[i] + x[i];
    return BT_OK;
}

static const bt_op bend = {.name = "bend",
                           .inputs = 1,
                           .attr_size = sizeof(bend_attr),
                           .body = bend_body,
                           .kernels = {{BT_CPU, BT_F64, NULL, bend_launch}}};

static bt_status cube_launch(const bt_launch *run)
{
    const double *x = run->in[0].data;
    double *y = run->out[0].data;
    for (int64_t i = 0; i < bt_array_count(run->in[0]); i++)
        y[i] = x[i] * x[i] * x[i];
    return BT_OK;
}

static void cube_vjp(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                     bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = bt_mul(given[0], bt_mul(3, bt_square(in[0])));
}

static const bt_op cube = {.name = "cube",
                           .inputs = 1,
                           .infer = bt_infer_same,
                           .vjp = cube_vjp,
                           .kernels = {{BT_CPU, BT_F64, NULL, cube_launch}}};

static const double w0[2] = {1.5, -0.5}, lambda0[2] = {0.7, 1.1};

static bt_dataset *one_row(bt_problem *self)
{
    double x = 1;
    (void)self;
    bt_dataset *data = bt_dataset_new(1);
    bt_dataset_add(data, "x", BT_ARRAY(&x, 1));
    return data;
}

static bt_module *lower_module(bt_problem *self)
{
    return (void)self, bt_nn_parameter(bt_init_array(BT_ARRAY(w0, 2)), 2);
}

static bt_module *upper_module(bt_problem *self)
{
    return (void)self, bt_nn_parameter(bt_init_array(BT_ARRAY(lambda0, 2)), 2);
}

static bt_tensor *bent_step(bt_problem *self, const bt_batch *batch) /* C = sum of lambda (a w^2 + w)^2 / 2 */
{
    (void)batch;
    bt_tensor *y = bt_apply(&bend, &(bend_attr){0.25}, bt_forward(self));
    return bt_sum(bt_mul(bt_forward(bt_peer(self, "upper")), bt_mul(0.5, bt_square(y))));
}

static bt_tensor *cubed_step(bt_problem *self, const bt_batch *batch) /* C = sum of lambda w^3 */
{
    (void)batch;
    return bt_sum(bt_mul(bt_forward(bt_peer(self, "upper")), bt_apply(&cube, NULL, bt_forward(self))));
}

static bt_tensor *sum_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_forward(bt_peer(self, "lower")));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = one_row, .configure_module = upper_module, .training_step = sum_step};
static const bt_problem_def bent = {
    .name = "lower", .configure_train_data = one_row, .configure_module = lower_module, .training_step = bent_step};
static const bt_problem_def cubed = {
    .name = "lower", .configure_train_data = one_row, .configure_module = lower_module, .training_step = cubed_step};

/* With x = (1 - 0.1 H) 0.1 v + 0.1 v from one term of the series, v = 1: D_lambda = C''' of (lambda, w), H = C'' of
 * w. */
START_TEST(own_ops)
{
    static const char *const products[] = {"jvp", "vjp", "finite"};
    bool is_cube = _i >= 3, single = _i == 6;
    bt_export parts = {.abi = BT_ABI, .problems = {&upper, is_cube && !single ? &cubed : &bent}};
    char settings[500];
    double found[2];
    launches = 0;
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = neumann\n"
             "lower.neumann_alpha = 0.1\nlower.product = %s\nlower.darts_alpha = 1e-5\nengine.precision = %s\n",
             products[_i % 3], single ? "fp32" : "fp64");
    bt_engine *engine = levels_engine(&parts, NULL, settings);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(found, 2)));
    for (int k = 0; k < 2; k++) {
        double w = w0[k], y = 0.25 * w * w + w, dy = 0.5 * w + 1;
        double mixed = y * dy, h = lambda0[k] * (dy * dy + 0.5 * y);
        if (is_cube && !single) {
            mixed = 3 * w * w;
            h = lambda0[k] * 6 * w;
        }
        ck_assert_double_eq_tol(found[k], -mixed * (0.1 + 0.1 * (1 - 0.1 * h)),
                                single        ? 1e-6
                                : _i % 3 == 2 ? 1e-8
                                              : 1e-12);
    }
    ck_assert_int_eq(launches > 0, !is_cube); /* the kernel is for f64 */
    bt_engine_free(engine);
}
END_TEST

/* ---- meta_trainable: hypergradients only pass through some of the parameters ---- */

static bt_module *two_parts(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "a", bt_init_constant(2));
    bt_module_add_param(module, "b", bt_init_constant(3));
    return module;
}

static bt_module *one_number(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0.5)); }

static bt_tensor *parts_step(bt_problem *self, const bt_batch *batch) /* C = lambda a b + a^2 + b^2 */
{
    (void)batch;
    bt_tensor *a = bt_param(self, "a"), *b = bt_param(self, "b");
    bt_tensor *product = bt_mul(bt_forward(bt_peer(self, "upper")), bt_mul(a, b));
    return bt_add(product, bt_add(bt_square(a), bt_square(b)));
}

/* The same with a of two elements: C = lambda b (a_1 + a_2) + a_1^2 + 2 a_2^2 + b^2. */
static bt_module *vector_and_number(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "a", bt_init_constant(2), 2);
    bt_module_add_param(module, "b", bt_init_constant(3));
    return module;
}

static bt_tensor *vector_step(bt_problem *self, const bt_batch *batch)
{
    static const double curvature[] = {1, 2};
    (void)batch;
    bt_tensor *a = bt_param(self, "a"), *b = bt_param(self, "b");
    bt_tensor *product = bt_mul(bt_forward(bt_peer(self, "upper")), bt_mul(bt_sum(a), b));
    bt_tensor *squares = bt_sum(bt_mul(bt_constant(BT_ARRAY(curvature, 2)), bt_square(a)));
    return bt_add(product, bt_add(squares, bt_square(b)));
}

static bt_tensor *squares_step(bt_problem *self, const bt_batch *batch) /* F = (a^2 + b^2) / 2, so v = (2, 3) */
{
    bt_problem *lower = bt_peer(self, "lower");
    (void)batch;
    return bt_mul(0.5, bt_add(bt_sum(bt_square(bt_param(lower, "a"))), bt_square(bt_param(lower, "b"))));
}

static const bt_problem_def squares = {
    .name = "upper", .configure_train_data = one_row, .configure_module = one_number, .training_step = squares_step};
static const bt_problem_def in_parts = {
    .name = "lower", .configure_train_data = one_row, .configure_module = two_parts, .training_step = parts_step};

static const bt_problem_def with_vector = {.name = "lower",
                                           .configure_train_data = one_row,
                                           .configure_module = vector_and_number,
                                           .training_step = vector_step};

/* H = [[2, 1/2], [1/2, 2]], D_lambda(x) = b x_a + a x_b. */
START_TEST(meta_trainable)
{
    static const struct {
        const char *settings;
        double expected;
    } cases[] = {
        {"", -(3 * 2 + 2 * 3)},
        {"lower.meta_trainable = a\n", -(3 * 2)},
        {"lower.meta_trainable = b\n", -(2 * 3)},
        {"lower.meta_trainable = a\nlower.product = vjp\n", -(3 * 2)},
        {"lower.meta_trainable = a\nlower.product = finite\n", -(3 * 2)},
        {"lower.meta_trainable = a\nlower.type = cg\nlower.cg_iterations = 3\n", -(3 * 1)},
        {"lower.meta_trainable = b\nlower.type = cg\nlower.cg_iterations = 3\nlower.product = vjp\n", -(2 * 1.5)},
        {"lower.type = cg\nlower.cg_iterations = 2\n", -(3 * (2 * 2 - 1.5) + 2 * (2 * 3 - 1)) / 3.75},
        {"lower.meta_trainable = a\nlower.type = nystrom\nlower.nystrom_rank = 2\nlower.nystrom_rho = 1\n",
         -(3 * 2.0 / 3)},
        /* y from a + 10 (b / 2 + 2 a) = 0 */
        {"lower.meta_trainable = a\nlower.type = penalty\nlower.penalty_lr = 0.3\nlower.penalty_iterations = 100\n",
         10 * 3 * (-15.0 / 21 - 2)},
    };
    bt_export parts = {.abi = BT_ABI, .problems = {&squares, &in_parts}};
    char settings[400];
    double found;
    snprintf(settings, sizeof settings, "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n%s",
             cases[_i].settings);
    bt_engine *engine = levels_engine(&parts, NULL, settings);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found)));
    ck_assert_double_eq_tol(found, cases[_i].expected, 1e-9);
    bt_engine_free(engine);
}
END_TEST

/* H of a alone is diag(2, 4), so x = (1, 1/2), and D_lambda(x) = b (x_1 + x_2): b is not part of the solution. */
START_TEST(meta_trainable_in_a_solution)
{
    static const char *const products[] = {"jvp", "vjp", "finite"};
    bt_export parts = {.abi = BT_ABI, .problems = {&squares, &with_vector}};
    char settings[400];
    double found;
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.meta_trainable = a\n"
             "lower.type = cg\nlower.cg_iterations = 2\nlower.product = %s\n",
             products[_i]);
    bt_engine *engine = levels_engine(&parts, NULL, settings);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found)));
    ck_assert_double_eq_tol(found, -4.5, 1e-9);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("own parts");
    TCase *tests = tcase_create("two levels");
    tcase_add_loop_test(tests, optimizer_and_method, 0, 7);
    tcase_add_loop_test(tests, method_over_micro_batches, 0, 4);
    tcase_add_test(tests, rules_that_are_wrong);
    tcase_add_loop_test(tests, own_ops, 0, 7);
    tcase_add_loop_test(tests, meta_trainable, 0, 10);
    tcase_add_loop_test(tests, meta_trainable_in_a_solution, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
