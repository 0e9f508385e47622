/* compile/recompute.c: steps that run again, so that their values need not be held. Such a step is the same call on the
 * same operands, so its values are bitwise the same; it has its own buffers and prepared state. Each order that
 * plan/order.h knows is tried, because an order that holds little leaves little to drop. */
#include "compile/recompute.h"

#include "compile/work.h"
#include <string.h>

#define SLACK 1.3 /* an order that holds this many times more than the best one is not tried */

typedef struct effort { /* limits of one search: simulations per step, simulations in all, steps simulated */
    int64_t each, most, steps;
} effort;
static const effort glance = {40, 16000, 100000000}, thorough = {700, 120000, 1500000000};

static int64_t simulations(effort effort, int64_t steps)
{
    int64_t count = effort.each * steps;
    count = count < effort.most ? count : effort.most;
    return 1 + (count < effort.steps / (steps + 1) ? count : effort.steps / (steps + 1));
}

typedef struct best {
    int64_t *order, *launches; /* steps of the program; launches: places in the order; NULL: none yet */
    int64_t count;
    bt_order_rule rule;
    size_t most;
    double extra;
    size_t held; /* with nothing dropped */
} best;

typedef struct work {
    bt_compilation *c;
    const bt_arrays *arrays;
    bt_region *region;
    int *level;   /* by step of the program */
    double *cost; /* likewise */
    int64_t *order[BT_ORDERS];
    size_t most[BT_ORDERS];
    best best;
    bt_known *known;
    bool searched;
    bt_order_rule promising; /* if searched: the order to search thoroughly */
    double merit;            /* its bt_recompute.merit */
} work;

static int level_of(const bt_compile_options *options, const bt_tag *tag)
{
    for (int l = 0; l < options->level_count; l++)
        if (strcmp(options->levels[l].level, tag->level) == 0)
            return l;
    return -1;
}

static bool has_regions(const bt_program *program)
{
    for (int64_t s = 0; s < program->step_count; s++)
        if (program->steps[s].node->tag.region)
            return true;
    return false;
}

bool bt_recompute_wanted(const bt_compilation *c)
{
    const bt_compile_options *options = c->options;
    for (int l = 0; l < options->level_count; l++) {
        const bt_checkpointing_kind kind = options->levels[l].how.kind;
        if (kind > BT_CHECKPOINTING_NONE && (kind != BT_CHECKPOINTING_BUDGET || options->budget))
            return true;
    }
    return (options->budget && options->anything) || has_regions(c->program);
}

/* ---- one order ---- */

static bt_status permute(const work *w, const int64_t *order, bt_region *region, bt_recompute *r, bt_order *given,
                         double **cost)
{
    const bt_program *program = w->c->program;
    size_t count = (size_t)program->step_count + 1;
    bt_order_step *steps = bt_region_alloc(region, count * sizeof *steps);
    const bt_call_step **step = bt_region_alloc(region, count * sizeof(bt_call_step *));
    int *level = bt_region_alloc(region, count * sizeof *level);
    *cost = bt_region_alloc(region, count * sizeof **cost);
    if (!steps || !step || !level || !*cost)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < program->step_count; i++) {
        steps[i] = w->arrays->order.steps[order[i]];
        step[i] = &program->steps[order[i]];
        level[i] = w->level[order[i]];
        (*cost)[i] = w->cost[order[i]];
    }
    *given = w->arrays->order;
    given->steps = steps;
    *r = (bt_recompute){.c = w->c, .given = given, .step = step, .level = level, .known = w->known, .region = region};
    return BT_OK;
}

/* If both plans fit the budget, less extra work is better; otherwise fewer bytes. */
static bool better(const work *w, const bt_remat_plan *plan, double total)
{
    const best *b = &w->best;
    const double extra = total > 0 ? plan->extra / total : 0;
    const size_t fits = w->c->options->budget;
    if (!b->order)
        return true;
    if (plan->most <= fits && b->most <= fits)
        return extra < b->extra || (extra == b->extra && plan->most < b->most);
    return plan->most < b->most || (plan->most == b->most && extra < b->extra);
}

