/* engine/solve/calls_inside.h: a solve while its programs are traced: what solve.c and calls.c share. */
#ifndef BT_BUILDER_H
#define BT_BUILDER_H

#include "engine/solve/solve.h"
#include "optim/rule.h"

typedef struct bt_builder {
    bt_solve_site *site;
    bt_solve *solve;
    bt_problem *upper, *lower;
    const bt_micro *micros, *upper_micros; /* of the variant in hand */
    bt_trace trace;
    bt_tracing tracing;
    bt_graph *graph;
    bt_rule rule;
    bool reads_batch;     /* the rule has asked for something that depends on micro-batches */
    bool reads_iteration; /* the rule has asked which step it is */
    int loop;
} bt_builder;

/* calls.c */

extern const bt_rule_calls bt_method_calls; /* their context: a bt_builder */
bt_loss bt_builder_lower(const bt_builder *builder);
bt_loss bt_builder_upper(const bt_builder *builder);
/* The x of the last upper step, which `upper` keeps; NULL: out of memory. */
bt_var *bt_solution_var(bt_problem *upper, const bt_problem *lower);
bool bt_starts_warm(const bt_problem *lower);
double bt_penalty_of(const bt_problem *lower); /* 0: none */

#endif
