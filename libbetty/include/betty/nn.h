/* betty/nn.h: modules */
#ifndef BETTY_NN_H
#define BETTY_NN_H

#include <betty/base.h>
#include <betty/tensor.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A module declares names, shapes and initial values; its storage is made by the problem that adopts it, or by
 * bt_module_init. Paths read "cell2.conv.weight". Mistakes in making one surface when it is adopted. */

typedef bt_tensor *bt_forward_fn(bt_module *self, bt_tensor *const *in); /* traced; `in` ends with NULL */
typedef bt_tensor *bt_unary_fn(bt_tensor *x);

typedef struct bt_init { /* initial values of a parameter */
    enum { BT_INIT_CONSTANT, BT_INIT_NORMAL, BT_INIT_UNIFORM, BT_INIT_ARRAY } kind;
    double a, b; /* value; mean and deviation; low and high */
    bt_array values;
} bt_init;
bt_init bt_init_constant(double value);
bt_init bt_init_normal(double mean, double deviation);
bt_init bt_init_uniform(double low, double high);
bt_init bt_init_array(bt_array values); /* copied when the parameter is declared */
/* For layers before a ReLU (He et al. 2015, deviation sqrt(2 / fan)), and for others (Glorot and Bengio 2010, deviation
 * sqrt(2 / (fan_in + fan_out))). fan: how many numbers a unit reads; fan_out: how many units read it. */
bt_init bt_init_kaiming_normal(int64_t fan);
bt_init bt_init_kaiming_uniform(int64_t fan);
bt_init bt_init_xavier_normal(int64_t fan_in, int64_t fan_out);
bt_init bt_init_xavier_uniform(int64_t fan_in, int64_t fan_out);

/* Making a new kind: what it computes (NULL: it only holds), its children, its parameters, its buffers (untrained). */
bt_module *bt_module_new(bt_forward_fn *forward);
void bt_module_add(bt_module *self, bt_module *child, const char *name, ...) BT_FORMAT(3, 4); /* name: format */
/* clang-format off */
void (bt_module_add_param)(bt_module *self, const char *name, bt_init init, const int64_t *sizes);
void (bt_module_add_buffer)(bt_module *self, const char *name, bt_init init, const int64_t *sizes);
/* clang-format on */
#define bt_module_add_param(self, name, ...)  BT_ADD_(bt_module_add_param, self, name, __VA_ARGS__, BT_END)
#define bt_module_add_buffer(self, name, ...) BT_ADD_(bt_module_add_buffer, self, name, __VA_ARGS__, BT_END)
/* bt_module_add_param(self, name, init, sizes...) */

/* Other initial values for a parameter or buffer that has been declared: bt_module_set_init(net, "0.weight", init). */
void bt_module_set_init(bt_module *self, const char *path, bt_init init);

/* Using one. `m` is a module, or a problem, which stands for its module. A missing name poisons; names are listed. */
/* clang-format off */
bt_module *(bt_child)(bt_module *m, const char *path, ...) BT_FORMAT(2, 3); /* path: format */
bt_tensor *(bt_param)(bt_module *m, const char *path, ...) BT_FORMAT(2, 3); /* a parameter or buffer; path: format */
bt_tensor *(bt_params)(bt_module *m);    /* all parameters as one vector: its own, then its children's, as declared */
int64_t (bt_param_count)(bt_module *m);  /* its length; also on the host */
void (bt_param_set)(bt_module *m, const char *path, bt_tensor *value); /* a buffer's value after this run */
/* clang-format on */
#define bt_forward(...)              BT_FORWARD_(__VA_ARGS__, NULL) /* bt_forward(m, inputs...) */
#define bt_child(m, ...)             (bt_child)(BT_MODULE_(m), __VA_ARGS__)
#define bt_param(m, ...)             (bt_param)(BT_MODULE_(m), __VA_ARGS__)
#define bt_params(m)                 (bt_params)(BT_MODULE_(m))
#define bt_param_count(m)            (bt_param_count)(BT_MODULE_(m))
#define bt_param_set(m, path, value) (bt_param_set)(BT_MODULE_(m), (path), (value))

