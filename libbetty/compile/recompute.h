/* compile/recompute.h: what policy.c and recompute.c share. */
#ifndef BT_RECOMPUTE_H
#define BT_RECOMPUTE_H

#include "compile/arrays.h"
#include "compile/checkpointing.h"
#include "plan/known.h"

typedef struct bt_recompute {
    const bt_compilation *c;
    const bt_order *given;     /* the steps in the order that is looked at, */
    const bt_call_step **step; /* and each of them in the program */
    const bt_remat *remat;     /* of these */
    const int *level;          /* by step: the place of its level in the options; -1: it has none there */
    int64_t simulations;       /* that a search may take */
    bool searched;             /* the result: one was made */
    double merit;              /* likewise: how little work fewer bytes take, whatever the budget; less is better */
    bt_known *known;           /* searches that have been made */
    bt_region *region;         /* goes with the look at this order */
    bt_remat_choice choice;    /* the result: what the policies drop, */
    bt_remat_plan plan;        /* and what follows from it */
} bt_recompute;

bool bt_recompute_wanted(const bt_compilation *c);
/* Orders the program's steps, some of which run again. */
bt_status bt_recompute_steps(bt_compilation *c, const bt_arrays *arrays);

/* policy.c: drops what each bt_checkpoint, the checkpointing of each level and the budget say. */
bt_status bt_policy_drop(bt_recompute *r);

#endif
