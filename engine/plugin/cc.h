/* engine/plugin/cc.h: compiles C files into shared objects, which are kept in a private cache. */
#ifndef BT_CC_H
#define BT_CC_H

#include "base/base.h"

/* The shared object for `source`. It comes from the cache if neither the flags nor the preprocessed file (headers and
 * compiler version included) have changed. Otherwise it is built, and objects not used for 60 days are removed. *object
 * is a new string, for bt_free. */
bt_status bt_cc(const char *source, char **object);

#endif
