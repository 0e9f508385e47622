/* backend/cuda/ranks.h: ranks that have a device each, between which NCCL carries what collectives exchange. */
#ifndef BT_CUDA_RANKS_H
#define BT_CUDA_RANKS_H

#include "backend/cuda/cuda.h"
#include "backend/cuda/library.h"

/* Its communicator is NULL once it has been given up: another rank has failed, or is gone. */
typedef struct bt_cuda_ranks bt_cuda_ranks;

bt_status bt_cuda_join(void *queue, bt_transport *transport); /* runtime/device.h: join */
void bt_cuda_ranks_free(bt_cuda_ranks *ranks);                /* after all graphs that it is in */

/* While the host waits: whether all ranks are there. If not, what the device waits for ends. */
void bt_cuda_ranks_look(bt_cuda_ranks *ranks);
bool bt_cuda_ranks_lost(const bt_cuda_ranks *ranks);        /* they were given up; NULL: no */
bt_status bt_cuda_ranks_status(const bt_cuda_ranks *ranks); /* why; BT_OK: they were not */

/* For a call of an op with BT_OP_COLLECTIVE. *nccl NULL: it is of one rank, and nobody to exchange with. */
bt_status bt_cuda_ranks_of(const bt_call *call, const bt_nccl **nccl, ncclComm_t *comm);
/* As bt_fail has it; `what` was being done. */
bt_status bt_cuda_ranks_try(const bt_call *call, ncclResult_t result, const char *what);

#endif
