/* engine/plugin/cc.h: C files into shared objects, kept in a private cache. */
#ifndef BT_CC_H
#define BT_CC_H

#include "base/base.h"

/* The shared object of `source`: from the cache if what the preprocessor makes of the file, headers and compiler
 * version included, and the flags are the same as then; else it is made, and those not used for 60 days are removed.
 * *object is a fresh string, for bt_free. */
bt_status bt_cc(const char *source, char **object);

#endif
