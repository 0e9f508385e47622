/* tests/engine/ridge.c */
#include "ridge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

ridge ridge_data(void)
{
    ridge data = {.w = {0.3, -0.7}, .lambda = {0.4, -1.2}};
    for (int i = 0; i < RIDGE_ROWS * 2; i++)
        data.x[i] = 2 * bt_host_uniform(5, 0, (uint64_t)i) - 1;
    for (int i = 0; i < RIDGE_ROWS; i++)
        data.y[i] = 1.5 * data.x[2 * i] - 0.5 * data.x[2 * i + 1] + bt_host_uniform(5, 1, (uint64_t)i);
    for (int i = 0; i < RIDGE_UPPER_ROWS * 2; i++)
        data.upper_x[i] = 2 * bt_host_uniform(5, 2, (uint64_t)i) - 1;
    for (int i = 0; i < RIDGE_UPPER_ROWS; i++)
        data.upper_y[i] = 1.2 * data.upper_x[2 * i] - 0.9 * data.upper_x[2 * i + 1];
    return data;
}

/* ---- by the library ---- */

/* Each row as three sparse entries in reverse column order, one of them a zero. */
static void add_sparse(bt_dataset *data, const double *x, int count)
{
    double value[3 * RIDGE_ROWS];
    int32_t column[3 * RIDGE_ROWS];
    for (int i = 0; i < count; i++)
        for (int k = 0; k < 3; k++) {
            value[3 * i + k] = k == 1 ? 0 : x[2 * i + (k == 0)];
            column[3 * i + k] = k == 0;
        }
    bt_dataset_add(data, "x.value", BT_ARRAY(value, count, 3));
    bt_dataset_add(data, "x.column", BT_ARRAY(column, count, 3));
}

static bt_dataset *table(const double *x, const double *y, int count, bool sparse)
{
    bt_dataset *data = bt_dataset_new(count);
    if (sparse)
        add_sparse(data, x, count);
    else
        bt_dataset_add(data, "x", BT_ARRAY(x, count, 2));
    bt_dataset_add(data, "y", BT_ARRAY(y, count));
    return data;
}

static bt_dataset *lower_data(bt_problem *self)
{
    const ridge *data = bt_user(self);
    return table(data->x, data->y, RIDGE_ROWS, data->sparse);
}

static bt_dataset *upper_data(bt_problem *self)
{
    const ridge *data = bt_user(self);
    return table(data->upper_x, data->upper_y, RIDGE_UPPER_ROWS, data->sparse);
}

static bt_module *lower_module(bt_problem *self)
{
    return bt_nn_parameter(bt_init_array(BT_ARRAY(((ridge *)bt_user(self))->w, 2)), 2);
}

static bt_module *upper_module(bt_problem *self)
{
    return bt_nn_parameter(bt_init_array(BT_ARRAY(((ridge *)bt_user(self))->lambda, 2)), 2);
}

static bt_tensor *residual(bt_problem *lower, const bt_batch *batch)
{
    return bt_sub(bt_field_matmul(batch, "x", bt_forward(lower)), bt_field(batch, "y"));
}

static bt_tensor *lower_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *lambda = bt_forward(bt_peer(self, "upper")), *w = bt_forward(self);
    bt_tensor *loss = bt_mul(0.5, bt_mean(bt_square(residual(self, batch))));
    bt_tensor *decay = bt_mul(0.5, bt_mul(bt_exp(bt_at(lambda, 1)), bt_sum(bt_square(w))));
    return bt_add(bt_mul(bt_sigmoid(bt_at(lambda, 0)), loss), decay);
}

static bt_tensor *upper_step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *loss = bt_mul(0.5, bt_mean(bt_square(residual(bt_peer(self, "lower"), batch))));
    return bt_add(loss, bt_mul(0.05, bt_sum(bt_square(bt_forward(self)))));
}

static const bt_problem_def upper = {
    .name = "upper", .configure_train_data = upper_data, .configure_module = upper_module, .training_step = upper_step};
static const bt_problem_def lower = {
    .name = "lower", .configure_train_data = lower_data, .configure_module = lower_module, .training_step = lower_step};

const bt_export ridge_parts = {.abi = BT_ABI, .problems = {&upper, &lower}};

static const char links[] = "dependencies.u2l = upper > lower\ndependencies.l2u = lower > upper\n"
                            "lower.shuffle = false\nupper.shuffle = false\nengine.log_step = 0\n";

void ridge_fill(bt_engine *engine, ridge *data, const char *settings)
{
    char lines[2048];
    snprintf(lines, sizeof lines, "%s%s", links, settings);
    levels_fill(engine, &ridge_parts, data, lines);
}

