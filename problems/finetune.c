/* finetune.c: a small encoder learns a language from masked words. Then it is fine-tuned to classify texts. Their
 * labels are the majority vote of labelling functions, and often wrong. An upper level learns from a few correctly
 * labelled texts how much each text should count (Shu et al. 2019; Choe et al. 2023). */
#include <betty/betty.h>

/* Both stages must agree on these keys, so both sections have them. */

static const char *texts(bt_problem *self) { return bt_option_text(self, "data", "semeval"); }
static int64_t tokens(bt_problem *self) { return bt_option_int(self, "tokens", 32, 3, 100000); }
static int64_t width(bt_problem *self) { return bt_option_int(self, "width", 32, 1, 100000); }

static bt_tokenizer *tokenizer(bt_problem *self)
{
    return bt_tokenizer_for(bt_option_text(self, "tokenizer", "words:2000"), texts(self));
}

static bt_dataset *split(bt_problem *self, const char *name)
{
    bt_tokenizer *made = tokenizer(self);
    bt_dataset *data = bt_dataset_texts(texts(self), name, made, tokens(self));
    bt_tokenizer_free(made);
    return data;
}

static bt_dataset *train_texts(bt_problem *self) { return split(self, "train"); }
static bt_dataset *valid_texts(bt_problem *self) { return split(self, "valid"); }
static bt_dataset *test_texts(bt_problem *self) { return split(self, "test"); }

/* The encoder. The token after the tokeniser's last one masks a word. */

static int64_t words(bt_problem *self)
{
    bt_tokenizer *made = tokenizer(self);
    int64_t size = made ? bt_tokenizer_size(made) : 1;
    bt_tokenizer_free(made);
    return size;
}

static bt_module *encoder(bt_problem *self)
{
    bt_transformer_options o = bt_transformer_defaults();
    o.vocabulary = words(self) + 1;
    o.width = width(self);
    o.length = tokens(self);
    o.heads = bt_option_int(self, "heads", 4, 1, 1000);
    o.layers = bt_option_int(self, "layers", 2, 1, 1000);
    o.inner = bt_option_int(self, "inner", 2 * width(self), 1, 1000000);
    o.dropout = bt_option_double(self, "dropout", 0.1, 0, 0.9);
    o.causal = o.head = false;
    return bt_nn_transformer(&o);
}

static bt_tensor *is_text(bt_problem *self, const bt_batch *batch) /* [n, tokens]: no padding */
{
    return bt_less(bt_arange(tokens(self)), bt_unsqueeze(bt_field(batch, "length"), 1));
}

/* ---- the first stage: predict masked words from the words around them (Devlin et al. 2019) ---- */

static bt_module *masked_module(bt_problem *self)
{
    bt_module *net = bt_module_new(NULL);
    bt_module_add(net, encoder(self), "encoder");
    return net;
}

/* One in seven of the words that the tokeniser knows: a standard normal number is below -1.07. */
static bt_tensor *chosen(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *token = bt_field(batch, "token");
    bt_tensor *drawn = bt_less(bt_normal_like(bt_cast(token, BT_F32)), -1.07);
    return bt_and(bt_and(drawn, is_text(self, batch)), bt_greater(token, 0));
}

static bt_tensor *masked_loss(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *token = bt_field(batch, "token"), *hidden = chosen(self, batch);
    bt_tensor *seen = bt_where(hidden, words(self), token);
    bt_tensor *read = bt_forward(bt_child(self, "encoder"), seen, is_text(self, batch));
    bt_tensor *logits =
        bt_matmul(bt_reshape(read, -1, width(self)), bt_permute(bt_param(self, "encoder.wte.weight"), 1, 0));
    bt_tensor *count = bt_sum(bt_cast(hidden, BT_F32));
    bt_loss_count(self, count);
    bt_tensor *loss = bt_mul(bt_cross_entropy(logits, bt_reshape(token, -1)), bt_reshape(hidden, -1));
    return bt_div(bt_sum(loss), bt_maximum(count, 1));
}

static bt_tensor *masked_validation(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = masked_loss(self, batch);
    bt_metric(self, "perplexity", loss, BT_METRIC_PERPLEXITY);
    return loss;
}

/* ---- the second stage, lower level: the encoder and a head ---- */

