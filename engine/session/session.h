/* engine/session/session.h: the engine, shared by the files of this room. */
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
    const bt_dataset_def **datasets; /* registered with it */
    int dataset_count, dataset_capacity;
    bt_edges due;             /* dependencies that hold after the step in progress */
    bool rewire_due, rewired; /* there are such dependencies; they have changed since they were last logged */
    /* The state of a run outside its problems; in the ledger, like context.step. */
    double seconds;                       /* that the run has taken */
    double best;                          /* best validation so far; NaN: none yet */
    int64_t best_step;                    /* the step after which that validation was made */
    int64_t patience;                     /* validations without improvement */
    int64_t touched;                      /* bytes of the arena written so far */
    struct bt_run *run;                   /* in progress, also between two calls; NULL: none, or it has ended */
    bt_transport *transport;              /* to the other processes of the run; NULL: there are none */
    bt_progress *progress;                /* where it reports its progress; NULL: nowhere */
    char *left;                           /* the folder of the run that has ended; NULL: none */
    int64_t closing;                      /* the step after which final messages were printed; -1: none */
    bool changed;                         /* a setting has changed since the run was continued */
    bt_text name;                         /* of bt_engine_name */
    bt_output *output;                    /* the folder that the run writes to; NULL: none */
    bt_log_lengths lengths;               /* bytes of the logs that a resumed run keeps */
    double load_seconds, compile_seconds; /* of the set-up: problems and data; from tracing to planning */
    size_t host_baseline;                 /* bytes of host memory that were live before the set-up */
    size_t baseline;                      /* likewise, aligned bytes of memory */
    size_t own_before, data_before;       /* likewise, of the library itself and of data sets, */
    size_t absent_before;                 /* and of rows of data sets that were not read */
};

/* setup.c; source: the file that the parts come from, for messages, or NULL; it must outlive the engine. */
bt_status bt_engine_add(bt_engine *engine, const bt_export *parts, void *user, const char *source);

/* setup.c: sets the engine up if necessary, and checks that such a call may be made now; the first error otherwise. */
bt_status bt_engine_enter(bt_engine *engine, bt_request call, const char *function);
/* Likewise for a call that uses the model saved by a run; bt_checkpoint_load_model follows. */
bt_status bt_engine_enter_model(bt_engine *engine, const char *function);

/* dependency.c */
bt_status bt_session_step(bt_engine *engine); /* one step of each leaf; then new dependencies, if any are due */
bt_status bt_rewire_due(bt_engine *engine); /* applies what bt_set_dependency was told during a step or a validation */

/* train.c: ends a run that will not continue, or whose engine is freed, without the final messages. */
bt_status bt_run_close(bt_engine *engine);

/* ---- plain.c: unspecialised kernel loops that the programs run over more than a few elements ---- */

json_t *bt_plain_loops(const bt_engine *engine); /* an array: kernel, calls, shares of the operations and bytes */
void bt_print_plain_loops(json_t *loops, FILE *file);

/* ---- report.c ---- */

json_t *bt_plan_json(const bt_engine *engine); /* what --plan says */
void bt_plan_print(json_t *plan, FILE *file);  /* likewise, as text */
/* Writes plan.json and equation.txt to a run's folder when it begins or continues. */
bt_status bt_plan_leave(bt_engine *engine, const char *folder);

/* ---- curve_show.c: from the object in curve.json ---- */

void bt_curve_table(const json_t *curve, bt_text *text);
bt_status bt_curve_picture(const json_t *curve, bt_text *text);

/* ---- memory.c ---- */

/* Bytes in memory that are not part of the plan. */
typedef struct bt_footprint {
    size_t data;          /* data sets, as they are stored */
    size_t program, peak; /* graphs, kernel calls and tables: now, and at most since the set-up */
} bt_footprint;
bt_footprint bt_engine_footprint(const bt_engine *engine);

/* The planned bytes, and those in use after a run: the arena up to the last byte written, which is known only if
 * bt_instance_fill was called before the run; and what is kept for the whole run. */
bt_memory_sizes bt_engine_planned(const bt_engine *engine);
bt_memory_sizes bt_engine_measured(bt_engine *engine);
bt_status bt_engine_device_bytes(const bt_engine *engine, bt_device_bytes *bytes); /* planned */
size_t bt_resident_peak(void); /* of this process, according to the system; 0: unknown */

/* Bytes that are live at the phase's peak; and whether a value is live at a step of the phase. */
void bt_phase_at_peak(const bt_phase *phase, size_t by_category[BT_CATEGORIES]);
bool bt_phase_lives(const bt_phase *phase, int64_t value, int64_t step);
const bt_phase *bt_phase_largest(const bt_instance *instance); /* by the bytes that it uses; NULL: there is none */

size_t bt_arena_planned(const bt_context *context); /* planned, for the largest phase */
size_t bt_host_planned(const bt_context *context);  /* likewise, in the host's memory */
size_t bt_arena_used(const bt_context *context);    /* used: up to the last byte that is written */
void bt_engine_note_touched(bt_engine *engine);     /* updates engine->touched */

#endif
