/* tests/cuda/trial.h: correct kernels, and some with faults that the fake device must detect. */
#ifndef TRIAL_H
#define TRIAL_H

#include "fake.h"

#ifdef __cplusplus
extern "C" {
#endif

enum trial_fault {
    TRIAL_RIGHT,
    TRIAL_NO_BARRIER, /* reads shared memory that other threads have not written yet */
    TRIAL_LEAVES,     /* a thread returns before a barrier where the others wait */
    TRIAL_OVERRUN     /* writes one element too many */
};

enum { TRIAL_BLOCKS = 5 };
/* partial[b]: the sum of block b's part of x; the parts have equal sizes. */
cudaError_t trial_sum(enum trial_fault fault, const float *x, int64_t n, double *partial, cudaStream_t stream);
cudaError_t trial_double(enum trial_fault fault, float *x, int64_t n, cudaStream_t stream); /* x = 2 x */

#ifdef __cplusplus
}
#endif
#endif
