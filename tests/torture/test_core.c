/* Every allocation fails in turn, alone and with all later ones: either an error with a message or correct values; no
 * crash, no leak, and the next attempt works. */
#include "failing.h"

#include "data/data.h"
#include "graph/variable.h"
#include "ops/ops.h"
#include "runtime/evaluate.h"
#include "runtime/store.h"
#include "runtime/variable.h"
#include "support/suite.h"
#include "transform/additive.h"
#include "transform/grad.h"
#include "transform/join.h"
#include "transform/linearize.h"
#include "transform/reassociate.h"
#include "transform/shard.h"
#include <betty/nn.h>
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 64 };

typedef struct result {
    double values[ROOM];
    int count;
} result;

static void put(result *r, double value)
{
    if (r->count < ROOM)
        r->values[r->count++] = value;
}

typedef bt_status scenario(result *r);

/* ---- setting up the scenarios; every step may fail ---- */

static bt_var *vars[32];
static int var_count;

static bt_var *variable(bt_lifetime lifetime, const char *name, bt_dtype dtype, const int64_t *dims)
{
    bt_var *var = bt_var_new(lifetime, BT_BUFFERS, "owner", name, bt_array_of(dtype, NULL, dims));
    if (!var)
        return NULL;
    for (int64_t i = 0; var->data && i < bt_array_count(bt_var_array(var)); i++)
        bt_put(dtype, var->data, i, 0.1 * (double)(i + 1) + 0.05 * var_count);
    return vars[var_count++] = var;
}
#define DIMS(...) ((const int64_t[]){__VA_ARGS__, BT_END})

static void free_variables(void)
{
    while (var_count)
        bt_var_free(vars[--var_count]);
}

static bt_status put_variables(result *r)
{
    for (int v = 0; v < var_count; v++)
        for (int64_t i = 0; vars[v]->data && i < bt_array_count(bt_var_array(vars[v])); i++) {
            double value;
            BT_TRY(bt_store_get(NULL, vars[v], i, &value));
            put(r, value);
        }
    return BT_OK;
}

static void assign(bt_graph *graph, bt_var *var, bt_tensor *value)
{
    if (var)
        bt_graph_assign(graph, var, value);
}

static bt_status run(const bt_graph *graph, result *r)
{
    double room[8][16];
    bt_array results[8];
    for (int64_t o = 0; o < graph->output_count && o < 8; o++) {
        results[o] = bt_tensor_array(graph->outputs[o]);
        results[o].dtype = BT_F64;
        results[o].data = room[o];
    }
    bt_status status = bt_evaluate(graph, results);
    for (int64_t o = 0; status == BT_OK && o < graph->output_count; o++)
        for (int64_t i = 0; i < bt_array_count(results[o]); i++)
            put(r, room[o][i]);
    return status == BT_OK ? put_variables(r) : status;
}

/* ---- scenarios ---- */

