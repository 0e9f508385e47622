/* engine/check/check.c: betty-run --check-hypergradient: compares the hypergradient with what it should be.
 *
 * The upper parameters are moved a little along a direction, all levels below are trained again (same start, batches
 * and random numbers), and the change of the upper loss is compared with the method's prediction. If the two differ,
 * the other files of this folder find the reason: a part that must be exact is not (parts.c), x does not yet solve
 * its equation (reference.c), or, if neither, the lower problem is not solved. */
#include "engine/check/check.h"

#include "runtime/store.h"
#include <math.h>
#include <string.h>

enum { DEFAULT_SAMPLES = 10 };

/* ---- vectors shaped like a problem's parameters ---- */

double bt_check_dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

bt_status bt_check_gradient(const bt_problem *problem, double *to)
{
    return bt_gradient_read(problem, BT_ARRAY(to, bt_params_elements(problem)));
}

bt_status bt_check_move(const bt_problem *problem, const double *direction, double step)
{
    const bt_instance *instance = problem->context->instance;
    int64_t at = 0;
    for (int64_t i = 0; i < problem->module->param_count; i++) {
        bt_var *var = problem->module->params[i]->var;
        double value = 0;
        for (int64_t k = 0, n = bt_array_count(bt_var_array(var)); k < n; k++, at++) {
            BT_TRY(bt_store_get(instance, var, k, &value));
            BT_TRY(bt_store_put(instance, var, k, value + step * direction[at]));
        }
    }
    return BT_OK;
}

void bt_check_direction(const bt_trial *c, const bt_problem *problem, uint64_t sample, bool coordinates,
                        double *direction)
{
    const bool *taken = problem == c->upper ? problem->trainable : problem->meta_trainable;
    uint64_t at = 0;
    for (int64_t i = 0; i < problem->module->param_count; i++)
        for (int64_t k = 0, n = bt_array_count(problem->module->params[i]->shape); k < n; k++, at++) {
            double u = bt_host_uniform((uint64_t)c->context->settings->seed, 77 + sample, at);
            double value = coordinates ? (double)(at == sample) : u < 0.5 ? -1 : 1;
            direction[at] = taken[i] ? value : 0;
        }
}

/* The cube root of the precision, relative to the length of the parameters: here rounding and curvature cause equal
 * errors. */
double bt_check_step(const bt_problem *problem, const double *direction)
{
    double square = 0, value = 0;
    for (int64_t i = 0; i < problem->module->param_count; i++) {
        const bt_var *var = problem->module->params[i]->var;
        for (int64_t k = 0, n = bt_array_count(bt_var_array(var)); k < n; k++)
            square += bt_store_get(problem->context->instance, var, k, &value) == BT_OK ? value * value : 0;
    }
    double length = sqrt(bt_check_dot(direction, direction, bt_params_elements(problem)));
    return (problem->dtype == BT_F64 ? 6e-6 : 5e-3) * (1 + sqrt(square)) / (length > 0 ? length : 1);
}

/* ---- retraining the inner problem ---- */

bt_status bt_check_loss(bt_trial *c, double *loss)
{
    bt_metric_row *row = bt_metric_find(c->context, c->upper, "loss", false);
    if (!row)
        return BT_ERROR_MEMORY;
    bt_number_set(c->context, row->sum, 0);
    bt_number_set(c->context, row->weight, 0);
    bt_status status = bt_step_direct(c->upper);
    bt_phase_end(c->upper->step->phase);
    *loss = bt_number_get(c->context, row->sum) / bt_number_get(c->context, row->weight);
    return status;
}

/* The upper loss after the inner loop, started with the upper parameters moved. */
static bt_status retrained(void *user, double step, double *loss)
{
    bt_trial *c = user;
    BT_TRY(bt_kept_restore(c->start));
    BT_TRY(bt_check_move(c->upper, c->direction, step));
    BT_TRY(bt_run_until(c->upper));
    return bt_check_loss(c, loss);
}

/* Whether an inner loop is about to begin at every level below. */
static bool at_start(const bt_problem *upper)
{
    for (int i = 0; i < upper->child_count; i++) {
        const bt_problem *lower = upper->children[i];
        if (upper->ready[i] || lower->calls || lower->steps % lower->settings->unroll_steps != 0 || !at_start(lower))
            return false;
    }
    return true;
}

/* The schedule repeats itself after at most this many leaf steps. */
static double period(const bt_context *context)
{
    double steps = 1;
    for (int i = 0; i < context->problem_count; i++) {
        const bt_problem_settings *s = context->problems[i]->settings;
        steps *= s->active ? (double)s->unroll_steps * (double)s->meta_batch : 1;
    }
    return steps;
}

/* Inner loops with different lengths or warm-ups may never begin together again. */
static bt_status go_to_start(bt_trial *c)
{
    for (double left = 2 * period(c->context); !at_start(c->upper); left--) {
        c->adrift = left <= 0;
        if (c->adrift)
            return BT_ERROR_UNSUPPORTED;
        BT_TRY(bt_step_leaves(c->context));
    }
    return BT_OK;
}

