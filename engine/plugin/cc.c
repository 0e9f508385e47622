/* engine/plugin/cc.c: compiles C files into shared objects, kept in a private cache. */
#include "engine/plugin/cc.h"

#include "engine/plugin/spawn.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef BT_SOURCE_INCLUDE_DIR
#define BT_SOURCE_INCLUDE_DIR ""
#endif
#ifndef BT_INSTALL_INCLUDE_DIR
#define BT_INSTALL_INCLUDE_DIR "/usr/local/include"
#endif

enum { MAX_WORDS = 32 };

/* For every compilation. A call of an undeclared function is usually a misspelt name, and best reported here. */
static const char *const flags[] = {"-std=c11",
                                    "-D_DEFAULT_SOURCE", /* M_PI */
                                    "-O2",
                                    "-fPIC",
                                    "-Werror=implicit-function-declaration",
                                    "-Werror=incompatible-pointer-types",
                                    "-Werror=int-conversion",
                                    "-Werror=return-type"};

/* ---- the headers ---- */

static bool has_headers(const char *folder)
{
    char *header = bt_string("%s/betty/betty.h", folder);
    bool found = header && access(header, R_OK) == 0;
    bt_free(header);
    return found;
}

static char *find_headers(void)
{
    const char *wanted = getenv("BETTY_INCLUDE");
    if (wanted && *wanted) {
        if (has_headers(wanted))
            return bt_strdup(wanted);
        bt_fail(BT_ERROR_FILE, "BETTY_INCLUDE is %s, but that folder has no betty/betty.h", wanted);
        return NULL;
    }
    char *installed;
    if (bt_installed("include", "betty/betty.h", &installed) != BT_OK || installed)
        return installed;
    static const char *const places[] = {BT_SOURCE_INCLUDE_DIR, BT_INSTALL_INCLUDE_DIR};
    for (int i = 0; i < BT_COUNT_OF(places); i++)
        if (*places[i] && has_headers(places[i]))
            return bt_strdup(places[i]);
    bt_fail(BT_ERROR_FILE,
            "the headers of betty are no longer where they were installed, in %s; set BETTY_INCLUDE to the folder that "
            "contains betty/betty.h",
            BT_INSTALL_INCLUDE_DIR);
    return NULL;
}

/* ---- the cache ---- */

static bt_status make_folder(const char *path)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return BT_OK;
    return bt_fail(BT_ERROR_FILE, "the cache folder %s cannot be created: %s", path, strerror(errno));
}

