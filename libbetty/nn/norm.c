/* nn/norm.c: modules that normalise: over features, over a batch, over the map of each example. */
#include "nn/module.h"

#include "graph/graph.h"
#include "ops/ops.h"

static const double default_eps = 1e-5; /* as in PyTorch */

static void add_affine(bt_module *module, int64_t features)
{
    if (module) {
        bt_module_add_param(module, "weight", bt_init_constant(1), features);
        bt_module_add_param(module, "bias", bt_init_constant(0), features);
    }
}

/* x, if its last axis has `features` features and it has at least `rank` axes; else poison. */
static bt_tensor *checked(const char *what, bt_tensor *const *in, int64_t features, int rank)
{
    bt_tensor *x = bt_module_input(what, in);
    if (bt_poisoned(x))
        return x;
    char shape[256];
    if (x->rank < rank)
        return bt_trace_poison(BT_ERROR_SHAPE, "%s expects at least %d axes, found %s", what, rank,
                               bt_shape_text(shape, x->rank, x->dims));
    return x->dims[x->rank - 1] != features ? bt_module_wrong_features(what, features, x) : x;
}

/* ---- layer_norm ---- */

typedef struct layer_norm_options {
    int64_t features;
    bt_layer_norm_options options;
} layer_norm_options;

bt_layer_norm_options bt_layer_norm_defaults(void) { return (bt_layer_norm_options){.eps = default_eps}; }

static bt_tensor *layer_norm_forward(bt_module *self, bt_tensor *const *in)
{
    const layer_norm_options *own = self->data;
    bt_tensor *x = checked("layer_norm", in, own->features, 1);
    return bt_poisoned(x) ? x : bt_layer_norm(x, bt_param(self, "weight"), bt_param(self, "bias"), own->options.eps);
}

bt_module *(bt_nn_layer_norm)(int64_t features, const bt_layer_norm_options *options)
{
    layer_norm_options own = {features, options ? *options : bt_layer_norm_defaults()};
    bt_module *module = bt_module_make(layer_norm_forward, &own, sizeof own);
    if (features < 1 || !(own.options.eps >= 0))
        bt_module_mistake(module, BT_ERROR_ARGUMENT,
                          "bt_nn_layer_norm: %lld features, eps %g; expected at least 1, and at least 0",
                          (long long)features, own.options.eps);
    add_affine(module, features);
    return module;
}

/* ---- batch_norm ---- */

typedef struct batch_norm_options {
    int64_t channels;
    bt_batch_norm_options options;
} batch_norm_options;

bt_batch_norm_options bt_batch_norm_defaults(void)
{
    return (bt_batch_norm_options){
        .eps = default_eps, .momentum = 0.1, .statistics = BT_STATISTICS_RUNNING, .affine = true};
}

/* The buffer moves towards a statistic of this batch. A module that is called twice in a step moves it twice. */
static void move(bt_module *self, const char *buffer, bt_tensor *statistic, double momentum)
{
    bt_tensor *before = bt_param_next(self, buffer);
    bt_param_set(self, buffer, bt_add(bt_mul(1 - momentum, before), bt_mul(momentum, bt_stop(statistic))));
}

static int64_t groups_of(bt_module *self)
{
    const int64_t own = ((const batch_norm_options *)self->data)->options.groups,
                  all = bt_module_root(self)->norm_groups;
    return own ? own : all ? all : 1;
}

/* NULL; or poison, if the batch does not divide into the groups, or a group has a single value per channel. */
static bt_tensor *unfit(const bt_tensor *x, int64_t channels, int64_t groups)
{
    if (x->dims[0] % groups)
        return bt_trace_poison(BT_ERROR_SHAPE,
                               "batch_norm: a batch of %lld rows cannot be divided into %lld groups "
                               "(batch_norm_groups); use batch sizes that can, also for the last batch of an epoch "
                               "(drop_last = true leaves a short one out)",
                               (long long)x->dims[0], (long long)groups);
    if (bt_tensor_count(x) != channels * groups)
        return NULL;
    return bt_trace_poison(BT_ERROR_SHAPE,
                           "batch_norm: a single value per channel%s has no variance; use more examples, also in the "
                           "last batch of an epoch (drop_last = true leaves a short one out), or BT_STATISTICS_FROZEN",
                           groups > 1 ? " in each group of rows" : "");
}

