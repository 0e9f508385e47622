/* engine/config/ini_inside.h: what the scan of an INI file's text finds. */
#ifndef BT_INI_INSIDE_H
#define BT_INI_INSIDE_H

#include "engine/config/ini.h"

/* The longest line that iniparser 4.1 takes; its buffer has 1,024 characters, including two at the end. */
enum { BT_INI_LINE = 1022 };

typedef struct bt_ini_entry {
    const char *section, *key; /* within the text; key NULL: the header of the section */
    const char *value;         /* as a person reads it */
    int64_t line;
} bt_ini_entry;

typedef struct bt_ini_entries {
    bt_ini_entry *list; /* for bt_free */
    int64_t count, room;
} bt_ini_entries;

/* Splits `text` in place. BT_ERROR_CONFIG for the first line that is neither a header, key = value, a comment nor
 * empty, or that iniparser cannot take. `file` is for messages. */
bt_status bt_ini_scan(const char *file, char *text, bt_ini_entries *entries);

#endif
