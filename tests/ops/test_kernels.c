/* Every kernel of every instruction set that this machine runs, against the interpreter (composites: against their
 * body): both dtypes, and f32 stored in 16 bits; dense and strided inputs, one thread and two; and each declared
 * overwriting, in place against out of place. */
#include "cases.h"

#include "backend/cpu/cpu.h"
#include "support/on_device.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const isas[] = {"", "generic", "v3", "v4"};

/* A kernel's call and its memory. */
typedef struct run {
    bt_call call;
    bt_view in[CASE_INPUTS], out[BT_MAX_OUTPUTS];
    char *memory[CASE_INPUTS], *result[BT_MAX_OUTPUTS];
    host_span spans[CASE_INPUTS + BT_MAX_OUTPUTS + 1];
    int span_count;
} run;

static void *aligned(run *r, size_t size)
{
    char *memory = bt_alloc_aligned(size + BT_ALIGN);
    ck_assert_ptr_nonnull(memory);
    r->spans[r->span_count++] = (host_span){memory, size + BT_ALIGN};
    return memory;
}

/* stored: the format of f32 numbers in memory. */
static bt_view view_of(bt_array shape, bool dense, bt_dtype stored)
{
    bt_view view = {.dtype = shape.dtype == BT_F32 && bt_dtype_half(stored) ? stored : shape.dtype, .rank = shape.rank};
    int64_t stride = dense ? 1 : 2;
    memcpy(view.dims, shape.dims, sizeof view.dims);
    for (int k = 0; k < shape.rank; k++) { /* not dense: the first axis innermost, with gaps */
        int axis = dense ? shape.rank - 1 - k : k;
        view.strides[axis] = stride;
        stride *= shape.dims[axis];
    }
    return view;
}

static int64_t place(const bt_view *view, int64_t element)
{
    int64_t at = 0;
    for (int k = view->rank - 1; k >= 0; k--) {
        at += element % view->dims[k] * view->strides[k];
        element /= view->dims[k];
    }
    return at;
}

static void run_begin(run *r, const setup *s, const op_case *c, bt_dtype stored, bool dense, int threads)
{
    *r = (run){.call = {.op = c->op,
                        .attr = c->attr,
                        .inputs = s->node->inputs,
                        .outputs = s->node->outputs,
                        .threads = threads,
                        .tag = {.owner = "", .path = ""}}};
    r->call.in = r->in;
    r->call.out = r->out;
    for (int i = 0; i < s->node->inputs; i++) {
        int64_t count = bt_array_count(c->shape[i]);
        r->in[i] = view_of(c->shape[i], dense, stored);
        r->memory[i] = aligned(r, 2 * (size_t)count * bt_dtype_size(c->shape[i].dtype));
        for (int64_t e = 0; e < count; e++)
            bt_put(r->in[i].dtype, r->memory[i], place(&r->in[i], e), c->values[i][e]);
    }
    for (int o = 0; o < s->node->outputs; o++) {
        r->out[o] = view_of(bt_tensor_array(s->out[o]), true, stored);
        r->result[o] = aligned(r, bt_tensor_bytes(s->out[o]));
        memset(r->result[o], 0x5a, bt_tensor_bytes(s->out[o]));
    }
}

static void run_end(run *r)
{
    for (int i = 0; i < r->call.inputs; i++)
        bt_free_aligned(r->memory[i]);
    for (int o = 0; o < r->call.outputs; o++)
        bt_free_aligned(r->result[o]);
}

/* False: the kernel does not accept it. over[o] >= 0: output o is written over that input. */
static bool launch(run *r, const bt_kernel_impl *kernel, const int *over)
{
    if (!bt_kernel_accepts(kernel, &r->call))
        return false;
    void *scratch = kernel->scratch ? aligned(r, kernel->scratch(&r->call)) : NULL;
    if (kernel->prepare)
        ck_assert_msg(kernel->prepare(&r->call) == BT_OK, "%s: %s", kernel->name, bt_error());
    for (int i = 0; i < r->call.inputs; i++)
        r->in[i].data = r->memory[i];
    for (int o = 0; o < r->call.outputs; o++)
        r->out[o].data = over && over[o] >= 0 ? r->memory[over[o]] : r->result[o];
    r->call.scratch = scratch;
    const bt_backend *device = device_backend();
    const bt_status status =
        device ? run_on_device(device, kernel, &r->call, r->spans, r->span_count) : kernel->launch(&r->call);
    ck_assert_msg(status == BT_OK, "%s: %s", kernel->name, bt_error());
    if (kernel->release)
        kernel->release(&r->call);
    bt_free_aligned(scratch);
    return true;
}

static double tolerance(const bt_op *op, bt_dtype dtype)
{
    if (!bt_dtype_floats(dtype))
        return 0;
    if (dtype == BT_F64)
        return 1e-13;
    return op == &bt_op_normal ? 1e-3 : 2e-6; /* normal: from 24 bits of each word */
}

/* The additional error of rounding to 16 bits: one unit in the last place. */
static double unit(double x, bt_dtype stored)
{
    return stored == BT_BF16 ? fabs(x) * 0x1p-7 + 0x1p-133 : stored == BT_F16 ? fabs(x) * 0x1p-10 + 0x1p-24 : 0;
}

