/* export/node.c: nodes, values and their names, for the rules. */
#include "export/model.h"

#include "io/proto.h"
#include "ops/ops.h"
#include <stdio.h>
#include <string.h>

/* Field numbers of NodeProto and AttributeProto, and kinds of attributes: onnx.proto. */
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_F = 2, ATTRIBUTE_I = 3, ATTRIBUTE_S = 4, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { GRAPH_NODE = 1 };

void bt_onnx_fail(bt_onnx *m, bt_status status, const char *format, ...)
{
    va_list args;
    if (m->status != BT_OK)
        return;
    va_start(args, format);
    char *text = bt_format(format, args);
    va_end(args);
    m->status = bt_fail(status, "%s", text ? text : "out of memory");
    bt_free(text);
}

void bt_onnx_refuse(bt_onnx *m, const bt_node *node, const char *why)
{
    const char *path = node->tag.path && *node->tag.path ? node->tag.path : "the network";
    bt_onnx_fail(m, BT_ERROR_UNSUPPORTED,
                 "%s: the op `%s`%s%s%s has no equivalent in ONNX; NAME.safetensors saves the parameters alone", path,
                 node->op->name, why ? " (" : "", why ? why : "", why ? ")" : "");
}

/* Copies a name into the model's region. */
static const char *kept(bt_onnx *m, const char *text)
{
    const char *copy = text ? bt_region_format(m->region, "%s", text) : NULL;
    if (!copy)
        bt_onnx_fail(m, BT_ERROR_MEMORY, "out of memory");
    return copy ? copy : "";
}

/* ---- nodes ---- */

static void put_attr(bt_text *node, const bt_onnx_attr *attr)
{
    static const int kinds[] = {[BT_ONNX_REAL] = 1, [BT_ONNX_WHOLE] = 2, [BT_ONNX_TEXT] = 3, [BT_ONNX_WHOLES] = 7};
    bt_text text = {0};
    bt_proto_text(&text, ATTRIBUTE_NAME, attr->name);
    if (attr->kind == BT_ONNX_REAL)
        bt_proto_float(&text, ATTRIBUTE_F, (float)attr->real);
    if (attr->kind == BT_ONNX_WHOLE)
        bt_proto_whole(&text, ATTRIBUTE_I, attr->whole);
    if (attr->kind == BT_ONNX_TEXT)
        bt_proto_text(&text, ATTRIBUTE_S, attr->text);
    for (int i = 0; i < attr->count; i++)
        bt_proto_whole(&text, ATTRIBUTE_INTS, attr->wholes[i]);
    bt_proto_whole(&text, ATTRIBUTE_TYPE, kinds[attr->kind]);
    bt_proto_message(node, NODE_ATTRIBUTE, &text);
}

const char *bt_onnx_own_path(const bt_onnx *m, const char *path)
{
    const size_t length = m->pair->level ? strlen(m->pair->level) : 0;
    if (!length || strncmp(path, m->pair->level, length) != 0 || (path[length] && path[length] != '.'))
        return path;
    return path + length + (path[length] == '.');
}

/* "layers.0.linear1/Gemm_12": module path, op, and a unique number. */
static const char *name_for(bt_onnx *m, const char *op, int output)
{
    const char *path = m->now && m->now->tag.path ? bt_onnx_own_path(m, m->now->tag.path) : "", *given = m->next;
    char number[48];
    m->next = NULL;
    if (given)
        return given;
    snprintf(number, sizeof number, output ? "%lld.%d" : "%lld", (long long)m->node_count, output);
    const char *name = bt_region_format(m->region, "%s%s%s_%s", path, *path ? "/" : "", op, number);
    if (!name)
        bt_onnx_fail(m, BT_ERROR_MEMORY, "out of memory");
    return name ? name : "";
}

void bt_onnx_node(bt_onnx *m, const char *op, const bt_onnx_attr *attrs, const char *const *in, const char **out,
                  int outputs)
{
    bt_text node = {0};
    m->node_count++;
    for (int i = 0; in[i]; i++)
        bt_proto_text(&node, NODE_INPUT, in[i]);
    for (int i = 0; i < outputs; i++)
        bt_proto_text(&node, NODE_OUTPUT, out[i] = name_for(m, op, i));
    bt_proto_text(&node, NODE_NAME, out[0]);
    bt_proto_text(&node, NODE_OP, op);
    for (; attrs && attrs->name; attrs++)
        put_attr(&node, attrs);
    bt_proto_message(&m->nodes, GRAPH_NODE, &node);
    if (m->nodes.failed)
        bt_onnx_fail(m, BT_ERROR_MEMORY, "out of memory");
}

