/* ops/sample.c: samples that many ops share. */
#include "ops/define.h"

static void add_equal(bt_sampler *sampler, const char *name, int inputs, bt_sample_input input, bool kink)
{
    bt_sample sample = {.name = name, .inputs = inputs, .kink = kink};
    for (int i = 0; i < inputs; i++)
        sample.in[i] = input;
    sampler->add(sampler, &sample);
}

void bt_samples_equal(bt_sampler *sampler, int inputs, double low, double high)
{
    add_equal(sampler, "matrix", inputs, (bt_sample_input)BT_DRAWN(low, high, BT_F64, 2, 3, 5), false);
    add_equal(sampler, "three axes", inputs, (bt_sample_input)BT_DRAWN(low, high, BT_F64, 3, 2, 1, 19), false);
    add_equal(sampler, "one element", inputs, (bt_sample_input)BT_DRAWN(low, high, BT_F64, 1, 1), false);
    add_equal(sampler, "scalar", inputs, (bt_sample_input)BT_DRAWN(low, high, BT_F64, 0, 0), false);
    add_equal(sampler, "nothing", inputs, (bt_sample_input)BT_DRAWN(low, high, BT_F64, 2, 0, 3), false);
}

void bt_sample_values(bt_sampler *sampler, const char *name, int inputs, const double *values, int count, bool kink)
{
    bt_sample_input input = {.dtype = BT_F64, .rank = 1, .dims = {count}, .values = values, .value_count = count};
    add_equal(sampler, name, inputs, input, kink);
}