static bt_tensor *batch_norm_forward(bt_module *self, bt_tensor *const *in)
{
    const batch_norm_options *own = self->data;
    const bt_batch_norm_options *o = &own->options;
    bt_tensor *x = checked("batch_norm", in, own->channels, 2), *mean, *variance;
    if (bt_poisoned(x))
        return x;
    bt_tensor *scale = o->affine ? bt_param(self, "weight") : NULL, *shift = o->affine ? bt_param(self, "bias") : NULL;
    bt_mode mode = bt_trace_now()->mode;
    if (o->statistics == BT_STATISTICS_FROZEN || (o->statistics == BT_STATISTICS_RUNNING && mode == BT_VALID))
        return bt_batch_norm_fixed(x, bt_param(self, "running_mean"), bt_param(self, "running_var"), scale, shift,
                                   o->eps);
    const int64_t groups = groups_of(self), rows = bt_tensor_count(x) / own->channels / groups;
    bt_tensor *poison = unfit(x, own->channels, groups);
    if (poison)
        return poison;
    bt_tensor *y = bt_batch_norm(x, groups, scale, shift, o->eps, &mean, &variance);
    if (o->statistics == BT_STATISTICS_RUNNING && !bt_poisoned(y)) {
        if (groups > 1) { /* both in one, so that ranks sum them at once */
            bt_tensor *means = bt_mean(bt_concat(1, mean, variance), 0);
            mean = bt_slice(means, 0, 0, own->channels);
            variance = bt_slice(means, 0, own->channels, BT_REST);
        }
        move(self, "running_mean", mean, o->momentum);
        move(self, "running_var", bt_mul((double)rows / (double)(rows - 1), variance), o->momentum);
    }
    return y;
}

bt_module *(bt_nn_batch_norm)(int64_t channels, const bt_batch_norm_options *options)
{
    batch_norm_options own = {channels, options ? *options : bt_batch_norm_defaults()};
    const bt_batch_norm_options *o = &own.options;
    bt_module *module = bt_module_make(batch_norm_forward, &own, sizeof own);
    if (channels < 1 || !(o->eps >= 0) || !(o->momentum >= 0 && o->momentum <= 1) || o->groups < 0)
        bt_module_mistake(module, BT_ERROR_ARGUMENT,
                          "bt_nn_batch_norm: %lld channels, eps %g, momentum %g, groups %lld; expected at least 1 "
                          "channel, eps >= 0, a momentum from 0 to 1 and groups >= 0",
                          (long long)channels, o->eps, o->momentum, (long long)o->groups);
    if (o->affine)
        add_affine(module, channels);
    if (module && o->statistics != BT_STATISTICS_BATCH) {
        bt_module_add_buffer(module, "running_mean", bt_init_constant(0), channels);
        bt_module_add_buffer(module, "running_var", bt_init_constant(1), channels);
    }
    return module;
}

bool bt_module_norms_batches(const bt_module *module)
{
    if (module->forward == batch_norm_forward) {
        const bt_batch_norm_options *o = &((const batch_norm_options *)module->data)->options;
        return !o->groups && o->statistics != BT_STATISTICS_FROZEN;
    }
    for (int64_t i = 0; i < module->child_count; i++)
        if (bt_module_norms_batches(module->children[i]))
            return true;
    return false;
}

/* ---- group_norm, instance_norm ---- */

typedef struct group_norm_options {
    int64_t groups, channels;
} group_norm_options;

static bt_tensor *group_norm_forward(bt_module *self, bt_tensor *const *in)
{
    const group_norm_options *own = self->data;
    bt_tensor *x = checked("group_norm", in, own->channels, 3);
    if (bt_poisoned(x))
        return x;
    int64_t sets = x->dims[0] * own->groups; /* a batch may be empty */
    if (sets && bt_tensor_count(x) == sets)  /* normalised, it would always be 0 */
        return bt_trace_poison(BT_ERROR_SHAPE, "group_norm: a single value per group has no variance; use larger "
                                               "groups, larger maps, or another norm");
    return bt_group_norm(x, own->groups, bt_param(self, "weight"), bt_param(self, "bias"), default_eps);
}

bt_module *bt_nn_group_norm(int64_t groups, int64_t channels)
{
    bt_module *module =
        bt_module_make(group_norm_forward, &(group_norm_options){groups, channels}, sizeof(group_norm_options));
    if (groups < 1 || channels < 1 || channels % groups)
        bt_module_mistake(
            module, BT_ERROR_ARGUMENT,
            "bt_nn_group_norm: %lld channels in %lld groups; both must be at least 1, and the groups equal",
            (long long)channels, (long long)groups);
    add_affine(module, channels);
    return module;
}

bt_module *bt_nn_instance_norm(int64_t channels) { return bt_nn_group_norm(channels, channels); }
