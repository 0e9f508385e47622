/* betty/nn.h: modules */
#ifndef BETTY_NN_H
#define BETTY_NN_H

#include <betty/base.h>
#include <betty/tensor.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A module declares names, shapes and initial values. The problem that adopts it, or bt_module_init, makes its storage.
 * A path looks like "cell2.conv.weight". A mistake in the definition of a module is reported when it is adopted. */

typedef bt_tensor *bt_forward_fn(bt_module *self, bt_tensor *const *in); /* traced; `in` ends with NULL */
typedef bt_tensor *bt_unary_fn(bt_tensor *x);

typedef struct bt_init { /* the initial values of a parameter */
    enum { BT_INIT_CONSTANT, BT_INIT_NORMAL, BT_INIT_UNIFORM, BT_INIT_ARRAY } kind;
    double a, b; /* the value; mean and standard deviation; low and high */
    bt_array values;
} bt_init;
bt_init bt_init_constant(double value);
bt_init bt_init_normal(double mean, double deviation);
bt_init bt_init_uniform(double low, double high);
bt_init bt_init_array(bt_array values); /* copied when the parameter is declared */
/* Kaiming: for layers before a ReLU (He et al. 2015, standard deviation sqrt(2 / fan)). Xavier: for other layers
 * (Glorot and Bengio 2010, standard deviation sqrt(2 / (fan_in + fan_out))). fan and fan_in: how many numbers a unit
 * reads. fan_out: how many units read it. */
bt_init bt_init_kaiming_normal(int64_t fan);
bt_init bt_init_kaiming_uniform(int64_t fan);
bt_init bt_init_xavier_normal(int64_t fan_in, int64_t fan_out);
bt_init bt_init_xavier_uniform(int64_t fan_in, int64_t fan_out);

/* Defines a new kind of module: its forward function (NULL for a module that only holds others), its children, its
 * parameters, and its buffers, which are not trained. */
bt_module *bt_module_new(bt_forward_fn *forward);
void bt_module_add(bt_module *self, bt_module *child, const char *name, ...) BT_FORMAT(3, 4); /* name: format */
/* clang-format off */
void (bt_module_add_param)(bt_module *self, const char *name, bt_init init, const int64_t *sizes);
void (bt_module_add_buffer)(bt_module *self, const char *name, bt_init init, const int64_t *sizes);
/* clang-format on */
#define bt_module_add_param(self, name, ...)  BT_ADD_(bt_module_add_param, self, name, __VA_ARGS__, BT_END)
#define bt_module_add_buffer(self, name, ...) BT_ADD_(bt_module_add_buffer, self, name, __VA_ARGS__, BT_END)
/* bt_module_add_param(self, name, init, sizes...) */

/* Replaces the initial values of a declared parameter or buffer: bt_module_set_init(net, "0.weight", init). */
void bt_module_set_init(bt_module *self, const char *path, bt_init init);

/* Using a module. `m` is a module or a problem; a problem stands for its module. A missing name poisons the result, and
 * the message lists the names that exist. */
/* clang-format off */
bt_module *(bt_child)(bt_module *m, const char *path, ...) BT_FORMAT(2, 3); /* path: format */
bt_tensor *(bt_param)(bt_module *m, const char *path, ...) BT_FORMAT(2, 3); /* a parameter or buffer; path: format */
bt_tensor *(bt_params)(bt_module *m);    /* all parameters as one vector: its own, then its children's, as declared */
int64_t (bt_param_count)(bt_module *m);  /* the length of that vector; also on the host */
void (bt_param_set)(bt_module *m, const char *path, bt_tensor *value); /* sets a buffer's value after this run */
/* clang-format on */
#define bt_forward(...)              BT_FORWARD_(__VA_ARGS__, NULL) /* bt_forward(m, inputs...) */
#define bt_child(m, ...)             (bt_child)(BT_MODULE_(m), __VA_ARGS__)
#define bt_param(m, ...)             (bt_param)(BT_MODULE_(m), __VA_ARGS__)
#define bt_params(m)                 (bt_params)(BT_MODULE_(m))
#define bt_param_count(m)            (bt_param_count)(BT_MODULE_(m))
#define bt_param_set(m, path, value) (bt_param_set)(BT_MODULE_(m), (path), (value))

