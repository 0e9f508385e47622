/* engine/solve/implicit_inside.h: an implicit solve, and how its programs are traced; shared by implicit.c, rule.c and
 * calls.c. */
#ifndef BT_IMPLICIT_INSIDE_H
#define BT_IMPLICIT_INSIDE_H

#include "engine/solve/implicit.h"
#include "optim/rule.h"

typedef enum bt_ask_kind { BT_ASK_HVP, BT_ASK_LOWER, BT_ASK_UPPER } bt_ask_kind;

/* A quantity that a method's callback asks for over several micro-batches: an entry runs once for each and adds to a
 * sum. The callback is split there: one part saves the argument, the next one reads the sum. */
typedef struct bt_ask {
    bt_ask_kind kind;
    bt_var *given, *sum;     /* vectors; given NULL: there is no argument */
    bt_tensor *value, *zero; /* while it is traced: what these are first set to */
    int before;              /* entry: the part of the callback up to here */
    bt_micro_part each;      /* entries: what each micro-batch adds */
} bt_ask;

typedef struct bt_round { /* a method's callback as entries */
    bt_ask *asks;
    int64_t ask_count, ask_capacity;
    int once, last; /* entries; -1: none */
} bt_round;

enum { BT_SHAPE_PAIRS = BT_MAX_SHAPES * BT_MAX_SHAPES };

typedef struct bt_implicit { /* bt_solve.state */
    bt_vector x;             /* H^-1 v; the adjoint itself if the method leaves v unchanged */
    bt_vector slots[BT_MAX_ITEMS];
    bt_var *stacks[BT_MAX_ITEMS];
    int64_t iterations;
    bt_var *iteration;    /* I64 []: the number of the method's step; NULL: nobody asks */
    bt_graph *starting;   /* x from v, until it is made an entry; NULL: none */
    bool starts_on_batch; /* start reads the only micro-batch, so there is one for each variant */
    bt_graph *pure[2];    /* start and step of a user's method, as first traced; NULL: none */
    bool penalizes;       /* the upper loss is also differentiated */
    bool adds_up;         /* the product is a sum over micro-batches of the one loss or the other */
    bt_micro_set upper;   /* micro-batches of the upper loss, if the method asks for it; else count 0 */
    /* By variant: the shape of the only micro-batch of its own, times that of the upper problem's. */
    bt_round start[BT_SHAPE_PAIRS], step[BT_SHAPE_PAIRS];
    int product[BT_SHAPE_PAIRS];            /* entries, if it does not add up */
    bt_micro_part products, upper_products; /* if it does: of the lower loss, of the upper one */
} bt_implicit;

typedef struct bt_builder { /* while a program is traced */
    bt_solve_site *site;
    bt_solve *solve;
    bt_implicit *own; /* the solve's state */
    bt_problem *upper, *lower;
    const bt_micro *micro, *upper_micro; /* the present ones */
    bt_trace trace;
    bt_tracing tracing;
    bt_graph *graph;
    bt_rule rule;
    bt_round *round;      /* the callback's entries */
    int64_t asked;        /* number of its asks so far */
    bool reads_batch;     /* the rule has asked for something that reads the only micro-batch */
    bool reads_iteration; /* the rule has asked for the number of the step */
    int loop;
} bt_builder;

/* ---- rule.c: a method's callbacks, traced ---- */

bool bt_builder_begin(bt_builder *builder);
bt_graph *bt_builder_end(bt_builder *builder, const char *part); /* its graph; NULL after an error */
bt_status bt_method_slots_open(bt_builder *builder);
bt_var *bt_method_slot(const bt_builder *builder, int k);   /* slots, then stacks: by their number in the rule */
bt_graph *bt_method_start(bt_builder *builder, bool *same); /* the first x; NULL after an error; *same: x is v */
bt_graph *bt_method_step(bt_builder *builder);              /* the next x; NULL after an error */

/* ---- round.c: a callback split into entries ---- */

bt_tensor *bt_round_ask(bt_builder *builder, bt_ask_kind kind, bt_tensor *given); /* while it is traced: the sum */
void bt_round_assign(bt_builder *builder);                                        /* at its end */
/* Builds the entries of the callback traced last, to run many times or (loop 0) once. */
bt_status bt_round_build(bt_builder *builder, bt_graph *graph, int loop, const char *part);
bt_status bt_round_run(bt_solve_site *site, bt_solve *solve, const bt_round *round);
void bt_round_free(bt_round *round);
int bt_micro_loop(const bt_phase *phase); /* the number for a loop over micro-batches that begins with the next entry */

/* ---- calls.c ---- */

extern const bt_rule_calls bt_method_calls;                                       /* their context: a bt_builder */
bt_tensor *bt_ask_trace(bt_builder *builder, bt_ask_kind kind, bt_tensor *given); /* on the present micro-batch */
bt_loss bt_builder_lower(const bt_builder *builder);
bt_loss bt_builder_upper(const bt_builder *builder);
/* The x of the last upper step, which `upper` keeps; NULL: out of memory. */
bt_var *bt_solution_var(bt_problem *upper, const bt_problem *lower);
bool bt_starts_warm(const bt_problem *lower);
double bt_penalty_of(const bt_problem *lower); /* 0: none */

#endif
