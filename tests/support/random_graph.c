/* tests/support/random_graph.c: random graphs. */
#include "support/random_graph.h"

#include "runtime/variable.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 256, LARGEST = 160 /* elements of a tensor */ };

typedef struct draw {
    scene *s;
    uint64_t seed, next;
    bt_dtype dtype;
    unsigned what;
    int64_t rows; /* of s->vars[5] and [6], which form a batch; 0: no batch */
    bt_tensor *pool[POOL];
    double bound[POOL]; /* an upper bound of its elements */
    int count;
    bt_tensor *index; /* i32 [3], with values 0 and 1 */
} draw;

static double uniform(draw *d) { return bt_host_uniform(d->seed, 1, d->next++); }
static int below(draw *d, int64_t count) { return (int)(uniform(d) * (double)count); }
static bool chance(draw *d, double probability) { return uniform(d) < probability; }

static bt_tensor *reshape_to(bt_tensor *x, int rank, const int64_t *dims)
{
    int64_t sizes[BT_MAX_RANK + 1];
    for (int i = 0; i < rank; i++)
        sizes[i] = dims[i];
    sizes[rank] = BT_END;
    return (bt_reshape)(x, sizes);
}

static bool whole_numbers(const draw *d) { return d->what & RANDOM_INTEGERS; }

/* ---- user-defined ops ---- */

static void blend_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    out[0] = bt_tanh(bt_add(bt_mul(in[0], in[1]), 0.25));
    out[1] = bt_sum(bt_mul(bt_sin(in[0]), in[0]));
}

const bt_op random_blend = {.name = "blend", .inputs = 2, .outputs = 2, .body = blend_body};

/* y[i] = x[i] - x[count - 1 - i] / 2: wrong if x is overwritten or not dense. */
#define FOLD(type)                                                                                                     \
    static bt_status fold_##type(const bt_launch *run)                                                                 \
    {                                                                                                                  \
        const type *x = run->in[0].data;                                                                               \
        type *y = run->out[0].data;                                                                                    \
        int64_t count = bt_array_count(run->in[0]);                                                                    \
        for (int64_t i = 0; i < count; i++)                                                                            \
            y[i] = x[i] - x[count - 1 - i] / 2;                                                                        \
        return BT_OK;                                                                                                  \
    }
FOLD(float)
FOLD(double)

/* The same as a body, with a gather that reverses x. */
static void fold_body(const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    (void)attr;
    int64_t count = bt_tensor_count(in[0]);
    int32_t turned[LARGEST * 2];
    for (int64_t i = 0; i < count; i++)
        turned[i] = (int32_t)(count - 1 - i);
    bt_tensor *flat = bt_reshape(in[0], count);
    bt_tensor *back = bt_gather(flat, bt_constant(bt_array_of(BT_I32, turned, (const int64_t[]){count, BT_END})));
    bt_tensor *y = bt_sub(flat, bt_mul(0.5, back));
    out[0] = reshape_to(y, in[0]->rank, in[0]->dims);
}

const bt_op random_fold = {.name = "fold",
                           .inputs = 1,
                           .infer = bt_infer_same,
                           .body = fold_body,
                           .kernels = {{.device = BT_CPU, .dtype = BT_F32, .launch = fold_float},
                                       {.device = BT_CPU, .dtype = BT_F64, .launch = fold_double}}};

/* ---- the pool ---- */

static void keep(draw *d, bt_tensor *x, double bound)
{
    ck_assert_msg(!bt_poisoned(x), "seed %llu: %s", (unsigned long long)d->seed, d->s->graph->message);
    if (x->dtype != d->dtype || bt_tensor_count(x) > LARGEST)
        return;
    if (!(bound < 20)) {
        x = whole_numbers(d) ? bt_clamp(x, -3, 3) : bt_sin(x);
        bound = whole_numbers(d) ? 3 : 1;
    }
    int at = d->count < POOL ? d->count++ : below(d, POOL);
    d->pool[at] = x;
    d->bound[at] = bound;
}

/* A tensor from the pool, more likely a recent one. */
static bt_tensor *pick(draw *d, double *bound)
{
    double u = uniform(d);
    int at = (int)((1 - u * u) * d->count);
    at = at < d->count ? at : d->count - 1;
    *bound = d->bound[at];
    return d->pool[at];
}