/* Ready-made modules, initialised by PyTorch's formulas. Their parameters are called "weight" and "bias";
 * bt_nn_parameter has "value". The children of bt_nn_mlp (its linear layers) and of bt_nn_sequential are called "0",
 * "1", ... */
bt_module *bt_nn_fn(bt_unary_fn *function);   /* an op as a module */
bt_module *bt_nn_dropout(double probability); /* the probability of dropping a value, 0 <= p < 1 */
/* Layer normalisation over the last axis (Ba et al. 2016), with weight and bias. NULL: the defaults. */
typedef struct bt_layer_norm_options {
    double eps;
} bt_layer_norm_options;
bt_layer_norm_options bt_layer_norm_defaults(void); /* 1e-5 */
bt_module *(bt_nn_layer_norm)(int64_t features, const bt_layer_norm_options *options);
/* A linear layer from [..., in] to [..., out]. NULL: the defaults. */
typedef struct bt_linear_options {
    bool bias;
} bt_linear_options;
bt_linear_options bt_linear_defaults(void); /* true */
bt_module *(bt_nn_linear)(int64_t in, int64_t out, const bt_linear_options *options);

/* Looks up rows of a table: integers [...] in 0..count-1 give [..., width]. The values are standard normal at first.
 * padding: the number of a row that starts at 0 and gets no gradient from look-ups; -1: none. A number outside the
 * table ends the run (BT_ERROR_DATA). NULL: the defaults. */
typedef struct bt_embedding_options {
    int64_t padding;
} bt_embedding_options;
bt_embedding_options bt_embedding_defaults(void); /* -1 */
bt_module *(bt_nn_embedding)(int64_t count, int64_t width, const bt_embedding_options *options);

/* Attention with several heads (Vaswani et al. 2017), from [n, tokens, width] to the same shape.
 *
 *     bt_forward(m, x)                attention of x to itself
 *     bt_forward(m, x, source)        keys and values come from another sequence, [n, its tokens, source]
 *     bt_forward(m, x, source, mask)  likewise, with a mask of its tokens, [n, its tokens]
 *     bt_forward(m, x, x, mask)       attention of x to itself, with a mask
 *
 * Parameters are named as in PyTorch's MultiheadAttention: "in_proj_weight" (rows of queries, keys, values), or, if the
 * source's width differs, "q_proj_weight", "k_proj_weight", "v_proj_weight"; then "in_proj_bias", "out_proj.weight",
 * "out_proj.bias". NULL: the defaults. */
typedef struct bt_nn_attention_options {
    int64_t head_width; /* 0: width / heads */
    int64_t source;     /* the width of the other sequence; 0: the same width */
    bool causal, bias;
    bool rotary;    /* rotates queries and keys by bt_rotary; for one sequence only */
    double dropout; /* of the weights; for causal, block and held see bt_attention */
    int64_t block;
    bool held;
} bt_nn_attention_options;
bt_nn_attention_options bt_nn_attention_defaults(void); /* bias is true; all others false or 0 */
bt_module *(bt_nn_attention)(int64_t width, int64_t heads, const bt_nn_attention_options *options);

/* Transformers.
 *
 * A layer has attention of the tokens to themselves ("self_attn"), with `cross` also attention to a source
 * ("multihead_attn"), and then "linear1", the activation and "linear2". Each part f has dropout on its result, a
 * residual connection and a norm: x + f(norm(x)) with pre_norm, else norm(x + f(x)). As in PyTorch, the norms are
 * called "norm1", "norm2", "norm3". The inputs of a layer are x [n, tokens, width]; with cross a source [n, its tokens,
 * source]; and optionally a mask, [n, tokens], which belongs to the source if there is one.
 *
 * The whole Transformer has tables for tokens and positions, "wte" and "wpe" as in GPT-2, "token_type_embeddings" as in
 * BERT, then "layers.0", ..., "norm", "lm_head". Its initial values are those of GPT-2; a layer on its own has those of
 * PyTorch. Its first input is tokens, integers [n, tokens], or, if vocabulary is 0, [n, tokens, width]. With types, the
 * next input is their types, integers [n, tokens]. The other inputs are those of a layer. The result is [n, tokens,
 * vocabulary], or [n, tokens, width] without a head. */
