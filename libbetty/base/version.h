/* base/version.h: the version of the library and of betty-run, and the date of it that pages of the manual have. */
#ifndef BT_VERSION_H
#define BT_VERSION_H

#ifndef BT_VERSION /* the build gives it from the project's version */
#define BT_VERSION "0.1.0"
#endif
#define BT_VERSION_DATE "2026-11-30"

#endif
