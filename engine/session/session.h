/* engine/session/session.h: between setup.c, engine.c, train.c and report.c. */
#ifndef BT_SESSION_H
#define BT_SESSION_H

#include "engine/level/keep.h"
#include "engine/level/ledger.h"
#include "engine/output/log.h"
#include "engine/plugin/plugin.h"
#include "engine/schedule/schedule.h"
#include "engine/session/front.h"

typedef struct bt_standing { /* where a run stands, beyond what its problems know */
    double seconds;          /* that it has taken */
    double best;             /* of early stopping; NaN: none yet */
    int64_t patience;        /* validations without improvement */
    size_t touched;          /* bytes of the arena */
} bt_standing;

struct bt_engine {
    bt_context context;
    bt_front front;
    bt_plugin **plugins;
    int plugin_count, plugin_capacity;
    const bt_dataset_def **datasets; /* registered for it */
    int dataset_count, dataset_capacity;
    bt_edges due;             /* dependencies that hold after the step in progress */
    bool rewire_due, rewired; /* there are such; others hold since the log last said which */
    bt_standing standing;
    struct bt_run *run;                   /* in progress, between two calls too; NULL: none, or it has ended */
    bt_progress *progress;                /* where it tells how far it is; NULL: nowhere */
    char *left;                           /* the folder of the run that has ended; NULL: none */
    int64_t closing;                      /* the step whose last words were said; -1: none */
    bool changed;                         /* a setting has changed since the run went on */
    bt_text name;                         /* of bt_engine_name */
    bt_output *output;                    /* the folder that a run writes to, or is to go on in; NULL: none */
    int64_t metrics_length;               /* bytes of its metrics.jsonl that a resumed run keeps; -1: none */
    double load_seconds, compile_seconds; /* of setting up: problems and data; tracing to planning */
    size_t baseline;                      /* aligned bytes that were live before it */
};

/* setup.c; source: the file that the parts come from, for messages, or NULL; it lives as long as the engine. */
bt_status bt_engine_add(bt_engine *engine, const bt_export *parts, void *user, const char *source);

bt_status bt_engine_enter(bt_engine *engine); /* setup.c: loaded and planned, or the first error */

/* train.c: a run that will not go on, or whose engine goes; what it would have said at its end is not said. */
bt_status bt_run_close(bt_engine *engine);

/* rewire.c: other dependencies, while a run goes on */
bt_status bt_rewire(bt_engine *engine, const char *u2l, const char *l2u, const char *origin); /* between two steps */
bt_status
bt_session_step(bt_engine *engine);         /* one step of each leaf; then other dependencies, if any were asked for */
bt_status bt_rewire_due(bt_engine *engine); /* likewise: what bt_set_dependency was told within one */

void bt_engine_backend(const bt_engine *engine, char text[256]); /* report.c: "x86-64-v4, 2 threads" */

/* memory.c: bytes of what lives where the phase needs most; whether a value does at this step of it */
void bt_phase_at_peak(const bt_phase *phase, size_t by_category[BT_CATEGORIES]);
bool bt_phase_lives(const bt_phase *phase, int64_t value, int64_t step);

size_t bt_arena_planned(const bt_context *context); /* planned: of the largest phase */
size_t bt_arena_used(const bt_context *context);    /* up to the last byte that is written */
void bt_engine_note_touched(bt_engine *engine);     /* how far it has been written, in engine->standing */

#endif
