/* tests/ops/interpret.c: graphs computed in double precision by plain loops. */
#include "interpret.h"
#include "interpret_images.h"

#include "base/philox.h"
#include "graph/variable.h"
#include "ops/ops.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct interpreter {
    const bt_graph *graph;
    double **values; /* by tensor id */
    bool *given;
};

static void stop(const bt_node *node, const char *why)
{
    fprintf(stderr, "interpreter: %s: %s\n", node->op->name, why);
    abort();
}

static void *room(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        abort();
    return memory;
}

interpreter *interpreter_new(const bt_graph *graph)
{
    interpreter *in = room(1, sizeof *in);
    in->graph = graph;
    in->values = room((size_t)graph->tensor_count, sizeof(double *));
    in->given = room((size_t)graph->tensor_count, sizeof(bool));
    return in;
}

void interpreter_free(interpreter *in)
{
    for (int64_t i = 0; in && i < in->graph->tensor_count; i++)
        free(in->values[i]);
    if (in) {
        free(in->values);
        free(in->given);
    }
    free(in);
}

static double *fresh(interpreter *in, const bt_tensor *x)
{
    free(in->values[x->id]);
    in->values[x->id] = room((size_t)bt_tensor_count(x), sizeof(double));
    return in->values[x->id];
}

void interpreter_set(interpreter *in, const bt_tensor *leaf, const double *values)
{
    double *to = fresh(in, leaf);
    for (int64_t i = 0; i < bt_tensor_count(leaf); i++)
        to[i] = values[i];
    in->given[leaf->id] = true;
}

const double *interpreter_value(const interpreter *in, const bt_tensor *x) { return in->values[x->id]; }

/* ---- one element ---- */

static double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static double negative(double x) { return -x; }
static double square(double x) { return x * x; }
static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double relu(double x) { return x > 0 ? x : x != x ? x : 0; }
static double step(double x) { return x > 0; }
static double is_finite(double x) { return isfinite(x) != 0; }
static double same(double x) { return x; }

static const struct {
    const bt_op *op;
    double (*fn)(double x);
} unary[] = {
    {&bt_op_neg, negative}, {&bt_op_abs, fabs},    {&bt_op_sign, sign},       {&bt_op_square, square},
    {&bt_op_sqrt, sqrt},    {&bt_op_exp, exp},     {&bt_op_log, log},         {&bt_op_log1p, log1p},
    {&bt_op_sin, sin},      {&bt_op_cos, cos},     {&bt_op_tanh, tanh},       {&bt_op_erf, erf},
    {&bt_op_relu, relu},    {&bt_op_step, step},   {&bt_op_floor, floor},     {&bt_op_isfinite, is_finite},
    {&bt_op_copy, same},    {&bt_op_detach, same}, {&bt_op_sigmoid, sigmoid}, {&bt_op_stop, same},
    {&bt_op_alias, same},   {&bt_op_print, same},  {&bt_op_reshape, same},    {&bt_op_expm1, expm1},
    {&bt_op_sinh, sinh},    {&bt_op_cosh, cosh},   {&bt_op_atan, atan},       {&bt_op_widen, same},
};

static double plus(double a, double b) { return a + b; }
static double minus(double a, double b) { return a - b; }
static double times(double a, double b) { return a * b; }
static double over(double a, double b) { return a / b; }
static double smaller(double a, double b) { return a != a || b != b ? NAN : a < b ? a : b; }
static double larger(double a, double b) { return a != a || b != b ? NAN : a > b ? a : b; }
static double gate(double g, double y) { return y > 0 ? g : 0; }
static double less(double a, double b) { return a < b; }
static double greater(double a, double b) { return a > b; }
static double equal(double a, double b) { return a == b; }

static const struct {
    const bt_op *op;
    double (*fn)(double a, double b);
} binary[] = {
    {&bt_op_add, plus},  {&bt_op_sub, minus},       {&bt_op_mul, times},      {&bt_op_div, over},
    {&bt_op_pow, pow},   {&bt_op_minimum, smaller}, {&bt_op_maximum, larger}, {&bt_op_gate, gate},
    {&bt_op_less, less}, {&bt_op_greater, greater}, {&bt_op_equal, equal},
};

