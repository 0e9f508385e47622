/* runtime/queue.c: work in order on a device, and copies to and from it. */
#include "runtime/queue.h"

#include "base/map.h"
#include "runtime/bind.h"
#include <string.h>

enum { LETTERS = 64, PARCELS = 16, PIECE = 1 << 20 };

typedef struct slot { /* pinned memory that the host fills or reads, for a copy done later */
    char *memory;
    size_t size;
    int64_t mark; /* of its last copy */
} slot;

typedef struct ring {
    slot *slots;
    int count, next;
} ring;

struct bt_queue {
    const bt_device_table *device;
    void *work; /* the device's queue */
    int64_t owners, waits;
    bt_map sizes;       /* of allocations on the device; 0: freed */
    size_t bytes;       /* the sum, with the mail and what the queue takes for itself */
    bt_map pins;        /* of pinned memory for moves; 0: freed */
    size_t pinned;      /* the sum */
    int64_t done;       /* everything up to this mark has been waited for */
    bt_failure failure; /* found, not reported yet */
    slot letters[LETTERS], parcels[PARCELS];
    ring mailed, landing;
    char *mail, *mirror; /* the mail: far, and the host's copy */
    bool used[BT_MAIL_NUMBERS];
    bool changed; /* the mirror has changed since it was last sent */
};

/* ---- life ---- */

bt_queue *bt_queue_open(const bt_device_table *device)
{
    bt_queue *queue = bt_alloc(sizeof *queue);
    if (!queue)
        return NULL;
    *queue = (bt_queue){.device = device, .owners = 1};
    queue->mailed = (ring){queue->letters, LETTERS, 0};
    queue->landing = (ring){queue->parcels, PARCELS, 0};
    queue->mirror = bt_alloc(BT_MAIL_BYTES);
    queue->work = device->open();
    queue->mail = queue->work ? device->alloc(queue->work, BT_MAIL_BYTES) : NULL;
    queue->bytes = BT_MAIL_BYTES + device->own;
    if (queue->mirror && queue->mail)
        return queue;
    bt_queue_leave(queue);
    return NULL;
}

bt_queue *bt_queue_share(bt_queue *queue)
{
    if (queue)
        queue->owners++;
    return queue;
}

static void ring_free(const bt_device_table *device, ring *r)
{
    for (int i = 0; i < r->count; i++)
        if (r->slots[i].memory)
            device->unpin(r->slots[i].memory);
}

static void wait_for(bt_queue *queue, int64_t mark);

void bt_queue_leave(bt_queue *queue)
{
    if (!queue || --queue->owners)
        return;
    if (queue->work) {
        bt_queue_settle(queue);
        if (queue->mail)
            queue->device->free(queue->work, queue->mail);
        queue->device->close(queue->work);
    }
    ring_free(queue->device, &queue->mailed);
    ring_free(queue->device, &queue->landing);
    bt_map_free(&queue->sizes);
    bt_map_free(&queue->pins);
    bt_free(queue->failure.message);
    bt_free(queue->mirror);
    bt_free(queue);
}

/* ---- waiting ---- */

/* Keeps a failure with the message that it would have had if reported at once. */
static void keep_failure(bt_queue *queue, bt_device_failure *found)
{
    bt_failure before = bt_failure_take();
    bt_status status = found->failure.status;
    bt_failure_give(&found->failure);
    if (found->site.bound) /* else it belongs to no call, but to the device itself */
        bt_bound_blame(found->site.bound, found->site.step, status);
    if (queue->failure.status == BT_OK)
        queue->failure = bt_failure_take();
    bt_error_clear();
    bt_failure_give(&before);
}

static void wait_for(bt_queue *queue, int64_t mark)
{
    if (mark <= queue->done)
        return;
    bt_device_failure found = queue->device->wait(queue->work, mark);
    queue->done = mark;
    if (found.failure.status != BT_OK)
        keep_failure(queue, &found);
}

/* Returns a failure that was found, once. */
static bt_status told(bt_queue *queue)
{
    bt_status status = queue->failure.status;
    if (status == BT_OK)
        return BT_OK;
    bt_failure_give(&queue->failure);
    return status;
}

bt_status bt_queue_wait(bt_queue *queue)
{
    if (!queue)
        return BT_OK;
    int64_t mark = queue->device->mark(queue->work);
    queue->waits += mark > queue->done;
    wait_for(queue, mark);
    return told(queue);
}

