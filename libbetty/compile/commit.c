/* compile/commit.c: where assigned values live, and what may be written in place.
 *
 * A program reads every variable as it was at entry. An assigned value is computed directly in its variable if nobody
 * reads the old value later. Otherwise it is computed elsewhere and copied at the end. */
#include "base/overlap.h"
#include "compile/compile_inside.h"
#include "compile/joined.h"

typedef struct commit {
    bt_compilation *c;
    bt_program *program;
    int64_t *maker;       /* by buffer: the step that computes it; -1: none */
    int64_t *last;        /* by buffer: the last step that reads it; -1: none */
    int *output;          /* by buffer: which output of its maker it is */
    int64_t *placed;      /* by assign: the buffer computed in its variable; -1: none */
    bt_look *from;        /* by assign: its value */
    bool *wanted;         /* by buffer: an assign's value is a look at it */
    bt_overlaps leaves;   /* windows of variables that are read; items are buffers */
    bt_overlaps assigned; /* windows that are assigned; items are assigns */
} commit;

bool bt_step_overwrites(const bt_program *program, const bt_call_step *step, int o, int i, size_t bytes)
{
    const bt_op_info *info = step->call.op->info;
    const bt_buffer *buffer = &program->buffers[step->in[i].buffer];
    if (step->call.joined)
        return step->in[i].offset == 0 && buffer->bytes == bytes && bt_joined_overwrites(step->call.joined, o, i);
    const bool may = !info                      ? false
                     : info->flags & BT_OP_EACH ? o == i
                                                : o < BT_MAX_OUTPUTS && i < 32 && (info->overwrites[o] >> i) & 1u;
    return may && step->in[i].offset == 0 && buffer->bytes == bytes && bt_view_dense(&step->call.in[i]) &&
           bt_dtype_size(step->call.in[i].dtype) == bt_dtype_size(step->call.out[o].dtype);
}

/* Whether `buffer` may be computed where the buffer `read` lies: nobody reads `read` after that. */
static bool over_when(const commit *m, int64_t buffer, size_t start, int64_t read)
{
    const bt_program *program = m->program;
    int64_t made = m->maker[buffer];
    if (read < 0 || read == buffer || (m->last[read] < made && m->maker[read] != made))
        return true;
    if (m->last[read] != made || program->buffers[read].start != start)
        return false;
    const bt_call_step *step = &program->steps[made];
    for (int i = 0; i < step->call.inputs; i++)
        if (step->in[i].buffer == read &&
            !bt_step_overwrites(program, step, m->output[buffer], i, program->buffers[buffer].bytes))
            return false;
    return true;
}

/* Whether the buffer can be computed in the variable's own bytes: nobody reads their old contents later. */
static bool safe(commit *m, int64_t buffer, const bt_var *root, size_t start)
{
    size_t end = start + m->program->buffers[buffer].bytes;
    bool fine = m->maker[buffer] >= 0;
    bt_overlaps_find(&m->leaves, (uintptr_t)root, start, end);
    for (int64_t i = 0; fine && i < m->leaves.found_count; i++)
        fine = over_when(m, buffer, start, m->leaves.found[i]);
    bt_overlaps_find(&m->assigned, (uintptr_t)root, start, end);
    for (int64_t i = 0; fine && i < m->assigned.found_count; i++)
        fine = over_when(m, buffer, start, m->placed[m->assigned.found[i]]);
    return fine;
}

static bool shows_whole(const bt_program *program, const bt_look *look, size_t bytes)
{
    const bt_buffer *buffer = &program->buffers[look->at.buffer];
    return buffer->home == BT_HOME_ARENA && look->at.offset == 0 && buffer->bytes == bytes &&
           bt_view_dense(&look->view);
}

/* Makes a new buffer like this one and copies the look into it, as the last step. */
static bt_status copy(commit *m, const bt_tensor *value, const bt_look *look, const bt_buffer *like, int64_t *buffer)
{
    bt_program *program = m->program;
    bt_operand to = {.buffer = bt_program_buffer(program, like)};
    if (to.buffer < 0)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_compile_copy(m->c, value->node, *look, to, bt_tensor_array(value)));
    m->last[look->at.buffer] = m->maker[to.buffer] = program->step_count - 1;
    *buffer = to.buffer;
    return BT_OK;
}

