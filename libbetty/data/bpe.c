/* data/bpe.c: byte-pair encoding: starting from the characters of a piece, always joins the two neighbours that were
 * joined earliest in training. R. Sennrich, B. Haddow, A. Birch: Neural machine translation of rare words with subword
 * units (ACL 2016). */
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <stdio.h>
#include <string.h>

/* ---- the table of merges ---- */

bt_status bt_merges_begin(bt_model *model, int64_t count)
{
    int64_t slots = 16;
    while (slots < 2 * count + 1)
        slots *= 2;
    model->merges = bt_alloc_array((size_t)slots, sizeof *model->merges);
    model->merge_slots = model->merges ? slots : 0;
    for (int64_t i = 0; i < model->merge_slots; i++)
        model->merges[i].rank = -1;
    return model->merges ? BT_OK : BT_ERROR_MEMORY;
}

/* The slot of the pair, or the one where it would go. */
static bt_merge *merge_of(const bt_model *model, int32_t left, int32_t right)
{
    const int32_t pair[2] = {left, right};
    for (uint64_t at = bt_hash(0, pair, sizeof pair);; at++) {
        bt_merge *found = &model->merges[at & ((uint64_t)model->merge_slots - 1)];
        if (found->rank < 0 || (found->left == left && found->right == right))
            return found;
    }
}

void bt_merges_add(bt_model *model, int32_t left, int32_t right, int32_t made)
{
    *merge_of(model, left, right) =
        (bt_merge){.left = left, .right = right, .rank = (int32_t)model->merge_count++, .made = made};
}

/* ---- one piece ---- */

typedef struct symbol { /* a token of the piece at this stage */
    int32_t id;
    int32_t before, after; /* its neighbours; -1: none */
    bool gone;             /* merged into the one before */
} symbol;

typedef struct candidate { /* a possible merge of the symbol at `at` with the next one */
    int32_t rank, at, made;
} candidate;

struct bt_merge_work {
    symbol *symbols;
    int64_t count, symbol_room;
    candidate *heap; /* lowest rank first */
    int64_t heap_count, heap_room;
};

bt_merge_work *bt_merge_work_new(void) { return bt_alloc(sizeof(bt_merge_work)); }

void bt_merge_work_free(bt_merge_work *work)
{
    if (!work)
        return;
    bt_free(work->symbols);
    bt_free(work->heap);
    bt_free(work);
}

static bool sooner(candidate a, candidate b) { return a.rank != b.rank ? a.rank < b.rank : a.at < b.at; }

