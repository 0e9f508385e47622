/* engine/config/ini.c: reads INI files. */
#include "engine/config/ini.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FILE = 1 << 24 }; /* bytes: what is larger is no INI file */

bool bt_ini_name(const char *name, bool dot)
{
    if (!name || !*name)
        return false;
    for (const char *c = name; *c; c++) {
        bool between = dot && *c == '.' && c > name && c[1];
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-' && !between)
            return false;
        dot = dot && !between;
    }
    return true;
}

/* The whole file, ended by 0; NULL after a message. */
static char *read_file(const char *file)
{
    FILE *stream = fopen(file, "rb");
    if (!stream) {
        bt_fail(BT_ERROR_FILE, "%s: cannot be opened: %s", file, strerror(errno));
        return NULL;
    }
    char *data = NULL;
    int64_t room = 0, size = 0;
    for (size_t got = 1; got > 0; size += (int64_t)got) {
        char *grown = size < MAX_FILE ? bt_grow(data, &room, size + 4096, 1) : NULL;
        if (!grown) {
            bt_fail(BT_ERROR_FILE, "%s: too large for an INI file, more than %d bytes", file, MAX_FILE);
            break;
        }
        data = grown;
        got = fread(data + size, 1, 4095, stream);
        data[size + (int64_t)got] = 0;
    }
    bool whole = feof(stream) && !ferror(stream);
    if (!whole)
        bt_fail(BT_ERROR_FILE, "%s: cannot be read: %s", file, strerror(errno));
    else if (memchr(data, 0, (size_t)size))
        bt_fail(BT_ERROR_FILE, "%s: not a text file, it holds a zero byte", file);
    else {
        fclose(stream);
        return data;
    }
    fclose(stream);
    bt_free(data);
    return NULL;
}

static char *skip_blanks(char *text)
{
    while (*text == ' ' || *text == '\t' || *text == '\r')
        text++;
    return text;
}

static void cut_blanks(char *text)
{
    size_t length = strlen(text);
    while (length && strchr(" \t\r", text[length - 1]))
        text[--length] = 0;
}

static bool is_comment(char c) { return c == ';' || c == '#'; }

/* Ends the text where a comment begins. */
static void cut_comment(char *text)
{
    for (char *c = text; *c; c++)
        if (is_comment(*c) && (c == text || c[-1] == ' ' || c[-1] == '\t')) {
            *c = 0;
            break;
        }
    cut_blanks(text);
}

/* A value in quotes, in place. NULL, or what is wrong. */
static const char *unquote(char *text)
{
    char *to = text, *from = text + 1;
    while (*from && *from != '"') {
        if (*from == '\\' && (from[1] == '"' || from[1] == '\\'))
            from++;
        *to++ = *from++;
    }
    if (*from != '"')
        return "the value's closing \" is missing";
    *to = 0;
    from = skip_blanks(from + 1);
    return *from && !is_comment(*from) ? "after the value's closing \" only a comment may follow" : NULL;
}

typedef struct reader {
    const char *file;
    int64_t line;
    char *section; /* within the file's text */
    bt_ini_fn *fn;
    void *user;
} reader;

static bt_status section_line(reader *r, char *text)
{
    char *end = strchr(text, ']');
    if (!end)
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: expected [section], the ] is missing", r->file, (long long)r->line);
    char *rest = skip_blanks(end + 1);
    if (*rest && !is_comment(*rest))
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: after [section] only a comment may follow, found `%s`", r->file,
                       (long long)r->line, rest);
    *end = 0;
    r->section = skip_blanks(text + 1);
    cut_blanks(r->section);
    if (!bt_ini_name(r->section, true))
        return bt_fail(BT_ERROR_CONFIG,
                       "%s:%lld: [%s]: a section is a name of letters, digits, _ and -, or problem.group", r->file,
                       (long long)r->line, r->section);
    return r->fn(r->user, r->section, NULL, NULL, r->line);
}

static bt_status value_line(reader *r, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals) {
        cut_comment(text);
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: expected key = value or [section], found `%s`", r->file,
                       (long long)r->line, text);
    }
    *equals = 0;
    cut_blanks(text);
    if (!bt_ini_name(text, false))
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: `%s`: a key is a name of letters, digits, _ and -", r->file,
                       (long long)r->line, text);
    if (!r->section)
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: `%s` stands before the first [section]", r->file, (long long)r->line,
                       text);
    char *value = skip_blanks(equals + 1);
    const char *wrong = NULL;
    if (*value == '"')
        wrong = unquote(value);
    else
        cut_comment(value);
    if (wrong)
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: %s: %s", r->file, (long long)r->line, text, wrong);
    if (!*value)
        return bt_fail(BT_ERROR_CONFIG, "%s:%lld: [%s] %s has no value; leave the line out for the default", r->file,
                       (long long)r->line, r->section, text);
    return r->fn(r->user, r->section, text, value, r->line);
}

static bt_status read_lines(reader *r, char *text)
{
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) /* a byte order mark, as some editors leave it */
        text += 3;
    while (text) {
        char *end = strchr(text, '\n');
        if (end)
            *end = 0;
        r->line++;
        text = skip_blanks(text);
        if (*text == '[')
            BT_TRY(section_line(r, text));
        else if (*text && !is_comment(*text))
            BT_TRY(value_line(r, text));
        text = end ? end + 1 : NULL;
    }
    return BT_OK;
}

bt_status bt_ini_read(const char *file, bt_ini_fn *fn, void *user)
{
    if (!file || !fn)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_ini_read: an argument is NULL");
    char *text = read_file(file);
    if (!text)
        return bt_error_status() ? bt_error_status() : BT_ERROR_FILE;
    reader r = {.file = file, .fn = fn, .user = user};
    bt_status s = read_lines(&r, text);
    bt_free(text);
    return s;
}

void bt_ini_print_value(const char *value, bt_text *text)
{
    size_t length = strlen(value);
    bool plain = length && !strpbrk(value, ";#\"") && !strchr(" \t\r", value[0]) && !strchr(" \t\r", value[length - 1]);
    if (plain) {
        bt_text_add(text, "%s", value);
        return;
    }
    bt_text_add(text, "\"");
    for (const char *c = value; *c; c++)
        bt_text_add(text, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    bt_text_add(text, "\"");
}
