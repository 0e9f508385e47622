/* engine/session/report.c: reports before a run: the memory plan, the kernels, the configuration, the equation. */
#include "engine/session/session.h"

#include "engine/output/json.h"
#include "engine/solve/trajectory.h"
#include "plan/order.h"
#include <string.h>

enum { LARGEST = 8 };

/* ---- the plan as JSON; the text is printed from it, so both agree ---- */

static json_t *categories(const size_t by_category[BT_CATEGORIES])
{
    json_t *object = json_object();
    for (int c = 0; c < BT_CATEGORIES; c++)
        if (by_category[c])
            object = bt_json_with(object, bt_category_name((bt_category)c), json_integer((json_int_t)by_category[c]));
    return object;
}

static const char *value_name(const bt_phase_value *value, bt_text *text)
{
    if (value->var) {
        bt_text_add(text, "%s", value->var->name);
    } else {
        const bt_node *node = value->buffer->node;
        if (*node->tag.path)
            bt_text_add(text, "%s: ", node->tag.path);
        bt_text_add(text, value->category == BT_WORKSPACE ? "scratch of %s" : "%s", node->op->name);
    }
    return bt_text_get(text);
}

static json_t *largest(const bt_phase *phase)
{
    json_t *list = json_array();
    bool *taken = bt_alloc_array((size_t)phase->value_count, sizeof *taken);
    for (int k = 0; taken && k < LARGEST; k++) {
        int64_t best = -1;
        for (int64_t i = 0; i < phase->value_count; i++)
            if (!taken[i] && phase->values[i].space == BT_SPACE_DEVICE && bt_phase_lives(phase, i, phase->peak) &&
                (best < 0 || phase->values[i].used > phase->values[best].used))
                best = i;
        if (best < 0)
            break;
        taken[best] = true;
        bt_text name = {0};
        list = bt_json_append(list, json_pack("{s:I, s:s, s:s}", "bytes", (json_int_t)phase->values[best].used, "value",
                                              value_name(&phase->values[best], &name), "category",
                                              bt_category_name(phase->values[best].category)));
        bt_text_free(&name);
    }
    bt_free(taken);
    return list;
}

/* By op, the number of recomputed steps. */
static json_t *again_by_op(const bt_program *program)
{
    json_t *object = json_object();
    for (int64_t s = 0; s < program->step_count; s++)
        if (program->steps[s].again) {
            const char *op = program->steps[s].call.op->name;
            object = bt_json_with(object, op, json_integer(json_integer_value(json_object_get(object, op)) + 1));
        }
    return object;
}

/* What the ranks send each other during one run of the part. */
static json_t *with_sent(json_t *part, const bt_program *program)
{
    const bt_sharded_report *sent = &program->sharded;
    int64_t gathers, gathered;
    bt_program_gathered(program, &gathers, &gathered);
    if (!sent->reductions && !sent->gathers)
        return part;
    part = bt_json_with(part, "ranks",
                        json_pack("{s:I, s:I, s:I, s:I}", "reductions", (json_int_t)sent->reductions, "reduced",
                                  (json_int_t)sent->reduced, "gathers", (json_int_t)gathers, "gathered",
                                  (json_int_t)gathered));
    return sent->place_count ? bt_json_with(part, "gathered_whole", json_string(bt_text_get(&sent->places))) : part;
}

/* What is copied to the host's memory and back during one run of the part. */
static json_t *with_moved(json_t *part, const bt_program *program)
{
    if (!program->moves)
        return part;
    return bt_json_with(part, "offload",
                        json_pack("{s:I, s:I, s:I}", "copies", (json_int_t)program->moves, "out",
                                  (json_int_t)program->moved[BT_SPACE_HOST], "back",
                                  (json_int_t)program->moved[BT_SPACE_DEVICE]));
}

static json_t *parts(const bt_phase *phase)
{
    json_t *list = json_array();
    for (int e = 0; e < phase->entry_count; e++) {
        const bt_program *program = phase->entries[e].program;
        bt_saved saved;
        if (bt_phase_saved(phase, e, &saved) != BT_OK)
            break;
        json_t *part = json_pack("{s:s, s:I, s:I, s:I}", "part", phase->entries[e].part, "kernels",
                                 (json_int_t)program->step_count, "saved", (json_int_t)saved.held, "saved_all",
                                 (json_int_t)saved.all);
        if (program->again)
            part = bt_json_with(bt_json_with(bt_json_with(part, "again", json_integer((json_int_t)program->again)),
                                             "extra_work", json_real(program->extra)),
                                "again_by_op", again_by_op(program));
        part = with_moved(with_sent(part, program), program);
        if (program->order)
            part = bt_json_with(bt_json_with(part, "order", json_string(program->order)), "most",
                                json_integer((json_int_t)program->most));
        list = bt_json_append(list, part);
    }
    return list;
}

