/* data/unicode.h: the characters of UTF-8 text, and what they are by the tables of utf8proc. */
#ifndef BT_UNICODE_H
#define BT_UNICODE_H

#include "data/pieces.h"

/* What a character is: several of these. */
typedef enum bt_char_class {
    BT_LETTER = 1,       /* general category L */
    BT_NUMBER = 2,       /* N */
    BT_SPACE = 4,        /* the property White_Space */
    BT_MARK = 8,         /* M */
    BT_NONSPACING = 16,  /* Mn, as accents are */
    BT_PUNCTUATION = 32, /* P, and the signs of ASCII, such as $ and + */
    BT_CONTROL = 64,     /* Cc, Cf and Co */
    BT_WORDLY = 128      /* \w of regular expressions: Alphabetic, M, Nd, Pc and the two joiners */
} bt_char_class;
unsigned bt_char_classes(int32_t c);

/* Reads the character at `text`, of at most `size` bytes: how many it has; 0: no UTF-8, or the end. */
int64_t bt_char_read(const char *text, int64_t size, int32_t *c);
int64_t bt_char_write(int32_t c, char to[4]); /* how many bytes */
int bt_char_lower(int32_t c, int32_t to[2]);  /* the small letters of a large one, or c: how many */

/* The first byte that is no UTF-8; -1: none. */
int64_t bt_not_utf8(const char *text, int64_t size);

typedef enum bt_unicode_form { BT_NFD, BT_NFC, BT_NFKD, BT_NFKC } bt_unicode_form;
void bt_unicode_normalize(const char *text, int64_t size, bt_unicode_form form, bt_pieces *to);

/* Bytes, of which those that are no UTF-8 become U+FFFD: one for each longest beginning of a character, as the Unicode
 * standard recommends. */
void bt_utf8_mend(const char *text, int64_t size, bt_pieces *to);

#endif
