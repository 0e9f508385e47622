/* tests/ops/interpret_images.c: norms over channels, pooling and resampling, by plain loops. */
#include "interpret_images.h"

#include "ops/ops.h"
#include <math.h>

/* x [lead..., rows..., c] as [groups, rows, channels]. */
static int64_t groups, rows, channels;

static void measure(const bt_node *node)
{
    const bt_tensor *x = node->in[0];
    int64_t lead = ((const bt_channel_attr *)node->attr)->lead;
    groups = rows = 1;
    channels = x->dims[x->rank - 1];
    for (int i = 0; i < x->rank - 1; i++)
        *(i < lead ? &groups : &rows) *= x->dims[i];
}

/* The sum of (x - m) (z - k) over the rows of one channel; NULL: ones for x, z; m, k: subtracted. */
static double sum_of(const double *x, double m, const double *z, double k, int64_t group, int64_t channel)
{
    double sum = 0;
    for (int64_t row = 0; row < rows; row++) {
        int64_t e = (group * rows + row) * channels + channel;
        sum += ((x ? x[e] : 1) - m) * ((z ? z[e] : 1) - k);
    }
    return sum;
}

static void moments(const bt_node *node, const double *const *in, double *const *out)
{
    (void)node;
    for (int64_t g = 0; g < groups; g++)
        for (int64_t c = 0; c < channels; c++) {
            double mean = sum_of(in[0], 0, NULL, 0, g, c) / (double)rows;
            out[0][g * channels + c] = mean;
            out[1][g * channels + c] = sum_of(in[0], mean, in[0], mean, g, c) / (double)rows;
        }
}

static void dot(const bt_node *node, const double *const *in, double *const *out)
{
    for (int64_t g = 0; g < groups; g++)
        for (int64_t c = 0; c < channels; c++) {
            double centre = node->inputs == 3 ? in[2][g * channels + c] : 0;
            out[0][g * channels + c] = sum_of(in[0], centre, in[1], 0, g, c);
            out[1][g * channels + c] = sum_of(NULL, 0, in[1], 0, g, c);
        }
}

/* By the text of ops/ops.h. */
static void mix(const bt_node *node, const double *const *in, double *const *out)
{
    const bt_channel_attr *attr = node->attr;
    for (int64_t e = 0; e < groups * rows * channels; e++) {
        int64_t c = e / (rows * channels) * channels + e % channels;
        int next = 0;
        for (int k = 0; k < attr->terms; k++) {
            double x = in[next++][e];
            if (attr->centred >> k & 1)
                x -= in[next++][c];
            if (attr->scaled >> k & 1)
                x *= in[next++][c];
            out[0][e] += x;
        }
        if (attr->shifted)
            out[0][e] += in[next][c];
        if (attr->relu && out[0][e] < 0)
            out[0][e] = 0;
    }
}

static const struct {
    const bt_op *op;
    void (*measure)(const bt_node *node);
    void (*compute)(const bt_node *node, const double *const *in, double *const *out);
} known[] = {
    {&bt_op_channel_moments, measure, moments},
    {&bt_op_channel_dot, measure, dot},
    {&bt_op_channel_mix, measure, mix},
};

bool interpret_images(const bt_node *node, const double *const *in, double *const *out)
{
    for (int i = 0; i < BT_COUNT_OF(known); i++)
        if (known[i].op == node->op) {
            known[i].measure(node);
            known[i].compute(node, in, out);
            return true;
        }
    return false;
}