/* Rounds to `bits` bits of fraction, ties to even; `least`: the exponent of the last place of the smallest number. */
static double nearest(double x, int bits, int least, double largest)
{
    if (!isfinite(x) || x == 0)
        return x;
    int exponent = ilogb(x) - bits;
    double unit = ldexp(1, exponent < least ? least : exponent), y = rint(x / unit) * unit;
    return fabs(y) > largest ? copysign(INFINITY, x) : y;
}

static double as_dtype(double x, bt_dtype dtype)
{
    switch (dtype) {
    case BT_BF16:
        return nearest(x, 7, -133, 0x1.fep127);
    case BT_F16:
        return nearest(x, 10, -24, 65504);
    case BT_F32: /* everything is computed in double */
    case BT_F64:
        return x;
    case BT_BOOL:
        return x != 0;
    default:
        return trunc(x); /* the cases stay within range */
    }
}

/* ---- indices ---- */

/* Row-major index of element i of shape `dims` as coordinates, and back. */
static void split(int64_t i, int rank, const int64_t *dims, int64_t *at)
{
    for (int k = rank - 1; k >= 0; k--) {
        at[k] = i % dims[k];
        i /= dims[k];
    }
}

static int64_t join(int rank, const int64_t *dims, const int64_t *at)
{
    int64_t i = 0;
    for (int k = 0; k < rank; k++)
        i = i * dims[k] + at[k];
    return i;
}

typedef struct job {
    const bt_node *node;
    const bt_tensor *x; /* input 0 */
    const double *a, *b, *c;
    bt_tensor *y;
    double *out;
    int64_t count; /* of the output */
} job;

static void permute(const job *j)
{
    const bt_shape_attr *attr = j->node->attr;
    int64_t at[BT_MAX_RANK], from[BT_MAX_RANK];
    for (int64_t i = 0; i < j->count; i++) {
        split(i, j->y->rank, j->y->dims, at);
        for (int k = 0; k < j->y->rank; k++)
            from[attr->axes[k]] = at[k];
        j->out[i] = j->a[join(j->x->rank, j->x->dims, from)];
    }
}

static void broadcast(const job *j)
{
    const bt_shape_attr *attr = j->node->attr;
    int64_t at[BT_MAX_RANK], from[BT_MAX_RANK];
    for (int64_t i = 0; i < j->count; i++) {
        split(i, j->y->rank, j->y->dims, at);
        for (int k = 0; k < j->x->rank; k++)
            from[k] = j->x->dims[k] == 1 ? 0 : at[attr->axes[k]];
        j->out[i] = j->a[join(j->x->rank, j->x->dims, from)];
    }
}

static void slice(const job *j)
{
    const bt_range_attr *attr = j->node->attr;
    int64_t at[BT_MAX_RANK];
    for (int64_t i = 0; i < j->count; i++) {
        split(i, j->y->rank, j->y->dims, at);
        at[attr->axis] += attr->from;
        j->out[i] = j->a[join(j->x->rank, j->x->dims, at)];
    }
}

static void pad(const job *j)
{
    const bt_range_attr *attr = j->node->attr;
    int64_t at[BT_MAX_RANK];
    for (int64_t i = 0; i < bt_tensor_count(j->x); i++) {
        split(i, j->x->rank, j->x->dims, at);
        at[attr->axis] += attr->from;
        j->out[join(j->y->rank, j->y->dims, at)] = j->a[i];
    }
}

static void concat(const interpreter *in, const job *j)
{
    const bt_range_attr *attr = j->node->attr;
    int64_t at[BT_MAX_RANK], before = 0;
    for (int p = 0; p < j->node->inputs; p++) {
        const bt_tensor *part = j->node->in[p];
        for (int64_t i = 0; i < bt_tensor_count(part); i++) {
            split(i, part->rank, part->dims, at);
            at[attr->axis] += before;
            j->out[join(j->y->rank, j->y->dims, at)] = in->values[part->id][i];
        }
        before += part->dims[attr->axis];
    }
}

