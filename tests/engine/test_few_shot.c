/* tests/engine/test_few_shot.c: inner loops that restart on a task drawn by the problem above: training, against plain
 * C, in double precision; evaluation without side effects; error messages.
 *
 * A learner has a body and a head, two numbers each, w. Task i has supports s and queries q. The learner's loss is the
 * sum of sqrt(1 + (w - s)^2), whose derivatives are written out below; that of `meta` is the sum of (w - q)^2 / 2.
 * Elements are independent, so the derivative of the final w with respect to the initial one is a single number for
 * each. */
#include "resumable.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 4, LEARNED = 2 * SIZE, TASKS = 3, OUTER = 4, MOST = 3 };

static double support(int64_t task, int j) { return 2 * sin(1.7 * (double)task + j); }
static double query(int64_t task, int j) { return 2 * cos(0.9 * (double)task + 2 * j); }
static double first_theta(int j) { return 0.3 * j - 0.2; }
static double first_rate(int j) { return -1.5 + 0.2 * j; } /* its logarithm */

typedef struct world {
    int64_t bad;        /* the task whose first support is NaN; -1: none */
    bool rates, second; /* Meta-SGD; whether there is a second learner */
    bool proximal;      /* the learner's loss grows with the distance from theta */
    bool asks_traced;   /* the learner's step asks for an adaptation */
} world;

/* ---- plain C ---- */

typedef struct number { /* with its derivatives by theta, and by the logarithm of the rate */
    double at, by_theta, by_rate;
} number;

typedef struct learner { /* the learned values, and the optimiser's slots */
    number w[SIZE], m[SIZE], v[SIZE];
} learner;

typedef struct rules {
    const char *settings;
    int steps;
    double lr, momentum, gamma; /* lr is multiplied by gamma after every two steps of a loop */
    bool rates, first_order, head_only, adam;
    int last; /* only this many of the last steps are differentiated; 0: all */
} rules;

static number sum_of(double a, number x, double b, number y)
{
    return (number){a * x.at + b * y.at, a * x.by_theta + b * y.by_theta, a * x.by_rate + b * y.by_rate};
}

static void plain_start(learner *l, const double *theta, bool reaches)
{
    *l = (learner){.w = {{0}}};
    for (int j = 0; j < SIZE; j++)
        l->w[j] = (number){theta[j], reaches, 0};
}

static number gradient(const rules *r, number w, double support, double log_rate, bool reached)
{
    double away = w.at - support, root = sqrt(1 + away * away), rate = r->rates ? exp(log_rate) : 1;
    double g = rate * away / root, h = r->first_order ? 0 : rate / (root * root * root);
    return (number){g, h * w.by_theta, h * w.by_rate + (reached ? g : 0)};
}

/* m / (1 - 0.9^t) over sqrt(v / (1 - 0.999^t)) + 1e-8 */
static number adam(number *m, number *v, number g, int t)
{
    const number square = {g.at * g.at, 2 * g.at * g.by_theta, 2 * g.at * g.by_rate};
    *m = sum_of(0.9, *m, 0.1, g);
    *v = sum_of(0.999, *v, 0.001, square);
    double c = 1 / (1 - pow(0.9, t)), root = sqrt(v->at / (1 - pow(0.999, t))), below = root + 1e-8;
    double back = -c * m->at / (below * below) / (2 * root) / (1 - pow(0.999, t)); /* with respect to v */
    return (number){c * m->at / below, c * m->by_theta / below + back * v->by_theta,
                    c * m->by_rate / below + back * v->by_rate};
}

/* Step k of an inner loop of `all` steps. */
static void plain_step(const rules *r, learner *l, const double *log_rates, int64_t task, int k, int all)
{
    double lr = r->lr * pow(r->gamma, k / 2);
    bool reached = !r->last || k >= all - r->last;
    for (int j = r->head_only ? SIZE / 2 : 0; j < SIZE; j++) {
        number g = gradient(r, l->w[j], support(task, j), log_rates[j], reached);
        if (!r->adam)
            g = l->m[j] = sum_of(k ? r->momentum : 0, l->m[j], 1, g);
        l->w[j] = sum_of(1, l->w[j], -lr, r->adam ? adam(&l->m[j], &l->v[j], g, k + 1) : g);
    }
}

/* Adds the meta gradient of a task to the sum, weighted by `share`. */
static void plain_meta(const learner *l, int64_t task, double share, double *sum)
{
    for (int j = 0; j < SIZE; j++) {
        sum[j] += share * (l->w[j].at - query(task, j)) * l->w[j].by_theta;
        sum[SIZE + j] += share * (l->w[j].at - query(task, j)) * l->w[j].by_rate;
    }
}

