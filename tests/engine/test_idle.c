/* Keys that were set but have no effect: the warning names each with its place and the reason; keys with an effect are
 * not named. */
#include "levels.h"
#include "ridge.h"

#include "engine/config/config.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *lines, *warning; /* NULL: none */
} cases[] = {
    {"", NULL},
    /* keys with an effect */
    {"lower.unroll_steps = 3\nlower.warmup_steps = 2\nlower.type = cg\nlower.cg_iterations = 2\n", NULL},
    {"lower.product = finite\nlower.darts_alpha = 0.3\nlower.meta_trainable = *\n", NULL},
    {"lower.gradient_accumulation = 2\nlower.product_batches = all\n", NULL},
    {"lower.batch_size = 3\nlower.shuffle = false\nlower.drop_last = true\nlower.prefetch = false\n", NULL},
    {"lower.scheduler = step\nlower.scheduler_step_size = 3\nlower.scheduler_gamma = 0.4\n", NULL},
    {"lower.optimizer = adafactor\nlower.relative_step = false\nlower.lr = 0.1\nlower.scheduler = cosine\n", NULL},
    {"lower.scheduler = multistep\nlower.scheduler_milestones = 3\nlower.scheduler_gamma = 0.4\n", NULL},
    {"lower.scheduler = cosine\nlower.scheduler_t_max = 3\nlower.scheduler_eta_min = 0.1\n", NULL},
    {"lower.scheduler = linear\nlower.scheduler_start_factor = 0.5\nlower.scheduler_total_iters = 3\n", NULL},
    {"lower.scheduler = exponential\nlower.scheduler_gamma = 0.5\n", NULL},
    {"lower.momentum = 0.5\nlower.dampening = 0.1\n", NULL},
    {"engine.roll_back = true\n", NULL},
    /* default values, however they are written */
    {"upper.unroll_steps = 1\nupper.type = darts\nlower.cg_iterations = 1\n", NULL},
    {"lower.weights_layout = pytorch\nlower.scheduler_gamma = 0.10\nlower.valid_batches = all\n", NULL},
    /* a baseline may keep the keys of the full run */
    {"engine.levels = lower\nlower.unroll_steps = 3\nlower.type = cg\nlower.cg_iterations = 3\n", NULL},
    /* the engine's */
    {"engine.valid_step = 3\n", "valid_step = 3 has no effect: no problem has validation data"},
    {"engine.early_stopping_mode = max\n",
     "early_stopping_mode = max has no effect: early_stopping and checkpoint_best are both false"},
    {"engine.early_stopping_tolerance = 3\n", "early_stopping is false"},
    {"engine.early_stopping_metric = x\n", "early_stopping and checkpoint_best are both false"},
    {"engine.precision = fp32\nupper.precision = fp64\nlower.precision = fp64\n", NULL}, /* the default */
    {"engine.strategy = zero2\n", "strategy = zero2 has no effect: there is only one rank"},
    {"engine.strategy = distributed\n", NULL},
    {"engine.log_histograms = true\n", "log_histograms = true has no effect: logger_type has no tensorboard"},
    {"engine.log_histograms = true\nengine.logger_type = csv, tensorboard\n", NULL},
    {"lower.strategy = fsdp\n", "there is only one rank"},
    {"engine.ranks = 2\nlower.strategy = zero\n", NULL},
    {"engine.ranks = 2\nlower.strategy = zero2\nengine.zero_unit = 1MiB\n", "no level has strategy = zero3"},
    {"engine.ranks = 2\nlower.strategy = zero3\nengine.zero_unit = 1MiB\n", NULL},
    /* the method of differentiation */
    {"upper.type = cg\n", "[upper] type = cg has no effect: no problem above differentiates its solution"},
    {"upper.product = vjp\n", "no problem above differentiates"},
    {"upper.detach = follow\n", "no problem above differentiates"},
    {"upper.product_batches = all\n", "no problem above differentiates"},
    {"lower.checkpointing = ops:no_such\n", "no forward value that is kept for a derivative has such a name"},
    {"lower.checkpointing = modules:no.such\n", "no forward value that is kept for a derivative has such a name"},
    {"upper.checkpointing = none\n", NULL}, /* the default, by another name */
    {"lower.checkpointing = cost:10%\n", NULL},
    {"lower.offload = none\n", NULL}, /* the default */
    {"lower.offload = optimizer, activations\n", "the processor has a single memory, and there is no device"},
    {"engine.offload_ahead = 3\n", "offload_ahead = 3 has no effect: no level offloads anything"},
    {"engine.offload_unit = 2MiB\n", "no level offloads what its optimizer keeps"},
    {"lower.batch_norm_groups = 2\n", "no batch norm of its module uses batch statistics"},
    {"lower.chunks = 4\n", "it has no matrix product that is read row by row"},
    {"upper.darts_alpha = 1\n", "no problem above differentiates"},
    {"upper.product_precision = fp32\n", "no problem above differentiates"},
    {"lower.product_precision = fp32\n", "no level has products of fewer bits than fp32"},
    {"engine.precision = tf32\n", "precision = tf32 has no effect: the processor computes it as fp32"},
    {"engine.precision = fp32\nlower.precision = tf32\n", "[lower] precision = tf32 has no effect: the processor"},
    {"engine.precision = tf32\nlower.precision = fp32\n", "precision = tf32 has no effect: the processor"},
    {"lower.initial_dynamic_scale = 8\n", "no gradient of this level passes through fp16"},
    {"lower.scale_factor = 4\n", "no gradient of this level passes through fp16"},
    {"lower.scale_interval = 4\n", "no gradient of this level passes through fp16"},
    {"upper.cg_iterations = 2\n", "[upper] cg_iterations = 2 has no effect: type is darts"},
    {"upper.type = cg\nupper.cg_iterations = 2\n", "cg_iterations = 2 has no effect: no problem above"},
    {"lower.cg_iterations = 2\n", "[lower] cg_iterations = 2 has no effect: type is darts"},
    {"lower.type = neumann\nlower.cg_warm_start = true\n", "cg_warm_start = true has no effect: type is neumann"},
    {"lower.darts_alpha = 1\n", "it is used only with product = finite"},
    {"lower.type = penalty\nlower.product = vjp\n", "its type uses a penalty"},
    {"lower.type = itd\nlower.itd_second_order = false\nlower.product = vjp\n", "itd_second_order = false leaves"},
    {"lower.product_batches = all\n", "with gradient_accumulation = 1 there is only the last batch"},
    {"lower.detach = follow\n", "its loss has no detached values"},
    /* the schedule */
    {"upper.unroll_steps = 2\n", "no problem above waits for its solution (l2u)"},
    {"upper.unroll_tolerance = 0.1\n", "no problem above waits for its solution (l2u)"},
    {"upper.warmup_steps = 2\n", "no problem above waits for its solution (l2u)"},
    /* data */
    {"lower.valid_batch_size = 3\n", "its validation has no data set of its own"},
    {"lower.valid_batches = 3\n", "it has no validation data"},
    /* the update */
    {"lower.weights_layout = plain\n", "there is no `weights`"},
    {"lower.weights_missing = keep\n", "there is no `weights`"},
    {"lower.scheduler_step_size = 3\n", "it is used only with scheduler = step"},
    {"lower.optimizer = adafactor\nlower.scheduler = cosine\n", "relative_step = true sets the rate by itself"},
    {"lower.optimizer = adafactor\nlower.scheduler_warmup = 3\n", "relative_step = true sets the rate by itself"},
    {"lower.scheduler_milestones = 3\n", "it is used only with scheduler = multistep"},
    {"lower.scheduler_start_factor = 0.5\n", "it is used only with scheduler = linear"},
    {"lower.scheduler_end_factor = 0.5\n", "it is used only with scheduler = linear"},
    {"lower.scheduler_total_iters = 3\n",
     "scheduler_total_iters = 3 has no effect: it is used only with scheduler = linear"},
    {"lower.scheduler_metric = score\n", "it is used only with scheduler = plateau"},
    {"lower.scheduler_mode = max\n", "it is used only with scheduler = plateau"},
    {"lower.scheduler_patience = 3\n",
     "scheduler_patience = 3 has no effect: it is used only with scheduler = plateau"},
    {"lower.scheduler_threshold = 0.5\n", "it is used only with scheduler = plateau"},
    {"lower.scheduler_threshold_mode = abs\n", "it is used only with scheduler = plateau"},
    {"lower.scheduler_cooldown = 3\n", "it is used only with scheduler = plateau"},
    {"lower.scheduler_eps = 0.5\n", "it is used only with scheduler = plateau"},
    {"lower.scheduler_gamma = 0.3\n", "it is used only with scheduler = step, multistep, exponential or plateau"},
    {"lower.scheduler_t_max = 3\n", "it is used only with scheduler = cosine"},
    {"lower.scheduler_eta_min = 0.3\n", "it is used only with scheduler = cosine"},
    {"lower.dampening = 0.1\n", "there is no momentum"},
    {"engine.precision = fp32\nlower.optimizer_state = bf16\n", "keeps nothing between updates"},
    {"engine.precision = fp32\nlower.optimizer_state = bf16\nlower.momentum = 0.5\n", NULL},
    {"lower.prune_begin = 3\n", "prune_begin = 3 has no effect: prune is 0"},
    {"lower.prune_end = 3\n", "prune_end = 3 has no effect: prune is 0"},
};

