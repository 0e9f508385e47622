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

typedef struct bt_proposal { /* of a budget, instead of every memory_budget */
    size_t arena;            /* bytes that it may have; SIZE_MAX: any; 0: there is none */
    size_t over;             /* the fewest bytes that were missing if it cannot be met; 0: none */
} bt_proposal;

struct bt_context {
    bt_engine *engine; /* whose part it is: for the session alone */
    bt_config *config;
    const bt_engine_settings *settings;
    bt_status status; /* of the call that failed half way: all later calls fail with it */
    char *message;
    bt_problem **problems; /* owned; the configuration and the hierarchy have them at the same places */
    int problem_count, problem_capacity;
    bt_hierarchy hierarchy; /* of the dependencies in force */
    bt_instance *instance;
    bt_level_checkpointing *checkpointing; /* by problem */
    bt_ledger ledger;                      /* everything that a run is */
    bt_metric_row **metrics;
    int metric_count, metric_capacity;
    bt_stages stages;       /* what is under way */
    struct bt_until *until; /* schedule/: only some levels step; NULL: all do */
    bool on_trial;          /* a check trains, to be undone: the dependencies stay as they are */
    bool apart;             /* for compiling: gradients and products are separate programs, none are joined, and
                             * gradients and adjoints last through the whole step, to be read between them */
    /* Called with each gradient that an update is about to use, which bt_gradient_read then returns; or NULL. */
    bt_status (*watch)(void *user, const bt_problem *problem);
    void *watch_user;
    /* Called with each batch of a validation, with the level's name; or NULL. */
    void (*validating)(void *user, const char *level, int64_t done, int64_t batches);
    void *validating_user;
    bt_proposal proposal;
    bool steps_now;       /* what bt_steps_show was told last */
    int64_t scalar_count; /* host scalars and static ints of all levels */
    int64_t step;         /* leaf steps */
    bt_problem **leaves;  /* active, without children, in the order of their steps */
    int leaf_count;
    struct bt_capture *capture; /* traced/: an evaluation asks for what each example gets; NULL: nobody asks */
    struct bt_heard *heard;     /* traced/: somebody asks for a network by itself; NULL: nobody */
    bool resuming;              /* the output folder holds this run already */
    bt_log_fn *log;             /* hears every line, with its user; NULL: nobody listens yet */
    void *log_user;
    bt_text warnings, notes; /* lines that nobody has heard yet */
};

void bt_context_backend(const bt_context *context, char text[256]); /* "x86-64-v4, 2 threads" */
/* After planning: the number of threads that is reported is the one that the plan uses, unless it was set. */
void bt_context_settle_threads(bt_context *context);
/* How many the settings ask for; the text explains it, "" if they ask for nothing. */
int bt_context_ranks(const bt_context *context);
void bt_context_say_ranks(const bt_context *context, char text[256]); /* "": there is one, as nobody said */
void bt_context_threads(const bt_context *context, char text[256]);   /* "1 thread: ", and why */
void bt_warn(bt_context *context, const char *format, ...) BT_FORMAT(2, 3);
/* Each line of the text, to whoever listens. Warnings and notes wait for the first who does; the others are lost. */
void bt_say(bt_context *context, bt_line kind, const char *format, ...) BT_FORMAT(3, 4);
void bt_say_unheard(bt_context *context); /* what waits, to who listens now */
/* The failed call is half done, so the engine cannot continue, and every later call must fail likewise. Failures that
 * leave the engine unchanged (wrong arguments, questions that cannot be answered) are returned but not kept. */
bt_status bt_keep_error(bt_context *context, bt_status status);
bt_status bt_kept_error(const bt_context *context);     /* that error, even where a callback has cleared its message */
bt_status bt_check_restored(const bt_context *context); /* every bt_adapt has had its bt_restore */

#endif
