/* engine/session/run.h: a run, shared by train.c, which carries it out, and say.c, which reports on it. */
#ifndef BT_RUN_H
#define BT_RUN_H

#include "engine/output/profile.h"
#include "engine/session/session.h"

typedef struct bt_run { /* from the first call to the call that ends it */
    bt_engine *engine;
    bt_context *context;
    bt_progress *progress; /* the engine's; NULL: none */
    bt_sinks *sinks;       /* NULL: there is no folder */
    bt_profile *profile;   /* NULL: not profiled */
    bt_profile_total profiled;
    bt_timing timing;
    double start;        /* when the run would have begun if it had never stopped */
    int64_t until;       /* the step at which this call returns */
    int64_t train_iters; /* the setting when the run last began or continued */
    int64_t saved;       /* the step of the last checkpoint in the output folder; -1: none */
    double saved_at;     /* when it was written, or the run began */
    bool best_due;       /* the last validation was the best, but its checkpoint has not been written yet */
    const char *stopped; /* why the run has ended; NULL: it has not */
    bool opened;
    bool told;         /* has reported that an update was skipped */
    bool told_loss[2]; /* has reported that a loss was not finite: in training, in a validation */
} bt_run;

static inline bool bt_run_is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

/* stopping.c: finds a validation metric: METRIC of any problem, PROBLEM.METRIC of one. NULL: none of that name so
 * far. */
const bt_metric_row *bt_run_watched(const bt_engine *engine, const char *name);
void bt_run_list_metrics(const bt_engine *engine, bt_text *list); /* adds "; it has model.loss": those of validations */
/* Whether there is a validation. open: its validation_end may log any name. */
bool bt_run_validates(const bt_engine *engine, bool *open);

/* plateau.c: schedulers that watch a validation: checks that there is one; applies them after each validation. */
bt_status bt_run_check_plateaus(const bt_engine *engine);
bt_status bt_run_see_plateaus(bt_run *r);

bt_status bt_run_say_equation(bt_run *r); /* the equation that the levels follow, if there are several */
void bt_run_say_trouble(bt_run *r);       /* reports methods that fail, once each */
/* At the end of the run: reports skipped updates, and levels that have made none. If most updates were skipped, the run
 * has diverged: BT_ERROR_NUMERIC. */
bt_status bt_run_say_missing(bt_run *r);
/* Reports the metrics that are due now: those of the last validation; those of training, all of them after the last
 * step. */
bt_status bt_run_report(bt_run *r, bool valid, bool last);
/* agree.c: BT_ERROR_CONFIG unless all processes of the run have the same settings and state. All of them must call it;
 * `why` says when. */
bt_status bt_run_agree(const bt_engine *engine, const char *why);

/* ---- stopping.c ---- */

bt_status bt_run_check_metric(const bt_engine *engine); /* whether a run that must be judged has a validation */
bt_status bt_run_judge(bt_run *r);                      /* judges the run by the validation just reported */
bool bt_run_best(const bt_engine *engine, bt_metric_value *best); /* false: there is none */
void bt_run_say_best(bt_run *r);                                  /* once the run has ended */

bt_metric_value *bt_run_room(const bt_context *context); /* for all metrics; bt_free; NULL: out of memory */

#endif
