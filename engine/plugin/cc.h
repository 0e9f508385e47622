/* engine/plugin/cc.h: C files into shared objects, kept in a private cache. */
#ifndef BT_CC_H
#define BT_CC_H

#include "base/base.h"

/* The shared object of `source`: from the cache if the preprocessor's output for the file, headers and compiler version
 * included, and the flags have not changed; otherwise it is built, and objects not used for 60 days are removed.
 * *object is a fresh string, for bt_free. */
bt_status bt_cc(const char *source, char **object);

#endif
