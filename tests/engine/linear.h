/* tests/engine/linear.h: up to five levels of one number each, that read each other as a table says: the loss of level
 * i is (p_i - sum over j of reads[i][j] p_j)^2 / 2. Then H = 1 everywhere, so that darts is exact. */
#ifndef LINEAR_H
#define LINEAR_H

#include "levels.h"

enum { LINEAR_LEVELS = 5 };
#define LINEAR_NAMES "t", "a", "b", "c", "d" /* t is the one to differentiate for */

typedef double linear_reads[LINEAR_LEVELS][LINEAR_LEVELS];

extern const bt_export linear_parts; /* bt_user is a linear_reads */

/* Called after each pass over a level's three examples, and after each validation; NULL: not. */
extern void (*linear_epoch)(bt_problem *self), (*linear_validated)(bt_problem *self);

/* dF/dt with every p_i, i > 0, where its loss is least, as far as `upper` says that j stands above i; p as given. */
double linear_derivative(double (*reads)[LINEAR_LEVELS], const bool (*upper)[LINEAR_LEVELS], const double *p);

#endif
