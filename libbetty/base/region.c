/* base/region.c: many small pieces of memory that are freed together. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

enum { PIECE = 16, FIRST_BLOCK = 1024, LARGEST_BLOCK = 16384 };

struct block {
    struct block *next;
    size_t used, size;
    _Alignas(16) char data[];
};

struct bt_region {
    struct block *blocks;
};

bt_region *bt_region_new(void) { return bt_alloc(sizeof(bt_region)); }

void *bt_region_alloc(bt_region *region, size_t size)
{
    if (!region || size > SIZE_MAX / 2)
        return NULL;
    size_t room = (size + PIECE - 1) / PIECE * PIECE;
    struct block *block = region->blocks;
    if (!block || block->size - block->used < room) {
        size_t next = !block ? FIRST_BLOCK : block->size < LARGEST_BLOCK / 2 ? 2 * block->size : LARGEST_BLOCK;
        size_t bytes = room > next ? room : next;
        block = bt_alloc(sizeof *block + bytes);
        if (!block)
            return NULL;
        block->size = bytes;
        block->next = region->blocks;
        region->blocks = block;
    }
    void *piece = block->data + block->used;
    block->used += room;
    return piece;
}

void *bt_region_copy(bt_region *region, const void *from, size_t size)
{
    void *piece = bt_region_alloc(region, size);
    if (piece && size)
        memcpy(piece, from, size);
    return piece;
}

char *bt_region_format(bt_region *region, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : bt_region_alloc(region, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void bt_region_free(bt_region *region)
{
    if (!region)
        return;
    for (struct block *block = region->blocks, *next; block; block = next) {
        next = block->next;
        bt_free(block);
    }
    bt_free(region);
}
