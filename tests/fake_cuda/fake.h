/* tests/fake_cuda/fake.h: a CUDA device made of the processor: the same kernels, in an order that CUDA allows and a
 * seed draws. Its memory is out of the host's reach but while the device works.
 *
 * FAKE_CUDA_ORDER: `eager` does everything at once, `lazy` as late as possible, a number is the seed of an order in
 * between (default: 1). FAKE_CUDA_THREADS: of a block, at most (default: 32). FAKE_CUDA_DEVICES: how many (1). */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "cuda_runtime_api.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel's launch: `call` calls it with the arguments, once for each thread. */
typedef void fake_kernel(void);
typedef void fake_caller(fake_kernel *kernel, const void *args);
cudaError_t fake_launch(fake_kernel *kernel, fake_caller *call, unsigned blocks, unsigned threads, const void *args,
                        size_t bytes, cudaStream_t stream);
unsigned fake_block(unsigned threads); /* of how many a block is made that should have so many */

/* Anything else that a library does on the device: as a kernel of one thread. The arguments are copied. */
typedef void fake_work(const void *args);
cudaError_t fake_run(fake_work *work, const void *args, size_t bytes, cudaStream_t stream);

/* Something in which other processes have their part: it is asked to go on as often as it takes, other streams do their
 * work in between. The arguments are copied once; a graph has one copy for all its launches. */
typedef enum fake_progress { FAKE_STUCK, FAKE_MOVED, FAKE_DONE } fake_progress;
typedef fake_progress fake_part(const void *args);
cudaError_t fake_run_part(fake_part *part, const void *args, size_t bytes, cudaStream_t stream);
void fake_go_on_alone(
    void);            /* from here on the device works while the host does not call it, too: others wait for it */
void fake_hold(void); /* until it is let go, the device does nothing */
void fake_let_go(void);

/* ---- within a kernel ---- */

typedef struct fake_place {
    unsigned x;
} fake_place;
typedef struct fake_thread_place {
    fake_place index, block, block_size, grid_size;
    uint64_t number; /* of the block, since the process began, from 1 on */
} fake_thread_place;
extern fake_thread_place fake_thread;

void fake_barrier(const char *file, int line);
void fake_shared(uint64_t *filled, void *memory, size_t bytes); /* what is not written yet holds a pattern */

/* ---- for tests ---- */

/* What has been asked for since fake_forget. */
typedef struct fake_counts {
    int64_t kernels, copies, fills, host_calls, graphs; /* launched; those of a graph count when it is captured */
    int64_t up, down;                                   /* bytes from the host, to it */
    int64_t waits;                                      /* of the host for the device */
    int64_t allocations;
} fake_counts;
fake_counts fake_counted(void);
void fake_forget(void);
void fake_order(const char *order); /* from here on, as FAKE_CUDA_ORDER says it */

#ifdef __cplusplus
}
#endif
#endif
