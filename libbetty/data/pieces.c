/* data/pieces.c: a list of texts in one block of memory. */
#include "data/pieces.h"

#include <string.h>

void bt_pieces_put(bt_pieces *pieces, const char *text, int64_t size)
{
    if (pieces->failed || size <= 0)
        return;
    if (size > pieces->room - pieces->size) {
        char *bytes =
            size <= INT64_MAX - pieces->size ? bt_grow(pieces->bytes, &pieces->room, pieces->size + size, 1) : NULL;
        pieces->failed = !bytes;
        if (!bytes)
            return;
        pieces->bytes = bytes;
    }
    memcpy(pieces->bytes + pieces->size, text, (size_t)size);
    pieces->size += size;
}

void bt_pieces_end(bt_pieces *pieces)
{
    if (pieces->failed || pieces->size == (pieces->count ? pieces->ends[pieces->count - 1] : 0))
        return;
    int64_t *ends = bt_grow(pieces->ends, &pieces->end_room, pieces->count + 1, sizeof *ends);
    pieces->failed = !ends;
    if (!ends)
        return;
    pieces->ends = ends;
    ends[pieces->count++] = pieces->size;
}

void bt_pieces_add(bt_pieces *pieces, const char *text, int64_t size)
{
    bt_pieces_put(pieces, text, size);
    bt_pieces_end(pieces);
}

void bt_pieces_clear(bt_pieces *pieces)
{
    pieces->size = pieces->count = 0;
    pieces->begins = false;
}

void bt_pieces_free(bt_pieces *pieces)
{
    bt_free(pieces->bytes);
    bt_free(pieces->ends);
    *pieces = (bt_pieces){0};
}

const char *bt_pieces_get(const bt_pieces *pieces, int64_t i, int64_t *size)
{
    const int64_t begin = i ? pieces->ends[i - 1] : 0;
    *size = pieces->ends[i] - begin;
    return pieces->bytes + begin;
}

void bt_steps_run(const bt_step *steps, int64_t count, bt_pieces *a, bt_pieces *b)
{
    for (int64_t i = 0; i < count && !a->failed; i++) {
        bt_pieces_clear(b);
        b->begins = a->begins;
        steps[i].run(&steps[i], a, b);
        const bt_pieces made = *b;
        *b = *a;
        *a = made;
    }
}
