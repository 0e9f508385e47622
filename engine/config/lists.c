/* engine/config/lists.c: comma-separated lists that are too long for one line of an INI file: u2l, u2l_2, u2l_3, ... */
#include "engine/config/config_inside.h"
#include "engine/config/ini.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bt_section_kind kind_of(const char *section)
{
    if (bt_ini_same(section, "engine"))
        return BT_SECTION_ENGINE;
    if (bt_ini_same(section, "dependencies"))
        return BT_SECTION_DEPENDENCIES;
    return strchr(section, '.') ? BT_SECTION_GROUP : BT_SECTION_PROBLEM;
}

static bool is_list(const char *section, const char *name, size_t length)
{
    bt_section_kind kind = kind_of(section);
    for (const bt_key *key = bt_keys; key->name; key++)
        if (key->list && key->section == kind && strlen(key->name) == length &&
            strncasecmp(key->name, name, length) == 0)
            return true;
    return false;
}

/* The number after `key`'s last _, from 2 to 9999 without leading zeros; 0: none. */
static int64_t number_of(const char *key)
{
    const char *end = strrchr(key, '_');
    size_t digits = end ? strspn(end + 1, "0123456789") : 0;
    if (!digits || digits > 4 || end[1 + digits] || end[1] == '0')
        return 0;
    int64_t number = strtol(end + 1, NULL, 10);
    return number >= 2 ? number : 0;
}

int64_t bt_config_list_part(const char *section, const char *key, size_t *name)
{
    int64_t part = number_of(key);
    *name = part ? (size_t)(strrchr(key, '_') - key) : strlen(key);
    return is_list(section, key, *name) ? part ? part : 1 : 0;
}

bt_status bt_config_continue(bt_config *config, bt_config_line *first, int64_t part, const char *value,
                             const bt_config_line *written)
{
    if (first && !first->from_file) /* a setting overrides the file, with all lines of the list */
        return BT_OK;
    if (!first || first->parts != part - 1)
        return bt_fail(
            BT_ERROR_CONFIG,
            "%s: a list must continue without gaps, as in u2l, u2l_2, u2l_3: number %lld is missing before this line",
            bt_config_where(config, written), (long long)(first ? first->parts + 1 : 1));
    size_t length = strlen(first->value);
    bool comma = length && first->value[length - 1] == ',';
    first->value = bt_region_format(config->region, "%s%s %s", first->value, comma ? "" : ",", value);
    first->parts = part;
    return first->value ? BT_OK : BT_ERROR_MEMORY;
}

/* ---- written ---- */

enum { PIECE = 900 }; /* characters of a list per line, at most, if commas permit */

/* Returns how many characters of the list go on the next line; *step: how many of the list that uses up. */
static size_t piece(const char *list, size_t *step)
{
    size_t length = strcspn(list, ","), longer;
    while (list[length] && (longer = length + 1 + strcspn(list + length + 1, ",")) <= PIECE)
        length = longer;
    *step = length + strspn(list + length, ", ");
    return length;
}

/* Calls `fn` for the one line, or for each line of a list. */
typedef bool line_fn(void *user, const char *key, const char *value);

static bool each_line(const char *section, const char *key, const char *value, line_fn *fn, void *user)
{
    size_t name, step;
    if (strlen(value) <= PIECE || bt_config_list_part(section, key, &name) != 1)
        return fn(user, key, value);
    bool good = true;
    value += strspn(value, ", ");
    for (int64_t part = 1; good && *value; part++, value += step) {
        size_t length = piece(value, &step);
        char *own = part == 1 ? bt_string("%s", key) : bt_string("%s_%lld", key, (long long)part);
        char *text = bt_string("%.*s", (int)length, value);
        good = own && text && fn(user, own, text);
        bt_free(own);
        bt_free(text);
    }
    return good;
}

static bool check_line(void *user, const char *key, const char *value)
{
    return bt_ini_check_value(*(const char **)user, key, value) == BT_OK;
}

bt_status bt_config_check_value(const char *where, const char *section, const char *key, const char *value)
{
    return each_line(section, key, value, check_line, &where) ? BT_OK : bt_error_status();
}

static bool print_line(void *user, const char *key, const char *value)
{
    bt_text *text = user;
    bt_text_add(text, "%s = ", key);
    bool good = bt_ini_print_value(value, text);
    bt_text_add(text, "\n");
    return good;
}

bool bt_config_print_value(const char *section, const char *key, const char *value, bt_text *text)
{
    return each_line(section, key, value, print_line, text);
}
