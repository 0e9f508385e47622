/* engine/session/run.h: a run, shared by train.c, which makes it, and say.c, which reports on it. */
#ifndef BT_RUN_H
#define BT_RUN_H

#include "engine/output/profile.h"
#include "engine/session/session.h"

typedef struct bt_run { /* from the first call to the one that ends it */
    bt_engine *engine;
    bt_context *context;
    bt_progress *progress; /* the engine's; NULL: none */
    bt_sinks *sinks;       /* NULL: there is no folder */
    bt_profile *profile;   /* NULL: not profiled */
    bt_profile_total profiled;
    bt_timing timing;
    double start;        /* when it would have begun, had it never stopped */
    int64_t until;       /* the step at which this call returns */
    int64_t train_iters; /* as they were when it last began, or went on */
    int64_t saved;       /* the step of the last checkpoint in the output folder; -1: none */
    double saved_at;     /* when it was written, or the run began */
    bool best_due;       /* the last validation is the best, and no checkpoint of it has been written yet */
    const char *stopped; /* why it has ended; NULL: it has not */
    bool opened;
    bool told;         /* that an update was left out */
    bool told_loss[2]; /* that a loss was not finite: of training, of a validation */
} bt_run;

static inline bool bt_run_is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

/* stopping.c: METRIC is that of a validation, of any problem; PROBLEM.METRIC of one. NULL: none of that name so far. */
const bt_metric_row *bt_run_watched(const bt_engine *engine, const char *name);
void bt_run_list_metrics(const bt_engine *engine, bt_text *list); /* adds "; it has model.loss", of a validation */
/* Whether there is a validation. open: its validation_end may log any name. */
bool bt_run_validates(const bt_engine *engine, bool *open);

/* plateau.c: the schedulers that watch a validation: whether there is one to watch; and what they do after each. */
bt_status bt_run_check_plateaus(const bt_engine *engine);
bt_status bt_run_see_plateaus(bt_run *r);

bt_status bt_run_say_equation(bt_run *r); /* what the levels follow, where there are several */
void bt_run_say_trouble(bt_run *r);       /* methods that fail, once each */
/* At its end: reports skipped updates, and levels that have made none. If most updates were skipped, the run has
 * diverged: BT_ERROR_NUMERIC. */
bt_status bt_run_say_missing(bt_run *r);
/* The metrics that are due now: of the validation that has been; of training, all of them where the step was the last.
 */
bt_status bt_run_report(bt_run *r, bool valid, bool last);
/* agree.c: whether all processes of the run have the same settings and state; BT_ERROR_CONFIG. All of them must call
 * it, and `why` says when. */
bt_status bt_run_agree(const bt_engine *engine, const char *why);

/* ---- stopping.c ---- */

bt_status
bt_run_check_metric(const bt_engine *engine); /* whether a run to be judged has a validation to be judged by */
bt_status bt_run_judge(bt_run *r);            /* by a validation that has been reported */
bool bt_run_best(const bt_engine *engine, bt_metric_value *best); /* false: there is none */
void bt_run_say_best(bt_run *r);                                  /* of a run that has ended */

bt_metric_value *bt_run_room(const bt_context *context); /* for all metrics; bt_free; NULL: out of memory */

#endif
