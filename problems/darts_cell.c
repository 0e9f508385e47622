/* darts_cell.c: differentiable architecture search (Liu, Simonyan and Yang, ICLR 2019). Every edge of a cell mixes
 * eight candidate operations with softmax weights, which the upper problem learns on one half of the data; the
 * network's own weights are the lower problem, on the other half. After each validation it prints the cell found so
 * far. */
#include <betty/betty.h>
#include <stdio.h>

enum { MAX_NODES = 4, MAX_EDGES = MAX_NODES * (MAX_NODES + 3) / 2, OPS = BT_NN_DARTS_OPS };

static int64_t nodes(bt_problem *self) { return bt_option_int(bt_peer(self, "classifier"), "nodes", 4, 1, MAX_NODES); }

/* Upper level: how much each candidate of each edge counts, in normal cells and in those that halve the map. */

static bt_module *architecture(bt_problem *self)
{
    bt_module *arch = bt_module_new(NULL);
    int64_t edges = bt_nn_darts_edges(nodes(self));
    bt_module_add_param(arch, "normal", bt_init_normal(0, 1e-3), edges, BT_NN_DARTS_OPS);
    bt_module_add_param(arch, "reduce", bt_init_normal(0, 1e-3), edges, BT_NN_DARTS_OPS);
    return arch;
}

static bt_tensor *weights(bt_problem *self, const char *cell)
{
    return bt_softmax(bt_param(bt_peer(self, "arch"), "%s", cell), -1);
}

static bt_tensor *normal_weights(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return weights(self, "normal");
}

/* The cell: for each node, the two incoming edges with the strongest candidates other than "none". */

static int strongest(const double *weight)
{
    int best = 1;
    for (int op = 2; op < OPS; op++)
        if (weight[op] > weight[best])
            best = op;
    return best;
}

static void print_cell(bt_problem *self)
{
    double weight[MAX_EDGES][OPS];
    int64_t count = nodes(self), edges = bt_nn_darts_edges(count), first = 0;
    if (bt_eval(self, normal_weights, NULL, BT_ARRAY(&weight[0][0], edges, OPS)) != BT_OK)
        return;
    for (int64_t node = 0; node < count; first += node + 2, node++) {
        int64_t one = -1, two = -1; /* from which states */
        for (int64_t from = 0; from < node + 2; from++) {
            double strength = weight[first + from][strongest(weight[first + from])];
            if (one < 0 || strength > weight[first + one][strongest(weight[first + one])]) {
                two = one;
                one = from;
            } else if (two < 0 || strength > weight[first + two][strongest(weight[first + two])]) {
                two = from;
            }
        }
        printf("node %lld = %s(%lld) + %s(%lld)\n", (long long)node + 2,
               bt_nn_darts_names[strongest(weight[first + one])], (long long)one,
               bt_nn_darts_names[strongest(weight[first + two])], (long long)two);
    }
}

/* Lower level: the network of all candidates. */

static bt_module *network(bt_problem *self)
{
    int64_t filters = bt_option_int(self, "filters", 16, 2, 1024), cells = bt_option_int(self, "cells", 8, 1, 100);
    return bt_nn_darts(bt_data_dim(self, "image", 3), filters, cells, nodes(self), 10);
}

static bt_tensor *logits(bt_problem *self, const bt_batch *batch)
{
    return bt_forward(bt_peer(self, "classifier"), bt_field(batch, "image"), weights(self, "normal"),
                      weights(self, "reduce"));
}

static bt_tensor *loss(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_cross_entropy(logits(self, batch), bt_field(batch, "label")));
}

static bt_tensor *validation(bt_problem *self, const bt_batch *batch)
{
    bt_metric(self, "acc", bt_accuracy(logits(self, batch), bt_field(batch, "label")));
    return loss(self, batch);
}

static void print_architecture(bt_problem *self) { print_cell(bt_peer(self, "arch")); }

/* Data: two halves to search on; the test set to look at. */

static bt_dataset *images(bt_problem *self, const char *split)
{
    return bt_dataset_open(bt_option_text(bt_peer(self, "classifier"), "data", "cifar10"), split);
}

static bt_dataset *first_half(bt_problem *self)
{
    return bt_dataset_part(images(self, "train"), 0, 0.5, bt_seed(self));
}
static bt_dataset *second_half(bt_problem *self)
{
    return bt_dataset_part(images(self, "train"), 0.5, 1, bt_seed(self));
}
static bt_dataset *test_data(bt_problem *self) { return images(self, "test"); }

static const bt_problem_def arch = {
    .name = "arch",
    .configure_train_data = second_half,
    .configure_module = architecture,
    .training_step = loss,
};

static const bt_problem_def classifier = {
    .name = "classifier",
    .configure_train_data = first_half,
    .configure_valid_data = test_data,
    .configure_module = network,
    .training_step = loss,
    .validation_step = validation,
    .validation_end = print_architecture,
};

BT_EXPORT(.problems = {&arch, &classifier});
