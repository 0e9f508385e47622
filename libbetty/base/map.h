/* base/map.h: a hash map from pointers to numbers. */
#ifndef BT_MAP_H
#define BT_MAP_H

#include "base/base.h"

typedef struct bt_map { /* starts as {0} */
    struct bt_map_place {
        const void *key;
        int64_t value;
    } * places; /* their number is a power of two, at least a quarter are free; key NULL: free */
    int64_t capacity, count;
} bt_map;

bt_status bt_map_put(bt_map *map, const void *key, int64_t value); /* replaces the key's old value */
int64_t bt_map_get(const bt_map *map, const void *key);            /* -1: not found */
void bt_map_free(bt_map *map);

#endif
