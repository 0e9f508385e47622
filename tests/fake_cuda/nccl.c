/* tests/fake_cuda/nccl.c: NCCL for simulated devices, between processes of one machine that share memory. A call makes
 * progress when its turn in its stream comes and as the other ranks do: each rank puts part of its data into its slot
 * and, once all have, takes what it needs. Sums follow a ring that starts at a different rank from block to block, as
 * NCCL's do: the same bits on all ranks and in every run, but not in rank order. Maximum and minimum ignore NaN, as on
 * the device.
 *
 * Calls that NCCL would refuse are refused. If ranks make different calls, where NCCL would hang or give garbage, the
 * process aborts. FAKE_NCCL=absent: NCCL is unusable; lost: it reports that it has lost the other ranks.
 * FAKE_NCCL_SECONDS: how long ranks wait for each other at the start (30). */
#include "nccl.h"

#include "fake.h"
#include "memory.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 64, PART = 1 << 16, BLOCK = 512, MOST_TOGETHER = 4096 };
enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE };

typedef struct what { /* the parameters of a call that all ranks must agree on */
    enum kind kind;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
    size_t count;
} what;

typedef struct slot {
    what what;
    _Alignas(16) char bytes[PART];
} slot;

typedef struct page { /* memory shared by the ranks */
    atomic_int ranks, arrived, left;
    atomic_int devices[MOST_RANKS]; /* of each rank, counted from 1 */
    atomic_uint_least64_t posted[MOST_RANKS];
    slot slots[]; /* for two turns, one for each rank */
} page;

typedef struct call {
    ncclComm_t comm;
    what what;
    const char *send;
    char *recv;
    cudaStream_t stream;
} call;

struct ncclComm {
    page *page;
    size_t size;
    int rank, ranks;
    uint64_t turns;    /* parts exchanged so far */
    const call *busy;  /* the call in progress, */
    size_t at;         /* and how many of its elements are done */
    bool posted, over; /* over: aborted or destroyed */
    int groups;
    ncclComm_t next; /* all that ever existed: calls in graphs refer to them */
};

static ncclComm_t comms;
static char last_error[256];
static _Thread_local int depth;
static _Thread_local call together[MOST_TOGETHER];
static _Thread_local int together_count;
static _Thread_local ncclResult_t together_result;

static ncclResult_t refuse(ncclResult_t result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return result;
}

static bool is_set(const char *value)
{
    const char *set = getenv("FAKE_NCCL");
    return set && strcmp(set, value) == 0;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = 22809;
    return is_set("absent") ? ncclSystemError : ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return result <= ncclInProgress ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return last_error;
}

/* ---- beginning and ending ---- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId)
{
    static int number;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    memset(uniqueId, 0, sizeof *uniqueId);
    snprintf(uniqueId->internal, sizeof uniqueId->internal, "/fake-nccl.%ld.%d.%lld", (long)getpid(), number++,
             (long long)now.tv_nsec);
    return ncclSuccess;
}

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL); }

static ncclResult_t map(ncclComm_t c, const char *name)
{
    c->size = sizeof(page) + 2 * (size_t)c->ranks * sizeof(slot);
    const int file = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, (off_t)c->size) != 0)
        return refuse(ncclSystemError, "no shared memory");
    void *memory = mmap(NULL, c->size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    c->page = memory == MAP_FAILED ? NULL : memory;
    return c->page ? ncclSuccess : refuse(ncclSystemError, "no shared memory");
}

static ncclResult_t arrive(ncclComm_t c)
{
    int device, none = 0, ranks = 0;
    page *p = c->page;
    if (cudaGetDevice(&device) != cudaSuccess)
        return refuse(ncclUnhandledCudaError, "there is no device");
    if (!atomic_compare_exchange_strong(&p->ranks, &ranks, c->ranks) && ranks != c->ranks)
        return refuse(ncclInvalidUsage, "one rank says that they are %d, another one %d", ranks, c->ranks);
    if (!atomic_compare_exchange_strong(&p->devices[c->rank], &none, device + 1))
        return refuse(ncclInvalidUsage, "there is a rank %d already", c->rank);
    atomic_fetch_add(&p->arrived, 1);
    const char *seconds = getenv("FAKE_NCCL_SECONDS");
    const time_t until = time(NULL) + (seconds ? atoi(seconds) : 30);
    while (atomic_load(&p->arrived) < c->ranks)
        if (time(NULL) > until)
            return refuse(ncclSystemError, "not all ranks have come");
        else
            nap();
    for (int r = 0; r < c->ranks; r++)
        if (r != c->rank && atomic_load(&p->devices[r]) == device + 1)
            return refuse(ncclInvalidUsage, "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d",
                          c->rank, r, device);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
    if (nranks < 1 || nranks > MOST_RANKS || rank < 0 || rank >= nranks)
        return refuse(ncclInvalidArgument, "rank %d of %d", rank, nranks);
    if (strncmp(commId.internal, "/fake-nccl.", 11) != 0)
        return refuse(ncclInvalidArgument, "the id is none of ncclGetUniqueId");
    ncclComm_t c = calloc(1, sizeof *c);
    if (!c)
        return ncclSystemError;
    *c = (struct ncclComm){.rank = rank, .ranks = nranks, .next = comms};
    comms = c;
    ncclResult_t result = map(c, commId.internal);
    if (result == ncclSuccess) {
        result = arrive(c);
        shm_unlink(commId.internal); /* later ranks must not find it */
    }
    *comm = result == ncclSuccess ? c : NULL;
    fake_go_on_alone();
    return result;
}