/* Ready ones, initialised by PyTorch's formulas. Their parameters are "weight", "bias"; of bt_nn_parameter "value"; the
 * children of bt_nn_mlp (its linear layers) and bt_nn_sequential "0", "1", ... */
bt_module *bt_nn_fn(bt_unary_fn *function);   /* an op as a module */
bt_module *bt_nn_dropout(double probability); /* of being dropped, 0 <= p < 1 */
/* Over the last axis (Ba et al. 2016), with weight and bias. NULL: the defaults. */
typedef struct bt_layer_norm_options {
    double eps;
} bt_layer_norm_options;
bt_layer_norm_options bt_layer_norm_defaults(void); /* 1e-5 */
bt_module *(bt_nn_layer_norm)(int64_t features, const bt_layer_norm_options *options);
/* [..., in] to [..., out]. NULL: the defaults. */
typedef struct bt_linear_options {
    bool bias;
} bt_linear_options;
bt_linear_options bt_linear_defaults(void); /* true */
bt_module *(bt_nn_linear)(int64_t in, int64_t out, const bt_linear_options *options);

/* Rows of a table by number: integers [...] in 0..count-1, to [..., width]. Its values are standard normal at first.
 * padding: the number of a row that is 0 at first and gets no gradient from being looked up; -1: none. A number outside
 * of the table ends the run (BT_ERROR_DATA). NULL: the defaults. */
typedef struct bt_embedding_options {
    int64_t padding;
} bt_embedding_options;
bt_embedding_options bt_embedding_defaults(void); /* -1 */
bt_module *(bt_nn_embedding)(int64_t count, int64_t width, const bt_embedding_options *options);

/* Attention of several heads (Vaswani et al. 2017), [n, tokens, width] to the same: bt_forward(m, x), or with another
 * sequence that gives keys and values, [n, its tokens, source], and perhaps a mask of its tokens, [n, its tokens]:
 * bt_forward(m, x, source, mask); bt_forward(m, x, x, mask). As in PyTorch's MultiheadAttention: "in_proj_weight" (rows
 * of queries, keys, values; where the source's width differs "q_proj_weight", "k_proj_weight", "v_proj_weight"),
 * "in_proj_bias", "out_proj.weight", "out_proj.bias". NULL: the defaults. */
typedef struct bt_nn_attention_options {
    int64_t head_width; /* 0: width / heads */
    int64_t source;     /* the width of the other sequence; 0: the same */
    bool causal, bias;
    bool rotary;    /* queries and keys are turned by bt_rotary; of one sequence only */
    double dropout; /* of the weights; causal, block, held: see bt_attention */
    int64_t block;
    bool held;
} bt_nn_attention_options;
bt_nn_attention_options bt_nn_attention_defaults(void); /* bias; none of the others */
bt_module *(bt_nn_attention)(int64_t width, int64_t heads, const bt_nn_attention_options *options);

/* Transformers. A layer: attention to the tokens themselves ("self_attn"), with `cross` to a source ("multihead_attn"),
 * then "linear1", the activation, "linear2"; each is added to what goes through and dropped out before, and normalised:
 * pre_norm: x + f(norm(x)), else norm(x + f(x)). Names as in PyTorch: "norm1", "norm2", "norm3". Inputs: x [n, tokens,
 * width]; with cross a source [n, its tokens, source]; and perhaps a mask, [n, tokens], of the source if there is one.
 * The whole: tokens' and places' tables "wte" and "wpe" as in GPT-2, "token_type_embeddings" as in BERT, "layers.0",
 * ..., "norm", "lm_head"; its initial values are GPT-2's, a layer's by itself PyTorch's. Inputs: tokens, integers [n,
 * tokens], or, with vocabulary 0, [n, tokens, width]; with types their types, integers [n, tokens]; then as a layer's.
 * It gives [n, tokens, vocabulary], without a head [n, tokens, width]. */
