/* engine/config/ini.h: INI files. iniparser reads them: the value of a key is what it returns. A scan of the same text
 * (ini_scan.c) finds what iniparser does not keep or report: the line of each key, its name as written, duplicates, and
 * what is wrong with a line. If the two disagree, the file is refused. */
#ifndef BT_INI_H
#define BT_INI_H

#include "base/base.h"

/* Called for each section's header (key and value NULL) and each key = value, in order. Names are as written. */
typedef bt_status bt_ini_fn(void *user, const char *section, const char *key, const char *value, int64_t line);

/* Comments begin with ; or # at the start of a line or after a blank. A value in quotes (" or ') keeps both characters
 * and outer blanks; the same quote ends it. A section, or a key within a section, must not occur twice. The first
 * mistake gives the message, "FILE:LINE: what"; then fn is not called. iniparser's message callback, which is global to
 * the process, is ours while it reads, and its own again afterwards. */
bt_status bt_ini_read(const char *file, bt_ini_fn *fn, void *user);

/* Adds `value` so that bt_ini_read reads it back, in quotes if necessary; false: it cannot be written. */
bool bt_ini_print_value(const char *value, bt_text *text);

/* Refuses (BT_ERROR_CONFIG) a value that no line `key = value` can hold; `where` begins the message. */
bt_status bt_ini_check_value(const char *where, const char *key, const char *value);

/* Whether the name consists of letters, digits, _ and -; `dot`: it may also have one dot inside, as in a group's
 * section. */
bool bt_ini_name(const char *name, bool dot);

/* Whether the names are the same. As in iniparser, upper and lower case do not matter. */
bool bt_ini_same(const char *name, const char *other);

#endif
