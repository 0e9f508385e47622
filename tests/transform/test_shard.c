/* Graphs on several ranks: how each value is laid out, what is sent, and that the values match those of one rank. */
#include "support/random_graph.h"
#include "support/ranks.h"

#include "runtime/variable.h"
#include "support/suite.h"
#include "transform/grad.h"
#include "transform/inline.h"
#include "transform/simplify.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static scene s;
static ranks r;

static _Alignas(64) char pool[1 << 16]; /* memory for bound variables */
static size_t taken;

static void setup(void) { scene_begin(&s, BT_F64); }

/* Zeroed memory. */
static char *memory(size_t bytes)
{
    char *place = pool + taken;
    taken += (bytes + 63) / 64 * 64;
    ck_assert_uint_le(taken, sizeof pool);
    return place;
}

static void teardown(void)
{
    ranks_free(&r);
    scene_free(&s);
}

/* A batch bound by the caller, with rows along axis 0. */
static bt_tensor *batch(const char *name, int64_t rows, int64_t columns, const double *values)
{
    bt_array shape = {.dtype = BT_F64, .rank = columns ? 2 : 1, .dims = {rows, columns}};
    bt_var *var = scene_own(&s, bt_var_new(BT_EXTERNAL, BT_BATCH, "", name, shape));
    var->data = memory(var->bytes);
    var_set(var, values);
    bt_tensor *x = bt_graph_read(s.graph, var);
    x->batch_axis = 0;
    return x;
}

/* Lowers the graph as the compiler does before sharding. */
static void lower(void)
{
    scene_end(&s);
    bt_graph *inlined = bt_inline(s.graph, NULL, NULL), *simple = inlined ? bt_simplify(inlined, true) : NULL;
    ck_assert_ptr_nonnull(simple);
    bt_graph_free(inlined);
    bt_graph_free(s.graph);
    s.graph = simple;
}

/* mean(x w + b): the cotangent is one number repeated, without a visible batch axis. */
START_TEST(the_mean_of_a_line)
{
    static const double rows[] = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89}, weights[] = {2, -1}, none[] = {0};
    bt_tensor *x = batch("x", 5, 2, rows), *w = scene_read(&s, "w", weights, (const int64_t[]){2, 1, BT_END}),
              *b = scene_read(&s, "b", none, (const int64_t[]){1, BT_END});
    bt_tensor *loss = bt_mean(bt_add(bt_matmul(x, w), b));
    bt_graph_output(s.graph, bt_grad(loss, w));
    bt_graph_output(s.graph, bt_grad(loss, b));
    lower();
    ranks_begin(&r, s.graph, 1 + _i);
    ranks_shard(&r);
    ranks_run(&r);
    EXPECT_VALUES(ranks_output(&r, 0), 1e-15, 17.6, 28.6);
    EXPECT_VALUES(ranks_output(&r, 1), 1e-15, 1);
    ranks_expect_whole(&r, 1e-14, "line");
    ck_assert_int_eq(r.reports[0].gathers, 0);
    ck_assert_int_eq(r.reports[0].reduced, _i ? 2 : 0); /* the gradient of b is a number that all ranks know */
}
END_TEST

static void run(int count)
{
    lower();
    ranks_begin(&r, s.graph, count);
    ranks_shard(&r);
    ranks_run(&r);
}

static double *drawn(int64_t count)
{
    static double values[1024];
    ck_assert_int_le(count, 1024);
    for (int64_t i = 0; i < count; i++)
        values[i] = 2 * bt_host_uniform(5, 1, (uint64_t)i) - 1;
    return values;
}

