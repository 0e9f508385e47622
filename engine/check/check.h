/* engine/check/check.h: betty-run --check-hypergradient, between its files.
 *
 *   check.c      the state, the inner problem run again, the samples
 *   slope.c      slopes from differences, and why one disagrees
 *   parts.c      what must be exact: the upper gradient, the products, each against differences
 *   reference.c  what may be approximate: x of each lower level against a solution of the same equation
 *   unseen.c     what of the lower steps, at their end, is not in that equation: callbacks, clipping; a kink
 *   report.c     the verdict, and how it is printed */
#ifndef BT_CHECK_H
#define BT_CHECK_H

#include "engine/level/keep.h"
#include "engine/output/json.h"
#include "engine/schedule/schedule.h"
#include "engine/solve/implicit.h"

/* ---- slope.c ---- */

/* A function of a step along a direction, and the size of the terms that it is summed from. */
typedef bt_status bt_line_fn(void *user, double step, double *value);

/* Ordered from what says least to what says most. */
typedef enum bt_cause { BT_CAUSE_NONE, BT_CAUSE_NOISE, BT_CAUSE_KINK, BT_CAUSE_RULE } bt_cause;

typedef struct bt_line_slope {
    double step;        /* h */
    double at[4];       /* at -h, -h/2, h/2, h */
    double whole, half; /* central differences over h and h/2 */
    double value;       /* extrapolated from both */
} bt_line_slope;

bt_status bt_line_measure(bt_line_fn *line, void *user, double step, bt_line_slope *slope);
typedef struct bt_claim {
    double declared; /* what the slope should be */
    double enough;   /* an error that counts as agreement */
    bt_dtype dtype;  /* of what the values are computed in */
} bt_claim;

/* Why the slope is not the declared one; if a kink or noise is in the way, smaller steps are tried, and those that
 * decide replace *slope. BT_CAUSE_RULE: differences agree among themselves, but not with it. BT_CAUSE_NONE: it agrees
 * with a smaller step, or up to noise so small that it decides nothing. */
bt_status bt_line_explain(bt_line_fn *line, void *user, const bt_claim *claim, bt_line_slope *slope, bt_cause *cause);

/* ---- check.c ---- */

typedef struct bt_trial bt_trial;

typedef enum bt_part_kind {
    BT_PART_UPPER,  /* the gradient of the upper loss, with respect to `moved` */
    BT_PART_CROSS,  /* the product of `solve` that `moved` gets */
    BT_PART_HESSIAN /* the product of `solve` that its method iterates with */
} bt_part_kind;

typedef struct bt_part {
    bt_part_kind kind;
    int solve;         /* in the upper problem's list; of BT_PART_UPPER: -1 */
    bt_problem *moved; /* whose parameters it is a derivative with respect to */
    double *declared;  /* what the library says, like the parameters of `moved` */
    double error;      /* relative, over some directions */
    bt_cause cause;    /* BT_CAUSE_NONE: it agrees */
} bt_part;

typedef struct bt_lower { /* one solve; vectors like the lower problem's parameters */
    bt_problem *problem;
    int64_t count;
    double *adjoint, *x;    /* what the method was given, and its result */
    double *solution;       /* of H x = adjoint; NULL: the level is too large */
    double *field;          /* room for the lower gradient */
    double cosine, ratio;   /* of x to the solution */
    double residual;        /* of the solution, relative */
    bool unrolls;           /* its method has no x, but differentiates through the steps */
    bool iterates;          /* its method multiplies by H */
    bool finite;            /* its product is a difference */
    double gradient_length; /* of the lower loss, or its condition, where the inner loop ends */
    unsigned acting;        /* bits by bt_unseen_kind: what changes the gradient's step there */
    bool at_kink;           /* the steps jump back and forth over a kink of the lower loss */
} bt_lower;

/* Compares the hypergradient of an upper level with differences of the retrained loss, along `samples` coordinates (0:
 * a sensible number). `take` receives the result, and copies what it needs. */
typedef bt_status bt_check_take_fn(void *user, const bt_trial *trial);
bt_status bt_check_level(bt_problem *upper, int64_t samples, bt_check_take_fn *take, void *user);

struct bt_trial {
    bt_context *context;
    bt_problem *upper;
    bt_kept *start, *end; /* before the inner loop; after it, before the upper step */
    int64_t count;        /* upper parameters */
    double *hypergradient, *reference, *direction;
    double *recorded;            /* the hypergradient as its separate programs compute it */
    double finite_error;         /* its relative error from products that are differences; NAN: there are none */
    const bt_problem *nonfinite; /* whose loss is not a number, or infinite; NULL: none */
    bt_lower *lowers;
    int lower_count;
    bt_part *parts;
    int part_count, part_room;
    double scale;              /* the hypergradient's length */
    double mm, md, dd, rr, rd; /* sums over the samples: method, difference, reference */
    bool exact;                /* every method differentiates all steps exactly as they were made */
    bool adrift;               /* no inner loop of all levels below begins again */
    bool repeats;              /* run again, the inner problem gives the same loss */
    bool have_reference;
    bool loose;     /* a product stays a difference, because no exact one can replace it */
    bt_cause cause; /* of the whole hypergradient, if it should agree and does not */
    json_t *rows, *result;
    bt_verdict verdict;
};

double bt_check_dot(const double *a, const double *b, int64_t count);
bt_status bt_check_gradient(const bt_problem *problem, double *to); /* bt_gradient_read */
bt_status bt_check_move(const bt_problem *problem, const double *direction, double step);
/* Of -1 and 1, with `coordinates` a unit vector; 0 where a parameter is not differentiated. */
void bt_check_direction(const bt_trial *c, const bt_problem *problem, uint64_t sample, bool coordinates,
                        double *direction);
bool bt_check_partial(const bt_problem *lower); /* hypergradients do not pass through everything that changes */
bool bt_check_finite(const bt_problem *lower);  /* its product is a difference: an approximation */
double bt_check_step(const bt_problem *problem, const double *direction); /* the step of differences along it */
bt_status bt_check_loss(bt_trial *c, double *loss); /* of the upper problem, on its next batch, in the present state */

/* ---- parts.c ---- */

bt_part *bt_check_add_part(bt_trial *c, bt_part_kind kind, int solve, bt_problem *moved); /* NULL: out of memory */
bt_status bt_check_parts(bt_trial *c);
bt_status bt_check_equation(bt_trial *c,
                            int q); /* the lower gradient, or condition, in the present state, in its `field` */

/* ---- reference.c ---- */

/* What the method finds, level by level; then, with that, the products and the solutions. Meanwhile the engine's
 * programs are those of the reference; `c->end` must be the state. */
bt_status bt_check_record(bt_trial *c);
bt_status bt_check_reference(bt_trial *c);

/* ---- unseen.c ---- */

/* Fills in `acting` and `at_kink` of the lower levels that are assumed to be solved. */
bt_status bt_check_unseen(bt_trial *c);

/* ---- report.c ---- */

bool bt_check_close(const bt_trial *c, bool reference); /* the hypergradient, or the reference, to the differences */

bt_status bt_check_judge(bt_trial *c); /* the verdict, and all as JSON */
void bt_check_print(const bt_trial *c, FILE *file);

#endif
