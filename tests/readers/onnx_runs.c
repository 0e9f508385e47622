/* For tests/readers/onnx.py: RUN PROBLEM INPUT: the output of a trained run's network for a batch of its validation
 * data, or of training data if there is none: run.INPUT.bin and run.output.bin; their dtypes and shapes in run.txt.
 * INPUT names the batch field that is the network's input. */
#include "engine/session/session.h"

#include "data/dataset.h"
#include "graph/graph.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *input;
static bt_array out;

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, bt_error());
    exit(1);
}

/* Some networks have inputs besides the batch's field: in DARTS, the weights of the candidates. */
static bt_tensor *forward(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_field(batch, "%s", input);
    if (strcmp(self->def->name, "classifier") == 0 && bt_problem_find(self->context, "arch")) {
        bt_problem *arch = bt_peer(self, "arch");
        return bt_forward(self, x, bt_softmax(bt_param(arch, "normal"), 1), bt_softmax(bt_param(arch, "reduce"), 1));
    }
    return bt_forward(self, x);
}

/* Returns one number; used to learn the shape. */
static bt_tensor *probe(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *y = forward(self, batch);
    out = bt_tensor_array(y);
    return bt_mean(y);
}

static void save(FILE *text, const char *name, bt_array array)
{
    char path[128];
    snprintf(path, sizeof path, "run.%s.bin", name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(array.data, 1, bt_array_bytes(array), file) != bt_array_bytes(array) || fclose(file) != 0)
        die(path);
    fprintf(text, "%s %s %d", name, array.dtype == BT_I32 ? "int32" : "float32", array.rank);
    for (int a = 0; a < array.rank; a++)
        fprintf(text, " %lld", (long long)array.dims[a]);
    fprintf(text, "\n");
}

int main(int argc, char **argv)
{
    static float values[1 << 22];
    char path[512];
    if (argc != 4)
        return 2;
    input = argv[3];
    bt_engine *engine = bt_engine_new();
    snprintf(path, sizeof path, "%s/config.ini", argv[1]);
    if (bt_engine_load(engine, path) != BT_OK || bt_engine_resume(engine, argv[1]) != BT_OK)
        die(path);
    bt_problem *problem = bt_engine_problem(engine, argv[2]);
    const bt_batch *batch = problem->valid ? bt_valid_batch(problem, 0) : NULL;
    if (!batch && problem->train && bt_stream_draw(problem->train, 1) == BT_OK)
        batch = problem->train->kept[0];
    if (!batch || bt_eval(problem, probe, batch, BT_ARRAY(values, 1)) != BT_OK)
        die(argv[2]);
    out.data = values;
    if (bt_array_count(out) > BT_COUNT_OF(values))
        die("more numbers than there is room for");
    if (bt_eval(problem, forward, batch, out) != BT_OK)
        die(argv[2]);
    FILE *text = fopen("run.txt", "w");
    for (int i = 0; text && i < batch->field_count; i++)
        if (strcmp(batch->fields[i].name, input) == 0)
            save(text, input, batch->fields[i].array);
    if (!text)
        die("run.txt");
    save(text, "output", out);
    fclose(text);
    bt_engine_free(engine);
    return 0;
}