/* ---- the same, traced ---- */

static bt_status tasks(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    const world *now = bt_user(self);
    double s[SIZE], q[SIZE];
    int64_t task = mode == BT_TRAIN ? index : 1000 + index;
    for (int j = 0; j < SIZE; j++) {
        s[j] = task == now->bad && j == 0 ? NAN : support(task, j);
        q[j] = query(task, j);
    }
    bt_status status = bt_batch_set(batch, "support", BT_ARRAY(s, SIZE));
    return status == BT_OK ? bt_batch_set(batch, "query", BT_ARRAY(q, SIZE)) : status;
}

static bt_module *meta_module(bt_problem *self)
{
    const world *now = bt_user(self);
    double theta[SIZE], rates[SIZE];
    for (int j = 0; j < SIZE; j++) {
        theta[j] = first_theta(j);
        rates[j] = first_rate(j);
    }
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "theta", bt_init_array(BT_ARRAY(theta, SIZE)), SIZE);
    if (now->rates)
        bt_module_add_param(module, "log_rates", bt_init_array(BT_ARRAY(rates, SIZE)), SIZE);
    return module;
}

static bt_module *learner_module(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "body", bt_init_constant(7), SIZE / 2);
    bt_module_add_param(module, "head", bt_init_constant(7), SIZE / 2);
    return module;
}

static bt_tensor *start(bt_problem *self) { return bt_param(bt_peer(self, "meta"), "theta"); }

static bt_tensor *support_loss(bt_problem *self, const bt_batch *batch)
{
    const world *now = bt_user(self);
    if (now->asks_traced)
        bt_adapt(self, batch, 1);
    bt_tensor *away = bt_sub(bt_params(self), bt_field(batch, "support"));
    bt_metric(self, "size", bt_sum(bt_square(bt_params(self))));
    bt_tensor *loss = bt_sum(bt_sqrt(bt_add(1, bt_square(away))));
    return now->proximal ? bt_add(loss, bt_sum(bt_square(bt_sub(bt_params(self), start(self))))) : loss;
}

static bt_tensor *query_loss(bt_problem *learner, const bt_batch *batch)
{
    return bt_mul(0.5, bt_sum(bt_square(bt_sub(bt_params(learner), bt_field(batch, "query")))));
}

static bt_tensor *meta_loss(bt_problem *self, const bt_batch *batch)
{
    const world *now = bt_user(self);
    bt_tensor *loss = query_loss(bt_peer(self, "learner"), batch);
    return now->second ? bt_add(loss, query_loss(bt_peer(self, "second"), batch)) : loss;
}

static bt_tensor *at_rates(bt_problem *self, bt_tensor *gradient)
{
    const world *now = bt_user(self);
    return now->rates ? bt_mul(bt_exp(bt_param(bt_peer(self, "meta"), "log_rates")), gradient) : gradient;
}

#define LEARNER(n)                                                                                                     \
    {                                                                                                                  \
        .name = n, .batch_of = "meta", .configure_module = learner_module, .start = start,                             \
        .training_step = support_loss, .grad_callback = at_rates                                                       \
    }
static const bt_problem_def meta = {
    .name = "meta", .get_batch = tasks, .configure_module = meta_module, .training_step = meta_loss};
static const bt_problem_def first = LEARNER("learner"), second = LEARNER("second");
static const bt_export parts = {.abi = BT_ABI, .problems = {&meta, &first}};
static const bt_export both = {.abi = BT_ABI, .problems = {&meta, &first, &second}};

#define META_LR 0.3

static bt_engine *engine_of(world *now, const char *settings)
{
    char lines[1000];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = meta > learner%s\ndependencies.l2u = learner > meta%s\nlearner.type = itd\n"
             "meta.lr = %g\nmeta.meta_batch = %d\nengine.log_step = 0\nengine.threads = 1\n%s",
             now->second ? ", second" : "", now->second ? ", second > meta" : "", META_LR, TASKS, settings);
    bt_engine *engine = levels_engine(now->second ? &both : &parts, now, lines);
    ck_assert_msg(engine != NULL, "%s: %s", settings, bt_error());
    return engine;
}

