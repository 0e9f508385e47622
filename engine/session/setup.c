/* engine/session/setup.c: from a configuration to planned phases. */
#include "engine/session/session.h"

#include "base/doing.h"
#include "base/footprint.h"
#include "engine/level/divide.h"
#include "engine/level/offload.h"
#include "engine/state/checkpoint.h"
#include <string.h>

static bt_status add_problem(bt_engine *engine, const bt_problem_def *def, void *user, const char *source)
{
    if (!def->name || !def->configure_module || !def->training_step)
        return bt_fail(BT_ERROR_ARGUMENT, "problem %s: its record needs name, configure_module and training_step",
                       def->name ? def->name : "(no name)");
    if (bt_problem_find(&engine->context, def->name))
        return bt_fail(BT_ERROR_CONFIG, "two problems have the name %s", def->name);
    int64_t capacity = engine->context.problem_capacity;
    bt_problem **problems =
        bt_grow(engine->context.problems, &capacity, engine->context.problem_count + 1, sizeof *problems);
    bt_problem *problem = problems ? bt_problem_new(&engine->context, def, user) : NULL;
    if (problems) {
        engine->context.problems = problems;
        engine->context.problem_capacity = (int)capacity;
    }
    bt_status status = problem ? bt_config_add_problem(engine->context.config, def->name) : BT_ERROR_MEMORY;
    if (status != BT_OK) { /* its index must be the same in the configuration */
        bt_problem_free(problem);
        return status;
    }
    problem->source = source;
    problem->place = engine->context.problem_count;
    engine->context.problems[engine->context.problem_count++] = problem;
    return BT_OK;
}

static bt_status add_dataset(bt_engine *engine, const bt_dataset_def *def)
{
    int64_t capacity = engine->dataset_capacity;
    const bt_dataset_def **datasets = bt_grow(engine->datasets, &capacity, engine->dataset_count + 1, sizeof *datasets);
    if (!datasets)
        return BT_ERROR_MEMORY;
    engine->datasets = datasets;
    engine->dataset_capacity = (int)capacity;
    BT_TRY(bt_dataset_register(def));
    engine->datasets[engine->dataset_count++] = def;
    return BT_OK;
}

/* A list in a record ends with NULL, at the latest in its last element. */
static bt_status check_lists(const bt_export *parts)
{
    const char *what = parts->problems[BT_MAX_ITEMS]     ? "problems"
                       : parts->optimizers[BT_MAX_ITEMS] ? "optimizers"
                       : parts->methods[BT_MAX_ITEMS]    ? "methods"
                       : parts->datasets[BT_MAX_ITEMS]   ? "datasets"
                                                         : NULL;
    if (!what)
        return BT_OK;
    return bt_fail(BT_ERROR_ARGUMENT, "an exported record lists more than %d %s: divide them among several records",
                   BT_MAX_ITEMS, what);
}

bt_status bt_engine_add(bt_engine *engine, const bt_export *parts, void *user, const char *source)
{
    if (parts->abi != BT_ABI)
        return bt_fail(BT_ERROR_ARGUMENT,
                       "the exported record is of interface %d, but this library has interface %d: compile it again",
                       parts->abi, BT_ABI);
    BT_TRY(check_lists(parts));
    for (int i = 0; i < BT_MAX_ITEMS && parts->methods[i]; i++)
        BT_TRY(bt_config_add_method(engine->context.config, parts->methods[i]));
    for (int i = 0; i < BT_MAX_ITEMS && parts->optimizers[i]; i++)
        BT_TRY(bt_config_add_optimizer(engine->context.config, parts->optimizers[i]));
    for (int i = 0; i < BT_MAX_ITEMS && parts->datasets[i]; i++)
        BT_TRY(add_dataset(engine, parts->datasets[i]));
    for (int i = 0; i < BT_MAX_ITEMS && parts->problems[i]; i++)
        BT_TRY(add_problem(engine, parts->problems[i], user, source));
    return BT_OK;
}

