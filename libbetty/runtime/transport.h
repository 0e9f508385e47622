/* runtime/transport.h: how ranks that are processes reach each other. All of them make the same calls in the same
 * order, and in each call every rank waits for all others. If a rank fails or is gone, all waits end: BT_ERROR_DEVICE.
 */
#ifndef BT_TRANSPORT_H
#define BT_TRANSPORT_H

#include "compile/kernels.h"

/* Folds the values of all ranks into one, in rank order: `bytes` from each of `parts`. */
typedef struct bt_folding bt_folding;
struct bt_folding {
    bt_status (*fold)(const bt_folding *how, const char *const *parts, size_t bytes, char *to);
    void *user;
};

/* `what` identifies the call and must be the same on all ranks, else BT_ERROR_INTERNAL. */
typedef struct bt_transport bt_transport;
struct bt_transport {
    int rank, ranks;
    int here, beside; /* its number among the ranks on this machine, and how many there are */
    int threads;      /* of this rank by default: its part of the machine's cores */
    /* `all` gets `bytes` from each rank, by rank. This rank gives the `mine` bytes at `own`; the rest of its `bytes` is
     * undefined. */
    bt_status (*gather)(bt_transport *transport, uint64_t what, const void *own, size_t mine, void *all, size_t bytes);
    /* `to`, which may be `own`, gets the folded bytes of all ranks; they may be folded in parts of whole 8 bytes. NULL:
     * the operands are gathered instead. */
    bt_status (*reduce)(bt_transport *transport, uint64_t what, const bt_folding *how, const void *own, void *to,
                        size_t bytes);
    /* Zeroed memory of this rank that all ranks reach at the same address; one piece at a time, until it is taken back.
     * NULL: there is none, or no more. Without such memory all three are NULL. */
    char *(*lend)(bt_transport *transport, size_t bytes);
    void (*take_back)(bt_transport *transport);
    bool (*reaches)(const bt_transport *transport, const void *at); /* it lies in such memory, of any rank */
    bool (*failed)(const bt_transport *transport); /* another rank has, or is gone; NULL: that ends this one too */
    void (*close)(bt_transport *transport);
    bool far;        /* some ranks are on other machines */
    bool one_thread; /* calls must come from the thread that began it; else from one thread at a time */
};

/* join.c: where a rank's share of `bytes` begins, in whole 8 bytes; the last rank gets the remainder. For rank ==
 * ranks: the end. */
size_t bt_transport_share(size_t bytes, int rank, int ranks);
bt_status bt_transport_parted(int rank, int other); /* the ranks are at different calls: BT_ERROR_INTERNAL */

/* ---- join.c: collectives by a transport, on memory that is near ---- */

typedef struct bt_joint bt_joint;
bt_joint *bt_joint_new(bt_transport *transport, const bt_kernel_table *kernels); /* the transport stays the caller's */
void bt_joint_free(bt_joint *joint);
int bt_joint_rank(const bt_joint *joint);
int bt_joint_ranks(const bt_joint *joint);
int bt_joint_cores(const bt_joint *joint); /* this rank's part of the machine's */
/* Like bt_alloc_aligned and bt_free_aligned, in memory that all ranks reach, if there is any. Operands and results
 * there are used in place. */
char *bt_joint_alloc(bt_joint *joint, size_t bytes);
void bt_joint_release(bt_joint *joint, char *memory, size_t bytes);

/* Makes this rank's call of an op with BT_OP_COLLECTIVE; `at` identifies its place, the same on all ranks. */
bt_status bt_joint_call(bt_joint *joint, const bt_call *call, uint64_t at);
/* Waits until all ranks are about to do the same, `what`. Exchanges nothing. */
bt_status bt_joint_meet(bt_joint *joint, uint64_t what);
/* Sums `count` numbers over the ranks, in place. */
bt_status bt_joint_sum(bt_joint *joint, bt_dtype dtype, void *numbers, int64_t count);
/* Unites bytes of which at most one rank has nonzero ones. */
bt_status bt_joint_unite(bt_joint *joint, void *bytes, size_t count);
bt_status bt_joint_any(bt_joint *joint, bool *flags, int count); /* each becomes whether it is true on any rank */
/* Finds the first number that differs between rank 0 and another rank, and that rank; *which -1: all are equal. `why`
 * identifies the question: a rank that asks another one has parted from the others. */
bt_status bt_joint_compare(bt_joint *joint, const char *why, const uint64_t *numbers, int64_t count, int64_t *which,
                           int *rank);

/* ---- page.c: processes of one machine, by memory that they share ---- */

/* Made before the processes, which inherit it from their parent. */
typedef struct bt_page bt_page;
bt_page *bt_page_new(int ranks); /* NULL after an error */
void bt_page_free(bt_page *page);
bt_transport *bt_page_transport(bt_page *page, int rank); /* within the process of this rank; NULL after an error */

/* Ends all waiting between ranks. The first report stays: a message, which may be "", and an exit code. */
void bt_page_fail(bt_page *page, const char *message, int code);
const char *bt_page_failure(const bt_page *page, int *code); /* NULL: none has failed */

/* Says that this rank has reached the end of the run; a process that ends without this has deserted the others. */
void bt_page_end(bt_page *page, int rank);
bool bt_page_ended(bt_page *page, int rank);

#endif
