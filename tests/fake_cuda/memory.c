/* tests/fake_cuda/memory.c: each piece of device memory starts with a pattern and ends at a page boundary, with an
 * unmapped page behind it. Addresses are never reused. */
#include "memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, ALIGN = 256, MOST = 1 << 16, PATTERN = 0xA5 };
#define REGION ((size_t)1 << 44)
#define TOTAL  ((size_t)80 << 30) /* memory of the GPU */

typedef struct piece {
    char *pages, *start; /* whole pages, and the start of the piece in them */
    size_t mapped, bytes;
} piece;

static piece pieces[MOST], pinned[MOST];
static int piece_count, pinned_count;
static char *region;
static size_t top, used;
static bool open;

static void protect(const piece *p, int rights)
{
    if (mprotect(p->pages, p->mapped, rights) != 0)
        abort();
}

void fake_memory_open(void)
{
    for (int i = 0; i < piece_count && !open; i++)
        protect(&pieces[i], PROT_READ | PROT_WRITE);
    open = true;
}

void fake_memory_close(void)
{
    for (int i = 0; i < piece_count && open; i++)
        protect(&pieces[i], PROT_NONE);
    open = false;
}

void *fake_memory_new(size_t bytes)
{
    if (!region) {
        void *mapped = mmap(NULL, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        region = mapped == MAP_FAILED ? NULL : mapped;
    }
    const size_t rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN, mapped = (rounded + PAGE - 1) / PAGE * PAGE;
    if (!region || piece_count == MOST || bytes > TOTAL - used || mapped + PAGE > REGION - top)
        return NULL;
    piece *p = &pieces[piece_count++];
    *p = (piece){.pages = region + top, .mapped = mapped, .bytes = rounded};
    p->start = p->pages + mapped - rounded;
    top += mapped + PAGE;
    used += rounded;
    protect(p, PROT_READ | PROT_WRITE);
    memset(p->start, PATTERN, rounded);
    if (!open)
        protect(p, PROT_NONE);
    return p->start;
}

static piece *find(piece *list, int count, const void *at, size_t bytes)
{
    const char *from = at;
    for (int i = 0; i < count; i++)
        if (from >= list[i].start && from + bytes <= list[i].start + list[i].bytes)
            return &list[i];
    return NULL;
}

bool fake_memory_has(const void *at, size_t bytes) { return find(pieces, piece_count, at, bytes) != NULL; }
bool fake_pinned_has(const void *at, size_t bytes) { return find(pinned, pinned_count, at, bytes) != NULL; }

bool fake_memory_free(void *memory)
{
    piece *p = find(pieces, piece_count, memory, 0);
    if (!p || p->start != memory)
        return false;
    madvise(p->pages, p->mapped, MADV_DONTNEED);
    protect(p, PROT_NONE);
    used -= p->bytes;
    *p = pieces[--piece_count];
    return true;
}

void fake_memory_size(size_t *free, size_t *total)
{
    *free = TOTAL - used;
    *total = TOTAL;
}

void *fake_pinned_new(size_t bytes)
{
    if (pinned_count == MOST)
        return NULL;
    char *memory = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
    if (!memory)
        return NULL;
    memset(memory, PATTERN, bytes);
    pinned[pinned_count++] = (piece){.start = memory, .bytes = bytes};
    return memory;
}

bool fake_pinned_free(void *memory)
{
    piece *p = find(pinned, pinned_count, memory, 0);
    if (!p || p->start != memory)
        return false;
    free(p->start);
    *p = pinned[--pinned_count];
    return true;
}
