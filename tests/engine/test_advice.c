/* Messages that suggest a setting: following the suggestion literally makes the run work, removes the message, and
 * gives the right hypergradient. */
#include "levels.h"

#include "engine/config/keys.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static bt_dataset *rows_of(bt_problem *self)
{
    static const double x[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    (void)self;
    bt_dataset *data = bt_dataset_new(10);
    bt_dataset_add(data, "x", BT_ARRAY(x, 10));
    return data;
}

static bt_module *two(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(2)); }
static bt_tensor *of(bt_problem *self, const char *name) { return bt_forward(bt_peer(self, name)); }
static bt_tensor *half(bt_tensor *a, bt_tensor *b) { return bt_sub(bt_mul(0.5, bt_square(a)), bt_mul(a, b)); }

/* top t, bottom w, mid z: C_bottom = w^2/2 - t w, C_mid = z^2/2 - w z, C_top = z^2/2. All start at the solution for t =
 * 2, and dF/dt = z = 2. */
static bt_tensor *bottom_step(bt_problem *self, const bt_batch *batch)
{
    return (void)batch, half(of(self, "bottom"), of(self, "top"));
}

static bt_tensor *mid_step(bt_problem *self, const bt_batch *batch)
{
    return (void)batch, half(of(self, "mid"), of(self, "bottom"));
}

static bt_tensor *top_step(bt_problem *self, const bt_batch *batch)
{
    return (void)batch, bt_mul(0.5, bt_square(of(self, "mid")));
}

/* Without mid: the same value. */
static bt_tensor *short_step(bt_problem *self, const bt_batch *batch)
{
    return (void)batch, bt_mul(0.5, bt_square(of(self, "bottom")));
}

/* The score-function gradient: x are draws from N(t, 1), and the reward x w has no derivative in t. With w = t = 2 it
 * is -mean(x w (x - t)) = -2 (38.5 - 2 * 5.5) = -55. */
static bt_tensor *score_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_field(batch, "x");
    bt_tensor *log_probability = bt_mul(-0.5, bt_square(bt_sub(x, bt_forward(self))));
    bt_tensor *reward = bt_mul(x, of(self, "bottom"));
    return bt_neg(bt_mean(bt_mul(bt_detach(reward), log_probability)));
}

#define PROBLEM(id, name_, step)                                                                                       \
    static const bt_problem_def id = {.name = (name_),                                                                 \
                                      .configure_train_data = rows_of,                                                 \
                                      .configure_module = two,                                                         \
                                      .configure_valid_data = rows_of,                                                 \
                                      .validation_step = (step),                                                       \
                                      .training_step = (step)}
PROBLEM(top, "top", top_step);
PROBLEM(mid, "mid", mid_step);
PROBLEM(bottom, "bottom", bottom_step);
PROBLEM(short_top, "top", short_step);
PROBLEM(score_top, "top", score_step);
static const bt_export chain = {.abi = BT_ABI, .problems = {&top, &mid, &bottom}};
static const bt_export pair = {.abi = BT_ABI, .problems = {&short_top, &bottom}};
static const bt_export score = {.abi = BT_ABI, .problems = {&score_top, &bottom}};

#define LINKED       "dependencies.u2l = top > bottom\ndependencies.l2u = bottom > top\n"
#define LINKED_CHAIN "dependencies.u2l = top > bottom, bottom > mid\ndependencies.l2u = mid > top\n"

