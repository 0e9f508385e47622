/* 8-bit numbers and the optimisers that keep their state in them: code books, steps, bytes, and the distance from
 * Adam. */
#include "plain.h"

#include "nn/module.h"
#include "ops/codes.h"
#include "optim/optim.h"
#include "support/suite.h"
#include "support/vars.h"
#include <check.h>
#include <math.h>
#include <string.h>

/* ---- the books: facts of bitsandbytes' create_dynamic_map ---- */

START_TEST(books)
{
    bt_code_book with_signs, positive;
    bt_code_book_fill(&with_signs, false);
    bt_code_book_fill(&positive, true);
    const double *s = with_signs.value, *u = positive.value;
    ck_assert_double_eq(s[127], 0);
    ck_assert_double_eq(s[255], 1);
    ck_assert_double_eq_tol(s[0], -0.99296874, 1e-8);
    ck_assert_double_eq_tol(s[128], 5.5e-7, 1e-15);
    ck_assert_double_eq(u[0], 0);
    ck_assert_double_eq_tol(u[1], 3.25e-7, 1e-15);
    ck_assert_double_eq(u[255], 1);
    int top[2] = {0};
    for (int i = 1; i < BT_CODES; i++) {
        ck_assert_double_gt(s[i], s[i - 1]);
        ck_assert_double_gt(u[i], u[i - 1]);
        top[0] += s[i] >= 0.1;
        top[1] += u[i] >= 0.1;
    }
    ck_assert_int_eq(top[0], 64 + 1);
    ck_assert_int_eq(top[1], 128 + 1);
    static const double x[] = {0.5, 0.25, 0.1, -0.75};
    static const int codes[] = {219, 201, 190, 17}, without[] = {183, 148, 126};
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(bt_code_of(&with_signs, x[i]), codes[i]);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(bt_code_of(&positive, x[i]), without[i]);
    ck_assert_int_eq(bt_code_of(&with_signs, 1e-30), 128); /* only 0 has the code 0 */
    ck_assert_int_eq(bt_code_of(&with_signs, -1e-30), 126);
    ck_assert_int_eq(bt_code_of(&with_signs, -0.0), 127);
    ck_assert_int_eq(bt_code_of(&positive, 1e-30), 1);
}
END_TEST

/* The nearest code, for any number. */
START_TEST(nearest)
{
    for (int kind = 0; kind < 2; kind++) {
        bt_code_book book;
        bt_code_book_fill(&book, kind);
        for (int i = 0; i < 20000; i++) {
            double x = (1 - 2 * (1 - kind) * (i % 2)) * pow(10, -7 * bt_host_uniform(3, (uint64_t)kind, (uint64_t)i));
            double found = fabs(book.value[bt_code_of(&book, x)] - x), best = 1;
            for (int c = 0; c < BT_CODES; c++)
                best = book.value[c] != 0 ? fmin(best, fabs(book.value[c] - x)) : best;
            ck_assert_msg(found <= best, "%g: %g away, %g is the least", x, found, best);
        }
    }
}
END_TEST

/* ---- steps: a parameter of many elements with identical blocks: four numbers, repeated ---- */

enum { MANY = 4096, SMALL = 4095 };

typedef struct job {
    bt_module *module;
    bt_optimizer *optimizer;
    double centre; /* of a bowl; NaN: the batch is the gradient */
} job;

static bt_tensor *step(void *user, const bt_batch *batch)
{
    job *j = user;
    bt_tensor *p = bt_params(j->module), *given = bt_field(batch, "g");
    bt_tensor *loss = isnan(j->centre) ? bt_sum(bt_mul(given, p))
                                       : bt_mul(0.5, bt_sum(bt_mul(given, bt_square(bt_sub(p, j->centre)))));
    bt_optimizer_minimize(j->optimizer, loss, j->module);
    return loss;
}

static void job_new(job *j, const char *name, int count, double lr, bt_dtype dtype)
{
    static const double begin[4] = {1, 2, 3, 4};
    static double values[MANY];
    for (int i = 0; i < count; i++)
        values[i] = begin[i % 4];
    *j = (job){.module = bt_nn_parameter(bt_init_array(BT_ARRAY(values, count)), count),
               .optimizer = bt_optimizer_new(name),
               .centre = (double)NAN};
    ck_assert_int_eq(bt_module_init(j->module, BT_CPU, dtype, 1), BT_OK);
    ck_assert_int_eq(bt_optimizer_set(j->optimizer, "lr", lr), BT_OK);
}

