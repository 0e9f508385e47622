/* engine/config/ini_write.c: names and values in a form that an INI file can hold. */
#include "engine/config/ini_inside.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

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

bool bt_ini_same(const char *name, const char *other) { return strcasecmp(name, other) == 0; }

/* The quotes that a value needs: "", a quote character, or NULL if none works. In "..." a \ could be read as the
 * beginning of \" or \\, so those are refused. */
static const char *quotes(const char *value)
{
    size_t length = strlen(value);
    if (!length || strchr(value, '\n'))
        return NULL;
    char first = value[0], last = value[length - 1];
    if (!strpbrk(value, ";#") && !strchr("\"'", first) && last != '\\' && !isspace((unsigned char)first) &&
        !isspace((unsigned char)last))
        return "";
    if (!strpbrk(value, "\"\\"))
        return "\"";
    return strchr(value, '\'') ? NULL : "'";
}

bool bt_ini_print_value(const char *value, bt_text *text)
{
    const char *quote = quotes(value);
    if (quote)
        bt_text_add(text, "%s%s%s", quote, value, quote);
    return quote != NULL;
}

bt_status bt_ini_check_value(const char *where, const char *key, const char *value)
{
    const char *quote = quotes(value);
    if (!quote)
        return bt_fail(
            BT_ERROR_CONFIG,
            "%s = %s: an INI file cannot hold this value. A value that contains ; or #, starts or ends with a blank, "
            "or starts with a quote needs quotes: \"...\" if it contains no \" and no \\, or '...' if it contains no '",
            where, value);
    size_t length = strlen(key) + strlen(" = ") + strlen(value) + 2 * strlen(quote);
    if (length > BT_INI_LINE)
        return bt_fail(
            BT_ERROR_CONFIG,
            "%s: the value has %zu characters, and its line would have %zu; the lines of an INI file have at "
            "most %d",
            where, strlen(value), length, BT_INI_LINE);
    return BT_OK;
}
