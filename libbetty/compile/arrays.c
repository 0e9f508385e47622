/* compile/arrays.c: a program's steps as plan/order.h sees them. */
#include "compile/arrays.h"

#include "base/overlap.h"

#include <string.h>

typedef struct listing {
    const bt_compilation *c;
    const bt_program *program;
    bt_region *region;
    bt_order_step *steps;
    bt_order_value *values;
    int64_t *maker;     /* by buffer: the step that computes it; -1: none */
    int64_t *seen;      /* by buffer: 1 + the last step found to read it; later, readers listed so far */
    int64_t *first;     /* by buffer: the index of its first reader in `readers` */
    int64_t *readers;   /* steps */
    bt_overlaps leaves; /* windows of variables that are read; items are buffers */
    bt_order_wait *waits;
    int64_t wait_count, wait_capacity;
} listing;

static bt_status wait_for(listing *o, int64_t step, int64_t before)
{
    bt_order_wait *waits = bt_grow(o->waits, &o->wait_capacity, o->wait_count + 1, sizeof *waits);
    if (!waits)
        return BT_ERROR_MEMORY;
    o->waits = waits;
    waits[o->wait_count++] = (bt_order_wait){step, before};
    return BT_OK;
}

/* Lists what the step reads and computes, and which inputs its outputs may overwrite. */
static bt_status describe(listing *o, int64_t s)
{
    const bt_call_step *step = &o->program->steps[s];
    int inputs = step->call.inputs, outputs = step->call.outputs, most = inputs < 32 ? inputs : 32;
    const bool each = bt_op_flags(step->call.op) & BT_OP_EACH;
    int64_t *in = bt_region_alloc(o->region, (size_t)(inputs + outputs + 1) * sizeof *in), *out;
    bt_order_over *over = bt_region_alloc(o->region, (size_t)(most * outputs + 1) * sizeof *over);
    bt_order_step *to = &o->steps[s];
    if (!in || !over)
        return BT_ERROR_MEMORY;
    out = in + inputs;
    *to = (bt_order_step){.in = in, .out = out, .over = over, .outputs = outputs};
    to->scratch = step->scratch < 0 ? 0 : o->program->buffers[step->scratch].bytes;
    for (int i = 0; i < inputs; i++) {
        int64_t buffer = step->in[i].buffer;
        if (o->seen[buffer] != s + 1)
            in[to->inputs++] = buffer;
        o->seen[buffer] = s + 1;
    }
    for (int k = 0; k < outputs; k++) {
        out[k] = step->out[k].buffer;
        o->maker[out[k]] = s;
        for (int i = each ? k : 0; i < (each ? k + 1 : most); i++)
            if (bt_step_overwrites(o->program, step, k, i, o->program->buffers[out[k]].bytes))
                over[to->overs++] = (bt_order_over){k, step->in[i].buffer};
    }
    return BT_OK;
}

/* Lists the readers of each buffer. */
static bt_status list_readers(listing *o)
{
    const bt_program *program = o->program;
    int64_t total = 0;
    for (int64_t s = 0; s < program->step_count; s++)
        for (int64_t i = 0; i < o->steps[s].inputs; i++, total++)
            o->first[o->steps[s].in[i] + 1]++;
    for (int64_t b = 0; b < program->buffer_count; b++)
        o->first[b + 1] += o->first[b];
    o->readers = bt_region_alloc(o->region, (size_t)(total + 1) * sizeof *o->readers);
    if (!o->readers)
        return BT_ERROR_MEMORY;
    memset(o->seen, 0, (size_t)program->buffer_count * sizeof *o->seen);
    for (int64_t s = 0; s < program->step_count; s++)
        for (int64_t i = 0; i < o->steps[s].inputs; i++) {
            int64_t buffer = o->steps[s].in[i];
            o->readers[o->first[buffer] + o->seen[buffer]++] = s;
        }
    return BT_OK;
}

static bool counts(const bt_buffer *buffer)
{
    return buffer->home == BT_HOME_ARENA || (buffer->home == BT_HOME_VAR && buffer->var->lifetime == BT_PHASE);
}

/* A reduce_scatter of values laid out on one line leaves a rank with all of some values and none of others. Each counts
 * as an equal share, so that all ranks plan alike. */
static void weigh_scattered(listing *o, const bt_call *call, int64_t value)
{
    const bt_collective_attr *attr = call->attr;
    if (call->op == &bt_op_reduce_scatter && attr->of && counts(&o->program->buffers[value]))
        o->values[value].bytes = bt_align_up((size_t)(attr->size / attr->ranks) * bt_dtype_size(call->out[0].dtype));
}

/* Arena values and phase variables count. In a loop, variables that are read are kept to the end, for the next round.
 */
