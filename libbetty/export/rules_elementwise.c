/* export/rules_elementwise.c: rules for elementwise ops. ONNX's ops broadcast their operands along axes of size 1. */
#include "export/onnx.h"

#include "ops/ops.h"

/* Names of the inputs; at least one has the full size of the result. */
static void operands(bt_onnx *m, const bt_node *node, const char **in)
{
    bool whole = false;
    for (int i = 0; i < node->inputs; i++) {
        whole |= !bt_onnx_is_thin(m, node, i);
        in[i] = bt_onnx_thin(m, node, i);
    }
    if (!whole)
        in[0] = bt_onnx_in(m, node, 0);
    in[node->inputs] = NULL;
}

enum { MOST_OPERANDS = 3 };

static void plain(bt_onnx *m, const bt_node *node, const char *name)
{
    const char *in[MOST_OPERANDS + 1];
    operands(m, node, in);
    bt_onnx_out(m, node, 0, bt_onnx_op(m, name, NULL, in));
}

/* The value itself; 16-bit numbers are f32 in the model already. */
static void same(bt_onnx *m, const bt_node *node, const char *name)
{
    (void)name;
    bt_onnx_out(m, node, 0, bt_onnx_in(m, node, 0));
}

static void write_square(bt_onnx *m, const bt_node *node, const char *name)
{
    const char *x = bt_onnx_in(m, node, 0);
    bt_onnx_out(m, node, 0, BT_ONNX(m, name, NULL, x, x));
}

static void write_log1p(bt_onnx *m, const bt_node *node, const char *name)
{
    const char *one = bt_onnx_number(m, node->out->dtype, 1);
    bt_onnx_out(m, node, 0, BT_ONNX(m, name, NULL, BT_ONNX(m, "Add", NULL, bt_onnx_in(m, node, 0), one)));
}

static void write_expm1(bt_onnx *m, const bt_node *node, const char *name)
{
    const char *one = bt_onnx_number(m, node->out->dtype, 1);
    bt_onnx_out(m, node, 0, BT_ONNX(m, "Sub", NULL, BT_ONNX(m, name, NULL, bt_onnx_in(m, node, 0)), one));
}

static void write_step(bt_onnx *m, const bt_node *node, const char *name)
{
    const char *zero = bt_onnx_number(m, node->out->dtype, 0);
    bt_onnx_out(m, node, 0, bt_onnx_cast(m, BT_ONNX(m, name, NULL, bt_onnx_in(m, node, 0), zero), node->out->dtype));
}

static void write_isfinite(bt_onnx *m, const bt_node *node, const char *name)
{
    const char *x = bt_onnx_in(m, node, 0), *nan = BT_ONNX(m, "IsNaN", NULL, x), *inf = BT_ONNX(m, "IsInf", NULL, x);
    bt_onnx_out(m, node, 0, BT_ONNX(m, name, NULL, BT_ONNX(m, "Or", NULL, nan, inf)));
}

/* gate(g, y): g where y > 0, else 0 */
static void write_gate(bt_onnx *m, const bt_node *node, const char *name)
{
    const char *zero = bt_onnx_number(m, node->out->dtype, 0);
    const char *open = BT_ONNX(m, "Greater", NULL, bt_onnx_in(m, node, 1), zero);
    bt_onnx_out(m, node, 0, BT_ONNX(m, name, NULL, open, bt_onnx_thin(m, node, 0), zero));
}

/* A cast to 16 bits rounds, and converts back to f32. */
static void write_cast(bt_onnx *m, const bt_node *node, const char *name)
{
    enum { FLOAT16 = 10, BFLOAT16 = 16 }; /* TensorProto.DataType */
    const bt_dtype from = node->in[0]->dtype, to = node->out->dtype;
    const char *x = bt_onnx_in(m, node, 0);
    if (bt_dtype_half(to) && to != from) {
        x = BT_ONNX(m, name, BT_ATTRS(BT_WHOLE("to", to == BT_F16 ? FLOAT16 : BFLOAT16)), x);
        x = bt_onnx_cast(m, x, BT_F32);
    } else if (bt_onnx_dtype(from) != bt_onnx_dtype(to)) {
        x = bt_onnx_cast(m, x, to);
    }
    bt_onnx_out(m, node, 0, x);
}

const bt_onnx_rule bt_onnx_rules_elementwise[] = {
    BT_THIN(neg, plain, "Neg"),
    BT_THIN(abs, plain, "Abs"),
    BT_THIN(sign, plain, "Sign"),
    BT_RULE(square, write_square, "Mul"),
    BT_THIN(sqrt, plain, "Sqrt"),
    BT_THIN(exp, plain, "Exp"),
    BT_THIN(log, plain, "Log"),
    BT_RULE(log1p, write_log1p, "Log"),
    BT_THIN(sin, plain, "Sin"),
    BT_THIN(cos, plain, "Cos"),
    BT_RULE(expm1, write_expm1, "Exp"),
    BT_THIN(sinh, plain, "Sinh"),
    BT_THIN(cosh, plain, "Cosh"),
    BT_THIN(atan, plain, "Atan"),
    BT_THIN(tanh, plain, "Tanh"),
    BT_THIN(erf, plain, "Erf"),
    BT_THIN(sigmoid, plain, "Sigmoid"),
    BT_THIN(relu, plain, "Relu"),
    BT_THIN(softplus, plain, "Softplus"),
    BT_RULE(step, write_step, "Greater"),
    BT_THIN(floor, plain, "Floor"),
    BT_RULE(isfinite, write_isfinite, "Not"),
    BT_THIN(add, plain, "Add"),
    BT_THIN(sub, plain, "Sub"),
    BT_THIN(mul, plain, "Mul"),
    BT_THIN(div, plain, "Div"),
    BT_THIN(pow, plain, "Pow"),
    BT_THIN(minimum, plain, "Min"),
    BT_THIN(maximum, plain, "Max"),
    BT_THIN(gate, write_gate, "Where"),
    BT_THIN(less, plain, "Less"),
    BT_THIN(greater, plain, "Greater"),
    BT_THIN(equal, plain, "Equal"),
    BT_THIN(where, plain, "Where"),
    BT_RULE(cast, write_cast, "Cast"),
    BT_RULE(widen, same, NULL),
    BT_RULE(copy, same, NULL),
    BT_RULE(print, same, NULL),
    {.op = NULL},
};