const char *bt_onnx_op(bt_onnx *m, const char *op, const bt_onnx_attr *attrs, const char *const *in)
{
    const char *out;
    bt_onnx_node(m, op, attrs, in, &out, 1);
    return out;
}

const char *bt_onnx_cast(bt_onnx *m, const char *x, bt_dtype to)
{
    return BT_ONNX(m, "Cast", BT_ATTRS(BT_WHOLE("to", bt_onnx_dtype(to))), x);
}

/* In version 17 of the ops, ReduceSum takes the axes as an input, the others as an attribute. */
const char *bt_onnx_reduce(bt_onnx *m, const char *op, const char *x, const int64_t *axes, int count, int64_t keep)
{
    if (!count)
        return x;
    if (strcmp(op, "ReduceSum") == 0)
        return BT_ONNX(m, op, BT_ATTRS(BT_WHOLE("keepdims", keep)), x, bt_onnx_wholes(m, axes, count));
    return BT_ONNX(m, op, BT_ATTRS(BT_WHOLES("axes", axes, count), BT_WHOLE("keepdims", keep)), x);
}

/* ---- stored arrays ---- */

const char *bt_onnx_hold(bt_onnx *m, const char *name, bt_array array, const bt_var *var)
{
    bt_onnx_held *held = bt_grow(m->held, &m->held_capacity, m->held_count + 1, sizeof *held);
    if (!held) {
        bt_onnx_fail(m, BT_ERROR_MEMORY, "out of memory");
        return "";
    }
    m->held = held;
    m->held[m->held_count++] = (bt_onnx_held){kept(m, name), array, var};
    return m->held[m->held_count - 1].name;
}

static const char *find_held(const bt_onnx *m, const char *name)
{
    for (int64_t i = m->held_count - 1; i >= 0; i--)
        if (!m->held[i].var && strcmp(m->held[i].name, name) == 0)
            return m->held[i].name;
    return NULL;
}

const char *bt_onnx_array(bt_onnx *m, bt_array values)
{
    char name[48];
    const size_t bytes = bt_array_bytes(values);
    values.data = bytes == SIZE_MAX || !values.data ? NULL : bt_region_copy(m->region, values.data, bytes);
    if (!values.data) {
        bt_onnx_fail(m, BT_ERROR_MEMORY, "out of memory");
        return "";
    }
    snprintf(name, sizeof name, "constant_%lld", (long long)m->held_count);
    return bt_onnx_hold(m, name, values, NULL);
}

/* Small arrays are stored only once: their names describe their values. */
static const char *named_array(bt_onnx *m, const char *name, bt_array values)
{
    const char *found = find_held(m, name);
    if (found)
        return found;
    values.data = bt_region_copy(m->region, values.data, bt_array_bytes(values));
    if (!values.data) {
        bt_onnx_fail(m, BT_ERROR_MEMORY, "out of memory");
        return "";
    }
    return bt_onnx_hold(m, name, values, NULL);
}

const char *bt_onnx_number(bt_onnx *m, bt_dtype dtype, double value)
{
    char name[80];
    int64_t room = 0;
    bt_array scalar = {.dtype = dtype, .data = &room};
    bt_put(dtype, scalar.data, 0, value);
    if (bt_dtype_floats(dtype))
        snprintf(name, sizeof name, "f32_%.9g", value); /* enough digits to tell any two f32 numbers apart */
    else
        snprintf(name, sizeof name, "%s_%.17g", bt_dtype_name(dtype), value);
    return named_array(m, name, scalar);
}

const char *bt_onnx_wholes(bt_onnx *m, const int64_t *values, int64_t count)
{
    bt_text name = {0};
    bt_text_add(&name, "i64");
    for (int64_t i = 0; i < count; i++)
        bt_text_add(&name, "_%lld", (long long)values[i]);
    if (name.failed)
        bt_onnx_fail(m, BT_ERROR_MEMORY, "out of memory");
    const char *found = named_array(m, bt_text_get(&name), BT_ARRAY(values, count));
    bt_text_free(&name);
    return found;
}

/* ---- sizes ---- */

const bt_tensor *bt_onnx_twin(const bt_onnx *m, const bt_tensor *x)
{
    return &m->graphs[1]->nodes[x->node->index]->out[x->output];
}

bool bt_onnx_grows(const bt_onnx *m, const bt_tensor *x, int axis)
{
    return bt_onnx_twin(m, x)->dims[axis] != x->dims[axis];
}

