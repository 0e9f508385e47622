/* tests/ops/interpret_images.c: norms over channels, pooling and resampling, by plain loops. */
#include "interpret_images.h"

#include "ops/ops.h"
#include <math.h>

/* ---- channels ---- */

/* x [lead..., rows..., c] as [groups, rows, channels]. */
typedef struct sizes {
    int64_t groups, rows, channels;
} sizes;

static sizes measure(const bt_node *node)
{
    const bt_tensor *x = node->in[0];
    int64_t lead = ((const bt_channel_attr *)node->attr)->lead;
    sizes s = {1, 1, x->dims[x->rank - 1]};
    for (int i = 0; i < x->rank - 1; i++)
        *(i < lead ? &s.groups : &s.rows) *= x->dims[i];
    return s;
}

/* The sum of (x - m) (z - k) over the rows of one channel; NULL: ones for x, z; m, k: subtracted. */
static double sum_of(sizes s, const double *x, double m, const double *z, double k, int64_t group, int64_t channel)
{
    double sum = 0;
    for (int64_t row = 0; row < s.rows; row++) {
        int64_t e = (group * s.rows + row) * s.channels + channel;
        sum += ((x ? x[e] : 1) - m) * ((z ? z[e] : 1) - k);
    }
    return sum;
}

static void moments(const bt_node *node, const double *const *in, double *const *out)
{
    sizes s = measure(node);
    for (int64_t g = 0; g < s.groups; g++)
        for (int64_t c = 0; c < s.channels; c++) {
            double mean = sum_of(s, in[0], 0, NULL, 0, g, c) / (double)s.rows;
            out[0][g * s.channels + c] = mean;
            out[1][g * s.channels + c] = sum_of(s, in[0], mean, in[0], mean, g, c) / (double)s.rows;
        }
}

static void dot(const bt_node *node, const double *const *in, double *const *out)
{
    sizes s = measure(node);
    for (int64_t g = 0; g < s.groups; g++)
        for (int64_t c = 0; c < s.channels; c++) {
            double centre = node->inputs == 3 ? in[2][g * s.channels + c] : 0;
            out[0][g * s.channels + c] = sum_of(s, in[0], centre, in[1], 0, g, c);
            out[1][g * s.channels + c] = sum_of(s, NULL, 0, in[1], 0, g, c);
        }
}

/* As ops/ops.h describes it. */
static void mix(const bt_node *node, const double *const *in, double *const *out)
{
    const bt_channel_attr *attr = node->attr;
    sizes s = measure(node);
    for (int64_t e = 0; e < s.groups * s.rows * s.channels; e++) {
        int64_t c = e / (s.rows * s.channels) * s.channels + e % s.channels;
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
            out[0][e] += in[next++][c];
        if ((attr->relu && out[0][e] < 0) || (attr->gated && !(in[next][e] > 0)))
            out[0][e] = 0;
    }
}

/* ---- windows: every pixel is tested for membership in the window ---- */

static bool within(const bt_window_attr *attr, int axis, int64_t o, int64_t pixel)
{
    const bt_window_axis *a = &attr->axis[axis];
    if (attr->adaptive)
        return (double)pixel >= floor((double)(o * a->size) / (double)a->out) &&
               (double)pixel < ceil((double)((o + 1) * a->size) / (double)a->out);
    return pixel + a->padding >= o * a->stride && pixel + a->padding < o * a->stride + a->window;
}

/* Calls visit for each pixel of each window: s is the index in the small image, p the pixel's index. */
static void each_pixel(const bt_node *node, const bt_tensor *small, const bt_tensor *large,
                       void (*visit)(const double *const *in, double *const *out, int64_t s, int64_t p, int64_t at,
                                     double share),
                       const double *const *in, double *const *out)
{
    const bt_window_attr *attr = node->attr;
    int64_t height = large->dims[1], width = large->dims[2], c = large->dims[3], pixels = height * width;
    for (int64_t s = 0; s < bt_tensor_count(small); s++) {
        int64_t n = s / c / small->dims[2] / small->dims[1], y = s / c / small->dims[2] % small->dims[1];
        int64_t x = s / c % small->dims[2];
        double count = 0;
        for (int64_t at = 0; at < pixels; at++)
            count += within(attr, 0, y, at / width) && within(attr, 1, x, at % width);
        for (int64_t at = 0; at < pixels; at++)
            if (within(attr, 0, y, at / width) && within(attr, 1, x, at % width))
                visit(in, out, s, (n * pixels + at) * c + s % c, at, attr->average ? 1 / count : 1);
    }
}

