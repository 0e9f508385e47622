/* engine/level/context.h: what all levels of one engine share. */
#ifndef BT_CONTEXT_H
#define BT_CONTEXT_H

#include "engine/config/config.h"
#include "engine/hierarchy/hierarchy.h"
#include "engine/level/ledger.h"
#include "engine/level/metrics.h"
#include "engine/level/stage.h"
#include "runtime/phase.h"
#include <betty/engine.h>

typedef struct bt_proposal { /* a budget that is tried instead of every memory_budget */
    size_t arena;            /* bytes allowed; SIZE_MAX: any number; 0: no budget is tried */
    size_t over;             /* bytes missing in the best plan, if the budget cannot be met; 0: none */
} bt_proposal;

struct bt_context {
    bt_engine *engine; /* the engine that this is part of; only session/ uses it */
    bt_config *config;
    const bt_engine_settings *settings;
    bt_status status; /* of the call that failed halfway: all later calls return it */
    char *message;
    bt_problem **problems; /* owned; the configuration and the hierarchy use the same places */
    int problem_count, problem_capacity;
    bt_hierarchy hierarchy; /* of the dependencies in force */
    bt_instance *instance;
    bt_level_checkpointing *checkpointing; /* by problem */
    bt_ledger ledger;                      /* the whole state of a run */
    bt_metric_row **metrics;
    int metric_count, metric_capacity;
    bt_stages stages;       /* what the engine is doing */
    struct bt_until *until; /* schedule/: only some levels step; NULL: all do */
    bool on_trial;          /* a check is training and will undo it: the dependencies do not change */
    bool apart; /* for compiling: gradients and products are separate programs, never joined; gradients and adjoints
                   last for the whole step, so that they can be read between programs */
    /* Called with each gradient before an update uses it; bt_gradient_read then returns it; or NULL. */
    bt_status (*watch)(void *user, const bt_problem *problem);
    void *watch_user;
    /* Called after each batch of a validation, with the level's name; or NULL. */
    void (*validating)(void *user, const char *level, int64_t done, int64_t batches);
    void *validating_user;
    bt_proposal proposal;
    bool steps_now;       /* the last argument of bt_steps_show */
    int64_t scalar_count; /* host scalars and static ints of all levels */
    int64_t step;         /* leaf steps */
    bt_problem **leaves;  /* active levels without children, in the order in which they step */
    int leaf_count;
    struct bt_capture *capture; /* traced/: an evaluation asks for the predictions of each example; NULL: none does */
    struct bt_heard *heard;     /* traced/: the caller wants a network by itself; NULL: nobody does */
    bool resuming;              /* the output folder already holds this run */
    bt_log_fn *log;             /* receives every line, with log_user; NULL: nobody listens yet */
    void *log_user;
    bt_text warnings, notes; /* lines not delivered yet */
};

void bt_context_backend(const bt_context *context, char text[256]); /* "x86-64-v4, 2 threads" */
/* After planning: unless the number of threads was set, the number reported becomes the one that the plan uses. */
void bt_context_settle_threads(bt_context *context);
/* The number of ranks that the settings ask for. */
int bt_context_ranks(const bt_context *context);
void bt_context_say_ranks(const bt_context *context, char text[256]); /* how many, and why; "": 1, as by default */
void bt_context_threads(const bt_context *context, char text[256]);   /* "1 thread: " and the reason */
void bt_warn(bt_context *context, const char *format, ...) BT_FORMAT(2, 3);
/* Passes each line of the text to the listener. Without one, warnings and notes wait for it; other lines are lost. */
void bt_say(bt_context *context, bt_line kind, const char *format, ...) BT_FORMAT(3, 4);
void bt_say_unheard(bt_context *context); /* delivers what is waiting */
/* For a call that failed halfway: the engine cannot continue, and every later call must fail with the same error.
 * Failures that leave the engine unchanged (wrong arguments, questions that cannot be answered) are returned but not
 * kept. */
bt_status bt_keep_error(bt_context *context, bt_status status);
bt_status bt_kept_error(const bt_context *context);     /* that error, even if a callback has cleared its message */
bt_status bt_check_restored(const bt_context *context); /* every bt_adapt was followed by its bt_restore */

#endif
