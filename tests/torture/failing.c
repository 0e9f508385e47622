/* tests/torture/failing.c: replaces malloc and its relatives. Under a sanitizer, it calls the sanitizer's versions. */
#include "failing.h"

#include <stddef.h>

#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1
#endif

#ifdef SANITIZED
#define REAL(name)   __interceptor_##name
#define REAL_ALIGNED __interceptor_aligned_alloc
#else
#define REAL(name)   __libc_##name
#define REAL_ALIGNED __libc_memalign
#endif

void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t count, size_t size);
void *REAL(realloc)(void *memory, size_t size);
void *REAL_ALIGNED(size_t alignment, size_t size);

static _Thread_local long left, spared;
static _Thread_local bool on, paused, all_fail, failed;
static long live; /* of all watched threads: one at a time */

static bool fails(void)
{
    if (!on || paused || spared > 0) {
        spared -= spared > 0;
        return false;
    }
    if (failed)
        return all_fail;
    failed = left-- == 0;
    return failed;
}

static void *counted(void *memory)
{
    live += on && memory;
    return memory;
}

void failing_start(long countdown, bool all)
{
    left = countdown;
    all_fail = all;
    failed = false;
    live = 0;
    on = true;
}

void failing_pause(bool pause) { paused = pause; }

void failing_spare(long count) { spared = count; }

bool failing_stop(void)
{
    on = false;
    return failed;
}

void *calloc(size_t count, size_t size) { return fails() ? NULL : counted(REAL(calloc)(count, size)); }

void *aligned_alloc(size_t alignment, size_t size) { return fails() ? NULL : counted(REAL_ALIGNED(alignment, size)); }

void *realloc(void *memory, size_t size)
{
    if (fails())
        return NULL;
    return memory ? REAL(realloc)(memory, size) : counted(REAL(realloc)(memory, size));
}

void *malloc(size_t size) { return fails() ? NULL : counted(REAL(malloc)(size)); }

#ifdef SANITIZED
long failing_step(long sanitized) { return sanitized; }
long failing_live(void) { return 0; }
#else
void REAL(free)(void *memory);

void free(void *memory)
{
    live -= on && memory;
    REAL(free)(memory);
}

long failing_step(long sanitized)
{
    (void)sanitized;
    return 1;
}
long failing_live(void) { return live; }
#endif
