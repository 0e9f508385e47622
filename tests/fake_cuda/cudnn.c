/* tests/fake_cuda/cudnn.c: descriptors of cuDNN's graph interface as lists of attributes, checked as strictly as the
 * real ones: types and counts of values, required attributes, descriptors that must be finalised first, matching
 * sizes. */
#include "cudnn_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ATTRIBUTES = 8, MOST_BYTES = 4096 };

typedef struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    union {
        int64_t numbers[FAKE_MOST_VALUES];
        double doubles[FAKE_MOST_VALUES];
        void *pointers[FAKE_MOST_VALUES];
        int one;
        float single;
        char *text;
    } is;
} attribute;

typedef struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool finished;
    attribute attributes[MOST_ATTRIBUTES];
    int count;
    fake_tensor tensor;        /* for a finalised tensor */
    fake_conv conv;            /* for an operation, graph, heuristics, engine, engine configuration or plan */
    const fake_engine *engine; /* for an engine, engine configuration or plan */
    const fake_engine *list;   /* for heuristics */
    int engines;
    bool elsewhere; /* a plan for a GPU that is not present */
} descriptor;

static _Thread_local char why_text[256];

cudnnStatus_t fake_refuse(cudnnStatus_t status, const char *why)
{
    snprintf(why_text, sizeof why_text, "%s", why);
    return status;
}

/* ---- known attributes ---- */

#define TYPE(name) CUDNN_BACKEND_##name##_DESCRIPTOR
#define CONV(name) CUDNN_ATTR_CONVOLUTION_##name
#define OPERATION(way, type, x, w, y)                                                                                  \
    {TYPE(type), CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_ALPHA, CUDNN_TYPE_FLOAT, 1, 1, 0, true},                     \
        {TYPE(type), CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_BETA, CUDNN_TYPE_FLOAT, 1, 1, 0, true},                  \
        {TYPE(type),                                                                                                   \
         CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_CONV_DESC,                                                           \
         CUDNN_TYPE_BACKEND_DESCRIPTOR,                                                                                \
         1,                                                                                                            \
         1,                                                                                                            \
         TYPE(CONVOLUTION),                                                                                            \
         true},                                                                                                        \
        {TYPE(type), CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_##x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, TYPE(TENSOR),  \
         true},                                                                                                        \
        {TYPE(type), CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_##w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, TYPE(TENSOR),  \
         true},                                                                                                        \
    {                                                                                                                  \
        TYPE(type), CUDNN_ATTR_OPERATION_CONVOLUTION_##way##_##y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, TYPE(TENSOR),   \
            true                                                                                                       \
    }

static const struct rule {
    cudnnBackendDescriptorType_t of;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t least, most;
    cudnnBackendDescriptorType_t refers; /* of CUDNN_TYPE_BACKEND_DESCRIPTOR */
    bool needed;
} rules[] = {
    {TYPE(TENSOR), CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, 0, true},
    {TYPE(TENSOR), CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, 4, 0, true},
    {TYPE(TENSOR), CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, 4, 0, true},
    {TYPE(TENSOR), CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, 1, 0, true},
    {TYPE(TENSOR), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, 1, 0, true},
    {TYPE(CONVOLUTION), CONV(SPATIAL_DIMS), CUDNN_TYPE_INT64, 1, 1, 0, true},
    {TYPE(CONVOLUTION), CONV(COMP_TYPE), CUDNN_TYPE_DATA_TYPE, 1, 1, 0, true},
    {TYPE(CONVOLUTION), CONV(CONV_MODE), CUDNN_TYPE_CONVOLUTION_MODE, 1, 1, 0, true},
    {TYPE(CONVOLUTION), CONV(PRE_PADDINGS), CUDNN_TYPE_INT64, 2, 2, 0, true},
    {TYPE(CONVOLUTION), CONV(POST_PADDINGS), CUDNN_TYPE_INT64, 2, 2, 0, true},
    {TYPE(CONVOLUTION), CONV(FILTER_STRIDES), CUDNN_TYPE_INT64, 2, 2, 0, true},
    {TYPE(CONVOLUTION), CONV(DILATIONS), CUDNN_TYPE_INT64, 2, 2, 0, true},
    OPERATION(FORWARD, OPERATION_CONVOLUTION_FORWARD, X, W, Y),
    OPERATION(BWD_DATA, OPERATION_CONVOLUTION_BACKWARD_DATA, DX, W, DY),
    OPERATION(BWD_FILTER, OPERATION_CONVOLUTION_BACKWARD_FILTER, X, DW, DY),
    {TYPE(OPERATIONGRAPH), CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, 0, true},
    {TYPE(OPERATIONGRAPH), CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, 0, false},
    {TYPE(DEVICEPROP), CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, 0, false},
    {TYPE(DEVICEPROP), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 1, MOST_BYTES, 0, false},
    {TYPE(ENGINEHEUR), CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, TYPE(OPERATIONGRAPH),
     true},
    {TYPE(ENGINEHEUR), CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1, 0, true},
    {TYPE(ENGINEHEUR), CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, TYPE(DEVICEPROP), true},
    {TYPE(EXECUTION_PLAN), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
     TYPE(ENGINECFG), true},
    {TYPE(EXECUTION_PLAN), CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, TYPE(DEVICEPROP),
     true},
    {TYPE(EXECUTION_PLAN), CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, 0, false},
    {TYPE(VARIANT_PACK), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, 3, 0, true},
    {TYPE(VARIANT_PACK), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, 3, 0, true},
    {TYPE(VARIANT_PACK), CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1, 0, true},
};
enum { RULES = sizeof rules / sizeof *rules };