/* A layer with dropout, its loss, gradients, an Adam update: recorded, compiled, run. */
static bt_status training(result *r)
{
    bt_graph *graph = bt_graph_new();
    if (!graph)
        return BT_ERROR_MEMORY;
    bt_trace trace;
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
    trace.record = variable(BT_RUN, "record", BT_I64, (const int64_t[]){BT_END});
    bt_var *w = variable(BT_RUN, "w", BT_F64, DIMS(3, 2)), *b = variable(BT_RUN, "b", BT_F64, DIMS(3)),
           *m = variable(BT_RUN, "m", BT_F64, DIMS(3, 2)), *v = variable(BT_RUN, "v", BT_F64, DIMS(3, 2)),
           *label = variable(BT_RUN, "label", BT_I32, DIMS(2)), *data = variable(BT_RUN, "data", BT_F64, DIMS(2, 2));
    const char *before = bt_trace_push("net");
    bt_tensor *weight = bt_trace_read(w), *x = bt_trace_read(data);
    bt_tensor *h = bt_dropout(bt_linear(x, weight, bt_trace_read(b), true), 0.3);
    bt_trace_pop(before);
    bt_tensor *loss = bt_mean(bt_cross_entropy(bt_mul(h, 2), bt_trace_read(label))), *g = bt_grad(loss, weight);
    bt_adam_attr attr = {1};
    bt_tensor *one = bt_number(1, BT_F64), *zero = bt_number(0, BT_F64), *half = bt_number(0.5, BT_F64);
    bt_tensor *p = BT_RECORD(&bt_op_adam_update, &attr, weight, g, bt_trace_read(m), bt_trace_read(v),
                             bt_isfinite(bt_norm_square(g)), half, half, half, half, zero, one);
    if (!bt_poisoned(p)) {
        assign(graph, w, p);
        assign(graph, m, &p->node->out[1]);
        assign(graph, v, &p->node->out[2]);
    }
    assign(graph, b, bt_trace_read(b));
    bt_graph_output(graph, loss);
    bt_graph_output(graph, bt_permute(g, 1, 0));
    bt_trace_end(&trace);
    bt_status status = run(graph, r);
    bt_graph_free(graph);
    free_variables();
    return status;
}

static void body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_mul(bt_square(in[0]), bt_sigmoid(in[1]));
    out[1] = bt_sum(bt_mul(in[0], in[1]));
}

/* User-defined ops with a new record for each application: their derivatives are traced each time. */
static bt_op records[4000];
static int next_record;

static bt_status derivatives(result *r)
{
    bt_op *op = &records[next_record++ % 4000];
    *op = (bt_op){.name = "mixed", .inputs = 2, .outputs = 2, .body = body};
    bt_graph *graph = bt_graph_new();
    if (!graph)
        return BT_ERROR_MEMORY;
    bt_trace trace;
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
    bt_tensor *x = bt_trace_read(variable(BT_RUN, "x", BT_F64, DIMS(2)));
    bt_tensor *y = bt_apply(op, NULL, x, bt_exp(x)), *g = bt_grad(bt_sum(y), x), *h = bt_number(0, BT_F64);
    if (!bt_poisoned(g))
        bt_jvp(graph, &x, &x, 1, &g, 1, &h, false);
    bt_graph_output(graph, g);
    bt_graph_output(graph, h);
    bt_trace_end(&trace);
    bt_status status = run(graph, r);
    bt_graph_free(graph);
    free_variables();
    return status;
}

typedef struct parts {
    bt_instance *instance;
    bt_phase *phase, *large;
    bt_graph *graph, *once, *each;
} parts;

static bt_var *keep(void *user, const bt_tensor *value)
{
    parts *p = user;
    return bt_phase_own(p->phase, bt_var_new(BT_PHASE, BT_ACTIVATIONS, "", "kept", bt_tensor_array(value)));
}

static bt_status build(parts *p, bt_var *w, bt_var *x, bt_var *outside)
{
    bt_trace trace;
    bt_trace_begin(&trace, p->graph, BT_TRAIN, BT_F64);
    bt_tensor *base = bt_exp(bt_mul(bt_trace_read(w), bt_trace_read(outside)));
    bt_tensor *next = bt_mul(bt_sin(bt_trace_read(x)), bt_permute(bt_reshape(base, 3, 1), 1, 0));
    assign(p->graph, x, bt_reshape(next, 3));
    bt_trace_end(&trace);
    bt_graph *lowered = bt_compile_lowered(p->graph, &p->instance->options);
    bt_status status = lowered ? bt_linearize(lowered, &x, 1, keep, p, &p->once, &p->each) : bt_error_status();
    bt_graph_free(lowered);
    BT_TRY(status);
    if (bt_phase_add(p->phase, p->once, 0, "once") < 0 || bt_phase_add(p->phase, p->each, 1, "each") < 0)
        return bt_error_status();
    return bt_phase_plan(p->phase);
}

