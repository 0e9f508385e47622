/* tests/engine/test_checkpointing.c: recomputation changes no bit of a run: every policy, on either level or by
 * bt_checkpoint, and budgets for the whole plan, with every hypergradient method, in four networks; and batch
 * statistics are updated once per step.
 *
 * Each case tries some of the policies, different ones from the previous case, and a few cases a budget; BT_TEST_ALL=1:
 * all of them. */
#include "levels.h"

#include "engine/session/session.h"
#include "plan/known.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 48, SIDE = 8, PIXELS = SIDE * SIDE * 3, CLASSES = 4, STEPS = 3, NODES = 2 };
enum { FEATURES = 12, WIDTH = 16, BLOCKS = 5 };

/* ---- networks ---- */

typedef enum net_kind { MLP, RESNET, CELL, MAML, NETS } net_kind;
static const char *const net_names[NETS] = {"mlp", "resnet", "cell", "maml"};
static net_kind kind;
static bool regions; /* the network's blocks use bt_checkpoint */

static bt_dataset *rows(bt_problem *self)
{
    static float x[ROWS * PIXELS];
    static int32_t label[ROWS];
    uint64_t stream = strcmp(self->name, "upper") == 0;
    for (uint64_t i = 0; i < ROWS * PIXELS; i++)
        x[i] = (float)(2 * bt_host_uniform(11, stream, i) - 1);
    for (uint64_t i = 0; i < ROWS; i++)
        label[i] = (int32_t)(CLASSES * bt_host_uniform(12, stream, i));
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(x, ROWS, SIDE, SIDE, 3));
    bt_dataset_add(data, "label", BT_ARRAY(label, ROWS));
    return data;
}

static bt_module *perceptron(void)
{
    bt_module *net = bt_module_new(NULL);
    for (int b = 0; b < BLOCKS; b++)
        bt_module_add(net,
                      bt_nn_sequential(bt_nn_linear(b ? WIDTH : FEATURES, WIDTH), bt_nn_batch_norm(WIDTH),
                                       bt_nn_fn(bt_gelu), bt_nn_dropout(0.2)),
                      "block%d", b);
    bt_module_add(net, bt_nn_linear(WIDTH, CLASSES), "head");
    return net;
}

static bt_module *network(bt_problem *self)
{
    (void)self;
    switch (kind) {
    case RESNET:
        return bt_nn_resnet_cifar(8, 3, CLASSES);
    case CELL:
        return bt_nn_darts(3, 4, 2, NODES, CLASSES);
    case MAML:
        return bt_nn_mlp(bt_relu, FEATURES, WIDTH, WIDTH, WIDTH, CLASSES);
    default:
        return perceptron();
    }
}

static bt_tensor *through(void *module, bt_tensor *const *in)
{
    return in[1] ? bt_forward((bt_module *)module, in[0], in[1], in[2]) : bt_forward((bt_module *)module, in[0]);
}

static bt_tensor *edges(bt_problem *upper, const char *cell) { return bt_softmax(bt_param(upper, "%s", cell), -1); }

static bt_tensor *logits(bt_problem *lower, bt_tensor *x)
{
    bt_problem *upper = bt_peer(lower, "upper");
    bt_module *net = bt_net(lower);
    if (kind == CELL) {
        bt_tensor *normal = edges(upper, "normal"), *reduce = edges(upper, "reduce");
        return regions ? bt_checkpoint(through, net, x, normal, reduce) : bt_forward(net, x, normal, reduce);
    }
    if (kind == RESNET)
        return regions ? bt_checkpoint(through, net, x) : bt_forward(net, x);
    x = bt_slice(bt_reshape(x, x->dims[0], PIXELS), 1, 0, FEATURES);
    if (kind == MAML)
        return regions ? bt_checkpoint(through, net, x) : bt_forward(net, x);
    for (int b = 0; b < BLOCKS; b++) {
        bt_module *block = bt_child(net, "block%d", b);
        x = regions ? bt_checkpoint(through, block, x) : bt_forward(block, x);
    }
    return bt_forward(bt_child(net, "head"), x);
}

