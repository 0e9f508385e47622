/* Schedulers, clipping, and skipped updates, against plain formulas. */
#include "plain.h"

#include "nn/module.h"
#include "optim/optim.h"
#include "support/suite.h"
#include "support/vars.h"
#include <check.h>
#include <math.h>
#include <string.h>

static const plain_settings sgd = {.name = "sgd", .lr = 0.08, .momentum = 0.5};
static const plain_settings adam = {.name = "adam", .lr = 0.05, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};

/* ---- schedulers: lr by recursion over the updates, as PyTorch's step() does it ---- */

typedef struct schedule_case {
    const char *name;
    bt_scheduler scheduler;
} schedule_case;

static const schedule_case schedules[] = {
    {"none", {.kind = BT_SCHEDULER_NONE}},
    {"step 4", {.kind = BT_SCHEDULER_STEP, .step_size = 4, .gamma = 0.5}},
    {"step 1", {.kind = BT_SCHEDULER_STEP, .step_size = 1, .gamma = 0.97}},
    {"multistep", {.kind = BT_SCHEDULER_MULTISTEP, .milestones = {3, 4, 17}, .milestone_count = 3, .gamma = 0.1}},
    {"multistep at 0", {.kind = BT_SCHEDULER_MULTISTEP, .milestones = {0, 50}, .milestone_count = 2, .gamma = 0.3}},
    {"cosine", {.kind = BT_SCHEDULER_COSINE, .t_max = 30, .eta_min = 0}},
    {"cosine, and up again", {.kind = BT_SCHEDULER_COSINE, .t_max = 11, .eta_min = 0.01}},
    {"warm-up", {.kind = BT_SCHEDULER_NONE, .warmup = 10}},
    {"warm-up of one", {.kind = BT_SCHEDULER_NONE, .warmup = 1}},
    {"warm-up, step", {.kind = BT_SCHEDULER_STEP, .warmup = 5, .step_size = 6, .gamma = 0.2}},
    {"warm-up, multistep",
     {.kind = BT_SCHEDULER_MULTISTEP, .warmup = 3, .milestones = {1, 9}, .milestone_count = 2, .gamma = 0.5}},
    {"linear", {.kind = BT_SCHEDULER_LINEAR, .start_factor = 1.0 / 3, .end_factor = 1, .total_iters = 5}},
    {"linear, down", {.kind = BT_SCHEDULER_LINEAR, .start_factor = 1, .end_factor = 0.1, .total_iters = 22}},
    {"linear, in one update", {.kind = BT_SCHEDULER_LINEAR, .start_factor = 0.5, .end_factor = 2, .total_iters = 1}},
    {"exponential", {.kind = BT_SCHEDULER_EXPONENTIAL, .gamma = 0.9}},
    {"warm-up, exponential", {.kind = BT_SCHEDULER_EXPONENTIAL, .warmup = 4, .gamma = 0.8}},
    {"plateau, without validations", {.kind = BT_SCHEDULER_PLATEAU, .gamma = 0.5}},
    {"warm-up, cosine", {.kind = BT_SCHEDULER_COSINE, .warmup = 8, .t_max = 20, .eta_min = 0.002}},
};

/* The learning rate of update t (from 0), given the previous one. */
static double next_lr(const bt_scheduler *s, double base, int t, double before)
{
    int u = t - (int)s->warmup;
    if (u < 0)
        return t == 0 ? base / (double)s->warmup : before + base / (double)s->warmup;
    double lr = u == 0 ? base : before;
    if (s->kind == BT_SCHEDULER_STEP && u > 0 && u % s->step_size == 0)
        lr *= s->gamma;
    if (s->kind == BT_SCHEDULER_MULTISTEP)
        for (int i = 0; i < s->milestone_count; i++)
            if (u == s->milestones[i])
                lr *= s->gamma;
    if (s->kind == BT_SCHEDULER_EXPONENTIAL && u > 0)
        lr *= s->gamma;
    if (s->kind == BT_SCHEDULER_LINEAR && u == 0)
        lr = base * s->start_factor;
    if (s->kind == BT_SCHEDULER_LINEAR && u > 0 && u <= s->total_iters) {
        double rise = s->end_factor - s->start_factor;
        lr *= 1 + rise / ((double)s->total_iters * s->start_factor + (u - 1) * rise);
    }
    if (s->kind == BT_SCHEDULER_COSINE)
        lr = s->eta_min + (base - s->eta_min) * (1 + cos(acos(-1.0) * u / (double)s->t_max)) / 2;
    return lr;
}