/* ---- setting attributes ---- */

static const struct rule *rule_for(const descriptor *d, cudnnBackendAttributeName_t name)
{
    for (int i = 0; i < RULES; i++)
        if (rules[i].of == d->type && rules[i].name == name)
            return &rules[i];
    return NULL;
}

static const attribute *found(const descriptor *d, cudnnBackendAttributeName_t name)
{
    for (int i = 0; i < d->count; i++)
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    return NULL;
}

static size_t bytes_of(cudnnBackendAttributeType_t type)
{
    return type == CUDNN_TYPE_CHAR    ? 1
           : type == CUDNN_TYPE_FLOAT ? sizeof(float)
           : type == CUDNN_TYPE_DATA_TYPE || type == CUDNN_TYPE_CONVOLUTION_MODE || type == CUDNN_TYPE_HEUR_MODE
               ? sizeof(int)
               : 8;
}

static bool is_type(const struct rule *rule, cudnnBackendAttributeType_t type)
{
    return type == rule->type || (rule->type == CUDNN_TYPE_FLOAT && type == CUDNN_TYPE_DOUBLE);
}

static cudnnStatus_t check_referred(const struct rule *rule, const descriptor *to)
{
    if (!to)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a descriptor that is referred to is NULL");
    if (rule->refers && to->type != rule->refers)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                           "a descriptor that is referred to is of another type");
    if (!to->finished)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor that is referred to is not finalized");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor_, cudnnBackendAttributeName_t attributeName,
                                       cudnnBackendAttributeType_t attributeType, int64_t elementCount,
                                       const void *arrayOfElements)
{
    descriptor *d = descriptor_;
    if (!d || !arrayOfElements)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "NULL is given");
    if (d->finished)
        return fake_refuse(CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is finalized");
    const struct rule *rule = rule_for(d, attributeName);
    if (!rule)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor has no such attribute");
    if (!is_type(rule, attributeType))
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the attribute is of another type");
    if (elementCount < rule->least || elementCount > rule->most)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "the attribute has another number of elements");
    if (attributeType == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        const cudnnStatus_t status = check_referred(rule, *(descriptor *const *)arrayOfElements);
        if (status != CUDNN_STATUS_SUCCESS)
            return status;
    }
    if (found(d, attributeName) || d->count == MOST_ATTRIBUTES)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM, "the attribute is set twice");
    attribute *a = &d->attributes[d->count++];
    a->name = attributeName;
    a->type = attributeType;
    a->count = elementCount;
    if (attributeType == CUDNN_TYPE_CHAR)
        a->is.text = strndup(arrayOfElements, (size_t)elementCount);
    else
        memcpy(&a->is, arrayOfElements, (size_t)elementCount * bytes_of(attributeType));
    return CUDNN_STATUS_SUCCESS;
}

