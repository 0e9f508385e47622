/* engine/solve/solve.h: from the adjoint of a lower problem to what the levels above it receive from it. */
#ifndef BT_SOLVE_H
#define BT_SOLVE_H

#include "engine/traced/traced.h"

typedef struct bt_vector { /* like bt_params: dense, in order of declaration */
    bt_var *flat, **windows;
    int64_t count;
} bt_vector;
bt_vector bt_vector_new(bt_phase *phase, bt_problem *problem, const char *name, bool clear); /* flat NULL: failed */
/* Like slot k of its optimiser, whose windows share one floating dtype; cleared. A parameter without a slot has no
 * window here. */
bt_vector bt_vector_of_slot(bt_phase *phase, bt_problem *problem, int k);

typedef struct bt_trouble { /* of the method of one lower problem */
    bt_var *count;          /* I64 []: steps in which it reported failure; NULL: it cannot report it */
    const char *means;
    bool told; /* the warning was printed */
} bt_trouble;

typedef struct bt_solve { /* one lower problem, within an upper problem's phase */
    bt_problem *problem;
    bt_vector adjoint;
    bool reached;        /* its adjoint is not 0 by construction; final once the solves before it are built */
    bt_micro_set micros; /* the micro-batches of its loss */
    const struct bt_solver_def *solver;
    void *state; /* of the solver */
} bt_solve;

/* The place of solves: the phase of an upper problem's step. */
typedef struct bt_solve_site {
    bt_problem *upper;
    bt_phase *phase;
    bool reached;     /* a product reaches one of its parameters */
    bool holds;       /* something is held across a loop: bt_holding */
    bt_solve *solves; /* in the order in which they run */
    int solve_count;
} bt_solve_site;

/* How a lower problem is solved. Functions that depend only on its settings take the problem. */
typedef struct bt_solver_def {
    bool together;                        /* solves of this kind that follow one another run as one */
    bool (*needs)(const bt_solve *solve); /* it yields something even if the adjoint is 0; NULL: always */
    bt_status (*open)(bt_solve_site *site, bt_solve *solve);            /* creates its state, and what it reads */
    bt_status (*build)(bt_solve_site *site, bt_solve *solve);           /* adds its entries */
    bt_status (*run)(bt_solve_site *site, bt_solve *solves, int count); /* count: 1, or more if they run together */
    bt_status (*check_purity)(bt_solve_site *site, bt_solve *solve);    /* of user callbacks; NULL: there are none */
    bool (*ready)(const bt_problem *upper, const bt_problem *lower); /* it has steps to differentiate; NULL: always */
    void (*free)(bt_solve *solve);                                   /* frees its state, which may be incomplete */

    /* If the solver computes an x, and then a product with it; NULL: it does not. */
    bt_status (*iterate)(bt_solve_site *site, bt_solve *solve); /* x from the adjoint */
    bt_var *(*x)(const bt_solve *solve);                        /* a flat vector */

    /* A run that is only a product with the adjoint may be joined with the gradient. All NULL: no run is. */
    bool (*is_product)(const bt_solve *solve);
    bt_graph *(*product)(bt_solve_site *site, bt_solve *solve, int variant); /* traced; NULL after an error */
    int (*bind)(const bt_solve_site *site, const bt_solve *solve); /* binds the batches; returns the variant or -1 */

    void (*describe)(const bt_problem *lower, const char *product, bt_text *text); /* x in the equation */
    bool (*multiplies)(const bt_problem *lower);               /* it computes products; NULL: always */
    void (*leave_out)(const bt_problem *lower, bt_text *text); /* adds what x leaves out; NULL: x is a whole solution */
} bt_solver_def;

extern const bt_solver_def bt_solver_implicit, bt_solver_unrolled;

/* ---- solve.c ---- */

const bt_solver_def *bt_solver_of(const bt_problem *lower);     /* by its method */
bt_status bt_solves_run(bt_solve_site *site, int from, int to); /* in their order */
void bt_solve_free(bt_solve *solve);
/* Whether its adjoint is 0 by construction, and so are its results: it is neither built nor run. */
bool bt_solve_rests(const bt_solve_site *site, const bt_solve *solve);
bt_tensor *bt_shared(bt_graph *graph, const bt_micro_set *set, bt_tensor *value); /* times the micro-batch's share */

/* ---- calls.c ---- */

/* Frees what the methods of the upper problem keep from step to step, except for the solves of this site (NULL: none).
 * The state of a run belongs to the dependencies in force, the only ones that a resumed run knows. */
void bt_solve_forget(bt_problem *upper, const bt_solve_site *site);

/* ---- targets.c ---- */

/* The problems whose parameters this solve's loss may read: the upper problem itself, and the lower problems not solved
 * yet. vectors: the upper problem's gradient, and the others' adjoints. Both need room for all problems. Returns how
 * many. */
int bt_solve_targets(bt_solve_site *site, const bt_solve *solve, bt_problem **others, bt_vector *vectors);
void bt_solve_mark(bt_solve_site *site, const bt_problem *other, int64_t parameter); /* a product reaches it */
/* An error if an update uses the upper parameters directly, which an implicit method cannot see. */
bt_status bt_check_direct(bt_solve_site *site, const bt_solve *solve);

/* ---- unseen.c: what the steps of a level do that an implicit method does not see ---- */

typedef enum bt_unseen_kind {
    BT_UNSEEN_PARAM, /* param_callback */
    BT_UNSEEN_GRAD,  /* grad_callback */
    BT_UNSEEN_NORM,  /* clipping */
    BT_UNSEEN_VALUE,
    BT_UNSEEN_DECAY, /* weight decay of the optimiser */
    BT_UNSEEN_COUNT
} bt_unseen_kind;
unsigned
bt_unseen(const bt_problem *lower); /* bits by kind; 0 if the level has a condition, or its method sees everything */
void bt_unseen_list(unsigned which, bool notes, bt_text *text); /* "param_callback, ..." */
void bt_unseen_warn(bt_problem *lower);                         /* once for each level */
extern const char bt_unseen_cure[];                             /* what to do, for messages */

/* ---- equation.c ---- */

void bt_print_equation(bt_context *context, bt_text *text);

#endif