/* Another tensor that broadcasts with x; x itself if none is found. */
static bt_tensor *partner(draw *d, bt_tensor *x, double *bound)
{
    for (int tries = 0; tries < 12; tries++) {
        double b;
        bt_tensor *y = pick(d, &b);
        bool fits = y->rank <= x->rank;
        for (int i = 0; fits && i < y->rank; i++) {
            int64_t a = y->dims[i], c = x->dims[x->rank - y->rank + i];
            fits = a == c || a == 1;
        }
        if (fits) {
            *bound = b;
            return y;
        }
    }
    return x;
}

/* ---- families ---- */

/* Ops that map integers to integers. */
static void draw_whole(draw *d)
{
    double b;
    bt_tensor *x = pick(d, &b);
    switch (below(d, 6)) {
    case 0:
        keep(d, bt_neg(x), b);
        break;
    case 1:
        keep(d, bt_square(x), b * b);
        break;
    case 2:
        keep(d, bt_relu(x), b);
        break;
    case 3:
        keep(d, bt_abs(x), b);
        break;
    case 4:
        keep(d, bt_sign(x), 1);
        break;
    default:
        keep(d, bt_step_positive(x), 1);
    }
}

static void draw_unary(draw *d)
{
    double b;
    if (whole_numbers(d)) {
        draw_whole(d);
        return;
    }
    bt_tensor *x = pick(d, &b);
    switch (below(d, d->what & RANDOM_SMOOTH ? 10 : 13)) {
    case 0:
        keep(d, bt_neg(x), b);
        break;
    case 1:
        keep(d, bt_tanh(x), 1);
        break;
    case 2:
        keep(d, bt_sin(x), 1);
        break;
    case 3:
        keep(d, bt_cos(x), 1);
        break;
    case 4:
        keep(d, bt_square(x), b * b);
        break;
    case 5:
        keep(d, bt_sigmoid(x), 1);
        break;
    case 6:
        keep(d, bt_relu(x), b);
        break;
    case 7:
        keep(d, bt_abs(x), b);
        break;
    case 8:
        keep(d, bt_exp(bt_minimum(x, 2)), 8);
        break;
    case 9:
        keep(d, bt_log(bt_add(1.5, bt_abs(x))), 4);
        break;
    case 10:
        keep(d, bt_sign(x), 1);
        break;
    case 11:
        keep(d, bt_as(bt_as(bt_mul(3, x), BT_I32), d->dtype), 3 * b);
        break;
    default:
        keep(d, bt_step_positive(x), 1);
    }
}

static void draw_binary(draw *d)
{
    double a, b;
    bt_tensor *x = pick(d, &a);
    b = a;
    bt_tensor *y = partner(d, x, &b);
    if (chance(d, 0.3)) {
        bt_tensor *z = x;
        x = y;
        y = z;
    }
    switch (below(d, 8)) {
    case 0:
    case 1:
        keep(d, bt_add(x, y), a + b);
        break;
    case 2:
        keep(d, bt_sub(x, y), a + b);
        break;
    case 3:
    case 4:
        keep(d, bt_mul(x, y), a * b);
        break;
    case 5:
        keep(d, bt_minimum(x, y), fmax(a, b));
        break;
    case 6:
        keep(d, whole_numbers(d) ? bt_maximum(x, y) : bt_div(x, bt_add(1, bt_square(y))), a + b);
        break;
    default:
        keep(d, bt_where(bt_less(x, y), x, y), fmax(a, b));
    }
}

static void draw_reduction(draw *d)
{
    double b;
    bt_tensor *x = pick(d, &b);
    int64_t axes[BT_MAX_RANK + 2], count = 0;
    for (int i = 0; i < x->rank; i++)
        if (chance(d, 0.5))
            axes[count++] = chance(d, 0.5) ? i : i - x->rank;
    if (d->rows && x->rank && x->dims[0] == d->rows && chance(d, 0.7)) {
        axes[0] = 0; /* the batch axis only */
        count = 1;
    }
    bool some = count > 0, keeps = chance(d, 0.4);
    if (some && keeps)
        axes[count++] = BT_KEEP;
    axes[count] = BT_END;
    bool empty = bt_tensor_count(x) == 0;
    if (empty || chance(d, 0.7))
        keep(d, (bt_sum)(x, axes), b * (double)bt_tensor_count(x));
    else
        keep(d, (bt_max)(whole_numbers(d) ? bt_stop(x) : x, axes), b); /* ties share the derivative */
}

