/* data/registry.h: data sets defined by users. */
#ifndef BT_REGISTRY_H
#define BT_REGISTRY_H

#include "data/data.h"

/* Calls the newest definition of that name, except those whose open function is running on this thread. So an open
 * function can use an older set of its own name. *found is false if there is none. */
bt_dataset *bt_registry_open(const char *name, const char *split, bool *found);

/* Adds the names to a list of at most `room` entries. Returns the new number of entries. The texts are not copied. */
int bt_registry_names(const char **names, int count, int room);

#endif