/* The gradient of a linear model's mean loss: the elements sent are the weights, and one for the loss. */
START_TEST(what_a_linear_model_sends)
{
    const int count = 2 + _i % 4;
    bt_tensor *x = batch("x", 1 + _i, 3, drawn(3 * (1 + _i))), *y = batch("y", 1 + _i, 2, drawn(2 * (1 + _i)));
    bt_tensor *w = scene_read(&s, "w", drawn(6), (const int64_t[]){3, 2, BT_END}),
              *b = scene_read(&s, "b", drawn(2), (const int64_t[]){2, BT_END});
    bt_tensor *loss = bt_mean(bt_mse(bt_add(bt_matmul(x, w), b), y));
    bt_graph_output(s.graph, bt_grad(loss, w));
    bt_graph_output(s.graph, bt_grad(loss, b));
    if (_i % 2)
        bt_graph_output(s.graph, loss);
    run(count);
    ranks_expect_whole(&r, 1e-14, "linear model");
    ck_assert_int_eq(r.reports[0].reduced, 8 + _i % 2);
    ck_assert_int_eq(r.reports[0].reductions, 2 + _i % 2);
    ck_assert_int_eq(r.reports[0].gathers, 0);
}
END_TEST

/* A gradient used in a step, a norm and a momentum is sent once. */
START_TEST(a_gradient_is_sent_once)
{
    bt_tensor *x = batch("x", 5, 3, drawn(15)), *w = scene_read(&s, "w", drawn(3), (const int64_t[]){3, 1, BT_END});
    bt_tensor *m = scene_read(&s, "m", drawn(3), (const int64_t[]){3, 1, BT_END});
    bt_tensor *g = bt_grad(bt_mean(bt_square(bt_matmul(x, w))), w), *norm = bt_norm_square(g);
    bt_tensor *momentum = bt_add(bt_mul(0.9, m), g);
    bt_graph_assign(s.graph, s.vars[1], bt_sub(w, bt_mul(0.1, bt_div(momentum, bt_add(norm, 1)))));
    bt_graph_assign(s.graph, s.vars[2], momentum);
    run(3);
    ranks_expect_whole(&r, 1e-14, "one gradient");
    ck_assert_int_eq(r.reports[0].reduced, 3);
    ck_assert_int_eq(ranks_found(&r, s.vars[1]).kind, BT_REPLICATED);
}
END_TEST

/* R20: v is the gradient of the mean, and so is the value it is multiplied by: the product of means. With each rank's
 * own v it would be 5, without reduction 1 and 9, with a sum instead of the mean 10. */
START_TEST(the_product_of_means)
{
    static const double rows[] = {1, 3};
    bt_tensor *a = batch("a", 2, 0, rows), *x = SCALAR(&s, "x", 1), *u = SCALAR(&s, "u", 1);
    bt_tensor *v = bt_grad(bt_mean(bt_mul(a, x)), x);
    bt_tensor *lower_slope = bt_grad(bt_mean(bt_mul(a, bt_mul(u, x))), x);
    bt_graph_output(s.graph, bt_grad(bt_mul(bt_detach(v), lower_slope), u));
    run(2);
    EXPECT_VALUES(ranks_output(&r, 0), 0, 4);
}
END_TEST

/* ---- random numbers ---- */

/* The draws for a row do not depend on the number of ranks: bit for bit, and nothing is gathered. */
START_TEST(masks)
{
    static const bt_dtype dtypes[] = {BT_F32, BT_F64};
    const int64_t rows = 1 + _i % 7;
    const bt_dtype dtype = dtypes[_i % 2];
    s.trace.seed = 77;
    s.trace.record = scene_var(&s, "record", BT_I64, (const double[]){(double)_i}, (const int64_t[]){BT_END});
    bt_tensor *x = bt_as(batch("x", rows, 3, drawn(3 * rows)), dtype);
    bt_tensor *y = bt_add(bt_dropout(x, 0.3), bt_mul(0.5, bt_normal_like(x)));
    bt_tensor *wide = bt_reshape(y, 1, 3 * rows, 1);
    bt_array shape = bt_tensor_array(y);
    bt_var *kept = scene_own(&s, bt_var_new(BT_PHASE, BT_BUFFERS, "", "kept", shape));
    bt_graph_assign(s.graph, kept, y);
    bt_graph_output(s.graph, bt_sum(bt_dropout(wide, 0.6), 0, 1, 2));
    run(2 + _i % 3);
    ck_assert_int_eq(ranks_found(&r, kept).kind, BT_SHARDED);
    ck_assert_int_eq(r.reports[0].gathers, 0);
    s.graph->output_count = 0; /* a sum of them changes with the order */
    ranks_expect_whole(&r, 0, "masks");
}
END_TEST

