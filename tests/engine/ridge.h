/* tests/engine/ridge.h: two levels with real data and a dependence of every kind, and the same in plain C.
 *
 *   lower  C(w) = mean over the batch of s (x w - y)^2 / 2 + e |w|^2 / 2,  s = sigmoid(lambda0), e = exp(lambda1)
 *   upper  F    = mean over its batch of (x w - y)^2 / 2 + 0.05 |lambda|^2 */
#ifndef RIDGE_H
#define RIDGE_H

#include "levels.h"

enum { RIDGE_ROWS = 10, RIDGE_UPPER_ROWS = 7 };

typedef struct ridge {
    double x[RIDGE_ROWS * 2], y[RIDGE_ROWS];
    double upper_x[RIDGE_UPPER_ROWS * 2], upper_y[RIDGE_UPPER_ROWS];
    double w[2], lambda[2]; /* initial values */
    bool sparse;            /* the library stores the rows of x as sparse rows */
} ridge;

ridge ridge_data(void);
extern const bt_export ridge_parts;                         /* upper, lower; bt_user is a ridge */
bt_engine *ridge_engine(ridge *data, const char *settings); /* dependencies in both directions, no shuffling */

void ridge_fill(bt_engine *engine, ridge *data, const char *settings); /* for a new engine */

/* ---- the same in plain C ---- */

typedef struct rows { /* a batch */
    int from, count;
} rows;
rows rows_next(int total, int batch, int *drawn); /* in order, epoch after epoch; the last batch of each may be short */

/* Means over all rows of the `n` batches. */
void plain_lower(const ridge *data, const rows *batches, int n, const double *w, const double *lambda,
                 double *gradient);
void plain_upper(const ridge *data, const rows *batches, int n, const double *w, const double *lambda, double *v,
                 double *direct);

typedef struct plain_method {
    enum { PLAIN_DARTS, PLAIN_NEUMANN, PLAIN_CG } kind;
    int iterations;
    double alpha;
} plain_method;
void plain_hypergradient(const ridge *data, const rows *lower, int lowers, const rows *upper, int uppers,
                         const double *w, const double *lambda, plain_method method, double *result);

#endif
