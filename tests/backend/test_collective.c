/* Collectives that the CPU computes for all ranks at once, against plain loops; and what is refused. */
#include "backend/cpu/reference.h"
#include "runtime/backend.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 6, ROOM = 512 };

static bt_call calls[MOST];
static const bt_call *list[MOST];
static bt_view in[MOST], out[MOST];
static bt_collective_attr attrs[MOST];
static double given[MOST][ROOM];
static _Alignas(64) char memory[2 * MOST][ROOM * 8];

static int64_t first_row(int64_t rows, int rank, int ranks) { return (rank * rows + ranks - 1) / ranks; }

/* One call for each rank, on [outer, size, inner] or the rank's part of it, before and after. */
static void begin(const bt_op *op, bt_dtype dtype, int ranks, int64_t rows, int64_t each, bt_reduction reduction)
{
    const int64_t whole[] = {3, rows * each, 5};
    for (int r = 0; r < ranks; r++) {
        const int64_t part = (first_row(rows, r + 1, ranks) - first_row(rows, r, ranks)) * each;
        attrs[r] = (bt_collective_attr){.rank = r, .ranks = ranks, .reduction = (int64_t)reduction};
        in[r] = out[r] = (bt_view){.dtype = dtype, .rank = 3};
        memcpy(in[r].dims, whole, sizeof whole);
        memcpy(out[r].dims, whole, sizeof whole);
        if (op != &bt_op_all_reduce) {
            attrs[r] = (bt_collective_attr){
                .rank = r, .ranks = ranks, .parts = 1, .axis = 1, .rows = rows, .size = rows * each};
            (op == &bt_op_all_gather ? in : out)[r].dims[1] = part;
        }
        for (bt_view *view = &in[r]; view; view = view == &in[r] ? &out[r] : NULL) {
            view->strides[2] = 1;
            view->strides[1] = 5;
            view->strides[0] = 5 * view->dims[1];
            view->data = memory[2 * r + (view == &out[r])];
            memset(view->data, 0x5a, ROOM * 8);
        }
        for (int64_t i = 0; i < bt_cpu_count(&in[r]); i++) {
            double x = (double)((i * 37 + r * 101) % 41) - 20;
            given[r][i] = bt_dtype_floats(dtype) ? bt_dtype_round(dtype, x / 7) : x;
            bt_put(dtype, in[r].data, i, given[r][i]);
        }
        calls[r] = (bt_call){.op = op, .attr = &attrs[r], .inputs = 1, .outputs = 1, .in = &in[r], .out = &out[r]};
        calls[r].threads = 1;
        list[r] = &calls[r];
    }
}

/* The reduction over the elements `i` of all ranks, in rank order. */
static double reduced(bt_dtype dtype, int ranks, int64_t i, bt_reduction reduction)
{
    double all = given[0][i];
    for (int r = 1; r < ranks; r++) {
        double x = given[r][i];
        all = reduction == BT_REDUCE_SUM   ? bt_dtype_round(dtype, all + x)
              : reduction == BT_REDUCE_MAX ? fmax(all, x)
                                           : fmin(all, x);
    }
    return all;
}

static void expect(const bt_view *view, int64_t i, double right)
{
    double found = bt_get(view->dtype, view->data, i);
    ck_assert_msg(found == right, "[%d] is %g, must be %g", (int)i, found, right);
}

static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_I32, BT_I64};

START_TEST(all_reduce)
{
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (int reduction = 0; reduction < 3; reduction++)
            for (int over = 0; over < 2; over++) { /* each result over its own operand */
                begin(&bt_op_all_reduce, dtypes[_i], ranks, 4, 1, (bt_reduction)reduction);
                for (int r = 0; over && r < ranks; r++)
                    out[r].data = in[r].data;
                ck_assert_int_eq(bt_cpu_join(list, ranks), BT_OK);
                for (int r = 0; r < ranks; r++)
                    for (int64_t i = 0; i < bt_cpu_count(&out[r]); i++)
                        expect(&out[r], i, reduced(dtypes[_i], ranks, i, (bt_reduction)reduction));
            }
}
END_TEST

/* Several operands of any size, each separately. */
START_TEST(several)
{
    enum { VALUES = 3 };
    bt_view ins[MOST][VALUES], outs[MOST][VALUES];
    for (int ranks = 1; ranks <= MOST; ranks++) {
        begin(&bt_op_all_reduce, BT_F32, ranks, 4, 1, BT_REDUCE_SUM);
        for (int r = 0; r < ranks; r++) {
            for (int v = 0, at = 0; v < VALUES; at += 20 - v, v++) {
                ins[r][v] = (bt_view){.dtype = BT_F32, .rank = 1, .dims = {20 - v}, .strides = {1}};
                outs[r][v] = ins[r][v];
                ins[r][v].data = in[r].data + 4 * at;
                outs[r][v].data = (v % 2 ? in : out)[r].data + 4 * at;
            }
            calls[r].in = ins[r], calls[r].out = outs[r], calls[r].inputs = calls[r].outputs = VALUES;
        }
        ck_assert_ptr_nonnull(bt_kernel_choose(&bt_backend_cpu()->kernels, &calls[0]));
        ck_assert_int_eq(bt_cpu_join(list, ranks), BT_OK);
        for (int r = 0; r < ranks; r++)
            for (int v = 0, at = 0; v < VALUES; at += 20 - v, v++)
                for (int i = 0; i < 20 - v; i++)
                    expect(&outs[r][v], i, reduced(BT_F32, ranks, at + i, BT_REDUCE_SUM));
    }
    ins[1][2].dims[0]--;
    ck_assert_int_eq(bt_cpu_join(list, MOST), BT_ERROR_INTERNAL);
    bt_error_clear();
    ins[0][1].strides[0] = 2;
    ck_assert_ptr_null(bt_kernel_choose(&bt_backend_cpu()->kernels, &calls[0]));
}
END_TEST

