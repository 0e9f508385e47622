/* compile/program.h: a compiled graph: a list of kernel calls on buffers. It never changes and contains no addresses:
 * runtime/bind.h supplies these, once for each place where it runs. */
#ifndef BT_PROGRAM_H
#define BT_PROGRAM_H

#include "compile/kernels.h"
#include "graph/variable.h"
#include "transform/shard.h"

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
    const bt_node *node;  /* the node that computes it, or that needs it as scratch */
    int64_t first, last;  /* steps that touch it; of a root: those of everything merged into it */
    int64_t read, busy;   /* the last step that touches it; up to which step collectives under way use it */
    int64_t moving;       /* up to which step moves under way use it */
    int64_t root;         /* the buffer whose place it has; itself, unless merged */
    bt_var *var;          /* BT_HOME_VAR: the root variable, and the first byte there; else NULL and 0 */
    size_t start;
    bt_space space;
    const void *constant;
    bool result;   /* an output of the graph: kept to the end */
    int64_t saved; /* of a forward value: the last step of its derivatives that reads it; 0: none */
} bt_buffer;

typedef struct bt_operand { /* where a view begins */
    int64_t buffer;
    size_t offset; /* bytes */
} bt_operand;

typedef struct bt_call_step {
    const bt_kernel_impl *kernel;
    bt_call call; /* its views have no data */
    bt_operand *in, *out;
    int64_t scratch; /* buffer; -1: none */
    bool again;      /* its values have been computed before: compile/recompute.c */
    int64_t until;  /* of a collective or a move: it uses its operands and results up to this step, before which it must
                       be done; others: 0 */
    int64_t awaits; /* how many of the collectives under way must be done before this step */
    int64_t move;   /* of a move: its number in the program, from 1 on; others: 0 */
    int64_t meets;  /* how many moves must be done before this step */
    const bt_node *node;
} bt_call_step;

typedef struct bt_tail { /* bytes behind a window that is written, to clear at the end */
    int64_t buffer;      /* the window with its tail */
    size_t bytes;
} bt_tail;

/* The passes, in their order: compile/pipeline.c. */
typedef enum bt_pass {
    BT_PASS_INLINE,
    BT_PASS_SIMPLIFY,
    BT_PASS_REASSOCIATE,
    BT_PASS_SHARD,
    BT_PASS_BUCKET,
    BT_PASS_FUSE,
    BT_PASS_ABSORB,
    BT_PASS_LOWER,
    BT_PASS_ORDER,
    BT_PASS_ROWS,
    BT_PASS_STRIPS,
    BT_PASS_CHAIN,
    BT_PASS_FLIGHT,
    BT_PASS_SPACES,
    BT_PASS_COMMIT,
    BT_PASS_LIVES,
    BT_PASS_MERGE,
    BT_PASSES
} bt_pass;
const char *bt_pass_name(bt_pass pass);

typedef struct bt_program {
    bt_graph *graph; /* as lowered: the nodes that steps point at */
    bt_region *region;
    bt_call_step *steps;
    int64_t step_count, step_capacity;
    bt_buffer *buffers;
    int64_t buffer_count, buffer_capacity;
    bt_operand *results; /* of the graph's outputs */
    bt_tail *tails;
    int64_t tail_count;
    const char *order;         /* the rule that ordered the steps; NULL: the pass did not run */
    size_t most;               /* bytes at the peak, as that pass counts them: rows may need less */
    int64_t again;             /* steps that run again */
    double extra;              /* their work, as a fraction of that of all others */
    double work, repeated;     /* of all steps, and of those that run again, in compile/work.h's operations: as the
                                  search counts them, before rows, strips and chains join steps */
    size_t held;               /* `most` without them; 0: none were sought */
    int64_t moves;             /* copies between the spaces */
    size_t moved[BT_SPACES];   /* bytes that they copy in a run, by destination */
    bt_sharded_report sharded; /* with ranks: what they send each other */
    double seconds[BT_PASSES]; /* the time of each pass; 0: it did not run */
} bt_program;

void bt_program_free(bt_program *program);

/* Whether the operand's memory is bound from outside before each run. */
bool bt_program_outside(const bt_program *program, bt_operand at);

bool bt_step_joins(const bt_call_step *step); /* its op is a collective */
bt_space bt_operand_space(const bt_program *program, bt_operand at);
/* How much one run gathers from the ranks, repeats included: calls, and elements of the whole values. */
void bt_program_gathered(const bt_program *program, int64_t *gathers, int64_t *elements);
/* A hash of all collectives of a run, in order: the same on all ranks that take part in them. */
uint64_t bt_program_meetings(const bt_program *program);

void bt_program_describe(const bt_program *program, bt_text *text); /* one step a line */

#endif
