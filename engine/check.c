/* engine/check.c: betty-run --check-hypergradient: the hypergradient against what it stands for.
 *
 * The upper parameters are moved a little along a direction, the inner loop is run again (same start, batches and
 * random numbers), and the change of the upper loss is compared with what the method says. A method that approximates
 * (darts: the identity for H^-1) need not agree in length; it should agree in direction. Where the method leaves x = v,
 * the product itself is also compared with differences of the lower gradient, and there it must agree. */
#include "engine/engine_inside.h"

#include "engine/logging/json.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_SAMPLES = 10 };

typedef struct check {
    bt_engine *engine;
    bt_problem *upper;
    bt_kept *state; /* before it all */
    int64_t count;  /* upper parameters */
    double *base, *hypergradient, *direct, *direction;
    json_t *rows, *result; /* NULL: not made, or no memory for it */
} check;

/* ---- vectors of upper parameters ---- */

static void read_windows(const bt_problem *problem, const bt_block *block, double *to)
{
    int64_t at = 0;
    for (int64_t i = 0; i < problem->module->param_count; i++) {
        bt_array window = bt_var_array(block ? block->windows[i] : problem->module->params[i]->var);
        for (int64_t k = 0, n = bt_array_count(window); k < n; k++)
            to[at++] = bt_get(window.dtype, window.data, k);
    }
}

static void move(check *c, double step)
{
    int64_t at = 0;
    for (int64_t i = 0; i < c->upper->module->param_count; i++) {
        bt_array window = bt_var_array(c->upper->module->params[i]->var);
        for (int64_t k = 0, n = bt_array_count(window); k < n; k++, at++)
            bt_put(window.dtype, window.data, k, c->base[at] + step * c->direction[at]);
    }
}

