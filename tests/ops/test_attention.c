/* Attention by blocks against plain loops, and its derivatives to second order against those of the plain form, which
 * keeps all weights in memory at once; dropout; error messages. */
#include "test_trace.h"

#include "ops/ops.h"
#include "runtime/evaluate.h"
#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct form {
    const char *name;
    int64_t examples, heads, queries, keys, width, values; /* heads 0: [n, T, d]; examples 0, too: [T, d] */
    int64_t block;
    bool causal, masked, held, all; /* all: one mask, [keys], for all examples */
    double dropout;
} form;

static const form forms[] = {
    {"one head", 0, 0, 7, 7, 3, 5, 3, .causal = false},
    {"one block", 2, 3, 5, 9, 4, 2, 0, .causal = false},
    {"blocks of one", 1, 2, 3, 4, 1, 1, 1, .causal = false},
    {"causal", 2, 3, 7, 7, 4, 5, 3, .causal = true},
    {"causal, fewer queries", 2, 2, 5, 11, 3, 3, 2, .causal = true},
    {"causal, one query", 3, 0, 1, 6, 3, 2, 0, .causal = true},
    {"masked", 3, 2, 7, 5, 3, 4, 4, .masked = true},
    {"masked for all", 3, 2, 7, 5, 3, 4, 2, .masked = true, .all = true},
    {"masked, without heads", 3, 0, 4, 5, 3, 4, 3, .masked = true},
    {"masked, alone", 0, 0, 4, 5, 3, 4, 3, .masked = true},
    {"causal and masked", 3, 2, 5, 7, 3, 4, 2, .causal = true, .masked = true},
    {"held", 2, 2, 5, 7, 3, 4, 0, .causal = true, .held = true},
    {"dropout", 2, 2, 7, 6, 3, 4, 3, .dropout = 0.4},
    {"all of it", 2, 3, 5, 9, 3, 4, 2, .causal = true, .masked = true, .dropout = 0.3},
    {"chosen blocks", 1, 1, 131, 3, 2, 2, 0, .causal = false},
};

typedef struct setting {
    const form *f;
    int rank;
    int64_t lead;
    int64_t dims[3][4]; /* of q, k, v */
    double *x[3], *u, *direction[3];
    double mask[64];
    bt_tensor *q, *k, *v, *keep;
} setting;

static double *drawn(int64_t count, uint64_t stream)
{
    double *x = calloc((size_t)count + 1, sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < count; i++)
        x[i] = 3 * bt_host_uniform(5, stream, (uint64_t)i) - 1.5;
    return x;
}

static bt_tensor *tensor(const double *x, int rank, const int64_t *dims)
{
    bt_array array = {.dtype = BT_F64, .rank = rank, .data = BT_DATA_(x)};
    memcpy(array.dims, dims, (size_t)rank * sizeof *dims);
    return bt_constant(array);
}

static setting begin(const form *f)
{
    setting s = {.f = f, .rank = 2 + (f->examples > 0) + (f->heads > 0), .lead = 1};
    const int64_t last[3][2] = {{f->queries, f->width}, {f->keys, f->width}, {f->keys, f->values}};
    trace_open(BT_F64);
    for (int o = 0; o < 3; o++) {
        int axis = 0;
        if (f->examples)
            s.dims[o][axis++] = f->examples;
        if (f->heads)
            s.dims[o][axis++] = f->heads;
        memcpy(s.dims[o] + axis, last[o], sizeof last[o]);
    }
    s.lead = (f->examples ? f->examples : 1) * (f->heads ? f->heads : 1);
    for (int o = 0; o < 3; o++) {
        s.x[o] = drawn(s.lead * last[o][0] * last[o][1], (uint64_t)o);
        s.direction[o] = drawn(s.lead * last[o][0] * last[o][1], 10 + (uint64_t)o);
    }
    s.u = drawn(s.lead * f->queries * f->values, 20);
    s.q = tensor(s.x[0], s.rank, s.dims[0]);
    s.k = tensor(s.x[1], s.rank, s.dims[1]);
    s.v = tensor(s.x[2], s.rank, s.dims[2]);
    int64_t rows = f->all || !f->examples ? 1 : f->examples;
    for (int64_t i = 0; i < rows * f->keys; i++) /* in the second example every key is masked */
        s.mask[i] = i / f->keys == 1 ? 0 : (i * 7 + 3) % 5 > 1;
    if (f->masked)
        s.keep = tensor(s.mask, rows > 1 ? 2 : 1, rows > 1 ? (const int64_t[]){rows, f->keys} : &f->keys);
    return s;
}