/* Another phase, which makes the arena move. */
static bt_status build_large(parts *p, bt_var *x)
{
    bt_graph *graph = bt_graph_new();
    p->large = graph ? bt_phase_new(p->instance, "owner", "large") : NULL;
    if (!p->large) {
        bt_graph_free(graph);
        return BT_ERROR_MEMORY;
    }
    bt_trace trace;
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
    bt_tensor *wide = bt_exp(bt_broadcast(bt_sum(bt_trace_read(x)), 1, DIMS(1000), NULL));
    assign(graph, x, bt_add(bt_trace_read(x), bt_sum(bt_tanh(wide))));
    bt_trace_end(&trace);
    bt_status status = bt_phase_add(p->large, graph, 0, "part") < 0 ? bt_error_status() : bt_phase_plan(p->large);
    bt_graph_free(graph);
    return status;
}

/* A linearised loop over outside memory, and a second phase. */
static bt_status phases(result *r)
{
    static double batch[] = {0.5, 0.25, 2};
    parts p = {.instance = bt_instance_new(bt_backend_cpu(), 1), .graph = bt_graph_new()};
    bt_status status = BT_ERROR_MEMORY;
    bt_var *w = variable(BT_RUN, "w", BT_F64, DIMS(3)), *x = variable(BT_RUN, "x", BT_F64, DIMS(3)),
           *outside = variable(BT_EXTERNAL, "batch", BT_F64, DIMS(3));
    if (p.instance && p.graph && w && x && outside) {
        outside->data = (char *)batch;
        p.phase = bt_phase_new(p.instance, "owner", "small");
        status = p.phase ? build(&p, w, x, outside) : BT_ERROR_MEMORY;
    }
    if (status == BT_OK)
        status = build_large(&p, x);
    if (status == BT_OK)
        bt_phase_begin(p.phase);
    for (int i = 0; i < 4 && status == BT_OK; i++)
        status = bt_phase_run(p.phase, i > 0);
    if (p.phase)
        bt_phase_end(p.phase);
    if (status == BT_OK) {
        bt_phase_begin(p.large);
        status = bt_phase_run(p.large, 0);
        bt_phase_end(p.large);
    }
    if (outside)
        outside->data = NULL;
    if (status == BT_OK)
        status = put_variables(r);
    bt_phase_free(p.large);
    bt_phase_free(p.phase);
    bt_instance_free(p.instance);
    bt_graph_free(p.graph);
    bt_graph_free(p.once);
    bt_graph_free(p.each);
    free_variables();
    return status;
}

/* The gradient of a long chain, step by step: some steps are rerun, there are more values than one block of a placement
 * holds, and dropout's kernel has prepared state. */
static bt_status record_chain(bt_graph *graph, bt_var *x, bt_var *slope, bt_var *record)
{
    bt_trace trace;
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
    trace.tag.level = "net";
    trace.record = record;
    bt_tensor *in = bt_trace_read(x), *y = bt_dropout(in, 0.25);
    for (int i = 0; i < 150; i++)
        y = bt_tanh(y);
    assign(graph, slope, bt_grad(bt_sum(bt_exp(y)), in));
    bt_trace_end(&trace);
    return graph->status;
}

