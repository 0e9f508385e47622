/* engine/session/memory.c: memory use by level, phase and category. */
#include "engine/session/session.h"

#include "base/footprint.h"
#include "data/dataset.h"
#include "runtime/copies.h"
#include <string.h>

void bt_phase_at_peak(const bt_phase *phase, size_t by_category[BT_CATEGORIES])
{
    for (int c = 0; c < BT_CATEGORIES; c++)
        by_category[c] = 0;
    for (int64_t i = 0; i < phase->value_count; i++)
        if (bt_phase_lives(phase, i, phase->peak) && phase->values[i].space == BT_SPACE_DEVICE)
            by_category[phase->values[i].category] += phase->intervals[i].bytes;
}

bool bt_phase_lives(const bt_phase *phase, int64_t value, int64_t step)
{
    return phase->intervals[value].first <= step && phase->intervals[value].last >= step;
}

const bt_phase *bt_phase_largest(const bt_instance *instance)
{
    const bt_phase *largest = NULL;
    for (int64_t i = 0; i < instance->phase_count; i++)
        if (!largest || instance->phases[i]->used > largest->used)
            largest = instance->phases[i];
    return largest;
}

/* ---- bytes of the arena ---- */

size_t bt_arena_planned(const bt_context *context)
{
    size_t most = 0;
    for (int64_t i = 0; context->instance && i < context->instance->phase_count; i++)
        if (context->instance->phases[i]->arena > most)
            most = context->instance->phases[i]->arena;
    return most;
}

size_t bt_host_planned(const bt_context *context)
{
    size_t most = 0;
    for (int64_t i = 0; context->instance && i < context->instance->phase_count; i++)
        if (context->instance->phases[i]->host > most)
            most = context->instance->phases[i]->host;
    return most;
}

size_t bt_arena_used(const bt_context *context)
{
    size_t most = 0;
    for (int64_t i = 0; context->instance && i < context->instance->phase_count; i++)
        if (context->instance->phases[i]->used > most)
            most = context->instance->phases[i]->used;
    return most;
}

void bt_engine_note_touched(bt_engine *engine)
{
    int64_t touched = (int64_t)bt_instance_touched(engine->context.instance);
    if (touched > engine->touched)
        engine->touched = touched;
}

bt_memory_sizes bt_engine_planned(const bt_engine *engine)
{
    size_t by_category[BT_CATEGORIES];
    return (bt_memory_sizes){bt_arena_used(&engine->context), bt_persistent_bytes(&engine->context, by_category, NULL),
                             bt_host_planned(&engine->context) + bt_host_bytes(&engine->context, by_category, NULL)};
}

bt_memory_sizes bt_engine_measured(bt_engine *engine)
{
    const bt_instance *instance = engine->context.instance;
    const size_t arena = instance->planned ? instance->arena_size : 0;
    bt_engine_note_touched(engine);
    return (bt_memory_sizes){(size_t)engine->touched, bt_live_bytes() - engine->baseline - arena,
                             bt_live_host_bytes() - engine->host_baseline};
}

/* Kept states of an inner loop, and those that roll_back returns to. They are in no program, because copies between two
 * programs fill them. */
static size_t copied_bytes(const bt_context *context)
{
    size_t sum = 0;
    for (int64_t i = 0; i < context->ledger.count; i++) {
        const bt_ledger_row *row = &context->ledger.rows[i];
        const bt_var *var = row->kind == BT_ROW_VAR ? row->data : NULL;
        if (var && var->space == BT_SPACE_DEVICE && (row->role == BT_ROLE_SNAPSHOT || var->category == BT_TRAJECTORY))
            sum += bt_var_home_bytes(var);
    }
    return sum;
}

