/* io/json.h: building JSON where memory may run out. */
#ifndef BT_IO_JSON_H
#define BT_IO_JSON_H

#include "base/base.h"
#include <jansson.h>

/* A text from outside, such as a path, may hold any bytes: those that are not UTF-8 become the four characters \xHH.
 * NULL: out of memory. */
json_t *bt_json_string(const char *text);

/* The object or list with one more value, which is taken over; NULL, and it is freed, where there is no memory for it,
 * or one of the two is NULL. So what is built in turn is whole, or NULL. */
json_t *bt_json_with(json_t *object, const char *key, json_t *value);
json_t *bt_json_append(json_t *list, json_t *value);

/* Its text and a line's end, without a closing 0, for bt_free; NULL after a message, that of a NULL value included. */
char *bt_json_text(const json_t *value, size_t flags, size_t *size);

#endif
