/* For tests/readers/onnx.py: every module of betty/nn.h and some made of ops, trained for some steps on noise, then
 * written as NAME.onnx and NAME.safetensors, with libbetty's own results: NAME.N.INPUT.bin has the inputs of N
 * examples, NAME.N.output.bin the outputs. Each entry of cases.txt has: name, N, number of inputs; name, dtype, rank
 * and sizes of each; rank and sizes of the output. */
#include <betty/betty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INPUTS = 3, MOST_VALUES = 1 << 20, STEPS = 3 };

typedef struct net {
    const char *name;
    bt_module *module;
    bt_model_input in[MOST_INPUTS + 1]; /* a size of 0: the batch; ends with a NULL name */
    int64_t below;                      /* the upper bound of integer inputs */
    bt_optimizer *optimizer;
    bt_array out; /* dtype and shape of the last trace */
} net;

static FILE *cases;

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, bt_error());
    exit(1);
}

static bt_tensor *forward(net *n, const bt_batch *batch)
{
    bt_tensor *in[MOST_INPUTS + 1] = {NULL};
    for (int i = 0; n->in[i].name; i++)
        in[i] = bt_field(batch, "%s", n->in[i].name);
    bt_tensor *y = bt_forward_module_(n->module, in);
    n->out = (bt_array){.dtype = BT_F32, .rank = bt_rank(y)};
    for (int a = 0; a < n->out.rank; a++)
        n->out.dims[a] = bt_dim(y, a);
    return y;
}

static bt_tensor *apply(void *user, const bt_batch *batch) { return forward(user, batch); }

/* Trains towards 1: all parameters and buffers change. */
static bt_tensor *train(void *user, const bt_batch *batch)
{
    net *n = user;
    bt_tensor *loss = bt_mean(bt_square(bt_sub(forward(n, batch), 1)));
    bt_optimizer_minimize(n->optimizer, loss, n->module);
    return loss;
}

static void save(const net *n, int64_t examples, const char *field, const float *values, int64_t count)
{
    char path[256];
    snprintf(path, sizeof path, "%s.%lld.%s.bin", n->name, (long long)examples, field);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(values, 4, (size_t)count, file) != (size_t)count || fclose(file) != 0)
        die(path);
}

static void print_shape(bt_array array)
{
    fprintf(cases, " %d", array.rank);
    for (int a = 0; a < array.rank; a++)
        fprintf(cases, " %lld", (long long)array.dims[a]);
}

static bt_batch *draw(const net *n, int64_t examples, bool told)
{
    static union {
        float real;
        int32_t whole;
    } values[MOST_VALUES];
    bt_batch *batch = bt_batch_new();
    for (int i = 0; n->in[i].name; i++) {
        bt_array array = n->in[i].shape;
        array.data = values;
        for (int a = 0; a < array.rank; a++)
            array.dims[a] = array.dims[a] ? array.dims[a] : examples;
        for (int64_t e = 0; e < bt_array_count(array); e++) {
            const double u = bt_host_uniform((uint64_t)examples, (uint64_t)i, (uint64_t)e);
            if (array.dtype == BT_I32)
                values[e].whole = (int32_t)((double)n->below * u);
            else
                values[e].real = (float)(2 * u - 1);
        }
        if (bt_batch_set(batch, n->in[i].name, array) != BT_OK)
            die(n->name);
        if (told) {
            save(n, examples, n->in[i].name, &values->real, bt_array_count(array));
            fprintf(cases, " %s %s", n->in[i].name, array.dtype == BT_I32 ? "int32" : "float32");
            print_shape(array);
        }
    }
    return batch;
}

static void compute(net *n, int64_t examples)
{
    static float y[MOST_VALUES];
    int inputs = 0;
    while (n->in[inputs].name)
        inputs++;
    fprintf(cases, "%s %lld %d", n->name, (long long)examples, inputs);
    bt_batch *batch = draw(n, examples, true);
    bt_function *function = bt_function_new(apply, n, BT_VALID);
    if (bt_function_run(function, batch, (bt_array){0}) != BT_OK)
        die(n->name);
    bt_array out = n->out;
    out.data = y;
    if (bt_array_count(out) > MOST_VALUES || bt_function_run(function, batch, out) != BT_OK)
        die(n->name);
    print_shape(out);
    fprintf(cases, "\n");
    save(n, examples, "output", y, bt_array_count(out));
    bt_function_free(function);
    bt_batch_free(batch);
}

