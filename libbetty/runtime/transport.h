/* runtime/transport.h: how ranks that are processes reach each other. All of them make the same calls in the same
 * order, and each waits in a call for all others. That a rank fails, or is gone, ends the waiting of all:
 * BT_ERROR_DEVICE. */
#ifndef BT_TRANSPORT_H
#define BT_TRANSPORT_H

#include "compile/kernels.h"

/* Makes one value of those of all ranks, in their order: `bytes` from each of `parts`. */
typedef struct bt_folding bt_folding;
struct bt_folding {
    bt_status (*fold)(const bt_folding *how, const char *const *parts, size_t bytes, char *to);
    void *user;
};

/* `what` is a number of the call, which is the same on all ranks, or they have parted: BT_ERROR_INTERNAL. */
typedef struct bt_transport bt_transport;
struct bt_transport {
    int rank, ranks;
    int here, beside; /* its number among those on this machine, and how many these are */
    int threads;      /* of this rank, where nobody says how many: its part of the machine's cores */
    /* `all` gets `bytes` of each rank, by rank; of this one `mine` that are at `own`, and then anything. */
    bt_status (*gather)(bt_transport *transport, uint64_t what, const void *own, size_t mine, void *all, size_t bytes);
    /* `to`, which may be `own`, gets what is made of the bytes of all; they may be folded in parts of whole 8 bytes.
     * NULL: what is to be folded is gathered. */
    bt_status (*reduce)(bt_transport *transport, uint64_t what, const bt_folding *how, const void *own, void *to,
                        size_t bytes);
    /* Zeros of this rank that all ranks reach, at the same address; one piece at a time, until it is taken back. NULL:
     * there are none, or no more. Without such memory all three are NULL. */
    char *(*lend)(bt_transport *transport, size_t bytes);
    void (*take_back)(bt_transport *transport);
    bool (*reaches)(const bt_transport *transport, const void *at); /* it is in such memory, of any rank */
    bool (*failed)(const bt_transport *transport); /* another rank has, or is gone; NULL: that ends this one, too */
    void (*close)(bt_transport *transport);
    bool far;        /* some ranks are on other machines */
    bool one_thread; /* calls have to come from the thread that began it; else from one after the other */
};

/* join.c: where a rank's share of so many bytes begins, in whole 8 bytes; the last one has what is left over. Of rank
 * `ranks`: their end. */
size_t bt_transport_share(size_t bytes, int rank, int ranks);
bt_status bt_transport_parted(int rank, int other); /* they are at different calls: BT_ERROR_INTERNAL */

/* ---- join.c: collectives by a transport, on memory that is near ---- */

typedef struct bt_joint bt_joint;
bt_joint *bt_joint_new(bt_transport *transport, const bt_kernel_table *kernels); /* the transport stays the caller's */
void bt_joint_free(bt_joint *joint);
int bt_joint_rank(const bt_joint *joint);
int bt_joint_ranks(const bt_joint *joint);
int bt_joint_cores(const bt_joint *joint); /* of the machine, this rank's part */
/* As bt_alloc_aligned and bt_free_aligned: memory that all ranks reach, if there is any. Operands and results that lie
 * there are computed where they are. */
char *bt_joint_alloc(bt_joint *joint, size_t bytes);
void bt_joint_release(bt_joint *joint, char *memory, size_t bytes);

/* The call of an op with BT_OP_COLLECTIVE, of this rank; `at`: a number of its place, the same on all ranks. */
bt_status bt_joint_call(bt_joint *joint, const bt_call *call, uint64_t at);
/* All ranks are about to do the same: `what`. Nothing is exchanged. */
bt_status bt_joint_meet(bt_joint *joint, uint64_t what);
/* The sum over the ranks of so many numbers, in their place. */
bt_status bt_joint_sum(bt_joint *joint, bt_dtype dtype, void *numbers, int64_t count);
/* The bytes that any rank has: where the others have zeros. */
bt_status bt_joint_unite(bt_joint *joint, void *bytes, size_t count);
bt_status bt_joint_any(bt_joint *joint, bool *flags, int count); /* each, whether it is true on any rank */
/* The first number that another rank has otherwise than rank 0, and that rank; *which -1: all have the same. `why`: as
 * a rank that has come to the end asks, and others do not. */
bt_status bt_joint_compare(bt_joint *joint, const char *why, const uint64_t *numbers, int64_t count, int64_t *which,
                           int *rank);

/* ---- page.c: processes of one machine, by memory that they share ---- */

/* It is made before the processes are, which have it from their parent. */
typedef struct bt_page bt_page;
bt_page *bt_page_new(int ranks); /* NULL after an error */
void bt_page_free(bt_page *page);
bt_transport *bt_page_transport(bt_page *page, int rank); /* within the process of this rank; NULL after an error */

/* From now on no rank waits for another one. What is said first stays: a message, which may be "", and an exit code. */
void bt_page_fail(bt_page *page, const char *message, int code);
const char *bt_page_failure(const bt_page *page, int *code); /* NULL: none has failed */

/* This rank has come to the end of the run; a process that ends without it has left the others. */
void bt_page_end(bt_page *page, int rank);
bool bt_page_ended(bt_page *page, int rank);

#endif