/* Along another axis a rank's part is not contiguous in the random sequence: all numbers are drawn, and the rank's own
 * rows are taken. */
START_TEST(masks_across)
{
    s.trace.seed = 78;
    s.trace.record = scene_var(&s, "record", BT_I64, (const double[]){3}, (const int64_t[]){BT_END});
    bt_tensor *x = bt_transpose(batch("x", 5, 3, drawn(15))), *y = bt_mul(x, bt_normal_like(x));
    bt_var *kept = scene_own(&s, bt_var_new(BT_PHASE, BT_BUFFERS, "", "kept", bt_tensor_array(y)));
    bt_graph_assign(s.graph, kept, y);
    bt_graph_output(s.graph, bt_dropout(x, 0.5));
    run(3);
    ck_assert_int_eq(ranks_found(&r, kept).axis, 1);
    ck_assert_int_eq(r.reports[0].place_count, 1); /* dropout's operand */
    ranks_expect_whole(&r, 0, "masks across");
}
END_TEST

/* ---- batch norm ---- */

/* Statistics of the whole batch, with the same bits on all ranks, even if some have no rows; and derivatives. */
START_TEST(batch_norm)
{
    enum { C = 3 };
    const int64_t rows = 1 + _i / 5;
    const int count = 1 + _i % 5;
    const double *values = drawn(rows * C);
    double mean[C], variance[C];
    bt_tensor *x = bt_add(batch("x", rows, C, values), 3), *m, *v;
    bt_tensor *scale = scene_read(&s, "scale", drawn(C), (const int64_t[]){C, BT_END});
    bt_tensor *y = bt_batch_norm(x, 1, scale, NULL, 0.1, &m, &v), *loss = bt_mean(bt_mul(bt_sin(y), x));
    bt_graph_output(s.graph, m);
    bt_graph_output(s.graph, v);
    bt_graph_output(s.graph, bt_grad(loss, scale));
    bt_graph_output(s.graph, bt_grad(bt_sum(bt_square(bt_grad(loss, scale))), scale));
    bt_graph_output(s.graph, y);
    for (int c = 0; c < C; c++) {
        mean[c] = variance[c] = 0;
        for (int64_t i = 0; i < rows; i++)
            mean[c] += (values[i * C + c] + 3) / (double)rows;
        for (int64_t i = 0; i < rows; i++)
            variance[c] += pow(values[i * C + c] + 3 - mean[c], 2) / (double)rows;
    }
    run(count);
    expect_values(__FILE__, __LINE__, ranks_output(&r, 0), mean, C, 1e-12);
    expect_values(__FILE__, __LINE__, ranks_output(&r, 1), variance, C, 1e-12);
    ranks_expect_whole(&r, 1e-12, "batch norm");
    if (count > 1)
        ck_assert_int_eq(r.reports[0].place_count, 1); /* y itself, which is an output */
}
END_TEST

/* Groups of rows, G = 4. If every rank has the same number of whole groups, its own statistics are enough: only the two
 * gradients of the scale are sent. Otherwise, even if some ranks have none, the numbers are the same, and row inputs
 * are sent once: x, and x over the number of elements, from which the gradient is computed. */
