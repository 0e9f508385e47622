/* backend/cuda/matmul.c: dot, dot_add and linear with cuBLASLt, without reduced precision: f32 stays f32 unless a level
 * asks for tf32, and 16-bit numbers are summed in f32.
 *
 * The library's matrices are column-major. Read that way, ours are transposed, and the product is c' = b' a': our b is
 * its A, our a its B. The bias that it adds to each column then has one number per column of c. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/library.h"

enum {
    WORKSPACE = 32 << 20, /* bytes, at most */
    TRIED = 8,            /* algorithms that are considered */
    ALIGNED = 16          /* bytes: the alignment of the device's vector loads */
};

typedef struct matrix { /* or many of one shape */
    cudaDataType_t type;
    bool turned; /* its transpose is multiplied */
    int64_t rows, columns, ld, step;
} matrix;

enum { A, B, C, D, OPERANDS }; /* D = A B + beta C */

typedef struct product {
    matrix operand[OPERANDS];
    int64_t batch;
    bool shifts, relu, adds;
    bool tf32; /* operands of f32 may be rounded to 11 bits */
} product;

typedef struct choice {
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
} choice;

enum { EVERY, VECTORS, CHOICES }; /* operands may begin at any element; all begin at multiples of ALIGNED */

typedef struct plan {
    product product;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layouts[OPERANDS];
    choice choices[CHOICES];
} plan;

/* ---- calls that the library accepts ---- */

static bool type_of(bt_dtype dtype, cudaDataType_t *type)
{
    static const struct {
        bt_dtype dtype;
        cudaDataType_t type;
    } types[] = {{BT_F32, CUDA_R_32F}, {BT_F64, CUDA_R_64F}, {BT_BF16, CUDA_R_16BF}, {BT_F16, CUDA_R_16F}};
    for (int i = 0; i < BT_COUNT_OF(types); i++)
        if (types[i].dtype == dtype) {
            *type = types[i].type;
            return true;
        }
    return false;
}

static uint32_t size_of(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

/* Whether the matrices along the axes before the last two are a fixed `step` apart. */
static bool lie_even(const bt_view *x, int64_t *step)
{
    int64_t size = 1;
    *step = 0;
    for (int d = x->rank - 3; d >= 0; d--) {
        if (x->dims[d] == 1)
            continue;
        if (size > 1 && x->strides[d] != *step * size)
            return false;
        *step = size > 1 ? *step : x->strides[d];
        size *= x->dims[d];
    }
    return true;
}

/* Whether x is a column-major matrix with its rows along one axis and its columns along the other; fills m. */
static bool lies(const bt_view *x, int row, int column, matrix *m)
{
    m->rows = x->dims[row];
    m->columns = x->dims[column];
    m->ld = m->columns == 1 ? m->rows : x->strides[column];
    return type_of(x->dtype, &m->type) && lie_even(x, &m->step) && (m->rows == 1 || x->strides[row] == 1) &&
           m->ld >= m->rows && m->rows > 0 && m->columns > 0 && m->ld <= INT32_MAX && m->columns <= INT32_MAX;
}

/* The same for an operand that is summed along `deep`, for each place along `line`: either axis may be that of the
 * rows. */
static bool lies_either(const bt_view *x, int line, int deep, matrix *m)
{
    m->turned = x->dims[line] == 1 ? x->strides[deep] == 1 : x->strides[line] != 1;
    return m->turned ? lies(x, deep, line, m) : lies(x, line, deep, m);
}

static bool bias_fits(const bt_view *bias, const matrix *d)
{
    cudaDataType_t type;
    return type_of(bias->dtype, &type) && type == d->type && (bias->dims[0] == 1 || bias->strides[0] == 1);
}

static bool factor_fits(const bt_view *factor, const matrix *d)
{
    return factor->dtype == (d->type == CUDA_R_64F ? BT_F64 : BT_F32);
}

static bool product_of(const bt_call *call, product *p)
{
    const bool linear = call->op == &bt_op_linear;
    const bt_view *a = &call->in[0], *b = &call->in[1];
    const int row = a->rank - 2, column = row + 1;
    *p = (product){.batch = 1, .adds = call->op == &bt_op_dot_add, .shifts = linear && call->inputs > 2};
    p->relu = linear && ((const bt_linear_attr *)call->attr)->activation;
    matrix *in_b = &p->operand[A], *in_a = &p->operand[B], *c = &p->operand[C], *d = &p->operand[D];
    for (int axis = 0; axis < row; axis++)
        p->batch *= a->dims[axis];
    bool fits = p->batch > 0 && p->batch <= INT32_MAX && lies_either(b, linear ? 0 : column, linear ? 1 : row, in_b) &&
                lies_either(a, row, column, in_a) && lies(&call->out[0], column, row, d);
    in_a->turned = !in_a->turned;
    *c = *d;
    if (p->adds)
        fits = fits && lies(&call->in[2], 1, 0, c) && factor_fits(&call->in[3], d);
    if (p->shifts)
        fits = fits && bias_fits(&call->in[2], d);
    p->tf32 = call->tag.low == BT_TF32 && in_a->type == CUDA_R_32F;
    return fits && in_a->type == in_b->type && c->type == d->type &&
           (d->type == in_a->type || (d->type == CUDA_R_32F && in_a->type != CUDA_R_64F));
}

/* ---- descriptors for the library ---- */

static bool ok(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; }

static bool make_layout(const bt_cublaslt *lt, const product *p, const matrix *m, cublasLtMatrixLayout_t *layout)
{
    const int32_t batch = (int32_t)p->batch;
    return ok(lt->layout_create(layout, m->type, (uint64_t)m->rows, (uint64_t)m->columns, m->ld)) &&
           ok(lt->layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch)) &&
           ok(lt->layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->step, sizeof m->step));
}

