/* data/normalizers.c: steps that change the characters of a text before it is split. */
#include "data/unicode.h"

#include <string.h>

void bt_step_map(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size);
        int32_t c, made[3];
        for (int64_t at = 0, bytes; at < size && (bytes = bt_char_read(text + at, size - at, &c)); at += bytes) {
            const int count = step->map(c, made);
            for (int k = 0; k < count; k++) {
                char character[4];
                bt_pieces_put(to, character, bt_char_write(made[k], character));
            }
        }
        bt_pieces_end(to);
    }
}

static int keep(int32_t c, bool kept, int32_t to[3])
{
    to[0] = c;
    return kept;
}

/* U+FFFD stands for unreadable input, and is dropped. */
int bt_map_clean(int32_t c, int32_t to[3])
{
    const bool blank = bt_char_classes(c) & BT_SPACE;
    const bool line = c == '\t' || c == '\n' || c == '\r';
    const bool gone = c == 0 || c == 0xFFFD || (!line && (bt_char_classes(c) & BT_CONTROL));
    return keep(blank ? ' ' : c, !gone, to);
}

/* What BERT treats as ideographs. */
static bool is_ideograph(int32_t c)
{
    static const int32_t ranges[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                                        {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
    for (int i = 0; i < BT_COUNT_OF(ranges); i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

int bt_map_spread(int32_t c, int32_t to[3])
{
    if (!is_ideograph(c))
        return keep(c, true, to);
    to[0] = to[2] = ' ';
    to[1] = c;
    return 3;
}

int bt_map_nonspacing(int32_t c, int32_t to[3]) { return keep(c, !(bt_char_classes(c) & BT_NONSPACING), to); }

int bt_map_marks(int32_t c, int32_t to[3]) { return keep(c, !(bt_char_classes(c) & BT_MARK), to); }

int bt_map_lower(int32_t c, int32_t to[3]) { return bt_char_lower(c, to); }

static bool is_ascii(const char *text, int64_t size)
{
    unsigned char all = 0;
    for (int64_t i = 0; i < size; i++)
        all |= (unsigned char)text[i];
    return all < 0x80;
}

void bt_step_form(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size);
        if (is_ascii(text, size)) /* unchanged by every form */
            bt_pieces_put(to, text, size);
        else
            bt_unicode_normalize(text, size, (bt_unicode_form)step->setting, to);
        bt_pieces_end(to);
    }
}

void bt_step_replace(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    const size_t length = strlen(step->text);
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size), *end = text + size, *found;
        while ((found = memmem(text, (size_t)(end - text), step->text, length))) {
            bt_pieces_put(to, text, found - text);
            bt_pieces_put(to, step->other, (int64_t)strlen(step->other));
            text = found + length;
        }
        bt_pieces_put(to, text, end - text);
        bt_pieces_end(to);
    }
}

void bt_step_prepend(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    const int64_t length = (int64_t)strlen(step->text);
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size;
        const char *text = bt_pieces_get(from, i, &size);
        if (!step->setting || size < length || memcmp(text, step->text, (size_t)length) != 0)
            bt_pieces_put(to, step->text, length);
        bt_pieces_add(to, text, size);
    }
}

void bt_step_trim(const bt_step *step, const bt_pieces *from, bt_pieces *to)
{
    for (int64_t i = 0; i < from->count; i++) {
        int64_t size, begin = 0, end = 0, bytes;
        int32_t c;
        const char *text = bt_pieces_get(from, i, &size);
        bool ink = false;
        for (int64_t at = 0; at < size && (bytes = bt_char_read(text + at, size - at, &c)); at += bytes) {
            const bool blank = bt_char_classes(c) & BT_SPACE;
            begin = !ink && blank ? at + bytes : begin;
            end = blank ? end : at + bytes;
            ink = ink || !blank;
        }
        begin = step->left ? begin : 0;
        end = step->right ? end : size;
        bt_pieces_add(to, text + begin, end > begin ? end - begin : 0);
    }
}
