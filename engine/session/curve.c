/* engine/session/curve.c: the cost of using less memory: plans the run again for falling budgets, down to the smallest
 * one that it finds. Each is planned exactly as with that `memory_budget`, so setting it gives the same plan. */
#include "engine/session/session.h"

#include "engine/output/json.h"
#include "engine/output/ticker.h"
#include "engine/solve/trajectory.h"
#include "runtime/fit.h"
#include <math.h>
#include <string.h>

#define STEP 0.85 /* ratio of one budget to the previous one, by default */

enum { TRIES = 3 }; /* for the smallest budget found, which may not be met when asked for directly */

typedef struct walk {
    bt_engine *engine;
    bt_context *context;
    bt_ticker ticker;
    double step;          /* ratio of one budget to the previous one */
    json_t *run, *phases; /* run: points; phases: {"level", "phase", "points"} */
    double *plain;        /* by phase: its work without a budget, that is, with nothing recomputed */
} walk;

/* ---- one plan ---- */

/* Runs of the phase per step of the leaves; 0 for phases that are not steps. */
static double rate_of(const bt_context *context, const bt_phase *phase)
{
    bool exact;
    for (int i = 0; i < context->problem_count; i++) {
        const bt_problem *problem = context->problems[i];
        if (!problem->step || problem->step->phase != phase)
            continue;
        const double loop = (double)(problem->settings->unroll_steps * problem->settings->meta_batch);
        const double again = problem->loop_start ? 1 / loop : 0; /* roll_back repeats a step per inner loop */
        return (1 + again) / (double)bt_between_calls(problem, &exact);
    }
    return 0;
}

/* Extra work relative to the necessary work; other differences between plans are small. */
static double extra_of(double all, double plain) { return plain > 0 && all > plain ? all / plain - 1 : 0; }

/* Appends a point. From point to point bytes fall and work rises; the first point is the plan without a budget. */
static bt_status offer(json_t *points, json_t *point)
{
    const size_t count = json_array_size(points);
    const json_t *last = json_array_get(points, count - 1);
    const double bytes = bt_json_read_number(point, "bytes"), extra = bt_json_read_number(point, "extra_work");
    if (!point || (count && bytes >= bt_json_read_number(last, "bytes"))) {
        json_decref(point);
        return point ? BT_OK : BT_ERROR_MEMORY;
    }
    for (size_t i = count; i > 1; i--)
        if (bt_json_read_number(json_array_get(points, i - 1), "extra_work") >= extra)
            json_array_remove(points, i - 1);
    return json_array_append_new(points, point) == 0 ? BT_OK : BT_ERROR_MEMORY;
}

static json_t *point_of(size_t bytes, double extra, size_t limit, size_t kept)
{
    json_t *point = json_pack("{s:I, s:f}", "bytes", (json_int_t)bytes, "extra_work", extra);
    return limit == SIZE_MAX ? point : bt_json_with(point, "memory_budget", json_integer((json_int_t)(limit + kept)));
}

static const bt_problem *owner_of(const walk *w, const bt_phase *phase)
{
    return bt_problem_find(w->context, phase->owner);
}

static bt_status take_phase(walk *w, int64_t i)
{
    const bt_phase *phase = w->context->instance->phases[i];
    const size_t limit = w->context->proposal.arena;
    size_t by_category[BT_CATEGORIES];
    const bt_problem *owner = owner_of(w, phase);
    const size_t kept = owner ? bt_persistent_bytes(w->context, by_category, owner) : 0;
    const bt_phase_work work = bt_phase_count(phase);
    if (limit == SIZE_MAX) {
        w->plain[i] = work.all - work.again;
        if (json_array_append_new(
                w->phases, json_pack("{s:s, s:s, s:[]}", "level", phase->owner, "phase", phase->name, "points")) != 0)
            return BT_ERROR_MEMORY;
    }
    return offer(json_object_get(json_array_get(w->phases, (size_t)i), "points"),
                 point_of(phase->arena, extra_of(work.all, w->plain[i]), limit, kept));
}

/* Adds the points of the current plan. */
static bt_status take(walk *w)
{
    const bt_instance *instance = w->context->instance;
    const size_t limit = w->context->proposal.arena;
    size_t by_category[BT_CATEGORIES];
    const size_t kept = bt_persistent_bytes(w->context, by_category, NULL);
    double all = 0, plain = 0;
    if (limit == SIZE_MAX)
        w->plain = bt_alloc_array((size_t)instance->phase_count + 1, sizeof *w->plain);
    if (!w->plain)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < instance->phase_count; i++) {
        const double rate = rate_of(w->context, instance->phases[i]);
        BT_TRY(take_phase(w, i));
        all += rate * bt_phase_count(instance->phases[i]).all;
        plain += rate * w->plain[i];
    }
    return offer(w->run, point_of(bt_arena_planned(w->context) + kept, extra_of(all, plain), limit, kept));
}

/* ---- all of them ---- */

