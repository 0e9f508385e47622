/* Programs of several ranks: they reach the same collectives in the order of the graph, whatever a rank's share, the
 * order of its steps, and which steps are rerun. */
#include "support/ranks.h"
#include "support/scene.h"

#include "runtime/variable.h"
#include "support/suite.h"
#include "transform/bucket.h"
#include "transform/grad.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 65, LAYERS = 4, MOST = 64 };

static scene s;
static ranks r;

/* A network with batch norm, whose gradients have a different size in each layer. */
static void record(void)
{
    static const int64_t widths[LAYERS + 1] = {7, 40, 3, 60, 5};
    static double numbers[4000];
    bt_array shape = {.dtype = BT_F64, .rank = 2, .dims = {ROWS, widths[0]}};
    for (int i = 0; i < 4000; i++)
        numbers[i] = bt_host_uniform(3, 1, (uint64_t)i) - 0.5;
    scene_begin(&s, BT_F64);
    bt_var *batch = scene_own(&s, bt_var_new(BT_RUN, BT_BATCH, "", "x", shape));
    var_set(batch, numbers);
    bt_tensor *x = bt_graph_read(s.graph, batch), *weights[LAYERS], *biases[LAYERS];
    x->batch_axis = 0;
    s.trace.tag.level = "net";
    for (int l = 0; l < LAYERS; l++) {
        weights[l] = scene_read(&s, "w", numbers, (const int64_t[]){widths[l], widths[l + 1], BT_END});
        biases[l] = scene_read(&s, "b", numbers, (const int64_t[]){widths[l + 1], BT_END});
        x = bt_matmul(x, weights[l]);
        x = bt_tanh(bt_add(l % 2 ? x : bt_batch_norm(x, 1, NULL, NULL, 0.1, NULL, NULL), biases[l]));
    }
    bt_tensor *loss = bt_mean(bt_square(x));
    for (int l = 0; l < LAYERS; l++) {
        bt_graph_output(s.graph, bt_norm_square(bt_grad(loss, weights[l])));
        bt_graph_output(s.graph, bt_norm_square(bt_grad(loss, biases[l])));
    }
    scene_end(&s);
}

static void teardown(void)
{
    ranks_free(&r);
    scene_free(&s);
}

static void describe(const bt_node *node, char *text)
{
    const bt_collective_attr *attr = node->attr;
    int64_t count = 0;
    for (int i = 0; i < node->inputs; i++)
        count += bt_tensor_count(node->op == &bt_op_all_gather ? node->out : node->in[i]);
    sprintf(text, "%s of %d, %d values, %d elements in %d rows", node->op->name, (int)attr->ranks, node->inputs,
            (int)count, (int)attr->rows);
}

/* Compares the program's collectives with `all`, or stores them there. */
static void expect_same(const bt_program *program, char all[MOST][100], int *count)
{
    const bt_node *nodes[MOST];
    char text[100];
    int found = 0, steps = 0;
    for (int64_t n = 0; n < program->graph->node_count; n++)
        if (bt_op_flags(program->graph->nodes[n]->op) & BT_OP_COLLECTIVE) {
            ck_assert_int_lt(found, MOST);
            nodes[found] = program->graph->nodes[n];
            describe(nodes[found], text);
            if (found == *count)
                strcpy(all[(*count)++], text);
            ck_assert_str_eq(all[found++], text);
        }
    ck_assert_int_eq(found, *count);
    for (int64_t i = 0; i < program->step_count; i++)
        if (bt_op_flags(program->steps[i].call.op) & BT_OP_COLLECTIVE) {
            ck_assert_msg(steps < found && program->steps[i].node == nodes[steps], "step %d is not collective %d",
                          (int)i, steps);
            steps++;
        }
    ck_assert_int_eq(steps, found);
}

START_TEST(one_order)
{
    static const bt_checkpointing policies[] = {
        {.kind = BT_CHECKPOINTING_NONE}, {.kind = BT_CHECKPOINTING_SQRT}, {.kind = BT_CHECKPOINTING_COST, .cost = 1}};
    static char all[MOST][100];
    static const size_t buckets[] = {0, 1 << 10, BT_BUCKET};
    int count = 0, again = 0;
    record();
    ranks_begin(&r, s.graph, 3 + _i % 2); /* the shares are uneven */
    ranks_spread(&r, s.vars[0], (bt_spread){.kind = BT_SHARDED, .axis = 0, .rows = ROWS});
    for (int rank = 0; rank < r.count; rank++)
        for (int rule = 0; rule <= BT_ORDERS; rule++)
            for (int p = 0; p < BT_COUNT_OF(policies); p++) {
                const bt_world world = ranks_world(&r, rank);
                bt_level_checkpointing level = {.level = "net", .how = policies[p]};
                bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
                options.world = &world;
                options.rule = (bt_order_rule)rule;
                options.bucket = buckets[_i];
                options.levels = &level;
                options.level_count = 1;
                bt_program *program = bt_compile_graph(s.graph, &options);
                ck_assert_msg(program != NULL, "%s", bt_error());
                expect_same(program, all, &count);
                again += program->again > 0;
                ck_assert_int_eq(program->sharded.place_count, 0);
                ck_assert_int_eq(program->sharded.reductions + program->sharded.gathers, count);
                bt_program_free(program);
            }
    ck_assert_msg(_i ? count < 3 * LAYERS : count > 3 * LAYERS, "%d collectives", count);
    ck_assert_int_gt(again, 0);
}
END_TEST

