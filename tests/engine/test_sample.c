/* Text generation with a language model, compared with the probabilities of its logits; and perplexity. The model is a
 * table: for each token the logits of the next one. */
#include "levels.h"

#include "engine/session/front.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 4, WINDOW = 3 }; /* <unk>, a, b, c */

static double table[SIZE][SIZE];
static bt_tokenizer *letters;
static bool draws; /* the definition has `sample` */

static bt_module *net(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_array(BT_ARRAY(&table[0][0], SIZE, SIZE)), SIZE, SIZE);
}

static bt_dataset *pairs(bt_problem *self)
{
    static const int32_t token[] = {1, 2, 3, 1, 2}, next[] = {2, 3, 1, 1, 3};
    (void)self;
    bt_dataset *data = bt_dataset_new(5);
    bt_dataset_add(data, "token", BT_ARRAY((int32_t *)token, 5));
    bt_dataset_add(data, "next", BT_ARRAY((int32_t *)next, 5));
    return data;
}

static bt_tensor *losses(bt_problem *self, const bt_batch *batch)
{
    return bt_cross_entropy(bt_gather(bt_forward(self), bt_field(batch, "token")), bt_field(batch, "next"));
}

static bt_tensor *step(bt_problem *self, const bt_batch *batch) { return bt_mean(losses(self, batch)); }

static bt_tensor *valid(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = losses(self, batch);
    bt_metric(self, "perplexity", loss, BT_METRIC_PERPLEXITY);
    return bt_mean(loss);
}

/* The row of the last token. */
static bt_tensor *next(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *tokens = bt_reshape(bt_field(batch, "token"), -1);
    return bt_reshape(bt_gather(bt_forward(self), bt_gather(tokens, bt_field(batch, "last"))), -1);
}

static bt_status sample(bt_problem *self, const bt_sampling *how)
{
    return bt_sample_text(self, letters, next, WINDOW, how);
}

static const bt_problem_def model = {.name = "model",
                                     .configure_train_data = pairs,
                                     .configure_valid_data = pairs,
                                     .configure_module = net,
                                     .training_step = step,
                                     .validation_step = valid,
                                     .sample = sample};
static const bt_problem_def silent = {.name = "model",
                                      .configure_train_data = pairs,
                                      .configure_valid_data = pairs,
                                      .configure_module = net,
                                      .training_step = step,
                                      .validation_step = valid};
static const bt_export parts = {.abi = BT_ABI, .problems = {&model}};
static const bt_export silent_parts = {.abi = BT_ABI, .problems = {&silent}};

static char folder[64], *text;
static size_t size;

static void setup(void)
{
    strcpy(folder, "/tmp/betty-sample-XXXXXX");
    ck_assert(mkdtemp(folder) && chdir(folder) == 0);
    letters = bt_tokenizer_characters("abc", -1);
    ck_assert_int_eq(bt_tokenizer_size(letters), SIZE);
    memset(table, 0, sizeof table);
    draws = true;
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    bt_tokenizer_free(letters);
    free(text);
    text = NULL;
    ck_assert(chdir("/") == 0 && system(command) == 0);
}

static bt_engine *engine_with(const char *settings)
{
    return levels_engine(draws ? &parts : &silent_parts, NULL, settings);
}

static bt_status ask(const char *settings, bt_sampling how)
{
    bt_engine *engine = engine_with(settings);
    EXPECT_OK(bt_engine_setup(engine));
    free(text);
    how.file = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(how.file);
    bt_status status = bt_sample_text(bt_engine_problem(engine, "model"), letters, next, WINDOW, &how);
    fclose(how.file);
    bt_engine_free(engine);
    return status;
}

START_TEST(the_most_likely_one)
{
    table[1][2] = table[2][3] = table[3][1] = 1;
    EXPECT_OK(ask("", (bt_sampling){.text = "a", .tokens = 7}));
    ck_assert_str_eq(text, "abcabcab\n");
    EXPECT_OK(ask("", (bt_sampling){.text = "abcabc", .tokens = 2})); /* longer than the window */
    ck_assert_str_eq(text, "abcabcab\n");
    EXPECT_OK(ask("", (bt_sampling){.text = "b", .tokens = 3, .temperature = 5, .top = 1}));
    ck_assert_str_eq(text, "bcab\n");
    EXPECT_OK(ask("", (bt_sampling){.text = "ca"}));
    ck_assert_str_eq(text, "ca\n");
}
END_TEST