/* *fits: there is such a plan; if not, proposal.over is the number of missing bytes. */
static bt_status try(walk *w, size_t arena, bool *fits)
{
    bt_context *context = w->context;
    char bytes[32], *line = bt_string("planning with %s for the arena", bt_bytes_text(bytes, arena));
    if (line && arena < SIZE_MAX)
        bt_ticker_show(&w->ticker, line);
    bt_free(line);
    context->proposal = (bt_proposal){.arena = arena};
    bt_status status = bt_levels_compile(context);
    *fits = status == BT_OK;
    if (status == BT_ERROR_CONFIG && context->proposal.over) {
        bt_error_clear();
        status = BT_OK;
    }
    if (status == BT_OK && *fits)
        status = take(w);
    if (status == BT_OK && w->engine->front.stop && *w->engine->front.stop)
        status = bt_fail(BT_ERROR_INTERRUPTED, "interrupted");
    return status;
}

/* The smallest plan found when a budget cannot be met. Asking for its budget, or one a little above, gives it. */
static bt_status try_least(walk *w, size_t above)
{
    bool fits = false;
    size_t arena = w->context->proposal.arena + w->context->proposal.over;
    for (int i = 0; i < TRIES && !fits && arena < above; i++) {
        BT_TRY(try(w, arena, &fits));
        arena += (above - arena) / 2;
    }
    return BT_OK;
}

static bt_status walk_down(walk *w)
{
    bool fits;
    BT_TRY(try(w, SIZE_MAX, &fits));
    size_t arena = bt_arena_planned(w->context);
    while (fits && arena > 0) {
        const size_t next = (size_t)(w->step * (double)arena) / 64 * 64;
        BT_TRY(try(w, next ? next : 1, &fits));
        if (!fits)
            return try_least(w, arena);
        const size_t found = bt_arena_planned(w->context);
        arena = found < next ? found : next;
    }
    return BT_OK;
}

/* Restores everything afterwards. */
static bt_status walk_all(walk *w)
{
    bt_instance *instance = w->context->instance;
    instance->known = bt_known_new();             /* each program is searched only once, for all budgets */
    bt_stage_enter(w->context, BT_STAGE_PROGRAM); /* traced code must not start the engine */
    bt_status status = instance->known ? walk_down(w) : BT_ERROR_MEMORY;
    w->context->proposal = (bt_proposal){0};
    bt_failure failure = bt_failure_take();
    bt_status again = bt_keep_error(w->context, bt_levels_compile(w->context));
    bt_failure_give(&failure);
    bt_stage_leave(w->context);
    bt_known_free(instance->known);
    instance->known = NULL;
    bt_ticker_erase(&w->ticker);
    return status == BT_OK ? again : status;
}

static bt_status walk_engine(bt_engine *engine, const bt_curve *ask, json_t *curve)
{
    walk w = {.engine = engine,
              .context = &engine->context,
              .ticker = bt_ticker_on(ask->progress),
              .step = ask->step > 0 && ask->step < 1 ? ask->step : STEP,
              .run = json_array(),
              .phases = json_array()};
    const bool set =
        json_object_set_new(curve, "run", w.run) == 0 && json_object_set_new(curve, "phases", w.phases) == 0;
    bt_status status = set ? walk_all(&w) : BT_ERROR_MEMORY;
    bt_free(w.plain);
    return status;
}

/* ---- output ---- */

static bt_status write_files(const bt_curve *ask, const bt_output *output, const json_t *curve)
{
    bt_text picture = {0};
    if (!output)
        return BT_OK;
    bt_status status = bt_json_write(output->path, "curve.json", curve, JSON_INDENT(2));
    if (status == BT_OK)
        status = bt_curve_picture(curve, &picture);
    if (status == BT_OK)
        status = bt_output_write(output->path, "curve.svg", bt_text_get(&picture), (size_t)picture.size);
    bt_text_free(&picture);
    if (status == BT_OK && !ask->json)
        fprintf(ask->file, "\n%s: curve.json, curve.svg\n", output->path);
    return status;
}

static bt_status show(const bt_curve *ask, const bt_output *output, json_t *plan)
{
    const json_t *curve = json_object_get(plan, "curve");
    bt_text table = {0};
    if (ask->json) {
        BT_TRY(bt_json_print(plan, ask->file));
        return write_files(ask, output, curve);
    }
    bt_plan_print(plan, ask->file);
    bt_curve_table(curve, &table);
    fprintf(ask->file, "%s", bt_text_get(&table));
    bt_status status = table.failed ? BT_ERROR_MEMORY : write_files(ask, output, curve);
    bt_text_free(&table);
    return status;
}

bt_status bt_engine_curve(bt_engine *engine, const bt_curve *ask)
{
    BT_TRY(bt_engine_enter(engine, BT_REQUEST_LOOK, "bt_engine_curve"));
    if (!ask || !ask->file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_curve: the file is NULL");
    bt_output *output = NULL;
    if (ask->folder)
        BT_TRY(bt_output_make(ask->folder, "curve", &output));
    json_t *plan = bt_plan_json(engine),
           *curve = json_pack("{s:o}", "name", bt_json_string(bt_config_stem(engine->context.config)));
    bt_status status = plan && curve ? walk_engine(engine, ask, curve) : BT_ERROR_MEMORY;
    if (status == BT_OK && json_object_set(plan, "curve", curve) != 0)
        status = BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = show(ask, output, plan);
    if (status == BT_OK && (fflush(ask->file) != 0 || ferror(ask->file)))
        status = bt_fail(BT_ERROR_FILE, "the report cannot be written");
    json_decref(plan);
    json_decref(curve);
    bt_output_free(output);
    return status == BT_OK ? BT_OK : bt_fail(status, "out of memory for the report");
}
