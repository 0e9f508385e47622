/* For tests/readers/onnx.py: every op that has a rule, for each of its samples: NAME.onnx, NAME.INPUT.bin and
 * NAME.output.bin. Each entry of ops.txt has: name, a hash of the model (tests/export/golden_ops.h), number of inputs;
 * name, dtype, rank and sizes of each; dtype, rank and sizes of the output. */
#include "../export/graph_hash.h"
#include "../export/op_models.h"

#include "base/base.h"
#include "data/dataset.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 1 << 16 };

static void save(const char *name, const char *field, bt_array array)
{
    char path[256];
    snprintf(path, sizeof path, "%s.%s.bin", name, field);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(array.data, 1, bt_array_bytes(array), file) != bt_array_bytes(array) || fclose(file) != 0)
        abort();
}

static void print_array(FILE *ops, bt_array array)
{
    static const char *const names[] = {[BT_F32] = "float32", [BT_I32] = "int32", [BT_I64] = "int64",
                                        [BT_U8] = "uint8",    [BT_BOOL] = "bool", [BT_F64] = "float64"};
    fprintf(ops, " %s %d", names[array.dtype], array.rank);
    for (int a = 0; a < array.rank; a++)
        fprintf(ops, " %lld", (long long)array.dims[a]);
}

static void take(void *user, op_model *model)
{
    static double result[MOST];
    FILE *ops = user;
    char path[256];
    snprintf(path, sizeof path, "%s.onnx", model->name);
    bt_status status = bt_module_export(model->module, path, model->inputs, model->count);
    if (status == BT_ERROR_UNSUPPORTED) { /* an output without an ONNX equivalent */
        fprintf(stderr, "%s\n", bt_error());
        bt_error_clear();
        return;
    }
    if (status != BT_OK || compute_op_model(model, result, MOST) != BT_OK) {
        fprintf(stderr, "%s: %s\n", model->name, bt_error());
        exit(1);
    }
    fprintf(ops, "%s %016" PRIx64 " %d", model->name, graph_hash(path), model->count);
    for (int i = 0; i < model->batch->field_count; i++) {
        fprintf(ops, " %s", model->batch->fields[i].name);
        print_array(ops, model->batch->fields[i].array);
        save(model->name, model->batch->fields[i].name, model->batch->fields[i].array);
    }
    print_array(ops, model->out);
    fprintf(ops, "\n");
    model->out.dtype = BT_F64;
    model->out.data = result;
    save(model->name, "output", model->out);
}

int main(void)
{
    FILE *ops = fopen("ops.txt", "w");
    if (!ops)
        return 1;
    each_op_model(take, ops);
    return fclose(ops) != 0;
}
