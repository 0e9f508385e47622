/* compile/rows.c: joins many steps of arithmetic on a few numbers into one call. A value that only these steps read
 * needs no buffer: it lies on the stack during the call. An optimiser's arithmetic on many numbers is joined the same
 * way, and run strip by strip.
 *
 * A step joins the latest batch if everything that it waits for is done before that batch or within it. It must also
 * stay behind the readers of the old value of a variable that it computes. */
#include "compile/rows.h"

#include "base/overlap.h"
#include "base/team.h"
#include "compile/compile_inside.h"
#include "compile/joined.h"
#include "compile/work.h"

#include <string.h>

enum {
    PARTS = 64,
    INPUTS = PARTS * BT_ROW_INPUTS,
    ROOM = 32768,
    STRIP = 256,      /* numbers */
    DIVIDED = 1 << 17 /* operations; from here on several threads are worth it */
};                    /* limits of one call; ROOM: bytes, less than an L1 cache */
enum { ORDERS = 8 };  /* derivative orders that are gathered; steps of higher ones stay as they are */

typedef struct place { /* bases: the room, then the outputs, then the inputs */
    uint16_t base, offset;
} place;

typedef struct part { /* one of the joined steps */
    bt_row_fn *row;
    int64_t n;
    place in[BT_ROW_INPUTS], out;
    uint8_t along[BT_ROW_INPUTS + 1]; /* strips: bytes from one number to the next, for each input and the output */
} part;

typedef struct rows {
    part *parts;
    bt_joined joined;
} rows;

/* ---- the kernel ---- */

static bt_status launch(const bt_call *call)
{
    _Alignas(BT_ALIGN) char room[ROOM];
    char *base[INPUTS + PARTS + 1];
    const rows *r = call->state;
    char **next = base;
    *next++ = room;
    for (int o = 0; o < call->outputs; o++)
        *next++ = call->out[o].data;
    for (int i = 0; i < call->inputs; i++)
        *next++ = call->in[i].data;
    const part *end = r->parts + r->joined.count;
    for (const part *p = r->parts; p < end; p++) {
        const void *in[BT_ROW_INPUTS];
        for (int i = 0; i < BT_ROW_INPUTS; i++)
            in[i] = base[p->in[i].base] + p->in[i].offset;
        p->row(p->n, base[p->out.base] + p->out.offset, in);
    }
    return BT_OK;
}

/* Runs all parts on the numbers from .. from + n - 1; bases as in launch. */
static void run_strip(const rows *r, char *const *base, int64_t from, int64_t n)
{
    const part *end = r->parts + r->joined.count;
    for (const part *p = r->parts; p < end; p++) {
        const void *in[BT_ROW_INPUTS];
        for (int i = 0; i < BT_ROW_INPUTS; i++)
            in[i] = base[p->in[i].base] + (p->in[i].base ? from * p->along[i] : p->in[i].offset);
        p->row(n, base[p->out.base] + (p->out.base ? from * p->along[BT_ROW_INPUTS] : p->out.offset), in);
    }
}

static void share_strips(const void *work, int t, int threads)
{
    _Alignas(BT_ALIGN) char room[ROOM];
    char *base[INPUTS + PARTS + 1];
    const bt_call *call = work;
    const rows *r = call->state;
    char **next = base;
    *next++ = room;
    for (int o = 0; o < call->outputs; o++)
        *next++ = call->out[o].data;
    for (int i = 0; i < call->inputs; i++)
        *next++ = call->in[i].data;
    int64_t n = r->parts->n, strips = (n + STRIP - 1) / STRIP;
    for (int64_t s = strips * t / threads; s < strips * (t + 1) / threads; s++)
        run_strip(r, base, s * STRIP, n - s * STRIP < STRIP ? n - s * STRIP : STRIP);
}

