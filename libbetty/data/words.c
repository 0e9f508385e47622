/* data/words.c: the vocabulary of some texts, and texts as word frequencies. */
#include "data/words.h"
#include "data/vocabulary.h"

#include <math.h>
#include <string.h>

struct bt_words {
    bt_vocabulary all;  /* every word of the texts */
    int64_t *in, *last; /* [all.count]: number of texts with the word; the last such text */
    int64_t *place;     /* [all.count]: index in the chosen vocabulary; -1: not in it */
    int64_t in_room, last_room;
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
    bt_vocabulary_free(&w->all);
    bt_free(w->in);
    bt_free(w->last);
    bt_free(w->place);
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

/* Counts one more text that has the word. */
static bt_status count(bt_words *w, int64_t number, bool new)
{
    int64_t *in = bt_grow(w->in, &w->in_room, w->all.count, sizeof *in);
    w->in = in ? in : w->in;
    int64_t *last = in ? bt_grow(w->last, &w->last_room, w->all.count, sizeof *last) : NULL;
    w->last = last ? last : w->last;
    if (!last)
        return BT_ERROR_MEMORY;
    if (new)
        in[number] = 0;
    in[number] += new || last[number] != w->texts;
    last[number] = w->texts;
    return BT_OK;
}

bt_status bt_words_add(bt_words *w, const char *text, int64_t length)
{
    const char *token;
    int64_t size, number;
    for (int64_t at = 0; next_word(text, length, &at, &token, &size);) {
        const int64_t before = w->all.count;
        BT_TRY(bt_vocabulary_add(&w->all, token, size, &number));
        BT_TRY(count(w, number, number == before));
    }
    w->texts++;
    return BT_OK;
}

int64_t bt_words_choose(bt_words *w, int64_t most)
{
    int64_t size = w->all.count < most ? w->all.count : most;
    bt_ranked *ranked = bt_vocabulary_rank(&w->all, w->in);
    w->place = ranked ? bt_alloc_array((size_t)w->all.count, sizeof *w->place) : NULL;
    w->weights = w->place ? bt_alloc_array((size_t)size, sizeof *w->weights) : NULL;
    if (!w->weights)
        size = 0;
    for (int64_t i = 0; size && i < w->all.count; i++)
        w->place[ranked[i].number] = i < size ? i : -1;
    for (int64_t i = 0; i < size; i++)
        w->weights[i] = log((double)(1 + w->texts) / (double)(1 + ranked[i].times)) + 1;
    bt_free(ranked);
    return w->size = size;
}

void bt_words_row(const bt_words *w, const char *text, int64_t length, float *row)
{
    const char *token;
    int64_t size;
    double square = 0;
    memset(row, 0, (size_t)w->size * sizeof *row);
    for (int64_t at = 0; next_word(text, length, &at, &token, &size);) {
        const int64_t found = bt_vocabulary_find(&w->all, token, size);
        if (found >= 0 && w->place[found] >= 0)
            row[w->place[found]]++;
    }
    for (int64_t i = 0; i < w->size; i++)
        square += (double)row[i] * w->weights[i] * (double)row[i] * w->weights[i];
    for (int64_t i = 0; square > 0 && i < w->size; i++)
        row[i] = (float)((double)row[i] * w->weights[i] / sqrt(square));
}