static bt_status recomputed(result *r)
{
    bt_level_checkpointing level = {.level = "net", .how = {.kind = BT_CHECKPOINTING_SQRT}};
    bt_instance *instance = bt_instance_new(bt_backend_cpu(), 1);
    bt_graph *graph = bt_graph_new();
    bt_phase *phase = instance && graph ? bt_phase_new(instance, "owner", "chain") : NULL;
    bt_var *x = variable(BT_RUN, "x", BT_F64, DIMS(6)), *slope = variable(BT_RUN, "slope", BT_F64, DIMS(6)),
           *record = variable(BT_RUN, "record", BT_I64, (const int64_t[]){BT_END});
    bt_status status = phase && x && slope && record ? record_chain(graph, x, slope, record) : BT_ERROR_MEMORY;
    if (status == BT_OK) {
        phase->options.rows = false;
        phase->options.rule = BT_ORDER_WRITTEN;
        phase->options.levels = &level;
        phase->options.level_count = 1;
        status = bt_phase_add(phase, graph, 0, "chain") < 0 ? bt_error_status() : bt_phase_plan(phase);
    }
    if (status == BT_OK) {
        bt_phase_begin(phase);
        status = bt_phase_run(phase, 0);
        bt_phase_end(phase);
    } else if (graph && graph->status != BT_OK && !*bt_error()) {
        bt_fail(graph->status, "%s", graph->message);
    }
    if (status == BT_OK)
        status = put_variables(r);
    bt_phase_free(phase);
    bt_instance_free(instance);
    bt_graph_free(graph);
    free_variables();
    return status;
}

/* v = a b, then y = v c: joined, and multiplied in the other order, without v. */
static bt_status chains(result *r)
{
    bt_graph *graphs[] = {bt_graph_new(), bt_graph_new()}, *joined = NULL, *lowered = NULL, *shorter = NULL;
    bt_var *y = variable(BT_RUN, "y", BT_F64, DIMS(60, 1)), *v = variable(BT_RUN, "v", BT_F64, DIMS(60, 80)),
           *a = variable(BT_RUN, "a", BT_F64, DIMS(60, 70)), *b = variable(BT_RUN, "b", BT_F64, DIMS(80, 70)),
           *c = variable(BT_RUN, "c", BT_F64, DIMS(80, 1));
    bt_status status = BT_ERROR_MEMORY;
    for (int k = 0; k < 2 && graphs[k] && c; k++) {
        bt_trace trace;
        bt_trace_begin(&trace, graphs[k], BT_TRAIN, BT_F64);
        if (k)
            assign(graphs[k], y, bt_dot(bt_trace_read(v), bt_trace_read(c)));
        else
            assign(graphs[k], v, bt_dot(bt_trace_read(a), bt_transpose(bt_trace_read(b))));
        bt_trace_end(&trace);
        status = graphs[k]->status;
    }
    double saved;
    bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    if (status == BT_OK && graphs[0]->status == BT_OK && graphs[1] && c)
        status = bt_join(graphs[0], graphs[1], v, &joined);
    if (joined && (lowered = bt_compile_lowered(joined, &options)) != NULL)
        status = bt_reassociate(lowered, &shorter, &saved);
    if (shorter)
        status = run(shorter, r);
    bt_graph_free(shorter);
    bt_graph_free(lowered);
    bt_graph_free(joined);
    for (int k = 0; k < 2; k++)
        bt_graph_free(graphs[k]);
    free_variables();
    return shorter ? status : BT_ERROR_MEMORY;
}

static bt_status decide(void *user, bt_var *root, const bt_spread *spread)
{
    put(user, (double)spread->kind);
    return root ? BT_OK : BT_ERROR_INTERNAL;
}

static bt_var *half(void *user, bt_var *var)
{
    (void)user;
    return strcmp(var->name, "x") == 0 ? vars[1] : var;
}