static void draw_view(draw *d)
{
    double b;
    bt_tensor *x = pick(d, &b);
    int64_t list[BT_MAX_RANK + 2];
    int axis = x->rank ? below(d, x->rank) : 0;
    int64_t from, to;
    switch (below(d, 6)) {
    case 0:
        keep(d, bt_reshape(x, bt_tensor_count(x)), b);
        break;
    case 1: /* rotate the axes, or swap two of them */
        for (int i = 0; i < x->rank; i++)
            list[i] = (i + axis) % x->rank;
        list[x->rank] = BT_END;
        keep(d, (bt_permute)(x, list), b);
        break;
    case 2:
        if (x->rank) {
            from = below(d, x->dims[axis] + 1);
            to = from + below(d, x->dims[axis] - from + 1);
            keep(d, bt_slice(x, axis, from, to), b);
        }
        break;
    case 3:
        if (x->rank < 3)
            keep(d, bt_unsqueeze(x, below(d, x->rank + 1)), b);
        break;
    case 4:
        if (x->rank < 3) {
            int64_t dims[BT_MAX_RANK];
            int places[BT_MAX_RANK], at = below(d, x->rank + 1);
            for (int i = 0; i <= x->rank; i++)
                dims[i] = i == at ? 1 + below(d, 3) : x->dims[i < at ? i : i - 1];
            for (int i = 0; i < x->rank; i++)
                places[i] = i < at ? i : i + 1;
            keep(d, bt_broadcast(x, x->rank + 1, dims, places), b);
        }
        break;
    default:
        if (x->rank == 2 && x->dims[0] * x->dims[1] > 0)
            keep(d, bt_reshape(x, x->dims[1], x->dims[0]), b);
    }
}

static void draw_join(draw *d)
{
    double a, b;
    bt_tensor *x = pick(d, &a), *y;
    if (!x->rank)
        x = bt_reshape(x, 1);
    int axis = below(d, x->rank);
    b = a;
    y = bt_broadcast_like(partner(d, x, &b), x);
    if (chance(d, 0.6))
        keep(d, bt_concat(axis, x, y), fmax(a, b));
    else
        keep(d, bt_pad_axis(x, axis, below(d, 2), x->dims[axis] + 1 + below(d, 2)), a);
}

static void draw_product(draw *d)
{
    double a, b;
    bt_tensor *x = pick(d, &a);
    if (x->rank < 2)
        return;
    for (int tries = 0; tries < 12; tries++) {
        bt_tensor *y = pick(d, &b);
        if (y->rank < 2 || (y->rank > 2 && (y->rank != x->rank || y->dims[0] != x->dims[0])))
            continue;
        if (y->dims[y->rank - 2] == x->dims[x->rank - 1]) {
            keep(d, bt_matmul(x, y), a * b * (double)x->dims[x->rank - 1]);
            return;
        }
    }
    keep(d, bt_matmul(x, bt_transpose(x)), a * a * (double)x->dims[x->rank - 1]);
}

static void draw_rows(draw *d)
{
    double b;
    bt_tensor *x = pick(d, &b);
    if (!x->rank || x->dims[0] < 2)
        return;
    if (chance(d, 0.6))
        keep(d, bt_gather(x, d->index), b);
    else if (x->dims[0] >= 3)
        keep(d, bt_scatter_add(d->index, bt_slice(x, 0, 0, 3), 2 + below(d, 2)), 3 * b);
}

static void draw_identity(draw *d)
{
    double b;
    bt_tensor *x = pick(d, &b);
    switch (below(d, d->what & RANDOM_SMOOTH ? 4 : 5)) {
    case 0:
        keep(d, bt_detach(x), b);
        break;
    case 1:
        keep(d, bt_alias(x), b);
        break;
    case 2:
        keep(d, bt_copy(x), b);
        break;
    case 3:
        keep(d, bt_dropout(x, whole_numbers(d) ? 0.5 : 0.4), 2 * b);
        break;
    default:
        keep(d, bt_stop(x), b);
    }
}

