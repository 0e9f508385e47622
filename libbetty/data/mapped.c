/* data/mapped.c: field values that stay in their file, which is mapped into memory, so that a set may exceed memory.
 * The kernel is told which rows the next batch needs, so that it reads them in advance, and which pages are no longer
 * needed. They count neither as the process's memory nor in the plan. */
#include "data/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* For smaller files, the kernel decides how much to read around an access; for larger ones only what is announced is
 * read. */
enum { LARGE = 1 << 26 };

static void *map_file(const char *path, size_t bytes)
{
    struct stat info;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    void *map = MAP_FAILED;
    const bool good = file >= 0 && fstat(file, &info) == 0;
    const bool changed = good && (size_t)info.st_size != bytes;
    if (good && !changed)
        map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    const int why = errno;
    if (file >= 0)
        close(file);
    if (map != MAP_FAILED)
        return map;
    bt_fail(BT_ERROR_FILE, "%s: cannot be mapped into memory: %s", path, changed ? "it has changed" : strerror(why));
    return NULL;
}

bt_store *bt_store_map(const char *path, bt_array array, size_t offset)
{
    const size_t bytes = offset + bt_array_bytes(array);
    char *map = map_file(path, bytes);
    if (!map)
        return NULL;
    array.data = map + offset;
    bt_store *store = bt_store_over(array, map, bytes);
    if (store && bytes > LARGE)
        madvise(map, bytes, MADV_RANDOM); /* only a hint: failure costs time at most */
    return store;
}

void bt_store_ahead(const bt_column *column, const int32_t *places, int64_t count)
{
    const bt_store *store = column->store;
    if (!store->map)
        return;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = 0, to = 0; /* a run of rows on consecutive pages */
    for (int64_t i = 0; i < count; i++) {
        const uintptr_t row = (uintptr_t)bt_gather_row(column, places[i]), begin = row / page * page,
                        end = row + store->row_bytes;
        if (to && begin <= to && begin >= from) {
            to = end > to ? end : to;
            continue;
        }
        if (to)
            madvise((void *)from, to - from, MADV_WILLNEED);
        from = begin;
        to = end;
    }
    if (to)
        madvise((void *)from, to - from, MADV_WILLNEED);
}

void bt_store_let_go(const bt_store *store)
{
    if (store->map)
        madvise(store->map, store->map_bytes, MADV_DONTNEED); /* the kernel keeps them in its cache */
}
