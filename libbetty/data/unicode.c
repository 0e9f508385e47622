/* data/unicode.c: reading and writing UTF-8, and properties of characters from the tables of utf8proc. */
#include "data/unicode.h"

#include <utf8proc.h>

int64_t bt_char_read(const char *text, int64_t size, int32_t *c)
{
    if (size > 0 && (unsigned char)*text < 0x80) {
        *c = *text;
        return 1;
    }
    const utf8proc_ssize_t bytes =
        size > 0 ? utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, c) : 0;
    return bytes > 0 ? bytes : 0;
}

int64_t bt_char_write(int32_t c, char to[4]) { return utf8proc_encode_char(c, (utf8proc_uint8_t *)to); }

int64_t bt_not_utf8(const char *text, int64_t size)
{
    int32_t c;
    for (int64_t at = 0, bytes; at < size; at += bytes)
        if (!(bytes = bt_char_read(text + at, size - at, &c)))
            return at;
    return -1;
}

static bool is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* Letters in circles and boxes are Alphabetic although their category is So; the joiners are \w although theirs is
 * Cf. */
static bool is_wordly(int32_t c, utf8proc_category_t category)
{
    return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_PC ||
           (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
           (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C || c == 0x200D;
}

unsigned bt_char_classes(int32_t c)
{
    static const uint8_t by_category[] = {
        [UTF8PROC_CATEGORY_LU] = BT_LETTER | BT_WORDLY,
        [UTF8PROC_CATEGORY_LL] = BT_LETTER | BT_WORDLY,
        [UTF8PROC_CATEGORY_LT] = BT_LETTER | BT_WORDLY,
        [UTF8PROC_CATEGORY_LM] = BT_LETTER | BT_WORDLY,
        [UTF8PROC_CATEGORY_LO] = BT_LETTER | BT_WORDLY,
        [UTF8PROC_CATEGORY_MN] = BT_MARK | BT_NONSPACING | BT_WORDLY,
        [UTF8PROC_CATEGORY_MC] = BT_MARK | BT_WORDLY,
        [UTF8PROC_CATEGORY_ME] = BT_MARK | BT_WORDLY,
        [UTF8PROC_CATEGORY_ND] = BT_NUMBER,
        [UTF8PROC_CATEGORY_NL] = BT_NUMBER,
        [UTF8PROC_CATEGORY_NO] = BT_NUMBER,
        [UTF8PROC_CATEGORY_PC] = BT_PUNCTUATION,
        [UTF8PROC_CATEGORY_PD] = BT_PUNCTUATION,
        [UTF8PROC_CATEGORY_PS] = BT_PUNCTUATION,
        [UTF8PROC_CATEGORY_PE] = BT_PUNCTUATION,
        [UTF8PROC_CATEGORY_PI] = BT_PUNCTUATION,
        [UTF8PROC_CATEGORY_PF] = BT_PUNCTUATION,
        [UTF8PROC_CATEGORY_PO] = BT_PUNCTUATION,
        [UTF8PROC_CATEGORY_CC] = BT_CONTROL,
        [UTF8PROC_CATEGORY_CF] = BT_CONTROL,
        [UTF8PROC_CATEGORY_CO] = BT_CONTROL,
        [UTF8PROC_CATEGORY_CS] = 0,
    };
    const utf8proc_category_t category = utf8proc_category(c);
    const bool letter = by_category[category] & BT_WORDLY;
    const bool sign = c > ' ' && c < 0x7F && !letter && category != UTF8PROC_CATEGORY_ND;
    return by_category[category] | (is_space(c) ? BT_SPACE : 0u) | (sign ? BT_PUNCTUATION : 0u) |
           (!letter && is_wordly(c, category) ? BT_WORDLY : 0u);
}

/* Only I with a dot above becomes two characters in lower case. */
int bt_char_lower(int32_t c, int32_t to[2])
{
    const bool dotted = c == 0x130;
    to[0] = dotted ? 'i' : utf8proc_tolower(c);
    to[1] = 0x307;
    return dotted ? 2 : 1;
}

/* ---- normal forms ---- */

void bt_unicode_normalize(const char *text, int64_t size, bt_unicode_form form, bt_pieces *to)
{
    static const int options[] = {UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, UTF8PROC_STABLE | UTF8PROC_COMPOSE,
                                  UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
                                  UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT};
    const utf8proc_option_t option = (utf8proc_option_t)options[form];
    const utf8proc_uint8_t *from = (const utf8proc_uint8_t *)text;
    int64_t count = utf8proc_decompose(from, (utf8proc_ssize_t)size, NULL, 0, option);
    int32_t *all = count >= 0 ? bt_alloc_array((size_t)count, sizeof *all) : NULL;
    to->failed = to->failed || !all;
    if (all) {
        count = utf8proc_decompose(from, (utf8proc_ssize_t)size, all, (utf8proc_ssize_t)count, option);
        count = utf8proc_normalize_utf32(all, (utf8proc_ssize_t)count, option);
    }
    for (int64_t i = 0; all && i < count; i++) {
        char bytes[4];
        bt_pieces_put(to, bytes, bt_char_write(all[i], bytes));
    }
    bt_free(all);
}

/* ---- invalid UTF-8 ---- */

/* The number of bytes that could be the beginning of a valid character; at least 1. */
static int64_t beginning(const unsigned char *text, int64_t size)
{
    const unsigned char first = text[0];
    const int64_t length = first >= 0xC2 && first <= 0xDF   ? 2
                           : first >= 0xE0 && first <= 0xEF ? 3
                           : first >= 0xF0 && first <= 0xF4 ? 4
                                                            : 1;
    const unsigned char least = first == 0xE0   ? 0xA0
                                : first == 0xF0 ? 0x90
                                                : 0x80,
                        most = first == 0xED   ? 0x9F
                               : first == 0xF4 ? 0x8F
                                               : 0xBF;
    int64_t good = 1;
    while (good < length && good < size && text[good] >= (good == 1 ? least : 0x80) &&
           text[good] <= (good == 1 ? most : 0xBF))
        good++;
    return good;
}

void bt_utf8_mend(const char *text, int64_t size, bt_pieces *to)
{
    int32_t c;
    for (int64_t at = 0, bytes; at < size; at += bytes) {
        bytes = bt_char_read(text + at, size - at, &c);
        if (bytes)
            bt_pieces_put(to, text + at, bytes);
        else
            bt_pieces_put(to, "\xEF\xBF\xBD", 3);
        if (!bytes)
            bytes = beginning((const unsigned char *)text + at, size - at);
    }
}
