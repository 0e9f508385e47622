/* engine/check/parts.c: what must be exact, solved or not: the gradient of the upper loss, and the products with the
 * derivatives of each lower gradient. Each is compared with differences of the function whose derivative it is, with
 * everything else held constant. */
#include "engine/check/check.h"

#include "engine/traced/batch.h"
#include <math.h>
#include <string.h>

bt_part *bt_check_add_part(bt_trial *c, bt_part_kind kind, int solve, bt_problem *moved)
{
    int64_t room = c->part_room;
    bt_part *parts = bt_grow(c->parts, &room, c->part_count + 1, sizeof *parts);
    double *declared = bt_alloc_array((size_t)bt_params_elements(moved), sizeof *declared);
    if (parts) {
        c->parts = parts;
        c->part_room = (int)room;
    }
    if (!parts || !declared) {
        bt_free(declared);
        return NULL;
    }
    c->parts[c->part_count] = (bt_part){.kind = kind, .solve = solve, .moved = moved, .declared = declared};
    return &c->parts[c->part_count++];
}

/* ---- the functions ---- */

/* The problem's own condition, evaluated as in bt_eval: without dropout. */
static bt_status condition(bt_trial *c, int q, int64_t micros)
{
    bt_problem *lower = c->lowers[q].problem;
    int64_t count = c->lowers[q].count;
    double *one = bt_alloc_array((size_t)count, sizeof *one), *sum = c->lowers[q].field, total = 0, weight = 0;
    bt_status status = one ? BT_OK : BT_ERROR_MEMORY;
    memset(sum, 0, (size_t)count * sizeof *sum);
    for (int64_t m = 0; m < micros && status == BT_OK; m++) {
        const bt_batch *batch = bt_stream_newest(lower->train, micros, m);
        status = batch ? bt_eval(lower, lower->def->condition, batch, BT_ARRAY(one, count)) : bt_error_status();
        if (status == BT_OK)
            status = bt_eval(lower, bt_count_of, batch, BT_ARRAY(&weight));
        for (int64_t i = 0; status == BT_OK && weight > 0 && i < count; i++)
            sum[i] += weight * one[i];
        total += weight;
    }
    for (int64_t i = 0; i < count; i++)
        sum[i] /= total;
    bt_free(one);
    return status;
}

/* The lower gradient on the micro-batches of the product. */
bt_status bt_check_equation(bt_trial *c, int q)
{
    const bt_solve *solve = &c->upper->step->site.solves[q];
    bt_problem *lower = solve->problem;
    if (lower->def->condition && !c->lowers[q].unrolls)
        return condition(c, q, solve->micros.count);
    bt_steps_show(c->context, false);
    bt_status status = bt_step_newest(lower, solve->micros.count);
    if (status == BT_OK)
        status = bt_check_gradient(lower, c->lowers[q].field);
    bt_phase_end(lower->step->phase);
    return status;
}

typedef struct motion {
    bt_trial *c;
    const bt_part *part;
    double *direction;
} motion;

static bt_status moved(void *user, double step, double *value)
{
    const motion *m = user;
    BT_TRY(bt_kept_restore(m->c->end));
    BT_TRY(bt_check_move(m->part->moved, m->direction, step));
    if (m->part->kind == BT_PART_UPPER)
        return bt_check_loss(m->c, value);
    const bt_lower *lower = &m->c->lowers[m->part->solve];
    BT_TRY(bt_check_equation(m->c, m->part->solve));
    *value = bt_check_dot(lower->field, lower->x, lower->count);
    return BT_OK;
}

/* ---- the comparison ---- */

static double tolerance(const bt_trial *c, const bt_part *part)
{
    bool loose = c->loose && part->kind != BT_PART_UPPER;
    return c->upper->dtype == BT_F64 && !loose ? 1e-5 : 5e-2;
}

enum { DIRECTIONS = 3, FIRST = 1000 }; /* FIRST: the first random direction, unlike those of the samples */

typedef struct comparison {
    double declared[DIRECTIONS];
    bt_line_slope slopes[DIRECTIONS];
    double error, scale; /* over all directions */
} comparison;

static void sum_up(comparison *a)
{
    double ee = 0, dd = 0, mm = 0;
    for (int s = 0; s < DIRECTIONS; s++) {
        double d = a->slopes[s].value, m = a->declared[s];
        ee += (m - d) * (m - d);
        dd += d * d;
        mm += m * m;
    }
    a->error = sqrt(ee);
    a->scale = sqrt(fmax(dd, mm));
}

/* Explains every direction that disagrees; the part gets the cause that says most. */
static bt_status explain_part(bt_trial *c, bt_part *part, motion *m, comparison *a, double enough)
{
    for (int s = 0; s < DIRECTIONS; s++) {
        bt_claim claim = {a->declared[s], enough / sqrt(DIRECTIONS), c->upper->dtype};
        bt_cause cause;
        if (fabs(claim.declared - a->slopes[s].value) <= claim.enough)
            continue;
        bt_check_direction(c, part->moved, FIRST + (uint64_t)s, false, m->direction);
        BT_TRY(bt_line_explain(moved, m, &claim, &a->slopes[s], &cause));
        part->cause = cause > part->cause ? cause : part->cause;
    }
    return BT_OK;
}

static bt_status check_part(bt_trial *c, bt_part *part, double *direction)
{
    int64_t count = bt_params_elements(part->moved);
    motion m = {c, part, direction};
    comparison a;
    for (int s = 0; s < DIRECTIONS; s++) {
        bt_check_direction(c, part->moved, FIRST + (uint64_t)s, false, direction);
        BT_TRY(bt_kept_restore(c->end));
        BT_TRY(bt_line_measure(moved, &m, bt_check_step(part->moved, direction), &a.slopes[s]));
        a.declared[s] = bt_check_dot(part->declared, direction, count);
    }
    sum_up(&a);
    double whole = part->moved == c->upper ? sqrt(DIRECTIONS) * c->scale : 0;
    double enough = tolerance(c, part) * fmax(a.scale, 1e-3 * whole);
    if (!(a.error <= enough)) {
        BT_TRY(explain_part(c, part, &m, &a, enough));
        sum_up(&a);
    }
    part->error = a.scale > 0 ? a.error / a.scale : 0;
    return BT_OK;
}

bt_status bt_check_parts(bt_trial *c)
{
    bt_status status = BT_OK;
    BT_TRY(bt_kept_restore(c->end));
    for (int q = 0; q < c->lower_count && status == BT_OK; q++) {
        bt_lower *lower = &c->lowers[q];
        status = bt_check_equation(c, q);
        lower->gradient_length = sqrt(bt_check_dot(lower->field, lower->field, lower->count));
    }
    for (int i = 0; i < c->part_count && status == BT_OK; i++) {
        double *direction = bt_alloc_array((size_t)bt_params_elements(c->parts[i].moved), sizeof *direction);
        status = direction ? check_part(c, &c->parts[i], direction) : BT_ERROR_MEMORY;
        bt_free(direction);
    }
    return status;
}