static void check_schedule(const schedule_case *it, const plain_settings *settings)
{
    bt_optimizer *optimizer = plain_optimizer(settings);
    optimizer->scheduler = it->scheduler;
    plain_training training = plain_training_new(optimizer);
    plain_state state;
    double noise[PLAIN_SIZE], grad[PLAIN_SIZE], found[PLAIN_SIZE], lr = 0;
    plain_start(&state);
    for (int step = 0; step < 30; step++) {
        lr = next_lr(&it->scheduler, settings->lr, step, lr);
        plain_noise(step, noise);
        plain_grad(&state, noise, grad);
        plain_update(&state, settings, lr, grad);
        plain_step(&training, noise);
        plain_assert_close(plain_found(&training, found), &state, it->name, step);
    }
    plain_training_free(&training);
}

START_TEST(test_schedules)
{
    check_schedule(&schedules[_i], &sgd);
    check_schedule(&schedules[_i], &adam);
}
END_TEST

START_TEST(test_wrong_schedules_are_refused)
{
    static const struct {
        bt_scheduler scheduler;
        const char *message;
    } wrong[] = {
        {{.kind = BT_SCHEDULER_STEP, .step_size = 0, .gamma = 0.5}, "step size 0"},
        {{.kind = BT_SCHEDULER_STEP, .step_size = 1, .gamma = 0}, "gamma is 0"},
        {{.kind = BT_SCHEDULER_MULTISTEP, .gamma = 0.5}, "0 milestones"},
        {{.kind = BT_SCHEDULER_MULTISTEP, .gamma = 0.5, .milestones = {5, 5}, .milestone_count = 2}, "milestone 2"},
        {{.kind = BT_SCHEDULER_COSINE, .t_max = 0}, "t_max 0"},
        {{.kind = BT_SCHEDULER_COSINE, .t_max = 3, .eta_min = -1}, "eta_min -1"},
        {{.kind = BT_SCHEDULER_NONE, .warmup = -1}, "-1 updates"},
        {{.kind = BT_SCHEDULER_EXPONENTIAL, .gamma = -1}, "gamma is -1"},
        {{.kind = BT_SCHEDULER_LINEAR, .start_factor = 0, .end_factor = 1, .total_iters = 5}, "factor 0 to 1"},
        {{.kind = BT_SCHEDULER_LINEAR, .start_factor = 1, .end_factor = 1}, "total_iters 0"},
        {{.kind = BT_SCHEDULER_PLATEAU, .gamma = 1}, "gamma 1; expected below 1"},
        {{.kind = BT_SCHEDULER_PLATEAU, .gamma = 0.5, .patience = -1}, "patience -1"},
        {{.kind = BT_SCHEDULER_PLATEAU, .gamma = 0.5, .threshold = -1}, "threshold -1"},
        {{.kind = BT_SCHEDULER_PLATEAU, .gamma = 0.5, .eta_min = -1}, "plateau has eta_min -1"},
    };
    for (int i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++) {
        bt_optimizer *optimizer = bt_optimizer_new("sgd");
        optimizer->scheduler = wrong[i].scheduler;
        ck_assert_int_eq(bt_optimizer_start(optimizer, ""), BT_ERROR_CONFIG);
        ck_assert_msg(strstr(bt_error(), wrong[i].message) != NULL, "%s", bt_error());
        bt_error_clear();
        bt_optimizer_free(optimizer);
    }
}
END_TEST

/* ---- plateaus: an independent copy of the rules of PyTorch's ReduceLROnPlateau ---- */

typedef struct plateau_case {
    const char *name;
    bt_scheduler scheduler;
    double value[24]; /* ends with 0 */
    double lr[24];    /* PyTorch's rate after each; 0: unchanged */
} plateau_case;

