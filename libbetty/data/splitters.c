/* data/splitters.c: steps that cut a text into pieces, which a model then turns into tokens. */
#include "data/unicode.h"

#include <string.h>

/* ---- at separators ---- */

typedef struct cutter { /* cuts a piece: text, separator, separator, text, ... */
    bt_cut cut;
    bt_pieces *to;
    bool open, last; /* open: the last part can be extended; last: it was a separator */
} cutter;

static void part(cutter *k, const char *text, int64_t size, bool separator)
{
    const bool follows = k->cut == BT_CUT_MERGED_WITH_PREVIOUS ? separator && !k->last
                         : k->cut == BT_CUT_MERGED_WITH_NEXT   ? !separator && k->last
                         : k->cut == BT_CUT_CONTIGUOUS         ? separator == k->last
                                                               : false;
    if (size <= 0)
        return;
    if (!(k->open && follows))
        bt_pieces_end(k->to);
    if (!(separator && k->cut == BT_CUT_REMOVED))
        bt_pieces_put(k->to, text, size);
    k->open = true;
    k->last = separator;
}

void bt_step_split(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    for (int64_t i = 0; i < from->count; i++) {
        cutter k = {.cut = (bt_cut)step->setting, .to = to};
        int64_t size, bytes, begin = 0, at = 0;
        int32_t c;
        const char *text = bt_pieces_get(from, i, &size);
        for (; at < size && (bytes = bt_char_read(text + at, size - at, &c)); at += bytes)
            if ((c && c == step->character) || (bt_char_classes(c) & step->classes)) {
                part(&k, text + begin, at - begin, false);
                part(&k, text + at, bytes, true);
                begin = at + bytes;
            }
        part(&k, text + begin, at - begin, false);
        bt_pieces_end(to);
    }
}

void bt_step_split_text(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    const int64_t length = (int64_t)strlen(step->text);
    for (int64_t i = 0; i < from->count; i++) {
        cutter k = {.cut = (bt_cut)step->setting, .to = to};
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size), *end = text + size, *found;
        while ((found = memmem(text, (size_t)(end - text), step->text, (size_t)length))) {
            part(&k, text, found - text, false);
            part(&k, found, length, true);
            text = found + length;
        }
        part(&k, text, end - text, false);
        bt_pieces_end(to);
    }
}

/* ---- like matches of regular expressions ---- */

/* The length of the run of characters that have one of `classes`, or, with `other`, none of them. */
static int64_t run(const char *text, int64_t size, unsigned classes, bool other)
{
    int64_t at = 0, bytes;
    int32_t c;
    while (at < size && (bytes = bt_char_read(text + at, size - at, &c)) && !(bt_char_classes(c) & classes) == other)
        at += bytes;
    return at;
}

void bt_step_words(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    (void)step;
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size);
        for (int64_t at = 0, length; at < size; at += length) {
            if (!(length = run(text + at, size - at, BT_WORDLY, false)))
                length = run(text + at, size - at, BT_WORDLY | BT_SPACE, true);
            bt_pieces_add(to, text + at, length);
            if (!length)
                length = run(text + at, size - at, BT_SPACE, false);
        }
    }
}

static int64_t contraction(const char *text, int64_t size)
{
    static const char *const all[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (int i = 0; i < BT_COUNT_OF(all); i++) {
        const int64_t length = (int64_t)strlen(all[i]);
        if (size >= length && memcmp(text, all[i], (size_t)length) == 0)
            return length;
    }
    return 0;
}

/* A run of blanks; without the last one if something follows, since that blank may belong to it. */
static int64_t blanks(const char *text, int64_t size)
{
    const int64_t all = run(text, size, BT_SPACE, false);
    int64_t last = 0, at = 0, bytes;
    int32_t c;
    while (at < all && (bytes = bt_char_read(text + at, all - at, &c))) {
        last = at;
        at += bytes;
    }
    return all == size || last == 0 ? all : last;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static int64_t gpt2(const char *text, int64_t size)
{
    int64_t length = contraction(text, size);
    const int64_t blank = size > 0 && *text == ' ', left = size - blank;
    if (length)
        return length;
    if ((length = run(text + blank, left, BT_LETTER, false)) || (length = run(text + blank, left, BT_NUMBER, false)) ||
        (length = run(text + blank, left, BT_SPACE | BT_LETTER | BT_NUMBER, true)))
        return blank + length;
    return blanks(text, size);
}

void bt_step_gpt2(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    (void)step;
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size);
        for (int64_t at = 0, length; at < size && (length = gpt2(text + at, size - at)); at += length)
            bt_pieces_add(to, text + at, length);
    }
}

/* ---- bytes as characters ---- */

/* Bytes that are visible characters of Latin-1 stand for themselves; the others become 256, 257, ... */
static bool is_visible(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

int bt_byte_of_character(int32_t c)
{
    if (c >= 0 && c < 256)
        return is_visible(c) ? c : -1;
    for (int byte = 0, next = 256; byte < 256; byte++)
        if (!is_visible(byte) && next++ == c)
            return byte;
    return -1;
}

void bt_step_bytes(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    char characters[256][4];
    int64_t sizes[256];
    (void)step;
    for (int byte = 0, next = 256; byte < 256; byte++)
        sizes[byte] = bt_char_write(is_visible(byte) ? byte : next++, characters[byte]);
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size;
        const unsigned char *text = (const unsigned char *)bt_pieces_get(from, i, &size);
        for (int64_t k = 0; k < size; k++)
            bt_pieces_put(to, characters[text[k]], sizes[text[k]]);
        bt_pieces_end(to);
    }
}

void bt_step_metaspace(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    const int64_t length = (int64_t)strlen(step->text);
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size);
        const bool has = size > 0 && (*text == ' ' || (size >= length && !memcmp(text, step->text, (size_t)length)));
        if (!has && (step->setting == BT_PREPEND_ALWAYS || (step->setting == BT_PREPEND_FIRST && from->begins && !i)))
            bt_pieces_put(to, step->text, length);
        for (int64_t k = 0; k < size; k++)
            if (text[k] == ' ')
                bt_pieces_put(to, step->text, length);
            else
                bt_pieces_put(to, text + k, 1);
        bt_pieces_end(to);
    }
}