/* The hypergradient comes from the programs that train. From then on gradients and products are separate programs, so
 * their results can be read in between. */
static bt_status method_value(bt_trial *c)
{
    BT_TRY(bt_run_until(c->upper));
    BT_TRY(bt_step_gradient(c->upper));
    BT_TRY(bt_check_gradient(c->upper, c->hypergradient));
    c->scale = sqrt(bt_check_dot(c->hypergradient, c->hypergradient, c->count));
    bt_phase_end(c->upper->step->phase);
    BT_TRY(bt_kept_restore(c->start));
    c->context->apart = true;
    return bt_levels_compile(c->context);
}

/* The first level whose loss was not finite in the inner loop. Only its log shows this: the gradient may be finite. */
static const bt_problem *find_nonfinite(const bt_trial *c, double upper_loss)
{
    for (int i = 0; i < c->context->metric_count; i++) {
        const bt_metric_row *row = c->context->metrics[i];
        double sum = bt_number_get(c->context, row->sum);
        if (row->problem != c->upper && !row->valid && strcmp(row->name, "loss") == 0 && !isfinite(sum))
            return row->problem;
    }
    return isfinite(upper_loss) ? NULL : c->upper;
}

static bt_status keep_end(bt_trial *c)
{
    double once, again;
    BT_TRY(retrained(c, 0, &once));
    c->nonfinite = find_nonfinite(c, once);
    BT_TRY(retrained(c, 0, &again));
    c->repeats = once == again || c->nonfinite;
    BT_TRY(bt_kept_restore(c->start));
    BT_TRY(bt_run_until(c->upper));
    c->end = bt_kept_new(c->context, BT_KEEP_ALL, NULL);
    return c->end ? BT_OK : BT_ERROR_MEMORY;
}

/* ---- the samples ---- */

/* Explains a disagreement: is there a kink between the points, or noise? */
static bt_status explain_sample(bt_trial *c, double m, bt_line_slope *slope)
{
    double declared = c->have_reference && !c->exact ? bt_check_dot(c->reference, c->direction, c->count) : m;
    bt_claim claim = {declared, 1e-3 * fmax(fabs(declared), fabs(slope->value)), c->upper->dtype};
    bt_cause cause;
    if (!(fabs(declared - slope->value) > claim.enough))
        return BT_OK;
    BT_TRY(bt_line_explain(retrained, c, &claim, slope, &cause));
    if (cause == BT_CAUSE_RULE && !c->exact) /* an approximation may differ */
        cause = BT_CAUSE_NONE;
    c->cause = cause > c->cause ? cause : c->cause;
    return BT_OK;
}

static bt_status sample(bt_trial *c, int64_t s, bool coordinates)
{
    bt_line_slope slope;
    bt_check_direction(c, c->upper, (uint64_t)s, coordinates, c->direction);
    BT_TRY(bt_line_measure(retrained, c, bt_check_step(c->upper, c->direction), &slope));
    double m = bt_check_dot(c->hypergradient, c->direction, c->count);
    BT_TRY(explain_sample(c, m, &slope));
    double d = slope.value;
    json_t *row = bt_json_with(json_object(), "sample", json_integer((json_int_t)s));
    row = bt_json_with(row, "method", bt_json_number(m));
    row = bt_json_with(row, "difference", bt_json_number(d));
    if (c->have_reference) {
        double r = bt_check_dot(c->reference, c->direction, c->count);
        row = bt_json_with(row, "reference", bt_json_number(r));
        c->rr += r * r;
        c->rd += r * d;
    }
    c->rows = bt_json_append(c->rows, row);
    c->mm += m * m;
    c->md += m * d;
    c->dd += d * d;
    return BT_OK;
}

static bt_status sample_all(bt_trial *c, int64_t samples)
{
    bool coordinates = c->count <= samples;
    c->rows = json_array();
    BT_TRY(bt_kept_restore(c->start));
    for (int64_t s = 0; s < (coordinates ? c->count : samples); s++)
        BT_TRY(sample(c, s, coordinates));
    return BT_OK;
}

/* ---- one level ---- */

bool bt_check_partial(const bt_problem *lower)
{
    for (int64_t i = 0; i < lower->module->param_count; i++)
        if (lower->trainable[i] && !lower->meta_trainable[i])
            return true;
    return false;
}

bool bt_check_finite(const bt_problem *lower)
{
    const bt_problem_settings *s = lower->settings;
    return s->product == BT_PRODUCT_FINITE && !s->method->penalty && !lower->def->condition;
}

/* Contributions of its steps through levels below it are not differentiated again. */
static bool is_exact(const bt_problem *lower)
{
    const bt_solver_def *solver = bt_solver_of(lower);
    bt_text gaps = {0};
    if (solver->leave_out)
        solver->leave_out(lower, &gaps);
    bool whole = solver->leave_out && !*bt_text_get(&gaps);
    bt_text_free(&gaps);
    return whole && !bt_check_partial(lower) && !bt_check_finite(lower);
}