bt_engine *ridge_engine(ridge *data, const char *settings)
{
    char lines[2048];
    snprintf(lines, sizeof lines, "%s%s", links, settings);
    return levels_engine(&ridge_parts, data, lines);
}

/* ---- in plain C ---- */

rows rows_next(int total, int batch, int *drawn)
{
    int per_epoch = (total + batch - 1) / batch, from = *drawn % per_epoch * batch;
    ++*drawn;
    return (rows){from, from + batch > total ? total - from : batch};
}

static int row_count(const rows *batches, int n)
{
    int count = 0;
    for (int b = 0; b < n; b++)
        count += batches[b].count;
    return count;
}

/* sum of (x w - y) x / count into g; sum of x (x d) / count into hd. */
static void sums(const double *x, const double *y, const rows *batches, int n, const double *w, const double *d,
                 double *g, double *hd)
{
    double count = row_count(batches, n);
    g[0] = g[1] = hd[0] = hd[1] = 0;
    for (int b = 0; b < n; b++)
        for (int i = batches[b].from; i < batches[b].from + batches[b].count; i++) {
            const double *row = x + 2 * i;
            double r = row[0] * w[0] + row[1] * w[1] - y[i], along = row[0] * d[0] + row[1] * d[1];
            for (int k = 0; k < 2; k++) {
                g[k] += r * row[k] / count;
                hd[k] += along * row[k] / count;
            }
        }
}

static double sigmoid(double t) { return 1 / (1 + exp(-t)); }

void plain_lower(const ridge *data, const rows *batches, int n, const double *w, const double *lambda, double *gradient)
{
    double g[2], unused[2];
    sums(data->x, data->y, batches, n, w, w, g, unused);
    for (int k = 0; k < 2; k++)
        gradient[k] = sigmoid(lambda[0]) * g[k] + exp(lambda[1]) * w[k];
}

void plain_upper(const ridge *data, const rows *batches, int n, const double *w, const double *lambda, double *v,
                 double *direct)
{
    double unused[2];
    sums(data->upper_x, data->upper_y, batches, n, w, w, v, unused);
    for (int k = 0; k < 2; k++)
        direct[k] = 0.1 * lambda[k];
}

typedef struct point {
    const ridge *data;
    const rows *batches;
    int n;
    const double *w, *lambda;
} point;

static void hessian(const point *p, const double *d, double *result)
{
    double g[2], hd[2];
    sums(p->data->x, p->data->y, p->batches, p->n, p->w, d, g, hd);
    for (int k = 0; k < 2; k++)
        result[k] = sigmoid(p->lambda[0]) * hd[k] + exp(p->lambda[1]) * d[k];
}

static double dot(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1]; }

static void neumann(const point *p, const double *v, plain_method method, double *x)
{
    double term[2] = {v[0], v[1]}, h[2];
    x[0] = x[1] = 0;
    for (int j = 0; j <= method.iterations; j++) {
        for (int k = 0; k < 2; k++)
            x[k] += method.alpha * term[k];
        hessian(p, term, h);
        for (int k = 0; k < 2; k++)
            term[k] -= method.alpha * h[k];
    }
}

static void cg(const point *p, const double *v, plain_method method, double *x)
{
    double r[2] = {v[0], v[1]}, d[2] = {v[0], v[1]}, h[2];
    x[0] = x[1] = 0;
    for (int j = 0; j < method.iterations && dot(r, r) > 0; j++) {
        hessian(p, d, h);
        double rr = dot(r, r), length = rr / dot(d, h);
        for (int k = 0; k < 2; k++) {
            x[k] += length * d[k];
            r[k] -= length * h[k];
        }
        for (int k = 0; k < 2; k++)
            d[k] = r[k] + dot(r, r) / rr * d[k];
    }
}

void plain_hypergradient(const ridge *data, const rows *lower_rows, int lowers, const rows *upper_rows, int uppers,
                         const double *w, const double *lambda, plain_method method, double *result)
{
    point p = {data, lower_rows, lowers, w, lambda};
    double v[2], direct[2], x[2], g[2], unused[2], s = sigmoid(lambda[0]);
    plain_upper(data, upper_rows, uppers, w, lambda, v, direct);
    if (method.kind == PLAIN_NEUMANN)
        neumann(&p, v, method, x);
    else if (method.kind == PLAIN_CG)
        cg(&p, v, method, x);
    else
        memcpy(x, v, sizeof x);
    sums(data->x, data->y, lower_rows, lowers, w, w, g, unused);
    result[0] = direct[0] - s * (1 - s) * dot(g, x);
    result[1] = direct[1] - exp(lambda[1]) * dot(w, x);
}