static void assert_result(const run *r, const interpreter *in, const setup *s, const op_case *c, const char *kernel,
                          const char *how)
{
    for (int o = 0; o < s->node->outputs; o++) {
        const double *expected = interpreter_value(in, s->out[o]);
        double largest = 1;
        for (int64_t e = 0; e < bt_tensor_count(s->out[o]); e++)
            largest = fmax(largest, isfinite(expected[e]) ? fabs(expected[e]) : 0);
        for (int64_t e = 0; e < bt_tensor_count(s->out[o]); e++) {
            double found = bt_get(r->out[o].dtype, r->out[o].data, e), off = fabs(found - expected[e]);
            bool same = isnan(expected[e]) ? isnan(found) != 0 : found == expected[e];
            ck_assert_msg(same ||
                              off <= tolerance(c->op, s->out[o]->dtype) * largest + unit(expected[e], r->out[o].dtype),
                          "%s, %s%s: output %d, [%lld]: found %.17g, expected %.17g", c->name, kernel, how, o,
                          (long long)e, found, expected[e]);
        }
    }
}

static void assert_aliased(const setup *s, const op_case *c, bt_dtype stored, const interpreter *in,
                           const bt_kernel_impl *kernel)
{
    const bt_op_info *info = c->op->info;
    int together[BT_MAX_OUTPUTS];
    for (int o = 0; o < s->node->outputs; o++)
        together[o] = info->overwrites[o] ? __builtin_ctz(info->overwrites[o]) : -1;
    for (int o = 0; o <= s->node->outputs; o++)
        for (int i = 0; i < s->node->inputs; i++) {
            int over[BT_MAX_OUTPUTS] = {-1, -1, -1, -1, -1, -1, -1, -1};
            run r;
            if (o == s->node->outputs ? i > 0 : !(info->overwrites[o] >> i & 1))
                continue;
            over[o < s->node->outputs ? o : 0] = i;
            run_begin(&r, s, c, stored, true, 1);
            if (launch(&r, kernel, o < s->node->outputs ? over : together))
                assert_result(&r, in, s, c, kernel->name, ", in place");
            run_end(&r);
        }
}

static void check_case(const op_case *c, bt_dtype stored, const bt_kernel_impl *const *kernels)
{
    setup s;
    setup_begin(&s, c, c->op);
    ck_assert_msg(s.node != NULL, "%s: %s", c->name, s.graph->message);
    interpreter *in = interpreter_new(s.graph);
    setup_values(&s, c, in);
    interpreter_run(in);
    bool any = c->op->body || c->op->info->view || bt_dtype_half(stored); /* these work without one, or with copies */
    for (; *kernels; kernels++) {
        if ((*kernels)->op != c->op)
            continue;
        for (int way = 0; way < 4; way++) {
            run r;
            run_begin(&r, &s, c, stored, way & 1, 1 + way / 2);
            if (launch(&r, *kernels, NULL)) {
                assert_result(&r, in, &s, c, (*kernels)->name, way & 1 ? "" : ", strided");
                any = true;
            }
            run_end(&r);
        }
        assert_aliased(&s, c, stored, in, *kernels);
    }
    ck_assert_msg(any, "%s: no kernel takes it", c->name);
    interpreter_free(in);
    setup_end(&s);
}

/* f32 numbers that are exact in 16 bits. */
static void round_values(op_case *c, bt_dtype stored)
{
    for (int i = 0; i < c->sample.inputs && bt_dtype_half(stored); i++)
        for (int64_t e = 0; c->shape[i].dtype == BT_F32 && e < bt_array_count(c->shape[i]); e++)
            c->values[i][e] = bt_dtype_round(stored, c->values[i][e]);
}

/* Loop index: op * instruction sets + set. */
START_TEST(test_kernels)
{
    const bt_op *op = bt_op_table[_i / BT_COUNT_OF(isas)];
    const bt_kernel_impl *const *kernels = bt_cpu_kernels(isas[_i % BT_COUNT_OF(isas)]);
    if (device_backend()) /* the device's own kernels, once */
        kernels = _i % BT_COUNT_OF(isas) ? NULL : device_backend()->kernels.list();
    if (!kernels || bt_op_flags(op) & (BT_OP_LEAF | BT_OP_EFFECT))
        return;
    static const bt_dtype stored[] = {BT_F64, BT_F32, BT_BF16, BT_F16};
    for (int d = 0; d < BT_COUNT_OF(stored); d++) {
        case_list list = cases_of(op, d ? BT_F32 : BT_F64);
        for (int i = 0; i < list.count; i++) {
            round_values(&list.cases[i], stored[d]);
            check_case(&list.cases[i], stored[d], kernels);
        }
        cases_free(&list);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops: kernels");
    TCase *kernels = tcase_create("kernels");
    tcase_set_timeout(kernels, 120);
    tcase_add_loop_test(kernels, test_kernels, 0, op_count() * BT_COUNT_OF(isas));
    suite_add_tcase(suite, kernels);
    return run_suite(suite);
}
