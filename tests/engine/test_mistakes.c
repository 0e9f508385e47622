/* tests/engine/test_mistakes.c: messages for user errors: what, where, found, expected. */
#include "levels.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <string.h>

static bt_dataset *four_rows(bt_problem *self)
{
    static const double x[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int32_t label[] = {0, 1, 2, 3};
    (void)self;
    bt_dataset *data = bt_dataset_new(4);
    bt_dataset_add(data, "x", BT_ARRAY(x, 4, 2));
    bt_dataset_add(data, "label", BT_ARRAY(label, 4));
    return data;
}

static bt_module *net(bt_problem *self)
{
    (void)self;
    return bt_nn_sequential(bt_nn_fn(bt_tanh), bt_nn_linear(2, 3));
}

static bt_tensor *right_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_forward(self, bt_field(batch, "x"))));
}

/* ---- one problem ---- */

static bt_module *narrow_net(bt_problem *self)
{
    (void)self;
    return bt_nn_sequential(bt_nn_fn(bt_tanh), bt_nn_sequential(bt_nn_linear(3, 5), bt_nn_linear(5, 3)));
}

static bt_module *no_module(bt_problem *self) { return (void)self, NULL; }
static bt_dataset *no_data(bt_problem *self) { return (void)self, NULL; }
static bt_dataset *lost_data(bt_problem *self) { return (void)self, bt_dataset_open("no-such-set", "train"); }

static bt_module *own_module(bt_problem *self) { return bt_nn_linear(2, bt_param_count(self)); }

static bt_module *peer_module(bt_problem *self) { return bt_nn_linear(2, bt_param_count(bt_peer(self, "teacher"))); }

static bt_tensor *one_per_example(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_forward(self, bt_field(batch, "x"))), 1);
}

static bt_tensor *a_matrix(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_param(self, "1.weight");
}

static bt_tensor *a_truth(bt_problem *self, const bt_batch *batch) { return bt_less(right_step(self, batch), 0); }
static bt_tensor *no_loss(bt_problem *self, const bt_batch *batch) { return (void)self, (void)batch, NULL; }

static bt_tensor *no_field(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_forward(self, bt_field(batch, "image")));
}

static bt_tensor *no_param(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_sum(bt_param(self, "1.wieght"));
}

static bt_tensor *no_peer(bt_problem *self, const bt_batch *batch)
{
    bt_problem *teacher = bt_peer(self, "teacher");
    bt_metric(teacher, "x", bt_step(teacher)); /* a missing problem may be passed on */
    return bt_mean(bt_forward(teacher, bt_field(batch, "x")));
}

static bt_tensor *peers_do_not_match(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_add(bt_field(batch, "x"), bt_param(self, "1.weight")));
}

static bt_tensor *labels_out_of_range(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_cross_entropy(bt_forward(self, bt_field(batch, "x")), bt_field(batch, "label")));
}

/* ---- NULL in some fields, names, errors of callbacks ---- */

static bt_tensor *null_metric(bt_problem *self, const bt_batch *batch)
{
    bt_metric(self, "m", (bt_tensor *)NULL);
    return right_step(self, batch);
}

static bt_tensor *null_prediction(bt_problem *self, const bt_batch *batch)
{
    bt_prediction(self, "p", NULL);
    return right_step(self, batch);
}

static bt_tensor *null_static(bt_problem *self, const bt_batch *batch)
{
    return bt_mul(bt_static_int(self, "s", NULL), right_step(self, batch));
}

static bt_tensor *null_peer(bt_problem *self, const bt_batch *batch) { return right_step(bt_peer(self, NULL), batch); }
static bt_module *null_dim(bt_problem *self) { return bt_nn_linear(bt_data_dim(self, NULL, 1), 3); }
static bt_tensor *whole_number(bt_problem *self, const bt_batch *batch)
{
    return bt_cast(right_step(self, batch), BT_I32);
}
static bt_tensor *whole_numbers(bt_problem *self, bt_tensor *vector) { return (void)self, bt_cast(vector, BT_I32); }

static bt_tensor *latin_metric(bt_problem *self, const bt_batch *batch)
{
    bt_metric(self, "caf\xe9", bt_params(self));
    return right_step(self, batch);
}

static bt_module *latin_param(bt_problem *self)
{
    bt_module *module = net(self);
    bt_module_add_param(module, "caf\xe9", bt_init_constant(0), 1);
    return module;
}