/* Copies the look into an arena buffer, which it then shows. */
static bt_status copy_aside(commit *m, const bt_tensor *value, bt_look *look)
{
    bt_operand to = {0};
    bt_buffer like = {
        .home = BT_HOME_ARENA, .bytes = bt_tensor_bytes(value), .category = BT_ACTIVATIONS, .node = value->node};
    BT_TRY(copy(m, value, look, &like, &to.buffer));
    *look = (bt_look){.at = to, .view = bt_view_of(bt_tensor_array(value))};
    return BT_OK;
}

/* Each result is its own buffer, or else a dense copy. */
static bt_status keep_results(commit *m)
{
    bt_program *program = m->program;
    const bt_graph *graph = program->graph;
    for (int64_t i = 0; i < graph->output_count; i++) {
        bt_look look = m->c->looks[graph->outputs[i]->id];
        if (!shows_whole(program, &look, bt_tensor_bytes(graph->outputs[i])))
            BT_TRY(copy_aside(m, graph->outputs[i], &look));
        program->buffers[look.at.buffer].result = true;
        program->results[i] = look.at;
    }
    return BT_OK;
}

/* Copies the old value of a variable that is assigned here, before anything is written. */
static bt_status set_aside(commit *m, const bt_assign *assign, bt_look *look)
{
    const bt_buffer *from = &m->program->buffers[look->at.buffer];
    if (from->home != BT_HOME_VAR || !bt_overlaps_any_of(&m->assigned, (uintptr_t)from->var))
        return BT_OK;
    return copy_aside(m, assign->value, look);
}

static void place(commit *m, int64_t buffer, bt_var *root, size_t start)
{
    bt_buffer *own = &m->program->buffers[buffer];
    own->home = BT_HOME_VAR;
    own->var = root;
    own->start = start;
}

/* If a collective computes the buffer and its operand has no other use, the operand is placed there too: the ranks then
 * reduce in place. */
static void place_operand(commit *m, int64_t buffer, bt_var *root, size_t start)
{
    const bt_program *program = m->program;
    const int64_t made = m->maker[buffer];
    const bt_call_step *step = &program->steps[made];
    for (int i = 0; bt_step_joins(step) && i < step->call.inputs; i++) {
        const int64_t operand = step->in[i].buffer;
        const bt_buffer *in = &program->buffers[operand];
        if (in->home == BT_HOME_ARENA && !in->result && !m->wanted[operand] && m->last[operand] == made &&
            bt_step_overwrites(program, step, m->output[buffer], i, program->buffers[buffer].bytes) &&
            safe(m, operand, root, start) && m->assigned.found_count == 1) /* nothing else is assigned there */
            place(m, operand, root, start);
    }
}

static bt_status place_assign(commit *m, int64_t i)
{
    const bt_assign *assign = &m->program->graph->assigns[i];
    const bt_look *look = &m->from[i];
    bt_var *root = bt_var_root(assign->var);
    size_t start = bt_var_start(assign->var);
    bt_buffer *buffer = &m->program->buffers[look->at.buffer];
    if (shows_whole(m->program, look, assign->var->bytes) && !buffer->result && safe(m, look->at.buffer, root, start)) {
        place(m, look->at.buffer, root, start);
        place_operand(m, look->at.buffer, root, start);
        m->placed[i] = look->at.buffer;
        return BT_OK;
    }
    int64_t copied;
    bt_buffer like = {.home = BT_HOME_VAR, .bytes = assign->var->bytes, .var = root, .start = start};
    return copy(m, assign->value, look, &like, &copied);
}

static bt_status note_tails(const commit *m)
{
    bt_program *program = m->program;
    const bt_graph *graph = program->graph;
    for (int64_t i = 0; i < graph->assign_count; i++) {
        bt_var *var = graph->assigns[i].var;
        if (!var->tail || (m->c->stowed && m->c->stowed[i])) /* a value that is copied out has no tail to clear */
            continue;
        bt_buffer like = {
            .home = BT_HOME_VAR, .bytes = var->bytes + var->tail, .var = bt_var_root(var), .start = bt_var_start(var)};
        bt_tail tail = {.buffer = bt_program_buffer(program, &like), .bytes = var->tail};
        if (tail.buffer < 0)
            return BT_ERROR_MEMORY;
        program->tails[program->tail_count++] = tail;
    }
    return BT_OK;
}

