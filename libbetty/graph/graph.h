/* graph/graph.h: the graph: an append-only list of nodes in static single assignment form.
 * A tensor is one output of one node: a dtype and a static shape, no data. A graph owns its nodes and tensors. */
#ifndef BT_GRAPH_H
#define BT_GRAPH_H

#include "base/base.h"
#include "base/map.h"
#include <betty/op.h>
#include <betty/tensor.h>

typedef struct bt_graph bt_graph;
typedef struct bt_node bt_node;
typedef struct bt_var bt_var; /* storage that outlives a program: graph/variable.h */

/* Only for bt_tag.low, because nothing is stored in it: f32, but a device may round the inputs of products to 11
 * significant bits. */
#define BT_TF32 ((bt_dtype)(BT_F16 + 1))

/* Where a node comes from. The graph owns the texts, and neighbouring nodes share them. */
typedef struct bt_tag {
    const char *owner; /* the problem whose callback recorded it; "" if none */
    const char *level; /* the problem whose module recorded it within that callback; outside modules the owner */
    const char *path;  /* module path: "classifier.layer2.0"; "" outside a module */
    const char *call; /* the op that was called, such as "layer_norm"; for nodes of a composite's body, the composite */
    uint32_t region;  /* the bt_checkpoint that it belongs to, numbered from 1 within the graph; 0: none */
    uint32_t site;    /* selects the random stream of a random op: bt_trace_site */
    int order;        /* order of differentiation: 0 in a forward pass, 1 in its gradient, ... */
    bool update;      /* part of an optimiser's update: compile/rows.c splits its long rows into strips */
    bool quiet;   /* a derivative records a body again; its prints and checks are left out, because the body has them
                     already */
    bt_mode mode; /* mode and dtype of the trace, for recording a body again */
    bt_dtype dtype;
    bt_dtype low; /* while recording: the dtype in which ops of the class BT_CAST_LOW compute; BT_F32: that of their
                     operands. Nodes of a graph have BT_F32 or BT_TF32, since casts to 16 bits are nodes of their own */
} bt_tag;

struct bt_tensor {
    bt_node *node; /* NULL: poisoned */
    int output;    /* which of the node's outputs */
    bt_dtype dtype;
    int rank;
    int64_t dims[BT_MAX_RANK];
    int batch_axis; /* the axis along which the examples of a batch lie; -1: none */
    bool weak;      /* made from a C number: takes the dtype of the other operand */
    bool params;    /* made by bt_params: differentiating by it means differentiating by the tensors that it joins */
    int64_t id;     /* dense within its graph, in order of creation */
};

struct bt_node {
    bt_graph *graph;
    const bt_op *op;
    const void *attr;
    size_t attr_size;
    int inputs, outputs;
    bt_tensor **in;
    bt_tensor *out;
    bt_tag tag;
    int64_t index;  /* its place in the graph */
    unsigned hides; /* flags of the ops in the op's body, at any depth; 0: none, or no body */
    uint64_t body;  /* hash of the op's body; 0: no body */
};

typedef struct bt_assign { /* at the end of a run, the variable is set to the value */
    bt_var *var;
    bt_tensor *value;
} bt_assign;

typedef struct bt_interned {
    const char *text, *copy; /* as given, which may have been freed; the graph's copy */
} bt_interned;

struct bt_graph {
    bt_region *region;
    bt_node **nodes;
    int64_t node_count, node_capacity, tensor_count;
    bt_assign *assigns;
    int64_t assign_count, assign_capacity;
    bt_tensor **outputs; /* to be kept besides the assigned values */
    int64_t output_count, output_capacity;
    const bt_op **held; /* ops whose records must outlive the graphs that use them */
    int64_t held_count, held_capacity;
    bt_interned interned[16]; /* recently given texts, by their address */
    const char *copies[32];   /* recently used copies, by the hash of their text */
    uint32_t regions;         /* numbers used so far by bt_checkpoint */
    bt_map leaves, assigned;  /* by variable: the node that reads it; its index in `assigns` */
    bt_tensor *poison;
    bt_status status;    /* of the first error; BT_OK: none */
    const char *message; /* of the first error */
};

