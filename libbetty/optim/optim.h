/* optim/optim.h: optimisers as the engine uses them: settings, scalar state, and the traced update. */
#ifndef BT_OPTIM_H
#define BT_OPTIM_H

#include "optim/rule.h"
#include "runtime/variable.h"
#include <betty/optim.h>

/* ---- kinds: kinds.c ---- */

/* A definition with what the public record cannot say; user-defined ones get the safe answers. */
typedef struct bt_optimizer_kind {
    const bt_optimizer_def *def;
    bool flat; /* the update is elementwise, slots like the parameter: several may be handed over as one flat vector */
    bool elementwise; /* only this: type = sama can have its slope without examining its nodes */
    bool guarded;     /* the update itself leaves everything unchanged where rule->ok is false */
    bool codes;       /* slots are codes of 8 bits, except of small parameters and tables */
    unsigned fixed;   /* bit i: hypers[i] shapes the program: it is a constant, and no schedule may set it */
    unsigned (*slots)(const double *hypers);          /* bit i: def->slots[i] is kept with these values; NULL: all */
    bt_array (*table_slot)(int slot, bt_array param); /* def->slot of a table; NULL: that itself */
    bt_status (*check)(const char *what, const double *hypers); /* values that do not go together; NULL: all do */
} bt_optimizer_kind;

const bt_optimizer_def *bt_optimizer_builtin(int index);             /* in the order of kinds.h; NULL after the last */
const bt_optimizer_def *bt_optimizer_find(const char *name);         /* of that name, built in; NULL: none */
bt_optimizer_kind bt_optimizer_kind_of(const bt_optimizer_def *def); /* of a built-in record, or the safe answers */
int bt_hyper_count(const bt_hyper_def *hypers);                      /* up to the first without a name */
int bt_hyper_index(const bt_hyper_def *hypers, const char *name);    /* -1: none of that name */
int bt_slot_name_count(const char *const *slots);                    /* up to the first NULL */
/* A list of a record that goes on beyond BT_MAX_ITEMS entries is refused. kind: "optimizer" */
bt_status bt_record_fits(const char *kind, const char *name, const bt_hyper_def *hypers, const char *const *slots);

/* ---- what the learning rate does over the applied updates: scheduler.c; and after validations: plateau.c ---- */

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

bt_scheduler bt_scheduler_defaults(void); /* none; the rest as in PyTorch, where that has a default */
bt_status bt_scheduler_check(const bt_scheduler *scheduler);
/* base: F64 []; applied: I64 []; scale: F64 [] where the kind is plateau, else NULL. */
bt_tensor *bt_scheduler_lr(const bt_scheduler *scheduler, bt_tensor *base, bt_tensor *applied, bt_tensor *scale);
bool bt_scheduler_moves(const bt_scheduler *scheduler); /* false: lr is base at all times */

/* PyTorch's ReduceLROnPlateau: after more than `patience` values in a row that were no better than the best by the
 * threshold, lr becomes max(lr gamma, eta_min), unless that is less than eps away; then `cooldown` values do not count
 * as bad. */
typedef struct bt_plateau { /* what has been seen */
    double best;            /* NaN: nothing yet */
    int64_t bad, cooling;   /* values in a row that were no better; that are still not counted */
} bt_plateau;
bool bt_plateau_see(const bt_scheduler *scheduler, bt_plateau *plateau, double value); /* lr is to be reduced */

/* ---- an optimiser: optimizer.c ---- */

/* Before the update, after the gradient's scale is taken off. 0: no clipping. Both: by value first. */
typedef struct bt_clip {
    double norm;  /* of all segments together: g min(1, norm / (|g| + 1e-6)) */
    double value; /* every element into -value..value */
} bt_clip;

typedef struct bt_optimizer_group {
    char *name;                  /* "" for group 0 */
    double values[BT_MAX_ITEMS]; /* of the hyperparameters, in the definition's order */
    unsigned own;                /* bit i: set for this group, so it follows neither group 0 nor `schedule` */
    double lr_factor;            /* applied to the resulting "lr"; 1 at first; to be set before the first trace */
    bt_var *vars[BT_MAX_ITEMS];  /* F64 []: the values, where a program finds them; NULL: fixed, or before start */
    bt_var *rate;                /* F64 []: what "lr" came to in the last update; NULL: it is not kept */
    bt_var *scale;               /* F64 []: what plateaus have left of "lr", a factor; NULL: another scheduler */
} bt_optimizer_group;

struct bt_optimizer {
    bt_optimizer_kind kind;
    bt_optimizer_group *groups; /* at least one */
    int group_count;
    bt_scheduler scheduler; /* to be set before bt_optimizer_start */
    bt_clip clip;           /* likewise */
    bool started;
    bool keeps_rate;           /* likewise: the resulting "lr", for logging */
    bool narrow;               /* likewise: slots of floating numbers are kept in bf16, stochastically rounded */
    double tolerance;          /* likewise: where the gradient's norm is at most this, nothing moves; 0: always */
    bt_var *applied, *skipped; /* I64 []: updates made; updates left out because the gradient was not finite, */
    bt_var *rested;            /* and those left out by the tolerance; NULL: there is none */
    unsigned slots;            /* bit i: kind.def->slots[i] is kept; fixed by bt_optimizer_start */

