/* nn/lora.c: a trained product of two narrow matrices beside a frozen linear layer (Hu et al. 2022). */
#include "nn/module.h"

#include "graph/graph.h"
#include "ops/ops.h"

typedef struct lora_options {
    double scale;
} lora_options;

static bt_tensor *lora_forward(bt_module *self, bt_tensor *const *in)
{
    const lora_options *own = self->data;
    bt_tensor *x = bt_module_input("lora", in), *base = bt_forward(bt_child(self, "base_layer"), x);
    bt_tensor *change = bt_forward(bt_child(self, "lora_B"), bt_forward(bt_child(self, "lora_A"), x));
    return bt_add(base, bt_mul(own->scale, change));
}

/* Turns the parameters into buffers: no optimiser moves them or keeps state for them. */
static void freeze(bt_module *module)
{
    for (int64_t i = 0; i < module->slate_count; i++)
        module->slates[i]->buffer = true;
    for (int64_t i = 0; i < module->child_count; i++)
        freeze(module->children[i]);
}

bt_module *bt_nn_lora(bt_module *linear, int64_t rank, double alpha)
{
    bt_module *module =
        bt_module_make(lora_forward, &(lora_options){rank ? alpha / (double)rank : 0}, sizeof(lora_options));
    const bt_slate *weight = linear ? bt_module_find(linear, "weight") : NULL;
    if (rank < 1 || !(alpha >= -1e300 && alpha <= 1e300))
        bt_module_mistake(module, BT_ERROR_ARGUMENT,
                          "bt_nn_lora: rank %lld, alpha %g; the rank must be at least 1, and alpha finite",
                          (long long)rank, alpha);
    else if (!weight || weight->shape.rank != 2 || bt_module_root(linear)->adopted)
        bt_module_mistake(module, BT_ERROR_ARGUMENT,
                          "bt_nn_lora: expected a bt_nn_linear that has no storage yet; it has %s",
                          !weight                   ? "no \"weight\""
                          : weight->shape.rank != 2 ? "another weight"
                                                    : "its storage");
    bool fits = module && module->status == BT_OK;
    int64_t out = fits ? weight->shape.dims[0] : 0, in = fits ? weight->shape.dims[1] : 0;
    if (fits)
        freeze(linear);
    bt_module_add(module, linear, "base_layer"); /* even on a mistake, so that it is freed */
    if (!fits)
        return module;
    bt_module *down = bt_nn_linear(in, rank, &(bt_linear_options){.bias = false});
    bt_module *up = bt_nn_linear(rank, out, &(bt_linear_options){.bias = false});
    bt_module_set_init(up, "weight", bt_init_constant(0));
    bt_module_add(module, down, "lora_A");
    bt_module_add(module, up, "lora_B");
    return module;
}
