/* io/json.h: builds JSON when memory may run out. */
#ifndef BT_IO_JSON_H
#define BT_IO_JSON_H

#include "base/base.h"
#include <jansson.h>

/* A text from outside, such as a path, may contain any bytes: each one that is not valid UTF-8 becomes the four
 * characters \xHH. NULL: out of memory. */
json_t *bt_json_string(const char *text);

/* Adds a value to an object or a list, takes ownership of it, and returns the object or list. If memory runs out or
 * either is NULL, frees both and returns NULL. So a chain of calls gives the whole value or NULL. */
json_t *bt_json_with(json_t *object, const char *key, json_t *value);
json_t *bt_json_append(json_t *list, json_t *value);

/* The text of the value with a newline, not null-terminated; free with bt_free. NULL after an error message, also if
 * value is NULL. */
char *bt_json_text(const json_t *value, size_t flags, size_t *size);

#endif