START_TEST(batch_norm_of_groups)
{
    enum { C = 3, ROWS = 12, GROUPS = 4 };
    const int count = 1 + _i;
    bt_tensor *x = bt_add(batch("x", ROWS, C, drawn(ROWS * C)), 3), *m, *v;
    bt_tensor *scale = scene_read(&s, "scale", drawn(C), (const int64_t[]){C, BT_END});
    bt_tensor *y = bt_batch_norm(x, GROUPS, scale, NULL, 0.1, &m, &v), *loss = bt_mean(bt_mul(bt_sin(y), x));
    ck_assert_int_eq(y->batch_axis, -1); /* each row depends on others */
    bt_var *kept = scene_own(&s, bt_var_new(BT_PHASE, BT_BUFFERS, "", "kept", bt_tensor_array(y)));
    bt_var *means = scene_own(&s, bt_var_new(BT_PHASE, BT_BUFFERS, "", "means", bt_tensor_array(m)));
    bt_graph_assign(s.graph, kept, y);
    bt_graph_assign(s.graph, means, bt_mul(m, v));
    bt_graph_output(s.graph, bt_grad(loss, scale));
    bt_graph_output(s.graph, bt_grad(bt_sum(bt_square(bt_grad(loss, scale))), scale));
    run(count);
    ranks_expect_whole(&r, 1e-12, "batch norm of groups");
    ck_assert_int_eq(ranks_found(&r, kept).kind, count > 1 ? BT_SHARDED : BT_REPLICATED);
    ck_assert_int_eq(ranks_found(&r, means).kind, count > 1 ? BT_SHARDED : BT_REPLICATED);
    ck_assert_int_eq(r.reports[0].reduced, count > 1 ? 2 * C : 0);
    ck_assert_int_eq(r.reports[0].gathered, GROUPS % count ? 2 * ROWS * C : 0);
}
END_TEST

/* ---- variables of a phase ---- */

static bt_var *of_phase(const char *name, const bt_tensor *like, bool clear)
{
    bt_var *var = scene_own(&s, bt_var_new(BT_PHASE, BT_VECTORS, "", name, bt_tensor_array(like)));
    var->clear = clear;
    var->data = memory(var->bytes);
    return var;
}

/* A variable that is assigned once is reduced at once, as it may be read often. Sums of several batches' gradients are
 * reduced once, when they are read; saved rows stay with their rank. */
START_TEST(accumulated)
{
    bt_tensor *x = batch("x", 5, 3, drawn(15)), *w = scene_read(&s, "w", drawn(3), (const int64_t[]){3, 1, BT_END});
    bt_tensor *h = bt_tanh(bt_matmul(x, w));
    bt_var *sum = of_phase("sum", w, true), *saved = of_phase("saved", h, false), *v = of_phase("v", w, false);
    bt_graph_assign(s.graph, v, bt_grad(bt_mean(bt_square(h)), w));
    bt_graph_assign(s.graph, sum, bt_add(bt_graph_read(s.graph, sum), bt_grad(bt_mean(h), w)));
    bt_graph_assign(s.graph, saved, h);
    run(3);
    ck_assert_int_eq(ranks_found(&r, sum).kind, BT_PARTIAL);
    ck_assert_int_eq(ranks_found(&r, saved).kind, BT_SHARDED);
    ck_assert_int_eq(ranks_found(&r, saved).rows, 5);
    ck_assert_int_eq(ranks_found(&r, v).kind, BT_REPLICATED);
    ck_assert_int_eq(r.reports[0].reduced + r.reports[0].gathers, 3);
    ranks_expect_whole(&r, 1e-14, "accumulated");
}
END_TEST

/* A program that reads a variable known to be partial reduces it, once. */
START_TEST(read_again)
{
    bt_tensor *w = scene_read(&s, "w", drawn(3), (const int64_t[]){3, 1, BT_END});
    bt_var *sum = of_phase("sum", w, true);
    bt_tensor *read = bt_graph_read(s.graph, sum);
    bt_graph_output(s.graph, bt_sub(w, read));
    bt_graph_output(s.graph, bt_norm_square(read));
    lower();
    ranks_begin(&r, s.graph, 3);
    ranks_spread(&r, sum, (bt_spread){.kind = BT_PARTIAL});
    ranks_shard(&r);
    ranks_run(&r);
    ck_assert_int_eq(r.reports[0].reduced, 3);
    ranks_expect_whole(&r, 1e-14, "read again");
}
END_TEST

