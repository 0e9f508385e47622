/* tests/engine/test_traced.c: callbacks are called once for each batch shape, however many programs use their losses,
 * and nodes know the level whose module recorded them. */
#include "levels.h"

#include "engine/session/session.h"
#include "engine/solve/methods.h"
#include "ops/ops.h"
#include "support/suite.h"
#include "transform/grad.h"
#include <string.h>

enum { ROWS = 10, BATCH = 4, SHORT = ROWS % BATCH }; /* batches of 4, 4 and 2 rows */

typedef struct calls { /* for one problem: by the number of examples in the batch */
    int step[BATCH + 1], valid[BATCH + 1], condition[BATCH + 1];
} calls;
static calls lower, upper;
static int64_t scale = 1; /* a static int */

static calls *of(bt_problem *self) { return self == bt_peer(self, "classifier") ? &lower : &upper; }

static int64_t scale_now(bt_problem *self) { return (void)self, scale; }

static bt_dataset *rows(bt_problem *self)
{
    double x[ROWS][2], y[ROWS];
    (void)self;
    for (int r = 0; r < ROWS; r++) {
        x[r][0] = 0.1 * r - 0.4;
        x[r][1] = 0.3 - 0.05 * r;
        y[r] = 0.2 * r - 1;
    }
    bt_dataset *data = bt_dataset_new(ROWS);
    bt_dataset_add(data, "x", BT_ARRAY(&x[0][0], ROWS, 2));
    bt_dataset_add(data, "y", BT_ARRAY(y, ROWS));
    return data;
}

static bt_module *net(bt_problem *self) { return (void)self, bt_nn_mlp(bt_tanh, 2, 3, 1); }
static bt_module *weigher(bt_problem *self) { return (void)self, bt_nn_mlp(bt_tanh, 1, 2, 1); }

/* A weight between 0 and 1: only a part of it comes from the module. */
static bt_tensor *weigh(bt_problem *self, bt_tensor *const *in) { return bt_sigmoid(bt_forward(bt_net(self), in[0])); }

static bt_tensor *errors(bt_problem *classifier, const bt_batch *batch)
{
    bt_tensor *y = bt_reshape(bt_forward(classifier, bt_field(batch, "x")), -1);
    return bt_square(bt_sub(y, bt_field(batch, "y")));
}

/* The error of each row, with a weight that the upper problem learns from it. */
static bt_tensor *lower_loss(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *error = errors(self, batch);
    bt_tensor *weight = bt_reshape(bt_forward(bt_peer(self, "reweight"), bt_reshape(bt_detach(error), -1, 1)), -1);
    bt_tensor *decay = bt_mul(0.01 * (double)bt_static_int(self, "scale", scale_now), bt_norm_square(bt_params(self)));
    return bt_add(bt_mean(bt_mul(weight, error)), decay);
}

static bt_tensor *upper_loss(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(errors(bt_peer(self, "classifier"), batch));
}

static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    of(self)->step[bt_batch_count(batch)]++;
    return self == bt_peer(self, "classifier") ? lower_loss(self, batch) : upper_loss(self, batch);
}

static bt_tensor *valid(bt_problem *self, const bt_batch *batch)
{
    of(self)->valid[bt_batch_count(batch)]++;
    return bt_mean(errors(bt_peer(self, "classifier"), batch));
}

static bt_tensor *condition(bt_problem *self, const bt_batch *batch)
{
    of(self)->condition[bt_batch_count(batch)]++;
    return bt_grad(lower_loss(self, batch), bt_params(self));
}

#define PROBLEM(n, module, ...)                                                                                        \
    {                                                                                                                  \
        .name = n, .configure_train_data = rows, .configure_valid_data = rows, .configure_module = module,             \
        .training_step = step, .validation_step = valid, __VA_ARGS__                                                   \
    }
static const bt_problem_def classifier = PROBLEM("classifier", net, .forward = NULL),
                            conditioned = PROBLEM("classifier", net, .condition = condition),
                            reweight = PROBLEM("reweight", weigher, .forward = weigh);
static const bt_export parts = {.abi = BT_ABI, .problems = {&reweight, &classifier}};
static const bt_export conditioned_parts = {.abi = BT_ABI, .problems = {&reweight, &conditioned}};

static bt_engine *engine_of(const bt_export *of_parts, const char *lines)
{
    bt_text text = {0};
    memset(&lower, 0, sizeof lower);
    memset(&upper, 0, sizeof upper);
    scale = 1;
    bt_text_add(&text,
                "dependencies.u2l = reweight > classifier\ndependencies.l2u = classifier > reweight\n"
                "engine.train_iters = 4\nengine.valid_step = 1\nclassifier.batch_size = 4\nreweight.batch_size = 4\n"
                "classifier.optimizer = sgd\nclassifier.lr = 0.1\nreweight.optimizer = sgd\nreweight.lr = 0.1\n%s",
                lines);
    bt_engine *engine = levels_engine(of_parts, NULL, bt_text_get(&text));
    ck_assert_msg(engine != NULL, "%s\n%s", bt_error(), lines);
    bt_text_free(&text);
    return engine;
}

static void expect_calls(const char *what, const char *lines, const int *found, int full)
{
    ck_assert_msg(found[BATCH] == full, "%s\n%s: %d calls for the full batch, due %d", lines, what, found[BATCH], full);
    ck_assert_msg(found[SHORT] == 1, "%s\n%s: %d calls for the short batch", lines, what, found[SHORT]);
}

