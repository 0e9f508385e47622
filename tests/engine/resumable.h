/* tests/engine/resumable.h: two levels, three problems, with state of every kind that a run can have, and a look at all
 * of it. */
#ifndef RESUMABLE_H
#define RESUMABLE_H

#include "levels.h"
#include <signal.h>

enum { RESUMABLE_STEPS = 13 };

typedef struct resumable { /* bt_user; one for each engine */
    int64_t epochs, loops; /* by epoch_callback, on_inner_loop_start; kept by bt_state, and part of the loss */
    bool forgets;          /* bt_state is not called */
    double factor;         /* of the loss: a constant of the program; 0 stands for 1 */
    bool one_stage;        /* no program is compiled again */
    int rows;              /* of the training data; 0 stands for 19 */
    double shift;          /* of the last number of the training data */
    double made_shift;     /* of the batches that a problem makes itself */
    const char *save_to;   /* by validation_end: bt_engine_save is called then */
    bt_status saved;       /* what it returned */
    volatile sig_atomic_t stop;
} resumable;

/* Of RESUMABLE_STEPS steps, with `settings` and `more` besides; `folder`: its output, or NULL. The run stops after each
 * step while world->stop is set. */
bt_engine *resumable_engine(resumable *world, const char *settings, const char *more, const char *folder);

/* One more step; or all that are left. */
void resumable_step(bt_engine *engine, resumable *world);
void resumable_finish(bt_engine *engine, resumable *world);

/* Over all that decides how the run goes on, and what it will report. */
uint64_t resumable_hash(bt_engine *engine, const resumable *world);

/* An empty folder to work in, and away with it: for a fixture. */
void resumable_enter(void);
void resumable_leave(void);
void resumable_put(const char *folder, const char *name, const char *text); /* a file; the folder is made */

/* Memory of zeros that child processes share; it stays until the test's own process ends. */
void *resumable_shared(size_t bytes);

#endif
