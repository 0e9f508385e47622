/* plan/lives.c: which values live when: the programs' own values, and the variables between programs.
 *
 * A variable is one block in memory, but its windows need not live at the same time: gradients are written one by one.
 * So it is cut at the ends of its windows, and each part lives from the first step that touches it to the last. Outside
 * that time its bytes are free for others. */
#include "plan/lives.h"

#include <stdlib.h>

typedef struct mention { /* a touch of a variable */
    int entry;
    bt_touch *touch;
    int64_t next; /* the next one of the same variable; -1: none */
} mention;

typedef struct span {       /* on the time axis: the steps of all entries, one after the other */
    int64_t base, from, to; /* its first step; the first and last step of its whole loop */
} span;

typedef struct listing {
    bt_lives *lives;
    span *spans; /* by entry */
    int64_t end; /* the end of the time axis */
    mention *mentions;
    int64_t mention_count;
    int64_t *heads, *tails; /* by variable: its first and last mention; -1: none */
    size_t *cuts;           /* of the current variable: where it is cut */
    bt_interval *parts;     /* the parts between the cuts */
    int *entries;           /* by part: the entry that touches it first */
} listing;

static bt_status add_row(bt_lives *lives, bt_interval interval, bt_row row)
{
    int64_t capacity = lives->capacity;
    bt_interval *intervals = bt_grow(lives->intervals, &capacity, lives->count + 1, sizeof *intervals);
    if (intervals)
        lives->intervals = intervals;
    capacity = lives->capacity;
    bt_row *rows = bt_grow(lives->rows, &capacity, lives->count + 1, sizeof *rows);
    if (rows)
        lives->rows = rows;
    if (!intervals || !rows)
        return BT_ERROR_MEMORY;
    lives->capacity = capacity;
    lives->intervals[lives->count] = interval;
    lives->rows[lives->count++] = row;
    return BT_OK;
}

static bt_status add_own(listing *l, int e)
{
    bt_lives_entry *entry = &l->lives->entries[e];
    for (int64_t t = 0; t < entry->touch_count; t++) {
        bt_touch *touch = &entry->touches[t];
        if (touch->var >= 0)
            continue;
        touch->row = l->lives->count;
        bt_interval life = {.bytes = bt_align_up(touch->bytes),
                            .first = l->spans[e].base + touch->first,
                            .last = l->spans[e].base + touch->last};
        BT_TRY(add_row(l->lives, life, (bt_row){.entry = e, .touch = t, .var = -1, .used = touch->bytes}));
    }
    return BT_OK;
}

/* ---- variables ---- */

/* The range of the touch, rounded out to BT_ALIGN. */
static size_t begin_of(const bt_touch *touch) { return touch->start / BT_ALIGN * BT_ALIGN; }
static size_t end_of(const bt_touch *touch) { return bt_align_up(touch->start + touch->bytes); }