static void expect_params(bt_engine *engine, const char *problem, const double *expected, int count, const char *what)
{
    double found[LEARNED];
    levels_params(engine, problem, found, count);
    for (int j = 0; j < count; j++)
        ck_assert_msg(fabs(found[j] - expected[j]) < 1e-10, "%s: %s[%d] is %.15g, expected %.15g", what, problem, j,
                      found[j], expected[j]);
}

static void expect_learner(bt_engine *engine, const char *problem, const learner *l, const char *what)
{
    double w[SIZE];
    for (int j = 0; j < SIZE; j++)
        w[j] = l->w[j].at;
    expect_params(engine, problem, w, SIZE, what);
}

static void plain_parameters(double *theta)
{
    for (int j = 0; j < SIZE; j++) {
        theta[j] = first_theta(j);
        theta[SIZE + j] = first_rate(j);
    }
}

static void plain_descend(double *theta, double *sum)
{
    for (int j = 0; j < LEARNED; j++) {
        theta[j] -= META_LR * sum[j];
        sum[j] = 0;
    }
}

/* ---- training ---- */

static const rules methods[] = {
    {.settings = "", .steps = 3, .lr = 0.5, .gamma = 1}, /* MAML */
    {.settings = "learner.itd_spacing = 2\n", .steps = 5, .lr = 0.5, .gamma = 1},
    {.settings = "learner.itd_states = 2\nlearner.itd_steps = 4\n", .steps = 5, .lr = 0.5, .gamma = 1, .last = 4},
    {.settings = "learner.itd_second_order = 0\n", .steps = 3, .lr = 0.5, .gamma = 1, .first_order = true},
    {.settings = "learner.trainable = head\n", .steps = 3, .lr = 0.5, .gamma = 1, .head_only = true}, /* ANIL */
    {.settings = "", .steps = 3, .lr = 1, .gamma = 1, .rates = true},                                 /* Meta-SGD */
    {.settings = "learner.itd_steps = 2\n", .steps = 3, .lr = 1, .gamma = 1, .rates = true, .last = 2},
    {.settings = "learner.momentum = 0.8\nlearner.itd_spacing = 0\n",
     .steps = 4,
     .lr = 0.5,
     .gamma = 1,
     .momentum = 0.8,
     .rates = true},
    {.settings = "learner.scheduler = step\nlearner.scheduler_step_size = 2\nlearner.scheduler_gamma = 0.5\n",
     .steps = 4,
     .lr = 0.5,
     .gamma = 0.5,
     .rates = true},
    {.settings = "learner.optimizer = adam\n", .steps = 4, .lr = 0.1, .gamma = 1, .rates = true, .adam = true},
};
enum { METHODS = sizeof methods / sizeof *methods };

/* Compared after every step of the learner. */
START_TEST(trained)
{
    const rules *r = &methods[_i];
    world now = {.bad = -1, .rates = r->rates};
    char settings[400];
    snprintf(settings, sizeof settings, "learner.unroll_steps = %d\nlearner.lr = %g\nmeta.allow_unused = true\n%s",
             r->steps, r->lr, r->settings);
    bt_engine *engine = engine_of(&now, settings);
    double theta[LEARNED], sum[LEARNED] = {0};
    learner l;
    plain_parameters(theta);
    for (int64_t task = 0; task < OUTER * TASKS; task++) {
        plain_start(&l, theta, !r->last);
        for (int k = 0; k < r->steps; k++) {
            plain_step(r, &l, theta + SIZE, task, k, r->steps);
            levels_step(engine, 1);
            expect_learner(engine, "learner", &l, r->settings);
        }
        plain_meta(&l, task, 1.0 / TASKS, sum);
        if (task % TASKS == TASKS - 1)
            plain_descend(theta, sum);
        expect_params(engine, "meta", theta, r->rates ? LEARNED : SIZE, r->settings);
    }
    bt_engine_free(engine);
}
END_TEST