static bt_status open_plugin(bt_engine *engine, const char *name)
{
    int64_t capacity = engine->plugin_capacity;
    bt_plugin **plugins = bt_grow(engine->plugins, &capacity, engine->plugin_count + 1, sizeof *plugins);
    const bt_export *parts;
    if (!plugins)
        return BT_ERROR_MEMORY;
    engine->plugins = plugins;
    engine->plugin_capacity = (int)capacity;
    bt_status s = bt_plugin_open(name, bt_config_folder(engine->context.config), bt_builtins,
                                 &plugins[engine->plugin_count], &parts);
    if (s != BT_OK) {
        const char *origin = bt_config_origin(engine->context.config, "engine", "problems");
        bt_error_context("%s: problems", origin ? origin : "[engine]");
        return s;
    }
    engine->plugin_count++;
    return bt_engine_add(engine, parts, NULL, bt_plugin_source(plugins[engine->plugin_count - 1]));
}

static bt_status load_problems(bt_engine *engine)
{
    const char *list = engine->context.settings->problems, *word;
    size_t length;
    bt_doing_set("loading problems", "");
    while (list && (word = bt_word_next(&list, ',', &length)) != NULL) {
        char name[4096];
        if (!length || length >= sizeof name)
            return bt_fail(BT_ERROR_CONFIG, "%s = %s: an entry is empty or too long",
                           bt_config_place(engine->context.config, "engine", "problems"),
                           engine->context.settings->problems);
        memcpy(name, word, length);
        name[length] = 0;
        BT_TRY(open_plugin(engine, name));
    }
    if (!engine->context.problem_count)
        return bt_fail(BT_ERROR_CONFIG, "there are no problems: name one with `problems =` under [engine]");
    return BT_OK;
}

static bt_status load(bt_engine *engine)
{
    engine->context.settings = bt_config_engine(engine->context.config);
    if (!engine->context.settings)
        return bt_error_status();
    BT_TRY(load_problems(engine));
    BT_TRY(bt_config_resolve(engine->context.config));
    for (int i = 0; i < engine->context.problem_count; i++) {
        bt_problem *problem = engine->context.problems[i];
        problem->settings = bt_config_problem(engine->context.config, problem->name);
        if (!problem->settings)
            return bt_fail(BT_ERROR_INTERNAL, "%s has no settings", problem->name);
        int precision = problem->settings->fp16 ? BT_IN_FP16 : problem->settings->precision;
        if (problem->settings->fp16 && problem->settings->precision != BT_IN_FP16 &&
            bt_config_origin(engine->context.config, problem->name, "precision"))
            return bt_fail(BT_ERROR_CONFIG, "%s = true contradicts `precision`; remove one of them",
                           bt_config_place(engine->context.config, problem->name, "fp16"));
        problem->dtype = bt_precision_dtype(precision);
        problem->low = bt_precision_low(precision);
        problem->narrow = precision == BT_IN_BF16_TRUE;
    }
    return BT_OK;
}

/* Refuses what the exact product cannot do with this treatment of detached values. */
static bt_status check_product(const bt_problem *problem)
{
    const bt_problem_settings *s = problem->settings;
    const char *place = bt_config_place(problem->context->config, problem->name, "product_precision");
    if (problem->low == BT_F16 && s->product_precision == BT_PRODUCTS_AS_LEVEL)
        return bt_fail(
            BT_ERROR_CONFIG,
            "%s = level: the products of an fp16 level are computed in fp32; product_precision = fp16 computes them in "
            "fp16, with a scale of their own",
            place);
    if (problem->low != BT_F16 && s->product_precision == BT_PRODUCTS_FP16)
        return bt_fail(BT_ERROR_CONFIG, "%s = fp16: this needs a level with precision = fp16", place);
    bool differs =
        s->product == BT_PRODUCT_FINITE || s->method->penalty || s->method->unrolls || problem->def->condition;
    if (s->product_precision == BT_PRODUCTS_FP16 && differs)
        return bt_fail(
            BT_ERROR_CONFIG,
            "%s = fp16: differences, steps that are differentiated through, and a condition are computed in fp32; use "
            "an exact product of a loss (product = jvp or vjp)",
            place);
    if (s->detach == BT_DETACH_FOLLOW && s->product == BT_PRODUCT_VJP)
        return bt_fail(
            BT_ERROR_CONFIG,
            "[%s] detach = follow needs the derivative of the upper gradient along x, which product = vjp cannot give: "
            "use jvp or finite",
            problem->name);
    if (s->detach == BT_DETACH_FIELD && s->product == BT_PRODUCT_FINITE)
        return bt_fail(BT_ERROR_CONFIG, "[%s] detach = field needs an exact product, not product = finite: use vjp",
                       problem->name);
    if (problem->def->condition && (s->detach == BT_DETACH_FOLLOW || s->method->penalty))
        return bt_fail(BT_ERROR_CONFIG,
                       "[%s] %s = %s needs a lower loss, but %s has a condition that is not its gradient: use another",
                       problem->name, s->method->penalty ? "type" : "detach",
                       s->method->penalty ? s->method->name : "follow", problem->name);
    return BT_OK;
}

