#include "graphs.h"

#include <string.h>

void graph_begin(graph *g)
{
    memset(g, 0, sizeof *g);
    g->order = (bt_order){.steps = g->steps, .values = g->values};
}

int64_t graph_value(graph *g, size_t bytes, bool there)
{
    g->values[g->order.value_count] = (bt_order_value){.bytes = bytes, .there = there};
    return g->order.value_count++;
}

int64_t graph_step(graph *g, double cost, size_t bytes, const int64_t *in)
{
    int64_t number = g->order.step_count++;
    bt_order_step *step = &g->steps[number];
    *step = (bt_order_step){.in = g->in[number], .out = g->out[number], .over = g->overs[number], .outputs = 1};
    for (; *in >= 0; in++)
        g->in[number][step->inputs++] = *in;
    g->cost[number] = cost;
    return g->out[number][0] = graph_value(g, bytes, false);
}

void graph_over(graph *g, int64_t value)
{
    bt_order_step *step = &g->steps[g->order.step_count - 1];
    g->overs[g->order.step_count - 1][step->overs++] = (bt_order_over){0, value};
}

void graph_chain(graph *g, int n, const int *bytes, const int *cost, bool over)
{
    int64_t x[GRAPH_STEPS];
    graph_begin(g);
    x[0] = graph_value(g, 0, true);
    for (int i = 1; i < n; i++) {
        x[i] = STEP(g, cost ? cost[i] : 1, (size_t)(bytes ? bytes[i] : 1), x[i - 1]);
        if (over && i > 1)
            graph_over(g, x[i - 1]);
    }
    int64_t back = graph_value(g, 0, true);
    for (int i = n; i >= 1; i--)
        back = STEP(g, 1, 0, x[i - 1], back);
    g->values[back].kept = true;
}

uint32_t graph_draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 16) % below;
}

static bool reads(const graph *g, int64_t s, int64_t value)
{
    for (int64_t i = 0; i < g->steps[s].inputs; i++)
        if (g->in[s][i] == value)
            return true;
    return false;
}

static void draw_step(graph *g, uint32_t *seed)
{
    int64_t s = g->order.step_count, values = g->order.value_count;
    int64_t none = -1;
    graph_step(g, 1 + graph_draw(seed, 9), 64 * graph_draw(seed, 5), &none);
    bt_order_step *step = &g->steps[s];
    for (uint32_t i = 1 + graph_draw(seed, GRAPH_IN); i > 0; i--) {
        bool near = graph_draw(seed, 3) > 0 && values > 4;
        int64_t v = near ? values - 1 - graph_draw(seed, 4) : graph_draw(seed, (uint32_t)values);
        if (!reads(g, s, v))
            g->in[s][step->inputs++] = v;
    }
    if (graph_draw(seed, 4) == 0) {
        g->out[s][1] = graph_value(g, 64 * graph_draw(seed, 4), false);
        step->outputs = 2;
    }
    for (int64_t i = 0; i < step->inputs && step->overs < GRAPH_IN; i++)
        if (graph_draw(seed, 2) && g->values[g->in[s][i]].bytes >= g->values[g->out[s][0]].bytes)
            g->overs[s][step->overs++] = (bt_order_over){(int)graph_draw(seed, (uint32_t)step->outputs), g->in[s][i]};
    step->scratch = graph_draw(seed, 3) ? 0 : graph_draw(seed, 200);
    if (graph_draw(seed, 10) == 0)
        g->cost[s] = -1;
    for (int64_t k = 0; k < step->outputs; k++)
        g->values[g->out[s][k]].kept = graph_draw(seed, 12) == 0;
}

void graph_random(graph *g, uint32_t seed, int steps)
{
    graph_begin(g);
    graph_value(g, 128, true);
    graph_value(g, 64, true);
    g->values[1].kept = true;
    graph_value(g, 0, true);
    while (g->order.step_count < steps)
        draw_step(g, &seed);
}
