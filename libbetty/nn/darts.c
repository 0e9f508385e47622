/* nn/darts.c: the search space of DARTS (Liu et al. 2019): cells whose edges mix candidate operations. */
#include "nn/module.h"

#include "graph/graph.h"
#include "ops/ops.h"

enum { NONE, MAX_POOL, AVG_POOL, SKIP, SEP_3, SEP_5, DIL_3, DIL_5, MAX_NODES = 16 };

const char *const bt_nn_darts_names[BT_NN_DARTS_OPS] = {"none",         "max_pool_3x3", "avg_pool_3x3", "skip_connect",
                                                        "sep_conv_3x3", "sep_conv_5x5", "dil_conv_3x3", "dil_conv_5x5"};

int64_t bt_nn_darts_edges(int64_t nodes) { return nodes < 1 || nodes > MAX_NODES ? 0 : nodes * (nodes + 3) / 2; }

/* ---- candidates ---- */

static bt_module *conv(int64_t in, int64_t out, int64_t window, int64_t stride, int64_t dilation, int64_t groups)
{
    bt_conv2d_options o = {
        .stride = stride, .padding = dilation * (window / 2), .dilation = dilation, .groups = groups, .bias = false};
    return bt_nn_conv2d(in, out, window, &o);
}

/* No scale and shift, so that the candidates' weights are comparable. */
static bt_module *norm(int64_t channels)
{
    bt_batch_norm_options o = bt_batch_norm_defaults();
    o.affine = false;
    return bt_nn_batch_norm(channels, &o);
}

static bt_module *relu_conv_norm(int64_t in, int64_t out, int64_t window, int64_t stride)
{
    return bt_nn_sequential(bt_nn_fn(bt_relu), conv(in, out, window, stride, 1, 1), norm(out));
}

/* ReLU, a depthwise convolution, a pointwise convolution, normalisation. */
static bt_module *separable(int64_t channels, int64_t window, int64_t stride, int64_t dilation)
{
    return bt_nn_sequential(bt_nn_fn(bt_relu), conv(channels, channels, window, stride, dilation, channels),
                            conv(channels, channels, 1, 1, 1, 1), norm(channels));
}

static bt_module *twice_separable(int64_t channels, int64_t window, int64_t stride)
{
    return bt_nn_sequential(separable(channels, window, stride, 1), separable(channels, window, 1, 1));
}

/* Halves the map: two grids one pixel apart give half of the channels each. */
static bt_tensor *halve_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = bt_relu(in[0]);
    bt_tensor *even = bt_forward(bt_child(self, "even"), x);
    /* the other grid is shifted by one pixel; beyond the edge are zeros */
    int64_t rows = bt_dim(x, 1), columns = bt_dim(x, 2);
    bt_tensor *moved = bt_slice(bt_slice(x, 1, 1, BT_REST), 2, 1, BT_REST);
    moved = bt_pad_axis(bt_pad_axis(moved, 1, 0, rows), 2, 0, columns);
    return bt_forward(bt_child(self, "norm"), bt_concat(3, even, bt_forward(bt_child(self, "odd"), moved)));
}

static bt_module *halve(int64_t in, int64_t out)
{
    bt_module *self = bt_module_new(halve_forward);
    bt_module_add(self, conv(in, out - out / 2, 1, 2, 1, 1), "even");
    bt_module_add(self, conv(in, out / 2, 1, 2, 1, 1), "odd");
    bt_module_add(self, norm(out), "norm");
    return self;
}

static bt_module *same(void) { return bt_nn_sequential(NULL); }

static bt_module *candidate(int op, int64_t channels, int64_t stride)
{
    switch (op) {
    case MAX_POOL:
        return bt_nn_sequential(bt_nn_max_pool2d(3, stride, 1), norm(channels));
    case AVG_POOL:
        return bt_nn_sequential(bt_nn_avg_pool2d(3, stride, 1), norm(channels));
    case SKIP:
        return stride == 1 ? same() : halve(channels, channels);
    case SEP_3:
        return twice_separable(channels, 3, stride);
    case SEP_5:
        return twice_separable(channels, 5, stride);
    case DIL_3:
        return separable(channels, 3, stride, 2);
    default:
        return separable(channels, 5, stride, 2);
    }
}

/* ---- an edge: the weighted sum of the candidates; "none" adds nothing ---- */

static bt_tensor *edge_forward(bt_module *self, bt_tensor *const *in) /* x, weight [BT_NN_DARTS_OPS] */
{
    bt_tensor *y = NULL;
    for (int op = MAX_POOL; op < BT_NN_DARTS_OPS; op++) {
        bt_tensor *part = bt_forward(bt_child(self, "%s", bt_nn_darts_names[op]), in[0]);
        part = bt_mul(bt_at(in[1], op), part);
        y = y ? bt_add(y, part) : part;
    }
    return y;
}

static bt_module *edge(int64_t channels, int64_t stride)
{
    bt_module *self = bt_module_new(edge_forward);
    for (int op = MAX_POOL; op < BT_NN_DARTS_OPS; op++)
        bt_module_add(self, candidate(op, channels, stride), "%s", bt_nn_darts_names[op]);
    return self;
}

