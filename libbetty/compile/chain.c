/* compile/chain.c: finds chains. The links of a chain are already consecutive in the program, so nothing is computed
 * earlier or later than before. No input or output of the chain lives longer, and a value that only its links read
 * needs no memory. */
#include "compile/chain.h"

#include "compile/compile_inside.h"
#include "compile/work.h"

#include <string.h>

const bt_op bt_op_chain = {.name = "chain", .inputs = -1};

typedef struct chain { /* under construction */
    bt_compilation *c;
    bt_program *program;
    const bt_kernel_impl *kernel;
    int64_t *uses;       /* by buffer: how often it is read, assigns and results included */
    int64_t *link;       /* by buffer: the link that computes it; -1: none of this chain */
    bt_call_step *steps; /* the new list */
    bool *gone;          /* by step of the program: it has become a link of a chain */
    int64_t from, n;
    int count, inputs, outputs;
    bt_chain_link links[BT_CHAIN_LINKS];
    bt_operand in[BT_CHAIN_OPERANDS], out[BT_CHAIN_OPERANDS];
    bt_view in_view[BT_CHAIN_OPERANDS], out_view[BT_CHAIN_OPERANDS];
    int last[BT_CHAIN_OPERANDS];   /* by input: the last link that reads it */
    int writer[BT_CHAIN_OPERANDS]; /* by output */
} chain;

/* ---- what fits ---- */

static int64_t count_of(const bt_view *view) { return bt_array_count(bt_view_array(view)); }

/* Whether the kernel accepts the call as a chain of one link. */
static bool accepted(const chain *c, const bt_call *call)
{
    bt_chain_link link = {.op = call->op, .attr = call->attr, .inputs = (uint8_t)call->inputs};
    bt_chain_attr attr = {.joined = {.count = 1}, .n = count_of(&call->out[0]), .links = &link};
    bt_call alone = {.op = &bt_op_chain, .attr = &attr, .inputs = call->inputs, .outputs = 1, .threads = 1};
    link.dtype = call->out[0].dtype;
    for (int i = 0; i < call->inputs; i++)
        link.in[i] = (uint8_t)i;
    alone.in = call->in;
    alone.out = call->out;
    return c->kernel->accepts(&alone);
}

static bool fits(const chain *c, const bt_call_step *step)
{
    const bt_call *call = &step->call;
    const int elementwise = BT_OP_ELEMENTWISE;
    if (call->joined || call->outputs != 1 || call->inputs > BT_ROW_INPUTS || step->scratch >= 0 ||
        step->out[0].offset || (bt_op_flags(call->op) & (BT_OP_EFFECT | BT_OP_ELEMENTWISE)) != elementwise ||
        count_of(&call->out[0]) == 0)
        return false;
    for (int i = 0; i < call->inputs; i++)
        if (!bt_view_repeats(&call->in[i]) &&
            (!bt_view_dense(&call->in[i]) || count_of(&call->in[i]) != count_of(&call->out[0])))
            return false;
    return accepted(c, call);
}

/* Links pass values on element by element. A step that reads one element of a link's value for all of its own, or reads
 * from an offset, must wait for the whole value. */
static bool reads_along(const chain *c, const bt_call_step *step)
{
    for (int i = 0; i < step->call.inputs; i++)
        if (c->link[step->in[i].buffer] >= 0 &&
            (step->in[i].offset || (c->n > 1 && bt_view_repeats(&step->call.in[i])) ||
             step->call.in[i].dtype != c->links[c->link[step->in[i].buffer]].dtype))
            return false;
    return true;
}

/* --profile reports the level and derivative order of each step, so only steps that agree on these are joined. */
static bool alike(const bt_call_step *a, const bt_call_step *b)
{
    return a->again == b->again && a->node->tag.order == b->node->tag.order &&
           a->node->tag.update == b->node->tag.update && strcmp(a->call.tag.level, b->call.tag.level) == 0;
}