static bool set_bias(const bt_cublaslt *lt, const plan *p, const void *bias)
{
    return ok(lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
}

static bool make_desc(const bt_cublaslt *lt, plan *p)
{
    const product *of = &p->product;
    const bool wide = of->operand[D].type == CUDA_R_64F;
    const int32_t turned[] = {of->operand[A].turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                              of->operand[B].turned ? CUBLAS_OP_T : CUBLAS_OP_N};
    const int32_t mode = of->adds ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST;
    const uint32_t finish = of->shifts ? of->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                            : of->relu ? CUBLASLT_EPILOGUE_RELU
                                       : CUBLASLT_EPILOGUE_DEFAULT;
    const cublasComputeType_t compute = wide       ? CUBLAS_COMPUTE_64F
                                        : of->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                   : CUBLAS_COMPUTE_32F;
    return ok(lt->desc_create(&p->desc, compute, wide ? CUDA_R_64F : CUDA_R_32F)) &&
           ok(lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &turned[0], sizeof turned[0])) &&
           ok(lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &turned[1], sizeof turned[1])) &&
           ok(lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode)) &&
           ok(lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &finish, sizeof finish));
}

static void plan_free(const bt_cublaslt *lt, plan *p)
{
    if (p->desc)
        lt->desc_destroy(p->desc);
    for (int i = A; i < OPERANDS; i++)
        if (p->layouts[i])
            lt->layout_destroy(p->layouts[i]);
}

/* ---- the algorithm ---- */

/* Flags of algorithms that would not compute in the requested precision. */
static uint64_t forbidden(const product *p)
{
    const uint64_t fewer_bits = CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF |
                                CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_8I | CUBLASLT_NUMERICAL_IMPL_FLAGS_IMMA;
    const cudaDataType_t type = p->operand[A].type;
    if (p->tf32)
        return fewer_bits;
    if (type == CUDA_R_32F)
        return CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32 | fewer_bits;
    if (type == CUDA_R_64F)
        return CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32 | fewer_bits;
    return CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F;
}

/* Pieces of k are added in order, in the type of their sums. */
static const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

static bool suits(const bt_cublaslt *lt, const plan *p, const cublasLtMatmulHeuristicResult_t *result)
{
    uint64_t flags;
    uint32_t scheme;
    size_t size;
    return ok(result->state) && result->workspaceSize <= WORKSPACE &&
           ok(lt->algo_cap(&result->algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &flags, sizeof flags, &size)) &&
           ok(lt->algo_config(&result->algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme, &size)) &&
           !(flags & forbidden(&p->product)) && !(scheme & ~schemes);
}

static bool prefer(const bt_cublaslt *lt, const plan *p, cublasLtMatmulPreference_t preference, int which)
{
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t most = WORKSPACE, allowed = ~forbidden(&p->product);
    bool set =
        ok(lt->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most)) &&
        ok(lt->preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes)) &&
        ok(lt->preference_set(preference, CUBLASLT_MATMUL_PREF_IMPL_MASK, &allowed, sizeof allowed));
    for (int i = A; i < OPERANDS; i++) {
        const uint32_t bytes = which == VECTORS ? ALIGNED : size_of(p->product.operand[i].type);
        set = set && ok(lt->preference_set(preference, aligned[i], &bytes, sizeof bytes));
    }
    return set;
}

