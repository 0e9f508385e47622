/* compile/spaces.c: copies values out to host memory and back. Kernels work on device memory only. A value in host
 * memory is copied back before it is read; a value assigned there is computed on the device and copied out. A forward
 * value of a level that offloads goes out once it has been computed. It is away between two of its readers if there is
 * time and if this lowers the bytes on the device: plan/away.h.
 *
 * A copy is under way while other steps run. A copy out lasts until `ahead` steps after the value was computed, or
 * until the next copy out. A copy back begins `ahead` steps before its first reader. Copies run one after the other. */
#include "compile/spaces.h"

#include "base/overlap.h"
#include "compile/compile_inside.h"
#include "plan/away.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 1000 }; /* a value smaller than this fraction (1/SMALL) of the peak stays */

/* ---- the kernels ---- */

static bt_status launch(const bt_call *call)
{
    if (call->out[0].dims[0])
        memcpy(call->out[0].data, call->in[0].data, (size_t)call->out[0].dims[0]);
    return BT_OK;
}

static const bt_op ops[BT_SPACES] = {
    [BT_SPACE_DEVICE] = {.name = "copy_back", .inputs = 1}, [BT_SPACE_HOST] = {.name = "copy_out", .inputs = 1}};
static const bt_kernel_impl kernels[BT_SPACES] = {
    [BT_SPACE_DEVICE] = {.op = &ops[BT_SPACE_DEVICE], .name = "copy_back", .launch = launch},
    [BT_SPACE_HOST] = {.op = &ops[BT_SPACE_HOST], .name = "copy_out", .launch = launch}};

bool bt_is_move(const bt_call *call) { return call->op == &ops[BT_SPACE_DEVICE] || call->op == &ops[BT_SPACE_HOST]; }

bt_space bt_move_to(const bt_call *call) { return call->op == &ops[BT_SPACE_HOST] ? BT_SPACE_HOST : BT_SPACE_DEVICE; }

/* ---- which values are away, and when ---- */

typedef struct move { /* a copy to insert just before a step of the program */
    int64_t before, number;
    bt_call_step step;
} move;

typedef struct pass {
    bt_compilation *c;
    bt_program *program;
    bt_region *region;
    int64_t count, ahead; /* count: steps before the pass */
    int64_t buffers;      /* buffers before the pass */
    int64_t *made;        /* by buffer: the step after which it is there; -1: from the beginning, or never */
    bool *kept;           /* by buffer: an assign or a result reads it at the end */
    int64_t *first;       /* by buffer: the index of its first reader in `readers` */
    int64_t *readers;     /* steps, ascending; `count`: at the end */
    bool *away;           /* by reader: the value is away before it */
    bt_overlaps fetched;  /* windows of variables that are copied back; items: before which step */
    int64_t *stowed;      /* by assign: the step before which its value goes out */
    move *moves;
    int64_t move_count, move_capacity;
} pass;

static bool is_stowed(const bt_assign *assign) { return bt_var_space(assign->var) == BT_SPACE_HOST; }

/* Adds a step that copies the buffer `from` to the buffer `into`. */
static bt_status add_move(pass *p, bt_space to, int64_t before, const bt_node *node, int64_t from, int64_t into)
{
    bt_program *program = p->program;
    move *moves = bt_grow(p->moves, &p->move_capacity, p->move_count + 1, sizeof *moves);
    if (!moves)
        return BT_ERROR_MEMORY;
    p->moves = moves;
    const int64_t bytes = (int64_t)program->buffers[into].bytes;
    const bt_view view = bt_view_of((bt_array){.dtype = BT_U8, .rank = 1, .dims = {bytes}});
    bt_call_step step = {.kernel = &kernels[to], .scratch = -1, .node = node};
    step.call = (bt_call){.op = &ops[to], .inputs = 1, .outputs = 1, .threads = 1, .tag = node->tag};
    step.call.in = bt_region_copy(program->region, &view, sizeof view);
    step.call.out = bt_region_copy(program->region, &view, sizeof view);
    step.in = bt_region_copy(program->region, &(bt_operand){from, 0}, sizeof *step.in);
    step.out = bt_region_copy(program->region, &(bt_operand){into, 0}, sizeof *step.out);
    if (!step.call.in || !step.call.out || !step.in || !step.out)
        return BT_ERROR_MEMORY;
    moves[p->move_count] = (move){before, p->move_count, step};
    p->move_count++;
    program->moves++;
    program->moved[to] += (size_t)bytes;
    return BT_OK;
}