/* A graph for all ranks, and that of the second of two ranks. */
static bt_status of_two_ranks(result *r)
{
    bt_graph *graph = bt_graph_new(), *lowered = NULL, *own = NULL;
    bt_var *x = variable(BT_EXTERNAL, "x", BT_F64, DIMS(4, 2)),
           *part = variable(BT_EXTERNAL, "part", BT_F64, DIMS(2, 2)), *w = variable(BT_RUN, "w", BT_F64, DIMS(2)),
           *sum = variable(BT_PHASE, "sum", BT_F64, DIMS(2));
    bt_sharded_report report = {0};
    bt_world world = {.rank = 1, .ranks = 2, .decide = decide, .local = half, .user = r};
    bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    if (graph && x && part && w && sum) {
        bt_trace trace;
        bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
        bt_tensor *batch = bt_trace_read(x), *weight = bt_trace_read(w);
        if (!bt_poisoned(batch))
            batch->batch_axis = 0;
        sum->clear = true;
        bt_tensor *y = bt_batch_norm(bt_mul(batch, weight), 1, NULL, NULL, 0.1, NULL, NULL);
        bt_tensor *g = bt_grad(bt_mean(bt_square(bt_cumsum(y, 0))), weight);
        assign(graph, sum, bt_add(bt_trace_read(sum), g));
        assign(graph, w, bt_sub(weight, bt_max(y, 0)));
        bt_trace_end(&trace);
        lowered = bt_compile_lowered(graph, &options);
    }
    if (lowered && (own = bt_shard(lowered, &world, &report)) != NULL) {
        put(r, (double)own->node_count);
        put(r, (double)(report.reduced + report.gathered + report.place_count));
    }
    const bt_status status = own ? BT_OK : BT_ERROR_MEMORY;
    bt_sharded_free(&report);
    bt_graph_free(own);
    bt_graph_free(lowered);
    bt_graph_free(graph);
    free_variables();
    return status;
}

static void mixed(void *user, const bt_node *node) { put(user, node->outputs); }

/* Whether a loss splits over micro-batches: the output that is asked about may be what does not fit. */
static bt_status split(result *r)
{
    bt_graph *graph = bt_graph_new();
    bt_var *x = variable(BT_EXTERNAL, "x", BT_F64, DIMS(4, 2)), *w = variable(BT_RUN, "w", BT_F64, DIMS(2, 3));
    bt_split found = BT_SPLITS;
    bt_status status = BT_ERROR_MEMORY;
    if (graph && x && w) {
        bt_trace trace;
        bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
        bt_tensor *batch = bt_trace_read(x);
        if (!bt_poisoned(batch))
            batch->batch_axis = 0;
        bt_tensor *loss = bt_sum(bt_square(bt_softmax(bt_matmul(batch, bt_trace_read(w)), -1)));
        bt_trace_end(&trace);
        status = graph->status == BT_OK ? bt_split_of(graph, loss, NULL, 4, mixed, r, &found) : graph->status;
    }
    put(r, found);
    bt_graph_free(graph);
    free_variables();
    return status;
}

static bt_status blocks(result *r)
{
    const bt_array shapes[] = {{.dtype = BT_F64, .rank = 1, .dims = {3}}, {.dtype = BT_F64, .rank = 1, .dims = {2}}};
    const char *const names[] = {"a", "b"};
    bt_block block;
    bt_status status = bt_block_new(&block, BT_RUN, BT_PARAMETERS, "owner", "block", BT_F64, shapes, names, NULL, 2);
    if (status == BT_OK)
        put(r, (double)block.flat->bytes);
    bt_block_free(&block);
    bt_text text = {0};
    for (int i = 0; i < 200; i++)
        bt_text_add(&text, "line %d\n", i);
    if (text.failed)
        status = BT_ERROR_MEMORY;
    put(r, (double)text.size);
    bt_text_free(&text);
    return status;
}

/* Rotated images, and tasks of them, two of which are drawn. */
static bt_status few_shot(result *r)
{
    float image[24] = {0, 1, 2, 3};
    int32_t label[6] = {0, 1, 0, 1, 0, 1};
    bt_dataset *data = bt_dataset_new(6);
    bt_dataset_add(data, "image", BT_ARRAY(image, 6, 2, 2, 1));
    bt_dataset_add(data, "label", BT_ARRAY(label, 6));
    data = bt_dataset_rotations(bt_dataset_part(data, 0, 1, 3));
    bt_loader_options options = bt_loader_defaults();
    bt_loader *loader = bt_loader_open(bt_dataset_tasks(data, 3, 1, 2, 1), &options);
    bt_status status = loader ? BT_OK : bt_error_status();
    for (int i = 0; loader && i < 2; i++) {
        const bt_batch *task;
        status = bt_loader_draw(loader, &task);
        for (int f = 0; f < task->field_count; f++)
            put(r, bt_get(task->fields[f].array.dtype, task->fields[f].array.data, 2));
    }
    bt_loader_free(loader);
    return status;
}

