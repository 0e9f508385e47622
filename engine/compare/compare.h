/* engine/compare/compare.h: two runs beside each other, by what their folders have. */
#ifndef BT_COMPARE_H
#define BT_COMPARE_H

#include "io/json.h"
#include <stdio.h>

/* {"runs": [ONE, OTHER], "configuration": ROWS, "code": ROWS, "results": ROWS}, a row being {"name": "classifier.lr",
 * "values": ["0.1", "0.2"]}, with null for what a run lacks. Of configuration and code there are the rows that differ,
 * of results all. Code is what a checkpoint records of it: versions, and hashes of what the callbacks trace and of the
 * data; "code" is null where one of the runs has no checkpoint. NULL after an error: BT_ERROR_CONFIG where a folder
 * holds no run. */
json_t *bt_compare(const char *one, const char *other);
void bt_compare_text(const json_t *compared, bt_text *text);

#endif
