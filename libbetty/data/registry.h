/* data/registry.h: data sets that users define. */
#ifndef BT_REGISTRY_H
#define BT_REGISTRY_H

#include "data/data.h"

/* Calls the newest definition of that name, but none whose open function is running on this thread: so it can build on
 * an older set of its own name. *found is false if there is none. */
bt_dataset *bt_registry_open(const char *name, const char *split, bool *found);

/* Adds the names to a list of at most `room` entries; returns how many there are then. The texts are not copied. */
int bt_registry_names(const char **names, int count, int room);

#endif
