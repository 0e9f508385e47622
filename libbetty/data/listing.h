/* data/listing.h: sorted lists of the names in a folder that a reader wants. */
#ifndef BT_LISTING_H
#define BT_LISTING_H

#include <betty/base.h>

typedef struct bt_names {
    char **items;
    int64_t count, capacity;
} bt_names;

void bt_names_free(bt_names *list);
bt_status bt_names_add(bt_names *list, char *name);            /* takes the name over, also on failure */
int64_t bt_names_find(const bt_names *list, const char *name); /* index in a sorted list; -1: not there */

typedef enum bt_entry { BT_ENTRY_OTHER, BT_ENTRY_FOLDER, BT_ENTRY_FILE } bt_entry;
bt_entry bt_entry_of(const char *path);

/* Whether the name ends with one of these, such as ".png", ignoring case. */
bool bt_ends_with_one_of(const char *name, const char *const *ends, int count);

/* Says whether a path is wanted; fails if the path must not be there. */
typedef bt_status bt_wanted_fn(const char *path, bool *take);

/* The wanted names in a folder, sorted by bytes, without hidden files. Free the list even after a failure. */
bt_status bt_names_in(const char *folder, bt_wanted_fn *wanted, bt_names *list);

#endif
