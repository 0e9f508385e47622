/* runtime/program.c: compiling, binding and running. */
#include "runtime/program.h"

#include "ops/ops.h"
#include "transform/absorb.h"
#include "transform/fuse.h"
#include "transform/inline.h"
#include "transform/reassociate.h"
#include "transform/simplify.h"
#include <string.h>

bt_graph *bt_program_lowered(const bt_graph *graph, const bt_backend *backend, int threads)
{
    bt_program trial = {.backend = backend, .threads = threads};
    if (bt_graph_verify(graph, "tracing") != BT_OK)
        return NULL;
    bt_graph *inlined = bt_inline(graph, bt_program_keeps, &trial);
    bt_graph *simple = inlined && bt_graph_verify(inlined, "inline") == BT_OK ? bt_simplify(inlined, true) : NULL;
    bt_graph_free(inlined);
    if (simple && bt_graph_verify(simple, "simplify") != BT_OK) {
        bt_graph_free(simple);
        return NULL;
    }
    return simple;
}

static bool outside(const bt_program *program, bt_operand at)
{
    const bt_buffer *root = &program->buffers[program->buffers[at.buffer].root];
    return root->home == BT_HOME_VAR && root->var->lifetime == BT_EXTERNAL;
}

/* Room for all pointers that change from run to run, so that binding cannot fail. */
static bt_status reserve_patches(bt_program *program)
{
    size_t count = 0;
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[s];
        for (int i = 0; i < step->call.inputs; i++)
            count += outside(program, step->in[i]);
        for (int o = 0; o < step->call.outputs; o++)
            count += outside(program, step->out[o]);
    }
    program->patches = bt_region_alloc(program->region, count * sizeof *program->patches);
    return program->patches ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status compile(bt_program *program)
{
    bt_look *looks = bt_alloc_array((size_t)program->graph->tensor_count + 1, sizeof *looks);
    if (!looks)
        return BT_ERROR_MEMORY;
    bt_status status = bt_program_lower(program, looks);
    if (status == BT_OK)
        status = bt_program_order(program, looks);
    if (status == BT_OK)
        status = bt_program_commit(program, looks);
    if (status == BT_OK)
        status = bt_program_merge(program);
    if (status == BT_OK)
        status = reserve_patches(program);
    bt_free(looks);
    return status;
}

/* The graph, or what takes its place: one of the two is freed. NULL after an error. */
static bt_graph *replace(bt_graph *graph, bt_status status, bt_graph *better, const char *pass)
{
    if (status == BT_OK && !better)
        return graph;
    bt_graph_free(graph);
    if (better && bt_graph_verify(better, pass) == BT_OK)
        return better;
    bt_graph_free(better);
    return NULL;
}

/* As bt_program_lowered, with what belongs into its products within them, and these, with `reassociate`, in the
 * cheapest order; and what alone reads a value computed together with it. */
static bt_graph *lower(const bt_graph *graph, const bt_backend *backend, int threads, bool reassociate)
{
    bt_graph *lowered = bt_program_lowered(graph, backend, threads), *better;
    double saved;
    if (lowered && reassociate) {
        bt_status status = bt_reassociate(lowered, &better, &saved);
        lowered = replace(lowered, status, better, "reassociate");
    }
    if (lowered) {
        bt_status status = bt_fuse(lowered, &better);
        lowered = replace(lowered, status, better, "fuse");
    }
    if (lowered) {
        bt_status status = bt_absorb(lowered, &better);
        lowered = replace(lowered, status, better, "absorb");
    }
    return lowered;
}

bt_program *bt_program_new(const bt_graph *graph, const bt_backend *backend, int threads, bool reassociate)
{
    bt_program *program = bt_alloc(sizeof *program);
    if (!program)
        return NULL;
    program->backend = backend;
    program->threads = threads < 1 ? 1 : threads;
    program->region = bt_region_new();
    program->graph = program->region ? lower(graph, backend, program->threads, reassociate) : NULL;
    if (!program->graph || compile(program) != BT_OK) {
        if (bt_error_status() == BT_OK)
            bt_fail(BT_ERROR_MEMORY, "out of memory while compiling");
        bt_program_free(program);
        return NULL;
    }
    return program;
}

void bt_program_free(bt_program *program)
{
    if (!program)
        return;
    for (int64_t s = 0; s < program->step_count; s++)
        if (program->steps[s].kernel->release)
            program->steps[s].kernel->release(&program->steps[s].call);
    bt_graph_free(program->graph);
    bt_region_free(program->region);
    bt_free(program->steps);
    bt_free(program->buffers);
    bt_free(program);
}

