/* tests/engine/test_own_ops.c: user-defined ops within the bodies of others: what the engine must know about them. */
#include "levels.h"

#include "engine/session/session.h"

#include "support/suite.h"
#include <stdio.h>
#include <string.h>

/* y = w l; the declared rule is dw = g l, dl = g l, but the true dl is g w. */
static void strange_rule(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                         bt_tensor **wanted)
{
    (void)attr, (void)out;
    wanted[0] = given[0] ? bt_mul(given[0], in[1]) : NULL;
    wanted[1] = given[0] ? bt_mul(given[0], in[1]) : NULL;
}

static void strange_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_mul(in[0], in[1]);
}

static void held_body(const void *attr, bt_tensor *const *in, bt_tensor **out) /* l in sg(l) w is detached */
{
    (void)attr;
    out[0] = bt_mul(in[0], bt_detach(in[1]));
}

/* y = 2 l; the declared rule is dl = 3 g. */
static void slanted_rule(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                         bt_tensor **wanted)
{
    (void)attr, (void)in, (void)out;
    wanted[1] = given[0] ? bt_mul(3, given[0]) : NULL;
}

static void slanted_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_mul(2, in[1]);
}

static const bt_op slanted = {
    .name = "slanted", .inputs = 2, .infer = bt_infer_same, .body = slanted_body, .vjp = slanted_rule};
static const bt_op strange = {
    .name = "strange", .inputs = 2, .infer = bt_infer_same, .body = strange_body, .vjp = strange_rule};
static const bt_op held = {.name = "held", .inputs = 2, .body = held_body};
static const bt_op *inner; /* the op that the bodies below contain */

static void once_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_apply(inner, NULL, in[0], in[1]);
}

static const bt_op once = {.name = "once", .inputs = 2, .body = once_body};

static void twice_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_apply(&once, NULL, in[0], in[1]);
}

static const bt_op twice = {.name = "twice", .inputs = 2, .body = twice_body};
static const bt_op *outer;

static bt_module *half(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0.5));
}

static bt_module *three(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(3));
}

static bt_status batch_of_two(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    (void)self, (void)mode, (void)index;
    double x = 2;
    return bt_batch_set(batch, "x", BT_ARRAY(&x, 1));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    bt_tensor *w = bt_forward(self), *l = bt_forward(bt_peer(self, "upper"));
    if (inner == &slanted)
        return bt_mul(0.5, bt_square(bt_sub(w, bt_apply(outer, NULL, w, l))));
    return bt_add(bt_apply(outer, NULL, w, l), bt_add(bt_mul(0.1, bt_mul(w, l)), bt_mul(0.5, bt_square(w))));
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_square(bt_sub(bt_forward(bt_peer(self, "lower")), bt_field(batch, "x"))));
}

static const bt_problem_def lower = {
    .name = "lower", .get_batch = batch_of_two, .configure_module = half, .training_step = lower_step};
static const bt_problem_def upper = {
    .name = "upper", .get_batch = batch_of_two, .configure_module = three, .training_step = upper_step};
static const bt_export parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static bt_engine *engine_of(const bt_op *in, const bt_op *out, const char *settings)
{
    char lines[256];
    inner = in;
    outer = out;
    snprintf(lines, sizeof lines, "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n%s", settings);
    return levels_engine(&parts, NULL, lines);
}

/* v = 2 (0.5 - 2) = -3. By the rule the lower gradient is l + 0.1 l + w, with d/dl = 1.1: 3.3. */
START_TEST(own_rules_make_the_product_vjp)
{
    static const bt_op *const outers[] = {&strange, &once, &twice};
    static const char *const settings[] = {"", "lower.product = vjp\n"};
    for (int way = 0; way < 2; way++) {
        bt_engine *engine = engine_of(&strange, outers[_i], settings[way]);
        double found = 0;
        EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found, 1)));
        ck_assert_double_eq_tol(found, 3.3, 1e-12);
        bt_engine_free(engine);
    }
}
END_TEST

/* Frozen, sg(l) is constant: d/dl of the lower gradient sg(l) + 0.1 l + w is 0.1: 0.3. */
START_TEST(frozen_values_of_a_body)
{
    static const bt_op *const outers[] = {&held, &once, &twice};
    bt_engine *engine = engine_of(&held, outers[_i], "");
    double found = 0;
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found, 1)));
    ck_assert_double_eq_tol(found, 0.3, 1e-12);
    bt_engine_free(engine);
    levels_expect_error(engine_of(&held, outers[_i], "lower.product = finite\n"), "lower", outers[_i]->name,
                        "its body detaches a value", "product = jvp", NULL);
    EXPECT_OK(bt_error_status());
    engine = engine_of(&held, outers[_i], "lower.product = finite\nlower.detach = follow\n");
    EXPECT_OK(bt_hypergradient(bt_engine_problem(engine, "upper"), BT_ARRAY(&found, 1)));
    bt_engine_free(engine);
}
END_TEST

/* The rule disagrees with finite differences: the check names the op. */
START_TEST(suspects_within_a_body)
{
    static const char *const names[] = {"; slanted has a derivative rule", "; an op within the body of once has",
                                        "; an op within the body of twice has"};
    static const bt_op *const outers[] = {&slanted, &once, &twice};
    bt_engine *engine = engine_of(&slanted, outers[_i], "");
    FILE *out = tmpfile();
    char text[8192] = {0};
    ck_assert_int_ne(bt_engine_check_hypergradient(engine, &(bt_checking){.level = "upper", .samples = 1, .file = out}),
                     BT_OK);
    rewind(out);
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, out), 0);
    fclose(out);
    ck_assert_msg(strstr(text, names[_i]) != NULL, "%s", text);
    bt_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("own_ops");
    TCase *tests = tcase_create("bodies");
    tcase_add_loop_test(tests, own_rules_make_the_product_vjp, 0, 3);
    tcase_add_loop_test(tests, frozen_values_of_a_body, 0, 3);
    tcase_add_loop_test(tests, suspects_within_a_body, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
