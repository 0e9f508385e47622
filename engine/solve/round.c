/* engine/solve/round.c: a method's callback as entries. If it asks for something over several micro-batches, an entry
 * that runs once for each of them adds it up. The callback is cut there: the entries in between are the same graph,
 * each with only its own assigns. So a sum is a variable that later entries read and earlier ones do not. */
#include "engine/solve/implicit_inside.h"

#include "engine/traced/batch.h"
#include "ops/ops.h"

enum { FIRST_LOOP = 1 << 20 }; /* above those of steps and of solves */

int bt_micro_loop(const bt_phase *phase) { return FIRST_LOOP + (int)phase->entry_count; }

static bt_ask *next_ask(bt_builder *b)
{
    bt_round *round = b->round;
    if (b->asked < round->ask_count)
        return &round->asks[b->asked++];
    bt_ask *asks = bt_grow(round->asks, &round->ask_capacity, round->ask_count + 1, sizeof *asks);
    if (!asks)
        return NULL;
    round->asks = asks;
    asks[round->ask_count++] = (bt_ask){.before = -1};
    return &asks[b->asked++];
}

static bt_var *vector(bt_builder *b, bt_var **var, const char *name)
{
    if (!*var)
        *var = bt_phase_own(b->site->phase, bt_var_new(BT_PHASE, BT_VECTORS, b->lower->name, name,
                                                       bt_var_array(b->solve->adjoint.flat)));
    return *var;
}

bt_tensor *bt_round_ask(bt_builder *b, bt_ask_kind kind, bt_tensor *given)
{
    bt_ask *ask = next_ask(b);
    if (!ask || !vector(b, &ask->sum, "sum over micro-batches") ||
        (given && !vector(b, &ask->given, "given to micro-batches")))
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    ask->kind = kind;
    ask->value = given;
    bt_tensor *sum = bt_graph_read(b->graph, ask->sum);
    ask->zero = bt_zeros_like(sum);
    return sum;
}

void bt_round_assign(bt_builder *b)
{
    for (int64_t i = 0; i < b->asked; i++) {
        bt_ask *ask = &b->round->asks[i];
        if (ask->value)
            bt_graph_assign(b->graph, ask->given, ask->value);
        bt_graph_assign(b->graph, ask->sum, ask->zero);
        ask->value = ask->zero = NULL;
    }
}

static bool belongs(const bt_ask *ask, const bt_var *var) { return ask && (var == ask->given || var == ask->sum); }

static bool belongs_to_one(const bt_round *round, const bt_var *var)
{
    for (int64_t i = 0; i < round->ask_count; i++)
        if (belongs(&round->asks[i], var))
            return true;
    return false;
}

/* Adds the graph with only the assigns that precede `ask`; NULL: with those of the callback itself. */
static int add_part(bt_builder *b, bt_graph *graph, const bt_ask *ask, int loop, const char *part)
{
    bt_assign *all = graph->assigns;
    int64_t count = graph->assign_count;
    bt_assign *some = bt_alloc_array((size_t)count + 1, sizeof *some);
    if (!some)
        return -1;
    graph->assigns = some;
    graph->assign_count = 0;
    for (int64_t i = 0; i < count; i++)
        if (ask ? belongs(ask, all[i].var) : !belongs_to_one(b->round, all[i].var))
            some[graph->assign_count++] = all[i];
    int entry = bt_phase_add(b->site->phase, graph, loop, part);
    graph->assigns = all;
    graph->assign_count = count;
    bt_free(some);
    return entry;
}

static bt_micro_set *set_of(bt_solve *solve, const bt_ask *ask)
{
    bt_implicit *own = solve->state;
    return ask->kind == BT_ASK_UPPER ? &own->upper : &solve->micros;
}

/* The problem whose micro-batches these are. */
static bt_problem *of(const bt_solve_site *site, const bt_solve *solve, const bt_ask *ask)
{
    return ask->kind == BT_ASK_UPPER ? site->upper : solve->problem;
}

/* What one micro-batch adds to the sum. */
static int add_each(const bt_builder *outer, const bt_ask *ask, int shape, int loop)
{
    bt_builder b = *outer;
    const bt_micro_set *set = set_of(b.solve, ask);
    b.micro = b.upper_micro = &set->shapes[shape];
    if (!bt_builder_begin(&b))
        return -1;
    bt_tensor *value = bt_ask_trace(&b, ask->kind, ask->given ? bt_graph_read(b.graph, ask->given) : NULL);
    if (!bt_poisoned(value))
        bt_graph_assign(b.graph, ask->sum, (bt_add)(bt_graph_read(b.graph, ask->sum), bt_shared(b.graph, set, value)));
    bt_graph *graph = bt_builder_end(&b, "solve, a micro-batch");
    const double runs = b.site->phase->runs;
    b.site->phase->runs = shape ? 0 : runs * (double)set->count;
    int entry = graph ? bt_phase_add(b.site->phase, graph, loop, "solve, a micro-batch") : -1;
    b.site->phase->runs = runs;
    bt_graph_free(graph);
    return entry;
}

bt_status bt_round_build(bt_builder *b, bt_graph *graph, int loop, const char *part)
{
    bt_round *round = b->round;
    for (int64_t i = 0; i < round->ask_count; i++) {
        bt_ask *ask = &round->asks[i];
        ask->before = add_part(b, graph, ask, loop, part);
        int each = loop ? loop : bt_micro_loop(b->site->phase);
        if (ask->before >= 0)
            BT_TRY(bt_counts_add(of(b->site, b->solve, ask), set_of(b->solve, ask), b->site->phase, each, &ask->each));
        for (int s = 0; ask->before >= 0 && s < set_of(b->solve, ask)->shape_count; s++)
            if ((ask->each.each[s] = add_each(b, ask, s, each)) < 0)
                return bt_error_status();
        if (ask->before < 0)
            return bt_error_status();
    }
    round->last = add_part(b, graph, NULL, loop, part);
    return round->last < 0 ? bt_error_status() : BT_OK;
}

bt_status bt_round_run(bt_solve_site *site, bt_solve *solve, const bt_round *round)
{
    for (int64_t i = 0; i < round->ask_count; i++) {
        const bt_ask *ask = &round->asks[i];
        BT_TRY(bt_part_run(site->phase, ask->before));
        BT_TRY(bt_micro_set_run(set_of(solve, ask), of(site, solve, ask), site->phase, &ask->each));
    }
    return round->last < 0 ? BT_OK : bt_part_run(site->phase, round->last);
}

void bt_round_free(bt_round *round) { bt_free(round->asks); }