#define PLATEAU(threshold_, eps_, ...)                                                                                 \
    {                                                                                                                  \
        .kind = BT_SCHEDULER_PLATEAU, .gamma = 0.1, .threshold = threshold_, .eps = eps_, __VA_ARGS__                  \
    }

/* The rates by hand. At lr = 0.08. */
static const plateau_case plateaus[] = {
    {"patience 0", PLATEAU(1e-4, 1e-8, .patience = 0), {5, 4, 4, 3, 3.5}, {0, 0, 8e-3, 0, 8e-4}},
    {"patience 2", PLATEAU(1e-4, 1e-8, .patience = 2), {5, 5, 5, 5, 5, 5, 5, 4, 5}, {0, 0, 0, 8e-3, 0, 0, 8e-4}},
    {"relative threshold", PLATEAU(0.1, 1e-8, .patience = 0), {10, 9.1, 8.9, 8.1, 8}, {0, 8e-3, 0, 8e-4, 0}},
    {"absolute threshold",
     PLATEAU(0.5, 1e-8, .patience = 0, .threshold_mode = 1),
     {10, 9.6, 9.4, 9, 8.8},
     {0, 8e-3, 0, 8e-4, 0}},
    {"largest, relative",
     PLATEAU(0.1, 1e-8, .patience = 1, .mode = 1),
     {10, 10.9, 11.1, 12, 12.1, 12.3},
     {0, 0, 0, 0, 8e-3}},
    {"largest, absolute", PLATEAU(1, 1e-8, .mode = 1, .threshold_mode = 1), {1, 1.9, 2.1}, {0, 8e-3}},
    {"cooldown",
     PLATEAU(1e-4, 1e-8, .patience = 1, .cooldown = 2),
     {5, 5, 5, 5, 5, 5, 5, 5, 5, 5},
     {0, 0, 8e-3, 0, 0, 0, 8e-4}},
    {"least rate", PLATEAU(1e-4, 1e-8, .patience = 0, .eta_min = 0.005), {5, 5, 5, 5}, {0, 8e-3, 5e-3, 0}},
    {"too small to matter", PLATEAU(1e-4, 1e-3, .patience = 0), {5, 5, 5, 5}, {0, 8e-3, 8e-4, 0}},
    {"a least rate above the rate", PLATEAU(1e-4, 1e-8, .patience = 0, .eta_min = 0.5), {5, 5, 5}, {0, 0, 0}},
    {"not a number", PLATEAU(1e-4, 1e-8, .patience = 1), {5, NAN, NAN, 4, NAN, NAN}, {0, 0, 8e-3, 0, 0, 8e-4}},
    {"not a number at first", PLATEAU(1e-4, 1e-8, .patience = 1), {NAN, INFINITY, 4, 4}, {0, 8e-3}},
};

START_TEST(test_plateaus)
{
    const plateau_case *it = &plateaus[_i];
    bt_optimizer *optimizer = plain_optimizer(&sgd);
    optimizer->scheduler = it->scheduler;
    plain_training training = plain_training_new(optimizer);
    plain_state state;
    bt_plateau seen = {.best = NAN};
    double noise[PLAIN_SIZE], grad[PLAIN_SIZE], found[PLAIN_SIZE], lr = sgd.lr;
    plain_start(&state);
    for (int step = 0; it->value[step] != 0; step++) {
        bool reduced = false, due = bt_plateau_see(&it->scheduler, &seen, it->value[step]);
        if (due)
            ck_assert_int_eq(bt_optimizer_reduce(optimizer, &reduced), BT_OK);
        ck_assert_msg(reduced == (it->lr[step] != 0), "%s: value %d", it->name, step);
        lr = it->lr[step] != 0 ? it->lr[step] : lr;
        plain_noise(step, noise);
        plain_grad(&state, noise, grad);
        plain_update(&state, &sgd, lr, grad);
        plain_step(&training, noise);
        plain_assert_close(plain_found(&training, found), &state, it->name, step);
    }
    plain_training_free(&training);
}
END_TEST

/* ---- clipping ---- */