static bt_module *latin_state(bt_problem *self)
{
    static int memory;
    bt_state(self, "caf\xe9", &memory, sizeof memory);
    return net(self);
}

static bt_dataset *latin_field(bt_problem *self)
{
    bt_dataset *data = four_rows(self);
    bt_dataset_add(data, "caf\xe9", BT_ARRAY(((double[]){1, 2, 3, 4}), 4));
    return data;
}

static void fails(bt_problem *self)
{
    (void)self;
    bt_fail(BT_ERROR_DATA, "no bread");
}

static bt_tensor *failing_step(bt_problem *self, const bt_batch *batch) { return fails(self), right_step(self, batch); }
static bt_tensor *failing_vector(bt_problem *self, bt_tensor *vector) { return fails(self), vector; }
static double failing_number(bt_problem *self) { return fails(self), 1; }
static double failing_later(bt_problem *self) { return bt_host_step(self) ? failing_number(self) : 1; }

static bt_tensor *scaled_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mul(bt_host_scalar(self, "scale", failing_later), right_step(self, batch));
}

static void misplaced(bt_problem *self) { (void)bt_step(self); }

static bt_status silent_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    static const double x[] = {1, 2};
    (void)self, (void)mode;
    return index ? BT_ERROR_DATA : bt_batch_set(batch, "x", BT_ARRAY(x, 1, 2));
}

static bt_status failing_batch(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    return index ? bt_fail(BT_ERROR_DATA, "no bread") : silent_batch(self, mode, index, batch);
}

static bt_tensor *own_params(bt_problem *self) { return bt_params(self); }

#define MODEL(...)                                                                                                     \
    {                                                                                                                  \
        .name = "model", .configure_train_data = four_rows, .configure_module = net, .training_step = right_step,      \
        __VA_ARGS__                                                                                                    \
    }
#define MODEL_WITH(module, data, step)                                                                                 \
    {                                                                                                                  \
        .name = "model", .configure_train_data = data, .configure_module = module, .training_step = step               \
    }
#define MODEL_OF_BATCHES(made)                                                                                         \
    {                                                                                                                  \
        .name = "model", .get_batch = made, .configure_module = net, .training_step = right_step                       \
    }

