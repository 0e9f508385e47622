/* engine/solve/unrolled.h: type = itd within the solves of an upper problem's phase. */
#ifndef BT_ITD_H
#define BT_ITD_H

#include "engine/solve/solve.h"

typedef struct bt_unroll {
    bt_vector slots[BT_MAX_ITEMS]; /* adjoints of the optimiser's slots */
    int reverse[BT_MAX_ITEMS];     /* entries by variant: back through one step */
    int replay[BT_MAX_ITEMS];      /* the step once more; -1: the state before every step is kept */
    int start;                     /* back through `start`; -1: there is none */
    int64_t next, first;           /* steps: to go back through next, and at last */
    int64_t replayed;              /* the kept step from which the following ones have been computed; -1: none */
} bt_unroll;

bool bt_unrolls(const bt_problem *lower); /* its type is itd */
bt_status bt_unroll_open(bt_solve_site *site, bt_solve *solve);
bt_status bt_unroll_build(bt_solve_site *site, bt_solve *solve);
/* Neighbours in the order of solves that all unroll: back through their steps in the reverse order of time. */
bt_status bt_unroll_run(bt_solve_site *site, bt_solve *solves, int count);
void bt_unroll_free(bt_unroll *unroll);

/* An implicit method cannot see that an update uses the upper parameters directly: an error that says so. */
bt_status bt_check_direct(bt_solve_site *site, const bt_solve *solve);

#endif
