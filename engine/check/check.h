/* engine/check/check.h: betty-run --check-hypergradient: shared by its files.
 *
 *   check.c      the state, rerunning the inner problem, the samples
 *   slope.c      slopes from differences, and why one disagrees
 *   parts.c      parts that must be exact: the upper gradient and the products, each against differences
 *   reference.c  parts that may be approximate: x of each lower level against a solution of the same equation
 *   unseen.c     effects in the last lower steps that the equation lacks: callbacks, clipping; a kink
 *   report.c     the verdict, and how it is printed */
#ifndef BT_CHECK_H
#define BT_CHECK_H

#include "engine/level/keep.h"
#include "engine/output/json.h"
#include "engine/schedule/schedule.h"
#include "engine/solve/implicit.h"

/* ---- slope.c ---- */

/* A function of the step along a direction. */
typedef bt_status bt_line_fn(void *user, double step, double *value);

/* Ordered from the least to the most telling. */
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
    double enough;   /* an error that still counts as agreement */
    bt_dtype dtype;  /* that the values are computed in */
} bt_claim;

/* Why the slope is not the declared one. If a kink or noise interferes, smaller steps are tried, and the decisive ones
 * replace *slope. BT_CAUSE_RULE: differences agree with each other, but not with the declared slope. BT_CAUSE_NONE: a
 * smaller step agrees, or the disagreement is negligible noise. */
bt_status bt_line_explain(bt_line_fn *line, void *user, const bt_claim *claim, bt_line_slope *slope, bt_cause *cause);

/* ---- check.c ---- */

typedef struct bt_trial bt_trial;

typedef enum bt_part_kind {
    BT_PART_UPPER,  /* the gradient of the upper loss, with respect to `moved` */
    BT_PART_CROSS,  /* the product of `solve` that `moved` receives */
    BT_PART_HESSIAN /* the product of `solve` that its method repeats */
} bt_part_kind;

typedef struct bt_part {
    bt_part_kind kind;
    int solve;         /* index in the upper problem's list; BT_PART_UPPER: -1 */
    bt_problem *moved; /* the derivative is with respect to its parameters */
    double *declared;  /* what the library computes, laid out like the parameters of `moved` */
    double error;      /* relative error over some directions */
    bt_cause cause;    /* BT_CAUSE_NONE: it agrees */
} bt_part;

typedef struct bt_lower { /* one solve; vectors like the lower problem's parameters */
    bt_problem *problem;
    int64_t count;
    double *adjoint, *x;    /* the method's input and result */
    double *solution;       /* of H x = adjoint; NULL: the level is too large */
    double *field;          /* space for the lower gradient */
    double cosine, ratio;   /* between x and the solution */
    double residual;        /* relative residual of the solution */
    bool unrolls;           /* its method differentiates through the steps, without an x */
    bool iterates;          /* its method multiplies by H */
    bool finite;            /* its product is a finite difference */
    double gradient_length; /* of the lower loss or its condition, at the end of the inner loop */
    unsigned acting;        /* bits by bt_unseen_kind: what else affects the step there */
    bool at_kink;           /* the steps jump back and forth over a kink of the lower loss */
} bt_lower;

/* Compares the hypergradient of an upper level with differences of the retrained loss, along `samples` coordinates (0:
 * a sensible number). `take` receives the result and copies what it needs. */
typedef bt_status bt_check_take_fn(void *user, const bt_trial *trial);
bt_status bt_check_level(bt_problem *upper, int64_t samples, bt_check_take_fn *take, void *user);

struct bt_trial {
    bt_context *context;
    bt_problem *upper;
    bt_kept *start, *end; /* before the inner loop; after it, before the upper step */
    int64_t count;        /* upper parameters */
    double *hypergradient, *reference, *direction;
    double *recorded;            /* the hypergradient as its separate programs compute it */
    double finite_error;         /* its relative error due to finite-difference products; NAN: there are none */
    const bt_problem *nonfinite; /* a problem whose loss is NaN or infinite; NULL: none */
    bt_lower *lowers;
    int lower_count;
    bt_part *parts;
    int part_count, part_room;
    double scale;              /* the hypergradient's length */
    double mm, md, dd, rr, rd; /* sums over the samples: method, difference, reference */
    bool exact;                /* every method differentiates all steps exactly */
    bool adrift;               /* the inner loops of the levels below never begin together again */
    bool repeats;              /* the inner problem gives the same loss when run again */
    bool have_reference;
    bool loose;     /* a product remains a finite difference, because no exact one can replace it */
    bt_cause cause; /* why the whole hypergradient does not agree, if it should */
    json_t *rows, *result;
    bt_verdict verdict;
};

double bt_check_dot(const double *a, const double *b, int64_t count);
bt_status bt_check_gradient(const bt_problem *problem, double *to); /* bt_gradient_read */
bt_status bt_check_move(const bt_problem *problem, const double *direction, double step);
/* A direction of -1 and 1, with `coordinates` a unit vector; 0 for parameters that are not differentiated. */
void bt_check_direction(const bt_trial *c, const bt_problem *problem, uint64_t sample, bool coordinates,
                        double *direction);
bool bt_check_partial(const bt_problem *lower); /* hypergradients do not pass through everything that changes */
bool bt_check_finite(const bt_problem *lower);  /* its product is a finite difference: an approximation */
double bt_check_step(const bt_problem *problem, const double *direction); /* the step for differences along it */
bt_status bt_check_loss(bt_trial *c, double *loss); /* of the upper problem, on its next batch, at the present state */

/* ---- parts.c ---- */

bt_part *bt_check_add_part(bt_trial *c, bt_part_kind kind, int solve, bt_problem *moved); /* NULL: out of memory */
bt_status bt_check_parts(bt_trial *c);
bt_status bt_check_equation(bt_trial *c, int q); /* the lower gradient or condition at the present state, in `field` */

/* ---- reference.c ---- */

/* The first records what the method finds, level by level; the second computes the products and solutions for it.
 * Meanwhile the engine's programs are those of the reference; the present state must be `c->end`. */
bt_status bt_check_record(bt_trial *c);
bt_status bt_check_reference(bt_trial *c);

/* ---- unseen.c ---- */

/* Sets `acting` and `at_kink` of the lower levels that are assumed to be solved. */
bt_status bt_check_unseen(bt_trial *c);

/* ---- report.c ---- */

bool bt_check_close(const bt_trial *c, bool reference); /* the hypergradient, or reference, agrees with differences */

bt_status bt_check_judge(bt_trial *c); /* the verdict, and everything as JSON */
void bt_check_print(const bt_trial *c, FILE *file);

#endif