static bt_tensor *losses(bt_problem *lower, const bt_batch *batch)
{
    return bt_cross_entropy(logits(lower, bt_field(batch, "x")), bt_field(batch, "label"));
}

/* ---- problems ---- */

static bt_module *upper_module(bt_problem *self)
{
    if (kind == MAML)
        return network(self);
    if (kind != CELL)
        return bt_nn_mlp(bt_tanh, 1, 7, 1);
    bt_module *arch = bt_module_new(NULL);
    bt_module_add_param(arch, "normal", bt_init_normal(0, 0.1), bt_nn_darts_edges(NODES), BT_NN_DARTS_OPS);
    bt_module_add_param(arch, "reduce", bt_init_normal(0, 0.1), bt_nn_darts_edges(NODES), BT_NN_DARTS_OPS);
    return arch;
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = losses(self, batch);
    if (kind == CELL || kind == MAML)
        return bt_mean(loss);
    bt_tensor *weight = bt_forward(bt_peer(self, "upper"), bt_unsqueeze(bt_detach(loss), 1));
    return bt_mean(bt_mul(bt_sigmoid(bt_squeeze(weight, 1)), loss));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(losses(bt_peer(self, "lower"), batch));
}

static bt_tensor *valid_step(bt_problem *self, const bt_batch *batch) { return bt_mean(losses(self, batch)); }

static bt_tensor *start(bt_problem *self) { return bt_params(bt_peer(self, "upper")); }

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = rows, .configure_module = upper_module, .training_step = upper_step};
static const bt_problem_def lower = {.name = "lower",
                                     .configure_train_data = rows,
                                     .configure_valid_data = rows,
                                     .configure_module = network,
                                     .training_step = lower_step,
                                     .validation_step = valid_step};
static const bt_problem_def learner = {.name = "lower",
                                       .configure_train_data = rows,
                                       .configure_valid_data = rows,
                                       .configure_module = network,
                                       .start = start,
                                       .training_step = lower_step,
                                       .validation_step = valid_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};
static const bt_export tasks = {.abi = BT_ABI, .problems = {&upper, &learner}};

/* ---- the grid ---- */

/* The linker substitutes these for the functions without __wrap_. The runs of a case share search results, as their
 * graphs are the same, and each search is short: otherwise nearly all of the time would go into searches, and no bit
 * may depend on their results. */
enum { SHORTER = 16 };
static bt_known *known;
bt_known *__real_bt_known_new(void);
bt_known *__wrap_bt_known_new(void);
void __real_bt_known_free(bt_known *one);
void __wrap_bt_known_free(bt_known *one);
bt_status __real_bt_known_search(bt_known *one, const bt_remat *remat, const bt_remat_choice *start,
                                 const bt_remat_may *may, int64_t simulations, bt_frontier *found);
bt_status __wrap_bt_known_search(bt_known *one, const bt_remat *remat, const bt_remat_choice *start,
                                 const bt_remat_may *may, int64_t simulations, bt_frontier *found);
bt_known *__wrap_bt_known_new(void) { return known; }
void __wrap_bt_known_free(bt_known *one) { ck_assert_ptr_eq(one, one ? known : NULL); }
bt_status __wrap_bt_known_search(bt_known *one, const bt_remat *remat, const bt_remat_choice *start,
                                 const bt_remat_may *may, int64_t simulations, bt_frontier *found)
{
    return __real_bt_known_search(one, remat, start, may, 1 + simulations / SHORTER, found);
}

