/* compile/recompute.h: what policy.c and recompute.c share. */
#ifndef BT_RECOMPUTE_H
#define BT_RECOMPUTE_H

#include "compile/arrays.h"
#include "compile/checkpointing.h"
#include "plan/known.h"

typedef struct bt_recompute {
    const bt_compilation *c;
    const bt_order *given;     /* the steps in the order being tried */
    const bt_call_step **step; /* each of them in the program */
    const bt_remat *remat;     /* of `given` */
    const int *level;          /* by step: the index of its level in the options; -1: not there */
    int64_t simulations;       /* how many a search may take */
    bool searched;             /* result: a search was made */
    double merit;              /* result: the extra work that fewer bytes cost, whatever the budget; lower is better */
    bt_known *known;           /* finished searches */
    bt_region *region;         /* freed once this order has been tried */
    bt_remat_choice choice;    /* result: what the policies drop */
    bt_remat_plan plan;        /* result: the plan that follows */
} bt_recompute;

bool bt_recompute_wanted(const bt_compilation *c);
/* Orders the program's steps, some of which run again. */
bt_status bt_recompute_steps(bt_compilation *c, const bt_arrays *arrays);

/* policy.c: applies each bt_checkpoint, each level's checkpointing and the budget. */
bt_status bt_policy_drop(bt_recompute *r);

#endif
