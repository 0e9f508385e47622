/* All-reduces that are joined: which ones and in which order, identically on every rank. */
#include "support/ranks.h"
#include "support/scene.h"

#include "runtime/variable.h"
#include "support/suite.h"
#include "transform/bucket.h"
#include "transform/grad.h"
#include "transform/inline.h"
#include "transform/simplify.h"
#include <check.h>
#include <stdio.h>
#include <string.h>

enum { LARGE = 25 << 20, TEXT = 1000 };

static scene s;
static ranks r;
static bt_graph *joined;
static int64_t reductions;

static void setup(void) { scene_begin(&s, BT_F64); }

static void teardown(void)
{
    ranks_free(&r);
    bt_graph_free(joined);
    joined = NULL;
    scene_free(&s);
}

static bt_tensor *leaf(bt_dtype dtype, int64_t count)
{
    static const double numbers[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    bt_var *var = scene_var(&s, "x", dtype, numbers, (const int64_t[]){count, BT_END});
    return bt_graph_read(s.graph, var);
}

static bt_tensor *sum(bt_tensor *x) { return bt_all_reduce(x, 0, 2, BT_REDUCE_SUM); }

/* The collectives in order, each with the elements of its operands: "sum 3 4, gather 2". */
static const char *met(const bt_graph *graph, char text[TEXT])
{
    int at = 0;
    text[0] = 0;
    for (int64_t n = 0; n < graph->node_count; n++) {
        const bt_node *node = graph->nodes[n];
        if (!(bt_op_flags(node->op) & BT_OP_COLLECTIVE))
            continue;
        const bt_collective_attr *attr = node->attr;
        at += sprintf(text + at, "%s%s", at ? ", " : "",
                      node->op != &bt_op_all_reduce      ? "gather"
                      : attr->reduction == BT_REDUCE_SUM ? "sum"
                                                         : "max");
        for (int i = 0; i < node->inputs; i++)
            at += sprintf(text + at, " %d",
                          (int)bt_tensor_count(node->op == &bt_op_all_reduce ? node->in[i] : node->out));
        ck_assert_int_lt(at, TEXT - 100);
    }
    return text;
}

/* The sums after bucketing with this size: "" if all are unchanged. */
static const char *become(size_t bucket)
{
    static char text[TEXT];
    int64_t sums = reductions = count_op(s.graph, &bt_op_all_reduce);
    bt_graph_free(joined);
    ck_assert_msg(bt_bucket(s.graph, bucket, &joined, &reductions) == BT_OK, "%s", bt_error());
    if (!joined) {
        ck_assert_int_eq(reductions, sums);
        return "";
    }
    ck_assert_msg(bt_graph_verify(joined, "bucket") == BT_OK, "%s", bt_error());
    ck_assert_int_eq(reductions, count_op(joined, &bt_op_all_reduce));
    ck_assert_int_eq(joined->output_count, s.graph->output_count);
    return met(joined, text);
}

static void lower(void)
{
    scene_end(&s);
    bt_graph *inlined = bt_inline(s.graph, NULL, NULL), *simple = inlined ? bt_simplify(inlined, true) : NULL;
    ck_assert_ptr_nonnull(simple);
    bt_graph_free(inlined);
    bt_graph_free(s.graph);
    s.graph = simple;
}

static void keep(bt_tensor *x) { bt_graph_output(s.graph, x); }

/* Independent sums are joined in their order, as many as fit. */
START_TEST(as_many_as_fit)
{
    for (int count = 1; count <= 5; count++)
        keep(bt_mul(sum(leaf(BT_F64, count)), 2)); /* 8, 16, 24, 32, 40 bytes */
    scene_end(&s);
    ck_assert_str_eq(become(LARGE), "sum 1 2 3 4 5");
    ck_assert_str_eq(become(120), "sum 1 2 3 4 5");
    ck_assert_str_eq(become(119), "sum 1 2 3 4, sum 5");
    ck_assert_str_eq(become(48), "sum 1 2 3, sum 4, sum 5");
    ck_assert_str_eq(become(24), "sum 1 2, sum 4, sum 5, sum 3"); /* larger ones do not wait */
    ck_assert_str_eq(become(23), "");
    ck_assert_str_eq(become(1), "");
}
END_TEST

/* A sum that depends on another is not joined with it, whatever is in between; later ones are joined with it. */
START_TEST(what_depends)
{
    bt_tensor *first = sum(leaf(BT_F64, 2)), *x = first;
    for (int i = 0; i < 5; i++)
        x = bt_mul(x, 2);
    bt_tensor *beside = sum(leaf(BT_F64, 3)), *second = sum(x), *after = sum(leaf(BT_F64, 4));
    keep(second);
    keep(after);
    keep(beside);
    keep(sum(bt_sum(second)));
    scene_end(&s);
    ck_assert_str_eq(become(LARGE), "sum 2 3, sum 2 4, sum 1");
}
END_TEST

/* A gather in between keeps its place: before sums that it does not depend on, after those it does. */
START_TEST(other_collectives)
{
    bt_tensor *first = sum(leaf(BT_F64, 2));
    bt_tensor *free_of_it = bt_all_gather(leaf(BT_F64, 3), 0, 2, 0, 6, 6);
    keep(sum(free_of_it));
    keep(bt_all_gather(bt_mul(first, 3), 0, 2, 0, 4, 4));
    keep(sum(leaf(BT_F64, 5)));
    keep(sum(leaf(BT_F64, 7)));
    scene_end(&s);
    ck_assert_str_eq(become(LARGE), "gather 6, sum 2 6, gather 4, sum 5 7");
}
END_TEST

START_TEST(of_one_kind)
{
    keep(sum(leaf(BT_F64, 1)));
    keep(sum(leaf(BT_F64, 2)));
    keep(sum(leaf(BT_F32, 3)));
    keep(sum(leaf(BT_F32, 4)));
    keep(bt_all_reduce(leaf(BT_F32, 5), 0, 2, BT_REDUCE_MAX));
    keep(bt_all_reduce(leaf(BT_F32, 6), 0, 2, BT_REDUCE_MAX));
    scene_end(&s);
    ck_assert_str_eq(become(LARGE), "sum 1 2, sum 3 4, max 5 6");
}
END_TEST

/* Prints stay in order, unless a sum needs a value that is printed after another sum; and rank 0, which alone prints,
 * still sends the same data. */
START_TEST(prints)
{
    const bool says = _i % 2, needed = _i / 2;
    bt_tensor *y = leaf(BT_F64, 3), *z = leaf(BT_F64, 4), *first = sum(leaf(BT_F64, 2));
    if (says) {
        y = bt_print(y, "1");
        bt_print(first, "2");
        z = bt_print(z, "3");
    }
    keep(first);
    keep(sum(y));
    keep(needed ? sum(z) : bt_mul(z, 2));
    scene_end(&s);
    ck_assert_str_eq(become(LARGE), needed ? "sum 2 3 4" : "sum 2 3");
    ck_assert_int_eq(count_op(joined, &bt_op_print), says ? 3 : 0);
    int found = 0;
    for (int64_t n = 0; n < joined->node_count && !needed; n++)
        if (joined->nodes[n]->op == &bt_op_print)
            ck_assert_int_eq(((const bt_text_attr *)joined->nodes[n]->attr)->text[0], '1' + found++);
}
END_TEST

/* Rows that are not divisible by the ranks: all ranks join the same sums, although their graphs have different
 * sizes. */
START_TEST(on_uneven_shares)
{
    enum { ROWS = 7, WIDE = 3, LAYERS = 3 };
    static char all[2][TEXT];
    double numbers[ROWS * WIDE];
    for (int i = 0; i < ROWS * WIDE; i++)
        numbers[i] = (i * 5 % 11 - 5) / 4.0;
    bt_var *rows = scene_own(
        &s, bt_var_new(BT_RUN, BT_BATCH, "", "x", (bt_array){.dtype = BT_F64, .rank = 2, .dims = {ROWS, WIDE}}));
    var_set(rows, numbers);
    bt_tensor *x = bt_graph_read(s.graph, rows), *w[LAYERS];
    x->batch_axis = 0;
    for (int l = 0; l < LAYERS; l++) {
        w[l] = scene_read(&s, "w", numbers, (const int64_t[]){WIDE, WIDE, BT_END});
        x = bt_tanh(bt_batch_norm(bt_matmul(x, w[l]), 1, NULL, NULL, 0.1, NULL, NULL));
    }
    bt_tensor *loss = bt_mean(bt_square(x));
    for (int l = 0; l < LAYERS; l++)
        bt_graph_output(s.graph, bt_grad(loss, w[l]));
    lower();
    static const int counts[] = {2, 3, 5, 8};
    for (int k = 0; k < BT_COUNT_OF(counts); k++)
        for (size_t bucket = 0; bucket <= 320; bucket += 8) {
            ranks_begin(&r, s.graph, counts[k]);
            ranks_spread(&r, rows, (bt_spread){.kind = BT_SHARDED, .axis = 0, .rows = ROWS});
            r.bucket = bucket < 320 ? bucket : (size_t)LARGE;
            ranks_shard(&r);
            for (int rank = 0; rank < counts[k]; rank++)
                ck_assert_str_eq(met(r.graphs[rank], all[rank > 0]), all[0]);
            if (bucket % 160 == 0) {
                ranks_run(&r);
                ranks_expect_whole(&r, 1e-12, "batch norm");
            }
            if (bucket == 320)
                ck_assert_msg(strstr(all[0], "sum 9 3") || strstr(all[0], "sum 9 9"), "nothing is joined: %s", all[0]);
            ranks_free(&r);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bucket");
    TCase *tests = tcase_create("bucket");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, as_many_as_fit);
    tcase_add_test(tests, what_depends);
    tcase_add_test(tests, other_collectives);
    tcase_add_test(tests, of_one_kind);
    tcase_add_loop_test(tests, prints, 0, 4);
    tcase_add_test(tests, on_uneven_shares);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
