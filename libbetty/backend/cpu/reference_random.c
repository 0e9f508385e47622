/* backend/cpu/reference_random.c: plain loops for the random ops. */
#include "backend/cpu/reference.h"

#include "ops/random.h"

static bt_status uniform(const bt_call *call)
{
    const bt_random_attr *attr = call->attr;
    const bt_view *out = &call->out[0];
    int64_t count = bt_cpu_count(out), record = bt_cpu_get_int(&call->in[0], 0);
    for (int64_t e = 0; e < count; e++)
        bt_put(out->dtype, out->data, e,
               out->dtype == BT_F32 ? (double)bt_random_f32(attr->key, attr->site, record, (uint64_t)(attr->first + e))
                                    : bt_random_f64(attr->key, attr->site, record, (uint64_t)(attr->first + e)));
    return BT_OK;
}

static bt_status normal(const bt_call *call)
{
    const bt_random_attr *attr = call->attr;
    const bt_view *out = &call->out[0];
    int64_t count = bt_cpu_count(out), record = bt_cpu_get_int(&call->in[0], 0);
    for (int64_t e = 0; e < count; e++)
        bt_put(out->dtype, out->data, e, bt_random_normal(attr->key, attr->site, record, (uint64_t)(attr->first + e)));
    return BT_OK;
}

static bt_status dropout(const bt_call *call)
{
    const bt_random_attr *attr = call->attr;
    const bt_view *x = &call->in[0], *out = &call->out[0];
    int64_t count = bt_cpu_count(out), record = bt_cpu_get_int(&call->in[1], 0);
    double probability = attr->probability, scale = 1 / (1 - probability);
    for (int64_t e = 0; e < count; e++) {
        double u = out->dtype == BT_F32
                       ? (double)bt_random_f32(attr->key, attr->site, record, (uint64_t)(attr->first + e))
                       : bt_random_f64(attr->key, attr->site, record, (uint64_t)(attr->first + e));
        bt_put(out->dtype, out->data, e, u >= probability ? bt_cpu_get(x, e) * scale : 0);
    }
    return BT_OK;
}

static bt_status stochastic_round(const bt_call *call)
{
    const bt_stochastic_attr *attr = call->attr;
    const bt_view *x = &call->in[0], *out = &call->out[0];
    int64_t count = bt_cpu_count(out), updates = bt_cpu_get_int(&call->in[1], 0);
    for (int64_t e = 0; e < count; e++) {
        const uint64_t at = (uint64_t)(attr->first + e);
        uint32_t word = bt_random_word(attr->key, attr->site, updates, at / 4).word[at % 4];
        bt_put(out->dtype, out->data, e, (double)bt_f32_of_bf16(bt_random_bf16((float)bt_cpu_get(x, e), word)));
    }
    return BT_OK;
}

const bt_kernel_impl bt_cpu_reference_random[] = {
    BT_REFERENCE_WIDE(uniform, uniform),
    BT_REFERENCE_WIDE(normal, normal),
    BT_REFERENCE_WIDE(dropout, dropout),
    BT_REFERENCE(stochastic_round, stochastic_round),
    {.op = NULL},
};
