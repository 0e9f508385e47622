/* The memory of attention: with blocks of queries, no array of queries x keys exists in memory, in the forward pass,
 * the gradient or a second derivative, and twice the tokens take twice the bytes. */
#include "support/scene.h"

#include "support/suite.h"
#include "transform/grad.h"
#include <check.h>
#include <stdlib.h>

enum { WIDTH = 16 };

typedef enum { FORWARD, GRADIENT, PRODUCT } part;

static bt_tensor *read(scene *s, int64_t tokens)
{
    return bt_trace_read(scene_var(s, "x", BT_F32, NULL, (const int64_t[]){1, 2, tokens, WIDTH, BT_END}));
}

/* The largest buffer, and the arena. */
static size_t planned(int64_t tokens, bool causal, bool held, part what, size_t *largest)
{
    bt_instance *instance = bt_instance_new(bt_backend_cpu(), 1);
    instance->dry = true;
    bt_phase *phase = bt_phase_new(instance, "test", "attention");
    scene s = {.graph = NULL};
    scene_begin(&s, BT_F32);
    bt_tensor *x[3], *direction[3], *along = NULL;
    for (int i = 0; i < 3; i++)
        x[i] = read(&s, tokens);
    for (int i = 0; i < 3; i++)
        direction[i] = read(&s, tokens);
    bt_tensor *y = bt_attention(x[0], x[1], x[2], &(bt_attention_options){.causal = causal, .held = held});
    bt_tensor *loss = bt_sum(bt_square(y)), *one = bt_ones_like(loss), *g[3], *h[3];
    bt_vjp(s.graph, &loss, &one, 1, x, 3, g, false);
    for (int i = 0; i < 3; i++) {
        bt_tensor *inner = bt_sum(bt_mul(g[i], direction[i]));
        along = along ? bt_add(along, inner) : inner;
    }
    if (what == PRODUCT)
        bt_vjp(s.graph, &along, &one, 1, x, 3, h, false);
    for (int i = 0; i < 3 && what != FORWARD; i++)
        bt_graph_output(s.graph, what == GRADIENT ? g[i] : h[i]);
    if (what == FORWARD)
        bt_graph_output(s.graph, y);
    scene_end(&s);
    int entry = bt_phase_add(phase, s.graph, 0, "part");
    ck_assert_msg(entry >= 0, "%s", bt_error());
    EXPECT_OK(bt_phase_plan(phase));
    const bt_program *program = phase->entries[entry].program;
    *largest = 0;
    for (int64_t b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].bytes > *largest)
            *largest = program->buffers[b].bytes;
    size_t arena = phase->arena;
    scene_free(&s);
    bt_phase_free(phase);
    bt_instance_free(instance);
    return arena;
}

START_TEST(no_array_of_all_weights)
{
    const size_t weights = 2 * 1024 * 1024 * sizeof(float); /* two heads */
    part what = (part)(_i / 2);
    bool causal = _i % 2;
    size_t largest, arena = planned(1024, causal, false, what, &largest);
    ck_assert_msg(largest <= weights / 4, "a buffer has %zu bytes, all weights have %zu", largest, weights);
    ck_assert_msg(arena < weights, "%zu bytes are planned, all weights have %zu", arena, weights);
    size_t twice = planned(2048, causal, false, what, &largest);
    ck_assert_msg((double)twice <= 2.5 * (double)arena, "of twice the tokens %zu bytes, of one time %zu", twice, arena);
    size_t held = planned(1024, causal, true, what, &largest);
    ck_assert_msg(held >= weights && largest >= weights, "held: %zu bytes, the largest %zu", held, largest);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention");
    TCase *tests = tcase_create("planned");
    tcase_add_loop_test(tests, no_array_of_all_weights, 0, 6);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
