/* tests/ops/test_trace.h: the trace in which a test builds its graph. Include it in one file of a test program: it
 * defines the trace. */
#ifndef TESTS_OPS_TEST_TRACE_H
#define TESTS_OPS_TEST_TRACE_H

#include "graph/graph.h"
#include <check.h>

static bt_graph *graph;
static bt_trace trace;

/* `dtype` is the default for numbers. */
static void trace_open(bt_dtype dtype)
{
    bt_error_clear();
    graph = bt_graph_new();
    ck_assert_ptr_nonnull(graph);
    bt_trace_begin(&trace, graph, BT_TRAIN, dtype);
}

/* Fails the test if an error is pending. */
static void trace_close(void)
{
    bt_trace_end(&trace);
    bt_graph_free(graph);
    ck_assert_str_eq(bt_error(), "");
}

#endif
