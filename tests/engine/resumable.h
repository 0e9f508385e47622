/* tests/engine/resumable.h: two levels, three problems, with every kind of state that a run can have, and a hash of all
 * of it. */
#ifndef RESUMABLE_H
#define RESUMABLE_H

#include "levels.h"
#include <signal.h>

enum { RESUMABLE_STEPS = 13 };

typedef struct resumable { /* bt_user; one for each engine */
    int64_t epochs, loops; /* by epoch_callback, on_inner_loop_start; saved with bt_state, and used in the loss */
    bool forgets;          /* do not call bt_state */
    double factor;         /* in the loss: a constant of the program; 0 means 1 */
    bool one_stage;        /* never recompile programs */
    int rows;              /* of the training data; 0 means 19 */
    double shift;          /* added to the last number of the training data */
    double made_shift;     /* added to the batches of the callback */
    const char *save_to;   /* where validation_end saves with bt_engine_save */
    bt_status saved;       /* the result of that call */
    volatile sig_atomic_t stop;
} resumable;

/* A run of RESUMABLE_STEPS steps, with `settings` and also `more`; `folder`: its output, or NULL. The run stops after
 * each step while world->stop is set. */
bt_engine *resumable_engine(resumable *world, const char *settings, const char *more, const char *folder);

/* One more step, or all remaining ones. */
void resumable_step(bt_engine *engine, resumable *world);
void resumable_finish(bt_engine *engine, resumable *world);

/* A hash over everything that determines how the run continues and what it will report. */
uint64_t resumable_hash(bt_engine *engine, const resumable *world);

/* Creates and enters an empty folder, and removes it: for a fixture. */
void resumable_enter(void);
void resumable_leave(void);
void resumable_put(const char *folder, const char *name, const char *text); /* writes a file; creates the folder */

/* Zeroed memory shared with child processes; it lasts until the test's process ends. */
void *resumable_shared(size_t bytes);

#endif
