/* engine/plugin.h: problem definitions by name: built in, or a .c file compiled on the fly. */
#ifndef BT_PLUGIN_H
#define BT_PLUGIN_H

#include "base/base.h"
#include <betty/problem.h>

/* The built-in ones; ends with a NULL stem. */
typedef struct bt_builtin {
    const char *stem; /* "reweight": problems/reweight.c, compiled with -Dbt_exported=bt_exported_reweight */
    const bt_export *parts;
} bt_builtin;
extern const bt_builtin bt_builtins[]; /* problems/registry.c */

/* What a file or a built-in offers. The handle keeps the compiled code in memory: close it after everything that came
 * from `parts` is gone. */
typedef struct bt_plugin bt_plugin;

/* name: one entry of `problems =`. A name that ends in .c is a path, relative to `folder`; it is compiled, with the
 * system's cc (or $CC), into a private cache. builtins may be NULL. *parts stays valid until bt_plugin_close. */
bt_status bt_plugin_open(const char *name, const char *folder, const bt_builtin *builtins, bt_plugin **plugin,
                         const bt_export **parts);
void bt_plugin_close(bt_plugin *plugin); /* NULL ok */

#endif
