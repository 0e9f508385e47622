/* optim/optim.h: optimisers as the engine uses them: settings, scalar state, and the traced update. */
#ifndef BT_OPTIM_H
#define BT_OPTIM_H

#include "optim/rule.h"
#include "runtime/variable.h"
#include <betty/optim.h>

/* ---- kinds: kinds.c ---- */

/* A definition with properties that the public record cannot express; user-defined ones get safe defaults. */
typedef struct bt_optimizer_kind {
    const bt_optimizer_def *def;
    bool flat; /* elementwise, with slots like the parameter: several parameters may be passed as one flat vector */
    bool elementwise; /* elementwise only: type = sama can use its slope without examining its nodes */
    bool guarded;     /* the update itself leaves everything unchanged if rule->ok is false */
    bool codes;       /* slots are 8-bit codes, except for small parameters and tables */
    unsigned fixed;   /* bit i: hypers[i] is a constant of the program, and no schedule may set it */
    unsigned (*slots)(const double *hypers);          /* bit i: def->slots[i] is kept with these values; NULL: all */
    bt_array (*table_slot)(int slot, bt_array param); /* replaces def->slot for tables; NULL: def->slot */
    bt_status (*check)(const char *what, const double *hypers); /* refuses combinations of values; NULL: none */
} bt_optimizer_kind;

const bt_optimizer_def *bt_optimizer_builtin(int index);             /* in the order of kinds.h; NULL after the last */
const bt_optimizer_def *bt_optimizer_find(const char *name);         /* the built-in one of that name; NULL: none */
bt_optimizer_kind bt_optimizer_kind_of(const bt_optimizer_def *def); /* of a built-in record, else safe defaults */
int bt_hyper_count(const bt_hyper_def *hypers);                      /* up to the first without a name */
int bt_hyper_index(const bt_hyper_def *hypers, const char *name);    /* -1: none of that name */
int bt_slot_name_count(const char *const *slots);                    /* up to the first NULL */
/* Refuses a record with a list of more than BT_MAX_ITEMS entries. kind: "optimizer" */
bt_status bt_record_fits(const char *kind, const char *name, const bt_hyper_def *hypers, const char *const *slots);

/* ---- the learning rate over the applied updates: scheduler.c; and after validations: plateau.c ---- */

/* With t applied updates so far and base the group's own lr, this update uses
 *   t < warmup             base (t + 1) / warmup, whatever the kind; below, u = t - warmup
 *   BT_SCHEDULER_NONE      base
 *   BT_SCHEDULER_STEP      base gamma^floor(u / step_size)
 *   BT_SCHEDULER_MULTISTEP base gamma^(how many milestones <= u)
 *   BT_SCHEDULER_COSINE    eta_min + (base - eta_min) (1 + cos(pi u / t_max)) / 2, which rises again after t_max
 *   BT_SCHEDULER_LINEAR    base (start + (end - start) min(u, total_iters) / total_iters), of the two factors
 *   BT_SCHEDULER_EXPONENTIAL base gamma^u
 *   BT_SCHEDULER_PLATEAU   base scale, which bt_optimizer_reduce has made smaller, for each group its own
 * as PyTorch's schedulers in closed form. A linear warm-up alone is BT_SCHEDULER_NONE with warmup > 0. */
typedef enum bt_scheduler_kind {
    BT_SCHEDULER_NONE,
    BT_SCHEDULER_STEP,
    BT_SCHEDULER_MULTISTEP,
    BT_SCHEDULER_COSINE,
    BT_SCHEDULER_LINEAR,
    BT_SCHEDULER_EXPONENTIAL,
    BT_SCHEDULER_PLATEAU
} bt_scheduler_kind;

typedef struct bt_scheduler {
    bt_scheduler_kind kind;
    int64_t warmup;                   /* updates; 0: none */
    int64_t step_size;                /* >= 1 */
    int64_t milestones[BT_MAX_ITEMS]; /* ascending, >= 0 */
    int milestone_count;
    double gamma;                    /* > 0; plateau: < 1 */
    int64_t t_max;                   /* >= 1 */
    double eta_min;                  /* >= 0; of a plateau, too */
    double start_factor, end_factor; /* linear: > 0, >= 0 */
    int64_t total_iters;             /* linear: >= 1 */
    int mode, threshold_mode;        /* plateau: 0 min, 1 max; 0 rel, 1 abs */
    int64_t patience, cooldown;      /* plateau: validations, >= 0 */
    double threshold, eps;           /* plateau: >= 0 */
} bt_scheduler;

