/* engine/config/ini.c: reads INI files with iniparser. */
#include "engine/config/ini_inside.h"

#include "data/read.h"
#include <ctype.h>
#include <errno.h>
#include <iniparser.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 24 }; /* bytes: a larger file is not an INI file */

typedef struct reader {
    const char *file;
    char *text;
    size_t size;
    bool regular;
    char *copy; /* a temporary file with the same text; NULL: iniparser reads the named file */
    bt_ini_entries entries;
    dictionary *values;
} reader;

/* ---- the text ---- */

static bt_status read_stream(reader *r, FILE *stream)
{
    int64_t room = 0, size = 0;
    for (size_t got = 1; got > 0; size += (int64_t)got) {
        if (size >= MAX_FILE)
            return bt_fail(BT_ERROR_FILE, "%s: too large for an INI file, more than %d bytes", r->file, MAX_FILE);
        char *grown = bt_grow(r->text, &room, size + 4096, 1);
        if (!grown)
            return BT_ERROR_MEMORY;
        r->text = grown;
        got = fread(r->text + size, 1, 4095, stream);
        r->text[size + (int64_t)got] = 0;
    }
    r->size = (size_t)size;
    if (!feof(stream) || ferror(stream))
        return bt_fail(BT_ERROR_FILE, "%s: cannot be read: %s", r->file, strerror(errno));
    BT_TRY(bt_check_text(r->file, r->text, (int64_t)r->size));
    if (memchr(r->text, 0, r->size))
        return bt_fail(BT_ERROR_FILE, "%s: not a text file: it contains a zero byte", r->file);
    return BT_OK;
}

static bt_status read_text(reader *r)
{
    FILE *stream = fopen(r->file, "rb");
    if (!stream)
        return bt_fail(BT_ERROR_FILE, "%s: cannot be opened: %s", r->file, strerror(errno));
    struct stat status;
    r->regular = fstat(fileno(stream), &status) == 0 && S_ISREG(status.st_mode);
    bt_status s = read_stream(r, stream);
    fclose(stream);
    return s;
}

/* iniparser opens its input by name, and does not know the byte order mark that some editors write. Input that can only
 * be read once, or has such a mark, is copied to a file that iniparser can read. */
static bt_status copy_text(reader *r, const char *text)
{
    const char *folder = getenv("TMPDIR");
    char *copy = bt_string("%s/betty-ini-XXXXXX", folder && *folder ? folder : "/tmp");
    if (!copy)
        return BT_ERROR_MEMORY;
    int descriptor = mkstemp(copy);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    bool good = file && fputs(text, file) >= 0;
    good = file && fclose(file) == 0 && good;
    int why = errno;
    if (descriptor >= 0 && !file)
        close(descriptor);
    if (descriptor >= 0)
        r->copy = copy;
    bt_status s = good ? BT_OK
                       : bt_fail(BT_ERROR_FILE, "%s: a copy for iniparser, %s, cannot be written: %s", r->file, copy,
                                 strerror(why));
    if (descriptor < 0)
        bt_free(copy);
    return s;
}

/* ---- iniparser ---- */

static _Thread_local char complaint[512]; /* what iniparser would have printed */

static int keep_complaint(const char *format, ...) BT_FORMAT(1, 2);
static int keep_complaint(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(complaint, sizeof complaint, format, args);
    va_end(args);
    size_t end = strlen(complaint);
    while (end && isspace((unsigned char)complaint[end - 1]))
        complaint[--end] = 0;
    return length;
}

/* iniparser does not check that its dictionary got its memory. So it is only called if there is enough for everything
 * the dictionary will hold. */
static bt_status check_memory(const reader *r)
{
    size_t need = (size_t)1 << 16;
    for (int64_t i = 0; i < r->entries.count; i++) {
        const bt_ini_entry *entry = &r->entries.list[i];
        need += 256 + strlen(entry->section) + (entry->key ? strlen(entry->key) + strlen(entry->value) : 0);
    }
    void *memory = bt_alloc(need);
    bt_free(memory);
    return memory ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status load(reader *r)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* one message callback for all threads */
    BT_TRY(check_memory(r));
    complaint[0] = 0;
    pthread_mutex_lock(&turn);
    iniparser_set_error_callback(keep_complaint);
    r->values = iniparser_load(r->copy ? r->copy : r->file);
    iniparser_set_error_callback(NULL);
    pthread_mutex_unlock(&turn);
    if (!r->values)
        return bt_fail(BT_ERROR_FILE, "%s: iniparser cannot read it: %s", r->file,
                       *complaint ? complaint : "it has no memory");
    return BT_OK;
}

/* iniparser's value for an entry, NULL for a section; `none`: it does not know the name. */
static bt_status look_up(const reader *r, const bt_ini_entry *entry, const char *none, const char **value)
{
    char *name = entry->key ? bt_string("%s:%s", entry->section, entry->key) : bt_string("%s", entry->section);
    if (!name)
        return BT_ERROR_MEMORY;
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    *value = dictionary_get(r->values, name, none);
    bt_free(name);
    return BT_OK;
}

/* Takes iniparser's value for the entry, if both readings agree. */
static bt_status settle(const reader *r, bt_ini_entry *entry)
{
    static const char none[] = "";
    const char *value;
    BT_TRY(look_up(r, entry, none, &value));
    if (value == none || (entry->key && !value))
        return bt_fail(BT_ERROR_MEMORY,
                       "%s:%lld: iniparser has lost this line, which happens if memory runs out or the file has just "
                       "changed",
                       r->file, (long long)entry->line);
    if (entry->key && strcmp(value, entry->value) != 0)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s:%lld: [%s] %s: is it `%s` or `%s`? A value ends at ; and #, unless it is in \"...\" or "
                       "'...'; in quotes, \\ is an ordinary character, and a value with \" needs '...'",
                       r->file, (long long)entry->line, entry->section, entry->key, value, entry->value);
    entry->value = value;
    return BT_OK;
}

/* ---- both ---- */

static bt_status read_both(reader *r)
{
    static const char mark[] = "\xef\xbb\xbf";
    BT_TRY(read_text(r));
    char *text = r->text + (strncmp(r->text, mark, 3) == 0 ? 3 : 0);
    if (text > r->text || !r->regular)
        BT_TRY(copy_text(r, text));
    BT_TRY(bt_ini_scan(r->file, text, &r->entries));
    BT_TRY(load(r));
    for (int64_t i = 0; i < r->entries.count; i++)
        BT_TRY(settle(r, &r->entries.list[i]));
    return BT_OK;
}

bt_status bt_ini_read(const char *file, bt_ini_fn *fn, void *user)
{
    if (!file || !fn)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_ini_read: an argument is NULL");
    reader r = {.file = file};
    bt_status s = read_both(&r);
    for (int64_t i = 0; s == BT_OK && i < r.entries.count; i++) {
        const bt_ini_entry *entry = &r.entries.list[i];
        s = fn(user, entry->section, entry->key, entry->value, entry->line);
    }
    if (r.values)
        iniparser_freedict(r.values);
    if (r.copy)
        unlink(r.copy);
    bt_free(r.copy);
    bt_free(r.entries.list);
    bt_free(r.text);
    return s;
}
