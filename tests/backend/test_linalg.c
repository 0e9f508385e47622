/* Linear solves and determinants: device kernels against the plain loops, for matrices from 1 x 1 to more rows than a
 * block has threads, and for more matrices than there are blocks. */
#include "tests/backend/compare.h"

#include "support/on_device.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <string.h>

static const int64_t sizes[][3] = {/* matrices, rows, columns of b */
                                   {1, 1, 1}, {3, 2, 1},  {1, 5, 3},  {2, 9, 40}, {600, 2, 1},
                                   {0, 3, 2}, {2, 33, 2}, {2, 40, 0}, {1, 70, 5}, {1, 300, 1}};

static operand matrices(bt_dtype dtype, int64_t count, int64_t rows, int64_t columns, enum layout layout)
{
    return (operand){.dtype = dtype, .rank = 3, .dims = {count, rows, columns}, .layout = layout, .low = -1, .high = 1};
}

static void check(const trial *t)
{
    if (device_backend())
        compare_fast(t);
    else
        compare(t);
}

START_TEST(sizes_and_layouts)
{
    const int64_t *s = sizes[_i];
    const enum layout layouts[] = {PLAIN, TURNED, SLICED, SPREAD};
    for (int way = 0; way < 2 * BT_COUNT_OF(layouts); way++) {
        const bt_dtype dtype = way & 1 ? BT_F32 : BT_F64;
        const enum layout layout = layouts[way / 2];
        if (s[1] > 100 && way > 1)
            break;
        trial t = {.op = &bt_op_solve, .inputs = 2, .outputs = 1, .seed = (uint64_t)(_i + 3)};
        t.in[0] = matrices(dtype, s[0], s[1], s[1], layout);
        t.in[1] = matrices(dtype, s[0], s[1], s[2], layout == TURNED ? PLAIN : layout);
        t.out[0] = matrices(dtype, s[0], s[1], s[2], PLAIN);
        t.absolute = t.relative = dtype == BT_F32 ? 1e-6 : 1e-10;
        check(&t);
        t = (trial){.op = &bt_op_logdet, .inputs = 1, .outputs = 1, .in = {t.in[0]}, .seed = (uint64_t)(_i + 5)};
        t.out[0] = (operand){.dtype = dtype, .rank = 1, .dims = {s[0]}};
        t.absolute = t.relative = dtype == BT_F32 ? 1e-6 : 1e-12;
        check(&t);
    }
}
END_TEST

/* Equal pivot candidates, exact zeros, and NaN. */
START_TEST(choices_of_rows)
{
    static const double ties[] = {1, -1, 3, 2, -3, 1, 3, 0, 1, 2, -2}, wild[] = {1, NAN, 2, -3, 0.5, 4, 1, 2};
    static const double zeros[] = {0, 0, 0, 1}, first[] = {1, 1e20, 1, 1, 1, 2, 1, 2, 2}; /* singular by column 1 */
    const struct {
        const double *values;
        int count;
    } lists[] = {
        {ties, BT_COUNT_OF(ties)}, {wild, BT_COUNT_OF(wild)}, {zeros, BT_COUNT_OF(zeros)}, {first, BT_COUNT_OF(first)}};
    for (int64_t n = 1; n < 8; n++) {
        trial t = {.op = &bt_op_logdet, .inputs = 1, .outputs = 1, .in = {matrices(BT_F64, 3, n, n, PLAIN)}};
        t.in[0].values = lists[_i].values;
        t.in[0].value_count = lists[_i].count;
        t.out[0] = (operand){.dtype = BT_F64, .rank = 1, .dims = {3}};
        t.absolute = t.relative = 1e-12;
        check(&t);
    }
}
END_TEST

/* The message names the first of several singular ones. */
START_TEST(singular)
{
    double a[] = {1, 2, 3, 4, 1, 2, 2, 4, 0, 0, 0, 0}, b[] = {1, 1, 1, 1, 1, 1}, x[6];
    const bt_backend *device = device_backend();
    const bt_kernel_impl *const *kernels = (device ? device : bt_backend_cpu())->kernels.list();
    const bt_kernel_impl *kernel = kernel_named(kernels, &bt_op_solve, "solve");
    bt_view in[] = {{(char *)a, BT_F64, 3, {3, 2, 2}, {4, 2, 1}}, {(char *)b, BT_F64, 3, {3, 2, 1}, {2, 1, 1}}};
    bt_view out = {(char *)x, BT_F64, 3, {3, 2, 1}, {2, 1, 1}};
    bt_call call = {.op = &bt_op_solve, .inputs = 2, .outputs = 1, .in = in, .out = &out, .threads = 1};
    const size_t bytes = kernel->scratch(&call);
    call.scratch = bt_alloc_aligned(bytes);
    ck_assert_ptr_nonnull(call.scratch);
    memset(call.scratch, 0, bytes);
    memset(x, 0, sizeof x);
    const host_span spans[] = {
        {(char *)a, sizeof a}, {(char *)b, sizeof b}, {(char *)x, sizeof x}, {call.scratch, bytes}};
    ck_assert_int_eq(device ? run_on_device(device, kernel, &call, spans, 4) : kernel->launch(&call), BT_ERROR_NUMERIC);
    ck_assert_ptr_nonnull(strstr(bt_error(), "solve: matrix 1 is singular; if that can happen, add"));
    bt_error_clear();
    bt_free_aligned(call.scratch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backend: linear algebra");
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, sizes_and_layouts, 0, BT_COUNT_OF(sizes));
    tcase_add_loop_test(tcase, choices_of_rows, 0, 4);
    tcase_add_test(tcase, singular);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