/* ---- a cell: each node is the sum of its edges from the two inputs and all earlier nodes ---- */

typedef struct cell_options {
    int64_t nodes;
    bool reduces;
} cell_options;

static bt_tensor *cell_forward(bt_module *self, bt_tensor *const *in) /* two states, weights [edges, candidates] */
{
    const cell_options *own = self->data;
    bt_tensor *state[2 + MAX_NODES] = {bt_forward(bt_child(self, "before"), in[0]),
                                       bt_forward(bt_child(self, "now"), in[1])};
    int e = 0;
    for (int64_t i = 2; i < 2 + own->nodes; i++)
        for (int64_t j = 0; j < i; j++, e++) {
            bt_tensor *part = bt_forward(bt_child(self, "edge%d", e), state[j], bt_at(in[2], e));
            state[i] = state[i] ? bt_add(state[i], part) : part;
        }
    return bt_concat_list(3, state + 2, (int)own->nodes);
}

static bt_module *cell(int64_t before, int64_t now, int64_t filters, int64_t nodes, bool after_reduction, bool reduces)
{
    bt_module *self = bt_module_make(cell_forward, &(cell_options){nodes, reduces}, sizeof(cell_options));
    bt_module_add(self, after_reduction ? halve(before, filters) : relu_conv_norm(before, filters, 1, 1), "before");
    bt_module_add(self, relu_conv_norm(now, filters, 1, 1), "now");
    int e = 0;
    for (int64_t i = 2; i < 2 + nodes; i++)
        for (int64_t j = 0; j < i; j++, e++)
            bt_module_add(self, edge(filters, reduces && j < 2 ? 2 : 1), "edge%d", e);
    return self;
}

/* ---- the network ---- */

typedef struct darts_options {
    int64_t cells, edges;
} darts_options;

static bool is_reduction(int64_t index, int64_t cells) { return index == cells / 3 || index == 2 * cells / 3; }

static bt_tensor *darts_forward(bt_module *self,
                                bt_tensor *const *in) /* images, weights of normal and reduction cells */
{
    const darts_options *own = self->data;
    if (!in[0] || !in[1] || !in[2])
        return bt_trace_poison(BT_ERROR_ARGUMENT, "darts: expected three inputs: images, and the weights of the "
                                                  "candidates of normal and of reduction cells");
    for (int i = 1; i < 3; i++)
        if (!bt_poisoned(in[i]) &&
            (in[i]->rank != 2 || in[i]->dims[0] != own->edges || in[i]->dims[1] != BT_NN_DARTS_OPS)) {
            char found[256];
            return bt_trace_poison(BT_ERROR_SHAPE, "darts: input %d is %s, must be the weights [%lld, %d]", i + 1,
                                   bt_shape_text(found, in[i]->rank, in[i]->dims), (long long)own->edges,
                                   BT_NN_DARTS_OPS);
        }
    bt_tensor *before = bt_forward(bt_child(self, "stem"), in[0]), *now = before;
    for (int64_t c = 0; c < own->cells; c++) {
        bt_tensor *weights = in[own->cells > 1 && is_reduction(c, own->cells) ? 2 : 1];
        bt_tensor *next = bt_forward(bt_child(self, "cell%d", (int)c), before, now, weights);
        before = now;
        now = next;
    }
    return bt_forward(bt_child(self, "head"), bt_mean(now, 1, 2));
}

bt_module *bt_nn_darts(int64_t channels, int64_t filters, int64_t cells, int64_t nodes, int64_t classes)
{
    darts_options own = {cells, bt_nn_darts_edges(nodes)};
    bt_module *self = bt_module_make(darts_forward, &own, sizeof own);
    if (channels < 1 || filters < 2 || cells < 1 || cells > 1000 || own.edges == 0 || classes < 1) {
        bt_module_mistake(
            self, BT_ERROR_ARGUMENT,
            "bt_nn_darts: %lld channels, %lld filters, %lld cells of %lld nodes, %lld classes; expected at least 2 "
            "filters, 1 to %d nodes, and at least 1 of all others",
            (long long)channels, (long long)filters, (long long)cells, (long long)nodes, (long long)classes, MAX_NODES);
        return self;
    }
    bt_module_add(self, bt_nn_sequential(conv(channels, 3 * filters, 3, 1, 1, 1), bt_nn_batch_norm(3 * filters)),
                  "stem");
    int64_t before = 3 * filters, now = 3 * filters;
    bool after = false;
    for (int64_t c = 0; c < cells; c++) {
        bool reduces = cells > 1 && is_reduction(c, cells);
        filters *= reduces ? 2 : 1;
        bt_module_add(self, cell(before, now, filters, nodes, after, reduces), "cell%d", (int)c);
        after = reduces;
        before = now;
        now = nodes * filters;
    }
    bt_module_add(self, bt_nn_linear(now, classes), "head");
    return self;
}