static bool goes_on(const chain *c, const bt_call_step *step)
{
    return c->count < BT_CHAIN_LINKS && c->inputs + step->call.inputs <= BT_CHAIN_OPERANDS &&
           alike(step, &c->program->steps[c->from]) && fits(c, step) && count_of(&step->call.out[0]) == c->n &&
           reads_along(c, step);
}

/* ---- links ---- */

static bool same_look(const bt_view *a, const bt_view *b)
{
    return a->dtype == b->dtype && bt_view_repeats(a) == bt_view_repeats(b);
}

static int input_of(chain *c, const bt_call_step *step, int i)
{
    int known = 0;
    while (known < c->inputs &&
           (c->in[known].buffer != step->in[i].buffer || c->in[known].offset != step->in[i].offset ||
            !same_look(&c->in_view[known], &step->call.in[i])))
        known++;
    if (known < c->inputs)
        return known;
    c->in[known] = step->in[i];
    c->in_view[known] = step->call.in[i];
    return c->inputs++;
}

static void add_link(chain *c, const bt_call_step *step)
{
    const bt_call *call = &step->call;
    const int own = c->count++;
    c->links[own] = (bt_chain_link){
        .op = call->op, .attr = call->attr, .dtype = call->out[0].dtype, .inputs = (uint8_t)call->inputs, .out = -1};
    for (int i = 0; i < call->inputs; i++) {
        const int64_t made = c->link[step->in[i].buffer];
        const int input = made >= 0 ? 0 : input_of(c, step, i);
        c->links[own].in[i] = (uint8_t)(made >= 0 ? BT_CHAIN_OPERANDS + made : input);
        if (made < 0)
            c->last[input] = own;
    }
    c->link[step->out[0].buffer] = own;
}

/* A value that is also read outside the chain is an output. */
static void find_outputs(chain *c)
{
    const bt_call_step *steps = &c->program->steps[c->from];
    for (int k = 0; k < c->count; k++) {
        const int64_t buffer = steps[k].out[0].buffer;
        int64_t own = 0;
        for (int l = k + 1; l < c->count; l++)
            for (int i = 0; i < steps[l].call.inputs; i++)
                own += steps[l].in[i].buffer == buffer;
        if (own == c->uses[buffer])
            continue;
        c->links[k].out = (int8_t)c->outputs;
        c->writer[c->outputs] = k;
        c->out[c->outputs] = steps[k].out[0];
        c->out_view[c->outputs++] = steps[k].call.out[0];
    }
}

static uint32_t over_which(const chain *c, int o)
{
    uint32_t mask = 0;
    for (int i = 0; i < c->inputs; i++)
        if (c->last[i] <= c->writer[o] && (c->n == 1 || !bt_view_repeats(&c->in_view[i])) &&
            bt_dtype_size(c->in_view[i].dtype) == bt_dtype_size(c->out_view[o].dtype))
            mask |= 1U << i;
    return mask;
}

static bt_status make_step(chain *c, bt_call_step *step)
{
    const bt_call_step first = c->program->steps[c->from];
    bt_region *region = c->program->region;
    const size_t inputs = (size_t)c->inputs, outputs = (size_t)c->outputs;
    bt_chain_attr *attr = bt_region_alloc(region, sizeof *attr);
    uint32_t *over = bt_region_alloc(region, outputs * sizeof *over);
    *step = (bt_call_step){.kernel = c->kernel, .node = first.node, .scratch = -1, .again = first.again};
    step->call = (bt_call){.op = &bt_op_chain, .attr = attr, .inputs = c->inputs, .outputs = c->outputs, .threads = 1};
    step->call.tag = first.call.tag;
    step->in = bt_region_copy(region, c->in, inputs * sizeof *c->in);
    step->out = bt_region_copy(region, c->out, outputs * sizeof *c->out);
    step->call.in = bt_region_copy(region, c->in_view, inputs * sizeof *c->in_view);
    step->call.out = bt_region_copy(region, c->out_view, outputs * sizeof *c->out_view);
    const bt_chain_link *links = bt_region_copy(region, c->links, (size_t)c->count * sizeof *c->links);
    if (!attr || !over || !step->in || !step->out || !step->call.in || !step->call.out || !links)
        return BT_ERROR_MEMORY;
    for (int o = 0; o < c->outputs; o++)
        over[o] = over_which(c, o);
    *attr = (bt_chain_attr){.joined = {.count = c->count, .over = over}, .n = c->n, .links = links};
    for (int k = 0; k < c->count; k++)
        attr->joined.flops += bt_call_flops(&c->program->steps[c->from + k].call);
    step->call.joined = &attr->joined;
    return BT_OK;
}