static void draw_linear(draw *d, bt_tensor *x, double b)
{
    if (x->rank < 1 || bt_tensor_count(x) == 0)
        return;
    bt_tensor *rows = bt_reshape(x, -1, x->dims[x->rank - 1]);
    bt_tensor *weight = whole_numbers(d) ? bt_clamp(rows, -1, 1) : bt_tanh(rows), *bias = bt_sum(weight, 1);
    keep(d, bt_linear(x, weight, bias, chance(d, 0.5)), b * (double)x->dims[x->rank - 1] + 20);
}

static void draw_composite(draw *d)
{
    double a, b;
    bt_tensor *x = pick(d, &a), *y;
    b = a;
    bool some = bt_tensor_count(x) > 0;
    switch (whole_numbers(d) ? 3 + 2 * below(d, 2) : below(d, 8)) {
    case 0:
        if (x->rank && some)
            keep(d, bt_softmax(x, below(d, x->rank)), 1);
        break;
    case 1:
        if (x->rank && some)
            keep(d, bt_log_softmax(x, -1), 2 * a + 5);
        break;
    case 2:
        if (x->rank && some) {
            bt_tensor *first = bt_sum(bt_tanh(x), 0, BT_KEEP);
            bt_tensor *scale = bt_slice(bt_reshape(first, -1), 0, 0, 1);
            scale = bt_broadcast(bt_reshape(scale), 1, &x->dims[x->rank - 1], NULL);
            keep(d, bt_layer_norm(x, scale, bt_sin(scale), 0.1), 40);
        }
        break;
    case 3:
        keep(d, bt_norm_square(x), a * a * (double)bt_tensor_count(x));
        break;
    case 4:
        keep(d, chance(d, 0.5) ? bt_gelu(x) : bt_softplus(x), a + 1);
        break;
    case 5:
        draw_linear(d, x, a);
        break;
    case 6:
        y = bt_broadcast_like(partner(d, x, &b), x);
        y = bt_apply(&random_blend, NULL, x, y);
        keep(d, y, 1);
        keep(d, &y->node->out[1], a * (double)bt_tensor_count(x));
        break;
    default:
        keep(d, bt_apply(&random_fold, NULL, x), 2 * a);
    }
}

static void draw_gradient(draw *d)
{
    double a, b;
    bt_tensor *y = pick(d, &a), *x = pick(d, &b);
    if (whole_numbers(d)) {
        keep(d, bt_clamp(bt_grad(bt_sum(bt_square(y)), x), -3, 3), 3);
        return;
    }
    keep(d, bt_tanh(bt_mul(0.125, bt_grad(bt_sum(bt_sin(y)), x))), 1);
}

static void draw_op(draw *d)
{
    static void (*const families[])(draw *) = {draw_unary,    draw_unary,     draw_binary,    draw_binary,
                                               draw_binary,   draw_reduction, draw_view,      draw_view,
                                               draw_view,     draw_join,      draw_product,   draw_rows,
                                               draw_identity, draw_composite, draw_composite, draw_gradient};
    int count = BT_COUNT_OF(families);
    if (!(d->what & RANDOM_GRADIENTS))
        count -= d->what & RANDOM_COMPOSITES ? 1 : 3;
    families[below(d, count)](d);
}

/* ---- variables ---- */

static bt_var *add_var(draw *d, bt_var *var)
{
    scene_own(d->s, var);
    double values[LARGEST * 2];
    int64_t count = bt_array_count(bt_var_array(var));
    ck_assert_int_le(count, BT_COUNT_OF(values));
    for (int64_t i = 0; i < count; i++)
        values[i] = whole_numbers(d) ? below(d, 7) - 3 : 2 * uniform(d) - 1;
    var_set(var, values);
    return var;
}

/* A block of three windows with gaps between them, and three variables of their own: s->vars[0 .. 6], the block first;
 * then the index and the record. */
