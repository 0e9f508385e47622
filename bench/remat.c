/* bench/remat.c: prints one program of a run as arrays of numbers, and how much it recomputes within a budget:
 *
 *     bench-remat FILE LEVEL PART PART-OF-BYTES[,...] [SECTION.KEY=VALUE ...]
 *
 * The budgets are fractions of the program's peak memory without recomputation. Nothing is run. The output is a JSON
 * object: "bytes", that peak; "values": [bytes, there, kept]; "steps": [cost, scratch, operands, outputs, [[output,
 * operand that it may overwrite], ...]], with a cost below 0 for a step that must not run again; "found": for each
 * budget its bytes, the planned bytes, the extra work as a fraction of the total, and the order of steps. */
#include "compile/arrays.h"
#include "compile/work.h"
#include "engine/session/session.h"
#include "transform/inline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void complain(const char *what)
{
    fprintf(stderr, "bench-remat: %s\n", what);
    exit(1);
}

static void expect(bt_status status)
{
    if (status != BT_OK)
        complain(bt_error());
}

static bt_engine *plan(int argc, char **argv)
{
    bt_engine *engine = bt_engine_new();
    expect(bt_engine_attach(engine, &(bt_front){.reports = true, .dry = true}));
    expect(bt_engine_load(engine, argv[1]));
    expect(bt_engine_set(engine, "engine.threads", "1"));
    for (int i = 5; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (!equals)
            complain("a setting is SECTION.KEY=VALUE");
        *equals = 0;
        expect(bt_engine_set(engine, argv[i], "%s", equals + 1));
    }
    expect(bt_engine_setup(engine));
    return engine;
}

/* The level's largest program for that part. */
static const bt_graph *find(const bt_engine *engine, const char *level, const char *part, bt_compile_options *options)
{
    const bt_instance *instance = engine->context.instance;
    const bt_program *found = NULL;
    for (int64_t p = 0; p < instance->phase_count; p++) {
        const bt_phase *phase = instance->phases[p];
        for (int64_t e = 0; e < phase->entry_count && strcmp(phase->owner, level) == 0; e++) {
            const bt_phase_entry *entry = &phase->entries[e];
            if (strcmp(entry->part, part) != 0 || (found && entry->program->most <= found->most))
                continue;
            found = entry->program;
            *options = phase->options;
            options->loop = entry->loop != 0;
        }
    }
    if (!found)
        complain("there is no such program");
    *options = bt_compile_settle(options);
    return found->graph;
}

/* Runs the passes that come before the ordering of steps. */
static void lower(bt_compilation *c, bt_arrays *arrays)
{
    c->program = bt_alloc(sizeof *c->program);
    c->program->region = bt_region_new();
    c->program->graph = bt_inline(c->source, bt_compile_takes, c);
    if (!c->program->graph)
        complain(bt_error());
    expect(bt_pass_lower(c));
    expect(bt_arrays_new(arrays, c));
}

/* ---- output ---- */

static void print_list(const int64_t *list, int64_t count)
{
    printf("[");
    for (int64_t i = 0; i < count; i++)
        printf("%s%lld", i ? ", " : "", (long long)list[i]);
    printf("]");
}

static void print_step(const bt_call_step *call, const bt_order_step *step)
{
    bool effect = bt_op_flags(call->call.op) & BT_OP_EFFECT;
    printf("[%.17g, %zu, ", effect ? -1 : bt_call_work(&call->call), bt_align_up(step->scratch));
    print_list(step->in, step->inputs);
    printf(", ");
    print_list(step->out, step->outputs);
    printf(", [");
    for (int64_t i = 0; i < step->overs; i++)
        printf("%s[%lld, %lld]", i ? ", " : "", (long long)step->out[step->over[i].output],
               (long long)step->over[i].value);
    printf("]]");
}

static void print_arrays(const bt_compilation *c, const bt_order *order)
{
    printf(", \"values\": [");
    for (int64_t v = 0; v < order->value_count; v++)
        printf("%s\n[%zu, %d, %d]", v ? "," : "", order->values[v].bytes, order->values[v].there,
               order->values[v].kept);
    printf("],\n\"steps\": [");
    for (int64_t s = 0; s < order->step_count; s++) {
        printf("%s\n", s ? "," : "");
        print_step(&c->program->steps[s], &order->steps[s]);
    }
    printf("]");
}

static bt_order_rule rule_of(const bt_program *program)
{
    int rule = 0;
    while (rule < BT_ORDERS && strcmp(bt_order_name((bt_order_rule)rule), program->order) != 0)
        rule++;
    return (bt_order_rule)rule;
}

static bt_program *compile(const bt_graph *graph, bt_compile_options options, size_t budget)
{
    options.budget = budget;
    options.anything = true;
    bt_program *program = bt_compile_graph(graph, &options);
    if (!program)
        complain(bt_error());
    return program;
}

static void print_found(const bt_compilation *c, const bt_order *order, size_t budget)
{
    size_t most;
    bt_program *program = compile(c->source, *c->options, budget);
    int64_t *steps = bt_alloc_array((size_t)order->step_count + 1, sizeof *steps);
    expect(steps ? bt_order_by(order, rule_of(program), steps, &most) : BT_ERROR_MEMORY);
    printf("{\"budget\": %zu, \"bytes\": %zu, \"extra\": %.17g,\n\"order\": ", budget, program->most, program->extra);
    print_list(steps, order->step_count);
    printf("}");
    bt_free(steps);
    bt_program_free(program);
}

int main(int argc, char **argv)
{
    bt_compile_options options;
    bt_arrays arrays;
    if (argc < 5)
        complain("bench-remat FILE LEVEL PART PART-OF-BYTES[,...] [SECTION.KEY=VALUE ...]");
    bt_engine *engine = plan(argc, argv);
    bt_compilation c = {.source = find(engine, argv[2], argv[3], &options), .options = &options};
    lower(&c, &arrays);
    bt_program *whole = compile(c.source, options, 0);
    printf("{\"bytes\": %zu", whole->most);
    print_arrays(&c, &arrays.order);
    printf(",\n\"found\": [");
    for (char *part = argv[4]; *part; part += *part == ',') {
        printf("%s", part > argv[4] ? ",\n" : "");
        print_found(&c, &arrays.order, (size_t)(strtod(part, &part) * (double)whole->most));
    }
    printf("]}\n");
    bt_arrays_free(&arrays);
    bt_program_free(whole);
    bt_program_free(c.program);
    bt_free(c.looks);
    bt_free(c.in);
    bt_free(c.trial);
    bt_engine_free(engine);
    return 0;
}
