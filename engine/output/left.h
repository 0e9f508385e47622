/* engine/output/left.h: reads what runs have left in their folders. Anybody can change these files, and a killed run
 * does not leave all of them. So a missing file is no error; a malformed one is BT_ERROR_CONFIG, and the message names
 * it. */
#ifndef BT_LEFT_H
#define BT_LEFT_H

#include "io/json.h"

bt_status bt_left_folder(const char *folder); /* it exists, and is a folder */
bt_status bt_left_run(const char *folder);    /* it is the folder of one run */
bool bt_left_has(const char *folder, const char *name);

/* Reads a file that is a JSON object; *value NULL: there is no such file. */
bt_status bt_left_json(const char *folder, const char *name, json_t **value);

/* Passes on each line of metrics.jsonl, in order; skips lines that are no object, such as half a line at the end. */
typedef bt_status bt_left_line_fn(void *user, json_t *line);
bt_status bt_left_lines(const char *folder, bt_left_line_fn *take, void *user);

#endif
