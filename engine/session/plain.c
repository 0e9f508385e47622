/* engine/session/plain.c: the plain loops that an engine's programs run, and their share of the work. */
#include "engine/session/session.h"

#include "compile/work.h"
#include "engine/output/json.h"
#include <string.h>

/* Calls `visit` for each step of each program. */
static void visit_steps(const bt_engine *engine, void (*visit)(void *user, const bt_call_step *step), void *user)
{
    const bt_instance *instance = engine->context.instance;
    for (int64_t i = 0; i < instance->phase_count; i++)
        for (int e = 0; e < instance->phases[i]->entry_count; e++) {
            const bt_program *program = instance->phases[i]->entries[e].program;
            for (int64_t s = 0; s < program->step_count; s++)
                visit(user, &program->steps[s]);
        }
}

typedef struct work {             /* of all kernels, or of one */
    const bt_kernel_impl *kernel; /* on more than a few elements; NULL: all kernels */
    int64_t calls;
    double flops, bytes;
} work;

static void add(void *user, const bt_call_step *step)
{
    work *sum = user;
    if (sum->kernel && (step->kernel != sum->kernel || bt_call_small(&step->call)))
        return;
    sum->calls++;
    sum->flops += bt_call_flops(&step->call);
    sum->bytes += bt_call_bytes(&step->call);
}

static double share(double part, double all) { return all > 0 ? part / all : 0; }

json_t *bt_plain_loops(const bt_engine *engine)
{
    json_t *list = json_array();
    work all = {.kernel = NULL};
    visit_steps(engine, add, &all);
    const bt_kernel_impl *const *kernel = engine->context.instance->backend->kernels.list();
    for (; list && *kernel; kernel++) {
        work one = {.kernel = *kernel};
        if ((*kernel)->plain)
            visit_steps(engine, add, &one);
        if (one.calls)
            list = bt_json_append(list, json_pack("{s:s, s:I, s:f, s:f}", "kernel", (*kernel)->name, "calls",
                                                  (json_int_t)one.calls, "operations", share(one.flops, all.flops),
                                                  "bytes", share(one.bytes, all.bytes)));
    }
    return list;
}

void bt_print_plain_loops(json_t *loops, FILE *file)
{
    size_t i;
    json_t *loop;
    fprintf(file, "\nplain loops over more than %d elements", BT_WORK_OF_A_COPY);
    if (json_array_size(loops) == 0) {
        fprintf(file, ": none\n");
        return;
    }
    fprintf(file, ", of the operations and the bytes of all kernels (each counted once):\n");
    json_array_foreach(loops, i, loop)
        fprintf(file, "  %-28s %6lld kernels  %5.1f %%  %5.1f %%\n", bt_json_read_text(loop, "kernel"),
                (long long)json_integer_value(json_object_get(loop, "calls")),
                100 * bt_json_read_number(loop, "operations"), 100 * bt_json_read_number(loop, "bytes"));
}
