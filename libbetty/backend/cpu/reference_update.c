/* backend/cpu/reference_update.c: plain loops of the optimisers' updates. The formulas are PyTorch's. */
#include "backend/cpu/reference.h"
#include "ops/codes.h"

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

/* ---- numbers in 8 bits ---- */

static bt_status scales(const bt_call *call)
{
    const bt_view *x = &call->in[0];
    int64_t count = bt_cpu_count(x), blocks = bt_cpu_count(&call->out[0]);
    for (int64_t b = 0; b < blocks; b++) {
        double most = 0;
        for (int64_t e = b * BT_CODES_BLOCK; e < count && e < (b + 1) * BT_CODES_BLOCK; e++)
            most = fmax(most, fabs(bt_cpu_get(x, e)));
        bt_cpu_put(&call->out[0], b, most);
    }
    return BT_OK;
}

static bt_status encode(const bt_call *call)
{
    const bt_view *x = &call->in[0];
    int64_t count = bt_cpu_count(x);
    bt_code_book book;
    bt_code_book_fill(&book, ((const bt_codes_attr *)call->attr)->positive != 0);
    for (int64_t e = 0; e < count; e++) {
        double scale = bt_cpu_get(&call->in[1], e / BT_CODES_BLOCK);
        bt_cpu_put_int(&call->out[0], e, bt_code_of(&book, scale > 0 ? bt_cpu_get(x, e) / scale : 0));
    }
    return BT_OK;
}

static bt_status decode(const bt_call *call)
{
    int64_t count = bt_cpu_count(&call->out[0]);
    bt_code_book book;
    bt_code_book_fill(&book, ((const bt_codes_attr *)call->attr)->positive != 0);
    for (int64_t e = 0; e < count; e++) {
        double scale = bt_cpu_get(&call->in[1], e / BT_CODES_BLOCK);
        bt_cpu_put(&call->out[0], e, book.value[(uint8_t)bt_cpu_get(&call->in[0], e)] * scale);
    }
    return BT_OK;
}

const bt_kernel_impl bt_cpu_reference_update[] = {
    BT_REFERENCE(sgd_plain_update, sgd_plain_update),
    BT_REFERENCE(sgd_update, sgd_update),
    BT_REFERENCE(adam_update, adam_update),
    BT_REFERENCE(scales, scales),
    BT_REFERENCE(encode, encode),
    BT_REFERENCE(decode, decode),
    {.op = NULL},
};
