/* The kernel lists: for every op that needs a kernel, the last one accepts any call; the first that accepts is
 * chosen. */
#include "tests/backend/compare.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const bt_op *const without[] = {&bt_op_read, &bt_op_constant,  &bt_op_channel_norm,
                                       &bt_op_min,  &bt_op_attention, &bt_op_round};

static bool needs_kernel(const bt_op *op)
{
    for (int i = 0; i < BT_COUNT_OF(without); i++)
        if (op == without[i])
            return false;
    return true;
}

#define OP(name) &bt_op_##name,
static const bt_op *const ops[] = {BT_OP_LIST(OP)};

START_TEST(complete)
{
    for (const char *const *isa = isas; *isa; isa++) {
        const bt_kernel_impl *const *kernels = bt_cpu_kernels(*isa);
        for (int i = 0; i < BT_COUNT_OF(ops) && kernels; i++) {
            const bt_kernel_impl *last = NULL;
            for (const bt_kernel_impl *const *kernel = kernels; *kernel; kernel++)
                if ((*kernel)->op == ops[i])
                    last = *kernel;
            if (!needs_kernel(ops[i]))
                continue;
            ck_assert_msg(last != NULL, "op %d has no kernel", i);
            if (bt_op_flags(ops[i]) & BT_OP_COLLECTIVE) /* kernels for collectives fail when launched */
                continue;
            bool plain = strstr(last->name, ".reference"), lines = strstr(last->name, ".lines");
            ck_assert_msg(!last->accepts && (plain || lines) && last->plain == plain, "%s is last", last->name);
        }
    }
}
END_TEST

START_TEST(knows)
{
    const bt_backend *cpu = bt_backend_cpu();
    bt_op own = {.name = "own"};
    ck_assert(bt_kernel_known(&cpu->kernels, &bt_op_dot));
    ck_assert(!bt_kernel_known(&cpu->kernels, &bt_op_channel_norm));
    ck_assert(!bt_kernel_known(&cpu->kernels, &own) && !bt_kernel_known(NULL, &own) &&
              !bt_kernel_known(&cpu->kernels, NULL));
    ck_assert_ptr_null(bt_kernel_choose(&cpu->kernels, NULL));
    ck_assert_ptr_null(bt_kernel_choose(NULL, NULL));
}
END_TEST

START_TEST(chooses)
{
    bt_view floats = {.dtype = BT_F32, .rank = 1, .dims = {4}, .strides = {1}}, integers = floats, out = floats;
    bt_call call = {.op = &bt_op_neg, .inputs = 1, .outputs = 1, .in = &floats, .out = &out, .threads = 1};
    integers.dtype = BT_U8; /* there is none for bytes */
    const bt_kernel_impl *fast = bt_kernel_choose(&bt_backend_cpu()->kernels, &call);
    ck_assert_str_eq(fast->name, "neg.vector");
    call.in = &integers;
    ck_assert_str_eq(bt_kernel_choose(&bt_backend_cpu()->kernels, &call)->name, "neg.reference");
}
END_TEST

/* The set whose own kernel is chosen from the list of `isa`; a set's list starts with its own kernels. */
static const char *set_of(const char *isa, const bt_call *call)
{
    const bt_kernel_impl *const *kernel = bt_cpu_kernels(isa);
    while ((*kernel)->op != call->op || ((*kernel)->accepts && !(*kernel)->accepts(call)))
        kernel++;
    for (const char *const *set = isas; *set; set++)
        if (bt_cpu_kernels(*set) && kernel_named(bt_cpu_kernels(*set), call->op, "blocked") == *kernel)
            return *set;
    return "none";
}

static const char *set_of_dot(const char *isa, int64_t m, int64_t k, int64_t n, bool turned)
{
    bt_view in[] = {{NULL, BT_F32, 2, {m, k}, {turned ? 1 : k, turned ? m : 1}}, {NULL, BT_F32, 2, {k, n}, {n, 1}}};
    bt_view out = {NULL, BT_F32, 2, {m, n}, {n, 1}};
    return set_of(isa, &(bt_call){.op = &bt_op_dot, .inputs = 2, .outputs = 1, .in = in, .out = &out, .threads = 1});
}