/* ---- what the library knows about its own ops: bt_op.info points to it ---- */

/* Flags. Passes test these, never which op it is. */
enum {
    BT_OP_LEAF = 1,        /* no inputs, and not computed by a kernel: variable reads, constants */
    BT_OP_ELEMENTWISE = 2, /* out[i] depends on in[i] only; all shapes equal */
    BT_OP_LINEAR = 4,      /* linear in all its differentiable inputs together */
    BT_OP_RANDOM = 8,      /* depends on the tag's site */
    BT_OP_EFFECT = 16,     /* print, check: kept even if nobody reads it, and never merged */
    BT_OP_DETACH = 32, /* the identity with derivative zero, or one whose detach has been applied (transform/grad.h) */
    BT_OP_IDENTITY = 128, /* the output equals the input: removed once derivatives have been taken */
    BT_OP_CHEAP = 64,     /* cheaper to compute twice than to keep: views, broadcasts, constants */
    BT_OP_OWN_VJP = 256,  /* a user's op with its own derivative rule */
    BT_OP_OWN_JVP = 512,
    BT_OP_PRODUCT = 1024,    /* sums of products, compute-bound: matrix products, convolutions */
    BT_OP_SELECTS = 2048,    /* gives its first operand or 0, depending on signs, which rounding keeps: so it may be
                                applied before or after rounding */
    BT_OP_COLLECTIVE = 4096, /* computed by all ranks together: ops/collective.c; also an effect */
    BT_OP_EACH = 8192 /* takes any number of inputs and gives one output per input, which may overwrite it; infer is
                         called for one input at a time */
};

enum { BT_MAX_OUTPUTS = 8 };

/* Values of bt_shares.out_axis besides an axis and -1 (whole). SUMMED: the op sums over the rows, so the whole output
 * is the sum of the parts' outputs. UNITED: the op's `unite` makes the whole output from the parts'. */
enum { BT_BATCH_SUMMED = -2, BT_BATCH_UNITED = -3 };

/* How an op works on a part of its operands, which are split along one axis as a batch is split by rows: between ranks,
 * between pieces, or by example. */
typedef struct bt_shares {
    const void *attr;
    const bt_array *in; /* shapes of the whole inputs */
    int inputs;
    int64_t rows; /* the size of a split operand along its axis is a multiple of this. The rule may lower it to a number
                     of groups of rows that must stay together */
    int *in_axis; /* by input: the axis along which it is split; -1: whole. The rule stores what the op needs
                   */
    int out_axis[BT_MAX_OUTPUTS]; /* an axis, -1 (whole) or one of the values above; -1 at first */
    bool stacked; /* the output has the parts of several inputs one after another along its axis: each element belongs
                     to one row, but no rank holds its contiguous share of the output */
} bt_shares;

/* What `unite` knows about the ranks. */
typedef struct bt_union {
    const void *attr;
    int axis; /* along which input 0 is split */
    int rank, ranks;
    int64_t rows; /* of the whole batch */
} bt_union;

typedef struct bt_view { /* a strided view of a buffer; strides are in elements, 0 along broadcast axes */
    char *data;          /* NULL while planning */
    bt_dtype dtype;
    int rank;
    int64_t dims[BT_MAX_RANK], strides[BT_MAX_RANK];
} bt_view;

typedef struct bt_sampler bt_sampler; /* collects an op's test cases: ops/samples.h */

/* How an op treats 16-bit operands (ops/half.c). Most ops compute in f32 and store their single result in the dtype of
 * the operands. */
typedef enum bt_cast_class {
    BT_CAST_FOLLOW,
    BT_CAST_LOW,  /* if the level sets such a precision, operands and result are rounded to it */
    BT_CAST_HIGH, /* the result stays f32 */
    BT_CAST_ANY   /* only moves values, of any dtype */
} bt_cast_class;

