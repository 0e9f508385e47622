/* data/listing.c: sorted lists of the names in a folder that a reader wants. */
#include "data/listing.h"

#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

void bt_names_free(bt_names *list)
{
    for (int64_t i = 0; i < list->count; i++)
        bt_free(list->items[i]);
    bt_free(list->items);
    *list = (bt_names){0};
}

bt_status bt_names_add(bt_names *list, char *name)
{
    char **grown = name ? bt_grow(list->items, &list->capacity, list->count + 1, sizeof *grown) : NULL;
    if (!grown) {
        bt_free(name);
        return BT_ERROR_MEMORY;
    }
    list->items = grown;
    grown[list->count++] = name;
    return BT_OK;
}

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int64_t bt_names_find(const bt_names *list, const char *name)
{
    char **found = list->count ? bsearch(&name, list->items, (size_t)list->count, sizeof name, compare) : NULL;
    return found ? found - list->items : -1;
}

bool bt_ends_with_one_of(const char *name, const char *const *ends, int count)
{
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && i < count; i++)
        if (strcasecmp(dot, ends[i]) == 0)
            return true;
    return false;
}

bt_entry bt_entry_of(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return BT_ENTRY_OTHER;
    return S_ISDIR(info.st_mode) ? BT_ENTRY_FOLDER : S_ISREG(info.st_mode) ? BT_ENTRY_FILE : BT_ENTRY_OTHER;
}

static bt_status add_if(bt_names *list, const char *folder, const char *name, bt_wanted_fn *wanted)
{
    char *path = bt_string("%s/%s", folder, name);
    bool take = false;
    bt_status status = path ? wanted(path, &take) : BT_ERROR_MEMORY;
    bt_free(path);
    return status == BT_OK && take ? bt_names_add(list, bt_strdup(name)) : status;
}

bt_status bt_names_in(const char *folder, bt_wanted_fn *wanted, bt_names *list)
{
    DIR *open = opendir(folder);
    if (!open)
        return bt_fail(errno == ENOMEM ? BT_ERROR_MEMORY : BT_ERROR_FILE, "%s: cannot be read: %s", folder,
                       errno == ENOMEM ? "out of memory" : strerror(errno));
    bt_status status = BT_OK;
    for (struct dirent *entry; status == BT_OK && (entry = readdir(open));)
        if (entry->d_name[0] != '.')
            status = add_if(list, folder, entry->d_name, wanted);
    closedir(open);
    if (status == BT_OK && list->count)
        qsort(list->items, (size_t)list->count, sizeof *list->items, compare);
    return status;
}
