/* tests/support/chains.h: the CPU's kernels, and one for chains that takes what these take: link by link, each by the
 * kernel that computes it anywhere. */
#ifndef CHAINS_H
#define CHAINS_H

#include "runtime/backend.h"

const bt_backend *chains_backend(void);

#endif