/* Makes the buffer's readers k .. end - 1 read the buffer `to`. */
static void redirect(const pass *p, int64_t buffer, int64_t k, int64_t end, int64_t to)
{
    for (; k < end; k++) {
        const int64_t s = p->readers[k];
        for (int i = 0; s < p->count && i < p->program->steps[s].call.inputs; i++)
            if (p->program->steps[s].in[i].buffer == buffer)
                p->program->steps[s].in[i].buffer = to;
        for (int64_t i = 0; s == p->count && i < p->program->graph->assign_count; i++) {
            bt_look *look = &p->c->looks[p->program->graph->assigns[i].value->id];
            look->at.buffer = look->at.buffer == buffer ? to : look->at.buffer;
        }
        for (int64_t i = 0; s == p->count && i < p->program->graph->output_count; i++) {
            bt_look *look = &p->c->looks[p->program->graph->outputs[i]->id];
            look->at.buffer = look->at.buffer == buffer ? to : look->at.buffer;
        }
    }
}

/* Makes the buffer's readers k .. end - 1 read a new copy of the buffer `host`, which lies in host memory. */
static bt_status bring_back(pass *p, int64_t buffer, int64_t host, int64_t k, int64_t end)
{
    const bt_buffer *from = &p->program->buffers[buffer];
    const int64_t need = p->readers[k], before = need > p->ahead ? need - p->ahead : 0;
    bt_buffer like = {.home = BT_HOME_ARENA, .bytes = from->bytes, .category = BT_ACTIVATIONS, .node = from->node};
    if (from->home == BT_HOME_VAR) {
        like.category = from->var->category;
        p->fetched.stretches[p->fetched.count++] =
            (bt_stretch){(uintptr_t)from->var, from->start, from->start + from->bytes, before};
    }
    const int64_t back = bt_program_buffer(p->program, &like);
    if (back < 0)
        return BT_ERROR_MEMORY;
    redirect(p, buffer, k, end, back);
    return add_move(p, BT_SPACE_DEVICE, before, like.node, host, back);
}

/* The first step at which the value can be away before its reader k. A value that goes out is gone `ahead` steps after
 * it was made. */
static int64_t gone_from(const pass *p, int64_t buffer, int64_t k)
{
    const int64_t since = k > p->first[buffer] ? p->readers[k - 1] + 1 : 0;
    const int64_t out = p->made[buffer] < 0 ? 0 : p->made[buffer] + 1 + p->ahead;
    return since > out ? since : out;
}

static bool can_be_away(const pass *p, int64_t buffer, int64_t k)
{
    return p->readers[k] - p->ahead > gone_from(p, buffer, k);
}

/* After each absence the value comes back for the reader that ends it and for those that follow. */
static bt_status come_back(pass *p, int64_t buffer, int64_t host)
{
    const int64_t first = p->first[buffer], end = p->first[buffer + 1];
    for (int64_t k = first, next; k < end; k = next) {
        for (next = k + 1; next < end && !p->away[next];)
            next++;
        const bool there = k == first && p->made[buffer] >= 0 && !p->away[k];
        if (!there)
            BT_TRY(bring_back(p, buffer, host, k, next));
    }
    return BT_OK;
}

static bool offloads(const pass *p, const bt_node *node)
{
    for (int l = 0; l < p->c->options->level_count; l++)
        if (p->c->options->levels[l].offloads && strcmp(p->c->options->levels[l].level, node->tag.level) == 0)
            return true;
    return false;
}

/* A forward value that derivatives read, of a level that offloads. */
static bool may_go(const pass *p, int64_t b)
{
    const bt_buffer *buffer = &p->program->buffers[b];
    if (buffer->home != BT_HOME_ARENA || p->made[b] < 0 || p->kept[b] || buffer->node->tag.order > 0 ||
        buffer->bytes < p->program->most / SMALL || !buffer->bytes || !offloads(p, buffer->node))
        return false;
    for (int64_t k = p->first[b]; k < p->first[b + 1]; k++)
        if (p->program->steps[p->readers[k]].node->tag.order > 0)
            return true;
    return false;
}

