/* nn/renaming.c: maps the names of a file's arrays to names here, by rules. */
#include "nn/renaming.h"

#include <string.h>

static bool append(char to[BT_MOST_NAME], size_t *at, const char *text, size_t length)
{
    if (*at + length >= BT_MOST_NAME)
        return false;
    memcpy(to + *at, text, length);
    *at += length;
    to[*at] = 0;
    return true;
}

bool bt_substitute(const char *pattern, size_t length, const bt_star *parts, int count, char to[BT_MOST_NAME])
{
    size_t at = 0;
    int star = 0;
    to[0] = 0;
    for (size_t i = 0; i < length; i++) {
        bt_star part = {pattern + i, 1};
        if (pattern[i] == '*' && star == count)
            return false;
        if (pattern[i] == '*')
            part = parts[star++];
        if (!append(to, &at, part.text, part.length))
            return false;
    }
    return true;
}

/* Renames `name` by the first rule that fits; "": it is left out. */
static bt_status renamed(const char *rules, const char *name, char to[BT_MOST_NAME])
{
    const char *rule;
    size_t length;
    while (rules && (rule = bt_word_next(&rules, ',', &length)) != NULL) {
        const char *arrow = memchr(rule, '>', length), *target = arrow ? arrow + 1 : NULL;
        size_t from = arrow ? (size_t)(arrow - rule) : 0, rest = arrow ? length - from - 1 : 0;
        bt_star parts[BT_MOST_STARS];
        int count;
        while (from && rule[from - 1] == ' ')
            from--;
        while (rest && *target == ' ')
            target++, rest--;
        if (!from)
            return bt_fail(BT_ERROR_ARGUMENT, "\"%.*s\" is not a rule for names; expected \"FROM > TO\"", (int)length,
                           rule);
        if (!bt_match(rule, from, name, parts, BT_MOST_STARS, &count))
            continue;
        if (!bt_substitute(target, rest, parts, count < BT_MOST_STARS ? count : BT_MOST_STARS, to))
            return bt_fail(BT_ERROR_ARGUMENT,
                           "the rule \"%.*s\" has more * in its second half than \"%s\" has, or gives a name that is "
                           "too long",
                           (int)length, rule, name);
        return BT_OK;
    }
    size_t at = 0;
    to[0] = 0;
    return append(to, &at, name, strlen(name)) ? BT_OK
                                               : bt_fail(BT_ERROR_FILE, "the name \"%.40s...\" is too long", name);
}

bt_status bt_destination_of(const bt_load_options *options, const char *name, bt_destination *place)
{
    bt_destination by_table;
    BT_TRY(bt_published_destination(options->layout, name, &by_table));
    *place = by_table;
    return *by_table.name ? renamed(options->names, by_table.name, place->name) : BT_OK;
}
