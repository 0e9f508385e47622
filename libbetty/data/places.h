/* data/places.h: the folders in which data are looked for by name. */
#ifndef BT_PLACES_H
#define BT_PLACES_H

#include "base/base.h"

/* In this order; "." is the working folder. A name with a dot or slash is first taken as a path and then looked for in
 * the folders; a plain word the other way round; an absolute path is looked for nowhere else. */
enum { BT_PLACES = 10 };
typedef struct bt_places {
    const char *folders[BT_PLACES]; /* [count] */
    int count;
    char *installed;
} bt_places;
bt_status bt_places_for(const char *name, bt_places *places); /* bt_places_free in any case */
void bt_places_free(bt_places *places);

/* FOLDER/NAME, of "." the name alone; to be freed; NULL: out of memory. */
char *bt_place_path(const char *folder, const char *name);

/* The first PLACE/NAME at which there is a file or a folder; *path, to be freed; NULL, which is no failure: nowhere. */
bt_status bt_places_find(const char *name, char **path);

/* "WHAT "NAME" not found: looked at ...MORE", as BT_ERROR_FILE. */
bt_status bt_places_lack(const char *what, const char *name, const char *more);

#endif
