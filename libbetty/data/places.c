/* data/places.c: the folders searched for named data. */
#include "data/places.h"
#include "data/data.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folders with the data that come with the library: next to its sources, and at the installed place. */
#ifndef BT_SOURCE_DATA_DIR
#define BT_SOURCE_DATA_DIR ""
#endif
#ifndef BT_INSTALL_DATA_DIR
#define BT_INSTALL_DATA_DIR "/usr/local/share/betty/data"
#endif

static _Thread_local const char *beside;

const char *bt_data_beside(const char *folder)
{
    const char *before = beside;
    beside = folder;
    return before;
}

bt_status bt_places_for(const char *name, bt_places *places)
{
    *places = (bt_places){.count = 0};
    if (name[0] == '/') {
        places->folders[places->count++] = ".";
        return BT_OK;
    }
    BT_TRY(bt_installed("share/betty/data", "", &places->installed)); /* below the present prefix */
    const bool path = strpbrk(name, "/.") != NULL;
    const char *const all[BT_PLACES] = {
        path ? "." : NULL, path ? beside : NULL, getenv("BETTY_DATA"), "data",
        places->installed, BT_SOURCE_DATA_DIR,   BT_INSTALL_DATA_DIR,  "/usr/share/datasets",
        path ? NULL : ".", path ? NULL : beside,
    };
    for (int i = 0; i < BT_PLACES; i++)
        if (all[i] && *all[i])
            places->folders[places->count++] = all[i];
    return BT_OK;
}

void bt_places_free(bt_places *places) { bt_free(places->installed); }

char *bt_place_path(const char *folder, const char *name)
{
    return strcmp(folder, ".") == 0 ? bt_strdup(name) : bt_string("%s/%s", folder, name);
}

bt_status bt_places_find(const char *name, char **path)
{
    bt_places places;
    bt_status status = bt_places_for(name, &places);
    *path = NULL;
    for (int i = 0; i < places.count && !*path && status == BT_OK; i++) {
        *path = bt_place_path(places.folders[i], name);
        status = *path ? BT_OK : BT_ERROR_MEMORY;
        if (*path && access(*path, F_OK) != 0) {
            bt_free(*path);
            *path = NULL;
        }
    }
    bt_places_free(&places);
    return status;
}

bt_status bt_places_lack(const char *what, const char *name, const char *more)
{
    const char *own = getenv("BETTY_DATA");
    char *installed;
    if (name[0] == '/')
        return bt_fail(BT_ERROR_FILE, "%s \"%s\" not found: no such file or folder%s", what, name, more);
    BT_TRY(bt_installed("share/betty/data", "", &installed));
    bt_fail(BT_ERROR_FILE,
            "%s \"%s\" not found: looked at that path and in %s%s%s, ./data, %s and /usr/share/datasets%s", what, name,
            beside ? beside : "", beside ? " (where the INI file is), " : "",
            own && *own ? own : "$BETTY_DATA (not set)", installed ? installed : BT_INSTALL_DATA_DIR, more);
    bt_free(installed);
    return BT_ERROR_FILE;
}
