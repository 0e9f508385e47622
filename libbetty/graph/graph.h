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
typedef struct bt_var bt_var; /* storage that outlives a program: runtime/variable.h */

/* Of bt_tag.low only, as nothing is stored so: f32, whose products a device may take of inputs rounded to 11 bits. */
#define BT_TF32 ((bt_dtype)(BT_F16 + 1))

/* Where a node comes from. The texts are the graph's own; nodes near to each other share them. */
typedef struct bt_tag {
    const char *owner; /* the problem whose callback recorded it; "" if none */
    const char *level; /* the problem whose module did, within that callback; outside of modules the owner */
    const char *path;  /* module path: "classifier.layer2.0"; "" outside a module */
    const char *call;  /* the op that was called: of what a composite's body records, the composite; "layer_norm" */
    uint32_t region;   /* of bt_checkpoint, numbered from 1 within the graph; 0: outside of one */
    uint32_t site;     /* names the random stream of a random op: bt_trace_site */
    int order;         /* how many derivatives deep: 0 in a forward pass, 1 in its gradient, ... */
    bool update;       /* of an optimiser at work: compile/rows.c takes its long rows strip by strip */
    bool quiet;        /* a derivative records a body again, whose prints and checks stand in the body already */
    bt_mode mode;      /* of the trace, like dtype: a body is recorded again by these */
    bt_dtype dtype;
    bt_dtype low; /* while recording: what ops of the class BT_CAST_LOW compute in; BT_F32: in what they are given. In
                   * a graph the casts to 16 bits stand already, and its tags have BT_F32 or BT_TF32 */
} bt_tag;

struct bt_tensor {
    bt_node *node; /* NULL: poisoned */
    int output;    /* which of the node's outputs */
    bt_dtype dtype;
    int rank;
    int64_t dims[BT_MAX_RANK];
    int batch_axis; /* the axis that counts the examples of a batch; -1: none */
    bool weak;      /* a C number: takes the dtype of the other operand */
    bool params;    /* by bt_params: a derivative with respect to it is one with respect to what it is joined from */
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
    unsigned hides; /* flags of what the op's body records, at any depth; 0: nothing, or no body */
    uint64_t body;  /* hash of what the op's body records; 0: no body */
};

typedef struct bt_assign { /* at the end of a run, the variable takes the value */
    bt_var *var;
    bt_tensor *value;
} bt_assign;

typedef struct bt_interned {
    const char *text, *copy; /* as given, which may be gone; the graph's own */
} bt_interned;

struct bt_graph {
    bt_region *region;
    bt_node **nodes;
    int64_t node_count, node_capacity, tensor_count;
    bt_assign *assigns;
    int64_t assign_count, assign_capacity;
    bt_tensor **outputs; /* what must be kept besides the assigned values */
    int64_t output_count, output_capacity;
    const bt_op **held; /* ops whose records last as long as the graphs that use them */
    int64_t held_count, held_capacity;
    bt_interned interned[16]; /* texts given lately, by where they lay */
    const char *copies[32];   /* the graph's own lately used, by what they say */
    uint32_t regions;         /* numbers that its bt_checkpoints have taken */
    bt_map leaves, assigned;  /* by variable: the node that reads it; where it was put into `assigns` */
    bt_tensor *poison;
    bt_status status;    /* the first mistake; BT_OK if none */
    const char *message; /* its text */
};

/* ---- what the library knows about its own ops: the record behind bt_op.info ---- */

/* Flags; passes test these, never an op's identity. */
enum {
    BT_OP_LEAF = 1,        /* no inputs, and not computed by a kernel: variable reads, constants */
    BT_OP_ELEMENTWISE = 2, /* out[i] depends on in[i] only; all shapes equal */
    BT_OP_LINEAR = 4,      /* in its differentiable inputs taken together */
    BT_OP_RANDOM = 8,      /* depends on the tag's site */
    BT_OP_EFFECT = 16,     /* print, check: kept although nobody reads it, never merged */
    BT_OP_DETACH = 32,     /* the identity, whose derivative is zero, or one where detach is spent (transform/grad.h) */
    BT_OP_IDENTITY = 128,  /* the output is the input: dropped once derivatives are taken */
    BT_OP_CHEAP = 64,      /* worth computing twice rather than keeping: views, broadcasts, constants */
    BT_OP_OWN_VJP = 256,   /* an op of the user's whose derivative is what its rule says it is */
    BT_OP_OWN_JVP = 512,
    BT_OP_PRODUCT = 1024, /* sums of products, far more work than bytes: of matrices, convolutions */
    BT_OP_SELECTS = 2048, /* gives its first operand or 0, by signs that rounding keeps: so it comes to the same before
                             it  is rounded and after */
    BT_OP_COLLECTIVE = 4096, /* computed by all ranks together: ops/collective.c; an effect, too */
    BT_OP_EACH = 8192 /* of any number of inputs, each gives an output of its own, which may be written over it; infer
                       * is asked of one after the other */
};

