/* tests/engine/test_metrics.c: metrics logged by bt_metric: any number of them, under their own names, with their
 * spread; and names that would be confused in a checkpoint. */
#include "levels.h"
#include "resumable.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 300 };

static struct {
    const char *train, *valid, *host, *state, *scalar; /* names; NULL: not used */
    int count;                                         /* number of further training metrics */
    double mean, step;                                 /* "host" is logged as mean, mean + step, mean, ... */
} asked;

static char kept[4];

static bt_module *module(bt_problem *self)
{
    if (asked.state)
        EXPECT_OK(bt_state(self, asked.state, kept, sizeof kept));
    return bt_nn_parameter(bt_init_constant(0.5));
}

static bt_status batch_of(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    (void)self, (void)mode;
    double x = (double)index;
    return bt_batch_set(batch, "x", BT_ARRAY(&x, 1));
}

static double one(bt_problem *self) { return (void)self, 1; }

static bt_tensor *loss_of(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_sub(bt_forward(self), bt_field(batch, "x"))));
}

static bt_tensor *train_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = loss_of(self, batch);
    if (asked.train)
        bt_metric(self, asked.train, loss);
    for (int i = 0; i < asked.count; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", i);
        bt_metric(self, name, bt_mul((double)i, loss));
    }
    return asked.scalar ? bt_mul(bt_host_scalar(self, asked.scalar, one), loss) : loss;
}

static bt_tensor *valid_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = loss_of(self, batch);
    if (asked.valid)
        bt_metric(self, asked.valid, loss);
    return loss;
}

static void valid_end(bt_problem *self)
{
    for (int i = 0; asked.host && i < 100; i++)
        bt_metric(self, asked.host, asked.mean + asked.step * (i % 2));
}

static const bt_problem_def model = {.name = "model",
                                     .get_batch = batch_of,
                                     .configure_module = module,
                                     .training_step = train_step,
                                     .validation_step = valid_step,
                                     .validation_end = valid_end};
static const bt_export parts = {.abi = BT_ABI, .problems = {&model}};

static bt_engine *engine_of(const char *more)
{
    char settings[400];
    snprintf(settings, sizeof settings, "engine.train_iters = 4\nengine.valid_step = 2\nengine.log_step = 1\n%s", more);
    return levels_engine(&parts, NULL, settings);
}

static void enter(void)
{
    memset(&asked, 0, sizeof asked);
    resumable_enter();
}

/* ---- none is lost ---- */

static char *text_of(const char *path, size_t *size)
{
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    char *text = NULL;
    *size = 0;
    ck_assert_int_gt(getdelim(&text, size, 0, file), 0);
    fclose(file);
    return text;
}

/* Each line of metrics.jsonl has all metrics of a step, and so has the summary. */
START_TEST(more_than_256)
{
    asked.count = MANY;
    bt_engine *engine = engine_of("engine.valid_step = 0\nengine.output = out\n");
    levels_run(engine);
    double loss = bt_engine_metric(engine, "model.loss");
    ck_assert(isfinite(loss));
    ck_assert_double_eq_tol(bt_engine_metric(engine, "model.m299"), 299 * loss, 1e-9 * fabs(loss));
    bt_engine_free(engine);
    size_t size;
    char *text = text_of("out/metrics.jsonl", &size);
    int lines = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, lines++) {
        *end = 0;
        for (int i = 0; i < MANY; i++) {
            char key[32];
            snprintf(key, sizeof key, "\"model.m%d\":", i);
            ck_assert_msg(strstr(line, key) != NULL, "%s is not in line %d", key, lines + 1);
        }
        ck_assert_ptr_nonnull(strstr(line, "\"model.loss\":"));
    }
    free(text);
    ck_assert_int_eq(lines, 4);
    text = text_of("out/summary.json", &size);
    ck_assert_ptr_nonnull(strstr(text, "\"model.m299\":"));
    ck_assert_ptr_nonnull(strstr(text, "\"model.loss\":"));
    free(text);
}
END_TEST