static bt_status take(work *w, bt_order_rule rule, const bt_remat *remat, const bt_remat_plan *plan)
{
    size_t bytes = (size_t)w->c->program->step_count * sizeof(int64_t);
    w->best = (best){.order = bt_region_copy(w->region, w->order[rule], bytes),
                     .launches = bt_region_copy(w->region, plan->launches, (size_t)plan->count * sizeof(int64_t)),
                     .count = plan->count,
                     .rule = rule,
                     .most = plan->most,
                     .extra = remat->total > 0 ? plan->extra / remat->total : 0,
                     .held = remat->most};
    return w->best.order && w->best.launches ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status look_at(work *w, bt_order_rule rule, effort effort, bt_region *region)
{
    bt_recompute r;
    bt_order given;
    double *cost;
    BT_TRY(permute(w, w->order[rule], region, &r, &given, &cost));
    bt_remat remat;
    bt_status status = bt_remat_new(&remat, &given, cost);
    r.remat = &remat;
    r.simulations = simulations(effort, given.step_count);
    if (status == BT_OK)
        status = bt_remat_choice_new(&remat, region, &r.choice);
    if (status == BT_OK)
        status = bt_policy_drop(&r);
    if (status == BT_OK && better(w, &r.plan, remat.total))
        status = take(w, rule, &remat, &r.plan);
    if (status == BT_OK && r.searched && (!w->searched || r.merit < w->merit)) {
        w->searched = true;
        w->promising = rule;
        w->merit = r.merit;
    }
    bt_remat_free(&remat);
    return status;
}

static bt_status look(work *w, bt_order_rule rule, effort effort)
{
    bt_region *region = bt_region_new();
    bt_status status = region ? look_at(w, rule, effort, region) : BT_ERROR_MEMORY;
    bt_region_free(region);
    return status;
}

/* ---- all of them ---- */

static bool known(const work *w, int rule)
{
    size_t bytes = (size_t)w->c->program->step_count * sizeof(int64_t);
    for (int other = 0; other < rule; other++)
        if (w->order[other] && memcmp(w->order[other], w->order[rule], bytes) == 0)
            return true;
    return false;
}

static bt_status find_orders(work *w, size_t *least)
{
    const bt_compile_options *options = w->c->options;
    *least = SIZE_MAX;
    for (int rule = 0; rule < BT_ORDERS; rule++) {
        if (options->rule != BT_ORDERS && (int)options->rule != rule)
            continue;
        w->order[rule] = bt_region_alloc(w->region, (size_t)(w->c->program->step_count + 1) * sizeof(int64_t));
        if (!w->order[rule])
            return BT_ERROR_MEMORY;
        BT_TRY(bt_order_by(&w->arrays->order, (bt_order_rule)rule, w->order[rule], &w->most[rule]));
        *least = w->most[rule] < *least ? w->most[rule] : *least;
    }
    return BT_OK;
}

/* A gather of a variable that the program does not change can be repeated at any time. */
static bool gathers_again(const work *w, const bt_call_step *step)
{
    const bt_program *program = w->c->program;
    const bt_buffer *from = &program->buffers[program->buffers[step->in[0].buffer].root];
    if (!w->c->options->regather || program->sharded.uneven || step->call.op != &bt_op_all_gather ||
        from->home != BT_HOME_VAR || from->var->lifetime != BT_RUN)
        return false;
    for (int64_t i = 0; i < program->graph->assign_count; i++)
        if (bt_var_root(program->graph->assigns[i].var) == bt_var_root((bt_var *)(uintptr_t)from->var))
            return false;
    return true;
}

static double cost_of(const work *w, const bt_call_step *step)
{
    const bool once = bt_op_flags(step->call.op) & BT_OP_EFFECT && !gathers_again(w, step);
    return once ? -1 : bt_call_work(&step->call);
}

/* A short search in each order picks the one to search thoroughly. It is the same one whatever the budget, so that a
 * larger budget never needs more work. */
static bt_status look_at_all(work *w)
{
    const bt_program *program = w->c->program;
    size_t count = (size_t)program->step_count + 1, least;
    w->level = bt_region_alloc(w->region, count * sizeof *w->level);
    w->cost = bt_region_alloc(w->region, count * sizeof *w->cost);
    if (!w->level || !w->cost)
        return BT_ERROR_MEMORY;
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[s];
        w->level[s] = level_of(w->c->options, &step->node->tag);
        w->cost[s] = cost_of(w, step);
    }
    BT_TRY(find_orders(w, &least));
    for (int rule = 0; rule < BT_ORDERS; rule++)
        if (w->order[rule] && (double)w->most[rule] <= SLACK * (double)least && !known(w, rule))
            BT_TRY(look(w, (bt_order_rule)rule, glance));
    return w->searched ? look(w, w->promising, thorough) : BT_OK;
}

/* ---- the program's new steps ---- */