static bt_status launch_strips(const bt_call *call)
{
    if (call->threads > 1)
        bt_team_do(share_strips, call, call->threads);
    else
        share_strips(call, 0, 1);
    return BT_OK;
}

static const bt_op rows_op = {.name = "rows", .inputs = -1}, strips_op = {.name = "strips", .inputs = -1};
static const bt_kernel_impl rows_kernel = {.op = &rows_op, .name = "rows", .launch = launch},
                            strips_kernel = {.op = &strips_op, .name = "strips", .launch = launch_strips};

/* ---- which steps belong together ---- */

typedef struct pass {
    bt_compilation *c;
    bt_program *program;
    bool strips;        /* long steps are joined instead of short ones */
    int64_t *batch;     /* by step: the first step of its batch, in whose place the batch runs; itself if alone */
    int64_t *size;      /* by first step: the size of the batch */
    int64_t *room;      /* by first step: bytes of all its values */
    int64_t *next;      /* by step: the next one of its batch; -1: none */
    int64_t *last;      /* by first step: the last one of the batch */
    int64_t *made;      /* by buffer: the place where it is computed; -1: there from the start */
    int64_t *seen;      /* by buffer: the place of its last reader; -1: none */
    int64_t *users;     /* by buffer: how many reads come from outside its batch, assigns and results included */
    int64_t *assigns;   /* by buffer: the first assign of it; -1: none */
    int64_t *others;    /* by assign: the next assign of the same buffer */
    place *where;       /* by buffer of the batch in hand */
    bt_overlaps leaves; /* windows of variables that are read; items are buffers */
} pass;

static bool is_short(const bt_call_step *step)
{
    return step->call.row && step->call.n <= BT_ROWS_FEW && step->call.outputs == 1 && step->scratch < 0 &&
           !(bt_op_flags(step->call.op) & BT_OP_EFFECT);
}

/* Whether the input has one number for each number of the output, or one for all. */
static bool goes_along(const bt_call_step *step, int i)
{
    const bt_view *view = &step->call.in[i];
    return bt_view_repeats(view) || (step->in[i].offset == 0 && bt_view_dense(view));
}

static bool is_long(const bt_call_step *step)
{
    const bt_call *call = &step->call;
    bool fits = call->row && call->n > BT_ROWS_FEW && call->outputs == 1 && step->scratch < 0 &&
                step->node->tag.update && step->node->tag.order == 0 && (bt_op_flags(call->op) & BT_OP_ELEMENTWISE) &&
                !(bt_op_flags(call->op) & BT_OP_EFFECT) && bt_array_count(bt_view_array(&call->out[0])) == call->n;
    for (int i = 0; fits && i < call->inputs; i++)
        fits = goes_along(step, i);
    return fits;
}

static bool belongs(const pass *p, const bt_call_step *step) { return p->strips ? is_long(step) : is_short(step); }

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* The place of the last step that this one must wait for. */
static int64_t ready(pass *p, int64_t s)
{
    const bt_call_step *step = &p->program->steps[s];
    int64_t at = -1;
    for (int i = 0; i < step->call.inputs; i++)
        at = later(at, p->made[step->in[i].buffer]);
    for (int64_t a = p->assigns[step->out[0].buffer]; a >= 0; a = p->others[a]) {
        bt_var *var = p->program->graph->assigns[a].var;
        size_t start = bt_var_start(var);
        bt_overlaps_find(&p->leaves, (uintptr_t)bt_var_root(var), start, start + var->bytes);
        for (int64_t i = 0; i < p->leaves.found_count; i++)
            at = later(at, p->seen[p->leaves.found[i]]);
    }
    return at;
}

static int64_t room_of(const pass *p, int64_t s)
{
    const bt_call_step *step = &p->program->steps[s];
    return p->strips ? STRIP * (int64_t)bt_dtype_size(step->call.out[0].dtype)
                     : (int64_t)bt_align_up(p->program->buffers[step->out[0].buffer].bytes);
}

