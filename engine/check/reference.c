/* engine/check/reference.c: x of each lower level, once as the method computes it and once as the solution of its
 * equation H x = a, with the same product H. Any difference between the two is the method's approximation.
 *
 * The equation is solved on the host by GMRES without restarts (Saad and Schultz, 1986), because H need be neither
 * positive nor symmetric (detached values, custom rules). */
#include "engine/check/check.h"

#include "ops/ops.h"
#include "runtime/store.h"
#include <math.h>
#include <string.h>

enum { MAX_PRODUCTS = 200, MAX_NUMBERS = 1000000 };
static const double solved = 1e-2; /* the largest relative residual that counts as a solution */

static bt_status read_flat(const bt_context *context, const bt_var *flat, double *to)
{
    return bt_store_to_array(context->instance, flat, BT_ARRAY(to, flat->dims[0]));
}

static bt_status write_flat(const bt_context *context, bt_var *flat, const double *from)
{
    return bt_store_from_array(context->instance, flat, BT_ARRAY(from, flat->dims[0]));
}

/* adjoint NULL: the gradient of the upper problem itself. */
static bt_status add_upper_part(bt_trial *c, bt_problem *moved, const bt_var *adjoint)
{
    bt_part *part = bt_check_add_part(c, BT_PART_UPPER, -1, moved);
    if (!part)
        return BT_ERROR_MEMORY;
    return adjoint ? read_flat(c->context, adjoint, part->declared) : bt_check_gradient(moved, part->declared);
}

static bt_status record(bt_trial *c)
{
    bt_step_phase *step = c->upper->step;
    BT_TRY(bt_step_direct(c->upper));
    BT_TRY(add_upper_part(c, c->upper, NULL));
    for (int q = 0; q < step->site.solve_count; q++)
        BT_TRY(add_upper_part(c, step->site.solves[q].problem, step->site.solves[q].adjoint.flat));
    for (int q = 0; q < step->site.solve_count; q++) {
        bt_solve *solve = &step->site.solves[q];
        BT_TRY(read_flat(c->context, solve->adjoint.flat, c->lowers[q].adjoint));
        if (!solve->solver->iterate) { /* there is no x; the products take any vector */
            BT_TRY(read_flat(c->context, solve->adjoint.flat, c->lowers[q].x));
            continue;
        }
        BT_TRY(solve->solver->iterate(&step->site, solve));
        BT_TRY(read_flat(c->context, solve->solver->x(solve), c->lowers[q].x));
        BT_TRY(bt_implicit_product(&step->site, solve));
    }
    return bt_check_gradient(c->upper, c->recorded);
}

bt_status bt_check_record(bt_trial *c)
{
    BT_TRY(bt_kept_restore(c->end));
    bt_status status = record(c);
    bt_phase_end(c->upper->step->phase);
    return status;
}

/* ---- the product, driven from the host: a one-step method, x = H x ---- */

static bt_tensor *apply(bt_rule *rule, bt_tensor *v, bt_tensor *x)
{
    (void)v;
    return bt_hvp(rule, x);
}

static const bt_method_def probe = {.name = "the product alone", .step = apply};

typedef struct product {
    bt_solve_site *site;
    bt_solve *solve;
} product;

static bt_status multiply(const product *p, const double *x, double *result)
{
    const bt_context *context = p->site->upper->context;
    BT_TRY(write_flat(context, bt_implicit_x(p->solve), x));
    BT_TRY(bt_implicit_step(p->site, p->solve));
    return read_flat(context, bt_implicit_x(p->solve), result);
}

/* ---- GMRES ---- */

typedef struct krylov {
    int64_t size, most; /* of a vector; the maximum number of products */
    double *basis;      /* [most + 1, size] */
    double *triangle;   /* [most, most + 1], by column */
    double *cosine, *sine, *right;
} krylov;

static bool krylov_open(krylov *k)
{
    size_t most = (size_t)k->most, size = (size_t)k->size;
    k->basis = bt_alloc_array((most + 1) * size, sizeof(double));
    k->triangle = bt_alloc_array(most * (most + 1), sizeof(double));
    k->cosine = bt_alloc_array(most, sizeof(double));
    k->sine = bt_alloc_array(most, sizeof(double));
    k->right = bt_alloc_array(most + 1, sizeof(double));
    return k->basis && k->triangle && k->cosine && k->sine && k->right;
}

