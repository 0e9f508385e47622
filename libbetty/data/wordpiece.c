/* data/wordpiece.c: tokeniser models with whole words, with characters, and with the longest parts of words: M.
 * Schuster, K. Nakajima: Japanese and Korean voice search (ICASSP 2012), as in BERT. */
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <string.h>

static bt_status no_token(const char *text, int64_t size)
{
    return bt_fail(BT_ERROR_DATA, "\"%.*s\" is not a token, and the tokeniser has none for unknown words",
                   (int)(size < 80 ? size : 80), text);
}

static bt_status put_unknown(const bt_tokenizer *t, const char *text, int64_t size, bt_ids *ids)
{
    if (t->model.unknown < 0)
        return no_token(text, size);
    bt_ids_put(ids, t->model.unknown);
    return BT_OK;
}

bt_status bt_words_tokenize(const bt_tokenizer *t, bt_merge_work *work, const char *text, int64_t size, bt_ids *ids)
{
    (void)work;
    const int32_t id = bt_tokenizer_find(t, text, size);
    if (id < 0)
        return put_unknown(t, text, size, ids);
    bt_ids_put(ids, id);
    return BT_OK;
}

bt_status bt_characters_tokenize(const bt_tokenizer *t, bt_merge_work *work, const char *text, int64_t size,
                                 bt_ids *ids)
{
    int32_t c;
    for (int64_t at = 0, bytes; at < size && (bytes = bt_char_read(text + at, size - at, &c)); at += bytes)
        BT_TRY(bt_words_tokenize(t, work, text + at, bytes, ids));
    return BT_OK;
}

/* The longest token at the start of the text; inside a word, tokens start with the prefix. *bytes: its length without
 * the prefix; 0: none. */
static int32_t longest(const bt_tokenizer *t, const char *text, int64_t size, bool first, int64_t *bytes)
{
    char buffer[BT_LONGEST_TOKEN];
    const int64_t prefix = first ? 0 : (int64_t)strlen(t->model.prefix);
    const int64_t most = size < t->longest - prefix ? size : t->longest - prefix;
    memcpy(buffer, t->model.prefix, (size_t)prefix);
    memcpy(buffer + prefix, text, (size_t)(most > 0 ? most : 0));
    for (*bytes = most > 0 ? most : 0; *bytes > 0; --*bytes) {
        const bool inside = *bytes < size && ((unsigned char)text[*bytes] & 0xC0) == 0x80;
        const int32_t id = inside ? -1 : bt_tokenizer_find(t, buffer, prefix + *bytes);
        if (id >= 0)
            return id;
    }
    return -1;
}

static int64_t characters(const char *text, int64_t size)
{
    int64_t count = 0;
    for (int64_t i = 0; i < size; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

/* If any part of a word is unknown, the whole word is. */
bt_status bt_wordpiece_tokenize(const bt_tokenizer *t, bt_merge_work *work, const char *text, int64_t size, bt_ids *ids)
{
    (void)work;
    const int64_t before = ids->count;
    bool good = characters(text, size) <= t->model.longest;
    for (int64_t at = 0, bytes; good && at < size; at += bytes) {
        const int32_t id = longest(t, text + at, size - at, at == 0, &bytes);
        good = id >= 0;
        if (good)
            bt_ids_put(ids, id);
    }
    if (good)
        return BT_OK;
    ids->count = before;
    return put_unknown(t, text, size, ids);
}