/* Frees the module. */
static void take(net n)
{
    char path[256];
    int inputs = 0;
    double loss;
    while (n.in[inputs].name)
        inputs++;
    if (bt_module_init(n.module, BT_CPU, BT_F32, 1) != BT_OK)
        die(n.name);
    if (bt_param_count(n.module)) {
        n.optimizer = bt_optimizer_new("adam");
        bt_optimizer_set(n.optimizer, "lr", 0.02);
        bt_batch *batch = draw(&n, 8, false);
        bt_function *function = bt_function_new(train, &n, BT_TRAIN);
        for (int step = 0; step < STEPS; step++)
            if (bt_function_run(function, batch, BT_ARRAY(&loss)) != BT_OK)
                die(n.name);
        bt_function_free(function);
        bt_batch_free(batch);
        bt_optimizer_free(n.optimizer);
    }
    compute(&n, 2);
    compute(&n, 5);
    snprintf(path, sizeof path, "%s.onnx", n.name);
    if (bt_module_export(n.module, path, n.in, inputs) != BT_OK)
        die(path);
    snprintf(path, sizeof path, "%s.safetensors", n.name);
    if (bt_param_count(n.module) && bt_module_export(n.module, path, NULL, 0) != BT_OK)
        die(path);
    bt_module_free(n.module);
}

static bt_array floats(int rank, int64_t a, int64_t b, int64_t c)
{
    return (bt_array){.dtype = BT_F32, .rank = rank + 1, .dims = {0, a, b, c}};
}

static bt_array integers(int rank, int64_t a) { return (bt_array){.dtype = BT_I32, .rank = rank + 1, .dims = {0, a}}; }

#define TAKE(name_, module_, ...) take((net){.name = (name_), .module = (module_), .below = 7, .in = {__VA_ARGS__}})

/* ---- modules of rows ---- */

static void take_rows(void)
{
    const bt_linear_options no_bias = {.bias = false};
    TAKE("mlp", bt_nn_mlp(bt_relu, 16, 12, 12, 3), {"x", floats(3, 4, 4, 1)});
    TAKE("mlp_gelu", bt_nn_mlp(bt_gelu, 16, 12, 3), {"x", floats(1, 16, 0, 0)});
    TAKE("linear", bt_nn_linear(5, 3), {"x", floats(2, 4, 5, 0)});
    TAKE("linear_no_bias", bt_nn_linear(5, 3, &no_bias), {"x", floats(1, 5, 0, 0)});
    TAKE("sequential",
         bt_nn_sequential(bt_nn_linear(5, 6), bt_nn_fn(bt_gelu_tanh), bt_nn_dropout(0.4), bt_nn_linear(6, 2)),
         {"x", floats(1, 5, 0, 0)});
    TAKE("layer_norm", bt_nn_layer_norm(6), {"x", floats(2, 3, 6, 0)});
    TAKE("parameter", bt_nn_parameter(bt_init_normal(0, 1), 3, 2), {.name = NULL});
    TAKE("lora", bt_nn_lora(bt_nn_linear(6, 4), 2, 4), {"x", floats(1, 6, 0, 0)});
}

/* ---- modules of images ---- */