static const char *peak_part(const bt_phase *phase)
{
    const char *part = "";
    for (int e = 0; e < phase->entry_count; e++)
        if (phase->entries[e].base <= phase->peak)
            part = phase->entries[e].part;
    return part;
}

static json_t *phase_json(const bt_phase *phase)
{
    size_t at_peak[BT_CATEGORIES];
    bt_phase_at_peak(phase, at_peak);
    json_t *object = json_pack("{s:s, s:I, s:I, s:s}", "phase", phase->name, "arena", (json_int_t)phase->arena, "bound",
                               (json_int_t)phase->bound, "peak_in", peak_part(phase));
    if (phase->host)
        object = bt_json_with(object, "host", json_integer((json_int_t)phase->host));
    object = bt_json_with(object, "at_peak", categories(at_peak));
    object = bt_json_with(object, "parts", parts(phase));
    object = bt_json_with(object, "largest", largest(phase));
    return object;
}

/* The spacing between kept states of the inner loop. */
static json_t *with_spacing(json_t *object, const bt_trajectory *trajectory)
{
    if (!trajectory || trajectory->states)
        return object;
    object = bt_json_with(object, "spacing", json_integer((json_int_t)trajectory->spacing));
    return bt_json_with(object, "spacing_is_chosen", json_boolean(trajectory->automatic));
}

static json_t *level_json(const bt_engine *engine, const bt_problem *problem)
{
    size_t by_category[BT_CATEGORIES], sum = bt_persistent_bytes(&engine->context, by_category, problem);
    json_t *object = json_pack("{s:s, s:I}", "level", problem->name, "persistent", (json_int_t)sum),
           *list = json_array();
    object = bt_json_with(object, "kept", categories(by_category));
    if (bt_host_bytes(&engine->context, by_category, problem))
        object = bt_json_with(object, "kept_in_host_memory", categories(by_category));
    object = with_spacing(object, problem->trajectory);
    if (problem->masks.flat)
        object = bt_json_with(object, "pruned", json_real(problem->settings->prune));
    for (int64_t i = 0; i < engine->context.instance->phase_count; i++)
        if (strcmp(engine->context.instance->phases[i]->owner, problem->name) == 0)
            list = bt_json_append(list, phase_json(engine->context.instance->phases[i]));
    object = bt_json_with(object, "phases", list);
    return object;
}

static const bt_phase *peak_phase(const bt_engine *engine)
{
    const bt_phase *peak = NULL;
    for (int64_t i = 0; i < engine->context.instance->phase_count; i++)
        if (!peak || engine->context.instance->phases[i]->arena > peak->arena)
            peak = engine->context.instance->phases[i];
    return peak;
}

static json_t *with_threads(json_t *object, const bt_engine *engine)
{
    char why[256];
    bt_context_threads(&engine->context, why);
    object = bt_json_with(object, "threads", json_integer(engine->context.instance->threads));
    return bt_json_with(object, "threads_why", json_string(why));
}

static json_t *device_json(const bt_engine *engine)
{
    bt_device_bytes b;
    if (bt_engine_device_bytes(engine, &b) != BT_OK)
        return NULL;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "arena", (json_int_t)b.arena, "variables",
                     (json_int_t)b.variables, "batches", (json_int_t)b.batches, "constants", (json_int_t)b.constants,
                     "own", (json_int_t)b.own, "sum", (json_int_t)bt_device_sum(&b));
}

