/* tests/engine/test_ablation.c: the rows of --ablate: which rows exist, and what they plan, measure and compute. */
#include "resumable.h"
#include "ridge.h"

#include "engine/ablation/ablation_inside.h"
#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- which rows ---- */

static void expect_rows(const bt_choice *choices, int64_t count, const char *const *names, const char *const *changes)
{
    bt_ablation_rows rows;
    EXPECT_OK(bt_rows_make(choices, count, &rows));
    for (int64_t i = 0; i < rows.count; i++) {
        char found[32] = "";
        ck_assert_ptr_nonnull(names[i]);
        ck_assert_str_eq(rows.list[i].name, names[i]);
        for (int64_t c = 0; c < rows.list[i].count; c++)
            snprintf(found + strlen(found), sizeof found - strlen(found), "%d",
                     (int)(rows.list[i].choices[c] - choices));
        ck_assert_str_eq(found, changes[i]);
    }
    ck_assert_ptr_null(names[rows.count]);
    bt_rows_free(&rows);
}

START_TEST(alone_and_together)
{
    static const bt_choice choices[] = {
        {"upper", "size", "2", "", "", false, 0, 0},     {"upper", "size", "4", "", "", false, 0, 0},
        {"upper", "ahead", "false", "", "", true, 0, 0}, {"lower", "size", "2", "batch", "50", false, 0, 0},
        {"lower", "again", "1", "", "", true, 0, 0},
    };
    static const char *const names[] = {
        "as configured",        "upper: size = 2",  "lower: size = 2",        "all levels: size = 2", "upper: size = 4",
        "upper: ahead = false", "lower: again = 1", "all that change no bit", "everything",           NULL};
    static const char *const changes[] = {"", "0", "3", "03", "1", "2", "4", "24", "1234"};
    expect_rows(choices, 5, names, changes);
    static const char *const one[] = {"as configured", "upper: size = 2", NULL};
    expect_rows(choices, 1, one, changes); /* by itself it is the whole configuration */
    expect_rows(choices, 0, (const char *const[]){"as configured", NULL}, changes);
}
END_TEST

START_TEST(not_both_together)
{
    static const bt_choice choices[] = {
        {"lower", "far", "3", "few", "", true, 0, 0},
        {"lower", "few", "2", "far", "", true, 0, 0},
        {"other", "far", "3", "few", "", true, 0, 0},
    };
    static const char *const names[] = {"as configured",
                                        "lower: far = 3",
                                        "other: far = 3",
                                        "all levels: far = 3",
                                        "lower: few = 2",
                                        "all that change no bit",
                                        NULL};
    static const char *const changes[] = {"", "0", "2", "02", "1", "12"};
    expect_rows(choices, 3, names, changes);
}
END_TEST

/* ---- whole tables ---- */

typedef struct world { /* in memory shared with children */
    ridge data;
    char settings[400];
    int leaks;          /* the row whose set-up allocates unplanned memory; 0: none */
    int loads, stop_at; /* rows started so far; the one that stops everything */
    volatile sig_atomic_t stop;
} world;

static world *shared;

static void enter(void)
{
    resumable_enter();
    shared = resumable_shared(sizeof *shared);
    shared->data = ridge_data();
}

static bt_status load(void *user, bt_engine *engine)
{
    world *w = user;
    ridge_fill(engine, &w->data, w->settings);
    if (++w->loads == w->leaks)
        ck_assert_ptr_nonnull(bt_alloc_aligned(4096));
    w->stop = w->loads == w->stop_at;
    while (w->stop)
        pause();
    return bt_error_status();
}

static bt_status ablate(const char *settings, const char *level, bool plan, json_t **all)
{
    FILE *out = fopen("out", "w");
    remove("folder/ablation.json");
    snprintf(shared->settings, sizeof shared->settings, "engine.threads = 1\n%s", settings);
    const bt_ablation ablation = {.load = load,
                                  .user = shared,
                                  .level = level,
                                  .folder = "folder",
                                  .steps = 8,
                                  .plan = plan,
                                  .json = true,
                                  .out = out,
                                  .stop = &shared->stop};
    bt_status status = bt_ablate(&ablation);
    fclose(out);
    *all = json_load_file("folder/ablation.json", 0, NULL);
    json_t *printed = json_load_file("out", 0, NULL);
    ck_assert(json_equal(*all, printed) || (!*all && !printed));
    json_decref(printed);
    return status;
}

