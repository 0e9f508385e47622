/* engine/solve/implicit_inside.h: an implicit solve, and how its programs are traced: what implicit.c, rule.c and
 * calls.c share. */
#ifndef BT_IMPLICIT_INSIDE_H
#define BT_IMPLICIT_INSIDE_H

#include "engine/solve/implicit.h"
#include "optim/rule.h"

typedef enum bt_ask_kind { BT_ASK_HVP, BT_ASK_LOWER, BT_ASK_UPPER } bt_ask_kind;

/* What a method's callback asks of several micro-batches: an entry runs once for each and adds up. The callback is
 * divided there: its argument is saved before, and the sum is read after. */
typedef struct bt_ask {
    bt_ask_kind kind;
    bt_var *given, *sum;     /* vectors; given NULL: nothing is given */
    bt_tensor *value, *zero; /* while it is traced: what they begin with */
    int before;              /* entry: up to here */
    bt_micro_part each;      /* entries: what a micro-batch adds */
} bt_ask;

typedef struct bt_round { /* a callback of a method as entries */
    bt_ask *asks;
    int64_t ask_count, ask_capacity;
    int once, last; /* entries; -1: none */
} bt_round;

enum { BT_SHAPE_PAIRS = BT_MAX_SHAPES * BT_MAX_SHAPES };

typedef struct bt_implicit { /* bt_solve.state */
    bt_vector x;             /* H^-1 v; the adjoint itself where the method leaves v as it is */
    bt_vector slots[BT_MAX_ITEMS];
    bt_var *stacks[BT_MAX_ITEMS];
    int64_t iterations;
    bt_var *iteration;    /* I64 []: which step of the method it is; NULL: nobody asks */
    bt_graph *starting;   /* x from v, until it is an entry; NULL: none */
    bool starts_on_batch; /* start reads the only micro-batch, and so exists once for each variant */
    bt_graph *pure[2];    /* start and step of a user's method, as first traced; NULL: none */
    bool penalizes;       /* the upper loss is part of what is differentiated */
    bool adds_up;         /* the product adds up over micro-batches of the one loss or the other */
    bt_micro_set upper;   /* what the upper loss is taken on, where the method asks for it; else count 0 */
    /* By variant: shapes of the only micro-batch of its own, times those of the upper problem's. */
    bt_round start[BT_SHAPE_PAIRS], step[BT_SHAPE_PAIRS];
    int product[BT_SHAPE_PAIRS];            /* entries, where it does not add up */
    bt_micro_part products, upper_products; /* where it does: of the lower loss, of the upper one */
} bt_implicit;

typedef struct bt_builder { /* while a program is traced */
    bt_solve_site *site;
    bt_solve *solve;
    bt_implicit *own; /* the solve's state */
    bt_problem *upper, *lower;
    const bt_micro *micro, *upper_micro; /* in hand */
    bt_trace trace;
    bt_tracing tracing;
    bt_graph *graph;
    bt_rule rule;
    bt_round *round;      /* that the callback is to become */
    int64_t asked;        /* of its asks */
    bool reads_batch;     /* the rule has asked for something of the only micro-batch */
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

/* ---- round.c: a callback cut into entries ---- */

bt_tensor *bt_round_ask(bt_builder *builder, bt_ask_kind kind, bt_tensor *given); /* while it is traced: the sum */
void bt_round_assign(bt_builder *builder);                                        /* at its end */
/* The entries of the callback that has been traced last, to run many times or (loop 0) once. */
bt_status bt_round_build(bt_builder *builder, bt_graph *graph, int loop, const char *part);
bt_status bt_round_run(bt_solve_site *site, bt_solve *solve, const bt_round *round);
void bt_round_free(bt_round *round);
int bt_micro_loop(const bt_phase *phase); /* the number of a loop over micro-batches that begins with the next entry */

/* ---- calls.c ---- */

extern const bt_rule_calls bt_method_calls;                                       /* their context: a bt_builder */
bt_tensor *bt_ask_trace(bt_builder *builder, bt_ask_kind kind, bt_tensor *given); /* on the micro-batch in hand */
bt_loss bt_builder_lower(const bt_builder *builder);
bt_loss bt_builder_upper(const bt_builder *builder);
/* The x of the last upper step, which `upper` keeps; NULL: out of memory. */
bt_var *bt_solution_var(bt_problem *upper, const bt_problem *lower);
bool bt_starts_warm(const bt_problem *lower);
double bt_penalty_of(const bt_problem *lower); /* 0: none */

#endif
