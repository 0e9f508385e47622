/* tests/cuda/trial.h: kernels that are right, and some with the faults that the fake device must find. */
#ifndef TRIAL_H
#define TRIAL_H

#include "fake.h"

#ifdef __cplusplus
extern "C" {
#endif

enum trial_fault {
    TRIAL_RIGHT,
    TRIAL_NO_BARRIER, /* a block reads shared memory that others have not written yet */
    TRIAL_LEAVES,     /* a thread leaves before a barrier that the others wait at */
    TRIAL_OVERRUN     /* one element too many is written */
};

enum { TRIAL_BLOCKS = 5 };
/* partial[b]: the sum of block b's piece of x; the pieces are equal. */
cudaError_t trial_sum(enum trial_fault fault, const float *x, int64_t n, double *partial, cudaStream_t stream);
cudaError_t trial_double(enum trial_fault fault, float *x, int64_t n, cudaStream_t stream); /* x = 2 x */

#ifdef __cplusplus
}
#endif
#endif