START_TEST(a_key)
{
    ridge data = ridge_data();
    char lines[500];
    bool baseline = strstr(cases[_i].lines, "engine.levels") != NULL;
    snprintf(lines, sizeof lines, "%s%s%s%s", cases[_i].lines,
             strstr(cases[_i].lines, "lower.optimizer") ? "" : "lower.optimizer = sgd\nlower.lr = 0.1\n",
             strstr(cases[_i].lines, "lower.batch_size") ? "" : "lower.batch_size = 4\n",
             baseline ? "" : "upper.batch_size = 3\n");
    bt_engine *engine = ridge_engine(&data, lines);
    EXPECT_OK(bt_engine_setup(engine));
    const char *found = bt_text_get(&engine->context.warnings), *due = cases[_i].warning,
               *first = strstr(found, "no effect");
    if (due)
        ck_assert_msg(first && strstr(found, due), "%s%s", cases[_i].lines, found);
    ck_assert_msg(!first == !due &&
                      (!first || !strstr(first + 1, "no effect") || strstr(cases[_i].lines, "upper.type")),
                  "%s%s", cases[_i].lines, found);
    bt_engine_free(engine);
}
END_TEST

/* ---- a frozen group next to a trained parameter ---- */

static bt_module *two(bt_problem *self)
{
    (void)self;
    bt_module *module = bt_module_new(NULL);
    bt_module_add_param(module, "a", bt_init_constant(1));
    bt_module_add_param(module, "b", bt_init_constant(2));
    return module;
}

