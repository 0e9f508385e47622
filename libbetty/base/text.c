/* base/text.c: growing strings, matching of names, and the nearest word of a list. */
#include "base/base.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void bt_text_vadd(bt_text *text, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *grown = length < 0 || text->failed
                      ? NULL
                      : bt_grow(text->data, &text->capacity, text->size + length + 1, sizeof *text->data);
    if (grown) {
        text->data = grown;
        vsnprintf(text->data + text->size, (size_t)length + 1, format, again);
        text->size += length;
    } else {
        text->failed = true;
    }
    va_end(again);
}

void bt_text_add(bt_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bt_text_vadd(text, format, args);
    va_end(args);
}

void bt_text_put(bt_text *text, const void *data, size_t size)
{
    char *grown = text->failed || size > INT64_MAX / 2
                      ? NULL
                      : bt_grow(text->data, &text->capacity, text->size + (int64_t)size + 1, sizeof *text->data);
    if (!grown) {
        text->failed = true;
        return;
    }
    text->data = grown;
    if (size)
        memcpy(text->data + text->size, data, size);
    text->size += (int64_t)size;
    text->data[text->size] = 0;
}

void bt_text_free(bt_text *text)
{
    bt_free(text->data);
    *text = (bt_text){0};
}

const char *bt_text_get(const bt_text *text) { return text->data ? text->data : ""; }

char *bt_format(const char *format, va_list args)
{
    bt_text text = {0};
    bt_text_vadd(&text, format ? format : "", args);
    if (text.failed) {
        bt_text_free(&text);
        return NULL;
    }
    return text.data;
}

/* The Unicode Standard, table 3-7: the first byte gives the number of bytes and the range of the second. */
size_t bt_utf8_bytes(const char *text)
{
    static const struct {
        unsigned char from, to, second_from, second_to;
        size_t bytes;
    } forms[] = {{0x01, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
                 {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
                 {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4}};
    const unsigned char *at = (const unsigned char *)text;
    int form = 0;
    while (form < BT_COUNT_OF(forms) && (*at < forms[form].from || *at > forms[form].to))
        form++;
    if (form == BT_COUNT_OF(forms))
        return 0;
    for (size_t i = 1; i < forms[form].bytes; i++)
        if (at[i] < (i == 1 ? forms[form].second_from : 0x80) || at[i] > (i == 1 ? forms[form].second_to : 0xBF))
            return 0;
    return forms[form].bytes;
}

bool bt_is_utf8(const char *text)
{
    for (size_t bytes; (bytes = bt_utf8_bytes(text)) > 0;)
        text += bytes;
    return !*text;
}

/* The bytes of the control character at the start of the text: an ASCII one, or U+0080 to U+009F in UTF-8. 0: there is
 * none. */
static int control_bytes(const char *text)
{
    const unsigned char first = (unsigned char)text[0], second = first ? (unsigned char)text[1] : 0;
    if (first == 0xC2 && second >= 0x80 && second < 0xA0)
        return 2;
    return first && ((first < ' ' && first != '\n' && first != '\t') || first == 0x7F);
}

bool bt_has_controls(const char *text)
{
    while (*text && !control_bytes(text))
        text++;
    return *text != 0;
}

void bt_show_controls(char *to, size_t room, const char *text)
{
    size_t at = 0;
    while (*text && at + 12 < room) { /* room for one character (up to 8 bytes) or the dots */
        const int bytes = control_bytes(text);
        for (int i = 0; i < bytes; i++, text++)
            at += (size_t)snprintf(to + at, room - at, "\\x%02x", (unsigned)(unsigned char)*text);
        if (!bytes)
            to[at++] = *text++;
    }
    to[at] = 0;
    if (*text)
        snprintf(to + at, room - at, "...");
}

char *bt_string(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = bt_format(format, args);
    va_end(args);
    return text;
}

enum { WORD = 64 };

/* The edit distance from a to b (insert, delete, replace, swap neighbours), ignoring case. */
static int distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b), row[3][WORD + 1];
    if (n > WORD || m > WORD)
        return WORD;
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *before = row[(i + 2) % 3], *older = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int change = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            int best = before[j - 1] + change;
            best = before[j] + 1 < best ? before[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && older[j - 2] + 1 < best)
                best = older[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *bt_nearest(const char *word, const char *const *list)
{
    const char *nearest = NULL;
    int least = WORD;
    for (; word && list && *list; list++) {
        int edits = distance(word, *list);
        if (edits < least) {
            least = edits;
            nearest = *list;
        }
    }
    int length = word ? (int)strlen(word) : 0;
    return least <= (length < 6 ? 2 : length / 3 + 1) ? nearest : NULL;
}

const char *bt_bytes_text(char *buffer, size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return buffer;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

const char *bt_word_next(const char **list, char separator, size_t *length)
{
    const char *word = list ? *list : NULL;
    if (!word)
        return NULL;
    const char *end = strchr(word, separator);
    *list = end ? end + 1 : NULL;
    if (!end)
        end = word + strlen(word);
    while (word < end && is_blank(*word))
        word++;
    while (word < end && is_blank(end[-1]))
        end--;
    *length = (size_t)(end - word);
    return word;
}

/* On a mismatch, goes back to the last * and lets it match one more character. Earlier stars keep the shortest texts
 * that work: longer ones would not help. */
bool bt_match(const char *pattern, size_t length, const char *name, bt_star *parts, int most, int *count)
{
    const char *end = pattern + length, *star = NULL;
    bt_star none, *last = &none;
    int stars = 0;
    for (;;) {
        if (pattern < end && *pattern == '*') {
            star = ++pattern;
            last = parts && stars < most ? &parts[stars] : &none;
            *last = (bt_star){name, 0};
            stars++;
        } else if (*name && pattern < end && (*pattern == '?' || *pattern == *name)) {
            pattern++;
            name++;
        } else if (!*name && pattern == end) {
            if (count)
                *count = stars;
            return true;
        } else if (star && last->text[last->length]) {
            pattern = star;
            name = last->text + ++last->length;
        } else {
            return false;
        }
    }
}

bool bt_pattern_match(const char *patterns, const char *name)
{
    size_t length;
    const char *word;
    while (name && (word = bt_word_next(&patterns, ',', &length)) != NULL)
        if (bt_match(word, length, name, NULL, 0, NULL))
            return true;
    return false;
}
