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
    bool loop;                      /* it runs again and again: what it reads of its phase, the next round reads too */
    bool simplify;                  /* algebra, values computed twice, and what nobody reads */
    bool reassociate;               /* chains of matrix products in the cheapest order */
    bool fuse;                      /* what goes into a product is computed within it */
    bool absorb;                    /* what alone reads a value is computed together with it */
    size_t bucket;                  /* bytes of sums over the ranks that are joined, at most; 0: each by itself */
    bool order;                     /* steps in the order that holds fewer bytes, where there is one */
    bt_order_rule rule; /* of plan/order.h, by which they are ordered then; BT_ORDERS: whichever holds fewest bytes */
    bool rows;          /* arithmetic on a few numbers, many steps as one call */
    bool strips;        /* arithmetic of an optimiser on many numbers, strip by strip as one call */
    bool chain;   /* elementwise steps that follow one another as one call, where the device has a kernel for it */
    bool merge;   /* values are written over others that die */
    bool overlap; /* collectives may be under way while steps run that do not need them; not by default: more is alive
                   * then */
    const bt_var *spent; /* of a phase: nobody reads it after this program, so its memory may be reused; NULL: none */
    bt_level_checkpointing *levels; /* what is computed again rather than held; goes with the pass of orders */
    int level_count;
    bool spaces;           /* there are two memories: what is kept in host memory is copied out and back, */
    int64_t ahead;         /* so many steps before it is read, and after it was computed: compile/spaces.c */
    size_t budget;         /* bytes that it may have alive: for levels with `checkpointing = budget`; 0: none */
    bool anything;         /* it also applies to values for which no level says anything */
    const bt_world *world; /* the rank that it is one of; NULL: there is one */
    bool regather;         /* what ranks divide may be gathered again for steps that run again: they must agree on it */
    bt_known *known;       /* searches of what runs again that have been made; NULL: none are kept */
    bt_holding holding;    /* of two parts of which the second runs again and again: for the code that makes them */
} bt_compile_options;

bt_compile_options bt_compile_defaults(const bt_kernel_table *kernels, int threads); /* all passes */

/* The graph stays the caller's. NULL after an error, which is in bt_error. */
bt_program *bt_compile_graph(const bt_graph *graph, const bt_compile_options *options);

/* The graph inlined and simplified, as bt_compile_graph begins, and of all ranks. NULL after an error. */
bt_graph *bt_compile_lowered(const bt_graph *graph, const bt_compile_options *options);
/* The rank's own graph, its operations chosen for good: with bt_compile_settle's options bt_compile_graph computes
 * these, with the same bits, whatever part of the graph it is given. */
bt_graph *bt_compile_settled(const bt_graph *graph, const bt_compile_options *options);
bt_compile_options bt_compile_settle(const bt_compile_options *options);

#endif