static bool has_place(const pass *p, int64_t batch, int64_t s)
{
    const bt_call_step *steps = p->program->steps;
    return batch >= 0 && p->size[batch] < PARTS && p->room[batch] + room_of(p, s) <= ROOM &&
           (!p->strips || steps[batch].call.n == steps[s].call.n);
}

/* Whether the batch makes, strip by strip, a value of which the step needs one number for all of its own. */
static bool waits_for_one(const pass *p, int64_t batch, int64_t s)
{
    const bt_call_step *step = &p->program->steps[s];
    for (int i = 0; p->strips && i < step->call.inputs; i++)
        if (p->made[step->in[i].buffer] == batch && bt_view_repeats(&step->call.in[i]))
            return true;
    return false;
}

static void stand(pass *p, int64_t s, int64_t at)
{
    const bt_call_step *step = &p->program->steps[s];
    p->next[s] = -1;
    p->batch[s] = at;
    if (s != at)
        p->next[p->last[at]] = s;
    p->last[at] = s;
    p->size[at]++;
    p->room[at] += room_of(p, s);
    for (int i = 0; i < step->call.inputs; i++) {
        int64_t buffer = step->in[i].buffer;
        p->seen[buffer] = later(p->seen[buffer], at);
        p->users[buffer] += p->made[buffer] != at;
    }
    for (int o = 0; o < step->call.outputs; o++)
        p->made[step->out[o].buffer] = at;
}

/* Steps join the latest batch of the same derivative order if possible. Mixing orders would hide which forward values
 * derivatives read. */
static void gather(pass *p)
{
    const bt_call_step *steps = p->program->steps;
    int64_t open[ORDERS];
    for (int order = 0; order < ORDERS; order++)
        open[order] = -1;
    for (int64_t s = 0; s < p->program->step_count; s++) {
        /* Long rows of different lengths are gathered separately. */
        int order = p->strips ? (int)(steps[s].call.n % ORDERS) : steps[s].node->tag.order;
        if (!belongs(p, &steps[s]) || order >= ORDERS) {
            stand(p, s, s);
            continue;
        }
        if (!has_place(p, open[order], s) || ready(p, s) > open[order] || waits_for_one(p, open[order], s))
            open[order] = s;
        stand(p, s, open[order]);
    }
}

/* ---- one call of them ---- */

typedef struct draft { /* of one call */
    const pass *p;
    int64_t at; /* its first step */
    int inputs, outputs;
    bt_operand in[INPUTS], out[PARTS];
    bt_view in_view[INPUTS], out_view[PARTS];
    int64_t reader[INPUTS]; /* the last part that reads it */
    bool over[INPUTS];      /* whether that part may overwrite it */
    bool shared[INPUTS];    /* a single number that a whole part reads: must not be overwritten */
    int64_t writer[PARTS];
    part parts[PARTS];
} draft;

/* Places the values of the batch. Those read outside it are outputs. */
static void lay_out(draft *d)
{
    const pass *p = d->p;
    size_t room = 0;
    int64_t k = 0;
    for (int64_t s = d->at; s >= 0; s = p->next[s], k++) {
        const bt_call_step *step = &p->program->steps[s];
        int64_t buffer = step->out[0].buffer;
        if (p->users[buffer]) {
            d->out[d->outputs] = step->out[0];
            d->out_view[d->outputs] = step->call.out[0];
            d->writer[d->outputs++] = k;
            p->where[buffer] = (place){(uint16_t)d->outputs, 0};
        } else {
            p->where[buffer] = (place){0, (uint16_t)room};
            room += (size_t)room_of(p, s);
        }
    }
}

