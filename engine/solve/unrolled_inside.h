/* engine/solve/unrolled_inside.h: an unrolled solve and its graphs; shared by unrolled.c and unrolled_trace.c. */
#ifndef BT_UNROLLED_INSIDE_H
#define BT_UNROLLED_INSIDE_H

#include "engine/solve/solve.h"

typedef struct bt_unrolled {       /* bt_solve.state */
    bt_vector slots[BT_MAX_ITEMS]; /* adjoints of the optimiser's slots */
    /* Entries, by the shape of the only micro-batch; if there are several, what they add is in separate entries. */
    int reverse[BT_MAX_SHAPES]; /* back through one step */
    int replay[BT_MAX_SHAPES];  /* recomputes the step; -1: the state before every step is kept */
    bt_vector gradient, x;      /* if several: the gradient of the step; its adjoint, for products */
    bt_var *buffers;            /* if several: passed from one micro-batch to the next; NULL: none */
    int clear;                  /* sets the gradient to 0; -1: one micro-batch, or the gradient was recorded */
    bt_micro_part gradients, products;
    int start;           /* back through `start`; -1: there is none */
    int64_t next, first; /* steps: the next and the last one to go back through */
    int64_t replayed;    /* the kept step from which the following steps were recomputed; -1: none */
} bt_unrolled;

int64_t bt_unrolled_setting(const bt_problem *lower, const char *name); /* a hyperparameter of bt_method_itd */
bool bt_unrolled_multiplies(const bt_problem *lower);                   /* with second derivatives */
bool bt_unrolled_adds_up(const bt_solve *solve);                        /* over several micro-batches */

/* ---- unrolled_trace.c ---- */

typedef enum bt_unrolled_part {
    BT_UNROLLED_CLEAR,    /* sets the step's gradient to 0, and the buffers to their values before the step */
    BT_UNROLLED_GRADIENT, /* a micro-batch adds to it */
    BT_UNROLLED_FORWARD,  /* recomputes the step */
    BT_UNROLLED_BACK,     /* back through the step; with the product, if there is one micro-batch */
    BT_UNROLLED_PRODUCT,  /* a micro-batch adds its product */
    BT_UNROLLED_START,    /* back through `start` */
    BT_UNROLLED_PARTS
} bt_unrolled_part;

/* For one micro-batch of that shape, and the variables of a record. NULL after an error. */
bt_graph *bt_unrolled_trace(bt_solve_site *site, bt_solve *solve, bt_unrolled_part part, int shape);
extern const char *const bt_unrolled_names[BT_UNROLLED_PARTS]; /* for the plan */

#endif