typedef enum bt_positions {
    BT_POSITIONS_NONE,
    BT_POSITIONS_LEARNED,
    BT_POSITIONS_SINUSOIDAL,
    BT_POSITIONS_ROTARY
} bt_positions;
typedef struct bt_transformer_options {
    int64_t width, heads, layers;
    int64_t inner, head_width;         /* width between linear1 and linear2, 0: 4 width; of a head, 0: width / heads */
    int64_t vocabulary, types, length; /* number of tokens and of types, 0: no table; number of positions in "wpe" */
    int64_t padding;                   /* a token whose row starts at 0 and is not trained by look-ups; -1: none */
    bt_positions positions;
    bt_unary_fn *activation; /* bt_relu, bt_gelu, bt_gelu_tanh, ... */
    double dropout, eps;     /* dropout of weights, of each part's result and of embeddings; eps of the norms */
    bool causal, cross, bias, pre_norm, final_norm, embedding_norm;
    bool head, tied; /* tied: the head uses the weight of the token table */
    int64_t source;  /* with cross: the width of the source; 0: the same */
    int64_t block;   /* see bt_attention */
    bool held;
} bt_transformer_options;
/* Learned positions, bt_gelu, eps 1e-5, causal, bias, pre_norm, final_norm, a tied head; no padding and no dropout. */
bt_transformer_options bt_transformer_defaults(void);
bt_module *bt_nn_transformer(const bt_transformer_options *options);
bt_module *bt_nn_transformer_layer(const bt_transformer_options *options);

/* Recurrent layers, from [n, steps, in] to the hidden states [n, steps, hidden] (Hochreiter and Schmidhuber 1997; Cho
 * et al. 2014). In bt_forward(m, x, lengths), lengths is integers [n], the number of steps of each sequence. The state
 * does not change after the end of a sequence, so the last step always holds its final state. Parameters, formulas and
 * gate order (i, f, g, o; r, z, n) are those of PyTorch: "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
 * "weight_ih_l0_reverse", ... bidirectional adds a second pass from end to start, next to the first: [n, steps, 2
 * hidden]. NULL: the defaults.
 *
 * A cell makes one step: from x [n, in] and optionally the state to the next state. The state of a GRU is [n, hidden].
 * That of an LSTM is [n, 2 hidden], the hidden state followed by the memory cell. If no state is given, it is 0. */
typedef struct bt_recurrent_options {
    int64_t layers;
    bool bidirectional, bias;
    double dropout; /* of the values passed from one layer to the next */
} bt_recurrent_options;
bt_recurrent_options bt_recurrent_defaults(void); /* 1, false, true, 0 */
bt_module *(bt_nn_lstm)(int64_t in, int64_t hidden, const bt_recurrent_options *options);
bt_module *(bt_nn_gru)(int64_t in, int64_t hidden, const bt_recurrent_options *options);
bt_module *bt_nn_lstm_cell(int64_t in, int64_t hidden);
bt_module *bt_nn_gru_cell(int64_t in, int64_t hidden);

/* A low-rank adapter (Hu et al. 2022): linear(x) + alpha / rank B A x. It takes over the linear layer as "base_layer"
 * and turns its parameters into buffers, which are loaded and saved but not trained. "lora_A.weight" is [rank, in], and
 * "lora_B.weight" is [out, rank] and starts at 0. */
bt_module *bt_nn_lora(bt_module *linear, int64_t rank, double alpha);

