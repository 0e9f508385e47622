/* backend/cuda/ranks.c: a communicator of NCCL: how it begins and ends, and whether the other ranks are alive. */
#include "backend/cuda/ranks.h"

#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

struct bt_cuda_ranks {
    const bt_nccl *nccl;
    const bt_transport *transport;
    ncclComm_t comm;
    bt_failure failure; /* why comm is NULL */
};

static bt_status nccl_failed(const bt_nccl *nccl, const bt_transport *t, ncclResult_t result, const char *what)
{
    const char *last = nccl->last_error(NULL);
    return bt_fail(BT_ERROR_DEVICE, "NCCL: %s, rank %d of %d: %s%s%s", what, t->rank, t->ranks,
                   nccl->error_string(result), last && *last ? ": " : "", last ? last : "");
}

/* Makes the order of sums the same in every run, unless the user has set these variables. */
static void be_deterministic(void)
{
    setenv("NCCL_ALGO", "Ring", 0);
    setenv("NCCL_NVLS_ENABLE", "0", 0);
}

/* Rank 0 makes the id by which the ranks find each other. */
static bt_status begin(bt_cuda_ranks *r, bt_transport *t)
{
    ncclUniqueId own, *all = bt_alloc_array((size_t)t->ranks, sizeof *all);
    ncclResult_t result = ncclSuccess;
    memset(&own, 0, sizeof own);
    if (!all)
        return BT_ERROR_MEMORY;
    if (t->rank == 0)
        result = r->nccl->unique_id(&own);
    bt_status status = result == ncclSuccess ? BT_OK : nccl_failed(r->nccl, t, result, "making an id");
    if (status == BT_OK)
        status = t->gather(t, bt_hash_text(0, "NCCL"), &own, sizeof own, all, sizeof own);
    if (status == BT_OK && (result = r->nccl->init(&r->comm, t->ranks, all[0], t->rank)) != ncclSuccess)
        status = nccl_failed(r->nccl, t, result, "beginning");
    bt_free(all);
    return status;
}

bt_status bt_cuda_join(void *queue, bt_transport *transport)
{
    bt_cuda_queue *q = queue;
    be_deterministic();
    const bt_nccl *nccl = bt_cuda_nccl();
    if (!nccl)
        return bt_fail(BT_ERROR_DEVICE, "ranks on CUDA devices need NCCL 2.10 or later, and there is no libnccl.so.2: "
                                        "install it, or name its folder in BETTY_CUDA_LIBRARIES");
    if (!(q->ranks = bt_alloc(sizeof *q->ranks)))
        return BT_ERROR_MEMORY;
    *q->ranks = (bt_cuda_ranks){.nccl = nccl, .transport = transport};
    BT_TRY(bt_cuda_side_open(&q->apart.side));
    return begin(q->ranks, transport);
}

static bool is_alone(const bt_cuda_ranks *r) { return r->transport->failed && r->transport->failed(r->transport); }

/* The regular end needs all ranks; if the others are missing, abort does not wait for them. */
void bt_cuda_ranks_free(bt_cuda_ranks *r)
{
    if (!r)
        return;
    if (r->comm)
        (void)(is_alone(r) ? r->nccl->abort(r->comm) : r->nccl->destroy(r->comm));
    bt_free(r->failure.message);
    bt_free(r);
}

void bt_cuda_ranks_look(bt_cuda_ranks *r)
{
    ncclResult_t found = ncclSuccess;
    const bool gone = is_alone(r);
    if (!r->comm || (!gone && r->nccl->async_error(r->comm, &found) != ncclSuccess))
        return;
    if (!gone && (found == ncclSuccess || found == ncclInProgress))
        return;
    bt_failure before = bt_failure_take();
    if (gone)
        bt_fail(BT_ERROR_DEVICE, "another rank has failed");
    else
        nccl_failed(r->nccl, r->transport, found, "while ranks exchange");
    r->failure = bt_failure_take();
    bt_failure_give(&before);
    (void)r->nccl->abort(r->comm);
    r->comm = NULL;
}

bool bt_cuda_ranks_lost(const bt_cuda_ranks *r) { return r && r->failure.status != BT_OK; }

bt_status bt_cuda_ranks_status(const bt_cuda_ranks *r)
{
    if (!bt_cuda_ranks_lost(r))
        return BT_OK;
    return bt_fail(r->failure.status, "%s", r->failure.message ? r->failure.message : "another rank has failed");
}

bt_status bt_cuda_ranks_of(const bt_call *call, const bt_nccl **nccl, ncclComm_t *comm)
{
    const bt_collective_attr *attr = call->attr;
    const bt_cuda_ranks *r = ((const bt_cuda_queue *)call->queue)->ranks;
    const bt_transport *t = r ? r->transport : NULL;
    *nccl = NULL;
    BT_TRY(bt_cuda_ranks_status(r));
    if (t ? attr->rank != t->rank || attr->ranks != t->ranks : attr->ranks != 1)
        return bt_fail(BT_ERROR_INTERNAL, "%s: rank %lld of %lld, on a device that is rank %d of %d", call->op->name,
                       (long long)attr->rank, (long long)attr->ranks, t ? t->rank : 0, t ? t->ranks : 1);
    if (r) {
        *nccl = r->nccl;
        *comm = r->comm;
    }
    return BT_OK;
}

bt_status bt_cuda_ranks_try(const bt_call *call, ncclResult_t result, const char *what)
{
    const bt_cuda_ranks *r = ((const bt_cuda_queue *)call->queue)->ranks;
    return result == ncclSuccess ? BT_OK : nccl_failed(r->nccl, r->transport, result, what);
}
