/* nystrom against dense algebra in long double: with all columns it is (H + rho I)^-1 v, however small rho is, for H
 * positive definite, indefinite or singular; with some columns it matches one choice of them. */
#include "closed_forms.h"
#include "levels.h"

#include "support/suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 6 };

static float h[N * N], v[N]; /* exact in both precisions */

static bt_tensor *of(bt_problem *self, const char *name) { return bt_forward(bt_peer(self, name)); }
static bt_tensor *dot(bt_tensor *a, bt_tensor *b) { return bt_sum(bt_mul(a, b)); }

/* C = w H w / 2 - l w, F = v w: the hypergradient is x. */
static bt_tensor *quadratic(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *w = of(self, "lower"), *hw = bt_matmul(bt_constant(BT_ARRAY(h, N, N)), w);
    return (void)batch, bt_sub(bt_mul(0.5, dot(w, hw)), dot(of(self, "upper"), w));
}

static bt_tensor *linear(bt_problem *self, const bt_batch *batch)
{
    return (void)batch, dot(bt_constant(BT_ARRAY(v, N)), of(self, "lower"));
}

static void ask(const char *settings, double *x)
{
    numbers n = {.ws = N, .lambdas = N, .lower = quadratic, .upper = linear};
    bt_status status = closed_form_hypergradient(&n, settings, x);
    ck_assert_msg(status == BT_OK, "%s: %s", settings, bt_error());
}

/* a x = b by elimination; both are overwritten. */
static void solve(int n, long double a[N][N], long double *b, long double *x)
{
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int i = k + 1; i < n; i++)
            best = fabsl(a[i][k]) > fabsl(a[best][k]) ? i : best;
        for (int j = 0; j < n; j++) {
            long double t = a[k][j];
            a[k][j] = a[best][j], a[best][j] = t;
        }
        long double t = b[k];
        b[k] = b[best], b[best] = t;
        for (int i = k + 1; i < n; i++) {
            long double f = a[i][k] / a[k][k];
            for (int j = k; j < n; j++)
                a[i][j] -= f * a[k][j];
            b[i] -= f * b[k];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        x[i] = b[i];
        for (int j = i + 1; j < n; j++)
            x[i] -= a[i][j] * x[j];
        x[i] /= a[i][i];
    }
}

/* (H_k + rho I)^-1 v with the columns of the mask, column by column: H_k = C W^-1 C^T. */
static void exact(unsigned mask, double rho, long double *x)
{
    int at[N], k = 0;
    long double a[N][N] = {{0}}, b[N];
    for (int i = 0; i < N; i++)
        if (mask >> i & 1)
            at[k++] = i;
    for (int j = 0; j < N; j++) { /* column j of H_k */
        long double w[N][N], c[N], y[N];
        for (int p = 0; p < k; p++) {
            c[p] = h[j * N + at[p]];
            for (int q = 0; q < k; q++)
                w[p][q] = h[at[p] * N + at[q]];
        }
        solve(k, w, c, y);
        for (int i = 0; i < N; i++)
            for (int p = 0; p < k; p++)
                a[i][j] += h[i * N + at[p]] * y[p];
        a[j][j] += rho;
        b[j] = v[j];
    }
    solve(N, a, b, x);
}

static double distance(const double *x, const long double *due)
{
    long double sum = 0, size = 0;
    for (int i = 0; i < N; i++) {
        sum += (x[i] - due[i]) * (x[i] - due[i]);
        size += due[i] * due[i];
    }
    return (double)sqrtl(sum / size);
}

/* B D B^T of integers, B well-conditioned. */
static void make(const float *diagonal)
{
    static const float b[N][N] = {{3, 1, 0, -1, 0, 1}, {0, 3, 1, 0, -1, 0}, {1, 0, 3, 1, 0, -1},
                                  {-1, 1, 0, 3, 1, 0}, {0, -1, 0, 1, 3, 1}, {1, 0, -1, 0, 1, 3}};
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            h[i * N + j] = 0;
            for (int k = 0; k < N; k++)
                h[i * N + j] += b[i][k] * diagonal[k] * b[j][k] / 16;
        }
    for (int i = 0; i < N; i++)
        v[i] = (float)(i % 3 + 1) * (i % 2 ? -1 : 1);
}

