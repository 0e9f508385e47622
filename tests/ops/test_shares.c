/* The sharding rules of the op records: every case of every op, on ranks that hold their own rows of an operand along
 * some axis, or summands of it, gives the values of one rank. */
#include "cases.h"

#include "ops/ops.h"
#include "runtime/variable.h"
#include "support/ranks.h"
#include "support/scene.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static setup s;
static ranks r;
static int runs, gathered; /* runs with a gathered value */

/* The case on variables, with its outputs assigned to variables of a phase whose layout is not known yet. */
static void begin(const op_case *c)
{
    setup_begin(&s, c, c->op);
    ck_assert_msg(s.node != NULL, "%s: %s", c->name, s.graph->message);
    for (int o = 0; o < s.node->outputs; o++) {
        bt_var *var = bt_var_new(BT_PHASE, BT_BUFFERS, "", "result", bt_tensor_array(s.out[o]));
        ck_assert_ptr_nonnull(var);
        s.vars[s.var_count++] = var;
        bt_graph_assign(s.graph, var, s.out[o]);
    }
}

/* If a rank's own graph has no collective, the kernels compute the same on it, also with one row or none. */
static void run_alone(const op_case *c, int rank)
{
    bt_graph *own = r.graphs[rank];
    int64_t count = 0;
    for (int64_t n = 0; n < own->node_count; n++)
        if (bt_op_flags(own->nodes[n]->op) & (BT_OP_COLLECTIVE | BT_OP_EFFECT))
            return;
    const int64_t assigns = own->assign_count;
    own->assign_count = 0;
    for (int64_t i = 0; i < assigns; i++)
        bt_graph_output(own, own->assigns[i].value);
    double *found = run_once(own);
    for (int64_t i = 0; i < assigns; i++) {
        const bt_tensor *x = own->assigns[i].value;
        for (int64_t k = 0; k < bt_tensor_count(x); k++, count++) {
            double right = interpreter_value(r.values[rank], x)[k];
            ck_assert_msg(fabs(found[count] - right) <= 1e-5 * fmax(1, fabs(right)),
                          "%s: rank %d: result %d [%d]: %.17g, must be %.17g", c->name, rank, (int)i, (int)k,
                          found[count], right);
        }
    }
    own->assign_count = assigns;
    free(found);
}

/* On `count` ranks, with these layouts of the operands. */
static void try(const op_case *c, const bt_spread *spreads, int count, const char *how)
{
    char name[400];
    begin(c);
    ranks_begin(&r, s.graph, count);
    for (int i = 0; i < c->sample.inputs; i++)
        ranks_spread(&r, s.vars[i], spreads[i]);
    ranks_shard(&r);
    ranks_run(&r);
    snprintf(name, sizeof name, "%s, %s, %d ranks", c->name, how, count);
    ranks_expect_whole(&r, 1e-12, name);
    runs++;
    gathered += r.reports[0].place_count > 0;
    if (count == 3)
        run_alone(c, runs % 3);
    ranks_free(&r);
    setup_end(&s);
}

static void try_ranks(const op_case *c, const bt_spread *spreads, const char *how)
{
    for (int count = 1; count <= 3; count++)
        try(c, spreads, count, how);
}

/* Operand i divided along each of its axes, into rows of one element and of two; alone, and together with all operands
 * of the same length along it. */
static void try_axes(const op_case *c, int i, bool together)
{
    for (int axis = 0; axis < c->shape[i].rank; axis++)
        for (int64_t each = 1; each <= 2; each++) {
            const int64_t size = c->shape[i].dims[axis];
            bt_spread spreads[CASE_INPUTS] = {{.kind = BT_REPLICATED}};
            char how[80];
            if (!size || size % each)
                continue;
            int along = 0;
            for (int k = 0; k < c->sample.inputs; k++)
                if (k == i || (together && axis < c->shape[k].rank && c->shape[k].dims[axis] == size)) {
                    spreads[k] = (bt_spread){.kind = BT_SHARDED, .axis = axis, .rows = size / each};
                    along++;
                }
            snprintf(how, sizeof how, "%s %d along %d, %d each", together ? "all like" : "operand", i, axis, (int)each);
            if (along > 1 || !together)
                try_ranks(c, spreads, how);
        }
}

