/* export/export.h: a trained network in the formats of others. */
#ifndef BT_EXPORT_H
#define BT_EXPORT_H

#include "graph/graph.h"
#include "graph/variable.h"
#include <betty/nn.h>

struct bt_instance;

/* A network's forward pass, recorded for each of these numbers of examples: a size that differs between the two grows
 * with the batch. Both have many divisors, as of groups that a batch is taken in. */
enum { BT_FEWER = 240, BT_MORE = 360 };

/* What is recorded has one output, and reads its inputs from variables. */
typedef struct bt_forward_record {
    bt_graph *graph;
    bt_var *const *inputs;
} bt_forward_record;

typedef struct bt_forward_pair {
    bt_forward_record of[2];  /* of BT_FEWER, of BT_MORE examples */
    const char *const *names; /* of the inputs */
    int inputs;
    const char *level;                  /* whose network; it stands before the paths of modules, but not in the model */
    const struct bt_instance *instance; /* whose values the parameters have; NULL: no instance runs them */
} bt_forward_pair;

/* Writes it as a model of ONNX, with the values that its parameters have now. BT_ERROR_UNSUPPORTED: an op has no equal
 * there, a size grows otherwise than with the batch, or the file would be larger than such files can be. */
bt_status bt_onnx_write(const bt_forward_pair *pair, const char *path);

/* describe.c: "image [batch, 28, 28, 1] -> output [batch, 10]". */
void bt_forward_describe(const bt_forward_pair *pair, bt_text *text);
/* "28", "batch", "2*batch", "batch/2": a size for BT_FEWER and for BT_MORE examples. */
void bt_forward_size(int64_t fewer, int64_t more, bt_text *text);

/* torch.c: parameters and buffers by PyTorch's names and layouts, as safetensors. */
bt_status bt_torch_write(bt_module *module, const struct bt_instance *instance, const char *path);

/* What the ending of the path asks for: BT_ERROR_ARGUMENT where it is neither. */
typedef enum bt_export_format { BT_EXPORT_ONNX, BT_EXPORT_TORCH } bt_export_format;
bt_status bt_export_format_of(const char *path, bt_export_format *format);

#endif