/* External data added to a sum is one rank's summand, or each rank's own rows. */
START_TEST(into_a_sum)
{
    bt_tensor *x = batch("x", 5, 2, drawn(10)), *w = scene_read(&s, "w", drawn(3), (const int64_t[]){3, 1, BT_END});
    bt_var *sum = of_phase("sum", w, false), *rows = of_phase("rows", x, false);
    bt_graph_assign(s.graph, sum, bt_mul(2, w));
    bt_graph_assign(s.graph, rows, bt_tanh(x));
    lower();
    ranks_begin(&r, s.graph, 3);
    ranks_spread(&r, sum, (bt_spread){.kind = BT_PARTIAL});
    ranks_spread(&r, rows, (bt_spread){.kind = BT_PARTIAL});
    ranks_shard(&r);
    ranks_run(&r);
    ck_assert_int_eq(r.reports[0].reductions + r.reports[0].gathers, 0);
    ranks_expect_whole(&r, 0, "into a sum");
}
END_TEST

/* A variable that is read before it is assigned is only partial if its new value is. */
START_TEST(not_a_sum)
{
    bt_tensor *x = batch("x", 5, 3, drawn(15)), *w = scene_read(&s, "w", drawn(3), (const int64_t[]){3, 1, BT_END});
    bt_var *state = of_phase("state", w, true), *only_read = of_phase("only read", w, true);
    bt_tensor *before = bt_graph_read(s.graph, state), *g = bt_grad(bt_mean(bt_matmul(x, w)), w);
    bt_graph_assign(s.graph, state, bt_sin(bt_add(before, g)));
    bt_graph_output(s.graph, bt_mul(2, bt_graph_read(s.graph, only_read)));
    run(3);
    ck_assert_int_eq(ranks_found(&r, state).kind, BT_REPLICATED);
    ck_assert_int_eq(ranks_found(&r, only_read).kind, BT_REPLICATED);
    ck_assert_int_eq(r.reports[0].reduced, 3);
    ranks_expect_whole(&r, 1e-14, "not a sum");
}
END_TEST

/* Sums in 16 bits are rounded, and a sum of rounded parts would differ. */
START_TEST(rounded_sums)
{
    bt_tensor *x = batch("x", 5, 3, drawn(15)), *w = scene_read(&s, "w", drawn(3), (const int64_t[]){3, 1, BT_END});
    bt_array shape = {.dtype = BT_BF16, .rank = 2, .dims = {3, 1}};
    bt_var *sum = scene_own(&s, bt_var_new(BT_PHASE, BT_VECTORS, "", "sum", shape));
    sum->clear = true;
    sum->data = memory(sum->bytes);
    bt_tensor *before = bt_cast(bt_trace_read(sum), BT_F64), *g = bt_grad(bt_mean(bt_matmul(x, w)), w);
    bt_graph_assign_as(s.graph, sum, bt_add(before, g));
    bt_graph_output(s.graph, bt_mul(before, 3));
    run(3);
    ck_assert_int_eq(ranks_found(&r, sum).kind, BT_REPLICATED);
    ck_assert_int_eq(r.reports[0].reduced, 3);
    ranks_expect_whole(&r, 1e-14, "rounded sums");
}
END_TEST

/* A block of a phase is assigned window by window: partial if summands are added to all windows, otherwise
 * replicated. */