/* Images are [n, height, width, channels]. The weight of a convolution is [window, window, in/groups, out]. For the
 * options see bt_conv2d; NULL: the defaults. For pooling see bt_max_pool2d and bt_avg_pool2d. */
bt_module *(bt_nn_conv2d)(int64_t in, int64_t out, int64_t window, const bt_conv2d_options *options);
bt_module *bt_nn_max_pool2d(int64_t window, int64_t stride, int64_t padding);
bt_module *bt_nn_avg_pool2d(int64_t window, int64_t stride, int64_t padding);

/* Batch normalisation over all axes except the last (Ioffe and Szegedy 2015). Its buffers "running_mean" and
 * "running_var" move by `momentum` towards the batch's mean and unbiased variance. They move once for each forward pass
 * in a step of the problem that owns the module. They never move in another problem's step, a hypergradient or a
 * validation. BT_STATISTICS_RUNNING uses the batch's statistics in BT_TRAIN and the buffers in BT_VALID.
 * BT_STATISTICS_BATCH always uses the batch's and has no buffers (few-shot learning). BT_STATISTICS_FROZEN always uses
 * the buffers and never changes them (fine-tuning).
 *
 * groups = G splits the batch into G groups of n / G consecutive rows, each with its own statistics. This is "ghost
 * batch normalisation" (Hoffer, Hubara and Soudry 2017), and equals a separate batch norm on each of G processes. Scale
 * and shift are shared. The buffers move once, towards the means over the groups of their means and of their unbiased
 * variances. (PyTorch's DistributedDataParallel keeps only the statistics of process 0's rows.) n must be a multiple of
 * G, also in the last batch of an epoch; otherwise BT_ERROR_SHAPE stops the trace. 0: the number of groups is the key
 * batch_norm_groups of the problem that owns the module, 1 by default. */
typedef enum bt_statistics { BT_STATISTICS_RUNNING, BT_STATISTICS_BATCH, BT_STATISTICS_FROZEN } bt_statistics;
typedef struct bt_batch_norm_options {
    double eps, momentum;
    bt_statistics statistics;
    bool affine; /* has "weight" and "bias" */
    int64_t groups;
} bt_batch_norm_options;
bt_batch_norm_options bt_batch_norm_defaults(void); /* 1e-5, 0.1, BT_STATISTICS_RUNNING, true, 0 */
bt_module *(bt_nn_batch_norm)(int64_t channels, const bt_batch_norm_options *options); /* NULL: the defaults */
/* Normalisation of each example, with weight and bias: over groups of channels (Wu and He 2018), or over each channel
 * on its own (Ulyanov et al. 2016). A group with a single value is an error, because its result would always be 0. For
 * the same reason, batch statistics need more than one value per channel. */
bt_module *bt_nn_group_norm(int64_t groups, int64_t channels);
bt_module *bt_nn_instance_norm(int64_t channels);

/* Residual networks (He et al. 2016). bt_nn_resnet_cifar has depth 20, 32, 44, 56 or 110 (6k + 2), shortcuts without
 * parameters, and names as in common PyTorch code: conv1, bn1, layer1.0.conv1, ..., linear. bt_nn_resnet is for large
 * images and has depth 18, 34 or 50, and names as in torchvision: ..., layer2.0.downsample.0, ..., fc.
 * bt_nn_wide_resnet has depth 6k + 4, for example 28 with widen 10 (Zagoruyko and Komodakis 2016): conv1,
 * block1.layer.0.bn1, ..., fc. */
bt_module *bt_nn_resnet_cifar(int64_t depth, int64_t channels, int64_t classes);
bt_module *bt_nn_resnet(int64_t depth, int64_t channels, int64_t classes);
bt_module *bt_nn_wide_resnet(int64_t depth, int64_t widen, int64_t channels, int64_t classes, double dropout);

/* The usual network for few-shot learning (Vinyals et al. 2016, Finn et al. 2017). Blocks "0", "1", ... each have a 3 x
 * 3 convolution "conv", batch statistics "norm", ReLU and 2 x 2 max pooling, which is left out once the map is too
 * small. Then comes "head". */
