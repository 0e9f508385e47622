/* engine/schedule/idle.c: keys that are set but have no effect in this run.
 *
 * Each row says when a key has no effect, and why. A key with its default value is not mentioned. */
#include "engine/level/divide.h"
#include "engine/level/offload.h"
#include "engine/level/scale.h"
#include "engine/schedule/schedule.h"

#include "engine/config/ini.h"
#include <string.h>

/* ---- conditions on the engine; `problem` is NULL ---- */

static bool nothing_validates(const bt_context *context, const bt_problem *problem)
{
    (void)problem;
    for (int i = 0; i < context->problem_count; i++)
        if (context->problems[i]->valid || context->problems[i]->def->validation_end)
            return false;
    return context->settings->valid_step > 0;
}

static bool one_level(const bt_context *context, const bt_problem *problem)
{
    (void)problem;
    for (int i = 0; i < context->problem_count; i++)
        if (context->problems[i]->child_count)
            return false;
    return true;
}

static bool no_early_stopping(const bt_context *context, const bt_problem *problem)
{
    (void)problem;
    return !context->settings->early_stopping;
}

static bool not_judged(const bt_context *context, const bt_problem *problem)
{
    return no_early_stopping(context, problem) && !context->settings->checkpoint_best;
}

static bool all_have_precision(const bt_context *context, const bt_problem *problem)
{
    (void)problem;
    for (int i = 0; i < context->problem_count; i++)
        if (context->problems[i]->settings->active &&
            !bt_config_origin(context->config, context->problems[i]->name, "precision"))
            return false;
    return true;
}

static bool not_scaled(const bt_context *context, const bt_problem *problem)
{
    (void)context;
    return !bt_scale_needed(problem);
}

static bool computes_tf32(const bt_context *context) { return context->instance->backend->kernels.tf32; }

static bool nothing_narrow(const bt_context *context, const bt_problem *problem)
{
    (void)problem;
    for (int i = 0; i < context->problem_count; i++)
        if (bt_dtype_half(context->problems[i]->low) ||
            (context->problems[i]->low == BT_TF32 && computes_tf32(context)))
            return false;
    return true;
}

static bool writes_no_events(const bt_context *context, const bt_problem *problem)
{
    return (void)problem, !(context->settings->loggers >> BT_SINK_EVENTS & 1);
}

/* ---- conditions on a problem ---- */

/* Derivatives read no forward value of this level, so there is nothing to recompute. */
static bool saves_nothing(const bt_context *context, const bt_problem *problem)
{
    for (int64_t i = 0; i < context->instance->phase_count; i++)
        if (bt_phase_saves(context->instance->phases[i], problem->name))
            return false;
    return true;
}

static bool names_nothing(const bt_context *context, const bt_problem *problem)
{
    const bt_compile_options *options = &context->instance->options;
    for (int l = 0; l < options->level_count; l++)
        if (strcmp(options->levels[l].level, problem->name) == 0)
            return options->levels[l].how.patterns && !options->levels[l].named;
    return false;
}

static bool prunes_nothing(const bt_context *context, const bt_problem *problem)
{
    return (void)context, problem->settings->prune == 0;
}

static bool no_head(const bt_context *context, const bt_problem *problem) { return (void)context, !problem->heads; }

static bool norms_no_batches(const bt_context *context, const bt_problem *problem)
{
    return (void)context, !bt_module_norms_batches(problem->module);
}

/* A problem whose hypergradient passes through this one's solution; NULL: none. */
static const bt_problem *differentiates(const bt_context *context, const bt_problem *lower)
{
    for (int i = 0; i < context->problem_count; i++)
        for (int q = 0; context->problems[i]->step && q < context->problems[i]->step->site.solve_count; q++)
            if (context->problems[i]->step->site.solves[q].problem == lower)
                return context->problems[i];
    return NULL;
}

static bool not_lower(const bt_context *context, const bt_problem *problem)
{
    return !differentiates(context, problem);
}

/* If the solution is declared constant, it is intended that nothing differentiates it. */
static bool asks_for_nothing(const bt_context *context, const bt_problem *problem)
{
    return not_lower(context, problem) && !(bt_is_constant(problem) && problem->parent_count);
}

static bool no_parents(const bt_context *context, const bt_problem *problem)
{
    return (void)context, !problem->parent_count;
}

static bool has_penalty(const bt_context *context, const bt_problem *problem)
{
    return (void)context, problem->settings->method->penalty != NULL;
}

