/* data/vocabulary.c: distinct texts, each with a number. */
#include "data/vocabulary.h"

#include <stdlib.h>
#include <string.h>

const char *bt_vocabulary_get(const bt_vocabulary *v, int64_t number, int64_t *size)
{
    const int64_t begin = number ? v->ends[number - 1] : 0;
    *size = v->ends[number] - begin - 1;
    return v->pool + begin;
}

/* The slot of a text, or the empty one where it would go. There is always an empty slot. */
static int64_t *slot_of(const bt_vocabulary *v, const char *text, int64_t size)
{
    const uint64_t mask = (uint64_t)v->slot_count - 1;
    for (uint64_t at = bt_hash(0, text, (size_t)size);; at++) {
        int64_t *slot = &v->slots[at & mask], length = -1;
        const char *other = *slot < 0 ? NULL : bt_vocabulary_get(v, *slot, &length);
        if (*slot < 0 || (length == size && memcmp(other, text, (size_t)size) == 0))
            return slot;
    }
}

/* Keeps at least half of the slots empty. */
static bt_status widen(bt_vocabulary *v)
{
    if (2 * (v->count + 1) <= v->slot_count)
        return BT_OK;
    const int64_t wider = v->slot_count ? 2 * v->slot_count : 256;
    int64_t *slots = bt_alloc_array((size_t)wider, sizeof *slots);
    if (!slots)
        return BT_ERROR_MEMORY;
    bt_free(v->slots);
    v->slots = slots;
    v->slot_count = wider;
    for (int64_t i = 0; i < wider; i++)
        slots[i] = -1;
    for (int64_t i = 0; i < v->count; i++) {
        int64_t size;
        const char *text = bt_vocabulary_get(v, i, &size);
        *slot_of(v, text, size) = i;
    }
    return BT_OK;
}

bt_status bt_vocabulary_add(bt_vocabulary *v, const char *text, int64_t size, int64_t *number)
{
    BT_TRY(widen(v));
    int64_t *slot = slot_of(v, text, size);
    *number = *slot;
    if (*slot >= 0)
        return BT_OK;
    int64_t *ends = bt_grow(v->ends, &v->room, v->count + 1, sizeof *ends);
    v->ends = ends ? ends : v->ends;
    char *pool = ends ? bt_grow(v->pool, &v->pool_room, v->pool_size + size + 1, 1) : NULL;
    v->pool = pool ? pool : v->pool;
    if (!pool)
        return BT_ERROR_MEMORY;
    memcpy(pool + v->pool_size, text, (size_t)size);
    pool[v->pool_size + size] = 0;
    v->pool_size += size + 1;
    v->ends[v->count] = v->pool_size;
    *number = *slot = v->count++;
    return BT_OK;
}

int64_t bt_vocabulary_find(const bt_vocabulary *v, const char *text, int64_t size)
{
    return v->slot_count ? *slot_of(v, text, size) : -1;
}

static int most_frequent_first(const void *a, const void *b)
{
    const bt_ranked *x = a, *y = b;
    if (x->times != y->times)
        return x->times > y->times ? -1 : 1;
    const int order = memcmp(x->text, y->text, (size_t)(x->size < y->size ? x->size : y->size));
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

bt_ranked *bt_vocabulary_rank(const bt_vocabulary *v, const int64_t *times)
{
    bt_ranked *all = bt_alloc_array((size_t)v->count, sizeof *all);
    for (int64_t i = 0; all && i < v->count; i++) {
        all[i] = (bt_ranked){.number = i, .times = times[i]};
        all[i].text = bt_vocabulary_get(v, i, &all[i].size);
    }
    if (all && v->count)
        qsort(all, (size_t)v->count, sizeof *all, most_frequent_first);
    return all;
}

void bt_vocabulary_free(bt_vocabulary *v)
{
    bt_free(v->pool);
    bt_free(v->ends);
    bt_free(v->slots);
    *v = (bt_vocabulary){0};
}