static const struct {
    bt_problem_def def;
    const char *settings, *words[5];
} single[] = {
    {MODEL_WITH(net, four_rows, one_per_example),
     "model.batch_size = 3\n",
     {"model, training_step", "scalar", "[3]", "bt_mean"}},
    {MODEL_WITH(net, four_rows, a_matrix), "", {"model, training_step", "scalar", "f64[3, 2]"}},
    {MODEL_WITH(net, four_rows, a_truth), "", {"model, training_step", "scalar", "bool"}},
    {MODEL_WITH(net, four_rows, no_loss), "", {"model, training_step", "no loss"}},
    {MODEL(.validation_step = one_per_example, .configure_valid_data = four_rows),
     "engine.valid_step = 1\n",
     {"model, validation_step", "scalar", "[4]"}},
    {MODEL_WITH(narrow_net, four_rows, right_step),
     "",
     {"model, training_step", "model.1.0: linear", "3 features", "[4, 2]"}},
    {MODEL_WITH(net, four_rows, peers_do_not_match), "", {"model, training_step", "[4, 2]", "[3, 2]"}},
    {MODEL_WITH(net, four_rows, no_field), "", {"model, training_step", "\"image\"", "x [4, 2]", "label [4]"}},
    {MODEL_WITH(net, four_rows, no_param), "", {"model, training_step", "1.wieght", "did you mean", "1.weight"}},
    {MODEL_WITH(net, four_rows, no_peer), "", {"model, training_step", "`teacher`", "the problems are model"}},
    {MODEL_WITH(peer_module, four_rows, right_step), "", {"model", "`teacher`", "the problems are model"}},
    {MODEL_WITH(no_module, four_rows, right_step), "", {"model, configure_module", "returned nothing"}},
    {MODEL_WITH(own_module, four_rows, right_step), "", {"model", "depends on its own result"}},
    {MODEL_WITH(net, no_data, right_step), "", {"model, configure_train_data", "no data set was returned"}},
    {MODEL_WITH(net, lost_data, right_step), "", {"model, configure_train_data", "no-such-set"}},
    {MODEL_WITH(net, NULL, right_step), "", {"no field \"x\"", "the problem has no data", "configure_train_data"}},
    {MODEL_WITH(NULL, four_rows, right_step), "", {"problem model", "configure_module"}},
    {MODEL_WITH(net, four_rows, NULL), "", {"problem model", "training_step"}},
    {MODEL_WITH(net, four_rows, labels_out_of_range), "", {"model, train step, gradient", "cross_entropy", "0 to 2"}},
    {MODEL(.forward = NULL), "model.bias.params = *.bais\n", {"[model.bias]", "*.bais", "no parameter of model"}},
    {MODEL(.forward = NULL),
     "model.bias.params = *, *.bais\n",
     {"[model.bias]", "like *.bais", "no parameter of model"}},
    {MODEL(.forward = NULL), "model.meta_trainable = layer1.*\n", {"[model]", "layer1.*", "no parameter", "weight"}},
    {MODEL(.forward = NULL), "model.trainable = weigth\n", {"[model] trainable = weigth", "no parameter", "it has"}},
    {MODEL(.forward = NULL), "model.trainable = *, weigth\n", {"[model] trainable", "like weigth", "no parameter"}},
    {MODEL(.forward = NULL), "model.weights_names = a > b\n", {"[model] weights_names", "weights is not set"}},
    {MODEL(.start = own_params), "model.weights = a.safetensors\n", {"[model] weights", "`start`"}},
    {MODEL(.forward = NULL), "model.weights = none.safetensors\n", {"[model] weights: none.safetensors"}},
    {MODEL(.forward = NULL), "model.widht = 3\n", {"widht", "model"}},
    {MODEL(.forward = NULL), "model.meta_batch = 2\n", {"[model] meta_batch"}},
    {MODEL(.forward = NULL), "modle.lr = 1\n", {"`modle`", "model"}},
    {MODEL(.forward = NULL), "model.batch_size = 9\nmodel.drop_last = true\n", {"no batch is left", "4", "9"}},
    {MODEL_WITH(net, four_rows, null_metric), "", {"model, training_step", "bt_metric: the value of `m` is NULL"}},
    {MODEL(.validation_step = null_prediction, .configure_valid_data = four_rows),
     "engine.valid_step = 1\n",
     {"model, validation_step", "bt_prediction: the value of `p` is NULL"}},
    {MODEL_WITH(net, four_rows, null_static), "", {"model, training_step", "bt_static_int: "}},
    {MODEL_WITH(net, four_rows, null_peer), "", {"model, training_step", "`(NULL)`", "the problems are model"}},
    {MODEL_WITH(null_dim, four_rows, right_step), "", {"model, configure_module", "bt_data_dim: the field is NULL"}},
    {MODEL_WITH(net, four_rows, whole_number), "", {"model, training_step", "scalar of floating numbers", "i32[]"}},
    {MODEL(.grad_callback = whole_numbers), "", {"model, update", "returned i32[9], expected f64[9]"}},
    {MODEL_WITH(net, four_rows, latin_metric), "", {"model", "bt_metric", "not UTF-8"}},
    {MODEL_WITH(latin_param, four_rows, right_step), "", {"model, configure_module", "of a parameter", "not UTF-8"}},
    {MODEL_WITH(latin_state, four_rows, right_step), "", {"model, configure_module", "bt_state", "not UTF-8"}},
    {MODEL_WITH(net, latin_field, right_step), "", {"model, configure_train_data", "bt_dataset_add", "not UTF-8"}},
    {MODEL_WITH(net, four_rows, failing_step), "", {"model, training_step: no bread"}},
    {MODEL_WITH(net, four_rows, scaled_step), "", {"model, scale: no bread"}},
    {MODEL(.grad_callback = failing_vector), "", {"model, grad_callback: no bread"}},
    {MODEL(.param_callback = failing_vector), "", {"model, param_callback: no bread"}},
    {MODEL(.epoch_callback = fails), "", {"model, epoch_callback: no bread"}},
    {MODEL(.on_inner_loop_start = fails), "", {"model, on_inner_loop_start: no bread"}},
    {MODEL(.on_inner_loop_start = misplaced), "", {"model, on_inner_loop_start: ", "inside a traced callback"}},
    {MODEL(.validation_end = fails), "engine.valid_step = 1\n", {"model, validation_end: no bread"}},
    {MODEL_OF_BATCHES(failing_batch), "", {"model, get_batch: no bread"}},
    {MODEL_OF_BATCHES(silent_batch), "", {"model, get_batch: it failed for batch 1"}},
};
enum { SINGLE = sizeof single / sizeof *single };