static void plain_clip(double *grad, bt_clip clip)
{
    double square = 0;
    for (int i = 0; i < PLAIN_SIZE; i++) {
        if (clip.value > 0)
            grad[i] = fmin(fmax(grad[i], -clip.value), clip.value);
        square += grad[i] * grad[i];
    }
    double scale = clip.norm > 0 ? fmin(1, clip.norm / (sqrt(square) + 1e-6)) : 1;
    for (int i = 0; i < PLAIN_SIZE; i++)
        grad[i] *= scale;
}

static const bt_clip clips[] = {{.norm = 0.7}, {.norm = 100}, {.value = 0.4}, {.norm = 0.5, .value = 0.3}};

START_TEST(test_clipping)
{
    const plain_settings *const both[] = {&sgd, &adam};
    for (int k = 0; k < 2; k++) {
        bt_optimizer *optimizer = plain_optimizer(both[k]);
        optimizer->clip = clips[_i];
        plain_training training = plain_training_new(optimizer);
        plain_state state;
        double noise[PLAIN_SIZE], grad[PLAIN_SIZE], found[PLAIN_SIZE];
        plain_start(&state);
        for (int step = 0; step < 30; step++) {
            plain_noise(step, noise);
            plain_grad(&state, noise, grad);
            plain_clip(grad, clips[_i]);
            plain_update(&state, both[k], both[k]->lr, grad);
            plain_step(&training, noise);
            plain_assert_close(plain_found(&training, found), &state, "clipping", step);
        }
        plain_training_free(&training);
    }
}
END_TEST

/* ---- skipped updates ---- */

static int64_t count_of(const bt_var *var)
{
    int64_t count;
    memcpy(&count, var_near(var), sizeof count);
    return count;
}

/* A gradient with a NaN or an infinity changes neither parameters, slots, Adam's t nor the schedule, and is counted. */
START_TEST(test_updates_that_are_left_out)
{
    const plain_settings *settings = _i % 2 ? &adam : &sgd;
    bt_optimizer *optimizer = plain_optimizer(settings);
    bt_scheduler scheduler = {.kind = BT_SCHEDULER_STEP, .step_size = 3, .gamma = 0.5, .warmup = 2};
    optimizer->scheduler = scheduler;
    optimizer->clip = (bt_clip){.norm = _i < 2 ? 0 : 0.8, .value = _i < 2 ? 0 : 0.5};
    plain_training training = plain_training_new(optimizer);
    plain_state state;
    double noise[PLAIN_SIZE], grad[PLAIN_SIZE], found[PLAIN_SIZE], before[PLAIN_SIZE], lr = 0;
    int skipped = 0;
    plain_start(&state);
    memcpy(before, state.p, sizeof before);
    for (int step = 0; step < 30; step++) {
        bool bad = step == 0 || step == 6 || step == 7 || step == 20;
        plain_noise(step, noise);
        if (bad) {
            noise[step % PLAIN_SIZE] = step == 6 ? HUGE_VAL : (double)NAN;
            skipped++;
        } else {
            plain_grad(&state, noise, grad);
            plain_clip(grad, optimizer->clip);
            lr = next_lr(&scheduler, settings->lr, state.updates, lr);
            plain_update(&state, settings, lr, grad);
        }
        plain_step(&training, noise);
        plain_found(&training, found);
        if (bad)
            ck_assert_mem_eq(found, before, sizeof found);
        plain_assert_close(found, &state, "left out", step);
        memcpy(before, found, sizeof before);
        ck_assert_int_eq(count_of(optimizer->applied), state.updates);
        ck_assert_int_eq(count_of(optimizer->skipped), skipped);
    }
    ck_assert_int_eq(skipped, 4);
    plain_training_free(&training);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scheduler");
    TCase *test = tcase_create("scheduler");
    tcase_add_loop_test(test, test_schedules, 0, (int)(sizeof schedules / sizeof *schedules));
    tcase_add_loop_test(test, test_plateaus, 0, (int)(sizeof plateaus / sizeof *plateaus));
    tcase_add_test(test, test_wrong_schedules_are_refused);
    tcase_add_loop_test(test, test_clipping, 0, (int)(sizeof clips / sizeof *clips));
    tcase_add_loop_test(test, test_updates_that_are_left_out, 0, 4);
    suite_add_tcase(suite, test);
    return run_suite(suite);
}
