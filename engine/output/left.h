/* engine/output/left.h: what runs have left in their folders. Anybody can change these files, and a run that was killed
 * has not left all of them: one that is missing is no error, one that is not what it should be is BT_ERROR_CONFIG, and
 * the message names it. */
#ifndef BT_LEFT_H
#define BT_LEFT_H

#include "io/json.h"

bt_status bt_left_folder(const char *folder); /* it is there, and is a folder */
bool bt_left_has(const char *folder, const char *name);

/* A file that is a JSON object; *value NULL: there is no such file. */
bt_status bt_left_json(const char *folder, const char *name, json_t **value);

/* Each line of metrics.jsonl, in order; one that is no object, such as half a line at the end, is passed over. */
typedef bt_status bt_left_line_fn(void *user, json_t *line);
bt_status bt_left_lines(const char *folder, bt_left_line_fn *take, void *user);

#endif