void bt_queue_settle(bt_queue *queue)
{
    if (queue)
        wait_for(queue, queue->device->mark(queue->work));
}

int64_t bt_queue_waits(const bt_queue *queue) { return queue ? queue->waits : 0; }

/* ---- memory ---- */

char *bt_queue_alloc(bt_queue *queue, size_t bytes)
{
    if (!queue)
        return bt_alloc_aligned(bytes);
    char *far = queue->device->alloc(queue->work, bytes);
    if (far && bt_map_put(&queue->sizes, far, (int64_t)bytes) != BT_OK) {
        queue->device->free(queue->work, far);
        return NULL;
    }
    queue->bytes += far ? bytes : 0;
    return far;
}

void bt_queue_free(bt_queue *queue, char *far)
{
    if (!queue) {
        bt_free_aligned(far);
    } else if (far) {
        bt_queue_settle(queue);
        queue->device->free(queue->work, far);
        queue->bytes -= (size_t)bt_map_get(&queue->sizes, far);
        (void)bt_map_put(&queue->sizes, far, 0); /* its key exists, so this cannot fail */
    }
}

size_t bt_queue_bytes(const bt_queue *queue) { return queue ? queue->bytes : 0; }

void bt_queue_others(const bt_queue *queue, size_t *before, size_t *since)
{
    size_t now = 0;
    *before = *since = 0;
    if (queue && queue->device->taken)
        queue->device->taken(queue->work, before, &now);
    if (now > *before + bt_queue_bytes(queue))
        *since = now - *before - bt_queue_bytes(queue);
}

char *bt_queue_pin(bt_queue *queue, size_t bytes)
{
    char *pinned = queue->device->pin(bytes);
    if (pinned && bt_map_put(&queue->pins, pinned, (int64_t)bytes) != BT_OK) {
        queue->device->unpin(pinned);
        return NULL;
    }
    if (pinned)
        memset(pinned, 0, bytes);
    queue->pinned += pinned ? bytes : 0;
    return pinned;
}

void bt_queue_unpin(bt_queue *queue, char *pinned)
{
    if (!pinned)
        return;
    bt_queue_settle(queue);
    queue->device->unpin(pinned);
    queue->pinned -= (size_t)bt_map_get(&queue->pins, pinned);
    (void)bt_map_put(&queue->pins, pinned, 0); /* its key exists, so this cannot fail */
}

size_t bt_queue_pinned(const bt_queue *queue) { return queue ? queue->pinned : 0; }

/* ---- work put onto the queue ---- */

bt_status bt_queue_copy(bt_queue *queue, char *far, const char *from, size_t bytes)
{
    if (!bytes)
        return BT_OK;
    if (queue)
        return queue->device->copy(queue->work, far, from, bytes);
    memcpy(far, from, bytes);
    return BT_OK;
}

bt_status bt_queue_fill(bt_queue *queue, char *far, int byte, size_t bytes)
{
    if (!bytes)
        return BT_OK;
    if (queue)
        return queue->device->fill(queue->work, far, byte, bytes);
    memset(far, byte, bytes);
    return BT_OK;
}

bt_status bt_queue_launch(bt_queue *queue, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site)
{
    return queue->device->launch(queue->work, kernel, call, site);
}

bt_status bt_queue_move(bt_queue *queue, char *to, const char *from, size_t bytes, bool out, int64_t number)
{
    return queue->device->move(queue->work, to, from, bytes, out, number);
}

bt_status bt_queue_meet(bt_queue *queue, int64_t number) { return queue->device->meet(queue->work, number); }

bt_status bt_queue_shift(bt_queue *queue, char *to, const char *from, size_t bytes, bool out)
{
    if (!bytes)
        return BT_OK;
    return out ? queue->device->fetch(queue->work, to, from, bytes) : queue->device->send(queue->work, to, from, bytes);
}

bt_status bt_queue_join(bt_queue *queue, bt_transport *transport)
{
    if (!queue->device->join)
        return bt_fail(BT_ERROR_UNSUPPORTED, "devices of this kind do not support %d ranks", transport->ranks);
    return queue->device->join(queue->work, transport);
}

bool bt_queue_overlaps(const bt_queue *queue) { return queue->device->launch_apart != NULL; }

bt_status bt_queue_launch_apart(bt_queue *queue, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site)
{
    return queue->device->launch_apart(queue->work, kernel, call, site);
}

bt_status bt_queue_await(bt_queue *queue, int64_t number) { return queue->device->await(queue->work, number); }

