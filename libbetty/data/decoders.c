/* data/decoders.c: steps that turn tokens back into text. */
#include "data/unicode.h"

#include <stdio.h>
#include <string.h>

static bool begins_with(const char *text, int64_t size, const char *with, int64_t length)
{
    return size >= length && memcmp(text, with, (size_t)length) == 0;
}

static void put(bt_pieces *to, const char *text) { bt_pieces_put(to, text, (int64_t)strlen(text)); }

void bt_step_join(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size);
        if (i)
            put(to, step->text);
        bt_pieces_put(to, text, size);
    }
    bt_pieces_end(to);
}

/* A token is decoded only if all its characters stand for bytes; otherwise it is kept as it is. */
static bool is_bytes(const char *text, int64_t size)
{
    int32_t c;
    for (int64_t at = 0, bytes; at < size; at += bytes)
        if (!(bytes = bt_char_read(text + at, size - at, &c)) || bt_byte_of_character(c) < 0)
            return false;
    return true;
}

void bt_step_unbyte(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    (void)step;
    bt_pieces all = {0};
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size, bytes;
        int32_t c;
        const char *text = bt_pieces_get(from, i, &size);
        if (!is_bytes(text, size)) {
            bt_pieces_put(&all, text, size);
            continue;
        }
        for (int64_t at = 0; at < size && (bytes = bt_char_read(text + at, size - at, &c)); at += bytes)
            bt_pieces_put(&all, &(char){(char)bt_byte_of_character(c)}, 1);
    }
    bt_utf8_mend(all.bytes, all.size, to);
    bt_pieces_end(to);
    to->failed = to->failed || all.failed;
    bt_pieces_free(&all);
}

/* ---- words from parts ---- */

/* Removes the blanks before English punctuation and contractions, in a token including the blank put before it. */
static void tidy(const char *text, int64_t size, bt_pieces *to)
{
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    bt_pieces a = {0}, b = {0};
    bt_step steps[BT_COUNT_OF(pairs)];
    for (int i = 0; i < BT_COUNT_OF(pairs); i++)
        steps[i] = (bt_step){.run = bt_step_replace, .text = pairs[i][0], .other = pairs[i][1]};
    bt_pieces_add(&a, text, size);
    bt_steps_run(steps, BT_COUNT_OF(pairs), &a, &b);
    bt_pieces_put(to, a.bytes, a.size);
    to->failed = to->failed || a.failed;
    bt_pieces_free(&a);
    bt_pieces_free(&b);
}

void bt_step_wordpiece(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    const int64_t length = (int64_t)strlen(step->text);
    bt_pieces word = {0};
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size);
        const bool goes_on = i && begins_with(text, size, step->text, length);
        bt_pieces_clear(&word);
        if (i && !goes_on)
            put(&word, " ");
        bt_pieces_put(&word, text + (goes_on ? length : 0), size - (goes_on ? length : 0));
        if (step->setting)
            tidy(word.bytes, word.size, to);
        else
            bt_pieces_put(to, word.bytes, word.size);
        bt_pieces_end(to);
    }
    to->failed = to->failed || word.failed;
    bt_pieces_free(&word);
}

void bt_step_suffix(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    for (int64_t i = 0; i < from->count; i++) {
        bt_step replace = {.run = bt_step_replace, .text = step->text, .other = i + 1 < from->count ? " " : ""};
        bt_pieces one = {0};
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size);
        bt_pieces_add(&one, text, size);
        bt_step_replace(&replace, &one, to);
        to->failed = to->failed || one.failed;
        bt_pieces_free(&one);
    }
}

/* ---- for files converted from SentencePiece ---- */

static int hexadecimal(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

static int byte_of(const char *text, int64_t size)
{
    if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>' || hexadecimal(text[3]) < 0 ||
        hexadecimal(text[4]) < 0)
        return -1;
    return 16 * hexadecimal(text[3]) + hexadecimal(text[4]);
}

/* Adds a run of bytes as one piece, or, if it is not UTF-8, one U+FFFD per byte. */
static void put_bytes(const char *bytes, int64_t size, bt_pieces *to)
{
    const bool good = bt_not_utf8(bytes, size) < 0;
    if (good)
        bt_pieces_add(to, bytes, size);
    for (int64_t i = 0; !good && i < size; i++)
        bt_pieces_add(to, "\xEF\xBF\xBD", 3);
}

void bt_step_fallback(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    (void)step;
    bt_pieces bytes = {0};
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size);
        const int byte = byte_of(text, size);
        if (byte >= 0) {
            bt_pieces_put(&bytes, &(char){(char)byte}, 1);
            continue;
        }
        put_bytes(bytes.bytes, bytes.size, to);
        bt_pieces_clear(&bytes);
        bt_pieces_add(to, text, size);
    }
    put_bytes(bytes.bytes, bytes.size, to);
    to->failed = to->failed || bytes.failed;
    bt_pieces_free(&bytes);
}

void bt_step_unmeta(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    const int64_t length = (int64_t)strlen(step->text);
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size, at = 0;
        const char *text = bt_pieces_get(from, i, &size);
        while (at < size) {
            const bool blank = begins_with(text + at, size - at, step->text, length);
            if (blank && (i || step->setting == BT_PREPEND_NEVER))
                put(to, " ");
            else if (!blank)
                bt_pieces_put(to, text + at, 1);
            at += blank ? length : 1;
        }
        bt_pieces_end(to);
    }
}

void bt_step_strip(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    const int64_t length = (int64_t)strlen(step->text);
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size);
        for (int64_t k = 0; k < step->left && begins_with(text, size, step->text, length); k++) {
            text += length;
            size -= length;
        }
        for (int64_t k = 0; k < step->right && size >= length; k++)
            if (memcmp(text + size - length, step->text, (size_t)length) == 0)
                size -= length;
        bt_pieces_add(to, text, size);
    }
}
