/* backend/cuda/cuda.h: the internals of the CUDA backend: its queue and its lists of kernels. */
#ifndef BT_CUDA_H
#define BT_CUDA_H

#include "ops/ops.h"
#include "runtime/backend.h"
#include <cuda_runtime_api.h>

/* One list per file, bt_cuda_NAME, ending with a record without an op; for each op the best kernel is first. */
/* clang-format off */
#define BT_CUDA_FAMILIES(X)                                                                                            \
    X(chain) X(elementwise) X(select) X(move) X(gather) X(reduce) X(channel) X(matmul) X(dot) X(update) X(eight)       \
    X(pool) X(row) X(sort) X(along) X(random) X(host) X(convolution) X(direct) X(linalg)               \
    X(collective)
/* clang-format on */
#define BT_CUDA_DECLARE(name) extern const bt_kernel_impl bt_cuda_##name[];
BT_CUDA_FAMILIES(BT_CUDA_DECLARE)
#undef BT_CUDA_DECLARE

/* The first failure of a kernel, in pinned memory; kernels write it only when they fail. */
typedef struct bt_cuda_record {
    unsigned long long site;  /* which call, counted from 1; 0: none has failed */
    unsigned long long where; /* the first failing element in the upper half, the value there in the lower */
} bt_cuda_record;

/* Makes the error for the first element at which a kernel fails. */
typedef struct bt_cuda_site bt_cuda_site;
typedef bt_status bt_cuda_tell(const bt_cuda_site *site, int64_t element);

/* What a failing call reports: a bad index or, with `tell`, something else. */
struct bt_cuda_site {
    bt_launched launched;
    const bt_op *op;
    const void *attr;
    bt_view index;      /* the indices, or the first input; its data are not used */
    int64_t size;       /* indices must be below it */
    bt_cuda_tell *tell; /* NULL: a bad index */
};

typedef struct bt_cuda_ones { /* the factor 1 in the device's memory, for libraries that read it there */
    double f64;
    float f32;
} bt_cuda_ones;

enum { BT_CUDA_MARKS = 128 };

typedef struct bt_cuda_stage { /* a buffer that a batch passes through */
    char *far;
    cudaEvent_t filled, emptied;
} bt_cuda_stage;

/* STAGED: transfers of at least so many bytes use stages. STAGE: the size of a stage; runtime/queue.c sends no more at
 * once. */
enum { BT_CUDA_STAGES = 4, BT_CUDA_STAGED = 1 << 14, BT_CUDA_STAGE = 1 << 20 };

/* A stream beside the queue's own. Work put onto it has a rising number. Event number % BT_CUDA_SIDE belongs to this
 * number or to a later one. */
enum { BT_CUDA_SIDE = 64 };
typedef struct bt_cuda_side {
    cudaStream_t stream;
    cudaEvent_t ready, done[BT_CUDA_SIDE];
} bt_cuda_side;

typedef struct bt_cuda_apart { /* collectives that run while the queue's stream goes on */
    bt_cuda_side side;         /* opened when there are ranks */
    int64_t given;             /* how many were given since all were awaited */
} bt_cuda_apart;

typedef struct bt_cuda_queue {
    cudaStream_t stream, copies; /* copies: only for data from the host */
    bt_cuda_stage stages[BT_CUDA_STAGES];
    char *staged;      /* the memory of all stages */
    int stage;         /* the next stage */
    bt_cuda_side lane; /* for moves between the device's memory and the host's */
    cudaEvent_t events[BT_CUDA_MARKS];
    int64_t marks;          /* how many were given; event m % BT_CUDA_MARKS is of mark m or of a later one */
    bool fresh;             /* there is work after the last mark */
    bt_launched launched;   /* the call that is being launched */
    bt_cuda_record *record; /* pinned */
    bt_cuda_ones *ones;     /* in the device's memory */
    bt_cuda_site *sites;
    int64_t site_count, site_capacity;
    bt_map site_of;     /* the site by the call's views */
    bt_failure failure; /* of the device itself, found while waiting for it */
    bt_launched failed; /* the call that failed */
    bool waits;         /* waits after each launch: BETTY_CUDA=sync */
    bt_cuda_apart apart;
    cudaEvent_t *ticks; /* events with times */
    int64_t tick_count, tick_capacity;
    size_t taken;                /* bytes of the device in use when the queue was opened */
    struct bt_cuda_ranks *ranks; /* backend/cuda/ranks.h; NULL: it has joined none */
} bt_cuda_queue;

/* BT_OK, or an error as from bt_fail; `what` says what was being done. */
bt_status bt_cuda_try(cudaError_t error, const char *what);

/* For a call whose kernel may find an index outside 0 .. size-1: the number that the kernel writes to the record. -1
 * after an error. */
int64_t bt_cuda_watch(bt_cuda_queue *queue, const bt_call *call, const bt_view *index, int64_t size);
/* the same for failures other than a bad index */
int64_t bt_cuda_watch_as(bt_cuda_queue *queue, const bt_call *call, bt_cuda_tell *tell);

/* stages.c: data from the host are copied to a stage over a separate stream while the device computes, and from there
 * to their place when their turn comes. */
bt_status bt_cuda_stages_open(bt_cuda_queue *queue);
void bt_cuda_stages_close(bt_cuda_queue *queue);
bt_status bt_cuda_send_staged(bt_cuda_queue *queue, void *far, const void *pinned, size_t bytes);

/* side.c. Work put onto the side's stream after `begin` runs after all work that the queue's own stream has so far.
 * `done` gives that work its number. Work put onto the queue's stream after `await` waits for all work up to a number.
 * `what` says what is being done, for an error. */
bt_status bt_cuda_side_open(bt_cuda_side *side);
void bt_cuda_side_close(bt_cuda_side *side);
bt_status bt_cuda_side_begin(const bt_cuda_queue *queue, const bt_cuda_side *side, const char *what);
bt_status bt_cuda_side_done(const bt_cuda_side *side, int64_t number);
bt_status bt_cuda_side_await(const bt_cuda_queue *queue, const bt_cuda_side *side, int64_t number, const char *what);

/* lane.c: moves use a separate stream, in order. A move starts after all earlier work of the queue; work after a `meet`
 * waits for the moves up to a number. In a recording the moves are a branch, which the last `meet` joins again. */
bt_status bt_cuda_lane_move(void *queue, void *to, const void *from, size_t bytes, bool out, int64_t number);
bt_status bt_cuda_lane_meet(void *queue, int64_t number);

/* ticks.c: tick and between of the device table. */
bt_status bt_cuda_tick(void *queue, int64_t number);
bt_status bt_cuda_between(void *queue, int64_t number, double *seconds);
void bt_cuda_ticks_close(bt_cuda_queue *queue);

bool bt_cuda_answers(void); /* whether there is a device */
int bt_cuda_chosen(void);   /* the device of this process */
const bt_device_table *bt_cuda_device(void);

#endif
