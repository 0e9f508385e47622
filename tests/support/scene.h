/* tests/support/scene.h: a graph being recorded, its variables, and its results. Any failure fails the calling test. */
#ifndef TESTS_SCENE_H
#define TESTS_SCENE_H

#include "graph/variable.h"
#include "ops/interpret.h"
#include "ops/ops.h"
#include "runtime/phase.h"
#include "support/vars.h"

enum { SCENE_VARS = 64 };

typedef struct scene {
    bt_graph *graph;
    bt_trace trace;
    bool tracing;
    bt_var *vars[SCENE_VARS];
    int count;
} scene;

void scene_begin(scene *s, bt_dtype dtype); /* also starts a trace in training mode */
void scene_end(scene *s);                   /* ends the trace; the graph must have no errors */
void scene_free(scene *s);                  /* also ends the trace if needed, in any state of the graph */

/* A variable of the run; values: NULL for zeros. dims ends with BT_END. */
bt_var *scene_var(scene *s, const char *name, bt_dtype dtype, const double *values, const int64_t *dims);
bt_var *scene_own(scene *s, bt_var *var); /* freed with the scene, last in first out */

/* Reads of new f64 variables: VECTOR(&s, "x", 1, 2, 3), SCALAR(&s, "a", 2), MATRIX(&s, "w", 2, 3, values...). */
#define VECTOR(s, name, ...)                                                                                           \
    scene_read((s), (name), NUMBERS(__VA_ARGS__), (const int64_t[]){(int64_t)HOW_MANY(__VA_ARGS__), BT_END})
#define SCALAR(s, name, value) scene_read((s), (name), (const double[]){value}, (const int64_t[]){BT_END})
#define MATRIX(s, name, rows, columns, ...)                                                                            \
    scene_read((s), (name), NUMBERS(__VA_ARGS__), (const int64_t[]){(rows), (columns), BT_END})
#define NUMBERS(...)  ((const double[]){__VA_ARGS__})
#define HOW_MANY(...) (sizeof((const double[]){__VA_ARGS__}) / sizeof(double))
bt_tensor *scene_read(scene *s, const char *name, const double *values, const int64_t *dims);

void var_set(bt_var *var, const double *values); /* NULL: zeros */

/* Runs the graph once, as bt_evaluate does; its outputs, concatenated, to be freed. */
double *run_once(const bt_graph *graph);

/* Ends the trace and runs the graph once as the only program of the phase, in an arena filled with a pattern. */
const bt_program *scene_run_in(scene *s, bt_phase *phase);

/* EXPECT_VALUES(found, tolerance, values...): relative to the largest value, absolute if that is below 1. */
#define EXPECT_VALUES(found, tolerance, ...)                                                                           \
    expect_values(__FILE__, __LINE__, (found), NUMBERS(__VA_ARGS__), (int64_t)HOW_MANY(__VA_ARGS__), (tolerance))
#define EXPECT_VAR(var, tolerance, ...)                                                                                \
    expect_var(__FILE__, __LINE__, (var), NUMBERS(__VA_ARGS__), (int64_t)HOW_MANY(__VA_ARGS__), (tolerance))
/* EXPECT_RUN(graph, tolerance, values...): all outputs of the graph, concatenated. */
#define EXPECT_RUN(graph, tolerance, ...)                                                                              \
    expect_run(__FILE__, __LINE__, (graph), NUMBERS(__VA_ARGS__), (int64_t)HOW_MANY(__VA_ARGS__), (tolerance))
void expect_values(const char *file, int line, const double *found, const double *expected, int64_t count,
                   double tolerance);
void expect_var(const char *file, int line, const bt_var *var, const double *expected, int64_t count, double tolerance);
void expect_run(const char *file, int line, const bt_graph *graph, const double *expected, int64_t count,
                double tolerance);
int64_t output_elements(const bt_graph *graph);

/* The graph computed by plain loops, with the current values of its variables; to be freed. */
interpreter *interpret(const bt_graph *graph);

/* The number of nodes with this op. */
int count_op(const bt_graph *graph, const bt_op *op);

#define EXPECT_OK(expression) ck_assert_msg((expression) == BT_OK, "%s: %s", #expression, bt_error())

#endif