/* Half of a 95 % interval of 100 values, half of them d above the others: 1.96 sqrt((d / 2)^2 / 99). */
START_TEST(small_spread_beside_a_large_mean)
{
    static const double cases[][2] = {{0, 1}, {1e9, 1}, {-1e12, 1}, {1e9, 0}, {3, 1e-7}, {1e-3, 1e6}};
    asked.host = "t", asked.mean = cases[_i][0], asked.step = cases[_i][1];
    bt_engine *engine = engine_of("");
    levels_run(engine);
    const bt_metric_row *row = bt_metric_find(&engine->context, bt_engine_problem(engine, "model"), "t", true);
    double mean = asked.mean + asked.step / 2, interval = 1.96 * asked.step / 2 / sqrt(99);
    ck_assert_double_eq_tol(row->last, mean, 1e-14 * fabs(mean));
    ck_assert_msg(fabs(row->interval - interval) <= 1e-6 * interval, "interval %.17g, not %.17g", row->interval,
                  interval);
    bt_engine_free(engine);
}
END_TEST

/* ---- names ---- */

START_TEST(names_that_collide)
{
    static const struct {
        const char *train, *valid, *host, *state, *scalar, *words[3];
    } cases[] = {
        {.train = "valid.loss",
         .words = {"the training metric `valid.loss`", "the validation metric `loss`", "model.valid.loss"}},
        {.train = "valid.spread",
         .host = "spread",
         .words = {"the training metric `valid.spread`", "the validation metric `spread`"}},
        {.host = "a",
         .valid = "a.interval",
         .words = {"metric `a.interval`", "metric `a`", "both be reported as model.valid.a.interval"}},
        {.train = "state.a",
         .state = "a.sum",
         .words = {"bt_metric `state.a`", "`state.a.sum`", "the memory (bt_state) `a.sum`"}},
        {.scalar = "step", .words = {"bt_host_scalar", "`step`", "the variable `step`"}},
        {.train = "b.interval"}, /* these are allowed */
        {.train = "state.b", .state = "b"},
        {.train = "a", .valid = "a"},
    };
    asked.train = cases[_i].train, asked.valid = cases[_i].valid, asked.host = cases[_i].host;
    asked.state = cases[_i].state, asked.scalar = cases[_i].scalar;
    bt_engine *engine = engine_of("engine.output = out\n");
    if (cases[_i].words[0]) {
        levels_expect_error(engine, cases[_i].words[0], cases[_i].words[1], cases[_i].words[2], NULL);
        return;
    }
    levels_run(engine);
    bt_engine_free(engine);
}
END_TEST

/* The momentum of w is kept as "odd.w:momentum". */
static bt_module *with_a_momentum_of_its_own(bt_problem *self)
{
    (void)self;
    bt_module *root = bt_module_new(NULL);
    bt_module_add_param(root, "w", bt_init_constant(0.5), 2);
    bt_module_add_param(root, "w:momentum", bt_init_constant(0.5), 2);
    return root;
}

static bt_tensor *sum_of_squares(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_add(bt_sum(bt_square(bt_param(self, "w"))), bt_sum(bt_square(bt_param(self, "w:momentum"))));
}

static const bt_problem_def odd = {.name = "odd",
                                   .get_batch = batch_of,
                                   .configure_module = with_a_momentum_of_its_own,
                                   .training_step = sum_of_squares};
static const bt_export odd_parts = {.abi = BT_ABI, .problems = {&odd}};

START_TEST(a_parameter_called_like_the_state_of_another)
{
    levels_expect_error(levels_engine(&odd_parts, NULL, "odd.momentum = 0.5\nengine.train_iters = 2\n"),
                        "`odd.w:momentum`", "the parameter `w:momentum`", "the state `momentum` of `w`", NULL);
    bt_engine *engine = levels_engine(&odd_parts, NULL, "odd.momentum = 0\nengine.train_iters = 2\n");
    levels_run(engine); /* without momentum there is no such state */
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tests = tcase_create("bt_metric");
    tcase_add_checked_fixture(tests, enter, resumable_leave);
    tcase_add_test(tests, more_than_256);
    tcase_add_loop_test(tests, small_spread_beside_a_large_mean, 0, 6);
    tcase_add_loop_test(tests, names_that_collide, 0, 8);
    tcase_add_test(tests, a_parameter_called_like_the_state_of_another);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