typedef enum bt_positions {
    BT_POSITIONS_NONE,
    BT_POSITIONS_LEARNED,
    BT_POSITIONS_SINUSOIDAL,
    BT_POSITIONS_ROTARY
} bt_positions;
typedef struct bt_transformer_options {
    int64_t width, heads, layers;
    int64_t inner, head_width;         /* between the linear layers, and of a head; 0: 4 width, and width / heads */
    int64_t vocabulary, types, length; /* numbers of tokens and of their types, 0: no table; the most tokens of "wpe" */
    int64_t padding;                   /* the token whose row is 0 at first and not trained by being read; -1: none */
    bt_positions positions;
    bt_unary_fn *activation; /* bt_relu, bt_gelu, bt_gelu_tanh, ... */
    double dropout, eps;     /* of weights, of what is added, of what the tables give; of the norms */
    bool causal, cross, bias, pre_norm, final_norm, embedding_norm;
    bool head, tied; /* tied: the head's weight is the tokens' table */
    int64_t source;  /* with cross: its width; 0: the same */
    int64_t block;   /* see bt_attention */
    bool held;
} bt_transformer_options;
/* Learned positions, bt_gelu, eps 1e-5, causal, bias, pre_norm, final_norm, a tied head, no padding, no dropout. */
bt_transformer_options bt_transformer_defaults(void);
bt_module *bt_nn_transformer(const bt_transformer_options *options);
bt_module *bt_nn_transformer_layer(const bt_transformer_options *options);

/* Recurrent layers, [n, steps, in] to [n, steps, hidden]: the hidden states (Hochreiter and Schmidhuber 1997; Cho et
 * al. 2014). bt_forward(m, x, lengths): integers [n], how many steps each sequence has; its state stays as it is after
 * its end, so the last step's is always the one at the end. Parameters, formulas and the order of the gates (i, f, g,
 * o; r, z, n) are PyTorch's: "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse", ...
 * bidirectional: a second one from the end to the beginning, beside the first: [n, steps, 2 hidden]. NULL: the
 * defaults. A cell does one step, x [n, in] and perhaps the state to the next state: of a GRU [n, hidden]; of an LSTM
 * [n, 2 hidden], first what is hidden, then the memory. Without a state given it is 0. */
typedef struct bt_recurrent_options {
    int64_t layers;
    bool bidirectional, bias;
    double dropout; /* of what goes from a layer to the next */
} bt_recurrent_options;
bt_recurrent_options bt_recurrent_defaults(void); /* 1, false, true, 0 */
bt_module *(bt_nn_lstm)(int64_t in, int64_t hidden, const bt_recurrent_options *options);
bt_module *(bt_nn_gru)(int64_t in, int64_t hidden, const bt_recurrent_options *options);
bt_module *bt_nn_lstm_cell(int64_t in, int64_t hidden);
bt_module *bt_nn_gru_cell(int64_t in, int64_t hidden);

/* A low-rank adapter (Hu et al. 2022): linear(x) + alpha / rank B A x. The linear layer, "base_layer", is taken over,
 * and its parameters become buffers, which are loaded and saved but not trained; "lora_A.weight" is [rank, in], and
 * "lora_B.weight", [out, rank], 0 at first. */
bt_module *bt_nn_lora(bt_module *linear, int64_t rank, double alpha);

/* Images are [n, height, width, channels]. A convolution's weight is [window, window, in/groups, out]; options: see
 * bt_conv2d. NULL: the defaults. Pooling: see bt_max_pool2d, bt_avg_pool2d. */