START_TEST(blocks)
{
    bt_tensor *x = batch("x", 5, 3, drawn(15)), *w = scene_read(&s, "w", drawn(3), (const int64_t[]){3, 1, BT_END});
    bt_tensor *g = bt_grad(bt_mean(bt_square(bt_matmul(x, w))), w), *rows = bt_reshape(bt_matmul(x, w), 5);
    bt_array flat = {.dtype = BT_F64, .rank = 1, .dims = {16}};
    bt_var *sums = scene_own(&s, bt_var_new(BT_PHASE, BT_GRADIENTS, "", "sums", flat));
    bt_var *mixed = scene_own(&s, bt_var_new(BT_PHASE, BT_GRADIENTS, "", "mixed", flat));
    bt_var *windows[4];
    sums->data = memory(sums->bytes);
    for (int i = 0; i < 4; i++)
        windows[i] = scene_own(&s, bt_var_window(i < 2 ? sums : mixed, (size_t)(i % 2) * 64, "window",
                                                 bt_tensor_array(i == 3 ? rows : w)));
    sums->clear = mixed->clear = true;
    bt_tensor *other = bt_grad(bt_mean(bt_sin(bt_matmul(x, w))), w);
    bt_graph_assign(s.graph, windows[0], bt_add(bt_graph_read(s.graph, windows[0]), bt_mul(2, g)));
    bt_graph_assign(s.graph, windows[1], bt_add(bt_graph_read(s.graph, windows[1]), other));
    bt_graph_assign(s.graph, windows[2], bt_mul(3, w));
    bt_graph_assign(s.graph, windows[3], rows);
    run(3);
    ck_assert_int_eq(ranks_found(&r, sums).kind, BT_PARTIAL);
    ck_assert_int_eq(ranks_found(&r, mixed).kind, BT_REPLICATED);
    ck_assert_int_eq(r.reports[0].reductions, 0);
    ck_assert_int_eq(r.reports[0].gathers, 1);
    ranks_expect_whole(&r, 1e-14, "blocks");
}
END_TEST

/* ---- reports, and what is left alone ---- */

START_TEST(places_are_named)
{
    const char *outer = bt_trace_push("encoder");
    bt_tensor *x = batch("x", 5, 2, drawn(10)), *y = bt_cumsum(x, 0);
    bt_trace_pop(outer);
    bt_graph_output(s.graph, bt_mul(2, y));
    bt_graph_output(s.graph, bt_sum(bt_cumsum(x, 0), 1)); /* exists already */
    bt_graph_output(s.graph, bt_tanh(x));
    run(2);
    ck_assert_str_eq(bt_text_get(&r.reports[0].places),
                     "encoder: cumsum: all of operand 1, [5, 2]\na result: all of [5, 2]\n");
    ck_assert_int_eq(r.reports[0].place_count, 2);
    ck_assert_int_eq(r.reports[0].gathered, 20);
    ranks_expect_whole(&r, 1e-15, "places");
}
END_TEST

/* Only rank 0 prints; each rank checks its own rows. */
START_TEST(effects)
{
    bt_tensor *x = batch("x", 5, 2, drawn(10));
    bt_check(bt_less(x, 2), "is small");
    bt_graph_output(s.graph, bt_sum(bt_print(x, "x")));
    lower();
    ranks_begin(&r, s.graph, 3);
    ranks_shard(&r);
    for (int rank = 0; rank < 3; rank++) {
        ck_assert_int_eq(count_op(r.graphs[rank], &bt_op_print), rank == 0);
        ck_assert_int_eq(count_op(r.graphs[rank], &bt_op_check), 1);
        for (int64_t n = 0; n < r.graphs[rank]->node_count; n++)
            if (r.graphs[rank]->nodes[n]->op == &bt_op_check)
                ck_assert_int_eq(r.graphs[rank]->nodes[n]->in[0]->dims[0], rank < 2 ? 2 : 1);
    }
    ck_assert_int_eq(r.reports[0].gathers, 1);
}
END_TEST

START_TEST(one_rank_sends_nothing)
{
    bt_tensor *x = batch("x", 5, 2, drawn(10)), *w = scene_read(&s, "w", drawn(2), (const int64_t[]){2, 1, BT_END});
    bt_graph_output(s.graph, bt_grad(bt_mean(bt_cumsum(bt_matmul(x, w), 0)), w));
    run(1);
    ck_assert_int_eq(r.graphs[0]->node_count, s.graph->node_count);
    ck_assert_int_eq(r.reports[0].reductions + r.reports[0].gathers, 0);
    ranks_expect_whole(&r, 0, "one rank");
}
END_TEST

static bt_var *wrong_local(void *user, bt_var *var)
{
    (void)user;
    return var; /* the whole */
}

