/* tests/ops/cases.h: the test cases in the op records, with their values; and a graph with a single op. */
#ifndef TESTS_OPS_CASES_H
#define TESTS_OPS_CASES_H

#include "interpret.h"
#include "ops/samples.h"

enum { CASE_INPUTS = 16 };

typedef struct op_case {
    const bt_op *op;
    char name[160]; /* "softmax, rows, f64" */
    bt_sample sample;
    unsigned char attr[1024];
    bt_array shape[CASE_INPUTS]; /* dtype and dims of the inputs */
    double *values[CASE_INPUTS]; /* representable in the dtype */
} op_case;

typedef struct case_list {
    op_case *cases;
    int count;
} case_list;

int op_count(void);

/* The op's cases; if the record says f64, with `dtype` (BT_F64 or BT_F32). */
case_list cases_of(const bt_op *op, bt_dtype dtype);
void cases_free(case_list *list);

/* The tolerance for rounding, relative to the largest number, of a case that uses 16-bit numbers; 0: for any other
 * case. */
double case_rounding(const op_case *c);

/* Random numbers in -1..1, to be freed; `stream` selects the sequence. */
double *random_values(int64_t count, uint64_t stream);

/* A graph with the case's op on variables that hold its values. `op` may be a different record than the case's (a twin
 * without rules). */
typedef struct setup {
    bt_graph *graph;
    bt_trace trace;
    bt_tensor *in[CASE_INPUTS];
    bt_node *node;
    bt_tensor *out[BT_MAX_OUTPUTS];
    bt_var *vars[4 * CASE_INPUTS];
    int var_count;
} setup;
void setup_begin(setup *s, const op_case *c, const bt_op *op); /* the trace stays open */
void setup_end(setup *s);
void setup_values(const setup *s, const op_case *c, interpreter *in);

/* A leaf with the shape of x, and its random values. */
typedef struct extra {
    bt_tensor *leaf;
    double *values;
} extra;
extra extra_like(setup *s, const bt_tensor *x, uint64_t stream);

#endif
