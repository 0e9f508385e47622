/* export/export.h: exports a trained network to other programs' formats. */
#ifndef BT_EXPORT_H
#define BT_EXPORT_H

#include "graph/graph.h"
#include "graph/variable.h"
#include <betty/nn.h>

struct bt_instance;

/* A network's forward pass is recorded for each of these numbers of examples: a size that differs between the two grows
 * with the batch. Both have many divisors, for batches that are split into groups. */
enum { BT_FEWER = 240, BT_MORE = 360 };

/* The graph has one output, and reads its inputs from these variables. */
typedef struct bt_forward_record {
    bt_graph *graph;
    bt_var *const *inputs;
} bt_forward_record;

typedef struct bt_forward_pair {
    bt_forward_record of[2];  /* for BT_FEWER, for BT_MORE examples */
    const char *const *names; /* of the inputs */
    int inputs;
    const char *level;                  /* the problem that has the network; its name is dropped from module paths */
    const struct bt_instance *instance; /* holds the parameters' values; NULL: no instance runs them */
} bt_forward_pair;

/* Writes an ONNX model with the present values of the parameters. BT_ERROR_UNSUPPORTED: an op has no counterpart in
 * ONNX, a size grows in another way than with the batch, or the file would exceed the format's limit. */
bt_status bt_onnx_write(const bt_forward_pair *pair, const char *path);

/* describe.c: "image [batch, 28, 28, 1] -> output [batch, 10]". */
void bt_forward_describe(const bt_forward_pair *pair, bt_text *text);
/* "28", "batch", "2*batch", "batch/2": a size that is `fewer` for BT_FEWER examples and `more` for BT_MORE. */
void bt_forward_size(int64_t fewer, int64_t more, bt_text *text);

/* torch.c: writes parameters and buffers with PyTorch's names and layouts, as safetensors. */
bt_status bt_torch_write(bt_module *module, const struct bt_instance *instance, const char *path);

/* The format that the path's extension asks for; BT_ERROR_ARGUMENT if it is none of these. */
typedef enum bt_export_format { BT_EXPORT_ONNX, BT_EXPORT_TORCH } bt_export_format;
bt_status bt_export_format_of(const char *path, bt_export_format *format);

#endif
