/* engine/session/front.h: what betty-run needs from the engine beyond the public interface. */
#ifndef BT_FRONT_H
#define BT_FRONT_H

#include "runtime/transport.h"

#include <betty/engine.h>
#include <betty/problem.h>
#include <signal.h>
#include <stdio.h>

typedef struct bt_front {
    FILE *progress;                    /* where the run prints its progress; NULL: nowhere */
    bool files;                        /* a run writes a folder; false: only if engine.output is set */
    bool reports;                      /* nothing is run, so the folder may already hold a run */
    bool dry;                          /* nothing is ever run: planning allocates none of the planned memory */
    FILE *profile;                     /* where the table of timed kernel calls goes; NULL: they are not timed */
    const volatile sig_atomic_t *stop; /* not 0: stop after this step with BT_ERROR_INTERRUPTED; may be NULL */
    /* Creates one process for each rank, and returns in each of them; the transport is closed with the engine. Only
     * rank 0 writes files. NULL: ranks run in lockstep. */
    bt_status (*spread)(int ranks, bt_transport **transport);
    int processes; /* how many processes are already the ranks; 0: spread creates as many as are wanted */
} bt_front;
bt_status bt_engine_attach(bt_engine *engine, const bt_front *front); /* copied */

/* Like bt_engine_set, with the words that messages use for the origin of the value: "--set classifier.lr". */
bt_status bt_engine_set_from(bt_engine *engine, const char *key, const char *value, const char *origin);

/* Loads, configures, traces and plans everything; writes nothing. Every call that needs this calls it. A failure here
 * is a fault in the input (exit code 2); later failures are faults of the run (1). */
bt_status bt_engine_setup(bt_engine *engine);

/* Like bt_engine_print; json: prints BT_PLAN and BT_INFO as one JSON object. */
bt_status bt_engine_report(bt_engine *engine, bt_report what, bool json, FILE *file);

/* Prints the plan, and what less memory would cost: bytes against recomputed work, for each phase and the whole run,
 * from plans for ever smaller budgets. */
typedef struct bt_curve {
    bool json;
    FILE *file;         /* where it is printed */
    const char *folder; /* where curve.json and curve.svg go; NULL: nowhere */
    FILE *progress;     /* NULL: nowhere */
    double step;        /* ratio of one budget to the one before; 0: 0.85 */
} bt_curve;
bt_status bt_engine_curve(bt_engine *engine, const bt_curve *curve);

/* Evaluates the newest checkpoint in a run's folder on the validation data, without training. Parameters and buffers
 * come from the checkpoint, all settings from the engine. BT_ERROR_CONFIG: the checkpoint belongs to another model, or
 * there is nothing to evaluate. */
typedef struct bt_evaluation {
    const char *folder;
    const char *level;       /* NULL: all */
    const char *predictions; /* a CSV file for the predictions of each example; NULL: none */
    bool json;
    FILE *file; /* where the metrics are printed */
} bt_evaluation;
bt_status bt_engine_evaluate(bt_engine *engine, const bt_evaluation *what);

/* Likewise, but `level` (NULL: the only level that can) continues a text. */
bt_status bt_engine_sample(bt_engine *engine, const char *run, const char *level, const bt_sampling *how);

/* Likewise, but writes the network of `problem` (NULL: of the only one) to a file, whose ending selects the format: see
 * bt_module_export. A line in `file` describes its inputs and outputs. BT_ERROR_CONFIG: there is no such level, or
 * nothing shows which inputs its network takes. */
typedef struct bt_exporting {
    const char *folder, *problem, *path;
    FILE *file;
} bt_exporting;
bt_status bt_engine_export(bt_engine *engine, const bt_exporting *what);

/* Compares the hypergradient of `level` with differences of the retrained loss. BT_ERROR_NUMERIC if they disagree; the
 * result is printed and written either way. */
typedef struct bt_checking {
    const char *level; /* NULL: every upper level */
    int64_t samples;   /* number of coordinates to try; 0: a sensible number */
    bool json;
    FILE *file;         /* where it is printed */
    const char *folder; /* the folder for check.json, which may hold a run; NULL: nowhere */
} bt_checking;
bt_status bt_engine_check_hypergradient(bt_engine *engine, const bt_checking *how);

#endif
