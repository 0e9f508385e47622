/* engine/config/ini.h: reads INI files. Our own reader, because a configuration needs what iniparser does not keep or
 * say: the line of each value, names as they are written, duplicates, and errors as messages instead of prints. */
#ifndef BT_INI_H
#define BT_INI_H

#include "base/base.h"

/* Called for each section's header (key and value NULL) and each key = value, in order. */
typedef bt_status bt_ini_fn(void *user, const char *section, const char *key, const char *value, int64_t line);

/* Comments begin with ; or # at the start of a line or after a blank. A value in double quotes keeps both characters
 * and outer blanks; in it \" and \\ stand for " and \. Stops at the first mistake: "FILE:LINE: what". */
bt_status bt_ini_read(const char *file, bt_ini_fn *fn, void *user);

/* `value` as bt_ini_read reads it back, with quotes where they are needed. */
void bt_ini_print_value(const char *value, bt_text *text);

/* Letters, digits, _ and -; `dot`: or one dot in between, as in a group's section. */
bool bt_ini_name(const char *name, bool dot);

#endif