static const struct {
    const char *name;
    float diagonal[N];
} matrices[] = {{"positive definite", {4, 2, 1, 3, 2, 1}},
                {"ill-conditioned", {16, 0.125, 2, 0.0625, 8, 1}},
                {"indefinite", {4, -2, 1, 3, -2, 1}}};

START_TEST(all_columns)
{
    static const double rhos[] = {1e3, 1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-12, 1e-20, 1e-30};
    make(matrices[_i].diagonal);
    for (int r = 0; r < 9; r++)
        for (int single = 0; single < 2; single++) {
            if (_i == 2 && rhos[r] >= 0.5)
                continue; /* this column is left out */
            char settings[200];
            double x[N];
            long double due[N], a[N][N], b[N];
            snprintf(settings, sizeof settings,
                     "engine.precision = %s\nlower.type = nystrom\nlower.nystrom_rank = %d\nlower.nystrom_rho = %g\n",
                     single ? "fp32" : "fp64", N + single, rhos[r]);
            for (int i = 0; i < N; i++) {
                b[i] = v[i];
                for (int j = 0; j < N; j++)
                    a[i][j] = h[i * N + j] + (i == j ? (long double)rhos[r] : 0);
            }
            solve(N, a, b, due);
            ask(settings, x);
            double error = distance(x, due);
            ck_assert_msg(error < (single ? 2e-4 : 1e-12), "%s, %s, rho = %g: off by %g", matrices[_i].name,
                          single ? "fp32" : "fp64", rhos[r], error);
        }
}
END_TEST

/* H of rank 3 with all columns requested: three are left out. v = H z, so that x approaches the part of z in the range;
 * or v also has a part outside, for which v / rho is right. */
START_TEST(a_singular_matrix)
{
    static const float diagonal[N] = {4, 0, 1, 0, 2, 0};
    static const double rhos[] = {1, 1e-2, 1e-4, 1e-6, 1e-8};
    make(diagonal);
    for (int i = 0; _i == 0 && i < N; i++) {
        v[i] = 0;
        for (int j = 0; j < N; j++)
            v[i] += h[i * N + j] * (float)(j - 2);
    }
    for (int r = 0; r < 5; r++) {
        char settings[200];
        double x[N];
        long double due[N], a[N][N], b[N];
        snprintf(settings, sizeof settings, "lower.type = nystrom\nlower.nystrom_rank = %d\nlower.nystrom_rho = %g\n",
                 N, rhos[r]);
        for (int i = 0; i < N; i++) {
            b[i] = v[i];
            for (int j = 0; j < N; j++)
                a[i][j] = h[i * N + j] + (i == j ? (long double)rhos[r] : 0);
        }
        solve(N, a, b, due);
        ask(settings, x);
        ck_assert_msg(distance(x, due) < 1e-11, "rho = %g: off by %g", rhos[r], distance(x, due));
    }
}
END_TEST

/* The seed decides which columns. */
START_TEST(some_columns)
{
    int rank = 1 + _i % 5, chosen = 0;
    make(matrices[_i / 5].diagonal);
    for (int seed = 0; seed < 6; seed++) {
        char settings[200];
        double x[N], nearest = INFINITY;
        unsigned which = 0;
        snprintf(settings, sizeof settings,
                 "engine.seed = %d\nlower.type = nystrom\nlower.nystrom_rank = %d\nlower.nystrom_rho = 0.01\n", seed,
                 rank);
        ask(settings, x);
        for (unsigned mask = 1; mask < 1u << N; mask++) {
            long double due[N];
            if (__builtin_popcount(mask) != rank)
                continue;
            exact(mask, 0.01, due);
            if (distance(x, due) < nearest) {
                nearest = distance(x, due);
                which = mask;
            }
        }
        ck_assert_msg(nearest < 1e-10, "%d columns: no choice gives it, the nearest is off by %g", rank, nearest);
        chosen |= (int)which;
    }
    ck_assert_int_gt(__builtin_popcount((unsigned)chosen), rank);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nystrom");
    TCase *tc = tcase_create("nystrom");
    tcase_add_loop_test(tc, all_columns, 0, 3);
    tcase_add_loop_test(tc, a_singular_matrix, 0, 2);
    tcase_add_loop_test(tc, some_columns, 0, 10);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
