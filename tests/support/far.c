/* tests/support/far.c: a device whose memory the host cannot touch, and which delays its work. */
#include "support/far.h"

#include "support/chains.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- memory: one address range for all queues, accessible while any of them works ---- */

enum { PAGE = 4096, BLOCKS = 1 << 16, PATIENCE = 1 << 12 };
#define REGION ((size_t)1 << 36)

typedef struct block {
    size_t start, size;
    bool used;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *region;
static block blocks[BLOCKS]; /* contiguous, from the start of the region */
static int block_count;
static size_t top; /* the end of the last block */
static int working;
static bool hurried;
static far_counts counts;

static void protect(int rights)
{
    if (top && mprotect(region, top, rights) != 0)
        abort();
}

static void begin_work(void)
{
    pthread_mutex_lock(&lock);
    if (!working++)
        protect(PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&lock);
}

static void end_work(void)
{
    pthread_mutex_lock(&lock);
    if (!--working)
        protect(PROT_NONE);
    pthread_mutex_unlock(&lock);
}

static block *place_for(size_t size)
{
    for (int i = 0; i < block_count; i++)
        if (!blocks[i].used && blocks[i].size >= size && blocks[i].size <= 2 * size)
            return &blocks[i];
    if (block_count == BLOCKS || size > REGION - top)
        return NULL;
    blocks[block_count] = (block){top, size, false};
    top += size;
    return &blocks[block_count++];
}

static void *far_alloc(void *queue, size_t bytes)
{
    (void)queue;
    pthread_mutex_lock(&lock);
    if (!region) {
        void *mapped = mmap(NULL, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        region = mapped == MAP_FAILED ? NULL : mapped;
    }
    block *found = region && bytes < REGION ? place_for((bytes / PAGE + 1) * PAGE) : NULL;
    if (found) {
        found->used = true;
        if (working)
            protect(PROT_READ | PROT_WRITE);
    }
    pthread_mutex_unlock(&lock);
    if (found)
        return region + found->start;
    bt_fail(BT_ERROR_MEMORY, "out of memory: %zu bytes could not be allocated on the device", bytes);
    return NULL;
}

/* Gives the pages back, so that they read as zero when the block is used again. */
static void far_free(void *queue, void *memory)
{
    (void)queue;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < block_count; i++)
        if (region + blocks[i].start == memory) {
            blocks[i].used = false;
            if (madvise(memory, blocks[i].size, MADV_DONTNEED) != 0)
                abort();
        }
    pthread_mutex_unlock(&lock);
}

/* ---- the queue ---- */

typedef enum kind { LAUNCH, COPY, FILL, MOVE, MEET } kind;

typedef struct work {
    kind kind;
    const bt_kernel_impl *kernel;
    bt_call call;
    bt_view *views;
    bt_launched site;
    char *to;
    const char *from;
    size_t bytes;
    int byte;
    int64_t number; /* the number of a move; for MEET: of the last move to wait for */
} work;

typedef struct recording { /* recorded work; it owns its views */
    work *works;
    int64_t count, capacity;
} recording;

typedef struct far_queue {
    recording *kept; /* NULL: nothing is being recorded */
    work *works;     /* from `first` on: not done yet */
    int64_t first, count, capacity;
    int64_t done; /* over the whole life of the queue */
    work *lane;   /* moves that have started but nobody has waited for: done as late as possible */
    int64_t lane_count, lane_capacity;
    bt_device_failure failure;
} far_queue;

static void *far_open(void) { return bt_alloc(sizeof(far_queue)); }

static void far_close(void *queue)
{
    far_queue *q = queue;
    for (int64_t i = q->first; i < q->count; i++)
        bt_free(q->works[i].views);
    bt_free(q->failure.failure.message);
    bt_free(q->works);
    bt_free(q->lane);
    bt_free(q);
}

static int64_t far_mark(void *queue)
{
    const far_queue *q = queue;
    return q->done + q->count - q->first;
}

/* Keeps the failure of the kernel separate from any error of the host's thread. */
static void launch_now(far_queue *q, const work *w)
{
    bt_failure before = bt_failure_take();
    bt_status status = bt_kernel_run(w->kernel, &w->call);
    if (status != BT_OK) {
        bt_fail(status, "%s failed", w->call.op->name);
        q->failure = (bt_device_failure){.failure = bt_failure_take(), .site = w->site};
    }
    bt_error_clear();
    bt_failure_give(&before);
}

/* Performs the moves up to this number, in order. */
static void meet_now(far_queue *q, int64_t number)
{
    int64_t made = 0;
    while (made < q->lane_count && q->lane[made].number <= number) {
        memcpy(q->lane[made].to, q->lane[made].from, q->lane[made].bytes);
        made++;
    }
    if (made)
        memmove(q->lane, q->lane + made, (size_t)(q->lane_count - made) * sizeof *q->lane);
    q->lane_count -= made;
}

static void move_now(far_queue *q, const work *w)
{
    work *lane = bt_grow(q->lane, &q->lane_capacity, q->lane_count + 1, sizeof *lane);
    if (!lane)
        abort();
    q->lane = lane;
    lane[q->lane_count++] = *w;
    if (hurried)
        meet_now(q, w->number);
}

static void do_now(far_queue *q, const work *w)
{
    if (w->kind == LAUNCH)
        launch_now(q, w);
    else if (w->kind == COPY)
        memcpy(w->to, w->from, w->bytes);
    else if (w->kind == FILL)
        memset(w->to, w->byte, w->bytes);
    else if (w->kind == MOVE)
        move_now(q, w);
    else
        meet_now(q, w->number);
}

static void do_next(far_queue *q)
{
    work *w = &q->works[q->first];
    if (q->failure.failure.status == BT_OK)
        do_now(q, w);
    else
        q->lane_count = 0;
    bt_free(w->views);
    q->first++;
    q->done++;
}

static void do_until(far_queue *q, int64_t mark)
{
    if (q->done >= mark)
        return;
    begin_work();
    while (q->done < mark)
        do_next(q);
    end_work();
}

static bt_device_failure far_wait(void *queue, int64_t mark)
{
    far_queue *q = queue;
    counts.waits++;
    do_until(q, mark);
    bt_device_failure found = q->failure;
    q->failure = (bt_device_failure){.failure = {BT_OK, NULL}};
    return found;
}

static bt_status keep(recording *r, const work *w)
{
    work *works = bt_grow(r->works, &r->capacity, r->count + 1, sizeof *works);
    if (!works) {
        bt_free(w->views);
        return BT_ERROR_MEMORY;
    }
    r->works = works;
    works[r->count++] = *w;
    return BT_OK;
}

static bt_status append(far_queue *q, const work *w)
{
    if (q->kept)
        return keep(q->kept, w);
    if (q->first > PATIENCE) {
        memmove(q->works, q->works + q->first, (size_t)(q->count - q->first) * sizeof *q->works);
        q->count -= q->first;
        q->first = 0;
    }
    work *works = bt_grow(q->works, &q->capacity, q->count + 1, sizeof *works);
    if (!works) {
        bt_free(w->views);
        return BT_ERROR_MEMORY;
    }
    q->works = works;
    works[q->count++] = *w;
    if (hurried || q->count - q->first > 2 * PATIENCE) /* a real device makes progress on its own */
        do_until(q, far_mark(q) - (hurried ? 0 : PATIENCE));
    return BT_OK;
}

static bt_status far_copy(void *queue, void *to, const void *from, size_t bytes)
{
    counts.copies++;
    counts.bytes += (int64_t)bytes;
    return append(queue, &(work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
}

static bt_status far_move(void *queue, void *to, const void *from, size_t bytes, bool out, int64_t number)
{
    *(out ? &counts.moved_out : &counts.moved_back) += (int64_t)bytes;
    counts.moves++;
    return append(queue, &(work){.kind = MOVE, .to = to, .from = from, .bytes = bytes, .number = number});
}

static bt_status far_meet(void *queue, int64_t number)
{
    return append(queue, &(work){.kind = MEET, .number = number});
}

static bt_status far_send(void *queue, void *far, const void *pinned, size_t bytes)
{
    counts.sent += (int64_t)bytes;
    return far_copy(queue, far, pinned, bytes);
}

static bt_status far_fill(void *queue, void *to, int byte, size_t bytes)
{
    counts.fills++;
    return append(queue, &(work){.kind = FILL, .to = to, .byte = byte, .bytes = bytes});
}

/* A kernel may only access the device's memory. */
static void check_views(const bt_view *views, int count, const bt_kernel_impl *kernel)
{
    for (int i = 0; i < count; i++)
        if (views[i].data && bt_array_count(bt_view_array(&views[i])) &&
            (views[i].data < region || views[i].data >= region + top)) {
            fprintf(stderr, "%s is given memory of the host\n", kernel->name);
            abort();
        }
}

static bt_status append_call(far_queue *q, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site)
{
    work w = {.kernel = kernel, .call = *call, .site = site};
    check_views(call->in, call->inputs, kernel);
    check_views(call->out, call->outputs, kernel);
    w.views = bt_alloc_array((size_t)(call->inputs + call->outputs) + 1, sizeof *w.views);
    if (!w.views)
        return BT_ERROR_MEMORY;
    if (call->inputs)
        memcpy(w.views, call->in, (size_t)call->inputs * sizeof *w.views);
    if (call->outputs)
        memcpy(w.views + call->inputs, call->out, (size_t)call->outputs * sizeof *w.views);
    w.call.in = w.views;
    w.call.out = w.views + call->inputs;
    return append(q, &w);
}

static bt_status far_launch(void *queue, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site)
{
    counts.launches++;
    return append_call(queue, kernel, call, site);
}

/* ---- recording and replay ---- */

static bt_status far_record(void *queue)
{
    far_queue *q = queue;
    q->kept = bt_alloc(sizeof *q->kept);
    return q->kept ? BT_OK : BT_ERROR_MEMORY;
}

static void *far_recorded(void *queue)
{
    far_queue *q = queue;
    recording *kept = q->kept;
    q->kept = NULL;
    return kept;
}

static bt_status far_replay(void *queue, void *kept)
{
    const recording *r = kept;
    counts.replays++;
    for (int64_t i = 0; i < r->count; i++) {
        const work *w = &r->works[i];
        if (w->kind == LAUNCH)
            BT_TRY(append_call(queue, w->kernel, &w->call, w->site));
        else
            BT_TRY(append(queue, w));
    }
    return BT_OK;
}

static void far_discard(void *kept)
{
    recording *r = kept;
    for (int64_t i = 0; i < r->count; i++)
        bt_free(r->works[i].views);
    bt_free(r->works);
    bt_free(r);
}

static const bt_device_table device = {
    .open = far_open,
    .close = far_close,
    .alloc = far_alloc,
    .free = far_free,
    .pin = bt_alloc,
    .unpin = bt_free,
    .send = far_send,
    .copy = far_copy,
    .fetch = far_copy,
    .move = far_move,
    .meet = far_meet,
    .fill = far_fill,
    .launch = far_launch,
    .mark = far_mark,
    .wait = far_wait,
    .record = far_record,
    .recorded = far_recorded,
    .replay = far_replay,
    .discard = far_discard,
};

/* ---- the backend ---- */

const bt_backend *far_backend(void)
{
    static bt_backend backend;
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    if (!backend.device) {
        backend = *chains_backend();
        backend.device = &device;
    }
    pthread_mutex_unlock(&once);
    return &backend;
}

bool far_is_chosen(void)
{
    const char *wanted = getenv("BETTY_TEST_BACKEND");
    return wanted && strcmp(wanted, "far") == 0;
}

far_counts far_counted(void) { return counts; }
void far_forget(void) { counts = (far_counts){0}; }
void far_hurry(bool at_once) { hurried = at_once; }
