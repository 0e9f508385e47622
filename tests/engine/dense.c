/* tests/engine/dense.c */
#include "dense.h"

#include <check.h>
#include <math.h>
#include <string.h>

#define TINY 1e-30 /* the imaginary step */

/* ---- arbitrary numbers ---- */

static double drawn(int a, int b, int c)
{
    double x = sin(12.9898 * a + 78.233 * b + 37.719 * c + 1) * 43758.5453;
    return 2 * (x - floor(x)) - 1;
}

double dense_row(int row, int input)
{
    static double drawn_once[ROWS][INPUTS]; /* cached, as it is called very often */
    if (drawn_once[row][input] == 0)
        drawn_once[row][input] = 1.5 * drawn(1, row, input);
    return drawn_once[row][input];
}

double dense_target(int level, int row) { return 1.5 * drawn(2, level, row); }
double dense_centre(int level, int i) { return 0.7 * drawn(4, level, i); }
double dense_share(int level, int other) { return 0.2 + 0.2 * drawn(3, level, other); }

/* ---- losses ---- */

typedef complex_number vector[N];

/* To first order in the imaginary part, which is tiny: as accurate as ctanh and much faster. */
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

/* The derivative of C_level with respect to the parameters of each level that it reads, its own included. */
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

/* The gradient at real parameters, with those of `moved` shifted. */
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

/* Gaussian elimination on the first n rows and columns; the matrix must be positive definite. */
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

/* alpha sum of (I - alpha H)^j v, j = 0 .. K, evaluated from the last term inwards. */
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

/* The result of conjugate gradients, without their recurrences: the combination x of v, Hv, H^2 v, ... whose residual
 * is orthogonal to all of these. */
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
    solve(r->h, 0, r->v, N, x); /* so H itself must be positive definite */
    solve(r->h, NYSTROM_RHO, r->v, N, x);
}

/* Gradient descent on f + PENALTY C from the level's parameters; the part of v from other levels is a constant. */
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

/* The contribution of the level's x to the levels that its loss reads; with a penalty also to those that the upper loss
 * reads. */
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

/* ---- updates ---- */

typedef struct state { /* of one parameter */
    complex_number theta, m, v;
} state;

/* PyTorch's formulas; t: the number of updates, including this one. */
static state update(optimizer_kind kind, state s, complex_number g, int t)
{
    if (kind == SGD)
        return (state){s.theta - LR * g, s.m, s.v};
    if (kind == MOMENTUM) {
        s.m = t == 1 ? g : MOMENTUM_ * s.m + (1 - DAMPENING_) * g;
        return (state){s.theta - LR * s.m, s.m, s.v};
    }
    s.m = 0.9 * s.m + 0.1 * g;
    s.v = 0.999 * s.v + 0.001 * g * g;
    s.theta -= LR * s.m / (1 - pow(0.9, t)) / (csqrt(s.v / (1 - pow(0.999, t))) + 1e-8);
    return s;
}

typedef struct adjoint_of_state {
    double theta[LEVELS][N]; /* for the parameters of every level */
    double m[LEVELS][N], v[LEVELS][N];
} adjoint_of_state;

/* The derivative of the combined results of an update with respect to the argument (theta, m, v or g) whose imaginary
 * part was shifted. */
static double slope(state moved, double theta, double m, double v)
{
    return (theta * cimag(moved.theta) + m * cimag(moved.m) + v * cimag(moved.v)) / TINY;
}

/* Backwards through the update: x = u_g^T a; a <- u_s^T a. */
static void pull_update(optimizer_kind kind, const dense_record *r, double *theta, double *m, double *v, double *x)
{
    for (int i = 0; i < N; i++) {
        const state s = {0, r->m[i], r->v[i]}; /* no derivative depends on theta, since the update is added to it */
        double at = theta[i], am = m[i], av = v[i];
        x[i] = slope(update(kind, s, r->g[i] + TINY * I, r->steps), at, am, av);
        m[i] = slope(update(kind, (state){s.theta, s.m + TINY * I, s.v}, r->g[i], r->steps), at, am, av);
        v[i] = slope(update(kind, (state){s.theta, s.m, s.v + TINY * I}, r->g[i], r->steps), at, am, av);
    }
}

/* ---- itd ---- */

static const dense_record *kept(const dense *d, int level, int step) { return &d->kept[level][step % STEPS]; }