/* Two learners, one of them slower, work on the same tasks in parallel. */
START_TEST(two_learners)
{
    const rules fast = {.settings = "two learners", .lr = 0.5, .gamma = 1}, slow = {.lr = 0.1, .gamma = 1};
    world now = {.bad = -1, .second = true};
    bt_engine *engine = engine_of(&now, "learner.unroll_steps = 3\nsecond.unroll_steps = 3\nlearner.lr = 0.5\n"
                                        "second.lr = 0.1\nsecond.type = itd\n");
    double theta[LEARNED], sum[LEARNED] = {0};
    plain_parameters(theta);
    for (int64_t task = 0; task < OUTER * TASKS; task++) {
        learner a, b;
        plain_start(&a, theta, true);
        plain_start(&b, theta, true);
        for (int k = 0; k < 3; k++) {
            plain_step(&fast, &a, theta + SIZE, task, k, 3);
            plain_step(&slow, &b, theta + SIZE, task, k, 3);
            levels_step(engine, 1);
            expect_learner(engine, "learner", &a, fast.settings);
            expect_learner(engine, "second", &b, fast.settings);
        }
        plain_meta(&a, task, 1.0 / TASKS, sum);
        plain_meta(&b, task, 1.0 / TASKS, sum);
        if (task % TASKS == TASKS - 1)
            plain_descend(theta, sum);
        expect_params(engine, "meta", theta, SIZE, fast.settings);
    }
    bt_engine_free(engine);
}
END_TEST

/* Inner loops of the warm-up have tasks of their own; the first that counts is the one after it. */
START_TEST(warm_up)
{
    const rules *r = &methods[0];
    world now = {.bad = -1};
    bt_engine *engine = engine_of(&now, "learner.unroll_steps = 3\nlearner.lr = 0.5\nlearner.warmup_steps = 6\n"
                                        "meta.meta_batch = 1\n");
    double theta[LEARNED], sum[LEARNED] = {0};
    plain_parameters(theta);
    for (int64_t task = 0; task < 5; task++) {
        learner l;
        plain_start(&l, theta, true);
        for (int k = 0; k < r->steps; k++)
            plain_step(r, &l, theta + SIZE, task, k, r->steps);
        levels_step(engine, r->steps);
        expect_learner(engine, "learner", &l, "warm-up");
        if (task >= 2) {
            plain_meta(&l, task, 1, sum);
            plain_descend(theta, sum);
        }
        expect_params(engine, "meta", theta, SIZE, "warm-up");
    }
    bt_engine_free(engine);
}
END_TEST

/* ---- tasks whose meta gradients are 1, 2, 3: their mean is 2, and not 1 or 6 ---- */

static bt_status count_up(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double number = (double)index + 1;
    (void)self;
    (void)mode;
    return bt_batch_set(batch, "number", BT_ARRAY(&number, 1));
}

static bt_module *one(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0), 1); }
static bt_tensor *from_meta(bt_problem *self) { return bt_params(bt_peer(self, "meta")); }
static bt_tensor *nothing(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mul(0, bt_sum(bt_square(bt_sub(bt_params(self), bt_params(bt_peer(self, "meta"))))));
}

static bt_tensor *number_times(bt_problem *self, const bt_batch *batch)
{
    return bt_sum(bt_mul(bt_field(batch, "number"), bt_params(bt_peer(self, "learner"))));
}

START_TEST(mean_over_tasks)
{
    const bt_problem_def top = {
        .name = "meta", .get_batch = count_up, .configure_module = one, .training_step = number_times};
    const bt_problem_def low = {
        .name = "learner", .batch_of = "meta", .configure_module = one, .training_step = nothing, .start = from_meta};
    const bt_export two = {.abi = BT_ABI, .problems = {&top, &low}};
    double found;
    bt_engine *engine =
        levels_engine(&two, NULL,
                      "dependencies.u2l = meta > learner\ndependencies.l2u = learner > meta\n"
                      "meta.lr = 1\nmeta.meta_batch = 3\nlearner.type = itd\nlearner.unroll_steps = 1\n");
    levels_step(engine, 3);
    levels_params(engine, "meta", &found, 1);
    ck_assert_double_eq_tol(found, -2, 1e-12);
    levels_step(engine, 3); /* 4, 5, 6 */
    levels_params(engine, "meta", &found, 1);
    ck_assert_double_eq_tol(found, -7, 1e-12);
    bt_engine_free(engine);
    bt_problem_def both = low; /* and data of its own */
    both.configure_train_data = levels_one_row;
    const bt_export wrong = {.abi = BT_ABI, .problems = {&top, &both}};
    engine = levels_engine(&wrong, NULL,
                           "dependencies.u2l = meta > learner\ndependencies.l2u = learner > meta\n"
                           "learner.type = itd\n");
    levels_expect_error(engine, "learner has batch_of = \"meta\": it cannot also have configure_train_data", NULL);
}
END_TEST

/* ---- R8: iMAML. g = w^T H w / 2 + |w - theta|^2 / 2, H = diag(1, 3): dw* / dtheta = diag(1/2, 1/4) ---- */

static bt_module *pair(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(1), 2); }