static const char *set_of_conv(const char *isa, int64_t channels, int64_t groups)
{
    const bt_conv_attr attr = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = groups};
    bt_view x = {NULL, BT_F32, 4, {2, 8, 8, channels}, {64 * channels, 8 * channels, channels, 1}}, y = x;
    bt_view w = {NULL, BT_F32, 4, {3, 3, channels / groups, channels}, {0, 0, channels, 1}};
    w.strides[1] = channels / groups * channels;
    w.strides[0] = 3 * w.strides[1];
    bt_view in[] = {x, w};
    return set_of(
        isa,
        &(bt_call){.op = &bt_op_conv, .attr = &attr, .inputs = 2, .outputs = 1, .in = in, .out = &y, .threads = 1});
}

/* Shapes that do not fill vectors go to the next narrower set, and from there to the next. */
START_TEST(left_to_narrower)
{
    for (int i = 1; i < 3; i++) {
        if (!bt_cpu_kernels(isas[i]))
            continue;
        ck_assert_str_eq(set_of_dot(isas[i], 4, 4, 4, false), "generic");
        ck_assert_str_eq(set_of_dot(isas[i], 40, 40, 40, false), isas[i]);
        ck_assert_str_eq(set_of_dot(isas[i], 8, 500, 1, true), "v3");
        ck_assert_str_eq(set_of_dot(isas[i], 24, 500, 1, true), "v3");
        ck_assert_str_eq(set_of_dot(isas[i], 20, 500, 1, true), isas[i]);
        ck_assert_str_eq(set_of_dot(isas[i], 8, 512, 1, false), "v3");
        ck_assert_str_eq(set_of_dot(isas[i], 8, 513, 1, false), isas[i]);
        ck_assert_str_eq(set_of_dot(isas[i], 100, 1, 100, false), "v3");
        ck_assert_str_eq(set_of_conv(isas[i], 64, 16), "generic");
        ck_assert_str_eq(set_of_conv(isas[i], 64, 8), "v3");
        ck_assert_str_eq(set_of_conv(isas[i], 64, 4), isas[i]);
        ck_assert_str_eq(set_of_conv(isas[i], 64, 64), isas[i]);
        ck_assert_str_eq(set_of_conv(isas[i], 8, 1), isas[i]);
    }
}
END_TEST

/* BETTY_ISA, read once: set before the first use. */
START_TEST(environment)
{
    static const char *const texts[] = {"generic", "x86-64-v3", "x86-64-v4", "x86-64-v4", "x86-64-v4"};
    setenv("BETTY_ISA", isas[_i], 1);
    if (!bt_cpu_kernels(isas[_i]))
        return; /* not supported by this machine */
    ck_assert(bt_backend_cpu()->kernels.list() == bt_cpu_kernels(isas[_i]));
    ck_assert(bt_backend_cpu()->conversions() == bt_cpu_conversions(isas[_i]));
    ck_assert(strstr(bt_backend_cpu()->isa(), texts[_i]) == bt_backend_cpu()->isa());
}
END_TEST

/* AVX512_BF16 alone is only chosen on cores that are faster with it. */
static bool is_chosen(int i)
{
#if defined __x86_64__
    return bt_cpu_kernels(isas[i]) && (strcmp(isas[i], "v4b") != 0 || __builtin_cpu_is("amd"));
#else
    return bt_cpu_kernels(isas[i]) != NULL;
#endif
}

START_TEST(unknown_environment)
{
    setenv("BETTY_ISA", "v99", 1);
    const bt_kernel_impl *const *best = bt_backend_cpu()->kernels.list();
    ck_assert_ptr_null(bt_cpu_kernels("v99"));
    ck_assert_ptr_null(bt_cpu_conversions("v99"));
    for (int i = 4; i >= 0; i--)
        if (is_chosen(i)) {
            ck_assert(best == bt_cpu_kernels(isas[i]));
            break;
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backend");
    TCase *tcase = tcase_create("lists");
    SRunner *runner = srunner_create(suite);
    tcase_add_test(tcase, complete);
    tcase_add_test(tcase, knows);
    tcase_add_test(tcase, chooses);
    tcase_add_test(tcase, left_to_narrower);
    if (srunner_fork_status(runner) == CK_FORK) { /* each in its own process */
        tcase_add_loop_test(tcase, environment, 0, 5);
        tcase_add_test(tcase, unknown_environment);
    }
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