enum { BT_MAX_OUTPUTS = 8 };

/* What a rule says of an output besides the axis along which it is split: the op sums over the rows, so that the whole
 * is the sum of what the parts give; the parts' outputs come to the whole's by the op's `unite`; -1: it is whole. */
enum { BT_BATCH_SUMMED = -2, BT_BATCH_UNITED = -3 };

/* How an op works on a part of its operands, which are split along an axis as the rows of a batch are: between the
 * ranks of a run, between pieces, or example by example. */
typedef struct bt_shares {
    const void *attr;
    const bt_array *in; /* whole */
    int inputs;
    int64_t rows; /* what is split has a multiple of them along its axis. The rule may leave fewer:
                   * groups of rows, of which none is to be taken apart */
    int *in_axis; /* by input: the axis along which it is split, -1: it is whole. The rule leaves how it wants it */
    int out_axis[BT_MAX_OUTPUTS]; /* the axis, or one of the above; -1 at first */
    bool stacked; /* along the output's axis the parts of several inputs follow each other: each element belongs to one
                   * row, but no rank has the output's own share of it */
} bt_shares;

/* What `unite` knows of the ranks. */
typedef struct bt_union {
    const void *attr;
    int axis; /* of input 0, along which it is split */
    int rank, ranks;
    int64_t rows; /* of the batch */
} bt_union;

typedef struct bt_view { /* a strided look at a buffer; strides count elements, 0 where broadcast */
    char *data;          /* NULL while planning */
    bt_dtype dtype;
    int rank;
    int64_t dims[BT_MAX_RANK], strides[BT_MAX_RANK];
} bt_view;

typedef struct bt_sampler bt_sampler; /* collects an op's test cases: ops/samples.h */

/* What an op does with operands of 16 bits (ops/half.c): most compute in f32, and their only result is stored as their
 * operands are. */
typedef enum bt_cast_class {
    BT_CAST_FOLLOW,
    BT_CAST_LOW,  /* where a level has such a precision, operands are rounded to it, and the result is */
    BT_CAST_HIGH, /* the result stays f32 */
    BT_CAST_ANY   /* values are only moved, of whatever dtype */
} bt_cast_class;

typedef struct bt_op_info {
    unsigned flags;
    bt_cast_class cast;
    unsigned differentiable;             /* bit i: input i has a derivative */
    unsigned linear;                     /* bit i: linear in input i while the others stay: the factors of a product */
    unsigned overwrites[BT_MAX_OUTPUTS]; /* [o] bit i: output o may be written over input i, of its shape */
    double (*flops)(const void *attr, const bt_array *in, const bt_array *out); /* NULL: one per output element */
    /* How the outputs lie by how the inputs do, of which at least one is split; false: the op needs them whole. NULL:
     * an elementwise op works on any part, and nothing is known of others. */
    bool (*shares)(bt_shares *shares);
    /* Attributes that name sizes, made those of a part: of output 0 it has the shape `out`, and of the whole's elements
     * `first` come before its own (along the first axis that is not of size 1; else 0). NULL: they hold for any part.
     */
    void (*localise)(void *attr, const bt_array *out, int64_t first);
    /* Records what the whole's outputs are from this rank's part of the inputs, which may have no row. */
    void (*unite)(const bt_union *with, bt_tensor *const *in, bt_tensor **out);
    /* Output 0 as a look at in[0], whose first element is *offset elements on; false: it must be computed. */
    bool (*view)(const void *attr, const bt_view *in, bt_view *out, int64_t *offset);
    double (*fold)(const double *in); /* elementwise, on numbers: constants are folded with it; NULL: they are not */
    /* What the op with these inputs equals, by algebra (x * 1 = x): a tensor of the graph in progress; NULL: itself. */
    bt_tensor *(*simplify)(const void *attr, bt_tensor *const *in, int inputs);
    /* What a node of the op `reader` equals, of whose inputs `in` this op's output is the one at `which`, read by
     * nobody else: computed in one, to the same bits. A tensor of the graph in progress; NULL: nothing. */
    bt_tensor *(*absorb)(const bt_op *reader, bt_tensor *const *in, int which);
    void (*describe)(const void *attr, bt_text *text); /* attributes, for dumps */
    void (*samples)(bt_sampler *sampler);
    struct bt_derived *derived; /* vjp or jvp of another op: transform/derive.c */
    void (*derived_body)(const bt_op *op, const void *attr, bt_tensor *const *in, bt_tensor **out); /* its body */
    void (*hold)(const bt_op *op, bool on); /* a graph begins, or ends, to use it; NULL: the record is constant */
} bt_op_info;

