/* Transformers, recurrent layers and cells against PyTorch and transformers: values, gradients, Hessian-vector products
 * (golden_text.py); the effect of masks and lengths; adapters; error messages. */
#include "tests/nn/golden_text.h"
#include "tests/nn/running.h"

#include "graph/graph.h"
#include "nn/module.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values by golden_text.py's formula ---- */

static double *room(int64_t count)
{
    double *x = calloc((size_t)count + 1, sizeof *x);
    ck_assert_ptr_nonnull(x);
    return x;
}

static void set_by_formula(bt_module *net)
{
    ck_assert_msg(bt_module_list(net) == BT_OK, "%s", bt_error());
    for (int64_t i = 0; i < net->param_count; i++) {
        bt_slate *slate = net->params[i];
        int64_t count = bt_array_count(slate->shape);
        double *values = room(count), bytes = 0;
        for (const char *c = slate->path; *c; c++)
            bytes += (unsigned char)*c;
        bool norm = slate->shape.rank == 1 && strstr(slate->path, "weight");
        for (int64_t e = 0; e < count; e++) {
            double s = sin(1.3 * (double)e + 0.1 * bytes);
            values[e] = slate->shape.rank > 1 ? s / sqrt((double)slate->shape.dims[1]) : norm ? 1 + 0.1 * s : 0.1 * s;
        }
        bt_array array = slate->shape;
        array.data = values;
        bt_module_set_init(net, slate->path, bt_init_array(array));
        free(values);
    }
    ck_assert_msg(bt_module_init(net, BT_CPU, BT_F64, 1) == BT_OK, "%s", bt_error());
}

static bt_tensor *waves(double frequency, double phase, bool sine, int rank, const int64_t *dims)
{
    bt_array array = {.dtype = BT_F64, .rank = rank};
    memcpy(array.dims, dims, (size_t)rank * sizeof *dims);
    int64_t count = bt_array_count(array);
    double *values = room(count);
    for (int64_t e = 0; e < count; e++)
        values[e] = sine ? sin(frequency * (double)e + phase) : cos(frequency * (double)e + phase);
    array.data = values;
    bt_tensor *x = bt_constant(array);
    free(values);
    return x;
}

#define NUMBERS(...)                                                                                                   \
    waves(0.37, 0, false, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                             \
          (const int64_t[]){__VA_ARGS__})
#define LIST(type, rows, columns, ...) bt_constant(BT_ARRAY(((const type[]){__VA_ARGS__}), rows, columns))

static bt_tensor *tokens(void)
{
    int32_t numbers[10];
    for (int i = 0; i < 10; i++)
        numbers[i] = (7 * i + 3) % 11;
    return bt_constant(BT_ARRAY(numbers, 2, 5));
}

static bt_tensor *mask(void) { return LIST(uint8_t, 2, 5, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0); }

/* ---- the nets of golden_text.py ---- */

static bt_transformer_options small(void)
{
    bt_transformer_options o = bt_transformer_defaults();
    o.width = 6;
    o.heads = 2;
    o.inner = 10;
    o.length = 8;
    return o;
}

static bt_module *encoder(bool pre, bt_unary_fn *activation)
{
    bt_transformer_options o = small();
    o.causal = false;
    o.pre_norm = pre;
    o.activation = activation;
    return bt_nn_transformer_layer(&o);
}

static bt_module *encoder_layer(void) { return encoder(false, bt_relu); }
static bt_module *encoder_layer_pre(void) { return encoder(true, bt_gelu); }
static bt_tensor *encode(bt_module *net) { return bt_forward(net, NUMBERS(2, 5, 6), mask()); }

static bt_module *decoder_layer(void)
{
    bt_transformer_options o = small();
    o.pre_norm = false;
    o.cross = true;
    o.activation = bt_relu;
    return bt_nn_transformer_layer(&o);
}
static bt_tensor *decode(bt_module *net) { return bt_forward(net, NUMBERS(2, 5, 6), NUMBERS(2, 4, 6)); }

/* docs/text.md shows this one. */
static bt_module *gpt2(void)
{
    bt_transformer_options o = bt_transformer_defaults();
    o.vocabulary = 11;
    o.length = 8; /* the maximum number of tokens */
    o.width = 6;
    o.heads = 2;
    o.layers = 2;
    o.activation = bt_gelu_tanh;
    return bt_nn_transformer(&o);
}
static bt_tensor *continue_text(bt_module *net) { return bt_forward(net, tokens()); }

