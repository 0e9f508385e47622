/* tests/cuda/test_fake.c: the fake device computes correctly in any order, and detects faults. */
#include "trial.h"

#include "support/suite.h"
#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

enum { COUNT = 1024, SEEDS = 60 };

#define OK(call) ck_assert_int_eq((call), cudaSuccess)

enum way { WHOLE, NO_EVENT, NO_WAIT, NO_JOIN };

typedef struct scene {
    cudaStream_t copies, work;
    cudaEvent_t copied, worked;
    float *host, *x;
    double *partial, *sums; /* device; pinned */
} scene;

static void set_order(int seed)
{
    char text[16];
    snprintf(text, sizeof text, "%d", seed);
    fake_order(seed == 0 ? "eager" : seed == 1 ? "lazy" : text);
}

static void begin(scene *s)
{
    OK(cudaStreamCreateWithFlags(&s->copies, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&s->work, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&s->copied, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&s->worked, cudaEventDisableTiming));
    OK(cudaHostAlloc((void **)&s->host, COUNT * sizeof *s->host, cudaHostAllocDefault));
    OK(cudaHostAlloc((void **)&s->sums, TRIAL_BLOCKS * sizeof *s->sums, cudaHostAllocDefault));
    OK(cudaMalloc((void **)&s->x, COUNT * sizeof *s->x));
    OK(cudaMalloc((void **)&s->partial, TRIAL_BLOCKS * sizeof *s->partial));
    for (int i = 0; i < COUNT; i++)
        s->host[i] = (float)(i % 17);
}

static void end(scene *s)
{
    OK(cudaStreamSynchronize(s->work));
    OK(cudaStreamSynchronize(s->copies));
    OK(cudaFree(s->x));
    OK(cudaFree(s->partial));
    OK(cudaFreeHost(s->host));
    OK(cudaFreeHost(s->sums));
    OK(cudaEventDestroy(s->copied));
    OK(cudaEventDestroy(s->worked));
    OK(cudaStreamDestroy(s->copies));
    OK(cudaStreamDestroy(s->work));
}

static double expected(void)
{
    double sum = 0;
    for (int i = 0; i < COUNT; i++)
        sum += 2.0 * (i % 17);
    return sum;
}

static bool is_right(const scene *s)
{
    double sum = 0;
    for (int b = 0; b < TRIAL_BLOCKS; b++)
        sum += s->sums[b];
    return sum >= expected() && sum <= expected();
}

/* Copied on one stream, computed on another. */
static bool runs(int seed, enum trial_fault fault, enum way way)
{
    scene s;
    set_order(seed);
    begin(&s);
    OK(cudaMemcpyAsync(s.x, s.host, COUNT * sizeof *s.x, cudaMemcpyHostToDevice, s.copies));
    OK(cudaEventRecord(s.copied, s.copies));
    if (way != NO_EVENT)
        OK(cudaStreamWaitEvent(s.work, s.copied, 0));
    OK(trial_double(fault, s.x, COUNT, s.work));
    OK(trial_sum(fault, s.x, COUNT, s.partial, s.work));
    OK(cudaMemcpyAsync(s.sums, s.partial, TRIAL_BLOCKS * sizeof *s.sums, cudaMemcpyDeviceToHost, s.work));
    if (way != NO_WAIT)
        OK(cudaStreamSynchronize(s.work));
    const bool right = is_right(&s);
    end(&s);
    return right;
}

START_TEST(right_in_any_order)
{
    for (int seed = 0; seed < SEEDS; seed++)
        ck_assert_msg(runs(seed, TRIAL_RIGHT, WHOLE), "order %d", seed);
}
END_TEST

/* In every order, or in some: a fault is detected within a few tens of seeds. */
START_TEST(wrong_without)
{
    static const struct {
        enum trial_fault fault;
        enum way way;
        int least; /* orders that detect it */
    } cases[] = {{TRIAL_NO_BARRIER, WHOLE, SEEDS - 2}, {TRIAL_RIGHT, NO_EVENT, 4}, {TRIAL_RIGHT, NO_WAIT, 10}};
    int wrong = 0;
    for (int seed = 0; seed < SEEDS; seed++)
        wrong += !runs(seed, cases[_i].fault, cases[_i].way);
    ck_assert_int_ge(wrong, cases[_i].least);
}
END_TEST

/* The copy forks off and joins again. */
static cudaError_t capture(scene *s, enum way way, cudaGraphExec_t *graph)
{
    cudaGraph_t made = NULL;
    OK(cudaStreamBeginCapture(s->work, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(s->worked, s->work));
    OK(cudaStreamWaitEvent(s->copies, s->worked, 0));
    OK(cudaMemcpyAsync(s->x, s->host, COUNT * sizeof *s->x, cudaMemcpyHostToDevice, s->copies));
    OK(cudaEventRecord(s->copied, s->copies));
    ck_assert_int_eq(cudaStreamSynchronize(s->work), cudaErrorStreamCaptureUnsupported);
    if (way != NO_JOIN)
        OK(cudaStreamWaitEvent(s->work, s->copied, 0));
    OK(trial_double(TRIAL_RIGHT, s->x, COUNT, s->work));
    OK(trial_sum(TRIAL_RIGHT, s->x, COUNT, s->partial, s->work));
    OK(cudaMemcpyAsync(s->sums, s->partial, TRIAL_BLOCKS * sizeof *s->sums, cudaMemcpyDeviceToHost, s->work));
    const cudaError_t error = cudaStreamEndCapture(s->work, &made);
    if (error != cudaSuccess)
        return error;
    OK(cudaGraphInstantiate(graph, made, 0));
    return cudaGraphDestroy(made);
}

START_TEST(graphs)
{
    for (int seed = 0; seed < SEEDS; seed++) {
        scene s;
        cudaGraphExec_t graph;
        set_order(seed);
        begin(&s);
        OK(capture(&s, WHOLE, &graph));
        for (int run = 0; run < 3; run++)
            OK(cudaGraphLaunch(graph, s.work));
        OK(cudaStreamSynchronize(s.work));
        ck_assert(is_right(&s));
        OK(cudaGraphExecDestroy(graph));
        end(&s);
    }
}
END_TEST

START_TEST(graph_without_join)
{
    scene s;
    cudaGraphExec_t graph;
    begin(&s);
    ck_assert_int_eq(capture(&s, NO_JOIN, &graph), cudaErrorStreamCaptureUnjoined);
    end(&s);
}
END_TEST

START_TEST(leaves_early) { runs(2, TRIAL_LEAVES, WHOLE); }
END_TEST

START_TEST(writes_behind) { runs(2, TRIAL_OVERRUN, WHOLE); }
END_TEST

START_TEST(host_reads)
{
    scene s;
    begin(&s);
    volatile float *x = s.x;
    ck_assert(x[0] >= 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fake CUDA");
    TCase *tests = tcase_create("fake");
    tcase_add_test(tests, right_in_any_order);
    tcase_add_loop_test(tests, wrong_without, 0, 3);
    tcase_add_test(tests, graphs);
    tcase_add_test(tests, graph_without_join);
    tcase_add_test_raise_signal(tests, leaves_early, SIGABRT);
    tcase_add_test_raise_signal(tests, writes_behind, SIGSEGV);
    tcase_add_test_raise_signal(tests, host_reads, SIGSEGV);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