bt_status bt_engine_device_bytes(const bt_engine *engine, bt_device_bytes *bytes)
{
    size_t by_category[BT_CATEGORIES];
    BT_TRY(bt_instance_device_bytes(engine->context.instance, bytes));
    bytes->variables += copied_bytes(&engine->context);
    bytes->host = bt_host_planned(&engine->context) + bt_host_bytes(&engine->context, by_category, NULL);
    return BT_OK;
}

/* ---- memory outside the plan ---- */

size_t bt_resident_peak(void)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %zu kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib * 1024;
}

enum { ROUND = 1 << 16 };

static size_t above(size_t size, size_t before) { return size > before ? size - before : 0; }

bt_footprint bt_engine_footprint(const bt_engine *engine)
{
    const size_t data = above(bt_store_bytes(), engine->data_before);
    bt_footprint print = {.data = data + above(bt_store_absent(), engine->absent_before),
                          .program = above(bt_own_bytes(), engine->own_before + data)};
    print.peak = above(bt_own_peak(), engine->own_before + data);
    /* The rounding of the allocator may differ a little between processes. */
    print.program = (print.program / ROUND + 1) * ROUND;
    print.peak = (print.peak / ROUND + 1) * ROUND;
    if (print.peak < print.program)
        print.peak = print.program;
    return print;
}

/* ---- the table ---- */

typedef struct table {
    bt_memory_table public;
    bt_region *region; /* holds all text */
    bt_memory_row *rows;
    int64_t room;
    bool failed;
} table;

static const char *copy(table *t, const char *text)
{
    const char *made = text ? bt_region_copy(t->region, text, strlen(text) + 1) : NULL;
    t->failed = t->failed || (text && !made);
    return made;
}

static void add(table *t, const char *level, const char *phase, const size_t by_category[BT_CATEGORIES])
{
    for (int c = 0; c < BT_CATEGORIES && !t->failed; c++) {
        if (!by_category[c])
            continue;
        bt_memory_row *rows = bt_grow(t->rows, &t->room, t->public.count + 1, sizeof *rows);
        if (!rows) {
            t->failed = true;
            return;
        }
        t->rows = rows;
        t->public.rows = rows;
        rows[t->public.count++] = (bt_memory_row){.level = copy(t, level),
                                                  .phase = copy(t, phase),
                                                  .category = copy(t, bt_category_name((bt_category)c)),
                                                  .bytes = by_category[c]};
    }
}

static void fill(table *t, const bt_context *context)
{
    size_t bytes[BT_CATEGORIES];
    t->public.persistent = bt_persistent_bytes(context, bytes, NULL);
    t->public.arena = bt_arena_planned(context);
    t->public.arena_used = bt_arena_used(context);
    for (int p = 0; p < context->problem_count; p++) {
        const bt_problem *problem = context->problems[p];
        if (!problem->settings->active)
            continue;
        bt_persistent_bytes(context, bytes, problem);
        add(t, problem->name, NULL, bytes);
        for (int64_t i = 0; i < context->instance->phase_count; i++) {
            const bt_phase *phase = context->instance->phases[i];
            if (strcmp(phase->owner, problem->name) != 0)
                continue;
            bt_phase_at_peak(phase, bytes);
            add(t, problem->name, phase->name, bytes);
        }
    }
}

bt_memory_table *bt_engine_memory(bt_engine *engine)
{
    if (bt_engine_enter(engine, BT_REQUEST_LOOK, "bt_engine_memory") != BT_OK)
        return NULL;
    table *t = bt_alloc(sizeof *t);
    if (!t)
        return NULL;
    t->region = bt_region_new();
    t->failed = !t->region;
    if (!t->failed)
        fill(t, &engine->context);
    if (!t->failed)
        return &t->public;
    bt_fail(BT_ERROR_MEMORY, "out of memory");
    bt_memory_table_free(&t->public);
    return NULL;
}

void bt_memory_table_free(bt_memory_table *memory)
{
    table *t = (table *)memory; /* it is the first field */
    if (!t)
        return;
    bt_free(t->rows);
    bt_region_free(t->region);
    bt_free(t);
}
