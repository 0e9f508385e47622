/* tests/engine/dense.c */
#include "dense.h"

#include <check.h>
#include <math.h>
#include <string.h>

#define TINY 1e-30 /* the imaginary step */

/* ---- numbers without a pattern ---- */

static double drawn(int a, int b, int c)
{
    double x = sin(12.9898 * a + 78.233 * b + 37.719 * c + 1) * 43758.5453;
    return 2 * (x - floor(x)) - 1;
}

double dense_row(int row, int input)
{
    static double drawn_once[ROWS][INPUTS]; /* it is asked for very often */
    if (drawn_once[row][input] == 0)
        drawn_once[row][input] = 1.5 * drawn(1, row, input);
    return drawn_once[row][input];
}

double dense_target(int level, int row) { return 1.5 * drawn(2, level, row); }
double dense_centre(int level, int i) { return 0.7 * drawn(4, level, i); }
double dense_share(int level, int other) { return 0.2 + 0.2 * drawn(3, level, other); }

/* ---- losses ---- */

typedef complex_number vector[N];

/* To first order in the imaginary part, which is tiny: as exact as ctanh there, and much faster. */
static complex_number tanh_near(complex_number z)
{
    double t = tanh(creal(z));
    return t + (1 - t * t) * cimag(z) * I;
}

/* y, and its derivative with respect to the parameters. */
static complex_number net(const complex_number *theta, int row, complex_number *slope)
{
    const complex_number *b = theta + INPUTS * HIDDEN, *out = b + HIDDEN;
    complex_number y = 0;
    for (int h = 0; h < HIDDEN; h++) {
        complex_number sum = b[h];
        for (int i = 0; i < INPUTS; i++)
            sum += dense_row(row, i) * theta[i * HIDDEN + h];
        complex_number t = tanh_near(sum), back = out[h] * (1 - t * t);
        y += out[h] * t;
        slope[(INPUTS + 1) * HIDDEN + h] = t;
        slope[INPUTS * HIDDEN + h] = back;
        for (int i = 0; i < INPUTS; i++)
            slope[i * HIDDEN + h] = back * dense_row(row, i);
    }
    return y;
}

/* The derivative of C_level with respect to each level's parameters that it reads, its own among them. */
static void gradient(const dense *d, int level, vector *theta, vector *result)
{
    memset(result, 0, (size_t)d->levels * sizeof *result);
    for (int row = 0; row < ROWS; row++) {
        vector slope[LEVELS];
        complex_number y = net(theta[level], row, slope[level]), others = 0;
        for (int r = 0; r < d->levels; r++)
            if (r != level && d->reads[level][r])
                others += dense_share(level, r) * net(theta[r], row, slope[r]);
        complex_number residual = y + (1 + y / 2) * others - dense_target(level, row);
        complex_number outer = residual / csqrt(1 + residual * residual) / ROWS;
        for (int r = 0; r < d->levels; r++) {
            complex_number inner = r == level           ? 1 + others / 2
                                   : d->reads[level][r] ? (1 + y / 2) * dense_share(level, r)
                                                        : 0;
            for (int i = 0; i < N && (r == level || d->reads[level][r]); i++)
                result[r][i] += outer * inner * slope[r][i];
        }
    }
    for (int i = 0; i < N; i++)
        result[level][i] += RIDGE * (theta[level][i] - dense_centre(level, i));
}

double dense_loss(const dense *d, int level)
{
    complex_number theta[N], slope[N];
    double sum = 0;
    for (int row = 0; row < ROWS; row++) {
        double y[LEVELS], others = 0;
        for (int p = 0; p < d->levels; p++) {
            for (int i = 0; i < N; i++)
                theta[i] = d->theta[p][i];
            y[p] = creal(net(theta, row, slope));
            others += p != level && d->reads[level][p] ? dense_share(level, p) * y[p] : 0;
        }
        double residual = y[level] + (1 + y[level] / 2) * others - dense_target(level, row);
        sum += (sqrt(1 + residual * residual) - 1) / ROWS;
    }
    for (int i = 0; i < N; i++)
        sum += RIDGE / 2 * pow(d->theta[level][i] - dense_centre(level, i), 2);
    return sum;
}