static int ascending(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

/* Cuts the variable where any program's touch begins or ends. A variable that is cleared as a whole, or is lasting,
 * stays whole. Returns the number of parts. */
static int64_t cut(listing *l, int64_t v)
{
    const bt_lives_var *var = &l->lives->vars[v];
    int64_t count = 0, parts = 0;
    l->cuts[count++] = 0;
    l->cuts[count++] = bt_align_up(var->bytes);
    for (int64_t m = l->heads[v]; !var->clear && !var->lasting && m >= 0; m = l->mentions[m].next) {
        l->cuts[count++] = begin_of(l->mentions[m].touch);
        l->cuts[count++] = end_of(l->mentions[m].touch);
    }
    qsort(l->cuts, (size_t)count, sizeof *l->cuts, ascending);
    for (int64_t i = 1; i < count; i++)
        if (l->cuts[i] > l->cuts[parts])
            l->cuts[++parts] = l->cuts[i];
    return parts;
}

/* The part that contains the byte. */
static int64_t part_of(const size_t *cuts, int64_t parts, size_t byte)
{
    int64_t low = 0, high = parts;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (cuts[middle] <= byte)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Finds the life of each part: from the first step that touches it to the last, and throughout a loop. A cleared
 * variable lives from the start of its first program. */
static void live(listing *l, int64_t v, int64_t parts)
{
    const bt_lives_var *var = &l->lives->vars[v];
    for (int64_t p = 0; p < parts; p++)
        l->parts[p] = (bt_interval){.bytes = l->cuts[p + 1] - l->cuts[p], .last = -1, .joined = p > 0};
    for (int64_t m = l->heads[v]; m >= 0; m = l->mentions[m].next) {
        const bt_touch *touch = l->mentions[m].touch;
        const span *s = &l->spans[l->mentions[m].entry];
        int64_t first = s->base + (var->clear ? 0 : touch->first), last = s->base + touch->last;
        first = s->from < first ? s->from : first;
        last = s->to > last ? s->to : last;
        for (int64_t p = part_of(l->cuts, parts, begin_of(touch)); p < parts && l->cuts[p] < end_of(touch); p++) {
            bt_interval *part = &l->parts[p];
            if (l->cuts[p + 1] <= begin_of(touch))
                continue;
            if (part->last < 0)
                l->entries[p] = l->mentions[m].entry;
            part->first = part->last < 0 || first < part->first ? first : part->first;
            part->last = last > part->last ? last : part->last;
        }
    }
    for (int64_t p = 0; var->lasting && p < parts; p++) {
        l->parts[p].first = l->entries[p] = 0;
        l->parts[p].last = l->end - 1;
    }
}

/* Adjacent parts with the same life become one row. */
static bt_status add_part(listing *l, int64_t v, int64_t p)
{
    bt_lives *lives = l->lives;
    const bt_interval *life = &l->parts[p];
    size_t to = l->cuts[p + 1], bytes = lives->vars[v].bytes;
    bt_interval *before = life->joined ? &lives->intervals[lives->count - 1] : NULL;
    if (before && before->first == life->first && before->last == life->last)
        before->bytes += life->bytes;
    else
        BT_TRY(add_row(lives, *life, (bt_row){.entry = l->entries[p], .touch = -1, .var = v, .start = l->cuts[p]}));
    bt_row *row = &lives->rows[lives->count - 1];
    row->used = (to < bytes ? to : bytes) - row->start;
    return BT_OK;
}

/* Adds the variable's rows and notes in which row each touch begins. */
static bt_status add_var(listing *l, int64_t v)
{
    bt_lives *lives = l->lives;
    int64_t begin = lives->count, parts = cut(l, v);
    if (!parts) /* it has no bytes */
        BT_TRY(add_row(lives, (bt_interval){.last = -1}, (bt_row){.touch = -1, .var = v}));
    live(l, v, parts);
    for (int64_t p = 0; p < parts; p++)
        BT_TRY(add_part(l, v, p));
    for (int64_t r = begin; r < lives->count; r++)
        l->cuts[r - begin] = lives->rows[r].start;
    for (int64_t m = l->heads[v]; m >= 0; m = l->mentions[m].next)
        l->mentions[m].touch->row = begin + part_of(l->cuts, lives->count - begin, l->mentions[m].touch->start);
    return BT_OK;
}

/* ---- all of it ---- */

/* Places the entries on the time axis, with the extent of the loop that each is part of. */
static void lay_out(listing *l)
{
    const bt_lives *lives = l->lives;
    int64_t base = 0;
    for (int e = 0; e < lives->entry_count; e++) {
        int64_t end = base + lives->entries[e].steps;
        l->spans[e] = (span){base, INT64_MAX, -1};
        for (int i = 0; lives->entries[e].loop && i <= e; i++)
            if (lives->entries[i].loop == lives->entries[e].loop) {
                l->spans[e].from = l->spans[i].base < l->spans[e].from ? l->spans[i].base : l->spans[e].from;
                l->spans[i].to = end - 1 > l->spans[i].to ? end - 1 : l->spans[i].to;
            }
        l->end = base = end;
    }
}

static void mention_all(listing *l)
{
    for (int64_t v = 0; v < l->lives->var_count; v++)
        l->heads[v] = l->tails[v] = -1;
    for (int e = 0; e < l->lives->entry_count; e++)
        for (int64_t t = 0; t < l->lives->entries[e].touch_count; t++) {
            bt_touch *touch = &l->lives->entries[e].touches[t];
            if (touch->var < 0)
                continue;
            int64_t m = l->mention_count++, *tail = &l->tails[touch->var];
            *(*tail < 0 ? &l->heads[touch->var] : &l->mentions[*tail].next) = m;
            *tail = m;
            l->mentions[m] = (mention){e, touch, -1};
        }
}

static bt_status listing_new(listing *l, bt_lives *lives)
{
    size_t touches = 0, vars = (size_t)lives->var_count;
    for (int e = 0; e < lives->entry_count; e++)
        touches += (size_t)lives->entries[e].touch_count;
    *l = (listing){.lives = lives};
    l->spans = bt_alloc_array((size_t)lives->entry_count, sizeof *l->spans);
    l->mentions = bt_alloc_array(touches, sizeof *l->mentions);
    l->heads = bt_alloc_array(2 * vars, sizeof *l->heads);
    l->cuts = bt_alloc_array(2 * touches + 2, sizeof *l->cuts);
    l->parts = bt_alloc_array(2 * touches + 2, sizeof *l->parts);
    l->entries = bt_alloc_array(2 * touches + 2, sizeof *l->entries);
    if (!l->spans || !l->mentions || !l->heads || !l->cuts || !l->parts || !l->entries)
        return BT_ERROR_MEMORY;
    l->tails = l->heads + vars;
    lay_out(l);
    mention_all(l);
    return BT_OK;
}

bt_status bt_lives_list(bt_lives *lives)
{
    listing l;
    lives->count = 0;
    bt_status status = listing_new(&l, lives);
    for (int e = 0; status == BT_OK && e < lives->entry_count; e++)
        status = add_own(&l, e);
    for (int64_t v = 0; status == BT_OK && v < lives->var_count; v++)
        status = add_var(&l, v);
    bt_free(l.spans);
    bt_free(l.mentions);
    bt_free(l.heads);
    bt_free(l.cuts);
    bt_free(l.parts);
    bt_free(l.entries);
    return status;
}
