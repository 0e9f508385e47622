/* tests/support/scene.c: a graph being recorded, with variables of its own, and what it computes. */
#include "support/scene.h"

#include "runtime/evaluate.h"
#include "runtime/variable.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

void scene_begin(scene *s, bt_dtype dtype)
{
    bt_error_clear();
    *s = (scene){.graph = bt_graph_new(), .tracing = true};
    ck_assert_ptr_nonnull(s->graph);
    bt_trace_begin(&s->trace, s->graph, BT_TRAIN, dtype);
}

void scene_end(scene *s)
{
    if (s->tracing)
        bt_trace_end(&s->trace);
    s->tracing = false;
    ck_assert_msg(s->graph->status == BT_OK, "%s", s->graph->message);
    ck_assert_str_eq(bt_error(), "");
}

void scene_free(scene *s)
{
    if (s->tracing)
        bt_trace_end(&s->trace);
    s->tracing = false;
    bt_graph_free(s->graph);
    while (s->count)
        bt_var_free(s->vars[--s->count]);
}

bt_var *scene_own(scene *s, bt_var *var)
{
    ck_assert_msg(var != NULL, "%s", bt_error());
    ck_assert_int_lt(s->count, SCENE_VARS);
    return s->vars[s->count++] = var;
}

bt_var *scene_var(scene *s, const char *name, bt_dtype dtype, const double *values, const int64_t *dims)
{
    bt_var *var = scene_own(s, bt_var_new(BT_RUN, BT_BUFFERS, "", name, bt_array_of(dtype, NULL, dims)));
    var_set(var, values);
    return var;
}

bt_tensor *scene_read(scene *s, const char *name, const double *values, const int64_t *dims)
{
    return bt_trace_read(scene_var(s, name, BT_F64, values, dims));
}

void var_set(bt_var *var, const double *values)
{
    int64_t count = bt_array_count(bt_var_array(var));
    for (int64_t i = 0; i < count; i++)
        var_put(var, i, values ? values[i] : 0);
}

int64_t output_elements(const bt_graph *graph)
{
    int64_t count = 0;
    for (int64_t o = 0; o < graph->output_count; o++)
        count += bt_tensor_count(graph->outputs[o]);
    return count;
}

double *run_once(const bt_graph *graph)
{
    double *values = calloc((size_t)output_elements(graph) + 1, sizeof *values), *next = values;
    bt_array *results = calloc((size_t)graph->output_count + 1, sizeof *results);
    ck_assert(values && results);
    for (int64_t o = 0; o < graph->output_count; o++) {
        results[o] = bt_tensor_array(graph->outputs[o]);
        results[o].dtype = BT_F64;
        results[o].data = next;
        next += bt_tensor_count(graph->outputs[o]);
    }
    EXPECT_OK(bt_evaluate(graph, results));
    free(results);
    return values;
}

void expect_values(const char *file, int line, const double *found, const double *expected, int64_t count,
                   double tolerance)
{
    double largest = 1;
    for (int64_t i = 0; i < count; i++)
        largest = isfinite(expected[i]) ? fmax(largest, fabs(expected[i])) : largest;
    for (int64_t i = 0; i < count; i++) {
        bool same = isnan(expected[i]) ? isnan(found[i]) : found[i] == expected[i];
        ck_assert_msg(same || fabs(found[i] - expected[i]) <= tolerance * largest, "%s:%d: [%lld] is %.17g, not %.17g",
                      file, line, (long long)i, found[i], expected[i]);
    }
}

void expect_var(const char *file, int line, const bt_var *var, const double *expected, int64_t count, double tolerance)
{
    double *values = calloc((size_t)count + 1, sizeof *values);
    ck_assert_msg(bt_array_count(bt_var_array(var)) == count, "%s:%d: %s has %lld elements, not %lld", file, line,
                  var->name, (long long)bt_array_count(bt_var_array(var)), (long long)count);
    for (int64_t i = 0; i < count; i++)
        values[i] = var_get(var, i);
    expect_values(file, line, values, expected, count, tolerance);
    free(values);
}

const bt_program *scene_run_in(scene *s, bt_phase *phase)
{
    scene_end(s);
    ck_assert_msg(bt_phase_add(phase, s->graph, 0, "whole") == 0, "%s", bt_error());
    EXPECT_OK(bt_phase_plan(phase));
    bt_instance_fill(phase->instance);
    bt_phase_begin(phase);
    EXPECT_OK(bt_phase_run(phase, 0));
    return phase->entries[0].program;
}

void expect_run(const char *file, int line, const bt_graph *graph, const double *expected, int64_t count,
                double tolerance)
{
    double *values = run_once(graph);
    ck_assert_msg(output_elements(graph) == count, "%s:%d: the outputs have %lld elements, not %lld", file, line,
                  (long long)output_elements(graph), (long long)count);
    expect_values(file, line, values, expected, count, tolerance);
    free(values);
}

int count_op(const bt_graph *graph, const bt_op *op)
{
    int count = 0;
    for (int64_t n = 0; n < graph->node_count; n++)
        count += graph->nodes[n]->op == op;
    return count;
}

interpreter *interpret(const bt_graph *graph)
{
    interpreter *in = interpreter_new(graph);
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        const bt_var *var = node->op == &bt_op_read ? ((const bt_read_attr *)node->attr)->var : NULL;
        if (!var)
            continue;
        int64_t count = bt_tensor_count(node->out);
        double *values = calloc((size_t)count + 1, sizeof *values);
        ck_assert_ptr_nonnull(values);
        for (int64_t i = 0; i < count; i++)
            values[i] = var_get(var, i);
        interpreter_set(in, node->out, values);
        free(values);
    }
    interpreter_run(in);
    return in;
}
