/* backend/cuda/convolution_plan.c: asks cuDNN for the best plan of a convolution on a card, present or not. Of the
 * first usable candidates of its heuristics, the one with the smallest workspace is taken; a few bytes do not matter.
 * Its plain loops need no workspace but are slow, and are last in nearly every list: they are taken only if they are
 * first, or alone. With tf32, plans that use tensor cores come first. For 16-bit operands that are not aligned for
 * tensor cores, which is rare, only the workspace matters. */
#include "backend/cuda/convolution.h"
#include "backend/cuda/profile.h"

#include <pthread.h>
#include <string.h>

enum { CANDIDATES = 8, CONFIGURATIONS = BT_CUDNN_DESCRIPTORS - 2, FEW_BYTES = 1 << 16 };
enum { PLAIN_LOOPS = 1 << CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP }; /* identifies them */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bt_cuda_conv_plan *plans;

unsigned bt_cuda_conv_forbidden(bt_dtype dtype, bool tf32)
{
    const unsigned never =
        1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC | 1U << CUDNN_NUMERICAL_NOTE_FFT |
        1U << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS | 1U << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION |
        1U << CUDNN_NUMERICAL_NOTE_WINOGRAD | 1U << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 |
        1U << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 | 1U << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    return dtype == BT_F32 && !tf32 ? never | 1U << CUDNN_NUMERICAL_NOTE_TENSOR_CORE : never;
}

/* ---- the convolution ---- */

bt_cuda_conv_views bt_cuda_conv_views_of(const bt_call *call)
{
    const bt_view *first = &call->in[0], *second = &call->in[1], *out = &call->out[0];
    if (call->op == &bt_op_conv_dx)
        return (bt_cuda_conv_views){.x = out, .w = second, .y = first};
    if (call->op == &bt_op_conv_dw)
        return (bt_cuda_conv_views){.x = first, .w = out, .y = second};
    return (bt_cuda_conv_views){.x = first, .w = second, .y = out};
}

static bool fits(const bt_view *view)
{
    int64_t count = 1;
    for (int d = 0; d < view->rank; d++) {
        if (view->dims[d] < 1 || view->dims[d] > INT32_MAX)
            return false;
        count *= view->dims[d];
        if (count > INT32_MAX)
            return false;
    }
    return true;
}

/* False: not for cuDNN. */
static bool conv_of(const bt_call *call, bool aligned, bt_cuda_conv_case *of)
{
    const bt_conv_attr *attr = call->attr;
    const bt_cuda_conv_views v = bt_cuda_conv_views_of(call);
    const bt_dtype dtype = v.x->dtype;
    if (!bt_dtype_floats(dtype) || v.w->dtype != dtype || v.y->dtype != dtype)
        return false;
    if (!fits(v.x) || !fits(v.w) || !fits(v.y) || !bt_view_dense(v.x) || !bt_view_dense(v.y))
        return false;
    *of = (bt_cuda_conv_case){.kind = call->op == &bt_op_conv_dx   ? BT_CUDA_CONV_DX
                                      : call->op == &bt_op_conv_dw ? BT_CUDA_CONV_DW
                                                                   : BT_CUDA_CONV,
                              .dtype = dtype,
                              .tf32 = aligned && dtype == BT_F32 && call->tag.low == BT_TF32,
                              .alignment = aligned ? 16 : (int64_t)bt_dtype_size(dtype),
                              .w = {v.w->dims[3], v.w->dims[0], v.w->dims[1], v.w->dims[2]}};
    memcpy(of->x, v.x->dims, sizeof of->x);
    memcpy(of->y, v.y->dims, sizeof of->y);
    memcpy(of->stride, attr->stride, sizeof of->stride);
    memcpy(of->padding, attr->padding, sizeof of->padding);
    memcpy(of->dilation, attr->dilation, sizeof of->dilation);
    return true;
}

/* ---- descriptors ---- */

static cudnnDataType_t data_type(int64_t dtype)
{
    return dtype == BT_F64    ? CUDNN_DATA_DOUBLE
           : dtype == BT_BF16 ? CUDNN_DATA_BFLOAT16
           : dtype == BT_F16  ? CUDNN_DATA_HALF
                              : CUDNN_DATA_FLOAT;
}

