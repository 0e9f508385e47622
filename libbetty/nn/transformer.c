/* nn/transformer.c: transformers (Vaswani et al. 2017): residual layers of attention and two linear maps, between token
 * and position tables and a head. */
#include "nn/module.h"

#include "graph/graph.h"
#include "ops/ops.h"
#include <math.h>
#include <string.h>

typedef struct transformer_options {
    bt_transformer_options options;
} transformer_options;

bt_transformer_options bt_transformer_defaults(void)
{
    return (bt_transformer_options){.positions = BT_POSITIONS_LEARNED,
                                    .activation = bt_gelu,
                                    .eps = 1e-5,
                                    .causal = true,
                                    .pre_norm = true,
                                    .final_norm = true,
                                    .head = true,
                                    .tied = true,
                                    .bias = true,
                                    .padding = -1};
}

static const bt_transformer_options *options_of(const bt_module *self)
{
    return &((const transformer_options *)self->data)->options;
}

/* ---- a layer ---- */

static bt_tensor *drop(const bt_transformer_options *o, bt_tensor *x) { return bt_dropout(x, o->dropout); }

/* A part of a layer: x plus the part's output, normalised before or after. */
typedef bt_tensor *part_fn(bt_module *self, bt_tensor *x, bt_tensor *source, bt_tensor *mask);

static bt_tensor *add_part(bt_module *self, const char *norm, part_fn *part, bt_tensor *x, bt_tensor *source,
                           bt_tensor *mask)
{
    const bt_transformer_options *o = options_of(self);
    bt_module *child = bt_child(self, "%s", norm);
    bt_tensor *y = drop(o, part(self, o->pre_norm ? bt_forward(child, x) : x, source, mask));
    return o->pre_norm ? bt_add(x, y) : bt_forward(child, bt_add(x, y));
}

static bt_tensor *to_itself(bt_module *self, bt_tensor *x, bt_tensor *source, bt_tensor *mask)
{
    bt_module *attention = bt_child(self, "self_attn");
    (void)source;
    return mask ? bt_forward(attention, x, x, mask) : bt_forward(attention, x);
}

static bt_tensor *to_source(bt_module *self, bt_tensor *x, bt_tensor *source, bt_tensor *mask)
{
    bt_module *attention = bt_child(self, "multihead_attn");
    return mask ? bt_forward(attention, x, source, mask) : bt_forward(attention, x, source);
}

static bt_tensor *feed_forward(bt_module *self, bt_tensor *x, bt_tensor *source, bt_tensor *mask)
{
    const bt_transformer_options *o = options_of(self);
    (void)source, (void)mask;
    bt_tensor *y = bt_module_linear(bt_child(self, "linear1"), x, o->activation == bt_relu);
    if (o->activation != bt_relu)
        y = o->activation(y);
    return bt_forward(bt_child(self, "linear2"), drop(o, y));
}

static bt_tensor *layer_forward(bt_module *self, bt_tensor *const *in)
{
    const bt_transformer_options *o = options_of(self);
    bool fits = in[0] && (o->cross ? in[1] && !(in[2] && in[3]) : !(in[1] && in[2]));
    if (!fits)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "transformer layer: takes x%s, and optionally a mask of %s tokens",
                               o->cross ? " and a source" : "", o->cross ? "the source's" : "the");
    bt_tensor *x = add_part(self, "norm1", to_itself, in[0], NULL, o->cross ? NULL : in[1]);
    if (o->cross)
        x = add_part(self, "norm2", to_source, x, in[1], in[2]);
    return add_part(self, o->cross ? "norm3" : "norm2", feed_forward, x, NULL, NULL);
}

/* ---- the options ---- */

static bool has_sizes(const bt_transformer_options *o)
{
    return o->width >= 1 && o->heads >= 1 && o->inner >= 0 && o->head_width >= 0 && o->layers >= 0 && o->types >= 0 &&
           o->vocabulary >= 0 && (o->positions != BT_POSITIONS_LEARNED || o->length >= 1);
}