static void end(setting *s)
{
    for (int o = 0; o < 3; o++) {
        free(s->x[o]);
        free(s->direction[o]);
    }
    free(s->u);
    trace_close();
}

static bool counts(const setting *s, int64_t g, int64_t i, int64_t j)
{
    const form *f = s->f;
    int64_t example = f->all || !f->examples ? 0 : g / (f->heads ? f->heads : 1);
    return !(f->masked && s->mask[example * f->keys + j] == 0) && !(f->causal && j > i + f->keys - f->queries);
}

/* 1 for the visible keys, [lead, queries, keys]. */
static double *counting(const setting *s)
{
    double *keep = drawn(s->lead * s->f->queries * s->f->keys, 0), *at = keep;
    for (int64_t g = 0; g < s->lead; g++)
        for (int64_t i = 0; i < s->f->queries; i++)
            for (int64_t j = 0; j < s->f->keys; j++)
                *at++ = counts(s, g, i, j);
    return keep;
}

/* By the formula; kept: the factor that dropout applies to each weight. */
static double *loops(const setting *s, const double *kept)
{
    const form *f = s->f;
    double *y = drawn(s->lead * f->queries * f->values, 0), *weight = drawn(f->keys, 0);
    for (int64_t row = 0; row < s->lead * f->queries; row++) {
        int64_t g = row / f->queries;
        double sum = 0;
        for (int64_t j = 0; j < f->keys; j++) {
            double score = 0;
            for (int64_t d = 0; d < f->width; d++)
                score += s->x[0][row * f->width + d] * s->x[1][(g * f->keys + j) * f->width + d];
            weight[j] = counts(s, g, row % f->queries, j) ? exp(score / sqrt((double)f->width)) : 0;
            sum += weight[j];
        }
        for (int64_t c = 0; c < f->values; c++) {
            y[row * f->values + c] = 0;
            for (int64_t j = 0; j < f->keys && sum > 0; j++)
                y[row * f->values + c] +=
                    weight[j] / sum * (kept ? kept[row * f->keys + j] : 1) * s->x[2][(g * f->keys + j) * f->values + c];
        }
    }
    free(weight);
    return y;
}

/* With all weights at once. */
static bt_tensor *plain(const setting *s, const double *keep, const double *kept)
{
    const form *f = s->f;
    const int64_t dims[] = {s->lead, f->queries, f->keys};
    bt_tensor *q = bt_reshape(s->q, s->lead, f->queries, f->width), *k = bt_reshape(s->k, s->lead, f->keys, f->width);
    bt_tensor *on = tensor(keep, 3, dims),
              *score = bt_mul(bt_matmul(q, bt_permute(k, 0, 2, 1)), 1 / sqrt((double)f->width));
    bt_tensor *power = bt_mul(on, bt_exp(score)), *sum = bt_sum(power, -1, BT_KEEP);
    bt_tensor *weight = bt_div(power, bt_where(bt_greater(sum, 0), sum, 1));
    if (kept)
        weight = bt_mul(weight, tensor(kept, 3, dims));
    return bt_matmul(weight, bt_reshape(s->v, s->lead, f->keys, f->values));
}

/* The op with its own random stream, as bt_attention records it in a problem's step. */
static bt_tensor *blocked(const setting *s, bt_tensor *q, bt_tensor *k, bt_tensor *v)
{
    const form *f = s->f;
    bt_attention_options options = {.causal = f->causal, .mask = s->keep, .block = f->block, .held = f->held};
    bt_tensor *y = bt_attention(q, k, v, &options);
    if (f->dropout == 0 || bt_poisoned(y))
        return y;
    bt_attention_attr attr = *(const bt_attention_attr *)y->node->attr;
    attr.probability = f->dropout;
    attr.key = 77;
    attr.site = 5;
    bt_tensor *in[5] = {NULL};
    for (int i = 0; i < y->node->inputs; i++)
        in[i] = y->node->in[i];
    in[y->node->inputs] = bt_number(3, BT_I64);
    return bt_record(&bt_op_attention, &attr, sizeof attr, in, y->node->inputs + 1);
}

