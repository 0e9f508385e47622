/* engine/session/session.h: what the files of this room share: the engine. */
#ifndef BT_SESSION_H
#define BT_SESSION_H

#include "engine/level/keep.h"
#include "engine/level/ledger.h"
#include "engine/output/sinks.h"
#include "engine/plugin/plugin.h"
#include "engine/schedule/schedule.h"
#include "engine/session/front.h"
#include "io/json.h"
#include "runtime/device_bytes.h"

struct bt_engine {
    bt_context context;
    bt_front front;
    bt_plugin **plugins;
    int plugin_count, plugin_capacity;
    const bt_dataset_def **datasets; /* registered for it */
    int dataset_count, dataset_capacity;
    bt_edges due;             /* dependencies that hold after the step in progress */
    bool rewire_due, rewired; /* there are such dependencies; they have changed since the log last reported them */
    /* Where a run stands, beyond what its problems know; in the ledger, as is context.step. */
    double seconds;                       /* that it has taken */
    double best;                          /* validation so far; NaN: none yet */
    int64_t best_step;                    /* the step after which it was made */
    int64_t patience;                     /* validations without improvement */
    int64_t touched;                      /* bytes of the arena */
    struct bt_run *run;                   /* in progress, between two calls too; NULL: none, or it has ended */
    bt_transport *transport;              /* to other processes of its run; NULL: there are none */
    bt_progress *progress;                /* where it tells how far it is; NULL: nowhere */
    char *left;                           /* the folder of the run that has ended; NULL: none */
    int64_t closing;                      /* the step whose last words were said; -1: none */
    bool changed;                         /* a setting has changed since the run was continued */
    bt_text name;                         /* of bt_engine_name */
    bt_output *output;                    /* the folder that a run writes to, or continues in; NULL: none */
    bt_log_lengths lengths;               /* bytes of its logs that a resumed run keeps */
    double load_seconds, compile_seconds; /* of setting up: problems and data; tracing to planning */
    size_t host_baseline;                 /* likewise, in the host's memory */
    size_t baseline;                      /* aligned bytes that were live before it */
    size_t own_before, data_before;       /* bytes of the library itself, and of data sets, before it, */
    size_t absent_before;                 /* and of rows of these that were not read */
};

/* setup.c; source: the file that the parts come from, for messages, or NULL; it lives as long as the engine. */
bt_status bt_engine_add(bt_engine *engine, const bt_export *parts, void *user, const char *source);

/* setup.c: set up if it is not yet, and such a call may be made now; or the first error. */
bt_status bt_engine_enter(bt_engine *engine, bt_request call, const char *function);
/* Likewise for one that asks the model that a run has left, to be followed by bt_checkpoint_load_model. */
bt_status bt_engine_enter_model(bt_engine *engine, const char *function);

/* dependency.c */
bt_status bt_session_step(bt_engine *engine); /* one step of each leaf; then other dependencies, if any are due */
bt_status bt_rewire_due(bt_engine *engine);   /* what bt_set_dependency was told within a step or a validation */

/* train.c: ends a run that will not continue, or whose engine is freed, without its final messages. */
bt_status bt_run_close(bt_engine *engine);

/* ---- plain.c: plain loops that the programs run, over more than a few elements ---- */

json_t *bt_plain_loops(const bt_engine *engine); /* an array: kernel, calls; its shares of operations, bytes */
void bt_print_plain_loops(json_t *loops, FILE *file);

/* ---- report.c ---- */

json_t *bt_plan_json(const bt_engine *engine); /* what --plan says */
void bt_plan_print(json_t *plan, FILE *file);  /* likewise, as text */
/* plan.json and equation.txt in a run's folder, as it begins or goes on. */
bt_status bt_plan_leave(bt_engine *engine, const char *folder);

/* ---- curve_show.c: of the object that curve.json has ---- */

void bt_curve_table(const json_t *curve, bt_text *text);
bt_status bt_curve_picture(const json_t *curve, bt_text *text);

/* ---- memory.c ---- */

/* What is in memory in addition to the plan. */
typedef struct bt_footprint {
    size_t data;          /* data sets, as they are kept */
    size_t program, peak; /* graphs, kernel calls and tables: now, and the most since it was set up */
} bt_footprint;
bt_footprint bt_engine_footprint(const bt_engine *engine);

/* The planned bytes, and those in use after a run: of the arena, up to the last byte written, which only
 * bt_instance_fill before the run can detect; and those kept for the whole run. */
bt_memory_sizes bt_engine_planned(const bt_engine *engine);
bt_memory_sizes bt_engine_measured(bt_engine *engine);
bt_status bt_engine_device_bytes(const bt_engine *engine, bt_device_bytes *bytes); /* planned */
size_t bt_resident_peak(void); /* of this process, as the system counts it; 0: unknown */

/* Bytes of what lives where the phase needs most; and whether a value lives at this step of it. */
void bt_phase_at_peak(const bt_phase *phase, size_t by_category[BT_CATEGORIES]);
bool bt_phase_lives(const bt_phase *phase, int64_t value, int64_t step);
const bt_phase *bt_phase_largest(const bt_instance *instance); /* by bytes that it uses; NULL: there is none */

size_t bt_arena_planned(const bt_context *context); /* planned: of the largest phase */
size_t bt_host_planned(const bt_context *context);  /* likewise, of the host's memory */
size_t bt_arena_used(const bt_context *context);    /* up to the last byte that is written */
void bt_engine_note_touched(bt_engine *engine);     /* how far it has been written, in engine->touched */

#endif
