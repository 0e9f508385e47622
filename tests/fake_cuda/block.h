/* tests/fake_cuda/block.h: runs a kernel, block by block. */
#ifndef FAKE_BLOCK_H
#define FAKE_BLOCK_H

#include "fake.h"

typedef unsigned fake_draw(unsigned below); /* a random number */
void fake_run_kernel(fake_kernel *kernel, fake_caller *call, const void *args, unsigned blocks, unsigned threads,
                     fake_draw *draw);

#endif