/* The arena's bytes at each step, as if nothing were overwritten. */
static void weigh(const pass *p, size_t *there)
{
    const bt_program *program = p->program;
    for (int64_t b = 0; b < p->buffers; b++) {
        const int64_t first = p->first[b], end = p->first[b + 1];
        const int64_t last = end > first ? p->readers[end - 1] : p->made[b];
        const bool counts = program->buffers[b].home == BT_HOME_ARENA && p->made[b] >= 0;
        for (int64_t s = p->made[b]; counts && s <= last && s < p->count; s++)
            there[s] += bt_align_up(program->buffers[b].bytes);
    }
    for (int64_t s = 0; s < p->count; s++)
        if (program->steps[s].scratch >= 0)
            there[s] += bt_align_up(program->buffers[program->steps[s].scratch].bytes);
}

typedef struct absences {
    bt_absence *list;
    int64_t *reader; /* of each: the reader that ends it */
    int64_t count;
} absences;

/* A value in host memory is away whenever it can be; forward values may be. */
static void list_absences(const pass *p, absences *all)
{
    for (int64_t b = 0; b < p->buffers; b++) {
        const bool host = p->program->buffers[b].space == BT_SPACE_HOST, goes = !host && may_go(p, b);
        for (int64_t k = p->first[b]; (host || goes) && k < p->first[b + 1]; k++) {
            p->away[k] = host && can_be_away(p, b, k);
            if (!goes || !can_be_away(p, b, k))
                continue;
            all->list[all->count] = (bt_absence){.bytes = bt_align_up(p->program->buffers[b].bytes),
                                                 .from = gone_from(p, b, k),
                                                 .to = p->readers[k] - p->ahead - 1};
            all->reader[all->count++] = k;
        }
    }
}

static bt_status choose(pass *p)
{
    const size_t readers = (size_t)p->first[p->buffers];
    absences all = {.count = 0};
    all.list = bt_region_alloc(p->region, (readers + 1) * sizeof *all.list);
    all.reader = bt_region_alloc(p->region, (readers + 1) * sizeof *all.reader);
    size_t *there = bt_region_alloc(p->region, (size_t)(p->count + 1) * sizeof *there);
    p->away = bt_region_alloc(p->region, readers + 1);
    if (!all.list || !all.reader || !there || !p->away)
        return BT_ERROR_MEMORY;
    list_absences(p, &all);
    if (!all.count)
        return BT_OK;
    weigh(p, there);
    BT_TRY(bt_away_choose(all.list, all.count, there, p->count));
    for (int64_t i = 0; i < all.count; i++)
        p->away[all.reader[i]] = all.list[i].chosen;
    return BT_OK;
}

static bool goes_out(const pass *p, int64_t b)
{
    bool away = false;
    for (int64_t k = p->first[b]; k < p->first[b + 1]; k++)
        away = away || p->away[k];
    return away;
}

static bt_status visit(pass *p, int64_t b)
{
    if (p->program->buffers[b].space == BT_SPACE_HOST)
        return come_back(p, b, b);
    if (!goes_out(p, b))
        return BT_OK;
    bt_buffer like = p->program->buffers[b];
    like.space = BT_SPACE_HOST;
    const int64_t host = bt_program_buffer(p->program, &like);
    if (host < 0)
        return BT_ERROR_MEMORY;
    BT_TRY(add_move(p, BT_SPACE_HOST, p->made[b] + 1, like.node, b, host));
    return come_back(p, b, host);
}

/* ---- assigns to variables in host memory ---- */

/* Copies a value that is not a dense buffer of its own into one. */
static bt_status make_dense(pass *p, const bt_assign *assign)
{
    bt_look *look = &p->c->looks[assign->value->id];
    const bt_buffer *buffer = &p->program->buffers[look->at.buffer];
    if (buffer->home == BT_HOME_ARENA && look->at.offset == 0 && buffer->bytes == assign->var->bytes &&
        bt_view_dense(&look->view))
        return BT_OK;
    bt_buffer like = {
        .home = BT_HOME_ARENA, .bytes = assign->var->bytes, .category = BT_WORKSPACE, .node = assign->value->node};
    bt_operand to = {.buffer = bt_program_buffer(p->program, &like)};
    if (to.buffer < 0)
        return BT_ERROR_MEMORY;
    const bt_array shape = bt_tensor_array(assign->value);
    BT_TRY(bt_compile_copy(p->c, assign->value->node, *look, to, shape));
    *look = (bt_look){.at = to, .view = bt_view_of(shape)};
    return BT_OK;
}

