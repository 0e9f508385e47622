/* engine/solve/implicit.h: the solver that computes x = H^-1 v by a method, in separate pieces for the check. */
#ifndef BT_IMPLICIT_H
#define BT_IMPLICIT_H

#include "engine/solve/solve.h"

bt_var *bt_implicit_x(const bt_solve *solve); /* a flat vector */
int64_t bt_implicit_iterations(const bt_solve *solve);
/* The pieces of a run, each on the lower problem's last micro-batches. */
bt_status bt_implicit_start(bt_solve_site *site, bt_solve *solve);   /* the first x from the adjoint */
bt_status bt_implicit_iterate(bt_solve_site *site, bt_solve *solve); /* the same, then all steps of the method */
bt_status bt_implicit_step(bt_solve_site *site, bt_solve *solve);    /* a single step, if the method can make one */
bt_status bt_implicit_product(bt_solve_site *site, bt_solve *solve); /* what the levels above receive from x */

#endif