static bt_tensor *proximal(bt_problem *self, const bt_batch *batch)
{
    static const double h[] = {1, 3};
    bt_tensor *w = bt_params(self), *away = bt_sub(w, bt_params(bt_peer(self, "meta")));
    (void)batch;
    return bt_mul(0.5, bt_add(bt_sum(bt_mul(bt_constant(BT_ARRAY(h, 2)), bt_square(w))), bt_sum(bt_square(away))));
}

static bt_tensor *sum_of_w(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_params(bt_peer(self, "learner")));
}

START_TEST(r8_implicit_maml)
{
    const bt_problem_def top = {
        .name = "meta", .get_batch = count_up, .configure_module = pair, .training_step = sum_of_w};
    const bt_problem_def low = {
        .name = "learner", .batch_of = "meta", .configure_module = pair, .training_step = proximal, .start = from_meta};
    const bt_export two = {.abi = BT_ABI, .problems = {&top, &low}};
    static const char *const types[] = {"cg\nlearner.cg_iterations = 2",
                                        "neumann\nlearner.neumann_alpha = 0.3\nlearner.neumann_iterations = 60", "itd"};
    for (int t = 0; t < 3; t++) {
        char settings[400];
        double found[2];
        snprintf(settings, sizeof settings,
                 "dependencies.u2l = meta > learner\ndependencies.l2u = learner > meta\nmeta.lr = 1\nlearner.lr = 0.3\n"
                 "learner.unroll_steps = 60\nlearner.type = %s\n",
                 types[t]);
        bt_engine *engine = levels_engine(&two, NULL, settings);
        levels_step(engine, 60);
        levels_params(engine, "learner", found, 2);
        ck_assert_double_eq_tol(found[0], 0.5, 1e-10);
        ck_assert_double_eq_tol(found[1], 0.25, 1e-10);
        levels_params(engine, "meta", found, 2);
        ck_assert_double_eq_tol(found[0], 0.5, 1e-10);
        ck_assert_double_eq_tol(found[1], 0.75, 1e-10);
        bt_engine_free(engine);
    }
}
END_TEST

/* ---- evaluation ---- */

static const char *const kinds[] = {
    "",
    "learner.optimizer = adam\n",
    "learner.momentum = 0.9\nlearner.type = sama\n",
    "learner.type = cg\nlearner.cg_iterations = 2\nlearner.cg_warm_start = true\n",
    "engine.roll_back = true\n",
    "learner.itd_spacing = 2\nlearner.scheduler = step\nlearner.scheduler_step_size = 2\n",
};
enum { KINDS = sizeof kinds / sizeof *kinds, EVALUATED = 4 };

static void evaluate(bt_engine *engine, const rules *r, const double *theta)
{
    bt_problem *self = bt_engine_problem(engine, "learner");
    uint64_t before = levels_state(engine);
    int64_t steps = self->steps;
    for (int i = 0; i < EVALUATED; i++) {
        const bt_batch *batch = bt_valid_batch(bt_engine_problem(engine, "meta"), 0);
        ck_assert_msg(batch != NULL, "%s", bt_error());
        EXPECT_OK(bt_adapt(self, batch, i));
        if (r) {
            learner l;
            plain_start(&l, theta, true);
            for (int k = 0; k < i; k++)
                plain_step(r, &l, theta + SIZE, 1000, k, i);
            expect_learner(engine, "learner", &l, "adapted");
        }
        EXPECT_OK(bt_restore(self));
        ck_assert_int_eq(self->steps, steps);
        ck_assert_msg(levels_state(engine) == before, "something is left of an evaluation of %d steps", i);
    }
}

/* A run that is evaluated after any step equals one that is not. */
START_TEST(evaluation_leaves_no_trace)
{
    world now = {.bad = -1, .proximal = strstr(kinds[_i], "type = ") != NULL};
    char settings[400];
    snprintf(settings, sizeof settings, "learner.unroll_steps = 3\nlearner.lr = 0.5\n%s", kinds[_i]);
    bt_engine *plain = engine_of(&now, settings), *evaluated = engine_of(&now, settings);
    double theta[LEARNED];
    plain_parameters(theta);
    for (int step = 0; step < 2 * 3 * TASKS; step++) {
        EXPECT_OK(bt_engine_setup(evaluated));
        levels_params(evaluated, "meta", theta, SIZE);
        evaluate(evaluated, _i ? NULL : &methods[0], theta);
        levels_step(plain, 1);
        levels_step(evaluated, 1);
        ck_assert_msg(levels_state(plain) == levels_state(evaluated), "%s: the run is another after %d steps",
                      kinds[_i], step);
    }
    bt_engine_free(plain);
    bt_engine_free(evaluated);
}
END_TEST

