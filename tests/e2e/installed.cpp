// A program in C++ outside the project: every macro of the headers, compiled and run.
#include <betty/betty.h>
#include <cmath>
#include <cstdio>

static void halved(const void *, bt_tensor *const *in, bt_tensor **out) { out[0] = bt_div(in[0], 2); }

static bt_op half_op()
{
    bt_op op = bt_op();
    op.name = "half";
    op.inputs = 1;
    op.body = halved;
    return op;
}
static const bt_op half = half_op();

/* x: 1, 2, 3 */
static bt_tensor *numbers(void *, const bt_batch *batch)
{
    bt_tensor *x = bt_field(batch, "x"), *zero = bt_zeros_like(x);
    bt_tensor *y = bt_add(bt_mul(0.5f, x), bt_sub(1, bt_div(x, 2.0)));         // 1, 1, 1
    y = bt_add(y, bt_where(bt_greater(x, 2), bt_maximum(x, 0), 0));            // 1, 1, 4
    y = bt_add(y, bt_clamp(bt_minimum(x, 2L), 0, 1LL));                        // 2, 2, 5
    y = bt_mul(y, bt_pow(x, 2));                                               // 2, 8, 45
    y = bt_add(y, bt_less(x, 2));                                              // 3, 8, 45
    y = bt_add(y, bt_equal(x, 2));                                             // 3, 9, 45
    bt_tensor *m = bt_reshape(bt_concat(0, y, zero), 2, 3);                    // [[3, 9, 45], [0, 0, 0]]
    int64_t rank = bt_rank(m);
    bt_tensor *t = bt_permute(m, 1, static_cast<size_t>(rank) - 2);            // [3, 2]
    bt_tensor *sum = bt_add(bt_sum(t), bt_at(bt_max(t, 0, BT_KEEP), 0, -2));   // 57 + 45
    sum = bt_add(sum, bt_at(bt_mean(bt_einsum("ij,jk->ik", m, t), 0), 0));     // + (9 + 81 + 2025) / 2
    sum = bt_add(sum, bt_min(bt_apply(&half, nullptr, x)));                    // + 0.5
    return bt_add(sum, bt_norm(bt_mul(0, bt_std(bt_sort(x, -1, true)))));
}

static bt_tensor *through(bt_module *self, bt_tensor *const *in) { return bt_forward(bt_child(self, "net"), in[0]); }

static bt_module *net(bt_problem *)
{
    bt_module *own = bt_module_new(nullptr), *all = bt_module_new(through);
    bt_module_add_param(own, "w", bt_init_constant(1), 2, 3);
    bt_module_add_buffer(own, "b", bt_init_constant(0), 3);
    bt_module_add(all, bt_nn_sequential(bt_nn_mlp(bt_relu, 3, 4, 2), bt_nn_fn(bt_tanh)), "net");
    bt_module_add(all, own, "own%d", 1);
    return all;
}

static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *y = bt_forward(self, bt_field(batch, "x")), *w = bt_param(self, "own%d.w", 1);
    bt_metric(self, "size", bt_sum(bt_square(bt_params(self))));
    bt_metric(self, "part", bt_sum(w), BT_METRIC_MEAN); // 6
    bt_metric(self, "part", bt_mul(3, bt_sum(w)), BT_METRIC_MEAN);
    bt_tensor *again = bt_forward(bt_child(self, "net.1"), y);
    bt_param_set(self, "own1.b", bt_mean(w, 0));
    return bt_add(bt_mean(bt_add(y, again)), bt_mean(bt_param(bt_child(self, "own1"), "w")));
}

static bt_status batch_of_one(bt_problem *, bt_mode, int64_t, bt_batch *batch)
{
    const double x[3] = {1, 2, 3};
    return bt_batch_set(batch, "x", BT_ARRAY(x, 1, 3));
}

static void ended(bt_problem *self)
{
    bt_metric(self, "weights", bt_param_count(self));
    bt_metric(self, "nothing", 0);
}

static int trains()
{
    bt_problem_def def = bt_problem_def();
    def.name = "model";
    def.configure_module = net;
    def.training_step = step;
    def.get_batch = batch_of_one;
    def.validation_end = ended;
    bt_export parts = bt_export();
    parts.abi = BT_ABI;
    parts.problems[0] = &def;
    bt_engine *engine = bt_engine_new();
    bt_engine_use(engine, &parts, nullptr);
    bt_engine_set(engine, "engine.train_iters", "%d", 3);
    bt_status status = bt_engine_run(engine);
    double weights = bt_engine_metric(engine, "model.valid.weights"); // 3 4 + 4 + 4 2 + 2 + 6
    double part = bt_engine_metric(engine, "model.part"); // of 6 and 18
    if (status != BT_OK || weights != 32 || part < 11 || part > 13)
        std::fprintf(stderr, "%s: %g weights, %g\n", bt_error(), weights, part);
    bt_engine_free(engine);
    return status == BT_OK && weights == 32 && part >= 11 && part <= 13;
}

int main()
{
    const double x[3] = {1, 2, 3};
    double result = 0;
    bt_batch *batch = bt_batch_new();
    bt_function *function = bt_function_new(numbers, nullptr, BT_VALID);
    bt_batch_set(batch, "x", BT_ARRAY(x, 3));
    bt_status status = bt_function_run(function, batch, BT_ARRAY(&result));
    bt_function_free(function);
    bt_batch_free(batch);
    std::printf("%g\n", result);
    if (status != BT_OK)
        std::fprintf(stderr, "%s\n", bt_error());
    return status == BT_OK && std::fabs(result - 1160) < 1e-2 && trains() ? 0 : 1;
}