/* The same with a table instead of the vector. */
static void job_new_table(job *j, const char *name)
{
    job_new(j, name, MANY, 0.05, BT_F32);
    bt_module_free(j->module);
    j->module = bt_nn_embedding(MANY / 8, 8);
    ck_assert_int_eq(bt_module_init(j->module, BT_CPU, BT_F32, 1), BT_OK);
}

static void job_free(job *j)
{
    bt_optimizer_free(j->optimizer);
    bt_module_free(j->module);
}

static void job_run(job *j, bt_function *function, const double *g, int count)
{
    double loss;
    bt_batch *batch = bt_batch_new();
    bt_batch_set(batch, "g", BT_ARRAY(g, count));
    ck_assert_msg(bt_function_run(function, batch, BT_ARRAY(&loss)) == BT_OK, "%s", bt_error());
    bt_batch_free(batch);
    (void)j;
}

static double number(const bt_var *var, int64_t i) { return bt_get(var->dtype, var_near(var), i); }

/* Origin: the paper's description in numpy, float64; the first step is Adam's own. */
static const double after[2][4] = {{.900000010, 2.099999995, 2.900000003, 4.099999998},
                                   {.808437613, 2.126677366, 2.885239874, 4.156785959}};
static const int codes_m[2][4] = {{201, 35, 237, 0}, {255, 56, 196, 14}};
static const int codes_v[2][4] = {{100, 148, 192, 255}, {200, 156, 226, 255}};
static const double scales[2][2] = {{.04, 1.6e-4}, {.038915625, 1.6234e-4}};

START_TEST(two_steps_of_adam8bit)
{
    static const double given[2][4] = {{.1, -.2, .3, -.4}, {.3, .1, -.2, .05}};
    static double g[MANY];
    job j;
    job_new(&j, "adam8bit", MANY, 0.1, BT_F64);
    bt_function *function = bt_function_new(step, &j, BT_TRAIN);
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < MANY; i++)
            g[i] = given[t][i % 4];
        job_run(&j, function, g, MANY);
        const bt_block *blocks = j.optimizer->blocks;
        for (int i = 0; i < MANY; i++) {
            ck_assert_double_eq_tol(number(j.module->params[0]->var, i), after[t][i % 4], 1e-8);
            ck_assert_int_eq((int)number(blocks[0].windows[0], i), codes_m[t][i % 4]);
            ck_assert_int_eq((int)number(blocks[2].windows[0], i), codes_v[t][i % 4]);
        }
        for (int b = 0; b < MANY / 256; b++) {
            ck_assert_double_eq_tol(number(blocks[1].windows[0], b), scales[t][0], 1e-8);
            ck_assert_double_eq_tol(number(blocks[3].windows[0], b), scales[t][1], 1e-11);
        }
    }
    bt_function_free(function);
    job_free(&j);
    ck_assert_uint_eq(bt_live_bytes(), 0);
}
END_TEST

/* ---- a bowl: a thousand steps end at the same point as Adam, or Lion ---- */

static const char *const names[3][2] = {{"adam8bit", "adam"}, {"adamw8bit", "adamw"}, {"lion8bit", "lion"}};

static void minimise(const char *name, int count, double *found)
{
    static double curvature[MANY];
    job j;
    for (int i = 0; i < count; i++)
        curvature[i] = 0.5 + bt_host_uniform(4, 0, (uint64_t)i);
    job_new(&j, name, count, 0.05, BT_F32);
    if (strncmp(name, "adamw", 5) == 0)
        bt_optimizer_set(j.optimizer, "weight_decay", 0);
    j.centre = 0.7;
    bt_function *function = bt_function_new(step, &j, BT_TRAIN);
    for (int t = 0; t < 1000; t++) {
        if (t == 700)
            bt_optimizer_set(j.optimizer, "lr", 0.0005);
        job_run(&j, function, curvature, count);
    }
    for (int i = 0; i < count; i++)
        found[i] = number(j.module->params[0]->var, i);
    bt_function_free(function);
    job_free(&j);
}