bt_scheduler bt_scheduler_defaults(void); /* BT_SCHEDULER_NONE; the rest as in PyTorch, if it has a default */
bt_status bt_scheduler_check(const bt_scheduler *scheduler);
/* base: F64 []; applied: I64 []; scale: F64 [] if the kind is plateau, else NULL. */
bt_tensor *bt_scheduler_lr(const bt_scheduler *scheduler, bt_tensor *base, bt_tensor *applied, bt_tensor *scale);
bool bt_scheduler_moves(const bt_scheduler *scheduler); /* false: lr is always base */

/* PyTorch's ReduceLROnPlateau: after more than `patience` values in a row that did not improve on the best by the
 * threshold, lr becomes max(lr gamma, eta_min), unless that changes it by eps or less. After that, `cooldown` values do
 * not count as bad. */
typedef struct bt_plateau { /* the values seen so far */
    double best;            /* NaN: nothing yet */
    int64_t bad, cooling;   /* values in a row without improvement; values still not to be counted */
} bt_plateau;
bool bt_plateau_see(const bt_scheduler *scheduler, bt_plateau *plateau, double value); /* lr is to be reduced */

/* ---- an optimiser: optimizer.c ---- */

/* Applied before the update, after unscaling the gradient. 0: no clipping. With both, by value first. */
typedef struct bt_clip {
    double norm;  /* of all segments together: g min(1, norm / (|g| + 1e-6)) */
    double value; /* clamps every element to -value .. value */
} bt_clip;

typedef struct bt_optimizer_group {
    char *name;                  /* "" for group 0 */
    double values[BT_MAX_ITEMS]; /* of the hyperparameters, in the definition's order */
    unsigned own;                /* bit i: set for this group, so it follows neither group 0 nor `schedule` */
    double lr_factor;            /* applied to the resulting "lr"; initially 1; set before the first trace */
    bt_var *vars[BT_MAX_ITEMS];  /* F64 []: the values, for programs to read; NULL: fixed, or before start */
    bt_var *rate;                /* F64 []: the "lr" of the last update; NULL: not kept */
    bt_var *scale;               /* F64 []: the factor of "lr" after plateaus; NULL: another scheduler */
} bt_optimizer_group;

struct bt_optimizer {
    bt_optimizer_kind kind;
    bt_optimizer_group *groups; /* at least one */
    int group_count;
    bt_scheduler scheduler; /* set before bt_optimizer_start */
    bt_clip clip;           /* set before bt_optimizer_start */
    bool started;
    bool keeps_rate;  /* set before start: keep the resulting "lr", for logging */
    bool narrow;      /* set before start: floating-point slots are kept in bf16, stochastically rounded */
    double tolerance; /* set before start: nothing moves if the gradient's norm is at most this; 0: always moves */
    bt_var *applied, *skipped; /* I64 []: updates made; updates skipped because the gradient was not finite */
    bt_var *rested;            /* I64 []: updates skipped by the tolerance; NULL: there is none */
    unsigned slots;            /* bit i: kind.def->slots[i] is kept; fixed by bt_optimizer_start */

    /* Of bt_optimizer_minimize only. */
    bt_module *module;
    bt_block blocks[BT_MAX_ITEMS]; /* [slot]: like the module's parameters */
};

/* An optimiser of this record, user-defined or not; the record must outlive it. NULL with bt_fail if the record is
 * malformed. Free it with bt_optimizer_free. */
bt_optimizer *bt_optimizer_of(const bt_optimizer_def *def);

/* A new group copies group 0; a later bt_optimizer_set (group 0) reaches the groups without their own value. Returns
 * the new group's index, or -1. Values may change at any time; but once started, not if that would need another program
 * (a fixed hyperparameter, or a value that needs one more slot). */
int bt_optimizer_group_add(bt_optimizer *optimizer, const char *name);
bt_status bt_optimizer_group_set(bt_optimizer *optimizer, int group, const char *hyper, double value);

/* plateau.c: after start: reduces each group's lr once; *reduced: whether any has become smaller. */
bt_status bt_optimizer_reduce(bt_optimizer *optimizer, bool *reduced);