bt_module *bt_nn_convnet(int64_t height, int64_t width, int64_t channels, int64_t filters, int64_t blocks,
                         int64_t classes);
/* The same with convolutions of stride 2 instead of pooling, and the mean over the map before "head" (Finn et al. 2017,
 * for Omniglot). It takes images of any size. */
bt_module *bt_nn_convnet_strided(int64_t channels, int64_t filters, int64_t blocks, int64_t classes);
/* LeNet-5 (LeCun et al. 1998) with ReLU and max pooling: conv1, conv2, fc1, fc2, fc3. */
bt_module *bt_nn_lenet(int64_t height, int64_t width, int64_t channels, int64_t classes);

/* Architecture search (Liu et al. 2019, DARTS): cells in which every edge mixes BT_NN_DARTS_OPS candidates. The network
 * takes three inputs: images, and the weights of the candidates in normal and in reduction cells. Both weights are
 * [edges, BT_NN_DARTS_OPS], with edges = bt_nn_darts_edges(nodes); they may be the softmax of parameters that an upper
 * problem learns. The candidates are none, max_pool_3x3, avg_pool_3x3, skip_connect, sep_conv_3x3, sep_conv_5x5,
 * dil_conv_3x3, dil_conv_5x5. The cells at 1/3 and 2/3 of the depth halve the map and double the channels. */
enum { BT_NN_DARTS_OPS = 8 };
extern const char *const bt_nn_darts_names[BT_NN_DARTS_OPS];
int64_t bt_nn_darts_edges(int64_t nodes); /* in a cell with this many nodes: 2 + 3 + ... */
bt_module *bt_nn_darts(int64_t channels, int64_t filters, int64_t cells, int64_t nodes, int64_t classes);

bt_module *(bt_nn_parameter)(bt_init init, const int64_t *sizes);
bt_module *(bt_nn_mlp)(bt_unary_fn *activation, const int64_t *widths);
bt_module *(bt_nn_sequential)(bt_module *const *modules);
#define bt_nn_layer_norm(...) BT_OPTIONS1_(bt_nn_layer_norm, __VA_ARGS__, NULL, 0) /* (features[, &options]) */
#define bt_nn_linear(...)     BT_OPTIONS2_(bt_nn_linear, __VA_ARGS__, NULL, 0)     /* (in, out[, &options]) */
#define bt_nn_embedding(...)  BT_OPTIONS2_(bt_nn_embedding, __VA_ARGS__, NULL, 0)  /* (count, width[, &options]) */
#define bt_nn_attention(...)  BT_OPTIONS2_(bt_nn_attention, __VA_ARGS__, NULL, 0)  /* (width, heads[, &options]) */
#define bt_nn_lstm(...)       BT_OPTIONS2_(bt_nn_lstm, __VA_ARGS__, NULL, 0)       /* (in, hidden[, &options]) */
#define bt_nn_gru(...)        BT_OPTIONS2_(bt_nn_gru, __VA_ARGS__, NULL, 0)        /* (in, hidden[, &options]) */
#define bt_nn_conv2d(...)     BT_OPTIONS3_(bt_nn_conv2d, __VA_ARGS__, NULL, 0)     /* (in, out, window[, &options]) */
#define bt_nn_batch_norm(...) BT_OPTIONS1_(bt_nn_batch_norm, __VA_ARGS__, NULL, 0) /* (channels[, &options]) */
#define bt_nn_parameter(...)  BT_LIST_(bt_nn_parameter, __VA_ARGS__, BT_END) /* (init, sizes...): forward returns it */
#define bt_nn_mlp(...)        BT_LIST_(bt_nn_mlp, __VA_ARGS__, BT_END) /* (activation, widths...); flattens [n, ...] */
#define bt_nn_sequential(...) (bt_nn_sequential)(BT_MODULES_(__VA_ARGS__, NULL)) /* (modules...): applied in order */

/* Without a problem: bt_module_init makes the storage on a device and initialises it; bt_module_free frees the module
 * and its children. */