static bt_status weigh(listing *o)
{
    const bt_program *program = o->program;
    BT_TRY(bt_overlaps_new(&o->leaves, program->buffer_count));
    for (int64_t b = 0; b < program->buffer_count; b++) {
        const bt_buffer *buffer = &program->buffers[b];
        bool var = buffer->home == BT_HOME_VAR;
        o->values[b] = (bt_order_value){
            .bytes = counts(buffer) ? bt_align_up(buffer->bytes) : 0, .there = var, .kept = var && o->c->options->loop};
        if (var)
            o->leaves.stretches[o->leaves.count++] =
                (bt_stretch){(uintptr_t)buffer->var, buffer->start, buffer->start + buffer->bytes, b};
    }
    bt_overlaps_sort(&o->leaves);
    for (int64_t s = 0; s < program->step_count; s++)
        weigh_scattered(o, &program->steps[s].call, o->steps[s].out[0]);
    return BT_OK;
}

/* Whether step `made` may compute the value in place of the old one: it does not read it, or may overwrite it. */
static bool may_replace(const listing *o, int64_t made, int64_t value, int64_t old)
{
    if (made < 0)
        return false;
    const bt_order_step *step = &o->steps[made];
    bool reads = false;
    for (int64_t i = 0; i < step->inputs; i++)
        reads = reads || step->in[i] == old;
    for (int64_t i = 0; i < step->overs; i++)
        if (step->over[i].value == old && step->out[step->over[i].output] == value)
            return true;
    return !reads;
}

/* A value assigned to a variable that already holds memory (it lasts for the run, or its old value is read here) is
 * computed in place of the old value if possible. Readers of the old value therefore stay before it. */
static bt_status keep_in_place(listing *o, const bt_assign *assign)
{
    int64_t value = o->c->looks[assign->value->id].at.buffer, made = o->maker[value];
    size_t start = bt_var_start(assign->var), end = start + assign->var->bytes;
    bool run = assign->var->lifetime == BT_RUN, there = run, aside = false;
    o->values[value].kept = true;
    bt_overlaps_find(&o->leaves, (uintptr_t)bt_var_root(assign->var), start, end);
    for (int64_t i = 0; i < o->leaves.found_count; i++) {
        int64_t buffer = o->leaves.found[i];
        const bt_buffer *old = &o->program->buffers[buffer];
        there = there || (old->start <= start && end <= old->start + old->bytes);
        aside = aside || !may_replace(o, made, value, buffer);
        o->values[buffer].kept = true;
        for (int64_t r = o->first[buffer]; r < o->first[buffer + 1] && o->readers[r] < made; r++)
            BT_TRY(wait_for(o, made, o->readers[r]));
    }
    if (there && !aside) {
        o->values[value].place = run ? 0 : o->values[value].bytes;
        o->values[value].bytes = 0;
    }
    return BT_OK;
}

static bt_status connect(listing *o)
{
    const bt_program *program = o->program;
    int64_t effect = -1;
    for (int64_t s = 0; s < program->step_count; s++) {
        if (!(bt_op_flags(program->steps[s].call.op) & BT_OP_EFFECT))
            continue;
        if (effect >= 0) /* messages keep their order */
            BT_TRY(wait_for(o, s, effect));
        effect = s;
    }
    for (int64_t i = 0; i < program->graph->assign_count; i++)
        BT_TRY(keep_in_place(o, &program->graph->assigns[i]));
    for (int64_t i = 0; i < program->graph->output_count; i++)
        o->values[o->c->looks[program->graph->outputs[i]->id].at.buffer].kept = true;
    return BT_OK;
}

static bt_status list(listing *o, const bt_compilation *c, bt_region *region)
{
    size_t buffers = (size_t)c->program->buffer_count, steps = (size_t)c->program->step_count;
    *o = (listing){.c = c, .program = c->program, .region = region};
    o->steps = bt_region_alloc(o->region, (steps + 1) * sizeof *o->steps);
    o->values = bt_region_alloc(o->region, (buffers + 1) * sizeof *o->values);
    o->maker = bt_region_alloc(o->region, (3 * buffers + 1) * sizeof *o->maker);
    if (!o->steps || !o->values || !o->maker)
        return BT_ERROR_MEMORY;
    o->seen = o->maker + buffers;
    o->first = o->seen + buffers;
    for (size_t b = 0; b < buffers; b++)
        o->maker[b] = -1;
    for (int64_t s = 0; s < o->program->step_count; s++)
        BT_TRY(describe(o, s));
    BT_TRY(weigh(o));
    BT_TRY(list_readers(o));
    return connect(o);
}

bt_status bt_arrays_new(bt_arrays *arrays, const bt_compilation *c)
{
    listing o;
    *arrays = (bt_arrays){.region = bt_region_new()};
    if (!arrays->region)
        return BT_ERROR_MEMORY;
    bt_status status = list(&o, c, arrays->region);
    arrays->waits = o.waits;
    arrays->order = (bt_order){.steps = o.steps,
                               .values = o.values,
                               .waits = o.waits,
                               .step_count = c->program->step_count,
                               .value_count = c->program->buffer_count,
                               .wait_count = o.wait_count};
    bt_overlaps_free(&o.leaves);
    return status;
}

void bt_arrays_free(bt_arrays *arrays)
{
    bt_free(arrays->waits);
    bt_region_free(arrays->region);
}