/* The index, among the call's inputs, of the step's input i. */
static int input_of(draft *d, const bt_call_step *step, int i)
{
    int known = 0;
    while (known < d->inputs &&
           (d->in[known].buffer != step->in[i].buffer || d->in[known].offset != step->in[i].offset))
        known++;
    if (known < d->inputs)
        return known;
    d->in[known] = step->in[i];
    d->in_view[known] = step->call.in[i];
    d->reader[known] = -1;
    d->shared[known] = false;
    return d->inputs++;
}

static void add_part(draft *d, int64_t k, const bt_call_step *step)
{
    const pass *p = d->p;
    part *to = &d->parts[k];
    size_t bytes = p->program->buffers[step->out[0].buffer].bytes;
    *to = (part){.row = step->call.row, .n = step->call.n, .out = p->where[step->out[0].buffer]};
    to->along[BT_ROW_INPUTS] = (uint8_t)bt_dtype_size(step->call.out[0].dtype);
    for (int i = 0; i < step->call.inputs; i++) {
        bt_operand from = step->in[i];
        to->along[i] = (uint8_t)(bt_view_repeats(&step->call.in[i]) ? 0 : bt_dtype_size(step->call.in[i].dtype));
        if (p->made[from.buffer] == d->at) {
            place within = p->where[from.buffer];
            to->in[i] = (place){within.base, (uint16_t)(within.offset + from.offset)};
            continue;
        }
        int input = input_of(d, step, i);
        bool over = bt_step_overwrites(p->program, step, 0, i, bytes);
        d->over[input] = over && (d->reader[input] < k || d->over[input]);
        d->shared[input] |= p->strips && to->along[i] == 0 && to->n > 1;
        d->reader[input] = k;
        to->in[i] = (place){(uint16_t)(1 + d->outputs + input), 0};
    }
}

static uint32_t over_which(const draft *d, int o)
{
    uint32_t mask = 0;
    for (int i = 0; i < d->inputs && i < 32; i++)
        if (!d->shared[i] && (d->reader[i] < d->writer[o] || (d->reader[i] == d->writer[o] && d->over[i])))
            mask |= 1u << i;
    return mask;
}

static bt_status step_of(const draft *d, int64_t count, double flops, bt_call_step *step)
{
    const bt_call_step *first = &d->p->program->steps[d->at];
    bt_region *region = d->p->program->region;
    size_t inputs = (size_t)d->inputs, outputs = (size_t)d->outputs;
    rows *r = bt_region_alloc(region, sizeof *r);
    const bt_kernel_impl *kernel = d->p->strips ? &strips_kernel : &rows_kernel;
    bool divided = d->p->strips && (double)first->call.n * (double)count >= DIVIDED;
    *step = (bt_call_step){.kernel = kernel, .node = first->node, .scratch = -1};
    step->call = (bt_call){.op = kernel->op,
                           .inputs = d->inputs,
                           .outputs = d->outputs,
                           .threads = divided ? d->p->c->options->threads : 1,
                           .state = r,
                           .tag = first->call.tag};
    step->in = bt_region_copy(region, d->in, inputs * sizeof *d->in);
    step->out = bt_region_copy(region, d->out, outputs * sizeof *d->out);
    step->call.in = bt_region_copy(region, d->in_view, inputs * sizeof *d->in_view);
    step->call.out = bt_region_copy(region, d->out_view, outputs * sizeof *d->out_view);
    part *parts = bt_region_copy(region, d->parts, (size_t)count * sizeof *d->parts);
    uint32_t *over = bt_region_alloc(region, outputs * sizeof *over);
    if (!r || !step->in || !step->out || !step->call.in || !step->call.out || !parts || !over)
        return BT_ERROR_MEMORY;
    *r = (rows){parts, {count, flops, over}};
    step->call.joined = &r->joined;
    for (int o = 0; o < d->outputs; o++)
        over[o] = over_which(d, o);
    return BT_OK;
}

