/* betty/nn.h: modules */
#ifndef BETTY_NN_H
#define BETTY_NN_H

#include <betty/base.h>
#include <betty/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A module declares names, shapes and initial values; its storage is made by the problem that adopts it, or by
 * bt_module_init. Paths read "cell2.conv.weight". Mistakes in making one surface when it is adopted. */

typedef bt_tensor *bt_forward_fn(bt_module *self, bt_tensor *const *in); /* traced; `in` ends with NULL */
typedef bt_tensor *bt_unary_fn(bt_tensor *x);

typedef struct bt_init { /* initial values of a parameter */
    enum { BT_INIT_CONSTANT, BT_INIT_NORMAL, BT_INIT_UNIFORM, BT_INIT_ARRAY } kind;
    double a, b; /* value; mean and deviation; low and high */
    bt_array values;
} bt_init;
bt_init bt_init_constant(double value);
bt_init bt_init_normal(double mean, double deviation);
bt_init bt_init_uniform(double low, double high);
bt_init bt_init_array(bt_array values); /* copied when the parameter is declared */

/* Making a new kind: what it computes (NULL: it only holds), its children, its parameters, its buffers (untrained). */
bt_module *bt_module_new(bt_forward_fn *forward);
void bt_module_add(bt_module *self, bt_module *child, const char *name, ...) BT_FORMAT(3, 4); /* name: format */
/* clang-format off */
void (bt_module_add_param)(bt_module *self, const char *name, bt_init init, const int64_t *sizes);
void (bt_module_add_buffer)(bt_module *self, const char *name, bt_init init, const int64_t *sizes);
/* clang-format on */
#define bt_module_add_param(self, name, ...)  BT_ADD_(bt_module_add_param, self, name, __VA_ARGS__, BT_END)
#define bt_module_add_buffer(self, name, ...) BT_ADD_(bt_module_add_buffer, self, name, __VA_ARGS__, BT_END)
/* bt_module_add_param(self, name, init, sizes...) */

/* Using one. `m` is a module, or a problem, which stands for its module. A missing name poisons; names are listed. */
/* clang-format off */
bt_module *(bt_child)(bt_module *m, const char *path, ...) BT_FORMAT(2, 3); /* path: format */
bt_tensor *(bt_param)(bt_module *m, const char *path, ...) BT_FORMAT(2, 3); /* a parameter or buffer; path: format */
bt_tensor *(bt_params)(bt_module *m);    /* all parameters as one vector: its own, then its children's, as declared */
int64_t (bt_param_count)(bt_module *m);  /* its length; also on the host */
void (bt_param_set)(bt_module *m, const char *path, bt_tensor *value); /* a buffer's value after this run */
/* clang-format on */
#define bt_forward(...)              BT_FORWARD_(__VA_ARGS__, NULL) /* bt_forward(m, inputs...) */
#define bt_child(m, ...)             (bt_child)(BT_MODULE_(m), __VA_ARGS__)
#define bt_param(m, ...)             (bt_param)(BT_MODULE_(m), __VA_ARGS__)
#define bt_params(m)                 (bt_params)(BT_MODULE_(m))
#define bt_param_count(m)            (bt_param_count)(BT_MODULE_(m))
#define bt_param_set(m, path, value) (bt_param_set)(BT_MODULE_(m), (path), (value))

/* Ready ones, initialised by PyTorch's formulas. Their parameters are "weight", "bias"; of bt_nn_parameter "value"; the
 * children of bt_nn_mlp (its linear layers) and bt_nn_sequential "0", "1", ... */
bt_module *bt_nn_fn(bt_unary_fn *function);       /* an op as a module */
bt_module *bt_nn_linear(int64_t in, int64_t out); /* [..., in] to [..., out] */
bt_module *bt_nn_dropout(double probability);     /* of being dropped, 0 <= p < 1 */
bt_module *bt_nn_layer_norm(int64_t features);    /* over the last axis */
bt_module *(bt_nn_parameter)(bt_init init, const int64_t *sizes);
bt_module *(bt_nn_mlp)(bt_unary_fn *activation, const int64_t *widths);
bt_module *(bt_nn_sequential)(bt_module *const *modules);
#define bt_nn_parameter(...)  BT_LIST_(bt_nn_parameter, __VA_ARGS__, BT_END) /* (init, sizes...): forward returns it */
#define bt_nn_mlp(...)        BT_LIST_(bt_nn_mlp, __VA_ARGS__, BT_END) /* (activation, widths...); flattens [n, ...] */
#define bt_nn_sequential(...) (bt_nn_sequential)((bt_module *const[]){__VA_ARGS__, NULL}) /* (modules...): in turn */

/* Without a problem: makes the storage on a device and initialises it; frees the module with its children. */
bt_status bt_module_init(bt_module *module, bt_device device, bt_dtype dtype, uint64_t seed);
void bt_module_free(bt_module *module);

bt_module *bt_operand_module_(bt_module *m);
bt_module *bt_net(bt_problem *self); /* a problem's module */
bt_tensor *bt_forward_module_(bt_module *m, bt_tensor *const *in);
bt_tensor *bt_forward_problem_(bt_problem *p, bt_tensor *const *in);
/* clang-format off */
#define BT_MODULE_(m) _Generic((m), bt_problem *: bt_net, bt_module *: bt_operand_module_)(m)
#define BT_FORWARD_(m, ...)                                                                                            \
    _Generic((m), bt_problem *: bt_forward_problem_, bt_module *: bt_forward_module_)(                                 \
        (m), (bt_tensor *const[]){__VA_ARGS__})
/* clang-format on */
#define BT_ADD_(function, self, name, init, ...) (function)((self), (name), (init), (const int64_t[]){__VA_ARGS__})

#ifdef __cplusplus
}
#endif
#endif
