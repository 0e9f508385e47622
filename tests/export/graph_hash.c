#include "graph_hash.h"

#include "base/base.h"
#include "io/file.h"
#include <stdlib.h>

static uint64_t varint(const char *data, size_t size, size_t *at)
{
    uint64_t value = 0;
    for (int shift = 0; *at < size && shift < 64; shift += 7) {
        const unsigned char byte = (unsigned char)data[(*at)++];
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return value;
}

const char *graph_of(const char *path, char **file, size_t *size)
{
    size_t bytes, at = 0;
    if (bt_file_read(path, file, &bytes) != BT_OK)
        abort();
    while (at < bytes) { /* fields of a ModelProto: varints and length-delimited fields */
        const uint64_t key = varint(*file, bytes, &at), value = varint(*file, bytes, &at);
        if (key == (7 << 3 | 2) && value <= bytes - at) {
            *size = value;
            return *file + at;
        }
        at += (key & 7) == 2 ? value : 0;
    }
    abort();
}

uint64_t graph_hash(const char *path)
{
    char *file;
    size_t size;
    const char *graph = graph_of(path, &file, &size);
    const uint64_t hash = bt_hash(0, graph, size);
    bt_free(file);
    return hash;
}