/* A lowered graph is for all ranks; a settled one is for one rank, and compiling it changes no collective. */
START_TEST(settled)
{
    record();
    ranks_begin(&r, s.graph, 3);
    ranks_spread(&r, s.vars[0], (bt_spread){.kind = BT_SHARDED, .axis = 0, .rows = ROWS});
    const bt_world world = ranks_world(&r, 1);
    bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    options.world = &world;
    bt_graph *lowered = bt_compile_lowered(s.graph, &options), *own = bt_compile_settled(s.graph, &options);
    ck_assert_msg(lowered && own, "%s", bt_error());
    ck_assert_int_eq(count_op(lowered, &bt_op_all_reduce), 0);
    const int joined = count_op(own, &bt_op_all_reduce);
    ck_assert_int_gt(joined, 1);
    bt_graph_free(own);
    options.bucket = 0;
    own = bt_compile_settled(s.graph, &options);
    ck_assert_msg(own != NULL, "%s", bt_error());
    ck_assert_int_gt(count_op(own, &bt_op_all_reduce), 2 * joined);
    options.bucket = BT_BUCKET;
    options = bt_compile_settle(&options);
    bt_program *program = bt_compile_graph(own, &options);
    ck_assert_msg(program != NULL, "%s", bt_error());
    ck_assert_int_eq(count_op(program->graph, &bt_op_all_reduce), count_op(own, &bt_op_all_reduce));
    bt_program_free(program);
    bt_graph_free(lowered);
    bt_graph_free(own);
}
END_TEST

/* Among sums that are joined, each may be written over its own operand, but not over that of another, which may still
 * be needed. */
START_TEST(each_over_its_own)
{
    bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    bt_collective_attr attr = {.ranks = 2};
    scene_begin(&s, BT_F64);
    bt_tensor *in[3] = {NULL};
    for (int i = 0; i < 3; i++)
        in[i] = bt_sin(VECTOR(&s, "x", 1, 2, 3));
    bt_graph_output(s.graph, in[0]); /* stays alive */
    bt_node *node =
        bt_graph_append(s.graph, &bt_op_all_reduce, &attr, sizeof attr, in, 3, (bt_tag){.owner = "", .path = ""});
    ck_assert_ptr_nonnull(node);
    ck_assert_int_eq(node->outputs, 3);
    for (int i = 0; i < 3; i++)
        bt_graph_output(s.graph, bt_cos(&node->out[i]));
    scene_end(&s);
    bt_program *program = bt_compile_graph(s.graph, &options);
    ck_assert_msg(program != NULL, "%s", bt_error());
    for (int64_t k = 0; k < program->step_count; k++) {
        const bt_call_step *step = &program->steps[k];
        for (int i = 0; step->call.op == &bt_op_all_reduce && i < 3; i++) {
            const int64_t root = program->buffers[step->out[i].buffer].root;
            ck_assert_int_eq(root, i ? step->in[i].buffer : step->out[i].buffer);
        }
    }
    bt_program_free(program);
}
END_TEST

/* A value that is reduced into a variable is computed there in the first place. */
START_TEST(parts_in_the_variable_of_their_sum)
{
    static const double numbers[64] = {1};
    scene_begin(&s, BT_F64);
    bt_tensor *x = scene_read(&s, "x", numbers, (const int64_t[]){8, 4, BT_END});
    x->batch_axis = 0;
    VECTOR(&s, "w", 1, 2, 3, 4);
    bt_graph_assign(s.graph, s.vars[1], bt_sum(bt_square(x), 0));
    scene_end(&s);
    ranks_begin(&r, s.graph, 2);
    ranks_spread(&r, s.vars[0], (bt_spread){.kind = BT_SHARDED, .axis = 0, .rows = 8});
    const bt_world world = ranks_world(&r, 1);
    bt_compile_options options = bt_compile_defaults(&bt_backend_cpu()->kernels, 1);
    options.world = &world;
    bt_program *program = bt_compile_graph(s.graph, &options);
    ck_assert_msg(program != NULL, "%s", bt_error());
    const bt_call_step *last = &program->steps[program->step_count - 1];
    ck_assert_ptr_eq(last->call.op, &bt_op_all_reduce);
    const bt_buffer *in = &program->buffers[last->in[0].buffer], *out = &program->buffers[last->out[0].buffer];
    ck_assert_int_eq(out->home, BT_HOME_VAR);
    ck_assert_int_eq(in->home, BT_HOME_VAR);
    ck_assert(in->var == out->var && in->start == out->start);
    bt_program_free(program);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ranks");
    TCase *tests = tcase_create("ranks");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_loop_test(tests, one_order, 0, 3);
    tcase_add_test(tests, settled);
    tcase_add_test(tests, each_over_its_own);
    tcase_add_test(tests, parts_in_the_variable_of_their_sum);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