static void expect_words(bt_engine *engine, const char *const *words, int most)
{
    bt_status status = engine ? bt_engine_run(engine) : BT_ERROR_CONFIG;
    ck_assert_int_ne(status, BT_OK);
    for (int k = 0; k < most && words[k]; k++)
        ck_assert_msg(strstr(bt_error(), words[k]) != NULL, "`%s` is not in: %s", words[k], bt_error());
    bt_engine_free(engine);
    bt_error_clear();
}

START_TEST(of_one_problem)
{
    bt_export parts = {.abi = BT_ABI, .problems = {&single[_i].def}};
    char settings[300];
    snprintf(settings, sizeof settings, "engine.train_iters = 2\n%s", single[_i].settings);
    expect_words(levels_engine(&parts, NULL, settings), single[_i].words, 5);
}
END_TEST

/* ---- several ---- */

static const bt_problem_def level_a = {
    .name = "alpha", .configure_train_data = four_rows, .configure_module = net, .training_step = right_step};
static const bt_problem_def level_b = {
    .name = "beta", .configure_train_data = four_rows, .configure_module = net, .training_step = right_step};
static const bt_problem_def level_c = {
    .name = "gamma", .configure_train_data = four_rows, .configure_module = net, .training_step = right_step};
static const bt_export three = {.abi = BT_ABI, .problems = {&level_a, &level_b, &level_c}};

#define LINKED "dependencies.u2l = alpha > beta\ndependencies.l2u = beta > alpha\n"

static const struct {
    const char *settings, *words[5];
} several[] = {
    {"dependencies.u2l = alpha > betta\n", {"u2l", "`betta`", "did you mean", "beta"}},
    {"dependencies.u2l = alpha > beta, beta > gamma, gamma > alpha\n", {"u2l", "cycle", "alpha", "beta", "gamma"}},
    {"dependencies.u2l = alpha > beta\ndependencies.l2u = beta > gamma, gamma > beta\n", {"l2u", "cycle", "gamma"}},
    {"dependencies.u2l = alpha > beta\n", {"alpha", "u2l", "l2u", "no solution reaches its loss"}},
    {"dependencies.l2u = beta > alpha\n", {"alpha", "beta", "u2l", "zero"}},
    {LINKED "alpha.precision = fp32\n", {"alpha (f32)", "beta (f64)", "same precision"}},
    {LINKED "beta.detach = follow\nbeta.product = vjp\n", {"[beta]", "follow", "vjp"}},
    {LINKED "beta.detach = field\nbeta.product = finite\n", {"[beta]", "field", "finite"}},
    {LINKED "engine.levels = alpha, delta\n", {"levels", "`delta`"}},
};
enum { SEVERAL = sizeof several / sizeof *several };

START_TEST(of_several_problems)
{
    char settings[400];
    snprintf(settings, sizeof settings, "engine.train_iters = 2\n%s", several[_i].settings);
    expect_words(levels_engine(&three, NULL, settings), several[_i].words, 5);
}
END_TEST

START_TEST(records)
{
    static const bt_problem_def nameless = {.configure_module = net, .training_step = right_step};
    bt_export old = three, twice = {.abi = BT_ABI, .problems = {&level_a, &level_a}},
              anonymous = {.abi = BT_ABI, .problems = {&nameless}};
    char found[40], due[40];
    snprintf(found, sizeof found, "interface %d,", BT_ABI + 1);
    snprintf(due, sizeof due, "has interface %d:", BT_ABI);
    old.abi = BT_ABI + 1;
    expect_words(levels_engine(&old, NULL, ""), (const char *const[]){found, due}, 2);
    bt_error_clear();
    expect_words(levels_engine(&twice, NULL, ""), (const char *const[]){"two problems", "alpha"}, 2);
    expect_words(levels_engine(&anonymous, NULL, ""), (const char *const[]){"no name"}, 1);
    bt_engine *empty = bt_engine_new();
    expect_words(empty, (const char *const[]){"no problem"}, 1);
}
END_TEST

/* ---- modules that refer to each other ---- */

