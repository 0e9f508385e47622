/* base/installed.c: what lies beside the program or the library that this code is part of, wherever it was put. */
#include "base/base.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

enum { LEVELS = 3 }; /* PREFIX/bin/NAME, PREFIX/lib/MACHINE/NAME */

/* The binary's own folder is cut off, then one level after the other. */
static char *above(const char *binary, const char *folder, const char *file)
{
    char *prefix = bt_strdup(binary), *found = NULL;
    for (int level = 0; prefix && level <= LEVELS && !found; level++) {
        char *slash = strrchr(prefix, '/');
        if (!slash)
            break;
        *slash = 0;
        char *path = level ? bt_string("%s/%s/%s", prefix, folder, file) : NULL;
        if (path && access(path, R_OK) == 0)
            found = bt_string("%s/%s", prefix, folder);
        bt_free(path);
    }
    bt_free(prefix);
    return found;
}

char *bt_installed(const char *folder, const char *file)
{
    char path[4096];
    Dl_info info;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    char *found = above(path, folder, file);
    if (!found && dladdr((const void *)(uintptr_t)bt_installed, &info) && info.dli_fname && *info.dli_fname == '/')
        found = above(info.dli_fname, folder, file);
    return found;
}
