/* engine/solve/trajectory.h: the states from which the steps of a problem began, for a solver that goes back through
 * them.
 *
 * The record of a step consists of the run variables that it reads and that may have changed when an upper problem goes
 * back, the position of its batches, and its place in time among the steps of all problems. Steps have the numbers by
 * which the problem counts them. As many are recorded as lie between two steps of any problem above. The problem's own
 * state (parameters, buffers, optimiser state) may be kept only at every n-th step of an inner loop; the states in
 * between are then recomputed. Or a given number of states is kept by Revolve's schedule (plan/revolve.h), which reuses
 * their places on the way back. Programs that were traced on the present state are bound to the variables of a record
 * by bt_trajectory_rebind. */
#ifndef BT_TRAJECTORY_H
#define BT_TRAJECTORY_H

#include "engine/solve/solve.h"

typedef struct bt_track { /* one variable over the steps */
    bt_var *source;       /* the root that is recorded */
    bt_var *store;        /* run: [rows, ...source] */
    bt_var *at, *next; /* external: the variable in the selected record (bt_trajectory_look), and in the one after it */
    bool own;          /* only the problem's own steps change it: kept at every n-th of them */
    bool late;         /* it depends on the gradient: recorded just before the update */
} bt_track;

typedef struct bt_trajectory {
    bt_problem *problem;
    bt_track *tracks;
    int64_t track_count, track_capacity;
    int64_t reach;       /* the most steps that a hypergradient goes back; 0: all since the upper problem's last step */
    int64_t all;         /* the most steps between two steps of a problem above */
    bool aligned;        /* these are always whole inner loops */
    int64_t room;        /* how many steps are recorded */
    int64_t spacing;     /* own state is kept at every spacing-th step of a loop */
    bool automatic;      /* the spacing is as wide as a budget requires */
    int64_t states;      /* of a loop, kept by Revolve's schedule; the first one stays; 0: `spacing` alone decides */
    int64_t loops, each; /* loops that `room` touches; states kept in each. Rows for states in between follow: `spacing`
                            - 1, or with `states` all but one of them for each loop, and two working rows */
    bt_var *index;   /* I64, on the host: the first recorded step; for each step in `room` its tick and positions; with
                        `states` also the steps whose states are in the rows in between, -1: none */
    bt_var *applied; /* I64 [room, 2]: the optimiser's update count before and after each step */
    bt_var *before;  /* external, I64 []: the update count before the selected step */
    bt_var *after;   /* likewise after it: greater by 1, or equal if the update was skipped */
} bt_trajectory;

enum { BT_SPACING_ROOT = 0, BT_SPACING_AUTO = -1 };
/* Only the first call has an effect. reach, spacing: as above; ROOT: the square root of the number of steps of an inner
 * loop, AUTO: problem->spacing. states: if not 0, replaces spacing. */
bt_status bt_trajectory_open(bt_problem *problem, int64_t reach, int64_t spacing, int64_t states);
void bt_trajectory_free(bt_trajectory *trajectory);
/* The smallest wider spacing that saves at least `less` bytes; if none does, the one that saves most; the present
 * spacing if none saves any. *saved: the bytes saved. */
int64_t bt_trajectory_wider(const bt_trajectory *trajectory, size_t less, size_t *saved);

bt_status bt_trajectory_record(bt_trajectory *trajectory); /* before a step, when its batches are not drawn yet */
/* Before its update: records the gradient as that entry of the phase reads it. */
bt_status bt_trajectory_record_gradient(bt_trajectory *trajectory, bt_phase *phase, int entry);
bt_status bt_trajectory_record_update(bt_trajectory *trajectory); /* after the update */

/* The first of the steps that a hypergradient back to the tick `since` goes through; it goes through all from there to
 * the last. */
int64_t bt_trajectory_first(const bt_trajectory *trajectory, int64_t since);
int64_t bt_trajectory_tick(const bt_trajectory *trajectory, int64_t step);
int64_t bt_trajectory_position(const bt_trajectory *trajectory, int64_t step);
/* batch_of: likewise, in that problem's stream. */
int64_t bt_trajectory_task(const bt_trajectory *trajectory, int64_t step);
bool bt_trajectory_begins(const bt_trajectory *trajectory, int64_t step); /* whether it is the first of an inner loop */
/* The last step at or before it whose own state is kept. */
int64_t bt_trajectory_kept(const bt_trajectory *trajectory, int64_t step);
/* With `states`: the last step at or before `step` whose state is available; the step after `from` whose state is to be
 * kept next on the way to `step`; and a row for the state after `from`, on the way to `to` and from there to `step`. */
int64_t bt_trajectory_nearest(const bt_trajectory *trajectory, int64_t step);
int64_t bt_trajectory_next(const bt_trajectory *trajectory, int64_t from, int64_t step);
void bt_trajectory_make_room(bt_trajectory *trajectory, int64_t from, int64_t to, int64_t step);
/* Sets all externals to the record of `step`, except a kept `next`. */
bt_status bt_trajectory_look(const bt_trajectory *trajectory, int64_t step);
/* Copies the own state of `step` to the step after it. */
bt_status bt_trajectory_copy(const bt_trajectory *trajectory, int64_t step);

/* A copy of the graph, for the upper problem's phase. In it every variable that must be kept is replaced by `at` if it
 * is read, and by `next` if it is assigned; from then on it is recorded. buffers: replaces the problem's own buffers;
 * NULL: nothing does. Returns NULL after an error. */
bt_graph *bt_trajectory_rebind(bt_trajectory *trajectory, const bt_solve_site *site, const bt_graph *graph,
                               bt_var *buffers);

/* The most leaf steps from one call of the problem to the next; *exact: it is always that many. */
int64_t bt_between_calls(const bt_problem *problem, bool *exact);

#endif
