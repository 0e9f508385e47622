/* Thirty steps of every optimiser but the 8-bit ones against PyTorch, transformers and the papers, to 1e-12. */
#include "golden_optimizers.h"
#include "plain.h"

#include "nn/module.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bt_optimizer *optimizer_of(const char *name, const char *settings)
{
    bt_optimizer *optimizer = bt_optimizer_new(name);
    char text[200], *rest = text, *word;
    ck_assert_ptr_nonnull(optimizer);
    snprintf(text, sizeof text, "%s", settings);
    while ((word = strtok_r(rest, " ", &rest)) != NULL) {
        char *value = strchr(word, '=');
        *value++ = 0;
        ck_assert_msg(bt_optimizer_set(optimizer, word, strtod(value, NULL)) == BT_OK, "%s", bt_error());
    }
    return optimizer;
}

static void run(int number, plain_training *training, double tolerance)
{
    double noise[PLAIN_SIZE], found[PLAIN_SIZE];
    for (int step = 1, shown = 0; step <= GOLDEN_STEPS; step++) {
        for (int i = 0; i < PLAIN_SIZE; i++)
            noise[i] = 0.5 * sin(0.9 * step + 1.7 * i);
        plain_step(training, noise);
        if (step != golden_shown[shown])
            continue;
        plain_found(training, found);
        for (int i = 0; i < PLAIN_SIZE; i++) {
            double due = golden_optimizers[number].after[shown][i];
            ck_assert_msg(fabs(found[i] - due) <= tolerance * (1 + fabs(due)),
                          "%s %s, step %d, number %d: %.17g, due %.17g", golden_optimizers[number].name,
                          golden_optimizers[number].settings, step, i, found[i], due);
        }
        shown++;
    }
}

START_TEST(thirty_steps)
{
    plain_training training =
        plain_training_new(optimizer_of(golden_optimizers[_i].name, golden_optimizers[_i].settings));
    run(_i, &training, 1e-12);
    plain_training_free(&training);
    ck_assert_uint_eq(bt_live_bytes(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden");
    TCase *tests = tcase_create("golden");
    tcase_add_loop_test(tests, thirty_steps, 0, (int)(sizeof golden_optimizers / sizeof *golden_optimizers));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
