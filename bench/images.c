/* bench/images.c: speed of image operations other than convolution, in GB/s of operands and results: bench-images [ISA]
 * [seconds per line] [threads]. The first line of each size is the speed of a copy. */
#include "backend/cpu/cpu.h"
#include "runtime/phase.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double seconds = 0.1;
static int threads = 1;

static const int64_t sizes[][4] = {{100, 32, 32, 16}, {100, 16, 16, 32}, {100, 8, 8, 64},
                                   {25, 28, 28, 64},  {100, 32, 32, 3},  {100, 16, 16, 31}};

static bt_view view_of(bt_array shape)
{
    bt_view view = {.dtype = shape.dtype, .rank = shape.rank};
    int64_t stride = 1;
    for (int d = shape.rank - 1; d >= 0; d--) {
        view.dims[d] = shape.dims[d];
        view.strides[d] = stride;
        stride *= shape.dims[d];
    }
    view.data = bt_alloc_aligned((size_t)(stride ? stride : 1) * bt_dtype_size(shape.dtype));
    for (int64_t i = 0; view.data && i < stride; i++)
        bt_put(shape.dtype, view.data, i, shape.dtype == BT_I32 ? 0 : (double)(i * 37 % 101) / 101 - 0.5);
    return view;
}

static double best_of(const bt_kernel_impl *kernel, bt_call *call)
{
    double best = -1;
    size_t scratch = kernel->scratch ? kernel->scratch(call) : 0;
    call->scratch = scratch ? bt_alloc_aligned(scratch) : NULL;
    bool good = (call->scratch || !scratch) && (!kernel->prepare || kernel->prepare(call) == BT_OK);
    for (double begin = bt_seconds(); good && bt_seconds() - begin < seconds;) {
        double start = bt_seconds();
        good = kernel->launch(call) == BT_OK;
        double each = bt_seconds() - start;
        best = best < 0 || each < best ? each : best;
    }
    if (kernel->release)
        kernel->release(call);
    bt_free_aligned(call->scratch);
    return good ? best : -1;
}

/* in: the input shapes; the output shapes are inferred. */
static void line(const bt_kernel_impl *const *kernels, const bt_op *op, const void *attr, const bt_array *in,
                 int inputs, const char *title)
{
    bt_array shapes[BT_MAX_ITEMS + 1] = {{0}}, results[BT_MAX_OUTPUTS];
    bt_view views[BT_MAX_ITEMS], out[BT_MAX_OUTPUTS];
    double bytes = 0;
    memcpy(shapes, in, (size_t)inputs * sizeof *in);
    if (op->infer(attr, shapes, results) != BT_OK) {
        printf("%s: %s\n", title, bt_error());
        return;
    }
    int outputs = bt_op_outputs(op, inputs);
    for (int i = 0; i < inputs; i++) {
        views[i] = view_of(in[i]);
        bytes += (double)bt_array_bytes(in[i]);
    }
    for (int o = 0; o < outputs; o++) {
        out[o] = view_of(results[o]);
        bytes += (double)bt_array_bytes(results[o]);
    }
    bt_call call = {
        .op = op, .attr = attr, .inputs = inputs, .outputs = outputs, .in = views, .out = out, .threads = threads};
    const bt_kernel_impl *const *kernel = kernels;
    while (*kernel && ((*kernel)->op != op || ((*kernel)->accepts && !(*kernel)->accepts(&call))))
        kernel++;
    double time = *kernel ? best_of(*kernel, &call) : -1;
    printf("%-44s  %6.1f GB/s (%.0f us)  %s\n", title, bytes / time * 1e-9, time * 1e6, *kernel ? (*kernel)->name : "");
    fflush(stdout);
    for (int i = 0; i < inputs; i++)
        bt_free_aligned(views[i].data);
    for (int o = 0; o < outputs; o++)
        bt_free_aligned(out[o].data);
}

static const struct {
    const char *title;
    bt_channel_attr attr;
} mixes[] = {
    {"norm", {.terms = 1, .centred = 1, .scaled = 1, .shifted = 1}},
    {"norm, relu", {.terms = 1, .centred = 1, .scaled = 1, .shifted = 1, .relu = 1}},
    {"norm, shortcut, relu", {.terms = 2, .centred = 1, .scaled = 1, .shifted = 1, .relu = 1}},
    {"norm's derivative", {.terms = 2, .centred = 2, .scaled = 3, .shifted = 1}},
    {"of four", {.terms = 4, .centred = 15, .scaled = 15, .shifted = 1}},
};

