/* weak_labels.c: the training texts have no labels, only the votes of labelling functions ("if the text has this word,
 * it is of that class"), many of them wrong. How far to trust each function is learned from a few texts that have
 * labels. */
#include <betty/betty.h>

static bt_dataset *texts(bt_problem *self, const char *split)
{
    return bt_dataset_open(bt_option_text(bt_peer(self, "classifier"), "data", "semeval"), split);
}

static bt_dataset *voted(bt_problem *self)
{
    bool labelled_only = bt_option_bool(self, "labelled_only", false); /* for comparison */
    return texts(self, labelled_only ? "valid" : "train");
}

static bt_dataset *labelled(bt_problem *self) { return texts(self, "valid"); }
static bt_dataset *test_texts(bt_problem *self) { return texts(self, "test"); }

/* Upper level: a weight for each function, in (0, 1). */

static bt_module *trust_module(bt_problem *self)
{
    return bt_nn_parameter(bt_init_constant(0), bt_data_dim(self, "votes", 1));
}

static bt_tensor *trust_forward(bt_problem *self, bt_tensor *const *in)
{
    (void)in;
    return bt_sigmoid(bt_forward(bt_net(self)));
}

static bt_tensor *trust_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *logits = bt_forward(bt_peer(self, "classifier"), bt_field(batch, "x"));
    return bt_mean(bt_cross_entropy(logits, bt_field(batch, "label")));
}

/* Lower level: each vote is a label, which counts as much as its function is trusted. */

static bt_module *classifier_module(bt_problem *self)
{
    return bt_nn_linear(bt_data_dim(self, "x", 1), bt_data_dim(self, "counts", 1));
}

enum { MOST_CLASSES = 1000 };

/* A new axis at `axis`: 1 for the class of the number, 0 for the others. -1: no class. */
static bt_tensor *one_hot(bt_tensor *numbers, int axis, int64_t classes)
{
    int32_t all[MOST_CLASSES];
    for (int32_t k = 0; k < classes && k < MOST_CLASSES; k++)
        all[k] = k;
    return bt_equal(bt_unsqueeze(numbers, axis), bt_constant(BT_ARRAY(all, classes)));
}

static bt_tensor *trusted_votes(bt_problem *self, const bt_batch *batch, int64_t classes)
{
    bt_tensor *votes = one_hot(bt_field(batch, "votes"), 2, classes);       /* [n, functions, classes] */
    bt_tensor *trust = bt_unsqueeze(bt_forward(bt_peer(self, "trust")), 1); /* [functions, 1] */
    bt_tensor *sum = bt_sum(bt_mul(votes, trust), 1);
    bt_tensor *right = bt_mul(sum, one_hot(bt_field(batch, "label"), 1, classes));
    bt_metric(self, "right", bt_div(bt_sum(right), bt_sum(sum))); /* the share that is right; only reported */
    return sum;
}

static bt_tensor *most_votes(const bt_batch *batch, int64_t classes)
{
    bt_tensor *counts = bt_field(batch, "counts");
    return bt_mul(one_hot(bt_argmax(counts, 1), 1, classes), bt_greater(bt_max(counts, 1, BT_KEEP), 0));
}

static bt_tensor *labels(bt_problem *self, const bt_batch *batch) /* [n, classes]: how much each counts */
{
    const int64_t classes = bt_data_dim(self, "counts", 1);
    if (bt_option_bool(self, "labelled_only", false))
        return one_hot(bt_field(batch, "label"), 1, classes);
    if (bt_option_bool(self, "baseline", false)) /* the majority vote, for comparison */
        return most_votes(batch, classes);
    return trusted_votes(self, batch, classes);
}

static bt_tensor *classifier_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *likelihood = bt_log_softmax(bt_forward(self, bt_field(batch, "x")), 1); /* [n, classes] */
    bt_tensor *label = labels(self, batch);
    return bt_neg(bt_div(bt_sum(bt_mul(label, likelihood)), bt_sum(label)));
}

static bt_tensor *classifier_validation(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *logits = bt_forward(self, bt_field(batch, "x")), *label = bt_field(batch, "label");
    bt_metric(self, "acc", bt_accuracy(logits, label));
    bt_metric(self, "votes_acc", bt_accuracy(bt_field(batch, "counts"), label)); /* without any learning */
    return bt_mean(bt_cross_entropy(logits, label));
}

static const bt_problem_def trust = {
    .name = "trust",
    .configure_train_data = labelled,
    .configure_module = trust_module,
    .forward = trust_forward,
    .training_step = trust_step,
};

static const bt_problem_def classifier = {
    .name = "classifier",
    .configure_train_data = voted,
    .configure_valid_data = test_texts,
    .configure_module = classifier_module,
    .training_step = classifier_step,
    .validation_step = classifier_validation,
};

BT_EXPORT(.problems = {&trust, &classifier});
