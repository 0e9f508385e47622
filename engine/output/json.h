/* engine/output/json.h: values as JSON, for the sinks and the reports. */
#ifndef BT_JSON_H
#define BT_JSON_H

#include "engine/output/log.h"
#include "io/json.h"

/* Writes its text to folder/name with bt_output_write. */
bt_status bt_json_write(const char *folder, const char *name, const json_t *value, size_t flags);
bt_status bt_json_print(const json_t *value, FILE *file); /* indented; the owner of the file checks for write errors */

json_t *bt_json_number(double value); /* null if it is not finite: JSON has no such numbers */
/* The object's value for the key; "" and NaN if there is none. */
const char *bt_json_read_text(const json_t *object, const char *key);
double bt_json_read_number(const json_t *object, const char *key);

/* Adds NAME and, for a mean, NAME.interval. false: out of memory. */
bool bt_json_metrics(json_t *object, const bt_metric_value *metrics, int count);

#endif