static const char *const methods[] = {
    "lower.type = darts\n",
    "lower.type = darts\nlower.product = vjp\n",
    "lower.type = darts\nlower.product = finite\n",
    "lower.type = sama\n",
    "lower.type = neumann\nlower.neumann_alpha = 0.1\nlower.neumann_iterations = 2\n",
    "lower.type = cg\nlower.cg_iterations = 3\n",
    "lower.type = nystrom\nlower.nystrom_rank = 2\n",
    "lower.type = penalty\nlower.penalty_iterations = 2\n",
    "lower.type = itd\nlower.unroll_steps = 2\n",
};
enum { METHODS = sizeof methods / sizeof *methods, ITD = METHODS - 1 };

static const char *const ways[] = {"fp32\nengine.threads = 1\n", "fp32\nengine.threads = 2\n",
                                   "bf16\nengine.threads = 1\n", "bf16\nengine.threads = 2\n",
                                   "fp64\nengine.threads = 1\n", "fp64\nengine.threads = 2\n"};
enum { WAYS = sizeof ways / sizeof *ways, CASES = ((NETS - 1) * METHODS + 1) * WAYS };

static const struct policy {
    const char *value;
    bool regions;
} policies[] = {{"cheap", false},
                {"cost:20%", false},
                {"every:1", false},
                {"every:3", false},
                {"sqrt", false},
                {"modules:*", false},
                {"none", true},
                {"cost:1000%", true},
                {"modules:block*, layer*, cell*, 1", false},
                {"ops:*", false},
                {"cost:0%", false},
                {"every:2", true},
                {"ops:relu, channel_norm", false}};
enum { POLICIES = sizeof policies / sizeof *policies, PART = 7 };

/* As fractions of the bytes without a budget. */
static const double budgets[] = {.9, .8, .7, .6, .5, .4, .3, .2};
enum { BUDGETS = sizeof budgets / sizeof *budgets, SEVERAL = 11 };

typedef struct outcome {
    uint64_t state;
    int64_t again; /* rerun steps, in all programs */
    size_t bound;  /* the bound of the largest phase */
    size_t all;    /* total planned bytes: the arena, and what is kept */
    size_t least;  /* if the run was refused: the minimum bytes named in the message */
} outcome;

/* The number after these words in the message. */
static size_t named_least(void)
{
    static const char words[] = "the smallest plan found needs ";
    const char *found = strstr(bt_error(), words);
    ck_assert_msg(found != NULL, "%s", bt_error());
    size_t least = (size_t)strtoull(found + sizeof words - 1, NULL, 10);
    bt_error_clear();
    return least;
}

static void measure(bt_engine *engine, outcome *result)
{
    const bt_instance *instance = engine->context.instance;
    size_t categories[BT_CATEGORIES];
    result->state = levels_hash(engine, NULL);
    result->all = bt_persistent_bytes(&engine->context, categories, NULL) + bt_arena_planned(&engine->context);
    for (int64_t p = 0; p < instance->phase_count; p++) {
        const bt_phase *phase = instance->phases[p];
        result->bound = phase->bound > result->bound ? phase->bound : result->bound;
        for (int64_t e = 0; e < phase->entry_count; e++)
            result->again += phase->entries[e].program->again;
    }
}

static outcome run(int number, const struct policy *policy, size_t budget)
{
    char settings[1200], limit[64] = "";
    const char *value = policy ? policy->value : "";
    outcome result = {0};
    if (budget)
        snprintf(limit, sizeof limit, "engine.memory_budget = %zu\n", budget);
    int batch = kind == RESNET || kind == CELL ? ROWS / 8 : ROWS;
    regions = policy && policy->regions;
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.batch_size = %d\n"
             "upper.batch_size = %d\nlower.lr = 0.05\nlower.momentum = 0.9\nupper.optimizer = adam\nupper.lr = 0.01\n"
             "engine.valid_step = 2\nengine.log_step = 2\n%s%s%s%s\n%s%s\nengine.precision = %s",
             batch, batch, limit, methods[kind == MAML ? ITD : number / WAYS % METHODS],
             policy ? "lower.checkpointing = " : "", value, policy ? "upper.checkpointing = " : "", value,
             ways[number % WAYS]);
    bt_engine *engine = levels_engine(kind == MAML ? &tasks : &parts, NULL, settings);
    if (budget && bt_engine_setup(engine) == BT_ERROR_CONFIG) {
        result.least = named_least();
    } else {
        levels_step(engine, STEPS * (strstr(settings, "unroll") ? 2 : 1));
        measure(engine, &result);
    }
    bt_engine_free(engine);
    return result;
}

