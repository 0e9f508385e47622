/* The claims of the op records against the behaviour of the ops: shapes, errors, views, folding, linearity. */
#include "cases.h"

#include "ops/ops.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FOR_EACH_CASE(c, list) for (const op_case *c = (list).cases; c && c < (list).cases + (list).count; c++)

static bool is_leaf(const bt_op *op) { return bt_op_flags(op) & BT_OP_LEAF; }

static bool same_shape(bt_array a, bt_array b)
{
    return a.rank == b.rank && memcmp(a.dims, b.dims, (size_t)a.rank * sizeof *a.dims) == 0;
}

START_TEST(test_records_are_complete)
{
    const bt_op *op = bt_op_table[_i];
    ck_assert_ptr_nonnull(op->name);
    ck_assert_ptr_nonnull(op->info);
    for (int i = 0; i < _i; i++)
        ck_assert_str_ne(op->name, bt_op_table[i]->name);
    if (is_leaf(op))
        return;
    ck_assert_msg(op->infer != NULL, "%s has no infer", op->name);
    ck_assert_msg(op->inputs != 0, "%s has no inputs", op->name);
    ck_assert_int_le(bt_op_outputs(op, 1), BT_MAX_OUTPUTS);
    unsigned flags = op->info->flags;
    if (op->info->differentiable && !(flags & BT_OP_DETACH))
        ck_assert_msg((op->vjp && op->jvp) || op->body, "%s has no derivative", op->name);
    else
        ck_assert_msg(!op->vjp && !op->jvp, "%s has a rule, but nothing is differentiable", op->name);
    if (op->attr_size && op->attr_size != sizeof(bt_read_attr))
        ck_assert_msg(op->info->describe || op->attr_size == 0, "%s cannot print its attributes", op->name);
    case_list list = cases_of(op, BT_F64);
    ck_assert_msg(list.count > 0, "%s has no cases", op->name);
    FOR_EACH_CASE(c, list)
    {
        ck_assert_msg(c->sample.attr_size == op->attr_size, "%s: attributes of %zu bytes, not %zu", c->name,
                      c->sample.attr_size, op->attr_size);
        ck_assert_msg(op->inputs < 0 || op->inputs == c->sample.inputs, "%s: %d inputs", c->name, c->sample.inputs);
    }
    cases_free(&list);
}
END_TEST

/* In both dtypes: infer accepts every case; the body has the same shape (checked by the interpreter); the claims of
 * flags and overwrites about shapes hold; the attributes can be printed. */
START_TEST(test_shapes)
{
    const bt_op *op = bt_op_table[_i];
    for (int d = 0; d < 2; d++) {
        case_list list = cases_of(op, d ? BT_F32 : BT_F64);
        FOR_EACH_CASE(c, list)
        {
            setup s;
            setup_begin(&s, c, op);
            ck_assert_msg(s.node != NULL, "%s: %s", c->name, s.graph->message);
            interpreter *in = interpreter_new(s.graph);
            setup_values(&s, c, in);
            interpreter_run(in);
            interpreter_free(in);
            for (int i = 0; i < s.node->inputs; i++) {
                bt_array x = bt_tensor_array(s.in[i]);
                if (op->info->flags & BT_OP_ELEMENTWISE)
                    ck_assert_msg(same_shape(x, bt_tensor_array(s.out[0])), "%s is not elementwise", c->name);
                for (int o = 0; o < s.node->outputs; o++)
                    if (op->info->overwrites[o] >> i & 1)
                        ck_assert_msg(same_shape(x, bt_tensor_array(s.out[o])) && x.dtype == s.out[o]->dtype,
                                      "%s: output %d does not fit over input %d", c->name, o, i);
            }
            bt_text text = {0};
            bt_node_describe(s.node, &text);
            ck_assert_ptr_nonnull(strstr(bt_text_get(&text), op->name));
            bt_text_free(&text);
            setup_end(&s);
        }
        cases_free(&list);
    }
}
END_TEST

