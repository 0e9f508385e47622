/* nn/recurrent.c: LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000) and GRU (Cho et al.
 * 2014): cells, and layers that process sequences step by step. Formulas and gate order are PyTorch's. */
#include "nn/module.h"

#include "graph/graph.h"
#include "ops/ops.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

bt_recurrent_options bt_recurrent_defaults(void) { return (bt_recurrent_options){.layers = 1, .bias = true}; }

typedef struct state { /* [n, hidden] each; memory: LSTM only */
    bt_tensor *hidden, *memory;
} state;

/* One step: `given` is the input's contribution to the gates; `weight` and `bias` are those of the state. */
typedef state step_fn(bt_tensor *given, state before, bt_tensor *weight, bt_tensor *bias);

typedef struct kind {
    const char *name;
    int gates;
    bool memory;
    step_fn *step;
} kind;

/* Gate number `gate` of [n, gates x hidden]. */
static bt_tensor *gate_of(bt_tensor *gates, int gate, int count)
{
    if (bt_poisoned(gates))
        return gates;
    int64_t hidden = gates->dims[1] / count;
    return bt_slice(gates, 1, gate * hidden, (gate + 1) * hidden);
}

static state lstm_step(bt_tensor *given, state before, bt_tensor *weight, bt_tensor *bias)
{
    bt_tensor *gates = bt_add(given, bt_linear(before.hidden, weight, bias, false));
    bt_tensor *in = bt_sigmoid(gate_of(gates, 0, 4)), *forget = bt_sigmoid(gate_of(gates, 1, 4));
    bt_tensor *news = bt_tanh(gate_of(gates, 2, 4)), *out = bt_sigmoid(gate_of(gates, 3, 4));
    state after = {.memory = bt_add(bt_mul(forget, before.memory), bt_mul(in, news))};
    after.hidden = bt_mul(out, bt_tanh(after.memory));
    return after;
}

static state gru_step(bt_tensor *given, state before, bt_tensor *weight, bt_tensor *bias)
{
    bt_tensor *own = bt_linear(before.hidden, weight, bias, false);
    bt_tensor *reset = bt_sigmoid(bt_add(gate_of(given, 0, 3), gate_of(own, 0, 3)));
    bt_tensor *keep = bt_sigmoid(bt_add(gate_of(given, 1, 3), gate_of(own, 1, 3)));
    bt_tensor *news = bt_tanh(bt_add(gate_of(given, 2, 3), bt_mul(reset, gate_of(own, 2, 3))));
    return (state){.hidden = bt_add(news, bt_mul(keep, bt_sub(before.hidden, news)))};
}

static const kind lstm = {"lstm", 4, true, lstm_step}, gru = {"gru", 3, false, gru_step};

/* ---- shared by cells and layers ---- */

typedef struct recurrent_options {
    const kind *kind;
    int64_t in, hidden;
    bt_recurrent_options options;
} recurrent_options;

static bool are_possible(bt_module *module, const char *name, const recurrent_options *own)
{
    const bt_recurrent_options *o = &own->options;
    if (own->in >= 1 && own->hidden >= 1 && own->hidden <= INT64_MAX / 8 && o->layers >= 1 && o->dropout >= 0 &&
        o->dropout < 1)
        return module != NULL;
    bt_module_mistake(module, BT_ERROR_ARGUMENT,
                      "bt_nn_%s: %lld inputs, %lld hidden, %lld layers, dropout %g; sizes must be at least 1, and 0 <= "
                      "dropout < 1",
                      name, (long long)own->in, (long long)own->hidden, (long long)o->layers, o->dropout);
    return false;
}

/* The suffix tells layers and directions apart; a cell has none. */
static void add_params(bt_module *module, const recurrent_options *own, int64_t in, const char *suffix)
{
    const bt_init init = bt_init_uniform(-1 / sqrt((double)own->hidden), 1 / sqrt((double)own->hidden));
    int64_t rows = own->kind->gates * own->hidden;
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    for (int i = 0; i < (own->options.bias ? 4 : 2); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", names[i], suffix);
        if (i < 2)
            bt_module_add_param(module, name, init, rows, i ? own->hidden : in);
        else
            bt_module_add_param(module, name, init, rows);
    }
}

