/* backend/cuda/walk.h: the offsets of a view's elements along some of its axes, taken as one line. Adjacent axes are
 * joined where possible, so that most lines have one; divisions become multiplications if numbers have 31 bits. */
#ifndef BT_CUDA_WALK_H
#define BT_CUDA_WALK_H

#include "backend/cuda/device.h"

struct bt_walk { /* in row-major order or, if the order does not matter, the smallest stride last */
    int64_t n, dims[BT_MAX_RANK], strides[BT_MAX_RANK];
    uint32_t factor[BT_MAX_RANK], shift[BT_MAX_RANK];
    int rank;
};

/* ---- on the host ---- */

/* Adds an axis inside those that the walk has. */
static inline void bt_walk_add(bt_walk *walk, int64_t dim, int64_t stride)
{
    const int last = walk->rank - 1;
    walk->n *= dim;
    if (dim == 1)
        return;
    if (walk->rank && walk->strides[last] == stride * dim) {
        walk->dims[last] *= dim;
        walk->strides[last] = stride;
    } else {
        walk->dims[walk->rank] = dim;
        walk->strides[walk->rank++] = stride;
    }
}

/* x / d = (x + (x factor >> 32)) >> shift for x < 2^31 (Granlund and Montgomery, "Division by Invariant Integers using
 * Multiplication", 1994). */
static inline void bt_walk_divisors(bt_walk *walk)
{
    for (int d = 1; d < walk->rank && walk->n && walk->n <= INT32_MAX; d++) {
        const uint64_t by = (uint64_t)walk->dims[d];
        while (UINT64_C(1) << walk->shift[d] < by)
            walk->shift[d]++;
        walk->factor[d] = (uint32_t)((((UINT64_C(1) << walk->shift[d]) - by) << 32) / by + 1);
    }
}

/* A walk over the axes of the mask. */
static inline bt_walk bt_walk_of(const bt_view *x, uint32_t axes)
{
    bt_walk walk = {};
    walk.n = 1;
    for (int d = 0; d < x->rank; d++)
        if (axes >> d & 1)
            bt_walk_add(&walk, x->dims[d], x->strides[d]);
    bt_walk_divisors(&walk);
    return walk;
}

/* The same elements in order of memory. */
static inline bt_walk bt_walk_nearest(const bt_view *x, uint32_t axes)
{
    bt_walk walk = {};
    walk.n = 1;
    for (uint32_t left = axes; left;) {
        int far = -1;
        for (int d = 0; d < x->rank; d++)
            if ((left >> d & 1) && (far < 0 || x->strides[d] > x->strides[far]))
                far = d;
        left = far < 0 ? 0 : left & ~(UINT32_C(1) << far);
        if (far >= 0)
            bt_walk_add(&walk, x->dims[far], x->strides[far]);
    }
    bt_walk_divisors(&walk);
    return walk;
}

/* The step from one element to the next, except at the end of an axis. */
static inline int64_t bt_walk_step(const bt_walk &walk) { return walk.rank ? walk.strides[walk.rank - 1] : 0; }

/* ---- on the device ---- */

/* The offset of element i, in elements. */
static inline __device__ int64_t bt_walk_at(const bt_walk &walk, int64_t i)
{
    int64_t at = 0;
    if (walk.n <= INT32_MAX) {
        uint32_t left = (uint32_t)i;
        for (int d = walk.rank - 1; d > 0; d--) {
            const uint64_t above = (uint64_t)left * walk.factor[d] >> 32;
            const uint32_t whole = (uint32_t)((above + left) >> walk.shift[d]);
            at += (int64_t)(left - whole * (uint32_t)walk.dims[d]) * walk.strides[d];
            left = whole;
        }
        return at + (int64_t)left * walk.strides[0];
    }
    for (int d = walk.rank - 1; d > 0; d--) {
        at += i % walk.dims[d] * walk.strides[d];
        i /= walk.dims[d];
    }
    return at + i * walk.strides[0];
}

#endif
