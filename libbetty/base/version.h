/* base/version.h: the version of the library and of betty-run, and its date, as the manual pages show it. */
#ifndef BT_VERSION_H
#define BT_VERSION_H

#ifndef BT_VERSION /* set by the build from the project's version */
#define BT_VERSION "0.1.0"
#endif
#define BT_VERSION_DATE "2026-11-30"

#endif
