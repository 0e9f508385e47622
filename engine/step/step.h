/* engine/step/step.h: the programs of one level, and one run of them: gradient, hypergradient, update; validation;
 * questions. */
#ifndef BT_STEP_H
#define BT_STEP_H

#include "engine/solve/solve.h"

typedef struct bt_update_part { /* a part of the block, updated in one go: a stretch of a group, or one parameter */
    int group;
    const char *name;
    bt_var *param, *grad, *slots[BT_MAX_ITEMS];
} bt_update_part;

typedef struct bt_step_phase { /* gradient, hypergradient, update */
    bt_phase *phase;
    bt_micro_set micros;                      /* the micro-batches of its own loss */
    bt_micro_part gradient;                   /* entries -1: none */
    bool joins;                               /* the gradient and the first product are one program instead of two */
    int joined[BT_MAX_SHAPES][BT_MAX_SHAPES]; /* then its entries, by the shapes of its own batch and the lower one */
    int start;                                /* entry; -1: an inner loop begins where the last one ended */
    int update;
    int collect; /* entry; -1: the meta-batch is one call */
    bt_update_part *stretches;
    int64_t stretch_count;
    bool flat;              /* each part is a stretch of the block within one group, and its update is elementwise */
    bt_update_part *pieces; /* updated instead of the stretches: pieces.c */
    int64_t piece_count;    /* 0: the stretches are updated */
    bt_solve_site site;
} bt_step_phase;

typedef struct bt_valid_phase {
    bt_phase *phase;
    bt_var *batches; /* of the phase: storage for the loader's batches; NULL: the loader has its own */
    bt_micro micros[BT_MAX_SHAPES];
    int entries[BT_MAX_SHAPES];
} bt_valid_phase;

typedef struct bt_eval_cache { /* bt_eval: one compiled function for each (fn, shapes) */
    bt_step_fn *fn;
    bt_batch *batch; /* template; NULL: none */
    bt_var *record;
    bt_phase *phase;
    bt_graph *graph; /* as first traced */
    int64_t calls;
    struct bt_eval_cache *next;
} bt_eval_cache;

/* ---- compile.c ---- */

/* Rebuilds the phases of all levels within the budgets. Automatic spacings grow if a budget requires it, and never
 * shrink again; spaced: they do not change. */
bt_status bt_levels_compile(bt_context *context);
bt_status bt_levels_compile_spaced(bt_context *context);
bt_status bt_levels_plan(bt_context *context);   /* likewise, ignoring budgets; lower levels first */
bt_status bt_level_compile(bt_problem *problem); /* the levels below it must have their phases */
void bt_problem_uncompile(bt_problem *problem);
bt_status bt_update_scalars(bt_context *context); /* host scalars; static ints, whose changes rebuild everything */

/* ---- budget.c ---- */

bool bt_budget_any(const bt_context *context); /* false for the separate programs of a check (`apart` in context.h) */
bt_status bt_budget_fit(const bt_context *context); /* makes phases fit that do not, as far as possible */
size_t bt_budget_over(const bt_context *context, const bt_phase *phase); /* bytes beyond its budget */
typedef struct bt_tight {                                                /* the phase that exceeds its budget most */
    size_t over;                                                         /* bytes beyond it; 0: all phases fit */
    const char *section; /* of the budget, if it also covers what is kept for the whole run; else NULL */
} bt_tight;
bt_status bt_budget_check(const bt_context *context, bt_tight *tight); /* fails unless all phases fit */
bt_status bt_budget_plan(const bt_context *context, bt_phase *phase);  /* bt_phase_plan within the budgets */

/* ---- within.c ---- */

bt_status bt_compile_within(bt_context *context, bt_tight *tight); /* also chooses what the solves hold */

/* ---- step.c ---- */

bt_status bt_step_build(bt_problem *problem);
void bt_step_free(bt_problem *problem);
/* Adds a small program, whose assigns fn records, to the step's phase. Returns its entry; -1 after an error. */
int bt_step_add(bt_problem *problem, const char *part, void (*fn)(bt_problem *problem, bt_graph *graph));
/* update.c: updates the stretches, or the pieces; the results are the same, bit for bit. */
bt_status bt_update_trace(bt_problem *problem, bt_graph *graph, bool pieces);
bt_graph *bt_problem_retrace(bt_problem *problem, int kind); /* of a BT_PURE_ kind; NULL after an error */
bt_status bt_check_purity(bt_problem *problem);              /* purity.c */
/* joined.c: joins the gradients (by shape) with the first product in one program, if that pays. */
bt_status bt_joined_build(bt_problem *upper, bt_graph *const *gradients);

/* ---- gradient.c ---- */

/* problem->gradients after a run, laid out like bt_params; 0 for parameters that are not updated. */
bt_status bt_gradient_read(const bt_problem *problem, bt_array to);

/* ---- start.c: how an inner loop begins ---- */

bt_status bt_start_build(bt_problem *problem); /* its entry in the step's phase, if there is a start */
bt_status bt_start_run(bt_problem *problem);   /* sets the parameters to `start`, and resets the optimiser */

/* ---- run.c ---- */

bt_status bt_step_gradient(bt_problem *problem); /* draws; leaves the hypergradient in problem->gradients */
bt_status bt_step_direct(bt_problem *problem); /* draws; the direct gradient, adjoints, and what is joined with them */
bt_status bt_step_again(bt_problem *problem, bool whole); /* on the last step's batches; whole: the hypergradient */
/* The direct gradient on the last step's newest `count` micro-batches. */
bt_status bt_step_newest(bt_problem *problem, int64_t count);
bt_status bt_step_update(bt_problem *problem); /* only the update, with the gradient that bt_step_again left */
bt_status bt_step_alone(bt_problem *problem);  /* one update, which counts; calls no parent */
/* One update of a leaf on a batch from elsewhere. It counts, but is not recorded in a trajectory. number: the counter
 * for random ops. */
bt_status bt_step_on(bt_problem *problem, const bt_batch *batch, int64_t number);
bt_status bt_step_call(bt_problem *problem, bool *updated); /* the gradient; and the update if the meta-batch is full */

/* ---- questions.c ---- */

void bt_questions_free(bt_problem *self);
/* Asks what a step of the problem would compute: `answer` runs part of one, and everything that this changes is
 * restored. */
typedef bt_status bt_answer_fn(bt_problem *self, void *user);
bt_status bt_question(bt_problem *self, bt_answer_fn *answer, void *user);
/* Whether such a question may be asked now, between two steps; if not, an error that names the function. */
bt_status bt_ask_between(bt_problem *self, const char *function);

/* ---- solution.c ---- */

/* x of a lower problem (with `adjoint`: the adjoint from which it is computed) in the upper problem's next step, laid
 * out like bt_params. */
bt_status bt_solution(bt_problem *upper, const bt_problem *lower, bool adjoint, bt_array result);

/* ---- validation.c ---- */

bt_status bt_validation_build(bt_problem *problem);
void bt_validation_free(bt_problem *problem);
bt_status bt_validate(bt_context *context, bool *any);

#endif
