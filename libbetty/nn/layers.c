/* nn/layers.c: the basic ready-made modules. */
#include "nn/module.h"

#include "graph/graph.h"
#include "ops/ops.h"
#include <math.h>

/* ---- fn ---- */

typedef struct fn_options {
    bt_unary_fn *function;
} fn_options;

static bt_tensor *fn_forward(bt_module *self, bt_tensor *const *in)
{
    const fn_options *options = self->data;
    if (!options->function)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_nn_fn: the function is NULL");
    return options->function(bt_module_input("bt_nn_fn", in));
}

bt_module *bt_nn_fn(bt_unary_fn *function)
{
    bt_module *module = bt_module_make(fn_forward, &(fn_options){function}, sizeof(fn_options));
    if (!function)
        bt_module_mistake(module, BT_ERROR_ARGUMENT, "bt_nn_fn: the function is NULL");
    return module;
}

/* ---- linear ---- */

typedef struct linear_options {
    int64_t in, out;
    bt_linear_options options;
} linear_options;

bt_linear_options bt_linear_defaults(void) { return (bt_linear_options){.bias = true}; }

/* Maps x [..., in] to [..., out], within the module's path; with `relu`, applies it in the same op. */
static bt_tensor *linear_apply(bt_module *self, bt_tensor *x, bool relu)
{
    const linear_options *options = self->data;
    int64_t sizes[BT_MAX_RANK + 1];
    if (bt_poisoned(x))
        return x;
    if (x->rank < 1 || x->dims[x->rank - 1] != options->in)
        return bt_module_wrong_features("linear", options->in, x);
    for (int i = 0; i < x->rank; i++)
        sizes[i] = x->dims[i];
    sizes[x->rank - 1] = options->out;
    sizes[x->rank] = BT_END;
    bt_tensor *rows = x->rank == 2 ? x : bt_reshape(x, -1, options->in);
    bt_tensor *bias = options->options.bias ? bt_param(self, "bias") : NULL;
    bt_tensor *y = bt_linear(rows, bt_param(self, "weight"), bias, relu);
    return x->rank == 2 ? y : (bt_reshape)(y, sizes);
}

bt_tensor *bt_module_linear(bt_module *linear, bt_tensor *x, bool relu)
{
    bt_tag before = bt_module_enter(linear);
    bt_tensor *y = linear_apply(linear, x, relu);
    bt_module_leave(before);
    return y;
}

static bt_tensor *linear_forward(bt_module *self, bt_tensor *const *in)
{
    return linear_apply(self, bt_module_input("linear", in), false);
}

/* PyTorch's kaiming_uniform with a = sqrt(5): weight and bias are both bounded by 1/sqrt(in). */
bt_module *(bt_nn_linear)(int64_t in, int64_t out, const bt_linear_options *options)
{
    linear_options own = {in, out, options ? *options : bt_linear_defaults()};
    bt_module *module = bt_module_make(linear_forward, &own, sizeof own);
    if (in < 1 || out < 1)
        bt_module_mistake(module, BT_ERROR_ARGUMENT,
                          "bt_nn_linear: %lld inputs and %lld outputs; both must be at least 1", (long long)in,
                          (long long)out);
    double bound = in < 1 ? 0 : 1 / sqrt((double)in);
    if (module) {
        bt_module_add_param(module, "weight", bt_init_uniform(-bound, bound), out, in);
        if (own.options.bias)
            bt_module_add_param(module, "bias", bt_init_uniform(-bound, bound), out);
    }
    return module;
}

/* ---- mlp ---- */

typedef struct mlp_options {
    bt_unary_fn *activation;
    int64_t features;
} mlp_options;

static bt_tensor *flatten(bt_tensor *x, int64_t features)
{
    int64_t found = 1;
    bool fits = x->rank >= 1;
    for (int i = 1; fits && i < x->rank; i++)
        fits = !__builtin_mul_overflow(found, x->dims[i], &found);
    if (!fits || found != features)
        return bt_module_wrong_features("mlp", features, x);
    return x->rank == 2 ? x : bt_reshape(x, x->dims[0], features);
}

static bt_tensor *mlp_forward(bt_module *self, bt_tensor *const *in)
{
    const mlp_options *options = self->data;
    bt_tensor *x = bt_module_input("mlp", in);
    if (!options->activation)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_nn_mlp: the activation is NULL");
    if (!bt_poisoned(x))
        x = flatten(x, options->features);
    for (int64_t i = 0; i < self->child_count; i++) {
        bool last = i == self->child_count - 1, fused = options->activation == bt_relu;
        x = bt_module_linear(self->children[i], x, !last && fused);
        if (!last && !fused)
            x = options->activation(x);
    }
    return x;
}

bt_module *(bt_nn_mlp)(bt_unary_fn *activation, const int64_t *widths)
{
    int64_t features = widths && widths[0] != BT_END ? widths[0] : 0;
    bt_module *module = bt_module_make(mlp_forward, &(mlp_options){activation, features}, sizeof(mlp_options));
    if (!activation)
        bt_module_mistake(module, BT_ERROR_ARGUMENT, "bt_nn_mlp: the activation is NULL");
    if (!widths || widths[0] == BT_END || widths[1] == BT_END)
        bt_module_mistake(module, BT_ERROR_ARGUMENT,
                          "bt_nn_mlp: expected at least two widths: of the input and the output");
    else if (module)
        for (int i = 0; widths[i + 1] != BT_END; i++)
            bt_module_add(module, bt_nn_linear(widths[i], widths[i + 1]), "%d", i);
    return module;
}

/* ---- sequential ---- */

static bt_tensor *sequential_forward(bt_module *self, bt_tensor *const *in)
{
    bt_tensor *x = self->child_count ? bt_forward_module_(self->children[0], in) : bt_module_input("sequential", in);
    for (int64_t i = 1; i < self->child_count; i++)
        x = bt_forward(self->children[i], x);
    return x;
}

bt_module *(bt_nn_sequential)(bt_module *const *modules)
{
    bt_module *module = bt_module_new(sequential_forward);
    for (int i = 0; modules && modules[i]; i++)
        bt_module_add(module, modules[i], "%d", i); /* frees it if `module` is NULL */
    return module;
}

/* ---- dropout ---- */

typedef struct dropout_options {
    double probability;
} dropout_options;

static bt_tensor *dropout_forward(bt_module *self, bt_tensor *const *in)
{
    const dropout_options *options = self->data;
    bt_tensor *x = bt_module_input("dropout", in);
    return options->probability > 0 ? bt_dropout(x, options->probability) : x;
}

bt_module *bt_nn_dropout(double probability)
{
    bt_module *module = bt_module_make(dropout_forward, &(dropout_options){probability}, sizeof(dropout_options));
    if (!(probability >= 0 && probability < 1))
        bt_module_mistake(module, BT_ERROR_ARGUMENT, "bt_nn_dropout: the probability is %g; expected 0 <= p < 1",
                          probability);
    return module;
}

/* ---- parameter ---- */

static bt_tensor *parameter_forward(bt_module *self, bt_tensor *const *in)
{
    (void)in;
    return bt_param(self, "value");
}

bt_module *(bt_nn_parameter)(bt_init init, const int64_t *sizes)
{
    bt_module *module = bt_module_new(parameter_forward);
    if (module)
        (bt_module_add_param)(module, "value", init, sizes);
    return module;
}
