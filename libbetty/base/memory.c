/* base/memory.c: allocation: checked and zeroed; the bytes of aligned memory and of the library's own are counted. */
#include "base/base.h"

#include "base/footprint.h"
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_size_t live_bytes, host_bytes;
static atomic_size_t own_bytes, own_peak;

static void *add_own(void *memory)
{
    if (!memory)
        return NULL;
    size_t size = malloc_usable_size(memory), now = atomic_fetch_add(&own_bytes, size) + size;
    size_t peak = atomic_load_explicit(&own_peak, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak(&own_peak, &peak, now))
        ;
    return memory;
}

static void take_own(void *memory)
{
    if (memory)
        atomic_fetch_sub(&own_bytes, malloc_usable_size(memory));
}

size_t bt_own_bytes(void) { return atomic_load(&own_bytes); }

size_t bt_own_peak(void) { return atomic_load(&own_peak); }

void bt_own_peak_begin(void) { atomic_store(&own_peak, atomic_load(&own_bytes)); }

void bt_own_give_back(void) { malloc_trim(0); }

bool bt_mul_size(size_t a, size_t b, size_t *result) { return !__builtin_mul_overflow(a, b, result); }

bool bt_add_size(size_t a, size_t b, size_t *result) { return !__builtin_add_overflow(a, b, result); }

size_t bt_align_up(size_t size)
{
    return size > SIZE_MAX - (BT_ALIGN - 1) ? SIZE_MAX : (size + BT_ALIGN - 1) / BT_ALIGN * BT_ALIGN;
}

static void *out_of_memory(size_t size)
{
    bt_fail(BT_ERROR_MEMORY, "out of memory: %zu bytes could not be allocated", size);
    return NULL;
}

enum { LARGE = 8 << 20, PAGE = 4096 };

/* Data sets are read in random order, and large pages make address translation cheaper. This is only a hint: if it
 * fails, nothing is lost. */
static void ask_for_large_pages(char *memory, size_t size)
{
    size_t before = (PAGE - (uintptr_t)memory % PAGE) % PAGE;
    madvise(memory + before, (size - before) / PAGE * PAGE, MADV_HUGEPAGE);
}

void *bt_alloc(size_t size)
{
    void *memory = add_own(calloc(1, size ? size : 1));
    if (memory && size >= LARGE)
        ask_for_large_pages(memory, size);
    return memory ? memory : out_of_memory(size);
}

void *bt_alloc_array(size_t count, size_t size)
{
    size_t bytes;
    return bt_mul_size(count, size, &bytes) ? bt_alloc(bytes) : out_of_memory(SIZE_MAX);
}

void *bt_grow(void *items, int64_t *capacity, int64_t count, size_t size)
{
    if (items && count <= *capacity)
        return items;
    int64_t room = *capacity > 0 ? *capacity : 8;
    while (room < count && room <= INT64_MAX / 2)
        room *= 2;
    size_t bytes;
    if (room < count || !bt_mul_size((size_t)room, size, &bytes))
        return out_of_memory(SIZE_MAX);
    const size_t before = items ? malloc_usable_size(items) : 0;
    void *grown = add_own(realloc(items, bytes));
    if (!grown)
        return out_of_memory(bytes);
    atomic_fetch_sub(&own_bytes, before);
    *capacity = room;
    return grown;
}

char *bt_strdup(const char *text)
{
    if (!text)
        return NULL;
    size_t size = strlen(text) + 1;
    char *copy = bt_alloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void bt_free(void *memory)
{
    take_own(memory);
    free(memory);
}

/* Stored in front of aligned memory, so that counting the live bytes needs no table. */
typedef struct front {
    char *block; /* as malloc returned it */
    size_t size;
} front;

/* A zeroed block. *gap: bytes from the block to the first aligned address that leaves room for a front. A large block
 * comes from fresh pages, which take up memory only when they are written. */
static char *zeroed_block(size_t room, size_t *gap)
{
    size_t bytes;
    if (room == SIZE_MAX || !bt_add_size(room, 2 * BT_ALIGN, &bytes))
        return NULL;
    char *block = room >= LARGE ? calloc(1, bytes) : aligned_alloc(BT_ALIGN, bytes - BT_ALIGN);
    if (!block)
        return NULL;
    *gap = BT_ALIGN;
    if (room >= LARGE)
        *gap = 2 * BT_ALIGN - (uintptr_t)block % BT_ALIGN;
    else
        memset(block, 0, bytes - BT_ALIGN);
    return block;
}

void *bt_alloc_aligned(size_t size)
{
    size_t gap;
    char *block = zeroed_block(bt_align_up(size), &gap);
    if (!block)
        return out_of_memory(size);
    char *memory = block + gap;
    memcpy(memory - sizeof(front), &(front){block, size}, sizeof(front));
    atomic_fetch_add(&live_bytes, size);
    return memory;
}

void bt_free_aligned(void *memory)
{
    if (!memory)
        return;
    front before;
    memcpy(&before, (char *)memory - sizeof before, sizeof before);
    atomic_fetch_sub(&live_bytes, before.size);
    free(before.block);
}

void bt_live_far(int64_t bytes) { atomic_fetch_add(&live_bytes, (size_t)bytes); }

void bt_live_host(int64_t bytes) { atomic_fetch_add(&host_bytes, (size_t)bytes); }

size_t bt_live_host_bytes(void) { return atomic_load(&host_bytes); }

size_t bt_live_bytes(void) { return atomic_load(&live_bytes); }