static bt_module *bert(void)
{
    bt_transformer_options o = small();
    o.layers = 1;
    o.vocabulary = 11;
    o.types = 2;
    o.padding = 0;
    o.eps = 1e-12;
    o.causal = o.pre_norm = o.final_norm = o.head = false;
    o.embedding_norm = true;
    return bt_nn_transformer(&o);
}
static bt_tensor *read_text(bt_module *net)
{
    return bt_forward(net, tokens(), LIST(int32_t, 2, 5, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0), mask());
}

static bt_module *lstm(void) { return bt_nn_lstm(4, 5); }
static bt_module *gru(void) { return bt_nn_gru(4, 5); }
static bt_tensor *walk(bt_module *net) { return bt_forward(net, NUMBERS(3, 8, 4)); }

static const bt_recurrent_options deep = {.layers = 2, .bidirectional = true, .bias = true},
                                  deep_plain = {.layers = 2, .bidirectional = true};
static bt_module *lstm_deep(void) { return bt_nn_lstm(4, 3, &deep); }
static bt_module *gru_deep(void) { return bt_nn_gru(4, 3, &deep_plain); }

/* PyTorch returns 0 after the end. */
static bt_tensor *walk_lengths(bt_module *net)
{
    bt_tensor *lengths = bt_constant(BT_ARRAY(((const int64_t[]){8, 5, 1}), 3));
    bt_tensor *step = bt_constant(BT_ARRAY(((const int64_t[]){0, 1, 2, 3, 4, 5, 6, 7}), 1, 8, 1));
    bt_tensor *on = bt_less(step, bt_reshape(lengths, 3, 1, 1));
    return bt_where(on, bt_forward(net, NUMBERS(3, 8, 4), lengths), 0);
}

static bt_module *lstm_cell(void) { return bt_nn_lstm_cell(4, 5); }
static bt_module *gru_cell(void) { return bt_nn_gru_cell(4, 5); }
static bt_tensor *lstm_once(bt_module *net) { return bt_forward(net, NUMBERS(2, 4), NUMBERS(2, 10)); }
static bt_tensor *gru_once(bt_module *net) { return bt_forward(net, NUMBERS(2, 4), NUMBERS(2, 5)); }

#define GOLDEN(make, forward, outputs)                                                                                 \
    {                                                                                                                  \
#make, make, forward, golden_##make, (int)(sizeof golden_##make / sizeof(double)), outputs                     \
    }

static const struct golden {
    const char *name;
    bt_module *(*make)(void);
    bt_tensor *(*forward)(bt_module *net);
    const double *values;
    int count, outputs;
} goldens[] = {
    GOLDEN(encoder_layer, encode, 60),
    GOLDEN(encoder_layer_pre, encode, 60),
    GOLDEN(decoder_layer, decode, 60),
    GOLDEN(gpt2, continue_text, 110),
    GOLDEN(bert, read_text, 60),
    GOLDEN(lstm, walk, 120),
    GOLDEN(gru, walk, 120),
    GOLDEN(lstm_deep, walk_lengths, 144),
    GOLDEN(gru_deep, walk_lengths, 144),
    GOLDEN(lstm_cell, lstm_once, 20),
    GOLDEN(gru_cell, gru_once, 10),
};

/* ---- the comparison ---- */

typedef struct subject {
    const struct golden *golden;
    bt_module *net;
} subject;

/* v for each parameter in sequence: sin or cos of its own indices. */
static bt_tensor *each(bt_module *net, double frequency, double phase, bool sine)
{
    bt_tensor *parts[64];
    ck_assert_int_le(net->param_count, 63);
    for (int64_t i = 0; i < net->param_count; i++)
        parts[i] = waves(frequency, phase, sine, 1, (const int64_t[]){bt_array_count(net->params[i]->shape)});
    parts[net->param_count] = NULL;
    return (bt_concat)(0, parts);
}

/* y, then its gradient and Hessian-vector product, each times r. */
static bt_tensor *everything(void *user, const bt_batch *batch)
{
    const subject *s = user;
    (void)batch;
    bt_tensor *y = bt_reshape(s->golden->forward(s->net), -1), *r = each(s->net, 0.9, 1, false);
    bt_tensor *u = waves(0.61, 0, false, 1, (const int64_t[]){bt_dim(y, 0)});
    bt_tensor *loss = bt_add(bt_sum(bt_mul(u, y)), bt_div(bt_sum(bt_square(y)), 2)), *p = bt_params(s->net);
    bt_tensor *g = bt_grad(loss, p), *h = bt_grad(bt_sum(bt_mul(g, each(s->net, 0.5, 0.3, true))), p);
    return bt_concat(0, y, bt_mul(r, g), bt_mul(r, h));
}