/* All kinds of augmented images, alone and joined with others. */
static bt_status changed(result *r)
{
    static const double half[1] = {0.5};
    float image[24] = {0, 1, 2, 3};
    int32_t label[6] = {0, 1, 0, 1, 0, 1};
    bt_dataset *sets[2];
    for (int k = 0; k < 2; k++) {
        bt_dataset *data = bt_dataset_new(6);
        bt_dataset_add(data, "image", BT_ARRAY(image, 6, 2, 2, 1));
        bt_dataset_add(data, "label", BT_ARRAY(label, 6));
        data = bt_dataset_cutout(bt_dataset_flip(bt_dataset_crop(data, 1, 1), 1), 1, 1);
        data = bt_dataset_normalize(bt_dataset_mixup(data, 0.5, 1), BT_ARRAY(half, 1), BT_ARRAY(half, 1));
        sets[k] = data;
    }
    bt_loader *loader = bt_loader_new(bt_dataset_join(sets[0], "other", sets[1]), 4, 1);
    bt_status status = loader ? BT_OK : bt_error_status();
    const bt_batch *batch;
    if (loader && (status = bt_loader_next(loader, &batch)) == BT_OK)
        for (int f = 0; f < batch->field_count; f++)
            put(r, bt_get(batch->fields[f].array.dtype, batch->fields[f].array.data, 2));
    bt_loader_free(loader);
    return status;
}

/* A norm with a shortcut, pooled and upsampled: fused, with kernels that keep tables. */
static bt_status images(result *r)
{
    bt_graph *graph = bt_graph_new();
    if (!graph)
        return BT_ERROR_MEMORY;
    bt_trace trace;
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
    bt_tensor *x = bt_trace_read(variable(BT_RUN, "x", BT_F64, DIMS(1, 2, 2, 2)));
    bt_tensor *scale = bt_trace_read(variable(BT_RUN, "scale", BT_F64, DIMS(2)));
    bt_tensor *y = bt_relu(bt_add(bt_group_norm(x, 1, scale, NULL, 0.1), x));
    bt_tensor *z = bt_avg_pool2d(bt_upsample_bilinear(bt_max_pool2d(y, 2, 1, 1), 4, 4), 2, 2, 0);
    bt_graph_output(graph, bt_grad(bt_sum(bt_square(z)), x));
    bt_trace_end(&trace);
    bt_status status = run(graph, r);
    bt_graph_free(graph);
    free_variables();
    return status;
}

static bt_tensor *shown(bt_tensor *x)
{
    bt_tensor *wide = bt_adaptive_avg_pool2d(bt_upsample_bilinear(x, 5, 3), 3, 2), *places;
    bt_topk(bt_reshape(wide, bt_dim(wide, 0), -1), 2, 1, &places);
    return bt_concat(1, bt_one_hot(places, 12), bt_softplus(bt_reshape(wide, bt_dim(wide, 0), 1, -1)));
}

static void put_size(result *r, const char *path)
{
    struct stat info;
    put(r, stat(path, &info) == 0 ? (double)info.st_size : -1);
    unlink(path);
}

