/* runtime/bind.c: addresses, and running. */
#include "runtime/bind.h"

#include <string.h>

/* Room for all pointers that change from run to run. */
static bt_status reserve_patches(bt_bound *bound)
{
    const bt_program *program = bound->program;
    size_t count = (size_t)program->tail_count;
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[s];
        for (int i = 0; i < step->call.inputs; i++)
            count += bt_program_outside(program, step->in[i]);
        for (int o = 0; o < step->call.outputs; o++)
            count += bt_program_outside(program, step->out[o]);
    }
    bound->patches = bt_region_alloc(bound->region, count * sizeof *bound->patches);
    return bound->patches ? BT_OK : BT_ERROR_MEMORY;
}

/* The program's calls, with views of their own. */
static bt_status copy_calls(bt_bound *bound)
{
    const bt_program *program = bound->program;
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call *from = &program->steps[s].call;
        bt_call *to = &bound->calls[s];
        *to = *from;
        to->in = bt_region_copy(bound->region, from->in, (size_t)from->inputs * sizeof *from->in);
        to->out = bt_region_copy(bound->region, from->out, (size_t)from->outputs * sizeof *from->out);
        if (!to->in || !to->out)
            return BT_ERROR_MEMORY;
    }
    return BT_OK;
}

bt_bound *bt_bound_new(const bt_program *program, const bt_device_memory *memory)
{
    bt_bound *bound = bt_alloc(sizeof *bound);
    if (!bound)
        return NULL;
    *bound = (bt_bound){.program = program, .memory = memory, .region = bt_region_new()};
    bound->calls = bt_region_alloc(bound->region, (size_t)program->step_count * sizeof *bound->calls);
    bound->tails = bt_region_alloc(bound->region, (size_t)program->tail_count * sizeof *bound->tails);
    bound->values = bt_region_alloc(bound->region, (size_t)program->buffer_count * sizeof *bound->values);
    if (!bound->calls || !bound->tails || !bound->values || copy_calls(bound) != BT_OK ||
        reserve_patches(bound) != BT_OK) {
        bt_bound_free(bound);
        return NULL;
    }
    for (int64_t b = 0; b < program->buffer_count; b++)
        bound->values[b] = -1;
    return bound;
}

void bt_bound_free(bt_bound *bound)
{
    if (!bound)
        return;
    bt_region_free(bound->region);
    bt_free(bound);
}

typedef struct binder {
    bt_bound *bound;
    bt_place_fn *place;
    void *user;
} binder;

static char *placed(const binder *b, int64_t buffer, size_t start)
{
    int64_t value = b->bound->values[buffer];
    return value < 0 ? NULL : b->place(b->user, value, start);
}

static void set_pointer(const binder *b, char **pointer, bt_operand at)
{
    const bt_program *program = b->bound->program;
    int64_t number = program->buffers[at.buffer].root;
    const bt_buffer *root = &program->buffers[number];
    *pointer = NULL;
    if (root->home == BT_HOME_CONSTANT) {
        memcpy(pointer, &root->constant, sizeof *pointer);
        *pointer += at.offset;
    } else if (bt_program_outside(program, at)) {
        b->bound->patches[b->bound->patch_count++] = (bt_patch){pointer, root->var, root->start + at.offset};
    } else if (root->home == BT_HOME_VAR && root->var->lifetime == BT_RUN) {
        *pointer = root->var->data + root->start + at.offset;
    } else {
        char *base = placed(b, number, root->start);
        *pointer = base ? base + at.offset : NULL;
    }
}

void bt_bound_set(bt_bound *bound, bt_place_fn *place, void *user)
{
    const bt_program *program = bound->program;
    binder b = {bound, place, user};
    bound->patch_count = 0;
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[s];
        bt_call *call = &bound->calls[s];
        for (int i = 0; i < call->inputs; i++)
            set_pointer(&b, &call->in[i].data, step->in[i]);
        for (int o = 0; o < call->outputs; o++)
            set_pointer(&b, &call->out[o].data, step->out[o]);
        call->scratch = step->scratch < 0 ? NULL : placed(&b, step->scratch, 0);
    }
    for (int64_t i = 0; i < program->tail_count; i++) {
        const bt_tail *tail = &program->tails[i];
        bt_operand at = {tail->buffer, program->buffers[tail->buffer].bytes - tail->bytes};
        set_pointer(&b, &bound->tails[i], at);
    }
}

static bt_status failed(const bt_call_step *step, bt_status status)
{
    bt_fail(status, "%s failed", step->call.op->name);
    if (*step->node->tag.path)
        bt_error_context("%s", step->node->tag.path);
    return status;
}

bt_status bt_bound_begin(bt_bound *bound)
{
    for (int64_t i = 0; i < bound->patch_count; i++) {
        const bt_patch *p = &bound->patches[i];
        if (!p->var->data)
            return bt_fail(BT_ERROR_INTERNAL, "%s is not bound to data", p->var->name);
        *p->pointer = p->var->data + p->offset;
    }
    return BT_OK;
}

static bt_status launch(const bt_call_step *step, const bt_call *call)
{
    if (call->row && !call->divided) {
        const void *in[BT_ROW_INPUTS];
        for (int i = 0; i < call->inputs; i++)
            in[i] = call->in[i].data;
        call->row(call->n, call->out[0].data, in);
        return BT_OK;
    }
    bt_status status = step->kernel->launch(call);
    return status == BT_OK ? BT_OK : failed(step, status);
}

bt_status bt_bound_step(const bt_bound *bound, int64_t s)
{
    return launch(&bound->program->steps[s], &bound->calls[s]);
}

void bt_bound_end(const bt_bound *bound)
{
    for (int64_t i = 0; i < bound->program->tail_count; i++)
        bound->memory->fill(bound->tails[i], 0, bound->program->tails[i].bytes);
}

bt_status bt_bound_run(bt_bound *bound)
{
    const bt_call_step *steps = bound->program->steps;
    int64_t count = bound->program->step_count;
    BT_TRY(bt_bound_begin(bound));
    for (int64_t s = 0; s < count; s++)
        BT_TRY(launch(&steps[s], &bound->calls[s]));
    bt_bound_end(bound);
    return BT_OK;
}