/* Chooses the fastest suitable algorithm. Only the alignment of the bias's address is used. */
static bool choose(const bt_cublaslt *lt, plan *p, int which)
{
    cublasLtMatmulHeuristicResult_t results[TRIED];
    cublasLtMatmulPreference_t preference = NULL;
    const uintptr_t somewhere = which == VECTORS ? ALIGNED : size_of(p->product.operand[D].type);
    int count = 0, i = 0;
    if (!ok(lt->preference_create(&preference)))
        return false;
    if (!prefer(lt, p, preference, which) || (p->product.shifts && !set_bias(lt, p, (const void *)somewhere)) ||
        !ok(lt->heuristic(lt->handle, p->desc, p->layouts[A], p->layouts[B], p->layouts[C], p->layouts[D], preference,
                          TRIED, results, &count)))
        count = 0;
    lt->preference_destroy(preference);
    while (i < count && !suits(lt, p, &results[i]))
        i++;
    if (i < count)
        p->choices[which] = (choice){results[i].algo, results[i].workspaceSize};
    return i < count;
}

/* ---- kernels ---- */

/* False: the library is missing or does not accept the call. */
static bool plan_make(const bt_call *call, plan *p)
{
    const bt_cublaslt *lt = bt_cuda_cublaslt();
    *p = (plan){.desc = NULL};
    if (!lt || !product_of(call, &p->product))
        return false;
    bool made = make_desc(lt, p);
    for (int i = A; i < OPERANDS; i++)
        made = made && make_layout(lt, &p->product, &p->product.operand[i], &p->layouts[i]);
    made = made && choose(lt, p, EVERY) && choose(lt, p, VECTORS);
    if (!made)
        plan_free(lt, p);
    return made;
}

static size_t workspace(const plan *p)
{
    const size_t every = p->choices[EVERY].workspace, vectors = p->choices[VECTORS].workspace;
    return every > vectors ? every : vectors;
}

static bool accepts(const bt_call *call)
{
    plan p;
    const bool made = plan_make(call, &p);
    if (made)
        plan_free(bt_cuda_cublaslt(), &p);
    return made;
}

static size_t scratch(const bt_call *call)
{
    plan p;
    if (!plan_make(call, &p))
        return 0;
    plan_free(bt_cuda_cublaslt(), &p);
    return workspace(&p);
}

static bt_status prepare(bt_call *call)
{
    plan *p = bt_alloc(sizeof *p);
    if (!p)
        return BT_ERROR_MEMORY;
    call->state = p;
    if (plan_make(call, p))
        return BT_OK;
    bt_free(p);
    call->state = NULL;
    return bt_fail(BT_ERROR_DEVICE, "%s: cuBLASLt has no algorithm for what it had one for", call->op->name);
}

static void release(bt_call *call)
{
    if (!call->state)
        return;
    plan_free(bt_cuda_cublaslt(), call->state);
    bt_free(call->state);
    call->state = NULL;
}

static bool are_aligned(const void *const *operands, int count)
{
    bool aligned = true;
    for (int i = 0; i < count; i++)
        aligned = aligned && (uintptr_t)operands[i] % ALIGNED == 0;
    return aligned;
}

static bt_status launch(const bt_call *call)
{
    static const double ones = 1, zeros = 0;
    static const float one = 1, zero = 0;
    const bt_cublaslt *lt = bt_cuda_cublaslt();
    const bt_cuda_queue *queue = call->queue;
    const plan *p = call->state;
    const bool wide = p->product.operand[D].type == CUDA_R_64F;
    const void *alpha = wide ? (const void *)&ones : &one, *beta = wide ? (const void *)&zeros : &zero;
    void *d = call->out[0].data;
    const void *at[] = {call->in[1].data, call->in[0].data, call->inputs > 2 ? call->in[2].data : d, d};
    const choice *chosen = &p->choices[are_aligned(at, OPERANDS) ? VECTORS : EVERY];
    const void *c = p->product.adds ? at[C] : d;
    if (p->product.shifts && !set_bias(lt, p, at[C]))
        return bt_fail(BT_ERROR_DEVICE, "%s: cuBLASLt does not take a bias", call->op->name);
    if (p->product.adds) {
        alpha = wide ? (const void *)&queue->ones->f64 : &queue->ones->f32;
        beta = call->in[3].data;
    }
    const cublasStatus_t status =
        lt->matmul(lt->handle, p->desc, alpha, at[A], p->layouts[A], at[B], p->layouts[B], beta, c, p->layouts[C], d,
                   p->layouts[D], &chosen->algo, call->scratch, chosen->workspace, queue->stream);
    if (ok(status))
        return BT_OK;
    return bt_fail(BT_ERROR_DEVICE, "%s: cuBLASLt: %s", call->op->name, lt->status_name(status));
}

#define MATMUL(op_name)                                                                                                \
    {                                                                                                                  \
        .op = &bt_op_##op_name, .name = #op_name ".cublaslt", .accepts = accepts, .scratch = scratch,                  \
        .prepare = prepare, .launch = launch, .release = release, .half = true                                         \
    }

const bt_kernel_impl bt_cuda_matmul[] = {MATMUL(dot), MATMUL(dot_add), MATMUL(linear), {.op = NULL}};