bt_module *(bt_nn_conv2d)(int64_t in, int64_t out, int64_t window, const bt_conv2d_options *options);
bt_module *bt_nn_max_pool2d(int64_t window, int64_t stride, int64_t padding);
bt_module *bt_nn_avg_pool2d(int64_t window, int64_t stride, int64_t padding);

/* Batch normalisation over all axes but the last (Ioffe and Szegedy 2015). Its buffers "running_mean" and
 * "running_var" move by `momentum` towards a batch's mean and unbiased variance, once for each forward pass in a step
 * of the problem that owns the module, never in another problem's step, a hypergradient or a validation.
 * BT_STATISTICS_RUNNING: of the batch in BT_TRAIN, the buffers in BT_VALID. BT_STATISTICS_BATCH: always of the batch,
 * there are no buffers (few-shot learning). BT_STATISTICS_FROZEN: always the buffers, which stay (fine-tuning).
 *
 * groups = G: the batch's rows in G groups, of n / G rows that follow each other, with statistics of their own: "ghost
 * batch normalisation" (Hoffer, Hubara and Soudry 2017), and what a batch norm on each of G processes comes to. Scale
 * and shift are shared. The buffers move once, towards the mean over the groups of their means and unbiased variances
 * (PyTorch's DistributedDataParallel keeps those of process 0's rows alone). n must be a multiple of G, also in the
 * last batch of an epoch, or BT_ERROR_SHAPE stops the trace. 0: as the key batch_norm_groups of the problem that owns
 * the module says, which is 1 by default. */
typedef enum bt_statistics { BT_STATISTICS_RUNNING, BT_STATISTICS_BATCH, BT_STATISTICS_FROZEN } bt_statistics;
typedef struct bt_batch_norm_options {
    double eps, momentum;
    bt_statistics statistics;
    bool affine; /* has "weight" and "bias" */
    int64_t groups;
} bt_batch_norm_options;
bt_batch_norm_options bt_batch_norm_defaults(void); /* 1e-5, 0.1, BT_STATISTICS_RUNNING, true, 0 */
bt_module *(bt_nn_batch_norm)(int64_t channels, const bt_batch_norm_options *options); /* NULL: the defaults */
/* Per example, over groups of channels (Wu and He 2018), and over each channel by itself (Ulyanov et al. 2016), with
 * weight and bias. One value in a group is an error, as one per channel is for a batch's statistics: it would be 0. */
bt_module *bt_nn_group_norm(int64_t groups, int64_t channels);
bt_module *bt_nn_instance_norm(int64_t channels);

/* Residual networks (He et al. 2016). _cifar: depth 20, 32, 44, 56, 110 (6k + 2), shortcuts without parameters; names
 * as in common PyTorch code: conv1, bn1, layer1.0.conv1, ..., linear. Else for large images, depth 18, 34 or 50, names
 * as in torchvision: ..., layer2.0.downsample.0, ..., fc. Wide: depth 6k + 4, such as 28, widen 10 (Zagoruyko and
 * Komodakis 2016): conv1, block1.layer.0.bn1, ..., fc. */
bt_module *bt_nn_resnet_cifar(int64_t depth, int64_t channels, int64_t classes);
bt_module *bt_nn_resnet(int64_t depth, int64_t channels, int64_t classes);
bt_module *bt_nn_wide_resnet(int64_t depth, int64_t widen, int64_t channels, int64_t classes, double dropout);

/* The network of few-shot learning (Vinyals et al. 2016, Finn et al. 2017): blocks "0", "1", ... of a 3 x 3 convolution
 * "conv", batch statistics "norm", ReLU and 2 x 2 max pooling (none where the map has become too small); then "head".
 */
bt_module *bt_nn_convnet(int64_t height, int64_t width, int64_t channels, int64_t filters, int64_t blocks,
                         int64_t classes);
/* The same with convolutions of stride 2 instead of pooling, and the mean over the map before "head" (Finn et al. 2017,
 * for Omniglot); any size of image. */