/* The gradient at real parameters, those of `moved` shifted. */
static void real_gradient(const dense *d, int level, int moved, const double *shift, double result[][N])
{
    vector theta[LEVELS], g[LEVELS];
    for (int p = 0; p < d->levels; p++)
        for (int i = 0; i < N; i++)
            theta[p][i] = d->theta[p][i] + (p == moved ? shift[i] : 0);
    gradient(d, level, theta, g);
    for (int p = 0; p < d->levels; p++)
        for (int i = 0; i < N; i++)
            result[p][i] = creal(g[p][i]);
}

/* second[p][i][j] = d2 C_level / d theta_p,i d theta_level,j */
static void second_derivatives(const dense *d, int level, double second[][N][N])
{
    vector theta[LEVELS], g[LEVELS];
    for (int p = 0; p < d->levels; p++)
        for (int i = 0; i < N; i++)
            theta[p][i] = d->theta[p][i];
    for (int j = 0; j < N; j++) {
        theta[level][j] = d->theta[level][j] + TINY * I;
        gradient(d, level, theta, g);
        theta[level][j] = d->theta[level][j];
        for (int p = 0; p < d->levels; p++)
            for (int i = 0; i < N; i++)
                second[p][i][j] = cimag(g[p][i]) / TINY;
    }
}

/* ---- dense algebra ---- */

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += a[i] * b[i];
    return sum;
}

static void times(double matrix[N][N], const double *x, double *result)
{
    double product[N];
    for (int i = 0; i < N; i++)
        product[i] = dot(matrix[i], x);
    memcpy(result, product, sizeof product);
}

/* Gauss, of the first n rows and columns; the matrix must be positive definite. */
static void solve(double matrix[N][N], double shift, const double *right, int n, double *x)
{
    double a[N][N + 1];
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            a[i][j] = matrix[i][j] + (i == j ? shift : 0);
        a[i][n] = right[i];
    }
    for (int k = 0; k < n; k++) {
        ck_assert_msg(a[k][k] > 0, "a matrix is not positive definite: pivot %d is %g", k, a[k][k]);
        for (int i = k + 1; i < n; i++)
            for (int j = n; j >= k; j--)
                a[i][j] -= a[i][k] / a[k][k] * a[k][j];
    }
    for (int i = n - 1; i >= 0; i--) {
        x[i] = a[i][n];
        for (int j = i + 1; j < n; j++)
            x[i] -= a[i][j] * x[j];
        x[i] /= a[i][i];
    }
}

/* ---- the methods: x from v, H = second[level] ---- */

typedef struct request {
    const dense *d;
    int upper, level;
    double (*h)[N];
    const double *v;
} request;

static void by_darts(const request *r, double *x) { memcpy(x, r->v, sizeof(double[N])); }

/* alpha sum of (I - alpha H)^j v, j = 0 .. K, from the last term inwards. */
static void by_neumann(const request *r, double *x)
{
    double hx[N];
    memcpy(x, r->v, sizeof(double[N]));
    for (int k = 0; k < ITERATIONS; k++) {
        times(r->h, x, hx);
        for (int i = 0; i < N; i++)
            x[i] = r->v[i] + x[i] - NEUMANN_ALPHA * hx[i];
    }
    for (int i = 0; i < N; i++)
        x[i] *= NEUMANN_ALPHA;
}

/* What conjugate gradients compute, without their recurrences: the x among the combinations of v, Hv, H^2 v, ... whose
 * residual is perpendicular to all of these. */