static void reduce(const job *j)
{
    const bt_reduce_attr *attr = j->node->attr;
    bool sum = j->node->op == &bt_op_sum, arg = j->node->op == &bt_op_argmax;
    double *best = room((size_t)j->count, sizeof *best);
    bool *seen = room((size_t)j->count, sizeof *seen);
    int64_t at[BT_MAX_RANK], to[BT_MAX_RANK];
    for (int64_t i = 0; i < bt_tensor_count(j->x); i++) {
        int rank = 0;
        int64_t along = 0;
        split(i, j->x->rank, j->x->dims, at);
        for (int k = 0; k < j->x->rank; k++) {
            bool reduced = attr->axes >> k & 1;
            along = reduced ? at[k] : along;
            if (!reduced || attr->keep)
                to[rank++] = reduced ? 0 : at[k];
        }
        int64_t o = join(rank, j->y->dims, to);
        if (sum) {
            j->out[o] += j->a[i];
        } else if (!seen[o] || j->a[i] > best[o]) {
            best[o] = j->a[i];
            j->out[o] = arg ? (double)along : j->a[i];
        }
        seen[o] = true;
    }
    free(best);
    free(seen);
}

static void rows(const job *j)
{
    bool gather = j->node->op == &bt_op_gather;
    const bt_tensor *values = gather ? j->y : j->node->in[1];
    int64_t k = values->dims[0], all = (gather ? j->x : j->y)->dims[0], width = 1;
    for (int i = 1; i < values->rank; i++)
        width *= values->dims[i];
    for (int64_t r = 0; r < k; r++) {
        int64_t index = (int64_t)(gather ? j->b : j->a)[r];
        if (index < 0 || index >= all)
            stop(j->node, "an index outside of its range");
        for (int64_t i = 0; i < width; i++) {
            if (gather)
                j->out[r * width + i] = j->a[index * width + i];
            else
                j->out[index * width + i] += j->b[r * width + i];
        }
    }
}

static void one_hot(const job *j)
{
    int64_t classes = j->y->dims[j->y->rank - 1];
    for (int64_t i = 0; i < bt_tensor_count(j->x); i++) {
        int64_t label = (int64_t)j->a[i];
        if (label < 0 || label >= classes)
            stop(j->node, "a label outside of its range");
        j->out[i * classes + label] = 1;
    }
}

/* The element of x at position `at` along the axis, and otherwise at the indices of element i of `like`. */
static int64_t beside(const bt_tensor *x, const bt_tensor *like, int64_t i, int64_t axis, int64_t at, int64_t *own)
{
    int64_t places[BT_MAX_RANK] = {0};
    split(i, like->rank, like->dims, places);
    *own = places[axis];
    places[axis] = at;
    return join(x->rank, x->dims, places);
}

/* The position of each element is the number of elements that come before it. */
static void argsort(const job *j)
{
    const bt_sort_attr *attr = j->node->attr;
    int64_t own, none;
    for (int64_t i = 0; i < bt_tensor_count(j->x); i++) {
        int64_t before = 0;
        beside(j->x, j->x, i, attr->axis, 0, &own);
        for (int64_t k = 0; k < j->x->dims[attr->axis]; k++) {
            double other = j->a[beside(j->x, j->x, i, attr->axis, k, &none)];
            bool less = attr->descending ? other > j->a[i] : other < j->a[i];
            before += less || (other == j->a[i] && k < own);
        }
        if (before < attr->count)
            j->out[beside(j->y, j->x, i, attr->axis, before, &none)] = (double)own;
    }
}

static void take_along(const job *j)
{
    const bt_axis_attr *attr = j->node->attr;
    int64_t own;
    for (int64_t i = 0; i < j->count; i++) {
        int64_t place = (int64_t)j->b[i];
        if (place < 0 || place >= j->x->dims[attr->axis])
            stop(j->node, "a place outside of its range");
        j->out[i] = j->a[beside(j->x, j->y, i, attr->axis, place, &own)];
    }
}

