/* tests/engine/closed_forms.h: small problems with known solutions, through the public interface. R1, R3, ... number
 * the closed forms; each test states its own. */
#ifndef CLOSED_FORMS_H
#define CLOSED_FORMS_H

#include <betty/betty.h>

enum { LARGEST = 16 };

typedef struct numbers { /* the numbers of a case: the callbacks read them through bt_user */
    double w[LARGEST], lambda[LARGEST];
    int ws, lambdas;
    double x[LARGEST], y[LARGEST]; /* the lower data: rows of ws (or 1) numbers, each with a target */
    int rows, columns;
    bt_step_fn *lower, *upper;
} numbers;

extern const bt_export closed_forms;

/* An engine with the case's two problems, `upper` and `lower`, in double precision, with the lines of `settings`
 * ("lower.type = cg\nlower.cg_iterations = 2\n"). NULL after a failure. */
bt_engine *closed_form_engine(numbers *n, const char *settings);

/* The hypergradient of the upper problem into result[lambdas]. */
bt_status closed_form_hypergradient(numbers *n, const char *settings, double *result);

#endif
