/* data/windows.c: a text as windows of tokens. The tokens are stored once, even if windows overlap: each row of the
 * store begins one token after the previous one, and a map tells which rows are examples. */
#include "data/corpus.h"
#include "data/places.h"
#include "data/read.h"
#include "data/tokenizer.h"

#include <math.h>
#include <string.h>

typedef struct windows {
    const char *text;
    const bt_tokenizer *tokenizer;
    int64_t length, stride;
    double from, to;
    bt_corpus corpus;
    bt_store *tokens;               /* [all tokens - length + 1, length], rows that start one token apart */
    int32_t *first, *next, *source; /* [count] each: rows of the store, and the source */
    int64_t count;
} windows;

/* ---- the tokens ---- */

static bt_status encode_source(const windows *w, const char *path, bt_ids *ids)
{
    char *text;
    int64_t size;
    BT_TRY(bt_corpus_read(path, &text, &size));
    bt_status status = bt_tokenizer_ids(w->tokenizer, text, size, false, ids);
    bt_free(text);
    if (status == BT_OK && ids->count >= BT_MAX_EXAMPLES)
        status = bt_fail(BT_ERROR_DATA, "%s: the text has more than %d tokens", w->text, BT_MAX_EXAMPLES);
    return status;
}

static bt_status encode(windows *w)
{
    bt_ids ids = {0};
    int32_t *borders = bt_alloc_array((size_t)w->corpus.count + 1, sizeof *borders);
    bt_status status = borders ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; i < w->corpus.count && status == BT_OK; i++) {
        status = encode_source(w, w->corpus.paths[i], &ids);
        borders[i + 1] = (int32_t)ids.count;
    }
    if (status == BT_OK && ids.count <= w->length)
        status = bt_fail(BT_ERROR_DATA, "%s: the text has %lld tokens; windows of %lld tokens need one more than that",
                         w->text, (long long)ids.count, (long long)w->length);
    bt_array array = {.dtype = BT_I32, .rank = 1, .dims = {ids.count}, .data = ids.at};
    w->tokens = status == BT_OK ? bt_store_windows(array, w->length) : NULL;
    if (w->tokens) {
        w->tokens->borders = borders;
        return BT_OK;
    }
    bt_free(borders);
    if (status != BT_OK)
        bt_free(ids.at);
    return status == BT_OK ? BT_ERROR_MEMORY : status;
}

/* Sets with the same text, tokeniser and length share their tokens. */
static bt_status find_tokens(windows *w)
{
    bt_text key = {0};
    for (int64_t i = 0; i < w->corpus.count; i++)
        bt_store_identify(&key, w->corpus.paths[i]);
    bt_text_add(&key, "windows/%llx/%lld", (unsigned long long)w->tokenizer->hash, (long long)w->length);
    w->tokens = bt_store_find(bt_text_get(&key), 0);
    bt_status status = key.failed ? BT_ERROR_MEMORY : BT_OK;
    if (status == BT_OK && !w->tokens) {
        status = encode(w);
        if (status == BT_OK)
            bt_store_publish(w->tokens, bt_text_get(&key), 0);
    }
    bt_text_free(&key);
    return status;
}

/* ---- the windows ---- */

/* The number of windows of one source; writes them if there is room. */
static int64_t windows_of(const windows *w, int64_t source, int64_t at)
{
    const int32_t *borders = w->tokens->borders;
    const int64_t begin = borders[source], size = borders[source + 1] - begin;
    const int64_t from = begin + llround(w->from * (double)size), to = begin + llround(w->to * (double)size);
    const int64_t room = to - from - w->length, count = room > 0 ? (room - 1) / w->stride + 1 : 0;
    for (int64_t i = 0; w->first && i < count; i++) {
        w->first[at + i] = (int32_t)(from + i * w->stride);
        w->next[at + i] = w->first[at + i] + 1;
        w->source[at + i] = (int32_t)source;
    }
    return count;
}