static void krylov_close(krylov *k)
{
    bt_free(k->basis);
    bt_free(k->triangle);
    bt_free(k->cosine);
    bt_free(k->sine);
    bt_free(k->right);
}

static void scale_vector(double *x, double by, int64_t size)
{
    for (int64_t i = 0; i < size; i++)
        x[i] *= by;
}

/* Adds a vector to the basis, orthogonalised against the others (twice, because of rounding), and rotates its
 * column. */
static bt_status extend(krylov *k, const product *p, int64_t j)
{
    double *next = k->basis + (j + 1) * k->size, *column = k->triangle + j * (k->most + 1);
    BT_TRY(multiply(p, k->basis + j * k->size, next));
    for (int again = 0; again < 2; again++)
        for (int64_t i = 0; i <= j; i++) {
            const double *q = k->basis + i * k->size;
            double part = bt_check_dot(q, next, k->size);
            column[i] += part;
            for (int64_t n = 0; n < k->size; n++)
                next[n] -= part * q[n];
        }
    double length = sqrt(bt_check_dot(next, next, k->size));
    if (length > 0)
        scale_vector(next, 1 / length, k->size);
    for (int64_t i = 0; i < j; i++) {
        double a = column[i], b = column[i + 1];
        column[i] = k->cosine[i] * a + k->sine[i] * b;
        column[i + 1] = k->cosine[i] * b - k->sine[i] * a;
    }
    double r = hypot(column[j], length);
    k->cosine[j] = r > 0 ? column[j] / r : 1;
    k->sine[j] = r > 0 ? length / r : 0;
    column[j] = r;
    k->right[j + 1] = -k->sine[j] * k->right[j];
    k->right[j] *= k->cosine[j];
    return BT_OK;
}

static void back_substitute(krylov *k, int64_t used, double *x)
{
    for (int64_t j = used - 1; j >= 0; j--) {
        double sum = k->right[j];
        for (int64_t i = j + 1; i < used; i++)
            sum -= k->triangle[i * (k->most + 1) + j] * k->right[i];
        double pivot = k->triangle[j * (k->most + 1) + j];
        k->right[j] = pivot > 0 ? sum / pivot : 0;
        for (int64_t n = 0; n < k->size; n++)
            x[n] += k->right[j] * k->basis[j * k->size + n];
    }
}

static bt_status gmres(krylov *k, const product *p, const double *a, double *x, double *residual)
{
    double length = sqrt(bt_check_dot(a, a, k->size)), enough = p->solve->problem->dtype == BT_F64 ? 1e-13 : 1e-6;
    int64_t used = 0;
    *residual = 0;
    memset(x, 0, (size_t)k->size * sizeof *x);
    if (!(length > 0) || !isfinite(length))
        return BT_OK;
    memcpy(k->basis, a, (size_t)k->size * sizeof *a);
    scale_vector(k->basis, 1 / length, k->size);
    k->right[0] = length;
    for (*residual = 1; used<k->most && * residual> enough; used++) {
        BT_TRY(extend(k, p, used));
        *residual = fabs(k->right[used + 1]) / length;
    }
    back_substitute(k, used, x);
    return BT_OK;
}

/* Solves H x = a for lower->solution; NULL if the level is too large. */
static bt_status solve(bt_lower *lower, const product *p, const double *a)
{
    krylov k = {.size = lower->count, .most = lower->count < MAX_PRODUCTS ? lower->count : MAX_PRODUCTS};
    if (k.most > MAX_NUMBERS / k.size)
        k.most = MAX_NUMBERS / k.size;
    bt_free(lower->solution);
    lower->solution = NULL;
    if (!k.most)
        return BT_OK;
    lower->solution = bt_alloc_array((size_t)lower->count, sizeof(double));
    bool open = krylov_open(&k);
    bt_status status = lower->solution && open ? gmres(&k, p, a, lower->solution, &lower->residual) : BT_ERROR_MEMORY;
    krylov_close(&k);
    if (status == BT_OK && !(lower->residual <= solved)) {
        bt_free(lower->solution);
        lower->solution = NULL;
    }
    return status;
}

/* ---- both passes ---- */

