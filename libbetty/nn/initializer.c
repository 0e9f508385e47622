/* nn/initializer.c: initial values of parameters and buffers. */
#include "nn/module.h"

#include <math.h>

bt_init bt_init_constant(double value) { return (bt_init){.kind = BT_INIT_CONSTANT, .a = value}; }

bt_init bt_init_normal(double mean, double deviation)
{
    return (bt_init){.kind = BT_INIT_NORMAL, .a = mean, .b = deviation};
}

bt_init bt_init_uniform(double low, double high) { return (bt_init){.kind = BT_INIT_UNIFORM, .a = low, .b = high}; }

static double fan_deviation(int64_t fan) { return fan < 1 ? NAN : sqrt(2 / (double)fan); } /* NAN: rejected later */

static bt_init even(double deviation) { return bt_init_uniform(-sqrt(3) * deviation, sqrt(3) * deviation); }

bt_init bt_init_kaiming_normal(int64_t fan) { return bt_init_normal(0, fan_deviation(fan)); }

bt_init bt_init_kaiming_uniform(int64_t fan) { return even(fan_deviation(fan)); }

bt_init bt_init_xavier_normal(int64_t fan_in, int64_t fan_out)
{
    return bt_init_normal(0, fan_in < 1 || fan_out < 1 ? NAN : sqrt(2 / ((double)fan_in + (double)fan_out)));
}

bt_init bt_init_xavier_uniform(int64_t fan_in, int64_t fan_out)
{
    return even(bt_init_xavier_normal(fan_in, fan_out).b);
}

bt_init bt_init_array(bt_array values) { return (bt_init){.kind = BT_INIT_ARRAY, .values = values}; }

static bt_status check_values(bt_array values, bt_array shape)
{
    if (!values.data)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_init_array: the values are NULL");
    if (!bt_shape_same(values, shape)) {
        char found[256], expected[256];
        return bt_fail(BT_ERROR_ARGUMENT, "bt_init_array: the values have the shape %s, expected %s",
                       bt_shape_text(found, values.rank, values.dims), bt_shape_text(expected, shape.rank, shape.dims));
    }
    return BT_OK;
}

bt_status bt_init_check(const bt_init *init, bt_array shape)
{
    switch (init->kind) {
    case BT_INIT_ARRAY:
        return check_values(init->values, shape);
    case BT_INIT_CONSTANT:
        if (isfinite(init->a))
            return BT_OK;
        return bt_fail(BT_ERROR_ARGUMENT, "bt_init_constant: the value is %g", init->a);
    case BT_INIT_NORMAL:
        if (isfinite(init->a) && isfinite(init->b) && init->b >= 0)
            return BT_OK;
        return bt_fail(BT_ERROR_ARGUMENT,
                       "bt_init_normal: mean %g and deviation %g; both must be finite, the deviation >= 0", init->a,
                       init->b);
    case BT_INIT_UNIFORM:
        if (isfinite(init->a) && isfinite(init->b) && init->a <= init->b)
            return BT_OK;
        return bt_fail(BT_ERROR_ARGUMENT,
                       "bt_init_uniform: from %g to %g; both must be finite, the first below the second", init->a,
                       init->b);
    }
    return bt_fail(BT_ERROR_ARGUMENT, "unknown kind of initial values (%d)", (int)init->kind);
}

/* The Box-Muller transform of two uniform numbers; 1 - u is never 0. */
static double normal(uint64_t seed, uint64_t stream, uint64_t element)
{
    double u = bt_host_uniform(seed, stream, 2 * element), v = bt_host_uniform(seed, stream, 2 * element + 1);
    return sqrt(-2 * log(1 - u)) * cos(2 * 3.14159265358979323846 * v);
}

bt_status bt_init_fill(const bt_init *init, uint64_t seed, uint64_t stream, bt_array to)
{
    BT_TRY(bt_init_check(init, to));
    if (init->kind == BT_INIT_ARRAY)
        return bt_array_convert(to, init->values);
    int64_t count = bt_array_count(to);
    for (int64_t i = 0; i < count; i++) {
        double value = init->a;
        if (init->kind == BT_INIT_UNIFORM)
            value += (init->b - init->a) * bt_host_uniform(seed, stream, (uint64_t)i);
        else if (init->kind == BT_INIT_NORMAL)
            value += init->b * normal(seed, stream, (uint64_t)i);
        bt_put(to.dtype, to.data, i, value);
    }
    return BT_OK;
}