    /* Of bt_optimizer_minimize only. */
    bt_module *module;
    bt_block blocks[BT_MAX_ITEMS]; /* [slot]: like the module's parameters */
};

/* An optimiser of this record, which must stay: how the engine makes one, user-defined or not. NULL with bt_fail where
 * the record is malformed. bt_optimizer_free frees it. */
bt_optimizer *bt_optimizer_of(const bt_optimizer_def *def);

/* Groups copy group 0 when they are added; a later bt_optimizer_set (group 0) reaches the groups without a value of
 * their own. Returns the new group's index, or -1. Values may change at any time, but once it has started, not if that
 * would need another program (a fixed hyperparameter, or a value that needs one more slot). */
int bt_optimizer_group_add(bt_optimizer *optimizer, const char *name);
bt_status bt_optimizer_group_set(bt_optimizer *optimizer, int group, const char *hyper, double value);

/* plateau.c: once started: one reduction of each group's lr; *reduced: whether one has become smaller. */
bt_status bt_optimizer_reduce(bt_optimizer *optimizer, bool *reduced);

/* Checks the settings and makes the scalar variables (category BT_OPTIMIZER). A second call does nothing. */
bt_status bt_optimizer_start(bt_optimizer *optimizer, const char *owner);
int bt_optimizer_slot_count(const bt_optimizer *optimizer);                  /* after start */
const char *bt_optimizer_slot_name(const bt_optimizer *optimizer, int slot); /* 0 <= slot < slot_count */

/* ---- slots: slots.c ---- */

typedef struct bt_slotted { /* a parameter that slots are for */
    bt_array like;          /* its shape and dtype */
    const char *name;       /* NULL: it has none */
    int group;
    bool table; /* its rows are looked up, few at a step: an embedding's */
} bt_slotted;

/* Shape and dtype of the parameter's slot. No elements: it has none. */
bt_array bt_slot_array(const bt_optimizer *optimizer, int slot, const bt_slotted *param);
/* A slot's block (BT_RUN, BT_OPTIMIZER), a window for each parameter that has it; order as bt_block_new has it. */
bt_status bt_slot_block(const bt_optimizer *optimizer, int slot, bt_block *block, const char *owner,
                        const bt_slotted *params, const int64_t *order, int64_t count);

/* ---- the update: update.c ---- */

/* A parameter, or, where kind.flat, any stretch of a block whose parameters are of one group. */
typedef struct bt_segment {
    int group;
    const char *name; /* of the parameter: what is rounded stochastically has its random numbers by it; else unread */
    bool narrow;      /* the parameter is kept in bf16: next_param is stochastically rounded */
    bt_tensor *param, *grad;        /* one shape, one floating dtype, f32 of what is kept in bf16 */
    bt_tensor *slots[BT_MAX_ITEMS]; /* [0 .. slot_count-1], as bt_slot_array says; NULL: param has none */
    bt_tensor *next_param;          /* results, f32 likewise */
    bt_tensor *next_slots[BT_MAX_ITEMS];
    bt_tensor *slope; /* where asked for: d (param - next_param) / d grad, elementwise; clipping by norm scales it */
} bt_segment;

typedef struct bt_update {
    bt_segment *segments;
    int64_t count;
    bt_tensor **whole; /* the gradients that those of the segments are parts of, of which the norm is taken, */
    int64_t wholes;    /* so many; 0: the segments' own */
    void (*schedule)(void *context, bt_rule *rule); /* the problem's; NULL: none */
    void *context;
    bt_tensor *made;   /* BT_BOOL []: whether the update is made; NULL: if the gradient is finite */
    bool slopes;       /* asked for; an update that is not elementwise poisons then */
    bt_tensor *norm;   /* results: of the gradient before clipping, F64 [] */
    bt_tensor *finite; /* BT_BOOL []: made, or the gradient is finite; */
    bt_tensor *ok;     /* and, with a tolerance, not within it: nothing changes where it is false */
    bt_tensor *lr;     /* of group 0, F64 []; NULL if there is no hyperparameter of that name */
    bt_tensor **rates; /* by group: what "lr" comes to, F64 []; NULL: nothing of the group is updated */
    /* By hyperparameter: what `schedule` has set, F64 [], and whether that is outside of its range, BT_BOOL []; NULL:
     * nothing is set. */
    bt_tensor *scheduled[BT_MAX_ITEMS], *strays[BT_MAX_ITEMS];
    bt_tensor *next_applied, *next_skipped;
    bt_tensor *next_rested; /* NULL: there is no tolerance */
} bt_update;

/* Records one update of all segments in the trace in progress and fills the results; assigns nothing. Mistakes
 * poison. */
void bt_optimizer_update(bt_optimizer *optimizer, bt_update *update);
/* slope.c: - d next / d grad, elementwise, times `scale`, of what the nodes of the trace in progress from `first` on
 * have made of grad. Where one of them mixes elements, and `elementwise` is not known beforehand, that poisons. */
bt_tensor *bt_update_slope(const char *what, bt_tensor *grad, bt_tensor *next, bt_tensor *scale, int64_t first,
                           bool elementwise);
/* Assigns next_applied, next_skipped and next_rested to the optimiser's variables; the segments are the caller's. */
void bt_optimizer_advance(bt_optimizer *optimizer, const bt_update *update);

#endif