static bt_status join(const pass *p, draft *d, int64_t at, bt_call_step *step)
{
    double flops = 0;
    int64_t k = 0;
    d->p = p;
    d->at = at;
    d->inputs = d->outputs = 0;
    lay_out(d);
    for (int64_t s = at; s >= 0; s = p->next[s]) {
        add_part(d, k++, &p->program->steps[s]);
        flops += bt_call_flops(&p->program->steps[s].call);
    }
    return step_of(d, k, flops, step);
}

/* Replaces the steps by the joined ones and releases the state of those that became parts. */
static bt_status replace(pass *p)
{
    bt_program *program = p->program;
    int64_t count = 0;
    draft *d = bt_alloc(sizeof *d);
    bt_call_step *steps = bt_alloc_array((size_t)program->step_count, sizeof *steps);
    bt_status status = d && steps ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t s = 0; status == BT_OK && s < program->step_count; s++)
        if (p->size[s] > 1)
            status = join(p, d, s, &steps[count++]);
        else if (p->batch[s] == s)
            steps[count++] = program->steps[s];
    for (int64_t s = 0; status == BT_OK && s < program->step_count; s++)
        if (p->size[p->batch[s]] > 1 && program->steps[s].kernel->release)
            program->steps[s].kernel->release(&program->steps[s].call);
    if (status == BT_OK && count) {
        memcpy(program->steps, steps, (size_t)count * sizeof *steps);
        program->step_count = count;
    }
    bt_free(d);
    bt_free(steps);
    return status;
}

/* ---- the pass ---- */

/* Notes which buffers are assigned or are results, and which variables are read. */
static bt_status note(pass *p)
{
    const bt_program *program = p->program;
    const bt_graph *graph = program->graph;
    BT_TRY(bt_overlaps_new(&p->leaves, program->buffer_count));
    for (int64_t b = 0; b < program->buffer_count; b++) {
        const bt_buffer *buffer = &program->buffers[b];
        p->made[b] = p->seen[b] = p->assigns[b] = -1;
        if (buffer->home == BT_HOME_VAR)
            p->leaves.stretches[p->leaves.count++] =
                (bt_stretch){(uintptr_t)buffer->var, buffer->start, buffer->start + buffer->bytes, b};
    }
    bt_overlaps_sort(&p->leaves);
    for (int64_t a = 0; a < graph->assign_count; a++) {
        int64_t buffer = p->c->looks[graph->assigns[a].value->id].at.buffer;
        p->others[a] = p->assigns[buffer];
        p->assigns[buffer] = a;
        p->users[buffer]++;
    }
    for (int64_t i = 0; i < graph->output_count; i++)
        p->users[p->c->looks[graph->outputs[i]->id].at.buffer]++;
    return BT_OK;
}

static bt_status run(bt_compilation *c, bool strips)
{
    bt_program *program = c->program;
    size_t steps = (size_t)program->step_count, buffers = (size_t)program->buffer_count;
    pass p = {.c = c, .program = program, .strips = strips};
    p.batch = bt_alloc_array(5 * steps + 4 * buffers + (size_t)program->graph->assign_count, sizeof *p.batch);
    p.where = bt_alloc_array(buffers, sizeof *p.where);
    bt_status status = p.batch && p.where ? BT_OK : BT_ERROR_MEMORY;
    if (status == BT_OK) {
        p.size = p.batch + steps;
        p.room = p.size + steps;
        p.next = p.room + steps;
        p.last = p.next + steps;
        p.made = p.last + steps;
        p.seen = p.made + buffers;
        p.users = p.seen + buffers;
        p.assigns = p.users + buffers;
        p.others = p.assigns + buffers;
        status = note(&p);
    }
    if (status == BT_OK) {
        gather(&p);
        status = replace(&p);
    }
    bt_overlaps_free(&p.leaves);
    bt_free(p.batch);
    bt_free(p.where);
    return status;
}

bt_status bt_pass_rows(bt_compilation *c) { return run(c, false); }

bt_status bt_pass_strips(bt_compilation *c) { return run(c, true); }
