/* export/onnx.h: a network as a model of ONNX: the file that is being written, and the rules by which ops become
 * nodes. Adding a rule: a row in one of the tables rules_*.c. */
#ifndef BT_ONNX_H
#define BT_ONNX_H

#include "export/export.h"

/* What is computed has a name in the model. A function that gives one never gives NULL: what goes wrong is kept, and
 * told by bt_onnx_write. */
typedef struct bt_onnx bt_onnx;

/* ---- the rules ---- */

/* Writes what the node computes, of its inputs' names, and names its outputs. `name`: the rule's. */
typedef void bt_onnx_write_fn(bt_onnx *model, const bt_node *node, const char *name);

/* The tensors that it reads, where these are not its inputs: how many. Most rules have none. */
enum { BT_ONNX_READS = 16 };
typedef int bt_onnx_reads_fn(const bt_node *node, const bt_tensor *what[BT_ONNX_READS]);

typedef struct bt_onnx_rule {
    const bt_op *op;
    bt_onnx_write_fn *write;
    const char *name; /* of ONNX's op, where the rule serves several */
    bool resized;     /* its attributes name sizes, which may grow with the batch */
    bool thin;        /* it may take inputs by bt_onnx_thin; else all that it reads is there before it is asked */
    bt_onnx_reads_fn *reads; /* 0, or NULL: its inputs */
} bt_onnx_rule;
/* clang-format off */
#define BT_RULE(op, write, name)         {&bt_op_##op, (write), (name), false, false, NULL}
#define BT_RESIZED(op, write, name)      {&bt_op_##op, (write), (name), true, false, NULL}
#define BT_THIN(op, write, name)         {&bt_op_##op, (write), (name), false, true, NULL}
#define BT_READS(op, write, name, reads) {&bt_op_##op, (write), (name), false, false, (reads)}
/* clang-format on */

/* Each ends with op NULL. */
extern const bt_onnx_rule bt_onnx_rules_elementwise[], bt_onnx_rules_shape[], bt_onnx_rules_network[];
const bt_onnx_rule *bt_onnx_rule_of(const bt_op *op); /* NULL: there is none */

/* ---- for rules: node.c ---- */

const char *bt_onnx_value_of(bt_onnx *model, const bt_tensor *x);
const char *bt_onnx_in(bt_onnx *model, const bt_node *node, int i); /* of an input */
/* Likewise, but what is repeated along an axis may have size 1 there: for ops that repeat it themselves. */
const char *bt_onnx_thin(bt_onnx *model, const bt_node *node, int i);
bool bt_onnx_is_thin(const bt_onnx *model, const bt_node *node, int i); /* that one is another value */
void bt_onnx_out(bt_onnx *model, const bt_node *node, int output, const char *name);
/* The output is that value along the axes where it has not size 1. */
void bt_onnx_out_thin(bt_onnx *model, const bt_node *node, const char *name);

typedef struct bt_onnx_attr { /* name NULL: the end of a list */
    const char *name;
    enum { BT_ONNX_NONE, BT_ONNX_WHOLE, BT_ONNX_REAL, BT_ONNX_TEXT, BT_ONNX_WHOLES } kind;
    int64_t whole;
    double real;
    const char *text;
    const int64_t *wholes;
    int count;
} bt_onnx_attr;
/* clang-format off */
#define BT_WHOLE(name_, value)         {.name = (name_), .kind = BT_ONNX_WHOLE, .whole = (value)}
#define BT_REAL(name_, value)          {.name = (name_), .kind = BT_ONNX_REAL, .real = (value)}
#define BT_TEXT(name_, value)          {.name = (name_), .kind = BT_ONNX_TEXT, .text = (value)}
#define BT_WHOLES(name_, list, count_) {.name = (name_), .kind = BT_ONNX_WHOLES, .wholes = (list), .count = (count_)}
/* clang-format on */
#define BT_ATTRS(...) ((const bt_onnx_attr[]){__VA_ARGS__, {.name = NULL}})

/* A node of so many outputs, whose names are given in `out`; in ends with NULL, attrs may be NULL. */
void bt_onnx_node(bt_onnx *model, const char *op, const bt_onnx_attr *attrs, const char *const *in, const char **out,
                  int outputs);
/* A node of one output: its name. */
const char *bt_onnx_op(bt_onnx *model, const char *op, const bt_onnx_attr *attrs, const char *const *in);
#define BT_ONNX(model, op, attrs, ...) bt_onnx_op((model), (op), (attrs), (const char *const[]){__VA_ARGS__, NULL})

/* ReduceSum, ReduceMax, ...; over no axis the value stays. */
const char *bt_onnx_reduce(bt_onnx *model, const char *op, const char *value, const int64_t *axes, int count,
                           int64_t keep);
const char *bt_onnx_cast(bt_onnx *model, const char *value, bt_dtype dtype);

/* Values that are in the model. */
const char *bt_onnx_number(bt_onnx *model, bt_dtype dtype, double value);         /* [] */
const char *bt_onnx_wholes(bt_onnx *model, const int64_t *values, int64_t count); /* I64 [count] */
const char *bt_onnx_array(bt_onnx *model, bt_array values);                       /* copied */

/* The same tensor as it was recorded for more examples; whether the size of an axis grows with them. */
const bt_tensor *bt_onnx_twin(const bt_onnx *model, const bt_tensor *x);
bool bt_onnx_grows(const bt_onnx *model, const bt_tensor *x, int axis);
/* A size, or a place, that is `fewer` for BT_FEWER examples and `more` for BT_MORE, as a value, I64 [1]; all sizes of a
 * tensor, I64 [rank]. */
const char *bt_onnx_size(bt_onnx *model, int64_t fewer, int64_t more);
const char *bt_onnx_shape(bt_onnx *model, const bt_tensor *x);
int bt_onnx_dtype(bt_dtype dtype); /* TensorProto.DataType; floating numbers of any precision are f32 there */

void bt_onnx_fail(bt_onnx *model, bt_status status, const char *format, ...) BT_FORMAT(3, 4); /* the first one stays */
/* This op, or what it gives, has no equal in ONNX. `why`: in brackets behind its name; NULL: nothing. */
void bt_onnx_refuse(bt_onnx *model, const bt_node *node, const char *why);

#endif
