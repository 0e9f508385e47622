/* language.c: a causal language model learns from several texts, while an upper level learns how much each of them
 * should count, so that the model does well on a little held-out text of one of them. */
#include <betty/betty.h>

static const char *texts(bt_problem *self) { return bt_option_text(bt_peer(self, "language"), "text", "austen"); }

static int64_t tokens(bt_problem *self) { return bt_option_int(bt_peer(self, "language"), "tokens", 20, 1, 100000); }

static bt_tokenizer *tokenizer(bt_problem *self)
{
    return bt_tokenizer_for(bt_option_text(bt_peer(self, "language"), "tokenizer", "words:10000"), texts(self));
}

/* Data: the model learns from the first nine tenths of every text. Of one text, the target, the upper level learns from
 * the next fiftieth, and the rest is for the validation. */

enum { TRAIN = 90, META = 92, ALL = 100 }; /* per cent */

static bt_dataset *windows(bt_problem *self, const char *text, int from, int to)
{
    bt_tokenizer *words = tokenizer(self);
    bt_dataset *data = bt_dataset_windows(text, words, tokens(self), tokens(self), from / 100.0, to / 100.0);
    bt_tokenizer_free(words);
    return data;
}

static const char *target(bt_problem *self)
{
    return bt_option_text(bt_peer(self, "mixture"), "target", "austen/northanger_abbey");
}

static bt_dataset *train_data(bt_problem *self) { return windows(self, texts(self), 0, TRAIN); }
static bt_dataset *meta_data(bt_problem *self) { return windows(self, target(self), TRAIN, META); }
static bt_dataset *valid_data(bt_problem *self) { return windows(self, target(self), META, ALL); }

/* The model: GPT-2, or Transformer layers in which queries, keys and values each have a norm of their own. */

static int64_t width(bt_problem *self) { return bt_option_int(self, "width", 20, 1, 100000); }
static int64_t heads(bt_problem *self) { return bt_option_int(self, "heads", 8, 1, 1000); }
static int64_t layers(bt_problem *self) { return bt_option_int(self, "layers", 1, 1, 1000); }

static int64_t words(bt_problem *self)
{
    bt_tokenizer *made = tokenizer(self);
    int64_t size = made ? bt_tokenizer_size(made) : 1;
    bt_tokenizer_free(made);
    return size;
}

/* `gpt2 = true`: that model, which published weights may be loaded into (weights_layout = gpt2). */
static bool is_gpt2(bt_problem *self) { return bt_option_bool(self, "gpt2", false); }

static bt_module *gpt2(bt_problem *self)
{
    bt_transformer_options o = bt_transformer_defaults();
    o.activation = bt_gelu_tanh;
    o.vocabulary = words(self);
    o.width = width(self);
    o.heads = heads(self);
    o.layers = layers(self);
    o.length = bt_option_int(self, "places", tokens(self), tokens(self), 1000000); /* size of its table of positions */
    o.held = bt_option_bool(self, "hold_attention", false);
    return bt_nn_transformer(&o);
}

static bt_module *layer(bt_problem *self)
{
    static const char *const read[] = {"query", "key", "value"};
    const int64_t inner = heads(self) * bt_option_int(self, "head_width", 32, 1, 100000);
    const int64_t feed = bt_option_int(self, "ff", 32, 1, 1000000);
    bt_linear_options plain = bt_linear_defaults();
    plain.bias = false;
    bt_module *made = bt_module_new(NULL);
    for (int i = 0; i < 3; i++) {
        bt_module_add(made, bt_nn_layer_norm(width(self)), "%s_norm", read[i]);
        bt_module_add(made, bt_nn_linear(width(self), inner, &plain), "%s", read[i]);
    }
    bt_module_add(made, bt_nn_linear(inner, width(self), &plain), "out");
    bt_module_add(made, bt_nn_layer_norm(width(self)), "norm");
    bt_module_add(made, bt_nn_linear(width(self), feed), "feed");
    bt_module_add(made, bt_nn_linear(feed, width(self)), "back");
    return made;
}

static bt_module *language_module(bt_problem *self)
{
    const int64_t size = words(self);
    if (is_gpt2(self))
        return gpt2(self);
    bt_module *net = bt_module_new(NULL);
    bt_module_add(net, bt_nn_embedding(size, width(self)), "words");
    bt_module_add(net, bt_nn_parameter(bt_init_normal(0, 0.1), tokens(self), width(self)), "places");
    bt_module_set_init(net, "words.weight", bt_init_normal(0, 0.1));
    for (int64_t i = 0; i < layers(self); i++)
        bt_module_add(net, layer(self), "layer%lld", (long long)i);
    bt_module_add(net, bt_nn_linear(width(self), size), "head");
    return net;
}

/* [n, tokens, width] to [n, heads, tokens, head_width]. */
static bt_tensor *read_by(bt_problem *self, bt_module *layer, const char *name, bt_tensor *x)
{
    bt_tensor *read = bt_forward(bt_child(layer, "%s", name), bt_forward(bt_child(layer, "%s_norm", name), x));
    return bt_permute(bt_reshape(read, -1, tokens(self), heads(self), bt_dim(read, 2) / heads(self)), 0, 2, 1, 3);
}

