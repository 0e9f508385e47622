/* compile/joined.h: calls that stand for several steps: rows and strips (rows.h), chains (chain.h). */
#ifndef BT_JOINED_H
#define BT_JOINED_H

#include "compile/kernels.h"

typedef struct bt_joined {
    int64_t count; /* how many steps it stands for */
    double flops;  /* of all of them */
    /* By output: a mask of the inputs, among the first 32, whose memory it may reuse: no step reads them after the one
     * that computes the output, and that one may overwrite them. */
    const uint32_t *over;
} bt_joined;

static inline bool bt_joined_overwrites(const bt_joined *joined, int o, int i)
{
    return i < 32 && joined->over[o] >> i & 1;
}

#endif
