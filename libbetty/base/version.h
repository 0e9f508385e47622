/* base/version.h: the version of the library and of betty-run. */
#ifndef BT_VERSION_H
#define BT_VERSION_H

#ifndef BT_VERSION /* the build gives it from the project's version */
#define BT_VERSION "0.1.0"
#endif

#endif