/* ---- finalising ---- */

static const descriptor *referred(const descriptor *d, cudnnBackendAttributeName_t name)
{
    return found(d, name)->is.pointers[0];
}

static cudnnStatus_t finish_tensor(descriptor *d)
{
    fake_tensor *t = &d->tensor;
    t->type = (cudnnDataType_t)found(d, CUDNN_ATTR_TENSOR_DATA_TYPE)->is.one;
    t->alignment = found(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)->is.numbers[0];
    t->name = found(d, CUDNN_ATTR_TENSOR_UNIQUE_ID)->is.numbers[0];
    memcpy(t->dims, found(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->is.numbers, sizeof t->dims);
    memcpy(t->strides, found(d, CUDNN_ATTR_TENSOR_STRIDES)->is.numbers, sizeof t->strides);
    for (int i = 0; i < 4; i++)
        if (t->dims[i] < 1 || t->strides[i] < 1)
            return fake_refuse(CUDNN_STATUS_BAD_PARAM, "a size or stride of a tensor is not positive");
    const int64_t size = t->type == CUDNN_DATA_DOUBLE ? 8 : t->type == CUDNN_DATA_FLOAT ? 4 : 2;
    if (t->alignment < size || (t->alignment & (t->alignment - 1)))
        return fake_refuse(CUDNN_STATUS_BAD_PARAM, "a tensor's alignment is no power of two, or below its elements'");
    const int64_t *n = t->dims;
    if (t->strides[1] != 1 || t->strides[3] != n[1] || t->strides[2] != n[1] * n[3] ||
        t->strides[0] != n[1] * n[2] * n[3])
        return fake_refuse(CUDNN_STATUS_NOT_SUPPORTED, "here a tensor is channels-last, without gaps");
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish_window(descriptor *d)
{
    const int64_t *stride = found(d, CONV(FILTER_STRIDES))->is.numbers,
                  *dilation = found(d, CONV(DILATIONS))->is.numbers;
    const int64_t *before = found(d, CONV(PRE_PADDINGS))->is.numbers,
                  *after = found(d, CONV(POST_PADDINGS))->is.numbers;
    if (found(d, CONV(SPATIAL_DIMS))->is.numbers[0] != 2)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM, "two axes are described, another number is said");
    if (found(d, CONV(CONV_MODE))->is.one != CUDNN_CROSS_CORRELATION)
        return fake_refuse(CUDNN_STATUS_NOT_SUPPORTED, "here windows are not turned");
    for (int a = 0; a < 2; a++)
        if (stride[a] < 1 || dilation[a] < 1 || before[a] < 0 || after[a] < 0)
            return fake_refuse(CUDNN_STATUS_BAD_PARAM, "strides, dilations and paddings are to be positive");
    return CUDNN_STATUS_SUCCESS;
}

static const struct way {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t x, w, y, window, alpha, beta;
} ways[] = {
#define WAY(name, x, w, y)                                                                                             \
    CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_##x, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_##w,                      \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_##y, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_CONV_DESC,            \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_BETA
    [FAKE_FORWARD] = {TYPE(OPERATION_CONVOLUTION_FORWARD), WAY(FORWARD, X, W, Y)},
    [FAKE_DATA] = {TYPE(OPERATION_CONVOLUTION_BACKWARD_DATA), WAY(BWD_DATA, DX, W, DY)},
    [FAKE_FILTER] = {TYPE(OPERATION_CONVOLUTION_BACKWARD_FILTER), WAY(BWD_FILTER, X, DW, DY)},
};

static double scalar(const attribute *a)
{
    return a->type == CUDNN_TYPE_DOUBLE ? a->is.doubles[0] : (double)a->is.single;
}

static cudnnStatus_t check_sizes(const fake_conv *c, cudnnDataType_t sums)
{
    const bool wide = c->x.type == CUDNN_DATA_DOUBLE;
    const int64_t in = c->w.dims[1], groups = c->x.dims[1] / in;
    if (c->w.type != c->x.type || c->y.type != c->x.type || wide != (sums == CUDNN_DATA_DOUBLE))
        return fake_refuse(CUDNN_STATUS_NOT_SUPPORTED, "tensors and sums are of types that do not go together");
    if (groups < 1 || c->x.dims[1] % in || c->w.dims[0] % groups || c->y.dims[0] != c->x.dims[0] ||
        c->y.dims[1] != c->w.dims[0])
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "channels or images do not fit");
    for (int a = 0; a < 2; a++) {
        const int64_t room =
            c->x.dims[2 + a] + c->before[a] + c->after[a] - (c->w.dims[2 + a] - 1) * c->dilation[a] - 1;
        if (room < 0 || c->y.dims[2 + a] != room / c->stride[a] + 1)
            return fake_refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "heights or widths do not fit");
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish_operation(descriptor *d, int kind)
{
    const struct way *way = &ways[kind];
    const descriptor *window = referred(d, way->window);
    const attribute *alpha = found(d, way->alpha), *beta = found(d, way->beta);
    const cudnnDataType_t sums = (cudnnDataType_t)found(window, CONV(COMP_TYPE))->is.one;
    fake_conv *c = &d->conv;
    c->kind = kind;
    c->x = referred(d, way->x)->tensor;
    c->w = referred(d, way->w)->tensor;
    c->y = referred(d, way->y)->tensor;
    c->alpha = scalar(alpha);
    c->beta = scalar(beta);
    memcpy(c->stride, found(window, CONV(FILTER_STRIDES))->is.numbers, sizeof c->stride);
    memcpy(c->dilation, found(window, CONV(DILATIONS))->is.numbers, sizeof c->dilation);
    memcpy(c->before, found(window, CONV(PRE_PADDINGS))->is.numbers, sizeof c->before);
    memcpy(c->after, found(window, CONV(POST_PADDINGS))->is.numbers, sizeof c->after);
    if (alpha->type != beta->type || (alpha->type == CUDNN_TYPE_DOUBLE) != (sums == CUDNN_DATA_DOUBLE))
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "alpha and beta are not of the type of the sums");
    if (c->x.name == c->w.name || c->x.name == c->y.name || c->w.name == c->y.name)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two tensors have one name");
    return check_sizes(c, sums);
}