START_TEST(test_against_pytorch)
{
    subject s = {&goldens[_i], goldens[_i].make()};
    set_by_formula(s.net);
    int64_t params = bt_param_count(s.net), outputs = s.golden->outputs;
    ck_assert_int_eq(s.golden->count, outputs + 2 * s.net->param_count);
    double *all = room(outputs + 2 * params);
    RUN(everything, &s, BT_TRAIN, BT_ARRAY(all, outputs + 2 * params), {"none", BT_ARRAY(all, 1)});
    for (int64_t i = 0; i < outputs; i++)
        ck_assert_msg(fabs(all[i] - s.golden->values[i]) <= 1e-12, "%s: output %lld is %.16g, expected %.16g",
                      s.golden->name, (long long)i, all[i], s.golden->values[i]);
    const double *at = all + outputs, *expected = s.golden->values + outputs;
    for (int order = 1; order <= 2; order++)
        for (int64_t i = 0; i < s.net->param_count; i++, expected++) {
            double sum = 0, scale = 1;
            for (int64_t e = 0; e < bt_array_count(s.net->params[i]->shape); e++, at++) {
                sum += *at;
                scale += fabs(*at);
            }
            ck_assert_msg(fabs(sum - *expected) <= 2e-13 * scale + 1e-12, "%s: order %d of %s: %.16g, expected %.16g",
                          s.golden->name, order, s.net->params[i]->path, sum, *expected);
        }
    free(all);
    bt_module_free(s.net);
}
END_TEST

/* ---- properties that golden values do not show ---- */

static bt_tensor *forward(void *user, const bt_batch *batch)
{
    return bt_forward((bt_module *)user, bt_field(batch, "x"));
}

static bt_tensor *forward_lengths(void *user, const bt_batch *batch)
{
    return bt_forward((bt_module *)user, bt_field(batch, "x"), bt_field(batch, "lengths"));
}

static bt_module *made(bt_module *net)
{
    ck_assert_msg(bt_module_init(net, BT_CPU, BT_F64, 1) == BT_OK, "%s", bt_error());
    return net;
}

/* After its end, a sequence keeps the state it had there, whatever x contains. */
START_TEST(test_states_stay_after_the_end)
{
    enum { N = 2, STEPS = 6, IN = 3, HIDDEN = 4 };
    double x[N * STEPS * IN], y[N * STEPS * HIDDEN], z[N * STEPS * HIDDEN];
    const int32_t lengths[N] = {4, STEPS};
    bt_module *net = made(_i ? bt_nn_gru(IN, HIDDEN) : bt_nn_lstm(IN, HIDDEN));
    draw(x, N * STEPS * IN, 1);
    RUN(forward_lengths, net, BT_TRAIN, BT_ARRAY(y, N, STEPS, HIDDEN), {"x", BT_ARRAY(x, N, STEPS, IN)},
        {"lengths", BT_ARRAY(lengths, N)});
    RUN(forward, net, BT_TRAIN, BT_ARRAY(z, N, STEPS, HIDDEN), {"x", BT_ARRAY(x, N, STEPS, IN)});
    CLOSE(y, z, 4 * HIDDEN, 0);
    CLOSE(y + STEPS * HIDDEN, z + STEPS * HIDDEN, STEPS * HIDDEN, 0);
    for (int t = 4; t < STEPS; t++)
        CLOSE(y + t * HIDDEN, y + 3 * HIDDEN, HIDDEN, 0);
    bt_module_free(net);
}
END_TEST

static bt_tensor *rotate(bt_tensor *x) { return bt_rotary(x, 0); }

/* Rotary positions: scores only depend on the distance of tokens, so the rotated products of q at p and k at p + 2 are
 * the same for every p; and a rotation by p is one by p - 1 followed by another step. */
