/* tests/engine/test_profile.c: profiles show rerun launches: in the table, in profile.json, and marked in --info. These
 * are exactly the launches that the same run without checkpointing does not make. */
#include "decayed.h"
#include "resumable.h"

#include "engine/output/json.h"
#include "engine/output/profile.h"
#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <string.h>

enum { SIDE = 8, STEPS = 2 };

static bt_dataset *images(bt_problem *self) { return (void)self, decayed_images(SIDE); }

static const bt_problem_def upper = DECAYED_UPPER(images), lower = DECAYED_LOWER(images, decayed_resnet);
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static bt_engine *engine_of(const char *checkpointing)
{
    char lines[512];
    snprintf(lines, sizeof lines,
             "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\nlower.type = darts\n"
             "lower.batch_size = 12\nupper.batch_size = 12\nengine.threads = 1\nlower.checkpointing = %s\n",
             checkpointing);
    bt_engine *engine = levels_engine(&parts, NULL, lines);
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    return engine;
}

typedef struct launches { /* of convolutions */
    int64_t all, again;
    double seconds; /* of all rerun kernels */
} launches;

/* Writes profile.json to the current folder, and the table to `table`. */
static launches profiled(const char *checkpointing, char *table, size_t room)
{
    bt_engine *engine = engine_of(checkpointing);
    bt_profile *profile = engine->context.instance->profile = bt_profile_new();
    levels_step(engine, STEPS);
    launches sum = {0};
    int64_t count;
    const bt_profile_row *row = bt_profile_rows(profile, &count);
    for (int64_t i = 0; i < count; i++) {
        const bool conv = strncmp(row[i].name, "conv", 4) == 0;
        sum.all += conv ? row[i].calls : 0;
        sum.again += conv && row[i].again ? row[i].calls : 0;
        sum.seconds += row[i].again ? row[i].seconds : 0;
    }
    const bt_profile_total total = {STEPS, 1};
    FILE *file = fopen("table", "w+");
    EXPECT_OK(bt_profile_print(profile, &total, file));
    rewind(file);
    table[fread(table, 1, room - 1, file)] = 0;
    fclose(file);
    EXPECT_OK(bt_profile_write(profile, &total, "."));
    engine->context.instance->profile = NULL;
    bt_profile_free(profile);
    bt_engine_free(engine);
    return sum;
}

START_TEST(what_runs_again)
{
    static char table[1 << 16];
    const launches plain = profiled("none", table, sizeof table);
    ck_assert_int_eq(plain.again, 0);
    ck_assert_ptr_null(strstr(table, "again"));
    const launches with = profiled("cost:200%", table, sizeof table);
    ck_assert_int_gt(with.again, 0);
    ck_assert_int_eq(with.all - plain.all, with.again);
    const char *head = strstr(table, "in kernels ("), *end = head ? strchr(head, '\n') : NULL;
    ck_assert_msg(head && strstr(head, "% of that again)") < end, "%s", table);
    const char *part = strstr(table, "lower, train step, gradient, ");
    ck_assert_msg(part && strstr(part, "% of that again\n"), "%s", table);

    json_t *all = json_load_file("profile.json", 0, NULL), *call;
    double seconds = 0;
    size_t i;
    json_array_foreach(json_object_get(all, "calls"), i, call) seconds +=
        json_is_true(json_object_get(call, "again")) ? bt_json_read_number(call, "seconds") : 0;
    ck_assert_double_eq_tol(bt_json_read_number(all, "again_seconds"), seconds, 1e-6 * seconds);
    ck_assert_double_eq_tol(with.seconds, seconds, 1e-6 * seconds);
    json_decref(all);
}
END_TEST

/* The number of marked calls is the number of rerun ones in the plan. */
START_TEST(marked_in_info)
{
    static char text[1 << 20];
    bt_engine *engine = engine_of("cost:200%");
    const bt_instance *instance = engine->context.instance;
    int64_t planned = 0, marked = 0;
    for (int64_t i = 0; i < instance->phase_count; i++)
        for (int64_t e = 0; e < instance->phases[i]->entry_count; e++)
            planned += instance->phases[i]->entries[e].program->again;
    FILE *file = fopen("info", "w+");
    EXPECT_OK(bt_engine_print(engine, BT_INFO, file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    for (const char *at = text; (at = strstr(at, " again\n")); at++)
        marked++;
    ck_assert_int_gt(planned, 0);
    ck_assert_int_eq(marked, planned);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine.profile");
    TCase *tests = tcase_create("profile");
    tcase_add_checked_fixture(tests, resumable_enter, resumable_leave);
    tcase_add_test(tests, what_runs_again);
    tcase_add_test(tests, marked_in_info);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
