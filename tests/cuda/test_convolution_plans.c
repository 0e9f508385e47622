/* tests/cuda/test_convolution_plans.c: the plans of the real cuDNN, where installed, for the examples' convolutions on
 * an H100, without needing one: all are deterministic, in the precision of their dtype. */
#include "backend/cuda/convolution.h"

#include "support/suite.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct layer {
    const char *name;
    int64_t n, size, in, out, window, stride, padding, dilation, groups;
} layer;

static const layer layers[] = {
    {"ResNet-32, first", 100, 32, 3, 16, 3, 1, 1, 1, 1},
    {"ResNet-32, stage 1", 100, 32, 16, 16, 3, 1, 1, 1, 1},
    {"ResNet-32, to stage 2", 100, 32, 16, 32, 3, 2, 1, 1, 1},
    {"ResNet-32, to stage 2, past the block", 100, 32, 16, 32, 1, 2, 0, 1, 1},
    {"ResNet-32, stage 2", 100, 16, 32, 32, 3, 1, 1, 1, 1},
    {"ResNet-32, to stage 3", 100, 16, 32, 64, 3, 2, 1, 1, 1},
    {"ResNet-32, to stage 3, past the block", 100, 16, 32, 64, 1, 2, 0, 1, 1},
    {"ResNet-32, stage 3", 100, 8, 64, 64, 3, 1, 1, 1, 1},
    {"ConvNet, first", 25, 28, 1, 64, 3, 1, 1, 1, 1},
    {"ConvNet", 25, 14, 64, 64, 3, 1, 1, 1, 1},
    {"ConvNet, last", 25, 3, 64, 64, 3, 1, 1, 1, 1},
    {"ConvNet, strided", 75, 14, 64, 64, 3, 2, 1, 1, 1},
    {"LeNet, first", 100, 28, 1, 6, 5, 1, 0, 1, 1},
    {"LeNet", 100, 12, 6, 16, 5, 1, 0, 1, 1},
    {"U-Net, down", 4, 64, 64, 128, 3, 1, 1, 1, 1},
    {"U-Net, joined", 4, 64, 128, 64, 3, 1, 1, 1, 1},
    {"U-Net, last", 4, 64, 64, 2, 1, 1, 0, 1, 1},
    {"DARTS, depthwise", 64, 32, 16, 16, 3, 1, 1, 1, 16},
    {"DARTS, depthwise, 5 x 5, stride", 64, 32, 16, 16, 5, 2, 2, 1, 16},
    {"DARTS, dilated", 64, 32, 16, 16, 3, 1, 2, 2, 16},
    {"DARTS, dilated, 5 x 5, stride", 64, 32, 16, 16, 5, 2, 4, 2, 16},
    {"DARTS, each pixel", 64, 32, 16, 16, 1, 1, 0, 1, 1},
    {"DARTS, to the cells", 64, 32, 48, 16, 1, 1, 0, 1, 1},
};

static const bt_op *const ops[] = {&bt_op_conv, &bt_op_conv_dx, &bt_op_conv_dw};
static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_BF16};

static bt_view dense(bt_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (bt_view){.dtype = dtype, .rank = 4, .dims = {a, b, c, d}, .strides = {b * c * d, c * d, d, 1}};
}

static int64_t workspace_of(cudnnBackendDescriptor_t plan)
{
    int64_t bytes = -1, count = 0;
    ck_assert_int_eq(
        bt_cuda_cudnn()->get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes),
        CUDNN_STATUS_SUCCESS);
    return bytes;
}

static const bt_kernel_impl *kernel_of(const bt_op *op)
{
    for (const bt_kernel_impl *k = bt_cuda_convolution; k->op; k++)
        if (k->op == op)
            return k;
    return NULL;
}