/* Every token has the same row, so draws are independent: frequencies within four standard deviations. */
START_TEST(shares_of_what_is_drawn)
{
    enum { TOKENS = 4000 };
    static const double logits[SIZE] = {-INFINITY, 0.3, -0.9, 1.2};
    const double temperature = 1.7;
    const int64_t top = _i ? 2 : 0; /* c and a */
    double sum = 0, count[SIZE] = {0};
    for (int t = 0; t < SIZE; t++)
        for (int k = 0; k < SIZE; k++)
            table[t][k] = k ? logits[k] : -1e4;
    EXPECT_OK(ask("", (bt_sampling){.text = "a", .tokens = TOKENS, .temperature = temperature, .top = top}));
    ck_assert_uint_eq(strlen(text), TOKENS + 2);
    for (int i = 1; i <= TOKENS; i++)
        count[text[i] - 'a' + 1]++;
    for (int k = 1; k < SIZE; k++)
        sum += top && k == 2 ? 0 : exp(logits[k] / temperature);
    for (int k = 1; k < SIZE; k++) {
        const double share = (top && k == 2 ? 0 : exp(logits[k] / temperature)) / sum;
        const double deviation = sqrt(share * (1 - share) / TOKENS);
        ck_assert_double_le(fabs(count[k] / TOKENS - share), 4 * deviation);
    }
}
END_TEST

START_TEST(by_the_seed)
{
    const bt_sampling how = {.text = "a", .tokens = 40, .temperature = 1};
    EXPECT_OK(ask("engine.seed = 3", how));
    char *first = strdup(text);
    EXPECT_OK(ask("engine.seed = 3", how));
    ck_assert_str_eq(text, first);
    EXPECT_OK(ask("engine.seed = 4", how));
    ck_assert_str_ne(text, first);
    free(first);
}
END_TEST

static void refused(bt_status status, const char *word)
{
    ck_assert_msg(status != BT_OK && strstr(bt_error(), word) != NULL, "%d: %s", status, bt_error());
    bt_error_clear();
}

START_TEST(what_cannot_be)
{
    refused(ask("", (bt_sampling){.text = "", .tokens = 1}), "no tokens");
    refused(ask("", (bt_sampling){.text = "a", .tokens = -1}), "tokens");
    refused(ask("", (bt_sampling){.text = "a", .tokens = 1, .temperature = -1}), "temperature");
    table[1][2] = NAN;
    refused(ask("", (bt_sampling){.text = "a", .tokens = 1}), "token 2 is nan");
}
END_TEST

static bt_status of_run(const char *level)
{
    bt_engine *engine = engine_with("model.lr = 0.5");
    free(text);
    FILE *file = open_memstream(&text, &size);
    bt_status status = bt_engine_sample(engine, "run", level, &(bt_sampling){.text = "a", .tokens = 4, .file = file});
    fclose(file);
    bt_engine_free(engine);
    return status;
}

/* After training, the table gives the successor: initially a and b follow a equally often, then b; see pairs. */
START_TEST(of_a_run)
{
    table[1][2] = 0.01;
    bt_engine *engine = engine_with("engine.train_iters = 50\nengine.output = run\nmodel.lr = 0.5\n");
    levels_run(engine);
    bt_engine_free(engine);
    memset(table, 0, sizeof table);
    EXPECT_OK(of_run(NULL));
    ck_assert_str_eq(text, "abcab\n");
    EXPECT_OK(of_run("model"));
    refused(of_run("other"), "no such level");
    draws = false;
    refused(of_run(NULL), "no level of the run generates text");
}
END_TEST

START_TEST(perplexity)
{
    static const int token[] = {1, 2, 3, 1, 2}, after[] = {2, 3, 1, 1, 3};
    double sum = 0, found;
    for (int t = 0; t < SIZE; t++)
        for (int k = 0; k < SIZE; k++)
            table[t][k] = sin(3 * t + k);
    for (int i = 0; i < 5; i++) {
        double all = 0;
        for (int k = 0; k < SIZE; k++)
            all += exp(table[token[i]][k]);
        sum += log(all) - table[token[i]][after[i]];
    }
    bt_engine *engine =
        engine_with("engine.train_iters = 1\nengine.valid_step = 1\nmodel.lr = 0\nmodel.valid_batch_size = 2\n");
    levels_run(engine);
    found = bt_engine_metric(engine, "model.valid.perplexity");
    ck_assert_double_le(fabs(found - exp(sum / 5)), 1e-12);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sample");
    TCase *tests = tcase_create("sample");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_most_likely_one);
    tcase_add_loop_test(tests, shares_of_what_is_drawn, 0, 2);
    tcase_add_test(tests, by_the_seed);
    tcase_add_test(tests, what_cannot_be);
    tcase_add_test(tests, of_a_run);
    tcase_add_test(tests, perplexity);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
