/* runtime/program.h: a graph compiled for a backend: a list of kernel calls on buffers. */
#ifndef BT_PROGRAM_H
#define BT_PROGRAM_H

#include "runtime/backend.h"
#include "runtime/variable.h"

typedef enum bt_home {
    BT_HOME_ARENA,    /* a transient: the phase gives it a place */
    BT_HOME_VAR,      /* a window of a variable */
    BT_HOME_CONSTANT, /* bytes of the graph */
    BT_HOME_MERGED    /* written over another buffer, whose place it has */
} bt_home;

typedef struct bt_buffer {
    bt_home home;
    size_t bytes;
    bt_category category; /* activations or workspace */
    const bt_node *node;  /* who computes it; of scratch: who needs it */
    int64_t first, last;  /* steps that touch it; of a root: those of everything merged into it */
    int64_t root;         /* the buffer whose place it has; itself, unless merged */
    bt_var *var;          /* BT_HOME_VAR: the root variable, and the first byte there; else NULL and 0 */
    size_t start;
    const void *constant;
    bool result;   /* an output of the graph: kept to the end */
    bool saved;    /* made in a forward pass and read by its derivative */
    int64_t place; /* the value of the phase that it begins in; -1: none */
} bt_buffer;

typedef struct bt_operand { /* where a view begins */
    int64_t buffer;
    size_t offset; /* bytes */
} bt_operand;

typedef struct bt_call_step {
    const bt_kernel_impl *kernel;
    bt_call call;
    bt_operand *in, *out;
    int64_t scratch; /* buffer; -1: none */
    const bt_node *node;
} bt_call_step;

typedef struct bt_patch { /* a pointer that changes from run to run: into a variable bound from outside */
    char **pointer;
    bt_var *var;
    size_t offset;
} bt_patch;

typedef struct bt_tail { /* bytes behind a window that is written, to clear at the end */
    int64_t buffer;      /* the window with its tail */
    size_t bytes;
    char *data;
} bt_tail;

typedef struct bt_program {
    bt_graph *graph; /* as lowered: the nodes that steps point at */
    const bt_backend *backend;
    int threads;
    bt_region *region;
    bt_call_step *steps;
    int64_t step_count, step_capacity;
    bt_buffer *buffers;
    int64_t buffer_count, buffer_capacity;
    bt_operand *results; /* of the graph's outputs */
    bt_patch *patches;   /* room for all */
    int64_t patch_count;
    bt_tail *tails;
    int64_t tail_count;
} bt_program;

/* Inlines what no kernel takes, simplifies, with `reassociate` orders chains of matrix products by cost, chooses
 * kernels, gives assigned values their homes. The graph stays the caller's. NULL after an error, which is in bt_error.
 */
bt_program *bt_program_new(const bt_graph *graph, const bt_backend *backend, int threads, bool reassociate);
void bt_program_free(bt_program *program);

/* The graph inlined and simplified, as bt_program_new begins. NULL after an error. */
bt_graph *bt_program_lowered(const bt_graph *graph, const bt_backend *backend, int threads);

/* Sets every pointer; `place` gives the address of each root that lies in the arena or in a variable of the phase. */
void bt_program_bind(bt_program *program, char *(*place)(void *user, const bt_buffer *root), void *user);
bt_status bt_program_run(bt_program *program);

/* A run in parts, for who looks at every step. */
bt_status bt_program_begin(bt_program *program); /* pointers into variables that are bound from outside */
bt_status bt_program_step(const bt_program *program, int64_t step);
void bt_program_end(const bt_program *program); /* clears what lies behind windows that were written */

void bt_program_describe(const bt_program *program, bt_text *text); /* one step a line */

/* ---- steps of compiling: lower.c, order.c, commit.c ---- */

typedef struct bt_look { /* a tensor as a look at a buffer */
    bt_operand at;
    bt_view view;
} bt_look;

bt_status bt_program_lower(bt_program *program, bt_look *looks);        /* looks: by tensor id */
bt_status bt_program_order(bt_program *program, const bt_look *looks);  /* the steps; order.c */
bt_status bt_program_commit(bt_program *program, const bt_look *looks); /* assigned values and results */
bt_status bt_program_merge(bt_program *program);                        /* lifetimes, writing in place */
int64_t bt_program_buffer(bt_program *program, const bt_buffer *like);  /* -1: out of memory */
bt_status bt_program_copy(bt_program *program, const bt_node *node, bt_look from, bt_operand to, bt_array shape);
/* Whether input i of the step shows exactly the bytes that output o will take, and the op allows writing over it. */
bool bt_step_overwrites(const bt_program *program, const bt_call_step *step, int o, int i, size_t bytes);
bool bt_view_dense(const bt_view *view);                   /* row-major without gaps */
bt_view bt_view_of(bt_array shape);                        /* dense, no data */
bool bt_program_keeps(const bt_node *node, void *program); /* a kernel takes this composite as it is */

/* Adapts a kernel of a user's bt_op; NULL if the op has none for this call (its inputs must be dense). */
const bt_kernel_impl *bt_user_kernel(const bt_call *call);

#endif