typedef struct binder {
    bt_program *program;
    char *(*place)(void *user, const bt_buffer *root);
    void *user;
} binder;

static void set_pointer(const binder *b, char **pointer, bt_operand at)
{
    const bt_buffer *buffer = &b->program->buffers[at.buffer];
    const bt_buffer *root = &b->program->buffers[buffer->root];
    *pointer = NULL;
    if (root->home == BT_HOME_CONSTANT) {
        memcpy(pointer, &root->constant, sizeof *pointer);
        *pointer += at.offset;
    } else if (outside(b->program, at)) {
        b->program->patches[b->program->patch_count++] = (bt_patch){pointer, root->var, root->start + at.offset};
    } else if (root->home == BT_HOME_VAR && root->var->lifetime == BT_RUN) {
        *pointer = root->var->data + root->start + at.offset;
    } else {
        char *base = b->place(b->user, root);
        *pointer = base ? base + at.offset : NULL;
    }
}

void bt_program_bind(bt_program *program, char *(*place)(void *user, const bt_buffer *root), void *user)
{
    binder b = {program, place, user};
    program->patch_count = 0;
    for (int64_t s = 0; s < program->step_count; s++) {
        bt_call_step *step = &program->steps[s];
        for (int i = 0; i < step->call.inputs; i++)
            set_pointer(&b, &step->call.in[i].data, step->in[i]);
        for (int o = 0; o < step->call.outputs; o++)
            set_pointer(&b, &step->call.out[o].data, step->out[o]);
        step->call.scratch = NULL;
        if (step->scratch >= 0)
            step->call.scratch = place(user, &program->buffers[step->scratch]);
    }
    for (int64_t i = 0; i < program->tail_count; i++) {
        bt_tail *tail = &program->tails[i];
        set_pointer(&b, &tail->data, (bt_operand){tail->buffer, program->buffers[tail->buffer].bytes - tail->bytes});
    }
}

static bt_status failed(const bt_call_step *step, bt_status status)
{
    bt_fail(status, "%s failed", step->call.op->name);
    if (*step->node->tag.path)
        bt_error_context("%s", step->node->tag.path);
    return status;
}

bt_status bt_program_begin(bt_program *program)
{
    for (int64_t i = 0; i < program->patch_count; i++) {
        const bt_patch *p = &program->patches[i];
        if (!p->var->data)
            return bt_fail(BT_ERROR_INTERNAL, "%s is not bound to data", p->var->name);
        *p->pointer = p->var->data + p->offset;
    }
    return BT_OK;
}

bt_status bt_program_step(const bt_program *program, int64_t s)
{
    const bt_call_step *step = &program->steps[s];
    bt_status status = step->kernel->launch(&step->call);
    return status == BT_OK ? BT_OK : failed(step, status);
}

void bt_program_end(const bt_program *program)
{
    for (int64_t i = 0; i < program->tail_count; i++)
        memset(program->tails[i].data, 0, program->tails[i].bytes);
}

bt_status bt_program_run(bt_program *program)
{
    BT_TRY(bt_program_begin(program));
    for (int64_t s = 0; s < program->step_count; s++)
        BT_TRY(bt_program_step(program, s));
    bt_program_end(program);
    return BT_OK;
}

static void describe_operand(const bt_program *program, bt_operand at, bt_text *text)
{
    const bt_buffer *buffer = &program->buffers[at.buffer];
    const bt_buffer *root = &program->buffers[buffer->root];
    if (root->home == BT_HOME_VAR)
        bt_text_add(text, " %s+%zu", root->var->name, root->start + at.offset);
    else if (root->home == BT_HOME_CONSTANT)
        bt_text_add(text, " const");
    else
        bt_text_add(text, " b%lld+%zu", (long long)buffer->root, at.offset);
}

void bt_program_describe(const bt_program *program, bt_text *text)
{
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[s];
        bt_text_add(text, "%4lld %-28s", (long long)s, step->kernel->name);
        for (int i = 0; i < step->call.inputs; i++)
            describe_operand(program, step->in[i], text);
        bt_text_add(text, " ->");
        for (int o = 0; o < step->call.outputs; o++) {
            char shape[256];
            describe_operand(program, step->out[o], text);
            bt_text_add(text, " %s%s", bt_dtype_name(step->call.out[o].dtype),
                        bt_shape_text(shape, step->call.out[o].rank, step->call.out[o].dims));
        }
        if (*step->node->tag.path)
            bt_text_add(text, "  # %s", step->node->tag.path);
        bt_text_add(text, "\n");
    }
}