static bool has_condition(const bt_context *context, const bt_problem *problem)
{
    return (void)context, problem->def->condition != NULL;
}

static bool one_rank(const bt_context *context, const bt_problem *problem)
{
    return (void)problem, context->instance->world.ranks == 1;
}

static bool one_rank_divides(const bt_context *context, const bt_problem *problem)
{
    return one_rank(context, problem) && context->settings->strategy > BT_STRATEGY_DISTRIBUTED;
}

static bool divides_no_parameters(const bt_context *context, const bt_problem *problem)
{
    return (void)problem, !bt_divides_parameters(context);
}

static bool has_no_product(const bt_context *context, const bt_problem *problem)
{
    const bt_solver_def *solver = bt_solver_of(problem);
    return (void)context, solver->multiplies && !solver->multiplies(problem);
}

/* A user's op may have a bt_detach in its body. */
static bool detaches_nothing(const bt_context *context, const bt_problem *problem)
{
    const bt_graph *loss = bt_traced_graph(problem, BT_PURE_STEP);
    (void)context;
    for (int64_t n = 0; loss && n < loss->node_count; n++)
        if (bt_op_flags(loss->nodes[n]->op) & BT_OP_DETACH || !loss->nodes[n]->op->info)
            return false;
    return loss != NULL;
}

static bool one_micro_batch(const bt_context *context, const bt_problem *problem)
{
    return (void)context, problem->settings->gradient_accumulation == 1;
}

static bool not_finite(const bt_context *context, const bt_problem *problem)
{
    return (void)context, problem->settings->product != BT_PRODUCT_FINITE;
}

static bool no_loader(const bt_context *context, const bt_problem *problem)
{
    return (void)context, !problem->train || !problem->train->loader;
}

/* bt_valid_batch may open the stream later. */
static bool no_valid_loader(const bt_context *context, const bt_problem *problem)
{
    return (void)context, problem->valid ? !problem->valid->loader : !problem->def->configure_valid_data;
}

static bool no_valid(const bt_context *context, const bt_problem *problem)
{
    return no_valid_loader(context, problem) && !bt_makes_batches(problem->def);
}

static bool no_weights(const bt_context *context, const bt_problem *problem)
{
    return (void)context, !problem->settings->weights;
}

static bool scheduler_is_not(const bt_problem *problem, unsigned kinds)
{
    return !(kinds >> problem->settings->scheduler.kind & 1);
}

static bool not_step(const bt_context *context, const bt_problem *problem)
{
    return (void)context, scheduler_is_not(problem, 1u << BT_SCHEDULER_STEP);
}

static bool not_multistep(const bt_context *context, const bt_problem *problem)
{
    return (void)context, scheduler_is_not(problem, 1u << BT_SCHEDULER_MULTISTEP);
}

static bool no_decay(const bt_context *context, const bt_problem *problem)
{
    return (void)context, scheduler_is_not(problem, 1u << BT_SCHEDULER_STEP | 1u << BT_SCHEDULER_MULTISTEP |
                                                        1u << BT_SCHEDULER_EXPONENTIAL | 1u << BT_SCHEDULER_PLATEAU);
}

static bool not_cosine(const bt_context *context, const bt_problem *problem)
{
    return (void)context, scheduler_is_not(problem, 1u << BT_SCHEDULER_COSINE);
}

static bool no_least(const bt_context *context, const bt_problem *problem)
{
    return (void)context, scheduler_is_not(problem, 1u << BT_SCHEDULER_COSINE | 1u << BT_SCHEDULER_PLATEAU);
}

static bool not_linear(const bt_context *context, const bt_problem *problem)
{
    return (void)context, scheduler_is_not(problem, 1u << BT_SCHEDULER_LINEAR);
}

static bool not_plateau(const bt_context *context, const bt_problem *problem)
{
    return (void)context, scheduler_is_not(problem, 1u << BT_SCHEDULER_PLATEAU);
}

static bool keeps_nothing(const bt_context *context, const bt_problem *problem)
{
    return (void)context, bt_optimizer_slot_count(problem->optimizer) == 0;
}

static bool one_memory(const bt_context *context, const bt_problem *problem)
{
    return (void)problem, !bt_instance_has_spaces(context->instance);
}

static bool offloads_nothing(const bt_context *context, const bt_problem *problem)
{
    (void)problem;
    for (int i = 0; i < context->problem_count; i++)
        if (context->problems[i]->settings->active && context->problems[i]->settings->offload)
            return one_memory(context, problem);
    return true;
}