static bt_tensor *bias_of(bt_module *self, const char *name, const char *suffix)
{
    const recurrent_options *own = self->data;
    return own->options.bias ? bt_param(self, "%s%s", name, suffix) : NULL;
}

static state nothing(const recurrent_options *own, const bt_tensor *x)
{
    const int64_t dims[] = {x->dims[0], own->hidden};
    bt_tensor *zeros = bt_broadcast(bt_number(0, x->dtype), 2, dims, NULL);
    return (state){zeros, own->kind->memory ? zeros : NULL};
}

/* ---- cells ---- */

static bt_tensor *cell_forward(bt_module *self, bt_tensor *const *in)
{
    const recurrent_options *own = self->data;
    int64_t parts = own->kind->memory ? 2 : 1;
    bt_tensor *x = in[0], *given = in[0] ? in[1] : NULL;
    char found[256];
    if (!x || (given && in[2]))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s cell: takes x, and optionally a state", own->kind->name);
    if (bt_poisoned(x) || (given && bt_poisoned(given)))
        return bt_poisoned(x) ? x : given;
    if (x->rank != 2 || x->dims[1] != own->in)
        return bt_module_wrong_features(own->kind->memory ? "lstm cell" : "gru cell", own->in, x);
    if (given && (given->rank != 2 || given->dims[0] != x->dims[0] || given->dims[1] != parts * own->hidden))
        return bt_trace_poison(BT_ERROR_SHAPE, "%s cell: the state is %s, must be [%lld, %lld]", own->kind->name,
                               bt_shape_text(found, given->rank, given->dims), (long long)x->dims[0],
                               (long long)(parts * own->hidden));
    state before = nothing(own, x);
    if (given) {
        before.hidden = bt_slice(given, 1, 0, own->hidden);
        before.memory = parts > 1 ? bt_slice(given, 1, own->hidden, 2 * own->hidden) : NULL;
    }
    bt_tensor *input = bt_linear(x, bt_param(self, "weight_ih"), bias_of(self, "bias_ih", ""), false);
    state after = own->kind->step(input, before, bt_param(self, "weight_hh"), bias_of(self, "bias_hh", ""));
    return parts > 1 ? bt_concat(1, after.hidden, after.memory) : after.hidden;
}

static bt_module *cell(const kind *kind, const char *name, int64_t in, int64_t hidden)
{
    recurrent_options own = {kind, in, hidden, bt_recurrent_defaults()};
    bt_module *module = bt_module_make(cell_forward, &own, sizeof own);
    if (are_possible(module, name, &own))
        add_params(module, &own, in, "");
    return module;
}

bt_module *bt_nn_lstm_cell(int64_t in, int64_t hidden) { return cell(&lstm, "lstm_cell", in, hidden); }

bt_module *bt_nn_gru_cell(int64_t in, int64_t hidden) { return cell(&gru, "gru_cell", in, hidden); }

/* ---- layers ---- */

static void suffix_of(char *text, size_t size, int64_t layer, bool reverse)
{
    snprintf(text, size, "_l%lld%s", (long long)layer, reverse ? "_reverse" : "");
}

/* The state after the step if the sequence goes on, else the one before. */
static bt_tensor *going_on(bt_tensor *on, bt_tensor *after, bt_tensor *before)
{
    return on ? bt_where(on, after, before) : after;
}

