/* tests/support/chains.h: the CPU's kernels, and a chain kernel that accepts the same types and runs each link with the
 * ordinary kernel of its op. */
#ifndef CHAINS_H
#define CHAINS_H

#include "runtime/backend.h"

const bt_backend *chains_backend(void);

#endif