static bool offloads_no_state(const bt_context *context, const bt_problem *problem)
{
    (void)problem;
    for (int i = 0; i < context->problem_count; i++)
        if (context->problems[i]->settings->active && bt_offloads(context->problems[i], BT_OFFLOAD_OPTIMIZER))
            return false;
    return true;
}

/* Nothing that the key names exists here. */
static bool has_none_of_it(const bt_context *context, const bt_problem *problem)
{
    const unsigned offload = problem->settings->offload;
    return offload && !(offload >> BT_OFFLOAD_OPTIMIZER & 1 && !keeps_nothing(context, problem)) &&
           !(offload >> BT_OFFLOAD_ACTIVATIONS & 1 && !saves_nothing(context, problem)) &&
           !(offload >> BT_OFFLOAD_TRAJECTORY & 1 && problem->trajectory);
}

/* Adafactor in the form that sets its own rate. */
static bool sets_its_rate(const bt_context *context, const bt_problem *problem)
{
    int relative = bt_hyper_index(problem->settings->optimizer->hypers, "relative_step");
    return (void)context, relative >= 0 && problem->settings->hypers[relative] != 0;
}

/* ---- the table ---- */

typedef struct idle_row {
    bt_section_kind section;
    const char *key;
    bool (*idle)(const bt_context *context, const bt_problem *problem);
    const char *why;
    bool wiring; /* depends on which problems take part: engine.levels may leave some out, for baselines */
    bool waits;  /* the key would work if a problem above waited for the steps, which l2u can arrange */
} idle_row;

#define ENGINE(key_)  .section = BT_SECTION_ENGINE, .key = (key_)
#define PROBLEM(key_) .section = BT_SECTION_PROBLEM, .key = (key_)

static const char not_lower_why[] = "no problem above differentiates its solution";
static const char loader_why[] = "its batches do not come from a data set of its own";
static const char weights_why[] = "there is no `weights`";
static const char parents_why[] = "no problem above waits for its solution (l2u)";
static const char one_rank_why[] = "there is only one rank, which holds everything";
static const char scale_why[] = "no gradient of this level passes through fp16";
static const char linear_why[] = "it is used only with scheduler = linear";
static const char relative_why[] = "relative_step = true sets the rate by itself";
static const char plateau_why[] = "it is used only with scheduler = plateau";
static const char stopping_why[] = "early_stopping is false";
static const char judged_why[] = "early_stopping and checkpoint_best are both false";