static bt_tensor *through(bt_problem *self, bt_module *layer, bt_tensor *x)
{
    bt_attention_options o = bt_attention_defaults();
    o.causal = true;
    o.held = bt_option_bool(self, "hold_attention", false); /* its weights, tokens x tokens for each head */
    bt_tensor *seen = bt_attention(read_by(self, layer, "query", x), read_by(self, layer, "key", x),
                                   read_by(self, layer, "value", x), &o);
    seen = bt_reshape(bt_permute(seen, 0, 2, 1, 3), bt_dim(x, 0), tokens(self), -1);
    x = bt_add(x, bt_forward(bt_child(layer, "out"), seen));
    bt_tensor *fed = bt_relu(bt_forward(bt_child(layer, "feed"), bt_forward(bt_child(layer, "norm"), x)));
    return bt_add(x, bt_forward(bt_child(layer, "back"), fed));
}

static bt_tensor *language_forward(bt_problem *self, bt_tensor *const *in) /* [n, tokens] to logits [n tokens, words] */
{
    bt_module *net = bt_net(self);
    if (is_gpt2(self)) {
        bt_tensor *logits = bt_forward(net, in[0]);
        return bt_reshape(logits, -1, bt_dim(logits, 2));
    }
    bt_tensor *x = bt_add(bt_forward(bt_child(net, "words"), in[0]), bt_forward(bt_child(net, "places")));
    for (int64_t i = 0; i < layers(self); i++)
        x = through(self, bt_child(net, "layer%lld", (long long)i), x);
    return bt_forward(bt_child(net, "head"), bt_reshape(x, -1, width(self)));
}

/* The mean over each window's tokens: [n]. */
static bt_tensor *losses(bt_problem *model, const bt_batch *batch)
{
    bt_tensor *logits = bt_forward(model, bt_field(batch, "token"));
    bt_tensor *loss = bt_cross_entropy(logits, bt_reshape(bt_field(batch, "next"), -1));
    return bt_mean(bt_reshape(loss, -1, tokens(model)), 1);
}

/* The mean over each text's windows in the batch, then the mean of these, weighted by how much each text counts. */
static bt_tensor *language_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *source = bt_field(batch, "source"), *loss = losses(self, batch);
    const int64_t count = bt_text_sources(texts(self));
    bt_tensor *of = bt_one_hot(source, count), *windows = bt_maximum(bt_sum(of, 0), 1); /* [n, count], [count] */
    bt_tensor *means = bt_div(bt_matmul(loss, of), windows);
    if (bt_option_bool(self, "baseline", false)) /* all count the same, for comparison */
        return bt_mean(means);
    return bt_mean(bt_mul(bt_forward(bt_peer(self, "mixture")), means));
}

static bt_tensor *language_validation(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = losses(self, batch);
    bt_metric(self, "perplexity", loss, BT_METRIC_PERPLEXITY);
    return bt_mean(loss);
}

/* `betty-run --evaluate DIR --sample TEXT` */

static bt_tensor *next_word(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *logits = bt_forward(self, bt_field(batch, "token"));
    return bt_reshape(bt_gather(logits, bt_field(batch, "last")), -1);
}

static bt_status language_sample(bt_problem *self, const bt_sampling *how)
{
    bt_tokenizer *made = tokenizer(self);
    bt_status status = bt_sample_text(self, made, next_word, tokens(self), how);
    bt_tokenizer_free(made);
    return status;
}

/* Upper level: how much each text counts, one on average. */

static bt_module *mixture_module(bt_problem *self)
{
    return bt_nn_parameter(bt_init_constant(0), bt_text_sources(texts(self)));
}

static bt_tensor *mixture_forward(bt_problem *self, bt_tensor *const *in)
{
    (void)in;
    bt_tensor *scores = bt_params(self);
    return bt_mul(bt_softmax(scores, 0), (double)bt_dim(scores, 0));
}

static bt_tensor *mixture_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *weights = bt_forward(self);
    for (int64_t i = 0; i < bt_dim(weights, 0); i++) {
        char name[32];
        snprintf(name, sizeof name, "weight.%lld", (long long)i);
        bt_metric(self, name, bt_slice(weights, 0, i, i + 1));
    }
    return bt_mean(losses(bt_peer(self, "language"), batch));
}

static const bt_problem_def mixture = {
    .name = "mixture",
    .configure_train_data = meta_data,
    .configure_module = mixture_module,
    .forward = mixture_forward,
    .training_step = mixture_step,
};

static const bt_problem_def language = {
    .name = "language",
    .configure_train_data = train_data,
    .configure_valid_data = valid_data,
    .configure_module = language_module,
    .forward = language_forward,
    .training_step = language_step,
    .validation_step = language_validation,
    .sample = language_sample,
};

BT_EXPORT(.problems = {&mixture, &language});
