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
    bool reports;                      /* nothing is run, so that the folder may hold a run already */
    bool dry;                          /* nothing is ever run: the plan is made without memory for what is planned */
    FILE *profile;                     /* kernel calls are timed; where the table goes; NULL: they are not */
    const volatile sig_atomic_t *stop; /* not 0: stop after this step with BT_ERROR_INTERRUPTED; may be NULL */
    /* Makes the processes that so many ranks are, and returns in each of them; the transport is closed with the engine.
     * Only that of rank 0 leaves files. NULL: ranks are in lockstep. */
    bt_status (*spread)(int ranks, bt_transport **transport);
    int processes; /* that are the ranks already; 0: spread makes as many as are asked for */
} bt_front;
bt_status bt_engine_attach(bt_engine *engine, const bt_front *front); /* copied */

/* As bt_engine_set, with the words that messages use for where the value came from: "--set classifier.lr". */
bt_status bt_engine_set_from(bt_engine *engine, const char *key, const char *value, const char *origin);

/* Loads, configures, traces and plans everything; writes nothing. Called by all that works, when first needed. Its
 * failures are faults of the input (exit code 2), later ones of the run (1). */
bt_status bt_engine_setup(bt_engine *engine);

/* As bt_engine_print; json: BT_PLAN and BT_INFO as one JSON object. */
bt_status bt_engine_report(bt_engine *engine, bt_report what, bool json, FILE *file);

/* The plan, and what less memory would cost: bytes against work that is done again, of each phase and of the run, by
 * plans for falling budgets. */
typedef struct bt_curve {
    bool json;
    FILE *file;         /* where it is printed */
    const char *folder; /* where curve.json and curve.svg go; NULL: nowhere */
    FILE *progress;     /* NULL: nowhere */
    double step;        /* from one budget to the next; 0: 0.85 */
} bt_curve;
bt_status bt_engine_curve(bt_engine *engine, const bt_curve *curve);

/* The newest checkpoint of a run's folder on the validation data, without training: parameters and buffers are its own,
 * all settings those of the engine. BT_ERROR_CONFIG: it is one of another model, or there is nothing to evaluate. */
typedef struct bt_evaluation {
    const char *folder;
    const char *level;       /* NULL: all */
    const char *predictions; /* a CSV file of what each example gets; NULL: none */
    bool json;
    FILE *file; /* where the metrics go */
} bt_evaluation;
bt_status bt_engine_evaluate(bt_engine *engine, const bt_evaluation *what);

/* The newest checkpoint likewise, asked to go on with a text by `level` (NULL: by the only one that does). */
bt_status bt_engine_sample(bt_engine *engine, const char *run, const char *level, const bt_sampling *how);

/* The newest checkpoint likewise: the network of `problem` (NULL: of the only one) as a file for others, whose ending
 * says which: see bt_module_export. What it takes and gives is said in a line of `file`. BT_ERROR_CONFIG: there is no
 * such level, or nothing says what its network takes. */
typedef struct bt_exporting {
    const char *folder, *problem, *path;
    FILE *file;
} bt_exporting;
bt_status bt_engine_export(bt_engine *engine, const bt_exporting *what);

/* Compares the hypergradient of `level` with differences of the retrained loss. BT_ERROR_NUMERIC if they disagree; what
 * has come out is printed and written either way. */
typedef struct bt_checking {
    const char *level; /* NULL: every upper level */
    int64_t samples;   /* along so many coordinates; 0: a sensible number */
    bool json;
    FILE *file;         /* where it is printed */
    const char *folder; /* where check.json goes, which may hold a run; NULL: nowhere */
} bt_checking;
bt_status bt_engine_check_hypergradient(bt_engine *engine, const bt_checking *how);

#endif
