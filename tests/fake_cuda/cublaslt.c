/* tests/fake_cuda/cublaslt.c: cuBLASLt for the simulated device. Descriptors keep what is set. The heuristic offers
 * algorithms as the library's does, fastest first; some must not be used unless explicitly allowed: those with reduced
 * precision, or with sums that change from run to run. Calls that the library would refuse or misread are refused with
 * a message.
 *
 * FAKE_CUBLASLT=absent: cuBLASLt is unusable. */
#include "cublasLt.h"
#include "cut.h"
#include "fake.h"

#include "base/half.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cublasLtContext {
    int unused;
};

typedef struct layout {
    cudaDataType_t type;
    int32_t batch;
    uint64_t rows, columns;
    int64_t ld, step;
} layout;

typedef struct desc {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    int32_t device, turned[2]; /* alpha and beta are in device memory */
    uint32_t finish;
    const void *bias;
} desc;

typedef struct preference {
    uint64_t workspace, flags;
    uint32_t schemes, aligned[4];
} preference;

enum { A, B, C, D, OPERANDS };

typedef struct problem {
    desc desc;
    layout of[OPERANDS];
} problem;

typedef struct algo { /* stored in cublasLtMatmulAlgo_t */
    uint64_t flags, workspace, problem;
    uint32_t scheme, pieces, aligned;
    bool coarse; /* with fewer bits than the types have */
} algo;