json_t *bt_plan_json(const bt_engine *engine)
{
    size_t by_category[BT_CATEGORIES], persistent = bt_persistent_bytes(&engine->context, by_category, NULL);
    json_t *object = json_object(), *levels = json_array();
    const bt_phase *peak = peak_phase(engine);
    object = bt_json_with(object, "backend", json_string(engine->context.instance->backend->isa()));
    object = with_threads(object, engine);
    if (engine->context.instance->world.ranks > 1)
        object = bt_json_with(object, "ranks", json_integer(engine->context.instance->world.ranks));
    object = bt_json_with(object, "planned_bytes",
                          json_pack("{s:I, s:I}", "arena", (json_int_t)bt_arena_used(&engine->context), "persistent",
                                    (json_int_t)persistent));
    object = bt_json_with(object, "arena", json_integer((json_int_t)bt_arena_planned(&engine->context)));
    if (engine->context.instance->backend->device)
        object = bt_json_with(object, "device_bytes", device_json(engine));
    const size_t kept = bt_host_bytes(&engine->context, by_category, NULL), placed = bt_host_planned(&engine->context);
    if (kept + placed)
        object = bt_json_with(object, "host_bytes",
                              json_pack("{s:I, s:I, s:I}", "arena", (json_int_t)placed, "persistent", (json_int_t)kept,
                                        "sum", (json_int_t)(placed + kept)));
    const bt_footprint print = bt_engine_footprint(engine);
    object = bt_json_with(object, "data_bytes", json_integer((json_int_t)print.data));
    object = bt_json_with(object, "program_bytes", json_integer((json_int_t)print.program));
    object = bt_json_with(object, "program_peak_bytes", json_integer((json_int_t)print.peak));
    if (peak)
        object = bt_json_with(object, "peak", json_pack("{s:s, s:s}", "level", peak->owner, "phase", peak->name));
    for (int i = 0; i < engine->context.problem_count; i++)
        if (engine->context.problems[i]->settings->active)
            levels = bt_json_append(levels, level_json(engine, engine->context.problems[i]));
    object = bt_json_with(object, "levels", levels);
    return object;
}

/* ---- the plan as text ---- */

static size_t bytes_of(json_t *object, const char *key)
{
    return (size_t)json_integer_value(json_object_get(object, key));
}

static void print_categories(json_t *object, const char *indent, FILE *file)
{
    const char *name;
    json_t *bytes;
    char text[32];
    json_object_foreach(object, name, bytes)
        fprintf(file, "%s%-22s %14lld  %10s\n", indent, name, (long long)json_integer_value(bytes),
                bt_bytes_text(text, (size_t)json_integer_value(bytes)));
}

static void print_spacing(json_t *level, FILE *file)
{
    const size_t spacing = bytes_of(level, "spacing");
    if (spacing > 1)
        fprintf(file, "    the state is saved every %zu steps of the inner loop; the steps in between are recomputed\n",
                spacing);
    else if (json_is_true(json_object_get(level, "spacing_is_chosen")))
        fprintf(file, "    the state is saved before every step of the inner loop\n");
}

static void print_sent(json_t *part, FILE *file)
{
    json_t *sent = json_object_get(part, "ranks");
    const char *places = bt_json_read_text(part, "gathered_whole"), *place;
    size_t length;
    if (sent)
        fprintf(file, "      between ranks: %zu elements summed in %zu collectives, %zu gathered in %zu\n",
                bytes_of(sent, "reduced"), bytes_of(sent, "reductions"), bytes_of(sent, "gathered"),
                bytes_of(sent, "gathers"));
    while ((place = bt_word_next(&places, '\n', &length)) != NULL)
        if (length)
            fprintf(file, "      gathered: %.*s\n", (int)length, place);
}

static void print_moved(json_t *part, FILE *file)
{
    json_t *moved = json_object_get(part, "offload");
    if (moved)
        fprintf(file, "      %zu copies: %zu bytes to host memory, %zu back\n", bytes_of(moved, "copies"),
                bytes_of(moved, "out"), bytes_of(moved, "back"));
}

static void print_part(json_t *part, FILE *file)
{
    json_t *order = json_object_get(part, "order");
    fprintf(file, "    part %-25s %6zu kernels", bt_json_read_text(part, "part"), bytes_of(part, "kernels"));
    if (bytes_of(part, "again")) {
        const char *op;
        json_t *count;
        fprintf(file, ", %zu of them recomputed (%.1f %% more work:", bytes_of(part, "again"),
                100 * json_real_value(json_object_get(part, "extra_work")));
        json_object_foreach(json_object_get(part, "again_by_op"), op, count)
            fprintf(file, " %s %lld", op, (long long)json_integer_value(count));
        fprintf(file, ")");
    }
    fprintf(file, ", %zu of %zu bytes saved for derivatives", bytes_of(part, "saved"), bytes_of(part, "saved_all"));
    if (order && strcmp(json_string_value(order), bt_order_name(BT_ORDER_WRITTEN)) != 0)
        fprintf(file, "; %s", json_string_value(order));
    fprintf(file, "\n");
    print_sent(part, file);
    print_moved(part, file);
}

