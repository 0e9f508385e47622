/* backend/cpu/reference_update.c: plain loops of the optimisers' updates. The formulas are PyTorch's. */
#include "backend/cpu/reference.h"

#include <math.h>

static double scalar(const bt_call *call, int input) { return bt_cpu_get(&call->in[input], 0); }

static void keep(const bt_call *call, int output, int input)
{
    int64_t count = bt_cpu_count(&call->out[output]);
    for (int64_t e = 0; e < count; e++)
        bt_cpu_put(&call->out[output], e, bt_cpu_get(&call->in[input], e));
}

static bt_status sgd_plain_update(const bt_call *call)
{
    const bt_view *p = &call->in[0], *g = &call->in[1];
    int64_t count = bt_cpu_count(p);
    double lr = scalar(call, 3), decay = scalar(call, 4);
    if (scalar(call, 2) == 0) {
        keep(call, 0, 0);
        return BT_OK;
    }
    for (int64_t e = 0; e < count; e++) {
        double x = bt_cpu_get(p, e);
        bt_cpu_put(&call->out[0], e, x - lr * (bt_cpu_get(g, e) + decay * x));
    }
    return BT_OK;
}

static bt_status sgd_update(const bt_call *call)
{
    bool nesterov = ((const bt_sgd_attr *)call->attr)->nesterov != 0;
    int64_t count = bt_cpu_count(&call->in[0]);
    double lr = scalar(call, 4), momentum = scalar(call, 5), dampening = scalar(call, 6), decay = scalar(call, 7);
    bool first = scalar(call, 8) != 0;
    if (scalar(call, 3) == 0) {
        keep(call, 0, 0);
        keep(call, 1, 2);
        return BT_OK;
    }
    for (int64_t e = 0; e < count; e++) {
        double p = bt_cpu_get(&call->in[0], e), g = bt_cpu_get(&call->in[1], e) + decay * p;
        double m = first ? g : momentum * bt_cpu_get(&call->in[2], e) + (1 - dampening) * g;
        bt_cpu_put(&call->out[0], e, p - lr * (nesterov ? g + momentum * m : m));
        bt_cpu_put(&call->out[1], e, m);
    }
    return BT_OK;
}

static bt_status adam_update(const bt_call *call)
{
    bool decoupled = ((const bt_adam_attr *)call->attr)->decoupled != 0;
    int64_t count = bt_cpu_count(&call->in[0]);
    double lr = scalar(call, 5), beta1 = scalar(call, 6), beta2 = scalar(call, 7), eps = scalar(call, 8);
    double decay = scalar(call, 9), t = scalar(call, 10);
    double correction1 = 1 - pow(beta1, t), correction2 = 1 - pow(beta2, t);
    if (scalar(call, 4) == 0) {
        keep(call, 0, 0);
        keep(call, 1, 2);
        keep(call, 2, 3);
        return BT_OK;
    }
    for (int64_t e = 0; e < count; e++) {
        double p = bt_cpu_get(&call->in[0], e), g = bt_cpu_get(&call->in[1], e);
        if (decoupled)
            p -= lr * decay * p;
        else
            g += decay * p;
        double m = beta1 * bt_cpu_get(&call->in[2], e) + (1 - beta1) * g;
        double v = beta2 * bt_cpu_get(&call->in[3], e) + (1 - beta2) * g * g;
        bt_cpu_put(&call->out[0], e, p - lr * (m / correction1) / (sqrt(v / correction2) + eps));
        bt_cpu_put(&call->out[1], e, m);
        bt_cpu_put(&call->out[2], e, v);
    }
    return BT_OK;
}

const bt_kernel_impl bt_cpu_reference_update[] = {
    BT_REFERENCE(sgd_plain_update, sgd_plain_update),
    BT_REFERENCE(sgd_update, sgd_update),
    BT_REFERENCE(adam_update, adam_update),
    {.op = NULL},
};