static void draw_variables(draw *d)
{
    char name[32];
    bt_array shapes[6];
    size_t offset[3], total = 0;
    for (int i = 0; i < 6; i++) {
        shapes[i] = (bt_array){.dtype = d->dtype, .rank = i == 3 ? 0 : 1 + below(d, 3)};
        for (int k = 0; k < shapes[i].rank; k++)
            shapes[i].dims[k] = chance(d, 0.03) ? 0 : 1 + below(d, 4);
        if (i >= 4 && d->rows)
            shapes[i] = (bt_array){.dtype = d->dtype, .rank = i - 3, .dims = {d->rows, i == 5 ? 1 + below(d, 3) : 0}};
        if (i < 3) {
            offset[i] = total;
            total += bt_align_up(bt_array_bytes(shapes[i]));
        }
    }
    bt_array flat = {.dtype = d->dtype, .rank = 1, .dims = {(int64_t)(total / bt_dtype_size(d->dtype))}};
    bt_var *block = scene_own(d->s, bt_var_new(BT_RUN, BT_PARAMETERS, "", "block", flat));
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "%s%d", i < 3 ? "window" : "var", i);
        bt_var *var = add_var(d, i < 3 ? bt_var_window(block, offset[i], name, shapes[i])
                                       : bt_var_new(BT_RUN, BT_BUFFERS, "", name, shapes[i]));
        if (i < 3)
            var->tail = bt_align_up(var->bytes) - var->bytes;
    }
    d->index = bt_trace_read(scene_var(d->s, "index", BT_I32, (const double[]){1, 0, 1}, (const int64_t[]){3, BT_END}));
    d->s->trace.record =
        scene_var(d->s, "record", BT_I64, (const double[]){(double)(d->seed % 1000)}, (const int64_t[]){BT_END});
    d->s->trace.seed = d->seed;
    for (int i = 0; i < 7; i++)
        keep(d, bt_trace_read(d->s->vars[i]), 1);
}

/* x in the shape of the variable: cut if it is too large; if it is too small, one number repeated. */
static bt_tensor *fit(bt_tensor *x, const bt_var *var, bool whole)
{
    int64_t count = bt_array_count(bt_var_array(var));
    if (bt_tensor_count(x) < count)
        return bt_broadcast(whole ? bt_clamp(bt_sum(x), -3, 3) : bt_tanh(bt_sum(x)), var->rank, var->dims, NULL);
    bt_tensor *flat = bt_slice(bt_reshape(x, bt_tensor_count(x)), 0, 0, count);
    return reshape_to(flat, var->rank, var->dims);
}

static void draw_assigns(draw *d)
{
    bool whole = chance(d, 0.25);
    bt_tensor *again = NULL;
    for (int i = 0; i < 7; i++) {
        if ((i == 0) != whole && i < 4 && (i == 0 || whole))
            continue;
        if (!chance(d, 0.7))
            continue;
        double b;
        bt_var *var = d->s->vars[i];
        bt_tensor *x = pick(d, &b);
        if (chance(d, 0.3)) /* the old value of a variable, read as some view */
            x = bt_trace_read(d->s->vars[below(d, 7)]);
        if (chance(d, 0.2) && x->rank)
            x = (bt_permute)(x, x->rank == 3   ? (const int64_t[]){2, 0, 1, BT_END}
                                : x->rank == 2 ? (const int64_t[]){1, 0, BT_END}
                                               : (const int64_t[]){0, BT_END});
        if (chance(d, 0.3)) /* an update: the usual case of writing in place */
            x = bt_sub(bt_trace_read(var), bt_mul(whole_numbers(d) ? 2 : 0.1, fit(x, var, whole_numbers(d))));
        if (again && chance(d, 0.2))
            x = again;
        again = x;
        bt_graph_assign(d->s->graph, var, fit(x, var, whole_numbers(d)));
    }
}

void random_graph(scene *s, uint64_t seed, bt_dtype dtype, int nodes, unsigned what)
{
    random_graph_of_rows(s, seed, dtype, nodes, what, 0);
}

void random_graph_of_rows(scene *s, uint64_t seed, bt_dtype dtype, int nodes, unsigned what, int64_t rows)
{
    draw d = {.s = s, .seed = seed, .dtype = dtype, .what = what, .rows = rows};
    scene_begin(s, dtype);
    draw_variables(&d);
    int64_t first = s->graph->node_count;
    for (int tries = 0; tries < 4 * nodes && s->graph->node_count < first + nodes; tries++)
        draw_op(&d);
    if (what & RANDOM_ASSIGNS)
        draw_assigns(&d);
    int results = 1 + below(&d, 4);
    for (int i = 0; i < results; i++) {
        double b;
        bt_graph_output(s->graph, pick(&d, &b));
    }
    scene_end(s);
}