static void take_images(void)
{
    const bt_array image = floats(3, 9, 7, 4), small = floats(3, 6, 6, 3);
    bt_conv2d_options o = bt_conv2d_defaults();
    TAKE("conv", bt_nn_conv2d(4, 6, 3), {"x", image});
    o.stride = 2, o.padding = 2, o.dilation = 2, o.groups = 2, o.bias = false;
    TAKE("conv_groups", bt_nn_conv2d(4, 6, 3, &o), {"x", image});
    TAKE("max_pool", bt_nn_max_pool2d(3, 2, 1), {"x", image});
    TAKE("avg_pool", bt_nn_avg_pool2d(3, 2, 1), {"x", image});
    bt_batch_norm_options b = bt_batch_norm_defaults();
    TAKE("batch_norm", bt_nn_batch_norm(3), {"x", small});
    TAKE("batch_norm_rows", bt_nn_batch_norm(5), {"x", floats(1, 5, 0, 0)});
    b.affine = false;
    TAKE("batch_norm_plain", bt_nn_batch_norm(3, &b), {"x", small});
    b.affine = true, b.statistics = BT_STATISTICS_BATCH;
    TAKE("batch_norm_batch", bt_nn_batch_norm(3, &b), {"x", small});
    TAKE("group_norm", bt_nn_group_norm(2, 4), {"x", image});
    TAKE("instance_norm", bt_nn_instance_norm(4), {"x", image});
    TAKE("lenet", bt_nn_lenet(28, 28, 1, 10), {"x", floats(3, 28, 28, 1)});
    TAKE("convnet", bt_nn_convnet(14, 14, 1, 8, 3, 5), {"x", floats(3, 14, 14, 1)});
    TAKE("convnet_strided", bt_nn_convnet_strided(1, 8, 3, 5), {"x", floats(3, 14, 14, 1)});
    TAKE("resnet_cifar", bt_nn_resnet_cifar(20, 3, 10), {"x", floats(3, 16, 16, 3)});
    TAKE("resnet18", bt_nn_resnet(18, 3, 10), {"x", floats(3, 32, 32, 3)});
    TAKE("resnet50", bt_nn_resnet(50, 3, 10), {"x", floats(3, 32, 32, 3)});
    TAKE("wide_resnet", bt_nn_wide_resnet(10, 2, 3, 10, 0.3), {"x", floats(3, 16, 16, 3)});
    TAKE("darts", bt_nn_darts(3, 4, 3, 2, 10), {"x", floats(3, 8, 8, 3)},
         {"normal", (bt_array){.dtype = BT_F32, .rank = 2, .dims = {bt_nn_darts_edges(2), BT_NN_DARTS_OPS}}},
         {"reduce", (bt_array){.dtype = BT_F32, .rank = 2, .dims = {bt_nn_darts_edges(2), BT_NN_DARTS_OPS}}});
}

/* A U-Net with one step down and up. */
static bt_tensor *u_net_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *top = bt_relu(bt_forward(bt_child(self, "down"), in[0])), *low = bt_max_pool2d(top, 2, 2, 0);
    low = bt_relu(bt_forward(bt_child(self, "low"), low));
    bt_tensor *up = bt_upsample_bilinear(low, bt_dim(top, 1), bt_dim(top, 2));
    return bt_forward(bt_child(self, "up"), bt_concat(3, up, top));
}

static bt_module *u_net(void)
{
    bt_conv2d_options o = bt_conv2d_defaults();
    o.padding = 1;
    bt_module *net = bt_module_new(u_net_forward);
    bt_module_add(net, bt_nn_conv2d(2, 4, 3, &o), "down");
    bt_module_add(net, bt_nn_conv2d(4, 6, 3, &o), "low");
    bt_module_add(net, bt_nn_conv2d(10, 2, 3, &o), "up");
    return net;
}

/* ---- modules of sequences ---- */

static void take_recurrent(void)
{
    bt_recurrent_options o = bt_recurrent_defaults();
    const bt_array x = floats(2, 7, 4, 0), lengths = {.dtype = BT_I32, .rank = 1, .dims = {0}};
    TAKE("lstm", bt_nn_lstm(4, 5), {"x", x});
    TAKE("gru", bt_nn_gru(4, 5), {"x", x});
    o.layers = 2, o.bidirectional = true, o.dropout = 0.2;
    TAKE("lstm_deep", bt_nn_lstm(4, 5, &o), {"x", x}, {"lengths", lengths});
    TAKE("gru_deep", bt_nn_gru(4, 5, &o), {"x", x}, {"lengths", lengths});
    TAKE("lstm_cell", bt_nn_lstm_cell(4, 5), {"x", floats(1, 4, 0, 0)}, {"state", floats(1, 10, 0, 0)});
    TAKE("gru_cell", bt_nn_gru_cell(4, 5), {"x", floats(1, 4, 0, 0)});
}

static void take_attention(void)
{
    bt_nn_attention_options o = bt_nn_attention_defaults();
    const bt_array x = floats(2, 6, 8, 0), source = floats(2, 5, 3, 0);
    const bt_embedding_options padding = {2};
    TAKE("embedding", bt_nn_embedding(7, 4), {"token", integers(1, 6)});
    TAKE("embedding_padding", bt_nn_embedding(7, 4, &padding), {"token", integers(1, 6)});
    TAKE("attention", bt_nn_attention(8, 2), {"x", x});
    o.causal = true, o.rotary = true;
    TAKE("attention_causal", bt_nn_attention(8, 2, &o), {"x", x});
    o = bt_nn_attention_defaults();
    o.source = 3, o.head_width = 5, o.dropout = 0.1;
    TAKE("attention_source", bt_nn_attention(8, 2, &o), {"x", x}, {"source", source}, {"mask", integers(1, 5)});
    o.bias = false, o.source = 0, o.block = 4;
    TAKE("attention_blocks", bt_nn_attention(8, 2, &o), {"x", x});
}