static void expect(const char *lines, int full)
{
    expect_calls("classifier, training_step", lines, lower.step, full);
    expect_calls("reweight, training_step", lines, upper.step, full);
    expect_calls("classifier, validation_step", lines, lower.valid, full);
    expect_calls("reweight, validation_step", lines, upper.valid, full);
}

/* One call for each batch shape; the calls for full batches are repeated for checking at steps 2 and 3. */
static void walk(const char *lines)
{
    bt_engine *engine = engine_of(&parts, lines);
    levels_step(engine, 1);
    expect(lines, 1);
    levels_step(engine, 2);
    expect(lines, 1 + 2);
    bt_engine_free(engine);
}

static const char *const products[] = {
    "product = jvp\nclassifier.detach = frozen",    "product = jvp\nclassifier.detach = follow",
    "product = vjp\nclassifier.detach = frozen",    "product = vjp\nclassifier.detach = field",
    "product = finite\nclassifier.detach = frozen", "product = finite\nclassifier.detach = follow"};
static const char *const micros[] = {
    "gradient_accumulation = 1",
    "gradient_accumulation = 2\nreweight.gradient_accumulation = 3\nclassifier.product_batches = last",
    "gradient_accumulation = 2\nclassifier.product_batches = all"};
enum { CASES = sizeof products / sizeof *products * sizeof micros / sizeof *micros };

START_TEST(one_call_for_each_shape)
{
    for (int m = 0; bt_method_builtin(m) != &bt_method_none; m++) { /* the last method asks for nothing */
        bt_text lines = {0};
        bt_text_add(&lines, "classifier.type = %s\nclassifier.%s\nclassifier.%s\nengine.precision = %s\n",
                    bt_method_builtin(m)->name, products[_i % 6], micros[_i / 6], _i % 2 ? "fp32" : "fp64");
        walk(bt_text_get(&lines));
        bt_text_free(&lines);
    }
}
END_TEST

/* Products use the condition; steps still follow the loss. */
START_TEST(conditions)
{
    static const char *const types[] = {"darts", "cg", "neumann"};
    for (int k = 0; k < 3; k++) {
        bt_text lines = {0};
        bt_text_add(&lines, "classifier.type = %s\n", types[k]);
        bt_engine *engine = engine_of(&conditioned_parts, bt_text_get(&lines));
        levels_step(engine, 1);
        expect(bt_text_get(&lines), 1);
        expect_calls("condition", bt_text_get(&lines), lower.condition, 1);
        levels_step(engine, 2);
        expect_calls("condition", bt_text_get(&lines), lower.condition, 1 + 2);
        bt_engine_free(engine);
        bt_text_free(&lines);
    }
}
END_TEST

/* A static int recompiles all programs, with one more call for each. */
START_TEST(made_anew)
{
    bt_engine *engine = engine_of(&parts, "classifier.type = cg\n");
    levels_step(engine, 1);
    scale = 3;
    memset(&lower, 0, sizeof lower);
    memset(&upper, 0, sizeof upper);
    ck_assert_int_eq(bt_update_scalars(&engine->context), BT_OK);
    expect("scale = 3", 1);
    bt_engine_free(engine);
}
END_TEST

/* ---- levels ---- */

static int seen[2][2]; /* nodes of modules: by owner; forward, derivatives */

static void look(const bt_graph *graph)
{
    memset(seen, 0, sizeof seen);
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        bool theirs = strncmp(node->tag.path, "reweight", strlen("reweight")) == 0;
        if (node->op == &bt_op_read || node->op == &bt_op_constant || (!*node->tag.path && node->tag.order))
            continue;
        theirs |= node->op == &bt_op_sigmoid;
        ck_assert_str_eq(node->tag.owner, "classifier");
        ck_assert_msg(strcmp(node->tag.level, theirs ? "reweight" : "classifier") == 0, "%s at `%s` is of `%s`",
                      node->op->name, node->tag.path, node->tag.level);
        seen[theirs][node->tag.order > 0] += *node->tag.path != 0;
    }
}

static void differentiate(bt_problem *problem, bt_graph *graph, bt_tensor *loss)
{
    bt_tensor **w = bt_graph_list(graph, problem->module->param_count),
              **result = bt_graph_list(graph, problem->module->param_count), *one = bt_number(1, loss->dtype);
    bt_problem_params(problem, w);
    bt_vjp(graph, &loss, &one, 1, w, (int)problem->module->param_count, result, false);
}

START_TEST(nodes_know_their_level)
{
    bt_engine *engine = engine_of(&parts, "classifier.type = darts\nclassifier.detach = follow\n");
    levels_step(engine, 1);
    bt_problem *problem = bt_engine_problem(engine, "classifier");
    look(bt_traced_graph(problem, BT_PURE_STEP));
    ck_assert(seen[0][0] && seen[1][0]);
    bt_graph *graph = bt_loss_trace(problem, &problem->step->micros.shapes[0], BT_TRACE_STEP, differentiate);
    ck_assert_msg(graph != NULL, "%s", bt_error());
    look(graph);
    ck_assert(seen[0][0] && seen[1][0] && seen[0][1]);
    bt_graph_free(graph);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("traced");
    TCase *tests = tcase_create("traced");
    tcase_add_loop_test(tests, one_call_for_each_shape, 0, CASES);
    tcase_add_test(tests, conditions);
    tcase_add_test(tests, made_anew);
    tcase_add_test(tests, nodes_know_their_level);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
