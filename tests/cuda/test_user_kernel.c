/* tests/cuda/test_user_kernel.c: kernels of a user's op for CUDA: they get dense inputs, scratch and the stream of the
 * device, become part of graphs, and give what the op's kernel for the processor does, in any order. */
#include "trial.h"

#include "runtime/evaluate.h"
#include "support/scene.h"
#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 10, COLUMNS = 8, COUNT = ROWS * COLUMNS, RUNS = 6, PIECE = COUNT / TRIAL_BLOCKS };

static int launches;
static bt_status answer;

/* pieces(x): the sums of 2 x over TRIAL_BLOCKS equal parts, in double precision. */
static bt_status pieces_infer(const void *attr, const bt_array *in, bt_array *out)
{
    (void)attr;
    if (bt_array_count(in[0]) != COUNT)
        return bt_fail(BT_ERROR_SHAPE, "pieces: %d numbers, please", COUNT);
    out[0] = (bt_array){.dtype = BT_F64, .rank = 1, .dims = {TRIAL_BLOCKS}};
    return BT_OK;
}

static bt_status pieces_near(const bt_launch *run)
{
    const float *x = run->in[0].data;
    double *sums = run->out[0].data;
    ck_assert_ptr_null(run->stream);
    memset(sums, 0, TRIAL_BLOCKS * sizeof *sums);
    for (int i = 0; i < COUNT; i++)
        sums[i / PIECE] += 2 * (double)x[i];
    return BT_OK;
}

static size_t pieces_scratch(const void *attr, const bt_array *in, int threads)
{
    (void)attr, (void)threads;
    return (size_t)bt_array_count(in[0]) * sizeof(float);
}

/* A copy and two kernels, in sequence. */
static bt_status pieces_far(const bt_launch *run)
{
    const cudaStream_t stream = run->stream;
    launches++;
    ck_assert(stream && (uintptr_t)run->scratch % BT_ALIGN == 0);
    if (answer != BT_OK)
        return bt_fail(answer, "pieces: not today");
    cudaError_t error =
        cudaMemcpyAsync(run->scratch, run->in[0].data, COUNT * sizeof(float), cudaMemcpyDeviceToDevice, stream);
    if (error == cudaSuccess)
        error = trial_double(TRIAL_RIGHT, run->scratch, COUNT, stream);
    if (error == cudaSuccess)
        error = trial_sum(TRIAL_RIGHT, run->scratch, COUNT, run->out[0].data, stream);
    return error == cudaSuccess ? BT_OK : bt_fail(BT_ERROR_DEVICE, "pieces: %s", cudaGetErrorString(error));
}

static void pieces_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_sum(bt_reshape(bt_mul(2, bt_as(in[0], BT_F64)), TRIAL_BLOCKS, PIECE), 1);
}

#define PIECES                                                                                                         \
    .name = "pieces", .inputs = 1, .infer = pieces_infer,                                                              \
    .kernels = {{.device = BT_CPU, .dtype = BT_F32, .launch = pieces_near},                                            \
                {.device = BT_CUDA, .dtype = BT_F32, .scratch = pieces_scratch, .launch = pieces_far}}
static const bt_op with_body = {.body = pieces_body, PIECES}, without = {PIECES};
static const bt_op near_only = {.name = "near_only",
                                .inputs = 1,
                                .infer = bt_infer_same,
                                .kernels = {{.device = BT_CPU, .dtype = BT_F32, .launch = pieces_near}}};