/* What a problem has received so far: the upper one its gradient, a level to be solved its adjoint. */
static bt_status read_given(const bt_trial *c, const bt_problem *problem, double *to)
{
    const bt_solve_site *site = &c->upper->step->site;
    for (int r = 0; r < site->solve_count; r++)
        if (site->solves[r].problem == problem)
            return read_flat(c->context, site->solves[r].adjoint.flat, to);
    return bt_check_gradient(c->upper, to);
}

/* Subtracts what the problem has received by now; the part is then what has been subtracted from the problem since. */
static bt_status take_difference(const bt_trial *c, const bt_part *part)
{
    int64_t count = bt_params_elements(part->moved);
    double *values = bt_alloc_array((size_t)count, sizeof *values);
    bt_status status = values ? read_given(c, part->moved, values) : BT_ERROR_MEMORY;
    for (int64_t n = 0; n < count && status == BT_OK; n++)
        part->declared[n] -= values[n];
    bt_free(values);
    return status;
}

static bt_status add_cross_part(bt_trial *c, int q, bt_problem *reader)
{
    if (!bt_u2l(reader, c->upper->step->site.solves[q].problem))
        return BT_OK;
    bt_part *part = bt_check_add_part(c, BT_PART_CROSS, q, reader);
    return part ? read_given(c, reader, part->declared) : BT_ERROR_MEMORY;
}

/* What the product of this solve subtracts from the upper problem and from levels that are solved later. */
static bt_status record_products(bt_trial *c, int q)
{
    bt_solve_site *site = &c->upper->step->site;
    int first = c->part_count;
    BT_TRY(add_cross_part(c, q, c->upper));
    for (int r = q + 1; r < site->solve_count; r++)
        BT_TRY(add_cross_part(c, q, site->solves[r].problem));
    BT_TRY(bt_implicit_product(site, &site->solves[q]));
    for (int i = first; i < c->part_count; i++)
        BT_TRY(take_difference(c, &c->parts[i]));
    return BT_OK;
}

static void compare(bt_lower *lower)
{
    double xx = bt_check_dot(lower->x, lower->x, lower->count);
    double ss = bt_check_dot(lower->solution, lower->solution, lower->count);
    double xs = bt_check_dot(lower->x, lower->solution, lower->count);
    lower->cosine = xx > 0 && ss > 0 ? xs / sqrt(xx * ss) : xx == ss;
    lower->ratio = ss > 0 ? sqrt(xx / ss) : xx == ss;
}

/* Solves with the adjoint that the method received; compares with its result. */
static bt_status with_method(bt_trial *c)
{
    bt_step_phase *step = c->upper->step;
    BT_TRY(bt_step_direct(c->upper));
    for (int q = 0; q < step->site.solve_count; q++) {
        bt_lower *lower = &c->lowers[q];
        const product p = {&step->site, &step->site.solves[q]};
        BT_TRY(write_flat(c->context, p.solve->adjoint.flat, lower->adjoint));
        BT_TRY(bt_implicit_start(p.site, p.solve));
        if (lower->iterates) {
            bt_part *part = bt_check_add_part(c, BT_PART_HESSIAN, q, lower->problem);
            if (!part)
                return BT_ERROR_MEMORY;
            BT_TRY(multiply(&p, lower->x, part->declared));
        }
        if (!lower->unrolls)
            BT_TRY(solve(lower, &p, lower->adjoint));
        if (lower->solution)
            compare(lower);
        BT_TRY(write_flat(c->context, bt_implicit_x(p.solve), lower->x));
        BT_TRY(record_products(c, q));
    }
    return BT_OK;
}

/* Uses the solutions at every level. */
static bt_status with_solutions(bt_trial *c)
{
    bt_step_phase *step = c->upper->step;
    BT_TRY(bt_step_direct(c->upper));
    for (int q = 0; q < step->site.solve_count; q++) {
        bt_lower *lower = &c->lowers[q];
        const product p = {&step->site, &step->site.solves[q]};
        BT_TRY(read_flat(c->context, p.solve->adjoint.flat, lower->field));
        bool same = memcmp(lower->field, lower->adjoint, (size_t)lower->count * sizeof(double)) == 0;
        BT_TRY(bt_implicit_start(p.site, p.solve));
        if (!same)
            BT_TRY(solve(lower, &p, lower->field));
        if (!lower->solution)
            return BT_OK;
        BT_TRY(write_flat(c->context, bt_implicit_x(p.solve), lower->solution));
        BT_TRY(bt_implicit_product(p.site, p.solve));
    }
    BT_TRY(bt_check_gradient(c->upper, c->reference));
    c->have_reference = true;
    return BT_OK;
}