static void put_along(const job *j)
{
    const bt_places_attr *attr = j->node->attr;
    int64_t own;
    for (int64_t i = 0; i < bt_tensor_count(j->x); i++) {
        int64_t place = (int64_t)j->a[i];
        if (place < 0 || place >= attr->size)
            stop(j->node, "a place outside of its range");
        j->out[beside(j->y, j->x, i, attr->axis, place, &own)] += j->b[i];
    }
}

static void cumsum(const job *j)
{
    const bt_cumsum_attr *attr = j->node->attr;
    int64_t own, none;
    for (int64_t i = 0; i < j->count; i++) {
        beside(j->x, j->x, i, attr->axis, 0, &own);
        for (int64_t k = 0; k < j->x->dims[attr->axis]; k++)
            if (attr->reverse ? k >= own : k <= own)
                j->out[i] += j->a[beside(j->x, j->x, i, attr->axis, k, &none)];
    }
}

/* By expansion along the first row. */
static double determinant(const double *a, int64_t n)
{
    double sum = n == 0;
    double *minor = room((size_t)(n * n), sizeof *minor);
    for (int64_t c = 0; c < n; c++) {
        for (int64_t r = 1; r < n; r++)
            for (int64_t k = 0, at = 0; k < n; k++)
                if (k != c)
                    minor[(r - 1) * (n - 1) + at++] = a[r * n + k];
        sum += (c % 2 ? -1 : 1) * a[c] * determinant(minor, n - 1);
    }
    free(minor);
    return sum;
}

static void logdet(const job *j)
{
    int64_t n = j->x->dims[j->x->rank - 1];
    for (int64_t i = 0; i < j->count; i++)
        j->out[i] = log(fabs(determinant(j->a + i * n * n, n)));
}

/* By Cramer's rule. */
static void solve(const job *j)
{
    int64_t n = j->x->dims[j->x->rank - 1], m = j->y->dims[j->y->rank - 1];
    double *changed = room((size_t)(n * n), sizeof *changed);
    for (int64_t i = 0; i < j->count; i++) {
        int64_t group = i / (n * m), row = i / m % n, column = i % m;
        const double *a = j->a + group * n * n;
        memcpy(changed, a, (size_t)(n * n) * sizeof *changed);
        for (int64_t r = 0; r < n; r++)
            changed[r * n + row] = j->b[(group * n + r) * m + column];
        j->out[i] = determinant(changed, n) / determinant(a, n);
    }
    free(changed);
}

static void dot(const job *j)
{
    int rank = j->x->rank;
    int64_t m = j->x->dims[rank - 2], k = j->x->dims[rank - 1], n = j->y->dims[rank - 1];
    for (int64_t i = 0; i < j->count; i++) {
        int64_t group = i / (m * n), row = i / n % m, column = i % n;
        for (int64_t l = 0; l < k; l++)
            j->out[i] += j->a[(group * m + row) * k + l] * j->b[(group * k + l) * n + column];
    }
}

/* Visits every product of an element of x, w and g that belong together; the output is one of the three. */
static void conv(const job *j)
{
    const bt_conv_attr *attr = j->node->attr;
    bool dx = j->node->op == &bt_op_conv_dx, dw = j->node->op == &bt_op_conv_dw;
    const bt_tensor *second = j->node->in[1], *x = dx ? j->y : j->x, *w = dw ? j->y : second;
    const bt_tensor *g = dx ? j->x : dw ? second : j->y;
    int64_t inner = w->dims[2], outer = w->dims[3] / attr->groups, at[BT_MAX_RANK];
    for (int64_t i = 0; i < bt_tensor_count(g); i++)
        for (int64_t k = 0; k < w->dims[0] * w->dims[1] * inner; k++) {
            split(i, 4, g->dims, at);
            int64_t n = at[0], co = at[3], ci = k % inner, ky = k / inner / w->dims[1], kx = k / inner % w->dims[1];
            int64_t y = at[1] * attr->stride[0] + ky * attr->dilation[0] - attr->padding[0];
            int64_t z = at[2] * attr->stride[1] + kx * attr->dilation[1] - attr->padding[1];
            if (y < 0 || y >= x->dims[1] || z < 0 || z >= x->dims[2])
                continue;
            int64_t in_x = ((n * x->dims[1] + y) * x->dims[2] + z) * x->dims[3] + co / outer * inner + ci;
            int64_t in_w = k * w->dims[3] + co;
            if (dx)
                j->out[in_x] += j->a[i] * j->b[in_w];
            else if (dw)
                j->out[in_w] += j->a[in_x] * j->b[i];
            else
                j->out[i] += j->a[in_x] * j->b[in_w];
        }
}

