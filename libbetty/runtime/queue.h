/* runtime/queue.h: the work of an instance on its device, in order; the mail; copies to and from the device.
 *
 * A NULL queue stands for near memory: everything is done at once. Otherwise `far` arguments are addresses that only
 * the device can use, and the host waits for the device only in reads and bt_queue_wait. */
#ifndef BT_QUEUE_H
#define BT_QUEUE_H

#include "runtime/device.h"

typedef struct bt_queue bt_queue;

bt_queue *bt_queue_open(const bt_device_table *device); /* NULL after an error */
bt_queue *bt_queue_share(bt_queue *queue);              /* adds an owner; NULL for NULL */
void bt_queue_leave(bt_queue *queue);                   /* removes one; the last one waits and closes it */

char *bt_queue_alloc(bt_queue *queue, size_t bytes); /* aligned to BT_ALIGN, zeroed; NULL after an error */
void bt_queue_free(bt_queue *queue, char *far);      /* waits for the work on it */
size_t bt_queue_bytes(const bt_queue *queue);        /* of the device, including its own; NULL: 0 */
/* Other bytes of the device: taken before the queue was opened (its context, other programs), and since then (by
 * libraries). Both are 0 if the device cannot say. */
void bt_queue_others(const bt_queue *queue, size_t *before, size_t *since);

char *bt_queue_pin(bt_queue *queue, size_t bytes);  /* host memory, zeroed, for moves; NULL after an error */
void bt_queue_unpin(bt_queue *queue, char *pinned); /* waits for the work on it; NULL: nothing */
size_t bt_queue_pinned(const bt_queue *queue);      /* bytes of these; NULL: 0 */

bt_status bt_queue_copy(bt_queue *queue, char *far, const char *from, size_t bytes); /* both far */
bt_status bt_queue_fill(bt_queue *queue, char *far, int byte, size_t bytes);
bt_status bt_queue_write(bt_queue *queue, char *far, const void *near, size_t bytes); /* `near` may change afterwards */
bt_status bt_queue_launch(bt_queue *queue, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site);

/* Moves between device memory and pinned memory. They are under way beside later work, until bt_queue_meet makes that
 * wait for the first `number` of them. They are numbered 1, 2, ... within a run. */
bt_status bt_queue_move(bt_queue *queue, char *to, const char *from, size_t bytes, bool out, int64_t number);
bt_status bt_queue_meet(bt_queue *queue, int64_t number);
/* The same, but in queue order. out: from the device. */
bt_status bt_queue_shift(bt_queue *queue, char *to, const char *from, size_t bytes, bool out);

/* Times that the device takes by itself: runtime/device.h. */
bool bt_queue_ticks(const bt_queue *queue); /* it does; NULL: false */
bt_status bt_queue_tick(bt_queue *queue, int64_t number);
bt_status bt_queue_between(bt_queue *queue, int64_t number, double *seconds);

/* A run that the device repeats as it was: runtime/device.h. */
bool bt_queue_records(const bt_queue *queue); /* it can */
bt_status bt_queue_record(bt_queue *queue);
void *bt_queue_recorded(bt_queue *queue); /* NULL after an error */
bt_status bt_queue_replay(bt_queue *queue, void *recording);
void bt_queue_discard(bt_queue *queue, void *recording); /* waits for the work on it; NULL: nothing */

/* Collectives are between these ranks from now on. Call before anything is launched. */
bt_status bt_queue_join(bt_queue *queue, bt_transport *transport);

/* A collective that may be under way while later work runs, up to bt_queue_await: runtime/device.h. */
bool bt_queue_overlaps(const bt_queue *queue); /* it can */
bt_status bt_queue_launch_apart(bt_queue *queue, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site);
bt_status bt_queue_await(bt_queue *queue, int64_t number);

/* These wait. They return the first failure of work on the queue, once, as set by bt_fail. */
bt_status bt_queue_read(bt_queue *queue, void *near, const char *far, size_t bytes);
bt_status bt_queue_wait(bt_queue *queue);
void bt_queue_settle(bt_queue *queue);         /* waits too, but leaves the failure to the next who waits */
int64_t bt_queue_waits(const bt_queue *queue); /* how often the host has waited for the device; NULL: 0 */

/* ---- the mail: numbers that only the host sets ---- */

/* They lie side by side in one far block, with a copy that the host writes. Before a run, bt_queue_send sends the block
 * once if a number has changed, so each run sees the numbers of its moment, however late it is done. */
enum {
    BT_MAIL_NUMBER = 8 /* bytes of each */,
    BT_MAIL_NUMBERS = 512,
    BT_MAIL_BYTES = BT_MAIL_NUMBERS * BT_MAIL_NUMBER
};

char *bt_queue_number(bt_queue *queue);                  /* the far place of a new one; NULL: there is no room */
void bt_queue_drop(bt_queue *queue, const char *far);    /* gives the place back */
char *bt_queue_mirror(bt_queue *queue, const char *far); /* the host's copy of it, to read; NULL: no number's place */
void bt_queue_post(bt_queue *queue, char *far, const void *near, size_t bytes); /* sets a number, or part of it */
bt_status bt_queue_send(bt_queue *queue);

#endif