START_TEST(a_bowl)
{
    static double eight[MANY], whole[MANY];
    minimise(names[_i][0], MANY, eight);
    minimise(names[_i][1], MANY, whole);
    for (int i = 0; i < MANY; i++)
        ck_assert_double_eq_tol(eight[i], whole[i], 1e-3);
}
END_TEST

/* A parameter of fewer than 4,096 elements does not use codes: the same bits. */
START_TEST(small_parameters)
{
    static double eight[MANY], whole[MANY];
    minimise(names[_i][0], SMALL, eight);
    minimise(names[_i][1], SMALL, whole);
    for (int i = 0; i < SMALL; i++)
        ck_assert_double_eq(eight[i], whole[i]);
}
END_TEST

/* An embedding's table has no codes either, at any size (Dettmers et al., section 2.3): the same bits, and as many
 * bytes as the parameter. */
START_TEST(tables)
{
    static double g[MANY];
    job j[2];
    for (int k = 0; k < 2; k++) {
        job_new_table(&j[k], names[_i][k]);
        bt_function *function = bt_function_new(step, &j[k], BT_TRAIN);
        for (int t = 0; t < 20; t++) {
            for (int i = 0; i < MANY; i++)
                g[i] = (i / 8 + t) % 5 ? 0 : sin(t + 2.1 * i);
            job_run(&j[k], function, g, MANY);
        }
        bt_function_free(function);
    }
    for (int i = 0; i < MANY; i++)
        ck_assert_double_eq(number(j[0].module->params[0]->var, i), number(j[1].module->params[0]->var, i));
    for (int s = 0; s < bt_optimizer_slot_count(j[0].optimizer); s++) {
        const bt_block *block = &j[0].optimizer->blocks[s];
        bool scale = strstr(bt_optimizer_slot_name(j[0].optimizer, s), "scale") != NULL;
        ck_assert(block->count == 0 || (block->windows[0] == NULL) == scale);
        ck_assert(scale || block->windows[0]->dtype == BT_F32);
    }
    job_free(&j[0]);
    job_free(&j[1]);
}
END_TEST

/* An element without a gradient does not move, whatever the rest of its block does; a skipped update changes
 * nothing. */
START_TEST(what_stays)
{
    static double g[MANY], before[MANY];
    job j;
    job_new(&j, names[_i][0], MANY, 0.01, BT_F32);
    if (_i == 1)
        bt_optimizer_set(j.optimizer, "weight_decay", 0);
    bt_function *function = bt_function_new(step, &j, BT_TRAIN);
    for (int t = 0; t < 50; t++) {
        for (int i = 0; i < MANY; i++)
            g[i] = i % 3 ? sin(t + 2.1 * i) : 0;
        if (t == 20)
            g[7] = (double)NAN;
        uint64_t slots = 0, same = 0;
        for (int s = 0; s < bt_optimizer_slot_count(j.optimizer) && t; s++)
            slots = bt_hash(slots, var_near(j.optimizer->blocks[s].flat), j.optimizer->blocks[s].flat->bytes);
        for (int i = 0; i < MANY; i++)
            before[i] = number(j.module->params[0]->var, i);
        job_run(&j, function, g, MANY);
        int moved = 0;
        for (int i = 0; i < MANY; i++) {
            bool stays = number(j.module->params[0]->var, i) == before[i];
            ck_assert(stays || (i % 3 && t != 20));
            moved += !stays;
        }
        ck_assert_int_eq(moved > MANY / 2, t != 20);
        for (int s = 0; s < bt_optimizer_slot_count(j.optimizer) && t; s++)
            same = bt_hash(same, var_near(j.optimizer->blocks[s].flat), j.optimizer->blocks[s].flat->bytes);
        if (t)
            ck_assert_int_eq(slots == same, t == 20);
    }
    bt_function_free(function);
    job_free(&j);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("eight");
    TCase *tests = tcase_create("eight");
    tcase_add_test(tests, books);
    tcase_add_test(tests, nearest);
    tcase_add_test(tests, two_steps_of_adam8bit);
    tcase_add_loop_test(tests, a_bowl, 0, 3);
    tcase_add_loop_test(tests, small_parameters, 0, 3);
    tcase_add_loop_test(tests, tables, 0, 3);
    tcase_add_loop_test(tests, what_stays, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