static bt_status compile_all(bt_engine *engine)
{
    for (int i = 0; i < engine->context.problem_count; i++)
        if (engine->context.problems[i]->settings->active) {
            bt_doing_set("configuring ", engine->context.problems[i]->name);
            BT_TRY(check_product(engine->context.problems[i]));
            BT_TRY(bt_problem_configure(engine->context.problems[i]));
            BT_TRY(bt_params_check(engine->context.problems[i]));
        }
    for (int i = 0; i < engine->context.problem_count; i++)
        if (engine->context.problems[i]->settings->active) {
            bt_doing_set("reading the data of ", engine->context.problems[i]->name);
            BT_TRY(bt_problem_open_data(engine->context.problems[i]));
        }
    double start = bt_seconds();
    BT_TRY(bt_loop_starts_open(&engine->context)); /* first, because budgets include what is kept */
    BT_TRY(bt_levels_compile(&engine->context));
    bt_context_settle_threads(&engine->context);
    engine->compile_seconds = bt_seconds() - start;
    return bt_check_names(&engine->context);
}

/* What each level recomputes, for every program that has values of it. */
static bt_status set_checkpointing(bt_context *context)
{
    bt_compile_options *options = &context->instance->options;
    options->levels = context->checkpointing =
        bt_alloc_array((size_t)context->problem_count, sizeof *context->checkpointing);
    if (!options->levels)
        return BT_ERROR_MEMORY;
    for (int i = 0; i < context->problem_count; i++)
        options->levels[options->level_count++] =
            (bt_level_checkpointing){.level = context->problems[i]->name,
                                     .how = context->problems[i]->settings->checkpointing,
                                     .offloads = bt_offloads(context->problems[i], BT_OFFLOAD_ACTIVATIONS)};
    return BT_OK;
}

/* If all cores have a computing thread, a sending thread would take time from them; but waiting for other machines
 * takes no core. */
static bt_status set_overlap(bt_engine *engine, int ranks)
{
    bt_instance *instance = engine->context.instance;
    const bt_transport *t = engine->transport;
    const int wish = engine->context.settings->overlap;
    const bool far = instance->queue != NULL; /* needs no thread; whether it pays has not been measured on a card */
    const bool pays = t && !far && !t->one_thread && (t->far || instance->threads < t->threads);
    if (wish == BT_OVERLAP_TRUE && t && t->one_thread && !far)
        return bt_fail(BT_ERROR_CONFIG, "overlap = true: this MPI accepts calls from one thread only (it must support "
                                        "MPI_THREAD_SERIALIZED): remove overlap");
    return ranks > 1 && (wish == BT_OVERLAP_TRUE || (wish == BT_OVERLAP_AUTO && pays)) ? bt_instance_overlap(instance)
                                                                                       : BT_OK;
}

/* Planning needs no device. NULL after an error. */
static const bt_backend *chosen_backend(const bt_engine *engine)
{
    if (engine->context.settings->device != BT_DEVICE_CUDA)
        return bt_backend_cpu();
    const bt_transport *t = engine->transport;
    const bool chosen = !t || bt_cuda_choose(t->here, t->beside) == BT_OK;
    const bt_backend *cuda = !chosen ? NULL : engine->front.dry ? bt_backend_cuda_to_plan() : bt_backend_cuda();
    if (!cuda)
        bt_error_context("device = cuda");
    return cuda;
}

/* Ranks on devices are processes. Without these, as in a report or a program that calls the library, one rank computes
 * everything. Plans are made for the requested number of ranks. */