static void draw_direction(check *c, int64_t sample, bool coordinates)
{
    for (int64_t i = 0; i < c->count; i++) {
        double u = bt_host_uniform((uint64_t)c->engine->settings->seed, 77 + (uint64_t)sample, (uint64_t)i);
        c->direction[i] = coordinates ? (double)(i == sample) : u < 0.5 ? -1 : 1;
    }
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ---- the inner loop ---- */

static bt_status inner_loop(check *c)
{
    for (int i = 0; i < c->upper->child_count; i++) {
        bt_problem *lower = c->upper->children[i];
        for (int64_t k = 0; k < lower->settings->unroll_steps; k++)
            BT_TRY(bt_step_alone(lower));
    }
    return BT_OK;
}

/* The upper loss after the inner loop, with the upper parameters moved. */
static bt_status value(check *c, double step, double *loss)
{
    double sum, weight;
    BT_TRY(bt_kept_restore(c->state));
    move(c, step);
    BT_TRY(inner_loop(c));
    bt_metric_row *row = bt_metric_find(c->engine, c->upper, "loss", false);
    if (!row)
        return BT_ERROR_MEMORY;
    memset(row->sum->data, 0, sizeof sum);
    memset(row->weight->data, 0, sizeof weight);
    bt_status status = bt_step_direct(c->upper);
    bt_phase_end(c->upper->step.phase);
    memcpy(&sum, row->sum->data, sizeof sum);
    memcpy(&weight, row->weight->data, sizeof weight);
    *loss = sum / weight;
    return status;
}

/* From here on the direct gradient and v can be had by themselves. */
static bt_status take_apart(check *c)
{
    bool joins = false;
    BT_TRY(bt_kept_restore(c->state));
    for (int i = 0; i < c->engine->problem_count; i++)
        joins |= c->engine->problems[i]->step.joins;
    if (!joins)
        return BT_OK;
    bt_kept_free(c->state);
    c->engine->apart = true;
    bt_status status = bt_engine_recompile(c->engine);
    c->state = status == BT_OK ? bt_kept_save(c->engine, true) : NULL;
    return status == BT_OK && !c->state ? BT_ERROR_MEMORY : status;
}

static bt_status put_together(bt_engine *engine)
{
    if (!engine->apart)
        return BT_OK;
    engine->apart = false;
    return bt_engine_recompile(engine);
}

/* The hypergradient is that of the programs that train. */
static bt_status method_value(check *c)
{
    BT_TRY(bt_kept_restore(c->state));
    BT_TRY(inner_loop(c));
    BT_TRY(bt_step_gradient(c->upper));
    read_windows(c->upper, &c->upper->step.gradients, c->hypergradient);
    bt_phase_end(c->upper->step.phase);
    BT_TRY(take_apart(c));
    BT_TRY(inner_loop(c));
    BT_TRY(bt_step_direct(c->upper));
    read_windows(c->upper, &c->upper->step.gradients, c->direct);
    bt_phase_end(c->upper->step.phase);
    return BT_OK;
}

/* ---- the product: <g(w, lambda + h u) - g(w, lambda - h u), v> / 2h against <g_lambda^T v, u> ---- */

static double *copy_vector(bt_var *flat)
{
    bt_array array = bt_var_array(flat);
    int64_t count = bt_array_count(array);
    double *copy = bt_alloc_array((size_t)count, sizeof *copy);
    for (int64_t i = 0; copy && i < count; i++)
        copy[i] = bt_get(array.dtype, array.data, i);
    return copy;
}

static bt_status lower_gradient(bt_problem *lower, double *gradient)
{
    bt_status status = bt_step_again(lower, false);
    if (status == BT_OK)
        read_windows(lower, &lower->step.gradients, gradient);
    bt_phase_end(lower->step.phase);
    return status;
}

static bt_status product_difference(check *c, double step, double *difference)
{
    bt_solve *solve = &c->upper->step.solves[0];
    bt_problem *lower = solve->problem;
    bt_array adjoint = {.rank = 1, .dims = {solve->adjoint.flat->dims[0]}};
    int64_t count = bt_array_count(adjoint);
    double *plus = bt_alloc_array((size_t)count, sizeof *plus), *minus = bt_alloc_array((size_t)count, sizeof *minus);
    double *v = NULL;
    bt_status status = plus && minus ? bt_kept_restore(c->state) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = inner_loop(c);
    if (status == BT_OK)
        status = bt_step_direct(c->upper);
    if (status == BT_OK && !(v = copy_vector(solve->adjoint.flat)))
        status = BT_ERROR_MEMORY;
    bt_phase_end(c->upper->step.phase);
    if (status == BT_OK) {
        move(c, step);
        status = lower_gradient(lower, plus);
    }
    if (status == BT_OK) {
        move(c, -step);
        status = lower_gradient(lower, minus);
    }
    if (status == BT_OK)
        *difference = (dot(plus, v, count) - dot(minus, v, count)) / (2 * step);
    bt_free(plus);
    bt_free(minus);
    bt_free(v);
    return status;
}

static bool product_checkable(const check *c)
{
    const bt_step_phase *step = &c->upper->step;
    return step->solve_count == 1 && step->solves[0].x.flat == step->solves[0].adjoint.flat &&
           step->solves[0].micros.count == step->solves[0].problem->settings->gradient_accumulation;
}

/* ---- the table ---- */

typedef struct sums { /* of method m and difference d over the samples */
    double mm, md, dd, pp, pd, ee;
} sums;

static bt_status sample(check *c, int64_t s, bool coordinates, double step, sums *all)
{
    double plus = 0, minus = 0, product = NAN;
    draw_direction(c, s, coordinates);
    BT_TRY(value(c, step, &plus));
    BT_TRY(value(c, -step, &minus));
    double m = dot(c->hypergradient, c->direction, c->count), d = (plus - minus) / (2 * step);
    json_t *row = json_pack("{s:I, s:f, s:f}", "sample", (json_int_t)s, "method", m, "difference", d);
    all->mm += m * m;
    all->md += m * d;
    all->dd += d * d;
    if (product_checkable(c)) {
        double declared = dot(c->direct, c->direction, c->count) - m;
        BT_TRY(product_difference(c, step, &product));
        all->pp += declared * declared;
        all->ee += (declared - product) * (declared - product);
        row = bt_json_with(row, "product", json_real(declared));
        row = bt_json_with(row, "product_difference", json_real(product));
    }
    c->rows = bt_json_append(c->rows, row);
    return BT_OK;
}

static void print_table(const check *c, FILE *file)
{
    size_t i;
    json_t *row, *result = c->result, *cosine = json_object_get(result, "cosine");
    fprintf(file, "%s: hypergradient against differences of its loss after the inner loop\n", c->upper->name);
    fprintf(file, "%8s %16s %16s", "sample", "method", "difference");
    fprintf(file, product_checkable(c) ? " %16s %16s\n" : "\n", "product", "its difference");
    json_array_foreach(json_object_get(result, "samples"), i, row)
    {
        json_t *product = json_object_get(row, "product");
        fprintf(file, "%8lld %16.8g %16.8g", (long long)json_integer_value(json_object_get(row, "sample")),
                json_real_value(json_object_get(row, "method")), json_real_value(json_object_get(row, "difference")));
        if (product)
            fprintf(file, " %16.8g %16.8g", json_real_value(product),
                    json_real_value(json_object_get(row, "product_difference")));
        fprintf(file, "\n");
    }
    fprintf(file, "direction: cosine %.6f; length: method / difference = %.6g\n", json_real_value(cosine),
            json_real_value(json_object_get(result, "ratio")));
    if (json_object_get(result, "product_error"))
        fprintf(file, "product: relative error %.3g\n", json_real_value(json_object_get(result, "product_error")));
    fprintf(file, "%s\n", json_string_value(json_object_get(result, "verdict")));
}

static bt_status judge(check *c, const sums *all)
{
    bool f64 = c->upper->dtype == BT_F64;
    double cosine = all->mm > 0 && all->dd > 0 ? all->md / sqrt(all->mm * all->dd) : all->mm == all->dd ? 1 : 0;
    double ratio = all->dd > 0 ? sqrt(all->mm / all->dd) : all->mm > 0 ? INFINITY : 1;
    double error = all->pp > 0 ? sqrt(all->ee / all->pp) : sqrt(all->ee);
    bool product_wrong = product_checkable(c) && error > (f64 ? 1e-5 : 5e-2);
    const char *verdict =
        "agrees: the direction is right; what differs in length is the method's approximation of H^-1 "
        "and of the path";
    if (product_wrong)
        verdict = "DISAGREES: the product is not the derivative of the lower gradient that training follows: look for "
                  "non-smooth points, a custom vjp, detached values (detach = field), or too little precision (fp64)";
    else if (cosine > 0.9999 && fabs(ratio - 1) < 1e-3)
        verdict = "agrees, in direction and in length";
    else if (cosine < 0.9)
        verdict =
            "DISAGREES in direction: the approximation is too coarse here (the lower problem is far from solved; more "
            "unroll_steps or iterations), or the loss is not smooth, or the precision too small (fp64)";
    c->result = bt_json_with(c->result, "cosine", json_real(cosine));
    c->result = bt_json_with(c->result, "ratio", json_real(isfinite(ratio) ? ratio : 0));
    if (product_checkable(c))
        c->result = bt_json_with(c->result, "product_error", json_real(error));
    c->result = bt_json_with(c->result, "verdict", json_string(verdict));
    if (!c->result)
        return bt_fail(BT_ERROR_MEMORY, "out of memory for the check");
    return product_wrong || cosine < 0.9 ? BT_ERROR_NUMERIC : BT_OK;
}

static bt_status open_check(check *c)
{
    c->state = bt_kept_save(c->engine, true);
    for (int64_t i = 0; i < c->upper->module->param_count; i++)
        c->count += bt_array_count(c->upper->module->params[i]->shape);
    size_t size = sizeof(double), count = (size_t)c->count;
    c->base = bt_alloc_array(count, size);
    c->hypergradient = bt_alloc_array(count, size);
    c->direct = bt_alloc_array(count, size);
    c->direction = bt_alloc_array(count, size);
    if (!c->state || !c->base || !c->hypergradient || !c->direct || !c->direction)
        return BT_ERROR_MEMORY;
    read_windows(c->upper, NULL, c->base);
    return BT_OK;
}

static void close_check(check *c)
{
    bt_kept_free(c->state);
    bt_free(c->base);
    bt_free(c->hypergradient);
    bt_free(c->direct);
    bt_free(c->direction);
    json_decref(c->rows);
    json_decref(c->result);
}

static bt_status run_check(check *c, int64_t samples)
{
    sums all = {0};
    c->rows = json_array();
    BT_TRY(method_value(c));
    bool coordinates = c->count <= samples;
    double length = sqrt(dot(c->base, c->base, c->count) / (double)c->count);
    double step = (c->upper->dtype == BT_F64 ? 1e-5 : 5e-3) * (1 + length);
    for (int64_t s = 0; s < (coordinates ? c->count : samples); s++)
        BT_TRY(sample(c, s, coordinates, step, &all));
    BT_TRY(bt_kept_restore(c->state));
    c->result = bt_json_with(json_object(), "level", json_string(c->upper->name));
    c->result = bt_json_with(c->result, "samples", c->rows);
    c->rows = NULL;
    return judge(c, &all);
}

static bt_status check_level(bt_engine *engine, bt_problem *upper, int64_t samples, bool json, FILE *file)
{
    check c = {.engine = engine, .upper = upper};
    bt_status status = open_check(&c);
    if (status == BT_OK)
        status = run_check(&c, samples);
    if (c.result && json)
        status = bt_json_print(c.result, file) == BT_OK ? status : BT_ERROR_MEMORY;
    else if (c.result)
        print_table(&c, file);
    if (bt_error_status() == BT_OK) {
        bt_status again = put_together(engine);
        status = again == BT_OK ? status : again;
    }
    if (status == BT_ERROR_NUMERIC)
        bt_fail(status, "%s: the hypergradient disagrees with differences", upper->name);
    close_check(&c);
    return status;
}

bt_status bt_engine_check_hypergradient(bt_engine *engine, const char *level, int64_t samples, bool json, FILE *file)
{
    bool found = false;
    BT_TRY(bt_engine_enter(engine));
    BT_TRY(bt_update_scalars(engine));
    for (int i = 0; i < engine->problem_count; i++) {
        bt_problem *problem = engine->problems[i];
        if (!problem->settings->active || !problem->child_count || (level && strcmp(level, problem->name) != 0))
            continue;
        found = true;
        BT_TRY(bt_engine_keep_error(engine,
                                    check_level(engine, problem, samples > 0 ? samples : DEFAULT_SAMPLES, json, file)));
    }
    if (found)
        return BT_OK;
    return bt_engine_keep_error(
        engine,
        bt_fail(BT_ERROR_ARGUMENT, "--level %s: there is no such upper level in this run", level ? level : "(any)"));
}
