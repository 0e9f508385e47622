/* bench/problems/bert_large.c: a classifier with the shapes of BERT-large (Devlin et al. 2019) on synthetic texts of
 * 512 tokens, for planning only: compares our memory with published figures (Hugging Face, "Performance and
 * scalability"). */
#include <betty/betty.h>

enum { TEXTS = 1024, TOKENS = 512, VOCABULARY = 30522, WIDTH = 1024, HEADS = 16, LAYERS = 24, CLASSES = 2 };

static bt_dataset *texts(bt_problem *self)
{
    static int64_t words[TEXTS * TOKENS], types[TEXTS * TOKENS], labels[TEXTS];
    for (int64_t i = 0; i < TEXTS * TOKENS; i++)
        words[i] = i * 7919 % VOCABULARY;
    for (int64_t i = 0; i < TEXTS; i++)
        labels[i] = i % CLASSES;
    bt_dataset *data = bt_dataset_new(TEXTS);
    bt_dataset_add(data, "words", BT_ARRAY(words, TEXTS, TOKENS));
    bt_dataset_add(data, "types", BT_ARRAY(types, TEXTS, TOKENS));
    bt_dataset_add(data, "label", BT_ARRAY(labels, TEXTS));
    return (void)self, data;
}

static bt_module *bert(bt_problem *self)
{
    bt_transformer_options options = bt_transformer_defaults();
    options.width = WIDTH, options.heads = HEADS, options.layers = bt_option_int(self, "layers", LAYERS, 1, 1000);
    options.vocabulary = VOCABULARY, options.types = 2, options.length = TOKENS;
    options.dropout = 0.1, options.eps = 1e-12;
    options.causal = options.pre_norm = options.final_norm = options.head = options.tied = false;
    options.embedding_norm = true;
    options.held = bt_option_bool(self, "held", false); /* true: keep the attention weights, as PyTorch did */
    bt_module *net = bt_module_new(NULL);
    bt_module_add(net, bt_nn_transformer(&options), "bert");
    bt_module_add(net, bt_nn_linear(WIDTH, WIDTH), "pooler");
    bt_module_add(net, bt_nn_linear(WIDTH, CLASSES), "classifier");
    return net;
}

static bt_tensor *loss(bt_problem *self, const bt_batch *batch)
{
    bt_module *net = bt_net(self);
    bt_tensor *read = bt_forward(bt_child(net, "bert"), bt_field(batch, "words"), bt_field(batch, "types"));
    bt_tensor *first = bt_squeeze(bt_slice(read, 1, 0, 1), 1);
    bt_tensor *pooled = bt_tanh(bt_forward(bt_child(net, "pooler"), first));
    return bt_mean(bt_cross_entropy(bt_forward(bt_child(net, "classifier"), pooled), bt_field(batch, "label")));
}

static const bt_problem_def bert_large = {
    .name = "bert", .configure_train_data = texts, .configure_module = bert, .training_step = loss};

BT_EXPORT(.problems = {&bert_large});