static void channels(const bt_kernel_impl *const *kernels, bt_array x)
{
    bt_array c = {.dtype = x.dtype, .rank = 1, .dims = {x.dims[3]}}, in[BT_MAX_ITEMS];
    bt_channel_attr moments = {.lead = 0}, dot = {.terms = 1, .centred = 1};
    line(kernels, &bt_op_copy, NULL, &x, 1, "copy");
    line(kernels, &bt_op_channel_moments, &moments, &x, 1, "moments");
    line(kernels, &bt_op_channel_dot, &dot, (bt_array[]){x, x, c}, 3, "dot");
    for (int i = 0; i < BT_COUNT_OF(mixes); i++) {
        bt_channel_inputs at = bt_channel_inputs_of(&mixes[i].attr);
        for (int k = 0; k < at.count; k++)
            in[k] = c;
        for (int k = 0; k < mixes[i].attr.terms; k++)
            in[at.x[k]] = x;
        line(kernels, &bt_op_channel_mix, &mixes[i].attr, in, at.count, mixes[i].title);
    }
}

static bt_window_attr windows(bt_array x, int64_t window, int64_t stride, int64_t padding, bool average)
{
    bt_window_attr attr = {.average = average};
    for (int i = 0; i < 2; i++) {
        int64_t size = x.dims[1 + i];
        attr.axis[i] = (bt_window_axis){size, (size + 2 * padding - window) / stride + 1, window, stride, padding};
    }
    return attr;
}

static void pools(const bt_kernel_impl *const *kernels, bt_array x)
{
    static const int64_t kinds[][3] = {{2, 2, 0}, {3, 2, 1}, {3, 1, 1}};
    for (int i = 0; i < BT_COUNT_OF(kinds); i++) {
        const int64_t *k = kinds[i];
        bt_window_attr largest = windows(x, k[0], k[1], k[2], false), average = windows(x, k[0], k[1], k[2], true);
        bt_pixels_attr pixels = {x.dims[1], x.dims[2]};
        bt_array small = x;
        char title[64];
        for (int d = 0; d < 2; d++)
            small.dims[1 + d] = largest.axis[d].out;
        bt_array index = small;
        index.dtype = BT_I32;
        snprintf(title, sizeof title, "largest of %lld x %lld, stride %lld", (long long)k[0], (long long)k[0],
                 (long long)k[1]);
        line(kernels, &bt_op_window_max, &largest, &x, 1, title);
        line(kernels, &bt_op_window_scatter, &pixels, (bt_array[]){small, index}, 2, "  its adjoint");
        line(kernels, &bt_op_window_gather, NULL, (bt_array[]){x, index}, 2, "  pixels by index");
        line(kernels, &bt_op_window_sum, &average, &x, 1, "  average");
        line(kernels, &bt_op_window_spread, &average, &small, 1, "  its adjoint");
    }
    for (int way = 0; way < 4; way++)
        for (int64_t axis = 1; axis < 3; axis++) {
            bt_resample_attr attr = {axis, x.dims[axis], 2 * x.dims[axis], way & 1, way >> 1};
            bt_array from = x;
            char title[64];
            from.dims[axis] = attr.adjoint ? attr.to : attr.from;
            snprintf(title, sizeof title, "twice as large, axis %d, %s%s", (int)axis,
                     attr.linear ? "linear" : "nearest", attr.adjoint ? ", adjoint" : "");
            line(kernels, &bt_op_resample, &attr, &from, 1, title);
        }
}

int main(int count, char **words)
{
    const bt_kernel_impl *const *kernels = bt_backend_cpu()->kernels.list();
    if (count > 1 && *words[1])
        kernels = bt_cpu_kernels(words[1]);
    if (count > 2)
        seconds = atof(words[2]);
    if (count > 3)
        threads = atoi(words[3]) > 0 ? atoi(words[3]) : 1;
    if (!kernels) {
        fprintf(stderr, "this machine cannot run %s\n", words[1]);
        return 1;
    }
    printf("%s\n", count > 1 && *words[1] ? words[1] : bt_backend_cpu()->isa());
    for (int i = 0; i < BT_COUNT_OF(sizes); i++) {
        bt_array x = {.dtype = BT_F32, .rank = 4};
        char text[256];
        memcpy(x.dims, sizes[i], sizeof sizes[i]);
        printf("\n%s\n", bt_shape_text(text, x.rank, x.dims));
        channels(kernels, x);
        pools(kernels, x);
    }
    return 0;
}