static const json_t *row_of(const json_t *all, const char *name)
{
    const json_t *rows = json_object_get(all, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (strcmp(bt_json_read_text(json_array_get(rows, i), "row"), name) == 0)
            return json_array_get(rows, i);
    ck_abort_msg("there is no row %s", name);
    return NULL;
}

static void expect_names(const json_t *all, const char *const *names)
{
    const json_t *rows = json_object_get(all, "rows");
    size_t count = 0;
    for (; names[count]; count++)
        ck_assert_str_eq(bt_json_read_text(json_array_get(rows, count), "row"), names[count]);
    ck_assert_uint_eq(json_array_size(rows), count);
}

/* The plan of the same settings, written out by hand. */
static void expect_plan(const json_t *all, const char *name, const char *settings)
{
    char whole[600];
    snprintf(whole, sizeof whole, "%s%s", shared->settings, settings);
    bt_engine *engine = ridge_engine(&shared->data, whole);
    bt_memory_table *memory = engine ? bt_engine_memory(engine) : NULL;
    ck_assert_msg(memory != NULL, "%s", bt_error());
    const json_t *planned = json_object_get(row_of(all, name), "planned_bytes");
    ck_assert_double_eq(bt_json_read_number(planned, "arena"), (double)memory->arena_used);
    ck_assert_double_eq(bt_json_read_number(planned, "persistent"), (double)memory->persistent);
    bt_memory_table_free(memory);
    bt_engine_free(engine);
}

#define ITD "lower.type = itd\nlower.unroll_steps = 6\nlower.batch_size = 4\nupper.batch_size = 3\nlower.lr = 0.1\n"

#define AGAIN(value)                                                                                                   \
    "upper: checkpointing = " value, "lower: checkpointing = " value, "all levels: checkpointing = " value

static const char *const itd_names[] = {"as configured",
                                        "engine: precision = fp32",
                                        "upper: prefetch = false",
                                        "lower: prefetch = false",
                                        "all levels: prefetch = false",
                                        "upper: optimizer = adam8bit",
                                        "lower: optimizer = adam8bit",
                                        "all levels: optimizer = adam8bit",
                                        "upper: optimizer = sgd",
                                        "lower: itd_spacing = sqrt",
                                        "lower: itd_states = 4",
                                        "lower: product = finite",
                                        "lower: product = vjp",
                                        "lower: gradient_accumulation = 2",
                                        "lower: gradient_accumulation = 4",
                                        AGAIN("cheap"),
                                        AGAIN("cost:20%"),
                                        AGAIN("sqrt"),
                                        "all that change no bit",
                                        "everything",
                                        NULL};

START_TEST(planned_as_by_hand)
{
    json_t *all;
    EXPECT_OK(ablate(ITD "upper.optimizer = adam\n", NULL, true, &all));
    expect_names(all, itd_names);
    expect_plan(all, "as configured", "");
    expect_plan(all, "upper: optimizer = sgd", "upper.optimizer = sgd\n");
    expect_plan(all, "lower: itd_spacing = sqrt", "lower.itd_spacing = 0\n");
    expect_plan(all, "lower: itd_states = 4", "lower.itd_states = 4\n");
    expect_plan(all, "lower: gradient_accumulation = 2", "lower.gradient_accumulation = 2\nlower.batch_size = 2\n");
    expect_plan(all, "all that change no bit",
                "upper.prefetch = false\nlower.prefetch = false\nlower.itd_states = 4\nupper.checkpointing = sqrt\n"
                "lower.checkpointing = sqrt\n");
    ck_assert_ptr_null(json_object_get(row_of(all, "everything"), "measured_bytes"));
    json_decref(all);
}
END_TEST

/* If two keys are mutually exclusive, a row that sets one resets the other to its default. */
START_TEST(in_the_place_of_another)
{
    json_t *all;
    EXPECT_OK(ablate(ITD "lower.itd_states = 2\n", "lower", true, &all));
    expect_plan(all, "lower: itd_spacing = sqrt", "lower.itd_states = 0\nlower.itd_spacing = 0\n");
    expect_plan(all, "lower: itd_states = 4", "lower.itd_states = 4\n");
    ck_assert_ptr_null(json_object_get(row_of(all, "everything"), "failed"));
    json_decref(all);
    EXPECT_OK(ablate(ITD "lower.itd_spacing = 2\n", "lower", true, &all));
    expect_plan(all, "lower: itd_states = 4", "lower.itd_spacing = 1\nlower.itd_states = 4\n");
    json_decref(all);
}
END_TEST

/* batch_size = all, or larger than the data: half of the lower level's 10 rows can be a micro-batch, a quarter cannot;
 * the upper level's 7 rows cannot be divided. */
START_TEST(all_examples)
{
    static const char *const sizes[] = {"all", "100"};
    for (int i = 0; i < BT_COUNT_OF(sizes); i++) {
        char settings[200];
        json_t *all, *row;
        size_t r;
        snprintf(settings, sizeof settings, "lower.type = darts\nlower.batch_size = %s\nupper.batch_size = %s\n",
                 sizes[i], sizes[i]);
        EXPECT_OK(ablate(settings, NULL, true, &all));
        expect_plan(all, "lower: gradient_accumulation = 2", "lower.gradient_accumulation = 2\nlower.batch_size = 5\n");
        json_array_foreach(json_object_get(all, "rows"), r, row)
        {
            const char *name = bt_json_read_text(row, "row"), *split = strstr(name, "gradient_accumulation");
            ck_assert_msg(!split || strcmp(name, "lower: gradient_accumulation = 2") == 0, "%s", name);
            ck_assert_msg(!json_object_get(row, "failed"), "%s: %s", name, bt_json_read_text(row, "failed"));
        }
        json_decref(all);
    }
}
END_TEST

/* A level's own rows; changes without effect have no row. */
START_TEST(one_level)
{
    static const char *const names[] = {"as configured",
                                        "upper: prefetch = false",
                                        "upper: optimizer = adam8bit",
                                        "upper: optimizer = sgd",
                                        "upper: checkpointing = cheap",
                                        "upper: checkpointing = cost:20%",
                                        "upper: checkpointing = sqrt",
                                        "all that change no bit",
                                        "everything",
                                        NULL};
    json_t *all;
    EXPECT_OK(ablate(ITD "upper.optimizer = adam\n", "upper", true, &all));
    expect_names(all, names);
    json_decref(all);
    ck_assert_int_eq(ablate(ITD, "middle", true, &all), BT_ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(bt_error(), "its levels are upper, lower"));
    json_decref(all);
    bt_error_clear();
}
END_TEST

/* Exact methods give the same bits in every row; what the process held before a row does not count. */
START_TEST(measured)
{
    json_t *all, *row;
    size_t i;
    void *before = bt_alloc_aligned(1 << 16);
    EXPECT_OK(ablate(ITD "upper.optimizer = adam\n", NULL, false, &all));
    expect_names(all, itd_names);
    const json_t *first = row_of(all, "as configured");
    json_array_foreach(json_object_get(all, "rows"), i, row)
    {
        const char *name = bt_json_read_text(row, "row");
        const bool exact = strstr(name, "prefetch") || strstr(name, "itd_") || strstr(name, "checkpointing") ||
                           strstr(name, "no bit") || i == 0;
        ck_assert_msg(json_is_true(json_object_get(row, "matches")), "%s", name);
        ck_assert(json_equal(json_object_get(row, "planned_bytes"), json_object_get(row, "measured_bytes")));
        ck_assert_uint_eq(json_array_size(json_object_get(row, "ms_per_step")), 3);
        ck_assert_double_eq(bt_json_read_number(row, "steps"), 8);
        ck_assert_double_eq(bt_json_read_number(row, "examples_per_step"), 4);
        if (!exact)
            continue;
        ck_assert_msg(json_is_true(json_object_get(json_object_get(row, "gradient"), "same_bits")), "%s", name);
        ck_assert(json_equal(json_object_get(row, "loss"), json_object_get(first, "loss")));
    }
    static const char *const again[] = {"lower: itd_spacing = sqrt", "lower: itd_states = 4"};
    for (i = 0; i < BT_COUNT_OF(again); i++)
        ck_assert_double_gt(bt_json_read_number(row_of(all, again[i]), "work_per_step"),
                            bt_json_read_number(first, "work_per_step"));
    bt_free_aligned(before);
    json_decref(all);
}
END_TEST

/* The hypergradient with its product on one half of the lower batch, against that on all of it, in plain C. */
START_TEST(first_hypergradient)
{
    static const plain_method darts = {PLAIN_DARTS, 0, 0};
    const rows both = {0, 4}, half = {2, 2}, upper = {0, 3};
    double w[2], g[2], whole[2], part[2], ab = 0, aa = 0, bb = 0, dd = 0;
    json_t *all;
    EXPECT_OK(ablate("lower.type = darts\nlower.batch_size = 4\nupper.batch_size = 3\nlower.lr = 0.1\n", "lower", false,
                     &all));
    const ridge *data = &shared->data;
    plain_lower(data, &both, 1, data->w, data->lambda, g);
    for (int k = 0; k < 2; k++)
        w[k] = data->w[k] - 0.1 * g[k];
    plain_hypergradient(data, &both, 1, &upper, 1, w, data->lambda, darts, whole);
    plain_hypergradient(data, &half, 1, &upper, 1, w, data->lambda, darts, part);
    for (int k = 0; k < 2; k++) {
        ab += part[k] * whole[k];
        aa += part[k] * part[k];
        bb += whole[k] * whole[k];
        dd += (part[k] - whole[k]) * (part[k] - whole[k]);
    }
    const json_t *found = json_object_get(row_of(all, "lower: gradient_accumulation = 2"), "gradient");
    ck_assert_double_gt(dd / bb, 1e-6);
    ck_assert_double_eq_tol(bt_json_read_number(found, "error"), sqrt(dd / bb), 1e-12);
    ck_assert_double_eq_tol(bt_json_read_number(found, "cosine"), ab / sqrt(aa * bb), 1e-12);
    ck_assert(json_is_false(json_object_get(found, "same_bits")));
    json_decref(all);
}
END_TEST

#define DARTS "lower.type = darts\nlower.batch_size = 4\nupper.batch_size = 3\n"

/* Unplanned memory is detected, and fails the whole table. */
START_TEST(mismatch)
{
    json_t *all;
    shared->leaks = 2;
    ck_assert_int_eq(ablate(DARTS, "upper", false, &all), BT_ERROR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(bt_error(), "upper: prefetch = false: "));
    const json_t *row = row_of(all, "upper: prefetch = false");
    const json_t *planned = json_object_get(row, "planned_bytes"), *found = json_object_get(row, "measured_bytes");
    ck_assert(json_is_false(json_object_get(row, "matches")));
    ck_assert_double_eq(bt_json_read_number(planned, "arena"), bt_json_read_number(found, "arena"));
    ck_assert(json_is_true(json_object_get(row_of(all, "as configured"), "matches")));
    json_decref(all);
    bt_error_clear();
}
END_TEST

/* detach = follow allows no vjp product: that row reports it, and the others continue. */
START_TEST(failing_row)
{
    json_t *all;
    EXPECT_OK(ablate(DARTS "lower.detach = follow\n", "lower", false, &all));
    const char *why = bt_json_read_text(row_of(all, "lower: product = vjp"), "failed");
    ck_assert_msg(strstr(why, "detach = follow") != NULL, "%s", why);
    ck_assert_ptr_null(json_object_get(row_of(all, "lower: product = finite"), "failed"));
    ck_assert(json_is_true(json_object_get(row_of(all, "lower: gradient_accumulation = 4"), "matches")));
    bt_text table = {0};
    bt_ablation_table(all, true, &table);
    ck_assert_ptr_nonnull(strstr(bt_text_get(&table), "| lower: product = vjp"));
    ck_assert_ptr_nonnull(strstr(bt_text_get(&table), "| failed: [lower] detach = follow"));
    bt_text_free(&table);
    json_decref(all);
    ck_assert_int_eq(ablate(DARTS "lower.detach = follow\nlower.product = vjp\n", NULL, true, &all), BT_ERROR_CONFIG);
    json_decref(all);
    bt_error_clear();
}
END_TEST

/* The third row is stopped: the first two are kept. */
START_TEST(interrupted)
{
    json_t *all;
    shared->stop_at = 3;
    ck_assert_int_eq(ablate(DARTS, "lower", false, &all), BT_ERROR_INTERRUPTED);
    ck_assert(json_is_true(json_object_get(all, "interrupted")));
    const json_t *rows = json_object_get(all, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++)
        ck_assert_int_eq(json_object_get(json_array_get(rows, i), "measured_bytes") != NULL, i < 2);
    ck_assert_int_eq(access("folder/ablation.svg", R_OK), 0);
    json_decref(all);
    bt_error_clear();
}
END_TEST

/* ---- the picture ---- */

/* The total width of the bar's rectangles in the row of this name, and the text after it. */
static double bar_of(const char *svg, const char *name)
{
    char text[80];
    double sum = 0, width;
    int height;
    snprintf(text, sizeof text, ">%s</text>", name);
    const char *at = strstr(svg, text);
    ck_assert_msg(at != NULL, "no %s in %s", name, svg);
    at = strchr(at, '\n') + 1;
    while (sscanf(at, "<rect x=\"%*[^\"]\" y=\"%*[^\"]\" width=\"%lf\" height=\"%d\"", &width, &height) == 2 &&
           height == 16) {
        sum += width;
        at = strchr(at, '\n') + 1;
    }
    return sum;
}

START_TEST(picture)
{
    json_t *all = json_pack(
        "{s:s, s:[{s:s, s:{s:i, s:i}, s:{s:i, s:i}, s:[f, f, f]}, {s:s, s:{s:i, s:i}, s:{s:i, s:i}}, {s:s, s:s}]}",
        "name", "a&b", "rows", "row", "as configured", "planned_bytes", "arena", 3000, "persistent", 1000, "categories",
        "one", 1500, "two", 2500, "ms_per_step", 3.0, 1.0, 2.0, "row", "half", "planned_bytes", "arena", 1000,
        "persistent", 1000, "categories", "one", 2000, "two", 0, "row", "<odd> & \"long\"", "failed", "no <way>");
    bt_text svg = {0};
    ck_assert_ptr_nonnull(all);
    EXPECT_OK(bt_ablation_picture(all, &svg));
    const char *text = bt_text_get(&svg);
    ck_assert_double_gt(bar_of(text, "as configured"), 100);
    ck_assert_double_eq_tol(bar_of(text, "half"), bar_of(text, "as configured") / 2, 0.02);
    ck_assert_double_eq(bar_of(text, "&#60;odd&#62; &#38; &#34;long&#34;"), 0);
    ck_assert_ptr_nonnull(strstr(text, ">failed: no &#60;way&#62;</text>"));
    ck_assert_ptr_nonnull(strstr(text, ">3.9 KiB</text>"));
    ck_assert_ptr_nonnull(strstr(text, ">2.0 KiB, -50.0 %</text>"));
    ck_assert_ptr_nonnull(strstr(text, ">2 ms, 1.00x</text>"));
    bt_text_free(&svg);
    json_decref(all);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ablation");
    TCase *tests = tcase_create("ablation");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, enter, resumable_leave);
    tcase_add_test(tests, alone_and_together);
    tcase_add_test(tests, not_both_together);
    tcase_add_test(tests, planned_as_by_hand);
    tcase_add_test(tests, in_the_place_of_another);
    tcase_add_test(tests, all_examples);
    tcase_add_test(tests, one_level);
    tcase_add_test(tests, measured);
    tcase_add_test(tests, first_hypergradient);
    tcase_add_test(tests, mismatch);
    tcase_add_test(tests, failing_row);
    tcase_add_test(tests, interrupted);
    tcase_add_test(tests, picture);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
