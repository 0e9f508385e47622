/* export/model.h: an ONNX model while it is written: its nodes, its stored arrays, and the names of values. */
#ifndef BT_MODEL_H
#define BT_MODEL_H

#include "export/onnx.h"

typedef struct bt_onnx_held { /* an array stored in the file */
    const char *name;
    bt_array array;    /* dtype and shape before writing; data: the values; NULL: */
    const bt_var *var; /* they are those of this variable */
} bt_onnx_held;

typedef struct bt_onnx_value {
    const char *name; /* NULL: none yet */
    const char *thin; /* name of a smaller value that represents it before repetition; NULL: none */
} bt_onnx_value;

struct bt_onnx {
    const bt_forward_pair *pair;
    bt_graph *graphs[2]; /* in the form to be written: composites without a rule are replaced by their bodies */
    bt_region *region;
    bt_text nodes; /* written so far: fields of a GraphProto */
    int64_t node_count;
    bt_onnx_held *held;
    int64_t held_count, held_capacity;
    bt_onnx_value *values; /* by tensor id of graphs[0] */
    const bt_node *now;    /* the node being written */
    const char *next;      /* name of the next node and its output; NULL: make one */
    const char *batch;     /* I64 [1]: the number of examples; NULL: not needed so far */
    bt_status status;      /* of the first error; bt_error has its message */
};

/* file.c: writes the whole file. */
bt_status bt_onnx_save(bt_onnx *model, const char *output, const char *path);

bool bt_onnx_fits(int64_t fewer, int64_t more);                   /* whether a size is fixed or grows with the batch */
void bt_onnx_ratio(int64_t size, int64_t *times, int64_t *parts); /* reduces size / BT_FEWER to times / parts */
const char *bt_onnx_own_path(const bt_onnx *model, const char *path); /* the path without the level's name */
const char *bt_onnx_hold(bt_onnx *model, const char *name, bt_array array, const bt_var *var); /* returns the name */

#endif