static bool adds(const op_case *c, int i)
{
    return bt_dtype_floats(c->shape[i].dtype) && !bt_dtype_half(c->shape[i].dtype);
}

/* Each operand, and then all of them, as partial sums. */
static void try_summands(const op_case *c)
{
    bt_spread all[CASE_INPUTS] = {{.kind = BT_REPLICATED}};
    for (int i = 0; i < c->sample.inputs; i++) {
        bt_spread one[CASE_INPUTS] = {{.kind = BT_REPLICATED}};
        char how[80];
        if (!adds(c, i))
            continue;
        all[i] = one[i] = (bt_spread){.kind = BT_PARTIAL};
        snprintf(how, sizeof how, "operand %d as summands", i);
        try_ranks(c, one, how);
    }
    try_ranks(c, all, "all as summands");
}

/* The number of these runs in which a value is gathered: as for cumsum along its own axis, for a convolution's window
 * divided by channels, or for an optimiser's operands. For all other ops: none. */
static const struct {
    const char *op;
    int runs;
} gathers[] = {
    {"stochastic_round", 8},
    {"argmax", 16},
    {"reshape", 18},
    {"broadcast", 4},
    {"slice", 18},
    {"pad", 14},
    {"concat", 28},
    {"gather", 20},
    {"argsort", 40},
    {"take_along", 16},
    {"cumsum", 16},
    {"dot", 24},
    {"dot_add", 32},
    {"conv", 422},
    {"conv_dx", 526},
    {"conv_dw", 416},
    {"print", 2},
    {"dropout", 2},
    {"softmax", 16},
    {"softmax_grad", 56},
    {"log_softmax", 16},
    {"cross_entropy", 10},
    {"cross_entropy_grad", 8},
    {"linear", 312},
    {"solve", 70},
    {"logdet", 16},
    {"conv_bias", 504},
    {"layer_norm", 84},
    {"layer_norm_grad", 88},
    {"layer_norm_dot", 88},
    {"attention", 278},
    {"channel_dot", 50},
    {"channel_mix", 302},
    {"channel_norm", 194},
    {"window_sum", 112},
    {"window_spread", 112},
    {"window_max", 74},
    {"window_gather", 56},
    {"window_scatter", 80},
    {"resample", 80},
    {"scales", 14},
    {"encode", 46},
    {"decode", 40},
    {"adam8bit_update", 288},
    {"lion8bit_update", 100},
};

static int expected_gathers(const bt_op *op)
{
    int expected = 0;
    for (int i = 0; i < BT_COUNT_OF(gathers); i++)
        expected += strcmp(gathers[i].op, op->name) == 0 ? gathers[i].runs : 0;
    return expected;
}

START_TEST(test_parts)
{
    const bt_op *op = bt_op_table[_i];
    if (bt_op_flags(op) & (BT_OP_LEAF | BT_OP_COLLECTIVE))
        return;
    case_list list = cases_of(op, BT_F64);
    runs = gathered = 0;
    for (int k = 0; k < list.count; k++) {
        for (int i = 0; i < list.cases[k].sample.inputs; i++) {
            try_axes(&list.cases[k], i, false);
            try_axes(&list.cases[k], i, true);
        }
        try_summands(&list.cases[k]);
    }
    cases_free(&list);
    ck_assert_msg(gathered == expected_gathers(op), "%s: gathered in %d of %d runs, not in %d", op->name, gathered,
                  runs, expected_gathers(op));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shares");
    TCase *parts = tcase_create("parts");
    tcase_set_timeout(parts, 120);
    tcase_add_loop_test(parts, test_parts, 0, op_count());
    suite_add_tcase(suite, parts);
    return run_suite(suite);
}