/* Copies the assigned value out, once it has been computed. A program reads every variable as it was at entry, so the
 * copy also follows the copies back of that variable, and earlier assigns to the same bytes. */
static bt_status stow(pass *p, int64_t i)
{
    const bt_assign *assign = &p->program->graph->assigns[i];
    bt_var *root = bt_var_root(assign->var);
    const size_t start = bt_var_start(assign->var), end = start + assign->var->bytes;
    const int64_t value = p->c->looks[assign->value->id].at.buffer;
    bt_buffer like = {
        .home = BT_HOME_VAR, .space = BT_SPACE_HOST, .bytes = assign->var->bytes, .var = root, .start = start};
    const int64_t to = bt_program_buffer(p->program, &like);
    if (to < 0)
        return BT_ERROR_MEMORY;
    int64_t before = p->made[value] + 1;
    bt_overlaps_find(&p->fetched, (uintptr_t)root, start, end);
    for (int64_t k = 0; k < p->fetched.found_count; k++)
        before = p->fetched.found[k] > before ? p->fetched.found[k] : before;
    for (int64_t k = 0; k < i; k++)
        if (p->c->stowed[k] && p->stowed[k] > before && bt_var_overlap(assign->var, p->program->graph->assigns[k].var))
            before = p->stowed[k];
    p->stowed[i] = before;
    return add_move(p, BT_SPACE_HOST, before, assign->value->node, value, to);
}

/* ---- the program's new steps ---- */