bt_guest bt_op_enter(const bt_op *op,
                     const char *function); /* one of its functions is called next: a user's is named */
bt_view bt_view_of(bt_array shape);         /* dense, no data */
bool bt_view_dense(const bt_view *view);    /* row-major without gaps */
bool bt_view_repeats(const bt_view *view);  /* one number, whatever the shape */

unsigned bt_op_flags(const bt_op *op);
bool bt_node_any(const bt_node *node, unsigned flags); /* one of the flags is its op's, or of an op within its body */
int bt_op_outputs(const bt_op *op, int inputs);        /* at least 1 */
bt_status bt_op_infer(const bt_op *op, const void *attr, int inputs, const bt_array *in, bt_array *out);

/* The leaves, which the graph makes itself; their records stand in ops/leaf.c. A constant's attribute is its values. */
extern const bt_op bt_op_read, bt_op_constant;
typedef struct bt_read_attr {
    bt_var *var;
} bt_read_attr;

/* ---- graph.c ---- */

bt_graph *bt_graph_new(void);
void bt_graph_free(bt_graph *graph);

/* The first mistake stays. Returns the graph's poison. */
bt_tensor *bt_graph_fail(bt_graph *graph, bt_status status, const char *format, ...) BT_FORMAT(3, 4);
bool bt_poisoned(const bt_tensor *x); /* also NULL */

/* Appends a node; checks arity, runs infer. attr is copied (attr_size bytes). NULL where poisoned. */
bt_node *bt_graph_append(bt_graph *graph, const bt_op *op, const void *attr, size_t attr_size, bt_tensor *const *in,
                         int inputs, bt_tag tag);

/* Leaves: their one output has the given dtype and shape. A variable has one leaf per graph. */
bt_tensor *bt_graph_read(bt_graph *graph, bt_var *var);
bt_tensor *bt_graph_placeholder(bt_graph *graph, const bt_tensor *like); /* a leaf without a variable: a body's input */
bt_tensor *bt_graph_constant(bt_graph *graph, bt_array values);
void bt_graph_assign(bt_graph *graph, bt_var *var, bt_tensor *value); /* a later assign to the same variable wins */
/* A node that has become a leaf after it was appended: bt_graph_read finds it from then on. */
void bt_graph_note_leaf(bt_node *node);
/* The others, which nobody may read, leave the list; what stays keeps its order. Their memory goes with the graph. */
void bt_graph_keep(bt_graph *graph, const bool *nodes);
void bt_graph_retarget(bt_graph *graph, int64_t assign, bt_var *var);   /* another variable takes its value */
bt_tensor *bt_graph_assigned(const bt_graph *graph, const bt_var *var); /* what it has been given; NULL: nothing */
void bt_graph_output(bt_graph *graph, bt_tensor *value);
bt_tensor **bt_graph_list(bt_graph *graph, int64_t count); /* the graph's own, with a NULL more; all NULL at first */

const char *bt_graph_intern(bt_graph *graph, const char *text); /* the graph's own copy; shared with the latest nodes */
bt_array bt_tensor_array(const bt_tensor *x);                   /* dtype and shape, no data */
int64_t bt_tensor_count(const bt_tensor *x);
size_t bt_tensor_bytes(const bt_tensor *x);
int bt_shares_axis(const bt_shares *shares); /* of the first input that is split; -1: none is */
/* For rules: all operands along this axis, and so these many outputs. True. */
bool bt_shares_along(bt_shares *shares, int axis, int outputs);
/* By the rule of the node's op. False: there is none, or the op needs whole inputs. */
bool bt_node_shares(const bt_node *node, bt_shares *shares);
/* The batch axis of output 0, by those of the inputs, which are like `in` and have some multiple of `rows` along them
 * (0: their own size): along it each part depends on no other. -1, BT_BATCH_SUMMED: it has none. axes: one an input,
 * and room for as many more. */
int bt_node_batch_axis(const bt_node *node, const bt_array *in, int *axes, int64_t rows);

/* ---- trace.c: the trace in progress, one per thread; traces nest ---- */

