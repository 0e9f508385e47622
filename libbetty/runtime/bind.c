/* runtime/bind.c: binds programs to addresses and runs them. */
#include "runtime/bind.h"

#include "compile/spaces.h"
#include "runtime/settle.h"
#include <string.h>

enum { RECORDINGS = 64 }; /* recordings of a program, at most; further runs go step by step */

/* Makes room for all pointers that change from run to run. */
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

/* Copies the program's calls, with their own views. */
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

/* Copies the program's constants to the device. */
static bt_status send_constants(bt_bound *bound)
{
    const bt_program *program = bound->program;
    size_t total = 0;
    bound->constant = bt_region_alloc(bound->region, (size_t)program->buffer_count * sizeof *bound->constant);
    if (!bound->constant)
        return BT_ERROR_MEMORY;
    for (int64_t b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].home == BT_HOME_CONSTANT) {
            bound->constant[b] = total;
            total += bt_align_up(program->buffers[b].bytes);
        }
    if (!total)
        return BT_OK;
    if (!(bound->constants = bt_queue_alloc(bound->queue, total)))
        return bt_error_status();
    for (int64_t b = 0; b < program->buffer_count; b++) {
        const bt_buffer *buffer = &program->buffers[b];
        if (buffer->home == BT_HOME_CONSTANT)
            BT_TRY(
                bt_queue_write(bound->queue, bound->constants + bound->constant[b], buffer->constant, buffer->bytes));
    }
    return BT_OK;
}

/* A number in the mail belongs to the host: whatever a program wrote there would be overwritten by the next mail. */
static bt_status check_written(const bt_program *program)
{
    for (int64_t s = 0; s < program->step_count; s++)
        for (int o = 0; o < program->steps[s].call.outputs; o++) {
            const bt_buffer *root = &program->buffers[program->buffers[program->steps[s].out[o].buffer].root];
            if (root->home == BT_HOME_VAR && root->var->mailed)
                return bt_fail(BT_ERROR_INTERNAL, "%s is set by the host alone, but a program sets it",
                               root->var->name);
        }
    return BT_OK;
}

static bt_status settle_vars(bt_bound *bound)
{
    const bt_program *program = bound->program;
    for (int64_t b = 0; b < program->buffer_count; b++) {
        bt_var *var = program->buffers[b].home == BT_HOME_VAR ? program->buffers[b].var : NULL;
        if (var && bt_var_lands(var) && bound->queue)
            BT_TRY(bt_var_place(var, bound->queue));
        if (!var || var->lifetime != BT_RUN)
            continue;
        BT_TRY(bt_var_settle(var, bound->queue));
        bound->shares = bound->shares || var->queue != bound->queue;
        if (var->queue && !bound->queue)
            return bt_fail(BT_ERROR_INTERNAL, "%s is on a device, but is needed in host memory", var->name);
    }
    return BT_OK;
}

static bt_status prepare(bt_bound *bound)
{
    BT_TRY(copy_calls(bound));
    BT_TRY(reserve_patches(bound));
    return check_written(bound->program);
}

bt_status bt_bound_settle(bt_bound *bound, bt_queue *queue)
{
    bound->queue = queue;
    BT_TRY(settle_vars(bound));
    return queue && !bound->constants ? send_constants(bound) : BT_OK;
}

bt_bound *bt_bound_new(const bt_program *program)
{
    bt_bound *bound = bt_alloc(sizeof *bound);
    if (!bound)
        return NULL;
    *bound = (bt_bound){.program = program, .region = bt_region_new()};
    bound->calls = bt_region_alloc(bound->region, (size_t)program->step_count * sizeof *bound->calls);
    bound->tails = bt_region_alloc(bound->region, (size_t)program->tail_count * sizeof *bound->tails);
    bound->values = bt_region_alloc(bound->region, (size_t)program->buffer_count * sizeof *bound->values);
    if (!bound->calls || !bound->tails || !bound->values || prepare(bound) != BT_OK) {
        bt_bound_free(bound);
        return NULL;
    }
    for (int64_t b = 0; b < program->buffer_count; b++)
        bound->values[b] = -1;
    return bound;
}