/* Checks that the planned workspace is what the call asks for. Returns the notes of the last plan. */
static unsigned check(const layer *l, const bt_op *op, bt_dtype dtype, bt_dtype low)
{
    const int64_t grid = (l->size + 2 * l->padding - (l->window - 1) * l->dilation - 1) / l->stride + 1;
    const bt_view x = dense(dtype, l->n, l->size, l->size, l->in), y = dense(dtype, l->n, grid, grid, l->out);
    const bt_view w = dense(dtype, l->window, l->window, l->in / l->groups, l->out);
    bt_conv_attr attr = {.stride = {l->stride, l->stride},
                         .padding = {l->padding, l->padding},
                         .dilation = {l->dilation, l->dilation},
                         .groups = l->groups};
    bt_view in[] = {op == &bt_op_conv_dx ? y : x, op == &bt_op_conv_dw ? y : w};
    bt_view out = op == &bt_op_conv_dx ? x : op == &bt_op_conv_dw ? w : y;
    const bt_call call = {
        .op = op, .attr = &attr, .inputs = 2, .outputs = 1, .in = in, .out = &out, .threads = 1, .tag.low = low};
    const bt_kernel_impl *kernel = kernel_of(op);
    const size_t weights = bt_align_up(bt_array_bytes(bt_view_array(&w)));
    unsigned notes = 0;
    int64_t most = 0;
    ck_assert_msg(kernel && bt_kernel_accepts(kernel, &call), "%s, %s, %s: no plan", l->name, op->name,
                  bt_dtype_name(dtype));
    for (int aligned = 0; aligned < (bt_dtype_half(dtype) || low == BT_TF32 ? 2 : 1); aligned++) {
        const bt_cuda_conv_plan *plan = bt_cuda_conv_planned(&call, aligned);
        ck_assert_ptr_nonnull(plan);
        ck_assert_msg(!(plan->notes & bt_cuda_conv_forbidden(dtype, aligned && low == BT_TF32)), "%s: notes %x",
                      l->name, plan->notes);
        ck_assert_int_eq(plan->workspace, workspace_of(plan->plan));
        ck_assert_int_le(plan->workspace, BT_CUDA_CONV_WORKSPACE);
        notes = plan->notes;
        most = plan->workspace > most ? plan->workspace : most;
        if (getenv("BT_TEST_SHOW"))
            printf("%-40s %-7s %-4s alignment %2lld: engine %3lld, workspace %8lld\n", l->name, op->name,
                   low == BT_TF32 ? "tf32" : bt_dtype_name(dtype), (long long)plan->of.alignment,
                   (long long)plan->engine, (long long)plan->workspace);
    }
    ck_assert_uint_eq(bt_align_up(kernel->scratch(&call)), bt_align_up(weights + (size_t)most));
    return notes;
}

START_TEST(each)
{
    ck_assert_msg(bt_cuda_profile("h100") == BT_OK, "%s", bt_error());
    for (int o = 0; o < BT_COUNT_OF(ops); o++)
        for (int d = 0; d < BT_COUNT_OF(dtypes); d++)
            check(&layers[_i], ops[o], dtypes[d], BT_F32);
}
END_TEST

/* With tf32 plans may use tensor cores; all do, except grouped or dilated convolutions. */
START_TEST(with_tf32)
{
    int cores = 0;
    ck_assert_msg(bt_cuda_profile("h100") == BT_OK, "%s", bt_error());
    for (int o = 0; o < BT_COUNT_OF(ops); o++)
        cores += (int)(check(&layers[_i], ops[o], BT_F32, BT_TF32) >> CUDNN_NUMERICAL_NOTE_TENSOR_CORE & 1);
    ck_assert_msg(cores == BT_COUNT_OF(ops) || layers[_i].groups > 1, "%s: no tensor cores", layers[_i].name);
}
END_TEST

/* If cuDNN refuses the description, nothing is planned with it. */
START_TEST(all_at_once)
{
    ck_assert_ptr_nonnull(bt_cuda_cudnn());
    ck_assert_uint_ge(bt_cuda_cudnn()->version(), 90800);
    ck_assert_msg(bt_cuda_profile("h100") == BT_OK, "%s", bt_error());
    for (int i = 1; i < 3; i++)
        for (int o = 0; o < BT_COUNT_OF(ops); o++)
            check(&layers[i], ops[o], BT_F32, BT_F32);
}
END_TEST

/* The folder of the real cuDNN; NULL: not installed. The tests' own fake never counts. */
static const char *folder_of_cudnn(void)
{
    static const char *const folders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/lib/x86_64-linux-gnu",
                                          "/usr/lib64"};
    char path[256];
    for (int i = 0; i < BT_COUNT_OF(folders); i++) {
        snprintf(path, sizeof path, "%s/libcudnn.so.9", folders[i]);
        if (access(path, R_OK) == 0)
            return folders[i];
    }
    return NULL;
}

int main(void)
{
    const char *folder = folder_of_cudnn();
    if (!folder) {
        puts("skipped: no cuDNN");
        return 77;
    }
    setenv("BETTY_CUDA_LIBRARIES", folder, 1);
    Suite *suite = suite_create("cuda: convolution plans");
    TCase *tcase = tcase_create("plans");
    tcase_add_test(tcase, all_at_once);
    tcase_add_loop_test(tcase, each, 0, BT_COUNT_OF(layers));
    tcase_add_loop_test(tcase, with_tf32, 0, BT_COUNT_OF(layers));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
