/* base/map.h: from pointers to numbers. */
#ifndef BT_MAP_H
#define BT_MAP_H

#include "base/base.h"

typedef struct bt_map { /* starts as {0} */
    struct bt_map_place {
        const void *key;
        int64_t value;
    } * places; /* a power of two, at least a quarter of them free; key NULL: free */
    int64_t capacity, count;
} bt_map;

bt_status bt_map_put(bt_map *map, const void *key, int64_t value); /* in place of what the key had before */
int64_t bt_map_get(const bt_map *map, const void *key);            /* -1: nothing */
void bt_map_free(bt_map *map);

#endif
