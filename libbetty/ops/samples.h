/* ops/samples.h: test cases that an op provides. Tests collect them from the op table; see tests/ops. */
#ifndef BT_SAMPLES_H
#define BT_SAMPLES_H

#include "graph/graph.h"

/* One case: attributes and inputs. Values are drawn uniformly from low..high unless `values` lists them (value_count of
 * them, repeated). Integers are drawn from low..high - 1. */
typedef struct bt_sample_input {
    bt_dtype dtype; /* BT_F64: run in f64 and f32 */
    int rank;
    int64_t dims[BT_MAX_RANK];
    double low, high;
    const double *values;
    int value_count;
} bt_sample_input;

typedef struct bt_sample {
    const char *name; /* "ties", "one row" */
    const void *attr;
    size_t attr_size;
    int inputs;
    bt_sample_input in[16];
    bool kink; /* not differentiable at these values: tests compare composite with body and vjp with jvp, but not with
                  finite differences */
} bt_sample;

struct bt_sampler {
    void (*add)(bt_sampler *sampler, const bt_sample *sample); /* copies what it needs */
    void *user;
};

#endif
