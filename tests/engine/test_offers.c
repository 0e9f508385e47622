/* tests/engine/test_offers.c: suggestions of a single change if a budget cannot be met: each one, set by hand, fits and
 * has the announced bytes; changes that are not suggested do not fit. */
#include "decayed.h"

#include "engine/ablation/ablation.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8 };

static bt_dataset *images(bt_problem *self) { return (void)self, decayed_images(SIDE); }

static bt_tensor *as_rows(bt_tensor *x) { return bt_reshape(bt_adaptive_avg_pool2d(x, 1, 1), bt_dim(x, 0), -1); }

/* Its maps take more memory than its weights. */
static bt_module *net(bt_problem *self)
{
    (void)self;
    return bt_nn_sequential(bt_nn_conv2d(DECAYED_CHANNELS, 8, 3), bt_nn_fn(bt_gelu), bt_nn_conv2d(8, 8, 3),
                            bt_nn_fn(bt_gelu), bt_nn_fn(as_rows), bt_nn_linear(8, DECAYED_CLASSES));
}

static const bt_problem_def upper = DECAYED_UPPER(images), lower = DECAYED_LOWER(images, net);
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static char settings[1024];

static bt_status load(void *user, bt_engine *engine)
{
    (void)user;
    levels_fill(engine, &parts, NULL, settings);
    return bt_error_status();
}

static void set(const char *more, size_t budget)
{
    snprintf(settings, sizeof settings,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.batch_size = 12\n"
             "upper.batch_size = 12\nengine.threads = 1\nengine.precision = fp32\n%sengine.memory_budget = %zu\n",
             more, budget);
}

/* The planned bytes with these settings; 0: they do not fit. */
static size_t planned(const char *more, size_t budget)
{
    set(more, budget);
    bt_engine *engine = bt_engine_new();
    EXPECT_OK(load(NULL, engine));
    const bool fits = bt_engine_setup(engine) == BT_OK;
    const bt_memory_sizes sizes = fits ? bt_engine_planned(engine) : (bt_memory_sizes){0};
    bt_engine_free(engine);
    bt_error_clear();
    return sizes.arena + sizes.persistent;
}

static size_t least_of(const char *more)
{
    set(more, 1);
    bt_engine *engine = bt_engine_new();
    EXPECT_OK(load(NULL, engine));
    ck_assert_int_eq(bt_engine_setup(engine), BT_ERROR_CONFIG);
    const char *found = strstr(bt_error(), "the smallest plan found needs ");
    ck_assert_msg(found != NULL, "%s", bt_error());
    const size_t least = (size_t)strtoull(found + strlen("the smallest plan found needs "), NULL, 10);
    bt_engine_free(engine);
    bt_error_clear();
    return least;
}

/* The suggestions; the caller frees the text. The failure is still pending when they are made. */
static bt_text offered(const char *more, size_t budget)
{
    const bt_ablation how = {.load = load, .plan = true};
    bt_text text = {0};
    set(more, budget);
    bt_engine *engine = bt_engine_new();
    EXPECT_OK(load(NULL, engine));
    ck_assert_int_eq(bt_engine_setup(engine), BT_ERROR_CONFIG);
    bt_offers *offers = bt_offers_new(engine);
    ck_assert_ptr_nonnull(offers);
    ck_assert_ptr_nonnull(strstr(bt_error(), "the smallest plan found needs "));
    ck_assert_ptr_null(engine->context.instance->arena);
    bt_engine_free(engine);
    bt_error_clear();
    EXPECT_OK(bt_offers_try(offers, &how, &text));
    bt_offers_free(offers);
    return text;
}

typedef struct change {
    const char *said, *lines;
} change;

static bool begins(bt_text *text, const char *with) { return strncmp(bt_text_get(text), with, strlen(with)) == 0; }

/* Checks that a change is suggested exactly if it fits by hand. */
static void expect_offers(const char *more, size_t budget, const change *changes, int count)
{
    bt_text text = offered(more, budget);
    bool any = false;
    for (int i = 0; i < count; i++) {
        char lines[512], due[300], bytes[32];
        snprintf(lines, sizeof lines, "%s%s", more, changes[i].lines);
        const size_t fits = planned(lines, budget);
        snprintf(due, sizeof due, fits ? "%s (%s)" : "%s", changes[i].said, bt_bytes_text(bytes, fits));
        ck_assert_msg(!strstr(bt_text_get(&text), changes[i].said) == !fits || begins(&text, "none of these"), "%s: %s",
                      changes[i].said, bt_text_get(&text));
        ck_assert_msg(!fits || strstr(bt_text_get(&text), due), "%s: %s", due, bt_text_get(&text));
        any = any || fits;
    }
    ck_assert_msg(!any || begins(&text, "each of these alone would fit"), "%s", bt_text_get(&text));
    bt_text_free(&text);
}