/* The results of the graph, each to be freed. */
static void compute(bt_tensor *const *x, int count, double **found)
{
    bt_array results[16];
    for (int i = 0; i < count; i++) {
        ck_assert_msg(!bt_poisoned(x[i]), "%s", graph->message);
        results[i] = bt_tensor_array(x[i]);
        results[i].data = found[i] = drawn(bt_tensor_count(x[i]), 0);
        bt_graph_output(graph, x[i]);
    }
    ck_assert_msg(bt_evaluate(graph, results) == BT_OK, "%s", bt_error());
}

/* The factor that dropout applies to each weight, [lead, queries, keys]: found with equal scores and the identity as
 * values. The plain form uses the same mask, so the derivatives below fail if a block is recomputed with another
 * mask. */
static double *dropped(const form *f)
{
    form seen = *f;
    seen.values = f->keys;
    seen.causal = seen.masked = false;
    setting s = begin(&seen);
    int64_t count = s.lead * f->keys * f->keys;
    double *identity = drawn(count, 0), *kept;
    for (int64_t i = 0; i < count; i++)
        identity[i] = i % (f->keys * f->keys) / f->keys == i % f->keys;
    /* causal blocks only draw for the keys that they read, so the mask must be found with the same setting */
    seen.causal = f->causal;
    bt_tensor *y = blocked(&s, bt_mul(s.q, 0), s.k, tensor(identity, s.rank, s.dims[2]));
    compute(&y, 1, &kept);
    for (int64_t row = 0; row < s.lead * f->queries; row++) {
        int64_t visible = f->causal ? row % f->queries + f->keys - f->queries + 1 : f->keys;
        for (int64_t j = 0; j < f->keys; j++)
            kept[row * f->keys + j] *= (double)visible;
    }
    free(identity);
    end(&s);
    return kept;
}

static void expect(const form *f, const char *what, const double *found, const double *expected, int64_t count)
{
    double scale = 1;
    for (int64_t i = 0; i < count; i++)
        scale = fmax(scale, fabs(expected[i]));
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(fabs(found[i] - expected[i]) <= 1e-12 * scale, "%s, %s: [%lld]: found %.17g, expected %.17g",
                      f->name, what, (long long)i, found[i], expected[i]);
}

/* y, the gradient of sum(u y^2) / 2 by q, k, v, and its derivative along the directions. */
static void derivatives(const setting *s, bt_tensor *y, bt_tensor **out)
{
    bt_tensor *x[] = {s->q, s->k, s->v}, *along = NULL;
    bt_tensor *loss = bt_sum(bt_mul(tensor(s->u, 3, (const int64_t[]){s->lead, s->f->queries, s->f->values}),
                                    bt_square(bt_reshape(y, s->lead, s->f->queries, s->f->values))));
    out[0] = y;
    for (int o = 0; o < 3; o++) {
        out[1 + o] = bt_grad(loss, x[o]);
        bt_tensor *part = bt_sum(bt_mul(out[1 + o], tensor(s->direction[o], s->rank, s->dims[o])));
        along = along ? bt_add(along, part) : part;
    }
    for (int o = 0; o < 3; o++)
        out[4 + o] = bt_grad(along, x[o]);
}

START_TEST(test_forward_and_derivatives)
{
    static const char *const names[] = {"value", "gradient of q", "of k", "of v", "second derivative of q",
                                        "of k",  "of v"};
    const form *f = &forms[_i];
    double *kept = f->dropout > 0 ? dropped(f) : NULL, *found[14];
    setting s = begin(f);
    double *keep = counting(&s), *y = loops(&s, kept);
    bt_tensor *results[14];
    derivatives(&s, blocked(&s, s.q, s.k, s.v), results);
    derivatives(&s, plain(&s, keep, kept), results + 7);
    compute(results, 14, found);
    expect(f, "against loops", found[0], y, s.lead * f->queries * f->values);
    for (int i = 0; i < 7; i++)
        expect(f, names[i], found[i], found[7 + i], bt_tensor_count(results[i]));
    for (int i = 0; i < 14; i++)
        free(found[i]);
    free(keep);
    free(kept);
    free(y);
    end(&s);
}
END_TEST

