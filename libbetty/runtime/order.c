/* runtime/order.c: in which order a program's steps run. The order of the trace is one that a person would write; where
 * another one holds fewer bytes at its worst moment, that is taken. It never changes what a step computes. */
#include "runtime/program.h"

#include "ops/ops.h"
#include <string.h>

typedef struct edge { /* in a list of all steps that wait for one */
    int64_t to, next;
} edge;

typedef struct order {
    const bt_program *program;
    size_t *bytes;   /* by buffer: what it takes while it is alive */
    int64_t *reads;  /* by buffer: steps that read it; -1: kept to the end */
    int64_t *left;   /* of these, in the order that is looked at */
    int64_t *maker;  /* by buffer: the step that computes it; -1: none */
    int64_t *awaits; /* by step: for how many it has to wait, */
    int64_t *waits;  /* and for how many still; */
    int64_t *first;  /* its first edge; -1: nobody waits for it; */
    int64_t *since;  /* how many steps were done when it became ready */
    int64_t *chosen; /* steps, in the new order */
    int64_t *other;  /* in another one */
    int64_t *ready;
    edge *edges;
    int64_t edge_count, edge_capacity;
} order;

static bool repeats(const bt_call_step *step, int i)
{
    for (int j = 0; j < i; j++)
        if (step->in[j].buffer == step->in[i].buffer)
            return true;
    return false;
}

/* ---- who waits for whom ---- */

static bt_status wait_for(order *o, int64_t step, int64_t before)
{
    edge *edges = bt_grow(o->edges, &o->edge_capacity, o->edge_count + 1, sizeof *edges);
    if (!edges)
        return BT_ERROR_MEMORY;
    o->edges = edges;
    edges[o->edge_count] = (edge){step, o->first[before]};
    o->first[before] = o->edge_count++;
    o->awaits[step]++;
    return BT_OK;
}

static bool overlap(const bt_buffer *buffer, const bt_var *var)
{
    size_t start = bt_var_start(var);
    return buffer->home == BT_HOME_VAR && buffer->var == bt_var_root((bt_var *)(uintptr_t)var) &&
           buffer->start < start + var->bytes && start < buffer->start + buffer->bytes;
}

/* Who reads a variable before its new value is there stays before it: so the value can be computed in its place. */
static bt_status keep_in_place(order *o, const bt_var *var, int64_t made)
{
    for (int64_t s = 0; s < made; s++)
        for (int i = 0; i < o->program->steps[s].call.inputs; i++)
            if (overlap(&o->program->buffers[o->program->steps[s].in[i].buffer], var)) {
                BT_TRY(wait_for(o, made, s));
                break;
            }
    return BT_OK;
}

static bt_status connect(order *o, const bt_look *looks)
{
    const bt_program *program = o->program;
    const bt_graph *graph = program->graph;
    int64_t effect = -1;
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[s];
        for (int i = 0; i < step->call.inputs; i++)
            if (!repeats(step, i) && o->maker[step->in[i].buffer] >= 0)
                BT_TRY(wait_for(o, s, o->maker[step->in[i].buffer]));
        if (!(bt_op_flags(step->call.op) & BT_OP_EFFECT))
            continue;
        if (effect >= 0) /* messages come in their order */
            BT_TRY(wait_for(o, s, effect));
        effect = s;
    }
    for (int64_t i = 0; i < graph->assign_count; i++) {
        int64_t made = o->maker[looks[graph->assigns[i].value->id].at.buffer];
        if (made >= 0)
            BT_TRY(keep_in_place(o, graph->assigns[i].var, made));
    }
    return BT_OK;
}

/* ---- what is alive ---- */

/* Values of the arena count, and what is read of the phase's variables; what goes into a variable that is there for the
 * whole run is computed in its place. */
static void weigh(order *o, const bt_look *looks)
{
    const bt_program *program = o->program;
    const bt_graph *graph = program->graph;
    for (int64_t b = 0; b < program->buffer_count; b++) {
        const bt_buffer *buffer = &program->buffers[b];
        bool counts =
            buffer->home == BT_HOME_ARENA || (buffer->home == BT_HOME_VAR && buffer->var->lifetime == BT_PHASE);
        o->bytes[b] = counts ? bt_align_up(buffer->bytes) : 0;
        o->maker[b] = -1;
    }
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[s];
        for (int i = 0; i < step->call.inputs; i++)
            o->reads[step->in[i].buffer] += !repeats(step, i);
        for (int k = 0; k < step->call.outputs; k++)
            o->maker[step->out[k].buffer] = s;
    }
    for (int64_t i = 0; i < graph->assign_count; i++) {
        int64_t value = looks[graph->assigns[i].value->id].at.buffer;
        o->reads[value] = -1;
        if (graph->assigns[i].var->lifetime == BT_RUN)
            o->bytes[value] = 0;
        for (int64_t b = 0; b < program->buffer_count; b++)
            if (overlap(&program->buffers[b], graph->assigns[i].var))
                o->reads[b] = -1;
    }
    for (int64_t i = 0; i < graph->output_count; i++)
        o->reads[looks[graph->outputs[i]->id].at.buffer] = -1;
}

/* Whether output k may be written over an input that dies with the step. */
static bool over_an_input(const order *o, const bt_call_step *step, int k)
{
    size_t bytes = o->program->buffers[step->out[k].buffer].bytes;
    for (int i = 0; i < step->call.inputs; i++)
        if (o->left[step->in[i].buffer] == 1 && o->maker[step->in[i].buffer] >= 0 &&
            bt_step_overwrites(o->program, step, k, i, bytes))
            return true;
    return false;
}