/* As ops/ops.h and ops/random.h describe it, independent of their code. */
static void random_numbers(const job *j)
{
    const bt_random_attr *attr = j->node->attr;
    uint64_t record = (uint64_t)(int64_t)j->a[0];
    bool normal = j->node->op == &bt_op_normal, single = attr->dtype == BT_F32 && !normal;
    for (uint64_t i = 0; i < (uint64_t)j->count; i++) {
        uint64_t e = i + (uint64_t)attr->first, block = single ? e / 4 : e / 2;
        bt_philox counter = {{(uint32_t)block, attr->site, (uint32_t)record, (uint32_t)(record >> 32)}};
        bt_philox words = bt_philox4x32(counter, (uint32_t)attr->key, (uint32_t)(attr->key >> 32));
        uint32_t first = words.word[2 * (e % 2)], second = words.word[2 * (e % 2) + 1];
        if (normal)
            j->out[i] =
                sqrt(-2 * log(((double)first + 1) / 4294967296.0)) * cos(2 * M_PI * (double)second / 4294967296.0);
        else if (single)
            j->out[i] = (double)(words.word[e % 4] >> 8) / 16777216.0;
        else
            j->out[i] = floor(((double)first * 4294967296.0 + (double)second) / 2048.0) / 9007199254740992.0;
    }
}

/* One of the two neighbouring upper halves of an f32, as ops/ops.h describes it. */
static void stochastic_round(const job *j)
{
    const bt_stochastic_attr *attr = j->node->attr;
    uint64_t count = (uint64_t)(int64_t)j->b[0];
    for (uint64_t i = 0; i < (uint64_t)j->count; i++) {
        uint64_t e = i + (uint64_t)attr->first;
        bt_philox counter = {{(uint32_t)(e / 4), attr->site, (uint32_t)count, (uint32_t)(count >> 32)}};
        bt_philox words = bt_philox4x32(counter, (uint32_t)attr->key, (uint32_t)(attr->key >> 32));
        float x = (float)j->a[i];
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        bits = (bits + words.word[e % 4] % 65536) / 65536 * 65536;
        memcpy(&x, &bits, sizeof x);
        j->out[i] = isfinite(j->a[i]) ? (double)x : j->a[i];
    }
}

static void check(const job *j)
{
    j->out[0] = 1;
    for (int64_t i = 0; i < bt_tensor_count(j->x); i++)
        j->out[0] = j->out[0] != 0 && j->a[i] != 0;
}

/* ---- nodes ---- */

static bool elementwise(const job *j)
{
    for (int i = 0; i < BT_COUNT_OF(unary); i++)
        if (unary[i].op == j->node->op) {
            for (int64_t e = 0; e < j->count; e++)
                j->out[e] = unary[i].fn(j->a[e]);
            return true;
        }
    for (int i = 0; i < BT_COUNT_OF(binary); i++)
        if (binary[i].op == j->node->op) {
            for (int64_t e = 0; e < j->count; e++)
                j->out[e] = binary[i].fn(j->a[e], j->b[e]);
            return true;
        }
    if (j->node->op == &bt_op_where || j->node->op == &bt_op_cast) {
        for (int64_t e = 0; e < j->count; e++)
            j->out[e] = j->node->op == &bt_op_cast ? as_dtype(j->a[e], j->y->dtype) : j->a[e] != 0 ? j->b[e] : j->c[e];
        return true;
    }
    return false;
}