/* Checks what the children do not check themselves. */
static void check_options(bt_module *module, const char *name, const bt_transformer_options *o, bool whole)
{
    if (!has_sizes(o) && whole)
        bt_module_mistake(module, BT_ERROR_ARGUMENT,
                          "%s: width %lld, %lld heads, %lld layers, a vocabulary of %lld, %lld types, %lld tokens at "
                          "most; width and heads must be at least 1, as must the length with learned positions, the "
                          "rest at least 0",
                          name, (long long)o->width, (long long)o->heads, (long long)o->layers,
                          (long long)o->vocabulary, (long long)o->types, (long long)o->length);
    else if (o->width < 1 || o->heads < 1 || o->inner < 0 || o->head_width < 0)
        bt_module_mistake(module, BT_ERROR_ARGUMENT, "%s: width %lld, %lld heads; both must be at least 1", name,
                          (long long)o->width, (long long)o->heads);
    else if (!(o->dropout >= 0 && o->dropout < 1) || !(o->eps >= 0))
        bt_module_mistake(module, BT_ERROR_ARGUMENT, "%s: dropout %g, eps %g; expected 0 <= dropout < 1, and eps >= 0",
                          name, o->dropout, o->eps);
    else if (!o->activation)
        bt_module_mistake(module, BT_ERROR_ARGUMENT, "%s: the activation is NULL", name);
}

static void add_norm(bt_module *self, const bt_transformer_options *o, const char *name)
{
    bt_module_add(self, bt_nn_layer_norm(o->width, &(bt_layer_norm_options){.eps = o->eps}), "%s", name);
}

static void add_attention(bt_module *self, const bt_transformer_options *o, const char *name, bool cross)
{
    bt_nn_attention_options a = {.head_width = o->head_width,
                                 .source = cross ? o->source : 0,
                                 .causal = o->causal && !cross,
                                 .rotary = o->positions == BT_POSITIONS_ROTARY && !cross,
                                 .dropout = o->dropout,
                                 .block = o->block,
                                 .held = o->held,
                                 .bias = o->bias};
    bt_module_add(self, bt_nn_attention(o->width, o->heads, &a), "%s", name);
}

bt_module *bt_nn_transformer_layer(const bt_transformer_options *options)
{
    transformer_options own = {options ? *options : bt_transformer_defaults()};
    const bt_transformer_options *o = &own.options;
    bt_module *module = bt_module_make(layer_forward, &own, sizeof own);
    check_options(module, "bt_nn_transformer_layer", o, false);
    if (!module || module->status != BT_OK)
        return module;
    int64_t inner = o->inner ? o->inner : o->width > INT64_MAX / 4 ? 0 : 4 * o->width;
    bt_linear_options linear = {.bias = o->bias};
    add_attention(module, o, "self_attn", false);
    if (o->cross)
        add_attention(module, o, "multihead_attn", true);
    bt_module_add(module, bt_nn_linear(o->width, inner, &linear), "linear1");
    bt_module_add(module, bt_nn_linear(inner, o->width, &linear), "linear2");
    add_norm(module, o, "norm1");
    add_norm(module, o, "norm2");
    if (o->cross)
        add_norm(module, o, "norm3");
    return module;
}

/* ---- the whole ---- */

typedef struct inputs {
    bt_tensor *tokens, *types, *source, *mask;
    bool fit;
} inputs;

static inputs inputs_of(const bt_transformer_options *o, bt_tensor *const *in)
{
    int count = 0, at = 1;
    while (in[count])
        count++;
    int least = 1 + (o->types > 0) + o->cross;
    inputs all = {.fit = count == least || count == least + 1};
    if (!all.fit)
        return all;
    all.tokens = in[0];
    all.types = o->types ? in[at++] : NULL;
    all.source = o->cross ? in[at++] : NULL;
    all.mask = in[at];
    return all;
}

/* The sum of the tables' rows for the tokens. */
static bt_tensor *embed(bt_module *self, const inputs *all)
{
    const bt_transformer_options *o = options_of(self);
    bt_tensor *x = o->vocabulary ? bt_forward(bt_child(self, "wte"), all->tokens) : all->tokens;
    char found[256];
    if (bt_poisoned(x))
        return x;
    if (x->rank != 3 || x->dims[2] != o->width)
        return bt_trace_poison(BT_ERROR_SHAPE, "transformer expects [n, tokens%s, found %s",
                               o->vocabulary ? "] of integers" : ", width]",
                               bt_shape_text(found, all->tokens->rank, all->tokens->dims));
    int64_t tokens = x->dims[1];
    if (o->positions == BT_POSITIONS_LEARNED && tokens > o->length)
        return bt_trace_poison(BT_ERROR_SHAPE, "transformer: found %lld tokens; it was made for at most %lld",
                               (long long)tokens, (long long)o->length);
    if (o->positions == BT_POSITIONS_LEARNED)
        x = bt_add(x, bt_slice(bt_param(self, "wpe.weight"), 0, 0, tokens));
    if (o->positions == BT_POSITIONS_SINUSOIDAL)
        x = bt_add(x, bt_sinusoidal(tokens, o->width));
    if (o->types)
        x = bt_add(x, bt_forward(bt_child(self, "token_type_embeddings"), all->types));
    if (o->embedding_norm)
        x = bt_forward(bt_child(self, "embedding_norm"), x);
    return drop(o, x);
}