typedef struct bt_op_info {
    unsigned flags;
    bt_cast_class cast;
    unsigned differentiable; /* bit i: input i has a derivative */
    unsigned linear;         /* bit i: linear in input i if the others are fixed, as the factors of a product */
    unsigned overwrites[BT_MAX_OUTPUTS]; /* [o] bit i: output o may overwrite input i, which has the same shape */
    double (*flops)(const void *attr, const bt_array *in, const bt_array *out); /* NULL: one per output element */
    /* Given how the inputs are split (at least one is), says how the outputs are; false: the op needs whole inputs.
     * NULL: an elementwise op works on any part; of others nothing is known. */
    bool (*shares)(bt_shares *shares);
    /* Changes attributes that contain sizes to those of a part. The part's output 0 has the shape `out`. `first`
     * elements of the whole precede it (along the first axis whose size is not 1; else 0). NULL: the attributes hold
     * for any part. */
    void (*localise)(void *attr, const bt_array *out, int64_t first);
    /* Records the whole outputs, computed from this rank's part of the inputs, which may have no rows. */
    void (*unite)(const bt_union *with, bt_tensor *const *in, bt_tensor **out);
    /* Makes output 0 a view of in[0] that starts *offset elements later; false: it must be computed. */
    bool (*view)(const void *attr, const bt_view *in, bt_view *out, int64_t *offset);
    double (*fold)(const double *in); /* the op on numbers, if elementwise, to fold constants; NULL: no folding */
    /* Returns an algebraically equal tensor of the current graph (x * 1 = x); NULL: none. */
    bt_tensor *(*simplify)(const void *attr, bt_tensor *const *in, int inputs);
    /* Merges this op into a node of the op `reader` that alone reads its output, as in[which]. Returns a tensor of the
     * current graph with exactly the same bits; NULL: not possible. */
    bt_tensor *(*absorb)(const bt_op *reader, bt_tensor *const *in, int which);
    void (*describe)(const void *attr, bt_text *text); /* prints the attributes, for dumps */
    void (*samples)(bt_sampler *sampler);
    struct bt_derived *derived; /* set if the op is the vjp or jvp of another op: transform/derive.c */
    void (*derived_body)(const bt_op *op, const void *attr, bt_tensor *const *in, bt_tensor **out); /* its body */
    void (*hold)(const bt_op *op, bool on); /* a graph starts (on) or ends using it; NULL: the record is constant */
} bt_op_info;

bt_guest bt_op_enter(const bt_op *op,
                     const char *function); /* call before one of its functions; names it if the op is a user's */
bt_view bt_view_of(bt_array shape);         /* dense, no data */
bool bt_view_dense(const bt_view *view);    /* row-major without gaps */
bool bt_view_repeats(const bt_view *view);  /* all elements are the same number */

unsigned bt_op_flags(const bt_op *op);
bool bt_node_any(const bt_node *node, unsigned flags); /* whether its op, or its body, has one of the flags */
int bt_op_outputs(const bt_op *op, int inputs);        /* at least 1 */
bt_status bt_op_infer(const bt_op *op, const void *attr, int inputs, const bt_array *in, bt_array *out);

/* The leaves, which the graph makes itself; their records are in ops/leaf.c. The attribute of a constant is its
 * values. */
extern const bt_op bt_op_read, bt_op_constant;
typedef struct bt_read_attr {
    bt_var *var;
} bt_read_attr;

/* ---- graph.c ---- */

bt_graph *bt_graph_new(void);
void bt_graph_free(bt_graph *graph);

/* Records an error unless there is one already. Returns the graph's poison. */
bt_tensor *bt_graph_fail(bt_graph *graph, bt_status status, const char *format, ...) BT_FORMAT(3, 4);
bool bt_poisoned(const bt_tensor *x); /* true also for NULL */

