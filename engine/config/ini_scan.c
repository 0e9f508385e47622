/* engine/config/ini_scan.c: scans the lines of an INI file for messages: what is in which line, and what is wrong with
 * it. */
#include "engine/config/ini_inside.h"

#include <ctype.h>
#include <string.h>

typedef struct scan {
    const char *file;
    int64_t line;
    const char *section; /* points into the text */
    bt_ini_entries *entries;
} scan;

static bool is_blank(char c) { return isspace((unsigned char)c); }
static bool is_comment(char c) { return c == ';' || c == '#'; }

static char *skip_blanks(char *text)
{
    while (is_blank(*text))
        text++;
    return text;
}

static void cut_blanks(char *text)
{
    size_t length = strlen(text);
    while (length && is_blank(text[length - 1]))
        text[--length] = 0;
}

/* Cuts the text off where a comment begins. */
static void cut_comment(char *text)
{
    for (char *c = text; *c; c++)
        if (is_comment(*c) && (c == text || is_blank(c[-1]))) {
            *c = 0;
            break;
        }
    cut_blanks(text);
}

/* Unquotes a value in place. \" and \\ are read as people mean them, so that a different reading by iniparser is
 * noticed. Returns what is wrong, or NULL. */
static const char *unquote(char *text)
{
    char quote = *text, *to = text, *from = text + 1;
    while (*from && *from != quote) {
        if (quote == '"' && *from == '\\' && (from[1] == '"' || from[1] == '\\'))
            from++;
        *to++ = *from++;
    }
    if (*from != quote)
        return quote == '"' ? "the value's closing \" is missing" : "the value's closing ' is missing";
    *to = 0;
    from = skip_blanks(from + 1);
    if (!*from || is_comment(*from))
        return NULL;
    return quote == '"' ? "after the value's closing \" only a comment may follow"
                        : "after the value's closing ' only a comment may follow";
}

/* Refuses a name that occurred before, in any case. */
static bt_status check_once(const scan *s, const bt_ini_entry *entry)
{
    for (int64_t i = 0; i < s->entries->count; i++) {
        const bt_ini_entry *before = &s->entries->list[i];
        if (!before->key != !entry->key || !bt_ini_same(before->section, entry->section) ||
            (entry->key && !bt_ini_same(before->key, entry->key)))
            continue;
        const char *name = entry->key ? entry->key : entry->section;
        const char *first = entry->key ? before->key : before->section;
        bool alike = strcmp(name, first) == 0;
        bt_text other = {0};
        if (!alike)
            bt_text_add(&other, " as %s: upper and lower case do not matter", first);
        bt_status status =
            entry->key ? bt_fail(BT_ERROR_CONFIG, "%s:%lld: [%s] %s is set twice, first at %s:%lld%s", s->file,
                                 (long long)s->line, entry->section, name, s->file, (long long)before->line,
                                 bt_text_get(&other))
                       : bt_fail(BT_ERROR_CONFIG, "%s:%lld: section [%s] occurs twice, first at %s:%lld%s", s->file,
                                 (long long)s->line, name, s->file, (long long)before->line, bt_text_get(&other));
        bt_text_free(&other);
        return status;
    }
    return BT_OK;
}

static bt_status add(scan *s, const char *key, const char *value)
{
    bt_ini_entry entry = {s->section, key, value, s->line};
    BT_TRY(check_once(s, &entry));
    bt_ini_entries *all = s->entries;
    bt_ini_entry *grown = bt_grow(all->list, &all->room, all->count + 1, sizeof *all->list);
    if (!grown)
        return BT_ERROR_MEMORY;
    all->list = grown;
    all->list[all->count++] = entry;
    return BT_OK;
}

static bt_status section_line(scan *s, char *text)
{
    char *end = strchr(text, ']');
    if (!end)
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: expected [section], but the ] is missing", s->file,
                       (long long)s->line);
    char *rest = skip_blanks(end + 1);
    if (is_comment(*rest))
        return bt_fail(BT_ERROR_CONFIG,
                       "%s:%lld: nothing may follow [section], found the comment `%s`: put it on a line of its own",
                       s->file, (long long)s->line, rest);
    if (*rest)
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: nothing may follow [section], found `%s`", s->file,
                       (long long)s->line, rest);
    *end = 0;
    text = skip_blanks(text + 1);
    cut_blanks(text);
    if (!bt_ini_name(text, true))
        return bt_fail(BT_ERROR_CONFIG,
                       "%s:%lld: [%s]: a section is a name of letters, digits, _ and -, or problem.group", s->file,
                       (long long)s->line, text);
    s->section = text;
    return add(s, NULL, NULL);
}

static bt_status value_line(scan *s, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals) {
        cut_comment(text);
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: expected key = value or [section], found `%s`", s->file,
                       (long long)s->line, text);
    }
    *equals = 0;
    cut_blanks(text);
    if (!bt_ini_name(text, false))
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: `%s`: a key is a name of letters, digits, _ and -", s->file,
                       (long long)s->line, text);
    if (!s->section)
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: `%s` comes before the first [section]", s->file, (long long)s->line,
                       text);
    char *value = skip_blanks(equals + 1);
    const char *wrong = NULL;
    if (*value == '"' || *value == '\'')
        wrong = unquote(value);
    else
        cut_comment(value);
    if (wrong)
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: %s: %s", s->file, (long long)s->line, text, wrong);
    if (!*value)
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: [%s] %s has no value; leave the line out for the default", s->file,
                       (long long)s->line, s->section, text);
    return add(s, text, value);
}

/* Refuses what iniparser changes in a line as a whole, comments included. `text` has no blanks at its ends. */
static bt_status check_line(const scan *s, const char *text, size_t length)
{
    if (length > BT_INI_LINE)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s:%lld: the line has %zu characters, more than the %d that an INI file allows. Continue a "
                       "long list, such as u2l, in more lines: u2l_2 = ..., u2l_3 = ...",
                       s->file, (long long)s->line, length, BT_INI_LINE);
    if (*text && text[strlen(text) - 1] == '\\')
        return bt_fail(BT_ERROR_CONFIG,
                       "%s:%lld: a \\ at the end of a line would join the next line to it: put a value that ends with "
                       "\\ in quotes, '...\\', and do not end a comment with it",
                       s->file, (long long)s->line);
    return BT_OK;
}

bt_status bt_ini_scan(const char *file, char *text, bt_ini_entries *entries)
{
    scan s = {.file = file, .entries = entries};
    while (text) {
        size_t length = strcspn(text, "\n");
        char *next = text[length] ? text + length + 1 : NULL;
        text[length] = 0;
        s.line++;
        text = skip_blanks(text);
        cut_blanks(text);
        BT_TRY(check_line(&s, text, length));
        if (*text == '[')
            BT_TRY(section_line(&s, text));
        else if (*text && !is_comment(*text))
            BT_TRY(value_line(&s, text));
        text = next;
    }
    return BT_OK;
}
