/* data/corpus.c: finds and reads the files of a text corpus. */
#include "data/corpus.h"
#include "data/listing.h"
#include "data/places.h"
#include "data/read.h"
#include "data/unicode.h"

#include <string.h>
#include <sys/stat.h>

void bt_corpus_free(bt_corpus *corpus)
{
    for (int64_t i = 0; i < corpus->count; i++)
        bt_free(corpus->paths[i]);
    bt_free(corpus->paths);
    *corpus = (bt_corpus){0};
}

/* Takes the path over. */
static bt_status add(bt_corpus *corpus, char *path)
{
    char **paths = path ? bt_grow(corpus->paths, &corpus->room, corpus->count + 1, sizeof *paths) : NULL;
    if (!paths) {
        bt_free(path);
        return BT_ERROR_MEMORY;
    }
    corpus->paths = paths;
    paths[corpus->count++] = path;
    return BT_OK;
}

static bt_status is_text(const char *path, bool *take)
{
    static const char *const others[] = {"SOURCE.txt", "README.txt", "LICENSE.txt"};
    static const char *const ends[] = {".txt", ".txt.gz"};
    const char *name = strrchr(path, '/') + 1;
    const size_t length = strlen(name);
    for (int i = 0; i < BT_COUNT_OF(ends); i++)
        *take |= length > strlen(ends[i]) && strcmp(name + length - strlen(ends[i]), ends[i]) == 0;
    for (int i = 0; i < BT_COUNT_OF(others); i++)
        *take &= strcmp(name, others[i]) != 0;
    return BT_OK;
}

static bt_status add_folder(bt_corpus *corpus, const char *folder)
{
    bt_names names = {0};
    bt_status status = bt_names_in(folder, is_text, &names);
    for (int64_t i = 0; status == BT_OK && i < names.count; i++)
        status = add(corpus, bt_string("%s/%s", folder, names.items[i]));
    bt_names_free(&names);
    return status;
}

/* Adds what is found as NAME + END in one of the places. */
static bt_status add_found(bt_corpus *corpus, const char *name, const char *end)
{
    struct stat info;
    char *path = NULL, *whole = bt_string("%s%s", name, end);
    bt_status status = whole ? bt_places_find(whole, &path) : BT_ERROR_MEMORY;
    bt_free(whole);
    if (status != BT_OK || !path || stat(path, &info) != 0) {
        bt_free(path);
        return status;
    }
    if (!S_ISDIR(info.st_mode))
        return add(corpus, path);
    status = add_folder(corpus, path);
    bt_free(path);
    return status;
}

bt_status bt_corpus_find(const char *name, bt_corpus *corpus)
{
    static const char *const ends[] = {"", ".txt", ".gz", ".txt.gz"};
    for (int i = 0; i < BT_COUNT_OF(ends) && !corpus->count; i++)
        BT_TRY(add_found(corpus, name, ends[i]));
    return BT_OK;
}

bt_status bt_corpus_read(const char *path, char **text, int64_t *size)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* the byte order mark of UTF-8 */
    BT_TRY(bt_source_all(path, text, size));
    bt_status status = bt_check_text(path, *text, *size);
    const int64_t bad = status == BT_OK ? bt_not_utf8(*text, *size) : -1;
    if (status == BT_OK && *size >= 3 && memcmp(*text, mark, 3) == 0)
        memmove(*text, *text + 3, (size_t)(*size -= 3) + 1);
    if (bad >= 0)
        status = bt_fail(BT_ERROR_DATA, "%s: byte %lld, 0x%02X, is not UTF-8; convert the file with iconv", path,
                         (long long)bad, (unsigned)(unsigned char)(*text)[bad]);
    else if (status == BT_OK && !*size)
        status = bt_fail(BT_ERROR_DATA, "%s: the file is empty; expected text", path);
    if (status == BT_OK)
        return BT_OK;
    bt_free(*text);
    *text = NULL;
    return status;
}
