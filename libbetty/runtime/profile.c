/* runtime/profile.c: times kernel calls. */
#include "runtime/profile.h"

#include "compile/work.h"
#include <string.h>

enum { EVENTS = 20000 };

typedef struct table { /* a program's rows: one per step, from `first` on */
    const bt_program *program;
    int64_t first;
} table;

struct bt_profile {
    bt_region *region;
    bt_profile_row *rows;
    int64_t row_count, row_capacity;
    table *tables;
    int64_t table_count, table_capacity;
    bt_profile_event *events;
    int64_t event_count;
    double start;
    bool ticks;
};

bt_profile *bt_profile_new(void)
{
    bt_profile *profile = bt_alloc(sizeof *profile);
    if (!profile)
        return NULL;
    profile->region = bt_region_new();
    profile->events = bt_alloc_array(EVENTS, sizeof *profile->events);
    profile->start = bt_seconds();
    if (profile->region && profile->events)
        return profile;
    bt_profile_free(profile);
    return NULL;
}

void bt_profile_free(bt_profile *profile)
{
    if (!profile)
        return;
    bt_region_free(profile->region);
    bt_free(profile->rows);
    bt_free(profile->tables);
    bt_free(profile->events);
    bt_free(profile);
}

static bt_status add_row(bt_profile *profile, const bt_profile_row *row)
{
    bt_profile_row *rows = bt_grow(profile->rows, &profile->row_capacity, profile->row_count + 1, sizeof *rows);
    if (!rows)
        return BT_ERROR_MEMORY;
    profile->rows = rows;
    const char *texts[] = {row->owner, row->phase, row->part, row->name, row->path};
    for (int i = 0; i < BT_COUNT_OF(texts); i++)
        if (!(texts[i] = bt_region_format(profile->region, "%s", texts[i])))
            return BT_ERROR_MEMORY;
    rows[profile->row_count] = *row;
    bt_profile_row *kept = &rows[profile->row_count++];
    kept->owner = texts[0], kept->phase = texts[1], kept->part = texts[2], kept->name = texts[3], kept->path = texts[4];
    return BT_OK;
}

static bt_status add_program(bt_profile *profile, const bt_phase *phase, int entry, int64_t *at)
{
    const bt_program *program = phase->entries[entry].program;
    table *tables = bt_grow(profile->tables, &profile->table_capacity, profile->table_count + 1, sizeof *tables);
    if (!tables)
        return BT_ERROR_MEMORY;
    profile->tables = tables;
    *at = profile->row_count;
    for (int64_t s = 0; s < program->step_count; s++) {
        const bt_call_step *step = &program->steps[s];
        bt_profile_row row = {.owner = phase->owner,
                              .phase = phase->name,
                              .part = phase->entries[entry].part,
                              .name = step->kernel->name,
                              .path = step->node->tag.path,
                              .again = step->again,
                              .flops = bt_call_flops(&step->call),
                              .bytes = bt_call_bytes(&step->call)};
        BT_TRY(add_row(profile, &row));
    }
    tables[profile->table_count++] = (table){program, *at};
    return BT_OK;
}

static bt_status rows_of(bt_profile *profile, const bt_phase *phase, int entry, int64_t *first)
{
    for (int64_t i = 0; i < profile->table_count; i++)
        if (profile->tables[i].program == phase->entries[entry].program) {
            *first = profile->tables[i].first;
            return BT_OK;
        }
    return add_program(profile, phase, entry, first);
}

static void note(bt_profile *profile, int64_t row, double begin, double end)
{
    profile->rows[row].calls++;
    profile->rows[row].seconds += end - begin;
    if (profile->event_count < EVENTS)
        profile->events[profile->event_count++] = (bt_profile_event){row, begin - profile->start, end - begin};
}

/* Times by the host's clock: waits for each call. */
static bt_status run_timed(bt_profile *profile, const bt_bound *bound, int64_t first)
{
    for (int64_t s = 0; s < bound->program->step_count; s++) {
        double begin = bt_seconds();
        BT_TRY(bt_bound_step(bound, s));
        BT_TRY(bt_queue_wait(bound->queue));
        note(profile, first + s, begin, bt_seconds());
    }
    return BT_OK;
}

/* Times by the device's clock: waits once, at the end. */
static bt_status run_ticking(bt_profile *profile, const bt_bound *bound, int64_t first)
{
    double begin = bt_seconds(), seconds;
    BT_TRY(bt_queue_tick(bound->queue, 0));
    for (int64_t s = 0; s < bound->program->step_count; s++) {
        BT_TRY(bt_bound_step(bound, s));
        BT_TRY(bt_queue_tick(bound->queue, s + 1));
    }
    BT_TRY(bt_queue_wait(bound->queue));
    profile->ticks = true;
    for (int64_t s = 0; s < bound->program->step_count; s++) {
        BT_TRY(bt_queue_between(bound->queue, s + 1, &seconds));
        note(profile, first + s, begin, begin + seconds);
        begin += seconds;
    }
    return BT_OK;
}

bt_status bt_profile_run(bt_phase *phase, int entry)
{
    int64_t first;
    bt_profile *profile = phase->instance->profile;
    bt_bound *bound = phase->entries[entry].bound;
    BT_TRY(rows_of(profile, phase, entry, &first));
    BT_TRY(bt_bound_begin(bound));
    BT_TRY(bt_queue_ticks(bound->queue) ? run_ticking(profile, bound, first) : run_timed(profile, bound, first));
    return bt_bound_end(bound);
}

bool bt_profile_ticks(const bt_profile *profile) { return profile->ticks; }

bt_status bt_profile_step(bt_phase *phase, int entry, int64_t step, double begin)
{
    int64_t first;
    double end = bt_seconds();
    BT_TRY(rows_of(phase->instance->profile, phase, entry, &first));
    note(phase->instance->profile, first + step, begin, end);
    return BT_OK;
}

void bt_profile_forget(bt_profile *profile, const bt_program *program)
{
    for (int64_t i = 0; profile && i < profile->table_count; i++)
        if (profile->tables[i].program == program)
            profile->tables[i].program = NULL;
}

bt_status bt_profile_add(bt_profile *profile, const char *owner, const char *name, double begin)
{
    if (!profile)
        return BT_OK;
    double end = bt_seconds();
    for (int64_t i = 0; i < profile->row_count; i++)
        if (!*profile->rows[i].phase && strcmp(profile->rows[i].name, name) == 0 &&
            strcmp(profile->rows[i].owner, owner) == 0) {
            note(profile, i, begin, end);
            return BT_OK;
        }
    bt_profile_row row = {.owner = owner, .phase = "", .part = "", .name = name, .path = ""};
    BT_TRY(add_row(profile, &row));
    note(profile, profile->row_count - 1, begin, end);
    return BT_OK;
}

const bt_profile_row *bt_profile_rows(const bt_profile *profile, int64_t *count)
{
    *count = profile->row_count;
    return profile->rows;
}

const bt_profile_event *bt_profile_events(const bt_profile *profile, int64_t *count)
{
    *count = profile->event_count;
    return profile->events;
}