static void forget_recordings(bt_bound *bound)
{
    for (int64_t i = 0; i < bound->recording_count; i++)
        bt_queue_discard(bound->queue, bound->recordings[i].kept);
    bound->recording_count = 0;
}

void bt_bound_free(bt_bound *bound)
{
    if (!bound)
        return;
    if (bound->queue)
        bt_queue_settle(bound->queue);
    forget_recordings(bound);
    bt_free(bound->recordings);
    bt_queue_free(bound->queue, bound->constants);
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

static char *near_constant(const bt_buffer *buffer)
{
    char *constant;
    memcpy(&constant, &buffer->constant, sizeof constant);
    return constant;
}

static void set_pointer(const binder *b, char **pointer, bt_operand at)
{
    bt_bound *bound = b->bound;
    const bt_program *program = bound->program;
    int64_t number = program->buffers[at.buffer].root;
    const bt_buffer *root = &program->buffers[number];
    *pointer = NULL;
    if (root->home == BT_HOME_CONSTANT) {
        char *constant = bound->constants ? bound->constants + bound->constant[number] : near_constant(root);
        *pointer = constant + at.offset;
    } else if (bt_program_outside(program, at)) {
        bound->patches[bound->patch_count++] = (bt_patch){pointer, root->var, root->start + at.offset};
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
    forget_recordings(bound);
    bound->has_run = false;
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

void bt_bound_blame(const bt_bound *bound, int64_t step, bt_status status)
{
    failed(&bound->program->steps[step], status);
    if (bound->place)
        bt_error_context("%s", bound->place);
}

/* A variable may lie on another queue, for example that of a module shared by an engine and a function. Work on it by
 * the two queues is done one after the other. */
static bt_status wait_for_others(const bt_bound *bound)
{
    const bt_program *program = bound->program;
    for (int64_t b = 0; b < program->buffer_count; b++) {
        const bt_var *var = program->buffers[b].home == BT_HOME_VAR ? program->buffers[b].var : NULL;
        if (!var || var->queue == bound->queue)
            continue;
        BT_TRY(bt_queue_send(var->queue)); /* it may be a number in that queue's mail */
        BT_TRY(bt_queue_wait(var->queue));
    }
    return BT_OK;
}

bt_status bt_bound_begin(bt_bound *bound)
{
    for (int64_t i = 0; i < bound->patch_count; i++) {
        const bt_patch *p = &bound->patches[i];
        char *data = p->var->data;
        if (!data)
            return bt_fail(BT_ERROR_INTERNAL, "%s is not bound to data", p->var->name);
        if (bound->queue)
            BT_TRY(bt_var_land(p->var, bound->queue, &data));
        *p->pointer = data + p->offset;
    }
    if (bound->shares)
        BT_TRY(wait_for_others(bound));
    return bt_queue_send(bound->queue);
}

static bt_status launch(const bt_call_step *step, const bt_call *call)
{
    bt_status status = bt_kernel_run(step->kernel, call);
    return status == BT_OK ? BT_OK : failed(step, status);
}

static bt_status move(const bt_bound *bound, int64_t s)
{
    const bt_call *call = &bound->calls[s];
    return bt_queue_move(bound->queue, call->out[0].data, call->in[0].data, (size_t)call->out[0].dims[0],
                         bt_move_to(call) == BT_SPACE_HOST, bound->program->steps[s].move);
}

bt_status bt_bound_meet(const bt_bound *bound, int64_t s)
{
    const int64_t meets = bound->program->steps[s].meets;
    return bound->queue && meets ? bt_queue_meet(bound->queue, meets) : BT_OK;
}

bt_status bt_bound_step(const bt_bound *bound, int64_t s)
{
    const bt_call_step *step = &bound->program->steps[s];
    if (!bound->queue)
        return launch(step, &bound->calls[s]);
    BT_TRY(bt_bound_meet(bound, s));
    return step->move ? move(bound, s)
                      : bt_queue_launch(bound->queue, step->kernel, &bound->calls[s], (bt_launched){bound, s});
}

/* Ends a run: nothing stays under way. */
static bt_status finish(const bt_bound *bound)
{
    if (bound->queue && bound->program->moves)
        BT_TRY(bt_queue_meet(bound->queue, bound->program->moves));
    for (int64_t i = 0; i < bound->program->tail_count; i++)
        BT_TRY(bt_queue_fill(bound->queue, bound->tails[i], 0, bound->program->tails[i].bytes));
    return BT_OK;
}

bt_status bt_bound_end(const bt_bound *bound)
{
    BT_TRY(finish(bound));
    return bound->shares ? bt_queue_wait(bound->queue) : BT_OK;
}

static bt_status run_near(const bt_bound *bound)
{
    const bt_call_step *steps = bound->program->steps;
    const int64_t count = bound->program->step_count;
    for (int64_t s = 0; s < count; s++)
        BT_TRY(launch(&steps[s], &bound->calls[s]));
    return finish(bound);
}

/* A collective for which compile/flight.c has found time is left under way. */
static bt_status put_step(const bt_bound *bound, int64_t s)
{
    const bt_call_step *step = &bound->program->steps[s];
    if (step->awaits)
        BT_TRY(bt_queue_await(bound->queue, step->awaits));
    if (step->until && !step->move) {
        BT_TRY(bt_bound_meet(bound, s));
        return bt_queue_launch_apart(bound->queue, step->kernel, &bound->calls[s], (bt_launched){bound, s});
    }
    return bt_bound_step(bound, s);
}

static bt_status put(const bt_bound *bound)
{
    for (int64_t s = 0; s < bound->program->step_count; s++)
        BT_TRY(put_step(bound, s));
    if (bt_queue_overlaps(bound->queue))
        BT_TRY(bt_queue_await(bound->queue, 0));
    return finish(bound);
}

static uint64_t patched(const bt_bound *bound)
{
    uint64_t hash = 0;
    for (int64_t i = 0; i < bound->patch_count; i++)
        hash = bt_hash(hash, bound->patches[i].pointer, sizeof(char *));
    return hash;
}

static void *recording_of(const bt_bound *bound, uint64_t at)
{
    for (int64_t i = 0; i < bound->recording_count; i++)
        if (bound->recordings[i].at == at)
            return bound->recordings[i].kept;
    return NULL;
}

static bt_status record(bt_bound *bound, uint64_t at, void **kept)
{
    bt_repeat *list = bt_grow(bound->recordings, &bound->recording_capacity, bound->recording_count + 1, sizeof *list);
    if (!list)
        return BT_ERROR_MEMORY;
    bound->recordings = list;
    BT_TRY(bt_queue_record(bound->queue));
    const bt_status status = put(bound);
    *kept = bt_queue_recorded(bound->queue);
    if (status != BT_OK || !*kept) {
        bt_queue_discard(bound->queue, *kept);
        return status != BT_OK ? status : bt_error_status();
    }
    list[bound->recording_count++] = (bt_repeat){*kept, at};
    return BT_OK;
}

/* The first run is put onto the queue step by step, so that the device's libraries load what they need. After that
 * there is a recording for each set of pointers, such as those into the rows of a trajectory. */
static bt_status run_far(bt_bound *bound)
{
    const uint64_t at = patched(bound);
    const bool may_record = bound->has_run && bt_queue_records(bound->queue);
    void *kept = recording_of(bound, at);
    bound->has_run = true;
    if (!kept && may_record && bound->recording_count < RECORDINGS)
        BT_TRY(record(bound, at, &kept));
    return kept ? bt_queue_replay(bound->queue, kept) : put(bound);
}

bt_status bt_bound_run(bt_bound *bound)
{
    BT_TRY(bt_bound_begin(bound));
    BT_TRY(bound->queue ? run_far(bound) : run_near(bound));
    return bound->shares ? bt_queue_wait(bound->queue) : BT_OK;
}
