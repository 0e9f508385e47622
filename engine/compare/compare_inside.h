/* engine/compare/compare_inside.h: what is read of a run. */
#ifndef BT_COMPARE_INSIDE_H
#define BT_COMPARE_INSIDE_H

#include "engine/compare/compare.h"

typedef struct bt_compared {           /* objects, by the names of rows */
    json_t *settings, *code, *results; /* code NULL: there is no checkpoint */
} bt_compared;

bt_status bt_compared_read(const char *folder, bt_compared *run); /* bt_compared_free in any case */
void bt_compared_free(bt_compared *run);

#endif