static const idle_row rows[] = {
    {ENGINE("valid_step"), nothing_validates, "no problem has validation data or a validation_end"},
    {ENGINE("roll_back"), one_level, "no problem waits for the solution of another one (l2u)", .wiring = true},
    {ENGINE("early_stopping_mode"), not_judged, judged_why},
    {ENGINE("early_stopping_tolerance"), no_early_stopping, stopping_why},
    {ENGINE("early_stopping_metric"), not_judged, judged_why},
    {ENGINE("strategy"), one_rank_divides, one_rank_why},
    {ENGINE("zero_unit"), divides_no_parameters, "no level has strategy = zero3"},
    {ENGINE("log_histograms"), writes_no_events, "logger_type has no tensorboard"},
    {ENGINE("precision"), all_have_precision, "every problem has its own"},

    {PROBLEM("initial_dynamic_scale"), not_scaled, scale_why},
    {PROBLEM("scale_factor"), not_scaled, scale_why},
    {PROBLEM("scale_interval"), not_scaled, scale_why},

    {PROBLEM("strategy"), one_rank, one_rank_why},

    {PROBLEM("type"), asks_for_nothing, not_lower_why, .wiring = true},
    {ENGINE("offload_ahead"), offloads_nothing, "no level offloads anything"},
    {ENGINE("offload_unit"), offloads_no_state, "no level offloads what its optimizer keeps"},

    {PROBLEM("product"), not_lower, not_lower_why, .wiring = true},
    {PROBLEM("product"), has_penalty, "its type uses a penalty instead of a second-order product"},
    {PROBLEM("product"), has_condition, "the product of a condition is vjp"},
    {PROBLEM("product"), has_no_product, "itd_second_order = false leaves the product out"},
    {PROBLEM("detach"), not_lower, not_lower_why, .wiring = true},
    {PROBLEM("detach"), detaches_nothing, "its loss has no detached values"},
    {PROBLEM("product_batches"), not_lower, not_lower_why, .wiring = true},
    {PROBLEM("product_batches"), one_micro_batch, "with gradient_accumulation = 1 there is only the last batch"},
    {PROBLEM("product_precision"), not_lower, not_lower_why, .wiring = true},
    {PROBLEM("product_precision"), nothing_narrow, "no level has products of fewer bits than fp32"},
    {PROBLEM("darts_alpha"), not_lower, not_lower_why, .wiring = true},
    {PROBLEM("darts_alpha"), has_penalty, "its type uses a penalty instead of a second-order product"},
    {PROBLEM("darts_alpha"), not_finite, "it is used only with product = finite"},
    {PROBLEM("meta_trainable"), not_lower, not_lower_why, .wiring = true},

    {PROBLEM("unroll_steps"), no_parents, parents_why, .wiring = true, .waits = true},
    {PROBLEM("unroll_tolerance"), no_parents, parents_why, .wiring = true},
    {PROBLEM("warmup_steps"), no_parents, parents_why, .wiring = true, .waits = true},

    {PROBLEM("checkpointing"), saves_nothing, "no derivative reads what this level computes"},
    {PROBLEM("checkpointing"), names_nothing, "no forward value that is kept for a derivative has such a name"},

    {PROBLEM("offload"), one_memory, "the processor has a single memory, and there is no device"},
    {PROBLEM("offload"), has_none_of_it, "there is nothing of the kind that it names"},

    {PROBLEM("chunks"), no_head, "it has no matrix product that is read row by row and reduced"},

    {PROBLEM("batch_norm_groups"), norms_no_batches, "no batch norm of its module uses batch statistics"},

    {PROBLEM("batch_size"), no_loader, loader_why},
    {PROBLEM("shuffle"), no_loader, loader_why},
    {PROBLEM("drop_last"), no_loader, loader_why},
    {PROBLEM("prefetch"), no_loader, loader_why},
    {PROBLEM("valid_batch_size"), no_valid_loader, "its validation has no data set of its own"},
    {PROBLEM("valid_batches"), no_valid, "it has no validation data"},

    {PROBLEM("weights_layout"), no_weights, weights_why},
    {PROBLEM("weights_missing"), no_weights, weights_why},

    {PROBLEM("optimizer_state"), keeps_nothing, "its optimizer keeps nothing between updates"},
    {PROBLEM("prune_begin"), prunes_nothing, "prune is 0"},
    {PROBLEM("prune_end"), prunes_nothing, "prune is 0"},
    {PROBLEM("scheduler"), sets_its_rate, relative_why},
    {PROBLEM("scheduler_warmup"), sets_its_rate, relative_why},
    {PROBLEM("scheduler_step_size"), not_step, "it is used only with scheduler = step"},
    {PROBLEM("scheduler_milestones"), not_multistep, "it is used only with scheduler = multistep"},
    {PROBLEM("scheduler_gamma"), no_decay, "it is used only with scheduler = step, multistep, exponential or plateau"},
    {PROBLEM("scheduler_t_max"), not_cosine, "it is used only with scheduler = cosine"},
    {PROBLEM("scheduler_eta_min"), no_least, "it is used only with scheduler = cosine or plateau"},
    {PROBLEM("scheduler_start_factor"), not_linear, linear_why},
    {PROBLEM("scheduler_end_factor"), not_linear, linear_why},
    {PROBLEM("scheduler_total_iters"), not_linear, linear_why},
    {PROBLEM("scheduler_metric"), not_plateau, plateau_why},
    {PROBLEM("scheduler_mode"), not_plateau, plateau_why},
    {PROBLEM("scheduler_patience"), not_plateau, plateau_why},
    {PROBLEM("scheduler_threshold"), not_plateau, plateau_why},
    {PROBLEM("scheduler_threshold_mode"), not_plateau, plateau_why},
    {PROBLEM("scheduler_cooldown"), not_plateau, plateau_why},
    {PROBLEM("scheduler_eps"), not_plateau, plateau_why},
};

/* A key without a row belongs to the problem's method, or always has an effect. */
bool bt_is_idle(const bt_context *context, const bt_problem *problem, const char *key)
{
    const bt_section_kind section = problem ? BT_SECTION_PROBLEM : BT_SECTION_ENGINE;
    bool idle = !bt_key_find(section, key) && problem && not_lower(context, problem);
    for (int i = 0; i < BT_COUNT_OF(rows); i++)
        if (rows[i].section == section && bt_ini_same(rows[i].key, key))
            idle = idle || rows[i].idle(context, problem);
    return idle;
}

