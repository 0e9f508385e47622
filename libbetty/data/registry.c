/* data/registry.c: data sets defined by users. */
#include "data/registry.h"

#include <pthread.h>
#include <string.h>

typedef struct running { /* open functions that are running on this thread */
    const bt_dataset_def *def;
    const struct running *outer;
} running;

static _Thread_local const running *innermost;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const bt_dataset_def **defs;
static int64_t def_count, def_capacity;

bt_status bt_dataset_register(const bt_dataset_def *def)
{
    if (!def || !def->name || !*def->name || !def->open)
        return bt_fail(BT_ERROR_ARGUMENT,
                       "data set \"%s\" cannot be registered: its record needs a name and an open function",
                       def && def->name ? def->name : "");
    pthread_mutex_lock(&lock);
    const bt_dataset_def **grown = bt_grow(defs, &def_capacity, def_count + 1, sizeof *defs);
    if (grown) {
        defs = grown;
        defs[def_count++] = def;
    }
    pthread_mutex_unlock(&lock);
    return grown ? BT_OK : BT_ERROR_MEMORY;
}

void bt_dataset_unregister(const bt_dataset_def *def)
{
    pthread_mutex_lock(&lock);
    int64_t i = def_count - 1;
    while (i >= 0 && defs[i] != def)
        i--;
    if (i >= 0)
        memmove(&defs[i], &defs[i + 1], (size_t)(--def_count - i) * sizeof *defs);
    if (def_count == 0) {
        bt_free(defs);
        defs = NULL;
        def_capacity = 0;
    }
    pthread_mutex_unlock(&lock);
}

static bool is_running(const bt_dataset_def *def)
{
    for (const running *r = innermost; r; r = r->outer)
        if (r->def == def)
            return true;
    return false;
}

bt_dataset *bt_registry_open(const char *name, const char *split, bool *found)
{
    const bt_dataset_def *def = NULL;
    pthread_mutex_lock(&lock);
    for (int64_t i = def_count - 1; i >= 0 && !def; i--)
        if (strcmp(defs[i]->name, name) == 0 && !is_running(defs[i]))
            def = defs[i];
    pthread_mutex_unlock(&lock);
    *found = def != NULL;
    if (!def)
        return NULL;
    running now = {def, innermost};
    innermost = &now;
    bt_dataset *data = def->open(split);
    innermost = now.outer;
    if (!data)
        bt_fail(BT_ERROR_DATA, "data set \"%s\": its open function returned none for the split \"%s\"", name, split);
    return data;
}

int bt_registry_names(const char **names, int count, int room)
{
    pthread_mutex_lock(&lock);
    for (int64_t i = 0; i < def_count && count < room; i++)
        names[count++] = defs[i]->name;
    pthread_mutex_unlock(&lock);
    return count;
}