static bt_tensor *transformer_forward(bt_module *self, bt_tensor *const *in)
{
    const bt_transformer_options *o = options_of(self);
    inputs all = inputs_of(o, in);
    if (!all.fit)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "transformer: takes %s%s%s, and optionally a mask of %s tokens",
                               o->vocabulary ? "tokens" : "x", o->types ? ", their types" : "",
                               o->cross ? ", a source" : "", o->cross ? "the source's" : "the");
    bt_tensor *x = embed(self, &all);
    for (int64_t i = 0; i < o->layers && !bt_poisoned(x); i++) {
        bt_tensor *const given[] = {x, all.source ? all.source : all.mask, all.source ? all.mask : NULL, NULL};
        x = bt_forward_module_(bt_child(self, "layers.%lld", (long long)i), given);
    }
    if (o->final_norm)
        x = bt_forward(bt_child(self, "norm"), x);
    if (!o->vocabulary || !o->head)
        return x;
    return bt_linear(x, bt_param(self, o->tied ? "wte.weight" : "lm_head.weight"), NULL, false);
}

/* As in GPT-2 (Radford et al. 2019): standard deviation 0.02, less for outputs added to the residual stream. */
static void set_init(bt_module *self, const bt_transformer_options *o)
{
    const bt_init usual = bt_init_normal(0, 0.02), zero = bt_init_constant(0);
    const bt_init added = bt_init_normal(0, 0.02 / sqrt(2 * (double)(o->layers > 0 ? o->layers : 1)));
    for (int64_t i = 0; i < self->slate_count; i++) {
        bt_slate *slate = self->slates[i];
        bool adds = self->name && (!strcmp(self->name, "out_proj") || !strcmp(self->name, "linear2"));
        if (slate->shape.rank == 2)
            slate->init = adds ? added : usual;
        else if (strstr(slate->name, "bias"))
            slate->init = zero;
    }
    for (int64_t i = 0; i < self->child_count; i++)
        set_init(self->children[i], o);
}

static void add_tables(bt_module *self, const bt_transformer_options *o)
{
    if (o->vocabulary)
        bt_module_add(self, bt_nn_embedding(o->vocabulary, o->width, &(bt_embedding_options){o->padding}), "wte");
    if (o->positions == BT_POSITIONS_LEARNED)
        bt_module_add(self, bt_nn_embedding(o->length, o->width), "wpe");
    if (o->types)
        bt_module_add(self, bt_nn_embedding(o->types, o->width), "token_type_embeddings");
    if (o->embedding_norm)
        add_norm(self, o, "embedding_norm");
}

bt_module *bt_nn_transformer(const bt_transformer_options *options)
{
    transformer_options own = {options ? *options : bt_transformer_defaults()};
    const bt_transformer_options *o = &own.options;
    bt_module *module = bt_module_make(transformer_forward, &own, sizeof own);
    check_options(module, "bt_nn_transformer", o, true);
    if (!module || module->status != BT_OK)
        return module;
    add_tables(module, o);
    bt_module *layers = bt_module_new(NULL);
    for (int64_t i = 0; i < o->layers && layers && layers->status == BT_OK; i++)
        bt_module_add(layers, bt_nn_transformer_layer(o), "%lld", (long long)i);
    bt_module_add(module, layers, "layers");
    if (o->final_norm)
        add_norm(module, o, "norm");
    if (o->vocabulary && o->head && !o->tied)
        bt_module_add(module, bt_nn_linear(o->width, o->vocabulary, &(bt_linear_options){.bias = false}), "lm_head");
    set_init(module, o);
    return module;
}
