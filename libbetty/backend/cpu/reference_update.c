/* backend/cpu/reference_update.c: plain loops for the optimisers' updates. The formulas are PyTorch's. */
#include "backend/cpu/reference.h"
#include "ops/codes.h"

#include <float.h>
#include <math.h>

static double scalar(const bt_call *call, int input) { return bt_cpu_get(&call->in[input], 0); }

static void keep(const bt_call *call, int output, int input)
{
    int64_t count = bt_cpu_count(&call->out[output]);
    for (int64_t e = 0; e < count; e++)
        bt_cpu_put(&call->out[output], e, bt_cpu_get(&call->in[input], e));
}

/* Stores state that is kept between steps: 0 instead of a subnormal number (backend/update.h). */
static void put_settled(const bt_view *to, int64_t e, double x)
{
    bt_cpu_put(to, e, fabs(x) < (to->dtype == BT_F64 ? DBL_MIN : (double)FLT_MIN) ? 0 : x);
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
        put_settled(&call->out[1], e, m);
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
        put_settled(&call->out[1], e, m);
        put_settled(&call->out[2], e, v);
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

/* One block of a state: input i and its scales, the next input; for encode_block output o and the next. */
static void decode_block(const bt_call *call, int i, const bt_code_book *book, int64_t from, int64_t to, double *x)
{
    double scale = bt_cpu_get(&call->in[i + 1], from / BT_CODES_BLOCK);
    for (int64_t e = from; e < to; e++)
        x[e - from] = book->value[(uint8_t)bt_cpu_get(&call->in[i], e)] * scale;
}

static void encode_block(const bt_call *call, int o, const bt_code_book *book, int64_t from, int64_t to,
                         const double *x)
{
    double most = 0;
    for (int64_t e = from; e < to; e++)
        most = fmax(most, fabs(x[e - from]));
    bt_cpu_put(&call->out[o + 1], from / BT_CODES_BLOCK, most);
    double scale = bt_cpu_get(&call->out[o + 1], from / BT_CODES_BLOCK);
    for (int64_t e = from; e < to; e++)
        bt_cpu_put_int(&call->out[o], e, bt_code_of(book, scale > 0 ? x[e - from] / scale : 0));
}

static bt_status keep_all(const bt_call *call)
{
    for (int o = 0; o < call->outputs; o++)
        keep(call, o, o ? o + 1 : 0);
    return BT_OK;
}

static bt_status adam8bit_update(const bt_call *call)
{
    bool decoupled = ((const bt_adam_attr *)call->attr)->decoupled != 0;
    int64_t count = bt_cpu_count(&call->in[0]);
    double lr = scalar(call, 7), beta1 = scalar(call, 8), beta2 = scalar(call, 9), eps = scalar(call, 10);
    double decay = scalar(call, 11), left1 = 1 - pow(beta1, scalar(call, 12)), left2 = 1 - pow(beta2, scalar(call, 12));
    double m[BT_CODES_BLOCK], v[BT_CODES_BLOCK];
    bt_code_book with_signs, positive;
    if (scalar(call, 6) == 0)
        return keep_all(call);
    bt_code_book_fill(&with_signs, false);
    bt_code_book_fill(&positive, true);
    for (int64_t from = 0, to; from < count; from = to) {
        to = from + BT_CODES_BLOCK < count ? from + BT_CODES_BLOCK : count;
        decode_block(call, 2, &with_signs, from, to, m);
        decode_block(call, 4, &positive, from, to, v);
        for (int64_t e = from; e < to; e++) {
            double p = bt_cpu_get(&call->in[0], e), g = bt_cpu_get(&call->in[1], e) + (decoupled ? 0 : decay * p);
            m[e - from] = beta1 * m[e - from] + (1 - beta1) * g;
            v[e - from] = beta2 * v[e - from] + (1 - beta2) * g * g;
            double step = m[e - from] / left1 / (sqrt(v[e - from] / left2) + eps);
            bt_cpu_put(&call->out[0], e, (decoupled ? 1 - lr * decay : 1) * p - lr * step);
        }
        encode_block(call, 1, &with_signs, from, to, m);
        encode_block(call, 3, &positive, from, to, v);
    }
    return BT_OK;
}

static bt_status lion8bit_update(const bt_call *call)
{
    int64_t count = bt_cpu_count(&call->in[0]);
    double lr = scalar(call, 5), beta1 = scalar(call, 6), beta2 = scalar(call, 7), kept = 1 - lr * scalar(call, 8);
    double m[BT_CODES_BLOCK];
    bt_code_book book;
    if (scalar(call, 4) == 0)
        return keep_all(call);
    bt_code_book_fill(&book, false);
    for (int64_t from = 0, to; from < count; from = to) {
        to = from + BT_CODES_BLOCK < count ? from + BT_CODES_BLOCK : count;
        decode_block(call, 2, &book, from, to, m);
        for (int64_t e = from; e < to; e++) {
            double g = bt_cpu_get(&call->in[1], e), way = beta1 * m[e - from] + (1 - beta1) * g;
            bt_cpu_put(&call->out[0], e, kept * bt_cpu_get(&call->in[0], e) - lr * ((way > 0) - (way < 0)));
            m[e - from] = beta2 * m[e - from] + (1 - beta2) * g;
        }
        encode_block(call, 1, &book, from, to, m);
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
    BT_REFERENCE_WIDE(adam8bit_update, adam8bit_update),
    BT_REFERENCE_WIDE(lion8bit_update, lion8bit_update),
    {.op = NULL},
};