static bt_var *no_local(void *user, bt_var *var)
{
    (void)user, (void)var;
    bt_fail(BT_ERROR_MEMORY, "no room");
    return NULL;
}

START_TEST(mistakes_of_the_world)
{
    bt_sharded_report report;
    bt_world world = {.rank = 0, .ranks = 2, .local = _i ? no_local : wrong_local};
    bt_graph_output(s.graph, bt_sum(batch("x", 5, 2, drawn(10))));
    lower();
    ck_assert_ptr_null(bt_shard(s.graph, &world, &report));
    ck_assert_str_eq(bt_error(),
                     _i ? "no room" : "shard: what stands for 'x' on rank 0 has another shape than its part");
    bt_error_clear();
    bt_sharded_free(&report);
}
END_TEST

/* r n / N, rounded up: rank 0 has the most rows, all ranks together have all, and no two differ by more than one. */
START_TEST(shares)
{
    for (int64_t rows = 0; rows < 40; rows++)
        for (int count = 1; count < 12; count++) {
            int64_t most = bt_share_first(rows, 1, count);
            ck_assert_int_eq(bt_share_first(rows, 0, count), 0);
            ck_assert_int_eq(bt_share_first(rows, count, count), rows);
            for (int k = 0; k < count; k++) {
                int64_t own = bt_share_first(rows, k + 1, count) - bt_share_first(rows, k, count);
                ck_assert(own <= most && own >= most - 1);
                ck_assert_int_eq(bt_share_first(rows, k, count), (k * rows + count - 1) / count);
            }
        }
    ck_assert_int_eq(bt_share_first(INT64_MAX, 3, 3), INT64_MAX);
}
END_TEST

/* ---- random graphs ---- */

/* Sums and products of integers are exact if no intermediate value is larger than this. */
static bool stays_exact(void)
{
    interpreter *in = interpreter_new(s.graph);
    bool exact = true;
    interpreter_run(in);
    for (int64_t n = 0; n < s.graph->node_count; n++)
        for (int o = 0; o < s.graph->nodes[n]->outputs; o++) {
            const bt_tensor *x = &s.graph->nodes[n]->out[o];
            for (int64_t i = 0; i < bt_tensor_count(x); i++)
                exact = exact && fabs(interpreter_value(in, x)[i]) < 0x1p40;
        }
    interpreter_free(in);
    return exact;
}

static void begin_random(int seed, unsigned what, char *name)
{
    static const int counts[] = {2, 3, 4, 5, 8, 1};
    const int count = counts[seed % 6];
    const int64_t rows = 1 + seed / 6 % 17;
    scene_free(&s);
    random_graph_of_rows(&s, (uint64_t)seed + 1, BT_F64, 40, what, rows);
    lower();
    sprintf(name, "seed %d, %d rows on %d ranks", seed + 1, (int)rows, count);
    ranks_begin(&r, s.graph, count);
    for (int v = 5; v <= 6; v++)
        ranks_spread(&r, s.vars[v], (bt_spread){.kind = BT_SHARDED, .axis = 0, .rows = rows});
}

/* Some of the other variables, and blocks, are laid out as stretches, so that every op meets them, in every place. */
static void stretch_some(int seed)
{
    unsigned long drawn = (unsigned long)seed * 2654435761u;
    r.window = seed % 2 ? 0 : 1 << 20;
    for (int v = 0; v < s.count && r.count > 1; v++) {
        const bt_var *root = s.vars[v];
        const int64_t count = bt_array_count(bt_var_array(root)), each = count % 2 ? 1 : 2;
        drawn = drawn * 6364136223846793005u + 1442695040888963407u;
        if (root->base || v == 5 || v == 6 || root->lifetime == BT_EXTERNAL || !count || drawn >> 62 < 2)
            continue;
        ranks_spread(&r, s.vars[v], (bt_spread){.kind = BT_STRETCH, .rows = count / each, .of = count});
    }
}

