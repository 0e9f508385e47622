/* data/data.h: the inside of data sets, batches and loaders, for the engine. */
#ifndef BT_DATA_H
#define BT_DATA_H

#include "runtime/variable.h"
#include <betty/data.h>

typedef struct bt_batch_field {
    char *name;
    bt_array array; /* this batch's values; data NULL in a template */
    bt_var *var;    /* what a trace reads: external; made by the batch, of the array's shape and dtype */
} bt_batch_field;

struct bt_batch {
    bt_batch_field *fields;
    int field_count;
    int64_t count;  /* examples */
    int64_t number; /* which batch of its loader, from 0: (epoch, index) in one number */
    bool owns;      /* the arrays are copies that bt_batch_free frees */
};

/* A template: the fields and shapes of `shape`, own variables, no data. */
bt_batch *bt_batch_template(const bt_batch *shape);
bool bt_batch_counts(const bt_batch *batch, const bt_array *field); /* a row of it for each example of the batch */
bool bt_batch_fits(const bt_batch *a, const bt_batch *b);           /* same fields, dtypes and shapes */
void bt_batch_bind(bt_batch *to, const bt_batch *from);             /* to's variables look at from's values */
/* What a trace reads of `to` where another has read `var` of `from`; NULL: that is no field of it. */
bt_var *bt_batch_other(const bt_batch *from, const bt_batch *to, const bt_var *var);

typedef struct bt_loader_options {
    int64_t batch_size; /* 0, or as many as there are: all, in the order of the set, gathered once if nothing changes */
    uint64_t seed;
    bool shuffle;    /* a new order each epoch, a pure function of (seed, epoch) */
    bool drop_last;  /* drop a short last batch */
    bool chance;     /* images are changed at random where the set says so; else they are only normalised */
    bt_dtype dtype;  /* of floating fields: BT_F32 or BT_F64 */
    int64_t keep;    /* so many drawn batches stay valid, including the newest; at least 1 */
    bool prefetch;   /* gather on a thread, one batch ahead, if a batch is large enough to be worth it */
    int threads;     /* that gather a batch which is not gathered ahead, if it is large enough; at least 1 */
    bool dry;        /* no batch is drawn: none is gathered ahead, only its memory is counted */
    bool lent;       /* batches may use somebody else's memory while there is some: bt_loader_lend */
    int rank, ranks; /* of fields that count the examples, only the rows of this rank are read: bt_share_first */
} bt_loader_options;
/* All, seed 0, shuffled, the short last one kept, changed by chance, f32, keep 1, prefetched, 1 thread, not lent, rank
 * 0 of 1. */
bt_loader_options bt_loader_defaults(void);

/* Takes over the set, also on failure. Unless lent, it then has all its memory: drawing cannot fail before
 * bt_loader_most. In a joined set, the first set's epochs are the loader's. The others give as many examples to each
 * batch, short or not, and continue through epochs of their own, in each of which every example occurs once. With a set
 * of tasks, each batch has one task, whatever the batch size; if it is the first set, there are no epochs, and the
 * others give batch_size examples. */
bt_loader *bt_loader_open(bt_dataset *data, const bt_loader_options *options);

/* The shapes that batches can have, as templates owned by the loader: the full one first. Returns how many, 1 or 2. */
int bt_loader_shapes(const bt_loader *loader, const bt_batch **shapes);

/* The next batch; goes on to the next epoch by itself. Valid until `keep` more have been drawn. */
bt_status bt_loader_draw(bt_loader *loader, const bt_batch **batch);

/* Reads the rows of all ranks into a batch that has been drawn last, or is kept. */
void bt_loader_complete(bt_loader *loader, const bt_batch *batch);

/* From now on, drawn batches, and those gathered ahead, are in these bytes, aligned to BT_ALIGN; NULL: in the loader's
 * own memory, which it has from the first such draw on. Earlier batches are gone. */
void bt_loader_lend(bt_loader *loader, char *memory);
size_t bt_loader_room(const bt_loader *loader); /* how many bytes it can be lent; 0: none, it has its own */

const bt_dataset *bt_loader_data(const bt_loader *loader);     /* the set; NULL if the loader is NULL */
int64_t bt_loader_position(const bt_loader *loader);           /* how many have been drawn */
bt_status bt_loader_seek(bt_loader *loader, int64_t position); /* so that draw goes on from there */
int64_t bt_loader_most(const bt_loader *loader);               /* how many can be drawn, and the last position */
int64_t bt_loader_epoch(const bt_loader *loader);              /* whole epochs drawn; of tasks 0 */
int64_t bt_loader_per_epoch(const bt_loader *loader);          /* batches; 0: tasks, without end */
double bt_loader_wait_seconds(const bt_loader *loader);        /* time that draw has waited or gathered */
size_t bt_loader_bytes(const bt_loader *loader);               /* of its batch buffers: category batch */

/* A hash of each field's values, in the order of the set; computed once: some 40 ms for 100 MB. prefix: of a joined
 * set;
 * "" for the first. */
typedef void bt_field_hash_fn(void *user, const char *prefix, const char *name, uint64_t hash);
void bt_loader_hash(bt_loader *loader, bt_field_hash_fn *visit, void *user);

/* The folder in which bt_dataset_open, on this thread, also looks for files: that of the INI file. Borrowed; NULL:
 * none. Returns what it was. */
const char *bt_data_beside(const char *folder);

/* Whether bt_dataset_open, on this thread, reads only the first image of a folder: the number, size and classes are
 * then known, and every image looks like the first. Returns the earlier setting. */
bool bt_data_blank(bool blank);

/* A data set defined by the user, which bt_dataset_open tries first; the record must live until it is removed. Of
 * several with one name the newest counts. An open function may open an older set of its own name. */
bt_status bt_dataset_register(const bt_dataset_def *def);
void bt_dataset_unregister(const bt_dataset_def *def);

/* What a user should know about the values; each note is returned once while they are held; NULL after the last. To be
 * freed. */
char *bt_dataset_next_note(bt_dataset *data);

int64_t bt_dataset_count(const bt_dataset *data);
int64_t bt_dataset_names(const bt_dataset *data); /* how many classes have a name; NULL: 0 */
int64_t bt_dataset_field_dim(const bt_dataset *data, const char *field, int axis); /* -1 if missing; axis 0: examples */
size_t
bt_dataset_bytes(const bt_dataset *data); /* held in memory; a set shared by several views counts once per view */

#endif