static bt_tensor *numbers(scene *s, bt_dtype dtype)
{
    double values[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = i % 17 - 5; /* integers: sums are exact in any order */
    return bt_trace_read(scene_var(s, "x", dtype, values, (const int64_t[]){ROWS, COLUMNS, BT_END}));
}

/* x = x + 1, RUNS times, and the sums over the pieces of the transposed x in each run; those of the last run in
 * `sums`. */
static void run(const bt_op *op, bt_dtype dtype, const char *backend, double *sums)
{
    scene s;
    if (backend)
        setenv("BETTY_TEST_BACKEND", backend, 1);
    else
        unsetenv("BETTY_TEST_BACKEND");
    launches = 0;
    scene_begin(&s, BT_F32);
    bt_tensor *x = numbers(&s, dtype), *turned = bt_permute(x, 1, 0);
    bt_var *result = scene_var(&s, "sums", BT_F64, NULL, (const int64_t[]){TRIAL_BLOCKS, BT_END});
    bt_graph_assign(s.graph, result, bt_apply(op, NULL, turned));
    bt_graph_assign(s.graph, s.vars[0], bt_add(x, 1));
    scene_end(&s);
    bt_instance *instance = bt_instance_new(bt_backend_cpu(), 1);
    bt_phase *phase = bt_phase_new(instance, "level", "step");
    ck_assert_int_eq(bt_phase_add(phase, s.graph, 0, "part"), 0);
    EXPECT_OK(bt_phase_plan(phase));
    for (int i = 0; i < RUNS; i++) {
        bt_phase_begin(phase);
        EXPECT_OK(bt_phase_run(phase, 0));
        bt_phase_end(phase);
    }
    for (int b = 0; b < TRIAL_BLOCKS; b++)
        sums[b] = var_get(result, b);
    bt_phase_free(phase);
    bt_instance_free(instance);
    scene_free(&s);
}

START_TEST(as_on_the_processor)
{
    static const char *const orders[] = {"eager", "lazy", "1", "2", "3", "4"};
    static const bt_op *const ops[] = {&with_body, &without};
    double near[TRIAL_BLOCKS], far[TRIAL_BLOCKS];
    for (int o = 0; o < BT_COUNT_OF(ops); o++) {
        run(ops[o], BT_F32, NULL, near);
        ck_assert_int_eq(launches, 0);
        for (int i = 0; i < BT_COUNT_OF(orders); i++) {
            fake_order(orders[i]);
            fake_forget();
            run(ops[o], BT_F32, "cuda", far);
            ck_assert_msg(memcmp(near, far, sizeof near) == 0, "%s: %g, not %g", orders[i], far[0], near[0]);
            ck_assert_int_eq(launches, 2); /* once by itself, once for recording */
            ck_assert_int_eq(fake_counted().graphs, RUNS - 1);
        }
    }
}
END_TEST

/* A dtype without a kernel: uses the body. */
START_TEST(another_dtype)
{
    double near[TRIAL_BLOCKS], far[TRIAL_BLOCKS];
    run(&with_body, BT_F64, NULL, near);
    run(&with_body, BT_F64, "cuda", far);
    ck_assert(memcmp(near, far, sizeof near) == 0);
    ck_assert_int_eq(launches, 0);
}
END_TEST

/* ---- failures ---- */

static void expect_failure(const bt_op *op, const char *message)
{
    scene s;
    double room[COUNT];
    setenv("BETTY_TEST_BACKEND", "cuda", 1);
    scene_begin(&s, BT_F32);
    bt_graph_output(s.graph, bt_as(bt_apply(op, NULL, numbers(&s, BT_F32)), BT_F64));
    scene_end(&s);
    bt_array result = bt_tensor_array(s.graph->outputs[0]);
    result.data = room;
    ck_assert_int_ne(bt_evaluate(s.graph, &result), BT_OK);
    ck_assert_msg(strstr(bt_error(), message), "%s", bt_error());
    scene_free(&s);
    bt_error_clear();
}

START_TEST(failures)
{
    expect_failure(&near_only, "the cuda backend has no kernel for");
    expect_failure(&near_only, "give the op one for this device and dtype, or a body");
    answer = BT_ERROR_DATA;
    expect_failure(&without, "pieces: not today");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("CUDA: kernels of users");
    TCase *tests = tcase_create("user_kernel");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, as_on_the_processor);
    tcase_add_test(tests, another_dtype);
    tcase_add_test(tests, failures);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