/* The code that we load must be the user's own, so nobody else may have access to the folder. */
static bt_status check_private(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return bt_fail(BT_ERROR_FILE, "the cache folder %s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0)
        return bt_fail(
            BT_ERROR_FILE,
            "the cache folder %s is not private: it must be your own folder with mode 0700 (chmod 700); or set "
            "XDG_CACHE_HOME",
            path);
    return BT_OK;
}

static char *cache_folder(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool own = cache && *cache == '/';
    if (!own && !(home && *home == '/')) {
        bt_fail(BT_ERROR_FILE, "there is no folder for compiled problems: set HOME or XDG_CACHE_HOME to a folder");
        return NULL;
    }
    char *base = own ? bt_strdup(cache) : bt_string("%s/.cache", home);
    char *folder = base ? bt_string("%s/betty", base) : NULL;
    if (folder && (make_folder(base) != BT_OK || make_folder(folder) != BT_OK || check_private(folder) != BT_OK)) {
        bt_free(folder);
        folder = NULL;
    }
    bt_free(base);
    return folder;
}

enum { KEPT_DAYS = 60 };

/* Removes objects that have not been used for long when a new one is made. A failure does not affect the run. */
static void forget_old(const char *object)
{
    char *folder = bt_strdup(object);
    if (!folder)
        return;
    *strrchr(folder, '/') = 0;
    DIR *list = opendir(folder);
    for (struct dirent *entry; list && (entry = readdir(list)) != NULL;) {
        struct stat info;
        const char *end = strstr(entry->d_name, ".so");
        if (end && fstatat(dirfd(list), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
            time(NULL) - info.st_mtime > (time_t)KEPT_DAYS * 24 * 3600)
            unlinkat(dirfd(list), entry->d_name, 0);
    }
    if (list)
        closedir(list);
    bt_free(folder);
}

/* ---- the compiler ---- */

typedef struct command {
    char *compiler, *include; /* owned; the words of $CC are within `compiler` */
    const char *words[MAX_WORDS];
    int count;
} command;

static bt_status add_word(command *c, const char *word)
{
    if (c->count == MAX_WORDS - 1)
        return bt_fail(BT_ERROR_CONFIG, "CC has too many words: %s", getenv("CC"));
    c->words[c->count++] = word;
    return BT_OK;
}

static void command_free(command *c)
{
    bt_free(c->compiler);
    bt_free(c->include);
}

/* cc, or the words of $CC ("ccache gcc"), with the flags. */
static bt_status command_begin(command *c)
{
    const char *compiler = getenv("CC");
    char *headers = find_headers();
    if (!headers)
        return bt_error_status();
    c->include = bt_string("-I%s", headers);
    bt_free(headers);
    c->compiler = bt_strdup(compiler && compiler[strspn(compiler, " ")] ? compiler : "cc");
    if (!c->include || !c->compiler)
        return BT_ERROR_MEMORY;
    char *rest = NULL;
    for (char *word = strtok_r(c->compiler, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        BT_TRY(add_word(c, word));
    for (int i = 0; i < BT_COUNT_OF(flags); i++)
        BT_TRY(add_word(c, flags[i]));
    return add_word(c, c->include);
}

/* Runs the command with these words at its end; the message contains the errors in the file. */
static bt_status run(const command *c, const char *source, const char *const *words, uint64_t *hash)
{
    command all = *c;
    for (; *words; words++)
        BT_TRY(add_word(&all, *words));
    bt_spawn_result result = {0};
    bt_status s = bt_spawn(all.words, &result);
    if (s == BT_OK && !result.good)
        s = bt_fail(BT_ERROR_CONFIG, "%s does not compile:\n%s", source,
                    *bt_text_get(&result.message) ? bt_text_get(&result.message) : "the compiler did not say why");
    *hash = result.hash;
    bt_text_free(&result.message);
    return s;
}

/* Compiles to a temporary name first, so that nobody ever loads half a file. */
static bt_status build(const command *c, const char *source, const char *object)
{
    char *temporary = bt_string("%s.XXXXXX", object);
    if (!temporary)
        return BT_ERROR_MEMORY;
    uint64_t hash;
    int file = mkstemp(temporary);
    bt_status s = BT_OK;
    if (file < 0)
        s = bt_fail(BT_ERROR_FILE, "%s cannot be written: %s", temporary, strerror(errno));
    else
        close(file);
    const char *const words[] = {"-shared", "-o", temporary, source, "-lm", NULL};
    if (s == BT_OK)
        s = run(c, source, words, &hash);
    if (s == BT_OK && rename(temporary, object) != 0)
        s = bt_fail(BT_ERROR_FILE, "%s cannot be written: %s", object, strerror(errno));
    if (s != BT_OK && file >= 0)
        unlink(temporary);
    bt_free(temporary);
    return s;
}

/* FOLDER/STEM-HASH.so. The hash covers the flags and the output of the preprocessor, which with -dD includes the
 * compiler's version and target. */
static bt_status object_name(const command *c, const char *source, char **object)
{
    uint64_t hash;
    const char *const words[] = {"-E", "-dD", source, NULL};
    BT_TRY(run(c, source, words, &hash));
    for (int i = 0; i < c->count; i++)
        hash = bt_hash_text(hash, c->words[i]);
    char *folder = cache_folder();
    if (!folder)
        return bt_error_status();
    const char *slash = strrchr(source, '/'), *base = slash ? slash + 1 : source;
    *object = bt_string("%s/%.*s-%016llx.so", folder, (int)strcspn(base, "."), base, (unsigned long long)hash);
    bt_free(folder);
    return *object ? BT_OK : BT_ERROR_MEMORY;
}

bt_status bt_cc(const char *source, char **object)
{
    if (!source || !object)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_cc: an argument is NULL");
    *object = NULL;
    if (access(source, R_OK) != 0)
        return bt_fail(BT_ERROR_FILE, "%s cannot be read: %s", source, strerror(errno));
    command c = {.count = 0};
    bt_status s = command_begin(&c);
    if (s == BT_OK)
        s = object_name(&c, source, object);
    if (s == BT_OK && access(*object, R_OK) == 0) {
        utimensat(AT_FDCWD, *object, NULL, 0); /* marks it as used today */
    } else if (s == BT_OK) {
        s = build(&c, source, *object);
        forget_old(*object);
    }
    command_free(&c);
    if (s != BT_OK) {
        bt_free(*object);
        *object = NULL;
    }
    return s;
}
