/* engine/level/stage.h: what an engine is doing, and which calls are therefore allowed. */
#ifndef BT_STAGE_H
#define BT_STAGE_H

#include "base/base.h"

typedef struct bt_context bt_context; /* context.h */

typedef enum bt_stage {
    BT_STAGE_NEW,        /* settings and problems are being added */
    BT_STAGE_SETUP,      /* data are opened, callbacks traced, phases planned */
    BT_STAGE_READY,      /* nothing is under way */
    BT_STAGE_RUN,        /* in bt_engine_run or a check, between two steps */
    BT_STAGE_STEP,       /* in a leaf's step, between programs: epoch_callback, on_inner_loop_start */
    BT_STAGE_VALIDATION, /* in a validation, between programs: validation_end */
    BT_STAGE_PROGRAM,  /* programs run or are recompiled (get_batch, host scalars): no new ones, and no stream moves */
    BT_STAGE_QUESTION, /* likewise, to answer a question */
    BT_STAGE_SAYING,   /* a line is passed to the function of bt_engine_log, which may not call the engine */
    BT_STAGE_FAILED,   /* a call failed halfway: all later ones fail with its error */
    BT_STAGES
} bt_stage;

typedef enum bt_request {
    BT_REQUEST_CONFIGURE, /* bt_engine_load, bt_engine_use, bt_engine_set */
    BT_REQUEST_CHANGE,    /* bt_engine_set, after planning, of a key that may still change */
    BT_REQUEST_VALUES,    /* bt_engine_read, bt_engine_write and the like */
    BT_REQUEST_LOG,       /* bt_engine_log */
    BT_REQUEST_LOOK,      /* bt_engine_problem, bt_engine_print */
    BT_REQUEST_RUN,       /* bt_engine_run, the check of hypergradients */
    BT_REQUEST_SAVE,      /* bt_engine_save, bt_engine_resume */
    BT_REQUEST_STATE,     /* bt_state */
    BT_REQUEST_REWIRE,    /* bt_set_dependency */
    BT_REQUEST_EVAL,      /* bt_eval */
    BT_REQUEST_QUESTION,  /* bt_hypergradient, bt_valid_batch, bt_adapt, bt_restore */
    BT_REQUESTS
} bt_request;

/* Stages nest: a question within a step, a validation within a run. When one ends, the one around it continues. */
typedef struct bt_stages {
    bt_stage list[BT_STAGES]; /* the innermost last; no stage contains itself */
    int depth;
} bt_stages;

bt_stage bt_stage_now(const bt_context *context);
bool bt_stage_within(const bt_context *context, bt_stage stage); /* it is the present stage, or one around it */
void bt_stage_enter(bt_context *context, bt_stage stage);
void bt_stage_leave(bt_context *context);

const char *bt_stage_refusal(bt_stage stage, bt_request call); /* why the call is refused then; NULL: it is allowed */
/* Whether the call may be made now; if not, an error that says why, and what to do. */
bt_status bt_context_may(const bt_context *context, bt_request call, const char *function);

#endif
