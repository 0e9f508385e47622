/* data/tokenizer.c: encodes a text as ids, and decodes it. */
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <stdlib.h>
#include <string.h>

void bt_ids_put(bt_ids *ids, int32_t id)
{
    int32_t *at = ids->failed ? NULL : bt_grow(ids->at, &ids->room, ids->count + 1, sizeof *at);
    ids->failed = !at;
    if (!at)
        return;
    ids->at = at;
    at[ids->count++] = id;
}

int32_t bt_tokenizer_find(const bt_tokenizer *t, const char *text, int64_t size)
{
    const int64_t number = bt_vocabulary_find(&t->tokens, text, size);
    return number < 0 ? -1 : t->ids[number];
}

/* ---- added tokens, found before the text is split ---- */

static const bt_added *added_at(const bt_tokenizer *t, bool normalized, const char *text, int64_t size)
{
    const int64_t count = t->begins[(unsigned char)*text] ? t->added_count : 0;
    for (int64_t i = 0; i < count; i++) {
        const bt_added *a = &t->added[i];
        if (a->normalized == normalized && a->match_size <= size && memcmp(a->match, text, (size_t)a->match_size) == 0)
            return a;
    }
    return NULL;
}

static unsigned classes_before(const char *text, int64_t at, int64_t *begin)
{
    int32_t c = 0;
    for (*begin = at - 1; *begin > 0 && ((unsigned char)text[*begin] & 0xC0) == 0x80;)
        --*begin;
    return at > 0 && bt_char_read(text + *begin, at - *begin, &c) ? bt_char_classes(c) : 0;
}

static unsigned classes_after(const char *text, int64_t at, int64_t size, int64_t *bytes)
{
    int32_t c;
    *bytes = bt_char_read(text + at, size - at, &c);
    return *bytes ? bt_char_classes(c) : 0;
}

typedef struct match {
    const bt_added *token;
    int64_t from, to;
} match;

/* The next added token from `at` on. Blanks that it includes before it do not reach back before `at`. */
static match next_match(const bt_tokenizer *t, bool normalized, const char *text, int64_t size, int64_t at)
{
    int64_t other;
    for (int64_t i = at; i < size; i++) {
        const bt_added *a = added_at(t, normalized, text + i, size - i);
        if (!a)
            continue;
        match m = {a, i, i + a->match_size};
        if (a->alone && ((classes_before(text, m.from, &other) & BT_WORDLY) ||
                         (classes_after(text, m.to, size, &other) & BT_WORDLY))) {
            i = m.to - 1;
            continue;
        }
        while (a->left && m.from > at && (classes_before(text, m.from, &other) & BT_SPACE))
            m.from = other;
        while (a->right && (classes_after(text, m.to, size, &other) & BT_SPACE))
            m.to += other;
        return m;
    }
    return (match){NULL, size, size};
}

/* ---- encoding ---- */

typedef struct work {
    const bt_tokenizer *t;
    bt_pieces a, b;       /* for normalisers */
    bt_pieces c, d;       /* for splitters */
    bt_merge_work *merge; /* for the model */
    bt_ids *ids;
} work;

static bt_status encode_part(work *w, const char *text, int64_t size, bool begins)
{
    bt_pieces_clear(&w->c);
    bt_pieces_add(&w->c, text, size);
    w->c.begins = begins;
    bt_steps_run(w->t->splitters.items, w->t->splitters.count, &w->c, &w->d);
    for (int64_t i = 0; i < w->c.count && !w->c.failed; i++) {
        int64_t bytes;
        const char *piece = bt_pieces_get(&w->c, i, &bytes);
        BT_TRY(w->t->model.tokenize(w->t, w->merge, piece, bytes, w->ids));
    }
    return w->c.failed || w->ids->failed ? BT_ERROR_MEMORY : BT_OK;
}

/* Encodes the text between added tokens that are looked for before normalisation. */
static bt_status encode_raw(work *w, const char *text, int64_t size, bool begins)
{
    bt_pieces_clear(&w->a);
    bt_pieces_add(&w->a, text, size);
    bt_steps_run(w->t->normalizers.items, w->t->normalizers.count, &w->a, &w->b);
    if (w->a.failed)
        return BT_ERROR_MEMORY;
    int64_t length = 0;
    const char *all = w->a.count ? bt_pieces_get(&w->a, 0, &length) : "";
    for (int64_t at = 0; at < length;) {
        const match m = next_match(w->t, true, all, length, at);
        BT_TRY(encode_part(w, all + at, m.from - at, begins && at == 0));
        if (m.token)
            bt_ids_put(w->ids, m.token->id);
        at = m.to;
    }
    return BT_OK;
}