/* The number of examples, taken from the first input that has a batch axis. */
static const char *batch_of(bt_onnx *m)
{
    for (int i = 0; i < m->pair->inputs && !m->batch; i++) {
        const bt_var *var = m->pair->of[0].inputs[i], *twin = m->pair->of[1].inputs[i];
        for (int a = 0; a < var->rank && !m->batch; a++)
            if (var->dims[a] == BT_FEWER && twin->dims[a] == BT_MORE)
                m->batch =
                    BT_ONNX(m, "Shape", BT_ATTRS(BT_WHOLE("end", a + 1), BT_WHOLE("start", a)), m->pair->names[i]);
    }
    if (!m->batch)
        bt_onnx_fail(m, BT_ERROR_UNSUPPORTED, "no input of the model counts its examples");
    return m->batch ? m->batch : "";
}

/* Euclid's algorithm. */
void bt_onnx_ratio(int64_t size, int64_t *times, int64_t *parts)
{
    int64_t common = BT_FEWER;
    for (int64_t a = size, b; a; a = b) {
        b = common % a;
        common = a;
    }
    *times = size / common;
    *parts = BT_FEWER / common;
}

bool bt_onnx_fits(int64_t fewer, int64_t more)
{
    const int64_t most = INT64_MAX / BT_MORE;
    return fewer == more || (fewer <= most && more <= most && fewer * BT_MORE == more * BT_FEWER);
}

const char *bt_onnx_size(bt_onnx *m, int64_t fewer, int64_t more)
{
    int64_t times, parts;
    if (fewer == more)
        return bt_onnx_wholes(m, &fewer, 1);
    if (!bt_onnx_fits(fewer, more))
        bt_onnx_refuse(m, m->now, "with a size that does not grow in proportion to the batch");
    bt_onnx_ratio(fewer, &times, &parts);
    const char *now = batch_of(m);
    if (times > 1)
        now = BT_ONNX(m, "Mul", NULL, now, bt_onnx_wholes(m, &times, 1));
    return parts > 1 ? BT_ONNX(m, "Div", NULL, now, bt_onnx_wholes(m, &parts, 1)) : now;
}

const char *bt_onnx_shape(bt_onnx *m, const bt_tensor *x)
{
    const bt_tensor *twin = bt_onnx_twin(m, x);
    const char *parts[BT_MAX_RANK + 1] = {NULL};
    bool fixed = true;
    for (int a = 0; a < x->rank; a++)
        fixed &= !bt_onnx_grows(m, x, a);
    if (fixed)
        return bt_onnx_wholes(m, x->dims, x->rank);
    for (int a = 0; a < x->rank; a++)
        parts[a] = bt_onnx_size(m, x->dims[a], twin->dims[a]);
    return x->rank == 1 ? parts[0] : bt_onnx_op(m, "Concat", BT_ATTRS(BT_WHOLE("axis", 0)), parts);
}

/* ---- names of values ---- */

static bt_onnx_value *value(bt_onnx *m, const bt_tensor *x) { return &m->values[x->id]; }

const char *bt_onnx_value_of(bt_onnx *m, const bt_tensor *x)
{
    bt_onnx_value *v = value(m, x);
    if (!v->name && v->thin)
        v->name = BT_ONNX(m, "Expand", NULL, v->thin, bt_onnx_shape(m, x));
    if (!v->name) {
        char which[32];
        snprintf(which, sizeof which, "its output %d", x->output);
        bt_onnx_refuse(m, x->node, which);
    }
    return v->name ? v->name : "";
}

const char *bt_onnx_in(bt_onnx *m, const bt_node *node, int i) { return bt_onnx_value_of(m, node->in[i]); }

const char *bt_onnx_thin(bt_onnx *m, const bt_node *node, int i)
{
    const bt_onnx_value *v = value(m, node->in[i]);
    return v->thin ? v->thin : bt_onnx_in(m, node, i);
}

bool bt_onnx_is_thin(const bt_onnx *m, const bt_node *node, int i) { return m->values[node->in[i]->id].thin != NULL; }

void bt_onnx_out(bt_onnx *m, const bt_node *node, int output, const char *name)
{
    value(m, &node->out[output])->name = name;
}

void bt_onnx_out_thin(bt_onnx *m, const bt_node *node, const char *name) { value(m, node->out)->thin = name; }

int bt_onnx_dtype(bt_dtype dtype)
{
    static const int codes[] = {[BT_F32] = 1, [BT_F64] = 1,  [BT_I32] = 6,  [BT_I64] = 7,
                                [BT_U8] = 2,  [BT_BOOL] = 9, [BT_BF16] = 1, [BT_F16] = 1};
    return codes[dtype];
}