static bt_tensor *difference(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_sub(bt_sub(bt_param(self, "a"), bt_param(self, "b")), bt_field(batch, "x"))));
}

static bt_dataset *one_row(bt_problem *self)
{
    static const double x[] = {1};
    (void)self;
    bt_dataset *data = bt_dataset_new(1);
    bt_dataset_add(data, "x", BT_ARRAY(x, 1));
    return data;
}

START_TEST(a_hyperparameter_of_a_frozen_group)
{
    static const bt_problem_def model = {
        .name = "model", .configure_train_data = one_row, .configure_module = two, .training_step = difference};
    static const bt_export parts = {.abi = BT_ABI, .problems = {&model}};
    bt_engine *engine =
        levels_engine(&parts, NULL, "model.some.params = a\nmodel.some.frozen = true\nmodel.some.lr = 0.2\n");
    EXPECT_OK(bt_engine_setup(engine));
    const char *found = bt_text_get(&engine->context.warnings);
    ck_assert_msg(strstr(found, "[model.some] lr = 0.2 has no effect: the group is frozen") != NULL, "%s", found);
    bt_engine_free(engine);
}
END_TEST

/* Each key of the table must be listed here, so that a new one is considered: always effective, or in a row of
 * idle.c. */
START_TEST(every_key)
{
    static const char *const act[] = {
        "problems", "folder", "folder_here", "levels", "train_iters", "early_stopping", "seed", "device", "threads",
        "reassociate", "log_step", "output", "checkpoint_step", "checkpoint_keep", "checkpoint_minutes",
        "checkpoint_best", "ranks", "executor", "distributed", "bucket", "overlap", "logger_type", "u2l", "l2u",
        "first_order", "allow_unused", "gradient_accumulation", "meta_batch", "weights", "trainable", "optimizer",
        "gradient_clipping", "gradient_clipping_value", "prune", "scheduler", "scheduler_warmup", "params", "frozen",
        "memory_budget", "weights_names", /* refused without weights */
        /* in a row of idle.c, but not in a case above */
        "roll_back", "precision", "fp16", "meta_trainable", "batch_size", "shuffle", "drop_last", "prefetch"};
    for (const bt_key *key = bt_keys; key->name; key++) {
        bool known = false;
        for (int i = 0; i < BT_COUNT_OF(act) && !known; i++)
            known = strcmp(act[i], key->name) == 0;
        char line[100];
        snprintf(line, sizeof line, "%s = ", key->name);
        for (int i = 0; i < BT_COUNT_OF(cases) && !known; i++)
            known = cases[i].warning && strstr(cases[i].lines, line);
        ck_assert_msg(known, "%s: when does it do nothing?", key->name);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("idle");
    TCase *tests = tcase_create("keys");
    tcase_add_loop_test(tests, a_key, 0, BT_COUNT_OF(cases));
    tcase_add_test(tests, a_hyperparameter_of_a_frozen_group);
    tcase_add_test(tests, every_key);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