/* Appends a node: checks the number of inputs and calls infer. Copies attr_size bytes of attr. NULL: poisoned. */
bt_node *bt_graph_append(bt_graph *graph, const bt_op *op, const void *attr, size_t attr_size, bt_tensor *const *in,
                         int inputs, bt_tag tag);

/* Leaves: their only output has the given dtype and shape. A variable has one leaf per graph. */
bt_tensor *bt_graph_read(bt_graph *graph, bt_var *var);
bt_tensor *bt_graph_placeholder(bt_graph *graph, const bt_tensor *like); /* a leaf without a variable: a body's input */
bt_tensor *bt_graph_constant(bt_graph *graph, bt_array values);
void bt_graph_assign(bt_graph *graph, bt_var *var, bt_tensor *value); /* a later assign to the same variable wins */
/* For a node that was turned into a leaf after it was appended: from now on bt_graph_read finds it. */
void bt_graph_note_leaf(bt_node *node);
/* Removes all other nodes, which nobody may read, from the list; the rest keep their order. The memory is freed with
 * the graph. */
void bt_graph_keep(bt_graph *graph, const bool *nodes);
void bt_graph_retarget(bt_graph *graph, int64_t assign, bt_var *var);   /* assigns its value to another variable */
bt_tensor *bt_graph_assigned(const bt_graph *graph, const bt_var *var); /* the value assigned to it; NULL: none */
void bt_graph_output(bt_graph *graph, bt_tensor *value);
bt_tensor **bt_graph_list(bt_graph *graph, int64_t count); /* in the graph's memory: count + 1 NULLs */

const char *bt_graph_intern(bt_graph *graph, const char *text); /* the graph's own copy; shared with recent nodes */
bt_array bt_tensor_array(const bt_tensor *x);                   /* dtype and shape, no data */
int64_t bt_tensor_count(const bt_tensor *x);
size_t bt_tensor_bytes(const bt_tensor *x);
int bt_shares_axis(const bt_shares *shares); /* axis of the first split input; -1: none is split */
/* For rules: splits all inputs and the first `outputs` outputs along this axis. Returns true. */
bool bt_shares_along(bt_shares *shares, int axis, int outputs);
/* Calls the rule of the node's op. False: it has none, or needs whole inputs. */
bool bt_node_shares(const bt_node *node, bt_shares *shares);
/* The batch axis of output 0, if each part along it depends only on the same part of the inputs. `in` has the shapes of
 * the inputs; their size along the batch axis is a multiple of `rows` (0: the size itself). -1 or BT_BATCH_SUMMED: no
 * batch axis. axes: the inputs' batch axes, then room for as many more. */
int bt_node_batch_axis(const bt_node *node, const bt_array *in, int *axes, int64_t rows);

/* ---- trace.c: the current trace, one per thread; traces nest ---- */

typedef struct bt_trace {
    bt_graph *graph;
    bt_mode mode;
    bt_dtype dtype;     /* to which other floating numbers are converted */
    bt_tag tag;         /* tag of the next nodes */
    uint64_t seed;      /* key of random ops */
    bt_var *record;     /* counter of random ops: the batch record; NULL: random ops give an error */
    void *context;      /* for the layer above: the problem being traced */
    struct bt_overlay { /* tensors that bt_trace_read returns instead of a variable's leaf */
        bt_var *var;
        bt_tensor *value;
    } * overlay;
    int64_t overlay_count, overlay_capacity;
    struct bt_site {
        const char *owner, *path;
        uint32_t next;
    } * sites;
    int64_t site_count, site_capacity;
    struct bt_trace *outer;
} bt_trace;

