/* bench/libbetty/language.c: a single-level causal language model with separate norms for queries, keys and values. */
#include "bench.h"

enum { TOKENS = 20, WORDS = 10000, WIDTH = 20, HEADS = 8, INNER = HEADS * 32, FEED = 32 };

static bt_module *projection(int64_t in, int64_t out)
{
    bt_linear_options o = bt_linear_defaults();
    o.bias = false;
    return bt_nn_linear(in, out, &o);
}

/* [n, tokens, heads * width] to [n, heads, tokens, width]. */
static bt_tensor *heads(bt_module *self, const char *name, bt_tensor *x)
{
    bt_tensor *normed = bt_forward(bt_child(self, "%s_norm", name), x);
    bt_tensor *wide = bt_forward(bt_child(self, "%s", name), normed);
    return bt_permute(bt_reshape(wide, bt_dim(x, 0), TOKENS, HEADS, INNER / HEADS), 0, 2, 1, 3);
}

static bt_tensor *layer_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = in[0];
    bt_attention_options o = bt_attention_defaults();
    o.causal = true;
    bt_tensor *seen = bt_attention(heads(self, "q", x), heads(self, "k", x), heads(self, "v", x), &o);
    seen = bt_reshape(bt_permute(seen, 0, 2, 1, 3), bt_dim(x, 0), TOKENS, INNER);
    x = bt_add(x, bt_forward(bt_child(self, "out"), seen));
    bt_tensor *fed = bt_forward(bt_child(self, "feed"), bt_forward(bt_child(self, "norm"), x));
    return bt_add(x, bt_forward(bt_child(self, "back"), bt_relu(fed)));
}

static bt_module *layer(void)
{
    static const char *const read[] = {"q", "k", "v"};
    bt_module *self = bt_module_new(layer_forward);
    for (int i = 0; i < 3; i++) {
        bt_module_add(self, bt_nn_layer_norm(WIDTH), "%s_norm", read[i]);
        bt_module_add(self, projection(WIDTH, INNER), "%s", read[i]);
    }
    bt_module_add(self, projection(INNER, WIDTH), "out");
    bt_module_add(self, bt_nn_layer_norm(WIDTH), "norm");
    bt_module_add(self, bt_nn_linear(WIDTH, FEED), "feed");
    bt_module_add(self, bt_nn_linear(FEED, WIDTH), "back");
    return self;
}

static bt_tensor *language_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = bt_add(bt_forward(bt_child(self, "words"), in[0]), bt_forward(bt_child(self, "places")));
    return bt_forward(bt_child(self, "head"), bt_forward(bt_child(self, "layers"), x));
}

static bt_module *language_module(bt_problem *self)
{
    bt_module *net = bt_module_new(language_forward), *layers = bt_nn_sequential(NULL);
    int64_t count = bt_option_int(self, "layers", 1, 1, 64);
    for (int64_t i = 0; i < count; i++)
        bt_module_add(layers, layer(), "%lld", (long long)i);
    bt_module_add(net, bt_nn_embedding(WORDS, WIDTH), "words");
    bt_module_add(net, bt_nn_parameter(bt_init_normal(0, 1), TOKENS, WIDTH), "places");
    bt_module_add(net, layers, "layers");
    bt_module_add(net, bt_nn_linear(WIDTH, WORDS), "head");
    return net;
}

static bt_tensor *language_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *logits = bt_forward(self, bt_cast(bt_field(batch, "token"), BT_I32));
    return bt_mean(bt_cross_entropy(bt_reshape(logits, -1, WORDS), bt_reshape(bt_field(batch, "next"), -1)));
}

static const bt_problem_def language = {
    .name = "lower",
    .configure_train_data = lower_data,
    .configure_module = language_module,
    .training_step = language_step,
    .on_inner_loop_start = between_steps, /* once: it has no parents */
    .epoch_callback = between_steps,      /* of one batch */
};

const workload language_workload = {
    .name = "language",
    .problems = {.abi = BT_ABI, .problems = {&language}},
    .top = "lower",
    .set = "train",
    .loss = language_step,
    .input = "token",
    .features = TOKENS,
    .label = "next",
    .classes = true,
    .unroll = 1,
};
