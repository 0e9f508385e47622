/* runtime/queue.h: the work of an instance on its device, in order; the mail; how bytes come and go.
 *
 * A queue that is NULL stands for near memory: everything is done at once. Else `far` arguments are addresses that only
 * the device can use, and nothing but reading and bt_queue_wait lets the host wait for it. */
#ifndef BT_QUEUE_H
#define BT_QUEUE_H

#include "runtime/device.h"

typedef struct bt_queue bt_queue;

bt_queue *bt_queue_open(const bt_device_table *device); /* NULL after an error */
bt_queue *bt_queue_share(bt_queue *queue);              /* one owner more; NULL for NULL */
void bt_queue_leave(bt_queue *queue);                   /* one fewer; the last one waits, and closes it */

char *bt_queue_alloc(bt_queue *queue, size_t bytes); /* aligned to BT_ALIGN, zeroed; NULL after an error */
void bt_queue_free(bt_queue *queue, char *far);      /* waits for the work on it */
size_t bt_queue_bytes(const bt_queue *queue);        /* of the device, with what it takes for itself; NULL: 0 */
/* Beside these, bytes of the device that were taken before the queue was opened (its context, other programs), and
 * since (the libraries' own). Both are 0 where the device cannot say. */
void bt_queue_others(const bt_queue *queue, size_t *before, size_t *since);

char *bt_queue_pin(bt_queue *queue, size_t bytes);  /* the host's, zeroed, for moves; NULL after an error */
void bt_queue_unpin(bt_queue *queue, char *pinned); /* waits for the work on it; NULL: nothing */
size_t bt_queue_pinned(const bt_queue *queue);      /* bytes of these; NULL: 0 */

bt_status bt_queue_copy(bt_queue *queue, char *far, const char *from, size_t bytes); /* both of its memory */
bt_status bt_queue_fill(bt_queue *queue, char *far, int byte, size_t bytes);
bt_status bt_queue_write(bt_queue *queue, char *far, const void *near, size_t bytes); /* `near` may change then */
bt_status bt_queue_launch(bt_queue *queue, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site);

/* Moves, between the device's memory and what is pinned: under way beside what is put onto the queue after them, until
 * that has to wait for the first `number` of the run. They have the numbers 1, 2, ... in it. */
bt_status bt_queue_move(bt_queue *queue, char *to, const char *from, size_t bytes, bool out, int64_t number);
bt_status bt_queue_meet(bt_queue *queue, int64_t number);
/* Likewise, but in the order of the queue. out: from the device. */
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

/* Its collectives are between these ranks from now on, before anything is launched. */
bt_status bt_queue_join(bt_queue *queue, bt_transport *transport);

/* A collective that may be under way while what comes after it is done, up to bt_queue_await: runtime/device.h. */
bool bt_queue_overlaps(const bt_queue *queue); /* it can */
bt_status bt_queue_launch_apart(bt_queue *queue, const bt_kernel_impl *kernel, const bt_call *call, bt_launched site);
bt_status bt_queue_await(bt_queue *queue, int64_t number);

/* These wait. They return the first failure of work that was put onto the queue, as bt_fail has it, once. */
bt_status bt_queue_read(bt_queue *queue, void *near, const char *far, size_t bytes);
bt_status bt_queue_wait(bt_queue *queue);
void bt_queue_settle(bt_queue *queue);         /* likewise, and leaves the failure to who waits next */
int64_t bt_queue_waits(const bt_queue *queue); /* how often the host has waited for the device; NULL: 0 */

/* ---- the mail: numbers that the host sets, and only reads ---- */

/* They lie side by side in one far block, and in a copy of it that the host writes. Before a run, bt_queue_send sends
 * the block once if a number has changed: each run sees the numbers of its moment, however late it is done. */
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
