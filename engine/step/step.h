/* engine/step/step.h: the programs of one level, and one run of them: gradient, hypergradient, update; validation;
 * questions. */
#ifndef BT_STEP_H
#define BT_STEP_H

#include "engine/solve/solve.h"

typedef struct bt_update_part { /* a part of the block that is updated in one go: of a group, or one parameter */
    int group;
    const char *name;
    bt_var *param, *grad, *slots[BT_MAX_ITEMS];
} bt_update_part;

typedef struct bt_step_phase { /* gradient, hypergradient, update */
    bt_phase *phase;
    bt_micro_set micros;    /* what its own loss is taken on */
    bt_micro_part gradient; /* entries -1: none */
    bool joins;             /* the gradient and the first product are one program, and none of their own */
    int joined[BT_MAX_SHAPES][BT_MAX_SHAPES]; /* then its entries, by shape of its batch and of the lower one */
    int start;                                /* entry; -1: the loop begins where the last one ended */
    int update;
    int collect; /* entry; -1: the meta-batch is one call */
    bt_update_part *stretches;
    int64_t stretch_count;
    bool flat;              /* each is a stretch of the block, and of one group, and its update is elementwise */
    bt_update_part *pieces; /* what the update is made of instead: pieces.c */
    int64_t piece_count;    /* 0: it is not */
    bt_solve_site site;
} bt_step_phase;

typedef struct bt_valid_phase {
    bt_phase *phase;
    bt_var *batches; /* of the phase: where the loader's batches lie; NULL: in memory of the loader's own */
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

/* Builds the phases of every level again, within budgets. Automatic spacings grow if a budget needs it, and never
 * shrink again; spaced: they do not change. */
bt_status bt_levels_compile(bt_context *context);
bt_status bt_levels_compile_spaced(bt_context *context);
bt_status bt_levels_plan(bt_context *context);   /* likewise, whatever the budgets; lower levels first */
bt_status bt_level_compile(bt_problem *problem); /* those below it must have their phases */
void bt_problem_uncompile(bt_problem *problem);
bt_status bt_update_scalars(bt_context *context); /* host scalars; static ints, which may rebuild everything */

/* ---- budget.c ---- */

bool bt_budget_any(const bt_context *context); /* programs that are apart (context.h), those of a check, have none */
bt_status bt_budget_fit(const bt_context *context); /* phases that do not fit are made to fit as far as possible */
size_t bt_budget_over(const bt_context *context, const bt_phase *phase); /* bytes that it needs beyond its budget */
typedef struct bt_tight { /* the phase that is furthest from its budget */
    size_t over;          /* bytes that it needs beyond it; 0: all fit */
    const char *section;  /* of the budget, where that is for what is kept for the whole run, too; else NULL */
} bt_tight;
bt_status bt_budget_check(const bt_context *context, bt_tight *tight); /* fails where not all fit */
bt_status bt_budget_plan(const bt_context *context, bt_phase *phase);  /* bt_phase_plan, within the budgets */

/* ---- within.c ---- */

bt_status bt_compile_within(bt_context *context, bt_tight *tight); /* what the solves hold is chosen, too */

/* ---- step.c ---- */

bt_status bt_step_build(bt_problem *problem);
void bt_step_free(bt_problem *problem);
/* A small program in the step's phase: fn records the assigns. The entry; -1 after an error. */
int bt_step_add(bt_problem *problem, const char *part, void (*fn)(bt_problem *problem, bt_graph *graph));
/* update.c: of the stretches, or of the pieces, to the same bits. */
bt_status bt_update_trace(bt_problem *problem, bt_graph *graph, bool pieces);
bt_graph *bt_problem_retrace(bt_problem *problem, int kind); /* of a BT_PURE_ kind; NULL after an error */
bt_status bt_check_purity(bt_problem *problem);              /* purity.c */
/* joined.c: gradients by shape, and the first product, as one, if that pays. */
bt_status bt_joined_build(bt_problem *upper, bt_graph *const *gradients);

/* ---- gradient.c ---- */

/* problem->gradients like bt_params, as they are after a run: 0 if no update follows them. */
bt_status bt_gradient_read(const bt_problem *problem, bt_array to);

/* ---- start.c: how an inner loop begins ---- */

bt_status bt_start_build(bt_problem *problem); /* its entry in the step's phase, where there is a start */
bt_status bt_start_run(bt_problem *problem);   /* the parameters of `start`, the optimiser as at first */

/* ---- run.c ---- */

bt_status bt_step_gradient(bt_problem *problem); /* draws and leaves the hypergradient in problem->gradients */
bt_status bt_step_direct(bt_problem *problem); /* draws; the direct gradient, the adjoints; what is joined with them */
bt_status bt_step_again(bt_problem *problem, bool whole); /* on the last step's batches; whole: the hypergradient */
/* The direct gradient on the last step's newest `count` micro-batches. */
bt_status bt_step_newest(bt_problem *problem, int64_t count);
bt_status bt_step_update(bt_problem *problem); /* the update alone, on what bt_step_again has left */
bt_status bt_step_alone(bt_problem *problem);  /* one update, counted; no parent is called */
/* One update of a leaf on a batch that is not its stream's, counted, but in no trajectory. number: of its random ops.
 */
bt_status bt_step_on(bt_problem *problem, const bt_batch *batch, int64_t number);
bt_status bt_step_call(bt_problem *problem, bool *updated); /* the gradient; the update once the meta-batch is full */

/* ---- questions.c ---- */

void bt_questions_free(bt_problem *self);
/* What a step of the problem would have: `answer` runs a part of one, and everything that this changes is restored. */
typedef bt_status bt_answer_fn(bt_problem *self, void *user);
bt_status bt_question(bt_problem *self, bt_answer_fn *answer, void *user);
/* Such a question may be asked now, between two steps; else an error that names the function. */
bt_status bt_ask_between(bt_problem *self, const char *function);

/* ---- solution.c ---- */

/* x of a lower problem (with `adjoint`: what it is made from) in the next step of the upper one, like bt_params. */
bt_status bt_solution(bt_problem *upper, const bt_problem *lower, bool adjoint, bt_array result);

/* ---- validation.c ---- */

bt_status bt_validation_build(bt_problem *problem);
void bt_validation_free(bt_problem *problem);
bt_status bt_validate(bt_context *context, bool *any);

#endif
