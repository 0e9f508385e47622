/* tests/fake_cuda/fake.h: a CUDA device simulated on the processor: the same kernels, in an order that CUDA allows and
 * a seed determines. The host can access its memory only while the device works.
 *
 * FAKE_CUDA_ORDER: `eager` does everything at once, `lazy` as late as possible, a number is the seed of a random order
 * (default: 1). FAKE_CUDA_THREADS: the largest block (default: 32). FAKE_CUDA_DEVICES: the number of devices (1). */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "cuda_runtime_api.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Launches a kernel: `call` calls it with the arguments, once for each thread. */
typedef void fake_kernel(void);
typedef void fake_caller(fake_kernel *kernel, const void *args);
cudaError_t fake_launch(fake_kernel *kernel, fake_caller *call, unsigned blocks, unsigned threads, const void *args,
                        size_t bytes, cudaStream_t stream);
unsigned fake_block(unsigned threads); /* the block size to use when `threads` are asked for */

/* Any other work of a library on the device, run like a kernel with one thread. The arguments are copied. */
typedef void fake_work(const void *args);
cudaError_t fake_run(fake_work *work, const void *args, size_t bytes, cudaStream_t stream);

/* Work that depends on other processes: it is called until it is done, and other streams run in between. The arguments
 * are copied once; all launches of a graph share one copy. */
typedef enum fake_progress { FAKE_STUCK, FAKE_MOVED, FAKE_DONE } fake_progress;
typedef fake_progress fake_part(const void *args);
cudaError_t fake_run_part(fake_part *part, const void *args, size_t bytes, cudaStream_t stream);
void fake_go_on_alone(
    void);            /* from here on the device also works between the host's calls: other processes wait for it */
void fake_hold(void); /* stops the device until fake_let_go */
void fake_let_go(void);

/* ---- within a kernel ---- */

typedef struct fake_place {
    unsigned x;
} fake_place;
typedef struct fake_thread_place {
    fake_place index, block, block_size, grid_size;
    uint64_t number; /* of the block, counted from 1 since the process started */
} fake_thread_place;
extern fake_thread_place fake_thread;

void fake_barrier(const char *file, int line);
void fake_shared(uint64_t *filled, void *memory,
                 size_t bytes); /* fills memory that is not written yet with a pattern */

/* ---- for tests ---- */

/* Requests since fake_forget. */
typedef struct fake_counts {
    int64_t kernels, copies, fills, host_calls, graphs; /* launches; the kernels of a graph count when it is captured */
    int64_t up, down;                                   /* bytes from the host, and to it */
    int64_t waits;                                      /* of the host, for the device */
    int64_t allocations;
} fake_counts;
fake_counts fake_counted(void);
void fake_forget(void);
void fake_order(const char *order); /* from here on, as FAKE_CUDA_ORDER would */

#ifdef __cplusplus
}
#endif
#endif