/* Channels-last: cuDNN counts the axes as images, channels, height, width. */
static cudnnBackendDescriptor_t tensor(bt_cudnn_bag *bag, const bt_cuda_conv_case *of, const int64_t *sizes,
                                       int64_t name)
{
    const int64_t dims[] = {sizes[0], sizes[3], sizes[1], sizes[2]};
    const int64_t strides[] = {sizes[1] * sizes[2] * sizes[3], 1, sizes[2] * sizes[3], sizes[3]};
    const cudnnDataType_t type = data_type(of->dtype);
    cudnnBackendDescriptor_t t = bt_cudnn_new(bag, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    bt_cudnn_set(bag, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    bt_cudnn_set(bag, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    bt_cudnn_set(bag, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    bt_cudnn_set(bag, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &of->alignment);
    bt_cudnn_set(bag, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &name);
    bt_cudnn_finish(bag, t);
    return t;
}

static cudnnBackendDescriptor_t window(bt_cudnn_bag *bag, const bt_cuda_conv_case *of)
{
    const int64_t axes = 2;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const cudnnDataType_t sums = of->dtype == BT_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t w = bt_cudnn_new(bag, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    bt_cudnn_set(bag, w, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes);
    bt_cudnn_set(bag, w, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    bt_cudnn_set(bag, w, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    bt_cudnn_set(bag, w, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, of->padding);
    bt_cudnn_set(bag, w, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, of->padding);
    bt_cudnn_set(bag, w, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, of->stride);
    bt_cudnn_set(bag, w, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, of->dilation);
    bt_cudnn_finish(bag, w);
    return w;
}

static const struct operation {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t x, w, y, window, alpha, beta;
} operations[] = {
    [BT_CUDA_CONV] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [BT_CUDA_CONV_DX] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [BT_CUDA_CONV_DW] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static cudnnBackendDescriptor_t graph_of(bt_cudnn_bag *bag, const bt_cuda_conv_case *of, cudnnHandle_t handle)
{
    const struct operation *o = &operations[of->kind];
    const bool wide = of->dtype == BT_F64;
    const double one = 1, none = 0;
    const float one_f32 = 1, none_f32 = 0;
    const cudnnBackendAttributeType_t type = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    cudnnBackendDescriptor_t x = tensor(bag, of, of->x, BT_CUDA_CONV_X), w = tensor(bag, of, of->w, BT_CUDA_CONV_W);
    cudnnBackendDescriptor_t y = tensor(bag, of, of->y, BT_CUDA_CONV_Y), c = window(bag, of);
    cudnnBackendDescriptor_t made = bt_cudnn_new(bag, o->type);
    bt_cudnn_refer(bag, made, o->x, x);
    bt_cudnn_refer(bag, made, o->w, w);
    bt_cudnn_refer(bag, made, o->y, y);
    bt_cudnn_refer(bag, made, o->window, c);
    bt_cudnn_set(bag, made, o->alpha, type, 1, wide ? (const void *)&one : &one_f32);
    bt_cudnn_set(bag, made, o->beta, type, 1, wide ? (const void *)&none : &none_f32);
    bt_cudnn_finish(bag, made);
    cudnnBackendDescriptor_t graph = bt_cudnn_new(bag, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    bt_cudnn_refer(bag, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, made);
    if (handle)
        bt_cudnn_set(bag, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    bt_cudnn_finish(bag, graph);
    return graph;
}

/* ---- the search ---- */

typedef struct search {
    bt_cudnn_bag bag;
    cudnnHandle_t handle; /* NULL: the card is not present */
    cudnnBackendDescriptor_t card, graph;
    unsigned forbidden, preferred; /* notes */
    int considered;
    bool frugal;
    bt_cuda_conv_plan *best;
} search;

/* A workspace of fewer bytes counts as none. */
static int64_t few(const search *s) { return s->frugal ? 1 : FEW_BYTES; }

static cudnnBackendDescriptor_t card_of(bt_cudnn_bag *bag, cudnnHandle_t handle, const bt_card *card)
{
    cudnnBackendDescriptor_t made = bt_cudnn_new(bag, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    if (card)
        bt_cudnn_set(bag, made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                     (int64_t)strlen(card->text) + 1, card->text);
    else
        bt_cudnn_set(bag, made, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    bt_cudnn_finish(bag, made);
    return made;
}

bt_status bt_cuda_card_known(const char *from, const bt_card *card)
{
    bt_cudnn_bag bag = {CUDNN_STATUS_SUCCESS, {NULL}, 0};
    if (!bt_cuda_cudnn())
        return BT_OK;
    card_of(&bag, NULL, card);
    const cudnnStatus_t status = bag.status;
    bt_cudnn_free(&bag);
    if (status == CUDNN_STATUS_SUCCESS)
        return BT_OK;
    bt_cudnn_try(status, "the description of a card");
    bt_error_context("device profile %s", from);
    return bt_error_status();
}

static unsigned notes_of(bt_cudnn_bag *bag, cudnnBackendDescriptor_t engine)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    const int64_t count = bt_cudnn_get(bag, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                       CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes);
    unsigned bits = 0;
    for (int64_t i = 0; i < count; i++)
        bits |= 1U << notes[i];
    return bits;
}

static bool is_better(const search *s, const bt_cuda_conv_plan *found, const bt_cuda_conv_plan *best)
{
    const unsigned differ = (found->notes ^ best->notes) & s->preferred;
    if (!best->plan || differ)
        return !best->plan || differ & found->notes;
    return !(found->notes & PLAIN_LOOPS && !s->frugal) && best->workspace >= found->workspace + few(s);
}

/* Whether no later candidate can be better. */
static bool is_found(const search *s)
{
    return s->best->plan && s->best->workspace < few(s) && (s->best->notes & s->preferred) == s->preferred;
}

/* Replaces the best plan so far if `found` is better. */
static void compare(search *s, bt_cudnn_bag *bag, const bt_cuda_conv_plan *found)
{
    bt_cuda_conv_plan *best = s->best;
    s->considered++;
    if (!is_better(s, found, best))
        return;
    if (best->plan)
        bt_cuda_cudnn()->descriptor_destroy(best->plan);
    best->plan = bt_cudnn_keep(bag, found->plan);
    best->workspace = found->workspace;
    best->engine = found->engine;
    best->notes = found->notes;
}

static void consider(search *s, cudnnBackendDescriptor_t configuration)
{
    bt_cudnn_bag bag = {CUDNN_STATUS_SUCCESS, {NULL}, 0};
    bt_cuda_conv_plan found = {0};
    cudnnBackendDescriptor_t engine = bt_cudnn_new(&bag, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    bt_cudnn_get(&bag, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
    bt_cudnn_get(&bag, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &found.engine);
    found.notes = notes_of(&bag, engine);
    if (bag.status == CUDNN_STATUS_SUCCESS && !(found.notes & s->forbidden)) {
        found.plan = bt_cudnn_new(&bag, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        bt_cudnn_refer(&bag, found.plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
        bt_cudnn_refer(&bag, found.plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, s->card);
        if (s->handle)
            bt_cudnn_set(&bag, found.plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &s->handle);
        bt_cudnn_finish(&bag, found.plan);
        bt_cudnn_get(&bag, found.plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &found.workspace);
        if (bag.status == CUDNN_STATUS_SUCCESS && found.workspace <= BT_CUDA_CONV_WORKSPACE)
            compare(s, &bag, &found);
    }
    bt_cudnn_free(&bag);
}

static void ask(search *s, cudnnBackendHeurMode_t mode)
{
    bt_cudnn_bag bag = {CUDNN_STATUS_SUCCESS, {NULL}, 0};
    cudnnBackendDescriptor_t found[CONFIGURATIONS];
    cudnnBackendDescriptor_t heuristics = bt_cudnn_new(&bag, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    bt_cudnn_refer(&bag, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, s->graph);
    bt_cudnn_set(&bag, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    bt_cudnn_refer(&bag, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, s->card);
    bt_cudnn_finish(&bag, heuristics);
    int64_t count =
        bt_cudnn_get(&bag, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, NULL);
    if (count > CONFIGURATIONS)
        count = CONFIGURATIONS;
    for (int64_t i = 0; i < count; i++)
        found[i] = bt_cudnn_new(&bag, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (count)
        count =
            bt_cudnn_get(&bag, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, found);
    const int most = s->frugal ? INT32_MAX : CANDIDATES;
    for (int64_t i = 0; i < count && s->considered < most && !is_found(s); i++)
        consider(s, found[i]);
    bt_cudnn_free(&bag);
}

static void find(bt_cuda_conv_plan *plan, cudnnHandle_t handle, const bt_card *card)
{
    search s = {.handle = handle,
                .forbidden = bt_cuda_conv_forbidden((bt_dtype)plan->of.dtype, plan->of.tf32),
                .preferred = plan->of.tf32 ? 1U << CUDNN_NUMERICAL_NOTE_TENSOR_CORE : 0,
                .frugal = plan->of.alignment < 4,
                .best = plan};
    s.card = card_of(&s.bag, handle, card);
    s.graph = graph_of(&s.bag, &plan->of, handle);
    if (s.bag.status == CUDNN_STATUS_SUCCESS)
        ask(&s, CUDNN_HEUR_MODE_A);
    if (s.bag.status == CUDNN_STATUS_SUCCESS && (!plan->plan || s.frugal))
        ask(&s, CUDNN_HEUR_MODE_FALLBACK);
    bt_cudnn_free(&s.bag);
}

/* ---- plans that have been searched for ---- */

static const bt_cuda_conv_plan *known(const bt_cuda_conv_case *of)
{
    for (const bt_cuda_conv_plan *p = plans; p; p = p->next)
        if (memcmp(&p->of, of, sizeof *of) == 0)
            return p;
    return NULL;
}

static const bt_cuda_conv_plan *search_for(const bt_cuda_conv_case *of, const bt_card *card)
{
    cudnnHandle_t handle = card ? NULL : bt_cudnn_handle();
    bt_cuda_conv_plan *plan = card || handle ? bt_alloc(sizeof *plan) : NULL;
    if (!plan)
        return NULL;
    plan->of = *of;
    find(plan, handle, card);
    plan->next = plans;
    plans = plan;
    return plan;
}

const bt_cuda_conv_plan *bt_cuda_conv_planned(const bt_call *call, bool aligned)
{
    bt_cuda_conv_case of;
    if (!conv_of(call, aligned, &of) || !bt_cuda_cudnn())
        return NULL;
    bt_failure before = bt_failure_take();
    int which = 0;
    const bt_card *card = bt_cuda_planned_card(bt_cuda_answers(), &which);
    of.card = which;
    pthread_mutex_lock(&lock);
    const bt_cuda_conv_plan *plan = known(&of);
    if (!plan && (card || bt_cuda_answers()))
        plan = search_for(&of, card);
    pthread_mutex_unlock(&lock);
    bt_error_clear(); /* a call without a plan is left to other kernels */
    bt_failure_give(&before);
    return plan && plan->plan ? plan : NULL;
}