static bt_dataset *own_rows(bt_problem *self)
{
    double supports[SIZE], queries[SIZE] = {0};
    (void)self;
    for (int j = 0; j < SIZE; j++)
        supports[j] = support(2, j);
    bt_dataset *data = bt_dataset_new(SIZE);
    bt_dataset_add(data, "support", BT_ARRAY(supports, SIZE));
    bt_dataset_add(data, "query", BT_ARRAY(queries, SIZE));
    return data;
}

/* A batch of a data set, in the problem's double precision: two steps on supports that a float would round. */
START_TEST(adapted_to_data_of_ones_own)
{
    static const bt_problem_def drawn = {
        .name = "meta", .configure_train_data = own_rows, .configure_module = meta_module, .training_step = meta_loss};
    static const bt_export with_data = {.abi = BT_ABI, .problems = {&drawn, &first}};
    world now = {.bad = -1};
    int64_t place[SIZE] = {0};
    double expected[SIZE];
    bt_engine *engine = levels_engine(&with_data, &now,
                                      "dependencies.u2l = meta > learner\ndependencies.l2u = learner > meta\n"
                                      "learner.type = itd\nlearner.lr = 0.5\nmeta.batch_size = all\n");
    bt_problem *self = bt_engine_problem(engine, "learner");
    bt_loader *loader = bt_loader_for(self, own_rows(NULL), SIZE, 1);
    ck_assert_msg(loader != NULL, "%s", bt_error());
    const bt_batch *batch;
    EXPECT_OK(bt_loader_next(loader, &batch));
    for (int f = 0; f < batch->field_count; f++)
        if (strcmp(batch->fields[f].name, "index") == 0)
            EXPECT_OK(bt_array_convert(BT_ARRAY(place, SIZE), batch->fields[f].array));
    EXPECT_OK(bt_adapt(self, batch, 2));
    for (int j = 0; j < SIZE; j++) {
        expected[j] = first_theta(j);
        for (int k = 0; k < 2; k++) {
            double away = expected[j] - support(2, (int)place[j]);
            expected[j] -= 0.5 * away / sqrt(1 + away * away);
        }
    }
    expect_params(engine, "learner", expected, SIZE, "adapted to data");
    EXPECT_OK(bt_restore(self));
    bt_loader_free(loader);
    bt_engine_free(engine);
}
END_TEST

/* An adaptation that cannot update does not change the count of skipped updates. */
START_TEST(evaluation_on_no_numbers)
{
    world now = {.bad = 1000};
    double found[SIZE], theta[LEARNED];
    bt_engine *engine = engine_of(&now, "learner.unroll_steps = 3\n");
    levels_step(engine, 4);
    uint64_t before = levels_state(engine);
    plain_parameters(theta);
    EXPECT_OK(bt_adapt(bt_engine_problem(engine, "learner"), bt_valid_batch(bt_engine_problem(engine, "meta"), 0), 2));
    expect_params(engine, "learner", theta, SIZE, "no update");
    EXPECT_OK(bt_restore(bt_engine_problem(engine, "learner")));
    ck_assert_uint_eq(levels_state(engine), before);
    levels_params(engine, "learner", found, SIZE);
    ck_assert_int_eq(levels_skipped(engine, "learner"), 0);
    bt_engine_free(engine);
}
END_TEST

/* ---- resuming: within an inner loop, within a meta-batch ---- */

typedef struct variant {
    world now;
    const char *settings;
} variant;

static bt_engine *make(void *user)
{
    variant *v = user;
    return engine_of(&v->now, v->settings);
}

static const variant resumed[] = {
    {{.bad = -1}, "learner.unroll_steps = 3\n"},
    {{.bad = 2, .rates = true}, "learner.unroll_steps = 5\nlearner.itd_spacing = 2\nlearner.momentum = 0.8\n"},
    {{.bad = -1},
     "learner.unroll_steps = 4\nlearner.itd_spacing = 0\nlearner.itd_steps = 4\nlearner.optimizer = adam\n"},
    {{.bad = -1}, "learner.unroll_steps = 7\nlearner.itd_states = 3\nlearner.optimizer = adam\n"},
    {{.bad = -1, .second = true},
     "learner.unroll_steps = 2\nsecond.unroll_steps = 2\nsecond.type = itd\nlearner.warmup_steps = 4\n"},
    {{.bad = -1}, "learner.unroll_steps = 4\nlearner.trainable = head\nengine.precision = fp32\n"},
};