static ncclResult_t end(ncclComm_t comm)
{
    if (!comm || comm->over)
        return refuse(ncclInvalidArgument, "there is no such communicator");
    fake_hold();
    comm->over = true;
    munmap(comm->page, comm->size);
    comm->page = NULL;
    fake_let_go();
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (comm && comm->busy) {
        fprintf(stderr, "fake NCCL: a communicator is destroyed while it is at work\n");
        abort();
    }
    return end(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) { return end(comm); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
    if (!comm || comm->over)
        return refuse(ncclInvalidArgument, "there is no such communicator");
    *asyncError = is_set("lost") && comm->busy ? refuse(ncclRemoteError, "the connection was closed") : ncclSuccess;
    return ncclSuccess;
}

/* ---- exchanging ---- */

static size_t size_of(ncclDataType_t type)
{
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8};
    return sizes[type];
}

static slot *slot_of(const struct ncclComm *c, int rank)
{
    return &c->page->slots[(size_t)(c->turns % 2) * (size_t)c->ranks + (size_t)rank];
}

/* The number of elements that each rank sends. */
static size_t given(const call *c)
{
    return c->what.count * (c->what.kind == REDUCE_SCATTER ? (size_t)c->comm->ranks : 1);
}

static size_t some_of(const call *c)
{
    const size_t left = given(c) - c->comm->at, most = PART / size_of(c->what.type);
    return left < most ? left : most;
}

#define FOLD(T, name)                                                                                                  \
    static void name(const call *c, size_t element, size_t i, char *to)                                                \
    {                                                                                                                  \
        const int first = (int)(element / BLOCK % (size_t)c->comm->ranks);                                             \
        T all = ((const T *)(const void *)slot_of(c->comm, first)->bytes)[i];                                          \
        for (int r = 1; r < c->comm->ranks; r++) {                                                                     \
            const T x = ((const T *)(const void *)slot_of(c->comm, (first + r) % c->comm->ranks)->bytes)[i];           \
            all = c->what.op == ncclSum   ? (T)(all + x)                                                               \
                  : c->what.op == ncclMax ? (x > all || all != all ? x : all)                                          \
                                          : (x < all || all != all ? x : all);                                         \
        }                                                                                                              \
        memcpy(to, &all, sizeof all);                                                                                  \
    }
FOLD(float, fold_f32)
FOLD(double, fold_f64)
FOLD(int32_t, fold_i32)
FOLD(int64_t, fold_i64)

/* Reduces element i of the current part. */
static void fold(const call *c, size_t i, char *to)
{
    const size_t element = c->comm->at + i;
    switch (c->what.type) {
    case ncclFloat32:
        fold_f32(c, element, i, to);
        break;
    case ncclFloat64:
        fold_f64(c, element, i, to);
        break;
    case ncclInt32:
        fold_i32(c, element, i, to);
        break;
    default:
        fold_i64(c, element, i, to);
    }
}

static void take(const call *c, size_t some)
{
    const struct ncclComm *comm = c->comm;
    const size_t size = size_of(c->what.type), at = comm->at, count = c->what.count;
    if (c->what.kind == BROADCAST)
        memcpy(c->recv + at * size, slot_of(comm, c->what.root)->bytes, some * size);
    for (int r = 0; c->what.kind == ALL_GATHER && r < comm->ranks; r++)
        memcpy(c->recv + ((size_t)r * count + at) * size, slot_of(comm, r)->bytes, some * size);
    for (size_t i = 0; c->what.kind == ALL_REDUCE && i < some; i++)
        fold(c, i, c->recv + (at + i) * size);
    for (size_t i = 0; c->what.kind == REDUCE && comm->rank == c->what.root && i < some; i++)
        fold(c, i, c->recv + (at + i) * size);
    for (size_t i = 0; c->what.kind == REDUCE_SCATTER && i < some; i++)
        if ((at + i) / count == (size_t)comm->rank)
            fold(c, i, c->recv + (at + i) % count * size);
}