/* Ops on images, by interpret_images.c. */
static bool images(interpreter *in, const bt_node *node)
{
    const double *given[BT_MAX_ITEMS] = {NULL};
    double *out[BT_MAX_OUTPUTS] = {NULL};
    for (int i = 0; i < node->inputs && i < BT_MAX_ITEMS; i++)
        given[i] = in->values[node->in[i]->id];
    for (int o = 0; o < node->outputs && o < BT_MAX_OUTPUTS; o++)
        out[o] = fresh(in, &node->out[o]);
    return interpret_images(node, given, out);
}

/* ---- 8-bit numbers, as the paper describes them: 256 values in order, and the nearest of them ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void code_values(bool positive, double *values)
{
    int count = 0;
    values[count++] = 0;
    values[count++] = 1;
    for (int i = 0; i < 7; i++) {
        int parts = 1 << (positive ? i + 1 : i);
        for (int part = 0; part < parts; part++) {
            double low = 0.1 + 0.9 * part / parts, high = 0.1 + 0.9 * (part + 1) / parts;
            values[count++] = pow(10, i - 6) * (low + high) / 2;
            if (!positive)
                values[count] = -values[count - 1], count++;
        }
    }
    if (count != 256)
        abort();
    qsort(values, 256, sizeof *values, by_value);
}

static void scales(const job *j)
{
    for (int64_t i = 0; i < bt_tensor_count(j->x); i++)
        j->out[i / 256] = fmax(j->out[i / 256], fabs(j->a[i]));
}

static void encode(const job *j)
{
    double values[256];
    bool positive = ((const bt_codes_attr *)j->node->attr)->positive;
    code_values(positive, values);
    for (int64_t i = 0; i < j->count; i++) {
        double x = j->b[i / 256] > 0 ? j->a[i] / j->b[i / 256] : 0;
        int best = -1;
        for (int c = 0; c < 256; c++)
            if ((x == 0 || values[c] != 0) && (best < 0 || fabs(values[c] - x) < fabs(values[best] - x)) &&
                (values[c] * x >= 0))
                best = c;
        j->out[i] = best;
    }
}

static void decode(const job *j)
{
    double values[256];
    code_values(((const bt_codes_attr *)j->node->attr)->positive, values);
    for (int64_t i = 0; i < j->count; i++)
        j->out[i] = values[(int)j->a[i]] * j->b[i / 256];
}

/* A collective with a single rank. */
static void alone(const job *j)
{
    const bt_collective_attr *attr = j->node->attr;
    if (attr->ranks != 1)
        stop(j->node, "its other ranks are not here");
    memcpy(j->out, j->a, (size_t)j->count * sizeof *j->out);
}

static const struct {
    const bt_op *op;
    void (*fn)(const job *j);
} jobs[] = {
    {&bt_op_permute, permute},
    {&bt_op_broadcast, broadcast},
    {&bt_op_slice, slice},
    {&bt_op_pad, pad},
    {&bt_op_sum, reduce},
    {&bt_op_max, reduce},
    {&bt_op_argmax, reduce},
    {&bt_op_gather, rows},
    {&bt_op_scatter_add, rows},
    {&bt_op_one_hot, one_hot},
    {&bt_op_argsort, argsort},
    {&bt_op_take_along, take_along},
    {&bt_op_put_along, put_along},
    {&bt_op_cumsum, cumsum},
    {&bt_op_dot, dot},
    {&bt_op_solve, solve},
    {&bt_op_logdet, logdet},
    {&bt_op_conv, conv},
    {&bt_op_conv_dx, conv},
    {&bt_op_conv_dw, conv},
    {&bt_op_uniform, random_numbers},
    {&bt_op_normal, random_numbers},
    {&bt_op_stochastic_round, stochastic_round},
    {&bt_op_check, check},
    {&bt_op_scales, scales},
    {&bt_op_encode, encode},
    {&bt_op_decode, decode},
    {&bt_op_all_gather, alone},
    {&bt_op_reduce_scatter, alone},
};

