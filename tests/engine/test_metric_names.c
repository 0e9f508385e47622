/* A metric name has one meaning: logging under the name of a loss, or twice under one name in the same trace, is
 * refused; with BT_METRIC_MEAN, the mean is logged. */
#include "levels.h"

#include "support/suite.h"
#include <math.h>
#include <string.h>

typedef enum place { NOWHERE, STEP, UPPER_STEP, VALID, EPOCH, END, LOOP } place;

typedef struct use {
    place where;
    const char *name;
    bool mean;
} use;

static const use *uses; /* ends with NOWHERE */
static double calls;

static bt_status draw(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    double x[] = {0.5, 1.5};
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "x", BT_ARRAY(x, 2));
}

static bt_dataset *rows(bt_problem *self)
{
    static const double x[] = {0.5, 1.5};
    (void)self;
    bt_dataset *data = bt_dataset_new(2);
    bt_dataset_add(data, "x", BT_ARRAY(x, 2));
    return data;
}

static bt_module *one(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(1)); }

/* Logs 1, 2, 3, ... as metrics of the model, from any caller. */
static void log_all(bt_problem *self, place where, bool traced)
{
    bt_problem *model = bt_peer(self, "model");
    double value = 0;
    for (const use *u = uses; u->where != NOWHERE; u++) {
        if (u->where != where)
            continue;
        value++;
        if (!traced)
            bt_metric(model, u->name, value + 10 * calls);
        else if (u->mean)
            bt_metric(model, u->name, bt_mul(value, bt_add(1, bt_mul(0, bt_step(model)))), BT_METRIC_MEAN);
        else
            bt_metric(model, u->name, value); /* a number known to the host, within a trace */
    }
}

static bt_tensor *loss_of(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *away = bt_sub(bt_forward(bt_peer(self, "model")), bt_mean(bt_field(batch, "x")));
    return bt_add(0.75, bt_add(bt_square(away), bt_mul(0, bt_square(bt_forward(bt_peer(self, "upper"))))));
}

static bt_tensor *model_step(bt_problem *self, const bt_batch *batch)
{
    log_all(self, STEP, true);
    return loss_of(self, batch);
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    log_all(self, UPPER_STEP, true);
    return bt_add(loss_of(self, batch), bt_square(bt_forward(self)));
}

static bt_tensor *model_valid(bt_problem *self, const bt_batch *batch)
{
    log_all(self, VALID, true);
    return loss_of(self, batch);
}

static void model_epoch(bt_problem *self) { log_all(self, EPOCH, false); }
static void model_end(bt_problem *self) { log_all(self, END, false); }
static void model_loop(bt_problem *self) { log_all(self, LOOP, false); }

#define MODEL                                                                                                          \
    .name = "model", .configure_train_data = rows, .configure_module = one, .training_step = model_step,               \
    .epoch_callback = model_epoch, .validation_end = model_end, .on_inner_loop_start = model_loop
static const bt_problem_def upper = {
    .name = "upper", .get_batch = draw, .configure_module = one, .training_step = upper_step};
static const bt_problem_def validated = {MODEL, .configure_valid_data = rows, .validation_step = model_valid};
static const bt_problem_def not_validated = {MODEL};

static bt_engine *engine_of(bool validates)
{
    static const bt_export with = {.abi = BT_ABI, .problems = {&upper, &validated}};
    static const bt_export without = {.abi = BT_ABI, .problems = {&upper, &not_validated}};
    return levels_engine(validates ? &with : &without, NULL,
                         "dependencies.u2l = upper > model\ndependencies.l2u = model > upper\nengine.train_iters = 2\n"
                         "engine.valid_step = 2\nmodel.lr = 0\nmodel.batch_size = all\nengine.log_step = 2\n");
}

static const struct {
    use uses[4];
    bool validates;
    const char *words[2]; /* of the error; NULL: no error, and `metric` and `value` are expected */
    const char *metric;
    double value;
} cases[] = {
    {{{STEP, "loss", false}}, true, {"model.loss is what training_step returns", "another name than `loss`"}, NULL, 0},
    {{{STEP, "loss", true}}, true, {"model.loss is what training_step returns"}, NULL, 0},
    {{{UPPER_STEP, "loss", false}}, true, {"model.loss is what training_step returns"}, NULL, 0},
    {{{VALID, "loss", false}}, true, {"model.valid.loss is what validation_step returns"}, NULL, 0},
    {{{EPOCH, "loss", false}}, true, {"traced callbacks already log model.loss", "another name than `loss`"}, NULL, 0},
    {{{LOOP, "loss", false}}, false, {"traced callbacks already log model.loss"}, NULL, 0},
    {{{END, "loss", false}}, true, {"traced callbacks already log model.valid.loss"}, NULL, 0},
    {{{END, "loss", false}}, false, {NULL}, "model.valid.loss", 21},
    {{{STEP, "a", false}, {STEP, "a", false}},
     true,
     {"model.a is logged twice in one trace", "BT_METRIC_MEAN"},
     NULL,
     0},
    {{{STEP, "a", true}, {STEP, "a", false}}, true, {"model.a is logged twice"}, NULL, 0},
    {{{VALID, "a", false}, {VALID, "a", false}}, true, {"model.valid.a is logged twice in one trace"}, NULL, 0},
    {{{UPPER_STEP, "a", false}, {UPPER_STEP, "a", false}}, true, {"model.a is logged twice in one trace"}, NULL, 0},
    {{{STEP, "a", false}, {STEP, "a", true}, {STEP, "a", true}}, true, {NULL}, "model.a", 2},
    {{{STEP, "a", true}}, true, {NULL}, "model.a", 1},
    {{{STEP, "a", false}, {EPOCH, "a", false}}, true, {"traced callbacks already log model.a"}, NULL, 0},
    {{{VALID, "a", false}, {END, "a", false}}, true, {"traced callbacks already log model.valid.a"}, NULL, 0},
    {{{STEP, "a", false}, {VALID, "a", false}}, true, {NULL}, "model.valid.a", 1},
    {{{STEP, "a", false}, {END, "a", false}}, true, {NULL}, "model.valid.a", 21},
    {{{END, "a", false}, {END, "a", false}}, true, {NULL}, "model.valid.a", 21.5}, /* numbers: their mean */
    {{{STEP, "a", false}, {STEP, "b", false}}, true, {NULL}, "model.b", 2},
    {{{NOWHERE, NULL, false}}, true, {NULL}, "model.loss", 0.75},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(a_name)
{
    uses = cases[_i].uses;
    calls = 2;
    bt_engine *engine = engine_of(cases[_i].validates);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    bt_status status = bt_engine_run(engine);
    ck_assert_msg(status == (cases[_i].words[0] ? BT_ERROR_ARGUMENT : BT_OK), "%s", bt_error());
    for (int k = 0; k < 2 && cases[_i].words[k]; k++)
        ck_assert_msg(strstr(bt_error(), cases[_i].words[k]) != NULL, "`%s` is not in: %s", cases[_i].words[k],
                      bt_error());
    bt_error_clear();
    if (cases[_i].metric) {
        double found = bt_engine_metric(engine, cases[_i].metric);
        ck_assert_msg(fabs(found - cases[_i].value) < 1e-12, "%s: %g, not %g", cases[_i].metric, found,
                      cases[_i].value);
        if (cases[_i].validates) /* other metrics do not affect it */
            ck_assert_double_eq_tol(bt_engine_metric(engine, "model.loss"), 0.75, 1e-12);
    }
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metric_names");
    TCase *tc = tcase_create("metric_names");
    tcase_add_loop_test(tc, a_name, 0, CASES);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
