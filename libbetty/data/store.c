/* data/store.c: reference-counted field values. */
#include "data/dataset.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bt_store *published;
static size_t bytes, absent; /* of all stores */

size_t bt_store_bytes(void)
{
    pthread_mutex_lock(&lock);
    size_t now = bytes;
    pthread_mutex_unlock(&lock);
    return now;
}

size_t bt_store_absent(void)
{
    pthread_mutex_lock(&lock);
    size_t now = absent;
    pthread_mutex_unlock(&lock);
    return now;
}

void bt_store_lacks(bt_store *store, size_t missing)
{
    pthread_mutex_lock(&lock);
    absent += missing - store->absent;
    store->absent = missing;
    pthread_mutex_unlock(&lock);
}

static void free_values(void *data, void *map, size_t map_bytes)
{
    if (map)
        munmap(map, map_bytes);
    else
        bt_free(data);
}

static bt_store *make(bt_array array, bool scaled, void *map, size_t map_bytes)
{
    bt_store *store = array.data ? bt_alloc(sizeof *store) : NULL;
    if (!store) {
        free_values(array.data, map, map_bytes);
        return NULL;
    }
    *store =
        (bt_store){.array = array, .row_items = 1, .scaled = scaled, .map = map, .map_bytes = map_bytes, .owners = 1};
    for (int i = 1; i < array.rank; i++)
        store->row_items *= array.dims[i];
    store->row_step = store->row_bytes = (size_t)store->row_items * bt_dtype_size(array.dtype);
    store->bytes = map ? 0 : bt_array_bytes(array);
    pthread_mutex_lock(&lock);
    bytes += store->bytes;
    pthread_mutex_unlock(&lock);
    return store;
}

bt_store *bt_store_new(bt_array array, bool scaled) { return make(array, scaled, NULL, 0); }

bt_store *bt_store_over(bt_array array, void *map, size_t map_bytes) { return make(array, false, map, map_bytes); }

bt_store *bt_store_windows(bt_array line, int64_t length)
{
    bt_store *store = bt_store_new(line, false);
    if (!store)
        return NULL;
    store->array.rank = 2;
    store->array.dims[0] = line.dims[0] - length + 1;
    store->array.dims[1] = store->row_items = length;
    store->row_bytes = (size_t)length * store->row_step;
    return store;
}

bt_store *bt_store_again(bt_store *store)
{
    pthread_mutex_lock(&lock);
    store->owners++;
    pthread_mutex_unlock(&lock);
    return store;
}

void bt_store_identify(bt_text *key, const char *path)
{
    struct stat info;
    if (*path && stat(path, &info) == 0)
        bt_text_add(key, "%llx.%llx.%llx.%lld.%ld/", (unsigned long long)info.st_dev, (unsigned long long)info.st_ino,
                    (unsigned long long)info.st_size, (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    else
        bt_text_add(key, "-/");
}

bt_store *bt_store_find(const char *key, int field)
{
    pthread_mutex_lock(&lock);
    bt_store *store = published;
    while (store && (store->field != field || strcmp(store->key, key) != 0))
        store = store->next;
    if (store)
        store->owners++;
    pthread_mutex_unlock(&lock);
    return store;
}

/* If there is no memory for the key, the store is just not shared. */
void bt_store_publish(bt_store *store, const char *key, int field)
{
    char *copy = bt_strdup(key);
    if (!copy)
        return;
    pthread_mutex_lock(&lock);
    store->key = copy;
    store->field = field;
    store->next = published;
    published = store;
    pthread_mutex_unlock(&lock);
}

void bt_store_release(bt_store *store)
{
    if (!store)
        return;
    pthread_mutex_lock(&lock);
    bool last = --store->owners == 0;
    bytes -= last ? store->bytes : 0;
    absent -= last ? store->absent : 0;
    if (last && store->key) {
        bt_store **link = &published;
        while (*link != store)
            link = &(*link)->next;
        *link = store->next;
    }
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    for (int64_t i = 0; store->names && i < store->name_count; i++)
        bt_free(store->names[i]);
    bt_free(store->names);
    bt_free(store->borders);
    bt_free(store->note);
    free_values(store->array.data, store->map, store->map_bytes);
    bt_free(store->key);
    bt_free(store);
}

bt_status bt_store_name(bt_store *store, char *const *names, int64_t count)
{
    store->names = bt_alloc_array((size_t)count, sizeof *store->names);
    for (int64_t i = 0; store->names && i < count; i++, store->name_count++)
        if (!(store->names[i] = bt_strdup(names[i])))
            return BT_ERROR_MEMORY;
    return store->names ? BT_OK : BT_ERROR_MEMORY;
}

char *bt_store_take_note(bt_store *store)
{
    pthread_mutex_lock(&lock);
    bool first = store->note && !store->told;
    store->told = true;
    pthread_mutex_unlock(&lock);
    return first ? bt_strdup(store->note) : NULL;
}

bt_dtype bt_store_dtype(const bt_store *store, bt_dtype floats)
{
    return store->scaled || bt_dtype_floats(store->array.dtype) ? floats : store->array.dtype;
}