#define HALVED                                                                                                         \
    {                                                                                                                  \
        "gradient_accumulation = 2 for upper and lower, batch_size = 6",                                               \
            "upper.gradient_accumulation = 2\nupper.batch_size = 6\nlower.gradient_accumulation = 2\n"                 \
            "lower.batch_size = 6\n"                                                                                   \
    }
#define SGD                                                                                                            \
    {                                                                                                                  \
        "optimizer = sgd for upper and lower", "upper.optimizer = sgd\nlower.optimizer = sgd\n"                        \
    }
static const char adam[] = "lower.optimizer = adam\nupper.optimizer = adam\n";

START_TEST(what_fits)
{
    static const change changes[] = {HALVED, SGD};
    const size_t least = least_of(adam);
    expect_offers(adam, least - 64, changes, 2);
    expect_offers(adam, least * 3 / 4, changes, 2);
}
END_TEST

/* A stronger value is not suggested if a weaker one is enough. */
START_TEST(the_weakest_of_a_key)
{
    bt_text text = offered(adam, least_of(adam) - 64);
    ck_assert_msg(strstr(bt_text_get(&text), "gradient_accumulation = 2 ") != NULL, "%s", bt_text_get(&text));
    ck_assert_ptr_null(strstr(bt_text_get(&text), "gradient_accumulation = 4 "));
    bt_text_free(&text);
}
END_TEST

START_TEST(nothing_fits)
{
    bt_text text = offered(adam, 1000);
    ck_assert_msg(begins(&text, "none of these would fit"), "%s", bt_text_get(&text));
    bt_text_free(&text);
}
END_TEST

/* A change that a budget could make by itself is suggested if a key prevents it. */
START_TEST(left_to_the_budget)
{
    static const char itd[] = "lower.type = itd\nlower.unroll_steps = 9\nlower.lr = 0.1\n";
    static const change spaced[] = {{"itd_spacing = auto for lower, itd_states not set", "lower.itd_spacing = auto\n"}};
    expect_offers(itd, least_of(itd) - 64, spaced, 1);
    static const char held[] = "lower.checkpointing = none\n";
    const size_t least = least_of(held), fits = planned("", least - 64);
    char due[100], bytes[32];
    ck_assert_uint_gt(fits, 0);
    snprintf(due, sizeof due, "checkpointing not set for lower (%s)", bt_bytes_text(bytes, fits));
    bt_text text = offered(held, least - 64);
    ck_assert_msg(strstr(bt_text_get(&text), due) != NULL, "%s: %s", due, bt_text_get(&text));
    bt_text_free(&text);
    text = offered("lower.type = itd\nlower.unroll_steps = 9\nlower.itd_spacing = auto\n", 1000);
    ck_assert_ptr_null(strstr(bt_text_get(&text), "itd_spacing = "));
    ck_assert_ptr_null(strstr(bt_text_get(&text), "checkpointing"));
    bt_text_free(&text);
}
END_TEST

/* Other failures are not blamed on the budget, even a tight one. */
START_TEST(other_failures)
{
    static const char itd[] = "lower.type = itd\nlower.unroll_steps = 9\nlower.itd_spacing = auto\n";
    char more[200];
    const size_t least = least_of(itd);
    snprintf(more, sizeof more, "%slower.no_such_key = 1\n", itd);
    set(more, least);
    bt_engine *engine = bt_engine_new();
    EXPECT_OK(load(NULL, engine));
    ck_assert_int_eq(bt_engine_setup(engine), BT_ERROR_CONFIG);
    ck_assert_ptr_null(bt_offers_new(engine));
    ck_assert_ptr_nonnull(strstr(bt_error(), "no_such_key"));
    bt_engine_free(engine);
    bt_error_clear();
    ck_assert_ptr_null(bt_offers_new(NULL));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.offers");
    TCase *tests = tcase_create("offers");
    tcase_add_test(tests, what_fits);
    tcase_add_test(tests, the_weakest_of_a_key);
    tcase_add_test(tests, nothing_fits);
    tcase_add_test(tests, left_to_the_budget);
    tcase_add_test(tests, other_failures);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