static bt_module *classifier_module(bt_problem *self)
{
    bt_module *net = bt_module_new(NULL);
    bt_module_add(net, encoder(self), "encoder");
    bt_module_add(net, bt_nn_linear(width(self), bt_data_dim(self, "counts", 1)), "head");
    return net;
}

/* Tokens, and which of them are text, to [n, classes]: the head applied to the mean over these. */
static bt_tensor *classifier_forward(bt_problem *self, bt_tensor *const *in)
{
    bt_tensor *text = in[1], *read = bt_forward(bt_child(self, "encoder"), in[0], text);
    bt_tensor *mean = bt_div(bt_sum(bt_mul(read, bt_unsqueeze(text, 2)), 1), bt_sum(text, 1, BT_KEEP));
    return bt_forward(bt_child(self, "head"), mean);
}

static bt_tensor *classify(bt_problem *self, const bt_batch *batch)
{
    return bt_forward(self, bt_field(batch, "token"), is_text(self, batch));
}

/* What most votes say; texts without any do not count. */
static bt_tensor *voted(const bt_batch *batch) { return bt_argmax(bt_field(batch, "counts"), 1); }
static bt_tensor *has_votes(const bt_batch *batch) { return bt_greater(bt_max(bt_field(batch, "counts"), 1), 0); }

static bt_tensor *classifier_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = bt_cross_entropy(classify(self, batch), voted(batch)), *counts = has_votes(batch);
    bt_tensor *right = bt_equal(voted(batch), bt_field(batch, "label"));
    if (!bt_option_bool(self, "baseline", false)) { /* all count the same, for comparison */
        bt_tensor *weight = bt_forward(bt_peer(self, "reweight"), bt_detach(loss), bt_field(batch, "votes"));
        bt_histogram(self, "weight", weight);
        counts = bt_mul(weight, counts);
    }
    bt_metric(self, "right",
              bt_div(bt_sum(bt_mul(counts, right)), bt_sum(counts))); /* the share that is right; only reported */
    return bt_div(bt_sum(bt_mul(counts, loss)), bt_sum(counts));
}

static bt_tensor *classifier_validation(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *logits = classify(self, batch), *label = bt_field(batch, "label");
    bt_metric(self, "acc", bt_accuracy(logits, label));
    return bt_mean(bt_cross_entropy(logits, label));
}

/* ---- upper level: a text's weight, by its loss and by which functions have voted on it ---- */

static bt_dataset *labelled(bt_problem *self) { return split(bt_peer(self, "classifier"), "valid"); }

static bool sees_votes(bt_problem *self) { return bt_option_bool(self, "see_votes", true); }

static bt_module *reweight_module(bt_problem *self)
{
    const int64_t functions = sees_votes(self) ? bt_data_dim(self, "votes", 1) : 0;
    return bt_nn_mlp(bt_relu, 1 + functions, bt_option_int(self, "hidden", 32, 1, 10000), 1);
}

static bt_tensor *reweight_forward(bt_problem *self, bt_tensor *const *in) /* losses, votes to weights in (0, 1): [n] */
{
    bt_tensor *seen = bt_unsqueeze(in[0], 1);
    if (sees_votes(self))
        seen = bt_concat(1, seen, bt_cast(bt_greater(in[1], -1), BT_F32));
    return bt_sigmoid(bt_squeeze(bt_forward(bt_net(self), seen), 1));
}

static bt_tensor *reweight_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_cross_entropy(classify(bt_peer(self, "classifier"), batch), bt_field(batch, "label")));
}

static const bt_problem_def masked = {
    .name = "masked",
    .configure_train_data = train_texts,
    .configure_valid_data = valid_texts,
    .configure_module = masked_module,
    .training_step = masked_loss,
    .validation_step = masked_validation,
};

static const bt_problem_def classifier = {
    .name = "classifier",
    .configure_train_data = train_texts,
    .configure_valid_data = test_texts,
    .configure_module = classifier_module,
    .forward = classifier_forward,
    .training_step = classifier_step,
    .validation_step = classifier_validation,
};

static const bt_problem_def reweight = {
    .name = "reweight",
    .configure_train_data = labelled,
    .configure_module = reweight_module,
    .forward = reweight_forward,
    .training_step = reweight_step,
};

BT_EXPORT(.problems = {&masked, &classifier, &reweight});