bool bt_queue_ticks(const bt_queue *queue) { return queue && queue->device->tick; }
bt_status bt_queue_tick(bt_queue *queue, int64_t number) { return queue->device->tick(queue->work, number); }

bt_status bt_queue_between(bt_queue *queue, int64_t number, double *seconds)
{
    return queue->device->between(queue->work, number, seconds);
}

/* ---- recordings ---- */

bool bt_queue_records(const bt_queue *queue) { return queue->device->record != NULL; }
bt_status bt_queue_record(bt_queue *queue) { return queue->device->record(queue->work); }
void *bt_queue_recorded(bt_queue *queue) { return queue->device->recorded(queue->work); }

bt_status bt_queue_replay(bt_queue *queue, void *recording) { return queue->device->replay(queue->work, recording); }

void bt_queue_discard(bt_queue *queue, void *recording)
{
    if (!recording)
        return;
    bt_queue_settle(queue);
    queue->device->discard(recording);
}

/* Takes the next slot, after waiting for the last copy that used it; NULL after an error. */
static slot *take(bt_queue *queue, ring *r, size_t bytes)
{
    slot *s = &r->slots[r->next];
    wait_for(queue, s->mark);
    if (s->size < bytes) {
        if (s->memory)
            queue->device->unpin(s->memory);
        s->memory = queue->device->pin(bytes);
        s->size = s->memory ? bytes : 0;
    }
    r->next = (r->next + 1) % r->count;
    return s->memory ? s : NULL;
}

/* Copies `near` into the next slot now; the copy from there is put onto the queue. */
static bt_status send(bt_queue *queue, ring *r, char *far, const void *near, size_t bytes)
{
    slot *s = take(queue, r, bytes);
    if (!s)
        return bt_error_status();
    memcpy(s->memory, near, bytes);
    BT_TRY(queue->device->send(queue->work, far, s->memory, bytes));
    s->mark = queue->device->mark(queue->work);
    return BT_OK;
}

bt_status bt_queue_write(bt_queue *queue, char *far, const void *near, size_t bytes)
{
    if (!queue)
        return bt_queue_copy(NULL, far, near, bytes);
    for (size_t at = 0, piece; at < bytes; at += piece) {
        piece = bytes - at < PIECE ? bytes - at : PIECE;
        BT_TRY(send(queue, &queue->landing, far + at, (const char *)near + at, piece));
    }
    return BT_OK;
}

bt_status bt_queue_read(bt_queue *queue, void *near, const char *far, size_t bytes)
{
    if (!queue)
        return bt_queue_copy(NULL, near, far, bytes);
    queue->waits += bytes > 0;
    for (size_t at = 0, piece; at < bytes; at += piece) {
        piece = bytes - at < PIECE ? bytes - at : PIECE;
        slot *s = take(queue, &queue->landing, piece);
        if (!s)
            return bt_error_status();
        BT_TRY(queue->device->fetch(queue->work, s->memory, far + at, piece));
        wait_for(queue, s->mark = queue->device->mark(queue->work));
        memcpy((char *)near + at, s->memory, piece);
    }
    return told(queue);
}

/* ---- the mail ---- */

char *bt_queue_number(bt_queue *queue)
{
    for (int i = 0; i < BT_MAIL_NUMBERS; i++)
        if (!queue->used[i]) {
            queue->used[i] = true;
            return queue->mail + i * BT_MAIL_NUMBER;
        }
    return NULL;
}

char *bt_queue_mirror(bt_queue *queue, const char *far)
{
    bool in = queue && far >= queue->mail && far < queue->mail + BT_MAIL_BYTES;
    return in ? queue->mirror + (far - queue->mail) : NULL;
}

void bt_queue_drop(bt_queue *queue, const char *far)
{
    if (bt_queue_mirror(queue, far))
        queue->used[(far - queue->mail) / BT_MAIL_NUMBER] = false;
}

void bt_queue_post(bt_queue *queue, char *far, const void *near, size_t bytes)
{
    char *mirror = bt_queue_mirror(queue, far);
    if (memcmp(mirror, near, bytes) == 0)
        return;
    memcpy(mirror, near, bytes);
    queue->changed = true;
}

bt_status bt_queue_send(bt_queue *queue)
{
    if (!queue || !queue->changed)
        return BT_OK;
    BT_TRY(send(queue, &queue->mailed, queue->mail, queue->mirror, BT_MAIL_BYTES));
    queue->changed = false;
    return BT_OK;
}