static void add_pixel(const double *const *in, double *const *out, int64_t s, int64_t p, int64_t at, double share)
{
    (void)at;
    out[0][s] += in[0][p] * share;
}

static void add_to_pixel(const double *const *in, double *const *out, int64_t s, int64_t p, int64_t at, double share)
{
    (void)at;
    out[0][p] += in[0][s] * share;
}

static void take_larger(const double *const *in, double *const *out, int64_t s, int64_t p, int64_t at, double share)
{
    (void)share;
    bool first = isnan(out[1][s]);
    if (!first && !(in[0][p] > out[0][s]) && !isnan(in[0][p]))
        return;
    out[0][s] = in[0][p];
    out[1][s] = (double)at;
}

static void window_sum(const bt_node *node, const double *const *in, double *const *out)
{
    each_pixel(node, node->out, node->in[0], add_pixel, in, out);
}

static void window_spread(const bt_node *node, const double *const *in, double *const *out)
{
    each_pixel(node, node->in[0], node->out, add_to_pixel, in, out);
}

static void window_max(const bt_node *node, const double *const *in, double *const *out)
{
    for (int64_t s = 0; s < bt_tensor_count(node->out); s++)
        out[1][s] = NAN; /* nothing found yet */
    each_pixel(node, node->out, node->in[0], take_larger, in, out);
}

static void by_index(const bt_node *node, const double *const *in, double *const *out)
{
    bool gather = node->op == &bt_op_window_gather;
    const bt_tensor *large = gather ? node->in[0] : node->out, *index = node->in[1];
    int64_t c = index->dims[3], each = index->dims[1] * index->dims[2] * c, pixels = large->dims[1] * large->dims[2];
    for (int64_t s = 0; s < bt_tensor_count(index); s++) {
        int64_t p = (s / each * pixels + (int64_t)in[1][s]) * c + s % c;
        if (gather)
            out[0][s] = in[0][p];
        else
            out[0][p] += in[0][s];
    }
}

/* Along the axis, each input has a hat (linear) or a box as its weight; beyond the ends the hat stays constant. */
static double resample_weight(const bt_resample_attr *attr, int64_t o, int64_t i)
{
    double place = ((double)o + 0.5) * (double)attr->from / (double)attr->to - 0.5;
    if (!attr->linear)
        return o * attr->from >= i * attr->to && o * attr->from < (i + 1) * attr->to;
    place = fmin(fmax(place, 0), (double)attr->from - 1);
    return fmax(0, 1 - fabs(place - (double)i));
}

static void resample(const bt_node *node, const double *const *in, double *const *out)
{
    const bt_resample_attr *attr = node->attr;
    int64_t inner = 1, from = attr->from, to = attr->to;
    for (int i = (int)attr->axis + 1; i < node->out->rank; i++)
        inner *= node->out->dims[i];
    for (int64_t e = 0; e < bt_tensor_count(attr->adjoint ? node->in[0] : node->out); e++)
        for (int64_t i = 0; i < from; i++) {
            int64_t small = (e / (to * inner) * from + i) * inner + e % inner;
            double weight = resample_weight(attr, e / inner % to, i);
            out[0][attr->adjoint ? small : e] += weight * in[0][attr->adjoint ? e : small];
        }
}

static const struct {
    const bt_op *op;
    void (*compute)(const bt_node *node, const double *const *in, double *const *out);
} known[] = {
    {&bt_op_channel_moments, moments},
    {&bt_op_channel_dot, dot},
    {&bt_op_channel_mix, mix},
    {&bt_op_window_sum, window_sum},
    {&bt_op_window_spread, window_spread},
    {&bt_op_window_max, window_max},
    {&bt_op_window_gather, by_index},
    {&bt_op_window_scatter, by_index},
    {&bt_op_resample, resample},
};

bool interpret_images(const bt_node *node, const double *const *in, double *const *out)
{
    for (int i = 0; i < BT_COUNT_OF(known); i++)
        if (known[i].op == node->op) {
            known[i].compute(node, in, out);
            return true;
        }
    return false;
}