_Static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "the library has as much room");
_Static_assert(sizeof(desc) <= sizeof(cublasLtMatmulDescOpaque_t), "the library has as much room");
_Static_assert(sizeof(preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "the library has as much room");
_Static_assert(sizeof(algo) <= sizeof(cublasLtMatmulAlgo_t), "the library has as much room");

/* ---- descriptors ---- */

static const layout *layout_of(cublasLtMatrixLayout_t l) { return (const layout *)(const void *)l; }
static const desc *desc_of(cublasLtMatmulDesc_t d) { return (const desc *)(const void *)d; }

static size_t size_of(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

static cublasStatus_t make(void *made, const void *filled, size_t size)
{
    void *memory = malloc(size);
    if (memory)
        memcpy(memory, filled, size);
    memcpy(made, &memory, sizeof memory);
    return memory ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

static cublasStatus_t forget(void *made)
{
    free(made);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set(void *field, size_t size, const void *value, size_t given)
{
    if (!field || !value || size != given)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(field, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get(const void *field, size_t size, void *value, size_t given, size_t *written)
{
    if (!value || size != given || !written)
        return CUBLAS_STATUS_INVALID_VALUE;
    *written = size;
    memcpy(value, field, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    const layout l = {.type = type, .batch = 1, .rows = rows, .columns = cols, .ld = ld};
    return make(matLayout, &l, sizeof l);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout) { return forget(matLayout); }

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matLayout, cublasLtMatrixLayoutAttribute_t attr,
                                                const void *buf, size_t sizeInBytes)
{
    layout *l = (layout *)(void *)matLayout;
    if (attr == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        return set(&l->batch, sizeof l->batch, buf, sizeInBytes);
    if (attr == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        return set(&l->step, sizeof l->step, buf, sizeInBytes);
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc, cublasComputeType_t computeType,
                                        cudaDataType_t scaleType)
{
    const desc d = {.compute = computeType, .scale = scaleType, .finish = CUBLASLT_EPILOGUE_DEFAULT};
    return make(matmulDesc, &d, sizeof d);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc) { return forget(matmulDesc); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc, cublasLtMatmulDescAttributes_t attr,
                                              const void *buf, size_t sizeInBytes)
{
    desc *d = (desc *)(void *)matmulDesc;
    switch (attr) {
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
        return set(&d->device, sizeof d->device, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(&d->turned[A], sizeof d->turned[A], buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(&d->turned[B], sizeof d->turned[B], buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(&d->finish, sizeof d->finish, buf, sizeInBytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(&d->bias, sizeof d->bias, buf, sizeInBytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
    const preference p = {
        .flags = UINT64_MAX, .schemes = CUBLASLT_REDUCTION_SCHEME_MASK, .aligned = {256, 256, 256, 256}};
    return make(pref, &p, sizeof p);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref) { return forget(pref); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr, const void *buf,
                                                    size_t sizeInBytes)
{
    preference *p = (preference *)(void *)pref;
    switch (attr) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set(&p->workspace, sizeof p->workspace, buf, sizeInBytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set(&p->schemes, sizeof p->schemes, buf, sizeInBytes);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK:
        return set(&p->flags, sizeof p->flags, buf, sizeInBytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set(&p->aligned[attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], sizeof *p->aligned, buf,
                   sizeInBytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

/* ---- checks ---- */

typedef struct refusal { /* NULL: the call is valid */
    const char *why;
    cublasStatus_t status;
} refusal;

static uint64_t up(const problem *p) { return p->desc.turned[A] ? p->of[A].columns : p->of[A].rows; }
static uint64_t inner(const problem *p) { return p->desc.turned[A] ? p->of[A].rows : p->of[A].columns; }
static uint64_t across(const problem *p) { return p->desc.turned[B] ? p->of[B].rows : p->of[B].columns; }
static uint64_t inner_b(const problem *p) { return p->desc.turned[B] ? p->of[B].columns : p->of[B].rows; }

static const char *bad_layout(const layout *l, int32_t batch)
{
    if (!l->rows || !l->columns)
        return "a matrix is empty";
    if (l->rows > INT32_MAX || l->columns > INT32_MAX)
        return "a matrix is too large";
    if (l->ld < (int64_t)l->rows)
        return "a leading dimension is less than the rows";
    if (l->batch != batch || batch < 1)
        return "the matrices are not equally many";
    return NULL;
}

static bool supported(const problem *p)
{
    const cudaDataType_t a = p->of[A].type, d = p->of[D].type;
    const bool half = a == CUDA_R_16F || a == CUDA_R_16BF;
    if (a != p->of[B].type || d != p->of[C].type)
        return false;
    if (p->desc.compute == CUBLAS_COMPUTE_64F)
        return p->desc.scale == CUDA_R_64F && a == CUDA_R_64F && d == a && p->desc.finish == CUBLASLT_EPILOGUE_DEFAULT;
    if (p->desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
        return p->desc.scale == CUDA_R_32F && a == CUDA_R_32F && d == a;
    return p->desc.compute == CUBLAS_COMPUTE_32F && p->desc.scale == CUDA_R_32F && (half || a == CUDA_R_32F) &&
           (d == a || d == CUDA_R_32F);
}

static refusal refused(const problem *p)
{
    for (int i = 0; i < OPERANDS; i++) {
        const char *why = bad_layout(&p->of[i], p->of[D].batch);
        if (why)
            return (refusal){why, CUBLAS_STATUS_INVALID_VALUE};
    }
    for (int i = 0; i < 2; i++)
        if (p->desc.turned[i] != CUBLAS_OP_N && p->desc.turned[i] != CUBLAS_OP_T)
            return (refusal){"an operation is neither N nor T", CUBLAS_STATUS_INVALID_VALUE};
    for (int i = C; i <= D; i++)
        if (p->of[i].rows != up(p) || p->of[i].columns != across(p))
            return (refusal){"C or D is not as large as the product", CUBLAS_STATUS_INVALID_VALUE};
    if (inner(p) != inner_b(p))
        return (refusal){"the inner sizes differ", CUBLAS_STATUS_INVALID_VALUE};
    if (p->of[D].batch > 1 && p->of[D].step < p->of[D].ld * (int64_t)p->of[D].columns)
        return (refusal){"the results overlap", CUBLAS_STATUS_INVALID_VALUE};
    if ((p->desc.finish & CUBLASLT_EPILOGUE_BIAS) && !p->desc.bias)
        return (refusal){"there is no bias", CUBLAS_STATUS_INVALID_VALUE};
    if (!supported(p))
        return (refusal){"these types are not supported", CUBLAS_STATUS_NOT_SUPPORTED};
    return (refusal){NULL, CUBLAS_STATUS_SUCCESS};
}

static problem problem_of(cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                          cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t result)
{
    return (problem){*desc_of(d), {*layout_of(a), *layout_of(b), *layout_of(c), *layout_of(result)}};
}

/* A hash that identifies the problem of an algorithm: everything but the address of the bias. */
static uint64_t number_of(const problem *p)
{
    uint64_t number = 0xCBF29CE484222325U;
    const uint64_t parts[] = {(uint64_t)p->desc.compute, (uint64_t)p->desc.device, (uint64_t)p->desc.turned[A],
                              (uint64_t)p->desc.turned[B], p->desc.finish};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        number = (number ^ parts[i]) * 0x100000001B3U;
    for (int i = 0; i < OPERANDS; i++) {
        const layout *l = &p->of[i];
        const uint64_t its[] = {(uint64_t)l->type, (uint64_t)l->batch, l->rows,
                                l->columns,        (uint64_t)l->ld,    (uint64_t)l->step};
        for (size_t k = 0; k < sizeof its / sizeof *its; k++)
            number = (number ^ its[k]) * 0x100000001B3U;
    }
    return number;
}

/* ---- algorithms ---- */

/* The alignment in bytes that all columns and matrices have, if the first ones have the requested one. */
static uint32_t aligned_by(const problem *p, const preference *wanted)
{
    uint64_t all = 16;
    for (int i = 0; i < OPERANDS; i++)
        all |= wanted->aligned[i] | (uint64_t)p->of[i].ld * size_of(p->of[i].type) |
               (uint64_t)p->of[i].step * size_of(p->of[i].type);
    if (p->desc.finish & CUBLASLT_EPILOGUE_BIAS)
        all |= (uint64_t)(uintptr_t)p->desc.bias;
    return (uint32_t)(all & -all);
}

static uint64_t flags_of(const problem *p, bool coarse)
{
    switch ((int)p->of[A].type) {
    case CUDA_R_32F:
        return CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F |
               (coarse ? CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32
                       : CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F);
    case CUDA_R_64F:
        return coarse ? CUBLASLT_NUMERICAL_IMPL_FLAGS_IMMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32I |
                            CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_8I
                      : CUBLASLT_NUMERICAL_IMPL_FLAGS_DMMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_64F |
                            CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_64F;
    default:
        return CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA |
               (p->of[A].type == CUDA_R_16F ? CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F
                                            : CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF) |
               (coarse ? CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F : CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F);
    }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
                                              cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                              cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                              cublasLtMatmulPreference_t pref, int requestedAlgoCount,
                                              cublasLtMatmulHeuristicResult_t heuristicResultsArray[],
                                              int *returnAlgoCount)
{
    static const algo offers[] = {{.coarse = true, .pieces = 1, .aligned = 16},
                                  {.scheme = CUBLASLT_REDUCTION_SCHEME_INPLACE, .pieces = 3, .aligned = 2},
                                  {.scheme = CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, .pieces = 3, .aligned = 2},
                                  {.scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, .pieces = 4, .aligned = 16},
                                  {.scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, .pieces = 2, .aligned = 4},
                                  {.pieces = 1, .aligned = 16},
                                  {.pieces = 1, .aligned = 2}};
    const problem p = problem_of(operationDesc, Adesc, Bdesc, Cdesc, Ddesc);
    const preference *wanted = (const preference *)(const void *)pref;
    const refusal no = refused(&p);
    *returnAlgoCount = 0;
    if (!lightHandle || requestedAlgoCount < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (no.why)
        return no.status;
    for (size_t i = 0; i < sizeof offers / sizeof *offers && *returnAlgoCount < requestedAlgoCount; i++) {
        algo a = offers[i];
        a.flags = flags_of(&p, a.coarse);
        a.problem = number_of(&p);
        if (a.pieces > 1)
            a.workspace = (uint64_t)p.of[D].batch * up(&p) * across(&p) * a.pieces * size_of(p.desc.scale);
        if ((a.flags & ~wanted->flags) || (a.scheme & ~wanted->schemes) || a.workspace > wanted->workspace ||
            a.aligned > aligned_by(&p, wanted) || (a.pieces > 1 && inner(&p) < 64))
            continue;
        cublasLtMatmulHeuristicResult_t *result = &heuristicResultsArray[(*returnAlgoCount)++];
        *result = (cublasLtMatmulHeuristicResult_t){.workspaceSize = a.workspace, .wavesCount = 1};
        memcpy(&result->algo, &a, sizeof a);
    }
    return *returnAlgoCount ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static algo algo_of(const cublasLtMatmulAlgo_t *from)
{
    algo a;
    memcpy(&a, from, sizeof a);
    return a;
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t *from,
                                                 cublasLtMatmulAlgoCapAttributes_t attr, void *buf, size_t sizeInBytes,
                                                 size_t *sizeWritten)
{
    const algo a = algo_of(from);
    if (attr != CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS)
        return CUBLAS_STATUS_INVALID_VALUE;
    return get(&a.flags, sizeof a.flags, buf, sizeInBytes, sizeWritten);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *from,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr, void *buf,
                                                    size_t sizeInBytes, size_t *sizeWritten)
{
    const algo a = algo_of(from);
    if (attr != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)
        return CUBLAS_STATUS_INVALID_VALUE;
    return get(&a.scheme, sizeof a.scheme, buf, sizeInBytes, sizeWritten);
}

/* ---- the product ---- */

typedef struct task {
    problem p;
    algo algo;
    const char *at[OPERANDS];
    char *result, *workspace;
    const void *alpha, *beta; /* in device memory; NULL: use `factors` */
    double factors[2];
    uint64_t turn; /* the number of tasks before it */
} task;

static double number_at(cudaDataType_t type, const char *data, int64_t at)
{
    switch ((int)type) {
    case CUDA_R_32F:
        return (double)((const float *)(const void *)data)[at];
    case CUDA_R_64F:
        return ((const double *)(const void *)data)[at];
    case CUDA_R_16F:
        return (double)bt_f32_of_f16(((const uint16_t *)(const void *)data)[at]);
    default:
        return (double)bt_f32_of_bf16(((const uint16_t *)(const void *)data)[at]);
    }
}

static void put(cudaDataType_t type, char *data, int64_t at, double x)
{
    switch ((int)type) {
    case CUDA_R_32F:
        ((float *)(void *)data)[at] = (float)x;
        break;
    case CUDA_R_64F:
        ((double *)(void *)data)[at] = x;
        break;
    case CUDA_R_16F:
        ((uint16_t *)(void *)data)[at] = bt_f16_of((float)x);
        break;
    default:
        ((uint16_t *)(void *)data)[at] = bt_bf16_of((float)x);
    }
}

/* The vectors to multiply, one after the other, k numbers each: rows of op(A), columns of op(B). */
static double *lines_of(const task *t, int which, int64_t number)
{
    const layout *l = &t->p.of[which];
    const bool along = (which == A) == (t->p.desc.turned[which] == CUBLAS_OP_T); /* a vector is a column in memory */
    const int64_t lines = (int64_t)(along ? l->columns : l->rows), k = (int64_t)(along ? l->rows : l->columns);
    const int bits = !t->algo.coarse ? 0 : l->type == CUDA_R_64F ? 24 : l->type == CUDA_R_32F ? FAKE_TF32 : 0;
    double *to = malloc(sizeof *to * (size_t)(lines * k));
    if (!to)
        abort();
    for (int64_t i = 0; i < lines; i++)
        for (int64_t q = 0; q < k; q++) {
            const double x =
                number_at(l->type, t->at[which], number * l->step + (along ? i * l->ld + q : q * l->ld + i));
            to[i * k + q] = bits ? fake_cut(x, bits) : x;
        }
    return to;
}

/* In f32 or f64; rounded to 11 bits for 16-bit types if the algorithm is coarse. */
static double sum_of(const task *t, const double *x, const double *y, int64_t count)
{
    const bool rounds = t->algo.coarse && size_of(t->p.of[A].type) == 2;
    double wide = 0;
    float narrow = 0;
    for (int64_t q = 0; q < count && t->p.desc.scale == CUDA_R_64F; q++)
        wide += x[q] * y[q];
    for (int64_t q = 0; q < count && t->p.desc.scale != CUDA_R_64F; q++) {
        narrow += (float)(x[q] * y[q]);
        narrow = rounds ? (float)fake_cut((double)narrow, 11) : narrow;
    }
    return t->p.desc.scale == CUDA_R_64F ? wide : (double)narrow;
}

/* The sum of element e. If k is split, the pieces go through the workspace, in order if the scheme is deterministic. */
static double total_of(const task *t, int64_t e, const double *x, const double *y)
{
    const int64_t k = (int64_t)inner(&t->p), pieces = t->algo.pieces;
    const int64_t first = t->algo.scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE ? (int64_t)(t->turn % 3) : 0;
    const bool in_output = t->algo.scheme == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    const cudaDataType_t type = in_output ? t->p.of[D].type : t->p.desc.scale;
    double total = 0;
    if (pieces == 1)
        return sum_of(t, x, y, k);
    for (int64_t i = 0; i < pieces; i++) {
        const int64_t piece = (first + i) % pieces, from = piece * k / pieces, to = (piece + 1) * k / pieces;
        put(type, t->workspace, e * pieces + piece, sum_of(t, x + from, y + from, to - from));
        total += number_at(type, t->workspace, e * pieces + piece);
        total = t->p.desc.scale == CUDA_R_64F ? total : (double)(float)total;
    }
    return total;
}

static void finish(const task *t, int64_t number, int64_t row, int64_t column, double sum)
{
    const layout *c = &t->p.of[C], *d = &t->p.of[D];
    const double alpha = t->alpha ? number_at(t->p.desc.scale, t->alpha, 0) : t->factors[0];
    const double beta = t->beta ? number_at(t->p.desc.scale, t->beta, 0) : t->factors[1];
    double x = alpha * sum;
    if (beta < 0 || beta > 0)
        x += beta * number_at(c->type, t->at[C], number * c->step + column * c->ld + row);
    if (t->p.desc.finish & CUBLASLT_EPILOGUE_BIAS)
        x += number_at(d->type, t->p.desc.bias, row);
    if ((t->p.desc.finish & CUBLASLT_EPILOGUE_RELU) && x < 0)
        x = 0;
    put(d->type, t->result, number * d->step + column * d->ld + row, x);
}

static void multiply(const void *args)
{
    const task *t = args;
    const int64_t rows = (int64_t)up(&t->p), columns = (int64_t)across(&t->p), k = (int64_t)inner(&t->p);
    if (t->algo.workspace)
        memset(t->workspace, 0, t->algo.workspace);
    for (int64_t number = 0; number < t->p.of[D].batch; number++) {
        double *a = lines_of(t, A, number), *b = lines_of(t, B, number);
        for (int64_t j = 0; j < columns; j++)
            for (int64_t i = 0; i < rows; i++)
                finish(t, number, i, j, total_of(t, (number * columns + j) * rows + i, a + i * k, b + j * k));
        free(a);
        free(b);
    }
}

static const char *wrong(const task *t, size_t workspace)
{
    const refusal no = refused(&t->p);
    const void *operands[] = {t->at[A], t->at[B], t->at[C], t->result, t->p.desc.bias};
    if (no.why)
        return no.why;
    if (t->algo.problem != number_of(&t->p) || t->algo.pieces == 0)
        return "the algorithm is for another product";
    for (int i = 0; i < OPERANDS + (t->p.desc.finish & CUBLASLT_EPILOGUE_BIAS ? 1 : 0); i++) {
        if (!operands[i])
            return "an operand is missing";
        const size_t size = size_of(t->p.of[i < OPERANDS ? i : D].type), by = t->algo.aligned;
        if ((uintptr_t)operands[i] % (by > size ? by : size))
            return "an operand is not aligned as the algorithm needs it";
    }
    if (workspace < t->algo.workspace || (t->algo.workspace && (!t->workspace || (uintptr_t)t->workspace % 16)))
        return "the workspace is too small, or not aligned to 16 bytes";
    if (t->at[C] == t->result && (t->p.of[C].ld != t->p.of[D].ld || t->p.of[C].step != t->p.of[D].step))
        return "C is overwritten by a result that lies otherwise";
    return NULL;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc, const void *alpha,
                              const void *matrix_a, cublasLtMatrixLayout_t Adesc, const void *matrix_b,
                              cublasLtMatrixLayout_t Bdesc, const void *beta, const void *matrix_c,
                              cublasLtMatrixLayout_t Cdesc, void *result, cublasLtMatrixLayout_t Ddesc,
                              const cublasLtMatmulAlgo_t *chosen, void *workspace, size_t workspaceSizeInBytes,
                              cudaStream_t stream)
{
    static uint64_t turn;
    task t = {.p = problem_of(computeDesc, Adesc, Bdesc, Cdesc, Ddesc),
              .at = {matrix_a, matrix_b, matrix_c, result},
              .result = result,
              .workspace = workspace,
              .turn = turn++};
    const char *why = !lightHandle || !alpha || !beta || !chosen ? "an argument is missing" : NULL;
    if (chosen)
        t.algo = algo_of(chosen);
    if (!why)
        why = wrong(&t, workspaceSizeInBytes);
    if (why) {
        fprintf(stderr, "fake cuBLASLt: %s\n", why);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (t.p.desc.device) {
        t.alpha = alpha;
        t.beta = beta;
    } else {
        t.factors[0] = number_at(t.p.desc.scale, alpha, 0);
        t.factors[1] = number_at(t.p.desc.scale, beta, 0);
    }
    return fake_run(multiply, &t, sizeof t, stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                   : CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- the rest ---- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *lightHandle)
{
    static struct cublasLtContext context;
    const char *absent = getenv("FAKE_CUBLASLT");
    *lightHandle = absent && strcmp(absent, "absent") == 0 ? NULL : &context;
    return *lightHandle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_NOT_SUPPORTED";
}
