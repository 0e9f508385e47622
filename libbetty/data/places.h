/* data/places.h: the folders searched for named data. */
#ifndef BT_PLACES_H
#define BT_PLACES_H

#include "base/base.h"

/* In search order; "." is the working folder. A name with a dot or slash is tried first as a path, then in the folders;
 * a plain word in the opposite order. An absolute path is not searched for anywhere else. */
enum { BT_PLACES = 10 };
typedef struct bt_places {
    const char *folders[BT_PLACES]; /* [count] */
    int count;
    char *installed;
} bt_places;
bt_status bt_places_for(const char *name, bt_places *places); /* call bt_places_free in any case */
void bt_places_free(bt_places *places);

/* FOLDER/NAME; for "." only the name. To be freed; NULL: out of memory. */
char *bt_place_path(const char *folder, const char *name);

/* Finds the first PLACE/NAME that is a file or a folder. *path is to be freed; NULL (no error): not found. */
bt_status bt_places_find(const char *name, char **path);

/* Fails with BT_ERROR_FILE: "WHAT "NAME" not found: looked at ...MORE". */
bt_status bt_places_lack(const char *what, const char *name, const char *more);

#endif