static const struct {
    const bt_export *parts;
    const char *lines, *message, *advice; /* advice: a part of the message */
    const char *followed;                 /* the settings to add */
    double value;                         /* of the hypergradient of top; 0: do not ask for it */
} cases[] = {
    {&chain, "dependencies.u2l = top > bottom\ndependencies.l2u = bottom > mid, mid > top\n",
     "mid does not reach bottom through u2l", "u2l = top > bottom, bottom > mid and l2u = mid > top",
     "dependencies.u2l = top > bottom, bottom > mid\ndependencies.l2u = mid > top\n", 2},
    {&chain, LINKED_CHAIN "bottom.unroll_steps = 2\n", "unroll_steps = 2 has no effect", "add bottom > top to l2u",
     "dependencies.l2u = mid > top, bottom > top\n", 2},
    {&chain, LINKED_CHAIN "bottom.warmup_steps = 2\n", "warmup_steps = 2 has no effect", "add bottom > top to l2u",
     "dependencies.l2u = mid > top, bottom > top\n", 2},
    {&pair, "dependencies.l2u = bottom > top\n", "its hypergradient would be zero", "add top > bottom to u2l",
     "dependencies.u2l = top > bottom\n", 2},
    {&pair, "dependencies.u2l = top > bottom\n", "no solution reaches its loss", "l2u = LOWER > top",
     "dependencies.l2u = bottom > top\n", 2},
    {&pair, LINKED "bottom.meta_batch = 2\n", "no solution reaches bottom", "set gradient_accumulation",
     "bottom.meta_batch = 1\nbottom.gradient_accumulation = 2\n", 2},
    {&pair, LINKED "bottom.detach = follow\nbottom.product = vjp\n", "vjp cannot give", "use jvp or finite",
     "bottom.product = jvp\n", 2},
    {&pair, LINKED "bottom.detach = follow\nbottom.product = vjp\n", "vjp cannot give", "use jvp or finite",
     "bottom.product = finite\n", 2},
    {&pair, LINKED "bottom.detach = field\nbottom.product = finite\n", "needs an exact product", "use vjp",
     "bottom.product = vjp\n", 2},
    {&pair, LINKED "bottom.type = itd\nbottom.unroll_steps = 2000000000\n", "would record every step", "set itd_steps",
     "bottom.itd_steps = 10\n", 0},
    {&pair, LINKED "engine.early_stopping = true\n", "needs a validation", "set valid_step",
     "engine.valid_step = 1\nengine.early_stopping_metric = top.loss\n", 2},
    {&pair, LINKED "bottom.scheduler = step\n", "needs scheduler_step_size", "scheduler_step_size",
     "bottom.scheduler_step_size = 3\n", 2},
    {&pair, LINKED "bottom.scheduler = multistep\n", "needs scheduler_milestones", "scheduler_milestones",
     "bottom.scheduler_milestones = 3\n", 2},
    {&pair, LINKED "bottom.nesterov = true\n", "nesterov = 1 needs", "momentum above 0", "bottom.momentum = 0.9\n", 2},
    {&pair, LINKED "bottom.some.lr = 1\n", "needs params", "params = *.bias", "bottom.some.params = *\n", 2},
    {&pair, LINKED "bottom.darts_alpha = 0.1\n", "darts_alpha = 0.1 has no effect", "product = finite",
     "bottom.product = finite\n", 2},
    {&pair, LINKED "bottom.scheduler_gamma = 0.5\n", "scheduler_gamma = 0.5 has no effect", "scheduler = step",
     "bottom.scheduler = step\nbottom.scheduler_step_size = 3\n", 2},
    {&pair, LINKED "bottom.scheduler_eta_min = 0.1\n", "scheduler_eta_min = 0.1 has no effect", "scheduler = cosine",
     "bottom.scheduler = cosine\n", 2},
    {&pair, LINKED "bottom.first_order = false\n", "not supported", "type = itd",
     "bottom.first_order = true\nbottom.type = itd\n", 0},
    {&pair, LINKED "bottom.scheduler = linear_warmup\n", "not supported", "scheduler_warmup",
     "bottom.scheduler = none\nbottom.scheduler_warmup = 2\n", 2},
};

/* Whether a run with these settings succeeds; its error and warnings go to `said`. NULL: do not ask for the
 * hypergradient of top. */
static bool runs(const bt_export *parts, const char *lines, bt_text *said, double *value)
{
    bt_engine *engine = levels_engine(parts, NULL, lines);
    bt_status status = engine ? bt_engine_setup(engine) : BT_ERROR_CONFIG;
    if (status == BT_OK)
        bt_text_add(said, "%s", bt_text_get(&engine->context.warnings));
    if (status == BT_OK)
        status = bt_engine_run(engine);
    if (status == BT_OK && value)
        status = bt_hypergradient(bt_engine_problem(engine, "top"), BT_ARRAY(value, 1));
    bt_text_add(said, "%s", bt_error());
    bt_error_clear();
    bt_engine_free(engine);
    return status == BT_OK;
}

