/* tests/cuda/test_library.c: matrix products by cuBLASLt if it accepts them, and by tiles if it does not or is
 * missing. */
#include "backend/cuda/cuda.h"

#include "support/on_device.h"
#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { M = 24, N = 40, K = 200, MOST = 3 * K * N };

typedef struct scene {
    bt_view in[4], out;
    bt_call call;
    bt_linear_attr attr;
} scene;

static bt_view view(bt_dtype dtype, int64_t rows, int64_t columns, int64_t row, int64_t column)
{
    return (bt_view){.dtype = dtype, .rank = 2, .dims = {rows, columns}, .strides = {row, column}};
}

/* a b; or a b' plus a bias. */
static void begin(scene *s, const bt_op *op, bt_dtype dtype)
{
    *s = (scene){.attr = {1}};
    s->in[0] = view(dtype, M, K, K, 1);
    s->in[1] = op == &bt_op_linear ? view(dtype, N, K, K, 1) : view(dtype, K, N, N, 1);
    s->in[2] = op == &bt_op_linear ? (bt_view){.dtype = dtype, .rank = 1, .dims = {N}, .strides = {1}}
                                   : view(dtype, M, N, N, 1);
    s->in[3] = (bt_view){.dtype = dtype};
    s->out = view(dtype, M, N, N, 1);
    s->call = (bt_call){.op = op,
                        .attr = &s->attr,
                        .inputs = op == &bt_op_dot      ? 2
                                  : op == &bt_op_linear ? 3
                                                        : 4,
                        .outputs = 1,
                        .in = s->in,
                        .out = &s->out,
                        .threads = 1};
}

static void assert_chosen(const scene *s, const char *name)
{
    const bt_kernel_impl *kernel = bt_kernel_choose(&bt_backend_cuda()->kernels, &s->call);
    ck_assert_ptr_nonnull(kernel);
    ck_assert_str_eq(kernel->name, name);
}

START_TEST(what_it_takes)
{
    static const bt_dtype halves[] = {BT_BF16, BT_F16};
    scene s;
    ck_assert_ptr_null(strstr(bt_backend_cuda()->isa(), "without"));
    begin(&s, &bt_op_dot, BT_F32);
    assert_chosen(&s, "dot.cublaslt");
    begin(&s, &bt_op_dot, BT_F64);
    assert_chosen(&s, "dot.cublaslt");
    begin(&s, &bt_op_dot_add, BT_F32);
    assert_chosen(&s, "dot_add.cublaslt");
    begin(&s, &bt_op_linear, BT_F32);
    assert_chosen(&s, "linear.cublaslt");
    for (int i = 0; i < BT_COUNT_OF(halves); i++)
        for (int wide = 0; wide < 2; wide++) {
            begin(&s, &bt_op_linear, halves[i]);
            s.in[2].dtype = s.out.dtype = wide ? BT_F32 : halves[i];
            assert_chosen(&s, "linear.cublaslt");
        }
    begin(&s, &bt_op_dot, BT_F32);
    s.in[0] = view(BT_F32, M, K, 1, M);
    s.in[1] = view(BT_F32, K, N, 1, K + 3);
    assert_chosen(&s, "dot.cublaslt");
}
END_TEST

/* Calls left to tiles: strides along both axes, overlapping rows, mixed types, a bias with gaps, empty arrays. */
START_TEST(what_it_leaves)
{
    scene s;
    begin(&s, &bt_op_dot, BT_F32);
    s.in[0] = view(BT_F32, M, K, 2 * K, 2);
    assert_chosen(&s, "dot.tiles");
    s.in[0] = view(BT_F32, M, K, 0, 1);
    assert_chosen(&s, "dot.tiles");
    begin(&s, &bt_op_dot, BT_BF16);
    s.in[1].dtype = BT_F32;
    assert_chosen(&s, "dot.tiles");
    begin(&s, &bt_op_linear, BT_F32);
    s.in[2].strides[0] = 2;
    assert_chosen(&s, "linear.tiles");
    begin(&s, &bt_op_linear, BT_F64); /* the library has no bias in f64 */
    assert_chosen(&s, "linear.tiles");
    begin(&s, &bt_op_dot, BT_F32);
    s.in[0].dims[1] = s.in[1].dims[0] = 0;
    assert_chosen(&s, "dot.tiles");
}
END_TEST