START_TEST(resumed_after_any_step)
{
    variant v = resumed[_i];
    levels_expect_resumes(make, &v, 13);
}
END_TEST

/* ---- a non-finite task ---- */

START_TEST(bad_task)
{
    const rules *r = &methods[0];
    world now = {.bad = 1};
    bt_engine *engine = engine_of(&now, "learner.unroll_steps = 3\nlearner.lr = 0.5\nmeta.meta_batch = 1\n");
    double theta[LEARNED], sum[LEARNED] = {0};
    plain_parameters(theta);
    for (int64_t task = 0; task < 4; task++) {
        learner l;
        plain_start(&l, theta, true);
        for (int k = 0; k < r->steps && task != now.bad; k++)
            plain_step(r, &l, theta + SIZE, task, k, r->steps);
        levels_step(engine, r->steps);
        expect_learner(engine, "learner", &l, "a bad task"); /* for the bad task: the initial values */
        if (task != now.bad) {
            plain_meta(&l, task, 1, sum);
            plain_descend(theta, sum);
        }
        expect_params(engine, "meta", theta, SIZE, "a bad task");
        ck_assert_int_eq(levels_skipped(engine, "learner"), task < now.bad ? 0 : r->steps);
        ck_assert_int_eq(levels_skipped(engine, "meta"), task < now.bad ? 0 : 1);
    }
    bt_engine_free(engine);
}
END_TEST

/* ---- memory planning changes no bit ---- */

START_TEST(without_a_plan)
{
    static const char *const plans[] = {"off", "guard"};
    for (int p = 0; p < 2; p++) {
        variant v = resumed[_i];
        bt_engine *planned = make(&v);
        levels_step(planned, 25);
        setenv("BETTY_PLAN", plans[p], 1);
        bt_engine *other = make(&v);
        levels_step(other, 25);
        unsetenv("BETTY_PLAN");
        ck_assert_uint_eq(levels_state(planned), levels_state(other));
        bt_engine_free(planned);
        bt_engine_free(other);
    }
}
END_TEST

/* ---- errors ---- */

static bt_problem *top, *low; /* of the current engine */
static const bt_batch *task;

static bt_status other_shape(bt_engine *engine)
{
    double wrong[2] = {0};
    bt_batch *batch = bt_batch_new();
    (void)engine;
    EXPECT_OK(bt_batch_set(batch, "support", BT_ARRAY(wrong, 2)));
    bt_status status = bt_adapt(low, batch, 1);
    bt_batch_free(batch);
    return status;
}

static bt_status no_batch(bt_engine *engine) { return (void)engine, bt_adapt(low, NULL, 1); }
static bt_status fewer_than_none(bt_engine *engine) { return (void)engine, bt_adapt(low, task, -1); }
static bt_status upper(bt_engine *engine) { return (void)engine, bt_adapt(top, task, 1); }
static bt_status nothing_to_restore(bt_engine *engine) { return (void)engine, bt_restore(low); }
static bt_status a_question(bt_engine *engine)
{
    double found[SIZE];
    (void)engine;
    EXPECT_OK(bt_adapt(low, task, 2));
    return bt_hypergradient(top, BT_ARRAY(found, SIZE));
}

static bt_status a_checkpoint(bt_engine *engine)
{
    EXPECT_OK(bt_adapt(low, task, 2));
    bt_status status = bt_engine_save(engine, "few-shot-adapted");
    ck_assert_int_ne(access("few-shot-adapted", F_OK), 0);
    return status;
}

static bt_status a_step(bt_engine *engine)
{
    (void)engine;
    EXPECT_OK(bt_adapt(low, task, 2));
    EXPECT_OK(bt_restore(low));
    EXPECT_OK(bt_leaf_step(low));
    EXPECT_OK(bt_adapt(low, task, 2));
    return bt_leaf_step(low);
}

static const struct {
    bt_status (*call)(bt_engine *engine);
    const char *word, *other;
    bool stays; /* it never changes */
} refused[] = {
    {other_shape, "bt_adapt: learner: batch 0 has support f64 [2]", "support f64 [4], query f64 [4]", true},
    {no_batch, "learner needs a batch", "none", true},
    {fewer_than_none, "learner needs", "-1", true},
    {upper, "meta is upper to learner", "only a problem", true},
    {nothing_to_restore, "learner has not been adapted", "bt_adapt", true},
    {a_question, "learner is still adapted", "bt_restore", false},
    {a_checkpoint, "learner is still adapted", "bt_restore", false},
    {a_step, "learner is still adapted", "bt_restore", false},
};

