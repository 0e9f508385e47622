/* tests/engine/test_equation.c: the printed equation of every hierarchy, and the number it stands for. */
#include "linear.h"

#include "engine/session/session.h"
#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct hierarchy {
    const char *u2l, *l2u;
    linear_reads reads;
    const char *equation; /* of t, and of the other problems in `also` */
    const char *also;
} hierarchy;

#define X(q, p)  " - (d2C_" #q "/d(" #p ")d(" #q "))^T x_" #q
#define SOLVE(q) "  x_" #q " = darts(a_" #q "), product jvp, detach frozen; a_" #q " = "

static const hierarchy hierarchies[] = {
    /* chains of three and of four */
    {"t > a, a > b",
     "b > a, a > t",
     {{0, 0.5, 2}, {3}, {0, 0.25}},
     "t: d/d(t) = dC_t/d(t)" X(a, t) "\n" SOLVE(b) "dC_t/d(b)\n" SOLVE(a) "dC_t/d(a)" X(b, a) "\n",
     "a: d/d(a) = dC_a/d(a)" X(b, a) "\n" SOLVE(b) "dC_a/d(b)\n"},
    {"t > a, a > b, b > c",
     "c > b, b > a, a > t",
     {{0, 0.5, 2, 1.5}, {3}, {0, 0.25}, {0, 0, 4}},
     "t: d/d(t) = dC_t/d(t)" X(a, t) "\n" SOLVE(c) "dC_t/d(c)\n" SOLVE(b) "dC_t/d(b)" X(c, b) "\n" SOLVE(
         a) "dC_t/d(a)" X(b, a) "\n",
     "b: d/d(b) = dC_b/d(b)" X(c, b) "\n"},
    /* every level also reads the top, and the lowest all of them */
    {"t > a, t > b, a > b",
     "b > a, a > t",
     {{0, 0.5, 2}, {3}, {0.75, 0.25}},
     "t: d/d(t) = dC_t/d(t)" X(b, t) X(a, t) "\n" SOLVE(b) "dC_t/d(b)\n" SOLVE(a) "dC_t/d(a)" X(b, a) "\n",
     ""},
    /* a diamond: two paths from the lowest to the top, and back */
    {"t > a, t > b, a > c, b > c",
     "c > a, c > b, a > t, b > t",
     {{0, 0.5, 2, 1.5}, {3}, {-2}, {0, 0.25, 4}},
     "t: d/d(t) = dC_t/d(t)" X(a, t)
         X(b, t) "\n" SOLVE(c) "dC_t/d(c)\n" SOLVE(a) "dC_t/d(a)" X(c, a) "\n" SOLVE(b) "dC_t/d(b)" X(c, b) "\n",
     "c: d/d(c) = dC_c/d(c)\n"},
    /* several children that do not read each other */
    {"t > a, b, c",
     "a > t, b > t, c > t",
     {{0, 0.5, 2, 1.5}, {3}, {-2}, {0.25}},
     "t: d/d(t) = dC_t/d(t)" X(a, t) X(b, t)
         X(c, t) "\n" SOLVE(a) "dC_t/d(a)\n" SOLVE(b) "dC_t/d(b)\n" SOLVE(c) "dC_t/d(c)\n",
     ""},
    /* a level read by several levels, whose solution only reaches the top through theirs */
    {"t > a, a > b, a > c", "a > b, a > c, b > t, c > t", {{0, 0, 2, 1.5}, {3}, {0, -2}, {0, 0.25}}, NULL, NULL},
    {"t > a, a > b, a > c",
     "b > t, c > t",
     {{0, 0, 2, 1.5}, {3}, {0, -2}, {0, 0.25}},
     "t: d/d(t) = dC_t/d(t)" X(a, t) "\n" SOLVE(b) "dC_t/d(b)\n" SOLVE(c) "dC_t/d(c)\n" SOLVE(a) "dC_t/d(a)" X(b, a)
         X(c, a) "\n",
     ""},
    /* a lower level with two uppers, one of which does not matter here */
    {"t > a, b > a",
     "a > t, a > b",
     {{0, 0.5}, {3, 0, 4}, {0, 1}},
     "t: d/d(t) = dC_t/d(t)" X(a, t) "\n" SOLVE(a) "dC_t/d(a)\n",
     "b: d/d(b) = dC_b/d(b)" X(a, b) "\n" SOLVE(a) "dC_b/d(a)\n"},
};

enum { HIERARCHIES = sizeof hierarchies / sizeof *hierarchies };

static bool is_above(const hierarchy *h, const char *upper, const char *lower)
{
    char text[200], edge[16], *from = NULL;
    snprintf(text, sizeof text, "%s", h->u2l);
    snprintf(edge, sizeof edge, "%s > %s", upper, lower);
    for (char *item = strtok(text, ","); item; item = strtok(NULL, ",")) {
        item += strspn(item, " ");
        if (strstr(item, " > "))
            from = item;
        bool named = strstr(item, " > ") ? strcmp(item, edge) == 0 : *from == *upper && strcmp(item, lower) == 0;
        if (named)
            return true;
    }
    return false;
}

static bt_engine *engine_of(const hierarchy *h)
{
    char settings[600], levels[32] = "t";
    static const char *const names[] = {LINEAR_NAMES};
    for (int i = 1; i < LINEAR_LEVELS; i++)
        if (strstr(h->u2l, names[i]))
            snprintf(levels + strlen(levels), sizeof levels - strlen(levels), ", %s", names[i]);
    snprintf(settings, sizeof settings, "engine.levels = %s\ndependencies.u2l = %s\ndependencies.l2u = %s\n", levels,
             h->u2l, h->l2u);
    return levels_engine(&linear_parts, (void *)(uintptr_t)&h->reads, settings);
}

static char *equation_of(bt_engine *engine)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    EXPECT_OK(bt_engine_print(engine, BT_EQUATION, file));
    fclose(file);
    return text;
}

START_TEST(what_is_printed_and_computed)
{
    static const char *const names[] = {LINEAR_NAMES};
    const hierarchy *h = &hierarchies[_i];
    linear_reads reads;
    bool upper[LINEAR_LEVELS][LINEAR_LEVELS] = {{false}};
    double p[LINEAR_LEVELS] = {0}, found;
    bt_engine *engine = engine_of(h);
    if (!h->equation) { /* the impossible hierarchies */
        levels_expect_error(engine, "l2u: a > b", NULL);
        return;
    }
    char *text = equation_of(engine);
    ck_assert_msg(strstr(text, h->equation) == text, "%s", text);
    ck_assert_msg(strstr(text, h->also) != NULL, "%s", text);
    free(text);
    levels_step(engine, 3);
    for (int i = 0; i < LINEAR_LEVELS; i++)
        if (bt_engine_problem(engine, names[i])->settings->active)
            levels_params(engine, names[i], &p[i], 1);
    for (int i = 0; i < LINEAR_LEVELS; i++)
        for (int j = 0; j < LINEAR_LEVELS; j++)
            upper[i][j] = is_above(h, names[i], names[j]);
    memcpy(reads, h->reads, sizeof reads);
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "t"), BT_ARRAY(&found)));
    ck_assert_double_eq_tol(found, linear_derivative(reads, upper, p), 1e-12);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("equation");
    TCase *tests = tcase_create("hierarchies");
    tcase_add_loop_test(tests, what_is_printed_and_computed, 0, HIERARCHIES);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