typedef struct bt_trace {
    bt_graph *graph;
    bt_mode mode;
    bt_dtype dtype;     /* what a floating number of no other dtype becomes */
    bt_tag tag;         /* of what is recorded next */
    uint64_t seed;      /* key of random ops */
    bt_var *record;     /* counter of random ops: the batch record; NULL: random ops poison */
    void *context;      /* of the layer above: the problem being traced */
    struct bt_overlay { /* what bt_trace_read gives instead of a variable's leaf */
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
bt_tag bt_trace_tag(const bt_trace *trace);           /* what the next node gets: with the trace's mode and dtype */
void bt_trace_as(bt_trace *trace, const bt_tag *tag); /* from here on as if it were the trace that gave this tag */
bt_trace *bt_trace_now(void);                         /* NULL outside of a trace */
bt_trace *bt_trace_suspend(void);      /* while host code is called in the middle of one: there is no trace */
void bt_trace_resume(bt_trace *trace); /* what suspend returned */
bt_tensor *bt_trace_poison(bt_status status, const char *format, ...) BT_FORMAT(2, 3); /* with the module path */
bt_tensor *bt_trace_read(bt_var *var);                /* the overlay's tensor, else the leaf, of 16 bits as f32 */
void bt_trace_overlay(bt_var *var, bt_tensor *value); /* replaces an earlier one */
const char *bt_trace_push(const char *name);          /* enters a module; returns what bt_trace_pop takes */
void bt_trace_pop(const char *before);

/* For the next random op: a number for (owner, path, its count there), the same in every trace. */
uint32_t bt_trace_site(void);

/* Records one op in the trace in progress; returns its node's first output (the others: x->node->out), or poison. */
bt_tensor *bt_record(const bt_op *op, const void *attr, size_t attr_size, bt_tensor *const *in, int inputs);
#define BT_RECORD(op, attr, ...)                                                                                       \
    bt_record((op), (attr), sizeof *(attr), (bt_tensor *const[]){__VA_ARGS__},                                         \
              (int)(sizeof((bt_tensor *const[]){__VA_ARGS__}) / sizeof(bt_tensor *)))
#define BT_RECORD0(op, ...) /* without attributes */                                                                   \
    bt_record((op), NULL, 0, (bt_tensor *const[]){__VA_ARGS__},                                                        \
              (int)(sizeof((bt_tensor *const[]){__VA_ARGS__}) / sizeof(bt_tensor *)))
bt_tensor *bt_number(double value, bt_dtype dtype); /* a constant scalar in the trace in progress */
bt_tensor *bt_as(bt_tensor *x, bt_dtype dtype);     /* a cast; x itself if it has the dtype already */
void bt_graph_assign_as(bt_graph *graph, bt_var *var, bt_tensor *value); /* cast to the variable's dtype */

/* Numbers of 16 bits, by ops/half.c: whether the op cannot be recorded as it stands; and how it is. low: as in the tag.
 */
bool bt_casts(const bt_op *op, bt_tensor *const *in, int inputs, bt_dtype low);
bt_tensor *bt_record_cast(const bt_op *op, const void *attr, size_t attr_size, bt_tensor *const *in, int inputs,
                          bt_dtype low);
bt_dtype bt_low_kept(bt_dtype low); /* of `low`, by a node's tag */
bt_tensor *bt_wide(bt_tensor *x);   /* as f32 where it is of 16 bits; NULL gives NULL */

/* ---- composite.c ---- */

enum { BT_MAX_DEPTH = 64 }; /* of bodies within bodies */

/* Traces the body aside: shapes of the outputs (out NULL: not wanted), and what the node shows of its body. */
bt_status bt_composite_infer(bt_node *node, bt_array *out);

bool bt_op_is_composite(const bt_op *op);
/* Records the body of `op` in the trace in progress: out[0 .. outputs-1], poison where it left none. in ends with NULL.
 */
void bt_composite_body(const bt_op *op, const void *attr, bt_tensor *const *in, bt_tensor **out);

/* ---- compare.c ---- */

uint64_t bt_graph_hash(const bt_graph *graph); /* equal for equal graphs, in any process */
/* Whether they differ, bodies included; the first difference is added to the text. */
bool bt_graph_differs(const bt_graph *a, const bt_graph *b, bt_text *text);
bool bt_look_again(int64_t time); /* what must be the same each time is compared at times 2, 3, 10, 100, 1000, ... */

/* ---- dump.c, verify.c ---- */

void bt_graph_dump(const bt_graph *graph, bt_text *text);
void bt_node_describe(const bt_node *node, bt_text *text);           /* one line */
bt_status bt_graph_verify(const bt_graph *graph, const char *after); /* after which pass: for the message */

#endif
