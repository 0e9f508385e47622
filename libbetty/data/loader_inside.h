/* data/loader_inside.h: shared by the files of the loader: its state, and the functions they use of one another. */
#ifndef BT_LOADER_INSIDE_H
#define BT_LOADER_INSIDE_H

#include "data/dataset.h"
#include "data/endless.h"

#include <pthread.h>

typedef struct bt_feed { /* one of the joined sets: its examples or its tasks */
    const bt_dataset *set;
    int64_t batch; /* examples per draw; not for tasks */
    bt_endless row;
} bt_feed;

typedef struct bt_slot { /* a buffer; its heads are batches of the full and the short shape that use its memory */
    char *memory;        /* the loader's own; NULL: none */
    bt_batch *heads[2];
} bt_slot;

struct bt_loader {
    bt_dataset *data;
    bt_loader_options options;
    bt_feed *feeds;
    int64_t feed_count, per_epoch, position; /* per_epoch 0: tasks, without epochs */
    int64_t most;                            /* maximum number of draws, so that examples can be counted */
    bool constant, ready; /* constant: each batch is the whole set, unchanged, and filled once; ready: it is filled */
    bt_slot *slots;
    int64_t slot_count;
    size_t slot_bytes;
    char *lent;      /* borrowed memory that holds all slots now; NULL: they use their own */
    char *scratch;   /* for the threads that fill */
    int32_t *ahead;  /* places of examples that are announced before they are drawn; NULL: no field is in a file */
    int64_t asked;   /* draws below this have been announced */
    size_t gathered; /* bytes of such fields gathered since their pages were last released */
    bt_batch *shapes[2];
    int shape_count;
    size_t bytes;
    double waited;
    bool told_end;    /* bt_loader_next has returned BT_DONE for this epoch */
    bool fills_ahead; /* the ring has room for a batch gathered ahead */
    bool threaded, stop;
    int64_t filled; /* draws below this are in the ring; the lock guards it, position and stop */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

/* ---- loader_fill.c: the content of a draw, a pure function of its number ---- */

/* The number of parts that a set contributes to a draw, each with all fields and `index`. The number of examples of a
 * part in a full draw, and in one that may be short. */
int bt_feed_parts(const bt_feed *f);
int64_t bt_feed_examples(const bt_feed *f, int part);
int64_t bt_feed_examples_in(const bt_loader *loader, const bt_feed *f, int part, bool in_short);
bool bt_feed_mixes(const bt_feed *f); /* whether it mixes images: the draw then also has BT_OTHER_LABEL and BT_SHARE */

bt_batch *bt_loader_head(const bt_loader *loader, bt_slot *s, int64_t draw);
void bt_loader_fill(bt_loader *loader, bt_slot *s, int64_t draw, int threads);

/* ---- loader.c: the ring of buffers and the thread that fills it ahead ---- */

bt_status bt_loader_take_memory(bt_loader *loader); /* allocates its own memory */
void bt_loader_start(bt_loader *loader);            /* starts the thread; without one, batches are filled when drawn */
void bt_loader_stop(bt_loader *loader);

#endif