typedef struct copying {
    bt_program *program;
    const bt_order_value *values;
    int64_t *now; /* by old buffer: where its value lies now */
    bool *ran;    /* by old step */
    bt_call_step *steps;
    int64_t count;
} copying;

/* Points the step's operands at where their values lie now. */
static bt_status move_operands(const copying *k, bt_call_step *step)
{
    bt_operand *in = bt_region_alloc(k->program->region, (size_t)(step->call.inputs + 1) * sizeof *in);
    if (!in)
        return BT_ERROR_MEMORY;
    for (int i = 0; i < step->call.inputs; i++)
        in[i] = (bt_operand){k->now[step->in[i].buffer], step->in[i].offset};
    step->in = in;
    return BT_OK;
}

static int64_t buffer_like(bt_program *program, int64_t buffer)
{
    bt_buffer like = program->buffers[buffer];
    return bt_program_buffer(program, &like);
}

/* Makes the step a copy with new output buffers, which later steps read. But a value that is kept to the end stays
 * where it was first computed. */
static bt_status again(copying *k, bt_call_step *step)
{
    bt_operand *out = bt_region_alloc(k->program->region, (size_t)(step->call.outputs + 1) * sizeof *out);
    if (!out)
        return BT_ERROR_MEMORY;
    for (int o = 0; o < step->call.outputs; o++) {
        int64_t before = step->out[o].buffer, buffer = buffer_like(k->program, before);
        if (buffer < 0)
            return BT_ERROR_MEMORY;
        out[o] = (bt_operand){buffer, 0};
        if (!k->values[before].kept)
            k->now[before] = buffer;
    }
    step->out = out;
    if (step->scratch >= 0 && (step->scratch = buffer_like(k->program, step->scratch)) < 0)
        return BT_ERROR_MEMORY;
    step->again = true;
    step->call.state = NULL;
    step->call.row = NULL;
    return step->kernel->prepare ? step->kernel->prepare(&step->call) : BT_OK;
}

static bt_status copy_steps(copying *k, const best *best)
{
    for (int64_t i = 0; i < best->count; i++) {
        int64_t s = best->order[best->launches[i]];
        bt_call_step *step = &k->steps[k->count];
        *step = k->program->steps[s];
        BT_TRY(move_operands(k, step));
        if (k->ran[s])
            BT_TRY(again(k, step));
        k->ran[s] = true;
        k->count++;
    }
    return BT_OK;
}

static void release_copies(const copying *k)
{
    for (int64_t i = 0; i < k->count; i++)
        if (k->steps[i].again && k->steps[i].kernel->release)
            k->steps[i].kernel->release(&k->steps[i].call);
    bt_free(k->steps);
}

static bt_status rebuild(work *w)
{
    bt_program *program = w->c->program;
    const best *best = &w->best;
    size_t buffers = (size_t)program->buffer_count;
    copying k = {.program = program, .values = w->arrays->order.values};
    k.now = bt_region_alloc(w->region, (buffers + 1) * sizeof *k.now);
    k.ran = bt_region_alloc(w->region, (size_t)program->step_count + 1);
    k.steps = bt_alloc_array((size_t)best->count, sizeof *k.steps);
    if (!k.now || !k.ran || !k.steps) {
        bt_free(k.steps);
        return BT_ERROR_MEMORY;
    }
    for (size_t b = 0; b < buffers; b++)
        k.now[b] = (int64_t)b;
    bt_status status = copy_steps(&k, best);
    if (status != BT_OK) {
        release_copies(&k);
        return status;
    }
    bt_free(program->steps);
    program->again = k.count - program->step_count;
    program->steps = k.steps;
    program->step_count = program->step_capacity = k.count;
    program->order = bt_order_name(best->rule);
    program->most = best->most;
    program->extra = best->extra;
    program->held = best->held;
    for (int64_t s = 0; s < program->step_count; s++)
        program->repeated += program->steps[s].again ? bt_call_work(&program->steps[s].call) : 0;
    program->work += program->repeated;
    return BT_OK;
}

bt_status bt_recompute_steps(bt_compilation *c, const bt_arrays *arrays)
{
    bt_known *own = c->options->known ? NULL : bt_known_new();
    work w = {.c = c, .arrays = arrays, .known = own ? own : c->options->known, .region = bt_region_new()};
    bt_status status = w.region && w.known ? look_at_all(&w) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = rebuild(&w);
    bt_region_free(w.region);
    bt_known_free(own);
    return status;
}