static void print_phase(json_t *phase, FILE *file)
{
    size_t i;
    json_t *item;
    char text[32];
    fprintf(file, "  phase %-20s %14zu  %10s  (lower bound %zu, peak in %s)\n", bt_json_read_text(phase, "phase"),
            bytes_of(phase, "arena"), bt_bytes_text(text, bytes_of(phase, "arena")), bytes_of(phase, "bound"),
            bt_json_read_text(phase, "peak_in"));
    if (bytes_of(phase, "host"))
        fprintf(file, "    %-22s %14zu  %10s\n", "in host memory", bytes_of(phase, "host"),
                bt_bytes_text(text, bytes_of(phase, "host")));
    print_categories(json_object_get(phase, "at_peak"), "    ", file);
    json_array_foreach(json_object_get(phase, "parts"), i, item) print_part(item, file);
    json_array_foreach(json_object_get(phase, "largest"), i, item)
        fprintf(file, "    %s %14zu  %s\n", i ? "        " : "largest ", bytes_of(item, "bytes"),
                bt_json_read_text(item, "value"));
}

static void print_kept_by_host(json_t *kept, FILE *file)
{
    if (!kept)
        return;
    fprintf(file, "  in host memory\n");
    print_categories(kept, "    ", file);
}

static void print_host(json_t *host, FILE *file)
{
    char text[32];
    if (host)
        fprintf(file, "\nin host memory               %14zu  %10s  (offload: arena %zu, kept for the whole run %zu)",
                bytes_of(host, "sum"), bt_bytes_text(text, bytes_of(host, "sum")), bytes_of(host, "arena"),
                bytes_of(host, "persistent"));
}

static void print_device(json_t *device, FILE *file)
{
    char text[32];
    if (!device)
        return;
    fprintf(file,
            "\non the device                %14zu  %10s  (arena %zu, variables %zu, batches %zu, constants %zu, queue "
            "%zu; without the memory of the driver and of libraries)",
            bytes_of(device, "sum"), bt_bytes_text(text, bytes_of(device, "sum")), bytes_of(device, "arena"),
            bytes_of(device, "variables"), bytes_of(device, "batches"), bytes_of(device, "constants"),
            bytes_of(device, "own"));
}

void bt_plan_print(json_t *plan, FILE *file)
{
    size_t i, k;
    json_t *level, *phase, *planned = json_object_get(plan, "planned_bytes"), *peak = json_object_get(plan, "peak");
    char text[32];
    fprintf(file, "memory plan for %s, %s\n", bt_json_read_text(plan, "backend"),
            bt_json_read_text(plan, "threads_why"));
    if (bytes_of(plan, "ranks"))
        fprintf(file, "of rank 0 of %zu, which has as many rows of a batch as any other", bytes_of(plan, "ranks"));
    json_array_foreach(json_object_get(plan, "levels"), i, level)
    {
        fprintf(file, "\nlevel %s\n  %-26s %14zu  %10s\n", bt_json_read_text(level, "level"), "kept for the whole run",
                bytes_of(level, "persistent"), bt_bytes_text(text, bytes_of(level, "persistent")));
        print_categories(json_object_get(level, "kept"), "    ", file);
        print_kept_by_host(json_object_get(level, "kept_in_host_memory"), file);
        print_spacing(level, file);
        if (json_object_get(level, "pruned"))
            fprintf(file,
                    "    pruned                    %14g  of the weights at the end, which saves no memory during "
                    "training\n",
                    bt_json_read_number(level, "pruned"));
        json_array_foreach(json_object_get(level, "phases"), k, phase) print_phase(phase, file);
    }
    fprintf(file, "\nkept for the whole run       %14zu  %10s\n", bytes_of(planned, "persistent"),
            bt_bytes_text(text, bytes_of(planned, "persistent")));
    fprintf(file, "arena, shared by all phases  %14zu  %10s", bytes_of(plan, "arena"),
            bt_bytes_text(text, bytes_of(plan, "arena")));
    if (peak)
        fprintf(file, "  (written up to byte %zu; set by %s, %s)", bytes_of(planned, "arena"),
                bt_json_read_text(peak, "level"), bt_json_read_text(peak, "phase"));
    print_device(json_object_get(plan, "device_bytes"), file);
    print_host(json_object_get(plan, "host_bytes"), file);
    fprintf(file, "\ndata sets                    %14zu  %10s\n", bytes_of(plan, "data_bytes"),
            bt_bytes_text(text, bytes_of(plan, "data_bytes")));
    fprintf(file, "the program itself           %14zu  %10s", bytes_of(plan, "program_bytes"),
            bt_bytes_text(text, bytes_of(plan, "program_bytes")));
    fprintf(file, "  (graphs, kernel calls, tables; %s while they were built)\n",
            bt_bytes_text(text, bytes_of(plan, "program_peak_bytes")));
}