START_TEST(missing)
{
    scene s;
    setenv("FAKE_CUBLASLT", "absent", 1);
    begin(&s, &bt_op_dot, BT_F32);
    assert_chosen(&s, "dot.tiles");
    ck_assert_ptr_nonnull(strstr(bt_backend_cuda()->isa(), "without cuBLASLt"));
}
END_TEST

/* A folder without the library is skipped; so is one that does not exist. */
START_TEST(folders)
{
    scene s;
    setenv("BETTY_CUDA_LIBRARIES", "/no/such/folder::/tmp", 1);
    begin(&s, &bt_op_dot, BT_F32);
    assert_chosen(&s, "dot.cublaslt");
}
END_TEST

/* ---- alignment, and determinism ---- */

static void run(scene *s, const bt_kernel_impl *kernel, int64_t shift, char *result)
{
    static char memory[5][MOST * sizeof(double)];
    host_span spans[5] = {{NULL, 0}};
    bt_call *call = &s->call;
    ck_assert(kernel->prepare == NULL || kernel->prepare(call) == BT_OK);
    char *scratch = bt_alloc_aligned(kernel->scratch(call) + 1);
    for (int i = 0; i < call->inputs; i++) {
        for (int e = 0; e < MOST; e++)
            bt_put(s->in[i].dtype, memory[i], e, (double)((e * 7919 + i * 31) % 1009) / 1009 - 0.5);
        s->in[i].data = memory[i] + (size_t)shift * bt_dtype_size(s->in[i].dtype);
        spans[i] = (host_span){memory[i], sizeof memory[i] - BT_ALIGN}; /* one span ends before the next */
    }
    s->out.data = result;
    spans[call->inputs] = (host_span){result, M * N * bt_dtype_size(s->out.dtype)};
    host_span all[6];
    memcpy(all, spans, sizeof spans);
    all[call->inputs + 1] = (host_span){scratch, kernel->scratch(call) + 1};
    call->scratch = scratch;
    ck_assert_msg(run_on_device(bt_backend_cuda(), kernel, call, all, call->inputs + 2) == BT_OK, "%s", bt_error());
    if (kernel->release)
        kernel->release(call);
    bt_free_aligned(scratch);
}

static const bt_kernel_impl *named(const char *name)
{
    for (const bt_kernel_impl *const *k = bt_backend_cuda()->kernels.list(); *k; k++)
        if (strcmp((*k)->name, name) == 0)
            return *k;
    ck_abort_msg("there is no %s", name);
    return NULL;
}

/* Operands begin at any element: the library's algorithm must not use vector loads. */
START_TEST(any_beginning)
{
    static const bt_dtype dtypes[] = {BT_F32, BT_BF16, BT_F16};
    static char fast[M * N * sizeof(float)], plain[M * N * sizeof(float)];
    for (int d = 0; d < BT_COUNT_OF(dtypes); d++)
        for (int64_t shift = 0; shift < 6; shift++) {
            scene s;
            begin(&s, &bt_op_linear, dtypes[d]);
            run(&s, named("linear.cublaslt"), shift, fast);
            run(&s, named("linear.tiles"), shift, plain);
            for (int e = 0; e < M * N; e++)
                ck_assert_double_eq_tol(bt_get(dtypes[d], fast, e), bt_get(dtypes[d], plain, e),
                                        dtypes[d] == BT_F32 ? 1e-4 : 0.07);
        }
}
END_TEST

START_TEST(the_same_bits_again)
{
    static const char *const kernels[] = {"dot.cublaslt", "dot.tiles", "dot_add.cublaslt", "dot_add.tiles"};
    static char first[M * N * sizeof(double)], again[M * N * sizeof(double)];
    for (int k = 0; k < BT_COUNT_OF(kernels); k++)
        for (int wide = 0; wide < 2; wide++)
            for (int time = 0; time < 4; time++) {
                scene s;
                begin(&s, k < 2 ? &bt_op_dot : &bt_op_dot_add, wide ? BT_F64 : BT_F32);
                run(&s, named(kernels[k]), 0, time ? again : first);
                ck_assert_msg(!time || memcmp(first, again, M * N * (wide ? 8 : 4)) == 0, "%s", kernels[k]);
            }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda: library");
    TCase *tcase = tcase_create("library");
    tcase_add_test(tcase, what_it_takes);
    tcase_add_test(tcase, what_it_leaves);
    tcase_add_test(tcase, missing);
    tcase_add_test(tcase, folders);
    tcase_add_test(tcase, any_beginning);
    tcase_add_test(tcase, the_same_bits_again);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
