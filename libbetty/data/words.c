/* data/words.c: the vocabulary of some texts. */
#include "data/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct word {
    const char *text;
    int64_t length;
    int64_t texts, last; /* how many have it; the last of them */
    int64_t place;       /* in the vocabulary; -1: not in it */
} word;

struct bt_words {
    word *words;
    int64_t count, room;
    int64_t *slots; /* a hash table: which word; -1: none */
    int64_t slot_count;
    int64_t texts, size;
    double *weights; /* [size] */
};

void bt_words_normalise(char *text, int64_t length)
{
    for (int64_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        bool large = c >= 'A' && c <= 'Z', small = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';
        text[i] = (char)(large ? c - 'A' + 'a' : small || digit || c >= 0x80 ? c : ' ');
    }
}

bt_words *bt_words_new(void) { return bt_alloc(sizeof(bt_words)); }

void bt_words_free(bt_words *w)
{
    if (!w)
        return;
    bt_free(w->words);
    bt_free(w->slots);
    bt_free(w->weights);
    bt_free(w);
}

/* The next word from *at on; false at the end. */
static bool next_word(const char *text, int64_t length, int64_t *at, const char **word, int64_t *size)
{
    while (*at < length && text[*at] == ' ')
        ++*at;
    *word = text + *at;
    while (*at < length && text[*at] != ' ')
        ++*at;
    *size = text + *at - *word;
    return *size > 0;
}

/* Where a word is, or where it would be. There is an empty slot. */
static int64_t *find(const bt_words *w, const char *text, int64_t length)
{
    uint64_t mask = (uint64_t)w->slot_count - 1;
    for (uint64_t at = bt_hash(0, text, (size_t)length);; at++) {
        int64_t *slot = &w->slots[at & mask];
        if (*slot < 0 || (w->words[*slot].length == length && memcmp(w->words[*slot].text, text, (size_t)length) == 0))
            return slot;
    }
}

/* At least half of the slots stay empty. */
static bt_status make_room(bt_words *w)
{
    if (2 * (w->count + 1) > w->slot_count) {
        int64_t wider = w->slot_count ? 2 * w->slot_count : 256;
        int64_t *slots = bt_alloc_array((size_t)wider, sizeof *slots);
        if (!slots)
            return BT_ERROR_MEMORY;
        bt_free(w->slots);
        w->slots = slots;
        w->slot_count = wider;
        for (int64_t i = 0; i < wider; i++)
            slots[i] = -1;
        for (int64_t i = 0; i < w->count; i++)
            *find(w, w->words[i].text, w->words[i].length) = i;
    }
    word *words = bt_grow(w->words, &w->room, w->count + 1, sizeof *words);
    w->words = words ? words : w->words;
    return words ? BT_OK : BT_ERROR_MEMORY;
}

bt_status bt_words_add(bt_words *w, const char *text, int64_t length)
{
    const char *token;
    int64_t size;
    for (int64_t at = 0; next_word(text, length, &at, &token, &size);) {
        BT_TRY(make_room(w));
        int64_t *slot = find(w, token, size);
        if (*slot < 0) {
            *slot = w->count;
            w->words[w->count++] = (word){.text = token, .length = size, .last = -1, .place = -1};
        }
        word *found = &w->words[*slot];
        found->texts += found->last != w->texts;
        found->last = w->texts;
    }
    w->texts++;
    return BT_OK;
}

static int compare(const void *a, const void *b)
{
    const word *x = *(const word *const *)a, *y = *(const word *const *)b;
    if (x->texts != y->texts)
        return x->texts > y->texts ? -1 : 1;
    int order = memcmp(x->text, y->text, (size_t)(x->length < y->length ? x->length : y->length));
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

int64_t bt_words_choose(bt_words *w, int64_t most)
{
    int64_t size = w->count < most ? w->count : most;
    word **order = bt_alloc_array((size_t)w->count, sizeof *order);
    w->weights = order ? bt_alloc_array((size_t)size, sizeof *w->weights) : NULL;
    if (!w->weights)
        size = 0;
    for (int64_t i = 0; size && i < w->count; i++)
        order[i] = &w->words[i];
    if (size)
        qsort(order, (size_t)w->count, sizeof *order, compare);
    for (int64_t i = 0; i < size; i++) {
        order[i]->place = i;
        w->weights[i] = log((double)(1 + w->texts) / (double)(1 + order[i]->texts)) + 1;
    }
    bt_free(order);
    return w->size = size;
}

void bt_words_row(const bt_words *w, const char *text, int64_t length, float *row)
{
    const char *token;
    int64_t size;
    double square = 0;
    memset(row, 0, (size_t)w->size * sizeof *row);
    for (int64_t at = 0; next_word(text, length, &at, &token, &size);) {
        int64_t found = *find(w, token, size);
        if (found >= 0 && w->words[found].place >= 0)
            row[w->words[found].place]++;
    }
    for (int64_t i = 0; i < w->size; i++)
        square += (double)row[i] * w->weights[i] * (double)row[i] * w->weights[i];
    for (int64_t i = 0; square > 0 && i < w->size; i++)
        row[i] = (float)((double)row[i] * w->weights[i] / sqrt(square));
}