/* The effect of differences in place of products on the hypergradient: the same x with exact products. */
static bt_status compare_finite(bt_trial *c)
{
    bool any = false, unrolls = false;
    double ee = 0, ss = 0, *sum = bt_alloc_array((size_t)c->count, sizeof *sum);
    if (!sum)
        return BT_ERROR_MEMORY;
    for (int q = 0; q < c->lower_count; q++) {
        any |= c->lowers[q].finite;
        unrolls |= c->lowers[q].unrolls;
    }
    for (int i = 0; i < c->part_count; i++)
        for (int64_t n = 0; c->parts[i].moved == c->upper && n < c->count; n++)
            sum[n] += (c->parts[i].kind == BT_PART_UPPER ? 1 : -1) * c->parts[i].declared[n];
    for (int64_t n = 0; n < c->count; n++) {
        ee += pow(c->recorded[n] - sum[n], 2);
        ss += pow(sum[n], 2);
    }
    if (any && !unrolls && !c->loose)
        c->finite_error = ss > 0 ? sqrt(ee / ss) : ee > 0 ? INFINITY : 0;
    bt_free(sum);
    return BT_OK;
}

/* Recompiles for the current settings. Levels above may have programs that use this level's; those do not run during a
 * check, and are recompiled at its end. */
static bt_status recompile(const bt_trial *c)
{
    bt_problem_uncompile(c->upper);
    return bt_level_compile(c->upper);
}

/* Compiles with exact products, if the ops of the losses have the derivatives that these need. */
static bt_status compile_reference(bt_trial *c, bt_problem_settings *settings)
{
    bt_status status = recompile(c);
    for (int q = 0; q < c->lower_count && status == BT_ERROR_UNSUPPORTED; q++)
        c->loose |= c->lowers[q].finite;
    if (!c->loose)
        return status;
    bt_error_clear();
    for (int q = 0; q < c->lower_count; q++)
        if (c->lowers[q].finite)
            settings[q].product = BT_PRODUCT_FINITE;
    return recompile(c);
}

static bt_status both(bt_trial *c, bt_problem_settings *settings)
{
    BT_TRY(compile_reference(c, settings));
    BT_TRY(bt_kept_restore(c->end));
    bt_status status = with_method(c);
    bt_phase_end(c->upper->step->phase);
    if (status == BT_OK)
        status = compare_finite(c);
    bool all = status == BT_OK;
    for (int q = 0; q < c->lower_count; q++)
        all = all && c->lowers[q].solution;
    if (!all)
        return status;
    BT_TRY(bt_kept_restore(c->end));
    status = with_solutions(c);
    bt_phase_end(c->upper->step->phase);
    return status;
}

bt_status bt_check_reference(bt_trial *c)
{
    size_t count = (size_t)c->lower_count;
    bt_problem_settings *settings = bt_alloc_array(count + 1, sizeof *settings);
    const bt_problem_settings **own = bt_alloc_array(count + 1, sizeof(const bt_problem_settings *));
    bt_status status = settings && own ? BT_OK : BT_ERROR_MEMORY;
    for (int q = 0; q < c->lower_count && status == BT_OK; q++) {
        bt_lower *lower = &c->lowers[q];
        own[q] = lower->problem->settings;
        lower->iterates = own[q]->method->step && bt_implicit_iterations(&c->upper->step->site.solves[q]) > 0;
        settings[q] = *own[q];
        settings[q].method = &probe;
        if (lower->unrolls) /* it goes back through whole steps, so its equation is on whole steps too */
            settings[q].product_batches = BT_BATCHES_ALL;
        lower->finite = bt_check_finite(lower->problem);
        if (lower->finite)
            settings[q].product = BT_PRODUCT_JVP;
        lower->problem->settings = &settings[q];
    }
    if (status == BT_OK) {
        status = both(c, settings);
        for (int q = 0; q < c->lower_count; q++)
            c->lowers[q].problem->settings = own[q];
        if (status == BT_OK)
            status = recompile(c);
    }
    bt_free(settings);
    bt_free(own);
    return status;
}
