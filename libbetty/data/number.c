/* data/number.c: decimal numbers in text. strtod alone would accept "0x1p3", "nan" and, in some locales, "1,5". */
#include "data/read.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t plain; /* the "C" locale, made once and kept */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_plain(void) { plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* [+-] digits [. digits] [e [+-] digits], with a digit before or after the point. */
static bool is_decimal(const char *text, int64_t length)
{
    int64_t i = 0, digits = 0;
    if (i < length && (text[i] == '+' || text[i] == '-'))
        i++;
    for (; i < length && is_digit(text[i]); i++)
        digits++;
    if (i < length && text[i] == '.')
        for (i++; i < length && is_digit(text[i]); i++)
            digits++;
    if (!digits)
        return false;
    if (i < length && (text[i] == 'e' || text[i] == 'E')) {
        i++;
        if (i < length && (text[i] == '+' || text[i] == '-'))
            i++;
        int64_t first = i;
        while (i < length && is_digit(text[i]))
            i++;
        if (i == first)
            return false;
    }
    return i == length;
}

static bool stands_for_missing(const char *text, int64_t length)
{
    static const char *const words[] = {"", "?", "-", ".", "na", "n/a", "nan", "null", "none"};
    char word[8] = "";
    for (int64_t i = 0; i < length && length < (int64_t)sizeof word; i++)
        word[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] - 'A' + 'a' : text[i]);
    for (int i = length ? 1 : 0; i < BT_COUNT_OF(words); i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

bt_numeral bt_read_number(const char *text, int64_t length, double *value)
{
    *value = 0;
    for (; length > 0 && (*text == ' ' || *text == '\t'); text++)
        length--;
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    if (!is_decimal(text, length))
        return stands_for_missing(text, length) ? BT_NUMERAL_MISSING : BT_NUMERAL_TEXT;
    if (length == 1) {
        *value = *text - '0';
        return BT_NUMERAL;
    }
    pthread_once(&once, make_plain);
    *value = plain ? strtod_l(text, NULL, plain) : strtod(text, NULL);
    return isfinite(*value) ? BT_NUMERAL : BT_NUMERAL_LARGE;
}

const char *bt_numeral_text(char buffer[80], bt_numeral kind, const char *text, int64_t length)
{
    const char *what = kind == BT_NUMERAL_LARGE     ? "too large a number"
                       : kind == BT_NUMERAL_MISSING ? "a missing value"
                                                    : "text";
    if (length)
        snprintf(buffer, 80, "%s, \"%s\"", what, bt_show(text, length).text);
    else
        snprintf(buffer, 80, "%s", what);
    return buffer;
}
