/* engine/logging/json.h: values as JSON, for the sinks and the reports. */
#ifndef BT_JSON_H
#define BT_JSON_H

#include "engine/logging/log.h"
#include <jansson.h>

/* The object or list with one more value, which is taken over; NULL, and it is freed, where there is no memory for it,
 * or one of the two is NULL. So what is built in turn is whole, or NULL. */
json_t *bt_json_with(json_t *object, const char *key, json_t *value);
json_t *bt_json_append(json_t *list, json_t *value);

/* Its text and a line's end, without a closing 0, for bt_free; NULL after a message, that of a NULL value included. */
char *bt_json_text(const json_t *value, size_t flags, size_t *size);

bt_status bt_json_print(const json_t *value, FILE *file); /* indented; whether the file took it, its owner asks */

json_t *bt_json_number(double value); /* null where it is not finite, for JSON has no such numbers */
/* Adds NAME and, of a mean, NAME.interval. false: out of memory. */
bool bt_json_metrics(json_t *object, const bt_metric_value *metrics, int count);

#endif