static void by_cg(const request *r, double *x)
{
    double basis[ITERATIONS][N], image[N], small[N][N] = {{0}}, right[N] = {0}, share[N];
    memset(x, 0, sizeof(double[N]));
    if (dot(r->v, r->v) == 0)
        return;
    for (int k = 0; k < ITERATIONS; k++) {
        if (k)
            times(r->h, basis[k - 1], basis[k]);
        else
            memcpy(basis[0], r->v, sizeof basis[0]);
        for (int twice = 0; twice < 2; twice++)
            for (int l = 0; l < k; l++) {
                double along = dot(basis[k], basis[l]);
                for (int i = 0; i < N; i++)
                    basis[k][i] -= along * basis[l][i];
            }
        double length = sqrt(dot(basis[k], basis[k]));
        for (int i = 0; i < N; i++)
            basis[k][i] /= length;
    }
    for (int k = 0; k < ITERATIONS; k++) {
        times(r->h, basis[k], image);
        for (int i = 0; i < N; i++)
            image[i] += CG_DAMPING * basis[k][i];
        for (int l = 0; l < ITERATIONS; l++)
            small[l][k] = dot(basis[l], image);
        ck_assert_msg(small[k][k] > 0, "H is not positive definite here: conjugate gradients would stop");
        right[k] = dot(basis[k], r->v);
    }
    solve(small, 0, right, ITERATIONS, share);
    for (int k = 0; k < ITERATIONS; k++)
        for (int i = 0; i < N; i++)
            x[i] += share[k] * basis[k][i];
}

static void by_sama(const request *r, double *x)
{
    for (int i = 0; i < N; i++)
        x[i] = SAMA_ALPHA * r->d->slope[r->level][i] * r->v[i];
}

/* With all columns the approximation is H. */
static void by_nystrom(const request *r, double *x)
{
    solve(r->h, 0, r->v, N, x); /* H itself must be positive definite */
    solve(r->h, NYSTROM_RHO, r->v, N, x);
}

/* Steps of gradient descent on f + PENALTY C from the level's parameters; the other levels' part of v is a constant. */
static void by_penalty(const request *r, double *x)
{
    double still[LEVELS][N], f[LEVELS][N], c[LEVELS][N], shift[N] = {0};
    real_gradient(r->d, r->upper, r->level, shift, still);
    for (int k = 0; k < ITERATIONS; k++) {
        real_gradient(r->d, r->upper, r->level, shift, f);
        real_gradient(r->d, r->level, r->level, shift, c);
        for (int i = 0; i < N; i++) {
            double v = r->v[i] + f[r->level][i] - still[r->level][i];
            shift[i] -= PENALTY_LR * (c[r->level][i] + v / PENALTY);
        }
    }
    for (int i = 0; i < N; i++)
        x[i] = -PENALTY * shift[i];
}

static const struct {
    const char *name;
    void (*x)(const request *r, double *x);
} methods[] = {{"darts", by_darts}, {"neumann", by_neumann}, {"cg", by_cg},
               {"sama", by_sama},   {"nystrom", by_nystrom}, {"penalty", by_penalty}};

/* What level's x brings to the levels that its loss reads; by a penalty also to those that the upper loss reads. */
static void pass_on(const request *r, double second[][N][N], const double *x, double adjoint[][N])
{
    bool penalty = strcmp(r->d->method[r->level], "penalty") == 0;
    double shift[N], zero[N] = {0}, moved[LEVELS][N], still[LEVELS][N], f[LEVELS][N], f_still[LEVELS][N], product[N];
    for (int i = 0; i < N; i++)
        shift[i] = -x[i] / PENALTY;
    if (penalty) {
        real_gradient(r->d, r->level, r->level, shift, moved);
        real_gradient(r->d, r->level, r->level, zero, still);
        real_gradient(r->d, r->upper, r->level, shift, f);
        real_gradient(r->d, r->upper, r->level, zero, f_still);
    }
    for (int p = 0; p < r->level; p++) {
        if (!r->d->reads[r->level][p] || p < r->upper)
            continue;
        times(second[p], x, product);
        for (int i = 0; i < N; i++)
            adjoint[p][i] += penalty ? PENALTY * (moved[p][i] - still[p][i]) + f[p][i] - f_still[p][i] : -product[i];
    }
}