/* Records the case with one input of another shape or dtype: it is refused with the op's name, or it still computes. */
static bool refused(const op_case *c, int input, bt_array shape)
{
    op_case changed = *c;
    int64_t count = bt_array_count(shape);
    double *values = calloc((size_t)count + 1, sizeof *values);
    setup s;
    ck_assert_ptr_nonnull(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = bt_array_count(c->shape[input]) ? c->values[input][i % bt_array_count(c->shape[input])] : 0;
    changed.shape[input] = shape;
    changed.values[input] = values;
    setup_begin(&s, &changed, c->op);
    bool refused = s.node == NULL;
    if (refused) {
        ck_assert_int_ne(s.graph->status, BT_OK);
        ck_assert_msg(strncmp(s.graph->message, c->op->name, strlen(c->op->name)) == 0, "%s: message \"%s\"", c->name,
                      s.graph->message);
    } else {
        interpreter *in = interpreter_new(s.graph);
        setup_values(&s, &changed, in);
        interpreter_run(in);
        interpreter_free(in);
    }
    ck_assert_str_eq(bt_error(), ""); /* the message is kept in the graph */
    setup_end(&s);
    free(values);
    return refused;
}

START_TEST(test_wrong_inputs_poison)
{
    const bt_op *op = bt_op_table[_i];
    case_list list = cases_of(op, BT_F64);
    FOR_EACH_CASE(c, list)
    {
        bool equal = op->info->flags & BT_OP_ELEMENTWISE && c->sample.inputs > 1;
        for (int i = 0; i < c->sample.inputs; i++) {
            bt_array longer = c->shape[i], wider = c->shape[i], other = c->shape[i], real = c->shape[i];
            longer.dims[longer.rank++] = 7;
            other.dtype = bt_dtype_floats(other.dtype) ? BT_I32 : BT_F64;
            real.dtype = real.dtype == BT_F64 ? BT_F32 : BT_F64;
            bool no = refused(c, i, longer);
            ck_assert_msg(no || !equal, "%s: takes an operand with one more axis", c->name);
            no = refused(c, i, other) && refused(c, i, real);
            ck_assert_msg(no || !equal || op == &bt_op_where, "%s: takes operands of two dtypes", c->name);
            if (wider.rank) {
                wider.dims[0]++;
                ck_assert_msg(refused(c, i, wider) || !equal, "%s: takes operands of two sizes", c->name);
            }
        }
    }
    cases_free(&list);
}
END_TEST

START_TEST(test_missing_inputs_poison)
{
    const bt_op *op = bt_op_table[_i];
    case_list list = cases_of(op, BT_F64);
    FOR_EACH_CASE(c, list)
    {
        op_case fewer = *c;
        setup s;
        fewer.sample.inputs--;
        if (op->inputs > 0) {
            setup_begin(&s, &fewer, op);
            ck_assert_ptr_null(s.node);
            ck_assert_msg(strstr(s.graph->message, "operands") != NULL, "%s: %s", c->name, s.graph->message);
            setup_end(&s);
        }
        setup_begin(&s, c, op);
        s.in[0] = NULL;
        ck_assert(bt_poisoned(bt_record(op, c->attr, c->sample.attr_size, s.in, c->sample.inputs)));
        ck_assert_msg(strstr(s.graph->message, "NULL") != NULL, "%s: %s", c->name, s.graph->message);
        setup_end(&s);
        ck_assert(bt_poisoned(bt_record(op, c->attr, c->sample.attr_size, s.in, c->sample.inputs))); /* no trace */
        bt_error_clear();
    }
    cases_free(&list);
}
END_TEST

/* ---- views: the strides lead to the elements that the op computes ---- */

/* Stores the values in memory, dense (first axis outermost), or last axis outermost with gaps. Returns the memory. */
static double *lay_out(const op_case *c, bool dense, bt_view *view)
{
    bt_array shape = c->shape[0];
    int64_t count = bt_array_count(shape), stride = dense ? 1 : 2;
    double *memory = calloc((size_t)count * 2 + 1, sizeof *memory);
    ck_assert_ptr_nonnull(memory);
    *view = (bt_view){.dtype = shape.dtype, .rank = shape.rank};
    memcpy(view->dims, shape.dims, sizeof view->dims);
    for (int k = 0; k < shape.rank; k++) {
        int axis = dense ? shape.rank - 1 - k : k;
        view->strides[axis] = stride;
        stride *= shape.dims[axis];
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, place = 0;
        for (int k = shape.rank - 1; k >= 0; k--) {
            place += rest % shape.dims[k] * view->strides[k];
            rest /= shape.dims[k];
        }
        memory[place] = c->values[0][i];
    }
    return memory;
}

static void check_view(const op_case *c, bool dense)
{
    setup s;
    bt_view from, to = {0};
    int64_t offset = -1;
    double *memory = lay_out(c, dense, &from);
    setup_begin(&s, c, c->op);
    interpreter *in = interpreter_new(s.graph);
    setup_values(&s, c, in);
    interpreter_run(in);
    const double *expected = interpreter_value(in, s.out[0]);
    bool looks = c->op->info->view(c->attr, &from, &to, &offset);
    ck_assert_msg(looks || !dense, "%s: a dense buffer is not looked at", c->name);
    if (looks) {
        ck_assert(to.dtype == (c->op == &bt_op_widen ? from.dtype : s.out[0]->dtype) && to.rank == s.out[0]->rank &&
                  offset >= 0);
        ck_assert(memcmp(to.dims, s.out[0]->dims, (size_t)to.rank * sizeof *to.dims) == 0);
    }
    for (int64_t i = 0; looks && i < bt_tensor_count(s.out[0]); i++) {
        int64_t rest = i, place = offset;
        for (int k = to.rank - 1; k >= 0; k--) {
            place += rest % to.dims[k] * to.strides[k];
            rest /= to.dims[k];
        }
        ck_assert_msg(memory[place] == expected[i], "%s: element %lld", c->name, (long long)i);
    }
    interpreter_free(in);
    setup_end(&s);
    free(memory);
}

START_TEST(test_views)
{
    const bt_op *op = bt_op_table[_i];
    if (!op->info->view)
        return;
    case_list list = cases_of(op, BT_F64);
    FOR_EACH_CASE(c, list)
    {
        check_view(c, true);
        check_view(c, false);
    }
    cases_free(&list);
}
END_TEST

static bool reshapes(int rank, const int64_t *dims, const int64_t *strides, int to_rank, const int64_t *to,
                     const int64_t *expected)
{
    bt_shape_attr attr = {.rank = to_rank};
    bt_view in = {.rank = rank}, out = {0};
    int64_t offset;
    memcpy(attr.dims, to, (size_t)to_rank * sizeof *to);
    memcpy(in.dims, dims, (size_t)rank * sizeof *dims);
    memcpy(in.strides, strides, (size_t)rank * sizeof *strides);
    bool looks = bt_op_reshape.info->view(&attr, &in, &out, &offset);
    for (int k = 0; looks && expected && k < to_rank; k++)
        ck_assert_int_eq(out.strides[k], expected[k]);
    return looks;
}

#define LIST(...)                                                                                                      \
    (const int64_t[]) { __VA_ARGS__ }

START_TEST(test_reshape_of_strided_views)
{
    ck_assert(reshapes(2, LIST(3, 4), LIST(8, 1), 3, LIST(3, 2, 2), LIST(8, 2, 1)));  /* splits a row */
    ck_assert(!reshapes(2, LIST(3, 4), LIST(8, 1), 1, LIST(12), NULL));               /* rows with gaps */
    ck_assert(!reshapes(2, LIST(3, 4), LIST(1, 3), 1, LIST(12), NULL));               /* transposed */
    ck_assert(reshapes(3, LIST(2, 3, 4), LIST(12, 4, 1), 2, LIST(6, 4), LIST(4, 1))); /* merges */
    ck_assert(reshapes(2, LIST(3, 4), LIST(0, 0), 1, LIST(12), LIST(0)));             /* one number */
    ck_assert(!reshapes(2, LIST(3, 4), LIST(0, 1), 1, LIST(12), NULL));               /* a row, broadcast */
    ck_assert(reshapes(2, LIST(3, 4), LIST(1, 3), 4, LIST(1, 3, 1, 4), NULL));        /* ones in between */
    ck_assert(!reshapes(2, LIST(4, 6), LIST(1, 4), 2, LIST(6, 4), NULL));
    ck_assert(reshapes(2, LIST(4, 6), LIST(6, 1), 2, LIST(6, 4), LIST(4, 1)));
    ck_assert(reshapes(0, LIST(0), LIST(0), 2, LIST(1, 1), NULL));
}
END_TEST

/* ---- folding and linearity ---- */

START_TEST(test_folding_computes_the_op)
{
    const bt_op *op = bt_op_table[_i];
    if (!op->info->fold)
        return;
    ck_assert(op->info->flags & BT_OP_ELEMENTWISE);
    case_list list = cases_of(op, BT_F64);
    FOR_EACH_CASE(c, list)
    {
        setup s;
        setup_begin(&s, c, op);
        interpreter *in = interpreter_new(s.graph);
        setup_values(&s, c, in);
        interpreter_run(in);
        for (int64_t e = 0; e < bt_tensor_count(s.out[0]) && bt_dtype_floats(s.out[0]->dtype); e++) {
            double numbers[CASE_INPUTS], expected = interpreter_value(in, s.out[0])[e];
            for (int i = 0; i < c->sample.inputs; i++)
                numbers[i] = c->values[i][e];
            double found = op->info->fold(numbers);
            ck_assert_msg(fabs(found - expected) <= 1e-15 * fabs(expected), "%s: %.17g, expected %.17g", c->name, found,
                          expected);
        }
        interpreter_free(in);
        setup_end(&s);
    }
    cases_free(&list);
}
END_TEST

/* f(a x + b z) = a f(x) + b f(z) in all differentiable inputs together, with the others fixed. */
START_TEST(test_linear_ops_are_linear)
{
    const bt_op *op = bt_op_table[_i];
    if (!(op->info->flags & BT_OP_LINEAR))
        return;
    case_list list = cases_of(op, BT_F64);
    FOR_EACH_CASE(c, list)
    {
        setup s;
        setup_begin(&s, c, op);
        interpreter *f[3];
        for (int p = 0; p < 3; p++) {
            f[p] = interpreter_new(s.graph);
            setup_values(&s, c, f[p]);
            for (int i = 0; i < s.node->inputs; i++) {
                int64_t count = bt_tensor_count(s.in[i]);
                double *x = random_values(count, 1), *z = random_values(count, 2);
                for (int64_t e = 0; e < count; e++)
                    x[e] = p == 0 ? x[e] : p == 1 ? z[e] : 3 * x[e] - 2 * z[e];
                if (bt_dtype_floats(s.in[i]->dtype) && (op->info->differentiable >> i & 1))
                    interpreter_set(f[p], s.in[i], x);
                free(x);
                free(z);
            }
            interpreter_run(f[p]);
        }
        for (int64_t e = 0; e < bt_tensor_count(s.out[0]) && bt_dtype_floats(s.out[0]->dtype); e++) {
            double expected = 3 * interpreter_value(f[0], s.out[0])[e] - 2 * interpreter_value(f[1], s.out[0])[e];
            bool from_float = bt_dtype_floats(s.in[0]->dtype) || !(op->info->differentiable & 1);
            if (from_float)
                ck_assert_msg(fabs(interpreter_value(f[2], s.out[0])[e] - expected) <= 1e-12 + 5 * case_rounding(c),
                              "%s is not linear", c->name);
        }
        for (int p = 0; p < 3; p++)
            interpreter_free(f[p]);
        setup_end(&s);
    }
    cases_free(&list);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops: records");
    TCase *table = tcase_create("table");
    tcase_add_loop_test(table, test_records_are_complete, 0, op_count());
    tcase_add_loop_test(table, test_shapes, 0, op_count());
    tcase_add_loop_test(table, test_wrong_inputs_poison, 0, op_count());
    tcase_add_loop_test(table, test_missing_inputs_poison, 0, op_count());
    tcase_add_loop_test(table, test_views, 0, op_count());
    tcase_add_loop_test(table, test_folding_computes_the_op, 0, op_count());
    tcase_add_loop_test(table, test_linear_ops_are_linear, 0, op_count());
    tcase_add_test(table, test_reshape_of_strided_views);
    suite_add_tcase(suite, table);
    return run_suite(suite);
}
