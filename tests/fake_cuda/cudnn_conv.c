/* tests/fake_cuda/cudnn_conv.c: the engines, and convolutions by plain loops. Engines that a plan must not use give
 * wrong results. Tensor cores round f32 factors to 11 bits. */
#include "cudnn_inside.h"
#include "cut.h"

#include "base/half.h"
#include "fake.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- engines ---- */

#define NOTE(name) (1U << CUDNN_NUMERICAL_NOTE_##name)

static const fake_engine engines[] = {
    {67, NOTE(TENSOR_CORE), true},
    {66, 0, false},
    {5, NOTE(FFT), true},
    {6, NOTE(WINOGRAD) | NOTE(WINOGRAD_TILE_4x4), true},
    {4, NOTE(NONDETERMINISTIC), true},
    {35, NOTE(TENSOR_CORE) | NOTE(DOWN_CONVERT_INPUTS), true},
    {36, NOTE(REDUCED_PRECISION_REDUCTION), true},
    {99, 0, true}, /* needs more workspace than allowed */
    {70, 0, true},
    {28, 0, true},
    {0, NOTE(STRICT_NAN_PROP), true}, /* the last resort: the fallback */
};

static int64_t elements(const fake_tensor *t) { return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3]; }

static int64_t size_of(cudnnDataType_t type)
{
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

/* No engine if the padding is as wide as the window; only the fallback for weight gradients of grouped convolutions. */
int fake_engines(const fake_conv *conv, bool fallback, const fake_engine **list)
{
    const int count = sizeof engines / sizeof *engines;
    for (int a = 0; a < 2; a++)
        if (conv->before[a] > (conv->w.dims[2 + a] - 1) * conv->dilation[a])
            return 0;
    *list = fallback ? engines + count - 1 : engines;
    return fallback ? 1 : conv->kind == FAKE_FILTER && conv->x.dims[1] != conv->w.dims[1] ? 0 : count;
}

static int64_t least(const fake_conv *conv)
{
    return conv->dilation[0] > 1 ? 1 << 17 : conv->kind == FAKE_DATA ? 0 : 40 * conv->w.dims[1];
}

int64_t fake_workspace(const fake_conv *conv, const fake_engine *engine)
{
    return engine->number == 99   ? INT64_C(1) << 30
           : engine->number == 70 ? elements(&conv->x) * size_of(conv->x.type) + (1 << 20)
           : engine->number == 67 ? 131
           : engine->number == 28 ? least(conv)
                                  : 0;
}

/* ---- numbers ---- */

static double number_at(const fake_tensor *t, const char *data, int64_t at)
{
    switch (t->type) {
    case CUDNN_DATA_DOUBLE:
        return ((const double *)data)[at];
    case CUDNN_DATA_FLOAT:
        return (double)((const float *)data)[at];
    case CUDNN_DATA_BFLOAT16:
        return (double)bt_f32_of_bf16(((const uint16_t *)data)[at]);
    default:
        return (double)bt_f32_of_f16(((const uint16_t *)data)[at]);
    }
}

static void put_at(const fake_tensor *t, char *data, int64_t at, double x)
{
    if (t->type == CUDNN_DATA_DOUBLE)
        ((double *)data)[at] = x;
    else if (t->type == CUDNN_DATA_FLOAT)
        ((float *)data)[at] = (float)x;
    else
        ((uint16_t *)data)[at] = t->type == CUDNN_DATA_BFLOAT16 ? bt_bf16_of((float)x) : bt_f16_of((float)x);
}

static int64_t place(const fake_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return a * t->strides[0] + b * t->strides[1] + c * t->strides[2] + d * t->strides[3];
}

/* ---- loops ---- */

typedef struct task {
    fake_conv conv;
    unsigned notes;
    int64_t number;
    char *x, *w, *y, *workspace;
    int64_t workspace_size;
} task;

/* A factor, rounded if the engine does. */
static double factor_at(const task *t, const fake_tensor *of, const char *data, int64_t at)
{
    const double x = number_at(of, data, at);
    return t->notes & NOTE(TENSOR_CORE) && of->type == CUDNN_DATA_FLOAT ? fake_cut(x, FAKE_TF32) : x;
}

/* The input row (or column) that window position `k` covers for output position `o`; -1: it is in the padding. */
static int64_t seen(const fake_conv *c, int axis, int64_t o, int64_t k)
{
    const int64_t at = o * c->stride[axis] - c->before[axis] + k * c->dilation[axis];
    return at < c->x.dims[2 + axis] ? at : -1;
}

typedef void visitor(const task *t, double *sums, int64_t x, int64_t w, int64_t y);

/* Visits each product of the convolution, with the offsets of its three elements. */
static void visit(const task *t, double *sums, visitor *each)
{
    const fake_conv *c = &t->conv;
    const int64_t in = c->w.dims[1], groups = c->x.dims[1] / in, out = c->w.dims[0] / groups;
    for (int64_t n = 0; n < c->y.dims[0]; n++)
        for (int64_t o = 0; o < c->y.dims[1]; o++)
            for (int64_t i = 0; i < c->y.dims[2]; i++)
                for (int64_t j = 0; j < c->y.dims[3]; j++)
                    for (int64_t k = 0; k < c->w.dims[2] * c->w.dims[3]; k++) {
                        const int64_t ky = k / c->w.dims[3], kx = k % c->w.dims[3];
                        const int64_t row = seen(c, 0, i, ky), column = seen(c, 1, j, kx);
                        for (int64_t m = 0; row >= 0 && column >= 0 && m < in; m++)
                            each(t, sums, place(&c->x, n, o / out * in + m, row, column), place(&c->w, o, m, ky, kx),
                                 place(&c->y, n, o, i, j));
                    }
}

static void to_y(const task *t, double *sums, int64_t x, int64_t w, int64_t y)
{
    sums[y] += factor_at(t, &t->conv.x, t->x, x) * factor_at(t, &t->conv.w, t->w, w);
}

static void to_x(const task *t, double *sums, int64_t x, int64_t w, int64_t y)
{
    sums[x] += factor_at(t, &t->conv.y, t->y, y) * factor_at(t, &t->conv.w, t->w, w);
}

static void to_w(const task *t, double *sums, int64_t x, int64_t w, int64_t y)
{
    sums[w] += factor_at(t, &t->conv.y, t->y, y) * factor_at(t, &t->conv.x, t->x, x);
}

static void convolve(const void *args)
{
    const task *t = args;
    const fake_conv *c = &t->conv;
    static visitor *const visitors[] = {to_y, to_x, to_w};
    const fake_tensor *to = c->kind == FAKE_FORWARD ? &c->y : c->kind == FAKE_DATA ? &c->x : &c->w;
    char *data = c->kind == FAKE_FORWARD ? t->y : c->kind == FAKE_DATA ? t->x : t->w;
    const unsigned right = NOTE(STRICT_NAN_PROP) | NOTE(TENSOR_CORE);
    const bool wrong = t->notes & ~right;
    double *sums = calloc((size_t)elements(to), sizeof *sums);
    visit(t, sums, visitors[c->kind]);
    for (int64_t i = 0; i < elements(to); i++)
        put_at(to, data, i,
               c->alpha * sums[i] * (wrong ? 1.01 : 1) + (c->beta != 0 ? c->beta * number_at(to, data, i) : 0));
    if (t->workspace_size)
        memset(t->workspace, (int)(0x30 + t->number % 16), (size_t)t->workspace_size);
    free(sums);
}

static bool is_there(const fake_tensor *t, const void *data)
{
    return fake_memory_has(data, (size_t)(elements(t) * size_of(t->type)));
}

cudnnStatus_t fake_convolve(const fake_conv *conv, const fake_engine *engine, void *x, void *w, void *y,
                            void *workspace, cudaStream_t stream)
{
    const task t = {.conv = *conv,
                    .notes = engine->notes,
                    .number = engine->number,
                    .x = x,
                    .w = w,
                    .y = y,
                    .workspace = workspace,
                    .workspace_size = fake_workspace(conv, engine)};
    if (!is_there(&conv->x, x) || !is_there(&conv->w, w) || !is_there(&conv->y, y))
        return fake_refuse(CUDNN_STATUS_EXECUTION_FAILED, "a tensor is not in the device's memory");
    if (t.workspace_size && (!workspace || !fake_memory_has(workspace, (size_t)t.workspace_size)))
        return fake_refuse(CUDNN_STATUS_BAD_PARAM, "the workspace is not in the device's memory");
    return fake_run(convolve, &t, sizeof t, stream) == cudaSuccess
               ? CUDNN_STATUS_SUCCESS
               : fake_refuse(CUDNN_STATUS_EXECUTION_FAILED, "the stream takes no work");
}
