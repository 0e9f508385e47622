/* base/map.c: open addressing: a key is stored at its hash, or in the next free place after it. */
#include "base/map.h"

static struct bt_map_place *find(const bt_map *map, const void *key)
{
    uint64_t mask = (uint64_t)map->capacity - 1, at = bt_hash(0, &key, sizeof key) & mask;
    while (map->places[at].key && map->places[at].key != key)
        at = (at + 1) & mask;
    return &map->places[at];
}

static bt_status grow(bt_map *map)
{
    bt_map larger = {.capacity = map->capacity ? 2 * map->capacity : 16, .count = map->count};
    larger.places = bt_alloc_array((size_t)larger.capacity, sizeof *larger.places);
    if (!larger.places)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < map->capacity; i++)
        if (map->places[i].key)
            *find(&larger, map->places[i].key) = map->places[i];
    bt_free(map->places);
    *map = larger;
    return BT_OK;
}

bt_status bt_map_put(bt_map *map, const void *key, int64_t value)
{
    if (4 * (map->count + 1) > 3 * map->capacity)
        BT_TRY(grow(map));
    struct bt_map_place *place = find(map, key);
    map->count += !place->key;
    *place = (struct bt_map_place){key, value};
    return BT_OK;
}

int64_t bt_map_get(const bt_map *map, const void *key)
{
    if (!map->count)
        return -1;
    const struct bt_map_place *place = find(map, key);
    return place->key ? place->value : -1;
}

void bt_map_free(bt_map *map)
{
    bt_free(map->places);
    *map = (bt_map){0};
}
