/* engine/solve/solve.h: from the adjoint of a lower problem to what the levels above it get of it. */
#ifndef BT_SOLVE_H
#define BT_SOLVE_H

#include "engine/traced/traced.h"

typedef struct bt_vector { /* like bt_params: dense, in order of declaration */
    bt_var *flat, **windows;
    int64_t count;
} bt_vector;
bt_vector bt_vector_new(bt_phase *phase, bt_problem *problem, const char *name, bool clear); /* flat NULL: failed */

typedef struct bt_trouble { /* of the method of one lower problem */
    bt_var *count;          /* I64 []: steps in which it said that it fails; NULL: it cannot say so */
    const char *means;
    bool told; /* a warning of it was given */
} bt_trouble;

typedef struct bt_solve { /* x of one lower problem, within an upper problem's phase */
    bt_problem *problem;
    bt_vector adjoint, x; /* v and H^-1 v; x is adjoint where the method leaves v as it is */
    bt_vector slots[BT_MAX_ITEMS];
    bt_var *stacks[BT_MAX_ITEMS];
    bt_var *iteration;    /* I64 []: which step of the method it is; NULL: nobody asks */
    bt_graph *starting;   /* x from v, until it is an entry; NULL: none */
    bool starts_on_batch; /* start reads micro-batches, and so exists once for each variant */
    bt_graph *pure[2];    /* start and step of a user's method, as first traced; NULL: none */
    bool reached;         /* its adjoint is not zero by construction */
    /* Entries, by variant: of its own micro-batches, times that of the upper problem's; -1: none. */
    int start[BT_MAX_ITEMS], once[BT_MAX_ITEMS], each[BT_MAX_ITEMS], product[BT_MAX_ITEMS];
    int64_t iterations;
    bt_micro_set micros;      /* what its loss is taken on */
    bt_micro_set upper;       /* what the upper loss is taken on, where the method asks for it; else count 0 */
    struct bt_unroll *unroll; /* type = itd; NULL: another */
} bt_solve;

/* Where solves stand: the phase of an upper problem's step. */
typedef struct bt_solve_site {
    bt_problem *upper;
    bt_phase *phase;
    bool reached;     /* a product reaches one of its parameters */
    bt_solve *solves; /* in the order in which they run */
    int solve_count;
} bt_solve_site;

/* ---- implicit.c ---- */

bt_status bt_solve_open(bt_solve_site *site, bt_solve *solve);                 /* what it reads; whether x is v */
bt_graph *bt_solve_product(bt_solve_site *site, bt_solve *solve, int variant); /* traced; NULL after an error */
bt_status bt_solve_build(bt_solve_site *site, bt_solve *solve);                /* the entries */
int bt_solve_bind(const bt_solve_site *site, const bt_solve *solve); /* last micro-batches; the variant or -1 */
bt_status bt_solve_iterate(bt_solve_site *site, bt_solve *solve, int variant); /* x from the adjoint */
bt_status bt_solve_run(bt_solve_site *site, bt_solve *solve);                  /* and the product with it */
bt_status bt_solve_check_purity(bt_solve_site *site, bt_solve *solve);         /* of a user's method */
void bt_solve_free(bt_solve *solve);

/* ---- calls.c ---- */

/* What the methods of the upper problem keep from step to step, but for those that this site has (NULL: none). The
 * state of a run is that of the dependencies in force, so that a resumed run, which knows no others, has it all. */
void bt_solve_forget(bt_problem *upper, const bt_solve_site *site);

/* ---- targets.c ---- */

/* The upper problem itself, and the lower problems not solved yet, whose parameters this one's loss may read; vectors:
 * their adjoints, of the upper problem its gradient. Room for all problems. Returns how many. */
int bt_solve_targets(bt_solve_site *site, const bt_solve *solve, bt_problem **others, bt_vector *vectors);
void bt_solve_mark(bt_solve_site *site, const bt_problem *other, int64_t parameter); /* something reaches that one */

/* ---- equation.c ---- */

void bt_print_equation(bt_context *context, bt_text *text);

#endif