static bt_status count_ranks(const bt_engine *engine, int *ranks)
{
    const bt_engine_settings *s = engine->context.settings;
    *ranks = bt_context_ranks(&engine->context);
    if (*ranks == 1 || s->device != BT_DEVICE_CUDA || engine->front.dry || engine->front.processes)
        return BT_OK;
    if (s->executor == BT_EXECUTOR_LOCKSTEP)
        return bt_fail(
            BT_ERROR_CONFIG,
            "[engine] executor = lockstep: ranks in lockstep run on the processor; with device = cuda each is a "
            "process: remove executor, or device");
    *ranks = engine->front.spread ? *ranks : 1;
    return BT_OK;
}

static bt_status make_instance(bt_engine *engine)
{
    const bt_engine_settings *s = engine->context.settings;
    int ranks;
    BT_TRY(count_ranks(engine, &ranks));
    int threads = (int)s->threads;
    const int started = engine->front.processes;
    if (started && ranks != started)
        return bt_fail(BT_ERROR_CONFIG, "ranks = %d, but %d processes were started as ranks of the run: remove `ranks`",
                       ranks, started);
    if (started || (ranks > 1 && engine->front.spread && s->executor != BT_EXECUTOR_LOCKSTEP)) {
        BT_TRY(engine->front.spread(ranks, &engine->transport));
        threads = threads ? threads : engine->transport->threads;
    }
    const bt_backend *backend = chosen_backend(engine);
    bt_instance *instance = engine->context.instance = backend ? bt_instance_new(backend, threads) : NULL;
    if (!instance)
        return bt_error_status();
    instance->dry = engine->front.dry;
    instance->options.reassociate = s->reassociate;
    instance->options.bucket = (size_t)s->bucket;
    instance->options.ahead = s->offload_ahead;
    BT_TRY(engine->transport ? bt_instance_join(instance, engine->transport) : bt_instance_spread(instance, ranks));
    bt_instance_window(instance, bt_divides_parameters(&engine->context) ? (size_t)s->zero_unit : 0);
    return set_overlap(engine, ranks);
}

static bt_status setup(bt_engine *engine)
{
    double start = bt_seconds();
    BT_TRY(load(engine));
    BT_TRY(make_instance(engine));
    BT_TRY(set_checkpointing(&engine->context));
    if (!engine->context.resuming && !engine->front.reports && bt_instance_home(engine->context.instance) == 0)
        BT_TRY(bt_output_check(engine->context.settings->output));
    BT_TRY(bt_wire(&engine->context));
    BT_TRY(compile_all(engine));
    BT_TRY(bt_config_finish(engine->context.config));
    bt_warn_idle(&engine->context);
    engine->load_seconds = bt_seconds() - start - engine->compile_seconds;
    return BT_OK;
}

bt_status bt_engine_enter(bt_engine *engine, bt_request call, const char *function)
{
    if (!engine)
        return bt_fail(BT_ERROR_ARGUMENT, "the engine is NULL");
    bt_context *context = &engine->context;
    if (bt_stage_now(context) != BT_STAGE_FAILED && bt_error_status() != BT_OK)
        return bt_error_status(); /* the error of an earlier call, until bt_error_clear */
    BT_TRY(bt_context_may(context, call, function));
    if (bt_stage_now(context) != BT_STAGE_NEW)
        return BT_OK;
    bt_stage_enter(context, BT_STAGE_SETUP);
    const char *beside = bt_data_beside(bt_config_folder(engine->context.config));
    const bool blank = bt_data_blank(engine->front.dry);
    bt_status status = setup(engine);
    bt_doing_set("", "");
    bt_own_give_back();
    bt_data_blank(blank);
    bt_data_beside(beside);
    bt_stage_leave(context);
    if (status == BT_OK)
        context->stages.list[0] = BT_STAGE_READY;
    return bt_keep_error(context, status);
}

bt_status bt_engine_enter_model(bt_engine *engine, const char *function)
{
    if (engine)
        engine->context.resuming = true; /* parameters come from the checkpoint; no folder is created */
    BT_TRY(bt_engine_enter(engine, BT_REQUEST_RUN, function));
    bt_instance_fill(engine->context.instance);
    return BT_OK;
}

bt_status bt_engine_setup(bt_engine *engine) { return bt_engine_enter(engine, BT_REQUEST_LOOK, "bt_engine_setup"); }
