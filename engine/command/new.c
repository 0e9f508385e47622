#include "engine/command/new.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char hole[] = "NAME";

/* Without its folders. */
static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static bt_status check(const char *name)
{
    const char *own = last_part(name);
    bool fits = isalpha((unsigned char)*own);
    for (const char *c = own; *c; c++)
        fits = fits && (isalnum((unsigned char)*c) || *c == '_' || *c == '-');
    if (fits)
        return BT_OK;
    return bt_fail(
        BT_ERROR_CONFIG,
        "--new %s: a name starts with a letter and contains only letters, digits, _ and -, as in betty-run --new first",
        name);
}

static void put(FILE *file, const char *text, const char *own)
{
    const char *at;
    for (; (at = strstr(text, hole)) != NULL; text = at + strlen(hole)) {
        fwrite(text, 1, (size_t)(at - text), file);
        fputs(own, file);
    }
    fputs(text, file);
}

/* An existing file is left alone. */
static bt_status write_file(const char *path, const char *text, const char *own)
{
    FILE *file = fopen(path, "wx");
    if (!file)
        return bt_fail(BT_ERROR_FILE,
                       errno == EEXIST ? "%s exists already, and --new never overwrites a file" : "%s: %s", path,
                       strerror(errno));
    put(file, text, own);
    const bool failed = ferror(file);
    if (fclose(file) == 0 && !failed)
        return BT_OK;
    const bt_status status = bt_fail(BT_ERROR_FILE, "%s cannot be written: %s", path, strerror(errno));
    unlink(path);
    return status;
}

static bt_status write_both(const char *name, const char *code, const char *settings)
{
    BT_TRY(write_file(code, bt_new_c, last_part(name)));
    const bt_status status = write_file(settings, bt_new_ini, last_part(name));
    if (status != BT_OK)
        unlink(code);
    return status;
}

bt_status bt_new_write(const char *name, FILE *said)
{
    BT_TRY(check(name));
    char *code = bt_string("%s.c", name), *settings = bt_string("%s.ini", name);
    bt_status status = code && settings ? write_both(name, code, settings) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        fprintf(said, "wrote %s.c and %s.ini; train with: betty-run %s.ini\n", name, name, name);
    bt_free(code);
    bt_free(settings);
    return status;
}
