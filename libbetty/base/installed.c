/* base/installed.c: finds a folder installed beside the running program or the library, wherever they were put. */
#include "base/base.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 4096, LEVELS = 3 }; /* PREFIX/bin/NAME, PREFIX/lib/MACHINE/NAME */

/* Drops the file name, then one folder at a time, and looks for folder/file below each. */
static bt_status above(const char *binary, const char *folder, const char *file, char **found)
{
    char path[PATH];
    size_t length = strlen(binary);
    for (int level = 0; level <= LEVELS && length; level++) {
        while (length && binary[length - 1] != '/')
            length--;
        length -= length > 0;
        int used = level ? snprintf(path, sizeof path, "%.*s/%s/%s", (int)length, binary, folder, file) : PATH;
        if (used >= PATH || access(path, R_OK) != 0)
            continue;
        *found = bt_string("%.*s/%s", (int)length, binary, folder);
        return *found ? BT_OK : BT_ERROR_MEMORY;
    }
    return BT_OK;
}

bt_status bt_installed(const char *folder, const char *file, char **found)
{
    char path[PATH];
    Dl_info info;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    *found = NULL;
    BT_TRY(above(path, folder, file, found));
    if (!*found && dladdr((const void *)(uintptr_t)bt_installed, &info) && info.dli_fname && *info.dli_fname == '/')
        return above(info.dli_fname, folder, file, found);
    return BT_OK;
}
