/* tests/compile/test_recompute.c: which steps run again, counted by hand on chains of equal layers: what each policy
 * holds, how often a value is computed, and how many bytes that takes. */
#include "support/scene.h"

#include "runtime/variable.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 640, BYTES = N * (int)sizeof(double) };

static scene s;
static bt_instance *instance;
static bt_phase *phase;
static bt_level_checkpointing level;

static void begin(void)
{
    scene_begin(&s, BT_F64);
    instance = bt_instance_new(bt_backend_cpu(), 1);
    instance->options.absorb = instance->options.fuse = false; /* a layer is a step */
    instance->options.rule = BT_ORDER_WRITTEN;
    level = (bt_level_checkpointing){.level = "net"};
    instance->options.levels = &level;
    instance->options.level_count = 1;
    phase = bt_phase_new(instance, "test", "recompute");
    s.trace.tag.level = "net";
}

static void end(void)
{
    bt_phase_free(phase);
    bt_instance_free(instance);
    scene_free(&s);
    bt_error_clear();
}

static bt_tensor *layers(bt_tensor *x, int count)
{
    char path[32];
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "layer%d", i);
        const char *before = bt_trace_push(path);
        x = bt_tanh(x);
        bt_trace_pop(before);
    }
    return x;
}

static bt_tensor *input(void)
{
    double x[N];
    for (int i = 0; i < N; i++)
        x[i] = sin(i);
    bt_tensor *in = scene_read(&s, "x", x, (const int64_t[]){N, BT_END});
    scene_var(&s, "slope", BT_F64, NULL, (const int64_t[]){N, BT_END});
    bt_trace_push("net");
    return in;
}

static const bt_program *chain(int count, bt_checkpointing how)
{
    level.how = how;
    bt_tensor *x = input(), *y = layers(x, count);
    bt_graph_assign(s.graph, s.vars[1], bt_grad(bt_sum(y), x));
    return scene_run_in(&s, phase);
}

START_TEST(show)
{
    for (int k = 0; k < 5; k++) for (int count = 12; count <= 28; count += 8) {
        begin();
        bt_checkpointing how = {k < 3 ? BT_CHECKPOINTING_EVERY : k == 3 ? BT_CHECKPOINTING_SQRT : BT_CHECKPOINTING_NONE, .number = k + 2};
        const bt_program *p = chain(count, how);
        printf("k %d count %d: steps %d again %d most %g held %g bound %g named %d\n", k, count, (int)p->step_count, (int)p->again, (double)p->most / BYTES, (double)p->held/BYTES, (double)phase->bound / BYTES, (int)level.named);
        if (count == 12 && k < 4) for (int i = 0; i < p->step_count; i++) printf("  %s%s %d", p->steps[i].call.op->name, p->steps[i].again ? "+" : "", p->steps[i].node->tag.order);
        printf("\n");
        end();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recompute");
    TCase *tests = tcase_create("recompute");
    tcase_add_test(tests, show);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