START_TEST(test_rotary_positions)
{
    enum { T = 5, D = 6 };
    double x[T * D], y[T * D];
    draw(x, D, 1);
    for (int i = D; i < T * D; i++)
        x[i] = x[i - D];
    bt_module *net = made(bt_nn_sequential(bt_nn_fn(rotate), bt_nn_dropout(0)));
    RUN(forward, net, BT_TRAIN, BT_ARRAY(y, T, D), {"x", BT_ARRAY(x, T, D)});
    CLOSE(y, x, D, 1e-15);
    for (int f = 0; f < D / 2; f++) {
        double angle = 3 * pow(10000, -2.0 * f / D);
        double turned[] = {x[2 * f] * cos(angle) - x[2 * f + 1] * sin(angle),
                           x[2 * f] * sin(angle) + x[2 * f + 1] * cos(angle)};
        CLOSE(y + 3 * D + 2 * f, turned, 2, 1e-14);
    }
    for (int p = 0; p + 2 < T; p++) {
        double product = 0, first = 0;
        for (int d = 0; d < D; d++) {
            product += y[p * D + d] * y[(p + 2) * D + d];
            first += y[d] * y[2 * D + d];
        }
        ck_assert_double_eq_tol(product, first, 1e-13);
    }
    bt_module_free(net);
}
END_TEST

static bt_tensor *places(void *user, const bt_batch *batch)
{
    (void)user, (void)batch;
    return bt_sinusoidal(3, 5);
}

START_TEST(test_sinusoidal_positions)
{
    double y[15], expected[15];
    for (int i = 0; i < 15; i++) {
        double at = i / 5 / pow(10000, (i % 5 / 2 * 2) / 5.0);
        expected[i] = i % 5 % 2 ? cos(at) : sin(at);
    }
    RUN(places, NULL, BT_TRAIN, BT_ARRAY(y, 3, 5), {"x", BT_ARRAY(y, 1)});
    CLOSE(y, expected, 15, 1e-7); /* outside a module numbers have single precision */
}
END_TEST

static bt_tensor *token_logits(void *user, const bt_batch *batch)
{
    return bt_forward((bt_module *)user, bt_field(batch, "token"));
}

/* A causal model: a later token changes nothing before it; every kind of position encoding distinguishes equal
 * tokens. */
START_TEST(test_causal_models)
{
    enum { T = 6, V = 7 };
    const int32_t text[] = {1, 5, 1, 5, 1, 5}, other[] = {1, 5, 1, 5, 2, 5};
    double y[T * V], z[T * V], apart = 0, changed = 0;
    bt_transformer_options o = small();
    o.layers = 2;
    o.vocabulary = V;
    o.positions = (bt_positions)_i;
    o.head_width = 4;
    o.tied = _i % 2;
    bt_module *net = bt_nn_transformer(&o);
    set_by_formula(net);
    RUN(token_logits, net, BT_TRAIN, BT_ARRAY(y, 1, T, V), {"token", BT_ARRAY(text, 1, T)});
    RUN(token_logits, net, BT_TRAIN, BT_ARRAY(z, 1, T, V), {"token", BT_ARRAY(other, 1, T)});
    CLOSE(y, z, 4 * V, 1e-13);
    for (int k = 0; k < V; k++) {
        changed += fabs(y[4 * V + k] - z[4 * V + k]);
        apart += fabs(y[V + k] - y[3 * V + k]); /* without positions, too: the earlier tokens give the same mean */
    }
    ck_assert_double_gt(changed, 1e-3);
    if (o.positions != BT_POSITIONS_NONE)
        ck_assert_double_gt(apart, 1e-6);
    bt_module_free(net);
}
END_TEST

static bt_tensor *lora_gradient(void *user, const bt_batch *batch)
{
    bt_module *net = user;
    return bt_grad(bt_sum(bt_square(bt_forward(net, bt_field(batch, "x")))), bt_params(net));
}