static bt_status choose(windows *w)
{
    for (int64_t i = 0; i < w->corpus.count; i++)
        w->count += windows_of(w, i, 0);
    if (!w->count)
        return bt_fail(BT_ERROR_DATA,
                       "%s: from %g to %g there is no room for a window of %lld tokens and the token after it", w->text,
                       w->from, w->to, (long long)w->length);
    w->next = bt_alloc_array((size_t)w->count, sizeof *w->next);
    w->source = bt_alloc_array((size_t)w->count, sizeof *w->source);
    w->first = w->next && w->source ? bt_alloc_array((size_t)w->count, sizeof *w->first) : NULL;
    if (!w->first)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0, at = 0; i < w->corpus.count; i++)
        at += windows_of(w, i, at);
    return BT_OK;
}

static bt_dataset *make(windows *w)
{
    static const char *const names[] = {"token", "next", "source"};
    bt_array array = {.dtype = BT_I32, .rank = 1, .dims = {w->count}, .data = w->source};
    bt_store *stores[] = {w->tokens, bt_store_again(w->tokens), bt_store_new(array, false)};
    w->tokens = NULL;
    w->source = NULL;
    bt_dataset *data = bt_dataset_of(bt_dataset_new(w->count), names, stores, BT_COUNT_OF(names));
    bt_status status = data ? bt_dataset_map(data, "token", w->first) : bt_error_status();
    if (status == BT_OK)
        status = bt_dataset_map(data, "next", w->next);
    return bt_dataset_done(data, status);
}

static bt_status find_sources(const char *text, bt_corpus *corpus)
{
    BT_TRY(bt_corpus_find(text, corpus));
    return corpus->count ? BT_OK
                         : bt_places_lack("text", text,
                                          "; expected a file, NAME.txt or NAME.txt.gz, or a folder of such files; "
                                          "\"austen\" comes with the library");
}

static bt_status check(const windows *w)
{
    if (!w->text || !*w->text || !w->tokenizer)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_windows: the %s is missing", w->tokenizer ? "text" : "tokenizer");
    if (w->length < 1 || w->length >= BT_MAX_EXAMPLES || w->stride < 1 || w->stride >= BT_MAX_EXAMPLES)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_windows: %s is %lld; expected at least 1, and less than 2^31",
                       w->length < 1 || w->length >= BT_MAX_EXAMPLES ? "length" : "stride",
                       (long long)(w->length < 1 || w->length >= BT_MAX_EXAMPLES ? w->length : w->stride));
    if (!(w->from >= 0 && w->from < w->to && w->to <= 1))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_windows: found from %g to %g; expected 0 <= from < to <= 1",
                       w->from, w->to);
    return BT_OK;
}

bt_dataset *bt_dataset_windows(const char *text, const bt_tokenizer *tokenizer, int64_t length, int64_t stride,
                               double from, double to)
{
    windows w = {.text = text, .tokenizer = tokenizer, .length = length, .stride = stride, .from = from, .to = to};
    bt_dataset *data = NULL;
    bt_status status = check(&w);
    if (status == BT_OK)
        status = find_sources(text, &w.corpus);
    if (status == BT_OK)
        status = find_tokens(&w);
    if (status == BT_OK)
        status = choose(&w);
    if (status == BT_OK)
        data = make(&w);
    bt_store_release(w.tokens);
    bt_corpus_free(&w.corpus);
    bt_free(w.first);
    bt_free(w.next);
    bt_free(w.source);
    return data;
}

int64_t bt_text_sources(const char *text)
{
    bt_corpus corpus = {0};
    bt_status status = text && *text ? find_sources(text, &corpus)
                                     : bt_fail(BT_ERROR_ARGUMENT, "bt_text_sources: the text is missing");
    const int64_t count = status == BT_OK ? corpus.count : -1;
    bt_corpus_free(&corpus);
    return count;
}
