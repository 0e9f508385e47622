/* compile/compile_inside.h: what the passes share. */
#ifndef BT_COMPILE_INSIDE_H
#define BT_COMPILE_INSIDE_H

#include "compile/compile.h"

typedef struct bt_look { /* a tensor as a look at a buffer */
    bt_operand at;
    bt_view view;
    bt_dtype rounds; /* a 16-bit dtype: each reader rounds the numbers to it; else BT_F32 */
} bt_look;

typedef struct bt_compilation {
    const bt_compile_options *options;
    const bt_graph *source; /* the caller's */
    bt_program *program;    /* its graph is the result of the graph passes; NULL before the first */
    bt_look *looks;         /* by tensor of this graph; from lowering on */
    bt_tensor **stored;     /* by tensor: its cast to 16 bits if that is its only reader; else NULL */
    bool *stowed;           /* by assign: a move copies the value out to its variable; NULL: none does */
    bt_look *in;            /* room for a call while a kernel for it is sought */
    bt_view *trial;
    int64_t in_room, trial_room;
} bt_compilation;

/* From the graph to the program. */
bt_status bt_pass_lower(bt_compilation *c);  /* lower.c: nodes to steps and buffers */
bt_status bt_pass_order(bt_compilation *c);  /* order.c: the order of the steps */
bt_status bt_pass_rows(bt_compilation *c);   /* rows.c: many short steps as one */
bt_status bt_pass_strips(bt_compilation *c); /* rows.c: an optimiser's long steps as one */
bt_status bt_pass_chain(bt_compilation *c);  /* chain.c: elementwise steps as one */
bt_status bt_pass_flight(bt_compilation *c); /* flight.c: how long collectives may be under way */
bt_status bt_pass_spaces(bt_compilation *c); /* spaces.c: copies to the host's memory and back */
bt_status bt_pass_commit(bt_compilation *c); /* commit.c: where assigned values and results live */
bt_status bt_pass_lives(bt_compilation *c);  /* merge.c: first and last steps of buffers */
bt_status bt_pass_merge(bt_compilation *c);  /* merge.c: which values overwrite others */

bool bt_compile_takes(const bt_node *node, void *compilation);         /* a kernel takes this composite as it is */
int64_t bt_program_buffer(bt_program *program, const bt_buffer *like); /* a new one; -1: out of memory */
/* Converts the numbers if the look's dtype is not the shape's. */
bt_status bt_compile_copy(bt_compilation *c, const bt_node *node, bt_look from, bt_operand to, bt_array shape);

/* The last step during which step s uses its operands and results: s itself, unless it stays under way longer. */
int64_t bt_step_ends(const bt_program *program, int64_t s);

/* Whether input i of the step covers exactly the bytes that output o needs, and the op allows overwriting it. */
bool bt_step_overwrites(const bt_program *program, const bt_call_step *step, int o, int i, size_t bytes);

/* Adapts a kernel of a user's bt_op; NULL if the op has none for this call on the table's device (its inputs must be
 * dense). */
const bt_kernel_impl *bt_user_kernel(const bt_kernel_table *table, const bt_call *call);
bool bt_kernel_is_users(const bt_kernel_impl *kernel);

#endif
