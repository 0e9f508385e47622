/* backend/cuda/ranks.h: ranks with a device each; NCCL carries the data of their collectives. */
#ifndef BT_CUDA_RANKS_H
#define BT_CUDA_RANKS_H

#include "backend/cuda/cuda.h"
#include "backend/cuda/library.h"

/* Its communicator is NULL once the ranks have been given up because one has failed or is gone. */
typedef struct bt_cuda_ranks bt_cuda_ranks;

bt_status bt_cuda_join(void *queue, bt_transport *transport); /* runtime/device.h: join */
void bt_cuda_ranks_free(bt_cuda_ranks *ranks);                /* after all graphs that contain it */

/* Called while the host waits: checks that all ranks are alive. If not, ends what the device is waiting for. */
void bt_cuda_ranks_look(bt_cuda_ranks *ranks);
bool bt_cuda_ranks_lost(const bt_cuda_ranks *ranks);        /* whether they were given up; NULL: no */
bt_status bt_cuda_ranks_status(const bt_cuda_ranks *ranks); /* why they were given up; BT_OK: they were not */

/* For a call of an op with BT_OP_COLLECTIVE. *nccl is NULL if there is only one rank. */
bt_status bt_cuda_ranks_of(const bt_call *call, const bt_nccl **nccl, ncclComm_t *comm);
/* BT_OK, or an error as from bt_fail; `what` says what was being done. */
bt_status bt_cuda_ranks_try(const bt_call *call, ncclResult_t result, const char *what);

#endif