/* Initially the output of the layer; then alpha / rank B A x more; and only A and B are parameters. */
START_TEST(test_adapters)
{
    enum { N = 3, IN = 4, OUT = 5, RANK = 2 };
    double x[N * IN], y[N * OUT], z[N * OUT], a[RANK * IN], b[OUT * RANK], g[RANK * IN + OUT * RANK];
    bt_module *net = bt_nn_lora(bt_nn_linear(IN, OUT), RANK, 3);
    draw(a, RANK * IN, 5);
    draw(b, OUT * RANK, 6);
    for (int trained = 0; trained < 2; trained++) {
        if (trained) {
            net = bt_nn_lora(bt_nn_linear(IN, OUT), RANK, 3);
            bt_module_set_init(net, "lora_A.weight", bt_init_array(BT_ARRAY(a, RANK, IN)));
            bt_module_set_init(net, "lora_B.weight", bt_init_array(BT_ARRAY(b, OUT, RANK)));
        }
        made(net);
        ck_assert_int_eq(bt_param_count(net), RANK * IN + OUT * RANK);
        const double *w = values_of(net, "base_layer.weight"), *bias = values_of(net, "base_layer.bias");
        draw(x, N * IN, 7);
        for (int i = 0; i < N * OUT; i++) {
            z[i] = bias[i % OUT];
            for (int k = 0; k < IN; k++)
                z[i] += x[i / OUT * IN + k] * w[i % OUT * IN + k];
            for (int r = 0; r < RANK && trained; r++)
                for (int k = 0; k < IN; k++)
                    z[i] += 1.5 * b[i % OUT * RANK + r] * a[r * IN + k] * x[i / OUT * IN + k];
        }
        RUN(forward, net, BT_TRAIN, BT_ARRAY(y, N, OUT), {"x", BT_ARRAY(x, N, IN)});
        CLOSE(y, z, N * OUT, 1e-13);
        RUN(lora_gradient, net, BT_TRAIN, BT_ARRAY(g, RANK * IN + OUT * RANK), {"x", BT_ARRAY(x, N, IN)});
        ck_assert_int_eq(g[0] != 0, trained); /* as B is 0, A has no gradient at first */
        ck_assert(g[RANK * IN] != 0);
        bt_module_free(net);
    }
}
END_TEST

static void mistaken(bt_module *net, const char *part)
{
    ck_assert_int_eq(bt_module_init(net, BT_CPU, BT_F64, 1), BT_ERROR_ARGUMENT);
    MESSAGE(part);
    bt_module_free(net);
}

START_TEST(test_mistakes)
{
    double x[24] = {0}, y[24];
    const int32_t long_text[9] = {0};
    bt_transformer_options o = small();
    mistaken(bt_nn_attention(6, 4), "bt_nn_attention: width 6, 4 heads");
    mistaken(bt_nn_attention(6, 2, &(bt_nn_attention_options){.rotary = true}), "rotary");
    mistaken(bt_nn_lstm(0, 3), "bt_nn_lstm: 0 inputs");
    mistaken(bt_nn_gru_cell(2, 0), "bt_nn_gru_cell: 2 inputs, 0 hidden");
    mistaken(bt_nn_lora(bt_nn_dropout(0.5), 2, 1), "no \"weight\"");
    mistaken(bt_nn_lora(bt_nn_linear(2, 3), 0, 1), "rank 0");
    mistaken(bt_nn_layer_norm(3, &(bt_layer_norm_options){-1}), "eps -1");
    o.length = 0;
    mistaken(bt_nn_transformer(&o), "bt_nn_transformer: width 6");
    o = small();
    o.activation = NULL;
    mistaken(bt_nn_transformer_layer(&o), "the activation is NULL");
    o = small();
    o.vocabulary = 11;
    bt_module *net = made(bt_nn_transformer(&o));
    ck_assert_int_eq(TRY(token_logits, net, BT_TRAIN, BT_ARRAY(y, 1), {"token", BT_ARRAY(long_text, 1, 9)}),
                     BT_ERROR_SHAPE);
    MESSAGE("9 tokens; it was made for at most 8");
    bt_module_free(net);
    net = made(bt_nn_attention(6, 2));
    ck_assert_int_eq(TRY(forward, net, BT_TRAIN, BT_ARRAY(y, 4, 6), {"x", BT_ARRAY(x, 4, 6)}), BT_ERROR_SHAPE);
    MESSAGE("attention expects [n, tokens, 6], found [4, 6]");
    bt_module_free(net);
    net = made(bt_nn_lstm(6, 2));
    ck_assert_int_eq(TRY(forward, net, BT_TRAIN, BT_ARRAY(y, 4, 6), {"x", BT_ARRAY(x, 4, 6)}), BT_ERROR_SHAPE);
    MESSAGE("lstm: x is [4, 6], must be [n, steps, 6]");
    bt_module_free(net);
    ck_assert_uint_eq(bt_live_bytes(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *test = tcase_create("text");
    tcase_add_loop_test(test, test_against_pytorch, 0, (int)(sizeof goldens / sizeof *goldens));
    tcase_add_loop_test(test, test_states_stay_after_the_end, 0, 2);
    tcase_add_test(test, test_rotary_positions);
    tcase_add_test(test, test_sinusoidal_positions);
    tcase_add_loop_test(test, test_causal_models, 0, 4);
    tcase_add_test(test, test_adapters);
    tcase_add_test(test, test_mistakes);
    suite_add_tcase(suite, test);
    return run_suite(suite);
}
