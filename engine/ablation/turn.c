/* engine/ablation/turn.c: one row in a separate process: set-up, its first hypergradient, its steps, a validation. */
#include "engine/ablation/ablation_inside.h"
#include "engine/session/run.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 20 };            /* the default number of steps */
#define BETWEEN_STEPS_TOLD 0.25 /* seconds */
#define TIMED              0.1  /* minimum seconds of timed steps */

typedef struct turning {
    const bt_turn *turn;
    FILE *tell;
    bt_engine *engine;
    bt_context *context;
    /* The first hypergradients of all upper levels, one after the other; if there are none, the first gradients. */
    double *vector;
    int64_t count, missing;  /* elements; levels whose vector has not arrived */
    int64_t *start;          /* by place; -1: not one of these levels, or already arrived */
    int64_t steps, compared; /* steps taken; steps taken when the loss was read */
    double seconds, work;    /* of the timed steps; operations of the compared steps */
    int64_t timed;
    double told; /* when a step was last reported */
} turning;

/* ---- the row's settings ---- */

static bt_status set(bt_engine *engine, const bt_choice *choice, const char *key, const char *value)
{
    char *origin = bt_string("--ablate %s.%s", choice->level, key);
    bt_status status = origin ? bt_engine_set_from(engine, strchr(origin, ' ') + 1, value, origin) : BT_ERROR_MEMORY;
    bt_free(origin);
    return status;
}

/* For another optimiser, resets the hyperparameters that it does not have, as if they had not been set. */
static bt_status forget_hypers(bt_engine *engine, const bt_choice *choice)
{
    const bt_optimizer_def *chosen = bt_optimizer_find(choice->value), *def;
    for (int i = 0; chosen && (def = bt_optimizer_builtin(i)) != NULL; i++)
        for (int h = 0; h < bt_hyper_count(def->hypers); h++)
            if (bt_hyper_index(chosen->hypers, def->hypers[h].name) < 0)
                BT_TRY(set(engine, choice, def->hypers[h].name, ""));
    return set(engine, choice, "optimizer_state", ""); /* few optimisers accept it, and then it saves little */
}

static bt_status set_up(turning *t)
{
    const bt_ablation *ablation = t->turn->ablation;
    const bt_ablation_row *row = t->turn->row;
    const bt_front front = {.reports = true, .dry = ablation->plan}; /* writes no files */
    BT_TRY(bt_engine_attach(t->engine, &front));
    BT_TRY(ablation->load(ablation->user, t->engine));
    BT_TRY(bt_engine_set_from(t->engine, "engine.output", "", "--ablate"));
    for (int64_t i = 0; row && i < row->count; i++) {
        const bt_choice *choice = row->choices[i];
        BT_TRY(set(t->engine, choice, choice->key, choice->value));
        if (strcmp(choice->key, "optimizer") == 0)
            BT_TRY(forget_hypers(t->engine, choice));
        if (*choice->with)
            BT_TRY(set(t->engine, choice, choice->with, choice->with_value));
    }
    return bt_engine_setup(t->engine);
}

/* ---- the plan ---- */

static json_t *sizes_json(bt_memory_sizes sizes)
{
    json_t *object =
        json_pack("{s:I, s:I}", "arena", (json_int_t)sizes.arena, "persistent", (json_int_t)sizes.persistent);
    return sizes.host ? bt_json_with(object, "host", json_integer((json_int_t)sizes.host)) : object;
}

/* The persistent bytes and those live at the peak; the rest of the arena is space that the layout leaves unused. */
static json_t *categories_json(const bt_context *context, const bt_phase *largest)
{
    size_t kept[BT_CATEGORIES], live[BT_CATEGORIES] = {0}, sum = 0;
    json_t *object = json_object();
    bt_persistent_bytes(context, kept, NULL);
    if (largest)
        bt_phase_at_peak(largest, live);
    for (int c = 0; c < BT_CATEGORIES; c++) {
        object = bt_json_with(object, bt_category_name((bt_category)c), json_integer((json_int_t)(kept[c] + live[c])));
        sum += live[c];
    }
    const size_t used = largest ? largest->used : 0;
    return bt_json_with(object, "room between", json_integer((json_int_t)(used > sum ? used - sum : 0)));
}