static bt_module *like_beta(bt_problem *self) { return bt_nn_linear(2, bt_param_count(bt_peer(self, "beta"))); }
static bt_module *like_alpha(bt_problem *self) { return bt_nn_linear(2, bt_param_count(bt_peer(self, "alpha"))); }
static const bt_problem_def asks_b = {
    .name = "alpha", .configure_train_data = four_rows, .configure_module = like_beta, .training_step = right_step};
static const bt_problem_def asks_a = {
    .name = "beta", .configure_train_data = four_rows, .configure_module = like_alpha, .training_step = right_step};

START_TEST(modules_that_ask_for_each_other)
{
    bt_export parts = {.abi = BT_ABI, .problems = {&asks_b, &asks_a}};
    expect_words(levels_engine(&parts, NULL, ""), (const char *const[]){"depends on its own result"}, 1);
    parts.problems[1] = &level_b; /* one direction is allowed: beta's module is created first */
    bt_engine *engine = levels_engine(&parts, NULL, "engine.train_iters = 1\n");
    levels_run(engine);
    ck_assert_int_eq(bt_param_count(bt_engine_problem(engine, "alpha")), 3 * 9);
    bt_engine_free(engine);
}
END_TEST

/* ---- one module for two problems ---- */

static bt_module *shared;
static bt_module *shared_net(bt_problem *self) { return shared ? shared : (shared = net(self)); }
static bt_module *shared_part(bt_problem *self) { return (void)self, bt_child(shared, "1"); }

START_TEST(a_module_of_two_problems)
{
    bt_problem_def a = level_a, b = level_b;
    shared = NULL;
    a.configure_module = shared_net;
    b.configure_module = _i ? shared_part : shared_net;
    bt_export parts = {.abi = BT_ABI, .problems = {&a, &b}};
    expect_words(levels_engine(&parts, NULL, ""),
                 (const char *const[]){"beta, configure_module: configure_module returned the module of alpha"}, 1);
}
END_TEST

static bt_module *part_of_another(bt_problem *self)
{
    shared = net(self);
    return bt_child(shared, "1");
}

START_TEST(a_part_of_a_module)
{
    bt_problem_def a = level_a;
    a.configure_module = part_of_another;
    bt_export parts = {.abi = BT_ABI, .problems = {&a}};
    expect_words(levels_engine(&parts, NULL, ""), (const char *const[]){"a part of another module, \"1\""}, 1);
    bt_module_free(shared);
}
END_TEST

/* ---- data that refer to each other ---- */

static bt_dataset *rows_asking(bt_problem *asked)
{
    (void)bt_data_dim(asked, "x", 0);
    return four_rows(asked);
}

static bt_dataset *rows_like_own(bt_problem *self) { return rows_asking(self); }
static bt_dataset *rows_like_beta(bt_problem *self) { return rows_asking(bt_peer(self, "beta")); }
static bt_dataset *rows_like_alpha(bt_problem *self) { return rows_asking(bt_peer(self, "alpha")); }
static bt_dataset *rows_like_own_module(bt_problem *self) { return (void)bt_param_count(self), four_rows(self); }
static bt_module *net_like_data(bt_problem *self) { return bt_nn_linear(bt_data_dim(self, "x", 1), 1); }

START_TEST(data_that_ask_for_each_other)
{
    static const char *const said[] = {
        "alpha, configure_train_data: alpha: configure_train_data depends on its own result: ",
        ("alpha, configure_train_data: beta, configure_train_data: alpha: configure_train_data depends on its own "
         "result: "),
        "alpha, configure_module: alpha, configure_train_data: alpha: configure_module depends on its own result: "};
    bt_problem_def a = level_a, b = level_b;
    a.configure_train_data = _i ? rows_like_beta : rows_like_own;
    b.configure_train_data = rows_like_alpha;
    if (_i == 2) { /* through the module */
        a.configure_train_data = rows_like_own_module;
        a.configure_module = net_like_data;
        b.configure_train_data = four_rows;
    }
    bt_export parts = {.abi = BT_ABI, .problems = {&a, &b}};
    expect_words(levels_engine(&parts, NULL, ""), &said[_i], 1);
    bt_error_clear();
    b.configure_train_data = four_rows; /* one direction is allowed */
    a.configure_train_data = rows_like_beta;
    bt_engine *engine = levels_engine(&parts, NULL, "engine.train_iters = 1\n");
    levels_run(engine);
    bt_engine_free(engine);
}
END_TEST

/* Validation data are opened on first use, which may be after the start. */
static bt_dataset *rows_like_valid(bt_problem *self) { return (void)bt_valid_batch(self, 0), four_rows(self); }