/* Backwards through this step of level q; upper: the level that asks for the hypergradient. */
static void back(const dense *d, int upper, int q, int step, adjoint_of_state *a)
{
    static dense then; /* static, as it is large */
    double second[LEVELS][N][N], x[N], product[N];
    const dense_record *record = kept(d, q, step);
    then = *d;
    memcpy(then.theta, record->theta, sizeof then.theta);
    pull_update(d->optimizer, record, a->theta[q], a->m[q], a->v[q], x);
    second_derivatives(&then, q, second);
    for (int p = upper; p <= q; p++) {
        if (p != q && !d->reads[q][p])
            continue;
        times(second[p], x, product);
        for (int i = 0; i < N; i++)
            a->theta[p][i] += product[i];
    }
}

/* Backwards through the steps of several levels together, latest first. */
static void unroll(const dense *d, int upper, const int *group, int count, adjoint_of_state *a)
{
    int next[LEVELS];
    for (int k = 0; k < count; k++)
        next[k] = d->steps[group[k]] - 1;
    for (;;) {
        int last = -1, most = d->since[upper] - 1;
        for (int k = 0; k < count; k++)
            if (next[k] >= 0 && kept(d, group[k], next[k])->tick > most) {
                most = kept(d, group[k], next[k])->tick;
                last = k;
            }
        if (last < 0)
            return;
        ck_assert_msg(d->steps[group[last]] - next[last] <= STEPS, "more steps than dense.c keeps");
        back(d, upper, group[last], next[last]--, a);
    }
}

/* ---- hypergradients ---- */

static bool unrolls(const dense *d, int level) { return strcmp(d->method[level], "itd") == 0; }

/* The levels below, each after those that read it; if several can be next, the uppermost. Returns their number. */
static int in_order(const dense *d, int upper, int *order)
{
    bool done[LEVELS] = {false};
    int count = 0;
    for (int q = upper + 1; q < d->levels; q++) {
        bool free = !done[q];
        for (int below = q + 1; below < d->levels; below++)
            free &= done[below] || !d->reads[below][q];
        if (!free)
            continue;
        done[q] = true;
        order[count++] = q;
        q = upper; /* start again from the top */
    }
    return count;
}

/* By the level's own method, at the current parameters, taken as the solution. */
static bool implicit(const dense *d, int upper, int q, double adjoint[][N])
{
    double second[LEVELS][N][N], x[N];
    bool first_order = strcmp(d->method[q], "penalty") == 0; /* moves even if v is 0 */
    int which = -1;
    for (int m = 0; m < (int)(sizeof methods / sizeof *methods); m++)
        which = strcmp(methods[m].name, d->method[q]) == 0 ? m : which;
    if (which < 0)
        return false;
    if (dot(adjoint[q], adjoint[q]) == 0 && !first_order)
        return true;
    second_derivatives(d, q, second);
    request r = {.d = d, .upper = upper, .level = q, .h = second[q], .v = adjoint[q]};
    methods[which].x(&r, x);
    pass_on(&r, second, x, adjoint);
    return true;
}

bool dense_hypergradient(const dense *d, int level, double *result)
{
    static const double zero[N];
    adjoint_of_state a = {.m = {{0}}};
    int order[LEVELS], count = in_order(d, level, order), group;
    real_gradient(d, level, level, zero, a.theta);
    for (int k = 0; k < count; k += group ? group : 1) {
        for (group = 0; k + group < count && unrolls(d, order[k + group]); group++)
            ;
        if (group)
            unroll(d, level, order + k, group, &a);
        else if (!implicit(d, level, order[k], a.theta))
            return false;
    }
    memcpy(result, a.theta[level], sizeof(double[N]));
    return true;
}

/* ---- training ---- */

bool dense_step(dense *d, int level)
{
    dense_record record;
    if (!dense_hypergradient(d, level, record.g))
        return false;
    memcpy(record.theta, d->theta, sizeof record.theta);
    memcpy(record.m, d->m[level], sizeof record.m);
    memcpy(record.v, d->v[level], sizeof record.v);
    record.tick = d->tick++;
    record.steps = d->steps[level] + 1;
    for (int i = 0; i < N; i++) {
        state s = {d->theta[level][i], record.m[i], record.v[i]};
        s = update(d->optimizer, s, record.g[i] + TINY * I, record.steps);
        d->slope[level][i] = -cimag(s.theta) / TINY;
        d->theta[level][i] = creal(s.theta);
        d->m[level][i] = creal(s.m);
        d->v[level][i] = creal(s.v);
    }
    d->kept[level][d->steps[level]++ % STEPS] = record;
    d->since[level] = d->tick;
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
    memset(d->since, 0, sizeof d->since);
    d->tick = 0;
}