/* ---- the warnings ---- */

/* `written` is NULL if the key has its default. */
static void warn(bt_context *context, const char *written, const char *why, const char *cure)
{
    if (written)
        bt_warn(context, "%s has no effect: %s%s", written, why, cure);
}

static void warn_rows(bt_context *context, bt_section_kind section, const bt_problem *problem)
{
    const char *name = problem ? problem->name : "engine", *last = NULL;
    for (int i = 0; i < BT_COUNT_OF(rows); i++) {
        const idle_row *row = &rows[i];
        const bt_key *key = bt_key_find(section, row->key);
        bool told = last && strcmp(last, row->key) == 0; /* the first reason is enough */
        if (row->section != section || told || (row->wiring && context->settings->levels) ||
            !row->idle(context, problem))
            continue;
        const bt_problem *upper = row->waits ? differentiates(context, problem) : NULL;
        bt_text cure = {0};
        if (upper)
            bt_text_add(&cure, "; to make %s wait for them, add %s > %s to l2u", upper->name, name, upper->name);
        warn(context, bt_config_departs(context->config, name, key), row->why, bt_text_get(&cure));
        bt_text_free(&cure);
        last = row->key;
    }
}

/* The keys of all methods are read, whatever `type` is. */
static void warn_methods(bt_context *context, const bt_problem *problem)
{
    const bt_method_def *method;
    bool lower = differentiates(context, problem) || context->settings->levels;
    for (int m = 0; (method = bt_config_method(context->config, m)) != NULL; m++)
        for (int h = 0; h < bt_hyper_count(method->hypers); h++) {
            bool other = method != problem->settings->method;
            if (lower && !other)
                continue;
            char name[BT_METHOD_KEY];
            bt_text why = {0};
            bt_key key = bt_config_method_key(method, h, name);
            bt_text_add(&why, other ? "type is %s" : "%s", other ? problem->settings->method->name : not_lower_why);
            warn(context, bt_config_hyper_departs(context->config, problem->name, &key, method->hypers[h].value),
                 bt_text_get(&why), "");
            bt_text_free(&why);
        }
}

static void warn_optimizer(bt_context *context, const bt_problem *problem)
{
    const bt_problem_settings *s = problem->settings;
    const bt_hyper_def *hypers = s->optimizer->hypers;
    int momentum = bt_hyper_index(hypers, "momentum"), dampening = bt_hyper_index(hypers, "dampening");
    if (momentum >= 0 && dampening >= 0 && s->hypers[momentum] == 0) {
        bt_key key = bt_config_optimizer_key(s->optimizer, dampening);
        warn(context, bt_config_hyper_departs(context->config, problem->name, &key, hypers[dampening].value),
             "there is no momentum", "");
    }
    for (int g = 0; g < s->group_count; g++)
        for (int h = 0; s->groups[g].frozen && h < bt_hyper_count(hypers); h++) {
            bt_text section = {0};
            bt_key key = bt_config_optimizer_key(s->optimizer, h);
            bt_text_add(&section, "%s.%s", problem->name, s->groups[g].name);
            warn(context, bt_config_hyper_departs(context->config, bt_text_get(&section), &key, s->hypers[h]),
                 "the group is frozen", "");
            bt_text_free(&section);
        }
}

/* The other values of the key do have an effect. */
static void warn_tf32(bt_context *context, const char *section, bt_section_kind kind, int precision)
{
    if (precision == BT_IN_TF32 && !computes_tf32(context))
        warn(context, bt_config_departs(context->config, section, bt_key_find(kind, "precision")),
             "the processor computes it as fp32", "");
}

void bt_warn_idle(bt_context *context)
{
    warn_rows(context, BT_SECTION_ENGINE, NULL);
    if (!all_have_precision(context, NULL))
        warn_tf32(context, "engine", BT_SECTION_ENGINE, context->settings->precision);
    for (int i = 0; i < context->problem_count; i++)
        if (context->problems[i]->settings->active) {
            warn_rows(context, BT_SECTION_PROBLEM, context->problems[i]);
            warn_methods(context, context->problems[i]);
            warn_optimizer(context, context->problems[i]);
            warn_tf32(context, context->problems[i]->name, BT_SECTION_PROBLEM,
                      context->problems[i]->settings->precision);
        }
}