/* Of 1,764 weights about 4 in 10 are 0, the others 1 / (1 - p), and blocks do not repeat each other. */
START_TEST(test_what_is_dropped)
{
    enum { T = 21 };
    const form f = {"dropout", 2, 2, T, T, 2, T, 7, .dropout = 0.4};
    double *kept = dropped(&f);
    int zeros = 0, equal = 0;
    for (int i = 0; i < 4 * T * T; i++) {
        ck_assert(fabs(kept[i]) < 1e-12 || fabs(kept[i] - 1 / 0.6) < 1e-12);
        zeros += fabs(kept[i]) < 1e-12;
        equal += i % (T * T) >= 7 * T && fabs(kept[i] - kept[i - 7 * T]) < 1e-12;
    }
    ck_assert_int_gt(zeros, 4 * T * T * 35 / 100);
    ck_assert_int_lt(zeros, 4 * T * T * 45 / 100);
    ck_assert_int_lt(equal, 4 * 2 * 7 * T * 70 / 100);
    free(kept);
}
END_TEST

static bt_tensor *zeros(int rank, const int64_t *dims)
{
    static const double none[512];
    return tensor(none, rank, dims);
}

static void mistake(bt_tensor *y, const char *part)
{
    ck_assert(bt_poisoned(y));
    ck_assert_msg(strstr(graph->message, part) != NULL, "message \"%s\" lacks \"%s\"", graph->message, part);
    trace_close();
    trace_open(BT_F64);
}

#define Z(...) zeros((int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

START_TEST(test_mistakes)
{
    trace_open(BT_F64);
    mistake(bt_attention(Z(3, 2), Z(4, 3), Z(4, 2), NULL), "attention: q [3, 2], k [4, 3], v [4, 2], must be");
    mistake(bt_attention(Z(3, 2), Z(4, 2), Z(5, 2), NULL), "must be [..., queries, width]");
    mistake(bt_attention(Z(2, 3, 2), Z(3, 4, 2), Z(3, 4, 2), NULL), "with at most two axes before");
    mistake(bt_attention(Z(2), Z(2), Z(2), NULL), "must be [..., queries, width]");
    mistake(bt_attention(Z(3, 2), Z(0, 2), Z(0, 2), NULL), "there must be at least one key");
    mistake(bt_attention(Z(4, 2), Z(3, 2), Z(3, 2), &(bt_attention_options){.causal = true}),
            "the first queries would see no key");
    mistake(bt_attention(Z(3, 2), Z(4, 2), Z(4, 2), &(bt_attention_options){.mask = Z(3)}),
            "the mask is bool [3], must be bool [4]");
    mistake(bt_attention(Z(2, 3, 2), Z(2, 4, 2), Z(2, 4, 2), &(bt_attention_options){.mask = Z(3, 4)}),
            "the mask is bool [3, 4], must be bool [2, 4]");
    mistake(bt_attention(Z(3, 2), Z(4, 2), Z(4, 2), &(bt_attention_options){.dropout = 1}), "dropout 1");
    mistake(bt_attention(Z(3, 2), Z(4, 2), Z(4, 2), &(bt_attention_options){.block = -1}), "blocks of -1 queries");
    mistake(bt_attention(Z(3, 2), Z(4, 2), Z(4, 2), &(bt_attention_options){.dropout = 0.5}), "no random numbers here");
    trace_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention");
    TCase *test = tcase_create("attention");
    tcase_add_loop_test(test, test_forward_and_derivatives, 0, BT_COUNT_OF(forms));
    tcase_add_test(test, test_what_is_dropped);
    tcase_add_test(test, test_mistakes);
    suite_add_tcase(suite, test);
    return run_suite(suite);
}