static cudnnStatus_t finish_graph(descriptor *d)
{
    const descriptor *operation = referred(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    d->conv = operation->conv;
    return operation->type == ways[d->conv.kind].type
               ? CUDNN_STATUS_SUCCESS
               : fake_refuse(CUDNN_STATUS_NOT_SUPPORTED, "here a graph is one convolution");
}

static cudnnStatus_t finish_card(descriptor *d)
{
    static const char *const fields[] = {"maxGridSize",       "maxBlockSize",       "regsPerBlock",
                                         "maxThreadsPerSM",   "warpSize",           "maxSharedMemoryPerBlock",
                                         "maxRegistersPerSM", "maxCtasPerSM",       "maxSharedMemoryPerBlockOptin",
                                         "pciDeviceId",       "maxThreadsPerBlock", "reservedSharedMemoryPerBlock",
                                         "isTccDriver",       "supportCoopLaunch",  "multiProcessorCount",
                                         "totalGlobalMem",    "smClockRateKHz",     "memClockRateKHz",
                                         "l2CacheSize",       "cudaDeviceId",       "deviceVer",
                                         "driverVer",         "deviceName"};
    const attribute *text = found(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
    d->elsewhere = text;
    if (!text && !found(d, CUDNN_ATTR_DEVICEPROP_HANDLE))
        return fake_refuse(CUDNN_STATUS_BAD_PARAM, "neither a handle nor a text describes the card");
    for (size_t i = 0; text && i < sizeof fields / sizeof *fields; i++)
        if (!strstr(text->is.text, fields[i]))
            return fake_refuse(CUDNN_STATUS_BAD_PARAM, "a field of the card is missing");
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish_heuristics(descriptor *d)
{
    const int mode = found(d, CUDNN_ATTR_ENGINEHEUR_MODE)->is.one;
    d->conv = referred(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->conv;
    d->engines = fake_engines(&d->conv, mode == CUDNN_HEUR_MODE_FALLBACK, &d->list);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish_plan(descriptor *d)
{
    const descriptor *configuration = referred(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    d->conv = configuration->conv;
    d->engine = configuration->engine;
    d->elsewhere = referred(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)->elsewhere;
    if (!d->elsewhere && !found(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE))
        return fake_refuse(CUDNN_STATUS_BAD_PARAM, "a plan for a device has no handle");
    return d->engine->finishes ? CUDNN_STATUS_SUCCESS
                               : fake_refuse(CUDNN_STATUS_NOT_SUPPORTED, "the engine cannot do that after all");
}

static cudnnStatus_t finish_pack(descriptor *d)
{
    const int64_t *names = found(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->is.numbers;
    return names[0] != names[1] && names[0] != names[2] && names[1] != names[2]
               ? CUDNN_STATUS_SUCCESS
               : fake_refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two tensors have one name");
}

static cudnnStatus_t finish(descriptor *d)
{
    for (int kind = 0; kind < 3; kind++)
        if (d->type == ways[kind].type)
            return finish_operation(d, kind);
    return d->type == TYPE(TENSOR)           ? finish_tensor(d)
           : d->type == TYPE(CONVOLUTION)    ? finish_window(d)
           : d->type == TYPE(OPERATIONGRAPH) ? finish_graph(d)
           : d->type == TYPE(DEVICEPROP)     ? finish_card(d)
           : d->type == TYPE(ENGINEHEUR)     ? finish_heuristics(d)
           : d->type == TYPE(EXECUTION_PLAN) ? finish_plan(d)
           : d->type == TYPE(VARIANT_PACK)   ? finish_pack(d)
                                             : fake_refuse(CUDNN_STATUS_NOT_SUPPORTED, "cuDNN itself finalizes that");
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor_)
{
    descriptor *d = descriptor_;
    if (!d)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "NULL is given");
    if (d->finished)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized twice");
    for (int i = 0; i < RULES; i++)
        if (rules[i].of == d->type && rules[i].needed && !found(d, rules[i].name))
            return fake_refuse(CUDNN_STATUS_BAD_PARAM, "an attribute is missing");
    const cudnnStatus_t status = finish(d);
    d->finished = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* ---- getting attributes ---- */

static cudnnStatus_t give(int64_t *count, int64_t room, void *to, const void *from, size_t bytes)
{
    *count = 1;
    if (room >= 1 && to)
        memcpy(to, from, bytes);
    return CUDNN_STATUS_SUCCESS;
}

/* Fills a descriptor of the caller's with an engine or its configuration. */
static cudnnStatus_t become(descriptor *to, cudnnBackendDescriptorType_t type, const fake_conv *conv,
                            const fake_engine *engine)
{
    if (!to)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a descriptor to be filled in is NULL");
    if (to->type != type || to->finished)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a descriptor to be filled in is of another type");
    to->conv = *conv;
    to->engine = engine;
    to->finished = true;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give_results(const descriptor *d, int64_t room, int64_t *count, void *to)
{
    descriptor *const *list = to;
    *count = room == 0 || room > d->engines ? d->engines : room;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; room > 0 && i < *count && status == CUDNN_STATUS_SUCCESS; i++)
        status = become(list[i], TYPE(ENGINECFG), &d->conv, &d->list[i]);
    return status;
}

static cudnnStatus_t give_notes(const fake_engine *engine, int64_t room, int64_t *count, void *to)
{
    *count = 0;
    for (int n = 0; n < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; n++)
        if (engine->notes >> n & 1U) {
            if (*count < room)
                ((cudnnBackendNumericalNote_t *)to)[*count] = (cudnnBackendNumericalNote_t)n;
            ++*count;
        }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor_,
                                       cudnnBackendAttributeName_t attributeName,
                                       cudnnBackendAttributeType_t attributeType, int64_t requestedElementCount,
                                       int64_t *elementCount, void *arrayOfElements)
{
    const descriptor *d = descriptor_;
    if (!d || !elementCount || (requestedElementCount > 0 && !arrayOfElements))
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "NULL is given");
    if (!d->finished)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the descriptor is not finalized");
    if (d->type == TYPE(ENGINEHEUR) && attributeName == CUDNN_ATTR_ENGINEHEUR_RESULTS &&
        attributeType == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return give_results(d, requestedElementCount, elementCount, arrayOfElements);
    if (d->type == TYPE(ENGINECFG) && attributeName == CUDNN_ATTR_ENGINECFG_ENGINE &&
        attributeType == CUDNN_TYPE_BACKEND_DESCRIPTOR && requestedElementCount == 1) {
        *elementCount = 1;
        return become(*(descriptor *const *)arrayOfElements, TYPE(ENGINE), &d->conv, d->engine);
    }
    if (d->type == TYPE(ENGINE) && attributeName == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE &&
        attributeType == CUDNN_TYPE_NUMERICAL_NOTE)
        return give_notes(d->engine, requestedElementCount, elementCount, arrayOfElements);
    if (d->type == TYPE(ENGINE) && attributeName == CUDNN_ATTR_ENGINE_GLOBAL_INDEX && attributeType == CUDNN_TYPE_INT64)
        return give(elementCount, requestedElementCount, arrayOfElements, &d->engine->number, sizeof(int64_t));
    if (d->type == TYPE(EXECUTION_PLAN) && attributeName == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE &&
        attributeType == CUDNN_TYPE_INT64) {
        const int64_t bytes = fake_workspace(&d->conv, d->engine);
        return give(elementCount, requestedElementCount, arrayOfElements, &bytes, sizeof bytes);
    }
    return fake_refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor has no such attribute, or of another type");
}

/* ---- execution ---- */

static void *data_of(const descriptor *pack, const fake_tensor *tensor)
{
    const int64_t *names = found(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->is.numbers;
    void *const *data = found(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->is.pointers;
    for (int i = 0; i < 3; i++)
        if (names[i] == tensor->name)
            return (uintptr_t)data[i] % (uintptr_t)tensor->alignment ? NULL : data[i];
    return NULL;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan,
                                  cudnnBackendDescriptor_t variantPack)
{
    const descriptor *plan = executionPlan, *pack = variantPack;
    if (!handle || !plan || !pack)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "NULL is given");
    if (plan->type != TYPE(EXECUTION_PLAN) || pack->type != TYPE(VARIANT_PACK))
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a descriptor is of another type");
    if (!plan->finished || !pack->finished)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor is not finalized");
    if (plan->elsewhere || !handle->stream)
        return fake_refuse(CUDNN_STATUS_EXECUTION_FAILED, "the plan is for another card, or there is no stream");
    void *x = data_of(pack, &plan->conv.x), *w = data_of(pack, &plan->conv.w), *y = data_of(pack, &plan->conv.y);
    if (!x || !w || !y)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor is missing, or not aligned");
    return fake_convolve(&plan->conv, plan->engine, x, w, y,
                         found(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->is.pointers[0], handle->stream);
}

/* ---- the rest ---- */

size_t cudnnGetVersion(void)
{
    const char *told = getenv("FAKE_CUDNN"); /* absent: the version is too old */
    return told && strcmp(told, "absent") == 0 ? 90700 : 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "an error of the fake cuDNN";
}

void cudnnGetLastErrorString(char *message, size_t max_size) { snprintf(message, max_size, "%s", why_text); }

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices)
        return fake_refuse(CUDNN_STATUS_NOT_INITIALIZED, "there is no device");
    *handle = calloc(1, sizeof **handle);
    return *handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t streamId)
{
    if (!handle)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "NULL is given");
    handle->stream = streamId;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t descriptorType,
                                           cudnnBackendDescriptor_t *descriptor_)
{
    descriptor *d = descriptor_ ? calloc(1, sizeof *d) : NULL;
    if (!d)
        return fake_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "NULL is given");
    d->type = descriptorType;
    *descriptor_ = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor_)
{
    descriptor *d = descriptor_;
    for (int i = 0; d && i < d->count; i++)
        if (d->attributes[i].type == CUDNN_TYPE_CHAR)
            free(d->attributes[i].is.text);
    free(d);
    return CUDNN_STATUS_SUCCESS;
}