/* Before the same step, copies back go first. */
static int in_order(const void *a, const void *b)
{
    const move *x = a, *y = b;
    const bool out = bt_move_to(&x->step.call) == BT_SPACE_HOST, other = bt_move_to(&y->step.call) == BT_SPACE_HOST;
    if (x->before != y->before)
        return x->before < y->before ? -1 : 1;
    if (out != other)
        return out ? 1 : -1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Finds how long each move may be under way. at: by old step, and one more, the place of the first move before it. */
static void find_ends(const pass *p, const int64_t *at, int64_t *reader)
{
    bt_program *program = p->program;
    int64_t next = program->step_count, m = p->move_count;
    for (int64_t s = program->step_count - 1; s >= 0; s--) {
        bt_call_step *step = &program->steps[s];
        if (bt_is_move(&step->call)) {
            const int64_t last = p->moves[--m].before + p->ahead;
            step->until = at[last < p->count ? last : p->count];
            if (bt_move_to(&step->call) == BT_SPACE_DEVICE)
                step->until = reader[step->out[0].buffer];
            else if (next < step->until)
                step->until = next;
            step->until = step->until > s ? step->until : s + 1;
            step->move = m + 1;
            next = bt_move_to(&step->call) == BT_SPACE_HOST ? s : next;
        }
        for (int i = 0; i < step->call.inputs; i++)
            reader[step->in[i].buffer] = s;
    }
}

static bt_status rebuild(pass *p)
{
    bt_program *program = p->program;
    const int64_t count = p->count + p->move_count;
    bt_call_step *steps = bt_alloc_array((size_t)count + 1, sizeof *steps);
    int64_t *at = bt_region_alloc(p->region, (size_t)(p->count + 1) * sizeof *at);
    int64_t *reader = bt_region_alloc(p->region, (size_t)program->buffer_count * sizeof *reader);
    if (!steps || !at || !reader) {
        bt_free(steps);
        return BT_ERROR_MEMORY;
    }
    qsort(p->moves, (size_t)p->move_count, sizeof *p->moves, in_order);
    int64_t m = 0, k = 0;
    for (int64_t s = 0; s <= p->count; s++) {
        at[s] = k;
        while (m < p->move_count && p->moves[m].before == s)
            steps[k++] = p->moves[m++].step;
        if (s < p->count)
            steps[k++] = program->steps[s];
    }
    for (int64_t s = 0; s < k; s++)
        if (steps[s].until)
            steps[s].until = at[steps[s].until];
    bt_free(program->steps);
    program->steps = steps;
    program->step_count = program->step_capacity = k;
    for (int64_t b = 0; b < program->buffer_count; b++)
        reader[b] = k;
    find_ends(p, at, reader);
    return BT_OK;
}

/* ---- all of it ---- */

static void use(const pass *p, int64_t *last, int64_t buffer, int64_t step, bool count)
{
    if (last[buffer] == step + 1)
        return;
    last[buffer] = step + 1;
    if (count)
        p->first[buffer + 1]++;
    else
        p->readers[p->first[buffer]++] = step;
}

/* Counts or lists the readers of each buffer. */
static void use_all(const pass *p, int64_t *last, bool count)
{
    const bt_graph *graph = p->program->graph;
    memset(last, 0, (size_t)p->buffers * sizeof *last);
    for (int64_t s = 0; s < p->count; s++)
        for (int i = 0; i < p->program->steps[s].call.inputs; i++)
            use(p, last, p->program->steps[s].in[i].buffer, s, count);
    for (int64_t i = 0; i < graph->assign_count + graph->output_count; i++) {
        const bt_tensor *kept =
            i < graph->assign_count ? graph->assigns[i].value : graph->outputs[i - graph->assign_count];
        use(p, last, p->c->looks[kept->id].at.buffer, p->count, count);
        p->kept[p->c->looks[kept->id].at.buffer] = true;
    }
}

static bt_status list_readers(pass *p)
{
    const size_t buffers = (size_t)p->buffers;
    int64_t *last = bt_region_alloc(p->region, (buffers + 1) * sizeof *last);
    p->first = bt_region_alloc(p->region, (buffers + 2) * sizeof *p->first);
    p->kept = bt_region_alloc(p->region, buffers + 1);
    if (!last || !p->first || !p->kept)
        return BT_ERROR_MEMORY;
    use_all(p, last, true);
    for (size_t b = 0; b < buffers; b++)
        p->first[b + 1] += p->first[b];
    p->readers = bt_region_alloc(p->region, (size_t)(p->first[buffers] + 1) * sizeof *p->readers);
    if (!p->readers)
        return BT_ERROR_MEMORY;
    use_all(p, last, false); /* each entry of `first` has advanced to the next one's */
    memmove(p->first + 1, p->first, buffers * sizeof *p->first);
    p->first[0] = 0;
    return bt_overlaps_new(&p->fetched, p->first[buffers]);
}

static bt_status prepare(pass *p)
{
    bt_program *program = p->program;
    for (int64_t i = 0; i < program->graph->assign_count; i++)
        if (is_stowed(&program->graph->assigns[i])) {
            BT_TRY(make_dense(p, &program->graph->assigns[i]));
            p->c->stowed[i] = true;
        }
    p->count = program->step_count;
    p->buffers = program->buffer_count;
    p->made = bt_region_alloc(p->region, (size_t)(p->buffers + 1) * sizeof *p->made);
    p->stowed = bt_region_alloc(p->region, (size_t)(program->graph->assign_count + 1) * sizeof *p->stowed);
    if (!p->made || !p->stowed)
        return BT_ERROR_MEMORY;
    for (int64_t b = 0; b < p->buffers; b++) {
        bt_buffer *buffer = &program->buffers[b];
        p->made[b] = -1;
        if (buffer->home == BT_HOME_VAR)
            buffer->space = bt_var_space(buffer->var);
    }
    for (int64_t s = 0; s < p->count; s++)
        for (int o = 0; o < program->steps[s].call.outputs; o++)
            p->made[program->steps[s].out[o].buffer] = bt_step_ends(program, s);
    return list_readers(p);
}

static bt_status run(pass *p)
{
    const bt_graph *graph = p->program->graph;
    BT_TRY(prepare(p));
    BT_TRY(choose(p));
    for (int64_t b = 0; b < p->buffers; b++)
        BT_TRY(visit(p, b));
    bt_overlaps_sort(&p->fetched);
    for (int64_t i = 0; i < graph->assign_count; i++)
        if (p->c->stowed[i])
            BT_TRY(stow(p, i));
    return p->move_count ? rebuild(p) : BT_OK;
}

bt_status bt_pass_spaces(bt_compilation *c)
{
    pass p = {.c = c, .program = c->program, .ahead = c->options->ahead < 1 ? 1 : c->options->ahead};
    p.region = bt_region_new();
    c->stowed = bt_alloc_array((size_t)c->program->graph->assign_count + 1, sizeof *c->stowed);
    bt_status status = p.region && c->stowed ? run(&p) : BT_ERROR_MEMORY;
    bt_overlaps_free(&p.fetched);
    bt_region_free(p.region);
    bt_free(p.moves);
    return status;
}