static void take_transformers(void)
{
    bt_transformer_options o = bt_transformer_defaults();
    o.width = 8, o.heads = 2, o.layers = 2, o.vocabulary = 7, o.length = 9;
    TAKE("transformer", bt_nn_transformer(&o), {"token", integers(1, 6)});
    o.tied = false, o.positions = BT_POSITIONS_ROTARY, o.activation = bt_silu;
    TAKE("transformer_rotary", bt_nn_transformer(&o), {"token", integers(1, 6)});
    o.causal = o.pre_norm = o.final_norm = o.head = false, o.embedding_norm = true, o.dropout = 0.1, o.padding = 0;
    o.types = 7, o.positions = BT_POSITIONS_LEARNED, o.activation = bt_gelu;
    TAKE("transformer_bert", bt_nn_transformer(&o), {"token", integers(1, 6)}, {"type", integers(1, 6)},
         {"mask", integers(1, 6)});
    o = bt_transformer_defaults();
    o.width = 8, o.heads = 2, o.layers = 1, o.activation = bt_relu, o.positions = BT_POSITIONS_SINUSOIDAL;
    TAKE("transformer_plain", bt_nn_transformer(&o), {"x", floats(2, 6, 8, 0)});
    o.cross = true;
    TAKE("transformer_cross", bt_nn_transformer(&o), {"x", floats(2, 6, 8, 0)}, {"source", floats(2, 5, 8, 0)},
         {"mask", integers(1, 5)});
    o.cross = o.pre_norm = o.causal = false;
    TAKE("transformer_layer", bt_nn_transformer_layer(&o), {"x", floats(2, 6, 8, 0)});
}

/* ---- modules that users build from ops ---- */

static bt_tensor *many_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = in[0], *y = bt_add(bt_selu(x), bt_elu(x, 0.7)); /* [n, 5, 6] */
    (void)self;
    y = bt_add(y, bt_add(bt_mish(x), bt_leaky_relu(x, 0.1)));
    y = bt_add(y, bt_mul(bt_sort(x, 1, true), bt_cumsum(x, 2)));
    y = bt_add(y, bt_flip(bt_roll(x, 2, 1), 2));
    y = bt_add(y, bt_einsum("nij,nkj,nkl->nil", x, x, x));
    y = bt_add(y, bt_log_softmax(bt_tril(bt_softmax(x, 2), 0), 1));
    return bt_concat(1, y, bt_pad(bt_topk(x, 3, 2, NULL), 2, 1, 2));
}

/* Rows of the batch next to each other, and the two halves of the batch separately. */
static bt_tensor *batch_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = in[0], *twice = bt_concat(0, x, bt_mul(x, 2)); /* [n, 3], [2 n, 3] */
    (void)self;
    twice = bt_sub(twice, bt_max(twice, 0));
    return bt_add(bt_slice(twice, 0, 0, bt_dim(x, 0)), bt_slice(twice, 0, bt_dim(x, 0), BT_REST));
}

static bt_tensor *pools_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = bt_upsample_nearest(in[0], 7, 5), *wide = bt_upsample_bilinear(in[0], 7, 5);
    (void)self;
    return bt_concat(3, bt_adaptive_avg_pool2d(x, 3, 2), bt_adaptive_max_pool2d(wide, 3, 2),
                     bt_adaptive_avg_pool2d(bt_adaptive_max_pool2d(x, 6, 1), 3, 2));
}

static void take_own(void)
{
    TAKE("own", bt_module_new(many_forward), {"x", floats(2, 5, 6, 0)});
    TAKE("own_batch", bt_module_new(batch_forward), {"x", floats(1, 3, 0, 0)});
    TAKE("own_pools", bt_module_new(pools_forward), {"x", floats(3, 4, 4, 2)});
    TAKE("u_net", u_net(), {"x", floats(3, 7, 6, 2)});
}

int main(void)
{
    cases = fopen("cases.txt", "w");
    if (!cases)
        return 1;
    take_rows();
    take_images();
    take_recurrent();
    take_attention();
    take_transformers();
    take_own();
    return *bt_error() || fclose(cases) != 0;
}