START_TEST(validation_data_that_ask_for_themselves)
{
    bt_problem_def a = level_a;
    a.configure_valid_data = rows_like_valid;
    bt_export parts = {.abi = BT_ABI, .problems = {&a}};
    bt_engine *engine = levels_engine(&parts, NULL, "engine.train_iters = 1\n");
    ck_assert_ptr_null(bt_valid_batch(bt_engine_problem(engine, "alpha"), 0));
    ck_assert_ptr_nonnull(strstr(bt_error(), "alpha: configure_valid_data depends on its own result"));
    bt_engine_free(engine);
    bt_error_clear();
}
END_TEST

/* ---- levels with a dependency that their losses do not use ---- */

static bt_tensor *uses(bt_problem *self, const bt_batch *batch, const char *peer)
{
    bt_tensor *x = bt_field(batch, "x");
    return bt_mean(bt_mul(bt_forward(self, x), bt_forward(bt_peer(self, peer), x)));
}

static bt_tensor *uses_alpha(bt_problem *self, const bt_batch *batch) { return uses(self, batch, "alpha"); }
static bt_tensor *uses_beta(bt_problem *self, const bt_batch *batch) { return uses(self, batch, "beta"); }

START_TEST(losses_that_do_not_link)
{
    bool up = _i & 1, down = _i & 2; /* alpha's loss uses beta, beta's loss uses alpha */
    bt_problem_def a = level_a, b = level_b;
    a.training_step = up ? uses_beta : right_step;
    b.training_step = down ? uses_alpha : right_step;
    bt_export parts = {.abi = BT_ABI, .problems = {&a, &b}};
    bt_engine *engine = levels_engine(&parts, NULL, LINKED "engine.train_iters = 3\n");
    ck_assert_msg(bt_engine_problem(engine, "alpha") != NULL, "%s", bt_error());
    const char *said = bt_text_get(&engine->context.warnings);
    ck_assert_int_eq(strstr(said, "alpha: its loss does not use the parameters of beta") == NULL, up);
    ck_assert_int_eq(strstr(said, "alpha: no lower problem's gradient uses its parameters") == NULL,
                     down || !up); /* problems that do not run are not checked */
    levels_run(engine);
    bt_engine_free(engine);
}
END_TEST

/* The loss reaches all of alpha directly; or neither this loss nor beta's reaches the bias. */
static bt_tensor *weight_only(bt_problem *self, const bt_batch *batch)
{
    return bt_add(bt_sum(bt_param(self, "1.weight")), bt_mean(bt_forward(bt_peer(self, "beta"), bt_field(batch, "x"))));
}

START_TEST(unused_in_two_levels)
{
    bt_problem_def a = level_a, b = level_b;
    a.training_step = weight_only;
    b.training_step = uses_alpha;
    bt_export parts = {.abi = BT_ABI, .problems = {&a, &b}};
    bt_engine *engine = levels_engine(&parts, NULL, LINKED "engine.train_iters = 2\nalpha.allow_unused = false\n");
    levels_run(engine); /* beta's gradient uses the bias */
    bt_engine_free(engine);
    b.training_step = right_step;
    for (int type = 0; type < 3; type++) {
        static const char *const types[] = {"darts", "neumann", "cg"};
        char settings[300];
        snprintf(settings, sizeof settings, LINKED "alpha.allow_unused = false\nbeta.type = %s\n", types[type]);
        expect_words(levels_engine(&parts, NULL, settings), (const char *const[]){"alpha", "1.bias", "allow_unused"},
                     3);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mistakes");
    TCase *tests = tcase_create("messages");
    tcase_add_loop_test(tests, of_one_problem, 0, SINGLE);
    tcase_add_loop_test(tests, of_several_problems, 0, SEVERAL);
    tcase_add_test(tests, records);
    tcase_add_test(tests, modules_that_ask_for_each_other);
    tcase_add_loop_test(tests, a_module_of_two_problems, 0, 2);
    tcase_add_test(tests, a_part_of_a_module);
    tcase_add_loop_test(tests, data_that_ask_for_each_other, 0, 3);
    tcase_add_test(tests, validation_data_that_ask_for_themselves);
    tcase_add_loop_test(tests, losses_that_do_not_link, 0, 4);
    tcase_add_test(tests, unused_in_two_levels);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