/* Runs one layer in one direction; returns its hidden states, [n, steps, hidden]. */
static bt_tensor *walk(bt_module *self, bt_tensor *x, bt_tensor *lengths, int64_t layer, bool reverse)
{
    const recurrent_options *own = self->data;
    char suffix[48];
    suffix_of(suffix, sizeof suffix, layer, reverse);
    int64_t steps = x->dims[1];
    bt_tensor **out = bt_region_alloc(bt_trace_now()->graph->region, ((size_t)steps + 1) * sizeof(bt_tensor *));
    bt_tensor *all = bt_linear(x, bt_param(self, "weight_ih%s", suffix), bias_of(self, "bias_ih", suffix), false);
    bt_tensor *weight = bt_param(self, "weight_hh%s", suffix), *bias = bias_of(self, "bias_hh", suffix);
    state now = nothing(own, x);
    if (!out)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory while recording");
    for (int64_t i = 0; i < steps; i++) {
        int64_t t = reverse ? steps - 1 - i : i;
        bt_tensor *given = bt_squeeze(bt_slice(all, 1, t, t + 1), 1);
        bt_tensor *on = lengths ? bt_unsqueeze(bt_greater(lengths, t), 1) : NULL;
        state after = own->kind->step(given, now, weight, bias);
        now.hidden = going_on(on, after.hidden, now.hidden);
        now.memory = after.memory ? going_on(on, after.memory, now.memory) : NULL;
        out[t] = bt_unsqueeze(now.hidden, 1);
        if (bt_poisoned(out[t]))
            return out[t];
    }
    return steps == 1 ? out[0] : bt_concat_list(1, out, (int)steps);
}

static bt_tensor *checked_input(const recurrent_options *own, bt_tensor *const *in)
{
    char found[256];
    if (!in[0] || (in[1] && in[2]))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: takes x, and optionally the lengths of its sequences",
                               own->kind->name);
    if (bt_poisoned(in[0]) || (in[1] && bt_poisoned(in[1])))
        return bt_poisoned(in[0]) ? in[0] : in[1];
    if (in[0]->rank != 3 || in[0]->dims[2] != own->in || in[0]->dims[1] < 1 || in[0]->dims[1] > INT32_MAX)
        return bt_trace_poison(BT_ERROR_SHAPE, "%s: x is %s, must be [n, steps, %lld], with at least one step",
                               own->kind->name, bt_shape_text(found, in[0]->rank, in[0]->dims), (long long)own->in);
    if (in[1] && (in[1]->rank != 1 || in[1]->dims[0] != in[0]->dims[0]))
        return bt_trace_poison(BT_ERROR_SHAPE, "%s: the lengths are %s, must be [%lld], one for each sequence",
                               own->kind->name, bt_shape_text(found, in[1]->rank, in[1]->dims),
                               (long long)in[0]->dims[0]);
    return in[0];
}

static bt_tensor *recurrent_forward(bt_module *self, bt_tensor *const *in)
{
    const recurrent_options *own = self->data;
    const bt_recurrent_options *o = &own->options;
    bt_tensor *x = checked_input(own, in);
    for (int64_t layer = 0; layer < o->layers && !bt_poisoned(x); layer++) {
        if (layer)
            x = bt_dropout(x, o->dropout);
        bt_tensor *forth = walk(self, x, in[1], layer, false);
        x = o->bidirectional && !bt_poisoned(forth) ? bt_concat(2, forth, walk(self, x, in[1], layer, true)) : forth;
    }
    return x;
}

static bt_module *recurrent(const kind *kind, int64_t in, int64_t hidden, const bt_recurrent_options *options)
{
    recurrent_options own = {kind, in, hidden, options ? *options : bt_recurrent_defaults()};
    const bt_recurrent_options *o = &own.options;
    bt_module *module = bt_module_make(recurrent_forward, &own, sizeof own);
    if (!are_possible(module, kind->name, &own))
        return module;
    for (int64_t layer = 0; layer < o->layers && module->status == BT_OK; layer++)
        for (int reverse = 0; reverse < (o->bidirectional ? 2 : 1); reverse++) {
            char suffix[48];
            suffix_of(suffix, sizeof suffix, layer, reverse);
            add_params(module, &own, layer ? hidden * (o->bidirectional ? 2 : 1) : in, suffix);
        }
    return module;
}

bt_module *(bt_nn_lstm)(int64_t in, int64_t hidden, const bt_recurrent_options *options)
{
    return recurrent(&lstm, in, hidden, options);
}

bt_module *(bt_nn_gru)(int64_t in, int64_t hidden, const bt_recurrent_options *options)
{
    return recurrent(&gru, in, hidden, options);
}
