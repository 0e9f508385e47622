/* tests/engine/linear.h: up to five levels with one number each, that read each other according to a table: the loss of
 * level i is (p_i - sum over j of reads[i][j] p_j)^2 / 2. H = 1 everywhere, so darts is exact. */
#ifndef LINEAR_H
#define LINEAR_H

#include "levels.h"

enum { LINEAR_LEVELS = 5 };
#define LINEAR_NAMES "t", "a", "b", "c", "d" /* t: its hypergradient is the one to compute */

typedef double linear_reads[LINEAR_LEVELS][LINEAR_LEVELS];

extern const bt_export linear_parts; /* bt_user is a linear_reads */

/* Called after each pass over a level's three examples, and after each validation; NULL: nothing is called. */
extern void (*linear_epoch)(bt_problem *self), (*linear_validated)(bt_problem *self);

/* dF/dt with every p_i, i > 0, at the minimum of its loss; only pairs where `upper` has j above i count. p is as
 * given. */
double linear_derivative(double (*reads)[LINEAR_LEVELS], const bool (*upper)[LINEAR_LEVELS], const double *p);

#endif
