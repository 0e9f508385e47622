/* A value that is only read in 16 bits is stored in 16 bits by the step that computes it, and read as wide numbers,
 * small and large, by plain loops and by special kernels; nothing is written past its end. */
#include "support/scene.h"

#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { MOST = 40 };

typedef bt_tensor *moves(bt_tensor *x, bt_tensor *y, bt_tensor *index); /* of values [n, 2]; index: [3] rows */

static bt_tensor *concat(bt_tensor *x, bt_tensor *y, bt_tensor *index) { return (void)index, bt_concat(1, x, y); }
static bt_tensor *below(bt_tensor *x, bt_tensor *y, bt_tensor *index) { return (void)index, bt_concat(0, y, x); }
static bt_tensor *stack(bt_tensor *x, bt_tensor *y, bt_tensor *index) { return (void)index, bt_stack(1, x, y); }
static bt_tensor *pad(bt_tensor *x, bt_tensor *y, bt_tensor *index) { return (void)y, (void)index, bt_pad(x, 0, 1, 2); }
static bt_tensor *gather(bt_tensor *x, bt_tensor *y, bt_tensor *index) { return (void)y, bt_gather(x, index); }
static bt_tensor *rolled(bt_tensor *x, bt_tensor *y, bt_tensor *index)
{
    return (void)y, (void)index, bt_roll(x, 1, 0);
}
static bt_tensor *flipped(bt_tensor *x, bt_tensor *y, bt_tensor *index)
{
    return (void)y, (void)index, bt_flip(bt_permute(x, 1, 0), 1);
}
static bt_tensor *sorted(bt_tensor *x, bt_tensor *y, bt_tensor *index)
{
    return (void)y, (void)index, bt_sort(x, 0, false);
}
static bt_tensor *chosen(bt_tensor *x, bt_tensor *y, bt_tensor *index)
{
    return (void)index, bt_where(bt_greater(x, y), x, y);
}

static moves *const all[] = {concat, below, stack, pad, gather, rolled, flipped, sorted, chosen};
static const int64_t rows[] = {1, 2, 3, 4, 8, 9, 40};
static const bt_dtype halves[] = {BT_BF16, BT_F16};
enum { OPS = sizeof all / sizeof *all, SIZES = sizeof rows / sizeof *rows };

/* The op on f32 numbers whose result is then stored in 16 bits; or on 16-bit numbers, read as f32. */
static double *values(moves *op, int64_t n, bt_dtype half, bool before, int64_t *count)
{
    scene s;
    double x[2 * MOST], y[2 * MOST];
    for (int64_t i = 0; i < 2 * n; i++) {
        x[i] = bt_dtype_round(BT_F32, sin(1.3 * (double)i));
        y[i] = bt_dtype_round(BT_F32, cos(0.7 * (double)i));
    }
    scene_begin(&s, BT_F32);
    bt_tensor *a = bt_trace_read(scene_var(&s, "x", BT_F32, x, (const int64_t[]){n, 2, BT_END})),
              *b = bt_trace_read(scene_var(&s, "y", BT_F32, y, (const int64_t[]){n, 2, BT_END})),
              *index =
                  bt_trace_read(scene_var(&s, "index", BT_I64, (const double[]){0, (double)(n / 2), (double)(n - 1)},
                                          (const int64_t[]){3, BT_END}));
    if (half != BT_F32 && before)
        a = bt_cast(bt_cast(a, half), BT_F32), b = bt_cast(bt_cast(b, half), BT_F32);
    bt_tensor *moved = op(a, b, index);
    if (half != BT_F32 && !before)
        moved = bt_cast(bt_cast(moved, half), BT_F32);
    *count = bt_tensor_count(moved);
    bt_graph_output(s.graph, moved);
    scene_end(&s);
    double *found = run_once(s.graph);
    scene_free(&s);
    return found;
}

START_TEST(same_numbers)
{
    const bt_dtype half = halves[_i % 2];
    const int64_t n = rows[_i / 2 % SIZES];
    moves *op = all[_i / 2 / SIZES];
    int64_t count, again;
    double *wide = values(op, n, BT_F32, false, &count);
    for (int before = 0; before < 2; before++) {
        setenv("BETTY_PLAN", "guard", 1);
        double *found = values(op, n, half, before, &again);
        unsetenv("BETTY_PLAN");
        ck_assert_int_eq(again, count);
        for (int64_t i = 0; i < count; i++)
            if (found[i] != bt_dtype_round(half, wide[i]))
                ck_abort_msg("op %d of %lld rows, %s: element %lld is %.9g, of %.9g", _i / 2 / SIZES, (long long)n,
                             before ? "before" : "after", (long long)i, found[i], wide[i]);
        free(found);
    }
    free(wide);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stored in half");
    TCase *tests = tcase_create("stored in half");
    tcase_add_loop_test(tests, same_numbers, 0, 2 * SIZES * OPS);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
