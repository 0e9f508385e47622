/* export/onnx.h: a network as an ONNX model: the model being written, and the rules that turn ops into nodes. To add a
 * rule, add a row to one of the tables in rules_*.c. */
#ifndef BT_ONNX_H
#define BT_ONNX_H

#include "export/export.h"

/* Each computed value has a name in the model. Functions that return a name never return NULL: errors are kept, and
 * bt_onnx_write reports them. */
typedef struct bt_onnx bt_onnx;

/* ---- the rules ---- */

/* Writes nodes for what `node` computes and names its outputs. `name`: from the rule. */
typedef void bt_onnx_write_fn(bt_onnx *model, const bt_node *node, const char *name);

/* Lists the tensors that the rule reads, if they are not the node's inputs, and returns their number. Most rules need
 * no such function. */
enum { BT_ONNX_READS = 16 };
typedef int bt_onnx_reads_fn(const bt_node *node, const bt_tensor *what[BT_ONNX_READS]);

typedef struct bt_onnx_rule {
    const bt_op *op;
    bt_onnx_write_fn *write;
    const char *name; /* of the ONNX op, if the rule serves several ops */
    bool resized;     /* its attributes contain sizes, which may grow with the batch */
    bool thin;        /* it may read inputs with bt_onnx_thin; for other rules, all that they read is computed first */
    bt_onnx_reads_fn *reads; /* NULL, or a result of 0: it reads its inputs */
} bt_onnx_rule;
/* clang-format off */
#define BT_RULE(op, write, name)         {&bt_op_##op, (write), (name), false, false, NULL}
#define BT_RESIZED(op, write, name)      {&bt_op_##op, (write), (name), true, false, NULL}
#define BT_THIN(op, write, name)         {&bt_op_##op, (write), (name), false, true, NULL}
#define BT_READS(op, write, name, reads) {&bt_op_##op, (write), (name), false, false, (reads)}
/* clang-format on */

/* Each table ends with op NULL. */
extern const bt_onnx_rule bt_onnx_rules_elementwise[], bt_onnx_rules_shape[], bt_onnx_rules_network[];
const bt_onnx_rule *bt_onnx_rule_of(const bt_op *op); /* NULL: none */

/* ---- for the rules: node.c ---- */

const char *bt_onnx_value_of(bt_onnx *model, const bt_tensor *x);
const char *bt_onnx_in(bt_onnx *model, const bt_node *node, int i); /* of input i */
/* The same, but axes along which the input is repeated may have size 1: for ops that broadcast. */
const char *bt_onnx_thin(bt_onnx *model, const bt_node *node, int i);
bool bt_onnx_is_thin(const bt_onnx *model, const bt_node *node, int i); /* whether that is a different value */
void bt_onnx_out(bt_onnx *model, const bt_node *node, int output, const char *name);
/* Sets the output to this value, repeated along axes where it has size 1. */
void bt_onnx_out_thin(bt_onnx *model, const bt_node *node, const char *name);

typedef struct bt_onnx_attr { /* name NULL: end of a list */
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

/* Writes a node with this many outputs and stores their names in `out`; in ends with NULL, attrs may be NULL. */
void bt_onnx_node(bt_onnx *model, const char *op, const bt_onnx_attr *attrs, const char *const *in, const char **out,
                  int outputs);
/* Writes a node with one output and returns its name. */
const char *bt_onnx_op(bt_onnx *model, const char *op, const bt_onnx_attr *attrs, const char *const *in);
#define BT_ONNX(model, op, attrs, ...) bt_onnx_op((model), (op), (attrs), (const char *const[]){__VA_ARGS__, NULL})

/* ReduceSum, ReduceMax, ...; without axes returns the value unchanged. */
const char *bt_onnx_reduce(bt_onnx *model, const char *op, const char *value, const int64_t *axes, int count,
                           int64_t keep);
const char *bt_onnx_cast(bt_onnx *model, const char *value, bt_dtype dtype);

/* Values stored in the model. */
const char *bt_onnx_number(bt_onnx *model, bt_dtype dtype, double value);         /* [] */
const char *bt_onnx_wholes(bt_onnx *model, const int64_t *values, int64_t count); /* I64 [count] */
const char *bt_onnx_array(bt_onnx *model, bt_array values);                       /* copied */

/* The same tensor as recorded for BT_MORE examples; whether the size of an axis grows with the batch. */
const bt_tensor *bt_onnx_twin(const bt_onnx *model, const bt_tensor *x);
bool bt_onnx_grows(const bt_onnx *model, const bt_tensor *x, int axis);
/* The I64 [1] value of a size or position that is `fewer` for BT_FEWER examples and `more` for BT_MORE; and all sizes
 * of a tensor, I64 [rank]. */
const char *bt_onnx_size(bt_onnx *model, int64_t fewer, int64_t more);
const char *bt_onnx_shape(bt_onnx *model, const bt_tensor *x);
int bt_onnx_dtype(bt_dtype dtype); /* TensorProto.DataType; all floating dtypes become f32 */

void bt_onnx_fail(bt_onnx *model, bt_status status, const char *format, ...) BT_FORMAT(3, 4); /* keeps the first */
/* Fails because the op, or one of its results, has no counterpart in ONNX. `why` is added in parentheses; it may be
 * NULL. */
void bt_onnx_refuse(bt_onnx *model, const bt_node *node, const char *why);

#endif
