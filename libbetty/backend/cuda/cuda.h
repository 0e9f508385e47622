/* backend/cuda/cuda.h: the CUDA backend from within: its queue, and the lists of its kernels. */
#ifndef BT_CUDA_H
#define BT_CUDA_H

#include "ops/ops.h"
#include "runtime/backend.h"
#include <cuda_runtime_api.h>

/* One list per file, bt_cuda_NAME, ending with a record without an op; of one op the best first. */
/* clang-format off */
#define BT_CUDA_FAMILIES(X)                                                                                            \
    X(chain) X(elementwise) X(select) X(move) X(gather) X(reduce) X(channel) X(matmul) X(dot) X(update) X(eight)       \
    X(pool) X(row) X(sort) X(along) X(random) X(host) X(convolution) X(direct) X(linalg)               \
    X(collective)
/* clang-format on */
#define BT_CUDA_DECLARE(name) extern const bt_kernel_impl bt_cuda_##name[];
BT_CUDA_FAMILIES(BT_CUDA_DECLARE)
#undef BT_CUDA_DECLARE

/* The first failure that kernels have met, in pinned memory; they write it, and only where they fail. */
typedef struct bt_cuda_record {
    unsigned long long site;  /* which call, from 1 on; 0: none has failed */
    unsigned long long where; /* the first element in the upper half, what stands there in the lower */
} bt_cuda_record;

/* The error of the first element that a kernel fails at. */
typedef struct bt_cuda_site bt_cuda_site;
typedef bt_status bt_cuda_tell(const bt_cuda_site *site, int64_t element);

/* What a call that can fail is about: indices, or, with `tell`, something else. */
struct bt_cuda_site {
    bt_launched launched;
    const bt_op *op;
    const void *attr;
    bt_view index;      /* the indices, or the first input; its data is not used */
    int64_t size;       /* indices are below it */
    bt_cuda_tell *tell; /* NULL: it is about indices */
};

typedef struct bt_cuda_ones { /* 1, where libraries read a factor from the device's memory */
    double f64;
    float f32;
} bt_cuda_ones;

enum { BT_CUDA_MARKS = 128 };

typedef struct bt_cuda_stage { /* a place on the way of a batch */
    char *far;
    cudaEvent_t filled, emptied;
} bt_cuda_stage;

/* STAGED: bytes from which on they are used; STAGE: of each: runtime/queue.c sends no more at once. */
enum { BT_CUDA_STAGES = 4, BT_CUDA_STAGED = 1 << 14, BT_CUDA_STAGE = 1 << 20 };

/* A stream beside the queue's own. What is put onto it has a number, which rises; it is of event number % BT_CUDA_SIDE,
 * or of a later one. */
enum { BT_CUDA_SIDE = 64 };
typedef struct bt_cuda_side {
    cudaStream_t stream;
    cudaEvent_t ready, done[BT_CUDA_SIDE];
} bt_cuda_side;

typedef struct bt_cuda_apart { /* what ranks exchange while the queue's stream goes on */
    bt_cuda_side side;         /* opened once there are ranks */
    int64_t given;             /* since all have been awaited */
} bt_cuda_apart;

typedef struct bt_cuda_queue {
    cudaStream_t stream, copies; /* copies: only of what comes from the host */
    bt_cuda_stage stages[BT_CUDA_STAGES];
    char *staged;      /* all of them */
    int stage;         /* the next one */
    bt_cuda_side lane; /* of moves between the device's memory and the host's */
    cudaEvent_t events[BT_CUDA_MARKS];
    int64_t marks;          /* how many have been given; mark m is of event m % BT_CUDA_MARKS, or of a later one */
    bool fresh;             /* work has been put onto it since the last one */
    bt_launched launched;   /* the call that is being launched */
    bt_cuda_record *record; /* pinned */
    bt_cuda_ones *ones;     /* far */
    bt_cuda_site *sites;
    int64_t site_count, site_capacity;
    bt_map site_of;     /* by the call's views: its site */
    bt_failure failure; /* of the device itself: found while waiting for it */
    bt_launched failed; /* where */
    bool waits;         /* after each launch: BETTY_CUDA=sync */
    bt_cuda_apart apart;
    cudaEvent_t *ticks; /* with times */
    int64_t tick_count, tick_capacity;
    size_t taken;                /* bytes of the device that were taken when it was opened */
    struct bt_cuda_ranks *ranks; /* backend/cuda/ranks.h; NULL: it has been joined to none */
} bt_cuda_queue;

/* BT_OK, or the error as bt_fail has it; `what` was being done. */
bt_status bt_cuda_try(cudaError_t error, const char *what);

/* For a call whose kernel may find an index that is not within 0 .. size-1: the number that it leaves in the record.
 * -1 after an error. */
int64_t bt_cuda_watch(bt_cuda_queue *queue, const bt_call *call, const bt_view *index, int64_t size);
/* likewise, of other failures than those of an index */
int64_t bt_cuda_watch_as(bt_cuda_queue *queue, const bt_call *call, bt_cuda_tell *tell);

/* stages.c: what the host sends goes over a stream of its own to a stage, while the device computes, and from there to
 * its place when its turn comes. */
bt_status bt_cuda_stages_open(bt_cuda_queue *queue);
void bt_cuda_stages_close(bt_cuda_queue *queue);
bt_status bt_cuda_send_staged(bt_cuda_queue *queue, void *far, const void *pinned, size_t bytes);

/* side.c. What is put onto the side's stream after `begin` comes behind all that the queue's own stream has so far;
 * with `done` it has its number; what the queue's stream gets after `await` waits for all up to a number. `what` is
 * being done, for an error. */
bt_status bt_cuda_side_open(bt_cuda_side *side);
void bt_cuda_side_close(bt_cuda_side *side);
bt_status bt_cuda_side_begin(const bt_cuda_queue *queue, const bt_cuda_side *side, const char *what);
bt_status bt_cuda_side_done(const bt_cuda_side *side, int64_t number);
bt_status bt_cuda_side_await(const bt_cuda_queue *queue, const bt_cuda_side *side, int64_t number, const char *what);

/* lane.c: moves go over a stream of their own, one after the other: each begins once what was put onto the queue before
 * it is done, and what comes behind a `meet` waits for those up to a number. In a recording they are a branch of it,
 * which joins it again with the last `meet`. */
bt_status bt_cuda_lane_move(void *queue, void *to, const void *from, size_t bytes, bool out, int64_t number);
bt_status bt_cuda_lane_meet(void *queue, int64_t number);

/* ticks.c: as tick and between of the device. */
bt_status bt_cuda_tick(void *queue, int64_t number);
bt_status bt_cuda_between(void *queue, int64_t number, double *seconds);
void bt_cuda_ticks_close(bt_cuda_queue *queue);

bool bt_cuda_answers(void); /* there is a device */
int bt_cuda_chosen(void);   /* that of this process */
const bt_device_table *bt_cuda_device(void);

#endif