START_TEST(stretches)
{
    char name[80];
    begin_random(_i, RANDOM_ASSIGNS | RANDOM_COMPOSITES | RANDOM_GRADIENTS | RANDOM_SMOOTH, name);
    stretch_some(_i);
    ranks_shard(&r);
    ranks_run(&r);
    ranks_expect_whole(&r, 1e-12, name);
}
END_TEST

START_TEST(stretches_of_whole_numbers)
{
    char name[80];
    begin_random(_i, RANDOM_ASSIGNS | RANDOM_COMPOSITES | RANDOM_GRADIENTS | RANDOM_INTEGERS, name);
    if (!stays_exact())
        return;
    stretch_some(_i);
    ranks_shard(&r);
    ranks_run(&r);
    ranks_expect_whole(&r, 0, name);
}
END_TEST

/* Most random graphs are exact, and they have all kinds of collectives. */
START_TEST(what_is_drawn)
{
    int exact = 0, reduced = 0, gathered = 0;
    for (int seed = 0; seed < 100; seed++) {
        char name[80];
        begin_random(seed, RANDOM_ASSIGNS | RANDOM_COMPOSITES | RANDOM_GRADIENTS | RANDOM_INTEGERS, name);
        exact += stays_exact();
        ranks_shard(&r);
        reduced += r.reports[0].reductions > 0;
        gathered += r.reports[0].gathers > 0;
        ranks_free(&r);
    }
    ck_assert_msg(exact > 90 && reduced > 25 && gathered > 30, "%d exact, %d reduced, %d gathered", exact, reduced,
                  gathered);
}
END_TEST

/* Values and derivatives of any order: bit for bit, also with joined sums: as many as are independent, or a few small
 * ones. */
START_TEST(whole_numbers)
{
    static const size_t buckets[] = {0, 25 << 20, 100};
    char name[80];
    begin_random(_i, RANDOM_ASSIGNS | RANDOM_COMPOSITES | RANDOM_GRADIENTS | RANDOM_INTEGERS, name);
    if (!stays_exact())
        return;
    r.bucket = buckets[_i / 6 % 3];
    ranks_shard(&r);
    ranks_run(&r);
    ranks_expect_whole(&r, 0, name);
}
END_TEST

START_TEST(real_numbers)
{
    char name[80];
    begin_random(_i, RANDOM_ASSIGNS | RANDOM_COMPOSITES | RANDOM_GRADIENTS | RANDOM_SMOOTH, name);
    ranks_shard(&r);
    ranks_run(&r);
    ranks_expect_whole(&r, 1e-12, name);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shard");
    TCase *tests = tcase_create("shard");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, the_mean_of_a_line, 0, 5);
    tcase_add_loop_test(tests, what_a_linear_model_sends, 0, 12);
    tcase_add_test(tests, a_gradient_is_sent_once);
    tcase_add_test(tests, the_product_of_means);
    tcase_add_loop_test(tests, masks, 0, 42);
    tcase_add_test(tests, masks_across);
    tcase_add_loop_test(tests, batch_norm, 0, 45);
    tcase_add_loop_test(tests, batch_norm_of_groups, 0, 8);
    tcase_add_test(tests, accumulated);
    tcase_add_test(tests, read_again);
    tcase_add_test(tests, into_a_sum);
    tcase_add_test(tests, not_a_sum);
    tcase_add_test(tests, rounded_sums);
    tcase_add_test(tests, blocks);
    tcase_add_test(tests, places_are_named);
    tcase_add_test(tests, effects);
    tcase_add_test(tests, one_rank_sends_nothing);
    tcase_add_loop_test(tests, mistakes_of_the_world, 0, 2);
    tcase_add_test(tests, shares);
    tcase_add_test(tests, what_is_drawn);
    const int graphs = getenv("BT_TEST_ALL") ? 6120 : 306;
    tcase_add_loop_test(tests, whole_numbers, 0, graphs);
    tcase_add_loop_test(tests, real_numbers, 0, graphs);
    tcase_add_loop_test(tests, stretches, 0, graphs);
    tcase_add_loop_test(tests, stretches_of_whole_numbers, 0, graphs);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
