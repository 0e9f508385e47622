/* data/source.c: reads data files, plain or gzip, with zlib. */
#include "data/read.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { PIECE = 1 << 16, LONGEST_LINE = 1 << 26 };

struct bt_source {
    gzFile file;
    char *path;
    int64_t size;
    bt_status status;
    char *line;
    int64_t capacity;
    int have, at;
    unsigned char bytes[PIECE];
};

static bt_status cannot(const char *path, const char *why)
{
    return bt_fail(BT_ERROR_FILE, "%s: cannot be read: %s", path, why);
}

bt_source *bt_source_open(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        cannot(path, strerror(errno));
        return NULL;
    }
    if (!S_ISREG(info.st_mode)) {
        cannot(path, S_ISDIR(info.st_mode) ? "it is a folder" : "it is not a regular file");
        return NULL;
    }
    bt_source *source = bt_alloc(sizeof *source);
    if (!source)
        return NULL;
    source->path = bt_strdup(path);
    source->size = info.st_size;
    source->file = source->path ? gzopen(path, "rb") : NULL;
    if (source->path && !source->file)
        cannot(path, errno ? strerror(errno) : "out of memory");
    if (!source->file) {
        bt_source_close(source);
        return NULL;
    }
    gzbuffer(source->file, 2 * PIECE);
    return source;
}

void bt_source_close(bt_source *source)
{
    if (!source)
        return;
    if (source->file)
        gzclose(source->file);
    bt_free(source->path);
    bt_free(source->line);
    bt_free(source);
}

const char *bt_source_path(const bt_source *source) { return source->path; }

int64_t bt_source_size(const bt_source *source) { return gzdirect(source->file) ? source->size : -1; }

/* In deflate, two bits stand for at most 258 bytes. */
int64_t bt_source_most(const bt_source *source)
{
    enum { RATIO = 1032 };
    if (gzdirect(source->file))
        return source->size;
    return source->size > INT64_MAX / RATIO ? INT64_MAX : source->size * RATIO;
}

bt_status bt_source_status(const bt_source *source) { return source->status; }

/* One call of zlib, which reports a truncated stream only by an error number. */
static int fetch(bt_source *source, void *to, unsigned size)
{
    errno = 0;
    int got = gzread(source->file, to, size), number = Z_OK;
    const char *text = gzerror(source->file, &number);
    if (number == Z_OK || number == Z_STREAM_END)
        return got;
    source->status =
        number == Z_ERRNO       ? cannot(source->path, errno ? strerror(errno) : "unknown reason")
        : number == Z_MEM_ERROR ? bt_fail(BT_ERROR_MEMORY, "%s: out of memory while reading", source->path)
        : number == Z_BUF_ERROR
            ? bt_fail(BT_ERROR_DATA, "%s: the gzip stream is cut short: the file is incomplete", source->path)
            : bt_fail(BT_ERROR_DATA, "%s: the gzip stream is damaged (%s)", source->path, text);
    return -1;
}

static bool refill(bt_source *source)
{
    source->at = 0;
    source->have = source->status == BT_OK ? fetch(source, source->bytes, PIECE) : 0;
    if (source->have < 0)
        source->have = 0;
    return source->have > 0;
}

int bt_source_byte(bt_source *source)
{
    if (source->at == source->have && !refill(source))
        return -1;
    return source->bytes[source->at++];
}

bt_status bt_source_read(bt_source *source, void *to, int64_t size, int64_t *got)
{
    char *out = to;
    *got = 0;
    while (*got < size && source->status == BT_OK) {
        int64_t left = size - *got, ready = source->have - source->at;
        if (ready > 0) {
            int64_t taken = ready < left ? ready : left;
            memcpy(out + *got, source->bytes + source->at, (size_t)taken);
            source->at += (int)taken;
            *got += taken;
            continue;
        }
        int read = fetch(source, out + *got, (unsigned)(left < INT_MAX / 2 ? left : INT_MAX / 2));
        if (read <= 0)
            break;
        *got += read;
    }
    return source->status;
}

int64_t bt_source_peek(bt_source *source, const unsigned char **bytes)
{
    if (source->at == source->have)
        refill(source);
    *bytes = source->bytes + source->at;
    return source->have - source->at;
}

bt_status bt_source_rest(bt_source *source, char **text, int64_t *size)
{
    bt_status status = BT_OK;
    int64_t room = 0, got = PIECE;
    *text = NULL;
    *size = 0;
    while (status == BT_OK && got == PIECE) {
        char *grown = bt_grow(*text, &room, *size + PIECE + 1, 1);
        *text = grown ? grown : *text;
        status = grown ? bt_source_read(source, grown + *size, PIECE, &got) : BT_ERROR_MEMORY;
        *size += status == BT_OK ? got : 0;
    }
    if (status == BT_OK)
        (*text)[*size] = 0;
    else
        bt_free(*text);
    *text = status == BT_OK ? *text : NULL;
    return status;
}

bt_status bt_source_all(const char *path, char **text, int64_t *size)
{
    bt_source *source = bt_source_open(path);
    *text = NULL;
    *size = 0;
    bt_status status = source ? bt_source_rest(source, text, size) : bt_error_status();
    bt_source_close(source);
    return status;
}

bt_status bt_source_line(bt_source *source, const char **line, int64_t *length)
{
    int64_t size = 0;
    int byte;
    *line = NULL;
    *length = 0;
    while ((byte = bt_source_byte(source)) >= 0 && byte != '\n') {
        if (size + 1 >= source->capacity) {
            char *grown =
                size < LONGEST_LINE ? bt_grow(source->line, &source->capacity, size + 2, sizeof *source->line) : NULL;
            if (!grown)
                return source->status = bt_fail(BT_ERROR_DATA, "%s: a line is longer than %d MiB: not a text file",
                                                source->path, LONGEST_LINE >> 20);
            source->line = grown;
        }
        source->line[size++] = (char)byte;
    }
    BT_TRY(source->status);
    if (byte < 0 && size == 0)
        return BT_OK;
    if (size > 0 && source->line[size - 1] == '\r')
        size--;
    if (size > 0)
        source->line[size] = 0;
    *line = size > 0 ? source->line : "";
    *length = size;
    return BT_OK;
}

/* Detects a byte order mark, or text in which every other byte is 0. */
bt_status bt_check_text(const char *path, const char *head, int64_t size)
{
    const unsigned char *byte = (const unsigned char *)head;
    bool marked = size >= 2 && ((byte[0] == 0xFF && byte[1] == 0xFE) || (byte[0] == 0xFE && byte[1] == 0xFF));
    bool little = size >= 4 && byte[0] && !byte[1] && byte[2] && !byte[3];
    bool big = size >= 4 && !byte[0] && byte[1] >= ' ' && !byte[2] && byte[3] >= ' ';
    if (!marked && !little && !big)
        return BT_OK;
    return bt_fail(BT_ERROR_DATA, "%s: the text is UTF-16; expected UTF-8: convert it with iconv -f UTF-16 -t UTF-8",
                   path);
}

bt_shown bt_show(const char *text, int64_t length)
{
    bt_shown shown = {""};
    int used = 0;
    for (int64_t i = 0; i < length && used < 40; i++)
        shown.text[used++] = (char)(text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
    memcpy(shown.text + used, length > used ? "..." : "", length > used ? 4 : 1);
    return shown;
}
