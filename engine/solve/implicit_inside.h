/* engine/solve/implicit_inside.h: an implicit solve, and how its programs are traced: what implicit.c, rule.c and
 * calls.c share. */
#ifndef BT_IMPLICIT_INSIDE_H
#define BT_IMPLICIT_INSIDE_H

#include "engine/solve/implicit.h"
#include "optim/rule.h"

typedef struct bt_implicit { /* bt_solve.state */
    bt_vector x;             /* H^-1 v; the adjoint itself where the method leaves v as it is */
    bt_vector slots[BT_MAX_ITEMS];
    bt_var *stacks[BT_MAX_ITEMS];
    int64_t iterations;
    bt_var *iteration;    /* I64 []: which step of the method it is; NULL: nobody asks */
    bt_graph *starting;   /* x from v, until it is an entry; NULL: none */
    bool starts_on_batch; /* start reads micro-batches, and so exists once for each variant */
    bt_graph *pure[2];    /* start and step of a user's method, as first traced; NULL: none */
    bt_micro_set upper;   /* what the upper loss is taken on, where the method asks for it; else count 0 */
    /* Entries, by variant: of its own micro-batches, times that of the upper problem's; -1: none. */
    int start[BT_MAX_ITEMS], once[BT_MAX_ITEMS], each[BT_MAX_ITEMS], product[BT_MAX_ITEMS];
} bt_implicit;

typedef struct bt_builder { /* while a program is traced */
    bt_solve_site *site;
    bt_solve *solve;
    bt_implicit *own; /* the solve's state */
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

/* ---- rule.c: a method's callbacks, traced ---- */

bool bt_builder_begin(bt_builder *builder);
bt_graph *bt_builder_end(bt_builder *builder, const char *part); /* its graph; NULL after an error */
bt_status bt_method_slots_open(bt_builder *builder);
bt_var *bt_method_slot(const bt_builder *builder, int k);   /* slots, and behind them stacks: by number in the rule */
bt_graph *bt_method_start(bt_builder *builder, bool *same); /* the first x; NULL after an error; *same: x is v */
bt_graph *bt_method_step(bt_builder *builder);              /* the next x; NULL after an error */

/* ---- calls.c ---- */

extern const bt_rule_calls bt_method_calls; /* their context: a bt_builder */
bt_loss bt_builder_lower(const bt_builder *builder);
bt_loss bt_builder_upper(const bt_builder *builder);
/* The x of the last upper step, which `upper` keeps; NULL: out of memory. */
bt_var *bt_solution_var(bt_problem *upper, const bt_problem *lower);
bool bt_starts_warm(const bt_problem *lower);
double bt_penalty_of(const bt_problem *lower); /* 0: none */

#endif