/* ---- the pass ---- */

/* Collects the links of the chain that begins at c->from. */
static void collect(chain *c)
{
    const bt_call_step *steps = c->program->steps;
    int64_t s = c->from;
    c->count = c->inputs = c->outputs = 0;
    c->n = count_of(&steps[s].call.out[0]);
    do
        add_link(c, &steps[s++]);
    while (s < c->program->step_count && goes_on(c, &steps[s]));
    for (int64_t k = c->from; k < s; k++)
        c->link[steps[k].out[0].buffer] = -1;
}

/* Returns the new number of steps; -1 after an error. */
static int64_t list_steps(chain *c)
{
    const bt_program *program = c->program;
    int64_t to = 0;
    for (c->from = 0; c->from < program->step_count; c->from += c->count) {
        c->count = 1;
        if (fits(c, &program->steps[c->from]))
            collect(c);
        if (c->count == 1) {
            c->steps[to++] = program->steps[c->from];
            continue;
        }
        find_outputs(c);
        if (make_step(c, &c->steps[to++]) != BT_OK)
            return -1;
        memset(c->gone + c->from, true, (size_t)c->count);
    }
    return to;
}

static bt_status replace(chain *c)
{
    bt_program *program = c->program;
    const int64_t count = list_steps(c);
    if (count < 0)
        return BT_ERROR_MEMORY;
    for (int64_t s = 0; s < program->step_count; s++)
        if (c->gone[s] && program->steps[s].kernel->release)
            program->steps[s].kernel->release(&program->steps[s].call);
    memcpy(program->steps, c->steps, (size_t)count * sizeof *c->steps);
    program->step_count = count;
    return BT_OK;
}

static void count_uses(chain *c)
{
    const bt_program *program = c->program;
    for (int64_t s = 0; s < program->step_count; s++)
        for (int i = 0; i < program->steps[s].call.inputs; i++)
            c->uses[program->steps[s].in[i].buffer]++;
    for (int64_t a = 0; a < program->graph->assign_count; a++)
        c->uses[c->c->looks[program->graph->assigns[a].value->id].at.buffer]++;
    for (int64_t i = 0; i < program->graph->output_count; i++)
        c->uses[c->c->looks[program->graph->outputs[i]->id].at.buffer]++;
}

bt_status bt_pass_chain(bt_compilation *compilation)
{
    bt_program *program = compilation->program;
    const bt_kernel_impl *const *kernel = compilation->options->kernels->list();
    while (*kernel && (*kernel)->op != &bt_op_chain)
        kernel++;
    if (!*kernel || program->step_count == 0)
        return BT_OK;
    const size_t count = (size_t)program->step_count;
    chain *c = bt_alloc(sizeof *c);
    int64_t *counts = bt_alloc_array(2 * (size_t)program->buffer_count, sizeof *counts);
    bt_call_step *steps = bt_alloc_array(count, sizeof *steps);
    bool *gone = bt_alloc_array(count, sizeof *gone);
    bt_status status = c && counts && steps && gone ? BT_OK : BT_ERROR_MEMORY;
    if (status == BT_OK) {
        *c = (chain){.c = compilation, .program = program, .kernel = *kernel, .uses = counts, .steps = steps};
        c->gone = gone;
        c->link = counts + program->buffer_count;
        memset(c->link, 0xFF, (size_t)program->buffer_count * sizeof *c->link);
        count_uses(c);
        status = replace(c);
    }
    bt_free(gone);
    bt_free(steps);
    bt_free(counts);
    bt_free(c);
    return status;
}
