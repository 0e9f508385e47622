/* engine/solve/trajectory.h: what the steps of a problem began from: for a solver that goes back through them.
 *
 * A record of a step is the run variables that the step reads and that may be others by the time an upper problem goes
 * back, the position of its batches, and its place in time among the steps of all problems. Steps have the numbers that
 * the problem counts them by; so many are recorded as lie between two steps of any problem above. The problem's own
 * state (parameters, buffers, optimiser state) may be kept at every n-th step of an inner loop only; what lies between
 * is then computed again; or a number of states by Revolve's schedule (plan/revolve.h), whose places serve again on the
 * way back. Programs that were traced on the state as it is now are bound to the variables of a record:
 * bt_trajectory_rebind. */
#ifndef BT_TRAJECTORY_H
#define BT_TRAJECTORY_H

#include "engine/solve/solve.h"

typedef struct bt_track { /* one variable over the steps */
    bt_var *source;       /* the root that is recorded */
    bt_var *store;        /* run: [rows, ...source] */
    bt_var *at, *next;    /* external: that variable in the record looked at, and in the one after it */
    bool own;             /* it changes by the problem's own steps alone: kept at every n-th of them */
    bool late;            /* it has its value once the gradient is there: recorded before the update */
} bt_track;

typedef struct bt_trajectory {
    bt_problem *problem;
    bt_track *tracks;
    int64_t track_count, track_capacity;
    int64_t reach; /* the most steps that a hypergradient goes back; 0: all since the upper problem's last */
    int64_t all;   /* the most steps that lie between two of a problem above, in whole inner loops: */
    bool aligned;
    int64_t room;        /* steps that are recorded */
    int64_t spacing;     /* own state is kept at every n-th step of a loop, n this */
    bool automatic;      /* the spacing is as wide as a budget needs it */
    int64_t states;      /* by Revolve's schedule: so many of a loop, of which the first lasts; 0: by `spacing` alone */
    int64_t loops, each; /* inner loops in the room; states kept of each; for those between rows follow: `spacing` - 1,
                          * or with `states` all but one for each loop, and two that are at work */
    bt_var *index;       /* I64, the host's: the first step there is; of each in `room` its tick and positions; with
                          * `states` the steps whose states lie in the rows between, -1: none */
    bt_var *applied;     /* I64 [room, 2]: the optimiser's count of updates before each step and after it */
    bt_var *before; /* external, I64 []: these two of the step looked at: they differ by 1 where it was made, are */
    bt_var *after;  /* the same where it was left out */
} bt_trajectory;

enum { BT_SPACING_ROOT = 0, BT_SPACING_AUTO = -1 };
/* Once. reach: as above; spacing: likewise, ROOT: of the steps of an inner loop, AUTO: problem->spacing; states: not 0:
 * in its place. */
bt_status bt_trajectory_open(bt_problem *problem, int64_t reach, int64_t spacing, int64_t states);
void bt_trajectory_free(bt_trajectory *trajectory);
/* The least wider spacing that takes `less` bytes fewer; where there is none, the one that takes fewest; the present
 * one: no other takes fewer. *saved: how many fewer. */
int64_t bt_trajectory_wider(const bt_trajectory *trajectory, size_t less, size_t *saved);

bt_status bt_trajectory_record(bt_trajectory *trajectory); /* before a step, its batches not drawn yet */
/* before its update, with the gradient where that entry of the phase reads it */
bt_status bt_trajectory_record_gradient(bt_trajectory *trajectory, bt_phase *phase, int entry);
bt_status bt_trajectory_record_update(bt_trajectory *trajectory); /* after that */

/* The first step that a hypergradient reaches which goes back to the tick `since`; all from there on to the last. */
int64_t bt_trajectory_first(const bt_trajectory *trajectory, int64_t since);
int64_t bt_trajectory_tick(const bt_trajectory *trajectory, int64_t step);
int64_t bt_trajectory_position(const bt_trajectory *trajectory, int64_t step);
int64_t bt_trajectory_task(const bt_trajectory *trajectory, int64_t step); /* batch_of: likewise, of that problem's */
bool bt_trajectory_begins(const bt_trajectory *trajectory, int64_t step);  /* it is the first of an inner loop */
int64_t bt_trajectory_kept(const bt_trajectory *trajectory, int64_t step); /* the last with own state, not after it */
/* With `states`: the last whose state is there, not after it; where the next one is to be kept on the way to `step`,
 * which is what is asked for; and a row for the state of the one after `from`, on the way to `to`. */
int64_t bt_trajectory_nearest(const bt_trajectory *trajectory, int64_t step);
int64_t bt_trajectory_next(const bt_trajectory *trajectory, int64_t from, int64_t step);
void bt_trajectory_make_room(bt_trajectory *trajectory, int64_t from, int64_t to, int64_t step);
bt_status bt_trajectory_look(const bt_trajectory *trajectory, int64_t step); /* all externals but a kept `next` */
bt_status bt_trajectory_copy(const bt_trajectory *trajectory, int64_t step); /* own state of `step`, to the one after */

/* The graph, which is for the upper problem's phase, with every variable that must be kept replaced by `at` where it is
 * read, by `next` where it is assigned; from then on it is kept. buffers: takes the place of the problem's own ones;
 * NULL: nothing does. NULL after an error. */
bt_graph *bt_trajectory_rebind(bt_trajectory *trajectory, const bt_solve_site *site, const bt_graph *graph,
                               bt_var *buffers);

/* Leaf steps from one call of the problem to the next, at most; exact: always. */
int64_t bt_between_calls(const bt_problem *problem, bool *exact);

#endif
