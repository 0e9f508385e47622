/* tests/engine/dense.h: hierarchies of small tanh nets in plain C: losses, gradients, full matrices of second
 * derivatives, hypergradients by dense algebra, optimisers. It uses nothing of the library.
 *
 * Level Q has a net y_Q(x) = out . tanh(x W + b), N parameters in the order W, b, out. It reads levels R above it
 * (`reads`), and its loss is
 *
 *   C_Q = mean over the rows of sqrt(1 + r^2) - 1 + RIDGE / 2 |theta_Q - centre_Q|^2,
 *   r = y_Q + (1 + y_Q / 2) sum over R of share(Q, R) y_R - target_Q
 *
 * Derivatives of gradients use an imaginary step (Squire and Trapp, 1998), so they are as accurate as the gradients,
 * which are written out: no differences are taken, so nothing cancels. */
#ifndef DENSE_H
#define DENSE_H

#include <complex.h>
#include <stdbool.h>

enum { LEVELS = 4, INPUTS = 2, HIDDEN = 4, ROWS = 5, N = INPUTS * HIDDEN + 2 * HIDDEN };
#define RIDGE 0.6 /* so that every H is positive definite */

typedef double complex complex_number;

typedef enum optimizer_kind { SGD, MOMENTUM, ADAM, OPTIMIZERS } optimizer_kind;
#define LR         0.05
#define MOMENTUM_  0.9
#define DAMPENING_ 0.3

enum { STEPS = 12 }; /* kept for each level */

typedef struct dense_record { /* one update: its starting point, and its gradient */
    double theta[LEVELS][N], m[N], v[N], g[N];
    int steps, tick; /* updates of the level, including this one; updates of all levels before it */
} dense_record;

typedef struct dense {
    int levels;
    bool reads[LEVELS][LEVELS]; /* [Q][R]: the loss of Q reads R: a level above, or below if Q is an upper problem */
    const char *method[LEVELS];
    optimizer_kind optimizer;
    double theta[LEVELS][N];
    double m[LEVELS][N], v[LEVELS][N], slope[LEVELS][N]; /* slots; d (update) / d (gradient) of the last update */
    int steps[LEVELS];                                   /* updates so far */
    int tick, since[LEVELS];                             /* updates of all levels; of these, those since the level's
                                                          * last one */
    dense_record kept[LEVELS][STEPS];
} dense;

double dense_row(int row, int input);
double dense_target(int level, int row);
double dense_share(int level, int other);
double dense_centre(int level, int i);

/* Settings of the methods; the engine must use the same. */
#define NEUMANN_ALPHA 0.3
#define CG_DAMPING    0.05
#define NYSTROM_RHO   0.5
#define PENALTY       3.0
#define PENALTY_LR    0.4
#define SAMA_ALPHA    1.5
enum { ITERATIONS = 3 };

/* Parameters away from any solution, and no updates; the caller sets the fields above them. */
void dense_open(dense *d);
/* The gradient that an update of this level follows: d C_level / d theta_level, directly and through the solutions of
 * the levels below (larger numbers), by their methods. False: there is no reference for one of the methods.
 *
 * itd goes back through the updates since the level's last one, with the adjoint at the current parameters. If these
 * have been set since, they are treated as the result of the last update. */
bool dense_hypergradient(const dense *d, int level, double *result);
double dense_loss(const dense *d, int level);
bool dense_step(dense *d, int level);  /* one update of the level with that gradient */
void dense_solve(dense *d, int level); /* minimises the level's own loss with the others fixed */

#endif