bool dense_hypergradient(const dense *d, int level, double *result)
{
    static const double zero[N];
    double adjoint[LEVELS][N], second[LEVELS][N][N], x[N];
    real_gradient(d, level, level, zero, adjoint);
    for (int q = d->levels - 1; q > level; q--) {
        bool first_order = strcmp(d->method[q], "penalty") == 0; /* which moves where v is 0, too */
        int which = -1;
        if (dot(adjoint[q], adjoint[q]) == 0 && !first_order)
            continue;
        for (int m = 0; m < (int)(sizeof methods / sizeof *methods); m++)
            which = strcmp(methods[m].name, d->method[q]) == 0 ? m : which;
        if (which < 0)
            return false;
        second_derivatives(d, q, second);
        request r = {.d = d, .upper = level, .level = q, .h = second[q], .v = adjoint[q]};
        methods[which].x(&r, x);
        pass_on(&r, second, x, adjoint);
    }
    memcpy(result, adjoint[level], sizeof(double[N]));
    return true;
}

/* ---- training ---- */

/* What an update takes off a parameter, by PyTorch's formulas; t: updates with this one. */
static complex_number update(optimizer_kind kind, complex_number g, double m, double v, int t)
{
    if (kind == SGD)
        return LR * g;
    if (kind == MOMENTUM)
        return LR * (t == 1 ? g : MOMENTUM_ * m + (1 - DAMPENING_) * g);
    complex_number mean = (0.9 * m + 0.1 * g) / (1 - pow(0.9, t));
    complex_number square = (0.999 * v + 0.001 * g * g) / (1 - pow(0.999, t));
    return LR * mean / (csqrt(square) + 1e-8);
}

bool dense_step(dense *d, int level)
{
    double g[N];
    if (!dense_hypergradient(d, level, g))
        return false;
    int t = ++d->steps[level];
    for (int i = 0; i < N; i++) {
        double *m = &d->m[level][i], *v = &d->v[level][i];
        d->slope[level][i] = cimag(update(d->optimizer, g[i] + TINY * I, *m, *v, t)) / TINY;
        d->theta[level][i] -= creal(update(d->optimizer, g[i], *m, *v, t));
        *m = d->optimizer == ADAM ? 0.9 * *m + 0.1 * g[i] : t == 1 ? g[i] : MOMENTUM_ * *m + (1 - DAMPENING_) * g[i];
        *v = 0.999 * *v + 0.001 * g[i] * g[i];
    }
    return true;
}

void dense_solve(dense *d, int level)
{
    static const double zero[N];
    double second[LEVELS][N][N], g[LEVELS][N], step[N], length = 1;
    for (int k = 0; k < 100; k++) {
        real_gradient(d, level, level, zero, g);
        for (int i = 0; i < N; i++)
            d->theta[level][i] -= g[level][i] / 2;
    }
    for (int k = 0; k < 50 && length > 1e-13; k++) {
        real_gradient(d, level, level, zero, g);
        second_derivatives(d, level, second);
        solve(second[level], 0, g[level], N, step);
        length = sqrt(dot(step, step));
        for (int i = 0; i < N; i++)
            d->theta[level][i] -= step[i];
    }
    ck_assert_msg(length <= 1e-13, "level %d is not solved: the last step was %g", level, length);
}

void dense_open(dense *d)
{
    for (int p = 0; p < LEVELS; p++)
        for (int i = 0; i < N; i++) {
            d->theta[p][i] = dense_centre(p, i) + 0.1 * drawn(5, p, i);
            d->m[p][i] = d->v[p][i] = d->slope[p][i] = 0;
        }
    memset(d->steps, 0, sizeof d->steps);
}
