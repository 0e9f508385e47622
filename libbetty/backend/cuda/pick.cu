/* backend/cuda/pick.cu: the largest or smallest of the ranks' values, with the CPU's bits. NCCL's own reduction ignores
 * NaN. */
extern "C" {
#include "backend/cuda/pick.h"
}
#include "backend/cuda/device.h"
#include "backend/pick.h"

typedef struct picking {
    const char *all;
    char *to;
    int64_t ranks, n;
    bool largest;
} picking;

template <class T> static __global__ void pick(const picking p)
{
    const T *all = (const T *)p.all;
    BT_CUDA_EACH(i, p.n)
    {
        T found = all[i];
        for (int64_t r = 1; r < p.ranks; r++) {
            const T x = all[r * p.n + i];
            found = p.largest ? BT_PICK(found, x, >) : BT_PICK(found, x, <);
        }
        ((T *)p.to)[i] = found;
    }
}

bt_status bt_cuda_pick(const bt_call *call, const char *all, int64_t ranks, int64_t n, char *to)
{
    const bt_collective_attr *attr = (const bt_collective_attr *)call->attr;
    const picking p = {all, to, ranks, n, attr->reduction == BT_REDUCE_MAX};
    return bt_cuda_each<picking>(call, call->in[0].dtype == BT_F64 ? pick<double> : pick<float>, n, p);
}
