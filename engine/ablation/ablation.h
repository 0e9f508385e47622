/* engine/ablation/ablation.h: betty-run --ablate: what each memory technique saves and costs, on each level.
 *
 *   choices.c   in a child: which values of which keys can be tried on which level of this run
 *   rows.c      the rows of the table, made from these
 *   turn.c      in a child: sets up one row, computes its first hypergradient, makes its steps
 *   ablate.c    rounds over all rows
 *   table.c     the results as text and Markdown
 *   picture.c   the results as bars and marks
 *
 *   offers.c    which of these techniques would help to meet a budget */
#ifndef BT_ABLATION_H
#define BT_ABLATION_H

#include "base/base.h"
#include "engine/session/front.h"
#include "io/json.h"

/* Gives an engine its problems and settings, without setting it up. */
typedef bt_status bt_ablation_load_fn(void *user, bt_engine *engine);

typedef struct bt_ablation {
    bt_ablation_load_fn *load; /* called in child processes */
    void *user;
    const char *level;  /* only techniques on this level; NULL: all levels */
    const char *folder; /* folder for ablation.json, .md and .svg; NULL: runs/NAME-ablation-N, or none for a plan */
    int64_t steps;      /* the least number of leaf steps of a row in each round; 0: 20 */
    bool plan;          /* only plan, run nothing */
    bool json;          /* print ablation.json instead of the table */
    FILE *out;
    FILE *progress;                    /* NULL: nowhere */
    const volatile sig_atomic_t *stop; /* not 0: stop, and write the results so far; may be NULL */
} bt_ablation;

/* BT_ERROR_INTERRUPTED: stopped; the results so far are written. BT_ERROR_INTERNAL: the bytes measured in a row differ
 * from the plan; everything is written all the same. A row that fails says why; only a failure of the configured row is
 * an error. The calling process must have no threads. */
bt_status bt_ablate(const bt_ablation *ablation);

/* ---- from a row of ablation.json ---- */

double bt_ablation_sum(const json_t *bytes); /* of arena and persistent; NaN: there are none */
typedef struct bt_ablation_times {           /* of the rounds, in ms per step; NaN: there are none */
    double low, middle, high;
} bt_ablation_times;
bt_ablation_times bt_ablation_times_of(const json_t *row);

/* Changes that could help if a memory budget cannot be met. */
typedef struct bt_offers bt_offers;
/* For an engine whose set-up has failed; leaves it unchanged. NULL: the failure is not about a budget. */
bt_offers *bt_offers_new(bt_engine *engine);
void bt_offers_free(bt_offers *offers); /* NULL ok */
/* Plans some of them, in child processes, and reports which fit. Free the engine before this call if you can. */
bt_status bt_offers_try(bt_offers *offers, const bt_ablation *how, bt_text *text);

#endif