/* Sums of several values, with a single rank. */
static void all_reduce(interpreter *in, const bt_node *node)
{
    for (int i = 0; i < node->inputs; i++) {
        job j = {.node = node, .a = in->values[node->in[i]->id], .out = fresh(in, &node->out[i])};
        j.count = bt_tensor_count(&node->out[i]);
        alone(&j);
    }
}

static void primitive(interpreter *in, const bt_node *node)
{
    const double *values[3] = {NULL};
    if (node->op == &bt_op_all_reduce) {
        all_reduce(in, node);
        return;
    }
    for (int i = 0; i < node->inputs && i < 3; i++)
        values[i] = in->values[node->in[i]->id];
    job j = {node,
             node->in[0],
             values[0],
             values[1],
             values[2],
             node->out,
             fresh(in, node->out),
             bt_tensor_count(node->out)};
    if (elementwise(&j))
        return;
    for (int i = 0; i < BT_COUNT_OF(jobs); i++)
        if (jobs[i].op == node->op) {
            jobs[i].fn(&j);
            return;
        }
    if (node->op == &bt_op_concat)
        concat(in, &j);
    else if (!images(in, node))
        stop(node, "no such primitive here");
}

/* Traces the body separately and computes it. */
static void composite(interpreter *in, const bt_node *node)
{
    bt_graph *graph = bt_graph_new();
    if (!graph)
        stop(node, "out of memory");
    bt_trace trace;
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
    bt_tensor **given = room((size_t)node->inputs + 1, sizeof *given), **out = room((size_t)node->outputs, sizeof *out);
    for (int i = 0; i < node->inputs; i++)
        given[i] = bt_graph_placeholder(graph, node->in[i]);
    bt_composite_body(node->op, node->attr, given, out);
    bt_trace_end(&trace);
    if (graph->status != BT_OK)
        stop(node, graph->message);
    interpreter *inner = interpreter_new(graph);
    for (int i = 0; i < node->inputs; i++)
        interpreter_set(inner, given[i], in->values[node->in[i]->id]);
    interpreter_run(inner);
    for (int o = 0; o < node->outputs; o++) {
        if (out[o]->dtype != node->out[o].dtype || bt_tensor_count(out[o]) != bt_tensor_count(&node->out[o]))
            stop(node, "its body has another shape than its infer");
        double *to = fresh(in, &node->out[o]);
        for (int64_t i = 0; i < bt_tensor_count(out[o]); i++)
            to[i] = inner->values[out[o]->id][i];
    }
    interpreter_free(inner);
    bt_graph_free(graph);
    free(given);
    free(out);
}

static void leaf(interpreter *in, const bt_node *node)
{
    const bt_tensor *x = node->out;
    const void *data = node->attr;
    if (in->given[x->id])
        return;
    if (node->op == &bt_op_read) {
        const bt_var *var = ((const bt_read_attr *)node->attr)->var;
        data = var && (var->base ? var->base : var)->data ? var_near(var) : NULL;
    }
    if (!data && bt_tensor_count(x) > 0)
        stop(node, "a leaf without values");
    double *to = fresh(in, x);
    for (int64_t i = 0; i < bt_tensor_count(x); i++)
        to[i] = bt_get(x->dtype, data, i);
}

static void compute(interpreter *in, const bt_node *node)
{
    if (node->inputs == 0 && bt_op_flags(node->op) & BT_OP_LEAF)
        leaf(in, node);
    else if (bt_op_is_composite(node->op))
        composite(in, node);
    else
        primitive(in, node);
}

void interpreter_run(interpreter *in)
{
    for (int64_t n = 0; n < in->graph->node_count; n++)
        compute(in, in->graph->nodes[n]);
}

const bt_node *interpreter_advance(interpreter *in, int64_t *at)
{
    for (; *at < in->graph->node_count; ++*at) {
        const bt_node *node = in->graph->nodes[*at];
        if (bt_op_flags(node->op) & BT_OP_COLLECTIVE)
            return node;
        compute(in, node);
    }
    return NULL;
}