START_TEST(refused_adaptations)
{
    world now = {.bad = -1};
    bt_engine *engine = engine_of(&now, "learner.unroll_steps = 3\nlearner.lr = 0.5\n");
    levels_step(engine, 1);
    top = bt_engine_problem(engine, "meta");
    low = bt_engine_problem(engine, "learner");
    task = bt_valid_batch(top, 0);
    uint64_t before = levels_state(engine);
    ck_assert_int_ne(refused[_i].call(engine), BT_OK);
    ck_assert_msg(strstr(bt_error(), refused[_i].word) && strstr(bt_error(), refused[_i].other),
                  "`%s` and `%s` are due in: %s", refused[_i].word, refused[_i].other, bt_error());
    ck_assert(!refused[_i].stays || levels_state(engine) == before);
    bt_error_clear();
    bt_engine_free(engine);
}
END_TEST

START_TEST(asked_in_a_traced_callback)
{
    world now = {.bad = -1, .asks_traced = true};
    levels_expect_error(engine_of(&now, "learner.unroll_steps = 3\n"), "bt_adapt", "traced", NULL);
}
END_TEST

static const struct {
    const char *settings, *peer, *word, *other;
} mistakes[] = {
    {"", "nobody", "batch_of", "nobody"},
    {"", "learner", "batch_of", "itself"},
    {"meta.gradient_accumulation = 2\n", "meta", "gradient_accumulation", "meta_batch"},
    {"learner.gradient_accumulation = 2\n", "meta", "gradient_accumulation", "meta_batch"},
};

START_TEST(refused_peers)
{
    world now = {.bad = -1};
    bt_problem_def of = first;
    const bt_export two = {.abi = BT_ABI, .problems = {&meta, &of}};
    char lines[400];
    of.batch_of = mistakes[_i].peer;
    snprintf(lines, sizeof lines,
             "dependencies.u2l = meta > learner\ndependencies.l2u = learner > meta\nlearner.type = itd\n%s",
             mistakes[_i].settings);
    levels_expect_error(levels_engine(&two, &now, lines), "learner", mistakes[_i].word, mistakes[_i].other, NULL);
}
END_TEST

/* Only itd can see a dependence of `start` on the level above. */
START_TEST(refused_methods)
{
    static const char *const types[] = {"darts", "cg", "sama", "nystrom", "neumann"};
    char settings[200];
    world now = {.bad = -1};
    snprintf(settings, sizeof settings, "learner.unroll_steps = 3\nlearner.type = %s\n", types[_i]);
    levels_expect_error(engine_of(&now, settings), "start", types[_i], "type = itd", NULL);
}
END_TEST

/* All steps of an inner loop use one batch: with loops of different lengths, one would begin inside another. */
START_TEST(refused_lengths)
{
    world now = {.bad = -1, .second = true};
    levels_expect_error(engine_of(&now, "learner.unroll_steps = 2\nsecond.unroll_steps = 3\n"), "learner", "second",
                        "unroll_steps", "batch_of", NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("few_shot");
    TCase *tests = tcase_create("few_shot");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_loop_test(tests, trained, 0, METHODS);
    tcase_add_test(tests, two_learners);
    tcase_add_test(tests, warm_up);
    tcase_add_test(tests, mean_over_tasks);
    tcase_add_test(tests, r8_implicit_maml);
    tcase_add_loop_test(tests, evaluation_leaves_no_trace, 0, KINDS);
    tcase_add_test(tests, adapted_to_data_of_ones_own);
    tcase_add_test(tests, evaluation_on_no_numbers);
    tcase_add_loop_test(tests, resumed_after_any_step, 0, BT_COUNT_OF(resumed));
    tcase_add_loop_test(tests, without_a_plan, 0, BT_COUNT_OF(resumed));
    tcase_add_test(tests, bad_task);
    tcase_add_loop_test(tests, refused_adaptations, 0, BT_COUNT_OF(refused));
    tcase_add_test(tests, asked_in_a_traced_callback);
    tcase_add_loop_test(tests, refused_peers, 0, BT_COUNT_OF(mistakes));
    tcase_add_loop_test(tests, refused_methods, 0, 5);
    tcase_add_test(tests, refused_lengths);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