void bt_trace_begin(bt_trace *trace, bt_graph *graph, bt_mode mode, bt_dtype dtype); /* *trace is overwritten */
void bt_trace_end(bt_trace *trace);
bt_tag bt_trace_tag(const bt_trace *trace);           /* the tag of the next node, with the trace's mode and dtype */
void bt_trace_as(bt_trace *trace, const bt_tag *tag); /* continues as the trace that gave this tag */
bt_trace *bt_trace_now(void);                         /* NULL outside a trace */
bt_trace *bt_trace_suspend(void);      /* ends tracing while host code is called; bt_trace_resume continues it */
void bt_trace_resume(bt_trace *trace); /* takes what suspend returned */
bt_tensor *bt_trace_poison(bt_status status, const char *format, ...) BT_FORMAT(2, 3); /* with the module path */
bt_tensor *bt_trace_read(bt_var *var); /* the overlay's tensor or else the leaf; 16-bit variables as f32 */
void bt_trace_overlay(bt_var *var, bt_tensor *value); /* replaces an earlier overlay */
const char *bt_trace_push(const char *name);          /* enters a module; returns what bt_trace_pop takes */
void bt_trace_pop(const char *before);

/* For the next random op: its index within its owner and path, the same in every trace. */
uint32_t bt_trace_site(void);

/* Records one op in the current trace. Returns the node's first output (the others: x->node->out), or poison. */
bt_tensor *bt_record(const bt_op *op, const void *attr, size_t attr_size, bt_tensor *const *in, int inputs);
#define BT_RECORD(op, attr, ...)                                                                                       \
    bt_record((op), (attr), sizeof *(attr), (bt_tensor *const[]){__VA_ARGS__},                                         \
              (int)(sizeof((bt_tensor *const[]){__VA_ARGS__}) / sizeof(bt_tensor *)))
#define BT_RECORD0(op, ...) /* without attributes */                                                                   \
    bt_record((op), NULL, 0, (bt_tensor *const[]){__VA_ARGS__},                                                        \
              (int)(sizeof((bt_tensor *const[]){__VA_ARGS__}) / sizeof(bt_tensor *)))
bt_tensor *bt_number(double value, bt_dtype dtype); /* a constant scalar in the current trace */
bt_tensor *bt_as(bt_tensor *x, bt_dtype dtype);     /* a cast; x itself if it already has the dtype */
void bt_graph_assign_as(bt_graph *graph, bt_var *var, bt_tensor *value); /* casts to the variable's dtype */

/* 16-bit numbers (ops/half.c): bt_casts says whether the op needs casts, and bt_record_cast records it with them. low:
 * as in the tag. */
bool bt_casts(const bt_op *op, bt_tensor *const *in, int inputs, bt_dtype low);
bt_tensor *bt_record_cast(const bt_op *op, const void *attr, size_t attr_size, bt_tensor *const *in, int inputs,
                          bt_dtype low);
bt_dtype bt_low_kept(bt_dtype low); /* the value that a node's tag keeps for `low` */
bt_tensor *bt_wide(bt_tensor *x);   /* cast to f32 if it has 16 bits; NULL gives NULL */

/* ---- composite.c ---- */

enum { BT_MAX_DEPTH = 64 }; /* levels of nested bodies */

/* Traces the body in a graph of its own. Sets the outputs' shapes (unless out is NULL), and what the node notes about
 * its body. */
bt_status bt_composite_infer(bt_node *node, bt_array *out);

bool bt_op_is_composite(const bt_op *op);
/* Records the body of `op` in the current trace. Sets out[0 .. outputs-1], to poison where the body set none. in ends
 * with NULL. */
void bt_composite_body(const bt_op *op, const void *attr, bt_tensor *const *in, bt_tensor **out);

/* ---- compare.c ---- */

uint64_t bt_graph_hash(const bt_graph *graph); /* equal for equal graphs, in any process */
/* Whether the graphs differ, bodies included. Adds the first difference to the text. */
bool bt_graph_differs(const bt_graph *a, const bt_graph *b, bt_text *text);
bool bt_look_again(int64_t time); /* what must be the same each time is compared at times 2, 3, 10, 100, 1000, ... */

/* ---- dump.c, verify.c ---- */

void bt_graph_dump(const bt_graph *graph, bt_text *text);
void bt_node_describe(const bt_node *node, bt_text *text);           /* one line */
bt_status bt_graph_verify(const bt_graph *graph, const char *after); /* after: the last pass */

#endif