static bt_status push(bt_merge_work *w, candidate c)
{
    candidate *heap = bt_grow(w->heap, &w->heap_room, w->heap_count + 1, sizeof *heap);
    if (!heap)
        return BT_ERROR_MEMORY;
    w->heap = heap;
    int64_t at = w->heap_count++;
    for (; at > 0 && sooner(c, heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = c;
    return BT_OK;
}

static candidate pop(bt_merge_work *w)
{
    candidate *heap = w->heap, top = heap[0], last = heap[--w->heap_count];
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < w->heap_count; at = child) {
        if (child + 1 < w->heap_count && sooner(heap[child + 1], heap[child]))
            child++;
        if (!sooner(heap[child], last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return top;
}

/* Adds the merge of the symbol at `at` with its neighbour, if there are both and they can be merged. */
static bt_status consider(const bt_model *model, bt_merge_work *w, int32_t at)
{
    const int32_t after = at < 0 ? -1 : w->symbols[at].after;
    if (after < 0)
        return BT_OK;
    const bt_merge *merge = merge_of(model, w->symbols[at].id, w->symbols[after].id);
    return merge->rank < 0 ? BT_OK : push(w, (candidate){merge->rank, at, merge->made});
}

static bt_status merge_all(const bt_model *model, bt_merge_work *w)
{
    w->heap_count = 0;
    for (int64_t i = 0; i < w->count; i++)
        BT_TRY(consider(model, w, (int32_t)i));
    while (w->heap_count) {
        const candidate top = pop(w);
        symbol *left = &w->symbols[top.at];
        if (left->gone || left->after < 0)
            continue;
        symbol *right = &w->symbols[left->after];
        const bt_merge *merge = merge_of(model, left->id, right->id);
        if (merge->rank < 0 || merge->made != top.made) /* one of the two has changed since */
            continue;
        left->id = top.made;
        left->after = right->after;
        right->gone = true;
        if (left->after >= 0)
            w->symbols[left->after].before = top.at;
        BT_TRY(consider(model, w, left->before));
        BT_TRY(consider(model, w, top.at));
    }
    return BT_OK;
}

/* ---- the characters ---- */

static bt_status add(bt_merge_work *w, int32_t id)
{
    symbol *symbols = w->count < INT32_MAX ? bt_grow(w->symbols, &w->symbol_room, w->count + 1, sizeof *symbols) : NULL;
    if (!symbols)
        return w->count < INT32_MAX ? BT_ERROR_MEMORY
                                    : bt_fail(BT_ERROR_DATA, "a word of more than 2^31 characters cannot be tokenised");
    w->symbols = symbols;
    const int32_t at = (int32_t)w->count;
    if (at)
        symbols[at - 1].after = at;
    symbols[w->count++] = (symbol){.id = id, .before = at - 1, .after = -1};
    return BT_OK;
}

/* Finds the character together with the prefix or suffix for its position in the word. */
static int32_t find_character(const bt_tokenizer *t, const char *text, int64_t bytes, bool first, bool last)
{
    char buffer[256];
    const bt_model *m = &t->model;
    const char *prefix = first ? "" : m->prefix, *suffix = last ? m->suffix : "";
    if (!*prefix && !*suffix)
        return bt_tokenizer_find(t, text, bytes);
    const int size = snprintf(buffer, sizeof buffer, "%s%.*s%s", prefix, (int)bytes, text, suffix);
    return size < (int)sizeof buffer ? bt_tokenizer_find(t, buffer, size) : -1;
}

/* Adds the bytes of a character as tokens <0xNN>; *done is false, and nothing is added, if one of them is missing. */
static bt_status as_bytes(const bt_tokenizer *t, bt_merge_work *w, const char *text, int64_t bytes, bool *done)
{
    int32_t ids[4];
    *done = t->model.fallback;
    for (int64_t i = 0; i < bytes && *done; i++) {
        char name[8];
        const int size = snprintf(name, sizeof name, "<0x%02X>", (unsigned)(unsigned char)text[i]);
        ids[i] = bt_tokenizer_find(t, name, size);
        *done = ids[i] >= 0;
    }
    for (int64_t i = 0; i < bytes && *done; i++)
        BT_TRY(add(w, ids[i]));
    return BT_OK;
}

/* An unknown character waits for the next one: one token may stand for both. */
static bt_status fill(const bt_tokenizer *t, bt_merge_work *w, const char *text, int64_t size)
{
    const bt_model *m = &t->model;
    bool waits = false, done;
    int32_t c;
    for (int64_t at = 0, bytes; at < size && (bytes = bt_char_read(text + at, size - at, &c)); at += bytes) {
        const int32_t id = find_character(t, text + at, bytes, at == 0, at + bytes == size);
        if (id >= 0) {
            if (waits)
                BT_TRY(add(w, m->unknown));
            waits = false;
            BT_TRY(add(w, id));
            continue;
        }
        BT_TRY(as_bytes(t, w, text + at, bytes, &done));
        if (done || m->unknown < 0)
            continue;
        if (waits && !m->fuse)
            BT_TRY(add(w, m->unknown));
        waits = true;
    }
    return waits ? add(w, m->unknown) : BT_OK;
}

bt_status bt_bpe_tokenize(const bt_tokenizer *t, bt_merge_work *w, const char *text, int64_t size, bt_ids *ids)
{
    const int32_t whole = t->model.whole ? bt_tokenizer_find(t, text, size) : -1;
    if (whole >= 0) {
        bt_ids_put(ids, whole);
        return BT_OK;
    }
    w->count = 0;
    BT_TRY(fill(t, w, text, size));
    if (t->model.merge_count)
        BT_TRY(merge_all(&t->model, w));
    for (int64_t i = 0; i < w->count; i++)
        if (!w->symbols[i].gone)
            bt_ids_put(ids, w->symbols[i].id);
    return BT_OK;
}