START_TEST(is_right)
{
    const char *first = "engine.train_iters = 4\nengine.log_step = 0\nbottom.lr = 0.5\ntop.lr = 0\n";
    char lines[1000];
    bt_text before = {0}, after = {0};
    double value = NAN, due = cases[_i].value;
    snprintf(lines, sizeof lines, "%s%s", first, cases[_i].lines);
    runs(cases[_i].parts, lines, &before, NULL);
    ck_assert_msg(strstr(bt_text_get(&before), cases[_i].message), "%s%s", lines, bt_text_get(&before));
    ck_assert_msg(strstr(bt_text_get(&before), cases[_i].advice), "%s%s", lines, bt_text_get(&before));
    snprintf(lines, sizeof lines, "%s%s%s", first, cases[_i].lines, cases[_i].followed);
    ck_assert_msg(runs(cases[_i].parts, lines, &after, due != 0 ? &value : NULL), "%s%s", lines, bt_text_get(&after));
    ck_assert_msg(!strstr(bt_text_get(&after), cases[_i].message), "%s%s", lines, bt_text_get(&after));
    ck_assert_msg(!strstr(bt_text_get(&after), "hypergradient"), "%s%s", lines, bt_text_get(&after));
    ck_assert_msg(due == 0 || fabs(value - due) < 1e-6, "%s%.15g", lines, value);
    bt_text_free(&before);
    bt_text_free(&after);
}
END_TEST

/* type = reinforce: its suggested replacement is right, and the solution contributes nothing else. */
START_TEST(a_score_function)
{
    static const char lines[] = LINKED "engine.train_iters = 4\nbottom.lr = 0.5\ntop.lr = 0\nbottom.type = ";
    char all[200];
    double value = NAN;
    bt_text said = {0};
    snprintf(all, sizeof all, "%sreinforce\n", lines);
    ck_assert(!runs(&score, all, &said, NULL));
    ck_assert_msg(strstr(bt_text_get(&said), "bt_mul(bt_detach(reward), log_probability)"), "%s", bt_text_get(&said));
    bt_text_free(&said);
    snprintf(all, sizeof all, "%sdarts\n", lines);
    ck_assert_msg(runs(&score, all, &said, &value), "%s", bt_text_get(&said));
    ck_assert_msg(strstr(bt_text_get(&said), "so no part of its hypergradient comes through them"), "%s",
                  bt_text_get(&said));
    ck_assert_double_eq_tol(value, -55, 1e-9);
    bt_text_free(&said);
}
END_TEST

/* Words from other programs: each message ends with the words to use, and these are accepted. */
START_TEST(words_to_use)
{
    for (const bt_key *key = bt_keys; key->name; key++) {
        const char *rest = key->refused, *word;
        size_t length;
        while (rest && (word = bt_word_next(&rest, '|', &length)) != NULL) {
            if (!key->words) /* names of methods and optimisers are defined by the configuration */
                continue;
            char text[100], instead[100];
            int64_t field[2 + BT_MAX_ITEMS];
            snprintf(text, sizeof text, "%.*s", (int)length, word);
            ck_assert_int_ne(bt_key_parse(key, NULL, text, field), BT_OK);
            const char *use = strstr(bt_error(), "; use ");
            ck_assert_msg(use != NULL, "%s", bt_error());
            snprintf(instead, sizeof instead, "%.*s", (int)strcspn(use + 6, " |"), use + 6);
            bt_error_clear();
            ck_assert_msg(bt_key_parse(key, NULL, instead, field) == BT_OK, "%s = %s", key->name, instead);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("advice");
    TCase *tests = tcase_create("advice");
    tcase_add_loop_test(tests, is_right, 0, BT_COUNT_OF(cases));
    tcase_add_test(tests, a_score_function);
    tcase_add_test(tests, words_to_use);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