START_TEST(all_gather)
{
    static const bt_dtype every[] = {BT_F32, BT_F64, BT_I32, BT_I64, BT_U8, BT_BF16};
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (int64_t rows = 1; rows <= 7; rows++) {
            begin(&bt_op_all_gather, every[_i], ranks, rows, 1 + rows % 2, BT_REDUCE_SUM);
            ck_assert_int_eq(bt_cpu_join(list, ranks), BT_OK);
            for (int r = 0; r < ranks; r++)
                for (int64_t i = 0; i < bt_cpu_count(&out[r]); i++) {
                    int64_t size = out[r].dims[1], row = i / 5 % size, outer = i / 5 / size, owner = 0;
                    while (first_row(rows, (int)owner + 1, ranks) * attrs[r].size / rows <= row)
                        owner++;
                    int64_t own = row - first_row(rows, (int)owner, ranks) * attrs[r].size / rows;
                    expect(&out[r], i,
                           bt_get(in[owner].dtype, in[owner].data, (outer * in[owner].dims[1] + own) * 5 + i % 5));
                }
        }
}
END_TEST

START_TEST(reduce_scatter)
{
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (int64_t rows = 1; rows <= 7; rows++) {
            begin(&bt_op_reduce_scatter, dtypes[_i], ranks, rows, 1 + rows % 2, BT_REDUCE_SUM);
            ck_assert_int_eq(bt_cpu_join(list, ranks), BT_OK);
            for (int r = 0; r < ranks; r++)
                for (int64_t i = 0; i < bt_cpu_count(&out[r]); i++) {
                    int64_t size = out[r].dims[1], outer = i / 5 / size;
                    int64_t row = i / 5 % size + first_row(rows, r, ranks) * attrs[r].size / rows;
                    expect(&out[r], i,
                           reduced(dtypes[_i], ranks, (outer * attrs[r].size + row) * 5 + i % 5, BT_REDUCE_SUM));
                }
        }
}
END_TEST

/* NaN is larger, and smaller, than everything else, on any rank. */
START_TEST(not_a_number)
{
    for (int reduction = BT_REDUCE_MAX; reduction <= BT_REDUCE_MIN; reduction++) {
        begin(&bt_op_all_reduce, _i % 2 ? BT_F32 : BT_F64, 3, 4, 1, (bt_reduction)reduction);
        bt_put(in[_i % 3].dtype, in[_i % 3].data, 2, NAN);
        ck_assert_int_eq(bt_cpu_join(list, 3), BT_OK);
        for (int r = 0; r < 3; r++)
            ck_assert(isnan(bt_get(out[r].dtype, out[r].data, 2)) && !isnan(bt_get(out[r].dtype, out[r].data, 1)));
    }
}
END_TEST

START_TEST(refused)
{
    begin(&bt_op_all_reduce, BT_F64, 2, 4, 1, BT_REDUCE_SUM);
    const bt_kernel_impl *kernel = bt_kernel_choose(&bt_backend_cpu()->kernels, &calls[0]);
    ck_assert_ptr_nonnull(kernel);
    ck_assert_int_eq(kernel->launch(&calls[0]), BT_ERROR_INTERNAL);
    ck_assert_str_eq(bt_error(), "all_reduce: a collective can only run with all ranks");
    bt_error_clear();
    in[0].strides[0] = 0; /* one number repeated */
    ck_assert_ptr_null(bt_kernel_choose(&bt_backend_cpu()->kernels, &calls[0]));
    begin(&bt_op_all_reduce, BT_F64, 2, 4, 1, BT_REDUCE_SUM);
    attrs[1].reduction = BT_REDUCE_MAX;
    ck_assert_int_eq(bt_backend_cpu()->kernels.join(list, 2), BT_ERROR_INTERNAL);
    ck_assert_str_eq(bt_error(), "all_reduce: rank 1 of 2 is at a different call (all_reduce of rank 1 of 2)");
    bt_error_clear();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("collective");
    TCase *tests = tcase_create("collective");
    tcase_add_loop_test(tests, all_reduce, 0, BT_COUNT_OF(dtypes));
    tcase_add_test(tests, several);
    tcase_add_loop_test(tests, all_gather, 0, 6);
    tcase_add_loop_test(tests, reduce_scatter, 0, BT_COUNT_OF(dtypes));
    tcase_add_loop_test(tests, not_a_number, 0, 6);
    tcase_add_test(tests, refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
