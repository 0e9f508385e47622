/* engine/session/front.h: what the command asks of the engine, beyond the public interface. */
#ifndef BT_FRONT_H
#define BT_FRONT_H

#include "runtime/transport.h"

#include <betty/engine.h>
#include <betty/problem.h>
#include <signal.h>
#include <stdio.h>

typedef struct bt_front {
    FILE *progress;                    /* where the run tells how far it is; NULL: nowhere */
    bool files;                        /* a run leaves a folder; false: only where engine.output is set */
    bool reports;                      /* nothing is run, so the folder may already hold a run */
    bool dry;                          /* nothing is ever run: planning allocates no memory for what it plans */
    FILE *profile;                     /* kernel calls are timed; where the table goes; NULL: they are not */
    const volatile sig_atomic_t *stop; /* not 0: stop after this step with BT_ERROR_INTERRUPTED; may be NULL */
    /* Creates the processes for so many ranks, and returns in each of them; the transport is closed with the engine.
     * Only rank 0 leaves files. NULL: ranks are in lockstep. */
    bt_status (*spread)(int ranks, bt_transport **transport);
    int processes; /* that are the ranks already; 0: spread makes as many as are asked for */
} bt_front;
bt_status bt_engine_attach(bt_engine *engine, const bt_front *front); /* copied */

/* Like bt_engine_set, with the words that messages use for the origin of the value: "--set classifier.lr". */
bt_status bt_engine_set_from(bt_engine *engine, const char *key, const char *value, const char *origin);

/* Loads, configures, traces and plans everything; writes nothing. Called by every call that needs it. Its failures are
 * faults of the input (exit code 2), later ones of the run (1). */
bt_status bt_engine_setup(bt_engine *engine);

/* As bt_engine_print; json: BT_PLAN and BT_INFO as one JSON object. */
bt_status bt_engine_report(bt_engine *engine, bt_report what, bool json, FILE *file);

/* The plan, and what less memory would cost: bytes against recomputed work, for each phase and the run, by plans for
 * falling budgets. */
typedef struct bt_curve {
    bool json;
    FILE *file;         /* where it is printed */
    const char *folder; /* where curve.json and curve.svg go; NULL: nowhere */
    FILE *progress;     /* NULL: nowhere */
    double step;        /* from one budget to the next; 0: 0.85 */
} bt_curve;
bt_status bt_engine_curve(bt_engine *engine, const bt_curve *curve);

/* Evaluates the newest checkpoint of a run's folder on the validation data, without training. Parameters and buffers
 * are the checkpoint's, all settings those of the engine. BT_ERROR_CONFIG: it belongs to another model, or there is
 * nothing to evaluate. */
typedef struct bt_evaluation {
    const char *folder;
    const char *level;       /* NULL: all */
    const char *predictions; /* a CSV file of what each example gets; NULL: none */
    bool json;
    FILE *file; /* where the metrics go */
} bt_evaluation;
bt_status bt_engine_evaluate(bt_engine *engine, const bt_evaluation *what);

/* The same with a text for `level` to continue (NULL: for the only level that can). */
bt_status bt_engine_sample(bt_engine *engine, const char *run, const char *level, const bt_sampling *how);

/* The same: writes the network of `problem` (NULL: of the only one) to a file, whose ending chooses the format: see
 * bt_module_export. A line in `file` describes its inputs and outputs. BT_ERROR_CONFIG: there is no such level, or
 * nothing shows what its network takes. */
typedef struct bt_exporting {
    const char *folder, *problem, *path;
    FILE *file;
} bt_exporting;
bt_status bt_engine_export(bt_engine *engine, const bt_exporting *what);

/* Compares the hypergradient of `level` with differences of the retrained loss. BT_ERROR_NUMERIC if they disagree; the
 * result is printed and written either way. */
typedef struct bt_checking {
    const char *level; /* NULL: every upper level */
    int64_t samples;   /* along so many coordinates; 0: a sensible number */
    bool json;
    FILE *file;         /* where it is printed */
    const char *folder; /* where check.json goes, which may hold a run; NULL: nowhere */
} bt_checking;
bt_status bt_engine_check_hypergradient(bt_engine *engine, const bt_checking *how);

#endif