/* Checks the settings and makes the scalar variables (category BT_OPTIMIZER). A second call does nothing. */
bt_status bt_optimizer_start(bt_optimizer *optimizer, const char *owner);
int bt_optimizer_slot_count(const bt_optimizer *optimizer);                  /* after start */
const char *bt_optimizer_slot_name(const bt_optimizer *optimizer, int slot); /* 0 <= slot < slot_count */

/* ---- slots: slots.c ---- */

typedef struct bt_slotted { /* a parameter with slots */
    bt_array like;          /* its shape and dtype */
    const char *name;       /* NULL: it has none */
    int group;
    bool table; /* an embedding's: its rows are looked up, few per step */
} bt_slotted;

/* Shape and dtype of the parameter's slot; no elements: it has no such slot. */
bt_array bt_slot_array(const bt_optimizer *optimizer, int slot, const bt_slotted *param);
/* A slot's block (BT_RUN, BT_OPTIMIZER), with a window for each parameter that has the slot; order as in bt_block_new.
 */
bt_status bt_slot_block(const bt_optimizer *optimizer, int slot, bt_block *block, const char *owner,
                        const bt_slotted *params, const int64_t *order, int64_t count);

/* ---- the update: update.c ---- */

/* A parameter or, if kind.flat, any stretch of a block whose parameters belong to one group. */
typedef struct bt_segment {
    int group;
    const char *name;               /* the parameter's name, which seeds stochastic rounding; else unread */
    bool narrow;                    /* the parameter is kept in bf16: next_param is stochastically rounded */
    bt_tensor *param, *grad;        /* one shape, one floating dtype; f32 if stored in bf16 */
    bt_tensor *slots[BT_MAX_ITEMS]; /* [0 .. slot_count-1], as bt_slot_array says; NULL: param lacks it */
    bt_tensor *next_param;          /* results; f32 if stored in bf16 */
    bt_tensor *next_slots[BT_MAX_ITEMS];
    bt_tensor *slope; /* on request: d (param - next_param) / d grad, elementwise; clipping by norm scales it */
} bt_segment;

typedef struct bt_update {
    bt_segment *segments;
    int64_t count;
    bt_tensor **whole; /* the whole gradients of which the segments' are parts, for the norm */
    int64_t wholes;    /* how many; 0: uses the segments' own */
    void (*schedule)(void *context, bt_rule *rule); /* the problem's schedule; NULL: none */
    void *context;
    bt_tensor *made;   /* BT_BOOL []: whether the update is made; NULL: it is if the gradient is finite */
    bool slopes;       /* slopes are requested; an update that is not elementwise then poisons */
    bt_tensor *norm;   /* results: the gradient's norm before clipping, F64 [] */
    bt_tensor *finite; /* BT_BOOL []: `made`, or whether the gradient is finite */
    bt_tensor *ok;     /* finite, and with a tolerance, above it; if false, nothing changes */
    bt_tensor *lr;     /* of group 0, F64 []; NULL: there is no hyperparameter "lr" */
    bt_tensor **rates; /* by group: the resulting "lr", F64 []; NULL: nothing in the group is updated */
    /* By hyperparameter: the value set by `schedule`, F64 [], and whether it is out of range, BT_BOOL []; NULL: not
     * set. */
    bt_tensor *scheduled[BT_MAX_ITEMS], *strays[BT_MAX_ITEMS];
    bt_tensor *next_applied, *next_skipped;
    bt_tensor *next_rested; /* NULL: there is no tolerance */
} bt_update;

/* Records one update of all segments in the current trace and fills in the results; assigns nothing. Mistakes poison.
 */
void bt_optimizer_update(bt_optimizer *optimizer, bt_update *update);
/* slope.c: - d next / d grad, elementwise, times `scale`, through the nodes of the current trace from `first` on.
 * Poisons if one of them mixes elements, unless the update is known to be `elementwise`. */
bt_tensor *bt_update_slope(const char *what, bt_tensor *grad, bt_tensor *next, bt_tensor *scale, int64_t first,
                           bool elementwise);
/* Assigns next_applied, next_skipped and next_rested to the optimiser's variables; the caller assigns the segments. */
void bt_optimizer_advance(bt_optimizer *optimizer, const bt_update *update);

#endif