static bt_status open_lowers(bt_trial *c)
{
    const bt_step_phase *step = c->upper->step;
    c->lowers = bt_alloc_array((size_t)step->site.solve_count + 1, sizeof *c->lowers);
    if (!c->lowers)
        return BT_ERROR_MEMORY;
    c->exact = step->site.solve_count > 0;
    for (; c->lower_count < step->site.solve_count; c->lower_count++) {
        bt_lower *lower = &c->lowers[c->lower_count];
        lower->problem = step->site.solves[c->lower_count].problem;
        lower->count = bt_params_elements(lower->problem);
        lower->unrolls = lower->problem->settings->method->unrolls;
        c->exact = c->exact && is_exact(lower->problem);
        size_t count = (size_t)lower->count;
        lower->adjoint = bt_alloc_array(count, sizeof(double));
        lower->x = bt_alloc_array(count, sizeof(double));
        lower->field = bt_alloc_array(count, sizeof(double));
        if (!lower->adjoint || !lower->x || !lower->field) {
            c->lower_count++;
            return BT_ERROR_MEMORY;
        }
    }
    return BT_OK;
}

static bt_status open_check(bt_trial *c)
{
    c->count = bt_params_elements(c->upper);
    size_t size = sizeof(double), count = (size_t)c->count;
    c->hypergradient = bt_alloc_array(count, size);
    c->reference = bt_alloc_array(count, size);
    c->direction = bt_alloc_array(count, size);
    c->recorded = bt_alloc_array(count, size);
    c->finite_error = NAN;
    if (!c->hypergradient || !c->reference || !c->direction || !c->recorded)
        return BT_ERROR_MEMORY;
    BT_TRY(go_to_start(c));
    c->start = bt_kept_new(c->context, BT_KEEP_ALL, NULL);
    return c->start ? open_lowers(c) : BT_ERROR_MEMORY;
}

static void close_check(bt_trial *c)
{
    for (int q = 0; q < c->lower_count; q++) {
        bt_free(c->lowers[q].adjoint);
        bt_free(c->lowers[q].x);
        bt_free(c->lowers[q].field);
        bt_free(c->lowers[q].solution);
    }
    for (int i = 0; i < c->part_count; i++)
        bt_free(c->parts[i].declared);
    bt_kept_free(c->start);
    bt_kept_free(c->end);
    bt_free(c->lowers);
    bt_free(c->parts);
    bt_free(c->hypergradient);
    bt_free(c->reference);
    bt_free(c->recorded);
    bt_free(c->direction);
    json_decref(c->rows);
    json_decref(c->result);
}

static bt_status run_check(bt_trial *c, int64_t samples)
{
    BT_TRY(open_check(c));
    BT_TRY(method_value(c));
    BT_TRY(keep_end(c));
    BT_TRY(bt_check_record(c));
    BT_TRY(bt_check_reference(c));
    BT_TRY(sample_all(c, samples));
    BT_TRY(bt_check_parts(c));
    BT_TRY(bt_check_unseen(c));
    return bt_check_judge(c);
}

/* Restores the state before the check, and the programs that train from there, with static ints as before. State that
 * belongs to programs is restored once these exist. */
static bt_status put_back(const bt_trial *c, bt_kept *before)
{
    c->context->apart = false;
    BT_TRY(bt_kept_restore(before));
    bt_stage_enter(c->context, BT_STAGE_PROGRAM);
    bt_scalars_update(c->context);
    bt_stage_leave(c->context);
    BT_TRY(bt_error_status());
    BT_TRY(bt_levels_compile(c->context));
    return bt_kept_restore(before);
}

/* The steps of a difference must move the parameters. */
static bt_status check_moves(const bt_context *context)
{
    for (int i = 0; i < context->problem_count; i++)
        if (context->problems[i]->narrow && context->problems[i]->settings->active)
            return bt_fail(BT_ERROR_UNSUPPORTED,
                           "a check moves parameters by less than one unit of bf16, the type that the parameters of %s "
                           "are kept in: check with precision = bf16, fp32 or, best, fp64",
                           context->problems[i]->name);
    return BT_OK;
}

bt_status bt_check_level(bt_problem *upper, int64_t samples, bt_check_take_fn *take, void *user)
{
    bt_context *context = upper->context;
    BT_TRY(check_moves(context));
    bt_trial c = {.context = context, .upper = upper};
    bt_kept *before = bt_kept_new(context, BT_KEEP_ALL, NULL);
    context->on_trial = true;
    bt_stage_enter(context, BT_STAGE_RUN);
    bt_status status = before ? run_check(&c, samples > 0 ? samples : DEFAULT_SAMPLES) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = take(user, &c);
    if (before) { /* after an error nothing can be restored */
        bt_status again = bt_error_status() == BT_OK ? put_back(&c, before) : bt_error_status();
        bt_keep_error(context, again);
        status = again == BT_OK ? status : again;
    }
    bt_stage_leave(context);
    context->on_trial = false;
    bt_kept_free(before);
    close_check(&c);
    if (c.adrift)
        bt_fail(status,
                "%s: the inner loops of the levels below it no longer begin together, so the check has no point to "
                "retrain from; check before the first step, or give them the same unroll_steps and warmup_steps",
                upper->name);
    return bt_fail(status, "failed");
}
