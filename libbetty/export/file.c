/* export/file.c: writes the model file: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto. Arrays are read and
 * written one by one, so that the values are not all in memory a second time. */
#include "export/model.h"

#include "base/version.h"
#include "io/file.h"
#include "io/proto.h"
#include "runtime/store.h"
#include <stdlib.h>
#include <string.h>

/* Version 8 of the format and version 17 of the ops, both of 2022: readable by Debian 12's ONNX and by TensorRT 8.6 or
 * later. */
enum { FORMAT = 8, OPS = 17 };

/* Field numbers, by message. */
enum { MODEL_FORMAT = 1, MODEL_PRODUCER = 2, MODEL_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPS = 8 };
enum { OPS_DOMAIN = 1, OPS_VERSION = 2 };
enum { GRAPH_NAME = 2, GRAPH_HELD = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { TENSOR_DIMS = 1, TENSOR_DTYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2, SHAPE_DIM = 1 };
enum { DIM_VALUE = 1, DIM_NAME = 2 };

static const size_t most_bytes = INT32_MAX; /* the limit of protocol buffer readers */

/* ---- stored arrays ---- */

/* The array as it is written: floats become f32. */
static bt_array stored(const bt_onnx_held *held)
{
    bt_array array = held->array;
    array.dtype = bt_dtype_floats(array.dtype) ? BT_F32 : array.dtype;
    array.data = NULL;
    return array;
}

/* A TensorProto up to its values, which are the last field. */
static void put_held_head(bt_text *out, const bt_onnx_held *held)
{
    const bt_array array = stored(held);
    for (int i = 0; i < array.rank; i++)
        bt_proto_whole(out, TENSOR_DIMS, array.dims[i]);
    bt_proto_whole(out, TENSOR_DTYPE, bt_onnx_dtype(array.dtype));
    bt_proto_text(out, TENSOR_NAME, held->name);
    bt_proto_head(out, TENSOR_RAW, bt_array_bytes(array));
}

/* The field GRAPH_HELD up to the values; *bytes: the size of the values. */
static void put_held(bt_text *out, const bt_onnx_held *held, size_t *bytes)
{
    bt_text head = {0};
    put_held_head(&head, held);
    *bytes = bt_array_bytes(stored(held));
    bt_proto_head(out, GRAPH_HELD, (size_t)head.size + *bytes);
    bt_text_put(out, head.data, (size_t)head.size);
    out->failed |= head.failed;
    bt_text_free(&head);
}

/* Converts elements to little-endian, as the format requires. */
static void order_bytes(bt_array array)
{
    const uint16_t one = 1;
    const size_t size = bt_dtype_size(array.dtype);
    if (*(const unsigned char *)&one)
        return;
    unsigned char *bytes = array.data;
    for (size_t at = 0; at < bt_array_bytes(array); at += size)
        for (size_t i = 0; i < size / 2; i++) {
            const unsigned char low = bytes[at + i];
            bytes[at + i] = bytes[at + size - 1 - i];
            bytes[at + size - 1 - i] = low;
        }
}

static bt_status write_values(const bt_onnx *m, const bt_onnx_held *held, bt_writer *writer)
{
    bt_array array = stored(held);
    const size_t bytes = bt_array_bytes(array);
    array.data = bt_alloc(bytes);
    if (!array.data)
        return BT_ERROR_MEMORY;
    bt_status status =
        held->var ? bt_store_to_array(m->pair->instance, held->var, array) : bt_array_convert(array, held->array);
    order_bytes(array);
    bt_writer_put(writer, array.data, bytes);
    bt_free(array.data);
    return status;
}

/* Sorts by name, so that the order in which parameters were read does not matter. */
static int by_name(const void *a, const void *b)
{
    return strcmp(((const bt_onnx_held *)a)->name, ((const bt_onnx_held *)b)->name);
}

/* ---- inputs and output ---- */

/* Equal sizes that grow share a name. */
static void put_size(bt_text *dim, int64_t fewer, int64_t more)
{
    bt_text name = {0};
    bt_forward_size(fewer, more, &name);
    if (fewer == more)
        bt_proto_whole(dim, DIM_VALUE, fewer);
    else
        bt_proto_text(dim, DIM_NAME, bt_text_get(&name));
    dim->failed |= name.failed;
    bt_text_free(&name);
}

static void put_value(bt_text *graph, int field, const char *name, bt_array fewer, bt_array more)
{
    bt_text shape = {0}, tensor = {0}, type = {0}, value = {0};
    for (int i = 0; i < fewer.rank; i++) {
        bt_text dim = {0};
        put_size(&dim, fewer.dims[i], more.dims[i]);
        bt_proto_message(&shape, SHAPE_DIM, &dim);
    }
    bt_proto_whole(&tensor, TENSOR_ELEMENT, bt_onnx_dtype(fewer.dtype));
    bt_proto_message(&tensor, TENSOR_SHAPE, &shape);
    bt_proto_message(&type, TYPE_TENSOR, &tensor);
    bt_proto_text(&value, VALUE_NAME, name);
    bt_proto_message(&value, VALUE_TYPE, &type);
    bt_proto_message(graph, field, &value);
}

static void put_ends(bt_text *graph, const bt_onnx *m, const char *output)
{
    const bt_tensor *last = m->graphs[0]->outputs[0];
    for (int i = 0; i < m->pair->inputs; i++)
        put_value(graph, GRAPH_INPUT, m->pair->names[i], bt_var_array(m->pair->of[0].inputs[i]),
                  bt_var_array(m->pair->of[1].inputs[i]));
    put_value(graph, GRAPH_OUTPUT, output, bt_tensor_array(last), bt_tensor_array(bt_onnx_twin(m, last)));
}

/* ---- the file: fields in the order of their numbers, as other writers do ---- */

typedef struct frame { /* the parts of the file before and after the arrays, which are written separately */
    bt_text before, after;
    size_t graph; /* total bytes of the graph */
} frame;

static bool put_graph(const bt_onnx *m, const char *output, bt_text *before, bt_text *after)
{
    bt_text_put(before, m->nodes.data, (size_t)m->nodes.size);
    bt_proto_text(before, GRAPH_NAME, m->pair->level && *m->pair->level ? m->pair->level : "network");
    put_ends(after, m, output);
    return !before->failed && !after->failed;
}

static void put_model(frame *f, const bt_text *before, const bt_text *after)
{
    bt_text ops = {0};
    bt_proto_text(&ops, OPS_DOMAIN, "");
    bt_proto_whole(&ops, OPS_VERSION, OPS);
    bt_proto_whole(&f->before, MODEL_FORMAT, FORMAT);
    bt_proto_text(&f->before, MODEL_PRODUCER, "libbetty");
    bt_proto_text(&f->before, MODEL_VERSION, BT_VERSION);
    bt_proto_head(&f->before, MODEL_GRAPH, f->graph);
    bt_text_put(&f->before, before->data, (size_t)before->size);
    bt_text_put(&f->after, after->data, (size_t)after->size);
    bt_proto_message(&f->after, MODEL_OPS, &ops);
}

/* Adds the size of the arrays. */
static bt_status measure(const bt_onnx *m, size_t *bytes)
{
    for (int64_t i = 0; i < m->held_count; i++) {
        bt_text held = {0};
        size_t values;
        put_held(&held, &m->held[i], &values);
        *bytes += (size_t)held.size;
        const bool failed = held.failed;
        bt_text_free(&held);
        if (failed)
            return BT_ERROR_MEMORY;
        if (values > most_bytes || *bytes + values > most_bytes)
            return bt_fail(BT_ERROR_UNSUPPORTED,
                           "an ONNX model in one file has at most 2 GiB, and this one is larger; save its parameters "
                           "as a safetensors file instead");
        *bytes += values;
    }
    return BT_OK;
}

static bt_status make_frame(const bt_onnx *m, const char *output, frame *f)
{
    bt_text before = {0}, after = {0};
    bt_status status = put_graph(m, output, &before, &after) ? BT_OK : BT_ERROR_MEMORY;
    f->graph = (size_t)before.size + (size_t)after.size;
    if (status == BT_OK)
        status = measure(m, &f->graph);
    if (status == BT_OK)
        put_model(f, &before, &after);
    bt_text_free(&before);
    bt_text_free(&after);
    return status == BT_OK && (f->before.failed || f->after.failed) ? BT_ERROR_MEMORY : status;
}

static bt_status write_held(const bt_onnx *m, bt_writer *writer)
{
    bt_status status = BT_OK;
    for (int64_t i = 0; status == BT_OK && i < m->held_count; i++) {
        bt_text held = {0};
        size_t values;
        put_held(&held, &m->held[i], &values);
        bt_writer_put(writer, held.data, (size_t)held.size);
        status = held.failed ? BT_ERROR_MEMORY : write_values(m, &m->held[i], writer);
        bt_text_free(&held);
    }
    return status;
}

static bt_status write_file(const bt_onnx *m, const frame *f, const char *path)
{
    bt_writer *writer = bt_writer_open(path);
    if (!writer)
        return BT_ERROR_MEMORY;
    bt_writer_put(writer, f->before.data, (size_t)f->before.size);
    bt_status status = write_held(m, writer);
    bt_writer_put(writer, f->after.data, (size_t)f->after.size);
    bt_status closed = bt_writer_close(writer, status == BT_OK, NULL);
    return status == BT_OK ? closed : status;
}

bt_status bt_onnx_save(bt_onnx *m, const char *output, const char *path)
{
    frame f = {0};
    if (m->held_count)
        qsort(m->held, (size_t)m->held_count, sizeof *m->held, by_name);
    bt_status status = make_frame(m, output, &f);
    if (status == BT_OK)
        status = write_file(m, &f, path);
    bt_text_free(&f.before);
    bt_text_free(&f.after);
    return status;
}