/* The operands and results of a step under way count as read by the step that waits for it. */
static void in_use(commit *m, int64_t buffer, int64_t step)
{
    m->last[buffer] = step > m->last[buffer] ? step : m->last[buffer];
}

/* Notes who computes and reads each buffer, and which windows of variables are read and assigned. */
static void note(commit *m)
{
    const bt_program *program = m->program;
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[s];
        for (int i = 0; i < step->call.inputs; i++)
            in_use(m, step->in[i].buffer, step->until ? step->until : s);
        for (int o = 0; o < step->call.outputs; o++) {
            if (step->until)
                in_use(m, step->out[o].buffer, step->until);
            m->maker[step->out[o].buffer] = s;
            m->output[step->out[o].buffer] = o;
        }
    }
    for (int64_t b = 0; b < program->buffer_count; b++) {
        const bt_buffer *buffer = &program->buffers[b];
        if (buffer->home == BT_HOME_VAR)
            m->leaves.stretches[m->leaves.count++] =
                (bt_stretch){(uintptr_t)buffer->var, buffer->start, buffer->start + buffer->bytes, b};
    }
    for (int64_t i = 0; i < program->graph->assign_count; i++) {
        bt_var *var = program->graph->assigns[i].var;
        size_t start = bt_var_start(var);
        m->assigned.stretches[m->assigned.count++] =
            (bt_stretch){(uintptr_t)bt_var_root(var), start, start + var->bytes, i};
        m->placed[i] = -1;
    }
    bt_overlaps_sort(&m->leaves);
    bt_overlaps_sort(&m->assigned);
}

static bt_status commit_new(commit *m, bt_compilation *c)
{
    bt_program *program = c->program;
    const bt_graph *graph = program->graph;
    size_t assigns = (size_t)graph->assign_count, outputs = (size_t)graph->output_count;
    size_t buffers = (size_t)program->buffer_count + 2 * (outputs + 2 * assigns); /* each copy may need scratch */
    *m = (commit){.c = c, .program = program};
    program->results = bt_region_alloc(program->region, (outputs + 1) * sizeof *program->results);
    program->tails = bt_region_alloc(program->region, (assigns + 1) * sizeof *program->tails);
    m->maker = bt_alloc_array(2 * buffers + assigns, sizeof *m->maker);
    m->output = bt_alloc_array(buffers, sizeof *m->output);
    m->from = bt_alloc_array(assigns, sizeof *m->from);
    m->wanted = bt_alloc_array(buffers, sizeof *m->wanted);
    if (!program->results || !program->tails || !m->maker || !m->output || !m->from || !m->wanted)
        return BT_ERROR_MEMORY;
    m->last = m->maker + buffers;
    m->placed = m->last + buffers;
    for (size_t b = 0; b < 2 * buffers; b++)
        m->maker[b] = -1;
    BT_TRY(bt_overlaps_new(&m->leaves, program->buffer_count));
    BT_TRY(bt_overlaps_new(&m->assigned, graph->assign_count));
    note(m);
    return BT_OK;
}

bt_status bt_pass_commit(bt_compilation *c)
{
    commit m;
    const bt_graph *graph = c->program->graph;
    bt_status status = commit_new(&m, c);
    if (status == BT_OK)
        status = keep_results(&m);
    for (int64_t i = 0; status == BT_OK && i < graph->assign_count; i++) {
        m.from[i] = c->looks[graph->assigns[i].value->id];
        if (!c->stowed || !c->stowed[i])
            status = set_aside(&m, &graph->assigns[i], &m.from[i]);
        if (status == BT_OK)
            m.wanted[m.from[i].at.buffer] = true;
    }
    for (int64_t i = 0; status == BT_OK && i < graph->assign_count; i++)
        if (!c->stowed || !c->stowed[i])
            status = place_assign(&m, i);
    if (status == BT_OK)
        status = note_tails(&m);
    bt_overlaps_free(&m.leaves);
    bt_overlaps_free(&m.assigned);
    bt_free(m.maker);
    bt_free(m.output);
    bt_free(m.from);
    bt_free(m.wanted);
    return status;
}
