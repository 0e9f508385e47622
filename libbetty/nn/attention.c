/* nn/attention.c: multi-head attention with its input and output projections. */
#include "nn/module.h"

#include "graph/graph.h"
#include "ops/ops.h"

typedef struct attention_options {
    int64_t width, heads;
    bt_nn_attention_options options; /* its head_width and source are set */
} attention_options;

bt_nn_attention_options bt_nn_attention_defaults(void) { return (bt_nn_attention_options){.bias = true}; }

static int64_t inner_of(const attention_options *own) { return own->heads * own->options.head_width; }

/* Projects x by the rows from .. to - 1 of the weight and bias, in units of heads x head width. */
static bt_tensor *project(bt_module *self, bt_tensor *x, int64_t from, int64_t to)
{
    const attention_options *own = self->data;
    int64_t inner = inner_of(own);
    bt_tensor *bias = own->options.bias ? bt_slice(bt_param(self, "in_proj_bias"), 0, from * inner, to * inner) : NULL;
    if (own->options.source == own->width)
        return bt_linear(x, bt_slice(bt_param(self, "in_proj_weight"), 0, from * inner, to * inner), bias, false);
    static const char *const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    return bt_linear(x, bt_param(self, "%s", names[from]), bias, false);
}

/* Part `which` of projections [n, tokens, parts x heads x width], as a view [n, heads, tokens, width]. */
static bt_tensor *heads_of(const attention_options *own, bt_tensor *all, int64_t which)
{
    int64_t inner = inner_of(own);
    if (bt_poisoned(all))
        return all;
    bt_tensor *part = bt_slice(all, -1, which * inner, (which + 1) * inner);
    return bt_permute(bt_reshape(part, all->dims[0], all->dims[1], own->heads, own->options.head_width), 0, 2, 1, 3);
}

/* Computes queries, keys and values with as few products as possible. */
static void split(bt_module *self, bt_tensor *x, bt_tensor *source, bt_tensor **qkv)
{
    const attention_options *own = self->data;
    bool one = own->options.source == own->width;
    bt_tensor *all = one && x == source ? project(self, x, 0, 3) : project(self, x, 0, 1);
    qkv[0] = heads_of(own, all, 0);
    if (one && x == source) {
        qkv[1] = heads_of(own, all, 1);
        qkv[2] = heads_of(own, all, 2);
        return;
    }
    all = project(self, source, 1, one ? 3 : 2);
    qkv[1] = heads_of(own, all, 0);
    qkv[2] = one ? heads_of(own, all, 1) : heads_of(own, project(self, source, 2, 3), 0);
}

static bt_tensor *checked(const char *what, bt_tensor *x, int64_t width)
{
    char found[256];
    if (bt_poisoned(x))
        return x;
    if (x->rank != 3)
        return bt_trace_poison(BT_ERROR_SHAPE, "%s expects [n, tokens, %lld], found %s", what, (long long)width,
                               bt_shape_text(found, x->rank, x->dims));
    return x->dims[2] != width ? bt_module_wrong_features(what, width, x) : x;
}

static bt_tensor *attention_forward(bt_module *self, bt_tensor *const *in)
{
    const attention_options *own = self->data;
    const bt_nn_attention_options *o = &own->options;
    if (!in[0] || (in[1] && in[2] && in[3]))
        return bt_trace_poison(BT_ERROR_ARGUMENT, "attention takes x, and optionally a source and a mask of its "
                                                  "tokens");
    bt_tensor *x = checked("attention", in[0], own->width), *qkv[3];
    bt_tensor *source = in[1] ? checked("attention, in its source,", in[1], o->source) : x;
    if (bt_poisoned(x) || bt_poisoned(source))
        return bt_poisoned(x) ? x : source;
    if (source->dims[2] != o->source)
        return bt_module_wrong_features("attention, in its source,", o->source, source);
    if (o->rotary && source != x)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "attention: rotary positions need one sequence, but x and a source "
                                                  "are two");
    split(self, x, source, qkv);
    for (int i = 0; i < 2 && o->rotary; i++)
        qkv[i] = bt_rotary(qkv[i], 0);
    bt_attention_options how = {
        .causal = o->causal, .mask = in[1] ? in[2] : NULL, .dropout = o->dropout, .block = o->block, .held = o->held};
    bt_tensor *y = bt_attention(qkv[0], qkv[1], qkv[2], &how);
    return bt_forward(self->children[0], bt_reshape(bt_permute(y, 0, 2, 1, 3), x->dims[0], x->dims[1], inner_of(own)));
}

static void add_projections(bt_module *self, const attention_options *own)
{
    const bt_nn_attention_options *o = &own->options;
    int64_t inner = inner_of(own);
    if (o->source == own->width) {
        bt_module_add_param(self, "in_proj_weight", bt_init_xavier_uniform(own->width, 3 * inner), 3 * inner,
                            own->width);
    } else {
        bt_module_add_param(self, "q_proj_weight", bt_init_xavier_uniform(own->width, inner), inner, own->width);
        bt_module_add_param(self, "k_proj_weight", bt_init_xavier_uniform(o->source, inner), inner, o->source);
        bt_module_add_param(self, "v_proj_weight", bt_init_xavier_uniform(o->source, inner), inner, o->source);
    }
    if (o->bias)
        bt_module_add_param(self, "in_proj_bias", bt_init_constant(0), 3 * inner);
    bt_module *out = bt_nn_linear(inner, own->width, &(bt_linear_options){o->bias});
    if (o->bias)
        bt_module_set_init(out, "bias", bt_init_constant(0));
    bt_module_add(self, out, "out_proj");
}

bt_module *(bt_nn_attention)(int64_t width, int64_t heads, const bt_nn_attention_options *options)
{
    attention_options own = {width, heads, options ? *options : bt_nn_attention_defaults()};
    bt_nn_attention_options *o = &own.options;
    bool divides = o->head_width > 0 || (heads > 0 && width % heads == 0);
    if (!o->head_width && heads > 0)
        o->head_width = width / heads;
    o->source = o->source ? o->source : width;
    bt_module *module = bt_module_make(attention_forward, &own, sizeof own);
    if (width < 1 || heads < 1 || !divides || o->head_width < 1 || o->source < 1 || o->block < 0 ||
        o->head_width > INT32_MAX || heads > INT32_MAX || !(o->dropout >= 0 && o->dropout < 1) ||
        (o->rotary && o->head_width % 2)) {
        bt_module_mistake(module, BT_ERROR_ARGUMENT,
                          "bt_nn_attention: width %lld, %lld heads of %lld, a source of %lld, dropout %g, blocks of "
                          "%lld; sizes must be at least 1, the heads must divide the width unless their own width is "
                          "given, which must be even with rotary positions, 0 <= dropout < 1, and blocks must be at "
                          "least 0",
                          (long long)width, (long long)heads, (long long)o->head_width, (long long)o->source,
                          o->dropout, (long long)o->block);
        return module;
    }
    if (module)
        add_projections(module, &own);
    return module;
}