bt_module *bt_nn_convnet_strided(int64_t channels, int64_t filters, int64_t blocks, int64_t classes);
/* LeNet-5 (LeCun et al. 1998) with ReLU and max pooling: conv1, conv2, fc1, fc2, fc3. */
bt_module *bt_nn_lenet(int64_t height, int64_t width, int64_t channels, int64_t classes);

/* Architecture search (Liu et al. 2019, DARTS): cells in which every edge mixes BT_NN_DARTS_OPS candidates. The network
 * takes three inputs: images, and the weights of the candidates of normal and of reduction cells, both [edges,
 * BT_NN_DARTS_OPS], such as the softmax of what an upper problem learns; edges = bt_nn_darts_edges(nodes). Candidates:
 * none, max_pool_3x3, avg_pool_3x3, skip_connect, sep_conv_3x3, sep_conv_5x5, dil_conv_3x3, dil_conv_5x5. Cells at a
 * third and at two thirds of the depth halve the map and double the channels. */
enum { BT_NN_DARTS_OPS = 8 };
extern const char *const bt_nn_darts_names[BT_NN_DARTS_OPS];
int64_t bt_nn_darts_edges(int64_t nodes); /* of a cell with so many nodes: 2 + 3 + ... */
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
#define bt_nn_sequential(...) (bt_nn_sequential)(BT_MODULES_(__VA_ARGS__, NULL)) /* (modules...): in turn */

/* Without a problem: makes the storage on a device and initialises it; frees the module with its children. */
bt_status bt_module_init(bt_module *module, bt_device device, bt_dtype dtype, uint64_t seed);
void bt_module_free(bt_module *module);

/* Fills parameters and buffers, once they have storage, from a safetensors file, by name ("layer1.0.conv1.weight",
 * below the module given, a root). `names`: rules "FROM > TO, ..." for other names; of those that fit a name in the
 * file, the first gives the module's; a * stands for any text; nothing after > leaves the array out. NULL: names are
 * the same. partial: what is not in the file keeps its values; otherwise that is BT_ERROR_FILE, as is a shape that does
 * not fit. On failure some values may be filled. One line about what matched is written to `report`, if that is not
 * NULL.
 * layout: BT_LAYOUT_PYTORCH has convolutions' weights as [out, in, window, window], BT_LAYOUT_PLAIN as here, [window,
 * window, in, out]. BT_LAYOUT_GPT2 and _BERT are published checkpoints for bt_nn_transformer (docs/text.md): their
 * names become ours by a table, before any rules, so that "* > encoder.*" fills a Transformer that the module calls
 * "encoder"; an array that has no place in the module is BT_ERROR_FILE, unless a rule leaves it out. */
typedef enum bt_layout { BT_LAYOUT_PYTORCH, BT_LAYOUT_PLAIN, BT_LAYOUT_GPT2, BT_LAYOUT_BERT } bt_layout;
typedef struct bt_load_options {
    const char *names;
    bt_layout layout;
    bool partial;
} bt_load_options;
bt_status bt_module_load(bt_module *module, const char *path, const bt_load_options *options, FILE *report);

/* Writes the module, once it has storage, for others (docs/export.md), with the values that it has now.
 *
 * PATH.onnx: what bt_forward(module, inputs...) computes in BT_VALID, as a model of ONNX: batch norm by its running
 * statistics, without dropout, in f32. Its inputs have these names, dtypes and shapes, and its output is the only one.
 * A size of 0 counts the examples of a batch, of which the model takes any number. BT_ERROR_UNSUPPORTED: an op has no
 * equal in ONNX (random numbers, linear systems), or a size grows otherwise than with the batch.
 *
 * PATH.safetensors: its parameters and buffers by the names and in the layouts of PyTorch's modules, which
 * load_state_dict takes, and bt_module_load too; inputs may be NULL.
 *
 * Whatever else the path ends in is BT_ERROR_ARGUMENT. The file is written whole, or not at all. */
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
