/* tests/fake_cuda/memory.h: device memory, which the host may touch only while the device works, and pinned memory. */
#ifndef FAKE_MEMORY_H
#define FAKE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

void *fake_memory_new(size_t bytes); /* NULL: out of memory */
bool fake_memory_free(void *memory); /* false: it is not device memory */
bool fake_memory_has(const void *at, size_t bytes);
void fake_memory_open(void);
void fake_memory_close(void);
void fake_memory_size(size_t *free, size_t *total);

void *fake_pinned_new(size_t bytes);
bool fake_pinned_free(void *memory);
bool fake_pinned_has(const void *at, size_t bytes);

#endif