/* A network as exported files. */
static bt_status exported(result *r)
{
    static const char onnx[] = "/dev/shm/betty-torture.onnx", torch[] = "/dev/shm/betty-torture.safetensors";
    const bt_array image = {.dtype = BT_F32, .rank = 4, .dims = {0, 4, 4, 1}};
    bt_module *net = bt_nn_sequential(NULL);
    bt_module_add(net, bt_nn_conv2d(1, 2, 3), "0");
    bt_module_add(net, bt_nn_batch_norm(2), "1");
    bt_module_add(net, bt_nn_fn(shown), "2");
    bt_status status = net ? bt_module_init(net, BT_CPU, BT_F32, 1) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = bt_module_export(net, onnx, &(bt_model_input){"image", image}, 1);
    if (status == BT_OK)
        status = bt_module_export(net, torch, NULL, 0);
    if (status == BT_OK) {
        put_size(r, onnx);
        put_size(r, torch);
    }
    bt_module_free(net);
    return status == BT_OK ? BT_OK : bt_error_status(); /* the first error; a missing child causes later ones */
}

/* ---- the torture ---- */

static void compare(const result *found, const result *expected, long n)
{
    ck_assert_int_eq(found->count, expected->count);
    for (int i = 0; i < found->count; i++)
        ck_assert_msg(found->values[i] == expected->values[i], "allocation %ld: value %d is %.17g, not %.17g", n, i,
                      found->values[i], expected->values[i]);
}

/* `forever`: blocks that a scenario may keep for the rest of the process. */
static void torture(scenario *fn, const char *name, long forever, bool all)
{
    result expected = {.count = 0};
    bt_error_clear();
    ck_assert_msg(fn(&expected) == BT_OK, "%s: %s", name, bt_error()); /* now one-time allocations are done */
    size_t bytes = bt_live_bytes();
    long survived = 0, n = 0;
    for (bool reached = true; reached; n++) {
        result found = {.count = 0};
        bt_error_clear();
        failing_start(n, all);
        bt_status status = fn(&found);
        reached = failing_stop();
        ck_assert_int_eq(var_count, 0);
        ck_assert_msg(failing_live() <= forever, "%s: allocation %ld: %ld blocks are lost", name, n, failing_live());
        ck_assert_uint_eq(bt_live_bytes(), bytes);
        ck_assert_ptr_null(bt_trace_now());
        if (status == BT_OK) {
            compare(&found, &expected, n);
            survived += reached;
        } else {
            ck_assert_msg(reached, "%s: %s", name, bt_error());
            ck_assert_msg(status == BT_ERROR_MEMORY, "%s: allocation %ld: status %d, %s", name, n, status, bt_error());
            ck_assert_msg(strstr(bt_error(), "memory"), "%s: allocation %ld: \"%s\"", name, n, bt_error());
        }
    }
    ck_assert_msg(n > 20, "%s: only %ld allocations", name, n);
    ck_assert_msg(survived <= n / 10, "%s: %ld of %ld failures went unnoticed", name, survived, n);
    bt_error_clear();
}

static const struct {
    scenario *fn;
    const char *name, *plan;
    long forever;
} scenarios[] = {{training, "training", "on", 0},         {training, "training, unplanned", "off", 0},
                 {derivatives, "derivatives", "on", 8},   {phases, "phases", "on", 0},
                 {phases, "phases, guarded", "guard", 0}, {blocks, "blocks", "on", 0},
                 {recomputed, "recomputed", "on", 0},     {chains, "chains", "on", 0},
                 {of_two_ranks, "of two ranks", "on", 0}, {few_shot, "few shot", "on", 0},
                 {changed, "changed", "on", 0},           {images, "images", "on", 0},
                 {exported, "exported", "on", 0},         {split, "split", "on", 0}};

START_TEST(every_allocation_in_turn)
{
    setenv("BETTY_PLAN", scenarios[_i].plan, 1);
    torture(scenarios[_i].fn, scenarios[_i].name, scenarios[_i].forever, false);
    torture(scenarios[_i].fn, scenarios[_i].name, scenarios[_i].forever, true);
    unsetenv("BETTY_PLAN");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core");
    TCase *tests = tcase_create("core");
    tcase_add_loop_test(tests, every_allocation_in_turn, 0, BT_COUNT_OF(scenarios));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
