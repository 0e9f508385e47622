/* engine/solve/unrolled_inside.h: an unrolled solve, and its graphs: what unrolled.c and unrolled_trace.c share. */
#ifndef BT_UNROLLED_INSIDE_H
#define BT_UNROLLED_INSIDE_H

#include "engine/solve/solve.h"

typedef struct bt_unrolled {       /* bt_solve.state */
    bt_vector slots[BT_MAX_ITEMS]; /* adjoints of the optimiser's slots */
    /* Entries, by shape of the only micro-batch; where there are several, what they add is in entries of their own. */
    int reverse[BT_MAX_SHAPES]; /* back through one step */
    int replay[BT_MAX_SHAPES];  /* the step once more; -1: the state before every step is kept */
    bt_vector gradient, x;      /* of several: the gradient of the step; its adjoint, which is multiplied */
    bt_var *buffers;            /* then: as a micro-batch leaves them to the next; NULL: there are none */
    int clear;                  /* the gradient is 0; -1: one micro-batch, or a gradient that was recorded */
    bt_micro_part gradients, products;
    int start;           /* back through `start`; -1: there is none */
    int64_t next, first; /* steps: to go back through next, and at last */
    int64_t replayed;    /* the kept step from which the following ones have been computed; -1: none */
} bt_unrolled;

int64_t bt_unrolled_setting(const bt_problem *lower,
                            const char *name);        /* of a hyperparameter, as bt_method_itd has it */
bool bt_unrolled_multiplies(const bt_problem *lower); /* with second derivatives */
bool bt_unrolled_adds_up(const bt_solve *solve);      /* over several micro-batches */

/* ---- unrolled_trace.c ---- */

typedef enum bt_unrolled_part {
    BT_UNROLLED_CLEAR,    /* the gradient of the step is 0, the buffers are as before it */
    BT_UNROLLED_GRADIENT, /* a micro-batch adds to it */
    BT_UNROLLED_FORWARD,  /* the step once more */
    BT_UNROLLED_BACK,     /* back through it; with the product of the only micro-batch */
    BT_UNROLLED_PRODUCT,  /* a micro-batch adds its product */
    BT_UNROLLED_START,    /* back through `start` */
    BT_UNROLLED_PARTS
} bt_unrolled_part;

/* On one micro-batch of that shape, and on the variables of a record. NULL after an error. */
bt_graph *bt_unrolled_trace(bt_solve_site *site, bt_solve *solve, bt_unrolled_part part, int shape);
extern const char *const bt_unrolled_names[BT_UNROLLED_PARTS]; /* for the plan */

#endif
