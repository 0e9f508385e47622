/* data/loader_inside.h: what the files of the loader share: its state, and what each asks of the others. */
#ifndef BT_LOADER_INSIDE_H
#define BT_LOADER_INSIDE_H

#include "data/dataset.h"
#include "data/endless.h"

#include <pthread.h>

typedef struct bt_feed { /* one of the sets that are joined: its examples, or its tasks */
    const bt_dataset *set;
    int64_t batch; /* examples per draw, if it is not one of tasks */
    bt_endless row;
} bt_feed;

typedef struct bt_slot { /* a buffer; its heads are batches of the full and of the short shape that lie in it */
    char *memory;        /* the loader's own; NULL: it has none */
    bt_batch *heads[2];
} bt_slot;

struct bt_loader {
    bt_dataset *data;
    bt_loader_options options;
    bt_feed *feeds;
    int64_t feed_count, per_epoch, position; /* per_epoch 0: tasks have no epochs */
    int64_t most;                            /* draws, whose examples can be counted */
    bool constant, ready; /* every batch is the whole set, and the same: filled once, and it has been */
    bt_slot *slots;
    int64_t slot_count;
    size_t slot_bytes;
    char *lent;      /* somebody else's memory, where all slots are now; NULL: they are in their own */
    char *scratch;   /* of the threads that fill */
    int32_t *ahead;  /* places of examples that are asked for before they are drawn; NULL: no field lies in a file */
    int64_t asked;   /* draws below this have been asked for */
    size_t gathered; /* bytes of such fields since their pages were released */
    bt_batch *shapes[2];
    int shape_count;
    size_t bytes;
    double waited;
    bool told_end;    /* for bt_loader_next: BT_DONE of this epoch has been given */
    bool fills_ahead; /* the ring has a slot for a batch that is gathered ahead */
    bool threaded, stop;
    int64_t filled; /* draws below this are in the ring; guarded by lock, like position and stop */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

/* ---- loader_fill.c: what a draw holds, a pure function of its number ---- */

/* How many parts a draw has of a set, each with all fields and `index`, and the examples of a part in a full draw, and
 * in one that may be short. */
int bt_feed_parts(const bt_feed *f);
int64_t bt_feed_examples(const bt_feed *f, int part);
int64_t bt_feed_examples_in(const bt_loader *loader, const bt_feed *f, int part, bool in_short);
bool bt_feed_mixes(const bt_feed *f); /* images with others: a draw then also has BT_OTHER_LABEL and BT_SHARE */

bt_batch *bt_loader_head(const bt_loader *loader, bt_slot *s, int64_t draw);
void bt_loader_fill(bt_loader *loader, bt_slot *s, int64_t draw, int threads);

/* ---- loader.c: the ring of buffers and the thread that fills it ahead ---- */

bt_status bt_loader_take_memory(bt_loader *loader); /* of its own */
void bt_loader_start(bt_loader *loader); /* the thread; without one, batches are filled when they are drawn */
void bt_loader_stop(bt_loader *loader);

#endif