static const char *case_of(int number)
{
    static char text[200];
    snprintf(text, sizeof text, "%s, %s, %s", net_names[kind], methods[kind == MAML ? ITD : number / WAYS % METHODS],
             ways[number % WAYS]);
    return text;
}

/* Decreasing budgets; if one is refused, also the minimum from its message. */
static void try_budgets(int number, const outcome *plain, bool all)
{
    for (int b = 0; b < BUDGETS; b++) {
        size_t budget = (size_t)(budgets[b] * (double)plain->all);
        if (!all && (b + number / SEVERAL) % BUDGETS)
            continue;
        outcome with = run(number, NULL, budget);
        bool refused = with.least > 0;
        if (refused) {
            ck_assert_uint_gt(with.least, budget);
            budget = with.least;
            with = run(number, NULL, budget);
        }
        ck_assert_msg(!with.least, "%s: %zu bytes are refused, though they were said to do", case_of(number), budget);
        ck_assert_msg(with.state == plain->state, "%s: %zu bytes change bits", case_of(number), budget);
        ck_assert_msg(with.all <= budget, "%s: %zu bytes are planned, not %zu", case_of(number), with.all, budget);
        if (refused)
            return;
    }
}

START_TEST(no_bit_changes)
{
    bool all = getenv("BT_TEST_ALL") != NULL;
    kind = (net_kind)(_i / WAYS / METHODS);
    if (!all && (kind == RESNET || kind == CELL) && _i % WAYS != _i / WAYS % WAYS)
        return; /* these take long, */
    if (!all && kind == CELL && _i / WAYS % 3)
        return; /* and searches take even longer in these */
    if (!all && _i % WAYS == WAYS - 1 && _i / WAYS % SEVERAL)
        return; /* the last method is much like the others */
    known = __real_bt_known_new();
    ck_assert_ptr_nonnull(known);
    outcome plain = run(_i, NULL, 0);
    ck_assert_int_eq(plain.again, 0);
    /* A loop only holds cuts if a policy asks for cuts, and what each iteration computes from them may be slightly
     * more. */
    size_t slack = strstr(case_of(_i), "iterations") || strstr(case_of(_i), "rank") ? plain.bound / 100 : 0;
    /* Policies choose before a device's elementwise steps are joined in chains, which may save a value of the peak
     * without the policy and none of the peak with it. */
    if (getenv("BETTY_TEST_BACKEND"))
        slack += ROWS * WIDTH * sizeof(double);
    for (int p = 0; p < POLICIES; p++) {
        if (!all && (p + _i) % PART)
            continue;
        outcome with = run(_i, &policies[p], 0);
        const char *what = policies[p].regions ? "bt_checkpoint and " : "";
        ck_assert_msg(with.state == plain.state, "%s: %s%s changes bits", case_of(_i), what, policies[p].value);
        ck_assert_msg(with.bound <= plain.bound + slack, "%s%s: %zu bytes, without it %zu", what, policies[p].value,
                      with.bound, plain.bound);
    }
    if (all || (kind == MLP && _i % (2 * SEVERAL) == 0))
        try_budgets(_i, &plain, all);
    __real_bt_known_free(known);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpointing");
    TCase *bits = tcase_create("bits");
    tcase_set_timeout(bits, 600);
    tcase_add_loop_test(bits, no_bit_changes, 0, CASES);
    suite_add_tcase(suite, bits);
    return run_suite(suite);
}