static void post(const call *c, size_t some)
{
    struct ncclComm *comm = c->comm;
    const size_t size = size_of(c->what.type);
    slot *own = slot_of(comm, comm->rank);
    own->what = c->what;
    if (c->what.kind != BROADCAST || comm->rank == c->what.root)
        memcpy(own->bytes, c->send + comm->at * size, some * size);
    comm->posted = true;
    atomic_store(&comm->page->posted[comm->rank], comm->turns + 1);
}

static bool all_posted(const struct ncclComm *c)
{
    for (int r = 0; r < c->ranks; r++)
        if (atomic_load(&c->page->posted[r]) <= c->turns)
            return false;
    return true;
}

static void compare(const call *c)
{
    const what *own = &c->what;
    for (int r = 0; r < c->comm->ranks; r++) {
        const what *other = &slot_of(c->comm, r)->what;
        if (own->kind == other->kind && own->type == other->type && own->op == other->op && own->root == other->root &&
            own->count == other->count)
            continue;
        fprintf(stderr, "fake NCCL: ranks %d and %d are at different calls: %d of %zu, and %d of %zu\n", c->comm->rank,
                r, (int)own->kind, own->count, (int)other->kind, other->count);
        abort();
    }
}

/* The calls of a communicator run one after the other. */
static fake_progress go_on(const void *args)
{
    const call *c = args;
    struct ncclComm *comm = c->comm;
    if (comm->over) /* aborted: the result does not matter */
        return FAKE_DONE;
    if (comm->busy && comm->busy != c)
        return FAKE_STUCK;
    const size_t some = some_of(c);
    const bool moved = !comm->posted;
    comm->busy = c;
    if (moved)
        post(c, some);
    if (!all_posted(comm))
        return moved ? FAKE_MOVED : FAKE_STUCK;
    compare(c);
    take(c, some);
    comm->at += some;
    comm->turns++;
    comm->posted = false;
    if (comm->at < given(c))
        return FAKE_MOVED;
    comm->busy = NULL;
    comm->at = 0;
    return FAKE_DONE;
}

/* ---- the calls ---- */

static ncclResult_t put(const call *c)
{
    return fake_run_part(go_on, c, sizeof *c, c->stream) == cudaSuccess
               ? ncclSuccess
               : refuse(ncclUnhandledCudaError, "a stream that takes nothing");
}

static ncclResult_t check(const call *c)
{
    const int ranks = c->comm && !c->comm->over ? c->comm->ranks : 0;
    const what *w = &c->what;
    if (!ranks)
        return refuse(ncclInvalidArgument, "there is no such communicator");
    if ((int)w->type < 0 || w->type > ncclFloat64 || (int)w->op < 0 || w->op > ncclAvg || w->root < 0 ||
        w->root >= ranks)
        return refuse(ncclInvalidArgument, "an unknown type or operation, or a root that is not a rank");
    const size_t bytes = w->count * size_of(w->type), all = bytes * (size_t)ranks;
    const bool gets = w->kind != REDUCE || c->comm->rank == w->root;
    if (!fake_memory_has(c->send, w->kind == REDUCE_SCATTER ? all : bytes) ||
        (gets && !fake_memory_has(c->recv, w->kind == ALL_GATHER ? all : bytes)))
        return refuse(ncclInvalidArgument, "memory that is not the device's");
    return ncclSuccess;
}

static ncclResult_t begin(call c)
{
    ncclResult_t result = c.what.count || !c.comm ? check(&c) : ncclSuccess;
    if (result == ncclSuccess && depth && together_count == MOST_TOGETHER)
        result = refuse(ncclInvalidUsage, "too many calls in a group");
    if (depth && result != ncclSuccess)
        together_result = result;
    if (result != ncclSuccess || !c.what.count)
        return result;
    if (!depth)
        return put(&c);
    together[together_count++] = c;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

/* The calls of a group run in an arbitrary order, the same on all ranks. */
ncclResult_t ncclGroupEnd(void)
{
    if (!depth)
        return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--depth)
        return ncclSuccess;
    ncclResult_t result = together_result;
    const int count = together_count;
    const bool backwards = count && together[0].comm->groups++ % 2;
    for (int i = 0; i < count && result == ncclSuccess; i++)
        result = put(&together[backwards ? count - 1 - i : i]);
    together_count = 0;
    together_result = ncclSuccess;
    return result;
}

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    return begin((call){comm, {ALL_REDUCE, datatype, op, 0, count}, sendbuff, recvbuff, stream});
}

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream)
{
    return begin((call){comm, {ALL_GATHER, datatype, ncclSum, 0, sendcount}, sendbuff, recvbuff, stream});
}

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return begin((call){comm, {REDUCE_SCATTER, datatype, op, 0, recvcount}, sendbuff, recvbuff, stream});
}

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return begin((call){comm, {BROADCAST, datatype, ncclSum, root, count}, sendbuff, recvbuff, stream});
}

ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream)
{
    return begin((call){comm, {REDUCE, datatype, op, root, count}, sendbuff, recvbuff, stream});
}
