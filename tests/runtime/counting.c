/* tests/runtime/counting.c */
#include "counting.h"

#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1
#endif

#ifdef SANITIZED
bool counting_works(void) { return false; }
void counting_start(void) {}
void counting_stop(void) {}
size_t counting_calls(void) { return 0; }
size_t counting_peak(void) { return 0; }
#else

#include <stdatomic.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

enum { ROOM = 1 << 16 };
static struct {
    void *memory;
    size_t size;
} blocks[ROOM]; /* the blocks of aligned_alloc, by address: open addressing without removal of slots */
static atomic_bool on;
static atomic_flag locked = ATOMIC_FLAG_INIT;
static size_t calls, live, peak;

static void lock(void)
{
    while (atomic_flag_test_and_set(&locked))
        ;
}

static size_t slot_of(const void *memory)
{
    size_t slot = ((size_t)memory >> 6) * 0x9E3779B97F4A7C15u >> 48;
    while (blocks[slot].memory && blocks[slot].memory != memory)
        slot = (slot + 1) % ROOM;
    return slot;
}

static void count(void)
{
    if (atomic_load(&on)) {
        lock();
        calls++;
        atomic_flag_clear(&locked);
    }
}

void *malloc(size_t size)
{
    count();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    count();
    return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size)
{
    count();
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    void *memory = __libc_memalign(alignment, size);
    if (!atomic_load(&on) || !memory)
        return memory;
    lock();
    calls++;
    size_t slot = slot_of(memory);
    blocks[slot].memory = memory;
    blocks[slot].size = size;
    live += size;
    peak = live > peak ? live : peak;
    atomic_flag_clear(&locked);
    return memory;
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    count();
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : 12;
}

void free(void *memory)
{
    if (atomic_load(&on) && memory) {
        lock();
        size_t slot = slot_of(memory);
        if (blocks[slot].memory == memory) {
            live -= blocks[slot].size;
            blocks[slot].size = 0;
        }
        atomic_flag_clear(&locked);
    }
    __libc_free(memory);
}

bool counting_works(void) { return true; }

void counting_start(void)
{
    lock();
    memset(blocks, 0, sizeof blocks);
    calls = live = peak = 0;
    atomic_flag_clear(&locked);
    atomic_store(&on, true);
}

void counting_stop(void) { atomic_store(&on, false); }
size_t counting_calls(void) { return calls; }
size_t counting_peak(void) { return peak; }
#endif