static bt_status tell_plan(const turning *t)
{
    const bt_phase *largest = bt_phase_largest(t->context->instance);
    json_t *choices = bt_choices_list(t->engine, t->turn->ablation->level, false);
    if (!choices)
        return bt_error_status();
    json_t *plan = json_pack("{s:o, s:o, s:s, s:s}", "planned_bytes", sizes_json(bt_engine_planned(t->engine)),
                             "categories", categories_json(t->context, largest), "peak_level",
                             largest ? largest->owner : "", "peak_phase", largest ? largest->name : "");
    return bt_process_tell(t->tell, json_pack("{s:o, s:o, s:o}", "choices", choices, "stem",
                                              bt_json_string(bt_config_stem(t->context->config)), "plan", plan));
}

/* ---- the first hypergradients ---- */

static bool is_compared(const bt_problem *problem, bool upper)
{
    return problem->settings->active && (problem->child_count > 0) == upper;
}

static bt_status open_vector(turning *t)
{
    bool upper = false;
    t->start = bt_alloc_array((size_t)t->context->problem_count + 1, sizeof *t->start);
    for (int i = 0; i < t->context->problem_count; i++)
        upper = upper || is_compared(t->context->problems[i], true);
    for (int i = 0; t->start && i < t->context->problem_count; i++) {
        const bt_problem *problem = t->context->problems[i];
        const bool compared = is_compared(problem, upper);
        t->start[i] = compared ? t->count : -1;
        t->missing += compared;
        t->count += compared ? bt_params_elements(problem) : 0;
    }
    t->vector = bt_alloc_array((size_t)t->count + 1, sizeof *t->vector);
    return t->start && t->vector ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status hear(void *user, const bt_problem *problem)
{
    turning *t = user;
    const int64_t start = t->start[problem->place];
    if (start < 0)
        return BT_OK;
    t->start[problem->place] = -1;
    t->missing--;
    return bt_gradient_read(problem, BT_ARRAY(t->vector + start, bt_params_elements(problem)));
}

/* "gradient": null if some have not arrived. */
static json_t *compared(const double *a, const double *b, int64_t count)
{
    double aa = 0, bb = 0, ab = 0, dd = 0;
    for (int64_t i = 0; i < count; i++) {
        aa += a[i] * a[i];
        bb += b[i] * b[i];
        ab += a[i] * b[i];
        dd += (a[i] - b[i]) * (a[i] - b[i]);
    }
    const bool same = memcmp(a, b, (size_t)count * sizeof *a) == 0;
    return json_pack("{s:b, s:o, s:o}", "same_bits", (int)same, "error", bt_json_number(same ? 0 : sqrt(dd / bb)),
                     "cosine", bt_json_number(same ? 1 : ab / sqrt(aa * bb)));
}

static bt_status gradient_json(const turning *t, json_t **result)
{
    const size_t bytes = (size_t)t->count * sizeof *t->vector;
    const int file = t->turn->reference;
    if (t->turn->first && t->missing == 0 && pwrite(file, t->vector, bytes, 0) != (ssize_t)bytes)
        return bt_fail(BT_ERROR_FILE, "the first hypergradient cannot be kept for the other rows");
    double *reference = bt_alloc(bytes + 1);
    if (!reference)
        return BT_ERROR_MEMORY;
    const bool there = t->missing == 0 && pread(file, reference, bytes, 0) == (ssize_t)bytes;
    *result = there ? compared(t->vector, reference, t->count) : json_null();
    bt_free(reference);
    return BT_OK;
}

/* ---- steps ---- */

/* The training metrics since the last call; if called before each step, those of the last step. */
static json_t *take_loss(const turning *t)
{
    json_t *loss = json_null();
    bt_metric_value *values = bt_run_room(t->context);
    for (int i = 0; values && i < t->context->leaf_count; i++) {
        const bt_problem *leaf = t->context->leaves[i];
        char *name = bt_string("%s.loss", leaf->name);
        int count = bt_metrics_take(t->context, leaf, false, values);
        for (int k = 0; name && k < count; k++)
            if (json_is_null(loss) && strcmp(values[k].name, name) == 0)
                loss = json_pack("{s:s, s:o}", "name", name, "value", bt_json_number(values[k].value));
        bt_free(name);
    }
    bt_free(values);
    return loss;
}

static bt_status step(turning *t, bool timed)
{
    const double start = bt_seconds();
    BT_TRY(bt_session_step(t->engine));
    t->context->step++;
    t->steps++;
    t->seconds += timed ? bt_seconds() - start : 0;
    t->timed += timed;
    if (bt_seconds() - t->told < BETWEEN_STEPS_TOLD)
        return BT_OK;
    t->told = bt_seconds();
    return bt_process_tell(t->tell, json_pack("{s:I}", "step", (json_int_t)t->steps));
}

/* Takes the requested number of steps. The first tenth is not timed, because first use is slow. */
static bt_status steps(turning *t, json_t **loss)
{
    const int64_t wanted = t->turn->steps ? t->turn->steps : STEPS;
    while (t->steps < wanted || (t->turn->first && t->missing > 0)) {
        json_decref(take_loss(t));
        BT_TRY(step(t, t->steps > wanted / 10));
    }
    t->compared = t->steps;
    t->work = t->context->instance->work;
    *loss = take_loss(t);
    return BT_OK;
}

/* If steps are short, takes some more, for their time only. */
static bt_status more_steps(turning *t)
{
    while (!t->timed || t->seconds < TIMED)
        BT_TRY(step(t, true));
    return BT_OK;
}

static bt_status validation(const turning *t, json_t **metric)
{
    bool any;
    *metric = json_null();
    BT_TRY(bt_validate(t->context, &any));
    bt_metric_value *values = any ? bt_run_room(t->context) : NULL;
    for (int i = 0; values && i < t->context->problem_count; i++)
        bt_metrics_take(t->context, t->context->problems[i], true, values);
    bt_free(values);
    const bt_metric_row *row = bt_run_watched(t->engine, t->context->settings->early_stopping_metric);
    if (row)
        *metric = json_pack("{s:s, s:o}", "name", row->full, "value", bt_json_number(row->last));
    return BT_OK;
}

/* Examples of the first leaf, if its batches come from a data set. */
static double examples_of_a_step(const turning *t)
{
    const bt_problem *leaf = t->context->leaf_count ? t->context->leaves[0] : NULL;
    const int64_t examples = leaf ? bt_ablation_examples(leaf) : 0;
    return examples ? (double)examples : NAN;
}

static bt_status tell_result(const turning *t, json_t *loss, json_t *metric, size_t resident)
{
    json_t *gradient = NULL;
    BT_TRY(gradient_json(t, &gradient));
    const size_t peak = bt_resident_peak();
    json_t *result = json_pack(
        "{s:I, s:f, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:I}", "steps", (json_int_t)t->compared, "ms_per_step",
        1e3 * t->seconds / (double)t->timed, "examples_per_step", bt_json_number(examples_of_a_step(t)),
        "work_per_step", t->work / (double)t->compared, "planned_bytes", sizes_json(bt_engine_planned(t->engine)),
        "measured_bytes", sizes_json(bt_engine_measured(t->engine)), "gradient", gradient, "loss", loss, "validation",
        metric, "resident_bytes", (json_int_t)(peak > resident ? peak - resident : 0));
    return bt_process_tell(t->tell, json_pack("{s:o}", "result", result));
}

static bt_status run(turning *t)
{
    json_t *loss, *metric;
    const size_t resident = bt_resident_peak(); /* of the parent, when this process began */
    BT_TRY(set_up(t));
    BT_TRY(tell_plan(t));
    if (t->turn->ablation->plan)
        return BT_OK;
    BT_TRY(open_vector(t));
    t->context->watch = hear;
    t->context->watch_user = t;
    bt_stage_enter(t->context, BT_STAGE_RUN);
    bt_instance_fill(t->context->instance);
    BT_TRY(steps(t, &loss));
    BT_TRY(validation(t, &metric));
    BT_TRY(more_steps(t));
    bt_stage_leave(t->context);
    return tell_result(t, loss, metric, resident);
}

bt_status bt_turn_take(const bt_turn *turn, FILE *tell)
{
    turning t = {.turn = turn, .tell = tell, .engine = bt_engine_new()};
    if (!t.engine)
        return BT_ERROR_MEMORY;
    t.context = &t.engine->context;
    bt_status status = run(&t); /* its memory is freed with the process */
    bt_free(t.start);
    bt_free(t.vector);
    return bt_fail(status, "failed");
}
