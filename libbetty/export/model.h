/* export/model.h: a model of ONNX while it is written: its nodes, what it holds, and the names of values. */
#ifndef BT_MODEL_H
#define BT_MODEL_H

#include "export/onnx.h"

typedef struct bt_onnx_held { /* a value that stands in the file */
    const char *name;
    bt_array array;    /* dtype and shape, as they are here; data: the values, or NULL: */
    const bt_var *var; /* those of a variable */
} bt_onnx_held;

typedef struct bt_onnx_value {
    const char *name; /* NULL: it has none yet */
    const char *thin; /* of what stands for it where it is repeated; NULL: it has only a name */
} bt_onnx_value;

struct bt_onnx {
    const bt_forward_pair *pair;
    bt_graph *graphs[2]; /* as they are written: composites without a rule replaced by their bodies */
    bt_region *region;
    bt_text nodes; /* so far: fields of a GraphProto */
    int64_t node_count;
    bt_onnx_held *held;
    int64_t held_count, held_capacity;
    bt_onnx_value *values; /* by tensor id of graphs[0] */
    const bt_node *now;    /* being written */
    const char *next;      /* what the next node and its output are called; NULL: a name is made */
    const char *batch;     /* I64 [1]: how many examples there are; NULL: nobody has asked */
    bt_status status;      /* the first mistake; its message is in bt_error */
};

/* file.c: the whole file. */
bt_status bt_onnx_save(bt_onnx *model, const char *output, const char *path);

bool bt_onnx_fits(int64_t fewer, int64_t more);                       /* a size stays, or grows with the batch */
void bt_onnx_ratio(int64_t size, int64_t *times, int64_t *parts);     /* of BT_FEWER: it is times / parts of them */
const char *bt_onnx_own_path(const bt_onnx *model, const char *path); /* without the level's name in front of it */
const char *bt_onnx_hold(bt_onnx *model, const char *name, bt_array array, const bt_var *var); /* the name */

#endif
