/* data/unicode.h: reading and writing UTF-8, and properties of characters from the tables of utf8proc. */
#ifndef BT_UNICODE_H
#define BT_UNICODE_H

#include "data/pieces.h"

/* Properties of a character; it can have several. */
typedef enum bt_char_class {
    BT_LETTER = 1,       /* general category L */
    BT_NUMBER = 2,       /* N */
    BT_SPACE = 4,        /* the property White_Space */
    BT_MARK = 8,         /* M */
    BT_NONSPACING = 16,  /* Mn, such as accents */
    BT_PUNCTUATION = 32, /* P, and ASCII symbols such as $ and + */
    BT_CONTROL = 64,     /* Cc, Cf and Co */
    BT_WORDLY = 128      /* \w of regular expressions: Alphabetic, M, Nd, Pc and the two joiners */
} bt_char_class;
unsigned bt_char_classes(int32_t c);

/* Reads the character at `text`, which has at most `size` bytes. Returns its length; 0: not UTF-8, or the end. */
int64_t bt_char_read(const char *text, int64_t size, int32_t *c);
int64_t bt_char_write(int32_t c, char to[4]); /* returns the length in bytes */
int bt_char_lower(int32_t c, int32_t to[2]);  /* c in lower case; returns the number of characters */

/* Index of the first byte that is not UTF-8; -1: none. */
int64_t bt_not_utf8(const char *text, int64_t size);

typedef enum bt_unicode_form { BT_NFD, BT_NFC, BT_NFKD, BT_NFKC } bt_unicode_form;
void bt_unicode_normalize(const char *text, int64_t size, bt_unicode_form form, bt_pieces *to);

/* Copies bytes, replacing what is not UTF-8 by U+FFFD: one for each longest prefix of a character, as the Unicode
 * standard recommends. */
void bt_utf8_mend(const char *text, int64_t size, bt_pieces *to);

#endif