static bt_status encode(const bt_tokenizer *t, const char *text, int64_t size, bool special, bt_ids *ids)
{
    work w = {.t = t, .merge = bt_merge_work_new(), .ids = ids};
    bt_status status = w.merge ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; special && i < t->before.count; i++)
        bt_ids_put(ids, t->before.at[i]);
    for (int64_t at = 0; at < size && status == BT_OK;) {
        const match m = next_match(t, false, text, size, at);
        if (m.from > at)
            status = encode_raw(&w, text + at, m.from - at, at == 0);
        if (m.token && status == BT_OK)
            bt_ids_put(ids, m.token->id);
        at = m.to;
    }
    for (int64_t i = 0; special && i < t->behind.count; i++)
        bt_ids_put(ids, t->behind.at[i]);
    bt_pieces_free(&w.a);
    bt_pieces_free(&w.b);
    bt_pieces_free(&w.c);
    bt_pieces_free(&w.d);
    bt_merge_work_free(w.merge);
    return status == BT_OK && ids->failed ? BT_ERROR_MEMORY : status;
}

bt_status bt_tokenizer_ids(const bt_tokenizer *t, const char *text, int64_t size, bool special, bt_ids *ids)
{
    const int64_t bad = bt_not_utf8(text, size);
    if (bad >= 0)
        return bt_fail(BT_ERROR_DATA, "the text is not UTF-8: byte %lld is 0x%02X; convert it with iconv",
                       (long long)bad, (unsigned)(unsigned char)text[bad]);
    return encode(t, text, size, special, ids);
}

int64_t bt_tokenizer_encode(const bt_tokenizer *t, const char *text, int64_t length, bool special, int32_t *ids,
                            int64_t room)
{
    if (!t || !text || length < -1 || (room > 0 && !ids)) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_tokenizer_encode: the %s is %s",
                !t            ? "tokenizer"
                : !text       ? "text"
                : length < -1 ? "length"
                              : "place for the ids",
                length < -1 ? "negative" : "NULL");
        return -1;
    }
    bt_ids found = {0};
    const bt_status status = bt_tokenizer_ids(t, text, length < 0 ? (int64_t)strlen(text) : length, special, &found);
    const int64_t count = status == BT_OK ? found.count : -1, written = count < room ? count : room;
    if (written > 0)
        memcpy(ids, found.at, (size_t)written * sizeof *ids);
    bt_free(found.at);
    return count;
}

/* ---- decoding ---- */

static bool is_special(const bt_tokenizer *t, int32_t id)
{
    for (int64_t i = 0; i < t->added_count; i++)
        if (t->added[i].special && t->added[i].id == id)
            return true;
    return false;
}

static bt_status decode(const bt_tokenizer *t, const int32_t *ids, int64_t count, bool special, bt_pieces *a)
{
    bt_pieces b = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t size;
        if (ids[i] < 0 || ids[i] >= t->size || t->numbers[ids[i]] < 0)
            return bt_fail(BT_ERROR_ARGUMENT, "bt_tokenizer_decode: %d is not a token; ids are 0 to %lld", (int)ids[i],
                           (long long)t->size - 1);
        const char *text = bt_vocabulary_get(&t->tokens, t->numbers[ids[i]], &size);
        if (special || !is_special(t, ids[i]))
            bt_pieces_add(a, text, size);
    }
    bt_steps_run(t->decoders.items, t->decoders.count, a, &b);
    bt_pieces_free(&b);
    return a->failed ? BT_ERROR_MEMORY : BT_OK;
}

int64_t bt_tokenizer_decode(const bt_tokenizer *t, const int32_t *ids, int64_t count, bool special, char *text,
                            int64_t room)
{
    if (!t || (count > 0 && !ids) || count < 0 || (room > 0 && !text)) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_tokenizer_decode: the %s is %s",
                !t          ? "tokenizer"
                : count < 0 ? "count"
                : !ids      ? "list of ids"
                            : "place for the text",
                count < 0 ? "negative" : "NULL");
        return -1;
    }
    bt_pieces a = {0};
    const int64_t size = decode(t, ids, count, special, &a) == BT_OK ? a.size : -1;
    const int64_t written = size < room - 1 ? size : room - 1;
    if (written > 0)
        memcpy(text, a.bytes, (size_t)written);
    if (size >= 0 && room > 0)
        text[written] = 0;
    bt_pieces_free(&a);
    return size;
}

/* ---- queries ---- */

int64_t bt_tokenizer_size(const bt_tokenizer *t) { return t ? t->size : 0; }

int64_t bt_tokenizer_id(const bt_tokenizer *t, const char *token)
{
    return t && token ? bt_tokenizer_find(t, token, (int64_t)strlen(token)) : -1;
}

const char *bt_tokenizer_token(const bt_tokenizer *t, int64_t id)
{
    int64_t size;
    const bool known = t && id >= 0 && id < t->size && t->numbers[id] >= 0;
    return known ? bt_vocabulary_get(&t->tokens, t->numbers[id], &size) : NULL;
}

int64_t bt_tokenizer_special(const bt_tokenizer *t, bt_special which)
{
    return t && (int)which >= 0 && which < BT_SPECIALS ? t->special[which] : -1;
}
