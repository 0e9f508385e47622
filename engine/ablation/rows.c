/* engine/ablation/rows.c: the rows of the table. */
#include "engine/ablation/ablation_inside.h"

#include <string.h>

typedef struct making {
    const bt_choice *choices;
    int64_t count;
    bt_ablation_rows *rows;
    const bt_choice **taken; /* for the row being made */
    int64_t taken_count;
} making;

static bool same_rows(const bt_ablation_row *row, const making *m)
{
    return row->count == m->taken_count &&
           (row->count == 0 || memcmp(row->choices, m->taken, (size_t)row->count * sizeof *m->taken) == 0);
}

/* Makes a row of the choices taken, unless there already is an equal one. */
static bt_status finish(making *m, const char *name)
{
    bt_ablation_rows *rows = m->rows;
    for (int64_t i = 0; i < rows->count; i++)
        if (same_rows(&rows->list[i], m))
            return BT_OK;
    bt_ablation_row *grown = bt_grow(rows->list, &rows->room, rows->count + 1, sizeof *grown);
    if (!grown || !name)
        return BT_ERROR_MEMORY;
    rows->list = grown;
    bt_ablation_row *row = &grown[rows->count];
    *row = (bt_ablation_row){.name = name, .count = m->taken_count};
    row->choices = bt_region_copy(rows->region, m->taken, (size_t)(m->taken_count + 1) * sizeof *m->taken);
    if (!row->choices)
        return BT_ERROR_MEMORY;
    rows->count++;
    return BT_OK;
}

static bool is_first(const making *m, int64_t at)
{
    for (int64_t i = 0; i < at; i++)
        if (bt_choice_same(&m->choices[i], &m->choices[at]))
            return false;
    return true;
}

/* One technique: on each level alone, then on all of them. */
static bt_status technique(making *m, const bt_choice *one)
{
    bt_region *region = m->rows->region;
    for (int64_t i = 0; i < m->count; i++)
        if (bt_choice_same(&m->choices[i], one)) {
            m->taken[0] = &m->choices[i];
            m->taken_count = 1;
            BT_TRY(finish(m, bt_region_format(region, "%s: %s = %s", m->choices[i].level, one->key, one->value)));
        }
    m->taken_count = 0;
    for (int64_t i = 0; i < m->count; i++)
        if (bt_choice_same(&m->choices[i], one))
            m->taken[m->taken_count++] = &m->choices[i];
    return finish(m, bt_region_format(region, "all levels: %s = %s", one->key, one->value));
}

/* The last value is the strongest, among the values of a key on a level and among keys that exclude one another. */
static bool is_strongest(const making *m, int64_t at)
{
    const bt_choice *one = &m->choices[at];
    for (int64_t i = at + 1; i < m->count; i++)
        if (strcmp(m->choices[i].level, one->level) == 0 &&
            (strcmp(m->choices[i].key, one->key) == 0 || strcmp(m->choices[i].with, one->key) == 0))
            return false;
    return true;
}

static bt_status together(making *m, bool exact, const char *name)
{
    m->taken_count = 0;
    for (int64_t i = 0; i < m->count; i++)
        if (is_strongest(m, i) && (m->choices[i].exact || !exact))
            m->taken[m->taken_count++] = &m->choices[i];
    return finish(m, name);
}

static bt_status make(making *m)
{
    BT_TRY(finish(m, "as configured"));
    for (int64_t i = 0; i < m->count; i++)
        if (is_first(m, i))
            BT_TRY(technique(m, &m->choices[i]));
    BT_TRY(together(m, true, "all that change no bit"));
    return together(m, false, "everything");
}

bt_status bt_rows_make(const bt_choice *choices, int64_t count, bt_ablation_rows *rows)
{
    making m = {.choices = choices, .count = count, .rows = rows};
    *rows = (bt_ablation_rows){.region = bt_region_new()};
    if (rows->region)
        m.taken = bt_region_alloc(rows->region, (size_t)(count + 1) * sizeof *m.taken);
    bt_status status = m.taken ? make(&m) : BT_ERROR_MEMORY;
    return bt_fail(status, "out of memory");
}

void bt_rows_free(bt_ablation_rows *rows)
{
    bt_free(rows->list);
    bt_region_free(rows->region);
    *rows = (bt_ablation_rows){0};
}