/* ---- the plan in a run's folder ---- */

bt_status bt_plan_leave(bt_engine *engine, const char *folder)
{
    bt_text equation = {0};
    json_t *plan = bt_plan_json(engine);
    bt_print_equation(&engine->context, &equation);
    bt_status status = bt_json_write(folder, "plan.json", plan, JSON_INDENT(1));
    if (status == BT_OK && equation.failed)
        status = BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = bt_output_write(folder, "equation.txt", bt_text_get(&equation), (size_t)equation.size);
    bt_text_free(&equation);
    json_decref(plan);
    return status;
}

/* ---- kernels ---- */

static json_t *info_json(const bt_engine *engine)
{
    json_t *phases = json_array();
    for (int64_t i = 0; i < engine->context.instance->phase_count; i++) {
        const bt_phase *phase = engine->context.instance->phases[i];
        for (int e = 0; e < phase->entry_count; e++) {
            bt_text text = {0};
            bt_program_describe(phase->entries[e].program, &text);
            phases =
                bt_json_append(phases, json_pack("{s:s, s:s, s:s, s:s}", "level", phase->owner, "phase", phase->name,
                                                 "part", phase->entries[e].part, "kernels", bt_text_get(&text)));
            bt_text_free(&text);
        }
    }
    json_t *object = json_pack("{s:s, s:s, s:f, s:f}", "device", engine->context.instance->backend->name, "backend",
                               engine->context.instance->backend->isa(), "load_seconds", engine->load_seconds,
                               "compile_seconds", engine->compile_seconds);
    object = bt_json_with(with_threads(object, engine), "programs", phases);
    return bt_json_with(object, "plain_loops", bt_plain_loops(engine));
}

static void print_info(json_t *info, FILE *file)
{
    size_t i;
    json_t *program;
    fprintf(
        file,
        "device %s (%s); problems and data loaded in %.3f s; traced, differentiated, compiled and planned in %.3f s\n"
        "%s\n",
        bt_json_read_text(info, "device"), bt_json_read_text(info, "backend"),
        json_real_value(json_object_get(info, "load_seconds")),
        json_real_value(json_object_get(info, "compile_seconds")), bt_json_read_text(info, "threads_why"));
    json_array_foreach(json_object_get(info, "programs"), i, program)
        fprintf(file, "\n%s, %s, %s\n%s", bt_json_read_text(program, "level"), bt_json_read_text(program, "phase"),
                bt_json_read_text(program, "part"), bt_json_read_text(program, "kernels"));
    bt_print_plain_loops(json_object_get(info, "plain_loops"), file);
}

/* ---- all reports ---- */

/* The plan or the kernels, as JSON or as text. */
static bt_status print_object(json_t *object, bt_report what, bool json, FILE *file)
{
    if (!object)
        return bt_fail(BT_ERROR_MEMORY, "out of memory for the report");
    bt_status status = BT_OK;
    if (json)
        status = bt_json_print(object, file);
    else if (what == BT_PLAN)
        bt_plan_print(object, file);
    else
        print_info(object, file);
    json_decref(object);
    return status;
}

bt_status bt_engine_report(bt_engine *engine, bt_report what, bool json, FILE *file)
{
    BT_TRY(bt_engine_enter(engine, BT_REQUEST_LOOK, "bt_engine_print"));
    if (!file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_print: a file is needed");
    if ((int)what < BT_PLAN || (int)what > BT_EQUATION)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_print: there is no report %d", (int)what);
    bt_status status = BT_OK;
    if (what == BT_CONFIG) {
        status = bt_config_print(engine->context.config, file);
    } else if (what == BT_EQUATION) {
        bt_text text = {0};
        bt_print_equation(&engine->context, &text);
        fputs(bt_text_get(&text), file);
        bt_text_free(&text);
    } else {
        status = print_object(what == BT_PLAN ? bt_plan_json(engine) : info_json(engine), what, json, file);
    }
    if (status == BT_OK) /* out of memory for a text */
        status = bt_error_status();
    if (status == BT_OK && (fflush(file) != 0 || ferror(file)))
        status = bt_fail(BT_ERROR_FILE, "the report cannot be written");
    return bt_fail(status, "failed");
}

bt_status bt_engine_print(bt_engine *engine, bt_report what, FILE *file)
{
    return bt_engine_report(engine, what, false, file);
}