typedef struct change {         /* of the bytes that are alive */
    size_t during, made, freed; /* while the step runs besides those before it; by what is left and what is not */
} change;

static change change_by(const order *o, const bt_call_step *step)
{
    change c = {0};
    for (int i = 0; i < step->call.inputs; i++)
        if (o->left[step->in[i].buffer] == 1 && !repeats(step, i))
            c.freed += o->bytes[step->in[i].buffer];
    for (int k = 0; k < step->call.outputs; k++) {
        int64_t buffer = step->out[k].buffer;
        if (o->left[buffer])
            c.made += o->bytes[buffer];
        if (!over_an_input(o, step, k))
            c.during += o->bytes[buffer];
    }
    if (step->scratch >= 0)
        c.during += bt_align_up(o->program->buffers[step->scratch].bytes);
    return c;
}

static void take(order *o, const bt_call_step *step)
{
    for (int i = 0; i < step->call.inputs; i++)
        if (o->left[step->in[i].buffer] > 0 && !repeats(step, i))
            o->left[step->in[i].buffer]--;
}

/* The most bytes alive at once; by[s]: the s-th step, NULL: as they stand. */
static size_t most_alive(order *o, const int64_t *by)
{
    const bt_program *program = o->program;
    size_t alive = 0, most = 0;
    memcpy(o->left, o->reads, (size_t)program->buffer_count * sizeof *o->left);
    for (int64_t b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].home == BT_HOME_VAR && o->reads[b])
            alive += o->bytes[b];
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[by ? by[s] : s];
        change c = change_by(o, step);
        most = alive + c.during > most ? alive + c.during : most;
        alive = alive + c.made - c.freed;
        take(o, step);
    }
    return most;
}

/* ---- choosing ---- */

static bool adds_less(change a, change b) { return a.made + b.freed < b.made + a.freed; }

/* Each time the step that adds least to what is alive; of several, the earliest of the trace, or the one that has been
 * ready for longest. The latter keeps a derivative forward close to what it is the derivative of. */
static void choose(order *o, bool longest, int64_t *chosen)
{
    const bt_program *program = o->program;
    int64_t count = 0;
    memcpy(o->waits, o->awaits, (size_t)program->step_count * sizeof *o->waits);
    memset(o->since, 0, (size_t)program->step_count * sizeof *o->since);
    memcpy(o->left, o->reads, (size_t)program->buffer_count * sizeof *o->left);
    for (int64_t s = 0; s < program->step_count; s++)
        if (!o->waits[s])
            o->ready[count++] = s;
    for (int64_t done = 0; count > 0; done++) {
        int64_t best = 0;
        change least = change_by(o, &program->steps[o->ready[0]]);
        for (int64_t r = 1; r < count; r++) {
            change c = change_by(o, &program->steps[o->ready[r]]);
            int64_t one = o->ready[r], two = o->ready[best];
            bool first = longest && o->since[one] != o->since[two] ? o->since[one] < o->since[two] : one < two;
            if (adds_less(c, least) || (!adds_less(least, c) && first)) {
                best = r;
                least = c;
            }
        }
        int64_t s = chosen[done] = o->ready[best];
        o->ready[best] = o->ready[--count];
        take(o, &program->steps[s]);
        for (int64_t e = o->first[s]; e >= 0; e = o->edges[e].next)
            if (--o->waits[o->edges[e].to] == 0) {
                o->since[o->edges[e].to] = done + 1;
                o->ready[count++] = o->edges[e].to;
            }
    }
}

static bt_status rearrange(bt_program *program, const int64_t *chosen)
{
    bt_call_step *steps = bt_alloc_array((size_t)program->step_count, sizeof *steps);
    if (!steps)
        return BT_ERROR_MEMORY;
    memcpy(steps, program->steps, (size_t)program->step_count * sizeof *steps);
    for (int64_t s = 0; s < program->step_count; s++)
        program->steps[s] = steps[chosen[s]];
    bt_free(steps);
    return BT_OK;
}

static bt_status order_new(order *o, const bt_program *program)
{
    size_t buffers = (size_t)program->buffer_count, steps = (size_t)program->step_count;
    *o = (order){.program = program};
    o->bytes = bt_alloc_array(buffers, sizeof *o->bytes);
    o->reads = bt_alloc_array(3 * buffers + 7 * steps, sizeof *o->reads);
    if (!o->bytes || !o->reads)
        return BT_ERROR_MEMORY;
    o->left = o->reads + buffers;
    o->maker = o->left + buffers;
    o->awaits = o->maker + buffers;
    o->waits = o->awaits + steps;
    o->first = o->waits + steps;
    o->since = o->first + steps;
    o->chosen = o->since + steps;
    o->other = o->chosen + steps;
    o->ready = o->other + steps;
    for (size_t s = 0; s < steps; s++)
        o->first[s] = -1;
    return BT_OK;
}

bt_status bt_program_order(bt_program *program, const bt_look *looks)
{
    order o;
    bt_status status = order_new(&o, program);
    if (status == BT_OK) {
        weigh(&o, looks);
        status = connect(&o, looks);
    }
    if (status == BT_OK) {
        size_t traced = most_alive(&o, NULL), most, other;
        choose(&o, false, o.chosen);
        choose(&o, true, o.other);
        most = most_alive(&o, o.chosen);
        other = most_alive(&o, o.other);
        if (most < traced || other < traced)
            status = rearrange(program, other < most ? o.other : o.chosen);
    }
    bt_free(o.edges);
    bt_free(o.bytes);
    bt_free(o.reads);
    return status;
}