bt_status bt_module_init(bt_module *module, bt_device device, bt_dtype dtype, uint64_t seed);
void bt_module_free(bt_module *module);

/* Fills parameters and buffers, which must have storage, from a safetensors file. `module` must be a root; names in the
 * file are paths below it, such as "layer1.0.conv1.weight". On failure some values may already be filled. If `report`
 * is not NULL, one line about the matches is written to it.
 *
 * names: rules "FROM > TO, ..." that rename arrays of the file. The first rule that matches a name gives the module's
 * name. A * stands for any text. A rule with nothing after > leaves the array out. NULL: the names are the same.
 *
 * partial: values that are not in the file stay as they are. Without it, a missing array is BT_ERROR_FILE. A shape that
 * does not fit is always BT_ERROR_FILE.
 *
 * layout: BT_LAYOUT_PYTORCH stores the weights of convolutions as [out, in, window, window]. BT_LAYOUT_PLAIN stores
 * them as here, [window, window, in, out]. BT_LAYOUT_GPT2 and BT_LAYOUT_BERT are published checkpoints for
 * bt_nn_transformer (docs/text.md). A table translates their names before any rules apply, so "* > encoder.*" fills a
 * Transformer that the module calls "encoder". An array with no place in the module is then BT_ERROR_FILE, unless a
 * rule leaves it out. */
typedef enum bt_layout { BT_LAYOUT_PYTORCH, BT_LAYOUT_PLAIN, BT_LAYOUT_GPT2, BT_LAYOUT_BERT } bt_layout;
typedef struct bt_load_options {
    const char *names;
    bt_layout layout;
    bool partial;
} bt_load_options;
bt_status bt_module_load(bt_module *module, const char *path, const bt_load_options *options, FILE *report);

/* Exports the module, which must have storage, with its current values, for other programs (docs/export.md).
 *
 * PATH.onnx: an ONNX model of bt_forward(module, inputs...) in BT_VALID: batch norm uses its running statistics, there
 * is no dropout, and numbers are f32. `inputs` gives the names, dtypes and shapes of its inputs. It has one output. A
 * size of 0 is the number of examples in a batch, and the model takes any number of them. BT_ERROR_UNSUPPORTED: an op
 * has no equivalent in ONNX (random numbers, linear systems), or a size does not grow in proportion to the batch.
 *
 * PATH.safetensors: the parameters and buffers, with the names and layouts of PyTorch's modules. load_state_dict and
 * bt_module_load both read it. `inputs` may be NULL.
 *
 * Any other ending of the path is BT_ERROR_ARGUMENT. The file is written completely or not at all. */
typedef struct bt_model_input {
    const char *name;
    bt_array shape; /* no data */
} bt_model_input;
bt_status bt_module_export(bt_module *module, const char *path, const bt_model_input *inputs, int count);

bt_module *bt_operand_module_(bt_module *m);
bt_module *bt_net(bt_problem *self); /* a problem's module */
bt_tensor *bt_forward_module_(bt_module *m, bt_tensor *const *in);
bt_tensor *bt_forward_problem_(bt_problem *p, bt_tensor *const *in);
/* clang-format off */
#define BT_MODULE_(m) _Generic((m), bt_problem *: bt_net, bt_module *: bt_operand_module_)(m)
#define BT_FORWARD_(m, ...)                                                                                            \
    _Generic((m), bt_problem *: bt_forward_problem_, bt_module *: bt_forward_module_)(                                 \
        (m), BT_TENSORS_(__VA_ARGS__))
/* clang-format on */
#define BT_OPTIONS1_(function, a, options, ...)       (function)((a), (options))
#define BT_OPTIONS2_(function, a, b, options, ...)    (function)((a), (b), (options))
#define BT_OPTIONS3_(function, a, b, c, options, ...) (function)((a), (b), (c), (options))
#define BT_ADD_(function, self, name, init, ...)      (function)((self), (name), (init), (const int64_t[]){__VA_ARGS__})

#ifdef __cplusplus
}
#endif
#endif
