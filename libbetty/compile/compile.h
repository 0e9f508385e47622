/* compile/compile.h: compiles a graph into a program, with a list of passes. */
#ifndef BT_COMPILE_H
#define BT_COMPILE_H

#include "compile/checkpointing.h"
#include "compile/hold.h"
#include "compile/program.h"
#include "plan/known.h"
#include "plan/order.h"
#include "transform/shard.h"

enum { BT_AHEAD = 2 }; /* bt_compile_options.ahead, unless it is changed */

/* What a program is compiled for, and the passes that can be switched off. None of them changes what a program
 * computes; without them it needs more memory or time. */
typedef struct bt_compile_options {
    const bt_kernel_table *kernels; /* of the device */
    int threads;                    /* of one kernel; at least 1 */
    bool loop;                      /* it runs repeatedly: what it reads of its phase, the next round reads too */
    bool simplify;                  /* algebra; removes duplicate and unread values */
    bool reassociate;               /* chains of matrix products in the cheapest order */
    bool fuse;                      /* folds sums and factors into matrix products */
    bool absorb;                    /* computes a value together with its only reader */
    size_t bucket;                  /* joins sums over ranks, at most this many bytes; 0: each by itself */
    bool order;                     /* puts steps in an order that holds fewer bytes */
    bt_order_rule rule;             /* the rule of plan/order.h for that; BT_ORDERS: whichever holds the fewest bytes */
    bool rows;                      /* arithmetic on a few numbers, many steps as one call */
    bool strips;                    /* arithmetic of an optimiser on many numbers, strip by strip as one call */
    bool chain;   /* elementwise steps that follow one another as one call, where the device has a kernel for it */
    bool merge;   /* values overwrite others that die */
    bool overlap; /* collectives run beside steps that do not need them; off by default, as more is alive */
    const bt_var *spent; /* a phase's variable that nobody reads later, so its memory may be reused; NULL: none */
    bt_level_checkpointing *levels; /* per level: what is recomputed instead of held; part of the order pass */
    int level_count;
    bool spaces;           /* there are two memories: values in host memory are copied out and back */
    int64_t ahead;         /* steps that a copy may take: compile/spaces.c */
    size_t budget;         /* bytes that may be alive, for levels with `checkpointing = budget`; 0: no budget */
    bool anything;         /* the budget also covers values for which no level has a policy */
    const bt_world *world; /* all ranks, and which one this is; NULL: there is only one */
    bool regather;         /* steps that run again may gather again; all ranks must agree on this */
    bt_known *known;       /* finished searches of what runs again; NULL: none are kept */
    bt_holding holding;    /* for code that splits a computation in two parts, the second of which runs repeatedly */
} bt_compile_options;

bt_compile_options bt_compile_defaults(const bt_kernel_table *kernels, int threads); /* all passes */

/* The graph stays the caller's. NULL after an error, which is in bt_error. */
bt_program *bt_compile_graph(const bt_graph *graph, const bt_compile_options *options);

/* The graph inlined and simplified, as bt_compile_graph does first; still of all ranks. NULL after an error. */
bt_graph *bt_compile_lowered(const bt_graph *graph, const bt_compile_options *options);
/* The rank's own graph, with its final operations: with bt_compile_settle's options, bt_compile_graph computes exactly
 * these, bit for bit, whatever part of the graph it is given. */
bt_graph *bt_compile_settled(const bt_graph *graph, const bt_compile_options *options);
bt_compile_options bt_compile_settle(const bt_compile_options *options);

#endif
